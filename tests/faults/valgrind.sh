#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: valgrind.sh BUILD [CASE...]: cases of the preload suite with the recorded program under memcheck: no error, and the logs are
# what they are without. Left out: limits that valgrind itself does not bear, 300 threads (valgrind runs one at a time), Python and the
# stand-in for NCCL (their own reads and writes of unset bytes), a dlopen of glibc's that reads a word too far.
set -u
build=$(realpath "$1")
shift
preload=$(dirname "$(realpath "$0")")/../preload/preload.sh
command -v valgrind >/dev/null || {
        echo "no valgrind here"
        exit 77
}
[ $# -gt 0 ] || set -- linked old dlsym default two missing errors groups comms churn fork trace flight drops kill kill-in no-shm config off
tmp=$(mktemp -d "${TMPDIR:-/tmp}/capo-valgrind-XXXXXX")
trap 'rm -rf "$tmp"' EXIT
bad=0
for case in "$@"; do
        CAPO_TEST_UNDER="valgrind -q --error-exitcode=99 --log-file=$tmp/said.%p" \
                "$preload" "$case" "$build/shim/libcapo.so" "$build/tests/preload" "$build/cli/capo" >"$tmp/out" 2>&1
        status=$?
        if [ $status -ne 0 ]; then
                bad=1
                echo "$case: status $status"
                cat "$tmp/out" "$tmp"/said.* 2>/dev/null | head -n 60
        fi
        rm -f "$tmp"/said.*
done
[ $bad = 0 ] && echo "$# cases without an error"
exit $bad
