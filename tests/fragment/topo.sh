#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Pages of `capo topo` compared with what they were when somebody last looked; CAPO_GOLDEN_REWRITE=1 writes them anew.
set -u
capo=$(realpath "$1")
cd "$2/tests/fragment/data" || exit 99
golden=../golden
bad=0
fail() { echo "$*"; bad=1; }
tmp=$(mktemp) || exit 99
trap 'rm -f "$tmp" "$tmp".*' EXIT

page() { # name, options
        name=$1; shift
        "$capo" "$@" >"$tmp" 2>&1
        echo "exit status $?" >>"$tmp"
        [ -n "${CAPO_GOLDEN_REWRITE:-}" ] && cp "$tmp" "$golden/$name.txt"
        diff -u "$golden/$name.txt" "$tmp" || fail "$name: capo $* differs"
}

page dgx1v topo --topo dgx1v.xml
page dgx1v-034 topo --topo dgx1v.xml --gpus 0,3,4
page dgx1v-3+5 topo --topo dgx1v.xml --gpus 1,2,3+0-4
page dgx1v-146-json topo --topo dgx1v.xml --gpus 1,4,6 --json
page hgx-h100 topo --topo hgx-h100.xml --alloc 2+6
page hgx-h100-smi topo --topo hgx-h100-smi.txt --gpus 0-3
page dgx2 topo --topo dgx2-lstopo.xml --alloc 5 # says how to convert it
page xgmi topo --topo rccl-8p-90a.xml --gpus 0-5
page pcie topo --topo aws-p4d-24xl-topo.xml --gpus 0,1,4
page nvl72 topo --platform gb200-nvl72 --gpus 0-7
page nvl72-trays topo --platform gb200-nvl72 --alloc 1+3+2
page bad-tray topo --platform gb200-nvl72 --alloc 8
page smi-3+5 topo --topo hgx-h100-smi.txt --alloc 2+3
page brick topo --topo dgx1v.xml --gpus 0,1 --brick 25
page bad-no-gpu topo --topo aws-g5.48xl-topo.xml
page bad-gpu topo --topo dgx1v.xml --gpus 0,9
page bad-alloc topo --topo dgx1v.xml --alloc 3+9
page bad-platform topo --platform nosuch
page bad-file topo --topo SOURCES.md
page bad-both topo --topo dgx1v.xml --gpus 1 --alloc 2
page bad-number topo --topo dgx1v.xml --brick x

# the numbers people will check by hand, from JSON
"$capo" topo --topo dgx1v.xml --json | python3 -c '
import json, sys
p = json.load(sys.stdin)
for key in "gpus class connected nvlink_ring nvlink_rings broadcast_gbs allgather_gbs allreduce_gbs nvlink_brick_gbs".split():
    assert key in p, key
assert p["nvlink_brick_gbs"] == 20
assert abs(p["broadcast_gbs"] - 120) < .05 and abs(p["allgather_gbs"] - 137.1) < .05 and abs(p["allreduce_gbs"] - 68.6) < .05
' || fail "JSON of the DGX-1V"
# nothing that works is 0.0, on one machine or two
for words in "--topo dgx1v.xml --alloc 3+5" "--topo hgx-h100-smi.txt --alloc 2+3" "--topo aws-p4d-24xl-topo.xml --alloc 8"; do
        # shellcheck disable=SC2086
        "$capo" topo $words | grep -E "^(Broadcast|All)" | grep -w "0.0" && fail "$words: 0.0"
done
CUDA_VISIBLE_DEVICES=0 "$capo" topo --topo dgx1v.xml --json | grep -q '"class": "dgx1v/8-ring3"' ||
        fail "CUDA_VISIBLE_DEVICES of this machine was applied to another"
# which GPUs: {0,1,6} are not joined, {0,2,3} are the best three; a switch joins all alike; slices and whole machines have no choice
"$capo" topo --platform dgx1v --gpus 0,1,6 --wide |
        grep -q 'the links allow 66.7 GB/s of bus bandwidth (all-reduce) instead of 16.0: CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0,2,3 (nearest NICs mlx5_0,mlx5_1)$' ||
        fail "other GPUs than 0,1,6"
"$capo" topo --platform dgx1v --gpus 0,1,2+0-4 --wide | grep -q 'CUDA_VISIBLE_DEVICES=0,3,4 (nearest NICs [a-z0-9_,]*) on node 0, CUDA_VISIBLE_DEVICES=0,1,2,3,4 (nearest NICs [a-z0-9_,]*) on node 1$' || fail "of two nodes"
for what in "dgx1v --gpus 0,2,3" "dgx1v --alloc 8" "hgxh100 --gpus 5,6,7+0-4" "dgx1v --gpus 0"; do
        "$capo" topo --platform $what | grep -q 'other GPUs' && fail "no better GPUs: $what"
done
exit $bad
