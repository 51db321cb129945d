#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The layout of whole jobs and of parts of them, as the tuner of every rank sees it: what NCCL tells (2.28), what the
# launcher tells where NCCL does not (2.27), real launchers, and that all ranks see the same. The stand-in prints what
# capo's plugin says of each communicator.
# usage: layouts.sh LAUNCH SPLIT PLUGIN CAPO
set -u
launch=$1 split=$2 plugin=$3 capo=$4
work=$(mktemp -d "${TMPDIR:-/tmp}/capo-layouts.XXXXXX")
trap 'rm -rf "$work"' EXIT
export LD_LIBRARY_PATH="$(dirname "$split")/../standin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export CAPO_STANDIN_TIMEOUT=300 NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING
unset CAPO_PROFILE CAPO_PROFILE_DIGEST CAPO_ALLOW_MODELLED CAPO_STRICT CAPO_TUNER CAPO_LAYOUT CAPO_DIR
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_WORLD_SIZE
bad=0
fail() { echo "FAIL $*"; bad=1; }

row='"allreduce": [{"upto": "max", "algo": "tree", "proto": "simple"}]'
cat >"$work/p.json" <<END
{"capo_profile": 1, "rules": [
{"when": {"layout": "1+3"}, $row}, {"when": {"layout": "1+2"}, $row}, {"when": {"layout": "2+2"}, $row},
{"when": {"layout": "even", "nodes": 2, "ranks": 2}, $row}, {"when": {"layout": "even", "nodes": 1}, $row}]}
END

# seen RANKS NODES LAYOUT TIMES: so many ranks said this of a communicator, and none said anything else of one so large.
# LAYOUT "none": no rule of the profile holds.
seen() {
        case $3 in
        none) rule='no rule of the profile holds' ;;
        even) rule='layout=even' ;;
        *) rule="layout=$3" ;;
        esac
        all=$(grep -c "TUNER/capo: $1 ranks on $2 nodes: " "$work/out")
        good=$(grep "TUNER/capo: $1 ranks on $2 nodes: " "$work/out" | grep -cF -- "$rule")
        if [ "$all" != "$4" ] || [ "$good" != "$4" ]; then
                fail "$name: $1 ranks on $2 nodes: $good of $all ranks said $rule, expected $4 of $4"
                grep TUNER "$work/out"
        else
                echo "ok   $name: $1 ranks on $2 nodes: $3"
        fi
}
# job NAME COMMAND...: must end well
job() {
        name=$1
        shift
        timeout 180 "$@" >"$work/out" 2>&1
        rc=$?
        [ $rc = 0 ] || { fail "$name: status $rc"; head -20 "$work/out"; }
}
export NCCL_TUNER_PLUGIN=$plugin CAPO_PROFILE=$work/p.json

