#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Real slurmctld and slurmd, two nodes on this machine: srun --capo, --capo=PROFILE, the task prolog, capo run -- srun,
# srun capo run, capo check on both nodes. The job is ddp_train on the stand-in NCCL.
# usage: slurm.sh CAPO SOURCE
set -u
for tool in slurmctld slurmd srun munged; do
        command -v $tool >/dev/null || { echo "no $tool here (slurmctld, slurmd, slurm-client, munge)"; exit 77; }
done
capo=$(realpath "$1")
source=$(realpath "$2")
build=$(realpath "$(dirname "$1")/..")
[ -e "$build/deploy/slurm/spank_capo.so" ] || { echo "spank_capo.so was not built: no slurm/spank.h (libslurm-dev)"; exit 77; }
export CAPO_STANDIN=1
. "$source/tests/e2e/job.sh"
. "$source/tests/slurm/cluster.sh"
work=$(mktemp -d)
port=$((20000 + $$ % 20000))
trap 'stop_slurm; rm -rf "$work"' EXIT
cd "$work" || exit 1
bad=0
fail() { echo "slurm: $*"; bad=1; }
for name in $(env | sed -n 's/^\(SLURM_[A-Z_]*\|CAPO_[A-Z_]*\|NCCL_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done
export CAPO_STANDIN=1 PATH="$(dirname "$capo"):$PATH"

# as it is shipped: what a user has mistyped stops the step all the same
echo "optional $build/deploy/slurm/spank_capo.so capo=$capo" >plugstack.conf
start_slurm "TaskProlog=$source/deploy/slurm/task_prolog.sh"
export MASTER_ADDR=127.0.0.1 MASTER_PORT=$((port + 3))
train=("$jobs/ddp_train" --epochs 1)
step=(srun -N 2 -n 4 --export=ALL)

# logs FOLDER: those of four ranks with calls
logs() {
        "$capo" report --json "$1" >json 2>err || { fail "$1: no page: $(cat err out)"; return; }
        python3 -c 'import json,sys; r=json.load(open("json")); assert r["ranks"] == 4 and len(r["processes"]) == 4, (r["ranks"], len(r["processes"]))' ||
                fail "$1: not a job of four ranks"
}
newest() { find capo-logs -mindepth 1 -maxdepth 1 -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d' ' -f2; }

"${step[@]}" "${train[@]}" >out 2>&1 || fail "srun: $(cat out)"
[ -e capo-logs ] && fail "recorded without being asked"
"${step[@]}" --capo "${train[@]}" >out 2>&1 || fail "srun --capo: $(cat out)"
logs "$(newest)"
rm -rf capo-logs
"${step[@]}" --capo=record "${train[@]}" >out 2>&1 || fail "srun --capo=record: $(cat out)"
logs "$(newest)"
rm -rf capo-logs

CAPO_GATHER=node "${step[@]}" --capo "${train[@]}" >out 2>&1 || fail "srun --capo, gathered: $(cat out)"
[ "$(find "$(newest)" -name '*.capo.zst' | wc -l)" -ge 1 ] || fail "CAPO_GATHER=node: nothing is packed: $(cat out)"
[ -z "$(find "$(newest)" -name '*.capo')" ] || fail "CAPO_GATHER=node: logs are left: $(cat out)"
logs "$(newest)"
rm -rf capo-logs

# a profile: every rank has its digest; one that is wrong stops the step before it starts
cat >ring.json <<'END'
{"capo_profile": 1, "name": "ring", "rules": [{"when": {}, "allreduce": [{"upto": "max", "algo": "ring", "proto": "simple"}]}]}
END
if "$capo" profile check ring.json >/dev/null 2>&1; then
        "${step[@]}" --capo=ring.json bash -c 'echo "$CAPO_PROFILE_DIGEST $NCCL_TUNER_PLUGIN"' >out 2>&1 || fail "srun --capo=PROFILE: $(cat out)"
        [ "$(sort -u out | wc -l)" = 1 ] && grep -qE '^[0-9a-f]{16,} .*libcapo' out || fail "ranks do not agree on a profile: $(cat out)"
else
        fail "the profile of this test: $("$capo" profile check ring.json 2>&1)"
fi
echo '{' >broken.json
"${step[@]}" --capo=broken.json touch started >out 2>&1 && fail "a broken profile starts the step"
[ -e started ] && fail "a broken profile: the command ran"
grep -q 'broken.json:' out || fail "a broken profile is not named: $(cat out)"
srun -n 1 --capo --export=NONE true >out 2>&1
grep -q 'not recorded: the environment of srun did not reach the task' out || fail "--export=NONE: $(cat out)"

# TaskProlog
CAPO=record "${step[@]}" "${train[@]}" >out 2>&1 || fail "task prolog: $(cat out)"
logs "$(newest)"
rm -rf capo-logs
# by hand, both ways round
"$capo" run --quiet -- "${step[@]}" "${train[@]}" >out 2>&1 || fail "capo run -- srun: $(cat out)"
logs "$(newest)"
rm -rf capo-logs
"${step[@]}" "$capo" run --quiet -- "${train[@]}" >out 2>&1 || fail "srun capo run: $(cat out)"
logs capo-logs
rm -rf capo-logs
# a batch script
printf '#!/bin/bash\nsrun -N 2 -n 4 --capo %s\n' "${train[*]}" >job.sh
sbatch -W -N 2 -n 4 --export=ALL -o batch.out job.sh >out 2>&1 || fail "sbatch: $(cat out batch.out)"
logs "$(newest)"
# capo check on both nodes: a folder, and lines
srun -N 2 --ntasks-per-node=1 "$capo" check --dir "$work/check" >out 2>&1 || fail "capo check --dir: $(cat out)"
grep -q 'READY: 2 nodes' out || fail "capo check --dir: $(cat out)"
srun --mpi=pmi2 -N 2 -n 4 "$capo" check --dir "$work/check2" >out 2>&1 || fail "capo check, pmi2: $(cat out)"
[ "$(grep -c 'READY: 2 nodes' out)" = 1 ] || fail "capo check, two tasks on each node: $(cat out)"
srun -N 2 --ntasks-per-node=1 "$capo" check --json >nodes 2>&1 || fail "capo check --json: $(cat nodes)"
"$capo" check --merge nodes >out 2>&1 || fail "capo check --merge: $(cat out)"
grep -q 'READY: 2 nodes' out || fail "capo check --merge: $(cat out)"
[ $bad = 0 ] && echo "slurm $(slurmctld -V | cut -d' ' -f2): all as expected"
exit $bad
