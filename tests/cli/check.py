#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""capo check: one node against what is expected, nodes against each other, nodes that meet in a folder."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

capo, nvml = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
clean = {k: v for k, v in os.environ.items()
         if not k.startswith(("NCCL_", "FI_", "CAPO_", "SLURM_", "OMPI_", "PMI", "RANK", "WORLD_SIZE", "LOCAL_"))}
bad = []


def check(*words, **settings):
    # The machine may be busy: only who asks for a limit is to meet one.
    words = words if "--limit" in words or "--merge" in words else ("--limit", "250", *words)
    return subprocess.run([capo, "check", *words], capture_output=True, text=True, timeout=300,
                          env={**clean, "HOME": folder, **settings})


def expect(status, text, run):
    if run.returncode != status or text not in run.stdout + run.stderr:
        bad.append(f"{run.args[1:]}: status {run.returncode}, expected {status} and {text!r}:\n{run.stdout}{run.stderr}")


def warnings(*pages):
    """How many these nodes have together, as the last line of a page says: at least that no GPU is here; a machine may have more."""
    n = sum(f["level"] == "warn" for page in pages for node in page["nodes"] for f in node["findings"])
    return f"{n} warning{'s' * (n != 1)}"


def nodes(*changes):
    """Pages of nodes like this one, each with some facts of its own, as launchers print them."""
    with open(f"{folder}/nodes", "w") as out:
        for i, change in enumerate(changes):
            page = json.loads(one.stdout)
            node = page["nodes"][0]
            node["node"] = f"node{i}"
            node["facts"].update(change)
            print(f"[1,{i}]<stdout>:{json.dumps(page, separators=(',', ':'))}", file=out)
    return f"{folder}/nodes"


