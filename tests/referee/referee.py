# SPDX-License-Identifier: Apache-2.0
"""Holds every face of a report against what the job wrote down itself.

usage: referee.py CAPO BUILD [SCENARIO...]

The shipped jobs, and `planted`, which does what a scenario says, write what they did: each call with its times on the host and
on the GPU. From that this works out, by itself and in the plainest way, what a page must say: counts and bytes exactly, times
and who was last within what is stated, what went wrong, where traffic belongs. And all faces must say the same (faces.py).

PENDING names checks that are known to fail: each must go on failing, so that none is forgotten here once it is mended.
"""
import collections
import os
import re
import shutil
import sys
import tempfile

import faces
import placement
from job import Job

capo, build = (os.path.realpath(p) for p in sys.argv[1:3])
ALL = ["--trace", "all", "--sample", "1"]  # every call is kept and timed
MIXED = "allreduce:8K:50 allgather:64K:20 even:reduce:4K:10 group:broadcast:8K:10 reducescatter:1M:5"
LATE = "allreduce:8K:40 late:2:20 allgather:64K:40 late:-1:0 allreduce:8K:40"
SPREAD = "allreduce:1M:16:async sleep:-1:400 even:allgather:1M:16:async sleep:-1:400 twin:broadcast:1M:16:async"
TINY = 1e-3  # of the bytes: those that make a communicator are in no call; figures have six digits
FOUR, UNEVEN = ["-n", "4"], ["--layout", "1+3"]


def planted(options, steps, launch=FOUR):
    return options, launch, ["tests/referee/planted", *steps.split()]


def shipped(options, command, launch=FOUR):
    return options, launch, ["tests/jobs/" + command.split()[0], *command.split()[1:]]


# scenario: (options of capo run, options of launch, the program)
SCENARIOS = {
    "counts": planted(["--trace", "all"], MIXED),
    "summaries": planted([], MIXED),
    "late": planted([], LATE),
    "late-all": planted(ALL, LATE),
    "first": planted([], "late:2:800 allreduce:8K:1 allgather:64K:1 late:-1:0 allreduce:8K:60 allgather:64K:60"),
    "frozen": planted(["--trace", "all"], "allreduce:8K:1500 stop:1:3000 allreduce:8K:1500"),
    "killed": planted([], "allreduce:8K:50 kill:2 allreduce:8K:50"),
    "left": planted([], "allreduce:8K:50 exit:3 allreduce:8K:50"),
    "failed": planted([], "allreduce:8K:50 bad:1 allreduce:8K:50"),
    "stopped": planted([], "allreduce:8K:400 stop:1:3000 allreduce:8K:400"),
    "async": planted(ALL, "allreduce:1M:40:async work:50"),
    "between": planted([], "allreduce:1M:30:async work:50 allreduce:1M:30:async work:50 allreduce:256K:200:async"),
    "streams": planted(ALL, "both:allreduce:1M:60 work:30 both:allgather:256K:20"),
    "comms": planted(ALL, SPREAD),
    "comms-plain": planted([], SPREAD),
    "gpus": planted(ALL, "gpus:2 allreduce:8K:50 even:reduce:4K:10 allgather:64K:20:async", ["-n", "2"]),
    "gpus-plain": planted([], "gpus:2 allreduce:8K:50 allgather:64K:20:async", ["-n", "2"]),
    "ddp": shipped(ALL, "ddp_train --epochs 2"),
    "ddp-plain": shipped([], "ddp_train --epochs 6"),
    "bert": shipped(ALL, "ddp_train --replay bert-large --scale 0.01 --steps 4", UNEVEN),
    "resnet": shipped([], "ddp_train --replay resnet50 --scale 0.02 --steps 8 --bucket 8M"),
    "split": shipped(ALL, "split 0,1,0,0"),
    **{call: shipped(ALL, f"coll_perf {call} -b 1K -e 256K -f 16 -n 10 -w 2")
       for call in ("allreduce", "allgather", "reducescatter", "broadcast", "reduce", "alltoall", "sendrecv")},
    "sizes": shipped([], "coll_perf allreduce -b 1K -e 64K -i 2K -n 4 -w 1"),
}

trusted = {}  # by scenario that was sampled: is the truth in twice the interval of the page?

PENDING = set("""
""".strip().split("\n"))


