#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# capo graph against real NCCL on virtual GPUs: skipped where there is no libnccl to ask.
# usage: graph.sh CAPO SOURCE_ROOT [PART...]: one, two (machines), run, none (nothing to gain), topo; all of them without
set -u
capo=$(realpath "$1")
cd "$2/tests/fragment/data" || exit 99
shift 2
parts=${*:-one two run none topo}
part() { case " $parts " in *" $1 "*) return 0 ;; esac; return 1; }
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
bad=0
fail() { echo "$*"; bad=1; }

"$capo" plan --topo dgx1v.xml --gpus 0,1 --sizes 1M >"$tmp/plan" 2>&1 || { cat "$tmp/plan"; echo "no NCCL to ask: skipped"; exit 77; }

if part one; then
"$capo" graph --topo dgx1v.xml --gpus 0,2,3 --sizes 1M,1G -o "$tmp/g.xml" >"$tmp/page" 2>&1 || fail "{0,2,3}: $(cat "$tmp/page")"
grep -q 'accepted as it is' "$tmp/page" || fail "{0,2,3}: not accepted: $(cat "$tmp/page")"
grep -q '<graph id="1"' "$tmp/g.xml" || fail "{0,2,3}: no file"
# the file by itself, in a plan of its own: Tree, and faster
with=$(NCCL_GRAPH_FILE="$tmp/g.xml" "$capo" plan --topo dgx1v.xml --gpus 0,2,3 --sizes 1G --csv | tail -1)
echo "$with" | grep -qi tree || fail "with the file NCCL does not take Tree: $with"
# another communicator of the process, without these GPUs, fails at init: the limit that the page states
NCCL_GRAPH_FILE="$tmp/g.xml" "$capo" plan --topo dgx1v.xml --gpus 4,5 --sizes 1M >"$tmp/other" 2>&1 &&
        fail "NCCL took a graph of other GPUs: $(cat "$tmp/other")"
fi

if part two; then
# two machines: a file each, every channel taken, every ring on one rail, and no link promised more than it has
"$capo" graph --platform dgx1v --gpus 1,2,3+0-4 --sizes 1M,1G -o "$tmp/two" >"$tmp/page" 2>&1 || fail "3+5: $(cat "$tmp/page")"
grep -q 'accepted as they are' "$tmp/page" || fail "3+5: not accepted: $(cat "$tmp/page")"
grep -q '5 of 5 rings stay on one rail' "$tmp/page" || fail "3+5: rails: $(cat "$tmp/page")"
grep -q '^machine 1@0000:07:00.0 2@0000:0a:00.0 3@0000:0b:00.0 nics mlx5_0 mlx5_1' "$tmp/two/machines" || fail "3+5: machines"
two() { "$capo" plan --platform dgx1v --gpus '0:1,2,3;1:0-4' --sizes 1G --json "$@"; }
two >"$tmp/own.json" || fail "3+5 without files"
two --graph --graph-file "$tmp/two/graph-0.xml,$tmp/two/graph-1.xml" >"$tmp/both.json" || fail "3+5 with both files"
# a machine that has its file and one that has not: no hang, no error, fewer channels
two --graph-file "$tmp/two/graph-0.xml,-" >"$tmp/first.json" || fail "3+5 with the first file only"
two --graph-file "-,$tmp/two/graph-1.xml" >"$tmp/second.json" || fail "3+5 with the second file only"
# the other machine's file is not taken
two --graph-file "$tmp/two/graph-1.xml,$tmp/two/graph-0.xml" >"$tmp/other" 2>&1 && fail "3+5: swapped files"
python3 - "$tmp" ../../../profiles/data/topologies/dgx1v.xml <<'END' || fail "3+5: the plans"
import json, sys
import xml.etree.ElementTree as ET
tmp = sys.argv[1]
plans = {n: json.load(open(f"{tmp}/{n}.json")) for n in ("own", "both", "first", "second")}
def bus(n): return plans[n]["rows"][0]["default"]["busbw_gbs"]
assert bus("both") > 1.25 * bus("own"), (bus("both"), bus("own"))
assert bus("first") < bus("both") and bus("second") < bus("both")
assert {g["node"] for g in plans["both"]["graphs"]} == {0, 1}
# GB/s on each NIC and on each direction of NVLink, by the file's own speeds
links = {}
for g in ET.parse(sys.argv[2]).iter("pci"):
    for gpu in g.findall("gpu"):
        links[g.get("busid")] = (int(gpu.get("dev")), {l.get("target"): int(l.get("count")) for l in gpu.findall("nvlink")})
