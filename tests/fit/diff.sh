#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: diff.sh CAPO GEN_LOGS    recordings whose truth is known: the same, slower, several runs, nothing in common.
set -u
capo=$1 gen=$2
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
bad=0
fail() { echo "FAIL: $*"; bad=1; }
"$gen" "$tmp" || exit 1
"$capo" diff "$tmp/a" "$tmp/a" > "$tmp/out" || fail "the same recording differs: $(cat "$tmp/out")"
grep -q 'no call is faster or slower by more than the noise' "$tmp/out" || fail "the same recording: $(cat "$tmp/out")"
"$capo" diff --wide "$tmp/a" "$tmp/slower" > "$tmp/out"
[ $? = 1 ] || fail "20 % slower: exit status is not 1"
grep -q 'AllReduce.*1 MiB.*+\(19\|20\|21\)\.' "$tmp/out" || fail "20 % slower: $(cat "$tmp/out")"
grep -q 'AllReduce.*1 MiB.*Ring LL  p.json:7$' "$tmp/out" || fail "the rule that decided: $(cat "$tmp/out")"
"$capo" diff --json "$tmp/a" "$tmp/slower" | grep -q '"rule_at": "p.json:7"' || fail "the rule that decided: json"
"$capo" diff "$tmp/slower" "$tmp/a" > "$tmp/out" || fail "20 % faster: exit status is not 0"
"$capo" diff --markdown "$tmp/a" "$tmp/slower" | grep -q "^| .* | AllReduce | 1 MiB | .* | +.* |$" || fail "a table of Markdown"
"$capo" diff --json "$tmp/slower" "$tmp/a" | grep -q '"verdict": "faster"' || fail "20 % faster: json"
"$capo" diff "$tmp/runs_a" "$tmp/runs_b" > "$tmp/out" || fail "runs that vary by more than they differ: $(cat "$tmp/out")"
grep -q '^4 runs before, 4 after' "$tmp/out" || fail "runs: $(cat "$tmp/out")"
"$capo" diff --json "$tmp/runs_a" "$tmp/runs_b" |
        python3 -c 'import json, sys
rows = [r for r in json.load(sys.stdin)["rows"] if r["change"] is not None]
sys.exit(not rows or any(abs(r["after_p50_us"] / r["before_p50_us"] - 1 - r["change"]) > 1e-6 for r in rows))' ||
        fail "the change is not that of the times beside it"
"$capo" diff "$tmp/runs_a" "$tmp/runs_b" | grep -q 'rows* within noise: --all' || fail "rows of noise are not left out"
[ "$(COLUMNS=80 "$capo" diff --all "$tmp/runs_a" "$tmp/runs_b" | grep -c ' noise$')" -gt 0 ] ||
        fail "80 columns: noise is not marked"
"$capo" diff "$tmp/a" "$tmp/nothing" 2> "$tmp/err" && fail "nothing to compare"
"$capo" diff "$tmp/a" 2> "$tmp/err"
[ $? = 2 ] || fail "one recording: exit status is not 2"
"$capo" diff --wide --min-change 50 "$tmp/a" "$tmp/slower" > "$tmp/out" || fail "20 % slower of 50: exit status is not 0"
grep -q '+\(19\|20\|21\)\..* small ' "$tmp/out" || fail "20 % slower of 50: $(cat "$tmp/out")"

# Files of nccl-tests: the same, slower, other ranks, one beside a recording.
own=$(dirname "$0")/data/label_own.txt
cp "$own" "$tmp/own.txt"
awk 'NF == 13 && $1 + 0 > 0 {u = $6 * 1.06; g = $1 / u / 1e3; v = $10 * 1.06; h = $1 / v / 1e3
     print $1, $2, $3, $4, $5, u, g, g, 0, v, h, h, 0; next} {print}' "$own" > "$tmp/slow.txt"
