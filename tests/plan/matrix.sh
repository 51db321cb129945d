#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every NCCL release against capo's plugin, on virtual GPUs: fetches one libnccl per row, asks it, prints a table.
# usage: matrix.sh BUILD [--markdown] [--check] [RELEASE...]
#   RELEASE   a version of the Python package nvidia-nccl-cu12, the word newest (the last one that the index has, whatever it
#             is), the word toolkit (the libnccl found on this machine), or a file; default: the list below. --check: exit status 1 unless every release obeys and is left alone
# Libraries are kept below ${CAPO_NCCL_CACHE:-.deps/nccl-releases} (some 250 MB each).
set -u
build=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
releases="2.19.3 2.20.5 2.21.5 2.22.3 2.23.4 2.24.3 2.25.1 2.26.5 2.27.3 2.27.5 2.27.6 2.27.7 2.28.9 2.29.7 2.30.7 2.31.2 2.32.3"
cache=${CAPO_NCCL_CACHE:-$source/.deps/nccl-releases}
options=
while [ $# -gt 0 ]; do
        case $1 in
        --markdown | --check) options="$options $1" ;;
        *) break ;;
        esac
        shift
done
[ $# -eq 0 ] || releases=$*

fetch() {
        lib=$cache/$1/libnccl.so.2
        [ -s "$lib" ] && return
        mkdir -p "$cache/$1" || return
        echo "matrix: fetching nvidia-nccl-cu12 $1" >&2
        [ -x "$cache/venv/bin/pip" ] || python3 -m venv "$cache/venv" || return
        "$cache/venv/bin/pip" -q --disable-pip-version-check download --no-deps -d "$cache/$1" "nvidia-nccl-cu12==$1" >&2 || return
        for wheel in "$cache/$1"/*.whl; do
                # only the library and nccl.h: the rest of the package is not needed
                python3 - "$wheel" "$lib" "$cache/$1/nccl.h" <<'EOF' && rm -f "$wheel"
import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as z:
    for end, to in (("/include/nccl.h", sys.argv[3]), ("lib/libnccl.so.2", sys.argv[2] + ".part")):
        name = [n for n in z.namelist() if n.endswith(end)][0]
        with z.open(name) as f, open(to, "wb") as out:
            shutil.copyfileobj(f, out)
EOF
                mv "$lib.part" "$lib"
        done
}

libraries=
headers=
for release in $releases; do
        if [ "$release" = newest ]; then
                [ -x "$cache/venv/bin/pip" ] || python3 -m venv "$cache/venv" || exit 1
                release=$("$cache/venv/bin/pip" --disable-pip-version-check index versions nvidia-nccl-cu12 2>/dev/null |
                        sed -n '1s/^.*(\(.*\))$/\1/p')
                [ -n "$release" ] || { echo "matrix: the index does not tell the newest release; left out" >&2; continue; }
                echo "matrix: the newest release is $release" >&2
        fi
        case $release in
        toolkit) lib=toolkit ;;
        */*) lib=$release ;;
        *)
                fetch "$release"
                [ -s "$lib" ] || { echo "matrix: $release could not be had; left out" >&2; continue; }
                [ ! -s "$cache/$release/nccl.h" ] || headers="$headers $release=$cache/$release/nccl.h"
                ;;
        esac
        libraries="$libraries $lib"
done
[ -n "$libraries" ] || { echo "matrix: no libnccl to ask" >&2; exit 77; }
# The functions of each release's own nccl.h: has capo's list of them all?
list=$source/tests/preload/prototypes.txt
# shellcheck disable=SC2086
if [ -n "$headers" ] && ! python3 "$source/tests/preload/prototypes.py" headers "$list" $headers >&2; then
        echo "matrix: nccl.h and $list differ (above)" >&2
        case $options in *--check*) exit 1 ;; esac
fi
# shellcheck disable=SC2086
exec python3 "$here/matrix.py" "$build/cli/capo" $options $libraries
