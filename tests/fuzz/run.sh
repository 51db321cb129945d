#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The libFuzzer programs of a build with -Dfuzz=true, two side by side: first what each corpus has, then new inputs. The seed and
# the number of runs are fixed, so that the same sources are asked the same questions; RUNS multiplies them: with 10, half a minute each.
# Where that takes SECONDS_EACH all the same, it ends there, and says how far it came. An input that fails, or takes a minute, is kept in
# FINDS and ends the check with 1.
# usage: run.sh BUILD_FOLDER [FINDS]
set -u
build=$(realpath "$1") here=$(dirname "$(realpath "$0")")
finds=${2:-$build/finds}
mkdir -p "$finds"
finds=$(realpath "$finds")
export build here finds

# About three seconds of a core each.
runs() {
        case $1 in
        topology) echo $((3000 * ${RUNS:-1})) ;;
        store) echo $((4000 * ${RUNS:-1})) ;;
        cpython | hung | import | page | segment) echo $((5000 * ${RUNS:-1})) ;;
        env | grammar | graph | hang | inputs | log | profile) echo $((20000 * ${RUNS:-1})) ;;
        *) echo $((100000 * ${RUNS:-1})) ;;
        esac
}

# The same addresses each time, where that is allowed: what libFuzzer takes for new depends on them.
still=
setarch -R true 2>/dev/null && still='setarch -R'
export still

one() {
        local t=$1 n=$2 more new took did TIMEFORMAT='%U %S'
        more=$([ "$t" != import ] || echo "$here/../fit/data")
        new=$(mktemp -d -p /dev/shm) # each new input is a file: on a disk a twentieth of the time goes into making them
        # shellcheck disable=SC2086
        if took=$({ time ASAN_OPTIONS=detect_leaks=1 $still "$build/tests/fuzz/fuzz_$t" -seed=1 -runs="$n" \
                -max_total_time="${SECONDS_EACH:-150}" -timeout=60 -rss_limit_mb=0 -max_len=8192 -close_fd_mask=1 \
                -artifact_prefix="$finds/$t-" "$new" "$here/corpus/$t" $more >"$new.log" 2>&1; } 2>&1); then
                did=$(sed -n 's/^Done \([0-9]*\) runs in .*/\1/p' "$new.log")
                awk -v t="$t" -v n="${did:?}" -v of="$n" '{
                        printf "%-9s %8d executions%s, %7.0f per second of a processor\n", t, n, n < of ? " of " of : "", n / ($1 + $2)
                }' <<<"$took"
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
