# SPDX-License-Identifier: Apache-2.0
"""Holds every face of a report against what the job wrote down itself.

usage: referee.py CAPO BUILD [SCENARIO...]

`planted` does what a scenario says and writes what it did: each call with its times on the host and on the GPU. From that
this works out, by itself and in the plainest way, what a page must say: counts and bytes exactly, who was last and what it
cost within the stated interval, what went wrong, where traffic belongs.

PENDING names checks that are known to fail: each must go on failing, so that none is forgotten here once it is mended.
"""
import collections
import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

capo, build = (os.path.realpath(p) for p in sys.argv[1:3])
jobs = os.path.join(build, "tests/jobs")
planted = os.path.join(build, "tests/referee/planted")

# scenario: (options of capo run, options of launch, steps)
SCENARIOS = {
    "counts": (["--trace", "all"], [], "allreduce:8K:50 allgather:64K:20 even:reduce:4K:10 group:broadcast:8K:10 reducescatter:1M:5"),
    "summaries": ([], [], "allreduce:8K:50 allgather:64K:20 even:reduce:4K:10 group:broadcast:8K:10 reducescatter:1M:5"),
    "late": ([], [], "allreduce:8K:40 late:2:20 allgather:64K:40 late:-1:0 allreduce:8K:40"),
    "late-all": (["--trace", "all", "--sample", "1"], [], "allreduce:8K:40 late:2:20 allgather:64K:40 late:-1:0 allreduce:8K:40"),
    "frozen": (["--trace", "all"], [], "allreduce:8K:2500 stop:1:3000 allreduce:8K:2500"),
    "killed": ([], [], "allreduce:8K:50 kill:2 allreduce:8K:50"),
    "left": ([], [], "allreduce:8K:50 exit:3 allreduce:8K:50"),
    "failed": ([], [], "allreduce:8K:50 bad:1 allreduce:8K:50"),
    "stopped": ([], [], "allreduce:8K:400 stop:1:3000 allreduce:8K:400"),
    "async": (["--trace", "all", "--sample", "1"], [], "allreduce:1M:40:async work:50"),
}

PENDING = set("""
""".strip().split("\n"))


class Truth:
    """What the ranks wrote: calls[comm][k][rank] = (name, bytes, begin, end, gpu_begin, gpu_end), the k-th call of a communicator."""

    def __init__(self, folder):
        self.calls = collections.defaultdict(lambda: collections.defaultdict(dict))
        for name in os.listdir(folder):
            rank, nth = int(name.split(".")[1]), collections.Counter()
            for line in open(os.path.join(folder, name)):
                _, comm, call, *numbers = line.split()
                self.calls[comm][nth[comm]][rank] = (call, *map(int, numbers))
                nth[comm] += 1

    def counts(self, comm):
        return collections.Counter((c[0], c[1]) for k in self.calls[comm].values() for c in [next(iter(k.values()))])

    def waiting(self, comm):
        """Seconds that others waited for each rank, in two ways: from the one that started a call last on its GPU, and from
        the one that was done with it soonest. They differ where a call does not end everywhere at once: a busy machine
        lets some ranks see late that it is over, which a GPU does not."""
        by_start, by_length = collections.Counter(), collections.Counter()
        for ranks in self.calls[comm].values():
            if len(ranks) < 2:
                continue
            last = max(ranks, key=lambda r: ranks[r][4])
            by_start[last] += sum(ranks[last][4] - c[4] for c in ranks.values()) / 1e9
            length = {r: c[5] - c[4] for r, c in ranks.items()}
            last = min(length, key=length.get)
            by_length[last] += sum(d - length[last] for d in length.values()) / 1e9
        return by_start, by_length


