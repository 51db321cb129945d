# SPDX-License-Identifier: Apache-2.0
"""Holds a report against what the program says it issued.

usage: check_counts.py REPORT.json PROGRAM_OUTPUT [CALL...]     (only these calls, where the program cannot know its others)

The program prints `issued call=AllReduce bytes=8320 times=300 ranks=4`; the report must have the same calls, sizes and counts
for its largest communicator, no more and no fewer, and must have dropped nothing.
"""
import collections
import json
import re
import sys

COLLECTIVES = {"AllReduce", "Broadcast", "Bcast", "Reduce", "AllGather", "ReduceScatter", "AlltoAll", "Gather", "Scatter", "Send", "Recv"}

COLLECTIVES &= set(sys.argv[3:]) or COLLECTIVES
with open(sys.argv[1]) as f:
    report = json.load(f)
with open(sys.argv[2]) as f:
    lines = f.read()

issued = collections.Counter()
for call, size, times in re.findall(r"^issued call=(\w+) bytes=(\d+) times=(\d+)", lines, re.M):
    issued[call, int(size)] += int(times)
seen = collections.Counter()
for row in report["rows"]:
    if row["call"] in COLLECTIVES:
        seen[row["call"], row["bytes"]] += row["count"]

bad = []
if not issued:
    bad.append("the program printed no `issued` line")
for key in sorted(set(issued) | set(seen)):
    if issued[key] != seen[key]:
        bad.append(f"{key[0]} of {key[1]} bytes: issued {issued[key]}, reported {seen[key]}")
if report["dropped"]:
    bad.append(f"dropped {report['dropped']}")
for line in bad:
    print("check_counts:", line)
if not bad:
    print(f"the report has every collective the program issued: {sum(issued.values())} of {len(issued)} kinds per rank, dropped 0")
sys.exit(bool(bad))