"$capo" diff "$own" "$tmp/own.txt" > "$tmp/out" || fail "the same file: exit status is not 0"
grep -q '^0 slower, 0 faster, of 7' "$tmp/out" && grep -q '^7 rows within noise: --all' "$tmp/out" && ! grep -q AllReduce "$tmp/out" ||
        fail "the same file: $(cat "$tmp/out")"
[ "$("$capo" diff --all --wide "$own" "$tmp/own.txt" | grep -c '  noise$')" = 7 ] || fail "the same file: --all does not list the noise"
"$capo" diff "$own" "$tmp/slow.txt" > "$tmp/out"
[ $? = 1 ] || fail "6 % slower: exit status is not 1"
grep -q '16 MiB.*+6\.0 % (+[0-9.]* to +[0-9.]*)' "$tmp/out" || fail "6 % slower: $(cat "$tmp/out")"
# One run each, with noise of 0.1 %: 20 % is seen at every size, also at both ends; small against --min-change 50; 0.1 % is noise.
python3 - "$tmp" <<'PY'
import random, sys
def run(name, slower, seed):
    r = random.Random(seed)
    lines = ["#  Rank %2d Group  0 Pid %6d on node-a device %2d [0000:%02d:00] NVIDIA H100" % (i, 100 + i, i, i + 1) for i in range(8)]
    lines.append("# size count type redop root time algbw busbw #wrong time algbw busbw #wrong")
    for k in range(20, 27):
        us = [(10 + 2 ** k / 2e4) * slower * (1 + r.gauss(0, 0.001)) for _ in range(2)]
        lines.append("%d %d float sum -1 " % (2 ** k, 2 ** k / 4) + " ".join("%.2f %.2f %.2f 0" % (u, 2 ** k / u / 1e3, 2 ** k / u / 1e3 * 1.75) for u in us))
    open(sys.argv[1] + "/" + name, "w").write("\n".join(lines) + "\n")
run("once_a.txt", 1, 1); run("once_b.txt", 1.2, 2); run("once_c.txt", 1, 3)
PY
"$capo" diff "$tmp/once_a.txt" "$tmp/once_b.txt" > "$tmp/out"
[ $? = 1 ] && grep -q '^7 slower, 0 faster, of 7' "$tmp/out" || fail "20 % of one run each: $(cat "$tmp/out")"
"$capo" diff --wide --min-change 50 "$tmp/once_a.txt" "$tmp/once_b.txt" > "$tmp/out" || fail "20 % of 50, files: exit status is not 0"
[ "$(grep -c '  small$' "$tmp/out")" = 7 ] || fail "20 % of 50, files: $(cat "$tmp/out")"
"$capo" diff "$tmp/once_a.txt" "$tmp/once_c.txt" > "$tmp/out" || fail "the same, one run each: $(cat "$tmp/out")"

# What each file forced is all that differs.
forced=$(dirname "$0")/data/label_nvls.txt
"$capo" diff "$own" "$forced" > "$tmp/out"
[ $? = 1 ] && [ "$(grep -c '^AllReduce' "$tmp/out")" = 7 ] && [ "$(grep -o 'NCCL_ALGO=NVLS' "$tmp/out" | wc -l)" = 1 ] || fail "own against NVLS: $(cat "$tmp/out")"
"$capo" diff --json "$own" "$forced" | grep -q '"label": "- -> NVLS any"' || fail "own against NVLS: json"
sed 's/NCCL_ALGO=NVLS/NCCL_PROTO=LL/' "$forced" > "$tmp/ll.txt"
"$capo" diff "$own" "$tmp/ll.txt" | tr "\n" " " | grep -q "after .*NCCL_PROTO=LL.*CHANGES" || fail "the forced protocol is not in the head"
"$capo" diff "$own" "$(dirname "$0")/data/h100_g4_auto.log" > /dev/null 2> "$tmp/err"
[ $? = 3 ] || fail "2 ranks against 4: exit status is not 3"
grep -q 'on 2 ranks.* on 4' "$tmp/err" || fail "2 ranks against 4: $(cat "$tmp/err")"
exit $bad
