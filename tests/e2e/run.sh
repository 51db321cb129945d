#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The main job on this machine: train without capo, train under capo, compare, report; the gradient buckets of BERT-large on
# an uneven layout; then the closed loop: sweep, fit, run with the profile, compare. Nothing is prepared: the profile is
# what was measured a moment before, and the gain is whatever the comparison finds, possibly none.
# usage: run.sh BUILD [--verbose]      --verbose prints every page whole
# CAPO_LOOP_MIN, CAPO_LOOP_MAX: sizes of the sweep; CAPO_LOOP_PAIRS: runs with and without the profile
set -eu
build=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
verbose=false
case ${2:-} in
'') ;;
--verbose) verbose=true ;;
*) echo "run.sh: expected --verbose, found $2" >&2; exit 2 ;;
esac
capo=$build/cli/capo
. "$here/job.sh"
sizes="-b ${CAPO_LOOP_MIN:-1K} -e ${CAPO_LOOP_MAX:-4M} -f 4 -c 1"
pairs=${CAPO_LOOP_PAIRS:-16}
work=$(mktemp -d "${TMPDIR:-/tmp}/capo-run.XXXXXX")
trap 'rm -rf "$work"' EXIT
logs=$PWD/capo-logs
rm -rf "$logs/training" "$logs/bert" "$logs/pages"
mkdir -p "$logs/pages"
COLUMNS=80
export COLUMNS

# step TEXT: closes the line of the step before with its seconds, and begins one.
count=0
begun=
step() {
        finish
        count=$((count + 1))
        begun=$(date +%s)
        line=$(printf '%d  %s' "$count" "$*")
        $verbose && printf '\n%s\n' "$line" || printf '%-70s' "$line"
}
finish() {
        [ -n "$begun" ] || return 0
        took=$(($(date +%s) - begun))
        $verbose && printf '   %d s\n' "$took" || printf ' %6d s\n' "$took"
        begun=
}
# quiet COMMAND...: its output is shown only when it fails
quiet() { "$@" >"$work/out" 2>"$work/err" || { echo; cat "$work/out" "$work/err"; exit 1; }; }
# page NAME COMMAND...: the page goes to capo-logs/pages/NAME.txt, and to the terminal with --verbose
page() {
        name=$1
        shift
        "$@" >"$logs/pages/$name.txt" 2>"$work/err" || { cat "$work/err" "$logs/pages/$name.txt"; exit 1; }
        $verbose || return 0
        cat "$logs/pages/$name.txt"
}
same() { cmp -s "$1" "$2" || { echo; echo "losses or parameters differ:"; diff "$1" "$2" | head -n 10; exit 1; }; }

echo "capo on $ranks ranks, with $what" | fold -s -w 80
printf '\nNine steps, about a minute on two processors, most of it in step 7; seconds:\n'
step "train without capo: ddp_train"
$launch "$jobs/ddp_train" >"$work/bare" 2>"$work/err" || { cat "$work/err"; exit 1; }

step "train under capo: capo run -- ddp_train"
"$capo" run --quiet --trace all --dir "$logs/training" -- $launch "$jobs/ddp_train" >"$work/capo" 2>"$work/err" || { cat "$work/err"; exit 1; }
same "$work/bare" "$work/capo"

step "capo report capo-logs/training"
page report "$capo" report "$logs/training"
"$capo" report --json "$logs/training" >"$work/report.json"
quiet python3 "$here/check_counts.py" "$work/report.json" "$work/capo"

step "gradient buckets of BERT-large, at 1/16 of their size, on 1+3"
"$capo" run --quiet --dir "$logs/bert" -- "$jobs/launch" --layout 1+3 --timeout 600 -- \
        "$jobs/ddp_train" --replay bert-large --scale 0.0625 --steps 2 >"$work/bert" 2>"$work/err" || { cat "$work/err"; exit 1; }
page bert "$capo" report "$logs/bert"
"$capo" report --json "$logs/bert" >"$work/bert.json"
quiet python3 "$here/check_counts.py" "$work/bert.json" "$work/bert"

step "capo sweep: NCCL's other choices, three times"
for i in 1 2 3; do
        quiet "$capo" sweep --quiet --coll all_reduce --dir "$work/sweep/$i" -- $launch "$jobs/coll_perf" allreduce $sizes -n 150
done

step "capo fit sweep -o tuned.json"
page fit "$capo" fit "$work/sweep" -o "$logs/tuned.json"

step "$pairs runs with the profile, $pairs without, alternating"
i=1
while [ "$i" -le "$pairs" ]; do
        quiet "$capo" run --quiet --sample 1 --dir "$work/before/$i" -- $launch "$jobs/coll_perf" allreduce $sizes -n 60
        quiet "$capo" run --quiet --sample 1 --profile "$logs/tuned.json" --dir "$work/after/$i" -- $launch "$jobs/coll_perf" allreduce $sizes -n 60
        i=$((i + 1))
done

step "capo diff before after"
# Status 1 says that something is slower: on a busy machine that is a finding, not a failure.
"$capo" diff "$work/before" "$work/after" >"$logs/pages/diff.txt" 2>"$work/err" || [ $? = 1 ] || { cat "$work/err"; exit 1; }
$verbose && cat "$logs/pages/diff.txt"
"$capo" diff --json "$work/before" "$work/after" >"$work/diff.json" || [ $? = 1 ]

step "train with the profile"
"$capo" run --quiet --dir "$work/t0" -- $launch "$jobs/ddp_train" --epochs 4 >"$work/default" 2>/dev/null
"$capo" run --quiet --profile "$logs/tuned.json" --dir "$work/t1" -- $launch "$jobs/ddp_train" --epochs 4 >"$work/tuned" 2>/dev/null
same "$work/default" "$work/tuned"
finish

echo
$verbose || { head -n 12 "$logs/pages/report.txt" && echo "..." && echo; }
python3 "$here/run_summary.py" "$work/report.json" "$logs/tuned.json" "$work/diff.json"
