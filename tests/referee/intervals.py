#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How often the interval of a report holds the truth.

usage: intervals.py CAPO BUILD [RUNS [SEED]]        default: 200 runs, seed 1, some of them beside busy processes

Each run is a job of four ranks with one that comes late by a random time in random calls, recorded with default settings.
The job writes down how long the others waited for that rank. That can be seen in two ways: by who began a call last and by who was
done with it soonest; the host's start is a third. Where a busy machine makes them differ, the truth lies between them. It
is held if it meets the interval of the page, `caused_s` +- `caused_pm_s`. At least 95 of 100 have to.
"""
import os
import random
import shutil
import subprocess
import sys
import tempfile

from job import Job

# The job and the recorder read the clock one after the other: so much may lie between, of each call, and of all
# where a busy machine comes in between.
CLOCK_S, CLOCK_PART = 20e-6, 0.01


def steps_of(draw):
    """Words for `planted`: a rank that is late in some of the calls, and who it is."""
    rank, ms, calls = draw.randrange(4), draw.choice((2, 5, 10, 20)), draw.randrange(20, 60)
    size = draw.choice(("8K", "64K", "256K"))
    before, after = draw.randrange(10, 80), draw.randrange(10, 80)
    return rank, (f"allreduce:{size}:{before} late:{rank}:{ms} allreduce:{size}:{calls} "
                  f"late:-1:0 allreduce:{size}:{after}").split()


def truth_of(job, rank):
    """Least and most that the others waited for the rank."""
    ways = [by[rank] for by in job.truth.waiting("world")[:2]]
    by_host = 0
    for ranks in job.truth.calls["world"].values():
        began = {r: c.begin / 1e9 for r, c in ranks.items()}
        if max(began, key=began.get) == rank:
            by_host += len(began) * max(began.values()) - sum(began.values())
    ways.append(by_host)
    doubt = CLOCK_S * sum(len(ranks) for ranks in job.truth.calls["world"].values())
    return min(ways) * (1 - CLOCK_PART) - doubt, max(ways) * (1 + CLOCK_PART) + doubt


def play(capo, build, seed):
    draw = random.Random(seed)
    rank, steps = steps_of(draw)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(draw.choice((0, 0, 2)))]
    work = tempfile.mkdtemp(prefix="capo-intervals-")
    try:
        job = Job(capo, build, work, [], ["-n", "4"], [os.path.join(build, "tests/referee/planted"), *steps])
        comm = next(c for c in job.json["comms"] if c["name"] == "world")
        said = next(r for r in comm["skew"]["per_rank"] if r["rank"] == rank)
        least, most = truth_of(job, rank)
        pm = said["caused_pm_s"] or 0
        held = said["caused_s"] - pm <= most and said["caused_s"] + pm >= least
        return held, f"rank {rank}: {said['caused_s']:.3f} +- {pm:.3f} s, the program {least:.3f} to {most:.3f}"
    finally:
        for p in busy:
            p.kill()
            p.wait()
        shutil.rmtree(work)


def main():
    capo, build = (os.path.realpath(p) for p in sys.argv[1:3])
    runs, seed = (int(x) for x in (sys.argv[3:5] + ["200", "1"][len(sys.argv) - 3:]))
    missed = 0
    for nth in range(seed, seed + runs):
        held, said = play(capo, build, nth)
        missed += not held
        if not held:
            print(f"seed {nth}: {said}", flush=True)
    print(f"{runs} runs: the interval holds the truth in {100 * (runs - missed) / runs:.1f} %")
    return 100 * missed > 5 * runs


if __name__ == "__main__":
    sys.exit(main())
