#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: labels.sh CAPO SOURCE_ROOT    the label of a table, by the lines before it: labels.txt, one case a line.
# The text after the last " | " is the label. A + after it: the run has settings of its own.
set -u
capo=$(realpath "$1") && [ -x "$capo" ] || exit 1
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
                *" +") grep -q "  ${want% +}  .*; NCCL settings beside" "$tmp/said" ;;
                *) grep -q "  $want  " "$tmp/said" && ! grep -q "settings beside" "$tmp/said" ;;
        esac || { echo "FAIL: $lines: expected $want, found $(cat "$tmp/said")"; failed=$((failed + 1)); }
        n=$((n + 1))
done < "$tmp/cases"
echo "$n labels, $failed failed"
[ "$failed" = 0 ] && [ "$n" -gt 40 ]
