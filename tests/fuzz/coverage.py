#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lines of the parsers (parsers.txt) that the corpora go through, by gcov; over all programs that a file is compiled into.

usage: coverage.py BUILD_FOLDER     of gcc, set up with -Db_coverage=true; its counters are begun anew
"""
import collections
import json
import os
import pathlib
import subprocess
import sys

build = pathlib.Path(sys.argv[1]).resolve()
here = pathlib.Path(__file__).resolve().parent
source = here.parent.parent
parsers = [str(f.relative_to(source)) for p in (here / "parsers.txt").read_text().split() for f in sorted(source.glob(p))]

for data in build.rglob("*.gcda"):
    data.unlink()
for corpus in sorted((here / "corpus").iterdir()):
    subprocess.run([build / "tests/fuzz" / f"fuzz_{corpus.name}", corpus,
                    *([source / "tests/fit/data"] if corpus.name == "import" else [])], check=True, stdout=subprocess.DEVNULL)

lines = collections.defaultdict(lambda: collections.defaultdict(int))
wanted = [p.split("/", 1)[1].replace("/", "_") for p in parsers] + [p.replace("/", "_") for p in parsers]
for data in build.rglob("*.gcda"):
    if not any(data.name.removesuffix(".gcda").endswith(w) for w in wanted):
        continue
    report = subprocess.run(["gcov", "--json-format", "--stdout", data], cwd=build, check=True, capture_output=True).stdout
    for f in json.loads(report)["files"]:
        path = os.path.relpath(build / f["file"], source)
        for line in f["lines"]:
            lines[path][line["line_number"]] += line["count"]

gone = total = 0
for p in parsers:
    n, k = len(lines[p]), sum(1 for count in lines[p].values() if count)
    gone, total = gone + k, total + n
    print(f"{100 * k / max(n, 1):6.1f} % of {n:4}  {p}")
if absent := [p for p in parsers if not lines[p]]:
    sys.exit("no fuzz program of " + str(build) + " has " + ", ".join(absent))
print(f"{100 * gone / total:6.1f} % of {total:4}  together")
