#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: tune.sh CAPO    capo run --tune on the stand-in: what it says and keeps, the command's status and signals. Which choice is
# faster is told by the clock, so nothing here depends on a verdict (trial.sh does that).
set -u
capo=$(realpath "$1")
build=$(realpath "$(dirname "$1")/..")
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
status=0
fail() { echo "FAIL: $*"; status=1; }
[ -x "$build/tests/jobs/coll_perf" ] || { echo "SKIPPED: no test jobs in this build"; exit 77; }
LD_LIBRARY_PATH=$build/tests/standin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
unset RANK SLURM_PROCID PMI_RANK OMPI_COMM_WORLD_RANK CAPO_LAYOUT SLURM_TASKS_PER_NODE SLURM_STEP_TASKS_PER_NODE
export LD_LIBRARY_PATH XDG_CONFIG_HOME="$tmp/config"
kept=$tmp/config/capo/tried
job() { # folder, options of capo run
        dir=$1
        shift
        "$capo" run --tune --budget 10 --dir "$tmp/$dir" "$@" -- "$build/tests/jobs/launch" -n 2 --timeout 300 -- \
                "$build/tests/jobs/coll_perf" allreduce -b 32K -e 32K -n 25 -c 1 > "$tmp/$dir.out" 2>&1 || fail "$dir: $(cat "$tmp/$dir.out")"
}

