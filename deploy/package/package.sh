#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ./dev package: a portable release build, its packages in dist/, and each of them tried in bare roots of two Debian releases.
# usage: package.sh BUILD             BUILD has the tests' libnccl.so.2
#        package.sh BUILD aarch64     cross-built, in dist-aarch64/; the tarball's command is tried by qemu-user
set -u
cd "$(dirname "$0")/../.." || exit
build=$1 machine=${2-} cross=
portable=build-package${machine:+-$machine} dist=dist${machine:+-$machine}
say() { echo "$(date +%H:%M:%S)  $*"; }
if [ "$machine" = aarch64 ]; then
        [ -e .deps/aarch64/root/ready ] || say "unpacking Debian's arm64 libraries in .deps/aarch64/root"
        tests/aarch64/sysroot.sh || exit
        export QEMU_LD_PREFIX=$PWD/.deps/aarch64/root # the build starts capo, for its man page
        cross='--cross-file .deps/aarch64/cross.ini'
elif [ -n "$machine" ]; then
        echo "package: expected aarch64 or nothing, found \"$machine\""
        exit 2
fi
# Equal sources give equal bytes: one time for all files, and no folder of this machine in them.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y meson.build)}
export SOURCE_DATE_EPOCH
say "configuring $portable"
# configured anew each time: Slurm's headers may have come since
# shellcheck disable=SC2046,SC2086
meson setup $([ ! -e $portable/build.ninja ] || echo --reconfigure) $portable $cross --buildtype=release -Ddebug=true "-Dc_args=-ffile-prefix-map=$PWD=/usr/src/capo ${CFLAGS-}" --prefix /usr --libdir lib -Dtests=disabled -Dportable=true \
        -Dpkgconfig.relocatable=true >$portable.log 2>&1 || { tail -n 20 $portable.log; exit 1; }
rm -f $portable.log
say "building in $portable: about 8 minutes on two processors, seconds when little changed"
ninja -C $portable >$portable/ninja.log 2>&1 &
seconds=0
while kill -0 $! 2>/dev/null; do
        sleep 1
        seconds=$((seconds + 1))
        [ $((seconds % 60)) != 0 ] || say "built $(grep -o '^\[[0-9]*/[0-9]*' $portable/ninja.log | tail -n 1 | tr -d '[') steps"
done
wait $! || { grep -v '^\[' $portable/ninja.log | head -n 40; exit 1; }
rm -rf $dist
say "making the packages in $dist"
python3 deploy/package/package.py $portable $dist || exit 1

# What can be tried of another machine's files here: the command runs, finds its data, and reads a log.
try_cross() {
        work=$(mktemp -d) || return 1
        tar xzf $dist/capo-*64.tar.gz -C "$work" --strip-components 1
        run="qemu-aarch64-static $work/bin/capo"
        $run --version && $run topo --platform dgx1v --gpus 0,1,2 >"$work/page" && grep -q 'GB/s' "$work/page" &&
                $run report tests/golden/sample-v1 >"$work/page" && grep -q AllReduce "$work/page" && [ -e "$($run env --preload)" ]
        tried=$?
        [ $tried = 0 ] || cat "$work/page"
        rm -rf "$work"
        return $tried
}
[ -z "$machine" ] || { try_cross; exit; }

# A root of .deps/roots: what debootstrap makes of a release, with Python's venv. 2.31 is glibc's release in bullseye and Ubuntu 20.04.
root_of() {
        [ ! -e ".deps/roots/$1/usr/bin/python3" ] || return 0
        mirror=$(grep -rhsoE 'https?://[^ ]*/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d | head -n 1)
        mkdir -p .deps/roots
        rm -rf ".deps/roots/$1"
        say "making a bare root of $1"
        # shellcheck disable=SC2086
        debootstrap --variant=minbase --include=python3-venv "$1" ".deps/roots/$1.part" $mirror >".deps/roots/$1.log" 2>&1 &&
                mv ".deps/roots/$1.part" ".deps/roots/$1"
}
[ "$(id -u)" = 0 ] || { echo "not tried: not root, so no bare root can be made and entered"; exit 0; }
next=$(mktemp -d) || exit
trap 'rm -rf "$next"' EXIT
python3 deploy/package/package.py $portable "$next" 999.0 >/dev/null || exit
status=0
for release in bookworm bullseye; do
        root_of $release || { echo "not tried: no bare root of $release can be had: $(tail -n 1 .deps/roots/$release.log)"; rm -rf ".deps/roots/$release.part"; continue; }
        for kind in tarball wheel deb rpm; do
                say "trying the $kind in a bare root of $release"
                deploy/package/try_package.sh $kind .deps/roots/$release dist "$build/tests/preload/fake/libnccl.so.2" "$next" || status=1
        done
done
exit $status
