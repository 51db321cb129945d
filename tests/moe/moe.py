#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs of NCCL EP under capo, compared with what they call: moe.py CAPO BUILD JOB

JOB is a row of JOBS below. The counts and bytes of every rank's log must be exact, and the job must end as it does alone.
"""
import json
import os
import subprocess
import sys
import tempfile

capo, build, which = sys.argv[1:]
RANKS, TOKENS, HIDDEN, TOPK, LAYERS, STEPS = 4, 24, 32, 2, 4, 5
BYTES = TOKENS * HIDDEN * 2 * TOPK
EVENTS = {"EpCreateGroup": 1, "EpInitHandle": 1, "EpUpdateHandle": LAYERS * STEPS, "EpHandleDestroy": 1, "EpGroupDestroy": 1}
JOBS = {
    "low-latency": ([], "ep-ll", "LL", {}),
    "high-throughput": (["--high-throughput"], "ep-ht", "HT", {}),
    "staged": (["--staged"], "ep-ll", "LL-send", {("EpComplete", 0): 2 * LAYERS * STEPS}),
}
args, group, ran, more = JOBS[which]


def run(*command, env=None):
    p = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", timeout=200, check=False)
    if p.returncode:
        sys.exit(f"{' '.join(command)}: {p.returncode}\n{p.stdout}")
    return p.stdout


def expect(what, found, wanted):
    if found != wanted:
        sys.exit(f"{which}: {what}: found {found}, expected {wanted}")


with tempfile.TemporaryDirectory() as folder:
    env = {**os.environ, "LD_PRELOAD": f"{build}/shim/libcapo.so", "CAPO_DIR": folder, "CAPO_GPU_SAMPLE": "1"}
    said = run(f"{build}/tests/jobs/launch", "-n", str(RANKS), "--", f"{build}/tests/jobs/moe_train", *args, env=env)
    expect("the job's own check", said.splitlines()[-2 if "issued" in said else -1], f"right: {STEPS * LAYERS * TOKENS} combined tokens per rank")
    if "size and bandwidth at most" not in run(capo, "report", folder):
        sys.exit("the page does not say that sizes are at most")
    page = json.loads(run(capo, "report", "--json", folder))

comms = [c["name"] for c in page["comms"]]
found = {(comms[r["comm"]], r["call"], r["bytes"], r["algo"], r["proto"]): r["calls"] for r in page["rows"]}
wanted = {(group, "EpDispatch", BYTES, "ep", ran): RANKS * LAYERS * STEPS, (group, "EpCombine", BYTES, "ep", ran): RANKS * LAYERS * STEPS,
          ("world", "AllReduce", 16384, None, None): RANKS * STEPS}
wanted.update({(group, call, size, "ep", "LL"): RANKS * n for (call, size), n in more.items()})
expect("rows", found, wanted)
other = {c["call"]: c["calls"] for c in page["other_calls"] if c["call"].startswith("Ep")}
expect("calls without data", other, {call: RANKS * n for call, n in EVENTS.items()})
expect("dropped", page["dropped"], 0)
load = [(t["calls"], t["tokens_mean"], t["tokens_least"], t["tokens_most"], t["low_rank"]) for t in page["tokens"]]
expect("tokens", load, [(RANKS * LAYERS * STEPS, TOKENS, TOKENS, TOKENS, None)])
parents = {c["name"]: c["parent"] for c in page["comms"] if "parent" in c}
expect("the group's parent", comms[parents[group]], "world")
if not any("topk=2 experts=8 hidden=32" in json.dumps(s) for s in page["sites"]):
    sys.exit(f"no call site says what was asked for: {page['sites']}")
clocks = {r["clock"] for r in page["rows"] if r["call"].startswith("Ep")}
expect("clocks", clocks, {"event"})
if which == "low-latency":
    steps = {(comms[p["comm"]], p["call"], p["count"]) for p in page["steps"]["parts"]}
    expect("a step", steps, {(group, "EpDispatch", LAYERS), (group, "EpCombine", LAYERS), ("world", "AllReduce", 1)})
    expect("steps", page["steps"]["total"], STEPS)
