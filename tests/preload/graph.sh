#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Which communicators are made with a graph file: app_graph says what NCCL would read. usage: graph.sh LIBCAPO FOLDER
set -u
lib=$(realpath "$1")
bin=$2
tmp=$(mktemp -d "${TMPDIR:-/tmp}/capo-graph-XXXXXX")
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/shm" "$tmp/one" "$tmp/two" "$tmp/sys" "$tmp/sys/class" "$tmp/sys/class/infiniband"
export CAPO_DIR="$tmp/logs" CAPO_SHM="$tmp/shm" CAPO_GPU_SAMPLE=0 CAPO_SYSFS="$tmp/sys"
export LD_LIBRARY_PATH="$bin/fake_nvml"
unset CUDA_VISIBLE_DEVICES SLURM_NODEID SLURM_PROCID SLURM_LOCALID GROUP_RANK GROUP_WORLD_SIZE LOCAL_WORLD_SIZE LOCAL_RANK \
        OMPI_COMM_WORLD_LOCAL_SIZE OMPI_COMM_WORLD_SIZE MPI_LOCALNRANKS NCCL_GRAPH_FILE NCCL_IB_HCA 2>/dev/null
bad=0
printf 'capo-graph 1 nccl 22809\nmachine 0@0000:00:00.0 1@0000:01:00.0 2@0000:02:00.0\n' >"$tmp/one/machines"
printf 'capo-graph 1 nccl 22809\nmachine 1@0000:01:00.0 2@0000:02:00.0 3@0000:03:00.0 nics mlx5_0 mlx5_1\n' >"$tmp/two/machines"
printf 'machine 0@0000:00:00.0 1@0000:01:00.0 2@0000:02:00.0 3@0000:03:00.0 4@0000:04:00.0 nics mlx5_0 mlx5_1\n' >>"$tmp/two/machines"
touch "$tmp/one/graph-0.xml" "$tmp/two/graph-0.xml" "$tmp/two/graph-1.xml"
mkdir "$tmp/sys/class/infiniband/mlx5_0" "$tmp/sys/class/infiniband/mlx5_1"

check() { # check WHAT FOLDER EXPECTED STEP...: with VAR=VALUE before
        what=$1 folder=$2 want=$3
        shift 3
        got=$(CAPO_GRAPH="$tmp/$folder" LD_PRELOAD="$lib" "$bin/app_graph" "$@" 2>"$tmp/err")
        [ "$got" = " $want" ] || { echo "$what: \"$got\" instead of \" $want\"; $(cat "$tmp/err")"; bad=1; }
}
said() { # a line like this, and at most one besides
        [ "$(wc -l <"$tmp/err")" -le 2 ] && grep -q -- "$1" "$tmp/err" || { echo "$what: did not say $1: $(cat "$tmp/err")"; bad=1; }
}

f=graph-0.xml
check "the whole, a part, a split, the whole" one "there $f there - - $f there" = 3 = 2 s 3 =
said "NCCL reads .*graph-0.xml for communicators of all 3 ranks"
check "all at once" one "$f $f $f - - - - -" a3 2 a4
check "does not wait" one "- $f" n3 3
check "a group of the whole" one "$f $f $f -" '(' 3 3 3 ')' s
check "nested groups" one "$f $f" '(' '(' 3 ')' 3 ')'
check "a mixed group" one "- - $f" '(' 3 2 ')' 3
said "a group makes the communicator of all ranks and another"
check "a part first" one "- $f" 2 3
NCCL_COMM_BLOCKING=0 check "nothing waits" one "-" 3
NCCL_GRAPH_FILE=/own/own.xml check "somebody's own" one "own.xml own.xml" 3 2
CUDA_VISIBLE_DEVICES=2 check "one GPU each" one "$f" 3
CUDA_VISIBLE_DEVICES=3 check "another GPU" one "-" 3
said "names GPUs that are not in the allocation"
FAKE_NVML_SHIFT=1 check "hidden GPUs" one "-" 3
said "no graph file on this machine: GPU 0 is not at 0000:00:00.0 here"
CAPO_DIR= check "not recorded" one "- $f" 2 3
CAPO_DIR= check "not recorded, in a group" one "$f -" '(' 3 ')' 2
CAPO_OFF=1 check "switched off" one "-" 3
sed 's/22809/22703/' "$tmp/two/machines" >"$tmp/sys/machines"
check "another release" sys "-" 8
LD_LIBRARY_PATH=/nosuch check "no NVML" one "-" 3
said "NVML does not answer"
check "no folder" nosuch "-" 3
said "No such file"

check "which machine?" two "-" 8
said "nothing says for certain which machine"
SLURM_PROCID=4 SLURM_LOCALID=0 SLURM_NODEID=1 check "Slurm" two "graph-1.xml - graph-1.xml" 8 5 8
SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 check "Slurm, GPUs are not the first" two "-" 8
said "CUDA_VISIBLE_DEVICES is not set"
CUDA_VISIBLE_DEVICES=1,2,3 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 check "Slurm, named GPUs" two "graph-0.xml" 8
OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_SIZE=5 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 \
        check "mpirun below Slurm" two "graph-1.xml" 8
GROUP_RANK=1 GROUP_WORLD_SIZE=2 LOCAL_WORLD_SIZE=5 check "torchrun" two "graph-1.xml" 8
GROUP_RANK=1 GROUP_WORLD_SIZE=2 LOCAL_WORLD_SIZE=3 check "torchrun, too few" two "-" 8
said "LOCAL_WORLD_SIZE=3, and the allocation has 5 GPUs on machine 1"
NCCL_IB_HCA=mlx5_1 MPI_LOCALNRANKS=5 check "chosen NICs" two "-" 8
said "NCCL_IB_HCA is set"
NCCL_SOCKET_IFNAME=lo MPI_LOCALNRANKS=5 check "the bootstrap's interface" two "graph-1.xml" 8
mkdir "$tmp/sys/class/infiniband/mlx5_2"
MPI_LOCALNRANKS=5 check "one NIC more" two "-" 8
said "there are 3 InfiniBand devices here, and the file knows 2"
rmdir "$tmp/sys/class/infiniband/mlx5_2" "$tmp/sys/class/infiniband/mlx5_0"
MPI_LOCALNRANKS=5 check "a NIC is missing" two "-" 8
said "there is no network device mlx5_0 here"
echo 'machine x' >>"$tmp/one/machines"
check "bad folder" one "-" 3
said 'line 3: expected GPUs as 1@0000:07:00.0, found "x"'
exit $bad
