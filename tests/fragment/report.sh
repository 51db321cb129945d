#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# capo report --topo on a recorded job of the stand-in, whose devices have the bus ids of standin-dgx1v.xml.
set -u
capo=$(realpath "$1")
build=$(realpath "$(dirname "$1")/..")
source=$(realpath "$2")
export CAPO_STANDIN=1
. "$source/tests/e2e/job.sh"
topo=$source/tests/fragment/data/standin-dgx1v.xml
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
fail() { echo "report: $*"; bad=1; }

"$capo" run --quiet --trace all --sample 1 --dir "$work/logs" -- "$jobs/launch" -n 4 --timeout 60 -- \
        "$jobs/ddp_train" --epochs 2 >"$work/out" 2>"$work/err" || fail "the job fails: $(cat "$work/err")"
"$capo" report --topo "$topo" "$work/logs" >"$work/page" 2>&1 || fail "no page: $(cat "$work/page")"
grep -q '^CEILINGS .*standin-dgx1v.xml' "$work/page" || fail "no ceilings: $(cat "$work/page")"
grep -q 'dgx1v/4-ring2 ' "$work/page" || fail "no class: $(cat "$work/page")"
"$capo" report --topo "$topo" --json "$work/logs" >"$work/json" || fail "no JSON"
python3 -c '
import json, sys
r = json.load(open(sys.argv[1]))
assert all("class" in c for c in r["comms"]), "a communicator without class"
world = max(r["comms"], key=lambda c: c["ranks"])
assert world["class"] == "dgx1v/4-ring2", world["class"]
rows = [x for x in r["rows"] if x["call"] == "AllReduce" and x["ceiling_busbw_gbs"]]
assert rows and all(abs(x["ceiling_busbw_gbs"] - 60 * 2 * 3 / 4) < .01 for x in rows), rows
' "$work/json" || fail "JSON"
"$capo" report --platform hgxh100 "$work/logs" >"$work/page" 2>&1 || fail "another machine: $(cat "$work/page")"
grep -q 'which hgxh100.xml lacks' "$work/page" || fail "GPUs of another machine: $(cat "$work/page")"
"$capo" report --topo /nosuch "$work/logs" >"$work/page" 2>&1 && fail "a topology that is not there"
exit $bad
