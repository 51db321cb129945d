#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: moe_versions.sh CAPO LIBCAPO LAUNCH PROGRAM [LIBRARY]   a program that checks NCCL EP and NCCL M2N ends under capo as it
# does alone. With LIBRARY (fake_ext) it is of one rank, and capo counts the structs that it does not know.
set -eu
capo=$1 preload=$2 launch=$3 program=$4 library=${5:-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export CAPO_DIR="$folder/logs" CAPO_GPU_SAMPLE=1
LD_PRELOAD=$preload "$launch" -n "$([ -n "$library" ] && echo 1 || echo 4)" -- "$program" $library >"$folder/out" 2>&1 || {
        tail -n 30 "$folder/out"
        exit 1
}
[ -n "$library" ] || exit 0
cat "$folder/out"
"$capo" dump "$folder"/logs/*.capo >"$folder/dump"
grep -qE 'ext\.unknown[[:space:]]+[1-9]' "$folder/dump" || {
        echo "unknown structs are not counted"
        exit 1
}
grep -q EpDispatch "$folder/dump" || {
        echo "the calls of a library that dlopen loaded are not recorded"
        exit 1
}
