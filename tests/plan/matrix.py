#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of matrix.sh: matrix.py CAPO [--markdown] [--check] LIBNCCL..."""
import json
import os
import subprocess
import sys
import tempfile
import time

import links

capo, markdown, check = sys.argv[1], "--markdown" in sys.argv, "--check" in sys.argv
libraries = [a for a in sys.argv[2:] if not a.startswith("--")]
for variable in list(os.environ):
    if variable.startswith("NCCL_"):
        del os.environ[variable]


def plan(library, *arguments, by=capo):
    command = [by, "plan", *arguments, "--json"]
    if library != "toolkit":
        command += ["--nccl", library]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().split("\n")[-1])
    return json.loads(done.stdout)


COLLS = ("allreduce", "allgather", "reducescatter", "broadcast", "reduce")


def rules(old, coll, algo, proto):
    """What is forced, where: algo/proto up to 1 MiB, the rest left to NCCL. NCCL up to 2.20 has one tuner for all communicators:
    only rules that always hold."""
    return {"capo_profile": 1, "rules": [{"when": {} if old else {"ranks": 8, "nodes": 2}, "basis": "modelled",
            coll: [{"upto": "1M", "algo": algo, "proto": proto, "channels": 2}, {"upto": "max", "leave": True}]}]}


def plan_as_run(library, profile, *arguments):
    """What NCCL decides in what `capo run --profile` makes, preloaded, the plugin by its path: of capo in a build tree of links."""
    build = os.path.dirname(os.path.dirname(os.path.realpath(capo)))
    shim = os.path.join(build, "shim/libcapo.so")
    with tempfile.TemporaryDirectory() as folder:
        path, logs = os.path.join(folder, "p.json"), os.path.join(folder, "logs")
        with open(path, "w") as f:
            json.dump(profile, f)
        by = links.tree(build, folder, {"LD_PRELOAD": shim, "NCCL_TUNER_PLUGIN": shim, "CAPO_PROFILE": path, "CAPO_TUNER": "only",
                                        "CAPO_ALLOW_MODELLED": "1", "CAPO_STEER": "1", "CAPO_DIR": logs})
        try:
            return plan(library, *arguments, by=by)
        finally:
            # A worker ends by _exit(), as NCCL's threads are in its way: its recording memory stays until somebody asks for it.
            subprocess.run([capo, "recover", logs], capture_output=True)


def ask_as_run(library):
    """Of how many sizes the profile decides, in a process that is preloaded as `capo run` does it."""
    answer = plan_as_run(library, rules(True, "allreduce", "tree", "ll"), "--platform", "dgx1v", "--alloc", "4+4", "--sizes", "16K,64K,1M")
    chosen = [r["default"] for r in answer["rows"]]
    return sum((c["algo"], c["proto"]) == ("Tree", "LL") and c["channels"] <= 2 for c in chosen), len(chosen)


def ask_turned(library):
    """Of how many calls, of every collective that has rows, one thread block does what NCCL itself gives more to: their config says so."""
    profile = {"capo_profile": 1, "rules": [{"when": {"ranks": 8, "nodes": 2}, "basis": "modelled",
               **{coll: [{"upto": "max", "ctas": 1}] for coll in COLLS}}]}
    place = ("--platform", "hgxh100", "--alloc", "4+4", "--coll", "all", "--sizes", "1M,64M")
    answer = plan_as_run(library, profile, *place)
    own = plan(library, *place)["rows"]
    return (sum(o["default"]["channels"] > 1 and r["default"]["channels"] == 1 and r["ranks_agree"] for o, r in zip(own, answer["rows"])),
            sum(o["default"]["channels"] > 1 for o in own))


def ask_chunks(library):
    """Of how many calls NCCL asks its tuner for the chunk and takes what a row says, cutting it to its buffer: it prints that it cuts."""
    rows = [{"upto": "64K", "algo": "ring", "proto": "ll", "chunk": 4000}, {"upto": "max", "algo": "tree", "proto": "simple", "chunk": "64M"}]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "p.json")
        with open(path, "w") as f:
            json.dump({"capo_profile": 1, "rules": [{"when": {}, "allreduce": rows}]}, f)
        place = ("--platform", "dgx1v", "--coll", "allreduce", "--sizes", "16K,64M", "--profile", path)
        answer = plan(library, *place, "--spy")["rows"]
        named = [] if library == "toolkit" else ["--nccl", library]
        said = subprocess.run([capo, "plan", *place, *named, "--log"], capture_output=True, text=True, timeout=100).stdout
    return ((answer[0].get("tuner_chunk") == 4000 and answer[0]["ranks_agree"]) +
            (answer[1].get("tuner_chunk") == 64 << 20 and "tuner chunk size 67108864 exceeds buffer max" in said))


