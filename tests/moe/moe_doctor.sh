#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: moe_doctor.sh CAPO   capo doctor and check: do NCCL EP and NCCL M2N fit this NCCL and this machine? Small libraries stand for
# each release.
set -u
capo=$(realpath "$1")
${CC:-cc} --version >/dev/null 2>&1 || { echo "no compiler to build the libraries looked at"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
unset LD_PRELOAD NCCL_DEV_API_JIT NCCL_CUMEM_ENABLE NCCL_GIN_ENABLE NCCL_EP_JIT_NVCC
export HOME="$dir" LD_LIBRARY_PATH="$dir" PYTHONPATH="$dir" CAPO_SYSFS="$dir/sys"
bad=0

nccl() { # its version code
        printf 'int ncclGetVersion(int *v) { *v = %d; return 0; } int ncclAllReduce(void) { return 0; }' "$1" |
                ${CC:-cc} -shared -fPIC -Wl,-soname,libnccl.so.2 -x c -o libnccl.so.2 -
}
extension() { # ep or m2n, the NCCL that it was built with
        mkdir -p "nccl/$1/lib/cu12"
        printf 'const unsigned requirements[] = {112, 0xc00fffee, 0xcafebeef, %d};' "$2" |
                ${CC:-cc} -shared -fPIC -x c -o "nccl/$1/lib/cu12/libnccl_$1.so" -
}
expect() { # PATTERN
        out=$("$capo" doctor --wide -- python3 train.py 2>&1)
        echo "$out" | grep -q "$1" || { echo "no line like \"$1\": $out"; bad=1; }
}

nccl 23007
expect 'nccl ' # no library of the two: no word of them
! echo "$out" | grep -q ' experts ' || { echo "experts without the libraries: $out"; bad=1; }
extension ep 23007
extension m2n 23007
expect 'ok *experts *libnccl_ep.so, built with NCCL 2.30.7, fits NCCL 2.30.7'
expect 'ok *experts *libnccl_m2n.so, built with NCCL 2.30.7, fits NCCL 2.30.7'
expect 'warn *experts *no RDMA device here: no GIN'
expect 'note *experts *known bug (hang): calls of two low-latency handles'
NCCL_CUMEM_ENABLE=0 expect 'warn *experts *NCCL_CUMEM_ENABLE=0: .*neither LSA nor GIN'
mkdir -p sys/class/infiniband/mlx5_0/ports/1
echo InfiniBand >sys/class/infiniband/mlx5_0/ports/1/link_layer
NCCL_GIN_ENABLE=0 expect 'warn *experts *NCCL_GIN_ENABLE=0: no GIN'
expect 'experts'
! echo "$out" | grep -q 'no GIN' || { echo "GIN is available: $out"; bad=1; }
nccl 22809
expect 'warn *experts *libnccl_ep.so was built with NCCL 2.30.7 and needs at least that, found 2.28.9'
expect 'warn *experts *libnccl_m2n.so needs NCCL 2.30.5 (nccl_m2n.h), found 2.28.9'
nccl 23005
expect 'warn *experts *libnccl_m2n.so was built with NCCL 2.30.7'
nccl 23202
expect 'warn *experts *libnccl_ep.so was built with NCCL 2.30.7, found 2.32.2: .*NCCL_DEV_API_JIT=1'
NCCL_DEV_API_JIT=1 expect 'ok *experts *libnccl_ep.so'
extension ep 23100
expect 'ok *experts *libnccl_ep.so, built with NCCL 2.31.0, fits NCCL 2.32.2'
"$capo" check --json 2>/dev/null | grep -q '"nccl ep":".*libnccl_ep.so, .* bytes' || { echo "capo check compares no NCCL EP"; bad=1; }
exit $bad
