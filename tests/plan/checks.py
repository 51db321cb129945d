#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks of `capo plan` against a real libnccl: checks.py CAPO TUNER MISBEHAVE SOURCE [--nccl FILE] [--group NAME] [NAME...]

Each check is a function below; its first line says what must hold. Groups can run beside each other. Without a libnccl on this machine: exit status 77.
Figures marked 2.28.9 hold for that release only and are skipped, aloud, for another."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

# A /dev/shm of its own, where root may make one: others' jobs leave files of NCCL there, too.
OWN_SHM = "CAPO_CHECKS_OWN_SHM"
MOUNT = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o mode=1777 tmpfs /dev/shm && exec "$@"', "sh"]
if not os.environ.get(OWN_SHM) and not os.geteuid() and shutil.which("unshare") and not subprocess.run([*MOUNT, "true"], capture_output=True).returncode:
    os.environ[OWN_SHM] = "1"
    os.execvp(MOUNT[0], [*MOUNT, sys.executable, *sys.argv])
own_shm = os.environ.pop(OWN_SHM, None)
args = sys.argv[1:]
nccl = None
if "--nccl" in args:
    i = args.index("--nccl")
    nccl = args[i + 1]
    del args[i:i + 2]
group = None
if "--group" in args:
    i = args.index("--group")
    group = args[i + 1]
    del args[i:i + 2]
capo, tuner, misbehave, source = (os.path.abspath(a) for a in args[:4])
names = args[4:]
work = tempfile.mkdtemp(prefix="cp-")
os.environ["TMPDIR"] = work
for variable in list(os.environ):
    if variable.startswith(("NCCL_", "CAPO_")) and variable != "CAPO_NCCL":
        del os.environ[variable]
if not nccl and not os.environ.get("CAPO_NCCL"):
    unpacked = os.path.join(source, ".deps/nccl/lib/libnccl.so.2")
    if os.path.exists(unpacked):
        nccl = unpacked


def run(*arguments, env=None, ask=True):
    command = [capo, "plan", *arguments]
    if nccl and ask and "--nccl" not in arguments:
        command += ["--nccl", nccl]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(env or {})})


