#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""capo top of a job that stands where the test wants it: once, for programs, and on terminals of 80 and 20 columns: top_test.py CAPO BUILD"""
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "hang"))
from job import CAPO, Job, check

SCRIPT = "".join("%d coll 0 allreduce %d 7 0 0 0\n" % (r, 4000 + k % 2) + "%d sync 0\n" % r * (k % 2) for k in range(12) for r in range(2))
SCRIPT += "0 sync 0\n1 sync 0\n0 mark\n1 mark\n0 until end\n1 until end\n"


def top(job, *words):
    return subprocess.run([CAPO, "top", "--dir", job.logs, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)


# Ten seconds without a call may have passed, which a page does not call healthy any more.
HEAD = re.compile("logs  (healthy|undecided)  2 ranks here")


def counted(job):
    """The job as programs get it, when all its calls are counted: that is after they were made."""
    said = top(job, "--json").stdout
    for one in json.loads(said)["jobs"] if said else []:
        if one["steps"] and one["steps"]["total"] == 6 and [r["calls"] for r in one["rows"] if r["call"] == "AllReduce"] == [24]:
            return one


class Screen:
    """capo top on a terminal; keys are sent when what they answer is there."""

    def __init__(self, job, columns, lines):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
            os.execve(CAPO, ["capo", "top", "--dir", job.logs, "--every", "0.2"], dict(os.environ, TERM="xterm"))
        self.text = ""

    def wait(self, what):
        end = time.monotonic() + 100
        while what not in self.text:
            check("%s on the screen: %r" % (what, self.text[-2000:]), time.monotonic() < end)
            if select.select([self.fd], [], [], 1)[0]:
                self.text += os.read(self.fd, 65536).decode(errors="replace")
        self.text = ""

    def key(self, key, what):
        os.write(self.fd, key.encode())
        self.wait(what)

    def leave(self):
        os.write(self.fd, b"q")
        try:
            while os.read(self.fd, 65536):
                pass
        except OSError:  # the other end is closed
            pass
        check("it ends well", os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]) == 0)


def on_screens(job):
    screen = Screen(job, 80, 24)
    screen.wait("AllReduce")
    screen.key("s", "calls")
    screen.key("h", "stop and go on")
    screen.key("h", "AllReduce")
    screen.key("p", "PAUSED")
    screen.leave()
    screen = Screen(job, 20, 10)
    screen.wait("TIME")
    screen.leave()


names = tempfile.NamedTemporaryFile("w")
names.write("0 tensor-parallel\n1 tensor-parallel\n")
names.flush()
job = Job(SCRIPT, 2, CAPO_HANG="0", CAPO_COMM_NAMES=names.name)
try:
    job.wait("place", lambda: all(os.path.exists(job.path("script.place.%d" % r)) for r in range(2)))
    job.wait("all calls", lambda: counted(job))
    page = top(job, "--once")
    lines = page.stdout.splitlines()
    check(page, page.returncode == 0 and HEAD.match(lines[0]) and "AllReduce 4KiB-16KiB" in " ".join(page.stdout.split()))
    check("80 columns", all(len(line) <= 80 for line in lines))
    check("a name is whole: " + page.stdout, "\ntensor-parallel AllReduce" in page.stdout)
    one = json.loads(top(job, "--json").stdout)["jobs"][0]
    rows = one["rows"]
    check(one, one["steps"]["total"] == 6 and any(line.startswith("  step 6, p50 ") for line in lines))
    check("whole lines: " + page.stdout, " GB/s enqueued" in " ".join(page.stdout.split()))
    check("any width", any(" GB/s enqueued" in line for line in top(job, "--once", "--wide").stdout.splitlines()))
    above = subprocess.run([CAPO, "top", "--once", "--dir", job.folder], capture_output=True, text=True)
    check("the folder above: %s" % above, above.returncode == 0 and HEAD.match(above.stdout))
    check(rows, [r["calls"] for r in rows if r["call"] == "AllReduce"] == [24] and all(r["gpu_share"] is None or 0 <= r["gpu_share"] <= 1 for r in rows if r["call"] == "AllReduce"))
    out = top(job)
    check(out, out.returncode == 1 and "expected a terminal" in out.stderr or "without ncurses" in out.stderr)
    if "without ncurses" not in out.stderr:
        on_screens(job)
    job.go("end")
    check("it ends well", all(p.wait() == 0 for p in job.ranks))
    check("no job", "no process of yours here" in top(job, "--once").stdout and top(job, "--once").returncode == 1)
finally:
    job.end()
print("ok")
