#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: advise.sh CAPO GEN_JOB    capo advise on made-up jobs and measurements where every number follows from a formula.
#
# The measurements of --with say 100 us x sqrt(size / 1 MiB), a straight line in log size and log time, so what is read off
# between two of them is exact as well. The recording of gen_job says 100 us + size / (50 bytes/ns), noise of at most 1 us.
set -u
capo=$(realpath "$1") gen=$(realpath "$2")
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
bad=0
fail() { echo "FAIL: $*"; bad=1; }
says() { # words, what for
        grep -q -e "$1" out || { fail "$2: no \"$1\" in"; cat out; }
}
job() { # folder, gen_job's words
        mkdir "$1" && "$gen" "$@" > /dev/null || fail "gen_job $*"
}
measured() { # ranks
        echo "### ALGO=auto"
        echo "# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809"
        echo "# Collective test starting: all_reduce_perf"
        for r in $(seq 0 $(($1 - 1))); do
                echo "#  Rank  $r Group  0 Pid  1$r on   host1 device  $r [0000:0$r:00] NVIDIA H100"
        done
        for row in "1048576 100" "4194304 200" "16777216 400" "67108864 800"; do
                echo "$row $1" | awk '{ a = $1 / $2 / 1e3; b = a * 2 * ($3 - 1) / $3
                        printf "%d %d float sum -1 %.2f %.2f %.2f 0 %.2f %.2f %.2f 0\n", $1, $1 / 4, $2, a, b, $2, a, b }'
        done
}
measured 4 > four.txt
measured 8 > eight.txt
job own layout=4 steps=50 sizes=4M,2M gpu=1
job host layout=4 steps=50 sizes=4M,2M
job bench layout=4 steps=50 sizes=1M,2M,4M,8M gpu=1
"$capo" advise bench > out 2> err && fail "a benchmark is taken for a training job: $(cat out)"
grep -q 'sizes of a benchmark' err || fail "a benchmark: $(cat err)"
"$capo" advise --steps 50 bench > out 2> err || fail "a benchmark that is said to be steps: $(cat err)"
grep -q 'beyond the sizes measured' out || fail "sizes that were not measured: $(cat out)"
job many layout=4 steps=50 sizes=4M,4M,4M,4M gpu=1

"$capo" advise own > out || fail "own times: exit status $?"
says '50 steps (found from the counts.*2 all-reduces of 2 MiB to 4 MiB, 6 MiB in all' "own times"
says '^now: 0.32[0-9] ms per step modelled (times of this recording); 0.32[0-9] ms recorded' "own times: 142 + 184 us"
says '^  10 MiB  *1  *6 MiB  *0.2[78][0-9]* ms  *-1[0-9.]* %  (beyond the sizes measured)  <- modelled best' "own times: 184 us x 6 / 4, beyond the largest"
says '^try: DDP(bucket_cap_mb=10), or HOROVOD_FUSION_THRESHOLD=10485760: 0.0[45]' "own times"

# One unit for times below a second.
job slow layout=4 steps=50 sizes=4M,2M gpu=1 late_rank=1 late_ns=150000000
"$capo" advise slow > out || fail "a late rank: exit status $?"
says '^now: 0.3[0-9]* ms per step modelled (times of this recording); 1[0-9]* ms recorded, waiting' "a late rank"

# A gain that the spread of the times could be is none: five steps, and a late rank makes three calls of four longer for the others.
job noisy layout=4 steps=5 sizes=4M,2M gpu=1 late_rank=1 late_ns=200000
"$capo" advise noisy > out || fail "noisy times: exit status $?"
says '^buckets: as good as any other size, within [1-9][0-9]* % (modelled; more calls timed' "noisy times"
grep -q 'modelled best' out && fail "noisy times: a best is named: $(cat out)"

"$capo" advise --with four.txt own > out || fail "--with: exit status $?"
says '^now: 0.341 ms per step modelled (times measured in --with)' "--with: 100 us x (sqrt 2 + 2)"
says '^  1 MiB  *6  *1 MiB  *0.6 ms  *+75.7 %$' "--with"
says '^  2 MiB  *3  *2 MiB  *0.424 ms  *+24.3 %$' "--with: 300 us x sqrt 2"
says '^  5 MiB  *2  *3 MiB  *0.346 ms  *+1.5 %$' "--with: 200 us x sqrt 3"
says '^  10 MiB  *1  *6 MiB  *0.245 ms  *-28.3 %  <- modelled best$' "--with: 100 us x sqrt 6"

# Four equal gradients a step look like four steps of one each: --steps says what the counts cannot.
"$capo" advise --with four.txt many > out || fail "many: exit status $?"
says ': 200 steps' "many"
says '^buckets: as good as any other size' "many: one bucket already"
"$capo" advise --with four.txt --steps 50 many > out || fail "--steps: exit status $?"
says ': 50 steps, per step 4 all-reduces of 4 MiB to 4 MiB, 16 MiB in all' "--steps"
says '^now: 0.8 ms' "--steps: 4 x 200 us"
says '^  25 MiB  *1  *16 MiB  *0.4 ms  *-50.0 %  <- modelled best' "--steps"
says '^gradient accumulation over 2 steps: 0.4 ms less per step; over 4: 0.6 ms' "--steps"

# A recording without GPU times has sizes and counts, but only --with has times.
"$capo" advise --with four.txt host > out || fail "host times with --with: exit status $?"
says '^now: 0.341 ms per step modelled (times measured in --with)$' "host times with --with: nothing recorded to show beside it"
# What a report recommends does not refuse: its commands are run, a sweep's as far as its plan.
next_commands() { # folder
        "$capo" report "$1" > out || fail "report $1: exit status $?"
        grep -o 'capo advise [^ ]*' out > commands
        grep -o 'capo sweep --coll.* -- COMMAND' out | sed 's/ -- COMMAND/ --print/' >> commands
        while read -r _ verb rest; do
                # shellcheck disable=SC2086
                "$capo" $verb $rest > said 2>&1 || fail "NEXT of $1: capo $verb $rest: $(cat said)"
        done < commands
}
job small layout=4 steps=600 sizes=16K,32K gpu=1
job smallbench layout=4 steps=600 sizes=8K,16K,32K,64K gpu=1
next_commands small
grep -q 'capo advise small' commands || fail "small calls of a training job: $(cat out)"
grep -q 'capo sweep' commands || fail "no sweep is recommended: $(cat out)"
next_commands smallbench
grep -q 'capo advise' commands && fail "a benchmark is sent to capo advise: $(cat out)"

refuses() { # exit status, words, arguments
        want=$1 words=$2
        shift 2
        "$capo" advise "$@" > out 2> err
        r=$?
        [ "$r" = "$want" ] || fail "advise $*: exit status $r, not $want"
        grep -q -e "$words" err || fail "advise $*: $(cat err)"
}
refuses 1 'CAPO_GPU_SAMPLE=1' host
refuses 1 'as many ranks as --with' --with eight.txt own
refuses 1 'no-such: no such folder or log' no-such
refuses 1 'missing.txt' --with missing.txt own
refuses 2 'which recording' --steps 5
refuses 2 'expected a whole number from 2 on, found "1"' --steps 1 own
refuses 2 'unknown option' --nothing own
exit $bad
