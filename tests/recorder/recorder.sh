#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: recorder.sh PROGRAM LOG_TEXT [THREADS WAVES]: run it, and want every call in the log it leaves.
set -u
tmp=$(mktemp -d "${TMPDIR:-/tmp}/capo-recorder-XXXXXX")
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/shm"
CAPO_DIR=$tmp/logs CAPO_SHM=$tmp/shm CAPO_RING=1M CAPO_TRACE=${TRACE:-} CAPO_GPU_SAMPLE=0 "$1" "${3:-8}" "${4:-3}" >"$tmp/out" || {
        cat "$tmp/out"
        exit 1
}
"$2" "$tmp"/logs/*.capo >"$tmp/log" || exit 1
n=$(sed -n 's/^records //p' "$tmp/out")
grep -q "^end calls=$n dropped=0 .* clean=1" "$tmp/log" || {
        echo "not $n calls: $(grep '^end' "$tmp/log")"
        exit 1
}
grep -q '^health damages=0 cut=0' "$tmp/log" || exit 1
sum=$(sed -n 's/^cell .* count=\([0-9]*\) .*/\1/p' "$tmp/log" | awk '{s += $1} END {print s}')
[ "$sum" = "$n" ] || {
        echo "cells count $sum calls, not $n"
        exit 1
}
# every communicator but the 8 of ncclCommInitAll was reported, on its own thread
[ "$(grep -c '^comm .* 0/4 .* nodes=2 hash=[1-9a-f][0-9a-f]* .*name=told$' "$tmp/log")" -eq $((${3:-8} * ${4:-3} * 6)) ] || {
        echo "what the plugin told is not in the log: $(grep '^comm' "$tmp/log" | head -12)"
        exit 1
}
grep -q '^call AllGather .* flags=1 rule=7 ran=20/2 ' "$tmp/log" || {
        echo "what the plugin said of a member is not in the log"
        exit 1
}
