#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The main job on this machine: train without capo, train under capo, hold the two against each other, report; then the
# gradient buckets of BERT-large on an uneven layout; then the closed loop sweep, fit, tuned run.
# usage: run.sh BUILD
set -eu
build=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
capo=$build/cli/capo
. "$here/job.sh"

work=$(mktemp -d "${TMPDIR:-/tmp}/capo-run.XXXXXX")
trap 'rm -rf "$work"' EXIT
logs=$PWD/capo-logs
rm -rf "$logs/training" "$logs/bert"

step() { printf '\n--- %s\n' "$*"; }
shown() { printf '    $ %s\n' "$*"; }

step "1. a data-parallel training job, by itself: $ranks ranks on $what"
shown "ddp_train"
$launch "$jobs/ddp_train" >"$work/bare" 2>"$work/bare.err" || { cat "$work/bare.err"; exit 1; }
grep -E '^epoch (1|20) |^checksum' "$work/bare"

step "2. the same under capo; nothing in it changes"
shown "capo run --trace all --dir capo-logs/training -- ddp_train"
"$capo" run --trace all --dir "$logs/training" -- $launch "$jobs/ddp_train" >"$work/capo" 2>"$work/capo.err" || { cat "$work/capo.err"; exit 1; }
grep -E '^epoch (1|20) |^checksum' "$work/capo"
if cmp -s "$work/bare" "$work/capo"; then
        echo "losses and parameters with and without capo: identical, bit for bit"
else
        echo "losses or parameters differ:"
        diff "$work/bare" "$work/capo" | head -n 10
        exit 1
fi

step "3. what its collectives cost"
shown "capo report capo-logs/training"
"$capo" report "$logs/training"
"$capo" report --json "$logs/training" >"$work/report.json"
python3 "$here/check_counts.py" "$work/report.json" "$work/capo"

step "4. gradient buckets of BERT-large, at 1/16 of their size, on an uneven layout (1+3)"
shown "capo run --dir capo-logs/bert -- ddp_train --replay bert-large --scale 0.0625"
"$capo" run --quiet --dir "$logs/bert" -- "$jobs/launch" --layout 1+3 --timeout 120 -- \
        "$jobs/ddp_train" --replay bert-large --scale 0.0625 --steps 2 >"$work/bert" 2>"$work/bert.err" || { cat "$work/bert.err"; exit 1; }
shown "capo report capo-logs/bert"
"$capo" report "$logs/bert"
"$capo" report --json "$logs/bert" >"$work/bert.json"
python3 "$here/check_counts.py" "$work/bert.json" "$work/bert"

if [ -x "$here/closed_loop.sh" ]; then
        step "5. the closed loop: sweep, fit, run again with the profile, compare"
        "$here/closed_loop.sh" "$build"
fi