dev = {b: d for b, (d, _) in links.items()}
nv = {(d, dev[t]): 20 * n for b, (d, to) in links.items() for t, n in to.items() if t in dev}
for node in (0, 1):
    for graph in ET.parse(f"{tmp}/two/graph-{node}.xml").getroot():
        tree, used, nic = graph.get("id") == "1", {}, {}
        speed = float(graph.get("speedinter"))
        gpus = {int(x.get("dev"), 16) for x in graph.find("channel").findall("gpu")}
        for c in graph.findall("channel"):
            order = [int(x.get("dev"), 16) for x in c.findall("gpu")]
            assert len(order) == len(set(order)) == (3, 5)[node]
            nic[c.findall("net")[0].get("dev")] = nic.get(c.findall("net")[0].get("dev"), 0) + speed
            for a, b in list(zip(order, order[1:])) + ([(b, a) for a, b in zip(order, order[1:])] if tree else []):
                if (a, b) in nv:
                    used[a, b] = used.get((a, b), 0) + speed
        assert all(v <= 12.0001 for v in nic.values()), nic
        assert all(v <= nv[k] + 1e-3 for k, v in used.items()), used
END
fi

if part run; then
# capo run --graph auto: files, class and layout reach the command; without a gain only class and layout
"$capo" run --quiet --dir "$tmp/logs" --topo dgx1v.xml --gpus 0,2,3 --graph auto -- \
        sh -c 'echo "$CAPO_CLASS $CAPO_LAYOUT [$NCCL_GRAPH_FILE]"; cat "$CAPO_GRAPH/graph-0.xml" "$CAPO_GRAPH/machines"' \
        >"$tmp/run" 2>&1 || fail "run: $(cat "$tmp/run")"
grep -q '^dgx1v/3-ring1-a 3 \[\]$' "$tmp/run" || fail "run: $(cat "$tmp/run")"
grep -q '<graph id="1"' "$tmp/run" || fail "run: no graph: $(cat "$tmp/run")"
grep -q '^machine 0@0000:06:00.0 2@0000:0a:00.0 3@0000:0b:00.0$' "$tmp/run" || fail "run: no machine: $(cat "$tmp/run")"
"$capo" run --quiet --dir "$tmp/logs2" --topo hgx-h100.xml --gpus 0-3 --graph auto -- \
        sh -c 'echo "$CAPO_CLASS [$CAPO_GRAPH]"' >"$tmp/run" 2>&1 || fail "run: $(cat "$tmp/run")"
grep -q '^hgxh100/4 \[\]$' "$tmp/run" || fail "run without a gain: $(cat "$tmp/run")"
mkdir -p "$tmp/two"
"$capo" run --quiet --dir "$tmp/logs2" --graph "$tmp/two" -- sh -c 'echo "$CAPO_GRAPH"' >"$tmp/run" 2>&1 || fail "run: $(cat "$tmp/run")"
grep -q '/two$' "$tmp/run" || fail "run with a folder: $(cat "$tmp/run")"
fi

