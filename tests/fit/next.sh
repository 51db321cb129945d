#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: next.sh CAPO GEN_JOB    What NEXT of a report recommends is a command that works: a sweep is run as far as its plan.
set -u
capo=$(realpath "$1") gen=$(realpath "$2")
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
bad=0
fail() { echo "FAIL: $*"; bad=1; }
for sizes in 16K,32K 8K,16K,32K,64K; do
        mkdir "$sizes" && "$gen" "$sizes" layout=4 steps=600 sizes="$sizes" gpu=1 > /dev/null || fail "gen_job $sizes"
        "$capo" report "$sizes" > out || fail "report $sizes: exit status $?"
        grep -o 'capo sweep --coll.* -- COMMAND' out | sed 's/^capo//; s/ -- COMMAND/ --print/' > commands
        [ -s commands ] || fail "$sizes: no sweep is recommended: $(cat out)"
        while read -r words; do
                # shellcheck disable=SC2086
                "$capo" $words > said 2>&1 || fail "NEXT of $sizes: capo $words: $(cat said)"
        done < commands
done
exit $bad