def same(what, a, b):
    assert a == b, f"{what}: the program {dict(a)}, the page {dict(b)}"


def moving(job, comm):
    """Rows of the calls of one communicator that move data."""
    return [r for r in job.json["rows"] if r["comm"] is not None and job.comm_name(r["comm"]) == comm and r["call"] != "Group"]


def check_faces(job):
    faces.check(job)


def check_counts(job):
    """Every call and byte, per communicator and in all; nothing that the program did not do."""
    assert job.done.returncode == 0, job.done.stderr
    assert job.json["dropped"] == 0 and job.json["ranks"] == job.truth.ranks
    said = {r["comm"] for r in job.json["rows"] if r["comm"] is not None}
    assert {job.comm_name(c) for c in said} == set(job.truth.calls), f"communicators: {said}"
    calls = bytes_moved = 0
    for comm in job.truth.calls:
        counts, per_rank = job.truth.counts(comm), collections.Counter((c.name, c.bytes) for c in job.truth.all(comm))
        counts.update({k: n - counts[k] for k, n in per_rank.items() if k[0] in ("Send", "Recv")})  # each is a call of its own
        seen, over_ranks = collections.Counter(), collections.Counter()
        for row in moving(job, comm):
            seen[row["call"], row["bytes"]] += row["count"]
            over_ranks[row["call"], row["bytes"]] += row["calls"]
            assert row["failed"] == 0
        same(comm, counts, seen)
        same(f"{comm}, over all ranks", per_rank, over_ranks)
        listed = next(c for c in job.json["comms"] if c["name"] == comm)
        assert listed["ranks"] == max(len(k) for k in job.truth.calls[comm].values()), listed
        calls += sum(counts.values())
        bytes_moved += sum(n * size for (_, size), n in counts.items())
    assert (job.json["collectives"], job.json["bytes"]) == (calls, bytes_moved), "heading"
    moved, others = (sum(r["calls"] for r in job.json[key]) for key in ("rows", "other_calls"))
    assert sum(p["calls"] for p in job.json["processes"]) == moved + others, "calls of the processes"
    assert sum(p["calls"] for p in job.json["places"]) == moved, "CALLED FROM has the calls that move data"


def spans_us(job, comm, row):
    """How long the program saw the calls of a row on the GPU."""
    return [(c.gpu_end - c.gpu_begin) / 1000 for c in job.truth.all(comm) if (c.name, c.bytes) == (row["call"], row["bytes"])]


def exposed(truth):
    """Seconds, summed over ranks, with at least one call on a rank's GPU."""
    total = 0
    for rank in range(truth.ranks):
        until = 0
        for c in sorted((k[rank] for calls in truth.calls.values() for k in calls.values() if rank in k), key=lambda c: c.gpu_begin):
            total += max(0, c.gpu_end - max(c.gpu_begin, until))
            until = max(until, c.gpu_end)
    return total / 1e9


def chosen_of(job, comm, row):
    """How many calls of a row are timed for what they are: of the first 32 of the communicator, those after a pause of 20 ms (a coarse
    clock sees it from 15 on), and the first two of the row."""
    calls, chosen = job.truth.calls[comm], 0
    nth = [k for k, ranks in sorted(calls.items()) if any((c.name, c.bytes) == (row["call"], row["bytes"]) for c in ranks.values())]
    for i, k in enumerate(nth):
        before = calls.get(k - 1, {})
        chosen += sum(k < 32 or i < 2 or r not in before or c.begin - before[r].begin > 15e6 for r, c in calls[k].items())
    return chosen


def drawn_from(spans, drawn, ends):
    """The least (ends: min) or the most (max) that an estimate can say all calls took, whichever @drawn of them it was made of: calls
    not timed are taken for the mean of those, or for what is known of them."""
    mean = sum(sorted(spans, reverse=ends is max)[:drawn]) / drawn
    return sum(ends(span, mean) for span in spans)


