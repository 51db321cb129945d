#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far the model is from measured placements: docs/fragments.md has its output.

usage: model.py CAPO SOURCE_ROOT [--all]

For each measured point real NCCL is asked on virtual GPUs (capo plan), its time is never taken below what the links allow
(capo topo's ceiling), and both are held against the measurement. Machines are described by stored topologies; where a set
does not tell its network, the speed is taken from the set's own first split point, and that point is marked "given".
Exit status 1 when a measurement beats a ceiling computed with the wire rate of NVLink: then the ceiling would be wrong.
"""
import csv
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

capo, root = sys.argv[1], sys.argv[2]
here = os.path.join(root, "tests/fragment/data")
stored = os.path.join(root, "profiles/data/topologies")
folder = tempfile.mkdtemp()


def run(*words):
    r = subprocess.run([capo, *words], capture_output=True, text=True, timeout=300)
    if r.returncode:
        raise RuntimeError(r.stderr.strip())
    return json.loads(r.stdout)


def variant(name, nic_mbs, nics):
    """A stored machine with this many NICs of this speed, spread over its GPUs."""
    text = open(os.path.join(stored, name + ".xml")).read()
    text = re.sub(r'speed="\d+"', f'speed="{int(nic_mbs)}"', text)
    every, count = len(re.findall(r"<net ", text)) // nics, [0]

    def keep(m):
        count[0] += 1
        return m.group(0) if (count[0] - 1) % every == 0 else ""

    text = re.sub(r"<net [^>]*/>", keep, text)
    path = os.path.join(folder, f"{name}-{int(nic_mbs)}-{nics}.xml")
    open(path, "w").write(text)
    return path


# set -> (topology, wire rate of one NVLink in GB/s, what is assumed)
machines = {
    "blinkplus-dgx1v": (os.path.join(here, "dgx1v.xml"), 25, "DGX-1V dump of the same machine"),
    "xxrjun-h100": (os.path.join(stored, "hgxh100.xml"), 26.6, "8 H100, a 400 Gb/s NIC each"),
    "vidur-a100_dgx": (None, 25, "DGX A100 with a NIC per two GPUs; the network is not stated: NIC speed from 2x1 at 64 MiB"),
    "baskerville-a100": (variant("dgxa100", 200000, 1), 25, "4 of a DGX A100, one 200 Gb/s NIC; ratios to 4x1 Ring only"),
    "vidur-a100_pairwise_nvlink": (os.path.join(here, "azure-nc48v4-topo.xml"), 25, "2 A100 PCIe joined by 12 links"),
}

rows = list(csv.DictReader(open(os.path.join(here, "measured/placements.csv"))))
slow = {("xxrjun-h100", "10x4"), ("xxrjun-h100", "10x8")}
asked, beaten, skipped, table = {}, [], [], []


def ask(topo, allocation, coll, size, algo):
    key = (topo, allocation, coll, size, algo)
    if key not in asked:
        where = ["--gpus", allocation] if "," in allocation else ["--alloc", allocation]
        if algo:
            os.environ["NCCL_ALGO"] = f"allreduce:{algo}"
        try:
            page = run("plan", "--topo", topo, *where, "--coll", coll, "--sizes", str(size), "--json")
        finally:
            os.environ.pop("NCCL_ALGO", None)
        asked[key] = page["rows"][0]["default"]
    return asked[key]


def ceiling(topo, allocation, coll, brick):
    where = ["--gpus", allocation] if "," in allocation else ["--alloc", allocation]
    page = run("topo", "--topo", topo, *where, "--json", "--brick", str(brick))
    key = {"allreduce": "allreduce", "allgather": "allgather", "reducescatter": "reducescatter"}[coll]
    nvlink, hybrid = page[key + "_gbs"], page.get("hybrid_" + key.replace("reducescatter", "allgather") + "_gbs")
    return max(nvlink, hybrid or 0) or None


vidur_nic = None
for row in rows:
    name, allocation, size, us = row["set"], row["allocation"], int(row["bytes"]), float(row["us"])
    coll, _, algo = row["collective"].partition("-")
    if (name, allocation) in slow and "--all" not in sys.argv:
        skipped.append((name, allocation))
        continue
    topo, wire, _ = machines[name]
    given = False
    if name == "vidur-a100_dgx":
        if vidur_nic is None:  # the largest point of 2x1 settles the network
            largest = max((r for r in rows if r["set"] == name and r["allocation"] == "2x1"), key=lambda r: int(r["bytes"]))
            vidur_nic = int(largest["bytes"]) / float(largest["us"]) / 1000 * 8000
        topo = variant("dgxa100", vidur_nic, 4)
        given = allocation == "2x1" and size > 60e6
    if name == "vidur-a100_pairwise_nvlink" and allocation != "1x2":
        skipped.append((name, allocation))  # two pairs in one server: no description of that machine
        continue
    place = allocation.split("x")[1] if allocation.startswith("1x") else allocation
    try:
        d = ask(topo, place, coll, size, algo)
    except (RuntimeError, subprocess.TimeoutExpired) as why:
        print(f"{name} {allocation}: {why}", file=sys.stderr)
        skipped.append((name, allocation))
        continue
    ranks = eval(allocation.replace("x", "*")) if "x" in allocation else 2
    most = ceiling(topo, place, coll, wire) if ranks <= 16 else None
    if d["us"] is None:
        skipped.append((name, allocation))
        continue
    model = d["us"]
    if most:
        model = max(model or 0, size / most / 1000)
        # 5 %: PCIe and network constants are NCCL's, a little below the wire. Two sets do not state network or buffer.
        stated = name != "baskerville-a100" and not (name == "vidur-a100_dgx" and not allocation.startswith("1x"))
        if stated and size / us / 1000 > most * 1.05:
            beaten.append(f"{name} {allocation} {coll}: measured {size / us / 1000:.1f} GB/s, ceiling {most:.1f}")
    table.append(dict(name=name, allocation=allocation, coll=row["collective"], size=size, us=us, model=model, given=given,
                      algo=f'{d["algo"]} {d["proto"]}', most=most))

# the buffer of that set is not stated: only times of one placement against another mean something
base = next((r for r in table if r["name"] == "baskerville-a100" and r["allocation"] == "4x1" and "ring" in r["coll"]), None)
print(f'{"set":27} {"where":6} {"collective":15} {"size MiB":>9} {"measured":>9} {"model":>9} {"error":>7} {"of ceiling":>10}  by')
for r in table:
    if r["name"] == "baskerville-a100" and base:
        got, want = r["model"] / base["model"], r["us"] / base["us"]
        r["error"] = got / want - 1
        text = f'{want:8.2f}x {got:8.2f}x'
        share = ""
    else:
        r["error"] = r["model"] / r["us"] - 1
        text = f'{r["size"] / r["us"] / 1000:9.1f} {r["size"] / r["model"] / 1000:9.1f}'
        share = f'{100 * r["size"] / r["us"] / 1000 / r["most"]:.0f} %' if r["most"] else ""
    print(f'{r["name"]:27} {r["allocation"]:6} {r["coll"]:15} {r["size"] / 2**20:9.1f} {text} {100 * r["error"]:+6.0f} % '
          f'{share:>9}  {r["algo"]}{"  given" if r["given"] else ""}')
print("\nmeasured, model: algbw GB/s (baskerville: times the time of 4x1 Ring). error: of the time.\n")
for name in machines:
    errors = [abs(r["error"]) for r in table if r["name"] == name and not r["given"]]
    large = [abs(r["error"]) for r in table if r["name"] == name and not r["given"] and r["size"] > 60e6]
    if errors:
        print(f'{name:27} {len(errors):3} points, median error {100 * statistics.median(errors):3.0f} %, worst '
              f'{100 * max(errors):4.0f} %; 64 MiB and more: median {100 * statistics.median(large or [0]):3.0f} %   '
              f'({machines[name][2]})')
for s in sorted(set(skipped)):
    print("not modelled:", *s)
for b in beaten:
    print("ABOVE THE CEILING:", b)
sys.exit(1 if beaten else 0)
