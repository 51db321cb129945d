#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: derived.py CAPO SOURCE [COUNT]    shipped predicted rules, asked once more in every order that they claim.

Of each profiles/data/predicted-*.json COUNT (2) rules, spread over the file, are asked of `capo fit --model` again; `all` takes all.
A rule in any order is asked in each order by itself; the same choices must come out, and in the orders that no rule of the file
claims, none. NCCL is the one on this machine, and those of its releases below CAPO_NCCL_CACHE (./dev matrix fetches them): a rule is
asked with each of them that it claims. Of the splits that tests/fragment/data/predicted-asked.csv has without a rule, COUNT per
platform, if that is more than 1: again none must come out."""
import csv, glob, itertools, json, os, re, subprocess, sys, tempfile

capo, source = os.path.realpath(sys.argv[1]), sys.argv[2]
count = sys.argv[3] if len(sys.argv) > 3 else "2"
count = 10**6 if count == "all" else int(count)
SIZES = re.search(r'^SIZES = "(.*)"', open(os.path.join(source, "profiles/derive.py")).read(), re.M).group(1)
for variable in [v for v in os.environ if v.startswith("NCCL_")]:
    del os.environ[variable]
cache = os.environ.get("CAPO_NCCL_CACHE", os.path.join(source, ".deps/nccl-releases"))
fetched = {os.path.basename(os.path.dirname(p)): p for p in glob.glob(os.path.join(cache, "*/libnccl.so.2"))}
failed = asked = 0


def derive(platform, split, lib=None):
    """The rules that come out for one order, and the release that was asked; None: NCCL has no answer."""
    with tempfile.TemporaryDirectory() as tmp:
        out = os.path.join(tmp, "p.json")
        done = subprocess.run([capo, "fit", "--model", split, "--platform", platform, "--sizes", SIZES, "-o", out],
                              capture_output=True, text=True, timeout=900, env={**os.environ, **({"CAPO_NCCL": lib} if lib else {})})
        if done.returncode:
            if "libnccl" in done.stderr and not lib:
                print("SKIPPED:", done.stderr.strip().splitlines()[-1])
                sys.exit(77)
            return None, done.stderr.strip()
        release = re.search(r"NCCL (\d+\.\d+)", done.stdout).group(1)
        if not os.path.exists(out):
            return [], release
        with open(out) as f:
            return json.load(f)["rules"], release


def nodes_of(layout):
    """3x8+1: [8, 8, 8, 1]"""
    parts = [p.split("x") if "x" in p else ("1", p) for p in layout.removesuffix(" in any order").split("+")]
    return [int(g) for times, g in parts for _ in range(int(times))]


def orders(nodes):
    return sorted(set(itertools.permutations(nodes)))


def number(release):
    return [int(n) for n in release.split(".")]


def claims(rule, release):
    first, _, last = rule["when"]["nccl"].partition("-")
    return number(first) <= number(release) <= number(last or first)


def choices(rule):
    return {c: [(r["upto"], r.get("algo"), r.get("proto")) for r in rows] for c, rows in rule.items() if c not in ("when", "basis")}


def spread(list_, n):
    return list_[:: max(1, len(list_) // n)][:n]


toolkit = derive("hgxh100", "2")[1]
libs = {toolkit: None, **{".".join(v.split(".")[:2]): p for v, p in sorted(fetched.items()) if ".".join(v.split(".")[:2]) != toolkit}}
for path in sorted(glob.glob(os.path.join(source, "profiles/data/predicted-*.json"))):
    with open(path) as f:
        shipped = json.load(f)
    rules, platform = shipped["rules"], shipped["platform"]["machine"].split()[0]
    if any(r["basis"] != "modelled" for r in rules):
        failed += 1
        print(f"FAIL {path}: a rule is not marked modelled")
    for rule in spread(rules, count):
        when = rule["when"]
        nodes = nodes_of(when.get("layout", str(when["ranks"])))
        every = when.get("layout", "").endswith("in any order") or len(nodes) < 3
        claimed = {tuple(nodes_of(r["when"]["layout"])) for r in rules if r["when"].get("layout") and r["when"]["ranks"] == when["ranks"]}
        for release, lib in libs.items():
            if not claims(rule, release):
                continue
            for order in orders(nodes):
                again, why = derive(platform, "+".join(map(str, order)), lib)
                asked += 1
                mine = every or list(order) == nodes
                got = choices(again[0]) if again else None
                if got != choices(rule) if mine else got and order not in claimed:
                    failed += 1
                    print(f"FAIL {platform} {'+'.join(map(str, order))} NCCL {release}: {json.dumps(when)} has {choices(rule)}, asked {got} {why}")
with open(os.path.join(source, "tests/fragment/data/predicted-asked.csv"), newline="") as f:
    table = [row for row in csv.DictReader(f) if row["nccl"].startswith(toolkit + ".") and count > 1]  # minutes
for platform in dict.fromkeys(row["platform"] for row in table):
    for row in spread([r for r in table if r["platform"] == platform and r["rules"] == "0" and not r["why_not"]], count):
        again, why = derive(platform, row["split"])
        asked += 1
        if again or again is None:
            failed += 1
            print(f"FAIL {platform} {row['split']}: no rule in the table, derived {json.dumps(again)} {why}")
print(f"{asked} questions asked again with NCCL {', '.join(libs)}; {failed} failures")
sys.exit(failed > 0 or not asked)
