#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The preload library under a real glibc 2.31 (Debian 11's, unpacked below .deps, not installed): a program that knows
# nothing of it starts, and a Python program of two threads that reaches NCCL by dlopen has every call recorded, with its stack.
# usage: old_glibc.sh BUILD
set -u
build=$(realpath "$1")
deps=$PWD/.deps/debian11 root=$PWD/.deps/debian11/root
[ "$(uname -m)" = x86_64 ] || { echo "written for x86-64"; exit 77; }
command -v apt-get >/dev/null || { echo "no apt-get to bring Debian 11's glibc"; exit 77; }

if [ ! -e "$root/usr/bin/python3.9" ]; then
        keyring=/usr/share/keyrings/debian-archive-keyring.gpg
        mirror=$(grep -rhsoE 'https?://[^ ]*/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d | head -n 1)
        [ -e $keyring ] && [ -n "$mirror" ] || { echo "no Debian archive is set up here"; exit 77; }
        mkdir -p "$deps/lists/partial" "$deps/cache/archives/partial"
        echo "deb [signed-by=$keyring] $mirror bullseye main" >"$deps/sources.list"
        set -- -o Dir::Etc::sourcelist="$deps/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$deps/lists" \
                -o Dir::Cache="$deps/cache" -o Dir::State::status=/dev/null -o APT::Sandbox::User=root
        (cd "$deps" && apt-get "$@" -qq update && apt-get "$@" -qq download libc6 libgcc-s1 libffi7 zlib1g libexpat1 \
                python3.9-minimal libpython3.9-minimal libpython3.9-stdlib) >"$deps/apt.log" 2>&1 ||
                { tail -n 2 "$deps/apt.log"; echo "Debian 11's packages could not be had"; exit 77; }
        for p in "$deps"/*.deb; do dpkg -x "$p" "$root" || exit 1; done
        rm -rf "$deps/lists" "$deps/cache"
fi

tmp=$(mktemp -d "${TMPDIR:-/tmp}/capo-old-glibc-XXXXXX") || exit 99
trap 'rm -rf "$tmp"' EXIT
bad=0
fail() { echo "$*"; bad=1; }
libs=$root/lib/x86_64-linux-gnu:$root/usr/lib/x86_64-linux-gnu
old() { "$root/lib/x86_64-linux-gnu/ld-2.31.so" --preload "$build/shim/libcapo.so" --library-path "$libs" "$root/usr/bin/python3.9" "$@"; }
export PYTHONHOME="$root/usr" CAPO_DIR="$tmp/logs" CAPO_TRACE=all

[ "$(old -c 'print("hi")' 2>&1)" = hi ] || fail "a program that calls no NCCL: $(old -c 'print("hi")' 2>&1)"
[ ! -e "$tmp/logs" ] || fail "it left a log"

# a program of one thread without libpthread and libdl, which has not even what gcc starts a program with
cat >"$tmp/alone.c" <<'END'
#include <stdlib.h>
#include <unistd.h>
typedef struct { char b[128]; } Id;
int ncclGetUniqueId(Id *);
int ncclCommInitRank(void **, int, Id, int);
int ncclAllReduce(const void *, void *, size_t, int, int, void *, void *);
__attribute__((force_align_arg_pointer)) void _start(void)
{
        static char a[4096], b[4096];
        static Id id;
        void *comm;
        int r = ncclGetUniqueId(&id) || ncclCommInitRank(&comm, 1, id, 0);

        for (int i = 0; i < 10; i++)
                r |= ncclAllReduce(a, b, 10, 7, 0, comm, NULL);
        _exit(r);
}
END
fake=$build/tests/preload/fake
if gcc -nostartfiles -fno-stack-protector -O2 "$tmp/alone.c" -o "$tmp/alone" -L"$fake" -l:libnccl.so.2 2>/dev/null; then
        "$root/lib/x86_64-linux-gnu/ld-2.31.so" --preload "$build/shim/libcapo.so" --library-path "$libs:$fake" "$tmp/alone" || fail "without libpthread: status $?"
        "$build/cli/capo" report --json "$tmp/logs" 2>/dev/null | grep -q '"AllReduce"' || fail "without libpthread: no call is recorded"
        rm -rf "$tmp/logs"
fi

old "$(dirname "$0")/nccl_job.py" "$build/tests/preload/fake/libnccl.so.2" >"$tmp/out" 2>&1 || fail "the job: $(cat "$tmp/out")"
"$build/tests/preload/log_text" "$tmp"/logs/*.capo >"$tmp/log" || fail "no log"
[ "$(grep -c '^call AllReduce ' "$tmp/log")" = 20 ] || fail "calls: $(grep '^call ' "$tmp/log" | sort | uniq -c)"
grep -q '^end .* dropped=0 .* clean=1' "$tmp/log" || fail "$(grep '^end' "$tmp/log")"
unset PYTHONHOME
"$build/cli/capo" dump "$tmp"/logs/*.capo | grep -q 'libffi.so.7+0x' || fail "no call site has frames"
exit $bad
