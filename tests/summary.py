# SPDX-License-Identifier: Apache-2.0
"""Prints meson's test log as one line, N passed, N failed, N skipped; before it what the tests say they left out, the ten
that took longest, and those that passed only when they ran again by themselves (tests/again.py).

usage: summary.py TESTLOG [AGAIN]"""
import json
import os
import sys

counts = {"OK": 0, "SKIP": 0}
failed = 0
took = []
unsteady = []
again = {}
if len(sys.argv) > 2 and os.path.exists(sys.argv[2]):
    with open(sys.argv[2]) as log:
        again = {test["name"]: test["result"] for test in map(json.loads, log)}
with open(sys.argv[1]) as log:
    for line in log:
        test = json.loads(line)
        took.append((test["duration"], test["name"].split(" / ")[-1]))
        if test["result"] in counts:
            counts[test["result"]] += 1
        elif again.get(test["name"]) == "OK":
            counts["OK"] += 1
            unsteady.append(test["name"].split(" / ")[-1])
        else:
            failed += 1
        for said in test.get("stdout", "").splitlines():
            if said.lower().startswith("skipped: "):
                print(f"not tried: {test['name'].split(' / ')[-1]}: {said[len('skipped: '):]}")
print("slowest, seconds:", ", ".join(f"{name} {seconds:.0f}" for seconds, name in sorted(took, reverse=True)[:10]))
for name in unsteady:
    print(f"unsteady: {name} failed among others and passed by itself")
print(f"{counts['OK']} passed, {failed} failed, {counts['SKIP']} skipped")
