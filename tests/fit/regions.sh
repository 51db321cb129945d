#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: regions.sh CAPO    rules over numbers of nodes: 2, 4 and 8 nodes of 8 measured, which agree or not
set -u
capo=$(realpath "$1")
tmp=$(mktemp -d "${TMPDIR:-/tmp}/capo-regions.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
failed=0
fail() {
        echo "FAIL $*"
        failed=1
}

# measure NODES FAST UPTO: three rounds of NCCL's own choice and three candidates; FAST takes 20 % less up to UPTO bytes
measure() {
        awk -v nodes="$1" -v fast="$2" -v upto="$3" 'BEGIN {
                split("- RING TREE NVLSTREE", names, " ")
                for (round = 0; round < 3; round++) for (c = 1; c <= 4; c++) {
                        printf c == 1 ? "### ALGO=auto PROTO=auto rep %d\n" : "### NCCL_ALGO=" names[c] " NCCL_PROTO=SIMPLE rep %d\n", round
                        print "# nThread 1 nGpus 1 minBytes 8192 maxBytes 67108864 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validate: 1 graph: 0"
                        print "# nccl-tests version 2.16.9 nccl-headers=22809 nccl-library=22809"
                        for (d = 0; d < 8 * nodes; d++)
                                printf "#  Rank %2d Group  0 Pid %d on node%02d device %d [0000:%02x:00] NVIDIA H100 80GB HBM3\n", d, 4000 + d, int(d / 8), d % 8, 16 + d % 8
                        print "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong"
                        for (b = 8192; b <= 67108864; b *= 2) {
                                line = sprintf("%12d %12d float sum -1", b, b / 4)
                                for (place = 0; place < 2; place++) {
                                        us = (20 * nodes + b / 50e3) * (1 + 0.003 * sin(b % 1009 + 7 * round + 3 * c + place))
                                        if (c > 1) us *= names[c] != fast ? (c == 2 ? 1 : 1.15) : b <= upto ? 0.8 : 1.1
                                        rate = b / us / 1e3
                                        line = line sprintf(" %.2f %.2f %.2f 0", us, rate, rate * 2 * (8 * nodes - 1) / (8 * nodes))
                                }
                                print line
                        }
                }
        }'
}

# fit NAME: the profile NAME.json from NAME-*.txt
fit() {
        "$capo" fit "$1"-*.txt -o "$1.json" > "$1.page" 2>&1 || fail "$1: fit: $(cat "$1.page")"
}

for nodes in 2 4 8; do
        measure $nodes TREE 1048576 > "agree-$nodes.txt"
done
fit agree
grep -q '"when": {"nodes": "2-8", "ranks": "16-64", "layout": "even", "min_local": 8, "max_local": 8, "nccl": "2.28"}' agree.json ||
        fail "all agree, and there is no region: $(grep when agree.json)"
[ "$(grep -c '"measured": "2, 4, 8 nodes"' agree.json)" = 1 ] || fail "not one row with evidence: $(cat agree.json)"
grep -q '"hosts": "node00,node01,node02,node03,node04,node05,node06,node07"' agree.json || fail "not all hosts: $(grep hosts agree.json)"
grep -q '"gain": 0.[12][0-9.]*, "samples": [0-9]*, "measured"' agree.json || fail "no gain in the row: $(grep measured agree.json)"
grep -q 'measured on 2, 4, 8 nodes, ' agree.page || fail "the page is silent: $(cat agree.page)"

# between the measured numbers the region decides, at them their own rule, and outside nothing
for ask in '3 8 256K region' '6 8 256K region' '4 8 256K own' '3 8 64M -' '16 8 256K -' '3 4 256K -'; do
        set -- $ask
        "$capo" explain allreduce "$3" --nodes "$1" --ranks $(($1 * $2)) --layout "$1x$2" --profile agree.json --nccl 2.28.9 > explain 2>&1
        tree=$(grep -c 'would answer: Tree Simple' explain)
        region=$(tr -s ' \n' '  ' < explain | grep -c 'measured on 2, 4, 8 nodes')
        [ "$region" = "$([ "$4" = region ] && echo 1 || echo 0)" ] || fail "explain $ask: region $region: $(cat explain)"
        [ "$tree" = "$([ "$4" = - ] && echo 0 || echo 1)" ] || fail "explain $ask: Tree Simple $tree: $(cat explain)"
done
"$capo" profile check agree.json > check 2>&1 || fail "profile check: $(cat check)"

measure 2 TREE 1048576 > middle-2.txt
measure 4 NVLSTREE 1048576 > middle-4.txt
measure 8 TREE 1048576 > middle-8.txt
fit middle
grep -q '"layout": "8+8"\|"nodes": 2' middle.json || fail "the ends have no rule: $(cat middle.page)"
! grep -q '"measured": "' middle.json || fail "the middle does not agree, and there is a region: $(cat middle.json)"

cp agree-2.txt ends-2.txt
cp agree-8.txt ends-8.txt
fit ends
! grep -q '"measured": "' ends.json || fail "nobody measured the middle, and there is a region"

[ $failed = 0 ] && echo "regions: ok"
exit $failed
