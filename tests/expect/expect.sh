#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# capo expect: normal, low and impossible numbers; what proves a cause; what is not known.
set -u
capo=$(realpath "$1")
gen_job=$(realpath "$2")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
bad=0
# expect STATUS PATTERN -- arguments
expect() {
        want=$1 pattern=$2
        shift 3
        out=$("$capo" expect --no-nccl "$@" 2>&1)
        got=$?
        [ $got = "$want" ] || { echo "capo expect $*: exit status $got, expected $want: $out"; bad=1; }
        echo "$out" | grep -q "$pattern" || { echo "capo expect $*: no line like \"$pattern\": $out"; bad=1; }
}
# run NODES BYTES MICROSECONDS ALGBW BUSBW: output of nccl-tests, 8 ranks a node
run() {
        echo "# Collective test starting: all_reduce_perf"
        echo "# nThread 1 nGpus 1 minBytes $2 maxBytes $2 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0"
        echo "# Using devices"
        for rank in $(seq 0 $(($1 * 8 - 1))); do
                echo "#  Rank $rank Group  0 Pid $((900 + rank)) on node$((rank / 8)) device $((rank % 8)) [0x0$((rank % 8))] NVIDIA H100 80GB HBM3"
        done
        echo "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong"
        echo "$2 $(($2 / 4)) float sum -1 $3 $4 $5 0 $3 $4 $5 0"
        echo "# Out of bounds values : 0 OK"
        echo "# Avg bus bandwidth    : $5"
}
run 1 1073741824 4000.0 268.44 469.76 >one.log
run 2 1073741824 223696.0 4.80 9.00 >slow.log
expect 0 'NORMAL: AllReduce 1 GiB reaches 470 of 470 GB/s (100.0 %) by public' -- one.log --platform hgxh100 --coll all_reduce
expect 1 'NOT NORMAL: AllReduce 1 GiB reaches 9.00 of 437 GB/s (2.1 %)' -- slow.log --platform p5 --coll all_reduce
expect 1 '1  data goes over TCP sockets? ' -- slow.log --platform p5
expect 1 '2  one NIC of each node.*' -- slow.log --platform p5
expect 2 'is not the GPU of that machine: dgxa100' -- one.log --platform dgxa100
sed 's/NVIDIA H100 80GB HBM3/NVIDIA L40S/' one.log >card.log
expect 2 'on L40S, which is a card' -- card.log --platform dgxa100
expect 2 'was measured on 8 ranks per node, not on 0-3' -- one.log --platform hgxh100 --gpus 0-3
expect 2 'what was measured' --
expect 2 'expected a size above 0' -- --busbw 1 --platform p5 --alloc 8 --size 0
expect 2 'expected a number from 1e-06' -- --busbw 0 --platform p5 --alloc 8
expect 2 'are for a number without a file' -- one.log --platform p5 --busbw 3
expect 1 'reaches 0.001 of 442 GB/s (0.0002 %)' -- --busbw 0.001 --platform p5 --alloc 8
expect 0 '^BUS BANDWIDTH \[1\]' -- one.log
sed -e 's/NVIDIA H100 80GB HBM3/NVIDIA A100-SXM4-80GB/' -e 's/469.76/9.2/g' -e 's/268.44/5.26/g' -e 's/4000.0/204128/g' one.log >a100.log
expect 1 'NOT NORMAL: AllReduce 1 GiB reaches 9.21 of 230 GB/s' -- a100.log # the name of the card is enough
expect 2 '"9..9" is not\|expected' -- slow.log --platform p5 --size 9..9
expect 0 'not known: which machine it is' -- one.log
: >empty.txt
expect 3 'empty.txt: empty file' -- empty.txt --platform p5
expect 3 '/dev/null: empty file' -- /dev/null --platform p5
expect 3 'not known: how many ranks each node has' -- --busbw 9 --platform p5
# the public rows are of another machine, and NCCL is not asked: the ceiling alone
expect 3 'NOT KNOWN' -- --busbw 140 --platform ndv5 --alloc 2x8
expect 1 'NOT POSSIBLE' -- --busbw 4000 --platform hgxh100 --alloc 8
expect 1 'possible is 720 (111.1 %) by the ceiling' -- --busbw 800 --platform p5 --alloc 2x8
expect 1 'possible is 720 (138.9 %)' -- --busbw 1000 --platform p5 --alloc 2x8
expect 1 'NOT NORMAL: AllReduce 1 GiB reaches 230 of 470' -- --busbw 230 --platform hgxh100 --alloc 8
expect 0 '^NORMAL: AllReduce 1 GiB' -- --markdown --busbw 470 --platform hgxh100 --alloc 8
expect 0 '"verdict": "normal"' -- --json --busbw 470 --platform hgxh100 --alloc 8

# what the lines of NCCL or recorded settings prove comes first, with its place
{ echo "node0:900:910 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.5<0>"; echo "node0:900:910 [0] NCCL INFO Using network Socket"; cat slow.log; } >proved.log
expect 1 '1  data goes over TCP sockets (' -- proved.log --platform p5
expect 1 'proved.log:2: Using network' -- proved.log --platform p5 --wide
"$capo" expect --no-nccl --json proved.log --platform p5 | python3 -c '
import json, sys
page = json.load(sys.stdin)
first = page["causes"][0]
assert page["verdict"] == "not-normal" and page["layout"] == "8+8", page
assert (first["name"], first["proof"], first["from"]) == ("SOCKETS", "Using network Socket", "proved.log:2"), first
assert page["rows"][0]["public"][0]["source"].startswith("https://"), page' || bad=1

# several tests never become one number; a log without numbers is evidence of all
cp slow.log second.log
grep -v 'NCCL INFO' slow.log >plain.log
echo "node0:900:910 [0] NCCL INFO Using network Socket" >beside.log
expect 1 'beside.log:1: Using network' -- plain.log beside.log --platform p5 --wide
[ "$("$capo" expect --no-nccl plain.log second.log --platform p5 | grep -c '^capo expect ')" = 2 ] || { echo 'two tests: not two pages'; bad=1; }
expect 2 '2 tests: as JSON or CSV one at a time' -- --json plain.log second.log --platform p5

# logs of capo
mkdir logs; "$gen_job" "$work/logs" layout=4 steps=20 sizes=1048576,268435456 gpu=1 >gen.txt 2>&1 || { cat gen.txt; bad=1; }
expect 3 'not known: which machine it is' -- logs
expect 3 'reaches 74.8 of 445 GB' -- logs --platform hgxh100 --coll allreduce
exit $bad
