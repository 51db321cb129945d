#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that call NCCL EP and NCCL M2N in many ways: moe_ways.py CAPO SOURCE BUILD WAY

Each ends under capo as it does alone, and the counts and bytes of its log are exact. WAY is a row of WAYS. catch and aborts
need a C++ compiler, python the package nccl-extensions (./dev setup brings it below .deps): without it the test is skipped, aloud.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

capo, source, build, way = sys.argv[1:]
HERE = os.path.join(source, "tests", "moe")
STANDIN = os.path.join(build, "tests", "standin")
PYTHON = os.environ.get("CAPO_NCCL_PYTHON", os.path.join(source, ".deps", "nccl-python"))
# The first rank that aborts ends the others, wherever they are: one rank. Each interpreter takes seconds to start: two.
RANKS, LAYERS = {"aborts": 1, "python": 2}.get(way, 4), 5
TOKENS = 6 * 8 * 4 * 2  # tokens x width x bytes of a number x top-k
GROUP = {"EpCreateGroup": (RANKS, 0), "EpInitHandle": (RANKS, 0), "EpHandleDestroy": (RANKS, 0), "EpGroupDestroy": (RANKS, 0)}


def layers(n, groups=1):
    """What @groups groups do whose ranks make @n layers together."""
    return ({"EpDispatch %d" % TOKENS: n * groups, "EpCombine %d" % TOKENS: n * groups},
            {**{call: (k * groups, 0) for call, (k, _) in GROUP.items()}, "EpUpdateHandle": (n * groups, 0)})


def add(pair, rows, other):
    return {**pair[0], **rows}, {**pair[1], **other}


RESHARD = ({"Reshard 128": 5 * RANKS, "Group 384": RANKS, "AllReduce 4": RANKS}, {"M2nInit": (RANKS, 0), "M2nFinalize": (RANKS, 0)})
# way: program and arguments, ((call and bytes: how often), (call without data: how often, how often refused)), dropped
WAYS = {
    "plain": (["app_moe", "plain"], layers(RANKS * LAYERS), 0),
    "opens": (["app_moe_opens", "plain"], layers(RANKS * LAYERS), 0),
    "opens-reshard": (["app_moe_opens", "reshard"], RESHARD, 0),
    "drift": (["app_moe", "drift"], ({"EpDispatch 192": 6 * RANKS * LAYERS, "EpDispatch 384": 2 * RANKS * LAYERS, "EpCombine 192": 6 * RANKS * LAYERS,
                                      "EpCombine 384": 2 * RANKS * LAYERS}, {**GROUP, "EpUpdateHandle": (8 * RANKS * LAYERS, 0)}), 0),
    "threads": (["app_moe", "threads"], add(layers(RANKS * LAYERS, 3), {}, {"CommSplit": (3 * RANKS, 0)}), 0),
    "graph": (["app_moe", "graph"], layers(RANKS), 0),  # captured once; replays are not seen
    "masked": (["app_moe", "masked"], add(layers(2 * RANKS - 1), {"AllReduce 4": 2 * RANKS}, {"EpGetAsyncError": (RANKS - 1, 0)}), 0),
    "failing": (["app_moe", "failing"], add(layers(RANKS * LAYERS), {}, {
        "EpCreateGroup": (RANKS * LAYERS + RANKS, RANKS * LAYERS), "M2nInit": (RANKS * LAYERS, RANKS * LAYERS)}), 0),
    "reshard": (["app_moe", "reshard"], RESHARD, 0),
    # three times ErrorClear and MaskQuery are left by an exception; GetAsyncError is recorded by its answer only
    "catch": (["app_catch"], ({}, {"EpCreateGroup": (RANKS, 0), "EpGroupDestroy": (RANKS, 0)}), 6 * RANKS),
    "aborts": (["app_catch", "aborts"], ({}, {"EpCreateGroup": (RANKS, 0)}), None),
    "python": ([sys.executable, os.path.join(HERE, "app_layers.py")], ({
        "EpDispatch %d" % TOKENS: RANKS * LAYERS, "EpCombine %d" % TOKENS: RANKS * LAYERS, "Reshard 128": RANKS * LAYERS, "AllReduce 4": RANKS * LAYERS}, {
            "EpCreateGroup": (RANKS, 0), "EpGroupDestroy": (RANKS, 0), "EpCreateHandle": (RANKS, 0), "EpHandleDestroy": (RANKS, 0),
            "EpUpdateHandle": (RANKS * LAYERS, 0), "M2nInit": (RANKS, 0), "M2nFinalize": (RANKS, 0)}), 0),
}
command, (rows, other), dropped = WAYS[way]


def skip(why):
    print("skipped: %s" % why)
    sys.exit(77)


def compile_catch(folder):
    program = os.path.join(folder, "app_catch")
    compiler = os.environ.get("CXX") or shutil.which("c++") or skip("no C++ compiler")
    subprocess.run([compiler, "-std=gnu++17", "-I", os.path.join(source, "tests", "standin", "include"), os.path.join(HERE, "app_catch.cc"),
                    os.path.join(build, "tests", "jobs", "libjob.a"), "-L" + STANDIN, "-l:libnccl.so.2", "-l:libcuda.so.1", "-l:libnccl_ep.so.0",
                    "-Wl,-rpath-link," + STANDIN, "-pthread", "-o", program], check=True)
    return program


