# SPDX-License-Identifier: Apache-2.0
"""What capo costs a whole job: a program alone and recorded in many short turns, and the median of the turns' ratios.

A turn is one run of each, one after the other, the first by turns; so what else the machine does falls on both, and what it
does to one turn does not move the median.
"""
import json
import os
import statistics
import subprocess
import sys
import time

import referee

RANKS = 2
TRAINED = ("ddp", "fsdp")  # what programs/steps.py does
WAYS = {"alone": [], "capo run": ["run", "--quiet"], "capo run, every call on disk": ["run", "--quiet", "--trace", "all", "--sample", "1"]}
# what is measured of a run: its name, unit
KINDS = {"wall": "s", "cpu": "s", "rss": "MB", "steps wall": "s", "steps cpu": "s"}


def run(build, folder, env, words, number, of):
    """{kind: value} of one run of programs/steps.py; CPU time and memory are of all its processes, memory of the largest."""
    command = referee.launched(build, RANKS, "steps")
    if words:
        command = [os.path.join(build, "cli", "capo"), *words, "--dir", os.path.join(folder, f"logs-{of}-{number}"), "--"] + command
    env = dict(env, STEPS_FILE=os.path.join(folder, "steps.json"), STEPS_OF=of)
    begin = time.monotonic()
    with open(os.path.join(folder, "cost.err"), "w") as err:
        job = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err)
        _, status, used = os.wait4(job.pid, 0)
    job.returncode = status
    if status:
        sys.exit(f"cost: the program ends with status {status}; see {folder}/cost.err")
    with open(env["STEPS_FILE"]) as f:
        steps = json.load(f)
    return {"wall": time.monotonic() - begin, "cpu": used.ru_utime + used.ru_stime, "rss": used.ru_maxrss / 1e3,
            "steps wall": steps["wall"], "steps cpu": steps["cpu"]}


def measure(build, folder, env, turns, of):
    """Prints a table of medians over @turns turns of training with @of (ddp, fsdp): alone, and of each other way the ratio to it, with the quarters
    of the turns."""
    os.makedirs(folder, exist_ok=True)
    got = {way: [] for way in WAYS}
    try:
        for turn in range(turns):
            ways = list(WAYS)
            for way in ways[turn % len(ways):] + ways[:turn % len(ways)]:
                got[way].append(run(build, folder, env, WAYS[way], turn, of))
    except KeyboardInterrupt:  # what there is by then; quartiles want two turns
        turns = min(len(runs) for runs in got.values())
        if turns < 2:
            raise
        got = {way: runs[:turns] for way, runs in got.items()}
    print(f"{of}, {turns} turns, {RANKS} ranks; median alone; median of the turns' ratios to it (and its quartiles)")
    print("| of the job | alone | " + " | ".join(way for way in WAYS if WAYS[way]) + " |")
    print("| --- " * (len(WAYS) + 1) + "|")
    for kind, unit in KINDS.items():
        row = [kind, f"{statistics.median(r[kind] for r in got['alone']):.3g} {unit}"]
        for way in WAYS:
            if WAYS[way]:
                ratios = [r[kind] / alone[kind] for r, alone in zip(got[way], got["alone"])]
                low, middle, high = statistics.quantiles(ratios, n=4)
                row.append(f"{middle:.3f} ({low:.3f} to {high:.3f})")
        print("| " + " | ".join(row) + " |", flush=True)
