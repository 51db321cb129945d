#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: abi_ext.sh CC [ARG...]   do our own nccl_ep.h and nccl_m2n.h, and what libcapo.so knows of them, agree with those of the Python package nccl-extensions?
# NCCL_EXTENSIONS names the folder nccl/ of the package; else Python is asked. Skipped without one.
here=$(dirname "$0")
"$@" -fsyntax-only -I"$here/include" -I"$here/../../include" "$here/abi_ext.c" || exit 1
"$@" -fsyntax-only -I"$here/../../include" -I"$here/../.." "$here/abi_ext_capo.c" || exit 1
unpacked=$here/../../.deps/nccl-extensions/nccl # by ./dev
[ ! -e "$unpacked" ] || NCCL_EXTENSIONS=${NCCL_EXTENSIONS:-$unpacked}
folder=${NCCL_EXTENSIONS:-$(python3 -c 'import importlib.util as u; print(u.find_spec("nccl.ep").submodule_search_locations[0] + "/..")' 2>/dev/null)}
[ -e "$folder/ep/include/nccl_ep.h" ] || {
        echo "skipped: no nccl_ep.h; install nccl-extensions 0.1.0 or set NCCL_EXTENSIONS"
        exit 77
}
empty=$(mktemp -d) || exit 1
trap 'rm -r "$empty"' EXIT
: >"$empty/cuda_runtime.h"
# The package's headers on our own cuda.h and nccl.h. They come first in the search, so ours of the same name are not read.
"$@" -fsyntax-only -I"$folder/ep/include" -I"$folder/m2n/include" -I"$here/include" -I"$here/../../include" -I"$empty" -DcudaError_t=int \
        '-DNCCL_VERSION(x,y,z)=((x)*10000+(y)*100+(z))' -DNCCL_VERSION_CODE=23007 "$here/abi_ext.c" || exit 1
echo "agrees with $folder"
