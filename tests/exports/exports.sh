#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A library exports exactly its list: no name lost, nothing of a static library leaked.
# usage: exports.sh LIBRARY LIST [--rows CALLS_DEF]... [NAME...]
# The list, the functions of those rows, and the names; EXPORTS_UPDATE=1 rewrites the list.
set -u
lib=$1
list=$2
shift 2
while [ "${1:-}" = --rows ]; do
        rows=$(sed -nE 's/^(CALL|HAND|EVENT|DATA)\((nccl[A-Za-z0-9]+),.*/\2/p; s/^PASS\([^,]*, *(nccl[A-Za-z0-9]+),.*/\1/p' "$2")
        shift 2
        # shellcheck disable=SC2086
        set -- "$@" $rows
done
# t: a local symbol in the table (etext, from some linkers), which nobody can bind to
now=$(nm -D --defined-only "$lib" | awk '$2 != "t" {print $NF}' | LC_ALL=C sort -u | grep -vE '^(__asan|__tsan|__ubsan|__sanitizer|_edata|_end|__bss_start|_init|_fini)')
if [ "${EXPORTS_UPDATE:-0}" = 1 ]; then
        printf '%s\n' "$now" | grep -vxF "$(printf '%s\n' "$@")" >"$list"
        exit 0
fi
wanted=$(mktemp)
trap 'rm -f "$wanted"' EXIT
{ cat "$list" && printf '%s\n' "$@"; } | LC_ALL=C sort -u >"$wanted"
printf '%s\n' "$now" | diff -u "$wanted" - && exit 0
echo "exports of $lib differ from $list (- expected, + found)"
exit 1
