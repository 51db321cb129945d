#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# TaskProlog of slurm.conf: a task whose environment has CAPO=record is recorded by capo. Slurm reads the lines
# "export NAME=value" that this prints. Without CAPO=record, or without capo, it prints nothing.
# Profiles need one digest for all ranks: use srun --capo=PROFILE (spank_capo.so) or capo run --profile.
[ "${CAPO-}" = record ] || exit 0
capo=$(command -v capo || echo /usr/bin/capo)
[ -x "$capo" ] || exit 0
"$capo" run --quiet -- env 2>/dev/null |
        sed -n 's/^\(LD_PRELOAD\|CAPO_DIR\|NCCL_PROFILER_PLUGIN\|CAPO_CHAIN_PROFILER\)=/export &/p'
exit 0
