#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The closed loop on this machine: sweep, fit, run again with the profile, compare. Nothing is prepared: the stand-in's
# own cost model makes the default choices, what the profile changes is what was measured a moment ago, and the gain is
# whatever the comparison finds - possibly none.
# usage: closed_loop.sh BUILD
set -eu
build=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
capo=$build/cli/capo
. "$here/job.sh"
work=$(mktemp -d "${TMPDIR:-/tmp}/capo-loop.XXXXXX")
trap 'rm -rf "$work"' EXIT
sizes="-b ${CAPO_LOOP_MIN:-1K} -e ${CAPO_LOOP_MAX:-4M} -f 4 -c 1"
pairs=${CAPO_LOOP_PAIRS:-16}
quiet() { "$@" > "$work/out" 2> "$work/err" || { cat "$work/out" "$work/err"; exit 1; }; }
shown() { printf '    $ %s\n' "$*"; }

shown "for i in 1 2 3; do capo sweep --coll all_reduce --dir sweep/\$i -- coll_perf allreduce $sizes -n 150; done"
for i in 1 2 3; do
        quiet "$capo" sweep --quiet --coll all_reduce --dir "$work/sweep/$i" -- $launch "$jobs/coll_perf" allreduce $sizes -n 150
done
shown "capo fit sweep -o tuned.json"
"$capo" fit "$work/sweep" -o "$work/tuned.json"
cp "$work/tuned.json" "$work/tuned.svg" "${CAPO_LOOP_OUT:-$work}/" 2> /dev/null || true

shown "for i in 1 .. $pairs; do capo run --dir before/\$i -- coll_perf ...; capo run --profile tuned.json --dir after/\$i -- coll_perf ...; done"
i=1
while [ "$i" -le "$pairs" ]; do
        quiet "$capo" run --quiet --sample 1 --dir "$work/before/$i" -- $launch "$jobs/coll_perf" allreduce $sizes -n 60
        quiet "$capo" run --quiet --sample 1 --profile "$work/tuned.json" --dir "$work/after/$i" -- $launch "$jobs/coll_perf" allreduce $sizes -n 60
        i=$((i + 1))
done
shown "capo diff before after"
"$capo" diff "$work/before" "$work/after" || echo "(exit status $?: something is slower beyond noise on this machine, at this moment)"

# The same training, by itself and with the profile: every loss and every parameter.
"$capo" run --quiet --dir "$work/t0" -- $launch "$jobs/ddp_train" --epochs 4 > "$work/default" 2> /dev/null
"$capo" run --quiet --profile "$work/tuned.json" --dir "$work/t1" -- $launch "$jobs/ddp_train" --epochs 4 > "$work/tuned" 2> /dev/null
if cmp -s "$work/default" "$work/tuned"; then
        echo "training by itself and with the profile: losses and parameters identical, bit for bit"
else
        echo "training with the profile differs:"
        diff "$work/default" "$work/tuned" | head -n 10
        exit 1
fi
