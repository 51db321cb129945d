#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs one kind of package in a bare root, uses it there, upgrades, downgrades and removes it, and lists what is left.
# usage: try_package.sh KIND ROOT DIST LIBNCCL [NEXT]      KIND is tarball, wheel, deb or rpm; ROOT is not changed
# NEXT has the packages of a later version.
# ROOT has Python with venv. LIBNCCL is the tests' own, which needs no GPU. As root only: it mounts and changes its root.
set -u
[ $# = 4 ] || [ $# = 5 ] || { sed -n 4p "$0" >&2; exit 2; }
kind=$1 dist=$3 next=${5-}
if [ -z "${IN_ROOT-}" ]; then
        [ "$(id -u)" = 0 ] || { echo "not root: no bare root can be entered"; exit 77; }
        IN_ROOT=$(mktemp -d "${TMPDIR:-/tmp}/capo-root-XXXXXX") || exit 99
        export IN_ROOT
        unshare --mount --pid --fork -- "$0" "$@"
        status=$?
        rm -rf "$IN_ROOT"
        exit $status
fi
here=$(dirname "$(realpath "$0")")
changes=$IN_ROOT/changes root=$IN_ROOT/root
mkdir "$changes" "$IN_ROOT/work" "$root"
mount -t overlay overlay -o "lowerdir=$(realpath "$2"),upperdir=$changes,workdir=$IN_ROOT/work" "$root" || exit 99
mkdir -p "$root/try"
mount -t tmpfs tmpfs "$root/try" && mount -t proc proc "$root/proc" && mkdir -p "$root/dev/shm" && mount -t tmpfs tmpfs "$root/dev/shm" || exit 99
cp "$4" "$root/try/libnccl.so.2"
cp "$here/../../tests/exports/nccl_job.py" "$dist"/* "$root/try/"
[ -z "$next" ] || cp -r "$next" "$root/try/next"
real=$(for f in ${CAPO_NCCL-} /usr/local/cuda*/lib*/libnccl.so.2; do [ ! -e "$f" ] || { realpath "$f"; break; }; done)
[ -z "$real" ] || { touch "$root/try/real.so" && mount --bind "$real" "$root/try/real.so"; } || exit 99
bad=0
fail() { echo "$kind: $*"; bad=1; }
inside() { chroot "$root" env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/root LC_ALL=C.UTF-8 "$@"; }

# What a user does first. Each line has to succeed.
use() { # the command's words
        inside "$@" --version >"$IN_ROOT/said" 2>&1 || fail "--version: $(cat "$IN_ROOT/said")"
        for which in --preload --plugin; do
                lib=$(inside "$@" env $which) && inside test -e "$lib" || fail "env $which: $lib"
        done
        inside "$@" run --quiet --dir /try/logs -- python3 /try/nccl_job.py /try/libnccl.so.2 >"$IN_ROOT/said" 2>&1 || fail "run: $(cat "$IN_ROOT/said")"
        inside "$@" report /try/logs >"$IN_ROOT/page" 2>&1 || fail "report: $(cat "$IN_ROOT/page")"
        grep -qE '^AllReduce .* 20 ' "$IN_ROOT/page" || fail "the report has no 20 calls: $(cat "$IN_ROOT/page")"
        rm -rf "$root/try/logs"
        inside "$@" topo --platform dgx1v --gpus 0,1,2 >"$IN_ROOT/said" 2>&1 || fail "topo: $(cat "$IN_ROOT/said")"
        inside "$@" top </dev/null 2>&1 | grep -q "without ncurses" && fail "capo top has no screen"
        inside "$@" profile list 2>&1 | grep -q b300-8-ring || fail "the shipped profiles are not found"
        [ -z "$real" ] || inside "$@" plan --libnccl /try/real.so --platform dgx1v --gpus 0,1,2 >"$IN_ROOT/said" 2>&1 ||
                fail "plan: $(cat "$IN_ROOT/said")"
}

# The man page, and each page that README links to. @1: share
pages() {
        inside sh -c "gzip -cdf $1/man/man1/capo.1* | grep -q '^.TH CAPO'" || fail "no man page in $1"
        for page in $(grep -o '](docs[^)#:]*' "$root$1/doc/capo/README.md" | cut -c3-); do
                inside test -s "$1/doc/capo/$page" || fail "README links to $page, which is not there"
        done
}

# Replaces the packages by those of another version, and uses them.
# @1: what this is; @2: a command, run inside; the rest: the command's words
change() {
        what=$1
        inside sh -c "$2" >"$IN_ROOT/said" 2>&1 || fail "$what: $(cat "$IN_ROOT/said")"
        shift 2
        use "$@"
}

# Slurm's line leads to the plugin, where there is a package of it.
slurm_plugin() {
        [ ! -e "$(ls "$dist"/capo-slurm[-_]*."$kind" 2>/dev/null)" ] || inside sh -c 'test -e $(sed -n "s/^optional //p" /usr/share/capo/slurm/plugstack.conf)' ||
                fail "no SPANK plugin"
}