class Run:
    def __init__(self, name, work):
        options, launch, steps = SCENARIOS[name]
        self.name, self.steps = name, steps
        self.logs, self.truth_at = os.path.join(work, "logs"), os.path.join(work, "truth")
        os.mkdir(self.truth_at)
        env = dict(os.environ, JOB_TRUTH=self.truth_at, LD_LIBRARY_PATH=os.path.join(build, "tests/standin"))
        self.job = subprocess.run([capo, "run", "--quiet", "--dir", self.logs, *options, "--", os.path.join(jobs, "launch"), "-n", "4",
                                   "--timeout", "120", *launch, "--", planted, *steps.split()], env=env, text=True, capture_output=True)
        self.truth = Truth(self.truth_at)
        self.text = self.face()
        self.json = json.loads(self.face("--json"))
        self.csv = list(csv.DictReader(io.StringIO(self.face("--csv", "--all"))))
        html = os.path.join(work, "page.html")
        self.face("--html", html)
        self.html = open(html).read()
        trace = subprocess.run([capo, "dump", "--chrome", self.logs], text=True, capture_output=True, check=True).stdout
        self.trace = [e for e in json.loads(trace)["traceEvents"] if e["ph"] == "X"]

    def face(self, *options):
        return subprocess.run([capo, "report", *options, self.logs], text=True, capture_output=True, check=True).stdout


def same(what, a, b):
    assert a == b, f"{what}: the program {dict(a)}, the page {dict(b)}"


def check_counts(run):
    """Every call and byte, in JSON, CSV and trace alike, per communicator."""
    comms = {c["id"]: c for c in run.json["comms"]}
    assert run.json["dropped"] == 0
    for name in "world", "world/0":
        seen = collections.Counter()
        for row in run.json["rows"]:
            if comms[row["comm"]]["name"] == name:
                seen[row["call"], row["bytes"]] += row["count"]
        same(name, run.truth.counts(name), seen)
    listed = collections.Counter()
    for line in run.csv:
        listed[line["call"], int(line["size_B"])] += int(line["count"])
    same("CSV", run.truth.counts("world") + run.truth.counts("world/0"), listed)
    for _, row in ((r["call"], r) for r in run.json["rows"]):
        assert re.search(rf"{row['call']} .* {row['count']:,}  ", run.text), f"no line of the text page has {row['call']} {row['count']}"
    if "--trace" in SCENARIOS[run.name][0]:
        host = collections.Counter((e["name"].split()[0], e["args"]["bytes"]) for e in run.trace if e["tid"] < 1 << 17)
        want = collections.Counter()
        for comm in run.truth.calls.values():
            for ranks in comm.values():
                for c in ranks.values():
                    want[c[0], c[1]] += 1
        same("trace", want, collections.Counter({k: v for k, v in host.items() if k in want}))


def check_who(run):
    """The rank that others waited for, and for how long; on a busy machine all are held up, then the page may name none."""
    by_start, caused = run.truth.waiting("world")
    total = sum(caused.values())
    quiet = all(abs(by_start[r] - caused[r]) < 0.1 * total for r in range(4))
    comm = next(c for c in run.json["comms"] if c["name"] == "world")
    waits = next(w for w in run.json["waits"] if w["comm"] == comm["id"])
    guilty, most = caused.most_common(1)[0]
    doubt = {r["rank"]: 0.15 * total + 2 * r["caused_pm_s"] for r in comm["skew"]["per_rank"]}  # 2: eight intervals of 95 % a run
    for r, said in ((r["rank"], r["caused_s"]) for r in comm["skew"]["per_rank"]):
        assert abs(said - caused[r]) <= doubt[r], f"{caused[r]:.3f} s of {total:.3f} were for rank {r}, the page says {said:.3f} +- {doubt[r]:.3f}"
    rank = waits["rank"]
    assert not quiet or guilty == by_start.most_common(1)[0][0] or most < 0.55 * total, "two ways to see it"
    # of four ranks one stands out from 44 % of the waiting on
    assert rank == guilty or most - doubt[guilty] < 0.44 * total, f"rank {guilty} made others wait {most:.3f} s of {total:.3f}, the page names {rank}"
    if rank is None:
        assert re.search(r"^world: no rank stands out", run.text, re.M), "text"
        return f"nobody: the machine held all of them up, {most:.3f} s of {total:.3f} for one"
    assert caused[rank] + doubt[rank] > 0.44 * total, f"rank {rank} made others wait {caused[rank]:.3f} s of {total:.3f}, and the page names it"
    assert re.search(rf"^world: rank {rank} ", run.text, re.M), "text"
    if waits["caused_share"] >= 0.1:
        assert any(f"rank {rank} holds up" in line for line in run.text.split("NEXT")[-1].split("\n")), "NEXT"
    assert re.search(rf"rank {rank}\b", run.html), "HTML"