def lay_package(folder):
    """The Python package with the stand-ins in the place of its libraries."""
    def copy(path, to):  # the package asks where its own Python files lie
        (shutil.copyfile if path.endswith(".py") else os.symlink)(os.path.abspath(path), to)

    if not os.path.isdir(os.path.join(PYTHON, "nccl", "ep")):
        skip("%s has no package nccl-extensions: ./dev setup brings it" % PYTHON)
    asked = subprocess.run([sys.executable, "-c", "import cuda.core, nccl.core"], env={**os.environ, "PYTHONPATH": PYTHON},
                           stderr=subprocess.PIPE, encoding="utf-8", check=False)
    if asked.returncode:
        skip("this Python cannot import nccl.core: %s" % asked.stderr.strip().splitlines()[-1])
    shutil.copytree(os.path.join(PYTHON, "nccl"), os.path.join(folder, "nccl"), copy_function=copy,
                    ignore=lambda path, names: ["lib"] if os.path.basename(path) in ("ep", "m2n") else [])
    for name, library in (("ep", "libnccl_ep.so.0"), ("m2n", "libnccl_m2n.so")):
        for cuda in ("cu12", "cu13"):
            os.makedirs(os.path.join(folder, "nccl", name, "lib", cuda))
            os.symlink(os.path.join(STANDIN, library), os.path.join(folder, "nccl", name, "lib", cuda, "libnccl_%s.so" % name))
    return folder + ":" + PYTHON


def run(env):
    p = subprocess.run([os.path.join(build, "tests", "jobs", "launch"), "-n", str(RANKS), "--"] + command, env=env, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, encoding="utf-8", timeout=200, check=False)
    if (p.returncode != 0) != (way == "aborts"):
        sys.exit("%s: %d\n%s" % (" ".join(command), p.returncode, p.stdout))
    return p


def expect(what, found, wanted):
    if found != wanted:
        sys.exit("%s: %s: found %s, expected %s" % (way, what, found, wanted))


def count_rows(page):
    found, calls = {}, {}
    for r in page["rows"]:
        key = "%s %d" % (r["call"], r["bytes"])
        found[key] = found.get(key, 0) + r["calls"]
    for c in page["other_calls"]:
        n, failed = calls.get(c["call"], (0, 0))
        calls[c["call"]] = n + c["calls"], failed + c["failed"]
    return found, {call: n for call, n in calls.items() if call not in ("CommInit", "CommDestroy")}


with tempfile.TemporaryDirectory() as folder:
    env = {**os.environ, "LD_LIBRARY_PATH": STANDIN, "CAPO_DIR": os.path.join(folder, "logs"), "CAPO_GPU_SAMPLE": "1", "SHARED": folder,
           "IPATH_NO_BACKTRACE": "1"}  # else a library below libfabric turns SIGABRT into exit(1)
    if command[0] == "app_catch":
        command[0] = compile_catch(folder)
    elif way == "python":
        env["PYTHONPATH"] = lay_package(folder)
    else:
        command[0] = os.path.join(build, "tests", "moe", command[0])
    alone = run(env).returncode
    expect("status under capo", run({**env, "LD_PRELOAD": os.path.join(build, "shim", "libcapo.so")}).returncode, alone)
    asked = subprocess.run([capo, "report", "--json", env["CAPO_DIR"]], stdout=subprocess.PIPE, encoding="utf-8", check=True)
    page = json.loads(asked.stdout)
    found, calls = count_rows(page)
    expect("rows", found, rows)
    expect("calls without data", calls, other)
    if dropped is not None:
        expect("dropped", page["dropped"], dropped)
    problems = " ".join(p["text"] for p in page["problem_list"])
    if way == "masked" and "NCCL EP masked a rank of ep-ll" not in problems:
        sys.exit("no word of the masked rank: %s" % problems)
    if way == "masked":
        expect("the masked rank", [p["rank"] for p in page["problem_list"] if p["kind"] == "rank_masked"], [RANKS - 1])
    if way == "drift":  # ranks 2 and 3 give twice as many in the second half
        load = page["tokens"][0]
        expect("tokens", [load[k] for k in ("tokens_mean", "tokens_least", "tokens_most", "tokens_early", "tokens_late")], [3.75, 3, 6, 3, 4.5])
        expect("who changed", (load["drift_rank"], load["drift_share"], load["low_rank"], load["high_rank"]), (2, 2, 0, 2))
    elif way == "plain":
        expect("who changed", [page["tokens"][0][k] for k in ("tokens_early", "tokens_late", "drift_rank")], [6, 6, None])
    if way == "aborts":  # what the library ended is on the page
        expect("ranks in the call", problems.count("in EpCreateGroup, which had not returned"), RANKS)
    if way == "graph" and "captured into CUDA graphs" not in problems:
        sys.exit("no word of the graph: %s" % problems)
