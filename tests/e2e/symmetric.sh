#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What runs beside NCCL's table, on the stand-in: symmetric kernels with their phases and copy engines, from the call to the report,
# the diff, the explanation and the fit, which makes no rule of them.
# usage: symmetric.sh CAPO SOURCE
set -u
capo=$(realpath "$1")
build=$(realpath "$(dirname "$1")/..")
here=$(realpath "$(dirname "$0")")
export CAPO_STANDIN=1
. "$here/job.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
fail() { echo "symmetric: $*"; bad=1; }
export CAPO_PROFILER=on CAPO_KERNEL_TIME=1

# run NAME RELEASE CALL OPTION...: two sizes of a call, of 64 KiB and 1 MiB
run() {
        name=$1 release=$2
        shift 2
        CAPO_STANDIN_NCCL_VERSION=$release "$capo" run --quiet --trace all --dir "$work/$name" -- "$jobs/launch" -n 3 --timeout 600 -- \
                "$jobs/coll_perf" "$@" -b 192K -e 3M -f 16 -n 8 -w 1 >"$work/out" 2>"$work/err" || fail "$name: $(cat "$work/err" "$work/out")"
        "$capo" report --json "$work/$name" >"$work/$name.json" || fail "no JSON of $name"
}
# what NAME KEY...: one line per row, largest last
what() {
        python3 - "$work/$1.json" <<'PY'
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
for r in sorted(rows, key=lambda r: r["bytes"]):
    waited = r.get("waited_calls", 0) > 0 and 0 <= r["waited_mean_us"] <= r["max_us"]
    print(r["call"], r["algo"], r["proto"], r["clock"], "waited" if waited else "-")
PY
}
# expect NAME LINE...: as what() prints them
expect() {
        what "$1" >"$work/got"
        name=$1
        shift
        printf '%s\n' "$@" | diff - "$work/got" || fail "$name"
}

run kernels 23203 allreduce -R
expect kernels 'AllReduce symk AGxLL_R kernel waited' 'AllReduce symk RSxLD_AGxST kernel waited'
run gather 23203 allgather -R
expect gather 'AllGather symk LL kernel waited' 'AllGather symk ST kernel waited'
run before 23007 allreduce -R # not which one, nor its phases; and no stamps: it is said to have no channels
expect before 'AllReduce symk None event -' 'AllReduce symk None event -'
export NCCL_CTA_POLICY=2
run engines 23203 allgather -R
expect engines 'AllGather copy engine event -' 'AllGather copy engine event -'
run engines6 23007 allgather -R
expect engines6 'AllGather copy engine event -' 'AllGather copy engine event -'
unset NCCL_CTA_POLICY
run table 23203 allreduce # no window: of the table
grep -q symk "$work/table.json" && fail "a symmetric kernel without windows"
python3 - "$work/kernels.json" <<'PY' || fail "who waits"
import json, sys
skew = json.load(open(sys.argv[1]))["comms"][0]["skew"]
assert skew["calls_by_kernel_wait"] > 0 and skew["from"] == "gpu_duration", skew
PY
"$capo" report --wide "$work/kernels" >"$work/page" || fail "no page"
grep -q "^call .* waited " "$work/page" && grep -Eq "s .* symk RSxLD_AGxST .* kernel$" "$work/page" || fail "the page does not say how long kernels waited: $(cat "$work/page")"
grep -q "calls compared by how long NCCL's kernels waited (the GPU's clock)" "$work/page" || fail "the clock has no name"
"$capo" explain allreduce 3M --log "$work/kernels" | grep -Eq 'symk +RSxLD_AGxST' || fail "not explained: $("$capo" explain allreduce 3M --log "$work/kernels")"
"$capo" diff --wide "$work/table" "$work/kernels" | grep -q ' -> symk RSxLD_AGxST' || fail "not in the diff"
"$capo" fit -o "$work/profile.json" "$work/table" "$work/kernels" >"$work/fit" 2>"$work/err" || fail "no fit: $(cat "$work/err")"
tr -s '\n ' ' ' <"$work/fit" | grep -Eq '[0-9] by symmetric kernels or copy engines' || fail "not in the fit: $(cat "$work/fit")"
[ ! -e "$work/profile.json" ] || ! grep -qi 'symk\|engine' "$work/profile.json" || fail "a rule that no tuner can obey"
"$capo" fit -o "$work/engines.prof" "$work/engines" >"$work/fit" 2>"$work/err" || fail "no fit of copy engines: $(cat "$work/err")"
grep -q 'not recorded' "$work/engines.prof" && fail "a release that was recorded is called not recorded"
tr -s '\n ' ' ' <"$work/fit" | grep -q '[0-9] by symmetric kernels or copy engines' || fail "copy engines are not in the fit"
[ $bad = 0 ] && echo "symmetric kernels and copy engines: recorded, reported, compared, explained, not fitted"
exit $bad
