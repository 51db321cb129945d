#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The watch inside a job (CAPO_HANG) and capo watch beside it: watch.py CAPO BUILD. What hangs stands until the test has seen what it waits for, so nothing
here depends on how fast the machine is."""
import json
import os
import subprocess
import time

from job import CAPO, Job, check


def hang(logs):
    out = subprocess.run([CAPO, "hang", "--json", "--after", "1", logs], capture_output=True, text=True)
    return out.returncode, json.loads(out.stdout)


def two_hangs():
    """Rank 1 stays away twice. Each time rank 0 says so, once; rank 1 is asked; the verdict lies there; the pages say that it went on;
    and the job ends well."""
    script = """
0 coll 0 allreduce 1000 7 0 0 0
1 coll 0 allreduce 1000 7 0 0 0
0 sync 0
1 sync 0
0 coll 0 allreduce 1000 7 0 0 0
1 until first
1 coll 0 allreduce 1000 7 0 0 0
0 sync 0
1 sync 0
0 coll 0 allreduce 2000 7 0 0 0
1 until second
1 coll 0 allreduce 2000 7 0 0 0
0 sync 0
1 sync 0
0 until third
1 until third
"""
    job = Job(script, 2, CAPO_HANG="2")
    job.watch(2)

    def verdict(call):
        text = job.read("logs/hang.txt")
        return "RANK 1 IS MISSING from %s of world" % call in text and text.endswith("\n")

    def as_from_elsewhere():
        status, page = hang(job.copy())
        return (status == 1 and page["verdict"] == "missing" and [c["rank"] for c in page["culprits"]] == [1] and
                page["call"]["number"] == 2 and page["call"]["call"] == "AllReduce")

    try:
        job.wait("line of rank 0", lambda: job.lines(0, "AllReduce #2"))
        line = job.lines(0, "AllReduce #2")[0]
        check(line, "rank 0: AllReduce #2 of world has not moved for 2 s; `capo hang %d`" % job.ranks[0].pid in line)
        job.wait("verdict", lambda: verdict("AllReduce #2"))
        job.wait("frame of rank 1", lambda: "0" in job.frames(1))
        job.wait("verdict of the logs alone", as_from_elsewhere)
        before = job.frames(0)
        job.go("first")
        job.wait("second line of rank 0", lambda: job.lines(0, "AllReduce #3"))
        job.wait("second verdict", lambda: verdict("AllReduce #3"))
        job.wait("second frame of rank 0", lambda: len(job.frames(0)) > len(before))
        check("the first verdict is kept", "AllReduce #2" in job.read("logs/hang.before.txt"))
        job.go("second")
        job.wait("WENT ON", lambda: "\nWENT ON " in job.read("logs/hang.txt"))
        job.wait("went_on", lambda: json.loads(job.read("logs/hang.json")).get("went_on", 0) > 1e9)
        job.go("third")
        for p in job.ranks:
            check("exit", p.wait(240) == 0)
        check(job.lines(0), len(job.lines(0, "AllReduce #2")) == 1 and len(job.lines(0, "AllReduce #3")) == 1)
        status, page = hang(job.logs)
        check(page, status == 0 and page["verdict"] == "healthy")
    finally:
        job.end()


def elsewhere():
    """A watch that sees the logs and no memory, as on the machine where `capo run -- srun` was called."""
    private = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh"]
    if not hasattr(os, "geteuid") or subprocess.run(private + ["true"], capture_output=True).returncode:
        print("skipped: no mount namespace for", end=" ")
        return
    script = "".join("%d coll 0 allreduce 1000 7 0 0 0\n%d sync 0\n" % (r, r) for r in range(2))
    script += "0 coll 0 allreduce 1000 7 0 0 0\n1 until first\n1 coll 0 allreduce 1000 7 0 0 0\n0 sync 0\n1 sync 0\n"
    job = Job(script, 2, CAPO_HANG="2")
    watch = subprocess.Popen(private + [CAPO, "watch", "--dir", job.logs, "--until", str(os.getpid()), "--hang", "2", "--every", "0.5"],
                             stderr=subprocess.DEVNULL)
    try:
        job.wait("verdict", lambda: "RANK 1 IS MISSING from AllReduce #2 of world" in job.read("logs/hang.txt"))
        job.go("first")
        check("exit", all(p.wait(240) == 0 for p in job.ranks))
    finally:
        watch.terminate()
        watch.wait()
        job.end()


def idle():
    """No call under way is no hang, however long; nor is anything when nobody watches."""
    script = "".join("0 coll 0 allreduce 1000 7 0 0 0\n0 sync 0\n" for _ in range(3)) + "0 sleep 4000\n"
    job = Job(script, 1, CAPO_HANG="2")
    try:
        check("exit", job.ranks[0].wait(240) == 0)
        check("a line: %s" % job.read("stderr.0"), not job.lines(0))
    finally:
        job.end()


def off():
    """Rank 1 stays away, and with CAPO_HANG=0 nobody says so: three times as long as what the test above takes for a line."""
    script = "0 coll 0 allreduce 1000 7 0 0 0\n0 mark\n0 sync 0\n1 until first\n1 coll 0 allreduce 1000 7 0 0 0\n1 sync 0\n"
    job = Job(script, 2, CAPO_HANG="0")
    try:
        job.wait("place", lambda: os.path.exists(job.path("script.place.0")))
        time.sleep(3)
        job.go("first")
        for p in job.ranks:
            check("exit", p.wait(240) == 0)
        check("a line", not job.lines(0) and job.frames(0) == [])
    finally:
        job.end()


for test in (two_hangs, elsewhere, idle, off):
    test()
    print(test.__name__, "ok")
