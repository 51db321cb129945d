#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: derive.py CAPO PLATFORM OUT.json --nccl LIB... [--table CSV] [--nodes N] [--splits A,B...] [--work DIR]    predicted rules for the splits of a platform.

Asks `capo fit --model` for the usual ways to take GPUs of one to N (4) nodes, in any order of the nodes: all of one and two nodes,
of more those of 8 GPUs, and those whose nodes have 2, 4 or all GPUs but for one node. The first libnccl is asked for all; the
others for those with a rule, and for all with --splits. A rule holds from release to release only if each was asked and answers the same: one rule then, with
the least gain of all. With --work the answers are kept there, and nothing is asked twice.

--table writes a row per split and release: rules written, cells where the two accounts disagree about another choice than NCCL's,
the most that it would gain there by the links in per cent, and why nothing was asked. Rows of other platforms in the file stay."""
import argparse, csv, itertools, json, os, re, subprocess, sys, tempfile

SIZES = "1K..8G*4"
COLUMNS = ("platform", "split", "nccl", "rules", "cells_to_measure", "most_gain_percent", "why_not")


def splits(largest, nodes):
    for n in range(1, nodes + 1):
        for s in itertools.combinations_with_replacement(range(largest, 0, -1), n):
            odd = sorted(s, key=lambda g: s.count(g) if g in (2, 4, largest) else -1)[1:]
            if sum(s) > 1 and (n < 3 or sum(s) == 8 or (set(odd) <= {2, 4, largest} and len(set(odd)) == 1)):
                yield "+".join(map(str, s))


def ask(capo, platform, split, lib, work):
    """The answer to one split: the pages that fit prints, the rules it writes; None: NCCL has no answer, and why."""
    path = os.path.join(work, f"{platform}-{split}-{re.sub('[^0-9a-zA-Z.]', '_', lib)}.json")
    if not os.path.exists(path):
        with tempfile.TemporaryDirectory(dir=work) as tmp:
            out = os.path.join(tmp, "p.json")
            run = subprocess.run([capo, "fit", "--model", split + (" in any order" if "+" in split else ""), "--platform", platform, "--sizes", SIZES,
                                  "--json", "-o", out], capture_output=True, text=True, timeout=900, env={**os.environ, "CAPO_NCCL": lib})
            if run.returncode:
                return None, (run.stderr.strip().splitlines() or ["no answer"])[-1]
            rules = []
            if os.path.exists(out):
                with open(out) as f:
                    rules = json.load(f)["rules"]
            with open(os.path.join(tmp, "answer.json"), "w") as f:
                json.dump({"rules": rules, "models": json.loads(run.stdout)}, f)
            os.rename(f.name, path)
    with open(path) as f:
        return json.load(f), ""


def table_row(platform, split, nccl, answer, why):
    models = answer["models"] if answer else []
    open_cells = [r["settle_gain"] for m in models for r in m["rows"] if r["settle"]]
    return {"platform": platform, "split": split, "nccl": nccl, "rules": len(answer["rules"]) if answer else 0,
            "cells_to_measure": len(open_cells), "most_gain_percent": round(100 * max(open_cells, default=0)),
            "why_not": why or " ".join(dict.fromkeys(m["why_not"] for m in models if m["why_not"]))}


def write_table(path, platform, rows):
    others = []
    if os.path.exists(path):
        with open(path, newline="") as f:
            others = [r for r in csv.DictReader(f) if r["platform"] != platform]
    with open(path, "w", newline="") as f:
        out = csv.DictWriter(f, COLUMNS, lineterminator="\n")
        out.writeheader()
        out.writerows(sorted(others + rows, key=lambda r: r["platform"]))


def nodes_of(rows):
    of = sorted({row["split"].count("+") + 1 for row in rows})
    return f"{of[0]} to {of[-1]}" if len(of) > 1 else f"{of[0]}"


def choices(rule):
    return {c: [(r["upto"], r.get("algo"), r.get("proto")) for r in rows] for c, rows in rule.items() if c not in ("when", "basis")}


def same_place(a, b):
    return all(a["when"].get(k) == b["when"].get(k) for k in a["when"] | b["when"] if k != "nccl")


def over_releases(by_release):
    """Rules of releases that follow each other and choose alike are one."""
    done, going, last = [], [], None
    for release, rules in by_release:
        still, minor = [], int(release.split(".")[1])
        if last is not None and minor != last + 1:
            going = []  # one in between was not asked
        last = minor
        for rule in rules:
            old = next((g for g in going if same_place(g[0], rule) and choices(g[0]) == choices(rule)), None)
            if old is None:
                old = [rule, release, release]
                done.append(old)
            for c in choices(rule):
                for mine, its in zip(old[0][c], rule[c]):
                    if "gain" in mine and its["gain"] < mine["gain"]:
                        mine.update(gain=its["gain"], us=its["us"])
            old[2] = release
            still.append(old)
        going = still
    for rule, first, end in done:
        rule["when"]["nccl"] = first if first == end else f"{first}-{end}"
    return [d[0] for d in done]


def main():
    p = argparse.ArgumentParser(usage=__doc__.replace("%", "%%"))
    p.add_argument("capo"), p.add_argument("platform"), p.add_argument("out")
    p.add_argument("--nccl", nargs="+", required=True)
    p.add_argument("--machines", nargs="+", default=[], help="others with the same links")
    p.add_argument("--table")
    p.add_argument("--nodes", type=int, default=4)
    p.add_argument("--splits", help="these alone: 5+3,8+8+4")
    p.add_argument("--work")
    o = p.parse_args()
    answers = tempfile.TemporaryDirectory()  # goes with this run
    o.work = o.work or answers.name
    capo = os.path.realpath(o.capo)

    def page(lib, *command):
        return json.loads(subprocess.run([capo, *command, "--platform", o.platform, "--json"], capture_output=True, text=True, check=True,
                                         env={**os.environ, "CAPO_NCCL": lib}).stdout)

    machine = page(o.nccl[0], "topo")
    gpus = machine["gpus"] if isinstance(machine.get("gpus"), int) else len(machine["gpus"])
    releases = {lib: page(lib, "plan", "--alloc", "2", "--sizes", "1M")["nccl"] for lib in o.nccl}
    rules, table = [], []
    for split in o.splits.split(",") if o.splits else splits(gpus, o.nodes):
        by_release = {}
        for lib in o.nccl:
            answer, why = ask(capo, o.platform, split, lib, o.work)
            if answer is None:
                print(f"{o.platform} {split} NCCL {releases[lib]}: {why}", file=sys.stderr)
            table.append(table_row(o.platform, split, releases[lib], answer, why))
            by_release[lib] = answer["rules"] if answer else []
            if not (by_release[o.nccl[0]] or o.splits):
                break
        order = sorted(by_release, key=lambda lib: [int(n) for n in releases[lib].split(".")])
        rules += over_releases([(releases[lib].rsplit(".", 1)[0], by_release[lib]) for lib in order])
    if o.table:
        write_table(o.table, o.platform, table)
    asked = len({r["split"] for r in table})
    if not rules:
        print(f"{o.platform}: nothing to predict in {asked} splits")
        return
    profile = {"capo_profile": 1, "name": f"predicted, not measured: NCCL's model for {nodes_of(r for r in table if r['rules'])} {o.platform} nodes",
               "provenance": {"tool": "profiles/derive.py", "clock": "none: predicted", "nccl": ", ".join(sorted(releases.values())),
                              "source": "NCCL's cost model on virtual GPUs, corrected by links and hops",
                              "asked": f"{asked} splits over {nodes_of(table)} nodes in every order, 1K to 8G"},
               "platform": {"machine": " ".join([o.platform, *o.machines]), "gpus_per_node": gpus}, "rules": rules}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(profile, f)
        f.flush()
        text = subprocess.run([capo, "profile", "export", f.name], capture_output=True, text=True, check=True).stdout
    with open(o.out, "w") as f:
        f.write(text)
    print(f"{o.out}: {len(rules)} rules of {asked} splits")


main()