if part none; then
"$capo" graph --topo dgx1v.xml --gpus 0-7 --sizes 1G -o "$tmp/full.xml" >"$tmp/page" 2>&1 && fail "a full DGX-1V needs no file"
[ -e "$tmp/full.xml" ] && fail "a file without a gain was written"
"$capo" graph --platform dgx1v --gpus 0-2+3-7 --sizes 1G >"$tmp/page" 2>&1 && fail "{0,1,2}+{3-7} has nothing idle"
grep -q "own channels can carry 20.0" "$tmp/page" || fail "{0,1,2}+{3-7}: $(cat "$tmp/page")"
"$capo" graph --platform dgx1v --gpus 1,4,6+0-4 --sizes 1G >"$tmp/page" 2>&1 && fail "{1,4,6} of two machines is not joined"
grep -q 'counts 3 nodes on 2 machines' "$tmp/page" || fail "{1,4,6}+: $(cat "$tmp/page")"
"$capo" graph --topo dgx1v.xml --gpus 0,1 --sizes 1X >"$tmp/page" 2>&1
[ $? = 2 ] && grep -q 'expected sizes' "$tmp/page" || fail "bad sizes: $(cat "$tmp/page")"
"$capo" graph --topo hgx-h100.xml --gpus 0-3 --sizes 1G >"$tmp/page" 2>&1 && fail "a switch needs no file"
grep -q 'on a switch' "$tmp/page" || fail "H100: $(cat "$tmp/page")"
"$capo" graph --topo dgx1v.xml --gpus 1,4,6 --sizes 1G >"$tmp/page" 2>&1 && fail "{1,4,6} is not joined"
grep -q 'does not join' "$tmp/page" || fail "{1,4,6}: $(cat "$tmp/page")"
"$capo" graph --topo dgx1v.xml --gpus 0,2,3 --sizes 1G -o /nosuch/file >"$tmp/page" 2>&1 && fail "a folder that is not there"
grep -q 'No such file' "$tmp/page" || fail "no folder: $(cat "$tmp/page")"
fi

if part topo; then
"$capo" topo --topo dgx1v.xml --gpus 0,3,4 --nccl >"$tmp/page" 2>&1 || fail "topo --nccl"
grep -q 'all-reduce .* 75 %' "$tmp/page" || fail "topo --nccl: $(cat "$tmp/page")"
# 56 three-GPU subsets: bus bandwidth 40 (12), 20 (20), and 24 that NCCL takes over the network
"$capo" topo --topo dgx1v.xml --every 3 --nccl --json | python3 -c '
import json, sys
rows = json.load(sys.stdin)["classes"]
fast = sum(r["count"] for r in rows if r["nccl_nodes"] == 1 and abs(r["nccl_allreduce_gbs"] * 4 / 3 - 40) < 1)
slow = sum(r["count"] for r in rows if r["nccl_nodes"] == 1 and abs(r["nccl_allreduce_gbs"] * 4 / 3 - 20) < 1)
split = sum(r["count"] for r in rows if not r["connected"])
assert (fast, slow, split) == (12, 20, 24), (fast, slow, split)
' || fail "three-GPU classes"

# Switches that add: NCCL's NVLS and NVLSTree exceed the ceiling of links that only pass data on (270 of 211.9 GB/s, 242
# of 223.4), never that of switches that add.
for alloc in 8 4 8+8; do
        "$capo" topo --platform hgxh100 --alloc $alloc --nccl >"$tmp/page" 2>&1 || fail "H100 $alloc: $(cat "$tmp/page")"
        [ $alloc = 4 ] || grep -q "all-reduce  .* NVLS" "$tmp/page" || fail "H100 $alloc: not NVLS: $(cat "$tmp/page")"
        grep -q 'in the switch' "$tmp/page" || fail "H100 $alloc: no ceiling of the switch: $(cat "$tmp/page")"
        grep -E ' [1-9][0-9][1-9] %| 1[1-9][0-9] %' "$tmp/page" && fail "H100 $alloc: more than all"
done
"$capo" explain allreduce 1G --platform hgxh100 >"$tmp/page" || fail "explain"
grep -q 'the switches adding, this is expected to reach 82 % of it' "$tmp/page" || fail "explain: $(cat "$tmp/page")"
"$capo" graph --platform hgxh100 --alloc 8 --sizes 1G >"$tmp/page" 2>&1 && fail "a switch needs no file"
grep -q 'ceiling .* 329.6.* the switches adding' "$tmp/page" || fail "graph: $(cat "$tmp/page")"
"$capo" plan --platform gb200 --every 4 --sizes 1G >"$tmp/page" || fail "every"
grep -q 'the switches adding, NCCL reaches [0-9][0-9] % of it' "$tmp/page" || fail "every: $(cat "$tmp/page")"
fi

exit $bad
