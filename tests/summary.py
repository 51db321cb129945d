# SPDX-License-Identifier: Apache-2.0
"""Prints meson's test log as one line: N passed, N failed, N skipped."""
import json
import sys

counts = {"OK": 0, "SKIP": 0}
failed = 0
with open(sys.argv[1]) as log:
    for line in log:
        result = json.loads(line)["result"]
        if result in counts:
            counts[result] += 1
        else:
            failed += 1
print(f"{counts['OK']} passed, {failed} failed, {counts['SKIP']} skipped")
