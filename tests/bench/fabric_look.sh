#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What looking at the network costs: CPU time of the drain thread (its schedstat) beside a program that is on libfabric's
# shm provider without pause, with and without looks in turn. And how near the estimates come: share.c knows the truth.
# usage: fabric_look.sh BUILD [ROUNDS]
set -u
build=$(realpath "$1")
rounds=${2:-5}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# once LOOK_MS: prints CPU microseconds of the drain thread per second
once() {
        rm -rf "$tmp/logs"
        LD_PRELOAD=$build/shim/libcapo.so CAPO_QUIET=1 CAPO_DIR=$tmp/logs CAPO_TRACE=all CAPO_FABRIC_LOOK=$1 \
                "$build/tests/fabric/share" shm 7 >"$tmp/out" 2>/dev/null &
        sleep 1
        for task in /proc/$!/task/*; do
                [ "$(cat "$task/comm" 2>/dev/null)" != capo-drain ] || break
        done
        before=$(cut -d' ' -f1 "$task/schedstat")
        sleep 5
        echo $(($(cut -d' ' -f1 "$task/schedstat") / 5000 - before / 5000))
        wait
}

middle() { sort -n "$1" | awk '{ v[NR] = $1 } END { print NR ? v[int((NR + 1) / 2)] : 0 }'; }

printf '%-26s %14s %10s   medians of %s runs\n' 'CAPO_FABRIC_LOOK' 'CPU us per s' '% of core' "$rounds"
for i in $(seq "$rounds"); do
        for ms in 0 20 10 5; do
                once $ms >>"$tmp/$ms"
                [ $ms != 20 ] || cp "$tmp/out" "$tmp/truth"
                [ $ms != 20 ] || "$build/cli/capo" report --json "$tmp/logs" >"$tmp/page"
        done
done
for ms in 0 20 10 5; do
        printf '%-26s %14s %10s\n' "$([ $ms = 0 ] && echo '0: no looks' || echo "$ms ms")" "$(middle "$tmp/$ms")" \
                "$(middle "$tmp/$ms" | awk '{ printf "%.3f", $1 / 1e4 }')"
done
printf '\n%-14s %8s %8s   %s\n' 'every 20 ms' true looks '95 % interval'
python3 - "$tmp/truth" "$tmp/page" <<'EOF'
import json, sys
calls = {c["call"]: c["network"] for c in json.load(open(sys.argv[2]))["fabric_calls"] if c["comm"] is not None}
for line in open(sys.argv[1]):
    word = line.split()
    if word[0] == "truth":
        n = calls[word[1]]
        print("%-14s %8.3f %8.3f   %.3f to %.3f" % (word[1], int(word[4]) / int(word[3]), n["share"], n["low"], n["high"]))
EOF
