#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every face of the report on one real job of four ranks on two pretended nodes, held against what the program issued.
# usage: report.sh CAPO SOURCE
set -u
capo=$(realpath "$1")
build=$(realpath "$(dirname "$1")/..")
here=$(realpath "$(dirname "$0")")
export CAPO_STANDIN=1
. "$here/job.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
fail() { echo "report: $*"; bad=1; }

"$capo" run --quiet --trace all --sample 1 --dir "$work/logs" -- "$jobs/launch" --layout 1+3 --timeout 600 -- \
        "$jobs/ddp_train" --epochs 4 >"$work/out" 2>"$work/err" || fail "the job fails: $(cat "$work/err")"
"$capo" report "$work/logs" >"$work/txt" 2>"$work/err" || fail "no page: $(cat "$work/err")"
grep -q '4 ranks on 2 nodes (1+3)' "$work/txt" || fail "no layout"
grep -q '^WAITING' "$work/txt" || fail "nobody waits"
grep -q '^CALLED FROM' "$work/txt" || fail "no call sites"
grep '^!' "$work/txt" && fail "problems in a healthy job"
"$capo" run --quiet --dir "$work/plain" -- "$jobs/launch" --layout 1+3 --timeout 600 -- \
        "$jobs/ddp_train" --epochs 4 >/dev/null 2>"$work/err" || fail "the job fails: $(cat "$work/err")"
"$capo" report --wide "$work/plain" | grep -q '^WAITING .* data-parallel: .* calls compared' || fail "nobody waits in a plain recording"
"$capo" report --json "$work/logs" >"$work/json" || fail "no JSON"
"$capo" report --csv "$work/logs" >"$work/csv" || fail "no CSV"
"$capo" report --html "$work/html" "$work/logs" >/dev/null || fail "no HTML"
"$capo" trace "$work/logs" >"$work/trace" || fail "no trace"
python3 "$here/check_counts.py" "$work/json" "$work/out" || fail "counts"
python3 - "$work" <<'PY' || fail "faces differ"
import collections, csv, json, re, sys, xml.dom.minidom
work = sys.argv[1]
report = json.load(open(work + "/json"))
for key in ("capo_report", "ranks", "comms", "rows", "dropped", "capo_cost_ns"):
    assert key in report, key
assert report["capo_report"] == 1 and report["ranks"] == 4
for comm in report["comms"]:
    assert {"id", "name", "ranks", "nodes", "layout"} <= comm.keys()
for row in report["rows"]:
    assert {"comm", "call", "bytes", "count", "p50_us", "p95_us", "p99_us", "max_us", "algbw_gbs", "busbw_gbs", "algo", "proto",
            "channels", "clock"} <= row.keys()
    if row["clock"] == "host":
        assert row["busbw_gbs"] is None
    if row["p50_us"] is not None:
        assert row["p50_us"] <= row["p95_us"] <= row["p99_us"] <= row["max_us"] * 1.0001
        assert row["count"] * 4 == row["calls"] or row["call"] in ("Send", "Recv")
lines = list(csv.DictReader(open(work + "/csv")))
assert [(l["call"], int(l["size_B"]), int(l["count"])) for l in lines] == [
    (r["call"], r["bytes"], r["count"]) for r in report["rows"]]
for svg in re.findall(r"<svg.*?</svg>", open(work + "/html").read(), re.S):
    xml.dom.minidom.parseString(svg)
# a line of the host per call and rank in the trace, and a line of the GPU for those timed there
events = [e for e in json.load(open(work + "/trace"))["traceEvents"] if e["ph"] == "X"]
host = collections.Counter((e["name"].split()[0], e["args"]["bytes"]) for e in events if e["cat"] == "host")
for row in report["rows"]:
    assert host[row["call"], row["bytes"]] == row["calls"], (row["call"], row["bytes"])
skew = report["comms"][0]["skew"]
assert skew["calls_compared"] > 10 and sum(r["last"] for r in skew["per_rank"]) == skew["calls_compared"]
print(f"{len(report['rows'])} rows, {len(events)} trace events, {skew['calls_compared']} calls compared by {skew['from']}")
PY
exit $bad
