#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""planted_whatif.py BUILD [--seeds FIRST LAST] [--seconds S] [--keep FOLDER]

Checks "without the delay of rank R a step takes A instead of B (share, low-high)" against the program's own clock. One rank sleeps before the
calls of one turn in two, three or four. The truth is what those turns take more than the others; both see the same noise. Prints a line
for each job, and in how many the interval holds the truth. Exit status 1: in less than 95 %."""
import argparse
import json
import math
import os
import shutil
import statistics
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import planted_judge  # noqa: E402
import planted_kinds  # noqa: E402
from planted_causes import RANKS, Played, compile_programs, room_of_its_own  # noqa: E402


def make(seed, seconds):
    with open(os.path.join(HERE, "half.json")) as f:
        s = planted_kinds.Scenario("what-if", seed, json.load(f), seconds)
    s.base()
    s.every = 2 + seed % 3
    s.say(s.rank, "sleep", s.rng.choice([15, 30, 60, 120]), "@ 0 %g %d" % (10 * seconds, s.every))
    planted_kinds.late(s, s.rank, "host", 0.1, [0, seconds])
    return s


def truth(folder, every, rank):
    """Share of a turn that the sleeps cost, and its standard error."""
    rows = planted_judge.read_times(folder, RANKS)[rank]
    took = {t: rows[t + 1][0] - rows[t][0] for t in sorted(rows) if t + 1 in rows}
    slept = [took[t] for t in took if t % every == 0]
    plain = [took[t] for t in took if t % every]
    mean = statistics.mean(took.values())
    error = math.hypot(*(statistics.stdev(x) / math.sqrt(len(x)) for x in (slept, plain))) / every / mean
    return 1 - statistics.mean(plain) / mean, error


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build")
    parser.add_argument("--seeds", type=int, nargs=2, default=[1, 20])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--keep")
    args = parser.parse_args()
    room_of_its_own()
    build = os.path.abspath(args.build)
    programs = compile_programs(build)
    held = close = said = 0
    for seed in range(args.seeds[0], args.seeds[1] + 1):
        s = make(seed, args.seconds)
        folder = os.path.join(args.keep, s.name) if args.keep else tempfile.mkdtemp(prefix="planted-")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        played = Played(s, build, programs, os.path.abspath(folder), True)
        try:
            played.play()
            w = json.loads(played.ask()["page.json"])["steps"]["without_late_rank"]
            share, error = truth(folder, s.every, s.rank)
        except planted_judge.Failed as e:
            print("%-12s failed: %s" % (s.name, e))
            continue
        finally:
            played.finish()
            if not args.keep:
                shutil.rmtree(folder, ignore_errors=True)
        line = "%-12s load %3.0f  truth %4.1f %% +- %.1f" % (s.name, os.getloadavg()[0], 100 * share, 200 * error)
        if not w or w["rank"] != s.rank:
            print(line + "  not said of rank %d" % s.rank, flush=True)
            continue
        said += 1
        within = w["share_low"] <= share <= w["share_high"]
        held += within
        close += w["share_low"] - 2 * error <= share <= w["share_high"] + 2 * error
        print(line + "  said %4.1f %% (%.1f-%.1f)%s" % (100 * w["share"], 100 * w["share_low"], 100 * w["share_high"],
                                                      "" if within else "  OUTSIDE"), flush=True)
    print("%d jobs with the sentence: the interval holds the truth in %d, with the truth's own error (95 %%) in %d" % (said, held, close))
    return said == 0 or held < 0.95 * said


if __name__ == "__main__":
    sys.exit(main())
