#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: abi_check.sh FOLDER CC [ARG...]   do our own cuda.h and nccl.h agree with the toolkit's? Skipped without one.
here=$(dirname "$0")
folder=$1
shift
number() { sed -n "s/^#define $2 *\([0-9]*\).*/\1/p" "$1" 2>/dev/null | head -n 1; }
done=
# The numbers below are checked twice: ours first, then the toolkit's.
"$@" -fsyntax-only -DSTANDIN_DRIVER -I"$here/include" "$here/abi_cuda.c" &&
        "$@" -fsyntax-only -DSTANDIN_DRIVER -I"$here/include" "$here/abi_nccl.c" || exit 1
if [ "$(number "$folder/cuda.h" CUDA_VERSION || echo 0)" -ge 13000 ] 2>/dev/null; then
        "$@" -fsyntax-only -I"$folder" "$here/abi_cuda.c" || exit 1
        done="$done cuda.h"
fi
if [ "$(number "$folder/nccl.h" NCCL_VERSION_CODE || echo 0)" -ge 22807 ] 2>/dev/null && [ -e "$folder/cuda_runtime.h" ]; then
        "$@" -fsyntax-only -I"$folder" "$here/abi_nccl.c" || exit 1
        done="$done nccl.h"
fi
[ -n "$done" ] || {
        echo "skipped: no cuda.h of 13.0 or nccl.h of 2.28.7 and later in ${folder:-the usual places}"
        exit 77
}
echo "agrees with$done in $folder"