def check_times(job):
    """Times on the GPU are inside those that the program saw around them, and not much shorter. What is an estimate is held to what a
    draw of these very calls can give; how often its interval has the truth is asked of all jobs together, in main()."""
    page, seen, least, most = 0, [], 0, 0
    for comm in job.truth.calls:
        for row in moving(job, comm):
            if row["clock"] != "event":
                # the first two of each kind and size are, as far as a table of 64 of them a communicator reaches
                assert row["in_group"] or (len(moving(job, comm)) > 16 and not job.all_timed), f"{row} is not timed"
                continue
            spans = sorted(spans_us(job, comm, row))
            what = f"{comm} {row['call']} {row['bytes']}"
            if job.all_timed:
                alike = [r for r in moving(job, comm) if (r["call"], r["bytes"]) == (row["call"], row["bytes"])]
                assert row["timed"] == row["calls"], f"{what}: {row['timed']} of {row['calls']} timed"
                if len(alike) == 1:
                    assert row["p50_us"] <= spans[len(spans) // 2] * 17 / 16 + 2, f"{what}: p50 {row['p50_us']}, the program {spans[len(spans) // 2]}"
            assert row["max_us"] <= spans[-1] * 1.00001 + 2, f"{what}: longest {row['max_us']}, the program {spans[-1]}"
            assert row["min_us"] <= row["p50_us"] * 1.0001 and row["p50_us"] <= row["p95_us"] <= row["p99_us"] <= row["max_us"] * 1.0001, what
            ranks = job.comms[row["comm"]]["ranks"]
            factor = {"AllReduce": 2 * (ranks - 1) / ranks, "Broadcast": 1, "Reduce": 1, "Send": 1, "Recv": 1}.get(row["call"], (ranks - 1) / ranks)
            assert abs(row["algbw_gbs"] - row["bytes"] / row["p50_us"] / 1e3) < 2e-5 * row["algbw_gbs"], f"{what}: algbw"
            assert abs(row["busbw_gbs"] - factor * row["algbw_gbs"]) < 2e-5 * row["algbw_gbs"], f"{what}: busbw"
            page += row["mean_us"] * row["calls"]
            seen += spans
            drawn = len(spans) if row["timed"] == row["calls"] else min(len(spans), max(1, row["timed"] - chosen_of(job, comm, row)))
            least += drawn_from(spans, drawn, min)
            most += drawn_from(spans, drawn, max)
    truth = sum(seen)
    shares = [(r["share"], r["mean_us"] * r["calls"]) for r in job.json["rows"] if r["share"] is not None]
    in_all = sum(total for _, total in shares)
    gpus = job.truth.ranks / len(job.json["processes"])
    assert all(abs(share - total / in_all) < 1e-4 for share, total in shares), f"shares: {shares}"
    # a group of several GPUs is timed on one of them, and lasts as long on each
    on_gpus = sum(r["mean_us"] * r["calls"] * (gpus if r["call"] == "Group" and r["comm"] is None else 1) for r in job.json["rows"] if r["share"] is not None)
    there_was = job.json["duration_s"] * job.truth.ranks * 1e6
    share, pm = job.json["gpu_share"], job.json["gpu_share_pm"]
    # Of more than 16 sizes the heading puts those of one power of two together, so it is another estimate than the sum of the rows, which do not
    # say how far theirs is to be trusted: one stall among the three calls of a size is a third of its row. What it is held to is the truth, below.
    sizes = max(collections.Counter((r["comm"], r["call"]) for r in job.json["rows"]).values())
    # an estimate of what one stream did ends at all the time that there was
    said = min(1, on_gpus / there_was) if pm and gpus == 1 and "world/7" not in job.truth.calls else on_gpus / there_was
    # calls of two streams of a GPU may be at one time, and then count once
    assert share is None or sizes > 16 or abs(share - said) < 1e-3 * share + 1e-6 or (job.name == "streams" and share < said), f"{share} of the job on the GPU, rows say {on_gpus / there_was:.4f}"
    first, last = min(c.begin for c in job.truth.all()), max(c.end for c in job.truth.all())
    assert job.json["duration_s"] >= (last - first) / 1e9, "duration"
    there, there_most = exposed(job.truth) / (there_was / 1e6), job.json["exposed_most"]
    # where streams overlap, by how much is as good as the begins are placed
    above = 1.15 if gpus > 1 else 1.005 if None in (share, there_most) or share > there_most * 1.0001 else 1.0001
    low, high = (least / truth, most / truth) if truth else (1, 1)  # groups are timed as such
    assert there_most is None or 0.7 * low * there <= there_most <= high * above * there + 1e-6, f"exposed at most {there_most}, the program saw {there:.2%}, a draw {low:.2f} to {high:.2f} times that"
    if share is None:
        assert not job.all_timed, "not known, though all calls are timed"
        return f"not known; the program saw {truth / there_was:.2%}"
    if any(r["in_group"] for r in job.json["rows"]):
        return f"{share:.2%} of the job on the GPU, in groups; exposed at most {there_most:.2%}, the program saw {there:.2%}"
    assert pm == 0 or not job.all_timed, f"+- {pm:.2%}"
    assert 0.7 * least <= page <= most * 1.0001 + 1, f"{page / 1e3:.3f} ms on the GPU, the program saw {truth / 1e3:.3f}, a draw {least / 1e3:.3f} to {most / 1e3:.3f}"
    if pm:
        trusted[job.name] = 0.7 * truth / there_was <= share + 2 * pm and share - 2 * pm <= 1.0001 * truth / there_was
    return f"{share:.2%} +- {pm:.2%} of the job on the GPU, the program saw {truth / there_was:.2%}; exposed at most {there_most:.2%}, it saw {there:.2%}"


def check_stood(job):
    """What the others waited on their GPUs for a rank that stood still is in the time of the job, though no such call was timed. The
    other calls are an estimate, which is often too high where one of the few that were timed was held up by a busy machine."""
    stood = sum(c.gpu_end - c.gpu_begin for c in job.truth.calls["world"][400].values()) / 1e9
    truth = sum(c.gpu_end - c.gpu_begin for c in job.truth.all()) / 1e9
    said = sum(r["mean_us"] * r["calls"] for r in job.json["rows"] if r["share"] is not None) / 1e6
    # not known: an estimate that is wider than half of the job
    pm = (1 if job.json["gpu_share"] is None else job.json["gpu_share_pm"]) * job.json["duration_s"] * job.truth.ranks
    assert stood > 8 and max(0.9 * stood, 0.8 * truth - 2 * pm) < said < 1.1 * truth + 2 * pm, f"{said:.2f} +- {pm:.2f} s on the GPU, the program saw {truth:.2f}, of which {stood:.2f} in the call that stood"
    return f"{said:.2f} +- {pm:.2f} s on the GPU, the program saw {truth:.2f}, of which {stood:.2f} in the call that stood"


def check_first(job):
    """Calls timed for what they are, the first and the second of their kind, count once; what was drawn stands for the others only.
    So a row is at most as much as those took, and the slowest of the others for each of the others."""
    said = []
    for row in moving(job, "world"):
        calls = [ranks for ranks in job.truth.calls["world"].values() if next(iter(ranks.values()))[:2] == (row["call"], row["bytes"])]
        once, others = ([(c.gpu_end - c.gpu_begin) / 1e3 for ranks in part for c in ranks.values()] for part in (calls[:2], calls[2:]))
        most, page = sum(once) + len(others) * max(others), row["mean_us"] * row["calls"]
        assert sum(once[:4]) > 1e6 and len(others) > 200, f"the first call was not slow: {sum(once[:4]) / 1e3:.0f} ms"
        assert 0.7 * (sum(once) + len(others) * min(others)) <= page <= most * 1.0001, f"{row['call']}: {page / 1e3:.0f} ms in all, at most {most / 1e3:.0f} of which the first two {sum(once) / 1e3:.0f}"
        assert row["p95_us"] <= max(others) * 17 / 16 + 2, f"{row['call']}: p95 {row['p95_us']}, but for the first two {max(others)} at most"
        said.append(f"{row['call']} {page / 1e3:.0f} ms, the program {sum(once + others) / 1e3:.0f}")
    return "; ".join(said)


def check_who(job):
    """The rank that others waited for, and for how long; on a busy machine all are held up, then the page may name none."""
    by_start, caused, rare, astray = job.truth.waiting("world")
    total = sum(caused.values())
    quiet = all(abs(by_start[r] - caused[r]) < 0.1 * total for r in range(4))
    comm = next(c for c in job.json["comms"] if c["name"] == "world")
    waits = next(w for w in job.json["waits"] if w["comm"] == comm["id"])
    guilty, most = caused.most_common(1)[0]
    # 2: eight intervals of 95 % a run; and no sample has every stall of a busy machine. Calls not timed are compared by their hosts'
    # starts, which know nothing of a GPU that was held up after them.
    sampled, hosts = comm["skew"]["calls_compared"] < len(job.truth.calls["world"]), waits["calls_by_host"] > 0
    doubt = {r["rank"]: 0.15 * total + 2 * r["caused_pm_s"] + sampled * rare.get(r["rank"], 0) + hosts * astray[r["rank"]]
             for r in comm["skew"]["per_rank"]}
    for r, said in ((r["rank"], r["caused_s"]) for r in comm["skew"]["per_rank"]):
        assert abs(said - caused[r]) <= doubt[r], f"{caused[r]:.3f} s of {total:.3f} were for rank {r}, the page says {said:.3f} +- {doubt[r]:.3f}"
    rank = waits["rank"]
    assert not quiet or guilty == by_start.most_common(1)[0][0] or most < 0.55 * total, "two ways to see it"
    # of four ranks one stands out from 44 % of the waiting on
    assert rank == guilty or most - doubt[guilty] < 0.44 * total, f"rank {guilty} made others wait {most:.3f} s of {total:.3f}, the page names {rank}"
    if rank is None:
        return f"nobody: the machine held all of them up, {most:.3f} s of {total:.3f} for one"
    assert caused[rank] + doubt[rank] > 0.44 * total, f"rank {rank} made others wait {caused[rank]:.3f} s of {total:.3f}, and the page names it"
    if waits["caused_share"] >= 0.1 and "most of it in" not in waits["text"]:  # what is over needs no next step
        assert any(f"rank {rank} holds up" in n["text"] for n in job.json["next"]), "NEXT"
    return f"rank {rank}: {waits['caused_s']:.3f} s, the program {caused[rank]:.3f} of {total:.3f}; {doubt[rank]:.3f} may be between them"


def problem(job, kind):
    found = [p for p in job.json["problem_list"] if p["kind"] == kind]
    assert found, f"no problem of kind {kind}: {job.json['problems']}"
    return found


def check_healthy(job):
    """Nothing is said to be wrong but a rank that stood still, which a busy machine can do to it."""
    for p in job.json["problem_list"]:
        late = max(max(c.gpu_begin for c in k.values()) - min(c.gpu_begin for c in k.values()) for calls in job.truth.calls.values() for k in calls.values())
        assert p["kind"] == "stood_still" and late > 5e8, p


def check_page(job):
    """What went wrong, at the beginning of the page."""
    head = job.text.split("TIME BY CALL")[0]
    if job.name == "killed" or job.name == "left":
        rank = 2 if job.name == "killed" else 3
        assert [p["rank"] for p in problem(job, "killed")][0] == rank
        assert re.search(rf"! .*rank {rank}\b", head), head
    elif job.name == "stopped":
        p = problem(job, "stood_still")[0]
        assert "disagree" not in head, head
        assert p["rank"] == 1 and p["call"] == "AllReduce" and p["seq"] == 401, p
        assert re.search(r"! .*rank 1 made no progress.*number 401 of world", head), head
    else:
        p = problem(job, "calls_failed")[0]
        assert p["rank"] == 1 and p["call"] == "AllReduce" and "invalid argument" in p["result"], p
        assert re.search(r"! .*rank 1\b.*AllReduce.*invalid argument", head), head


def sent(job, comm, call=None):
    """Bytes by time of the calls of a communicator (None: outside of them)."""
    return sum(c["sent_by_time"] for c in job.json["fabric_calls"]
               if (job.comm_name(c["comm"]) == comm if comm else not c["call"]) and call in (None, c["call"]))


def payload(job, comm):
    """Bytes that the algorithms of the stand-in must move between ranks: a ring, or a tree that gathers all inputs at its root."""
    total = 0
    for ranks in job.truth.calls[comm].values():
        c, n = next(iter(ranks.values())), len(ranks)
        total += c.bytes * {"AllReduce": 2 * (n - 1), "Send": n, "Recv": 0}.get(c.name, n - 1)
    return total


def check_network(job):
    """Bytes: sent is received, what was sent belongs to some call, and at least what the algorithms need was sent."""
    links = job.json["fabric"]
    out, into = sum(f["sent_bytes"] for f in links), sum(f["recv_bytes"] for f in links)
    given = sum(c["sent_by_time"] for c in job.json["fabric_calls"])
    assert all(f["recv_exact"] for f in links) and out == into, f"{out} bytes sent, {into} received"
    # every byte is given to something; figures have six digits
    assert abs(given - out) <= 1e-5 * out + 1, f"{out} bytes sent, {given} given to calls"
    needed = sum(payload(job, comm) for comm in job.truth.calls)
    assert out >= needed, f"{out} bytes sent, the calls need {needed}"
    return f"{out / needed:.2f} of what calls need was sent"


def check_one_call(job):
    """All traffic belongs to the only call there is, as far as the program's stamps can tell."""
    inside, total = sent(job, "world", "AllReduce"), sum(c["sent_by_time"] for c in job.json["fabric_calls"])
    guessed, calls = (sum(c[key] for c in job.json["fabric_calls"]) for key in ("calls_guessed", "calls"))
    assert (guessed > 0.05 * calls) == ("GPU time is a guess" in "".join(job.notes)), f"{guessed} of {calls} guessed"
    assert (guessed == 0) == job.all_timed
    least, _ = placement.surely_given(job)
    assert inside >= least - TINY * total, f"{inside / total:.1%} of the bytes are given to AllReduce, at least {least / total:.1%} are its"
    return f"{inside / total:.1%} of the bytes, at least {least / total:.1%} are; {guessed} of {calls} calls placed by guess"


def check_attribution(job):
    """Communicators that work one after the other: each has its own bytes, as far as windows and stamps can tell them apart."""
    total, shares = sum(c["sent_by_time"] for c in job.json["fabric_calls"]), []
    _, least = placement.surely_given(job)
    for comm in job.truth.calls:
        said, most = sent(job, comm), total - sum(least.values()) + least[comm] + least[None] + sent(job, None)
        assert least[comm] - TINY * total <= said <= most + TINY * total, f"{comm} has {said} bytes, and moved {least[comm]} to {most}"
        shares.append(f"{comm} {said / payload(job, comm):.3f} (at least {least[comm] / payload(job, comm):.3f})")
    return "of the bytes needed: " + ", ".join(shares)


def check_two_streams(job):
    """Two communicators that do the same at once: each has its part, and nothing is outside. Division by time, which is what the
    page says, makes it half only when both are as fast: what is ahead of the other is given too little."""
    half, total = sent(job, "world") / (sent(job, "world") + sent(job, "world/7")), sum(c["sent_by_time"] for c in job.json["fabric_calls"])
    least, _ = placement.surely_given(job)
    assert sent(job, None) <= total - least + TINY * total, f"{sent(job, None)} of {total} bytes are outside, at least {least} are not"
    assert 0.15 < half < 0.85, f"of two communicators that do the same one has {half:.0%} of the bytes"
    return f"{half:.1%} to one of two alike, {sent(job, None) / total:.2%} outside, at most {1 - least / total:.2%} are"


def check_placement(job):
    """When each call ran on the GPU: each communicator has its line, one stream does one thing at a time, no call ends later than
    the program saw, none begins earlier by more than what calls waited for their GPU (placement.py)."""
    lines, streams = collections.defaultdict(set), collections.defaultdict(list)
    for e in job.gpu:
        assert e["args"]["placed"] == "event", e
        lines[e["pid"], e["args"]["comm"]].add(e["tid"])
        streams[e["pid"], e["args"]["comm"] == "world/7"].append((e["ts"], e["ts"] + e["dur"]))
    there = {(pid, comm) for pid in range(len(job.json["processes"])) for comm, _ in placement.members(job, pid)}
    assert set(lines) == there, f"lines of the trace: {sorted(lines)}, the program's communicators: {sorted(there)}"
    assert len({(pid, tid) for (pid, _), tids in lines.items() for tid in tids}) == len(there) == sum(map(len, lines.values())), f"one line for each: {dict(lines)}"
    for lane in streams.values():
        lane.sort()
        for a, b in zip(lane, lane[1:]):
            assert b[0] >= a[1] - 1, f"GPU work of one stream overlaps: {a} {b}"
    most = 0
    for pid in range(len(job.json["processes"])):
        calls, to_trace = placement.calls_of(job, pid)
        for p in (p for p in calls if p.timed):
            early = p.own.gpu_begin + to_trace - p.event["ts"] * 1e3
            assert early <= p.early, f"rank {pid}: {p.event} begins {early / 1e3:.0f} us before the program saw it begin, {p.early / 1e3:.0f} at most can be"
            late = (p.event["ts"] + p.event["dur"]) * 1e3 - to_trace - p.own.gpu_end
            assert late < 1e5, f"rank {pid}: {p.event} ends {late / 1e3:.0f} us after the program saw it end, and begins {early / 1e3:.0f} us before that saw it begin; the program's took {(p.own.gpu_end - p.own.gpu_begin) / 1e3:.0f} us, the clock to the trace {to_trace:.0f} ns"
            most = max(most, p.early)
    return f"begins are early by {most / 1e3:,.0f} us at most"


def check_gpus(job):
    """Two GPUs in each process: a grouped call of two ranks is one collective, each process is there with both."""
    world = next(c for c in job.json["comms"] if c["name"] == "world")
    assert (world["ranks"], world["ranks_logged"], world["calls"]) == (4, [0, 1, 2, 3], 70), world
    assert len(job.json["processes"]) == 2
    rows = {r["bytes"]: (r["call"], r["count"], r["calls"]) for r in moving(job, "world")}
    assert rows == {8192: ("AllReduce", 50, 200), 65536: ("AllGather", 20, 80)}, rows
    assert all(r["busbw_gbs"] > 0 for r in moving(job, "world")), "no bandwidth"
    assert not [r for r in job.json["rows"] if r["bytes"] and (r["in_group"] or r["call"] == "Group")], "calls of a group without times"
    total = sum(c["sent_by_time"] for c in job.json["fabric_calls"])
    inside = {c["call"]: c["sent_by_time"] / total for c in job.json["fabric_calls"] if c["call"]}
    least, _ = placement.surely_given(job)
    assert sum(inside.values()) >= least / total - TINY and "Group" not in inside, f"at least {least} of {total} bytes are in calls: {job.json['fabric_calls']}"
    return ", ".join(f"{call} {part:.1%} of the bytes" for call, part in inside.items()) + f", at least {least / total:.1%} are in calls"


WHOLE = [check_counts, check_times, check_healthy, check_network]
CHECKS = {
    "late": WHOLE + [check_who], "late-all": WHOLE + [check_who],
    "first": WHOLE + [check_first, check_who], "frozen": [check_who], "killed": [check_page], "left": [check_page],
    "failed": [check_page], "stopped": [check_page, check_who, check_stood], "async": WHOLE + [check_one_call, check_placement],
    "between": WHOLE + [check_one_call, check_placement], "streams": WHOLE + [check_two_streams, check_placement],
    "comms": WHOLE + [check_attribution, check_placement], "comms-plain": WHOLE + [check_attribution, check_placement],
    "gpus": WHOLE + [check_gpus], "gpus-plain": WHOLE + [check_gpus],
}


def record(name, work):
    options, launch, (program, *arguments) = SCENARIOS[name]
    job = Job(capo, build, work, options, launch, [os.path.join(build, program), *arguments])
    job.name = name
    return job


def main():
    bad = []
    for name in sys.argv[3:] or SCENARIOS:
        work = tempfile.mkdtemp(prefix="capo-referee-")
        try:
            job = record(name, work)
            for check in [check_faces] + CHECKS.get(name, WHOLE):
                key, said = f"{name}: {check.__name__[6:]}", None
                try:
                    said = check(job)
                    error = None
                except (AssertionError, KeyError, TypeError, IndexError, StopIteration, ValueError) as e:
                    error = f"{type(e).__name__} {e}"
                if (error is None) == (key in PENDING):
                    bad.append(f"FAIL  {key}: {error or 'it passes now: take it out of PENDING'}")
                    print(bad[-1], flush=True)
                else:
                    print(f"{'ok   ' if error is None else 'known'} {key}{': ' + (error or said) if error or said else ''}", flush=True)
        finally:
            shutil.rmtree(work)
    wrong = [name for name, right in trusted.items() if not right]
    if len(trusted) >= 6:  # one in a hundred is by luck: of ten no more than two may be
        many = 4 * len(wrong) > len(trusted)
        said = f"{'FAIL ' if many else 'ok   '} intervals: {len(trusted)} jobs, outside of twice theirs {', '.join(wrong) or 'none'}"
        print(said, flush=True)
        bad += [said] * many
    # once more at the end, which is what is kept of a long output
    print(*bad, sep="\n", end="\n" if bad else "")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
