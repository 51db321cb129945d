#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: decisions.py CAPO [--check]    public cases in which more than one choice was measured, and who chose what.

data/decisions.csv has the measurements with their sources. For each case: what NCCL chose there (as the source says), what
NCCL chooses when capo plan asks it, what fit --model chooses without any measurement, and what capo fit makes of the
measurements as published, one run each, and of the same three times.

right: within 2 % of the best measured; missed: a faster choice was there; HARMFUL: more than 3 % slower than NCCL's own choice;
-: not known, or nothing to ask. --check fails when a column has fewer right or more harmful than GOALS."""
import collections, csv, json, os, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
COLUMNS = ("NCCL", "plan", "model", "fit 1x", "fit 3x")
GOALS = {"fit 1x": (9, 0), "fit 3x": (19, 0), "model": (0, 0)}  # right at least, harmful at most


def read_cases():
    cases = collections.OrderedDict()
    with open(os.path.join(HERE, "data", "decisions.csv")) as f:
        for row in csv.DictReader(line for line in f if not line.startswith("#")):
            case = cases.setdefault(row["case"], {"head": row, "times": {}, "own": None})
            name = (row["algo"] + " " + row["proto"]).strip() or "NCCL's"
            time = float(row["us"]) if row["us"] else 1e9 / float(row["busbw"] or 1)  # only ratios count
            case["times"][name] = 0 if row["faster"] else time
            if row["nccl_chose"]:
                case["own"] = name
    return cases


def score(case, choice):
    """@choice: a name of case["times"], or None."""
    times = case["times"]
    known = [n for n in times if choice and (n == choice or n.split()[0] == choice.split()[0] and (" " not in n or " " not in choice))]
    if not known:
        return "-"
    if times[known[0]] <= 1.02 * min(times.values()):
        return "right"
    own = case["own"] and times[case["own"]]
    return "HARMFUL" if own and times[known[0]] > 1.03 * own else "missed"


def ask_model(capo, case):
    """What NCCL on virtual GPUs chooses, and what fit --model would have it choose."""
    head = case["head"]
    if not head["platform"]:
        return None, None
    env = dict(os.environ, **dict(s.split("=") for s in head["settings"].split() if s))
    run = subprocess.run([capo, "fit", "--model", head["alloc"], "--platform", head["platform"], "--sizes", head["bytes"], "--json"],
                         capture_output=True, text=True, env=env)
    if run.returncode:
        return None, None
    for row in json.loads(run.stdout)[0]["rows"]:
        if row["coll"] == head["coll"]:
            return row["nccl"], row["best"] if row["written"] else row["nccl"]
    return None, None


def ask_fit(capo, case, runs):
    """Sweep CSV as NVIDIA's example tuner takes it; each run 0.2 % apart, as public sets repeat."""
    own = case["own"]
    if not own or not all(case["times"].values()):
        return None
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as f:
        print("collective,size_bytes,algorithm,protocol,channels,nodes,ranks,latency_us", file=f)
        for run in range(runs):
            for name, us in [("default default", case["times"][own])] + [i for i in case["times"].items() if i[0] != own]:
                algo, proto = (name.split() + ["Simple"])[:2]
                print(f"{case['head']['coll']},{int(case['head']['bytes']) or 1 << 30},"
                      f"{algo.lower()},{proto.lower()},-1,1,8,{us * (1 + 0.002 * (run - 1)):.6f}", file=f)
        f.flush()
        page = json.loads(subprocess.run([capo, "fit", "--json", f.name], capture_output=True, text=True, check=True).stdout)
    chosen = page["series"][0]["points"][0]["chosen"]
    return own if chosen == "leave" else chosen


def main():
    capo = os.path.realpath(sys.argv[1])
    counts = {c: collections.Counter() for c in COLUMNS}
    print(f"{'case':<12} {'best measured':<16} {'gain':>6}  " + "  ".join(f"{c:<8}" for c in COLUMNS) + "  source")
    for name, case in read_cases().items():
        best = min(case["times"], key=case["times"].get)
        known = case["own"] and case["times"][best]
        gain = f"{100 * (1 - case['times'][best] / case['times'][case['own']]):.0f} %" if known else "-"
        plan, model = ask_model(capo, case)
        answers = (case["own"], plan, model, ask_fit(capo, case, 1), ask_fit(capo, case, 3))
        verdicts = [score(case, a) for a in answers]
        for column, verdict in zip(COLUMNS, verdicts):
            counts[column][verdict] += 1
        print(f"{name:<12} {best:<16} {gain:>6}  " + "  ".join(f"{v:<8}" for v in verdicts) + f"  {case['head']['source']}")
    print(f"{'right':<37}" + "  ".join(f"{counts[c]['right']:<8}" for c in COLUMNS))
    print(f"{'missed':<37}" + "  ".join(f"{counts[c]['missed']:<8}" for c in COLUMNS))
    print(f"{'harmful':<37}" + "  ".join(f"{counts[c]['HARMFUL']:<8}" for c in COLUMNS))
    bad = [c for c, (right, harmful) in GOALS.items() if counts[c]["right"] < right or counts[c]["HARMFUL"] > harmful]
    if "--check" in sys.argv and bad:
        sys.exit(f"worse than the goals: {', '.join(bad)}")


main()
