#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The same measurements given twice, under another name, in a folder or by two imports of a store, count once, and that is said.
set -u
capo=$(realpath "$1")
data=$(realpath "$2")/tests/fit/data
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
bad=0
fail() { echo "$*"; bad=1; }
SOURCE_DATE_EPOCH=0
export SOURCE_DATE_EPOCH
log=$data/h100_g4_auto.log
cp "$log" copy.log
mkdir folder
cp "$log" folder/a
cp "$log" folder/b
"$capo" export "$log" >once 2>/dev/null || fail "export"

for words in "$log $log" "$log copy.log" "copy.log folder" "folder folder"; do
        # shellcheck disable=SC2086
        "$capo" export $words 2>err | cut -d, -f1-8 >twice
        [ "$(wc -l <once)" = "$(wc -l <twice)" ] || fail "$words: $(wc -l <twice) lines, once $(wc -l <once)"
        grep -q 'has the same content as .*: counted once' err || fail "$words: not said: $(cat err)"
done
# forced to something else, says who gives it: two measurements
"$capo" export copy.log --algo ring copy.log >/dev/null 2>err || fail "with another label: $(cat err)"
grep -q 'counted once' err && fail "with another label: $(cat err)"

"$capo" store add s.db "$log" >/dev/null 2>&1 && "$capo" store add s.db copy.log >/dev/null 2>&1 || fail "store add"
"$capo" export store:s.db 2>err >twice
[ "$(wc -l <once)" = "$(wc -l <twice)" ] || fail "store: $(wc -l <twice) lines, once $(wc -l <once)"
grep -q 'import 2 has the same measurements as import 1: counted once' err || fail "store: not said: $(cat err)"
exit $bad
