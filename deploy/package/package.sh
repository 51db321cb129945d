#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ./dev package: a portable release build, its packages in dist/, and each of them tried in bare roots of two Debian releases.
# usage: package.sh BUILD      BUILD has the tests' libnccl.so.2
set -u
cd "$(dirname "$0")/../.." || exit
build=$1 portable=build-package
# configured anew each time: Slurm's headers may have come since
# shellcheck disable=SC2046
meson setup $([ ! -e $portable/build.ninja ] || echo --reconfigure) $portable --buildtype=release --prefix /usr --libdir lib -Dtests=disabled -Dportable=true \
        -Dpkgconfig.relocatable=true >$portable.log 2>&1 || { tail -n 20 $portable.log; exit 1; }
rm -f $portable.log
ninja -C $portable >$portable/ninja.log 2>&1 || { grep -v '^\[' $portable/ninja.log | head -n 40; exit 1; }
rm -rf dist
python3 deploy/package/package.py $portable dist || exit 1

# A root of .deps/roots: what debootstrap makes of a release, with Python's venv. 2.31 is glibc's release in bullseye and Ubuntu 20.04.
root_of() {
        [ ! -e ".deps/roots/$1/usr/bin/python3" ] || return 0
        mirror=$(grep -rhsoE 'https?://[^ ]*/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d | head -n 1)
        mkdir -p .deps/roots
        rm -rf ".deps/roots/$1"
        echo "making a bare root of $1"
        # shellcheck disable=SC2086
        debootstrap --variant=minbase --include=python3-venv "$1" ".deps/roots/$1.part" $mirror >".deps/roots/$1.log" 2>&1 &&
                mv ".deps/roots/$1.part" ".deps/roots/$1"
}
[ "$(id -u)" = 0 ] || { echo "not tried: not root, so no bare root can be made and entered"; exit 0; }
status=0
for release in bookworm bullseye; do
        root_of $release || { echo "not tried: no bare root of $release can be had: $(tail -n 1 .deps/roots/$release.log)"; rm -rf ".deps/roots/$release.part"; continue; }
        for kind in tarball wheel deb rpm; do
                deploy/package/try_package.sh $kind .deps/roots/$release dist "$build/tests/preload/fake/libnccl.so.2" || status=1
        done
done
exit $status
