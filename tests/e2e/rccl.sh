#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A program linked to RCCL and HIP, in whose process there is neither libnccl.so.2 nor libcuda.so.1: recorded with host
# times, tuned and known to doctor.
# usage: rccl.sh CAPO SOURCE
set -u
capo=$(realpath "$1")
build=$(realpath "$(dirname "$1")/..")
here=$(realpath "$(dirname "$0")")
export CAPO_STANDIN=1
. "$here/job.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
fail() { echo "rccl: $*"; bad=1; }

ldd "$jobs/coll_perf_rccl" | grep -q 'libnccl\|libcuda' && fail "the program has another library than RCCL and HIP"
cat >"$work/p.json" <<'JSON'
{"capo_profile": 1, "name": "rccl", "rules": [{"when": {"ranks": 3}, "basis": "measured",
 "allreduce": [{"upto": "max", "algo": "tree", "proto": "simple", "channels": 1}]}]}
JSON
for way in plain tuned; do
        set -- --quiet --trace all --sample 1 --dir "$work/$way"
        [ $way = plain ] || set -- "$@" --profile "$work/p.json"
        "$capo" run "$@" -- "$jobs/launch" -n 3 --timeout 600 -- "$jobs/coll_perf_rccl" allreduce -b 64K -e 1M -f 16 -n 8 -w 1 \
                >"$work/out" 2>"$work/err" || fail "$way: $(cat "$work/err" "$work/out")"
        "$capo" report --json "$work/$way" >"$work/$way.json" || fail "no JSON of $way"
done
python3 - "$work" <<'PY' || fail "rows"
import json, sys
for way in ("plain", "tuned"):
    page = json.load(open(f"{sys.argv[1]}/{way}.json"))
    rows = page["rows"]
    assert [r["call"] for r in rows] == ["AllReduce"] * 2 and {r["bytes"] for r in rows} == {65536, 1048576}, rows
    for r in rows:
        assert r["clock"] == "host" and r["p50_us"] > 0, r
        assert r["algo"] in ("Ring", "Tree") and (way == "plain" or (r["algo"], r["proto"]) == ("Tree", "Simple")), r
PY
"$capo" dump "$work"/plain/*.capo >"$work/dump" || fail "no dump"
grep -q 'nccl.path.*librccl.so.1' "$work/dump" || fail "the log does not name the library"
"$capo" doctor -- "$jobs/coll_perf_rccl" >"$work/doctor" 2>&1
grep -q 'librccl 2.28.9 (.*librccl.so.1) is linked' "$work/doctor" || fail "doctor does not know it: $(cat "$work/doctor")"
grep -q "AMD's RCCL" "$work/doctor" || fail "doctor does not say what it is"
[ $bad = 0 ] && echo "RCCL: recorded, tuned"
exit $bad
