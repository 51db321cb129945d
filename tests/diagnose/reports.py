#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What capo diagnose says of public reports: reports.py CAPO FOLDER. README.md there has the columns of reports.tsv."""
import collections
import json
import os
import re
import subprocess
import sys


def claims(page):
    """What the page says itself: without the lines that it quotes."""
    verdict = page["verdict"] or {"text": "", "next": "", "detail": ""}
    states = [other["text"] for other in page["also"] if other["text"] in verdict["detail"]]
    return "\n".join([verdict["text"], verdict["next"]] + states)


def score(capo, folder, row, must_not):
    name, link, which, right, ranks = row
    path = os.path.join(folder, "reports" if which != "kept" else "reports_kept", name)
    files = [path] if which != "kept" else [os.path.join(path, f) for f in sorted(os.listdir(path)) if f != "truth.txt"]
    run = subprocess.run([capo, "diagnose", "--json"] + files, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    page = json.loads(run.stdout)
    verdict = page["verdict"]
    kind = verdict["kind"] if verdict else "undecided"
    if kind == "error" or (verdict and verdict["sure"] == "unsure"):  # what capo cannot explain, or only supposes
        kind = "undecided"
    false = re.search(must_not, claims(page)) if must_not else None
    parsed = all("unknown" not in r["kinds"] for r in page["read"])
    if run.returncode != page["status"]:
        return "wrong", parsed, f"exit status {run.returncode}, status {page['status']}"
    if false:
        return "wrong", parsed, f"says {false.group(0)}, which is false of it (must_not.tsv)"
    if kind in ("undecided", "birth") and right in ("undecided", "birth"):
        return "right", parsed, kind
    if kind == "undecided" or (kind, right) == ("healthy", "slow"):
        return "undecided", parsed, kind
    if kind != right or (ranks != "-" and ranks != ",".join(map(str, verdict["ranks"]))):
        return "wrong", parsed, f"{kind} of {verdict['ranks']}, expected {right} of {ranks}"
    return "right", parsed, kind


def main():
    capo, folder = sys.argv[1:3]
    with open(os.path.join(folder, "reports.tsv")) as table:
        rows = [line.rstrip("\n").split("\t") for line in table if line.strip() and not line.startswith("#")]
    with open(os.path.join(folder, "must_not.tsv")) as table:
        must_not = dict(line.rstrip("\n").split("\t") for line in table if not line.startswith("#"))
    sums, bad = collections.Counter(), 0
    for name in sorted(set(must_not) - {row[0] for row in rows}):
        print(f"must_not.tsv: {name} has no row in reports.tsv")
        bad += 1
    for row in rows:
        result, parsed, said = score(capo, folder, row, must_not.get(row[0]))
        sums[row[2], "all"] += 1
        sums[row[2], result] += 1
        sums[row[2], "parsed"] += parsed
        bad += result == "wrong"
        print(f"{result:10} {row[0]:28} {said}")
    for which in sorted({row[2] for row in rows}):
        print(which, *(f"{word} {sums[which, word]}" for word in ("all", "parsed", "right", "undecided", "wrong")))
    with open(os.path.join(folder, "source_lines.tsv")) as table:
        lines = [line.rstrip("\n").split("\t") for line in table if not line.startswith("#")]
    for line, begin in lines:
        run = subprocess.run([capo, "diagnose", "--json", "-"], input=line.encode(), stdout=subprocess.PIPE, timeout=60)
        page = json.loads(run.stdout)
        found = page["verdict"] or page["also"][0]
        if not found["text"].startswith(begin):
            print(f"{line}: {found['text']}, expected {begin}")
            bad += 1
    print("lines of sources", len(lines))
    listed = {row[0] for row in rows}
    for part in ("reports", "reports_kept"):
        for name in sorted(set(os.listdir(os.path.join(folder, part))) - listed - {"INDEX.tsv"}):
            print(f"{part}/{name} has no row in reports.tsv")
            bad += 1
    return 1 if bad else 0


sys.exit(main())
