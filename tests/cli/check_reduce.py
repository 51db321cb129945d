#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""capo check --all-reduce on the stand-in NCCL: one node, nodes that meet in a folder, one that is slow, one whose NCCL fails."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

capo, standin = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
cc = os.environ.get("CC", "cc").split()
if not shutil.which(cc[0]):
    print("no compiler to make an NCCL that is slow")
    sys.exit(77)
clean = {k: v for k, v in os.environ.items()
         if not k.startswith(("NCCL_", "FI_", "CAPO_", "SLURM", "OMPI_", "PMI", "RANK", "WORLD_SIZE", "LOCAL_", "LD_PRELOAD"))}
# An NCCL that hands on to the stand-in, late, or that fails.
LAYER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
typedef struct { char b[128]; } id;
static void *real(const char *name) {
        static void *l;
        if (!l) l = dlopen(STANDIN "/libnccl.so.2", RTLD_NOW);
        return dlsym(l, name);
}
int ncclGetVersion(int *v) { *v = 22809; return 0; }
int ncclGetUniqueId(void *i) { return ((int (*)(void *))real("ncclGetUniqueId"))(i); }
int ncclCommInitRank(void **c, int n, id i, int r) {
        if (FAIL) return 2;
        return ((int (*)(void **, int, id, int))real("ncclCommInitRank"))(c, n, i, r);
}
int ncclAllReduce(const void *s, void *r, unsigned long n, int t, int o, void *c, void *q) {
        usleep(DELAY);
        return ((int (*)(const void *, void *, unsigned long, int, int, void *, void *))real("ncclAllReduce"))(s, r, n, t, o, c, q);
}
int ncclCommDestroy(void *c) { return ((int (*)(void *))real("ncclCommDestroy"))(c); }
"""


def make_layer(name, delay, fail):
    os.makedirs(f"{work}/{name}")
    with open(f"{work}/layer.c", "w") as out:
        out.write(LAYER)
    subprocess.run([*cc, "-shared", "-fPIC", f'-DSTANDIN="{standin}"', f"-DDELAY={delay}", f"-DFAIL={fail}", "-Wl,-soname,libnccl.so.2",
                    "-o", f"{work}/{name}/libnccl.so.2", f"{work}/layer.c", "-ldl"], check=True)
    return f"{work}/{name}"


def run_nodes(n, wait, odd=-1, layer=None):
    """The page of node 0; node @odd has another NCCL."""
    meet = tempfile.mkdtemp(dir=work)
    runs = []
    for i in reversed(range(n)):
        path = f"{layer}:{standin}" if i == odd else standin
        runs.append(subprocess.Popen([capo, "check", "--json", "--all-reduce", "64K", "--dir", meet, "--nodes", str(n), "--node", str(i), "--wait", str(wait)],
                                     stdout=subprocess.PIPE, text=True,
                                     env={**clean, "HOME": work, "LD_LIBRARY_PATH": path, "CAPO_STANDIN_GPUS": "1", "SLURMD_NODENAME": f"n{i}"}))
    said = [r.communicate(timeout=600)[0] for r in runs]
    page = json.loads(said[-1])
    assert len(page["nodes"]) == n, page
    return runs[-1].returncode, [(f["level"], f["text"]) for node in page["nodes"] for f in node["findings"] if f["topic"] == "all-reduce"]


with tempfile.TemporaryDirectory() as work:
    one = subprocess.run([capo, "check", "--json", "--all-reduce", "64K"], capture_output=True, text=True, timeout=300,
                         env={**clean, "HOME": work, "LD_LIBRARY_PATH": standin, "CAPO_STANDIN_GPUS": "2"})
    found = [f for f in json.loads(one.stdout)["nodes"][0]["findings"] if f["topic"] == "all-reduce"]
    assert not one.returncode and len(found) == 1 and found[0]["level"] == "ok" and "64K over 2 GPUs: " in found[0]["text"], (one, found)
    none = subprocess.run([capo, "check", "--all-reduce", "0"], capture_output=True, text=True, env=clean)
    assert none.returncode == 2 and "a size" in none.stderr, none

    status, lines = run_nodes(2, 120)
    assert not status and [line for line in lines if "64K over 2 nodes (n0, n1): " in line[1]], lines
    # Node 2 is late in every all-reduce: the pair that it ends in is named, with it in it.
    status, lines = run_nodes(4, 120, 2, make_layer("slow", 400000, 0))
    slow = [text for level, text in lines if level == "warn" and "over 2 nodes" in text]
    assert not status and any("n2" in text for text in slow), lines
    # Its NCCL fails: what fails is said, and where.
    status, lines = run_nodes(3, 5, 2, make_layer("failing", 0, 1))
    assert status == 1 and any(level == "FAIL" and "over 2 nodes" in text and "n2" in text for level, text in lines), lines
    assert any("ncclCommInitRank returned 2" in text for _, text in lines), lines

    # A library that never loads, as from a folder whose server is gone: said as such, within ten seconds and the page.
    os.makedirs(f"{work}/stuck")
    with open(f"{work}/stuck.c", "w") as out:
        out.write("#include <unistd.h>\n__attribute__((constructor)) static void wait_for_ever(void) { pause(); }\n")
    subprocess.run([*cc, "-shared", "-fPIC", "-Wl,-soname,libnccl.so.2", "-o", f"{work}/stuck/libnccl.so.2", f"{work}/stuck.c"], check=True)
    stuck = subprocess.run([capo, "check", "--wide"], capture_output=True, text=True, timeout=300,
                           env={**clean, "HOME": work, "LD_LIBRARY_PATH": f"{work}/stuck"})
    assert stuck.returncode == 1 and "libnccl.so.2 does not load: not within 1 s" in stuck.stdout, stuck
