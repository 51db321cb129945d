#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The real libnccl, on virtual GPUs, loads the plugin, obeys a profile, and refuses a communicator whose profile is gone.
# usage: real_nccl.sh CAPO
set -u
capo=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/capo-real.XXXXXX")
trap 'rm -rf "$work"' EXIT
unset CAPO_PROFILE CAPO_PROFILE_DIGEST NCCL_ALGO NCCL_PROTO NCCL_TUNER_PLUGIN
cat >"$work/p.json" <<END
{"capo_profile": 1, "rules": [{"when": {"layout": "3+5", "nccl": "2.19-"},
 "allreduce": [{"upto": "1M", "algo": "tree", "proto": "simple", "channels": 1}, {"upto": "max", "leave": true}]}]}
END
plan() { timeout 100 "$capo" plan --platform dgx1v --profile "$work/p.json" --sizes 64K,4M "$@" 2>&1; }

if ! plan --alloc 3+5 >"$work/out"; then
        grep -q "libnccl" "$work/out" && { cat "$work/out"; echo "no libnccl here: skipped"; exit 77; }
        cat "$work/out"
        exit 1
fi
cat "$work/out"
grep '64 KiB.*Tree *Simple' "$work/out" >/dev/null || { echo "the profile was not obeyed"; exit 1; }
plan --alloc 4+4 >"$work/even" || { cat "$work/even"; exit 1; }
grep '64 KiB.*p\.json' "$work/even" && { echo "a rule for 3+5 fired for 4+4"; exit 1; }
NCCL_ALGO=Ring plan --alloc 3+5 >"$work/env" || { cat "$work/env"; exit 1; }
grep '64 KiB.*Tree' "$work/env" && { echo "NCCL_ALGO=Ring did not win"; exit 1; }
rm "$work/p.json"
plan --alloc 3+5 >"$work/gone" && { cat "$work/gone"; echo "a profile that is gone was not noticed"; exit 1; }
grep -q "No such file" "$work/gone" || { cat "$work/gone"; exit 1; }
echo "obeyed for 3+5, silent for 4+4, NCCL_ALGO wins, a missing profile ends the communicator"
