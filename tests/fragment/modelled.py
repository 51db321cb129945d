#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""capo fit --model without measurements, against real NCCL on virtual GPUs: skipped (77) where there is none to ask.

usage: modelled.py CAPO SOURCE_ROOT [NAME...]: of the functions at the end; all without
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

capo, root = os.path.realpath(sys.argv[1]), sys.argv[2]
folder = tempfile.mkdtemp()
os.environ["SOURCE_DATE_EPOCH"] = "1700000000"
for name in [n for n in os.environ if n.startswith(("NCCL_", "CAPO_")) and n != "CAPO_NCCL"]:
    del os.environ[name]
SIZES = "1K..8G*8"


def run(*words, expect=0, **env):
    r = subprocess.run([capo, *words], capture_output=True, text=True, env={**os.environ, **env})
    if r.returncode != expect:
        raise AssertionError(f"{' '.join(words)}: exit {r.returncode}, expected {expect}\n{r.stdout}{r.stderr}")
    return r.stdout + (r.stderr if expect else "")


def fit(machine, alloc, **env):
    """The model as JSON, and the profile it wrote, or None."""
    path = os.path.join(folder, re.sub(r"\W", "_", alloc) + ".json")
    page = json.loads(run("fit", *machine, "--model", alloc, "--sizes", SIZES, "--json", "-o", path, **env))[0]
    return page, path if os.path.exists(path) else None


def plan(machine, where, profile, *more, **env):
    words = ["plan", *machine, *where, "--sizes", SIZES, "--coll", "all", "--json"]
    if profile:
        words += ["--profile", profile, "--spy"]
    return {(r["coll"], r["bytes"]): r for r in json.loads(run(*words, *more, **env))["rows"]}


def near(a, b, tolerance, what):
    assert abs(a - b) <= tolerance * abs(b), f"{what}: {a}, expected {b} within {100 * tolerance:g} %"


def chosen(row):
    return f'{row["algo"]} {row["proto"]}'


def obeyed(machine, where, page, profile, **env):
    """NCCL's own table stays as it is, in every cell; the rows decide as the model does."""
    for key, row in plan(machine, where, profile, "--allow-modelled", **env).items():
        want = next(r for r in page["rows"] if (r["coll"], r["bytes"]) == key)
        for cell, us in row["costs"].items():
            cell = cell.replace("/", " ")
            near(us, want["cells"][cell]["nccl_us"], 1e-3, f"{where} {key} {cell}")
        assert row["ranks_agree"], f"{where} {key}: ranks disagree"
        if want["written"]:
            assert chosen(row["profile"]) == want["best"], f'{where} {key}: {row["profile"]}, expected {want["best"]}'


def untouched(machine, where, profile, *more):
    for key, row in plan(machine, where, profile, *more).items():
        # its own choice where it has no say; and the table is the one of a job without a profile
        assert row["same"], f"{where} {key}: touched"
        if "costs" in row and row["default"]["us"] is not None:
            near(min(row["costs"].values()), row["default"]["us"], 1e-4, f"{where} {key}")


def fragment_of_two_machines():
    machine = ["--platform", "dgx1v"]
    page, profile = fit(machine, "{0,1,2}+{0-4}")
    assert page["class"] == "dgx1v/3-ring1-b+dgx1v/5-chain-a" and page["layout"] == "3+5", page
    assert (page["mean"], page["largest"], page["nodes"]) == (4, 5, 2), page
    # one hop more, up and down, at PCI's latency (the tree of the five passes by another GPU): 2 x (1.0, 1.9, 4.0) us,
    # as NCCL's own time says: 6.8 + 2 x (3 hops + 5.0) and a little for 1 KiB
    assert page["tree_late_us"] == [2.0, 3.8, 8.0], page["tree_late_us"]
    near(next(r for r in page["rows"] if r["bytes"] == 1024)["cells"]["Tree LL"]["nccl_us"], 22.8, 0.03, "Tree LL")
    assert page["ring"]["understood"] and page["tree"]["understood"], page
    assert page["tree"]["corrected_gbs"] > 1.5 * page["tree"]["believed_gbs"], page["tree"]
    assert page["rows_written"] >= 1, page
    text = open(profile).read()
    assert '"constants"' not in text, "constants move choices that no margin guards"
    assert '"basis": "modelled"' in text and '"layout": "3+5"' in text and f'"class": "{page["class"]}"' in text, text
    assert ": good" in run("profile", "check", profile)
    again, other = fit(machine, "{0,1,2}+{0-4}")
    assert again == page and open(other).read() == text, "two runs differ"

    gpus = ["--gpus", "0:0,1,2;1:0-4"]
    obeyed(machine, gpus, page, profile)
    untouched(machine, gpus, profile)  # not allowed
    untouched(machine, ["--gpus", "0:1,2,3;1:0-4"], profile, "--allow-modelled")  # 3+5, another class
    untouched(machine, ["--alloc", "4+4"], profile, "--allow-modelled")
    untouched(machine, ["--alloc", "3+3"], profile, "--allow-modelled")

    # the tuner is asked what it would do, and why
    output = run("explain", *machine, *gpus, "--profile", profile, "--allow-modelled", "allreduce", "1G")
    assert "modelled" in output and "decides" in output and "runs Tree Simple" in output, output
    output = run("explain", *machine, *gpus, "--profile", profile, "allreduce", "1G")
    assert "runs Ring Simple" in output, output
    # what capo run exports reaches the job
    output = run("run", "--quiet", "--dir", os.path.join(folder, "logs"), *machine, "--gpus", "0:0,1,2;1:0-4", "--profile",
               profile, "--allow-modelled", "--", "sh", "-c", 'echo "$CAPO_CLASS $CAPO_LAYOUT $CAPO_ALLOW_MODELLED"')
    assert f'{page["class"]} 3+5 1' in output, output


