#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""width.py CAPO GEN_JOB SOURCE_ROOT    Pages on terminals of several widths: no line is wider than its terminal, --wide is
what a pipe gets but for colours, and help fits 80 columns."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios

CAPO, GEN, ROOT = (os.path.realpath(a) for a in sys.argv[1:4])
ENV = dict(os.environ, TZ="UTC", LC_ALL="C.UTF-8")
ENV.pop("NO_COLOR", None)
ENV.pop("COLUMNS", None)
bad = []


def terminal(words, columns):
    """What a terminal of that width is sent, without colours; errors and progress go elsewhere."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    # a child that reads while the verb writes: a terminal holds little
    verb = subprocess.Popen([CAPO, *words], stdout=slave, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=ENV)
    os.close(slave)
    out = b""
    while True:
        try:
            some = os.read(master, 65536)
        except OSError:
            break
        if not some:
            break
        out += some
    os.close(master)
    verb.wait()
    return re.sub("\x1b\\[[0-9;]*m", "", out.decode()).replace("\r\n", "\n")


def pipe(words):
    done = subprocess.run([CAPO, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ENV)
    return done.stdout.decode(), done.returncode


def check(words):
    page, status = pipe(words)
    if status not in (0, 1) or not page:
        print("left out (status %d): %s" % (status, " ".join(words)))
        return
    for columns in (60, 80, 100, 132):
        text = terminal(words, columns)
        notes = re.findall(r"^\[(\d+)\] ", text, re.M)
        marks = re.findall(r"\[(\d+)\]", re.sub(r"^\[\d+\] .*", "", text, flags=re.M))
        bad.extend("%s: %d columns: note [%s] belongs to nothing" % (" ".join(words), columns, n) for n in notes if n not in marks)
        # an address is never broken: it is a line's last word, and may stand out of it
        wide = [line for line in text.split("\n") if len(line) > columns and not re.search(r"https?://\S+$", line)]
        if wide:
            bad.append("%s: %d columns: %d lines are wider: %r" % (" ".join(words), columns, len(wide), wide[0]))
        if not text.strip():
            bad.append("%s: nothing on a terminal of %d columns" % (" ".join(words), columns))
    wide = terminal([*words, "--wide"], 80)
    same = [re.sub(r"[0-9]+", "0", text.replace("\u00b1", "+-")) for text in (wide, page)]  # memory that is free changes
    if words[0] not in ("report", "env", "diff", "topo", "fit", "plan", "explain") and same[0] != same[1]:
        bad.append("%s: --wide is not what a pipe gets" % " ".join(words))
    print("tried", " ".join(words))


with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    data = ROOT + "/tests/fit/data/"
    for name, more in (("slow", ["late_rank=5", "late_ns=88000"]), ("fast", [])):
        os.mkdir(name)
        subprocess.run([GEN, name, "layout=3+5", "steps=40", "sizes=25M,4M,64K", "trace=1", "gpu=1", *more], check=True,
                       stdout=subprocess.DEVNULL)
    os.mkdir("mixed")
    subprocess.run([GEN, "mixed", "mixed"], check=True, stdout=subprocess.DEVNULL)
    inputs = [data + "h100_g4_%s.log" % a for a in ("auto", "Ring", "NVLS")]
    subprocess.run([CAPO, "store", "add", "s.db", "--cluster", "test", *inputs], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([CAPO, "fit", "-o", "p.json", *inputs], check=True, stdout=subprocess.DEVNULL)
    machine = ["--platform", "dgx1v", "--gpus", "0-4"]
    for words in (
        ["report", "slow"],
        ["report", "--all", "mixed"],
        ["diff", "fast", "slow"],
        ["doctor"],
        ["profile", "list"],
        ["env"],
        ["store", "list", "s.db"],
        ["profile", "show", "p.json"],
        ["fit", "--all", *inputs],
        ["fit", "--runs", *inputs],
        ["topo", *machine],
        ["topo", "--platform", "dgx2"],
        ["topo", "--platform", "hgxh100", "--alloc", "2x8"],
        ["plan", *machine, "--profile", "p.json"],
        ["plan", *machine, "--graph", "--spy"],
        ["plan", "--platform", "dgx1v", "--every", "2"],
        ["explain", "allreduce", "64M", *machine, "--profile", "p.json"],
        ["explain", "allreduce", "4M", "--log", "slow"],
    ):
        check(words)
    fit = terminal(["report", "mixed"], 80)
    if "--wide shows all columns" not in fit.replace("\n    ", " "):
        bad.append("report: 80 columns: does not say what is left out")
    both = terminal(["diff", "fast", "slow"], 80)
    if "before p50" not in both or "after p50" not in both:
        bad.append("diff: 80 columns: not both sides: %r" % both.split("\n")[2])
    narrow = terminal(["diagnose", "--bugs", "2.18.3"], 40)
    addresses = re.findall(r"https://\S+", pipe(["diagnose", "--wide", "--bugs", "2.18.3"])[0])
    bad += ["diagnose: 40 columns: broken: " + a for a in addresses if a not in narrow]
    if not addresses:
        bad.append("diagnose --bugs: no address")
    listed = pipe(["help", "--options"])[0]
    verbs = sorted({line.split("\t")[0] for line in listed.splitlines()})
    for verb in verbs:
        for line in pipe([*verb.split(), "--help"])[0].split("\n"):
            if len(line) > 80:
                bad.append("%s --help: %r" % (verb, line))
    bad += ["--help: %r" % line for line in pipe(["--help"])[0].split("\n") if len(line) > 80]
    os.chdir("/")

for line in bad:
    print("FAIL", line)
sys.exit(bool(bad))
