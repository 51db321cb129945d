#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What real NCCL on virtual GPUs does beside the ceilings: skipped where there is no libnccl to ask.
# usage: asked.sh CAPO SOURCE_ROOT
set -u
capo=$(realpath "$1")
cd "$2/tests/fragment/data" || exit 99
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
bad=0
fail() { echo "$*"; bad=1; }

"$capo" plan --topo dgx1v.xml --gpus 0,1 --sizes 1M >"$tmp/plan" 2>&1 || {
        cat "$tmp/plan"
        grep -q 'no libnccl' "$tmp/plan" || exit 1
        echo "no NCCL to ask: skipped"
        exit 77
}

"$capo" topo --topo dgx1v.xml --gpus 0,3,4 --predict >"$tmp/page" 2>&1 || fail "topo --predict"
grep -q 'AllReduce .* 65 %' "$tmp/page" || fail "topo --predict: $(cat "$tmp/page")"

# a graph file of somebody's own, with more channels than NCCL's search finds: Tree, and faster; GPUs that it does not name
# make no communicator
file=$PWD/dgx1v-023-graph.xml
asked() { "$capo" plan --topo dgx1v.xml --gpus 0,2,3 --sizes 1G --json | python3 -c '
import json, sys
row = json.load(sys.stdin)["rows"][0]["default"]
print(row["algo"], row["channels"], row["busbw_gbs"])'; }
read -r algo channels own <<END
$(asked)
END
[ "$algo" = Ring ] || fail "{0,2,3}: $algo"
read -r algo channels with <<END
$(NCCL_GRAPH_FILE=$file asked)
END
[ "$algo $channels" = "Tree 20" ] || fail "with the file NCCL takes $algo on $channels channels"
python3 -c "assert $with > 1.5 * $own" || fail "with the file: $with instead of $own"
NCCL_GRAPH_FILE=$file "$capo" plan --topo dgx1v.xml --gpus 4,5 --sizes 1M >"$tmp/other" 2>&1 &&
        fail "NCCL took a graph of other GPUs: $(cat "$tmp/other")"

# two releases side by side: one is what is here, so the same answers twice
nccl=$("$capo" plan --topo dgx1v.xml --gpus 0,1 --sizes 1M --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["libnccl"])')
"$capo" plan --topo dgx1v.xml --alloc 3+5 --sizes 1M,64M --nccl "$nccl" --nccl "$nccl" >"$tmp/two" 2>&1 || fail "two releases: $(cat "$tmp/two")"
grep -q '0 of 2 choices differ' "$tmp/two" || fail "two releases: $(cat "$tmp/two")"
grep -q ' NCCL 2[0-9.]* .* NCCL 2' "$tmp/two" || fail "two releases are not named: $(cat "$tmp/two")"
"$capo" plan --topo dgx1v.xml --alloc 3+5 --sizes 1M --nccl "$nccl" --nccl "$nccl" --json | python3 -c '
import json, sys
page = json.load(sys.stdin)
assert page["nccl_2"] == page["nccl"] and page["libnccl_2"] == page["libnccl"], page
assert page["rows"][0]["second"] == page["rows"][0]["default"] and page["rows"][0]["same"], page' || fail "JSON of two releases"
"$capo" plan --topo dgx1v.xml --nccl "$nccl" --nccl /nosuch >"$tmp/two" 2>&1 && fail "a second NCCL that is not there"
"$capo" plan --topo dgx1v.xml --nccl "$nccl" --nccl "$nccl" --every 3 >"$tmp/two" 2>&1
[ $? = 2 ] && grep -q 'compare releases by themselves' "$tmp/two" || fail "two releases and --every: $(cat "$tmp/two")"

# nvidia-smi's text: the decisions of the same machine by its name, what was assumed is printed, nothing is left behind
for alloc in 8 3+5; do
        "$capo" plan --topo hgx-h100-smi.txt --alloc $alloc --sizes 1K..1G*32 >"$tmp/smi" 2>"$tmp/err" || fail "nvidia-smi's text: $(cat "$tmp/err")"
        grep -q 'has no speeds; taken: PCIe 5 x16, NICs of 400 Gb/s' "$tmp/err" || fail "not said what is assumed: $(cat "$tmp/err")"
        "$capo" plan --platform hgxh100 --alloc $alloc --sizes 1K..1G*32 | tail -5 >"$tmp/named"
        tail -5 "$tmp/smi" | cmp - "$tmp/named" || fail "$alloc of nvidia-smi's text: $(cat "$tmp/smi")"
done
TMPDIR=$tmp "$capo" plan --topo SOURCES.md >"$tmp/smi" 2>&1 && fail "a text that is none of nvidia-smi's"
grep -q 'expected the matrix of nvidia-smi topo -m' "$tmp/smi" || fail "a text that is none: $(cat "$tmp/smi")"

# a rack: one tray by itself is a tray
"$capo" plan --platform gb200-nvl72 --sizes 1M >"$tmp/rack" 2>&1 || fail "a rack: $(cat "$tmp/rack")"
grep -q 'gb200.xml *4 ranks on 1 node' "$tmp/rack" || fail "a rack: $(cat "$tmp/rack")"

# trays of one NVLink domain: topo asks what plan asks, also where some trays in between have no GPU
"$capo" plan --platform gb200-nvl72 --alloc 1+3+2 --coll allgather --sizes 1G --json >"$tmp/plan" || fail "trays: $(cat "$tmp/plan")"
for what in "--alloc 1+3+2" "--gpus 4,8-10,20,21"; do
        "$capo" topo --platform gb200-nvl72 $what --predict --json | python3 -c '
import json, sys
plan, nccl = json.load(open(sys.argv[1]))["rows"][0]["default"], json.load(sys.stdin)["nccl_model"]
assert abs(nccl["allgather_gbs"] - plan["busbw_gbs"] * 6 / 5) < 1e-3 * nccl["allgather_gbs"], (plan, nccl)' "$tmp/plan" || fail "trays: $what"
done

# capo run: class and layout of the allocation reach the command
"$capo" run --quiet --dir "$tmp/logs" --topo dgx1v.xml --gpus 0,2,3 -- sh -c 'echo "$CAPO_CLASS $CAPO_LAYOUT"' \
        >"$tmp/run" 2>&1 || fail "run: $(cat "$tmp/run")"
grep -q '^dgx1v/3-ring1-a 3$' "$tmp/run" || fail "run: $(cat "$tmp/run")"
"$capo" run --quiet --dir "$tmp/logs" --gpus 0,2,3 -- true >"$tmp/run" 2>&1
[ $? = 2 ] && grep -q 'which GPUs of which machine' "$tmp/run" || fail "run without a machine: $(cat "$tmp/run")"

# Switches that add: NCCL's NVLS and NVLSTree exceed the ceiling of links that only pass data on (270 of 211.9 GB/s, 242
# of 223.4), never that of switches that add.
for alloc in 8 4 8+8; do
        "$capo" topo --platform hgxh100 --alloc $alloc --libnccl "$nccl" --wide >"$tmp/page" 2>&1 || fail "H100 $alloc: $(cat "$tmp/page")"
        [ $alloc = 4 ] || grep -q "AllReduce  .* NVLS" "$tmp/page" || fail "H100 $alloc: not NVLS: $(cat "$tmp/page")"
        grep -qE '^AllReduce .*NVLink.*[+]NVLS ' "$tmp/page" || fail "H100 $alloc: no ceiling of the switch: $(cat "$tmp/page")"
        grep -E ' [1-9][0-9]{2,} %' "$tmp/page" | grep -v ' 100 %' && fail "H100 $alloc: more than all"
done
"$capo" explain allreduce 1G --platform hgxh100 --wide >"$tmp/page" || fail "explain"
grep -q 'the switches adding, this is expected to reach 82 % of it' "$tmp/page" || fail "explain: $(cat "$tmp/page")"
"$capo" plan --platform gb200 --every 4 --sizes 1G --wide >"$tmp/page" || fail "every"
grep -q '[0-9][0-9] %  .*NVLS' "$tmp/page" || fail "every: $(cat "$tmp/page")"
exit $bad