def fragment_behind_switches():
    """Ranks per node say everything. Tree's missing hops are worth less than 20 %: nothing is written, and a choice that
    only one of the two accounts prefers is left to a measurement."""
    machine = ["--platform", "hgxh100"]
    page, profile = fit(machine, "1+7")
    assert profile is None and page["rows_written"] == 0 and page["layout"] == "1+7", page
    assert page["tree_late_us"] == [3.6, 7.5, 24.0], page["tree_late_us"]
    assert not any(r["written"] for r in page["rows"]), page
    # three of eight in one machine: NVLS by what the switch allows, 85 % of port / (1 + 1/n)
    page, _ = fit(machine, "4")
    near(page["nvls"]["corrected_gbs"] / 1.5, 0.85 * 370.8 / 1.25, 1e-3, "NVLS of 4")
    near(page["nvls"]["corrected_gbs"] / 1.5, 251.0, 0.02, "NVLS of 4, measured at 8 GiB")


def constants_by_hand():
    """A profile that changes NCCL's constants: plan and explain say that it is NCCL's choice with those, not that it is left alone."""
    path = os.path.join(folder, "constants.json")
    open(path, "w").write('{"capo_profile": 1, "rules": [{"when": {"layout": "1+7"}, "constants": '
                          '[{"table": "base_latency", "algo": "tree", "proto": "ll", "value": 90.0}], '
                          '"broadcast": [{"upto": "max", "algo": "ring", "proto": "ll"}]}]}')
    machine = ["--platform", "hgxh100"]
    text = run("plan", *machine, "--alloc", "1+7", "--sizes", "2K", "--profile", path, "--wide")
    assert "constants.json:1 NCCL's choice with its constants changed" in text, text
    output = run("explain", *machine, "--alloc", "1+7", "--profile", path, "--wide", "allreduce", "2K")
    assert "untouched" not in output and "line 1 changes constants of NCCL's model" in output, output


def lowered():
    """A graph file with twice the speed that the links have is not believed."""
    machine = ["--platform", "dgx1v"]
    path = os.path.join(root, "tests/fragment/data/dgx1v-023-graph.xml")
    text = open(path).read()
    slow, fast = fit(machine, "0,2,3", NCCL_GRAPH_FILE=path)[0], os.path.join(folder, "fast.xml")
    open(fast, "w").write(re.sub(r'speedintra="(\d+)"', lambda m: f'speedintra="{2 * int(m.group(1))}"', text))
    page, _ = fit(machine, "0,2,3", NCCL_GRAPH_FILE=fast)
    near(page["tree"]["believed_gbs"], 2 * slow["tree"]["believed_gbs"], 1e-3, "tree believed")
    near(page["tree"]["corrected_gbs"], slow["tree"]["corrected_gbs"], 1e-3, "tree corrected")
    assert page["tree"]["corrected_gbs"] < page["tree"]["believed_gbs"], page["tree"]


