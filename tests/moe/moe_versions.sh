#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: moe_versions.sh CAPO LIBCAPO LAUNCH PROGRAM [LIBRARY]   a program that checks NCCL EP and NCCL M2N ends under capo as it
# does alone, and its calls and their failures are counted exactly. With LIBRARY (fake_ext) it is of one rank, and capo counts the
# structs that it does not know.
set -eu
capo=$1 preload=$2 launch=$3 program=$4 library=${5:-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export CAPO_DIR="$folder/logs" CAPO_GPU_SAMPLE=1
LD_PRELOAD=$preload "$launch" -n "$([ -n "$library" ] && echo 1 || echo 4)" -- "$program" $library >"$folder/out" 2>&1 || {
        tail -n 30 "$folder/out"
        exit 1
}
if [ -z "$library" ]; then # what check_ext calls on each of 4 ranks; its killed children are jobs of their own
        for job in 1 2 3 4 5 6 7 8; do
                "$capo" report --json "$CAPO_DIR@$job" >"$folder/page" 2>/dev/null || true
                ! grep -q '"Reshard"' "$folder/page" || break
        done
        python3 - "$folder/page" <<'END'
import json, sys
page = json.load(open(sys.argv[1], encoding="utf-8"))
calls = {}
for row in page["rows"] + page["other_calls"]:
    n, failed = calls.get(row["call"], (0, 0))
    calls[row["call"]] = (n + row["calls"], failed + row["failed"])
wanted = {"Reshard": (12, 8), "ReshardWithWindow": (4, 0), "M2nInit": (12, 8), "M2nFinalize": (16, 8), "M2nGroupAbort": (4, 0),
          "EpGetAsyncError": (3, 0), "EpErrorClear": (4, 0), "EpMaskClean": (4, 0)}
found = {call: calls.get(call) for call in wanted}
if found != wanted or page["dropped"]:
    sys.exit(f"calls and failures: found {found}, expected {wanted}; dropped {page['dropped']}")
END
        exit
fi
cat "$folder/out"
"$capo" dump "$folder"/logs/*.capo >"$folder/dump"
grep -qE 'ext\.unknown[[:space:]]+[1-9]' "$folder/dump" || {
        echo "unknown structs are not counted"
        exit 1
}
grep -q EpDispatch "$folder/dump" || {
        echo "the calls of a library that dlopen loaded are not recorded"
        exit 1
}
for asked in 'experts=8 hidden=8 .*quantisation=ds-fp8' 'quantisation=nvfp4'; do
        grep -q "$asked" "$folder/dump" || {
                echo "no call site asks for $asked"
                exit 1
        }
done