# NCCL 2.28 tells smallest and largest node: of all ranks and of every part
export CAPO_STANDIN_NCCL_VERSION=2.28.9
job "2.28, part 1+2" env -u GROUP_WORLD_SIZE "$launch" --layout 1+3 -- "$split" 0,0,0,-
seen 4 2 1+3 4
seen 3 2 1+2 3
job "2.28, wrong launcher" env CAPO_LAYOUT=2+2 "$launch" --layout 1+3 -- "$split" 0,0,1,1
seen 4 2 1+3 4
seen 2 2 even 2
seen 2 1 even 2
[ "$(grep -c "launcher's layout is dropped" "$work/out")" = 1 ] || fail "$name: said $(grep -c dropped "$work/out") times"

# 2.27 does not: the launcher tells of all ranks, nobody of a part, unless there is but one possibility
export CAPO_STANDIN_NCCL_VERSION=2.27.7
job "2.27 by torchrun's variables" "$launch" --layout 1+3 -- "$split" 0,0,0,-
seen 4 2 1+3 4
seen 3 2 none 3
job "2.27, parts with one possibility" "$launch" --layout 1+3 -- "$split" 0,0,1,1
seen 2 2 even 2
seen 2 1 even 2
job "2.27 without a launcher" env -u GROUP_WORLD_SIZE CAPO_LAYOUT= "$launch" --layout 1+3 -- env -u GROUP_WORLD_SIZE "$split" 0,0,0,-
seen 4 2 none 4
seen 3 2 none 3
job "2.27 by srun's variable" "$launch" --layout 1+3 -- env -u WORLD_SIZE -u LOCAL_WORLD_SIZE -u GROUP_WORLD_SIZE \
        SLURM_NTASKS=4 SLURM_STEP_TASKS_PER_NODE=1,3 "$split" 0,0,0,-
seen 4 2 1+3 4
job "2.27, a launcher that does not add up" "$launch" --layout 1+3 -- env CAPO_LAYOUT=2+3 "$split" 0,0,0,-
seen 4 2 1+3 4
[ "$(grep -c 'CAPO_LAYOUT is dropped' "$work/out")" = 1 ] || fail "$name: not said once: $(grep -c dropped "$work/out")"
job "2.27, a launcher of another number of nodes" "$launch" --layout 1+3 -- env CAPO_LAYOUT=1+1+2 "$split" 0,0,0,-
seen 4 2 none 4
[ "$(grep -c 'NCCL counts another number of nodes' "$work/out")" = 1 ] || fail "$name: not said once"

# Real launchers: capo run around them, and inside for each rank. They put all ranks on this host; NCCL_HOSTID splits it.
cat >"$work/rank" <<'END'
#!/bin/sh
r=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$SLURM_PROCID}}
[ "$r" = 0 ] && export NCCL_HOSTID=first || export NCCL_HOSTID=rest
exec "$@"
END
chmod +x "$work/rank"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
# A port that nobody else is given while this runs: it is bound until descriptor 9 is closed, and rank 0 may bind it, too.
mkfifo "$work/hold" "$work/port"
python3 -c 'import socket, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
sys.stdin.read()' <"$work/hold" >"$work/port" &
exec 9>"$work/hold"
read -r MASTER_PORT <"$work/port"
export MASTER_ADDR=127.0.0.1 MASTER_PORT
unset NCCL_TUNER_PLUGIN CAPO_PROFILE
for mpirun in mpirun.openmpi mpirun.mpich; do
        command -v $mpirun >/dev/null || { echo "no $mpirun here"; continue; }
        own="$capo run --quiet --profile $work/p.json --dir $work/logs"
        variables="-x MASTER_PORT -x MASTER_ADDR -x NCCL_DEBUG -x NCCL_DEBUG_SUBSYS -x CAPO_STANDIN_NCCL_VERSION -x LD_LIBRARY_PATH"
        [ $mpirun = mpirun.openmpi ] || variables=
        # one node: the ranks' own variables settle it
        job "$mpirun, one node, capo run around" $own -- $mpirun $variables -n 4 "$split" 0,0,0,-
        seen 4 1 even 4
        seen 3 1 even 3
        # two nodes for NCCL, one for the launcher: dropped
        job "$mpirun, NCCL counts two nodes" $own -- $mpirun $variables -n 4 "$work/rank" "$split" 0,0,0,-
        seen 4 2 none 4
        # given by hand: around the launcher it reaches every rank
        job "$mpirun, --layout around" $own --layout 1+3 -- $mpirun $variables -n 4 "$work/rank" "$split" 0,0,0,-
        seen 4 2 1+3 4
        seen 3 2 none 3
        job "$mpirun, --layout for each rank" $mpirun $variables -n 4 "$work/rank" $own --layout 3+1 -- "$split" 0,0,0,-
        seen 4 2 1+3 4
        # a layout that does not add up to the ranks is no layout
        job "$mpirun, --layout of five" $own --layout 2+3 -- $mpirun $variables -n 4 "$work/rank" "$split" 0,0,0,-
        seen 4 2 none 4
        [ "$(grep -c 'CAPO_LAYOUT is dropped' "$work/out")" = 1 ] || fail "$name: said $(grep -c dropped "$work/out") times"
done
exit $bad
