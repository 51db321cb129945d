#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: planted_jobs_play.py PLANTED_JOBS PERIOD [SEED...]    judge the jobs of planted/planted_jobs.py and planted_jobs_2.py

PERIOD: every so many calls one has its turn, as the tuner gives them. 0: blocks of 16 calls at random, half of all calls.
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "planted"))
import planted_jobs
import planted_jobs_2
from jobs_engine import build, data


def main(judge, period, seeds):
    turns = [set(map(int, line.split())) for line in subprocess.run([judge, "--turns", period], check=True, capture_output=True, text=True).stdout.splitlines()]
    child = subprocess.Popen([judge, *os.environ.get("V", "").split()], stdin=subprocess.PIPE, text=True)
    at = 0
    kinds = {**planted_jobs.KINDS, **planted_jobs_2.KINDS}
    for kind in kinds:
        for seed in seeds or planted_jobs.SEEDS:
            job = build(kinds, kind, seed)
            plan = [nth + 1 in turns[at % len(turns)] for nth in range(job.n)] if turns else job.default_schedule(16)
            json.dump({"truth": job.truth(16), "job": data(job, plan)}, child.stdin)
            child.stdin.write("\n")
            at += 1
    child.stdin.close()
    return child.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], list(map(int, sys.argv[3:]))))