case $kind in
tarball)
        inside mkdir /opt/capo
        inside sh -c 'tar xzf /try/capo-*64.tar.gz -C /opt/capo --strip-components 1' || fail "it cannot be unpacked"
        use /opt/capo/bin/capo
        pages /opt/capo/share
        [ -z "$next" ] || { # two versions beside each other
                inside mkdir /opt/next
                change "another version" 'tar xzf /try/next/capo-*64.tar.gz -C /opt/next --strip-components 1' /opt/next/bin/capo
                use /opt/capo/bin/capo
                inside rm -r /opt/next
        }
        inside rm -r /opt/capo
        ;;
wheel)
        inside python3 -m venv /try/venv
        inside sh -c '/try/venv/bin/pip -q --no-cache-dir --disable-pip-version-check install --no-index /try/capo_nccl-*.whl' || fail "pip install"
        use /try/venv/bin/capo
        use /try/venv/bin/python3 -m capo
        inside grep -q '^.TH CAPO' /try/venv/share/man/man1/capo.1 || fail "no man page"
        [ -z "$next" ] || for of in next/ ''; do
                change "pip install ${of:-downgrade}" "/try/venv/bin/pip -q --no-cache-dir --disable-pip-version-check install --no-index /try/${of}capo_nccl-*.whl" /try/venv/bin/capo
        done
        [ "$(inside /try/venv/bin/python3 -c 'import capo; print(capo.preload())')" = "$(inside /try/venv/bin/capo env --preload)" ] || fail "preload()"
        inside /try/venv/bin/pip -q --disable-pip-version-check uninstall -y capo-nccl
        left=$(cd "$root/try/venv" && find . -path '*capo*')
        [ -z "$left" ] || fail "pip uninstall left: $left"
        ;;
deb)
        inside sh -c 'dpkg -i /try/*.deb' >"$IN_ROOT/said" 2>&1 || fail "dpkg -i: $(cat "$IN_ROOT/said")"
        use capo
        pages /usr/share
        [ -z "$next" ] || for of in next/ ''; do
                change "dpkg -i ${of:-downgrade}" "dpkg -i /try/$of*.deb" capo
        done
        inside python3 -c 'import ctypes; ctypes.CDLL("libnccl-tuner-capo.so").ncclTunerPlugin_v4' || fail "the plugin is not found by its name"
        slurm_plugin
        # shellcheck disable=SC2046
        inside dpkg --purge $(inside sh -c 'for p in /try/*.deb; do dpkg-deb -f $p Package; done') >"$IN_ROOT/said" 2>&1 || fail "dpkg --purge: $(cat "$IN_ROOT/said")"
        # a folder that other packages know by another path: /lib/systemd/system
        grep -i warning "$IN_ROOT/said" | grep -v systemd/system && fail "dpkg --purge warns"
        ;;
rpm)
        # The packages ask for glibc by its symbols, which no RPM provides in this root, nor a shell and env: everything else has to be there.
        needs=$(rpm -qpR "$dist"/*.rpm | grep -vE '^(capo|libcapo|libnccl-tuner-capo) = |^/bin/sh$|^/usr/bin/env$|^rpmlib\(|^rtld\(|^(ld-linux-.*|lib(c|m|dl|pthread))\.so\.')
        [ -z "$needs" ] || fail "needs more than glibc: $needs"
        rpm --root "$root" --force-debian --nodeps -i "$root"/try/*.rpm || fail "rpm -i"
        use capo
        pages /usr/share
        [ -z "$next" ] || for of in next/ ''; do
                rpm --root "$root" --force-debian --nodeps -U --oldpackage "$root"/try/$of*.rpm || fail "rpm -U ${of:-downgrade}"
                use capo
        done
        [ -e "$root/usr/lib64/libcapo.so" ] || fail "no library in lib64"
        slurm_plugin
        # shellcheck disable=SC2046
        rpm --root "$root" --force-debian -e $(rpm -qp --qf '%{name} ' "$dist"/*.rpm) || fail "rpm -e"
        ;;
*) fail "expected tarball, wheel, deb or rpm, found \"$kind\"" ;;
esac

# Every change of the root is a file in the overlay; package managers keep lists of their own, and the loader keeps a cache.
grep -q capo "$changes/etc/ld.so.cache" 2>/dev/null && fail "the loader's cache names a library that is gone"
left=$(cd "$changes" && find . ! -type d ! -path ./etc/ld.so.cache ! -path './var/lib/dpkg/*' ! -path './var/log/*' ! -path './var/cache/*' ! -path './var/lib/rpm/*' ! -path './root/.rpmdb/*' ! -name '*.pyc'; find . -type d -path '*capo*')
[ -z "$left" ] || fail "left behind: $(echo "$left" | head -n 20)"
[ $bad = 0 ] && echo "ok    $kind in $(. "$root/etc/os-release" && echo "$PRETTY_NAME"), $(inside ldd --version | sed -n '1s/.* /glibc /p')"
exit $bad
