#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: trial.sh CAPO [JOBS]    predicted rows on trial, and a guard, on the stand-in: ranks decide alike, the budget is kept,
# and jobs that end at once leave the user's folder whole. Which choice is faster is told by the clock, so only with JOBS also:
# with planted costs the right choice wins, the next run uses it; then so many jobs, of which 99 of 100 must find the winner.
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
        CAPO_STANDIN_SLOW=$slow "$capo" run --dir "$dir" "$@" -- "$build/tests/jobs/launch" -n 2 --timeout 900 -- \
                "$build/tests/jobs/coll_perf" allreduce -b 256K -e 256K -n "${calls:-120}" -c 1 > "$dir.out" 2>&1 ||
                fail "the job fails: $(cat "$dir.out")"
        grep -q '^# Out of bounds values : 0 OK' "$dir.out" || fail "results: $(cat "$dir.out")"
}
again=0
try() { # what is slow, folder, options: a job with trials; at a higher cost where a busy machine leaves it open
        what=$1 logs=$2
        shift 2
        if [ "$jobs" = 0 ]; then
                job "$what:0" "$logs" "$@"
                return
        fi
        for us in 3000 30000 200000; do
                rm -rf "$logs" "$tmp/config/capo/trials"
                job "$what:$us" "$logs" "$@"
                "$capo" report "$logs" > "$tmp/page" 2>&1 || fail "report: $(cat "$tmp/page")"
                grep -q 'not decided yet' "$tmp/page" || return
                again=$((again + 1))
        done
}
rules() { # a log: the rule of each call, in order
        "$capo" export "$1" | awk -F, 'NR > 1 {print $21, $13}' | sort -n
}

