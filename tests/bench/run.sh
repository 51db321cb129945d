#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs every benchmark, one after the other: medians and ratios, nothing passes or fails.
# usage: run.sh BUILD [NAME...]
set -u
build=$1
shift
here=$(dirname "$0")
printf '%s, %s cores, %s\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" "$(uname -sr)"
for bench in "$build"/tests/bench/*-bench "$here"/*.sh "$here"/*.py; do
        name=$(basename "$bench")
        name=${name%.*}
        [ -x "$bench" ] && [ "$name" != run ] || continue
        if [ $# -gt 0 ]; then
                case " $* " in *" ${name%[-_]bench} "*) ;; *) continue ;; esac
        fi
        printf '\n== %s\n' "${name%[-_]bench}"
        CAPO_BUILD=$build "$bench" "$build" || echo "ended with status $?"
done
