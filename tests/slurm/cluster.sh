# SPDX-License-Identifier: Apache-2.0
# A Slurm of two nodes on this machine, with a munge of its own, in the folder $work: start_slurm, stop_slurm. To be sourced.
daemons=

start_slurm() { # lines of plugstack.conf in $work/plugstack.conf, more lines of slurm.conf as arguments
        local host line
        host=$(hostname -s)
        mkdir -p "$work/munge" "$work/state" "$work/spool"
        chmod 755 "$work" "$work/munge"
        (umask 077; head -c 1024 /dev/urandom >"$work/munge.key")
        munged --foreground --force --key-file="$work/munge.key" --socket="$work/munge/socket" --pid-file="$work/munge/pid" \
                --log-file="$work/munge/log" --seed-file="$work/munge/seed" >"$work/munged.out" 2>&1 &
        daemons="$daemons $!"
        cat >"$work/slurm.conf" <<END
ClusterName=capo
SlurmctldHost=$host(127.0.0.1)
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
SlurmctldPort=$port
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket
CredType=cred/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool/%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd-%n.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
PlugStackConfig=$work/plugstack.conf
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=4 State=UNKNOWN
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=4 State=UNKNOWN
PartitionName=all Nodes=n1,n2 Default=YES State=UP OverSubscribe=FORCE:4
END
        for line in "$@"; do echo "$line"; done >>"$work/slurm.conf"
        export SLURM_CONF="$work/slurm.conf"
        await "munge" test -S "$work/munge/socket"
        slurmctld -D >"$work/slurmctld.out" 2>&1 &
        daemons="$daemons $!"
        for n in n1 n2; do
                slurmd -D -N $n >"$work/slurmd-$n.out" 2>&1 &
                daemons="$daemons $!"
        done
        await "two idle nodes" two_idle
}

two_idle() { [ "$(sinfo -h -N -o %t 2>/dev/null | grep -c '^idle$')" = 2 ]; }

await() { # WHAT COMMAND...: at most a minute
        local what=$1 n=0
        shift
        until "$@"; do
                n=$((n + 1))
                [ $n -lt 120 ] || { echo "slurm: no $what: $(tail -n 5 "$work"/*.out "$work"/*.log)"; exit 1; }
                sleep 0.5
        done
}

stop_slurm() {
        # shellcheck disable=SC2086
        kill $daemons 2>/dev/null
        wait
}
