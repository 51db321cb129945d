#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The libFuzzer programs of a build with -Dfuzz=true, two side by side: first what each corpus has, then new inputs. The seed and
# the number of runs are fixed, so that the same sources are asked the same questions; RUNS multiplies them: with 10, half a minute each.
# An input that fails is kept in FINDS and ends the check with 1.
# usage: run.sh BUILD_FOLDER [FINDS]
set -u
build=$(realpath "$1") here=$(dirname "$(realpath "$0")")
finds=${2:-$build/finds}
mkdir -p "$finds"
finds=$(realpath "$finds")
export build here finds

# About three seconds of a core each. hang is 10,000 a second, or 150 where an input says that its job has a million ranks, and is asked on.
runs() {
        case $1 in
        hang) echo $((2000 * ${RUNS:-1})) ;;
        topology) echo $((3000 * ${RUNS:-1})) ;;
        store) echo $((4000 * ${RUNS:-1})) ;;
        cpython | hung | import | page | segment) echo $((5000 * ${RUNS:-1})) ;;
        env | grammar | graph | log | profile) echo $((20000 * ${RUNS:-1})) ;;
        *) echo $((100000 * ${RUNS:-1})) ;;
        esac
}

# The same addresses each time, where that is allowed: what libFuzzer takes for new depends on them.
still=
setarch -R true 2>/dev/null && still='setarch -R'
export still

one() {
        local t=$1 n=$2 new took leaks=1 TIMEFORMAT='%U %S'
        [ "$t" != topology ] || leaks=0 # libxml2, which hwloc loads, does not give back the name of an encoding it does not know
        new=$(mktemp -d -p /dev/shm) # each new input is a file: on a disk a twentieth of the time goes into making them
        # shellcheck disable=SC2086
        if took=$({ time ASAN_OPTIONS=detect_leaks=$leaks $still "$build/tests/fuzz/fuzz_$t" -seed=1 -runs="$n" -timeout=300 \
                -rss_limit_mb=0 -max_len=8192 -close_fd_mask=1 -artifact_prefix="$finds/$t-" "$new" "$here/corpus/$t" \
                >"$new.log" 2>&1; } 2>&1); then
                awk -v t="$t" -v n="$n" '{ printf "%-9s %8d executions, %7.0f per second of a processor\n", t, n, n / ($1 + $2) }' \
                        <<<"$took"
                rm -rf "$new" "$new.log"
        else
                grep -avE '^#[0-9]+[[:space:]]+(NEW|REDUCE|pulse|RELOAD)' "$new.log" | tail -n 40 # why, and not what went before it
                rm -rf "$new" "$new.log"
                echo "$t: an input that fails is in $finds"
                return 1
        fi
}
export -f one

for t in "$here"/corpus/*/; do
        t=$(basename "$t")
        echo "$t $(runs "$t")"
done | xargs -P 2 -L 1 bash -c 'one "$@"' fuzz
