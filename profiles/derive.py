#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: derive.py CAPO PLATFORM OUT.json [--nodes N] [--only N] [--most GPUS] [--work DIR]    predicted rules for every split of a platform.

Asks `capo fit --model` for each way to take 2 to GPUS (32) GPUs of one or two nodes, and of three to N (4) nodes for those in
which all nodes but the last have alike many, largest share first. Writes the rules that both accounts of the links
expect to gain 15 % as one profile, marked modelled. A split that was asked before is not
asked again: DIR keeps an answer each. The profile says how many splits were asked, and with which NCCL. --only N: splits over N nodes alone."""
import argparse, itertools, json, os, re, subprocess, sys, tempfile

SIZES = "1K..8G*4"


def splits(largest, nodes, only, most):
    for n in [only] if only else range(1, nodes + 1):
        for s in itertools.combinations_with_replacement(range(largest, 0, -1), n):
            if 2 <= sum(s) <= most and (n < 3 or s[0] == s[-2]):
                yield s


def ask(capo, platform, split, work):
    """The profile of one split; None: NCCL has no answer, and why."""
    path = os.path.join(work, f"{platform}-{'+'.join(map(str, split))}.json")
    if not os.path.exists(path):
        with tempfile.TemporaryDirectory(dir=work) as tmp:
            out = os.path.join(tmp, "p.json")
            run = subprocess.run([capo, "fit", "--model", "+".join(map(str, split)), "--platform", platform, "--sizes", SIZES,
                                  "-o", out], capture_output=True, text=True, timeout=300)
            if run.returncode:
                return None, run.stderr.strip().splitlines()[-1:]
            if not os.path.exists(out):
                nccl = re.search(r"NCCL (\d+\.\d+\.\d+)", run.stdout)
                with open(out, "w") as f:
                    json.dump({"provenance": {"nccl": nccl and nccl.group(1)}, "rules": []}, f)
            os.rename(out, path)
    with open(path) as f:
        return json.load(f), None


def main():
    p = argparse.ArgumentParser(usage=__doc__.replace("%", "%%"))
    p.add_argument("capo"), p.add_argument("platform"), p.add_argument("out")
    p.add_argument("--nodes", type=int, default=4)
    p.add_argument("--only", type=int)
    p.add_argument("--most", type=int, default=32)
    p.add_argument("--work", default=".")
    o = p.parse_args()
    capo = os.path.realpath(o.capo)
    machines = json.loads(subprocess.run([capo, "topo", "--platform", o.platform, "--json"], capture_output=True, text=True, check=True).stdout)
    gpus = machines["gpus"] if isinstance(machines.get("gpus"), int) else len(machines["gpus"])
    rules, asked, releases = [], 0, set()
    for split in splits(gpus, o.nodes, o.only, o.most):
        answer, why = ask(capo, o.platform, split, o.work)
        if answer is None:
            print(f"{o.platform} {'+'.join(map(str, split))}: {why}", file=sys.stderr)
            continue
        asked += 1
        releases.add(answer["provenance"]["nccl"])
        rules += answer["rules"]
    if not rules:
        print(f"{o.platform}: nothing to predict in {asked} splits")
        return
    nodes = o.only or f"1 to {o.nodes}"
    profile = {"capo_profile": 1, "name": f"predicted-{o.platform}",
               "provenance": {"tool": "profiles/derive.py", "clock": "none: predicted", "nccl": ", ".join(sorted(filter(None, releases))),
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