def plan(*arguments, env=None):
    done = run(*arguments, "--json", env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def choices(answer, which="default"):
    return [(r["coll"], r["bytes"]) + tuple(r[which][k] for k in ("algo", "proto", "channels", "us")) for r in answer["rows"]]


def profile(rules):
    path = os.path.join(work, "profile.json")
    with open(path, "w") as f:
        json.dump({"capo_profile": 1, "rules": rules}, f)
    return path


first = run("--platform", "dgx1v", "--sizes", "1M", "--json")
if "no libnccl.so.2 found" in first.stderr:
    print("skipped: no libnccl.so.2 on this machine")
    sys.exit(77)
release = json.loads(first.stdout)["nccl"] if first.returncode == 0 else "?"
only_2289 = release == "2.28.9"
minor = int(release.split(".")[1]) if release != "?" else 0


class Skip(Exception):
    pass


with open(tuner, "rb") as f:  # such a plugin only loads into a sanitized program, and workers are none
    sanitized = b"__asan_init" in f.read()


def busbw(gpus, **env):
    answer = plan("--platform", "dgx1v", "--gpus", gpus, "--sizes", "256M", env=env)
    return answer, answer["rows"][0]["default"]


def eight_ranks_twice():
    """5 collectives x 20 sizes on 8 ranks: every row is answered, ranks agree, and a second run says the same"""
    question = ("--platform", "dgx1v", "--coll", "all", "--sizes", "1K..512M*2")
    a, b = plan(*question), plan(*question)
    assert len(a["rows"]) == 100 and a["ranks"] == 8 and a["nodes"] == 1
    assert choices(a) == choices(b), "two runs differ"
    for r in a["rows"]:
        assert r["ranks_agree"] and 1 <= r["default"]["channels"] <= 64, r
        assert r["default"]["algo"] and r["default"]["proto"], r


def two_nodes_twice():
    """2 x 8 ranks: the same"""
    question = ("--platform", "hgxh100", "--alloc", "8+8", "--coll", "all", "--sizes", "1K..512M*8")
    a, b = plan(*question), plan(*question)
    assert a["ranks"] == 16 and a["nccl_nodes"] == 2
    assert choices(a) == choices(b), "two runs differ"


def three_gpu_classes():
    """2.28.9: of the 56 3-GPU subsets of a DGX-1V 12 get a bus bandwidth of 40 GB/s, 20 get 20, 24 get 10"""
    if not only_2289:
        raise Skip
    atlas = plan("--platform", "dgx1v", "--every", "3", "--sizes", "256M")
    classes = {}
    for g in atlas["groups"]:
        speed = round(g["rows"][0]["busbw_gbs"], -1)
        classes[speed] = classes.get(speed, 0) + g["count"]
    assert classes == {40: 12, 20: 20, 10: 24}, classes


def five_gpu_classes():
    """2.28.9: of the 56 5-GPU subsets 32 get 40 GB/s, 13 get 26 (by Tree), 11 get 20"""
    if not only_2289:
        raise Skip
    atlas = plan("--platform", "dgx1v", "--every", "5", "--sizes", "256M")
    classes = {}
    for g in atlas["groups"]:
        key = (round(g["rows"][0]["busbw_gbs"]), g["rows"][0]["algo"])
        classes[key] = classes.get(key, 0) + g["count"]
    assert classes == {(40, "Ring"): 32, (26, "Tree"): 13, (20, "Ring"): 11}, classes


def disconnected_is_two_nodes():
    """2.28.9: {1,4,6} of a DGX-1V becomes 2 nodes of 1 to 2 ranks; LL128 is not offered"""
    if not only_2289:
        raise Skip
    answer = plan("--platform", "dgx1v", "--gpus", "1,4,6", "--sizes", "1M", "--spy")
    reported = answer["told"]
    assert (reported["ranks"], reported["nodes"], reported["nvl_domains"], reported["nvl_min"], reported["nvl_max"]) == (3, 2, 2, 1, 2), reported
    assert not [k for k in answer["rows"][0]["costs"] if "LL128" in k], answer["rows"][0]["costs"]


def uneven_nodes():
    """2.28.9: 3+5 over two DGX-1V: 28.9 (Tree), 19.8 (Ring), 10.0, against 30.1 for 4+4, GB/s at 256 MiB"""
    if not only_2289:
        raise Skip
    for gpus, speed, algo in (("0:1,2,3;1:0-4", 28.9, "Tree"), ("0:0,1,2;1:3-7", 19.8, "Ring"),
                              ("0:1,4,6;1:0,2,3,5,7", 10.0, "Ring"), ("0:0-3;1:4-7", 30.1, "Tree")):
        _, got = busbw(gpus)
        assert round(got["busbw_gbs"], 1) == speed and got["algo"] == algo, (gpus, got)


def uneven_cost_table():
    """2.28.9: at 1 MiB a tuner of {1,2,3}+{0-4} is given Tree/LL 455.9, Tree/Simple 174.4, Ring/LL 207.5, Ring/Simple 290.9"""
    if not only_2289:
        raise Skip
    answer = plan("--platform", "dgx1v", "--gpus", "0:1,2,3;1:0-4", "--sizes", "1M", "--spy")
    costs = {k: round(v, 1) for k, v in answer["rows"][0]["costs"].items()}
    assert costs == {"Tree/LL": 455.9, "Tree/Simple": 174.4, "Ring/LL": 207.5, "Ring/Simple": 290.9}, costs
    reported = answer["told"]
    assert (reported["ranks"], reported["nodes"], reported["nvl_domains"], reported["nvl_min"], reported["nvl_max"]) == (8, 2, 2, 3, 5), reported


def table_lines(text):
    lines = [re.sub(r".*NCCL INFO", "", l).rstrip() for l in text.splitlines() if "|" in l and "threadThresholds" not in l]
    return [l.strip() for l in lines if "Protocol" not in l and not l.startswith("#")]


def h100_tables():
    """2.28 and 2.29: the tuning tables that 2.29.2 logged on a real 8-H100 machine, with 2 and 4 GPUs, digit for digit"""
    if minor not in (28, 29):
        raise Skip
    for n, gpus in ((2, "2,3"), (4, "2-5")):
        done = run("--platform", "hgxh100", "--gpus", gpus, "--sizes", "1M", "--log")
        assert done.returncode == 0, done.stderr
        with open(os.path.join(source, "tests/plan/h100-%dgpu.txt" % n)) as f:
            real = table_lines(f.read())
        ours = table_lines(done.stdout)
        assert len(real) > 15 and ours == real, "\n".join(l for l in ours if l not in real)


def h100_choices():
    """2.28 and 2.29: what that machine's log shows for AllReduce on 4 GPUs, 256 MiB to 8 GiB: Ring, Simple, 24 channels"""
    if minor not in (28, 29):
        raise Skip
    answer = plan("--platform", "hgxh100", "--gpus", "2-5", "--sizes", "256M..8G*2")
    for r in answer["rows"]:
        assert (r["default"]["algo"], r["default"]["proto"], r["default"]["channels"]) == ("Ring", "Simple", 24), r


def rtx5090_table():
    """2.29: the tuning table and every Broadcast choice, 1 KiB to 64 MiB, that 2.29.7 logged on a real RTX 5090 over sockets"""
    if minor != 29:
        raise Skip
    done = run("--topo", os.path.join(source, "tests/plan/rtx5090.xml"), "--alloc", "1+1", "--coll", "broadcast", "--sizes",
               "1K..64M*2", "--log")
    assert done.returncode == 0, done.stderr
    with open(os.path.join(source, "tests/plan/rtx5090-2rank.txt")) as f:
        real = f.read()
    assert table_lines(done.stdout) == table_lines(real)
    ours, theirs = (re.findall(r"Broadcast: \d+ Bytes.*", text) for text in (done.stdout, real))
    assert len(ours) == 17 and ours == theirs[:17], (ours, theirs)


def every_platform():
    """every platform by name is a machine NCCL accepts, with NVLink rings"""
    done = run("--help=all", ask=False)
    listed = re.findall(r"^  ([\w-]+) +\S", done.stdout.split("platforms:")[1].split("examples:")[0], re.M)
    with open(os.path.join(source, "profiles/machine/platforms.def")) as f:
        rows = re.findall(r'^PLATFORM\("([^"]*)", (?:FILE|RACK),', f.read(), re.M)
    assert listed == rows and len(rows) >= 12, (listed, rows)
    for name in listed:
        answer = plan("--platform", name, "--sizes", "64K,64M", "--graph")
        ring = [g for g in answer["graphs"] if g["id"] == 0][0]
        assert ring["channels"] > 0 and ring["intra"] == "NVL", (name, ring["intra"])


def links_left_to_the_driver():
    """a provider's file without NVLinks is PCIe only until a platform is named"""
    topo = os.path.join(os.path.dirname(capo), "../profiles/data/p4d.xml")
    bare = run("--topo", topo, "--sizes", "1M")
    assert bare.returncode == 1 and "compute capability" in bare.stderr and "--platform" in bare.stderr, bare.stderr
    answer = plan("--topo", topo, "--platform", "p4d", "--sizes", "64M", "--graph")
    assert answer["graphs"] and [g for g in answer["graphs"] if g["id"] == 0][0]["intra"] == "NVL"


def profile_is_obeyed():
    """with a profile through capo's tuner: its rows rule, what has no row is untouched, ranks agree"""
    if sanitized:
        raise Skip
    rules = [{"when": {"ranks": 8} if minor > 20 else {}, "basis": "modelled",  # 2.19, 2.20: one tuner for all communicators
              "allreduce": [{"upto": "64K", "algo": "tree", "proto": "ll", "channels": 2}, {"upto": "1M", "leave": True},
                            {"upto": "max", "algo": "tree", "proto": "simple"}]}]
    answer = plan("--platform", "dgx1v", "--coll", "allreduce,allgather", "--sizes", "16K..64M*4", "--profile", profile(rules),
                  "--allow-modelled")
    for r in answer["rows"]:
        ours = r["profile"]
        assert r["ranks_agree"], r
        if r["coll"] != "allreduce" or 65536 < r["bytes"] <= 1 << 20:
            assert r["same"], r
        else:
            assert (ours["algo"], ours["proto"]) == ("Tree", "LL" if r["bytes"] <= 65536 else "Simple"), r
            if r["bytes"] <= 65536:
                assert ours["channels"] <= 2, r


def profile_of_another_machine():
    """a profile whose rules do not hold changes nothing at all"""
    if sanitized:
        raise Skip
    rules = [{"when": {"ranks": 512}, "allreduce": [{"upto": "max", "algo": "tree", "proto": "ll"}]}]
    answer = plan("--platform", "dgx1v", "--coll", "all", "--sizes", "1K..64M*16", "--profile", profile(rules))
    assert all(r["same"] for r in answer["rows"])


def modelled_rule_by_request():
    """a modelled rule decides only with --allow-modelled"""
    if sanitized:
        raise Skip
    path = profile([{"when": {}, "basis": "modelled", "allreduce": [{"upto": "max", "algo": "tree", "proto": "ll"}]}])
    done = run("--platform", "dgx1v", "--sizes", "64M", "--profile", path)
    assert "0 of 1 choices differ" in done.stdout and "that are not used: 1;" in done.stderr, done
    allowed = plan("--platform", "dgx1v", "--sizes", "64M", "--profile", path, "--allow-modelled")["rows"][0]["profile"]
    assert (allowed["algo"], allowed["proto"]) == ("Tree", "LL"), allowed


def constants_by_request():
    """a modelled rule's constants change what NCCL itself predicts and chooses, only with --allow-modelled"""
    if minor < 28 or sanitized:
        raise Skip
    path = profile([{"when": {"layout": "3+5"}, "basis": "modelled", "constants": [
        {"table": "tree_bw", "gpu": "volta", "scale": 2, "value": 3.0}]}])
    where = ("--platform", "dgx1v", "--gpus", "0:1,2,3;1:0-4", "--sizes", "64M", "--profile", path)
    assert plan(*where)["rows"][0]["same"]
    row = plan(*where, "--allow-modelled")["rows"][0]
    assert row["default"]["algo"] == "Tree" and row["profile"]["algo"] == "Ring", row  # 4 channels x 3 GB/s of tree


def profile_by_layout():
    """a rule for the layout 3+5 fires on 3+5 and not on 4+4"""
    if minor < 21 or sanitized:
        raise Skip
    path = profile([{"when": {"layout": "3+5"}, "allreduce": [{"upto": "max", "algo": "tree", "proto": "simple"}]}])
    uneven = plan("--platform", "dgx1v", "--alloc", "3+5", "--sizes", "64K", "--profile", path)
    even = plan("--platform", "dgx1v", "--alloc", "4+4", "--sizes", "64K", "--profile", path)
    assert even["rows"][0]["same"]
    assert uneven["rows"][0]["profile"]["algo"] == "Tree" and uneven["rows"][0]["profile"]["proto"] == "Simple", uneven["rows"]


def profile_by_trays():
    """a rule for the trays 1+2+3 of one NVLink domain decides there, in any order of the trays, and nowhere else"""
    if minor < 23 or sanitized:  # before, NCCL counts each tray as a node
        raise Skip
    rows = [{"upto": "64K", "algo": "tree", "proto": "ll", "channels": 2}, {"upto": "max", "algo": "tree", "proto": "simple"}]
    path = profile([{"when": {"nodes": 1, "trays": "1+2+3 in any order"}, "allreduce": rows}])
    where = ("--platform", "gb200-nvl72", "--sizes", "64K,1G", "--profile", path)
    answer = plan(*where, "--alloc", "1+3+2")
    got = [(r["profile"]["algo"], r["profile"]["proto"], r["ranks_agree"]) for r in answer["rows"]]
    assert answer["nccl_nodes"] == 1 and got == [("Tree", "LL", True), ("Tree", "Simple", True)], answer
    assert answer["rows"][0]["profile"]["channels"] <= 2 and not any(r["same"] for r in answer["rows"]), answer["rows"]
    for elsewhere in (("--alloc", "2+2+2"), ("--alloc", "1+2+3", "--domain", "1")):
        other = plan(*where, *elsewhere)
        assert all(r["same"] for r in other["rows"]) and "no_rule_holds" in other, (elsewhere, other)
    # Three trays, two of them in one domain: NCCL's layout is 2+4, the trays are even.
    path = profile([{"when": {"nodes": 2, "layout": "2+4", "trays": "even"}, "allreduce": rows}])
    two = plan("--platform", "gb300", "--domain", "2", "--alloc", "3x2", "--sizes", "64K", "--profile", path)
    assert two["nccl_nodes"] == 2 and two["rows"][0]["profile"]["proto"] == "LL" and two["rows"][0]["ranks_agree"], two
    assert two["rows"][0]["profile"]["algo"] == "Tree" and not two["rows"][0]["same"], two


def profile_with_a_mistake():
    """a mistake in the profile stops with its place"""
    if sanitized:
        raise Skip
    path = os.path.join(work, "bad.json")
    with open(path, "w") as f:
        f.write('{"capo_profile": 1, "rules": [{"when": {}, "allreduce": [{"upto": "max", "algo": "trea", "proto": "ll"}]}]}')
    done = run("--platform", "dgx1v", "--sizes", "1M", "--profile", path)
    assert done.returncode == 1 and "bad.json:1:" in done.stderr and "trea" in done.stderr, done.stderr


def foreign_tuner():
    """another tuner plugin, of an older interface, is loaded and obeyed, alone and behind the spy"""
    if minor < 24:
        raise Skip
    for extra in ([], ["--spy"]):
        answer = plan("--platform", "dgx1v", "--sizes", "64M", "--tuner", misbehave, *extra, env={"PLAN_TEST": "force"})
        got = answer["rows"][0]["profile"]
        assert (got["algo"], got["proto"], got["channels"]) == ("Ring", "LL128", 3), (extra, got)
        assert answer["rows"][0]["ranks_agree"]
    assert answer["rows"][0]["costs_after"]["Ring/LL128"] == 0 and answer["rows"][0]["costs"]["Ring/LL128"] > 0
    assert answer["rows"][0]["tuner_channels"] == 3


def chunk_of_a_row():
    """2.30 on: NCCL asks the tuner for the chunk, and takes what a row says, cut to its buffer; before it asks nobody"""
    if sanitized:
        raise Skip
    rows = [{"upto": "64K", "algo": "ring", "proto": "ll", "chunk": 4000}, {"upto": "max", "algo": "tree", "proto": "simple", "chunk": "64M"}]
    path = profile([{"when": {}, "allreduce": rows}])
    where = ("--platform", "dgx1v", "--coll", "allreduce,broadcast", "--sizes", "16K,64M", "--profile", path)
    answer = plan(*where, "--spy")
    said = [(r["coll"], r["bytes"], r.get("tuner_chunk")) for r in answer["rows"] if r.get("tuner_chunk") != r.get("chunk")]
    if minor < 30:
        assert not said, said
        return
    assert said == [("allreduce", 16384, 4000), ("allreduce", 64 << 20, 64 << 20)], said
    log = run(*where, "--log").stdout
    assert "AllReduce: tuner chunk size 67108864 exceeds buffer max" in log, log
    assert all(r["ranks_agree"] for r in answer["rows"])


def registered_buffers():
    """2.27 on: buffers that are windows have symmetric kernels on NVSwitch, where the collective has any"""
    place = ("--coll", "allreduce,allgather,broadcast", "--sizes", "1K,64M")
    if minor < 27:
        done = run("--platform", "hgxh100", *place, "--windows")
        assert done.returncode == 1 and "ncclCommWindowRegister" in done.stderr, done.stderr
        return
    rows = plan("--platform", "hgxh100", *place, "--windows")["rows"]
    assert [r["default"]["algo"] == "symk" for r in rows] == [True] * 4 + [False] * 2, rows
    assert rows[0]["default"]["proto"] != rows[1]["default"]["proto"] and all(r["ranks_agree"] for r in rows), rows
    plain = plan("--platform", "hgxh100", *place)["rows"]
    assert not [r for r in plain if r["default"]["algo"] == "symk"], plain


def alike_nodes():
    """of 128 x 8 ranks two nodes are asked, and the page says so"""
    answer = plan("--platform", "hgxh100", "--alloc", "128x8", "--sizes", "1M")
    assert (answer["ranks"], answer["nodes"], answer["nccl_nodes"], answer["asked_ranks"]) == (1024, 128, 128, 16), answer
    page = run("--platform", "hgxh100", "--alloc", "5x7+1", "--sizes", "1M").stdout
    assert "5 x {0,1,2,3,4,5,6} + {0}" in page and "15 ranks on 3 nodes were asked" in page, page
    done = run("--platform", "hgxh100", "--alloc", "128x8", "--sizes", "1M", "--whole")
    assert done.returncode == 1 and "at most 256 are asked" in done.stderr, done.stderr


def nvlink_domains():
    """trays that share an NVLink domain are one node for NCCL 2.23 and later, and NVLS is what the release makes of 1+3+2"""
    if minor < 23:
        done = run("--platform", "gb200-nvl72", "--alloc", "1+3+2", "--sizes", "1G", "--json")
        assert done.returncode == 1 or json.loads(done.stdout)["nccl_nodes"] == 3, done
        return
    answer = plan("--platform", "gb200-nvl72", "--alloc", "1+3+2", "--sizes", "1M,1G")
    assert (answer["nodes"], answer["nccl_nodes"], answer["domain_nodes"]) == (3, 1, 18), answer
    algo = {27: "NVLS", 28: "Ring", 30: "Ring", 32: "Ring"}.get(minor)
    assert algo in (None, answer["rows"][1]["default"]["algo"]), answer["rows"]
    two = plan("--platform", "gb300", "--domain", "2", "--alloc", "3x2", "--sizes", "1M,1G")
    assert (two["nodes"], two["nccl_nodes"]) == (3, 2), two
    done = run("--platform", "gb200-nvl72", "--every", "1+1", "--sizes", "1M")
    assert done.returncode == 2 and "--domain 1" in done.stderr, done.stderr
    page = subprocess.run([capo, "explain", "allreduce", "1G", "--platform", "gb200-nvl72", "--gpus", "0:0;1:0"] +
                          (["--nccl", nccl] if nccl else []), capture_output=True, text=True)
    assert "NCCL counts 1 node" in page.stdout and "its links allow" not in page.stdout, page
    apart = plan("--platform", "gb200-nvl72", "--domain", "1", "--alloc", "2+2", "--sizes", "1M")
    assert (apart["nccl_nodes"], apart["domain_nodes"]) == (2, 1), apart


def whole_rack():
    """72 GPUs of a rack: two trays of each kind are asked, and that in little memory"""
    if minor < 25:  # 2.23.4 writes past its own memory with more than 32 GPUs in a domain
        raise Skip
    for trays, asked in (("18x4", 8), ("17x4+3", 11)):
        answer = plan("--platform", "gb200-nvl72", "--alloc", trays, "--sizes", "1M,1G")
        assert (answer["nodes"], answer["nccl_nodes"], answer["asked_ranks"]) == (18, 1, asked), answer
        assert all(r["ranks_agree"] for r in answer["rows"]), answer["rows"]


def alike_as_whole():
    """nodes that are stood in for: every choice, time, cost cell and graph is that of asking all ranks"""
    for place in (("hgxh100", "5x8"), ("hgxh100", "8x8"), ("hgxh100", "16x8"), ("dgx1v", "3+5+3+5+3+5+3+5+8"), ("p4d", "12x3"),
                  ("gb200", "9x4"), ("gb200", "6x4", "--domain", "2"), ("gb200-nvl72", "7x4"), ("gb200-nvl36", "3+4+3+4+2+2+1+4+4"),
                  ("hgxh100", "3x8", "--domain", "3")):
        if len(place) > 2 and minor < 23:
            continue
        where = ("--platform", place[0], "--alloc", *place[1:], "--coll", "all", "--sizes", "1K..1G*4", "--spy", "--graph")
        some, all_ranks = plan(*where), plan(*where, "--whole")
        for key in ("rows", "told", "graphs", "nccl_nodes"):
            assert some[key] == all_ranks[key], (place, key)
        assert some["asked_ranks"] < all_ranks["asked_ranks"] == all_ranks["ranks"], place


def tuner_that_is_not_there():
    """a tuner file that does not exist is an error, not a tuner that changes nothing"""
    for name in ("/nowhere/tuner.so", "no-such-tuner"):
        done = run("--platform", "dgx1v", "--sizes", "1M", "--tuner", name)
        assert done.returncode == 1 and name in done.stderr and "differ" not in done.stdout, (name, done)


def libnccl_named_wrongly():
    """CAPO_NCCL that names no file is what the message names"""
    done = run("--platform", "dgx1v", "--sizes", "1M", ask=False, env={"CAPO_NCCL": "/nowhere/libnccl.so.2"})
    assert done.returncode == 1 and "CAPO_NCCL=/nowhere/libnccl.so.2" in done.stderr, done.stderr
    assert "on this machine" not in done.stderr, done.stderr


def profile_of_another_class():
    """a fragment's profile says that it cannot hold for a fragment of another class"""
    if sanitized:
        raise Skip
    path = profile([{"when": {"class": "dgx1v/3-ring1-b"}, "allreduce": [{"upto": "max", "algo": "tree", "proto": "simple"}]}])
    where = ("--platform", "dgx1v", "--sizes", "1M", "--profile", path)
    done = run(*where, "--gpus", "0,3,4")
    assert done.returncode == 0 and "no rule of profile.json can hold here: class;" in " ".join(done.stdout.split()), done
    assert "(this allocation is dgx1v/" in " ".join(done.stdout.split()), done
    assert "class" in plan(*where, "--gpus", "0,3,4")["no_rule_holds"]
    own = json.loads(subprocess.run([capo, "topo", "--platform", "dgx1v", "--gpus", "0,1,2", "--json"], capture_output=True,
                                    text=True).stdout)["class"]
    assert own == "dgx1v/3-ring1-b", own
    assert "can hold" not in run(*where, "--gpus", "0,1,2").stdout


def channels_only():
    """a tuner that only asks for fewer channels gets them"""
    if minor < 24:
        raise Skip
    answer = plan("--platform", "dgx1v", "--sizes", "64M", "--tuner", misbehave, env={"PLAN_TEST": "channels"})
    assert answer["rows"][0]["profile"]["channels"] == 5, answer["rows"][0]


def ranks_that_disagree():
    """a tuner that answers differently on different ranks is found out"""
    if minor < 24:
        raise Skip
    done = run("--platform", "dgx1v", "--sizes", "64M", "--tuner", misbehave, env={"PLAN_TEST": "disagree"})
    assert done.returncode == 1 and "DISAGREE" in done.stdout and "differently" in done.stderr, (done.stdout, done.stderr)


def tuner_that_hangs():
    """a tuner that never comes back: an error within the time given, nothing left running"""
    if minor < 24:
        raise Skip
    t = time.time()
    done = run("--platform", "dgx1v", "--sizes", "1M", "--tuner", misbehave, "--timeout", "2", env={"PLAN_TEST": "hang"})
    assert done.returncode == 1 and "no answer within 2.0 s" in done.stderr, done.stderr
    assert time.time() - t < 100


def tuner_that_crashes():
    """a tuner that ends its process, and one that refuses: each a sentence"""
    if minor < 24:
        raise Skip
    done = run("--platform", "dgx1v", "--sizes", "1M", "--tuner", misbehave, env={"PLAN_TEST": "crash"})
    assert done.returncode == 1 and "signal 6" in done.stderr, done.stderr
    done = run("--platform", "dgx1v", "--sizes", "1M", "--tuner", misbehave, env={"PLAN_TEST": "refuse"})
    assert done.returncode == 1 and "ncclCommInitRank" in done.stderr, done.stderr


def libraries_that_cannot_be_asked():
    """stripped, foreign, cut short, no library at all, no such file: each a sentence, exit status 1"""
    stripped = os.path.join(work, "libnccl.so.2")
    foreign = os.path.join(os.path.dirname(capo), "../profiles/plan/virtual/capo-plan-virtual.so")
    real = json.loads(first.stdout)["libnccl"]
    subprocess.run(["strip", "-o", stripped, real], check=True)
    cases = [(stripped, "stripped"), ("/etc/passwd", "cannot be loaded"), (foreign, "not a libnccl"), ("/nowhere", "No such file")]
    for path, words in cases:
        done = run("--platform", "dgx1v", "--sizes", "1M", "--nccl", path)
        assert done.returncode == 1 and words in done.stderr, (path, done.stderr)
    with open(stripped, "r+b") as f:
        f.truncate(100000)
    done = run("--platform", "dgx1v", "--sizes", "1M", "--nccl", stripped)
    assert done.returncode == 1 and done.stderr.startswith("capo: "), done.stderr
    os.unlink(stripped)


def topologies_that_are_wrong():
    """not XML, not a topology, no GPU, a bad bus id, a version NCCL rejects, no NIC for two nodes: each a sentence"""
    good = open(os.path.join(os.path.dirname(capo), "../profiles/data/dgx1v.xml")).read()
    cases = [("<system", (), "x.xml:1:"), ("<foo/>", (), "<system>"), ('<system version="1"/>', (), "no GPU"),
             (good.replace("0000:06:00.0", "zz"), (), "expected a busid"),
             (good.replace('<system version="1">', '<system version="9">'), (), "wrong version"),
             (re.sub(r"<nic>.*?</nic>", "", good, flags=re.S).replace('class="0x020700"', 'class="0x060400"'), ("--alloc", "3+5"),
              "no network interface")]
    path = os.path.join(work, "x.xml")
    for text, extra, words in cases:
        with open(path, "w") as f:
            f.write(text)
        done = run("--topo", path, "--sizes", "1M", *extra)
        assert done.returncode in (1, 2) and words in done.stderr, (words, done.stderr)


def command_lines_that_are_wrong():
    """exit status 2 and what was expected"""
    for arguments, words in ((["--alloc", "9"], "has 8"), (["--alloc", "3+"], "3+5"), (["--gpus", "0:1,,2"], "0:1,2,3"),
                             (["--sizes", "4..2"], "1K..1G"), (["--coll", "alltoall"], "allreduce"), (["--bogus"], "--bogus"),
                             (["--every", "9"], "8 GPUs"), (["--alloc", "2", "--gpus", "1"], "one"), (["--timeout", "x"], "number")):
        done = run("--platform", "dgx1v", *arguments)
        assert done.returncode == 2 and words in done.stderr, (arguments, done.returncode, done.stderr)
    done = run("--platform", "dgx1v", "--gpus", "0:1,2,9", "--sizes", "1M")
    assert done.returncode == 1 and "GPU 9" in done.stderr, done.stderr


def settings_reach_nccl():
    """NCCL_ALGO of the environment holds for the NCCL that is asked, and is shown"""
    done = run("--platform", "dgx1v", "--sizes", "64M", env={"NCCL_ALGO": "Tree"})
    assert done.returncode == 0 and "NCCL_ALGO=Tree" in done.stdout, done.stderr
    assert "Tree" in done.stdout.split("busbw")[1], done.stdout


def one_rank_and_odd_orders():
    """one rank; ranks in any order over the nodes"""
    assert plan("--platform", "dgx1v", "--gpus", "3", "--sizes", "1M")["ranks"] == 1
    answer = plan("--platform", "dgx1v", "--gpus", "1:7,0;0:3", "--sizes", "1M")
    assert answer["ranks"] == 3 and answer["nodes"] == 2


def splits_by_symmetry():
    """all splits 1+1 over two DGX-1V: 64, asked once per kind that the machine's symmetry leaves"""
    atlas = plan("--platform", "dgx1v", "--every", "1+1", "--sizes", "1M")
    assert atlas["allocations"] == 64 and atlas["asked"] < 10, (atlas["allocations"], atlas["asked"])
    assert sum(g["count"] for g in atlas["groups"]) == 64


def captured_machine():
    """capo topo capture of a DGX-2 (hwloc's recording of one, without its driver), completed by the platform, is a DGX-2"""
    with open(os.path.join(source, "tests/fragment/data/dgx2-lstopo.xml")) as f:
        recorded = f.read().replace('<topology version="3.0">', '<topology version="2.0">')
    lstopo, topo = os.path.join(work, "lstopo.xml"), os.path.join(work, "captured.xml")
    with open(lstopo, "w") as f:
        f.write(recorded)
    done = subprocess.run([capo, "topo", "capture", "-o", topo], capture_output=True, text=True,
                          env={**os.environ, "HWLOC_XMLFILE": lstopo, "ASAN_OPTIONS": "detect_leaks=0"})
    assert done.returncode == 0 and "NVIDIA GPUs 16" in done.stderr, done.stderr
    answer = plan("--topo", topo, "--platform", "dgx2", "--sizes", "64M", "--graph")
    assert answer["ranks"] == 16 and [g for g in answer["graphs"] if g["id"] == 0][0]["intra"] == "NVL"
    done = subprocess.run([capo, "topo", "capture"], capture_output=True, text=True,
                          env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})  # hwloc's plugins leak
    assert done.returncode == 0 and "<system" in done.stdout, done.stderr


