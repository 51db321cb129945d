#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# An unmodified multi-process job under capo: same results, every collective in the report; also by environment alone, and
# after kill -9 of a rank.
# usage: record.sh CAPO SOURCE
set -u
capo=$(realpath "$1")
build=$(realpath "$(dirname "$1")/..")
here=$(realpath "$(dirname "$0")")
export CAPO_STANDIN=1
. "$here/job.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
fail() { echo "record: $*"; bad=1; }

$launch "$jobs/ddp_train" --epochs 4 >"$work/bare" 2>/dev/null || fail "the job by itself fails"

for mode in default all; do
        trace=
        [ $mode = all ] && trace="--trace all"
        "$capo" run --quiet $trace --dir "$work/$mode" -- $launch "$jobs/ddp_train" --epochs 4 >"$work/out" 2>"$work/err" ||
                fail "$mode: the job under capo fails: $(cat "$work/err")"
        cmp "$work/bare" "$work/out" || fail "$mode: results differ"
        grep -q 'capo:' "$work/err" && fail "$mode: --quiet, and yet: $(grep capo: "$work/err")"
        [ "$(ls "$work/$mode" | wc -l)" = 4 ] || fail "$mode: not 4 logs: $(ls "$work/$mode")"
        [ "$(stat -c %a "$work/$mode"/*.capo | sort -u)" = 600 ] || fail "$mode: mode of the logs"
        "$capo" report --json "$work/$mode" >"$work/json" || fail "$mode: no report"
        python3 "$here/check_counts.py" "$work/json" "$work/out" || fail "$mode: counts"
done

# what NCCL EP calls in NCCL (AllGather, AllReduce) is not the program's
for how in "" --high-throughput; do
        "$capo" run --quiet --dir "$work/moe$how" -- $launch "$jobs/moe_train" --steps 2 $how >"$work/out" 2>"$work/err" ||
                fail "moe_train $how: the job under capo fails: $(cat "$work/err")"
        "$capo" report --json "$work/moe$how" >"$work/json" && python3 "$here/check_counts.py" "$work/json" "$work/out" ||
                fail "moe_train $how: counts"
done

# by environment alone
mkdir "$work/env"
LD_PRELOAD=$build/shim/libcapo.so CAPO_DIR=$work/env CAPO_QUIET=1 $launch "$jobs/ddp_train" --epochs 4 >"$work/out" 2>"$work/err" || fail "by environment: fails"
cmp "$work/bare" "$work/out" || fail "by environment: results differ"
"$capo" report --json "$work/env" >"$work/json" && python3 "$here/check_counts.py" "$work/json" "$work/out" || fail "by environment: counts"

# kill -9 in the middle: the report says so, and the finished calls of the killed rank are in it
"$capo" run --quiet --dir "$work/killed" -- "$jobs/launch" -n 2 --timeout 200 -- \
        "$jobs/ddp_train" --replay bert-large --scale 0.01 --steps 100000 >/dev/null 2>"$work/steps" &
launcher=$! # capo run becomes its command, so this is the launcher
# in the middle: well past the start and far from the end, whatever else this machine does
for _ in $(seq 1800); do
        grep -q ': step 20 of' "$work/steps" && break
        kill -0 "$launcher" 2>/dev/null || break
        sleep 0.1
done
kill -STOP "$launcher" # or it stops the second rank itself when it sees the first one gone
killed=0
for stat in /proc/[0-9]*/stat; do # its children, without procps
        set -- $(sed 's/.*) //' "$stat" 2>/dev/null)
        pid=${stat#/proc/}
        [ "${2:-}" = "$launcher" ] && kill -KILL "${pid%/stat}" && killed=$((killed + 1))
done
[ $killed = 2 ] || fail "killed: $killed of 2 ranks were there to be killed"
kill -CONT "$launcher"
wait "$launcher" 2>/dev/null
"$capo" report --json "$work/killed" >"$work/json" 2>"$work/err" || fail "killed: no report: $(cat "$work/err")"
python3 - "$work/json" <<'EOF' || fail "killed: report"
import json, sys
r = json.load(open(sys.argv[1]))
n = sum(row["count"] for row in r["rows"] if row["call"] == "AllReduce")
print(f"killed job: {n} all-reduces reported, ranks {r['ranks']}, dropped {r['dropped']}")
assert n > 100 and r["ranks"] == 2 and r["dropped"] == 0
EOF
# what libfabric's shm provider leaves of killed processes
for log in "$work"/killed/*.capo; do
        pid=$(basename "$log" .capo)
        rm -f "/dev/shm/${pid##*.}":*
done
ls /dev/shm | grep "^capo-$(id -u)-" | while read -r s; do
        pid=$(echo "$s" | cut -d- -f3)
        [ -d "/proc/$pid" ] || echo "left behind by process $pid: $s"
done
exit $bad
