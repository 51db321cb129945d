#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What is asked for and not there is an error that names it, and no page without it: a tuner, a libnccl. And pictures and
# pages go where data goes (output.sh): into a device, never in its place.
# usage: refused.sh CAPO SOURCE
set -u
capo=$(realpath "$1")
source=$(realpath "$2")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
bad=0
fail() { echo "$*"; bad=1; }
unset CAPO_NCCL

# refused WORDS PATTERN: exit status 1, nothing on standard output, one line that says so
refused() {
        # shellcheck disable=SC2086
        "$capo" $1 >out 2>err
        [ $? = 1 ] || fail "capo $1: exit status is not 1: $(cat err)"
        [ ! -s out ] || fail "capo $1: a page all the same: $(head -3 out)"
        grep -q -e "$2" err || fail "capo $1: not said: $(cat err)"
}
for words in "plan --platform dgx1v --sizes 1M" "explain allreduce 1M --platform dgx1v"; do
        refused "$words --nccl $dir/libnccl.so.2" "$dir/libnccl.so.2: .*No such file or directory"
        refused "$words --libnccl $dir/libnccl.so.2" "$dir/libnccl.so.2: .*No such file or directory"
        CAPO_NCCL=$dir/nccl refused "$words" "CAPO_NCCL=$dir/nccl: .*No such file or directory"
done
if "$capo" plan --platform dgx1v --sizes 1M >/dev/null 2>&1; then
        refused "plan --platform dgx1v --sizes 1M --profile $dir/missing.json" "profile: $dir/missing.json: No such file"
        "$capo" plan --platform dgx1v --every 1 --sizes 1M >out 2>&1
        grep -q "all 8 subsets of 1 GPU$" out && grep -q "; 1 kind$" out && ! grep -q "nan" out || fail "plan --every 1: $(cat out)"
        refused "plan --platform dgx1v --sizes 1M --tuner $dir/tuner.so" "$dir/tuner.so: No such file or directory"
else
        echo "no libnccl to ask here: a missing tuner is not tried"
fi

# Root's processes may be of any job: without a folder nothing of them is touched.
if [ "$(id -u)" = 0 ]; then
        "$capo" report --recover >out 2>err
        [ $? = 2 ] && [ ! -s out ] && grep -q "name the folder of one, or --recover-all" err || fail "capo report --recover as root: $(cat out err)"
fi

# wrong WORDS PATTERN: exit status 2, nothing on standard output, one line that says so
wrong() {
        # shellcheck disable=SC2086
        timeout 60 "$capo" $1 >out 2>err
        status=$?
        [ $status = 2 ] || fail "capo $1: exit status $status, not 2: $(cat err)"
        [ ! -s out ] || fail "capo $1: a page all the same: $(head -3 out)"
        grep -q -e "$2" err || fail "capo $1: not said: $(cat err)"
}
wrong "fit --model 3+5" "--model needs --topo FILE or --platform NAME"
wrong "fit --model 3+5 --platform nosuch" nosuch
wrong "run --layout foo -- true" "ranks per node, such as 3+5"
wrong "run --layout 9999999999x8 -- true" "ranks per node, such as 3+5"
wrong "hang --ras localhost:70000" "port from 1 to 65535"
wrong "plan --platform dgx1v --sizes 0" "sizes above 0"
"$capo" topo --platform dgx1v --alloc 4294967297x8 >out 2>err && fail "topo of 4294967297 nodes"
grep -q 'found "4294967297x8"' err || fail "topo --alloc: not what was given: $(cat err)"
"$capo" topo --platform dgx1v --alloc 0 >out 2>err && fail "topo of no GPUs"
grep -q 'found "0"' err || fail "topo --alloc 0: not what was given: $(cat err)"
CAPO_FLIGHT=-5 CAPO_RING=1 "$capo" env --wide >out 2>err
grep -q '^CAPO_FLIGHT  *0 (-5 is below it)' out && grep -q '^CAPO_RING  *4096 (1 is below it)' out || fail "capo env: $(grep -E 'FLIGHT|RING' out)"
CAPO_FLIGHT=-5 "$capo" run -- true >out 2>err
grep -q 'CAPO_FLIGHT=-5 is below 0' err || fail "capo run with CAPO_FLIGHT=-5: not said: $(cat err)"
rm -rf capo-logs
mkdir capo-logs empty
refused "report capo-logs@0" "there is no job 0"
"$capo" diagnose empty >out 2>err
grep -q 'empty: nothing could be read' err || fail "diagnose of an empty folder: $(cat err)"
mkfifo fifo
for verb in diagnose fit expect; do
        timeout 300 "$capo" $verb fifo >out 2>err </dev/null
        [ $? -lt 124 ] || fail "capo $verb waits for the writer of a named pipe"
        grep -q 'named pipe\|not a regular file' out err || fail "capo $verb fifo: not said: $(cat out err)"
done
seq 200000 | gzip >whole.gz
head -c 60 whole.gz >cut.gz
"$capo" diagnose cut.gz >out 2>err
grep -q 'truncated' err || fail "diagnose cut.gz: not said: $(cat out err)"
grep -q 'gzip:' err && fail "diagnose cut.gz: gzip's own words: $(cat err)"
grep -q 'cut.gz is empty' out && fail "diagnose cut.gz: called empty"

log=$source/tests/fit/data/h100_g4_auto.log
mkdir made
for words in "fit $log --without-default -o" "report $source/tests/golden/sample-v1 --html" \
             "trace $source/tests/golden/sample-v1 -o"; do
        # shellcheck disable=SC2086
        "$capo" $words made/file >/dev/null 2>err || fail "capo $words: exit status $?: $(cat err)"
        [ -s made/file ] || fail "capo $words: an empty file"
        if mknod device c 1 3 2>/dev/null && : >device 2>/dev/null; then
                # shellcheck disable=SC2086
                "$capo" $words device >/dev/null 2>err || fail "capo $words to a device: exit status $?: $(cat err)"
                [ -c device ] || fail "capo $words: a device like /dev/null is replaced"
        fi
        # shellcheck disable=SC2086
        "$capo" $words /dev/full >/dev/null 2>err && fail "capo $words: a full device is no error"
        rm -f made/file device
done
exit $bad