def leftovers():
    return set(glob.glob("/dev/shm/nccl-*"))


def processes(what):
    """(number, text) of /proc/NUMBER/@what of every process that can be looked at"""
    for path in glob.glob("/proc/[0-9]*/" + what):
        try:
            with open(path, "rb") as f:
                yield path, f.read().decode(errors="replace")
        except OSError:
            pass


def workers():
    """this run's own: others ask NCCL at the same time"""
    ours = {os.path.dirname(p) for p, text in processes("environ") if "TMPDIR=" + work + "\0" in text}
    return [p for p, text in processes("cmdline") if "capo-plan-worker" in text and os.path.dirname(p) in ours]


def left_behind(before):
    """files of NCCL that are new, ours, and of no living process"""
    new = leftovers() - before
    used = "".join(text for _, text in processes("maps")) if new else ""
    return {p for p in new if p not in used and os.path.exists(p) and os.stat(p).st_uid == os.getuid()}


# What is not named here is the group "others".
GROUPS = {
    "alike": [alike_as_whole],  # slow: ./dev deep alike
    "classes": [five_gpu_classes],
    "uneven": [eight_ranks_twice, two_nodes_twice, disconnected_is_two_nodes, uneven_nodes, uneven_cost_table,
               splits_by_symmetry],
    "platforms": [every_platform, links_left_to_the_driver, captured_machine, whole_rack],
    "profiles": [profile_is_obeyed, profile_of_another_machine, profile_of_another_class, modelled_rule_by_request,
                 constants_by_request, profile_by_layout, profile_by_trays, profile_with_a_mistake],
    "tuners": [foreign_tuner, chunk_of_a_row, tuner_that_is_not_there, channels_only, ranks_that_disagree, tuner_that_hangs, tuner_that_crashes],
}
checks = [v for k, v in list(globals().items()) if callable(v) and getattr(v, "__doc__", None) and v.__module__ == "__main__"
          and not isinstance(v, type) and v not in (processes, workers, left_behind)]
