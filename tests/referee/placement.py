# SPDX-License-Identifier: Apache-2.0
"""Where a page has calls on the GPU, and what follows from the program's own stamps for that, whatever the speed of the machine.

The program's stamps are on the stream before and behind capo's events, and those around the call: so a call was on the GPU inside its
stamps for as long as the page says. The page has it earlier by what it may have waited for its GPU: how a GPU's clock is to the host's
is known only from the host's asking before each begin, so it errs by the least of those waits seen so far, never to the late side;
and it has no call before the host made it.
"""
import collections
import os
import re

from job import run

APART = 5e-5  # two clocks may run apart, says shim/gpu/anchor.c

# A call of the program. timed: the page has its time on the GPU, `ns`, and begins it `early` ns too early at most; it cannot have ended it
# before `least` or behind `most` (CLOCK_MONOTONIC).
Placed = collections.namedtuple("Placed", "comm own timed ns early least most event")


def members(job, pid):
    """The communicators of a process in the order in which it made them: name and rank."""
    gpus = job.truth.ranks // len(job.json["processes"])
    ranks = range(job.json["processes"][pid]["rank"], job.json["processes"][pid]["rank"] + gpus)
    return [(comm, r) for comm in ("world", "world/0", "world/7") if comm in job.truth.calls for r in ranks if r in job.truth.calls[comm][0]]


def calls_of(job, pid):
    """Every call of a process, stream by stream in order, as Placed; and from its clock to that of the trace."""
    of_job = {comm: sorted(calls[0]) for comm, calls in job.truth.calls.items()}  # a trace has ranks in their communicator
    rank_of = lambda e: of_job[e["args"]["comm"]][e["args"]["rank"]]
    own = lambda e: job.truth.calls[e["args"]["comm"]][e["args"]["seq"] - 1][rank_of(e)]
    key = lambda e: ((e["args"]["comm"], rank_of(e)), e["args"]["seq"])
    made = {key(e): e for e in job.host if e["pid"] == pid and e["args"]["bytes"]}
    # a call is recorded a moment after the program wrote that it begins: this is too large, by less than a call took the host
    to_trace = min(e["ts"] * 1e3 - own(e).begin for e in made.values())
    slack = min(own(e).end - own(e).begin for e in made.values())
    timed = {key(e): e for e in job.gpu if e["pid"] == pid}
    began = {k: own(e).gpu_end - e["dur"] * 1e3 for k, e in timed.items()}  # at the latest
    streams = collections.defaultdict(list)
    for comm, rank in members(job, pid):
        for seq, ranks in job.truth.calls[comm].items():
            streams[rank, comm == "world/7"].append((ranks[rank].gpu_begin, ((comm, rank), seq + 1), ranks[rank]))
    firsts = [next(k for _, k, _ in sorted(s) if k in timed) for s in streams.values()]
    since = min(own(timed[k]).gpu_begin for k in firsts)
    waited = max(began[k] - own(timed[k]).begin for k in firsts) + slack
    longest = collections.defaultdict(float)
    for k, e in timed.items():
        longest[k[0], own(e).name, own(e).bytes] = max(longest[k[0], own(e).name, own(e).bytes], e["dur"] * 1e3)
    stall, placed = max(longest.values()), []
    for s in streams.values():
        least = most = None
        part = []
        for _, k, c in sorted(s):
            early = 0
            if k in timed:
                ns = timed[k]["dur"] * 1e3
                early = min(began[k] + to_trace - made[k]["ts"] * 1e3, waited) + APART * (c.gpu_begin - since) + 2000
                least, most = c.gpu_begin + ns - early, c.gpu_end
            else:  # a guess: no longer than the longest of its kind, but one of them as long again as the longest of all
                ns = longest[k[0], c.name, c.bytes]
                begun = part and not part[-1].timed
                least, most = least + ns + (0 if begun else stall), max(most if begun else most + stall, c.end + stall) + ns
            part.append(Placed(k[0][0], c, k in timed, ns, early, least, most, timed.get(k)))
        behind = None
        for i in reversed(range(len(part))):  # and it ends before the next that was timed begins
            p = part[i]
            if p.timed:
                behind = p
            elif behind:
                part[i] = p._replace(least=min(p.least, behind.least), most=min(p.most, behind.most))
        placed += part
    return placed, to_trace


def windows(job, pid):
    """What a process sent in which time: (begin, end, bytes), ns of CLOCK_MONOTONIC. Each checkpoint has all of them, in pieces that begin
    with its number: the last whole one counts."""
    log = os.path.join(job.logs, os.path.basename(job.json["processes"][pid]["log"]))
    pieces = re.findall(r"^\s+snapshot\s(\d+)$(.*?)(?=^\s+snapshot\s|\Z)", run([job.capo, "dump", log]), re.M | re.S)
    last = max((n for n, text in pieces if re.search(rf"^\s+complete\s{n}$", text, re.M)), key=int)
    return [tuple(map(int, w)) for n, text in pieces if n == last
            for w in re.findall(r"^\s+window\s+begin=(\d+)\s+end=(\d+)\s+ops=\d+\s+tx=(\d+)", text, re.M)]


def surely_given(job):
    """Bytes that cannot be "outside recorded calls" on the page, and by communicator those that cannot be another's: a window that
    overlaps where a call is for sure, or that begins before any of the calls under way in it can have ended."""
    inside, by_comm = 0, collections.Counter()
    for pid in range(len(job.json["processes"])):
        calls, _ = calls_of(job, pid)
        for begin, end, sent in windows(job, pid):
            there = [p for p in calls if p.own.gpu_begin < end and p.own.gpu_end > begin]
            if not any(p.timed and p.own.gpu_end - p.ns < end and p.least > max(begin, p.own.gpu_end - p.ns) for p in there):
                if not there or any(begin >= p.least for p in there):
                    continue
            inside += sent
            can = {p.comm for p in calls if p.own.begin < end and p.most > begin}
            by_comm[can.pop() if len(can) == 1 else None] += sent
    return inside, by_comm