# The layout is not known before the start: nothing is tried, and the line says what would help. The job runs as ever.
job unknown
grep -q 'nothing is tried, because the launcher does not tell the ranks per node.*--layout' "$tmp/unknown.out" || fail "$(cat "$tmp/unknown.out")"
[ ! -e "$kept" ] || fail "something is kept: $(ls "$kept")"
# The options of a launcher tell the layout, and hide that of the environment where they spread the ranks in another way.
mkdir "$tmp/bin"
for name in torchrun srun mpirun; do printf '#!/bin/sh\ntrue\n' > "$tmp/bin/$name"; chmod +x "$tmp/bin/$name"; done
told() { # what the line says, command
        says=$1
        shift
        PATH=$tmp/bin:$PATH XDG_CONFIG_HOME=$tmp/told "$capo" run --tune --dir "$tmp/none" -- "$@" > "$tmp/out" 2>&1
        grep -q -- "--tune: .*$says" "$tmp/out" || fail "$*: expected $says, found $(cat "$tmp/out")"
}
told 'for layout 8 with' torchrun --nproc-per-node 8 train.py
told 'for layout 4 with' python3 -m torch.distributed.run --nproc_per_node=4 --nnodes 1 train.py
told 'torchrun does not tell the ranks of the other nodes' torchrun --nproc-per-node 8 --nnodes 2 train.py
told '--nproc-per-node gpu is no number' torchrun --nproc-per-node gpu train.py
told 'one rank has nothing to choose' torchrun train.py
told 'for layout 8+8 with' srun -N2 --ntasks-per-node=8 train
told 'for layout 8 with' srun -n 8 -N 1 train
told 'for layout 8 with' mpirun -np 8 train
told 'for layout 3+5 with' mpirun -H a:3,b:5 train
told 'mpirun.s options do not tell' mpirun -np 4 -H a:3,b:5 train
told 'mpirun.s options do not tell' mpirun -np 8 --hostfile hosts train
export SLURM_NTASKS=8 SLURM_TASKS_PER_NODE='4(x2)'
told 'for layout 4+4 with' srun train
told 'srun.s options do not tell' srun -n 6 train
told 'for layout 2 with' torchrun --nproc-per-node 2 train.py
SLURM_NTASKS=2 SLURM_TASKS_PER_NODE='1(x2)' told 'for layout 8+8 with' torchrun --nproc-per-node 8 --nnodes 2 train.py
unset SLURM_NTASKS SLURM_TASKS_PER_NODE
# So few calls that no verdict is reached, whatever the clock says. No stored rule: another choice of this layout is measured, in one call of ten, on both ranks alike.
job one --layout 2
grep -q 'no stored rule for layout 2 with NCCL 2.28.9: this job measures another choice in one call of 10' "$tmp/one.out" || fail "$(cat "$tmp/one.out")"
grep -q 'took .* than NCCL.s choices would have' "$tmp/one.out" || fail "nothing at the end: $(cat "$tmp/one.out")"
"$capo" profile check "$kept"/explore-2-2_28.json > "$tmp/check" || fail "$(cat "$tmp/check")"
for log in "$tmp"/one/*.capo; do
        "$capo" export "$log" | awk -F, 'NR > 1 {print $21, $13}' | sort -n > "$log.rules"
        awk '$2 == "Tree" {n++} END {exit !(n >= 3 && n <= NR / 10 + 1)}' "$log.rules" || fail "budget: $(sort -k2 "$log.rules" | uniq -cf1)"
done
cmp -s "$tmp"/one/*.rules || fail "ranks decide differently"
[ "$(wc -l < "$(ls "$kept"/*.tsv)")" = 1 ] || fail "not one comparison is kept: $(cat "$kept"/*.tsv)"
# The next job of this kind adds to it; one of another layout has its own.
job two --layout 2
[ "$(wc -l < "$(ls "$kept"/*.tsv)")" = 2 ] || fail "the second job is not kept: $(cat "$kept"/*.tsv)"
job other --layout 1+1
ls "$kept" | grep -q 'explore-1+1-2_28.json' || fail "another layout: $(ls "$kept")"
# Where jobs found that a choice brings nothing, the next one tries Tree with another protocol.
tsv=$(ls "$kept"/explore-2-2_28-*.tsv)
awk 'NR == 1 {for (i = 1; i < 60; i++) print "a" i, $2, $3, $4, $5, 40, 4000, 200, 100, 0.69, 0.01, 0, 0, 0}' "$tsv" > "$tmp/found"
cat "$tmp/found" >> "$tsv"
rm -f "$kept"/explore-2-2_28-*.json # a verdict of the clock
job third --layout 2
grep -q 'tried: AllReduce 32 KiB on 2 ranks by Tree LL: .* more time .*left to NCCL from now on' "$tmp/third.out" || fail "no verdict: $(cat "$tmp/third.out")"
job fourth --layout 2
"$capo" profile check "$kept"/explore-2-2_28-2.json > "$tmp/check" || fail "$(cat "$tmp/check")"
tr -d ' \n' < "$kept"/explore-2-2_28-2.json | grep -q '{"upto":"8K","algo":"tree","proto":"ll".*{"upto":"64K","algo":"tree","proto":"simple"' || fail "not another protocol: $(cat "$kept"/explore-2-2_28-2.json)"
"$capo" export "$tmp/fourth" | awk -F, '$13 == "Tree" && $14 == "Simple" {n++} END {exit !n}' || fail "the other protocol was not tried"
# Where nothing could be compared, too.
: > "$tsv"
rm -f "$kept"/explore-2-2_28-*.json
job fifth --layout 2
grep -q 'tuning by .*explore-2-2_28-2.json' "$tmp/fifth.out" || fail "the same choice again: $(cat "$tmp/fifth.out")"
# A profile whose rules are for another release is named with what it is for.
echo '{"capo_profile": 1, "rules": [{"when": {"layout": "2", "nccl": "2.99"}, "allreduce": [{"upto": "max", "algo": "tree", "proto": "ll"}]}]}' > "$tmp/p.json"
job named --layout 2 --profile "$tmp/p.json"
grep -q 'no rule of p.json for layout 2 with NCCL 2.28.9, by nccl; the nearest rule, the only one, is for layout=2 nccl=2.99' "$tmp/named.out" || fail "$(cat "$tmp/named.out")"
# A rule of another collective decides no call, and that is the one reason given.
echo '{"capo_profile": 1, "rules": [{"when": {"layout": "2"}, "broadcast": [{"upto": "max", "algo": "ring", "proto": "ll"}]}]}' > "$tmp/broadcast.json"
job idle --layout 2 --profile "$tmp/broadcast.json"
grep -q 'nothing was compared: no rule decided a call$' "$tmp/idle.out" || fail "the reason: $(cat "$tmp/idle.out")"
# A call captured into a CUDA graph keeps its choice, and nothing times it.
cat > "$tmp/own.json" << END
{"capo_profile": 1, "name": "own", "provenance": {"who": "test"}, "rules": [
 {"when": {"ranks": 2}, "basis": "measured", "allreduce": [{"upto": "max", "algo": "tree", "proto": "simple"}]}]}
END
"$capo" run --tune --profile "$tmp/own.json" --layout 2 --dir "$tmp/graph" -- "$build/tests/jobs/launch" -n 2 --timeout 300 -- \
        "$build/tests/jobs/ways" > "$tmp/out" 2>&1 || fail "captured: $(cat "$tmp/out")"
grep -q -- '--tune: 1 call by the rules was captured into CUDA graphs on each rank: not timed, so not compared' "$tmp/out" ||
        fail "captured: $(cat "$tmp/out")"
# The command's status, and signals that reach it.
"$capo" run --tune --layout 2 --quiet --dir "$tmp/status" -- sh -c 'exit 7' > "$tmp/out" 2>&1
[ $? = 7 ] || fail "the status is lost: $(cat "$tmp/out")"
[ -s "$tmp/out" ] && fail "not quiet: $(cat "$tmp/out")"
"$capo" run --tune --layout 2 --quiet --dir "$tmp/signal" -- sh -c 'trap "echo reached; exit 3" TERM; echo ready; while :; do sleep 0.1; done' > "$tmp/out" 2>&1 &
pid=$!
while ! grep -q ready "$tmp/out"; do sleep 0.1; done
kill -TERM $pid
wait $pid
[ $? = 3 ] && grep -q reached "$tmp/out" || fail "the signal did not reach the command: $(cat "$tmp/out")"
"$capo" run --tune --guard --profile "$tmp/p.json" -- true > "$tmp/out" 2>&1
[ $? = 2 ] || fail "--tune with --guard: $(cat "$tmp/out")"
exit $status
