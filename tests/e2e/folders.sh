#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Which logs are one job: by what they say, not by their folder. Two jobs in one folder, as two capo run in one Slurm job
# make; the ranks of one job in a folder each, as capo run in every pod makes; and how to ask for the other.
# usage: folders.sh CAPO SOURCE
set -u
capo=$(realpath "$1")
build=$(realpath "$(dirname "$1")/..")
here=$(realpath "$(dirname "$0")")
export CAPO_STANDIN=1
. "$here/job.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
bad=0
fail() { echo "folders: $*"; bad=1; }

# page WHAT RANKS CALLS: a page of that many ranks, nothing missing, and as many calls on each
page() {
        "$capo" report --json "$1" >json 2>err || { fail "$1: no page: $(cat err)"; return; }
        python3 - "$@" <<'PY' || fail "$1: $(cat err)"
import json, sys
what, ranks, jobs = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
r = json.load(open("json"))
bad = [p for p in r["problem_list"] if p["kind"] in ("rank_twice", "no_log", "no_log_of", "left_out")]
assert not bad and r["ranks"] == ranks and len(r["processes"]) == ranks, (what, r["ranks"], len(r["processes"]), r["problems"])
PY
}

# Two jobs, one after the other, in one Slurm job: 4 ranks, then 2
export SLURM_JOB_ID=48213 SLURM_JOB_NAME=train SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=1 SLURM_NODEID=0
$launch true
"$capo" run --quiet -- $launch "$jobs/ddp_train" --epochs 1 >out 2>&1 || fail "first job: $(cat out)"
page capo-logs 4
"$capo" run --quiet -- "$jobs/launch" -n 2 --timeout 600 -- "$jobs/ddp_train" --epochs 2 >out 2>&1 || fail "second job: $(cat out)"
[ "$(ls capo-logs)" = 48213 ] && [ "$(ls capo-logs/48213 | wc -l)" = 6 ] || fail "not as Slurm's jobs are: $(find capo-logs)"
for what in capo-logs/48213 capo-logs; do
        page $what 2
        grep -q "$what holds 2 jobs; this is job 2, the newest (2 logs, from .*; $what@1 asks for the oldest" err || fail "$what: not said: $(cat err)"
        page $what@1 4
        grep -q . err && fail "$what@1: $(cat err)"
        page $what@2 2
done
"$capo" report capo-logs/48213@3 >/dev/null 2>err && fail "a third job is there"
grep -q 'capo-logs/48213@3: there is no job 3 in that folder' err || fail "a third job: $(cat err)"
# the other verbs mean the same
[ "$("$capo" trace capo-logs/48213 2>/dev/null | grep -c 'process_name.* pid [0-9]')" = 2 ] || fail "dump: not the newest job"
[ "$("$capo" trace capo-logs/48213@1 | grep -c 'process_name.* pid [0-9]')" = 4 ] || fail "dump: not the job that was asked for"
"$capo" diff --json capo-logs/48213@1 capo-logs/48213@1 >json 2>err
[ $? -lt 2 ] || fail "diff of a job in a folder: $(cat err)"
for before in capo-logs/48213@1 capo-logs/48213; do # a folder of two jobs is two runs
        "$capo" diff $before capo-logs/48213@2 >json 2>err
        [ $? = 3 ] || fail "diff of 4 with 2 ranks is not refused"
        grep -q 'ran on 4 ranks, capo-logs/48213@2 on 2' err || fail "diff of 4 with 2 ranks: $(cat err)"
done
"$capo" export capo-logs/48213 2>/dev/null | grep -q ",20[0-9-]*T[0-9:]*Z,48213,$(id -u)\$" || fail "export: whose job it is, and when it began"

# two at once, in one folder
"$capo" run --quiet --dir both -- $launch "$jobs/ddp_train" --epochs 2 >out1 2>&1 &
"$capo" run --quiet --dir both -- $launch "$jobs/ddp_train" --epochs 2 >out2 2>&1
wait
page both 4
page both@1 4
unset SLURM_JOB_ID SLURM_JOB_NAME SLURM_PROCID SLURM_LOCALID SLURM_NTASKS SLURM_NODEID

# capo run in every rank: a folder for each
mkdir pods && cd pods || exit 1
$launch "$capo" run --quiet -- "$jobs/ddp_train" --epochs 1 >out 2>&1 || fail "pods: $(cat out)"
[ "$(ls capo-logs | wc -l)" = 4 ] || fail "pods: not a folder each: $(find capo-logs)"
page capo-logs 4
$launch "$capo" run --quiet -- "$jobs/ddp_train" --epochs 1 >out 2>&1 || fail "pods: $(cat out)"
page capo-logs 4
grep -q 'capo-logs holds older jobs too (4 folders); this is the newest (4 logs' err || fail "pods: older ones not said: $(cat err)"
page capo-logs@1 4
page capo-logs@2 4
"$capo" diff capo-logs@1 capo-logs@2 2>err | grep -q '^1 run before, 1 after' || fail "pods: diff: $(cat err)"
[ "$("$capo" trace capo-logs 2>/dev/null | grep -c 'process_name.* pid [0-9]')" = 4 ] || fail "pods: dump"

# a name that is not there is a mistake, not an empty page
for words in "report --comm nosuch" "report --call Reduce" "explain allreduce 8320 --comm nosuch --log"; do
        # shellcheck disable=SC2086
        "$capo" $words capo-logs@1 >out 2>err && fail "$words: exit status 0"
        grep -Eq '(there (is|are)|these have): .*(AllReduce|data-parallel)' err || fail "$words: does not name what there is: $(cat err)"
done
# the same logs twice are one
cp -r capo-logs again
"$capo" report capo-logs >once 2>/dev/null
"$capo" report capo-logs again >twice 2>err
cmp -s once twice || fail "copies: another page: $(diff once twice | head -5)"
grep -q 'is the same log as .*: counted once' err || fail "copies: not said: $(cat err)"
exit $bad
