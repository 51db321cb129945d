#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A PID that capo does not record: unrecorded.py CAPO BUILD. What can be said of it is, and that it is not more, with status 3."""
import json
import os
import subprocess
import sys
import tempfile
import time

from proc import children, state

CAPO, BUILD = map(os.path.abspath, sys.argv[1:3])
NCCL = os.path.join(BUILD, "tests/standin/libnccl.so.2")


def hang(*words):
    out = subprocess.run([CAPO, "hang", *words], capture_output=True, text=True)
    return out.returncode, out.stdout, out.stderr


def check(what, true):
    if not true:
        raise AssertionError(what)


def asked(preload, *lines):
    """Of a process that reads and never gets anything, with @preload in it."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          env={"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": os.path.dirname(NCCL), "LD_PRELOAD": preload}) as p:
        try:
            p.stdin.write(b"x")
            p.stdin.flush()
            p.stdout.read(1)  # it is past its start
            status, page, _ = hang(str(p.pid))
            check(page, status == 3 and page.startswith("capo hang  pid %d (cat)\nNOT RECORDED: " % p.pid) and all(x in page for x in lines))
            status, page, _ = hang("--json", str(p.pid))
            page = json.loads(page)
            check(page, status == 3 and page["verdict"] == "undecided" and page["recorded"] is False and page["pid"] == p.pid)
            status, _, _ = hang("--stacks", str(p.pid))
            check(status, status == 3)
            return page, p.pid
        finally:
            p.kill()


def cannot_stop():
    """No signal stops a thread in vfork(), whose child waits for a FIFO for ever. The page comes after 2 s all the same."""
    with tempfile.TemporaryDirectory() as folder:
        fifo = os.path.join(folder, "fifo")
        os.mkfifo(fifo)
        code = "import os, sys; os.posix_spawn('/bin/true', ['true'], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 9, sys.argv[1], os.O_RDONLY, 0)])"
        with subprocess.Popen([sys.executable, "-c", code, fifo]) as p:
            try:
                end = time.monotonic() + 100
                while not (children(p.pid) and state(p.pid) == "D"):
                    check("it is in vfork()", time.monotonic() < end)
                    time.sleep(0.01)
                begin = time.monotonic()
                status, page, _ = hang("--json", "--stacks", str(p.pid))
                why = json.loads(page)["no_threads"]
                if "not installed" in why or "may not be traced" in why:
                    print("not tried: a thread that cannot be stopped: " + why)
                    return
                check(why, status == 3 and why == "pid %d let nothing be read within 2 s" % p.pid)
                check("no sooner", time.monotonic() - begin >= 2)
                check("and it goes on as it was", state(p.pid) == "D")
            finally:
                os.close(os.open(fifo, os.O_RDWR | os.O_NONBLOCK))  # the child goes on
                p.kill()


cannot_stop()
page, pid = asked("", "it has no libnccl", "main thread ", "--ras HOST", "--flight FILES", "capo run")
check(page, page["nccl"] is None and page["name"] == "cat" and page["threads"] == [])
page, _ = asked(NCCL, "it has NCCL: ")
check(page, os.path.basename(page["nccl"]).startswith("libnccl.so"))
status, out, err = hang(str(pid))
check(err, status == 3 and not out and "no such process" in err)
print("ok")
