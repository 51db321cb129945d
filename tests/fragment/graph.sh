#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# capo graph against real NCCL on virtual GPUs: skipped where there is no libnccl to ask.
set -u
capo=$(realpath "$1")
cd "$2/tests/fragment/data" || exit 99
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
bad=0
fail() { echo "$*"; bad=1; }

"$capo" plan --topo dgx1v.xml --gpus 0,1 --sizes 1M >"$tmp/plan" 2>&1 || { cat "$tmp/plan"; echo "no NCCL to ask: skipped"; exit 77; }

"$capo" graph --topo dgx1v.xml --gpus 0,2,3 --sizes 1M,1G -o "$tmp/g.xml" >"$tmp/page" 2>&1 || fail "{0,2,3}: $(cat "$tmp/page")"
grep -q 'accepted as it is' "$tmp/page" || fail "{0,2,3}: not accepted: $(cat "$tmp/page")"
grep -q '<graph id="1"' "$tmp/g.xml" || fail "{0,2,3}: no file"
# the file by itself, in a plan of its own: Tree, and faster
with=$(NCCL_GRAPH_FILE="$tmp/g.xml" "$capo" plan --topo dgx1v.xml --gpus 0,2,3 --sizes 1G --csv | tail -1)
echo "$with" | grep -qi tree || fail "with the file NCCL does not take Tree: $with"
# another communicator of the process, without these GPUs, fails at init: the limit that the page states
NCCL_GRAPH_FILE="$tmp/g.xml" "$capo" plan --topo dgx1v.xml --gpus 4,5 --sizes 1M >"$tmp/other" 2>&1 &&
        fail "NCCL took a graph of other GPUs: $(cat "$tmp/other")"

# capo run --graph auto: file, class and layout reach the command; without a gain only class and layout
"$capo" run --quiet --dir "$tmp/logs" --topo dgx1v.xml --gpus 0,2,3 --graph auto -- \
        sh -c 'echo "$CAPO_CLASS $CAPO_LAYOUT"; cat "$NCCL_GRAPH_FILE"' >"$tmp/run" 2>&1 || fail "run: $(cat "$tmp/run")"
grep -q '^dgx1v/3-ring1-a 3$' "$tmp/run" || fail "run: $(cat "$tmp/run")"
grep -q '<graph id="1"' "$tmp/run" || fail "run: no graph: $(cat "$tmp/run")"
"$capo" run --quiet --dir "$tmp/logs2" --topo dgx1v.xml --gpus 0-7 --graph auto -- \
        sh -c 'echo "$CAPO_CLASS [$NCCL_GRAPH_FILE]"' >"$tmp/run" 2>&1 || fail "run: $(cat "$tmp/run")"
grep -q '^dgx1v/8-ring3 \[\]$' "$tmp/run" || fail "run without a gain: $(cat "$tmp/run")"

"$capo" graph --topo dgx1v.xml --gpus 0-7 --sizes 1G -o "$tmp/full.xml" >"$tmp/page" 2>&1 && fail "a full DGX-1V needs no file"
[ -e "$tmp/full.xml" ] && fail "a file without a gain was written"
"$capo" graph --topo hgx-h100.xml --gpus 0-3 >"$tmp/page" 2>&1 && fail "a switch needs no file"
grep -q 'on a switch' "$tmp/page" || fail "H100: $(cat "$tmp/page")"
"$capo" graph --topo dgx1v.xml --gpus 1,4,6 >"$tmp/page" 2>&1 && fail "{1,4,6} is not joined"
grep -q 'does not join' "$tmp/page" || fail "{1,4,6}: $(cat "$tmp/page")"
"$capo" graph --topo dgx1v.xml --gpus 0,2,3 -o /nosuch/file >"$tmp/page" 2>&1 && fail "a folder that is not there"
grep -q 'No such file' "$tmp/page" || fail "no folder: $(cat "$tmp/page")"

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
exit $bad
