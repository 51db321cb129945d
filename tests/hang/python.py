#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who is late in Python: the lines that its threads were in when the watch saw the hang. python.py CAPO BUILD"""
import json
import os
import re
import subprocess
import sys

from job import BUILD, CAPO, Job, check

HERE = os.path.dirname(os.path.abspath(__file__))
STANDIN = os.path.join(BUILD, "tests/standin")
TRAIN = os.path.join(HERE, "train.py")


def line_of(text):
    with open(TRAIN) as f:
        return next(i for i, line in enumerate(f, 1) if text in line)


def hang(*words):
    return subprocess.run([CAPO, "hang", "--after", "1", *words], capture_output=True, text=True).stdout


def is_complete(page):
    """Rank 1, its main thread, in load_batch(), and its other one."""
    return ("RANK 1 IS MISSING" in page and
            re.search(r"Python at \d\d:\d\d:\d\d, main thread: .*train.py:%d wait_for <- .*train.py:%d load_batch <- .*train.py:%d main <- .*train.py" % (
                line_of("time.sleep"), line_of('wait_for("free")'), line_of("            load_batch()")), page) and
            re.search(r"Python at \d\d:\d\d:\d\d, thread 1: .*threading.py:\d+ wait <- (\.\.\. <- )?.*train.py:%d prefetch" %
                      line_of("threading.Event().wait"), page))


job = Job("", 2, [sys.executable, TRAIN, os.path.join(STANDIN, "libcuda.so.1"), os.path.join(STANDIN, "libnccl.so.2"), "FOLDER"], CAPO_HANG="2")
job.watch(2)
try:
    job.wait("verdict", lambda: is_complete(job.read("logs/hang.txt")))
    # a thread that is looked at may just be between two lines
    job.wait("the same of the living", lambda: is_complete(hang(str(job.ranks[0].pid))))
    # each process writes at its own time, and the watch looks at the living: the logs may come after hang.txt
    job.wait("the same of logs alone", lambda: is_complete(hang(job.copy())))
    culprit = json.loads(hang("--json", job.path("copy")))["culprits"][0]
    check("two threads", [t["thread"] for t in culprit["python"]] == [0, 1] and culprit["python_at"] > 1e9)
    check("whole", culprit["python"][0]["frames"][-1].endswith(" <module>"))
    job.go("free")
    os.rename(job.path("script.free"), job.path("free"))
    check("it ends well: %s" % [job.read("stderr.%d" % r) for r in range(2)], all(p.wait() == 0 for p in job.ranks))
    page = hang(job.logs)
    check("what was is not shown of what went on: " + page, "Python at" not in page)
finally:
    job.end()
print("ok")
