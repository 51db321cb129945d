# SPDX-License-Identifier: Apache-2.0
"""Prints meson's test log as one line, N passed, N failed, N skipped; before it what the tests say they left out."""
import json
import sys

counts = {"OK": 0, "SKIP": 0}
failed = 0
with open(sys.argv[1]) as log:
    for line in log:
        test = json.loads(line)
        if test["result"] in counts:
            counts[test["result"]] += 1
        else:
            failed += 1
        for said in test.get("stdout", "").splitlines():
            if said.lower().startswith("skipped: "):
                print(f"not tried: {test['name'].split(' / ')[-1]}: {said[len('skipped: '):]}")
print(f"{counts['OK']} passed, {failed} failed, {counts['SKIP']} skipped")
