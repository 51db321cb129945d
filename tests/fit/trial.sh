#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: trial.sh CAPO [JOBS]    predicted rows on trial, and a guard, on the stand-in with planted costs: ranks decide alike, the
# budget is kept, the right choice wins, the next run uses it, and jobs that end at once leave the user's folder whole.
# With JOBS so many jobs with random planted costs: 99 of 100 must find the winner.
set -u
capo=$(realpath "$1")
jobs=${2:-0}
build=$(realpath "$(dirname "$1")/..")
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
fail() { echo "FAIL: $*"; : > "$tmp/failed"; } # also of a job in the background
[ -x "$build/tests/jobs/coll_perf" ] || { echo "SKIPPED: no test jobs in this build"; exit 77; }
LD_LIBRARY_PATH=$build/tests/standin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
unset RANK SLURM_PROCID PMI_RANK OMPI_COMM_WORLD_RANK
export LD_LIBRARY_PATH XDG_CONFIG_HOME="$tmp/config"
mine=$tmp/config/capo/profiles
mkdir -p "$mine"
profile() { # name, basis
        cat > "$mine/$1.json" << END
{"capo_profile": 1, "name": "$1", "provenance": {"who": "test"}, "rules": [
 {"when": {"ranks": 2, "nodes": 1}, "basis": "$2", "allreduce": [{"upto": "max", "algo": "tree", "proto": "simple"}]}]}
END
}
job() { # what is slow, folder, options of capo run
        slow=$1 dir=$2
        shift 2
        CAPO_STANDIN_SLOW=$slow "$capo" run --dir "$dir" "$@" -- "$build/tests/jobs/launch" -n 2 --timeout 120 -- \
                "$build/tests/jobs/coll_perf" allreduce -b 256K -e 256K -n "${calls:-120}" -c 1 > "$dir.out" 2>&1 ||
                fail "the job fails: $(cat "$dir.out")"
        grep -q '^# Out of bounds values : 0 OK' "$dir.out" || fail "results: $(cat "$dir.out")"
}
rules() { # a log: the rule of each call, in order
        "$capo" export "$1" | awk -F, 'NR > 1 {print $21, $13}' | sort -n
}

alike() { # folder: both ranks decided the same
        set -- "$1"/*.capo
        rules "$1" > "$tmp/a"
        rules "$2" > "$tmp/b"
        cmp -s "$tmp/a" "$tmp/b"
}
within() { # of the calls in $tmp/a one in ten tried the row, and at least so many
        awk '$2 == "Tree" {tried++} END {exit !(tried >= '"$1"' && tried <= NR / 10 + 1)}' "$tmp/a"
}
whole() { # one profile in the folder, and that one whole
        "$capo" profile check "$mine/$1.json" > "$tmp/out" || fail "the profile fails its check: $(cat "$tmp/out")"
        [ "$(ls "$mine" | wc -l)" = 1 ] || fail "left in the folder: $(ls "$mine")"
}

if [ "$jobs" -gt 0 ]; then
        right=0 wrong=0 open=0 apart=0 over=0
        for i in $(seq "$jobs"); do
                profile deep modelled
                rm -f "$tmp/config/capo/trials"
                if [ $((i % 2)) = 1 ]; then slow=Ring:2000 want=used; else slow=Tree:2000 want='left to NCCL'; fi
                for round in 1 2 3; do # a job on a busy machine may leave it open; the next one adds its calls
                        calls=300 job $slow "$tmp/d$i.$round" --profile deep --allow-predicted --budget 10
                        alike "$tmp/d$i.$round" || apart=$((apart + 1))
                        within 1 || over=$((over + 1))
                        calls=2 job $slow "$tmp/e$i.$round" --profile deep --allow-predicted --budget 10 &
                        calls=2 job $slow "$tmp/f$i.$round" --profile deep --allow-predicted --budget 10 &
                        wait
                        whole deep
                        cat "$tmp/e$i.$round.out" "$tmp/f$i.$round.out" > "$tmp/said"
                        grep -q 'from now on' "$tmp/said" && break
                        open=$((open + 1))
                done
                if grep -q "$want from now on" "$tmp/said"; then right=$((right + 1))
                elif grep -q 'from now on' "$tmp/said"; then wrong=$((wrong + 1)); fi
                rm -rf "$tmp"/[def]"$i".*
        done
        echo "$right of $jobs right, $wrong wrong, $open times not decided by one job; ranks decided apart in $apart, over the budget in $over"
        [ $((right * 100)) -ge $((jobs * 99)) ] || fail "$right of $jobs jobs found the winner"
        [ $apart = 0 ] || fail "ranks decided apart"
        [ $over = 0 ] || fail "the budget was not kept"
        [ ! -e "$tmp/failed" ]
        exit
fi

# The predicted row is faster: one call in ten tries it, on both ranks the same; NCCL's choice otherwise.
profile p modelled
job Ring:3000 "$tmp/one" --profile p --allow-predicted --budget 10
alike "$tmp/one" || fail "ranks decide differently: $(diff "$tmp/a" "$tmp/b" | head -n 4)"
within 12 || fail "budget: $(sort -k2 "$tmp/a" | uniq -cf1)"
"$capo" report "$tmp/one" > "$tmp/out" 2>&1 || fail "report: $(cat "$tmp/out")"
grep -q 'Tree Simple: .* less time than' "$tmp/out" || fail "the report does not say what was faster: $(cat "$tmp/out")"
# Two at once learn from it: one of them writes, both run, and the file is whole.
calls=4
job Ring:0 "$tmp/two" --profile p --allow-predicted &
job Ring:0 "$tmp/three" --profile p --allow-predicted &
wait
cat "$tmp/two.out" "$tmp/three.out" | grep -q 'Tree Simple: .* less time .* used from now on' || fail "nothing is learned: $(cat "$tmp/two.out")"
grep -q '"samples": ' "$mine/p.json" || fail "no evidence in $(cat "$mine/p.json")"
whole p
[ "$(grep -c . "$tmp/config/capo/trials")" -ge 2 ] || fail "jobs lost: $(cat "$tmp/config/capo/trials")"
rules "$tmp/two" | awk '$2 != "Tree" {exit 1}' || fail "the winner is not used: $(rules "$tmp/two" | uniq -cf1)"

# A guard: the row decides, loses, and is withdrawn.
profile g measured
calls=120
job Tree:3000 "$tmp/guard" --profile g --guard --budget 10
rules "$(ls "$tmp"/guard/*.capo | head -n 1)" | awk '$2 == "Tree" {row++} END {exit !(row >= NR * 0.88)}' || fail "the row does not decide under guard"
calls=4
job Tree:0 "$tmp/after" --profile g --guard
grep -q 'Tree Simple: .* more time .* left to NCCL from now on' "$tmp/after.out" || fail "the guard found nothing: $(cat "$tmp/after.out")"
grep -q '"leave": true' "$mine/g.json" || fail "the loser stays: $(cat "$mine/g.json")"

# Without the recorder nobody knows which call it is.
NCCL_TUNER_PLUGIN="$build/tuner/libnccl-tuner-capo.so" CAPO_PROFILE="$mine/p.json" CAPO_ALLOW_MODELLED=1 CAPO_TRIAL=predicted \
        "$build/tests/jobs/launch" -n 2 --timeout 60 -- "$build/tests/jobs/coll_perf" allreduce -b 1K -e 1K -n 2 > "$tmp/out" 2>&1 &&
        fail "a trial without the recorder runs"
grep -q 'is it preloaded' "$tmp/out" || fail "why not: $(cat "$tmp/out")"
[ ! -e "$tmp/failed" ]
exit
