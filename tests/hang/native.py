#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who is late in C: the functions that the threads of the process were in when a watch saw the hang, stopped by nobody. native.py CAPO BUILD"""
import json
import platform
import re
import subprocess

from job import CAPO, Job, check

DEEP = 2 if platform.machine() == "x86_64" else 1


def hang(*words):
    return subprocess.run([CAPO, "hang", "--after", "1", *words], capture_output=True, text=True).stdout


def is_complete(page):
    return ("RANK 1 IS MISSING" in page and
            re.search(r"^    native at \d\d:\d\d:\d\d, main thread \(\S+\): [a-z_]*pause\+0x[0-9a-f]+" + r" <- \S+" * (DEEP - 1), page, re.M))


job = Job("""
0 coll 0 allreduce 1000 7 0 0 0
1 coll 0 allreduce 1000 7 0 0 0
0 coll 0 allreduce 2000 7 0 0 0
1 hang
""", 2, CAPO_HANG="2")
job.watch(2)
try:
    job.wait("verdict", lambda: is_complete(job.read("logs/hang.txt")))
    said = {}

    def judged():  # the log is written after hang.txt; cut where it is just being written, it accuses nobody
        job.copy()
        said.update(json.loads(hang("--json", job.path("copy"))))
        return said["culprits"] and len(said["culprits"][0]["native"]) > 1

    job.wait("verdict on the copy", judged)
    culprit = said["culprits"][0]
    threads = culprit["native"]
    check("the main thread first: %s" % threads, threads[0]["tid"] == culprit["pid"] and threads[0]["name"] == "player")
    check("where it is: %s" % threads[0], re.match(r"[a-z_]*pause\+0x[0-9a-f]+ libc\S*\+0x[0-9a-f]+$", threads[0]["frames"][0]))
    if DEEP > 1:
        check("who called: %s" % threads[0], re.match(r"(play|main)\+0x[0-9a-f]+ player\+0x", threads[0]["frames"][1]))
    check("all told", len(threads) > 1 and len(set(t["tid"] for t in threads)) == len(threads) and culprit["native_at"] > 1e9)
    check("nobody is stopped: " + hang(str(job.ranks[1].pid)), "stopped" not in hang(str(job.ranks[1].pid)))
finally:
    job.end()
print("ok")
