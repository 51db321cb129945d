#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""capo hang --stacks: stacks.py CAPO BUILD. The culprit's threads, and that nothing of it is left stopped, whatever becomes of the helper."""
import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import time

sys.argv[1:3] = map(os.path.abspath, sys.argv[1:3])
from job import Job, check  # noqa: E402
from proc import children  # noqa: E402

CAPO = sys.argv[1]
PTRACE_SEIZE, PTRACE_DETACH, PTRACE_INTERRUPT = 0x4206, 17, 0x4207
SCRIPT = "0 coll 0 allreduce 1000 7 0 0 0\n1 until ever\n1 coll 0 allreduce 1000 7 0 0 0\n0 mark\n0 sync 0\n1 sync 0\n"


def states(pid):
    found = []
    for tid in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/stat" % (pid, tid)) as f:
            found.append(f.read().rsplit(")", 1)[1].split()[0])
    return found


def ask(job, *more):
    out = subprocess.run([CAPO, "hang", "--stacks", "--after", "0.1", *more, job.logs], capture_output=True, text=True)
    return out.returncode, out.stdout


def culprit(job):
    """Rank 1, as soon as it is the culprit."""
    end = time.monotonic() + 240
    while time.monotonic() < end:
        status, text = ask(job, "--json")
        page = json.loads(text) if text.startswith("{") else {}
        if page.get("verdict") == "missing":
            return page["culprits"][0]
    raise AssertionError("no hang: %s" % text)


job = Job(SCRIPT, 2, CAPO_HANG="0")
try:
    job.wait("place", lambda: os.path.exists(job.path("script.place.0")))
    pid = job.ranks[1].pid
    who = culprit(job)
    if who["no_threads"] and ("not installed" in who["no_threads"] or "may not be traced" in who["no_threads"]):
        print(who["no_threads"])
        sys.exit(77)
    check(who, who["rank"] == 1 and who["pid"] == pid)

    def whole():
        """All of it: on a busy machine the two seconds may be too short for that, and what there is by then is shown."""
        threads = culprit(job)["threads"]
        return (len(threads) == len(states(pid)) and threads[0]["tid"] == pid and
                any(f.startswith("main+0x") for f in threads[0]["frames"]) and "capo-drain" in [t["name"] for t in threads])

    def page_says(*words):
        status, text = ask(job)
        return status == 1 and all(word in text for word in words)

    job.wait("threads in JSON", whole)
    job.wait("threads on the page", lambda: page_says("    thread %d player: " % pid, " <- main+0x"))
    job.wait("thread that goes on", lambda: not set(states(pid)) & set("tT"))
    print("threads ok")

    rng, killed = random.Random(1), 0
    for _ in range(40):
        asking = subprocess.Popen([CAPO, "hang", "--stacks", "--json", "--after", "0.1", job.logs], stdout=subprocess.PIPE, text=True)
        while asking.poll() is None and not children(asking.pid):
            time.sleep(0.0005)
        time.sleep(rng.random() * 0.02)
        for child in children(asking.pid):
            try:
                os.kill(child, signal.SIGKILL)
                killed += 1
            except ProcessLookupError:
                pass  # it was through
        json.loads(asking.communicate()[0])
        job.wait("thread that goes on", lambda: not set(states(pid)) & set("tT"))
    print("helper killed %d times, nothing left stopped" % killed)

    # Somebody else traces it: the page says so, and what would allow it.
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    check("seize", libc.ptrace(PTRACE_SEIZE, pid, None, None) == 0)
    check("traced", culprit(job)["threads"] == [])
    job.wait("reason in JSON", lambda: "may not be traced" in (culprit(job)["no_threads"] or ""))
    job.wait("reason on the page", lambda: page_says("no stacks: pid %d may not be traced" % pid))
    libc.ptrace(PTRACE_INTERRUPT, pid, None, None)
    os.waitpid(pid, 0x40000000)
    libc.ptrace(PTRACE_DETACH, pid, None, None)
    print("not allowed ok")
    job.go("ever")
    for p in job.ranks:
        check("exit", p.wait(240) == 0)
finally:
    job.end()