if group == "others":
    checks = [c for c in checks if not any(c in g for g in GROUPS.values())]
elif group:
    checks = GROUPS[group]
unknown = set(names) - {c.__name__ for c in checks}
if unknown:
    sys.exit("no such check: %s" % " ".join(sorted(unknown)))
print("real NCCL %s: %s" % (release, json.loads(first.stdout)["libnccl"] if first.returncode == 0 else first.stderr))
if not own_shm:
    print("not tried: files of NCCL left in /dev/shm, which is shared with other programs here")
before = leftovers()
failed = 0
for check in checks:
    if names and check.__name__ not in names:
        continue
    t = time.time()
    try:
        check()
        verdict = "ok"
        rest = os.listdir(work)
        if [r for r in rest if r.startswith("capo-plan-")] or workers():
            raise AssertionError("left behind: %s %s" % (rest, workers()))
    except Skip:
        verdict = "skipped: not for this release or build"
    except Exception as error:  # a check that dies says so and the rest go on
        verdict = "FAILED: %s: %s" % (type(error).__name__, str(error)[:2000])
        failed += 1
    print("%-30s %5.1f s  %s   (%s)" % (check.__name__, time.time() - t, verdict, check.__doc__), flush=True)
left = left_behind(before) if own_shm else set()
for _ in range(5):  # whoever else asks may be about to remove them
    if left:
        time.sleep(1)
        left &= left_behind(before)
if left:
    print("FAILED: left in /dev/shm: %s" % sorted(left)[:5])
    failed += 1
shutil.rmtree(work, ignore_errors=True)
sys.exit(1 if failed else 0)