def problem(run, kind):
    found = [p for p in run.json["problem_list"] if p["kind"] == kind]
    assert found, f"no problem of kind {kind}: {run.json['problems']}"
    return found


def check_page(run):
    """What went wrong, at the beginning of the page."""
    head = run.text.split("WHERE THE TIME WENT")[0]
    if run.name == "killed" or run.name == "left":
        rank = 2 if run.name == "killed" else 3
        assert [p["rank"] for p in problem(run, "killed")][0] == rank
        assert re.search(rf"! .*rank {rank}\b", head), head
    elif run.name == "stopped":
        p = problem(run, "stood_still")[0]
        assert "disagree" not in head, head
        assert p["rank"] == 1 and p["call"] == "AllReduce" and p["seq"] == 401, p
        assert re.search(r"! .*rank 1 stood still.*number 401 of world", head), head
    else:
        p = problem(run, "calls_failed")[0]
        assert p["rank"] == 1 and p["call"] == "AllReduce" and "invalid argument" in p["result"], p
        assert re.search(r"! .*rank 1\b.*AllReduce.*invalid argument", head), head


def check_network(run):
    """All traffic belongs to the only call there is."""
    inside = sum(c["sent_by_time"] for c in run.json["fabric_calls"] if c["call"] == "AllReduce")
    total = sum(c["sent_by_time"] for c in run.json["fabric_calls"])
    assert inside > 0.95 * total, f"{inside / total:.0%} of the bytes are given to AllReduce"


def check_placement(run):
    """When each call ran on the GPU: lanes do not overlap, and the times are those of the program's own events."""
    lanes = collections.defaultdict(list)
    for e in run.trace:
        if e["tid"] >= 1 << 17:
            lanes[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
    assert lanes
    for lane in lanes.values():
        lane.sort()
        for a, b in zip(lane, lane[1:]):
            assert b[0] >= a[1] - 1, f"GPU work of one stream overlaps: {a} {b}"
    for (_, spans), rank in zip(sorted(lanes.items()), range(4)):
        own = sorted((c[rank][4], c[rank][5]) for c in run.truth.calls["world"].values() if rank in c)
        begin, end = spans[0][0], spans[-1][1]
        assert abs((end - begin) - (own[-1][1] - own[0][0]) / 1e3) < 0.1 * (end - begin), "the whole"


CHECKS = {
    "counts": [check_counts], "summaries": [check_counts], "late": [check_counts, check_who], "late-all": [check_who],
    "frozen": [check_who], "killed": [check_page], "left": [check_page], "failed": [check_page], "stopped": [check_page, check_who],
    "async": [check_network, check_placement],
}


def main():
    bad = 0
    for name in sys.argv[3:] or SCENARIOS:
        work = tempfile.mkdtemp(prefix="capo-referee-")
        try:
            run = Run(name, work)
            for check in CHECKS[name]:
                key, said = f"{name}: {check.__name__[6:]}", None
                try:
                    said = check(run)
                    error = None
                except (AssertionError, KeyError, TypeError, IndexError) as e:
                    error = f"{type(e).__name__} {e}"
                if (error is None) == (key in PENDING):
                    bad += 1
                    print(f"FAIL  {key}: {error or 'it passes now: take it out of PENDING'}")
                else:
                    print(f"{'ok   ' if error is None else 'known'} {key}{': ' + (error or said) if error or said else ''}")
        finally:
            shutil.rmtree(work)
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
