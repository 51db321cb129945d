#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: sweep.sh CAPO    a sweep on the stand-in: results right, every rank tried the same candidate in every call, what was
# closed stays closed, a killed sweep still teaches, refine drops, and capo fit reads all of it.
set -u
capo=$(realpath "$1")
build=$(realpath "$(dirname "$1")/..")
jobs=$build/tests/jobs
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
bad=0
fail() { echo "FAIL: $*"; bad=1; }
[ -x "$jobs/coll_perf" ] && [ -x "$jobs/launch" ] || { echo "SKIPPED: no test jobs in this build"; exit 77; }
LD_LIBRARY_PATH=$build/tests/standin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
launch="$jobs/launch -n 3 --timeout 600 --"

"$capo" sweep --quiet --dir "$tmp/one" --coll all_reduce --channels 0,1 -- $launch "$jobs/coll_perf" allreduce -b 1K -e 256K -f 16 -n 60 -c 1 > "$tmp/out" 2> "$tmp/err" ||
        fail "the job under sweep fails: $(cat "$tmp/err")"
grep -q '^# Out of bounds values : 0 OK' "$tmp/out" || fail "results: $(cat "$tmp/out")"
[ "$(ls "$tmp/one" | wc -l)" = 3 ] || fail "not 3 logs: $(ls "$tmp/one")"

# The n-th collective of the communicator: the same rule on all ranks.
"$capo" export "$tmp/one" > "$tmp/all.csv" || fail export
for log in "$tmp/one"/*.capo; do
        "$capo" export "$log" | awk -F, 'NR > 1 {print $21, $9, $12, $13, $14}' > "$tmp/$(basename "$log").seq"
done
first=$(ls "$tmp"/*.seq | head -n 1)
for s in "$tmp"/*.seq; do cmp -s "$first" "$s" || fail "ranks disagree: $(diff "$first" "$s" | head -n 4)"; done
n=$(awk '{print $3, $4, $5}' "$first" | sort -u | wc -l)
[ "$n" -ge 4 ] || fail "only $n candidates were tried"
awk '$3 == "" || $3 ~ /^(0|1)$/ {own++} END {exit own < 20}' "$first" || fail "NCCL's own choice is not among what was tried"
"$capo" fit "$tmp/one" -o "$tmp/p.json" > "$tmp/fit" || fail "fit: $(cat "$tmp/fit")"
"$capo" profile check "$tmp/p.json" > /dev/null 2>&1 || { "$capo" profile --help > /dev/null 2>&1 && fail "the profile does not pass its own check"; }

# Chunks are candidates like others: tried, distinguished, and written where they win.
CAPO_STANDIN_NCCL_VERSION=2.30.7 "$capo" sweep --quiet --dir "$tmp/chunks" --coll all_reduce --algos ring --protos simple --chunks 0,16K,64K -- $launch "$jobs/coll_perf" allreduce -b 1M -e 1M -n 60 -c 1 > "$tmp/out" 2> "$tmp/err" ||
        fail "chunks: the job fails: $(cat "$tmp/err")"
grep -q '^# Out of bounds values : 0 OK' "$tmp/out" || fail "chunks: results: $(cat "$tmp/out")"
"$capo" export "$tmp/chunks" | awk -F, 'NR > 1 && $13 != "" {print $23}' | sort -u | tr '\n' ' ' > "$tmp/tried"
[ "$(cat "$tmp/tried")" = "0 16384 65536 " ] || fail "chunks that were tried: $(cat "$tmp/tried")"
"$capo" fit "$tmp/chunks" --json > "$tmp/fit" && grep -q 'Ring Simple chunk 16 KiB' "$tmp/fit" || fail "chunks are no candidates of the fit: $(cat "$tmp/fit")"
cat > "$tmp/chunk.json" << END
{"capo_profile": 1, "rules": [{"when": {}, "allreduce": [{"upto": "max", "algo": "ring", "proto": "simple", "chunk": "64K"}]}]}
END
CAPO_STANDIN_NCCL_VERSION=2.30.7 NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING "$capo" run --quiet --dir "$tmp/tuned" --profile "$tmp/chunk.json" -- $launch "$jobs/coll_perf" allreduce -b 1M -e 1M -n 4 -c 1 > "$tmp/out" 2>&1 ||
        fail "chunks: the tuned job fails: $(cat "$tmp/out")"
grep -q 'chunks of 65536 as the tuner says' "$tmp/out" || fail "the row's chunk is not obeyed: $(cat "$tmp/out")"
grep -q '^# Out of bounds values : 0 OK' "$tmp/out" || fail "chunks: tuned results: $(cat "$tmp/out")"
"$capo" explain --wide allreduce 1M --log "$tmp/tuned" > "$tmp/out" 2>&1
grep -q 'chunks of 64 KiB' "$tmp/out" || fail "explain does not say the chunk: $(cat "$tmp/out")"
# A release that asks no tuner: nothing is tried, and the report says that the row's chunk was none.
"$capo" sweep --quiet --dir "$tmp/dead" --coll all_reduce --algos ring --protos simple --chunks 16K,64K -- $launch "$jobs/coll_perf" allreduce -b 1M -e 1M -n 10 -c 1 > "$tmp/out" 2>&1 || fail "chunks, 2.28.9: $(cat "$tmp/out")"
"$capo" export "$tmp/dead" | awk -F, 'NR > 1 && $13 != "" {tried++} END {exit tried > 0}' || fail "chunks were tried under 2.28.9"
"$capo" run --quiet --dir "$tmp/none" --profile "$tmp/chunk.json" -- $launch "$jobs/coll_perf" allreduce -b 1M -e 1M -n 4 -c 1 > "$tmp/out" 2>&1 || fail "chunks, 2.28.9: $(cat "$tmp/out")"
"$capo" report --wide "$tmp/none" > "$tmp/out" 2>&1
grep -q 'NCCL before 2.30 asks no tuner for it' "$tmp/out" || fail "a dead chunk is not said: $(cat "$tmp/out")"

# Named candidates are tried, whatever NCCL predicts for them.
[ "$("$capo" sweep --print --algos ring,tree --protos simple --channels 0,4)" = 'algos=ring+tree protos=simple channels=0+4 slower=0
1 Ring Simple
2 Ring Simple, channels 4
3 Tree Simple
4 Tree Simple, channels 4' ] || fail "named candidates may be left out"
"$capo" sweep --print --algos ring,tree --protos simple --slower 3 | grep -q 'slower=3$' || fail "--slower is not obeyed"
"$capo" sweep --print --refine "$tmp/mistyped" --dir "$tmp/rounds/1" 2> "$tmp/err" && fail "a folder that is mistyped is a first round"
grep -q 'mistyped: no such folder. The first round makes it: --dir .*/mistyped/1' "$tmp/err" || fail "mistyped: $(cat "$tmp/err")"
"$capo" sweep --print --algos ring,tree | grep -q slower && fail "with --algos alone, the limit is another one"
# What capo watch writes beside the logs is no input.
for f in hang.txt hang.before.txt hang.json hang.watch; do echo no measurement > "$tmp/one/$f"; done
"$capo" fit "$tmp/one" > "$tmp/out" 2>&1
grep -q 'hang\.' "$tmp/out" && fail "the files of capo watch are inputs: $(cat "$tmp/out")"
rm "$tmp"/one/hang.*

