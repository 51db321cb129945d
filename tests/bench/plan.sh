#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# capo plan: wall time of a question, medians; processes, libnccl loading and all.   usage: plan.sh BUILD
set -u
capo=$1/cli/capo
sizes='--coll all --sizes 1K..512M*2'
if ! "$capo" plan --platform dgx1v --gpus 0,1 --sizes 1M >/dev/null 2>&1; then
        echo "skipped: no libnccl.so.2 to ask on this machine"
        exit 0
fi
"$capo" plan --platform dgx1v --gpus 0,1 --sizes 1M | sed -n 's/^asked */libnccl: /p'

ms() { date +%s%N; }

measure() { # title, runs, goal, arguments of capo plan...
        title=$1 runs=$2 goal=$3
        shift 3
        clock "$title" "$runs" "$goal" plan "$@" --json
}

clock() { # title, runs, goal, arguments of capo...
        title=$1 runs=$2 goal=$3
        shift 3
        times=
        for _ in $(seq "$runs"); do
                t=$(ms)
                "$capo" "$@" >/dev/null || return
                times="$times $((($(ms) - t) / 1000000))"
        done
        # shellcheck disable=SC2086
        printf '%s\n' $times | sort -n | awk -v title="$title" -v goal="$goal" '
                { t[NR] = $1 } END { printf "%-52s median %6d ms   fastest %6d   slowest %6d   goal %s\n", title, t[int((NR + 1) / 2)], t[1], t[NR], goal }'
}

# shellcheck disable=SC2086
{
        measure "8 ranks on one node (HGX H100), 5 collectives x 20" 7 "1,000" --platform hgxh100 $sizes
        measure "8 ranks on one node (DGX-1V), 5 collectives x 20" 7 "1,000" --platform dgx1v $sizes
        measure "2 x 8 ranks (HGX H100), 5 collectives x 20" 7 "2,000" --platform hgxh100 --alloc 8+8 $sizes
        measure "2 x 8 ranks (DGX-1V), 5 collectives x 20" 7 "2,000" --platform dgx1v --alloc 8+8 $sizes
        measure "atlas: 56 3-GPU subsets of a DGX-1V" 3 "15,000" --platform dgx1v --every 3
        measure "128 x 8 ranks (HGX H100), 11 sizes" 5 "5,000" --platform hgxh100 --alloc 128x8
        measure "1,024 x 8 ranks (HGX H100), 11 sizes" 3 "20,000" --platform hgxh100 --alloc 1024x8
        measure "4 x 8 ranks (HGX H100), 5 collectives x 20" 3 "-" --platform hgxh100 --alloc 4x8 $sizes
}
