#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The libraries and headers of Debian's arm64, unpacked in .deps/aarch64/root and not installed, and the meson cross file beside it.
# usage: sysroot.sh        from the top of the tree; status 77 where it cannot be had
set -u
deps=$PWD/.deps/aarch64 root=$PWD/.deps/aarch64/root
packages="libc6-dev libfabric-dev libhwloc-dev libjansson-dev libexpat1-dev libsqlite3-dev libxxhash-dev libzstd-dev libcriterion-dev
zlib1g-dev libncurses-dev libslurm-dev libstdc++6 libgcc-s1 libunwind8 python3-minimal"
if [ "$(cat "$root/ready" 2>/dev/null)" != "$packages" ]; then
        keyring=/usr/share/keyrings/debian-archive-keyring.gpg
        mirror=$(grep -rhsoE 'https?://[^ ]*/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d | head -n 1)
        [ -e $keyring ] && [ -n "$mirror" ] || { echo "no Debian archive is set up here"; exit 77; }
        rm -rf "$deps"
        mkdir -p "$deps/lists/partial" "$deps/cache/archives/partial" "$root"
        echo "deb [signed-by=$keyring] $mirror bookworm main" >"$deps/sources.list"
        set -- -o Dir::Etc::sourcelist="$deps/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$deps/lists" \
                -o Dir::Cache="$deps/cache" -o Dir::State::status=/dev/null -o APT::Sandbox::User=root \
                -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Install-Recommends=false
        # shellcheck disable=SC2086
        apt-get "$@" -qq update >"$deps/apt.log" 2>&1 && apt-get "$@" -qq -y --download-only install $packages >>"$deps/apt.log" 2>&1 ||
                { tail -n 2 "$deps/apt.log"; echo "Debian's arm64 packages cannot be had"; exit 77; }
        for p in "$deps"/cache/archives/*.deb; do dpkg -x "$p" "$root" || exit 1; done
        rm -rf "$deps/lists" "$deps/cache"
        # Links that begin with / lead out of the folder.
        find "$root" -type l -lname '/*' | while read -r link; do ln -sfn "$root$(readlink "$link")" "$link"; done
        echo "$packages" >"$root/ready"
fi
# Without the kernel's entry for qemu-user (binfmt_misc), meson starts what it built by this.
wrapper="needs_exe_wrapper = false" run=
[ -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ] || wrapper="needs_exe_wrapper = true" run="exe_wrapper = 'qemu-aarch64-static'"
cat >"$deps/cross.ini" <<END
[binaries]
c = ['aarch64-linux-gnu-gcc', '--sysroot=$root']
ar = 'aarch64-linux-gnu-ar'
strip = 'aarch64-linux-gnu-strip'
pkgconfig = 'pkg-config'
$run
[properties]
sys_root = '$root'
pkg_config_libdir = '$root/usr/lib/aarch64-linux-gnu/pkgconfig:$root/usr/share/pkgconfig'
$wrapper
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
END
