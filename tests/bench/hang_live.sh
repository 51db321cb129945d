#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What `capo hang PID` takes of 8 living processes that stand: wall-clock and processor time, start to exit. usage: hang_live.sh BUILD
here=$(realpath "$(dirname "$0")")
exec python3 - "$1/cli/capo" "$1" "$here/../hang" <<'PYTHON'
import os
import resource
import statistics
import subprocess
import sys
import time

sys.path.insert(0, sys.argv[3])
from job import CAPO, Job

RANKS, CALLS, RUNS = 8, 200, 15
script = ["%d coll 0 allreduce %d 7 0 0 0" % (r, 1000 + k) for k in range(CALLS) for r in range(RANKS)]
script += ["%d sync 0" % r for r in range(RANKS)] + ["3 until free"]
script += ["%d coll 0 allreduce 1000 7 0 0 0" % r for r in range(RANKS)] + ["%d sync 0" % r for r in range(RANKS)]
job = Job("\n".join(script) + "\n", RANKS, CAPO_HANG="0")


def ask():
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    page = subprocess.run([CAPO, "hang", "--after", "1", str(job.ranks[0].pid)], capture_output=True, text=True).stdout
    wall, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return page, wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


try:
    job.wait("verdict", lambda: "RANK 3 IS MISSING from AllReduce #%d" % (CALLS + 1) in ask()[0])
    took = [ask()[1:] for _ in range(RUNS)]
    print("%d living processes: %.0f ms, %.0f ms of processor time (median of %d)" % (
        RANKS, 1e3 * statistics.median(t[0] for t in took), 1e3 * statistics.median(t[1] for t in took), RUNS))
finally:
    job.go("free")
    job.end()
PYTHON
