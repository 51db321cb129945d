#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: valgrind.sh BUILD [CASE...]: cases of the preload suite with the recorded program under memcheck: no error, and the logs are
# what they are without. Leaks are not looked for: memory of the recorder that no file stands behind yet, or whose folder is full, is a
# fault for each word of it to who reads it all (a process that ends at once, small-shm: minutes). Left out by default, for their time:
# threads (300, and valgrind runs one at a time), gpu, devices, how, kernel, gpu-pending, gpu-kill, which are without an error, too; and
# busy-exit, whose threads, one at a time, can keep the drain thread from its end for longer than an exit waits (5 s: 7 of 120 runs). What
# cannot be: secure, exec (valgrind starts no set-user-id program, and has a /proc/self/exe of its own), plugin (glibc's loader reads a word
# behind a name, dl-load.c: is_dst()), python (reads unset bytes by itself).
set -u
build=$(realpath "$1")
shift
preload=$(dirname "$(realpath "$0")")/../preload/preload.sh
command -v valgrind >/dev/null || {
        echo "no valgrind here"
        exit 77
}
[ $# -gt 0 ] || set -- linked old dlsym default two missing errors groups comms churn fork trace flight drops kill kill-in no-shm small-shm config off
tmp=$(mktemp -d "${TMPDIR:-/tmp}/capo-valgrind-XXXXXX")
trap 'rm -rf "$tmp"' EXIT
bad=0
for case in "$@"; do
        CAPO_TEST_UNDER="valgrind -q --leak-check=no --error-exitcode=99 --log-file=$tmp/said.%p" \
                "$preload" "$case" "$build/shim/libcapo.so" "$build/tests/preload" "$build/cli/capo" >"$tmp/out" 2>&1
        status=$?
        if [ $status -ne 0 ] && [ $status -ne 77 ]; then # 77: such as that nothing can be mounted here
                bad=1
                echo "$case: status $status"
                cat "$tmp/out" "$tmp"/said.* 2>/dev/null | head -n 60
        fi
        rm -f "$tmp"/said.*
done
[ $bad = 0 ] && echo "$# cases without an error"
exit $bad
