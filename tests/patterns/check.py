#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The recorded patterns of real programs as jobs with a planted fault, and what capo says of them.

usage: check.py CAPO GEN_JOB FOLDER [PATTERN...]     FOLDER: of the patterns and of verdicts.txt, late.txt, next.txt
  same      a job made of a pattern, distilled again, is the pattern
  hang      a rank that stops at a call, or makes it with another count: the rank that capo hang names (verdicts.txt)
  late      a rank that is late: the rank that capo report says the others wait for, and by how much; nobody in an even job (late.txt)
  next      what capo report and capo sweep --print say to do (next.txt)
All follows from the patterns, so the three files are golden: CAPO_GOLDEN_REWRITE=1 writes them. A wrong rank is a failure
whatever they say.
"""
import glob
import json
import os
import random
import re
import subprocess
import sys
import tempfile

import distil

LATE_NS = 300000


class Pattern:
    """What the tests need of a pattern: its ranks, its families of communicators, each rank's calls by number."""

    def __init__(self, path):
        self.path, self.name = path, os.path.basename(path)[:-len(".pattern")]
        self.comms, self.calls = {}, {}
        with open(path) as f:
            self.text = f.read()
        mine, group = [], 0
        for line in self.text.splitlines():
            words = line.split()
            if line.startswith(("#", "capo_pattern")):
                continue
            if words[0] == "ranks":
                self.ranks = int(words[1])
            elif words[0] == "comm":
                self.comms[int(words[1])] = (words[2], words[3] == "grow", [list(map(int, w.split(","))) for w in words[5:]])
            elif words[0] == "rank":
                mine = []
                for r in words[1].split(","):
                    self.calls[int(r)] = mine
            elif words[0] in ("Group", "End"):
                group = words[0] == "Group"
                opened = group
            else:
                mine.append((words[0], int(words[1]), group and not opened))
                opened = False

    def members(self, rank, family, copies):
        """Ranks of the job in the communicator of that family that @rank is in."""
        _, grows, instances = self.comms[family]
        inst = next(i for i in instances if rank % self.ranks in i)
        return [k * self.ranks + r for k in (range(copies) if grows else [rank // self.ranks]) for r in inst]

    def of_uid(self, uid, copies):
        """Ranks of the job in the communicator that the generator gave that number."""
        family, nth = uid >> 32, uid & 0xffffffff
        instances = self.comms[family][2]
        return self.members(nth // len(instances) * self.ranks + instances[nth % len(instances)][0], family, copies)

    def places(self, copies, calls):
        """(rank, number) of calls of those names that another rank takes part in, none in the middle of a group."""
        return [(k * self.ranks + r, i) for k in range(copies) for r in range(self.ranks)
                for i, (name, family, inside) in enumerate(self.calls[r])
                if name in calls and not inside and len(self.members(r + k * self.ranks, family, copies)) > 1]


def run(*words):
    return subprocess.run(words, capture_output=True, text=True)


def make(gen, folder, pattern, **settings):
    made = run(gen, folder, "pattern", pattern.path, *(f"{k}={v}" for k, v in settings.items()))
    if made.returncode:
        raise SystemExit(f"{pattern.name}: {made.stderr}")


class Check:
    def __init__(self, capo, gen, folder):
        self.capo, self.gen, self.folder = capo, gen, folder
        self.bad, self.said = [], {"verdicts": [], "late": [], "next": []}

    def fail(self, text):
        self.bad.append(text)
        print("FAIL", text)

    def job(self, pattern, **settings):
        folder = tempfile.TemporaryDirectory(prefix="capo-patterns-")
        make(self.gen, folder.name, pattern, **settings)
        return folder

    def same(self, pattern):
        with self.job(pattern) as logs:
            again = distil.distil(self.capo, logs, [])
        kept = "".join(line for line in pattern.text.splitlines(True) if not line.startswith("#"))
        if again != kept:
            self.fail(f"{pattern.name}: the job made of it has another pattern")

    def hang(self, pattern, copies, most=4):
        rng = random.Random(pattern.name)
        # one that receives, or gives to a root, may be through; the sender of so little is, too
        faults = [("missing", distil.MOVES, most), ("differs", {"AllReduce", "AllGather", "ReduceScatter"}, most // 2)]
        for fault, calls, times in faults:
            places = pattern.places(copies, calls)
            for rank, at in sorted(rng.sample(places, min(times, len(places)))):
                name, family, _ = pattern.calls[rank % pattern.ranks][at]
                with self.job(pattern, copies=copies, rounds=2, at=at, **{fault: rank}) as logs:
                    done = run(self.capo, "hang", "--json", logs)
                what = f"{pattern.name} x{copies}, rank {rank}, call {at} ({name} of {pattern.comms[family][0]}) {fault}"
                if not done.stdout.startswith("{"):
                    self.fail(f"{what}: {done.stderr}")
                    continue
                page = json.loads(done.stdout)
                said = [c["rank"] for c in page["culprits"]]
                members = pattern.members(rank, family, copies)
                # of two that disagree nobody can say which is wrong; else it is the one
                true = members if fault == "differs" and len(members) == 2 else [rank]
                if not set(said) <= set(true) or (said and page["verdict"] not in ("missing", "p2p", "mismatch")):
                    self.fail(f"{what}: said {page['verdict']} of {said}")
                self.said["verdicts"].append(f"{what}: {page['verdict']} {page['certainty']} "
                                             + " ".join(f"{c['rank']}:{c['why']}" for c in page["culprits"]))

    def report(self, pattern, **settings):
        with self.job(pattern, **settings) as logs:
            page = json.loads(run(self.capo, "report", "--json", logs).stdout)
            page["log_folder"] = logs
        return page

    def late(self, pattern, copies):
        places = pattern.places(copies, distil.MOVES - distil.P2P)
        rank = places[len(places) // 2][0]
        for late in (-1, rank):
            what = f"{pattern.name} x{copies}, " + (f"rank {late} is {LATE_NS // 1000} us late" if late >= 0 else "nobody is late")
            settings = {"late_rank": late, "late_ns": LATE_NS} if late >= 0 else {}
            page = self.report(pattern, copies=copies, rounds=12, **settings)
            said = []
            for w in sorted((w for w in page["waits"]), key=lambda w: w["text"]):
                if w["rank"] is None or w["behind_p50_us"] < 2:  # nobody stands out, but for the noise that all have
                    continue
                comm = page["comms"][w["comm"]]
                who = pattern.of_uid(int(comm["uid"], 16), copies)[w["rank"]]
                said.append(f"{comm['name']}: rank {who} by {w['behind_p50_us']:.1f} us in {w['last']} of {w['calls_compared']} calls")
                if who != late or not 0.98 * LATE_NS < w["behind_p50_us"] * 1e3 < 1.02 * LATE_NS:
                    self.fail(f"{what}: {said[-1]}")
            if bool(said) != (late >= 0):
                self.fail(f"{what}: said {said}")
            self.said["late"].append(what + ": " + ("; ".join(said) or "nobody"))

    def next(self, pattern):
        for what, settings in (("busy", {"busy": 1}), ("rank 1 is late", {"late_rank": 1, "late_ns": 4000000})):
            page = self.report(pattern, copies=4, rounds=24, **settings)
            said = [n["text"].replace(page["log_folder"], "LOGS") for n in page["next"]]
            for command in re.findall(r"capo (sweep --coll .*?) -- COMMAND", " ".join(said)):
                plan = run(self.capo, *command.split(), "--print", "--", "true")
                said += plan.stdout.splitlines()[:1] if plan.returncode == 0 else [self.fail(f"{pattern.name}: {command}: {plan.stderr}")]
            self.said["next"] += [f"{pattern.name} x4, {what}", *("  " + line for line in said)]

    def golden(self):
        for name, lines in self.said.items():
            path = os.path.join(self.folder, name + ".txt")
            text = "\n".join(line.rstrip() for line in lines) + "\n"
            if os.environ.get("CAPO_GOLDEN_REWRITE"):
                with open(path, "w") as f:
                    f.write(text)
                continue
            with open(path) as f:
                kept = f.read()
            for line in set(text.splitlines()) ^ set(kept.splitlines()):
                self.fail(f"{name}.txt: {'now' if line in text else 'kept'}: {line}")


def main():
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    check = Check(*map(os.path.abspath, sys.argv[1:4]))
    names = sys.argv[4:]
    os.environ.update(TZ="UTC", LC_ALL="C.UTF-8", NO_COLOR="1")
    for path in sorted(glob.glob(os.path.join(check.folder, "*.pattern"))):
        pattern = Pattern(path)
        if names and pattern.name not in names:
            continue
        check.same(pattern)
        for copies in (1, 3):
            check.hang(pattern, copies)
            check.late(pattern, copies)
        check.next(pattern)
        if pattern.name == "tensor_parallel":
            check.hang(pattern, 500, 2)
    if not names:
        check.golden()
    n = len(check.said["verdicts"])
    named = sum(bool(re.search(r": \w+ \w+ \d", line)) for line in check.said["verdicts"])
    print(f"{n} planted faults: {named} with the right rank, {n - named} without a name; {len(check.bad)} failures")
    return 1 if check.bad else 0


sys.exit(main())