def public_decisions():
    """Decisions that people measured and published, GB/s of all-reduce. In the first two NCCL's cap per channel for Tree is
    wrong and the links are right, in the third the cap is. Nothing tells them apart before a measurement: so no row in
    any, the experiment in the first two, and nothing in the third, where it would find nothing.
    """
    nics4 = os.path.join(folder, "h100-4nics.xml")
    text, count = open(os.path.join(os.path.dirname(capo), "../profiles/data/hgxh100.xml")).read(), iter(range(99))
    open(nics4, "w").write(re.sub(r"<net [^>]*/>", lambda m: "" if next(count) % 2 else m.group(0), text))
    cases = [  # machine, allocation, ranks, measured bus bandwidth of Ring and Tree, whether Tree is to be measured, source
        (["--platform", "gb200"], "3x4", 12, 196.72, 234.43, True, "NVIDIA/nccl#1801: 3 NVLink domains of 4, 16 GiB"),
        (["--platform", "hgxb200"], "3x8", 24, 393.66, 485.68, True, "NVIDIA/nccl#1801: 3 NVLink domains of 8, 16 GiB"),
        (["--topo", nics4], "5x8", 40, 190, 150, False, "NVIDIA/nccl#1368: 5 x 8 H100, 4 NICs of 400 Gb/s each"),
    ]
    for machine, alloc, n, ring, tree, measure, source in cases:
        out = run("fit", *machine, "--model", alloc, "--sizes", "16G", "--json", NCCL_NVLS_ENABLE="0")
        row = next(r for r in json.loads(out)[0]["rows"] if r["coll"] == "allreduce")
        cells, bus = row["cells"], 2 * (n - 1) / n
        assert row["nccl"] == "Ring Simple" and not row["written"], (source, row)
        near(bus * 2**34 / cells["Ring Simple"]["corrected_us"] / 1000, ring, 0.04, source)
        right = "links_us" if measure else "corrected_us"
        near(bus * 2**34 / cells["Tree Simple"][right] / 1000, tree, 0.04, source)
        assert row["settle"] == ("Tree Simple" if measure else ""), (source, row)
        text = run("fit", *machine, "--model", alloc, "--sizes", "16G", "--wide", NCCL_NVLS_ENABLE="0")
        assert ("capo sweep --coll allreduce --algos ring,tree --protos simple --sizes 16G..16G" in text) == measure, text
        assert "0 rules" in text, text


def trays_of_a_rack():
    """Trays of an NVLink domain are one node: the links are the switches', and a rule names the trays."""
    path = os.path.join(folder, "rack.json")
    page = json.loads(run("fit", "--platform", "gb200-nvl72", "--model", "1+3+2", "--sizes", "1G", "--json"))[0]
    assert (page["nodes"], page["largest"], page["trays"], page["layout"]) == (1, 6, "1+2+3 in any order", ""), page
    near(page["ring"]["links_gbs"], 18 * 40.1, 1e-3, "18 links of 40.1 GB/s")
    near(page["nvls"]["corrected_gbs"], 0.74 * 18 * 40.1 / (1 + 1 / 6) * 10 / 6, 1e-3, "NVLS of 6")
    # 2+2 | 2: two domains of trays; their NICs, each at its own tray
    page = json.loads(run("fit", "--platform", "hgxh100", "--domain", "2", "--model", "2+2+2", "--sizes", "1G", "--json"))[0]
    assert (page["nodes"], page["largest"], page["trays"]) == (2, 4, "3x2"), page
    near(page["ring"]["links_gbs"], 2 * 48, 1e-2, "two NICs of 48 GB/s at the smaller domain")
    assert "expected NVLinks" in run("fit", "--model", "2+2", "--platform", "p5", "--domain", "2", expect=1)


def nothing_to_gain():
    path = os.path.join(folder, "none.json")
    text = run("fit", "--platform", "dgx1v", "--model", "8", "--sizes", SIZES, "-o", path, "--wide")
    assert "nothing to gain by choice" in text and "not written" in text and not os.path.exists(path), text


def beyond():
    """Settings outside of NCCL's table: each experiment is asked of NCCL by itself, and the page says what it answers."""
    for alloc, setting, channels in [("3+5", "NCCL_PXN_DISABLE=1", None), ("1+7", "NCCL_MIN_CTAS=8", 8)]:
        where = ["--platform", "hgxh100", "--alloc", alloc]
        tried = json.loads(run("fit", *where[:2], "--model", alloc, "--sizes", "1G", "--json"))[0]["beyond"]
        assert [t.split(":")[0] for t in tried] == [setting], tried
        assert f"{setting} capo run --dir with" in tried[0], tried
        assert json.loads(run("topo", *where, "--predict", "--json"))["nccl_model"]["beyond"] == tried
        name, value = setting.split("=")
        now, then = (json.loads(run("plan", *where, "--sizes", "1G", "--json", **e))["rows"][0]["default"] for e in ({}, {name: value}))
        if channels:  # more channels, and the model does not notice
            assert now["channels"] < then["channels"] == channels and now["us"] == then["us"], (now, then)
        else:
            assert f"NCCL then picks {then['algo']} {then['proto']} with {then['channels']} channels" in tried[0], (then, tried)
            assert f"instead of {now['algo']} {now['proto']} with {now['channels']}," in tried[0] and then["us"] < now["us"], (now, tried)
        again = json.loads(run("fit", *where[:2], "--model", alloc, "--sizes", "1G", "--json", **{name: value}))[0]["beyond"]
        assert setting not in str(again), again  # it is set already
    assert not json.loads(run("fit", *where[:2], "--model", "8", "--sizes", "1G", "--json"))[0]["beyond"], "one node"