with tempfile.TemporaryDirectory() as folder:
    sysfs = f"{folder}/sys"
    os.makedirs(f"{sysfs}/class")
    one = check("--json", CAPO_SYSFS=sysfs)
    page = json.loads(one.stdout)
    assert page["capo_check"] == 1 and page["verdict"].startswith("ready") and not one.returncode, one
    assert {"kernel", "glibc", "capo", "cpus", "memory"} <= set(page["nodes"][0]["facts"]), page
    assert "ulimit -n" in page["nodes"][0]["facts"], page
    plugins = []
    for text in ("one", "two"):  # equal paths, other files
        os.makedirs(f"{folder}/ofi", exist_ok=True)
        with open(f"{folder}/ofi/libnccl-net.so", "w") as out:
            out.write(text)
        facts = json.loads(check("--json", CAPO_SYSFS=sysfs, LD_LIBRARY_PATH=f"{folder}/ofi").stdout)["nodes"][0]["facts"]
        plugins.append(facts["net plugin"])
    assert plugins[0] != plugins[1] and all(f"{folder}/ofi/libnccl-net.so, 3 bytes, " in p for p in plugins), plugins
    expect(0, "a preload works", check(CAPO_SYSFS=sysfs))
    made = f"{folder}/slow/class/infiniband"
    for nic, rate, lanes, errors in (("mlx5_0", "400 Gb/sec (4X NDR)", "16", "0"), ("mlx5_1", "200 Gb/sec (4X HDR)", "8", "7")):
        for name, text in (("ports/1/rate", rate), ("ports/1/state", "4: ACTIVE"), ("ports/1/link_layer", "InfiniBand"), ("device/current_link_width", lanes),
                           ("device/max_link_width", "16"), ("ports/1/counters/symbol_error", errors)):
            os.makedirs(os.path.dirname(f"{made}/{nic}/{name}"), exist_ok=True)
            with open(f"{made}/{nic}/{name}", "w") as out:
                out.write(text + "\n")
    for text in ("mlx5_1 has 8 PCIe lanes, it could have 16", "mlx5_1 has counted errors since its driver was loaded: symbol_error 7",
                 "unequal rates: mlx5_0 has 400 Gb/sec (4X NDR), but mlx5_1 200 Gb/sec"):
        expect(0, text, check("--wide", CAPO_SYSFS=f"{folder}/slow"))
    assert "mlx5_0 has 16" not in check("--wide", CAPO_SYSFS=f"{folder}/slow").stdout
    expect(1, "0 GPUs are here, 8 are expected", check("--gpus", "8", CAPO_SYSFS=sysfs))
    expect(1, "0 GPUs are here, 8 are expected", check("--platform", "p5", CAPO_SYSFS=sysfs))
    expect(1, "32 are expected", check("--platform", "p5", CAPO_SYSFS=sysfs))
    expect(2, "", check("--gpus", "many"))
    expect(0, "warn  gpu        no NVIDIA GPU is here", check(CAPO_SYSFS=sysfs))
    none = check("--gpus", "0", CAPO_SYSFS=sysfs)
    assert "0 GPUs, as expected" in none.stdout and "no NVIDIA GPU" not in none.stdout, none
    for words in (["--platform", "nope"], ["--topo", f"{folder}/nothing"], ["nothing"]):
        wrong = check(*words, CAPO_SYSFS=sysfs)
        assert wrong.returncode == 2 and not wrong.stdout and wrong.stderr, wrong

    # Four GPUs with NVLinks to each other, one link of GPU 2 not active.
    bus = [f"0000:0{i + 1}:00.0" for i in range(4)]
    with open(f"{folder}/nvml", "w") as out:
        for i in range(4):
            print(f"gpu {bus[i]} GPU-{i}", file=out)
            for k in range(4):
                if k != i and (i, k) != (2, 3):
                    print(f"link {bus[k]}", file=out)
    made = {"CAPO_TEST_NVML": f"{folder}/nvml", "LD_LIBRARY_PATH": nvml, "CAPO_SYSFS": sysfs}
    expect(0, "active NVLinks: GPU 2 has 2, another GPU has 3", check("--gpus", "4", **made))
    expect(1, "", check("--gpus", "4", "--strict", **made))
    expect(1, "4 GPUs are here, 8 are expected", check("--platform", "dgx1v", **made))

    # A driver that never answers, as of a GPU that has failed: asked once, in a process of its own.
    with open(f"{folder}/stuck", "w") as out:
        print("hang", file=out)
    stuck = check("--wait", "0.5", **{**made, "CAPO_TEST_NVML": f"{folder}/stuck"})
    expect(1, "FAIL  gpu        the NVIDIA driver: NVML does not answer within 0.5 s", stuck)
    begin = time.monotonic()
    stuck = check("--limit", "1000", **{**made, "CAPO_TEST_NVML": f"{folder}/stuck"})
    took = time.monotonic() - begin
    expect(1, "FAIL  gpu        the NVIDIA driver: NVML does not answer within 5 s", stuck)
    expect(1, "a preload works", stuck)
    if not 5 <= took < 300:
        bad.append(f"a driver that never answers cost {took:.1f} s, expected 5 and what else is looked at")
    # What no limit of its own ends: the whole look is given up, what was found stays, and the node is not compared.
    endless = {**made, "CAPO_TEST_NVML": f"{folder}/stuck"}
    begin = time.monotonic()
    given_up = check("--limit", "3", "--wait", "1000", **endless)
    took = time.monotonic() - begin
    expect(1, "no end within 3 s while looking at ", given_up)
    if not 3 <= took < 300:
        bad.append(f"a look that never ends took {took:.1f} s, expected 3")
    halves = []
    with open(f"{folder}/halves", "w") as out:
        for text in (one.stdout, check("--limit", "3", "--wait", "1000", "--json", **endless).stdout):
            half = json.loads(text)
            half["nodes"][0]["node"] = f"node{text is one.stdout:d}"
            halves.append(half)
            print(json.dumps(half, separators=(",", ":")), file=out)
    expect(1, f"NOT READY: 2 nodes, 1 failure, {warnings(*halves)}, 0 differences", check("--merge", f"{folder}/halves"))
    # GPUs on the bus, and a driver that has an error: they are not counted as fit.
    for path, text in (("vendor", "0x10de"), ("class", "0x030200")):
        os.makedirs(f"{sysfs}/bus/pci/devices/0000:01:00.0", exist_ok=True)
        with open(f"{sysfs}/bus/pci/devices/0000:01:00.0/{path}", "w") as out:
            print(text, file=out)
    lost = check("--gpus", "1", LD_LIBRARY_PATH=nvml, CAPO_SYSFS=sysfs)
    expect(1, "FAIL  gpu        the NVIDIA driver: NVML: start: Driver Not Loaded", lost)
    assert "as expected" not in lost.stdout, lost
    shutil.rmtree(f"{sysfs}/bus")

    # Nodes compared: one line per difference.
    expect(0, f"READY: 3 nodes, 0 failures, {warnings(page, page, page)}, 0 differences", check("--merge", nodes({}, {}, {})))
    twice = check("--merge", nodes({}), f"{folder}/nodes")
    expect(0, "READY: 1 node,", twice)
    expect(0, "node0 is given twice, and counted once", twice)
    other = nodes({}, {}, {"nvidia driver": "535.1"}, {"kernel": "5.0", "NCCL_ALGO": "ring"})
    expect(0, "kernel is " + page["nodes"][0]["facts"]["kernel"] + " on 3 nodes, but 5.0 on node3", check("--merge", other))
    expect(0, "NCCL_ALGO is - on 3 nodes, but ring on node3", check("--merge", other))
    expect(1, "3 differences", check("--strict", "--merge", other))
    found = json.loads(check("--json", "--merge", other).stdout)
    assert [d["fact"] for d in found["differences"]].count("nvidia driver") == 1 and len(found["differences"]) == 3, found
    with open(f"{folder}/none", "w") as out:
        print('{"capo_check": 2', file=out)
    expect(1, "expected lines of capo check --json, found none", check("--merge", f"{folder}/none"))
    expect(1, "No such file", check("--merge", f"{folder}/nothing"))

    # Nodes that meet in a folder, where an earlier run has left files; the second process of a node leaves it to the first.
    meet = f"{folder}/meet"
    os.makedirs(meet)
    with open(f"{meet}/capo-check-77.1-node1", "w") as out:
        json.dump({**page["nodes"][0], "run": 1, "node": "stale"}, out)
    runs = [subprocess.Popen([capo, "check", "--dir", meet, "--wait", "120", "--json"], stdout=subprocess.PIPE, text=True,
                             env={**clean, "HOME": folder, "CAPO_SYSFS": sysfs, "SLURM_JOB_ID": "77", "SLURM_STEP_ID": "1",
                                  "SLURM_STEP_NUM_NODES": "3", "SLURM_NODEID": str(i), "SLURM_LOCALID": str(local)})
            for i in (2, 1, 0) for local in (0, 1)]
    said = [r.communicate(timeout=300)[0] for r in runs]
    assert [r.returncode for r in runs] == [0] * 6, runs
    assert [bool(s) for s in said] == [False, False, False, False, True, False], said
    together = json.loads(said[4])
    assert sorted(n["index"] for n in together["nodes"]) == [0, 1, 2] and not together["missing"], together
    assert not [n for n in together["nodes"] if n["node"] == "stale"], together
    assert not [f for n in together["nodes"] for f in n["findings"] if "node 0's" in f["text"]], together
    assert not [f for f in os.listdir(meet) if f.endswith("begin0")], os.listdir(meet)
    expect(1, "node 1 did not answer in time", check("--dir", meet, "--nodes", "2", "--node", "0", "--wait", "0.2"))
    expect(1, "node 0 did not begin", check("--dir", meet, "--nodes", "2", "--node", "1", "--wait", "0.2"))

    # A node whose clock is an hour ahead: the answer is written by hand, as soon as node 0 has begun.
    ahead = subprocess.Popen([capo, "check", "--dir", meet, "--nodes", "2", "--node", "0", "--wait", "120"],
                             stdout=subprocess.PIPE, text=True, env={**clean, "HOME": folder, "CAPO_SYSFS": sysfs})
    while not os.path.exists(f"{meet}/capo-check-begin0"):
        assert ahead.poll() is None, ahead.communicate()
        time.sleep(0.01)
    with open(f"{meet}/new", "w") as out:
        json.dump({**page["nodes"][0], "index": 1, "time_s": time.time() + 3600,
                   "run": json.load(open(f"{meet}/capo-check-begin0"))["run"]}, out)
    os.rename(f"{meet}/new", f"{meet}/capo-check-node1")
    text = ahead.communicate(timeout=300)[0]
    if "ahead of node 0's by 3" not in text:
        bad.append(f"a clock that is ahead: {text}")
print("\n".join(bad))
sys.exit(1 if bad else 0)
