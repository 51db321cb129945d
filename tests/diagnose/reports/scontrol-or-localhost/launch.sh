#!/usr/bin/env bash
set -euo pipefail
export LOGLEVEL=INFO
TRUN_ARGS=()
TRUN_ARGS+=(--nnodes=${SLURM_NNODES:-1} --node-rank=${SLURM_NODEID:-0} --nproc-per-node=gpu)
RDZV_HOST=$(scontrol show hostnames "${SLURM_STEP_NODELIST:-localhost}" 2>/dev/null | head -1 || echo localhost)
TRUN_ARGS+=(--rdzv-backend=c10d --rdzv-endpoint=$RDZV_HOST:15213)
torchrun "${TRUN_ARGS[@]}" pretrain.py "$@"
