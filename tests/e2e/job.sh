# SPDX-License-Identifier: Apache-2.0
# Where the training job gets its NCCL from: a real one when there is a GPU, else the stand-in of tests/standin, which moves
# real memory between processes. Sets $launch (starts ranks) and says which it is. To be sourced; $build is the build tree.

jobs=$build/tests/jobs
ranks=${CAPO_RANKS:-4}
if [ "${CAPO_STANDIN:-}" != 1 ] && command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU '; then
        nccl=${CAPO_NCCL:-}
        [ -n "$nccl" ] || nccl=$(ldconfig -p 2>/dev/null | sed -n 's/.*libnccl\.so\.2 .*=> //p' | head -n 1)
        [ -n "$nccl" ] || nccl=$(ls "${CUDA_HOME:-/usr/local/cuda}"/lib64/libnccl.so.2 .deps/nccl/lib/libnccl.so.2 2>/dev/null | head -n 1)
        cuda=$(ldconfig -p 2>/dev/null | sed -n 's/.*libcuda\.so\.1 .*=> //p' | head -n 1)
        [ -n "$cuda" ] || cuda=$(ls /usr/lib/*/libcuda.so.1 /usr/local/nvidia/lib64/libcuda.so.1 2>/dev/null | head -n 1)
fi
if [ -n "${nccl:-}" ] && [ -n "${cuda:-}" ]; then
        gpus=$(nvidia-smi -L | grep -c '^GPU ')
        what="real NCCL ($nccl) on $gpus GPU(s)"
        LD_LIBRARY_PATH=$(dirname "$nccl"):$(dirname "$cuda")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
        # NCCL takes two ranks on one GPU only when they seem to be on different hosts.
        layout="-n $ranks"
        [ "$gpus" -ge "$ranks" ] || layout="--layout $(yes 1 | head -n "$ranks" | paste -sd+)"
else
        what="the stand-in NCCL (no GPU here): real processes, memory and times, on this machine's cores"
        LD_LIBRARY_PATH=$build/tests/standin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
        layout="-n $ranks"
fi
export LD_LIBRARY_PATH
launch="$jobs/launch $layout --timeout 600 --"
