#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a recorded job called, as a pattern file (docs/internals/patterns.md has the format): no times, no code, no names of files or hosts.

usage: distil.py CAPO LOGS [--source WORDS]           the pattern of the job whose logs are in the folder LOGS
       distil.py CAPO --programs FOLDER TO [--check]  of each program that `./dev frameworks --keep FOLDER` has run, into TO/NAME.pattern;
                                                      --check: say what differs from the files there, change nothing
"""
import argparse
import collections
import difflib
import glob
import os
import re
import subprocess
import sys

TYPES = "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2".split()  # ncclDataType_t
SIZES = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)
OPS = "sum prod max min avg".split()
PER_RANK = {"AllGather", "ReduceScatter", "AlltoAll", "Gather", "Scatter"}  # a record has their bytes over all ranks
ROOTED = {"Broadcast", "Bcast", "Reduce", "Gather", "Scatter"}
P2P = {"Send", "Recv"}
MAKES = {"CommInit", "CommSplit", "CommShrink", "CommGrow"}
ENDS = {"CommDestroy", "CommAbort"}
MOVES = PER_RANK | ROOTED | P2P | {"AllReduce"}
WIDE = re.compile(r"dp|data|shard|replicate", re.I)  # communicators of these names become larger with more replicas of the model

Comm = collections.namedtuple("Comm", "id uid name rank ranks parent")
RECORD = re.compile(r"    (\d+) \+(\d+) (\w+) (.*)")
COMM = re.compile(r'    id (\d+) "(.*)" uid (\w+) rank (-?\d+) of (-?\d+) .* parent (\d+) ')


class Log:
    """One rank: its communicators by their number in the process, its calls in order of time, what the log says of itself."""

    def __init__(self, capo, path):
        text = subprocess.run([capo, "dump", "--records", path], capture_output=True, text=True, errors="replace", check=True).stdout
        self.comms, self.calls, self.info = {}, [], {}
        for line in text.splitlines():
            if m := COMM.match(line):
                self.comms[int(m[1])] = Comm(int(m[1]), m[3], m[2], int(m[4]), int(m[5]), int(m[6]))
            elif m := RECORD.match(line):
                self.calls.append({"name": m[3], "at": int(m[1]), "flags": m[4],
                                   **{key: int(value) for key, value in re.findall(r"(\w+) (-?\d+)", m[4])}})
            elif m := re.match(r"    ([\w.]+)\t(.*)", line):
                self.info[m[1]] = m[2]
        self.calls.sort(key=lambda c: c["at"])
        self.rank = int(self.info.get("rank", 0))


def count_of(call, ranks):
    return call["bytes"] // SIZES[call["type"]] // (ranks if call["name"] in PER_RANK else 1)


def line_of(call, log, family, streams):
    """CALL COMMUNICATOR TYPE OPERATOR COUNT PEER STREAM, and `captured` where it was."""
    comm = log.comms[call["comm"]]
    op = "-" if call["op"] == 255 else OPS[call["op"]] if call["op"] < len(OPS) else "user"
    # which call ran where: streams are numbered as the rank came to them
    stream = streams.setdefault(call["stream"], len(streams) + 1)
    peer = str(call["peer"]) if call["name"] in ROOTED | P2P else "-"
    return " ".join([call["name"], str(family[comm.uid]), TYPES[call["type"]], op, str(count_of(call, comm.ranks)), peer, str(stream)]
                    + ["captured"] * ("captured" in call["flags"]))


def sequence(log, family):
    """The lines of a rank."""
    lines, streams, group = [], {}, 0
    for call in log.calls:
        name, comm = call["name"], log.comms.get(call.get("comm"))
        member = call.get("group", 0) if re.search(r"\bmember\b", call["flags"]) else 0
        if name == "Group" or (name not in MOVES | MAKES | ENDS) or not comm or call.get("result", 0) not in (0, 7):
            continue  # a group is what its members say; registrations are not communication
        if group != member:
            lines += ["End"] * bool(group) + ["Group"] * bool(member)
            group = member
        lines.append(line_of(call, log, family, streams) if name in MOVES else f"{name} {family[comm.uid]}")
    return lines + ["End"] * bool(group)


def families(logs):
    """Communicators that the same line of the program made, on other ranks: {family: {instance: [ranks of the job]}}, {uid: family}."""
    place, members = {}, collections.defaultdict(dict)
    for log in logs:
        seen = collections.Counter()
        for comm in log.comms.values():
            members[comm.uid][comm.rank] = log.rank
            key = (comm.name, comm.ranks, log.comms[comm.parent].name if comm.parent in log.comms else "")
            place.setdefault(comm.uid, key + (seen[key],))
            seen[key] += 1
    order = []
    for log in logs:
        for comm in log.comms.values():
            if place[comm.uid] not in order:
                order.append(place[comm.uid])
    family = {uid: order.index(key) + 1 for uid, key in place.items()}
    return family, {uid: [of for _, of in sorted(ranks.items())] for uid, ranks in members.items()}


def distil(capo, folder, source):
    """The pattern of a job as text."""
    logs = sorted((Log(capo, p) for p in glob.glob(os.path.join(folder, "**", "*.capo"), recursive=True)), key=lambda log: log.rank)
    if not logs:
        raise SystemExit(f"distil: no logs in {folder}")
    family, members = families(logs)
    out = ["capo_pattern 1"] + [f"# {line}" for line in source] + [f"ranks {len(logs)}"]
    for number in sorted(set(family.values())):
        mine = sorted((uid for uid in family if family[uid] == number), key=lambda uid: members[uid])
        log, comm = next((log, c) for log in logs for c in log.comms.values() if c.uid == mine[0])
        parent = family[log.comms[comm.parent].uid] if comm.parent in log.comms else 0
        grows = any(len(members[uid]) == len(logs) for uid in mine) or WIDE.search(comm.name)
        out.append(f"comm {number} {comm.name or '-'} {'grow' if grows else 'copy'} {parent} "
                   + " ".join(",".join(map(str, members[uid])) for uid in mine))
    classes = {}
    for log in logs:
        classes.setdefault(tuple(sequence(log, family)), []).append(log.rank)
    for lines, ranks in classes.items():
        out.append("rank " + ",".join(map(str, ranks)))
        out += lines
    return "\n".join(out) + "\n"


def first_line(program):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "frameworks", "programs", program + ".py")
    try:
        with open(path) as f:
            return re.search(r'"""(.*?)(\.?"""|$)', f.read(), re.S | re.M)[1].strip()
    except OSError:
        return program


def programs(capo, folder, to, check):
    differ = 0
    for path in sorted(glob.glob(os.path.join(folder, "*", "*", "logs-*"))):
        release, program = path.split(os.sep)[-3:-1]
        # a job that ends by a kill has as many calls as it came to: no pattern
        if program == "aborted":
            continue
        text = distil(capo, path, [first_line(program), release])
        file = os.path.join(to, program + ".pattern")
        if not check:
            with open(file, "w") as f:
                f.write(text)
            continue
        with open(file) as f:
            kept = f.read()
        lines = list(difflib.unified_diff(kept.splitlines(), text.splitlines(), file, path, lineterm=""))
        differ += bool(lines)
        print("\n".join(lines) if lines else f"{program}: as kept")
    return differ


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].replace("usage: ", "", 1))
    parser.add_argument("capo")
    parser.add_argument("logs", nargs="?")
    parser.add_argument("--source", default="")
    parser.add_argument("--programs", nargs=2, metavar=("FOLDER", "TO"))
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if args.programs:
        return 1 if programs(args.capo, *args.programs, args.check) else 0
    if not args.logs:
        parser.error("whose logs?")
    sys.stdout.write(distil(args.capo, args.logs, [args.source] if args.source else []))
    return 0


if __name__ == "__main__":
    sys.exit(main())