# Budget: after --calls NCCL chooses.
"$capo" sweep --quiet --dir "$tmp/few" --calls 20 -- $launch "$jobs/coll_perf" allreduce -b 4K -e 4K -n 60 > /dev/null 2>&1 || fail "budget: job"
"$capo" export "$tmp/few" | awk -F, 'NR > 1 && $21 > 20 && $13 != "" {late++} END {exit late > 0}' || fail "tried after the budget"

# NCCL_PROTO closes cells: they stay closed.
NCCL_PROTO=Simple "$capo" sweep --quiet --dir "$tmp/closed" -- $launch "$jobs/coll_perf" allreduce -b 4K -e 4K -n 60 > /dev/null 2>&1 || fail "closed: job"
"$capo" export "$tmp/closed" | awk -F, 'NR > 1 && $17 != "" && $17 != "Simple" {other++} END {exit other > 0}' || fail "a closed cell was revived"

# Killed in the middle, when something was measured: that can be fitted.
"$capo" sweep --quiet --dir "$tmp/killed" -- "$jobs/launch" -n 3 --timeout 600 -- "$jobs/coll_perf" allreduce -b 4K -e 64K -f 4 -n 100000 > /dev/null 2>&1 &
pid=$! # capo becomes the launcher
for _ in $(seq 900); do
        [ "$("$capo" export "$tmp/killed" 2> /dev/null | wc -l)" -gt 100 ] && break
        kill -0 "$pid" 2> /dev/null || break
        sleep 0.1
done
kill "$pid" 2> /dev/null
wait "$pid"
"$capo" report --recover "$tmp/killed" > /dev/null 2>&1
"$capo" fit "$tmp/killed" > "$tmp/fit" 2>&1 || fail "killed: $(cat "$tmp/fit")"

"$capo" sweep --refine "$tmp/one" --coll all_reduce --print > "$tmp/plan" 2> "$tmp/err" || fail "refine: $(cat "$tmp/err")"
# A search in rounds: all algorithms and protocols as they are, then the channels of what leads, of each size.
for round in 1 2; do
        "$capo" sweep --dir "$tmp/rounds/$round" --refine "$tmp/rounds" --coll all_reduce --channels 0,1,2 -- \
                $launch "$jobs/coll_perf" allreduce -b 1K -e 64K -f 64 -n 80 -c 1 > "$tmp/out" 2> "$tmp/err" || fail "round $round: $(cat "$tmp/err")"
        grep -q "$([ $round = 1 ] && echo 'first round, nothing is measured in' || echo 'next round after') $tmp/rounds" "$tmp/err" || fail "round $round: $(cat "$tmp/err")"
        "$capo" export "$tmp/rounds/$round" | awk -F, 'NR > 1 && $13 != "" {print $15}' | sort -u > "$tmp/channels.$round"
done
[ "$(cat "$tmp/channels.1")" = 0 ] || fail "the first round tries channels $(cat "$tmp/channels.1")"
grep -q '[12]' "$tmp/channels.2" || fail "the second round tries no channels: $(cat "$tmp/channels.2")"
exit $bad
