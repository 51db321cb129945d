#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# fi_pingpong's own latency (usec/xfer, 64 bytes), bare and under capo in turn: medians and their ratio. With two cores
# the two ends own the machine; "again" is the bare run a second time, so its ratio is what noise alone makes.
# usage: fabric_pingpong.sh BUILD [ROUNDS]
set -u
lib=$(realpath "$1")/shim/libcapo.so
rounds=${2:-7}
command -v fi_pingpong >/dev/null || { echo "skipped: no fi_pingpong"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# once PROVIDER ENDPOINT [VARIABLE=VALUE...]: prints usec/xfer
once() {
        provider=$1 endpoint=$2
        shift 2
        port=$(($(od -An -N2 -tu2 /dev/urandom) % 20000 + 10000))
        env "$@" timeout 30 fi_pingpong -p "$provider" -e "$endpoint" -I 20000 -S 64 -B $port >/dev/null 2>&1 &
        sleep 0.4
        env "$@" timeout 30 fi_pingpong -p "$provider" -e "$endpoint" -I 20000 -S 64 -P $port 127.0.0.1 2>/dev/null | awk 'END { if ($7 > 0) print $7 }'
        wait
}

median() { sort -n "$1" | awk '{ v[NR] = $1 } END { if (NR) printf "%.2f (%.2f-%.2f)", v[int((NR + 1) / 2)], v[1], v[NR]; else printf "-" }'; }
middle() { sort -n "$1" | awk '{ v[NR] = $1 } END { print NR ? v[int((NR + 1) / 2)] : 0 }'; }

ratio() { awk -v a="$(middle "$tmp/$1")" -v b="$(middle "$tmp/bare")" 'BEGIN { printf "%.3f", b ? a / b : 0 }'; }

printf '%-18s %22s %22s %8s %8s   usec/xfer: median (smallest-largest) of %s runs\n' provider bare capo ratio again "$rounds"
for case in 'shm rdm' 'tcp msg' 'tcp;ofi_rxm rdm'; do
        provider=${case% *} endpoint=${case#* }
        : >"$tmp/bare"
        : >"$tmp/capo"
        : >"$tmp/again"
        i=0
        while [ $i -lt "$rounds" ]; do
                once "$provider" "$endpoint" CAPO_OFF=1 >>"$tmp/bare"
                once "$provider" "$endpoint" CAPO_QUIET=1 CAPO_DIR="$tmp/logs" LD_PRELOAD="$lib" >>"$tmp/capo"
                once "$provider" "$endpoint" CAPO_OFF=1 >>"$tmp/again"
                i=$((i + 1))
        done
        printf '%-18s %22s %22s %8s %8s\n' "$provider" "$(median "$tmp/bare")" "$(median "$tmp/capo")" "$(ratio capo)" "$(ratio again)"
done
