#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: derive.py CAPO PLATFORM OUT.json [--table CSV] [--nodes N] [--only N] [--most GPUS] [--alike] [--work DIR]    predicted rules for every split of a platform.

Asks `capo fit --model` for each way to take 2 to GPUS (32) GPUs of one to N (4) nodes, largest share first; with --alike
of three and more nodes only where all but the last give alike many. Writes the rules that both accounts of the links
expect to gain 15 % as one profile, marked modelled. A split that was asked before is not
asked again: DIR, where it is given, keeps an answer each. The profile says how many splits were asked, and with which NCCL. --only N: splits over N nodes alone.

--table writes a row per split asked: rows written, cells where the two accounts disagree about another choice than NCCL's, the
most that it would gain there by the links in per cent, and why nothing was asked. Rows of other platforms in the file stay."""
import argparse, csv, itertools, json, os, subprocess, sys, tempfile

SIZES = "1K..8G*4"
COLUMNS = ("platform", "split", "nccl", "rows_written", "cells_to_measure", "most_gain_percent", "why_not")


def splits(largest, nodes, only, most, alike):
    for n in [only] if only else range(1, nodes + 1):
        for s in itertools.combinations_with_replacement(range(largest, 0, -1), n):
            if 2 <= sum(s) <= most and (n < 3 or not alike or s[0] == s[-2]):
                yield s


def ask(capo, platform, split, work):
    """The answer to one split: the pages that fit prints, the rules it writes; None: NCCL has no answer, and why."""
    path = os.path.join(work, f"{platform}-{'+'.join(map(str, split))}.json")
    if not os.path.exists(path):
        with tempfile.TemporaryDirectory(dir=work) as tmp:
            out = os.path.join(tmp, "p.json")
            run = subprocess.run([capo, "fit", "--model", "+".join(map(str, split)), "--platform", platform, "--sizes", SIZES,
                                  "--json", "-o", out], capture_output=True, text=True, timeout=300)
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
    return {"platform": platform, "split": "+".join(map(str, split)), "nccl": nccl, "rows_written": sum(m["rows_written"] for m in models),
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


def main():
    p = argparse.ArgumentParser(usage=__doc__.replace("%", "%%"))
    p.add_argument("capo"), p.add_argument("platform"), p.add_argument("out")
    p.add_argument("--table")
    p.add_argument("--nodes", type=int, default=4)
    p.add_argument("--only", type=int)
    p.add_argument("--most", type=int, default=32)
    p.add_argument("--alike", action="store_true")
    p.add_argument("--work")
    o = p.parse_args()
    answers = tempfile.TemporaryDirectory()  # goes with this run
    o.work = o.work or answers.name
    capo = os.path.realpath(o.capo)

    def page(*command):
        return json.loads(subprocess.run([capo, *command, "--platform", o.platform, "--json"], capture_output=True, text=True, check=True).stdout)

    machine = page("topo")
    gpus = machine["gpus"] if isinstance(machine.get("gpus"), int) else len(machine["gpus"])
    release = page("plan", "--alloc", "2", "--sizes", "1M")["nccl"]
    rules, table = [], []
    for split in splits(gpus, o.nodes, o.only, o.most, o.alike):
        answer, why = ask(capo, o.platform, split, o.work)
        if answer is None:
            print(f"{o.platform} {'+'.join(map(str, split))}: {why}", file=sys.stderr)
        table.append(table_row(o.platform, split, release, answer, why))
        rules += answer["rules"] if answer else []
    if o.table:
        write_table(o.table, o.platform, table)
    asked = len(table)
    if not rules:
        print(f"{o.platform}: nothing to predict in {asked} splits")
        return
    nodes = o.only or f"1 to {o.nodes}"
    profile = {"capo_profile": 1, "name": f"predicted, not measured: NCCL {release}'s model for {nodes} {o.platform} nodes",
               "provenance": {"tool": "profiles/derive.py", "clock": "none: predicted", "nccl": release,
                              "source": "NCCL's cost model on virtual GPUs, corrected by links and hops",
                              "asked": f"{asked} splits of 2 to {o.most} GPUs over {nodes} nodes, 1K to 8G"},
               "platform": {"machine": o.platform, "gpus_per_node": gpus}, "rules": rules}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(profile, f)
        f.flush()
        text = subprocess.run([capo, "profile", "export", f.name], capture_output=True, text=True, check=True).stdout
    with open(o.out, "w") as f:
        f.write(text)
    print(f"{o.out}: {len(rules)} rules of {asked} splits")


main()
