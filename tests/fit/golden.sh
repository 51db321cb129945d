#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: golden.sh CAPO SOURCE_ROOT    runs each line of cases.txt and compares what is said and the exit status.
# CAPO_GOLDEN_REWRITE=1 writes the expectations anew: look at the difference before committing it.
set -u
capo=$(realpath "$1") && [ -x "$capo" ] || exit 1
here=$2/tests/fit
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
cd "$here" || exit 1
failed=0 n=0
grep -v '^#' cases.txt > "$tmp/cases"
while IFS='|' read -r name status args; do
        name=$(echo $name) status=$(echo $status)
        # shellcheck disable=SC2086
        "$capo" $(echo "$args" | sed 's#DATA/#data/#g') > "$tmp/out" 2>&1 < /dev/null
        got=$?
        n=$((n + 1))
        if [ -n "${CAPO_GOLDEN_REWRITE:-}" ]; then
                cp "$tmp/out" "expected/$name.txt"
        elif ! cmp -s "$tmp/out" "expected/$name.txt"; then
                echo "FAIL $name: output differs"
                diff "expected/$name.txt" "$tmp/out" | head -20
                failed=$((failed + 1))
        fi
        if [ "$got" != "$status" ]; then
                echo "FAIL $name: exit status $got, expected $status"
                failed=$((failed + 1))
        fi
done < "$tmp/cases"

# Each input is read by a case, by another test or by a profile of ours, and SOURCES.md says where it is from.
for file in data/*; do
        file=${file#data/}
        [ "$file" = SOURCES.md ] || grep -qF "$file" cases.txt ./*.sh ./*.py ../../profiles/data/*.json ||
                { echo "FAIL: no line of tests/fit/cases.txt reads DATA/$file"; failed=$((failed + 1)); }
done
if command -v python3 > /dev/null; then
        python3 - <<'PY' || failed=$((failed + 1))
import fnmatch, os, re, sys
def words(word):
    """a{b,c} is ab and ac"""
    found = re.search(r"\{([^{}]*)\}", word)
    return [w for part in found[1].split(",") for w in words(word[:found.start()] + part + word[found.end():])] if found else [word]
names = [w for row in re.findall(r"^\| (.*?) \|", open("data/SOURCES.md").read(), re.M) for part in re.findall(r"[\w.*{},-]+\.\w+", row) for w in words(part)]
missing = [f for f in sorted(os.listdir("data")) if f != "SOURCES.md" and not any(fnmatch.fnmatch(f, name) for name in names)]
sys.exit("FAIL: tests/fit/data/SOURCES.md has no row for " + ", ".join(missing) if missing else 0)
PY
fi

# The same input gives the same bytes, and what is written can be read back.
for i in 1 2; do
        SOURCE_DATE_EPOCH=0 "$capo" fit data/h100_g4_*.log -o "$tmp/p$i.json" > /dev/null || failed=$((failed + 1))
done
cmp "$tmp/p1.json" "$tmp/p2.json" || failed=$((failed + 1))
grep -q '"algo": "nvls"' "$tmp/p1.json" || { echo "FAIL: no nvls row in the profile"; failed=$((failed + 1)); }
call="explain all_reduce 512M --ranks 4 --nodes 1 --layout 4 --profile $tmp/p1.json"
# shellcheck disable=SC2086
{ "$capo" $call | grep -q "may depend on NCCL's release: try --nccl 2.29$" && "$capo" $call --nccl 2.29.2 | grep -q 'decides, line'; } ||
        { echo "FAIL: explain without a release"; failed=$((failed + 1)); }
"$capo" fit data/h100_g2_*.log -o "$tmp/none.json" | grep -q ': 0 rules' || { echo "FAIL: a rule without need"; failed=$((failed + 1)); }
if command -v python3 > /dev/null; then
        "$capo" fit --json data/h100_g4_*.log | python3 -c 'import json,sys; p=json.load(sys.stdin); assert p["series"][0]["regret"]["mean"] <= 0.02, p' || failed=$((failed + 1))
fi
# Two runs of one size that are a factor of 4 apart: their interval says nothing.
awk 'NF == 13 && $1 + 0 > 0 { if (n++) next } { print }' data/label_own.txt > "$tmp/one.txt"
awk 'NF == 13 && $1 + 0 > 0 { print $1, $2, $3, $4, $5, $6 * 4, $7 / 4, $8 / 4, 0, $6 * 4, $7 / 4, $8 / 4, 0; next } { print }' \
        "$tmp/one.txt" > "$tmp/far.txt"
"$capo" fit --wide --default "$tmp/far.txt" "$tmp/one.txt" 2> /dev/null | grep -q "NCCL's choice  *[0-9.]*  any" ||
        { echo "FAIL: an interval that says nothing"; failed=$((failed + 1)); }
# What is left out of a folder is named in the order of its files, and does not cost the others.
mkdir "$tmp/dir"
for i in 1 2 3; do echo "no measurement $i" > "$tmp/dir/$i.txt"; done
"$capo" fit "$tmp/dir" 2>&1 | sed -n 's#.*left out .*/\([0-9]\).txt:.*#\1#p' | tr -d '\n' | grep -qx 123 ||
        { echo "FAIL: files of a folder are not named in their order"; failed=$((failed + 1)); }
cp data/h100_g4_*.log "$tmp/dir"
"$capo" fit "$tmp/dir" 2> /dev/null | grep -q '^1 rule, 3 rows' || { echo "FAIL: bad files cost good ones"; failed=$((failed + 1)); }
# Runs that contradict each other: nothing is certain, so the profile is empty.
for a in RING TREE; do
        echo "# nThread 1 iters: 20"
        echo "h:1:1 [0] NCCL INFO AllReduce: 16777216 Bytes -> Algo $a proto SIMPLE channel{Lo..Hi}={0..3}"
        echo "16777216 4194304 float sum -1 367.7$(echo $a | wc -c) 45.62 79.83 0"
done > "$tmp/two.log"
"$capo" fit --coll all_reduce --layout 8 "$tmp/two.log" -o "$tmp/two.json" > "$tmp/out" 2>&1 && [ -s "$tmp/two.json" ] &&
        grep -q 'capo sweep --coll' "$tmp/out" || { echo "FAIL: contradicting runs: $(cat "$tmp/out")"; failed=$((failed + 1)); }
echo "$n cases, $failed failed"
[ "$failed" = 0 ]
