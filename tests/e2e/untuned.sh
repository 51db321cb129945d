#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A profile was given: either NCCL asks capo's tuner, whatever form of name its release takes, or somebody says that it did not.
# usage: untuned.sh CAPO SOURCE
set -u
capo=$(realpath "$1")
build=$(realpath "$(dirname "$capo")/..")
jobs=$build/tests/jobs
library=$build/shim/libcapo.so
work=$(mktemp -d "${TMPDIR:-/tmp}/capo-untuned.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
unset NCCL_TUNER_PLUGIN NCCL_PROFILER_PLUGIN CAPO_PROFILE CAPO_SWEEP
export LD_LIBRARY_PATH="$build/tests/standin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
cat >p.json <<'END'
{"capo_profile": 1, "rules": [{"when": {}, "allreduce": [{"upto": "max", "algo": "tree", "proto": "ll", "channels": 1}]}]}
END
perf="$jobs/launch -n 2 --timeout 600 -- $jobs/coll_perf allreduce -b 1M -e 1M -n 3 -w 1"
bad=0
fail() {
        echo "FAIL $*"
        cat said 2>/dev/null
        bad=1
}
ran() { python3 -c "import json; print(*sorted({(r['algo'], r['proto']) for r in json.load(open('$1'))['rows'] if r['call'] == 'AllReduce'}))"; }

# 2.27.3 takes no path, and capo run gives one: the preload library turns it into its name before NCCL reads it.
for version in 2.26.5 2.27.3 2.27.7 2.30.7; do
        # shellcheck disable=SC2086
        CAPO_STANDIN_NCCL_VERSION=$version "$capo" run --quiet --profile p.json --dir "$version" -- $perf >said 2>&1 || fail "$version: the job"
        grep -q "has not loaded" said && fail "$version: called untuned"
        "$capo" report --json "$version" >"$version.json" || fail "$version: report"
        [ "$(ran "$version.json")" = "('Tree', 'LL')" ] || fail "$version: $(ran "$version.json") ran"
        grep -q not_tuned "$version.json" && fail "$version: the page calls it untuned"
done

# A release without tuners, configured with one by hand: each rank reports it once, and the page begins with it.
# shellcheck disable=SC2086
CAPO_STANDIN_NCCL_VERSION=2.18.3 LD_PRELOAD=$library NCCL_TUNER_PLUGIN=$library CAPO_PROFILE=$work/p.json CAPO_DIR=$work/old $perf >said 2>&1 || fail "2.18.3: the job"
[ "$(grep -c "NCCL 2.18.3 has not loaded capo's tuner" said)" = 2 ] || fail "2.18.3: said $(grep -c "has not loaded" said) times by two ranks"
"$capo" report --wide old >said 2>&1
grep -q "! .*NCCL 2.18.3 never loaded capo's tuner" said || fail "2.18.3: the page"

# The plugin by its name, without the preload library's path: a release that does not find or take it, and no plugin at all.
for how in "2.20.5 capo" "2.28.9 nowhere" "2.28.9 "; do
        version=${how%% *} plugin=${how#* }
        # shellcheck disable=SC2086
        CAPO_STANDIN_NCCL_VERSION=$version LD_PRELOAD=$library NCCL_TUNER_PLUGIN=$plugin CAPO_PROFILE=$work/p.json CAPO_DIR=$work/by-name $perf >said 2>&1 || fail "$how: the job"
        [ "$(grep -c "NCCL $version has not loaded capo's tuner (NCCL_TUNER_PLUGIN=$plugin), .*; use NCCL_TUNER_PLUGIN=$library" said)" = 2 ] ||
                fail "$how: the line is not there twice, once a rank"
        "$capo" report --wide by-name >said 2>&1
        grep -q "! .*NCCL $version never loaded capo's tuner" said || fail "$how: the page"
        grep -q "tuner capo, profile" said && fail "$how: the page calls the tuner loaded"
        rm -r by-name
done
# A sweep by hand, and no tuner.
# shellcheck disable=SC2086
LD_PRELOAD=$library CAPO_SWEEP='colls=allreduce algos=ring+tree calls=4' CAPO_DIR=$work/swept $perf >said 2>&1 || fail "sweep: the job"
grep -q "has not loaded capo's tuner (NCCL_TUNER_PLUGIN=), so the sweep is not used" said || fail "sweep: the line"
"$capo" report --wide swept >said 2>&1
grep -q "! a sweep was given, and NCCL .* never loaded capo's tuner" said || fail "sweep: the page"
# CAPO_TUNER=off asks for no tuner.
# shellcheck disable=SC2086
CAPO_TUNER=off LD_PRELOAD=$library CAPO_PROFILE=$work/p.json CAPO_DIR=$work/off $perf >said 2>&1 || fail "off: the job"
grep -q "has not loaded" said && fail "off: called untuned"
# capo run gives a name that no release refuses.
# shellcheck disable=SC2086
CAPO_STANDIN_NCCL_VERSION=2.20.5 NCCL_TUNER_PLUGIN=capo CAPO_PROFILE=$work/p.json "$capo" run --quiet --dir named -- $perf >said 2>&1 || fail "named: the job"
grep -q "has not loaded" said && fail "named: untuned"

# Preloaded, and the installed plugin by its name: one tuner, whose rules are in the records; rows that turn calls work.
cat >turns.json <<'END'
{"capo_profile": 1, "rules": [{"when": {}, "allreduce": [{"upto": "max", "algo": "tree", "proto": "ll", "channels": 1, "ctas": 2}]}]}
END
for version in 2.21.5 2.28.9 2.32.3; do
        # shellcheck disable=SC2086
        LD_LIBRARY_PATH=$build/tuner:$LD_LIBRARY_PATH CAPO_STANDIN_NCCL_VERSION=$version LD_PRELOAD=$library NCCL_TUNER_PLUGIN=capo NCCL_PROFILER_PLUGIN=capo \
                CAPO_STEER=1 CAPO_PROFILE=$work/turns.json CAPO_DIR=$work/installed-$version $perf >said 2>&1 || fail "installed $version: the job"
        grep -q "has not loaded\|is it preloaded" said && fail "installed $version: called untuned or not preloaded"
        "$capo" report --wide "installed-$version" >said 2>&1
        grep -q "profile.*turns.json" said || fail "installed $version: the report knows no profile"
done
exit $bad
