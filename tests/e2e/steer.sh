#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Calls that rows turn into their Config twins (NCCL 2.31), on the stand-in: each way a program makes a call, what NCCL was
# given, and what is said where the rows are dead.
# usage: steer.sh CAPO SOURCE
set -u
capo=$(realpath "$1")
build=$(realpath "$(dirname "$capo")/..")
jobs=$build/tests/jobs
work=$(mktemp -d "${TMPDIR:-/tmp}/capo-steer.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
unset NCCL_TUNER_PLUGIN NCCL_PROFILER_PLUGIN CAPO_PROFILE CAPO_SWEEP CAPO_STEER
export LD_LIBRARY_PATH="$build/tests/standin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING
cat >p.json <<'END'
{"capo_profile": 1, "provenance": {"who": "a test"}, "rules": [{"when": {"ranks": 2},
 "allreduce": [{"upto": "4K", "ctas": 3},
               {"upto": "max", "algo": "ring", "proto": "ll", "ctas": 2, "kernel": "symk RSxLD_AGxST", "cta_policy": "efficiency"}]}]}
END
ways="$jobs/launch -n 2 --timeout 600 -- $jobs/ways"
bad=0
fail() {
        echo "FAIL $*"
        cat said 2>/dev/null
        bad=1
}
# "bytes:channels" of every collective the stand-in chose for, as rank 0 of each communicator said. 7168 is twice there: the group of two,
# fused, and the call whose own config wins
lists() { sed -n 's/.*AllReduce: \([0-9]*\) Bytes .*={0\.\.\([0-9]*\)}.*/\1:\2/p' said | sort -n | tr '\n' ' '; }

for version in 2.31.2 2.32.3; do
        # shellcheck disable=SC2086
        CAPO_STANDIN_NCCL_VERSION=$version "$capo" run --quiet --profile p.json --trace all --dir "$version" -- $ways >said 2>&1 || fail "$version: the job"
        [ "$(lists)" = "1024:2 2048:2 5120:1 6144:1 7168:0 7168:2 8192:1 " ] || fail "$version: $(lists)"
        "$capo" report --wide "$version" >said 2>&1 || fail "$version: report"
        grep -q 'calls turned: 3 CTAs' said || fail "$version: the page has no word of it"
        grep -q 'calls turned: symk RSxLD_AGxST, 2 CTAs, CTA policy efficiency' said || fail "$version: the page has no word of it"
        grep -q 'did nothing' said && fail "$version: called dead"
        "$capo" explain all_reduce 1K --wide --log "$version" >said 2>&1 || fail "$version: explain"
        grep -q 'p.json:2 when ranks=2: .*calls turned: 3 CTAs' said || fail "$version: explain has no word of it"
done

# several ranks in one process: a group with a member for each
CAPO_STANDIN_NCCL_VERSION=2.32.3 "$capo" run --quiet --profile p.json --dir gpus -- "$jobs/ways" gpus >said 2>&1 || fail "ranks of one process: the job"
[ "$(lists)" = "1024:2 " ] || fail "ranks of one process: $(lists)"

# dead: before 2.31; where nobody asked for it. The sums are right, the page says why.
# shellcheck disable=SC2086
CAPO_STANDIN_NCCL_VERSION=2.30.7 "$capo" run --quiet --profile p.json --dir old -- $ways >said 2>&1 || fail "2.30.7: the job"
[ "$(lists)" = "1024:0 2048:0 5120:0 7168:0 8192:0 " ] || fail "2.30.7: $(lists)"
"$capo" report --wide old >said 2>&1
grep -q 'rows of .*p.json that turn calls .* did nothing: NCCL before 2.31' said || fail "2.30.7: the page"
# shellcheck disable=SC2086
CAPO_STANDIN_NCCL_VERSION=2.32.3 LD_PRELOAD=$build/shim/libcapo.so NCCL_TUNER_PLUGIN=$build/shim/libcapo.so CAPO_PROFILE=$work/p.json CAPO_DIR=$work/unasked $ways >said 2>&1 || fail "unasked: the job"
lists | grep -q '1024:0 ' || fail "unasked: $(lists)"
"$capo" report --wide unasked >said 2>&1
grep -q 'did nothing: CAPO_STEER=1 was not set' said || fail "unasked: the page"

# A plugin alone tunes what a tuner can; a process that sets CAPO_STEER and is not preloaded makes no communicator.
# shellcheck disable=SC2086
CAPO_STANDIN_NCCL_VERSION=2.32.3 NCCL_TUNER_PLUGIN=$build/tuner/libnccl-tuner-capo.so CAPO_PROFILE=$work/p.json $ways >said 2>&1 || fail "the plugin alone"
lists | grep -q '1024:0 ' || fail "the plugin alone: $(lists)"
# shellcheck disable=SC2086
CAPO_STEER=1 CAPO_STANDIN_NCCL_VERSION=2.32.3 NCCL_TUNER_PLUGIN=$build/tuner/libnccl-tuner-capo.so CAPO_PROFILE=$work/p.json $ways >said 2>&1 && fail "goes on without the others"
grep -q 'CAPO_STEER=1 wants calls turned .* do not come through libcapo.so' said || fail "why it does not go on"
CAPO_PROFILE=$work/p.json "$capo" doctor >said 2>&1
grep -q 'rows with kernel, ctas, cluster or cta_policy do nothing' said || fail "doctor"
exit $bad
