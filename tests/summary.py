# SPDX-License-Identifier: Apache-2.0
"""Prints meson's test log as one line, N passed, N failed, N skipped; before it what the tests say they left out, and the
ten that took longest."""
import json
import sys

counts = {"OK": 0, "SKIP": 0}
failed = 0
took = []
with open(sys.argv[1]) as log:
    for line in log:
        test = json.loads(line)
        took.append((test["duration"], test["name"].split(" / ")[-1]))
        if test["result"] in counts:
            counts[test["result"]] += 1
        else:
            failed += 1
        for said in test.get("stdout", "").splitlines():
            if said.lower().startswith("skipped: "):
                print(f"not tried: {test['name'].split(' / ')[-1]}: {said[len('skipped: '):]}")
print("slowest, seconds:", ", ".join(f"{name} {seconds:.0f}" for seconds, name in sorted(took, reverse=True)[:10]))
print(f"{counts['OK']} passed, {failed} failed, {counts['SKIP']} skipped")
