#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names that steer terminals and spreadsheets, everywhere a stranger may put them: arguments and names of a recorded job, rows of a
CSV, files, a store. Nothing that any verb prints or writes may hold a control but newline and tab, or what is not UTF-8; no cell of a
CSV begins as a formula does.

usage: hostile.py BUILD"""
import csv, io, os, pty, re, subprocess, sys, tempfile

build = os.path.realpath(sys.argv[1])
capo, victim = build + "/cli/capo", build + "/tests/faults/victim"
EVIL = b"=X\x1b]0;owned\x07\x1b[2J\x9b31m\xc2\x9bc\x7f\rq\xff\xc0\xaf"
bad = 0


def fail(what):
    global bad
    bad += 1
    print(what)


def wrong(data, styles=False):
    if styles:
        data = re.sub(rb"\x1b\[(1|33|0)m", b"", data).replace(b"\r\n", b"\n")  # capo's own; a terminal's line ends
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as e:
        return f"not UTF-8 at {e.start}: {data[max(0, e.start - 30):e.start + 10]!r}"
    found = re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)
    return found and f"{found.group()!r} in {text[max(0, found.start() - 30):found.start() + 10]!r}"


def check(*words, into=None, cwd=None):
    p = subprocess.run([capo, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd, timeout=60)
    name = "capo " + " ".join(os.fsdecode(w) if isinstance(w, bytes) else w for w in words)
    for what, data in ("output", p.stdout), ("errors", p.stderr):
        if wrong(data):
            fail(f"{ascii(name)}: {what}: {wrong(data)}")
    if into:
        if not os.path.exists(into):
            fail(f"{ascii(name)}: wrote no {into}: {p.stderr!r}")
        elif wrong(open(into, "rb").read()):
            fail(f"{ascii(name)}: {into}: {wrong(open(into, 'rb').read())}")
    return p


def cells(data, columns):
    for row in csv.DictReader(io.StringIO(data.decode())):
        for column in columns:
            if row[column][:1] in ("=", "+", "-", "@"):
                fail(f"a formula in {column}: {row[column]!r}")


def on_terminal(*words):
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(capo, [capo, *words])
    data = b""
    while True:
        try:
            piece = os.read(fd, 4096)
        except OSError:
            break
        if not piece:
            break
        data += piece
    os.waitpid(pid, 0)
    if not data or wrong(data, True):
        fail(f"{words} on a terminal: {wrong(data, True)}")


with tempfile.TemporaryDirectory(prefix="capo-hostile-") as top:
    os.chdir(top)
    os.mkdir("shm")
    open("names", "wb").write(b"1 " + EVIL.replace(b"\r", b"") + b"\n")
    env = dict(os.environ, CAPO_DIR=top + "/logs", CAPO_SHM=top + "/shm", CAPO_COMM_NAMES=top + "/names", LD_PRELOAD=build + "/shim/libcapo.so",
               CAPO_GPU_SAMPLE="0", SLURM_JOB_NAME=os.fsdecode(EVIL))
    p = subprocess.run([victim, "plain", "50", EVIL], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if p.returncode:
        fail(f"the job: {p}")
    log = next(os.path.join("logs", n) for n in os.listdir("logs"))
    for words in ["report"], ["report", "--json"], ["report", "--all"], ["dump"], ["dump", "--records"], ["diff"], ["explain", "allreduce", "400"]:
        check(*words, *(["logs"] * (2 if words == ["diff"] else 1)))
    cells(check("report", "--csv", "logs").stdout, ["comm"])
    check("report", "--html", "page.html", "logs", into="page.html")
    check("trace", "-o", "trace.json", "logs", into="trace.json")
    on_terminal("report", "logs")
    on_terminal("dump", "logs")

    # damaged, and named by strangers
    evil_file = b"a\x1b[2J\x9b" + b".capo"
    open(evil_file, "wb").write(open(log, "rb").read()[:500] + b"\x1b[31m" * 50)
    for verb in "report", "dump", "fit", "export", "recover":
        check(verb, evil_file)
        check(verb, b"no\x1b]0;x\x07such\x9b")
    for words in ["topo", "--xml"], ["profile", "show"], ["profile", "check"], ["store", "list"], ["fit", "--gpu"], ["report", "--comm"], ["no"]:
        check(*words, EVIL)
    open("x.xml", "wb").write(b"<system version='1'><" + EVIL + b">")
    open("x.json", "wb").write(b'{"capo_profile": 1, "' + EVIL + b'": 1}')
    open("x.csv", "wb").write(b"allreduce,0,100," + EVIL + b",ll,1\n")
    for words in ["topo", "--xml", "x.xml"], ["profile", "show", "x.json"], ["profile", "show", "x.csv"], ["fit", "x.json"], ["fit", "x.csv"]:
        check(*words)

    # measurements with a label, and a store of them
    rows = b"#                                                              out-of-place                       in-place          \n"
    rows += b"# nThread 1 nGpus 8 minBytes 8 maxBytes 64 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n"
    rows += b"       1024           256     float     sum      -1    20.00    0.05    0.09      0    20.10    0.05    0.09      0\n"
    evil_log = b"=run\x1b[2J.txt"
    open(evil_log, "wb").write(rows)
    check("fit", "--gpu", EVIL, evil_log)
    cells(check("export", "--gpu", EVIL, "--layout", "8", "--coll", "allreduce", "--nccl", "2.28.9", evil_log).stdout, ["source", "gpu"])
    check("export", "--gpu", EVIL, "--layout", "8", "--coll", "allreduce", "--nccl", "2.28.9", "-o", "out.csv", evil_log, into="out.csv")
    check("store", "add", "s.db", "--cluster", EVIL, "--gpu", EVIL, "--layout", "8", "--coll", "allreduce", "--nccl", "2.28.9", evil_log)
    check("store", "list", "s.db")
    cells(check("store", "query", "s.db").stdout, ["source", "gpu"])
    cells(check("store", "query", "s.db", "--sql", "select gpu, cluster from samples").stdout, ["gpu", "cluster"])
    check("store", "query", "s.db", "--sql", b"select '" + EVIL)
print("nothing steers" if not bad else f"{bad} ways out are open")
sys.exit(bad != 0)
