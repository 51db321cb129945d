#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: derived.py CAPO SOURCE [COUNT]    shipped predicted rules, derived once more.

Of each profiles/data/predicted-*.json COUNT (2) rules, spread over the file, are asked of `capo fit --model` again: the
same rows must come out. Of the splits that tests/fragment/data/predicted-asked.csv has without a rule, COUNT per platform: again
none must come out."""
import csv, glob, json, math, os, re, subprocess, sys, tempfile

capo, source, count = os.path.realpath(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 2
SIZES = re.search(r'^SIZES = "(.*)"', open(os.path.join(source, "profiles/derive.py")).read(), re.M).group(1)
for variable in [v for v in os.environ if v.startswith("NCCL_")]:
    del os.environ[variable]
failed = asked = 0


def derive(platform, layout):
    with tempfile.TemporaryDirectory() as tmp:
        out = os.path.join(tmp, "p.json")
        done = subprocess.run([capo, "fit", "--model", layout, "--platform", platform, "--sizes", SIZES, "-o", out],
                              capture_output=True, text=True, timeout=300)
        release = re.search(r"NCCL (\d+\.\d+\.\d+)", done.stdout)
        if done.returncode:
            if "libnccl" in done.stderr:
                print("SKIPPED:", done.stderr.strip().splitlines()[-1])
                sys.exit(77)
            return None, None, done.stderr.strip()
        if not os.path.exists(out):
            return release and release.group(1), [], ""
        with open(out) as f:
            profile = json.load(f)
        return profile["provenance"]["nccl"], profile["rules"], ""


def shares(layout):
    """3x8+1: 8+8+8+1; of two nodes the larger first, as it was asked for."""
    parts = [p.split("x") if "x" in p else ("1", p) for p in layout.split("+")]
    nodes = [int(g) for times, g in parts for _ in range(int(times))]
    return "+".join(map(str, sorted(nodes, reverse=True) if len(nodes) < 3 else nodes))


def same(a, b):
    """Predicted times and gains may differ in the last digits."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    return math.isclose(a, b, rel_tol=1e-3) if isinstance(a, float) and isinstance(b, (int, float)) else a == b


for path in sorted(glob.glob(os.path.join(source, "profiles/data/predicted-*.json"))):
    with open(path) as f:
        shipped = json.load(f)
    rules, platform = shipped["rules"], shipped["platform"]["machine"]
    if any(r["basis"] != "modelled" for r in rules):
        failed += 1
        print(f"FAIL {path}: a rule is not marked modelled")
    for rule in rules[:: max(1, len(rules) // count)][:count]:
        when = rule["when"]
        layout = shares(when.get("layout", str(when["ranks"])))
        release, again, why = derive(platform, layout)
        asked += 1
        if release and shipped["provenance"]["nccl"] != release:
            print(f"SKIPPED: derived from NCCL {shipped['provenance']['nccl']}, and {release} is here")
            sys.exit(77)
        if not again or not same(again[0], rule):
            failed += 1
            print(f"FAIL {platform} {layout}: shipped {json.dumps(rule)}, derived {json.dumps(again)} {why}")
with open(os.path.join(source, "tests/fragment/data/predicted-asked.csv"), newline="") as f:
    table = list(csv.DictReader(f))
for platform in dict.fromkeys(row["platform"] for row in table):
    splits = [row for row in table if row["platform"] == platform and row["rows_written"] == "0" and not row["why_not"]]
    for row in splits[len(splits) // count // 2 :: max(1, len(splits) // count)][:count]:
        release, again, why = derive(platform, row["split"])
        asked += 1
        if again or again is None or (release and release != row["nccl"]):
            failed += 1
            print(f"FAIL {platform} {row['split']}: no rule in the table, derived {json.dumps(again)} with {release} {why}")
print(f"{asked} splits derived again, {failed} failures")
sys.exit(failed > 0 or not asked)
