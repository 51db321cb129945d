#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The launchers of docs/clusters.md besides Slurm: Open MPI, MPICH, one job each on the stand-in NCCL; the module file in
# Environment Modules or Lmod, whose packages exclude each other.
# usage: launchers.sh CAPO SOURCE
set -u
capo=$(realpath "$1")
source=$(realpath "$2")
build=$(realpath "$(dirname "$1")/..")
export CAPO_STANDIN=1
. "$source/tests/e2e/job.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
bad=0 tried=
fail() { echo "launchers: $*"; bad=1; }
for name in $(env | sed -n 's/^\(SLURM_[A-Z_]*\|NCCL_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done
export MASTER_ADDR=127.0.0.1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_MCA_rmaps_base_oversubscribe=1 PATH="$(dirname "$capo"):$PATH"
train=("$jobs/ddp_train" --epochs 1)

# logs WHAT: capo-logs is a job of two ranks
logs() {
        tried="$tried $1"
        "$capo" report --json capo-logs >json 2>err || { fail "$1: no page: $(cat err out)"; return; }
        python3 -c 'import json; r=json.load(open("json")); assert r["ranks"] == 2 and len(r["processes"]) == 2, (r["ranks"], len(r["processes"]))' || fail "$1: not a job of two ranks"
        rm -rf capo-logs
}

for mpirun in mpirun.openmpi mpirun.mpich; do
        command -v $mpirun >/dev/null || continue
        export MASTER_PORT=$((20000 + RANDOM % 20000))
        rm -f mpirun # it may be a link to the system's, which nothing may be written through
        if [ $mpirun = mpirun.openmpi ]; then
                ln -s "$(command -v $mpirun)" mpirun
        else # MPICH looks for its parts beside the name
                printf '#!/bin/sh\nexec %s "$@"\n' "$(command -v $mpirun)" >mpirun
                chmod +x mpirun
        fi
        capo run --quiet -- ./mpirun -n 2 "${train[@]}" >out 2>&1 || fail "capo run -- $mpirun: $(cat out)"
        logs "capo-run-$mpirun"
        export MASTER_PORT=$((20000 + RANDOM % 20000))
        ./mpirun -n 2 "$capo" run --quiet -- "${train[@]}" >out 2>&1 || fail "$mpirun capo run: $(cat out)"
        logs "$mpirun-capo-run"
        ./mpirun -n 2 "$capo" check --dir "$work/check" >out 2>&1 || fail "$mpirun capo check: $(cat out)"
        grep -q 'READY: . node' out || fail "$mpirun capo check: $(cat out)"
done
mkdir -p "$work/modules/capo" "$work/prefix/bin"
ln -s "$capo" "$work/prefix/bin/capo"
sed "s|^set prefix .*|set prefix $work/prefix|" "$source/deploy/modules/capo" >"$work/modules/capo/test"
for modules in /usr/share/modules/init/bash /usr/share/lmod/lmod/init/bash; do
        [ -e $modules ] || continue
        tried="$tried $(echo $modules | cut -d/ -f4)"
        env -i PATH=/usr/bin:/bin bash -c ". $modules; module use $work/modules; module load capo; command -v capo; module unload capo; command -v capo" >out 2>&1
        [ "$(cat out)" = "$work/prefix/bin/capo" ] || fail "module load capo, $modules: $(cat out)"
done
[ -n "$tried" ] || { echo "neither Open MPI (openmpi-bin), MPICH (mpich) nor environment modules here"; exit 77; }
[ $bad = 0 ] && echo "tried:$tried"
exit $bad