def refusals():
    machine = ["--platform", "dgx1v"]
    for words, status, says in [
        (["--model", "3+9", *machine], 1, "3+9"),
        (["--model", "0,0", *machine], 1, "0,0"),
        (["--model", "3+x", *machine], 1, "3+x"),
        (["--model", "1", *machine], 1, "nobody to talk to"),
        (["--model", "3+5"], 2, "--platform"),
        (["--model", "3+5", "--platform", "nosuch"], 2, "nosuch"),
        (["--model", "3+5", "--topo", "/nosuch.xml"], 1, "/nosuch.xml"),
        (["--model", "3+5", *machine, "--sizes", "1M,1K"], 1, "rising"),
        (["--model", "3+5", *machine, "--sizes", "many"], 1, "--sizes"),
        (["--model", "3+5", *machine, "--libnccl", "/nosuch.so"], 1, "nosuch"),
        ([], 2, "no input"),
        (["--model"], 2, "value"),
    ]:
        text = run("fit", *words, expect=status)
        assert says in text and text.startswith("capo: "), (words, text)
    text = run("plan", *machine, "--every", "3", "--profile", "x.json", expect=2)
    assert "--every" in text, text


def orders():
    """The model for another order of the nodes is what comes out when that order is asked; the best one is named; a rule in any
    order is one that each order has."""
    machine = ("--platform", "hgxh100")
    sizes = ("--sizes", "1G", "--json")
    every = {o["layout"]: o for o in json.loads(run("fit", *machine, "--model", "4+1+4", *sizes))[0]["orders"]}
    assert set(every) == {"4+1+4", "1+4+4", "4+4+1"}, every
    for layout, order in every.items():
        alone = json.loads(run("fit", *machine, "--model", layout, *sizes))[0]
        row = next(r for r in alone["rows"] if r["coll"] == "allreduce")
        near(min(c["corrected_us"] for c in row["cells"].values()), order["best_us"], 1e-3, layout)
        near(row["cells"][row["nccl"]]["corrected_us"], order["own_us"], 1e-3, layout)
    best = min(every.values(), key=lambda o: o["best_us"])
    text = run("fit", *machine, "--model", "4+1+4", "--sizes", "1G")
    named = re.search(r"best order of the nodes (\S+):", text)
    if best["best_us"] < 0.99 * every["4+1+4"]["best_us"]:
        assert named and near(every[named.group(1)]["best_us"], best["best_us"], 1e-6, text) is None, text
        again = run("fit", *machine, "--model", best["layout"], "--sizes", "1G")
        assert "best order" not in again, again
    else:
        assert not named, text


TESTS = (orders, fragment_of_two_machines, fragment_behind_switches, constants_by_hand, lowered, public_decisions, trays_of_a_rack, nothing_to_gain, beyond, refusals)
wanted = [t for t in TESTS if t.__name__ in sys.argv[3:]] if sys.argv[3:] else TESTS
assert len(wanted) == len(sys.argv[3:] or TESTS), sys.argv
try:
    try:
        run("plan", "--platform", "dgx1v", "--gpus", "0,1", "--sizes", "1M")
    except AssertionError as why:
        if "no libnccl" not in str(why):
            raise
        print(f"{why}\nno NCCL to ask: skipped")
        sys.exit(77)
    spied = json.loads(run("plan", "--platform", "dgx1v", "--gpus", "0,1", "--sizes", "1M", "--spy", "--json"))["told"]["constants"]
    if len(spied) < 24 or not spied[23] > 0:  # before 2.28; 2.31.2 tells zeros (23: Tree Simple over NVLink)
        print("this NCCL tells no constants: skipped")
        sys.exit(77)
    for test in wanted:
        test()
        print("ok", test.__name__)
finally:
    shutil.rmtree(folder)