def ask_windows(library):
    """Of four calls on registered buffers, those for which the preload library has NCCL run another symmetric kernel, or copy engines."""
    profile = {"capo_profile": 1, "rules": [{"when": {}, "allreduce": [{"upto": "max", "kernel": "symk RSxLD_AGxST"}],
               "allgather": [{"upto": "max", "cta_policy": "zero"}]}]}
    place = ("--platform", "hgxh100", "--coll", "allreduce,allgather", "--sizes", "1M,64M", "--windows")
    answer = plan_as_run(library, profile, *place)["rows"]
    own = plan(library, *place)["rows"]
    wanted = {"allreduce": ("symk", "RSxLD_AGxST"), "allgather": ("copy", "engine")}
    return sum(o["default"]["algo"] == "symk" and (r["default"]["algo"], r["default"]["proto"]) == wanted[r["coll"]] != (o["default"]["algo"], o["default"]["proto"])
               and r["ranks_agree"] for o, r in zip(own, answer))


def ask_switches(library):
    """Of an H100 machine and of two, those on which 256 MiB go through the switches (NVLS): every release has that."""
    return sum(plan(library, "--platform", "hgxh100", "--alloc", alloc, "--coll", "allreduce", "--sizes", "256M")["rows"][0]
               ["default"]["algo"] == algo for alloc, algo in (("8", "NVLS"), ("8+8", "NVLSTree")))


def strange(library):
    """What of a libnccl this capo does not know: its functions, its plugin interfaces."""
    if library == "toolkit":
        return []
    done = subprocess.run([capo, "doctor"], capture_output=True, text=True, timeout=100,
                          env={**os.environ, "LD_LIBRARY_PATH": os.path.dirname(os.path.abspath(library))})
    return [line for line in done.stdout.splitlines() if "this capo does not" in line]


def ask(library):
    """one release: dict of the columns"""
    t = time.time()
    place = ("--platform", "dgx1v", "--alloc", "4+4", "--coll", "all", "--sizes", "16K..64M*16")
    spied = plan(library, *place, "--spy")
    seconds = time.time() - t
    version = tuple(int(x) for x in spied["nccl"].split("."))
    row = {"release": spied["nccl"], "tuner": "v%d" % spied["told"]["abi"],
           "profiler": "v%d" % spied["profiler_abi"] if spied["profiler_abi"] else "none"}
    row["model"] = "table" if spied["rows"][0]["costs"] else "printed" if spied["rows"][0]["default"]["us"] else "none"
    obeyed = forced = left = untouched = 0
    for coll, algo, proto in (("allreduce", "tree", "simple"), ("allreduce", "ring", "ll"), ("allgather", "ring", "simple"),
                              ("reducescatter", "ring", "simple"), ("broadcast", "ring", "simple"), ("reduce", "ring", "simple")):
        with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as f:
            json.dump(rules(version < (2, 21), coll, algo, proto), f)
        no_channels = coll == "allgather" and version >= (2, 29)  # capo leaves them to NCCL there (core/profile/match.h)
        answer = plan(library, *place, "--profile", f.name, "--allow-modelled")
        os.unlink(f.name)
        for r in answer["rows"]:
            ours = r["profile"]
            if r["coll"] == coll and r["bytes"] <= 1 << 20:
                forced += 1
                obeyed += ((ours["algo"], ours["proto"]) == (algo.capitalize(), {"simple": "Simple", "ll": "LL"}[proto])
                           and (ours["channels"] <= 2 or no_channels) and r["ranks_agree"])
            else:
                left += 1
                untouched += r["same"] and r["ranks_agree"]
    row["obeyed"] = "%d of %d" % (obeyed, forced)
    row["untouched"] = "%d of %d" % (untouched, left)
    as_requested, asked = ask_as_run(library)
    row["run"] = "%d of %d" % (as_requested, asked)
    turned, turnable = ask_turned(library) if version >= (2, 31) else (0, 0)
    row["turned"] = "%d of %d" % (turned, turnable) if turnable else "-"
    chunks = ask_chunks(library) if version >= (2, 30) else 2
    row["chunks"] = "%d of 2" % chunks if version >= (2, 30) else "-"
    windows = ask_windows(library) if version >= (2, 31) else 4
    row["windows"] = "%d of 4" % windows if version >= (2, 31) else "-"
    row["seconds"] = "%.2f" % seconds
    switched = ask_switches(library)
    row["nvls"] = "%d of 2" % switched
    row["good"] = obeyed == forced and untouched == left and as_requested == asked and turned == turnable and chunks == 2 and windows == 4 and switched == 2
    return row


columns = (("release", "NCCL"), ("tuner", "tuner ABI"), ("profiler", "profiler ABI"), ("model", "times from"),
           ("obeyed", "obeyed"), ("untouched", "untouched where no rule"), ("run", "under the preload library"), ("turned", "calls turned"), ("chunks", "chunks"), ("windows", "windows"), ("nvls", "NVLS"), ("seconds", "s per plan"))
widths = [len(title) + 2 for _, title in columns]
good = True


def line(cells):
    if markdown:
        print("| " + " | ".join(cells) + " |", flush=True)
    else:
        print("  ".join(c.ljust(w) for c, w in zip(cells, widths)).rstrip(), flush=True)


line([title for _, title in columns])
if markdown:
    line(["---"] * len(columns))
for library in libraries:
    for said in strange(library):
        print("matrix:", said, file=sys.stderr)
        good = False
    try:
        row = ask(library)
        line([row[key] for key, _ in columns])
        good = good and row["good"]
    except Exception as error:
        line([library, str(error)[:300]])
        good = False
sys.exit(0 if good or not check else 1)
