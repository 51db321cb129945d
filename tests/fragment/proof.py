#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: proof.py CAPO LIBNCCL...    what a user is told of 20 usual fragments, checked against NCCL's own table and the ceilings.

Five splits of 8 GPUs on four machines, each with every libnccl. `capo fit --model` is the advice. What it builds on is asked by other
ways: NCCL's table by `capo explain`, its choice by `capo plan`, the ceiling by `capo topo`. Of every row: NCCL's cells are NCCL's; no
bandwidth is above the ceiling; a rule gains 20 % by both accounts; an order that is named as the best is as fast as said when it is
asked by itself. Prints the table of docs/internals/models.md. Exit status 1: something does not hold."""
import json, os, subprocess, sys

capo, libs = os.path.realpath(sys.argv[1]), sys.argv[2:]
SPLITS, MACHINES, SIZE = ("3+5", "1+7", "2+6", "4+4", "1+3+4"), ("hgxh100", "dgxa100", "p5", "hgxb200"), 1 << 30
failed = 0


def ask(lib, *words):
    done = subprocess.run([capo, *words], capture_output=True, text=True, timeout=900, env={**os.environ, "CAPO_NCCL": lib})
    if done.returncode:
        raise RuntimeError(f"capo {' '.join(words)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def check(what, holds):
    global failed
    if not holds:
        failed += 1
        print("FAIL", what)


def near(a, b):
    return abs(a - b) <= 0.002 * abs(b)


def advice(lib, machine, split):
    model = ask(lib, "fit", "--model", split, "--platform", machine, "--sizes", "1G", "--json")[0]
    return model, next(r for r in model["rows"] if r["coll"] == "allreduce")


def one(lib, machine, split):
    model, row = advice(lib, machine, split)
    place = ("--platform", machine, "--alloc", split)
    plan = ask(lib, "plan", *place, "--sizes", "1G", "--json")
    explain = ask(lib, "explain", "allreduce", "1G", *place, "--json")
    ceiling = ask(lib, "topo", *place, "--json")["best_allreduce_gbs"]
    where, ranks = f"{machine} {split} NCCL {plan['nccl']}", plan["ranks"]
    bus = 2 * (ranks - 1) / ranks
    own = plan["rows"][0]["default"]
    check(f"{where}: fit says that NCCL picks {row['nccl']}, plan {own['algo']} {own['proto']}", row["nccl"] == f"{own['algo']} {own['proto']}")
    table = {f"{c['algo']} {c['proto']}": c["us"] for c in explain["candidates"] if c["us"] is not None and c["us"] > 0}
    for name, cell in row["cells"].items():
        check(f"{where}: {name} is {table.get(name)} in NCCL's table, {cell['nccl_us']} in fit's", name in table and near(table[name], cell["nccl_us"]))
        for account in ("corrected_us", "links_us"):
            gbs = SIZE / 1e3 / cell[account]
            check(f"{where}: {name} {gbs:.1f} GB/s by {account}, above the ceiling of {ceiling:.1f}", not ceiling or gbs <= 1.001 * ceiling)
    mine = row["cells"][row["nccl"]]
    rule = experiment = "-"
    if row["written"]:
        best = row["cells"][row["best"]]
        gain = min(1 - best[a] / mine[a] for a in ("corrected_us", "links_us"))
        check(f"{where}: the rule {row['best']} gains {gain:.1%}", gain >= 0.2)
        rule = f"{row['best']} {gain:.0%}"
    if row["settle"]:
        gain = max(1 - row["cells"][row["settle"]][a] / mine[a] for a in ("corrected_us", "links_us"))
        check(f"{where}: {row['settle']} is to be measured for {gain:.1%}", gain >= 0.2 and near(gain, row["settle_gain"]))
        experiment = f"{row['settle']} up to {gain:.0%}"
    order = "any"
    if model["orders"]:
        best, own = (min(model["orders"], key=lambda o: o[key]) for key in ("best_us", "own_us"))
        if own["own_us"] < 0.99 * model["orders"][0]["own_us"]:
            order = own["layout"]
            again = advice(lib, machine, order)[1]
            check(f"{where}: {order} is said to take {own['own_us']} us", near(again["cells"][again["nccl"]]["corrected_us"], own["own_us"]))
        elif best["best_us"] <= 0.8 * model["orders"][0]["best_us"]:
            order = best["layout"]
            again = advice(lib, machine, order)[1]
            check(f"{where}: {order} is said to take {best['best_us']} us", near(min(c["corrected_us"] for c in again["cells"].values()), best["best_us"]))
    gbs = SIZE / 1e3 / mine["corrected_us"] * bus
    print(f"| {machine} {split} | {plan['nccl'].rsplit('.', 1)[0]} | {row['nccl']} {gbs:.0f} | {ceiling * bus:.0f} | {order} | {rule} | {experiment} |", flush=True)


print("| machine, split | NCCL | its choice at 1 GiB, GB/s (bus) | no software exceeds | best order | rule | experiment |\n|---|---|---|---|---|---|---|")
for machine in MACHINES:
    for split in SPLITS:
        for lib in libs:
            one(lib, machine, split)
print(f"{len(MACHINES) * len(SPLITS)} questions, {len(libs)} releases, {failed} failures", file=sys.stderr)
sys.exit(failed > 0)
