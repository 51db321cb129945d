#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A job of two ranks in an Apptainer image: capo run in the image and outside of it, once and for each rank; capo check.
# Apptainer is this machine's, or Debian sid's in a root below .deps, used by a user without rights. The image is a bare
# root of this machine's release with the libraries that the job needs. Making both roots needs root and some minutes.
# usage: apptainer.sh CAPO SOURCE
set -u
capo=$(realpath "$1")
source=$(realpath "$2")
build=$(realpath "$(dirname "$1")/..")
roots=$source/.deps/roots
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 777 "$work"
bad=0
fail() { echo "apptainer: $*"; bad=1; }

# make_root RELEASE NAME PACKAGES
make_root() {
        [ ! -e "$roots/$2" ] || return 0
        mirror=$(grep -rhsoE 'https?://[^ ]*/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d | head -n 1)
        [ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null && [ -n "$mirror" ] || return 1
        rm -rf "$roots/$2.part"
        mkdir -p "$roots"
        # shellcheck disable=SC2086
        debootstrap --variant=minbase --include="$3" "$1" "$roots/$2.part" $mirror >"$roots/$2.log" 2>&1 && mv "$roots/$2.part" "$roots/$2"
}

# packages_of FILE...: whose libraries these files need
packages_of() {
        local libs
        mapfile -t libs < <(ldd "$@" | awk '$3 ~ "^/(usr/)?lib" { print $3; print "/usr" $3 }' | sort -u)
        dpkg-query -S "${libs[@]}" 2>/dev/null | cut -d: -f1 | sort -u | paste -sd,
}
make_root "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" apptainer-image \
        "$(packages_of "$capo" "$build/shim/libcapo.so" "$build/tests/jobs/ddp_train")" || { echo "no bare root of this release can be made"; exit 77; }
if command -v apptainer >/dev/null; then
        as_user() { "$@"; }
else
        make_root sid apptainer "apptainer,$(packages_of "$capo")" || { echo "no Apptainer here, and no root with Debian's can be made"; exit 77; }
        grep -q ^capo: "$roots/apptainer/etc/passwd" || echo 'capo:x:1234:1234::/home/capo:/bin/sh' >>"$roots/apptainer/etc/passwd"
        install -d -o 1234 -g 1234 "$roots/apptainer/home/capo"
        [ -e "$roots/apptainer/etc/hosts" ] || echo '127.0.0.1 localhost' >"$roots/apptainer/etc/hosts" # Apptainer binds it
        # Apptainer changes how mounts propagate, so its root has to be a mount and no chroot. Same paths in it as here.
        as_user() {
                unshare --mount --propagation private -- bash -c 'root=$1 n=$2
                        shift 2
                        mount --bind "$root" "$root" && cd "$root" || exit 99
                        for at in /proc /dev /sys "${@:1:n}"; do
                                mkdir -p ".$at" && mount --rbind "$at" ".$at" || exit 99
                        done
                        mkdir -p old && pivot_root . old && cd / && umount -l old || exit 99
                        exec setpriv --reuid 1234 --regid 1234 --clear-groups env -i HOME=/home/capo PATH=/usr/bin:/bin "${@:n+1}"' \
                        bash "$roots/apptainer" 3 "$source" "$build" "$work" "$@"
        }
fi
image=(apptainer --quiet exec --bind "$source,$build,$work" --pwd "$work" "$roots/apptainer-image")
as_user "${image[@]}" true >"$work/out" 2>&1 || { echo "Apptainer cannot run an image here: $(tail -n 1 "$work/out")"; exit 77; }
run=("$capo" run --quiet --dir "$work/logs" --)
launch=("$build/tests/jobs/launch" -n 2 --)
train=("$build/tests/jobs/ddp_train" --epochs 1)

# try WHAT COMMAND...: starts a job of two ranks that is recorded
try() {
        local what=$1
        shift
        as_user "$@" >"$work/out" 2>&1 || fail "$what: $(cat "$work/out")"
        "$capo" report --json "$work/logs" 2>"$work/err" |
                python3 -c 'import json, sys; r = json.load(sys.stdin); assert r["ranks"] == 2 and len(r["processes"]) == 2 and r["rows"]' 2>/dev/null ||
                fail "$what: not a job of two ranks: $(cat "$work/err" "$work/out")"
        rm -rf "$work/logs"
}
try "capo run in the image" "${image[@]}" "${run[@]}" "${launch[@]}" "${train[@]}"
try "capo run outside" "${run[@]}" "${image[@]}" "${launch[@]}" "${train[@]}"
try "each rank in an image, capo run in it" "${launch[@]}" "${image[@]}" "${run[@]}" "${train[@]}"
try "each rank in an image, capo run outside" "${launch[@]}" "${run[@]}" "${image[@]}" "${train[@]}"
as_user "${image[@]}" "$capo" check >"$work/out" 2>&1 || fail "capo check: $(cat "$work/out")"
grep -q 'a preload works' "$work/out" || fail "capo check: $(cat "$work/out")"
[ $bad = 0 ] && echo "tried: $(as_user apptainer --version)"
exit $bad
