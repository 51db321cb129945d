#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far the models are from measured placements: docs/internals/models.md has the output.

usage: model.py CAPO SOURCE_ROOT [--all]

For each measured point two models are held against the measurement: NCCL's own (real NCCL on virtual GPUs) and the same
corrected by links and hops (capo fit --model, without any measurement). Neither is taken below what the links allow (capo
topo's ceiling). Machines are described by stored topologies, or written from a data sheet here; where a set does not tell
its network, the speed is taken from one of the set's own points, and that point is marked "given". Where a set measured
several algorithms, the fastest is compared with what each model would choose.
--all also asks for more than 32 ranks. Exit status 1 when a measurement beats a ceiling computed with the wire rate of
NVLink (then the ceiling would be wrong), or when the corrected model chooses worse than NCCL's on what was measured.
"""
import csv
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

capo, root = sys.argv[1], sys.argv[2]
here = os.path.join(root, "tests/fragment/data")
stored = os.path.join(os.path.dirname(os.path.abspath(capo)), "../profiles/data")
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


def narrow(name):
    """A stored machine whose GPUs reach the rest of it over four PCIe lanes: 6 GB/s, by NCCL's constants, in place of 24."""
    text = open(os.path.join(stored, name + ".xml")).read()
    path = os.path.join(folder, name + "-narrow.xml")
    open(path, "w").write(re.sub(r'(class="0x030200"[^>]*link_width=)"16"', r'\1"4"', text))
    return path


def hgxa100_4(nic_mbs):
    """4 A100 with 4 links to each of the others (NVIDIA A100 data sheet, HGX A100 4-GPU), two per CPU, one NIC at the
    first CPU."""
    slot = 'link_speed="16.0 GT/s PCIe" link_width="16"'
    text = '<system version="1">\n'
    for cpu in range(2):
        text += f'<cpu numaid="{cpu}" affinity="ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="106">\n'
        for g in (2 * cpu, 2 * cpu + 1):
            links = "".join(f'<nvlink target="0000:1{b}:00.0" count="4" tclass="0x030200"/>' for b in range(4) if b != g)
            text += (f'<pci busid="0000:1{g}:00.0" class="0x030200" vendor="0x10de" device="0x20b0" {slot}>'
                     f'<gpu dev="{g}" sm="80" gdr="1">{links}</gpu></pci>\n')
        if cpu == 0:
            text += (f'<pci busid="0000:80:00.0" class="0x020700" vendor="0x15b3" device="0x101b" {slot}><nic>'
                     f'<net name="mlx5_0" dev="0" speed="{nic_mbs}" port="1" latency="0" guid="0x1000" maxconn="131072" '
                     f'gdr="1"/></nic></pci>\n')
        text += "</cpu>\n"
    path = os.path.join(folder, "hgxa100-4.xml")
    open(path, "w").write(text + "</system>\n")
    return path


rows = list(csv.DictReader(open(os.path.join(here, "measured/placements.csv"))))


def measured(name, allocation, collective, size):
    return float(next(r["us"] for r in rows if r["set"] == name and r["allocation"] == allocation and
                      r["collective"] == collective and int(r["bytes"]) == size))


# What the network gives is not stated here; one point says it, in Mb/s: the bus bandwidth with one GPU per node
baskerville_mbs = int(1316500000 * 1.5 / measured("baskerville-a100", "4x1", "allreduce-ring", 1316500000) * 8)

# set -> (topology, wire rate of one NVLink in GB/s, what is assumed)
machines = {
    "blinkplus-dgx1v": (os.path.join(here, "dgx1v.xml"), 25, "DGX-1V dump of the same machine; its point of GPUs 0,1 gave the "
                        "link's rate"),
    "xxrjun-h100": (os.path.join(stored, "hgxh100.xml"), 26.6, "8 H100, a 400 Gb/s NIC each"),
    "waynehacking8-h100": (os.path.join(stored, "hgxh100.xml"), 26.6, "of 8 H100"),
    "eunomia-b300": (os.path.join(stored, "hgxb200.xml"), 50, "8 B300, taken as 8 B200: the same NVLink 5"),
    "abci-a100": (variant("dgxa100", 200000, 4), 25, "8 A100, four 200 Gb/s NICs; measured with NCCL 2.8.4"),
    "vidur-a100_dgx": (narrow("dgxa100"), 25, "DGX A100; a GPU's way out is narrowed to what 2x1 got at 64 MiB (5.9 GB/s), "
                       "NICs are not"),
    "baskerville-a100": (hgxa100_4(baskerville_mbs), 25, "4 A100, one NIC; what it gives is taken from 4x1 Ring"),
    "vidur-a100_pairwise_nvlink": (os.path.join(here, "azure-nc48v4-topo.xml"), 25, "2 A100 PCIe joined by 12 links"),
}
given = {("blinkplus-dgx1v", "0,1", "allreduce"), ("vidur-a100_dgx", "2x1", "allreduce"),
         ("baskerville-a100", "4x1", "allreduce-ring")}
undescribed = {("vidur-a100_pairwise_nvlink", "1x4")}  # two pairs in one server: no description of that machine
beaten, skipped, table = [], [], []


def ranks_of(allocation):
    return eval(allocation.replace("x", "*")) if "x" in allocation else 1 + allocation.count(",")


def place_of(allocation):
    return allocation.split("x")[1] if allocation.startswith("1x") else allocation


def ask(name, allocation):
    """Every collective and size of one placement in one question; (collective, size) -> row."""
    sizes = sorted({int(r["bytes"]) // 4 * 4 for r in rows if r["set"] == name and r["allocation"] == allocation})
    page = run("fit", "--topo", machines[name][0], "--model", place_of(allocation), "--sizes", ",".join(map(str, sizes)),
               "--json")[0]
    return {(r["coll"], r["bytes"]): r for r in page["rows"]}


def best(cells, which, algo):
    """The fastest cell of these algorithms, as NCCL would choose: (name, us)."""
    names = {"ring": "Ring", "tree": "Tree", "nvls": "NVLS"}
    fit = {k: v[which] for k, v in cells.items() if not algo or k.split()[0] == names[algo]}
    return min(fit.items(), key=lambda kv: kv[1]) if fit else (None, None)


def ceiling(topo, allocation, coll, brick):
    where = ["--gpus", allocation] if "," in allocation else ["--alloc", allocation]
    page = run("topo", "--topo", topo, *where, "--json", "--brick", str(brick))
    key = {"reducescatter": "allgather", "reduce": "broadcast"}.get(coll, coll)
    nvlink, hybrid = page[key + "_gbs"], page.get("hybrid_" + key + "_gbs")
    switch = page.get("nvls_gbs") if coll == "allreduce" else 0
    return max(nvlink, hybrid or 0, switch or 0) or None


for name, allocation in dict.fromkeys((r["set"], r["allocation"]) for r in rows):
    ranks = ranks_of(allocation)
    if (name, allocation) in undescribed or (ranks > 32 and "--all" not in sys.argv):
        skipped.append((name, allocation))
        continue
    answer, most = ask(name, allocation), {}
    for row in (r for r in rows if r["set"] == name and r["allocation"] == allocation):
        size, us = int(row["bytes"]), float(row["us"])
        coll, _, algo = row["collective"].partition("-")
        cells = answer[(coll, size // 4 * 4)]["cells"]
        own, corrected = best(cells, "nccl_us", algo), best(cells, "corrected_us", algo)
        if coll not in most:
            most[coll] = ceiling(machines[name][0], place_of(allocation), coll, machines[name][1]) if ranks <= 16 else None
        if not own[1]:
            skipped.append((name, allocation, row["collective"]))
            continue
        least = size / most[coll] / 1000 if most[coll] else 0
        # NCCL's own choice, timed by the corrected model: what a model is for when nothing is chosen differently
        own_corrected = cells[own[0]]["corrected_us"]
        # 5 %: PCIe and network constants are NCCL's, a little below the wire. Two sets do not state their network.
        stated = allocation.startswith("1x") or name not in ("baskerville-a100", "vidur-a100_dgx")
        if stated and least and us < least / 1.05:
            beaten.append(f"{name} {allocation} {coll}: measured {size / us / 1000:.1f} GB/s, ceiling {most[coll]:.1f}")
        table.append(dict(name=name, allocation=allocation, coll=row["collective"], size=size, us=us,
                          nccl=max(own[1], least), model=max(own_corrected, least), most=most[coll], algo=own[0],
                          better=corrected[0], cells=cells,
                          given=(name, allocation, row["collective"]) in given and (name != "vidur-a100_dgx" or size > 60e6)))

print(f'{"set":27}{"where":6} {"collective":15}{"MiB":>7} {"measured":>9} {"NCCL":>8}{"error":>8} {"corrected":>10}{"error":>8} '
      f'{"of ceiling":>11}  by')
for r in table:
    r["errors"] = [r["nccl"] / r["us"] - 1, r["model"] / r["us"] - 1]
    shown = [r["size"] / t / 1000 for t in (r["us"], r["nccl"], r["model"])]
    share = f'{100 * r["size"] / r["us"] / 1000 / r["most"]:.0f} %' if r["most"] else ""
    print(f'{r["name"]:27}{r["allocation"]:6} {r["coll"]:15}{r["size"] / 2**20:7.0f} {shown[0]:9.1f} {shown[1]:8.1f}'
          f'{100 * r["errors"][0]:+6.0f} % {shown[2]:10.1f}{100 * r["errors"][1]:+6.0f} % {share:>10}  '
          f'{r["algo"]}{"  given" if r["given"] else ""}')
print("\nmeasured and models: algbw GB/s. error: of the time.\n")


def figures(points, which):
    e = [abs(r["errors"][which]) for r in points]
    return f"{100 * statistics.median(e):4.0f} %{100 * max(e):6.0f} %" if e else "     -       -"


print(f'{"set":27}{"points":>7}   NCCL: median, worst   corrected: median, worst   64 MiB and more: NCCL   corrected')
for name in machines:
    points = [r for r in table if r["name"] == name and not r["given"]]
    large = [r for r in points if r["size"] > 60e6]
    if points:
        print(f"{name:27}{len(points):7}       {figures(points, 0)}            {figures(points, 1)}"
              f"          {figures(large, 0)}   {figures(large, 1)}")
for name in machines:
    print(f"  {name}: {machines[name][2]}")

# Where several algorithms were measured: the fastest, and what each model takes for the fastest of these
print("\nchoice among the algorithms measured")
worse = 0
groups = {}
for r in table:
    if "-" in r["coll"]:
        groups.setdefault((r["name"], r["allocation"], r["coll"].split("-")[0], r["size"]), []).append(r)
for key, group in groups.items():
    def pick(which):
        return min(group, key=lambda r: r[which])["coll"].split("-")[1]

    us = {r["coll"].split("-")[1]: r["us"] for r in group}
    fastest, own, corrected = min(us.values()), pick("nccl"), pick("model")
    mark = ["right" if us[p] <= fastest * 1.03 else f"{100 * (us[p] / fastest - 1):.0f} % slower" for p in (own, corrected)]
    worse += us[corrected] > us[own] * 1.03
    print(f'  {key[0]:20}{key[1]:5}{group[0]["size"] / 2**20:7.0f} MiB   measured {", ".join(f"{a} {t:.0f}" for a, t in us.items())} us'
          f'   NCCL {own}: {mark[0]}   corrected {corrected}: {mark[1]}')
for s in sorted(set(skipped)):
    print("not modelled:", *s)
for b in beaten:
    print("ABOVE THE CEILING:", b)
if worse:
    print("THE CORRECTED MODEL CHOOSES WORSE:", worse)
shutil.rmtree(folder)
sys.exit(1 if beaten or worse else 0)
