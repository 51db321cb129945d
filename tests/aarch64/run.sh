#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# capo for AArch64: cross-built against Debian's arm64 packages, its tests run by qemu-user, a job recorded there and read here.
# usage: run.sh CAPO [MESON-TEST-OPTION...]     CAPO is this machine's. Status 77 where something is not to be had.
set -u
cd "$(dirname "$0")/../.." || exit
capo=$(realpath "$1")
shift
command -v aarch64-linux-gnu-gcc >/dev/null || { echo "no aarch64-linux-gnu-gcc"; exit 77; }
tests/aarch64/sysroot.sh || exit
binfmt=/proc/sys/fs/binfmt_misc
[ -e $binfmt/register ] || mount -t binfmt_misc none $binfmt 2>/dev/null
[ -e $binfmt/qemu-aarch64 ] || tr -d '\n' </usr/lib/binfmt.d/qemu-aarch64.conf >$binfmt/register 2>/dev/null
[ -e $binfmt/qemu-aarch64 ] || { echo "the kernel cannot be told to start AArch64 programs by qemu-user (binfmt_misc)"; exit 77; }
export QEMU_LD_PREFIX=$PWD/.deps/aarch64/root build=build-aarch64
[ -e $build/build.ninja ] || meson setup $build --cross-file .deps/aarch64/cross.ini -Dtests=enabled --libdir lib >$build.log 2>&1 ||
        { tail -n 20 $build.log; exit 1; }
ninja -C $build || exit 1

# The tests of a suite that left_out.txt does not leave out.
tests_of() {
        meson test -C $build --no-rebuild --list --suite "$1" 2>/dev/null | sed 's|.* / ||' |
                grep -vxFf <(awk -F ' *[|] *' -v suite="$1" '$1 == suite { print $2 }' tests/aarch64/left_out.txt)
}
run_suite() { # SUITE [OPTION...]
        local suite=$1 names
        shift
        mapfile -t names < <(tests_of "$suite")
        meson test -C $build --no-rebuild --print-errorlogs --timeout-multiplier 20 --suite "$suite" "$@" "${names[@]}" || bad=1
}
bad=0
for suite in golden unit tuner preload recorder; do
        run_suite $suite "$@"
done
# The steps up a stack, but for those that begin with the stack of another thread.
steps=$($build/tests/unit/test_cfi --filter 'cfi/@(as_libgcc|wrong_tables|damaged)' 2>&1)
echo "$steps"
[[ $steps == *'Passing: 3 | Failing: 0 | Crashing: 0'* ]] || bad=1

# Real NCCL for AArch64 on virtual GPUs, one node, two, and eight of which six are stood in for: it decides as NCCL for x86-64 does,
# where this machine has the same release. Predicted times may differ in the last digits, which a fused multiply-add rounds otherwise.
nccl=.deps/aarch64/nccl/libnccl.so.2
if [ ! -e $nccl ]; then
        [ -x .deps/venv/bin/pip ] || python3 -m venv .deps/venv
        .deps/venv/bin/pip -q download --no-deps --only-binary :all: --platform manylinux_2_18_aarch64 -d .deps/aarch64/wheel nvidia-nccl-cu12==2.28.9 &&
                python3 -m zipfile -e .deps/aarch64/wheel/*.whl .deps/aarch64/wheel && mkdir -p .deps/aarch64/nccl &&
                mv .deps/aarch64/wheel/nvidia/nccl/lib/libnccl.so.2 $nccl
        rm -rf .deps/aarch64/wheel
fi
if [ -e $nccl ]; then
        python3 tests/aarch64/plan.py "$capo" $build/cli/capo $nccl || bad=1
else
        echo "NCCL for AArch64 cannot be fetched: capo plan is not tried"
fi

# A whole job: the preload library, the plugin in it, GPU times, libfabric, call sites.
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
$build/tests/jobs/launch --layout 2+1 -- $build/cli/capo run --quiet --dir "$work/logs" -- $build/tests/jobs/ddp_train --epochs 1 >"$work/job" 2>&1 ||
        { cat "$work/job"; bad=1; }
for reader in "$capo" $build/cli/capo; do
        "$reader" report --json "$work/logs" >"$work/$(basename "$(dirname "$(dirname "$reader")")").json" || bad=1
done
cmp "$work"/*.json || { echo "the two machines' capo read one log differently"; bad=1; }
python3 - "$work"/build-aarch64.json <<'END' || bad=1
import json, sys
page = open(sys.argv[1]).read()
for wanted in ('"AllReduce"', '"Broadcast"', '"AllGather"', 'all_reduce'):
    assert wanted in page, "the report has no " + wanted
assert json.loads(page)["ranks"] == 3, json.loads(page)["ranks"]
END
exit $bad
