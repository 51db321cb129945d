#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# capo plan with nodes that are stood in for, against all ranks asked, cell for cell: the libnccl found on this machine and
# every release that ./dev matrix has fetched.   usage: alike.sh BUILD
set -u
build=$1
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
status=0
asked=0
for lib in toolkit "${CAPO_NCCL_CACHE:-$source/.deps/nccl-releases}"/*/libnccl.so.2; do
        case $lib in
        toolkit) set -- ;;
        *) [ -s "$lib" ] || continue; set -- --nccl "$lib" ;;
        esac
        python3 "$here/checks.py" "$build/cli/capo" "$build/tuner/libnccl-tuner-capo.so" "$build/tests/plan/plan-misbehave.so" \
                "$source" --group alike "$@"
        case $? in
        0) asked=$((asked + 1)) ;;
        77) ;;
        *) status=1 ;;
        esac
done
[ $status -ne 0 ] || [ $asked -gt 0 ] || exit 77
exit $status