timed() { [ "$jobs" -gt 0 ]; }
alike() { # folder: both ranks decided the same
        set -- "$1"/*.capo
        rules "$1" > "$tmp/a"
        rules "$2" > "$tmp/b"
        cmp -s "$tmp/a" "$tmp/b"
}
within() { # of the calls in $tmp/a one in ten tried the row, and at least so many
        awk '$2 == "Tree" {tried++} END {exit !(tried >= '"$1"' && tried <= NR / 10 + 1)}' "$tmp/a"
}
tried=$tmp/config/capo/tried # what was learned: KEY.tsv, KEY.json
whole() { # the user's profile is as it was, and what was learned is whole
        for f in "$mine/$1.json" "$tried/$1"-*.json; do
                [ ! -e "$f" ] || "$capo" profile check "$f" > "$tmp/out" || fail "the profile fails its check: $(cat "$tmp/out")"
        done
        [ "$(ls "$mine" | wc -l)" = 1 ] || fail "left in the folder: $(ls "$mine")"
        ! grep -q samples "$mine/$1.json" || fail "the user's own file was changed"
}

# The predicted row is faster: one call in ten tries it, on both ranks the same; NCCL's choice otherwise.
profile p modelled
try Ring "$tmp/one" --profile p --allow-predicted --budget 10
set -- "$tmp"/one/*.capo
alike "$tmp/one" || fail "ranks decide differently: $(diff "$tmp/a" "$tmp/b" | head -n 4)"
within 12 || fail "budget: $(sort -k2 "$tmp/a" | uniq -cf1)"
! timed || grep -q 'Tree Simple: .* less time than' "$tmp/page" || fail "the report does not say what was faster: $(cat "$tmp/page")"
# Half of its logs teach nothing: other nodes would learn from their own half.
calls=4
mv "$2" "$tmp/kept"
job Ring:0 "$tmp/half" --profile p --allow-predicted
grep -q 'from now on' "$tmp/half.out" && fail "one rank's log was enough: $(cat "$tmp/half.out")"
mv "$tmp/kept" "$2"
# Two at once learn from it: one of them writes, both run, and the file is whole.
job Ring:0 "$tmp/two" --profile p --allow-predicted &
job Ring:0 "$tmp/three" --profile p --allow-predicted &
wait
whole p
if timed; then
        cat "$tmp/two.out" "$tmp/three.out" | grep -q 'Tree Simple: .* less time .* used from now on' || fail "nothing is learned: $(cat "$tmp/two.out")"
        grep -q '"samples": ' "$tried"/p-*.json || fail "no evidence in $(cat "$tried"/p-*.json)"
        rules "$tmp/two" | awk '$2 != "Tree" {exit 1}' || fail "the winner is not used: $(rules "$tmp/two" | uniq -cf1)"
fi

# A file of the same name elsewhere, and the file refitted, begin anew: verdicts are of a path and its bytes.
if timed; then
        (cd "$tmp" && cp "$mine/p.json" p.json && job Ring:0 "$tmp/other" --profile ./p.json --allow-predicted)
        grep -q 'earlier jobs tried' "$tmp/other.out" && fail "another file of that name: $(cat "$tmp/other.out")"
        sed -i 's/"who": "test"/"who": "again"/' "$mine/p.json"
        job Ring:0 "$tmp/refitted" --profile p --allow-predicted
        grep -q 'earlier jobs tried' "$tmp/refitted.out" && fail "the refitted profile is not used: $(cat "$tmp/refitted.out")"
        rules "$(ls "$tmp"/refitted/*.capo | head -n 1)" | awk '$2 == "Tree" {exit 1}' || fail "the refitted profile is ignored"
fi
rm -rf "$tmp/config/capo/trials" "$tried"

# A guard: the row decides, loses, and is withdrawn.
profile g measured
calls=120
try Tree "$tmp/guard" --profile g --guard --budget 10
rules "$(ls "$tmp"/guard/*.capo | head -n 1)" | awk '$2 == "Tree" {row++} END {exit !(row >= NR * 0.88)}' || fail "the row does not decide under guard"
calls=4
job Tree:0 "$tmp/after" --profile g --guard
if timed; then
        grep -q 'Tree Simple: .* more time .* left to NCCL from now on' "$tmp/after.out" || fail "the guard found nothing: $(cat "$tmp/after.out")"
        grep -q 'more time than NCCL.s choice ([0-9.]* to [0-9.]*,' "$tmp/after.out" || fail "the interval has another sign: $(cat "$tmp/after.out")"
        grep -q '(-' "$tmp/page" && fail "the report's interval has another sign: $(cat "$tmp/page")"
        grep -q '"leave": true' "$tried"/g-*.json || fail "the loser stays: $(cat "$tried"/g-*.json)"
fi

# Without the recorder nobody knows which call it is.
NCCL_TUNER_PLUGIN="$build/tuner/libnccl-tuner-capo.so" CAPO_PROFILE="$mine/p.json" CAPO_ALLOW_MODELLED=1 CAPO_TRIAL=predicted \
        "$build/tests/jobs/launch" -n 2 --timeout 600 -- "$build/tests/jobs/coll_perf" allreduce -b 1K -e 1K -n 2 > "$tmp/out" 2>&1 &&
        fail "a trial without the recorder runs"
grep -q 'is it preloaded' "$tmp/out" || fail "why not: $(cat "$tmp/out")"
if timed; then
        rm -rf "$mine" "$tried" "$tmp/config/capo/trials"
        mkdir -p "$mine"
        right=0 wrong=0 apart=0 over=0
        for i in $(seq "$jobs"); do
                profile deep modelled
                if [ $((i % 2)) = 1 ]; then slow=Ring want=used; else slow=Tree want='left to NCCL'; fi
                calls=120 try $slow "$tmp/d" --profile deep --allow-predicted --budget 10
                alike "$tmp/d" || apart=$((apart + 1))
                within 1 || over=$((over + 1))
                calls=2
                job $slow:0 "$tmp/e" --profile deep --allow-predicted --budget 10 &
                job $slow:0 "$tmp/f" --profile deep --allow-predicted --budget 10 &
                wait
                whole deep
                cat "$tmp/e.out" "$tmp/f.out" > "$tmp/said"
                if grep -q "$want from now on" "$tmp/said"; then right=$((right + 1))
                elif grep -q 'from now on' "$tmp/said"; then wrong=$((wrong + 1)); fi
                rm -rf "$tmp"/[def] "$tried"
        done
        echo "$right of $jobs right, $wrong wrong; $again jobs left it open and ran again at a higher cost; ranks decided apart in $apart, over the budget in $over"
        [ $((right * 100)) -ge $((jobs * 99)) ] || fail "$right of $jobs jobs found the winner"
        [ $apart = 0 ] || fail "ranks decided apart"
        [ $over = 0 ] || fail "the budget was not kept"
fi
[ ! -e "$tmp/failed" ]
exit
