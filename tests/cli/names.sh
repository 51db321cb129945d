#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Logs under a name that is not UTF-8, or that steers a terminal: the pages say what they say of the same logs elsewhere.
set -u
capo=$(realpath "$1")
gen_job=$(realpath "$2")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
bad=0
fail() { echo "$*"; bad=1; }

mkdir logs
"$gen_job" logs layout=2+2 steps=300 gpu=1 trace=1 late_rank=1 late_ns=3000000 killed=1 >made || exit 1
for name in "$(printf 'r\351sultats')" "$(printf 'a\033[31mb')" "$(printf 'two\nlines')"; do
        cp -r logs "$name"
        "$capo" report logs >plain 2>&1
        "$capo" report "$name" >other 2>&1
        cmp -s plain other || fail "report of $name: $(diff plain other)"
        "$capo" report --json "$name" >page.json 2>err || fail "report --json of $name: $(cat err)"
        python3 -m json.tool page.json >printed || fail "report --json of $name is no JSON"
        "$capo" hang logs >plain 2>&1
        "$capo" hang "$name" >other 2>&1
        status=$?
        [ $status -lt 4 ] || fail "hang of $name: status $status"
        cmp -s plain other || fail "hang of $name: $(diff plain other)"
done
# A newline or a tab in a name makes no line or column of a page.
name=$(printf 'nl\nVERDICT\tx%%n.txt')
echo text >"$name"
for verb in diagnose expect fit; do
        "$capo" $verb "$name" >page 2>&1
        grep -q '^VERDICT.x' page && fail "$verb: a name makes a line: $(cat page)"
        grep -q 'nl?VERDICT?x%n' page || [ $verb != diagnose ] || fail "$verb does not name its input: $(cat page)"
done
exit $bad
