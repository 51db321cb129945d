#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Real NCCL on virtual GPUs, behind the preload library with a folder of graph files: capo plan's workers are started with
# what capo run and srun would give a job's processes. The communicator of all ranks is made with the files, another not.
# usage: graph_job.sh CAPO LIBCAPO VIRTUAL.so WORKER
set -u
capo=$(realpath "$1") lib=$(realpath "$2") virtual=$(realpath "$3") worker=$(realpath "$4")
tmp=$(mktemp -d "${TMPDIR:-/tmp}/capo-graph-job-XXXXXX") || exit 99
trap 'rm -rf "$tmp"' EXIT
bad=0
fail() { echo "$*"; bad=1; }
unset CUDA_VISIBLE_DEVICES NCCL_GRAPH_FILE NCCL_IB_HCA NCCL_NET_MERGE_LEVEL 2>/dev/null

"$capo" graph --platform dgx1v --gpus 1,2,3+0-4 --sizes 1G -o "$tmp/graphs" >"$tmp/page" 2>&1 ||
        { grep -q 'no libnccl' "$tmp/page" && exit 77; cat "$tmp/page"; exit 1; }
# a tree of our own, because capo takes the worker from beside itself
mkdir -p "$tmp/tree/cli" "$tmp/tree/profiles/plan/virtual" "$tmp/tree/profiles/data" "$tmp/logs" "$tmp/shm"
for i in 0 1 2 3; do mkdir -p "$tmp/sys/class/infiniband/mlx5_$i"; done
cp "$capo" "$tmp/tree/cli/capo"
cp "$virtual" "$tmp/tree/profiles/plan/virtual/"
cp "$(dirname "$(dirname "$capo")")"/profiles/data/dgx1v.xml "$tmp/tree/profiles/data/"
cat >"$tmp/tree/profiles/plan/virtual/capo-plan-worker" <<END
#!/bin/sh
export LD_PRELOAD=$lib CAPO_GRAPH=$tmp/graphs CAPO_DIR=$tmp/logs CAPO_SHM=$tmp/shm CAPO_SYSFS=$tmp/sys
export SLURM_PROCID=\$2 SLURM_LOCALID=0 SLURM_NODEID=\$2
[ "\$2" = 1 ] || export CUDA_VISIBLE_DEVICES=1,2,3
exec $worker "\$@" 2>>$tmp/said
END
chmod +x "$tmp/tree/profiles/plan/virtual/capo-plan-worker"

ask() { "$tmp/tree/cli/capo" plan --platform dgx1v --sizes 1G --graph --json "$@"; }
ask --gpus '0:1,2,3;1:0-4' >"$tmp/job.json" || fail "the job fails"
[ "$(grep -c 'NCCL reads .*graph-[01].xml for communicators of all 8 ranks' "$tmp/said")" = 2 ] || fail "said: $(cat "$tmp/said")"
"$capo" plan --platform dgx1v --sizes 1G --graph --json --gpus '0:1,2,3;1:0-4' \
        --graph-file "$tmp/graphs/graph-0.xml,$tmp/graphs/graph-1.xml" >"$tmp/files.json" || fail "NCCL_GRAPH_FILE itself"
ask --gpus '0:1,2;1:0-4' >"$tmp/part.json" || fail "a communicator of 7 of the 8 ranks fails"
"$capo" plan --platform dgx1v --sizes 1G --graph --json --gpus '0:1,2;1:0-4' >"$tmp/own.json" || fail "those 7 by themselves"
python3 - "$tmp" <<'END' || fail "graphs"
import json, sys
g = {n: json.load(open(f"{sys.argv[1]}/{n}.json"))["graphs"] for n in ("job", "files", "part", "own")}
assert g["job"] == g["files"], "not the files' graphs"
assert g["part"] == g["own"], "not NCCL's own graphs"
assert g["job"] != g["own"]
END
exit $bad
