#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: labels.sh CAPO SOURCE_ROOT    the label of a table, by the lines before it: labels.txt, one case a line.
# The text after the last " | " is the label. A + after it: the run has settings of its own.
set -u
capo=$(realpath "$1") && [ -x "$capo" ] || exit 1
set -- "$1" "$(realpath "$2")"
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
sed -n '2,12p' "$2/tests/fit/data/label_own.txt" > "$tmp/table"
n=0 failed=0
grep -v '^#' "$2/tests/fit/labels.txt" > "$tmp/cases"
while IFS= read -r row; do
        lines=${row% | *} want=${row##* | }
        printf '%s\n' "$lines" | sed 's/\\n/\
/g' > "$tmp/run.txt"
        cat "$tmp/table" >> "$tmp/run.txt"
        "$capo" fit --runs "$tmp/run.txt" 2> /dev/null | grep "run.txt:" | tail -1 > "$tmp/said"
        case $want in
                *" +") grep -q "  ${want% +}  .*; with [a-zA-Z]" "$tmp/said" ;;
                *) grep -q "  $want  " "$tmp/said" && ! grep -q "; with " "$tmp/said" ;;
        esac || { echo "FAIL: $lines: expected $want, found $(cat "$tmp/said")"; failed=$((failed + 1)); }
        n=$((n + 1))
done < "$tmp/cases"
# The commands of docs/faq.md and --help, word for word, write rules where there is a gain of 20 %.
cd "$tmp" || exit 1
for i in 1 2 3; do
        for kind in own ring tree; do
                awk -v by="$kind" -v i="$i" 'NF == 13 && $1 + 0 > 0 {
                        u = $6 * (by == "own" ? 1 : by == "ring" ? 0.8 : 1.1) * (1 + i / 500); g = $1 / u / 1e3
                        print $1, $2, $3, $4, $5, u, g, g, 0, u, g, g, 0; next } { print }' "$tmp/table" > "$kind-$i.txt"
        done
done
cp own-1.txt own1.txt; cp own-2.txt own2.txt; cp own-3.txt own3.txt
cp ring-1.txt ring1.txt; cp ring-2.txt ring2.txt; cp ring-3.txt ring3.txt
for command in "$(grep -o 'capo fit --default own[^`]*' "$2/docs/faq.md")" \
        "$("$capo" fit --help | sed 's/\\$//' | tr '\n' ' ' | grep -o 'capo fit --default own.*json' | sed 's/json.*/json/')"; do
        rm -f mycluster.json
        eval "\"$capo\" ${command#capo}" > said 2>&1 && grep -q '"algo": "ring"' mycluster.json ||
                { echo "FAIL: $command: $(cat said)"; failed=$((failed + 1)); }
        n=$((n + 1))
done
"$capo" fit --wide --default own1.txt own2.txt --algo ring ring1.txt ring2.txt | grep -q "add --proto simple" ||
        { echo "FAIL: a missing --proto is not named"; failed=$((failed + 1)); }
for f in own-1 own-2 own-3 ring-1 ring-2 ring-3; do awk 'NF != 13 || !($1 + 0 > 0) || ++n % 2' "$f.txt" > "coarse-$f.txt"; done
"$capo" fit --default coarse-own-*.txt --algo ring --proto simple coarse-ring-*.txt > said
grep -q 'a factor of 4 apart' said && grep -q "^us: at the largest size of a row" said ||
        { echo "FAIL: sizes between which nobody measured: $(cat said)"; failed=$((failed + 1)); }
"$capo" fit --default own-*.txt --algo ring --proto simple ring-*.txt | grep -q 'apart: nobody' &&
        { echo "FAIL: neighbouring sizes are called far apart"; failed=$((failed + 1)); }
"$capo" fit own1.txt --algo ring 2> said; [ $? = 2 ] && grep -q "after the last input" said ||
        { echo "FAIL: a label after the last input"; failed=$((failed + 1)); }
echo "$n labels, $failed failed"
[ "$failed" = 0 ] && [ "$n" -gt 40 ]
