#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The checks of .ci/run and .ci/deep, one function each, and how a check is run and counted.
# Sourced by both; .ci/checks.sh COMMAND... runs one function or command from the top of the tree.
set -u
if [ "${BASH_SOURCE[0]}" = "$0" ]; then
        cd "$(dirname "$0")/.." || exit
        own_logs=
        [ -n "${logs-}" ] || own_logs=1
fi
logs=${logs:-$(mktemp -d)}
export logs
# Here a failed check leaves its whole output.
keep=${keep:-build-ci}
[ -z "${own_logs-}" ] || trap 'rm -rf "$logs"' EXIT
# A check that does not end is stopped and named, and the next one runs. At a terminal there is no limit: a person can interrupt it.
limit=${limit:-1500} # seconds, on a machine with no other load
passed=0
failed=0
skipped=0

# check NAME COMMAND...: runs the command and counts it. When it fails, the end of its output is printed and the whole
# output is kept in $keep/NAME.log. Status 77 means that the check cannot run on this machine. Returns the command's status.
check() {
        local name=$1 begin=$SECONDS status=0 most guard
        shift
        most=$((limit * (1 + $(cut -d. -f1 /proc/loadavg) / $(nproc))))
        guard=(timeout -k 30 "$most")
        [ -t 0 ] && guard=()
        "${guard[@]}" bash .ci/checks.sh "$@" >"$logs/$name" 2>&1 </dev/null || status=$?
        case $status in
        124 | 137) [ $((SECONDS - begin)) -lt "$most" ] || echo "it did not end within $most s" >>"$logs/$name" ;;
        esac
        rm -f "$keep/$name.log"
        case $status in
        0)
                passed=$((passed + 1))
                echo "ok    $name ($((SECONDS - begin)) s)"
                [ ! -s "$logs/$name" ] || ! grep -qa '^unsteady: ' "$logs/$name" || {
                        grep -a '^unsteady: ' "$logs/$name" | sort -u
                        failed_tests_output "$logs/$name"
                } | sed 's/^/      /'
                ;;
        77)
                skipped=$((skipped + 1))
                echo "SKIP  $name: $(tail -n 1 "$logs/$name")"
                ;;
        *)
                failed=$((failed + 1))
                echo "FAIL  $name ($((SECONDS - begin)) s)"
                {
                        # The failed tests come first: whoever keeps this output may keep only its beginning.
                        grep -aE '^ *[0-9]+/[0-9]+ .* (FAIL|TIMEOUT|ERROR) ' "$logs/$name"
                        failed_tests_output "$logs/$name"
                        tail -n 60 "$logs/$name"
                        mkdir -p "$keep" && cp "$logs/$name" "$keep/$name.log" && echo "the whole output: $keep/$name.log"
                } | sed 's/^/      /'
                ;;
        esac
        return $status
}

# The end of each failed test's output. meson prints it between a line with scissors and a line without.
failed_tests_output() {
        awk '/✀|8</ { n = 0; inside = 1 }
             inside { line[n++] = $0 }
             inside && /^((―)+|-+)$/ { for (i = n > 40 ? n - 40 : 0; i < n; i++) print line[i]; inside = 0 }' "$1"
}

# Adds the counts of single tests, which ./dev test prints as its last line, to those of the checks.
count_tests() {
        local p f s
        read -r p f s < <(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p' "$1" | tail -n 1) || return 0
        passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# Installs packages that only these checks use; ./dev installs the others.
need() {
        local missing=
        for p in "$@"; do
                dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
        done
        [ -z "$missing" ] && return 0
        local sudo=
        [ "$(id -u)" = 0 ] || sudo=sudo
        echo "installing for the checks:$missing"
        $sudo apt-get update -qq
        # shellcheck disable=SC2086
        $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
}

# A build folder of its own. Warnings are errors there unless the options say otherwise.
configure() { # compiler folder options...
        local cc=$1 dir=$2
        shift 2
        [ -e "$dir/build.ninja" ] || CC=$cc meson setup "$dir" -Dwerror=true "$@"
}

# The SPANK plugin is built where Slurm's headers were when meson looked.
slurm_cluster() {
        need slurmctld slurmd slurm-client munge libslurm-dev || return 1
        ninja -C build deploy/slurm/spank_capo.so || {
                meson setup --reconfigure build && ninja -C build deploy/slurm/spank_capo.so
        } || return 1
        tests/slurm/slurm.sh build/cli/capo .
}

fleet_engines() {
        need default-jre-headless || echo "Java cannot be installed here: Spark is left out"
        [ -x build-fleet/bin/python ] || python3 -m venv build-fleet || return 1
        build-fleet/bin/pip install -q duckdb pyspark || {
                echo "duckdb and pyspark cannot be installed here"
                return 77
        }
        CAPO_PYTHON=$PWD/build-fleet/bin/python tests/fit/fleet.sh build/cli/capo build/tests/golden/gen_job . 20 64
}

kubernetes_schemas() {
        [ -x build-kubernetes/bin/python ] || python3 -m venv build-kubernetes || return 1
        build-kubernetes/bin/pip install -q kubernetes-validate==1.37.0 pyyaml || {
                echo "kubernetes-validate cannot be installed here"
                return 77
        }
        build-kubernetes/bin/python tests/kubernetes/webhook.py . --need-schemas || return 1
        [ -z "${KUBE_APISERVER:-}" ] || build-kubernetes/bin/python tests/kubernetes/api_server.py .
}

launchers() {
        need openmpi-bin mpich || return 1
        # the packages of the two module systems exclude each other
        [ -e /usr/share/lmod/lmod/init/bash ] || need environment-modules || return 1
        tests/slurm/launchers.sh build/cli/capo .
}

build_with() {
        configure "$@" && ninja -C "$2"
}

# Tests of a build that ./dev made, or of a sanitizer's: two at a time per processor, because many tests wait half of their time.
# One that fails is run again by itself, twice at most, and named if it passes then.
run_tests() { # folder options...
        local dir=$1 multiplier
        shift
        multiplier=$((4 + $(cut -d. -f1 /proc/loadavg) / $(nproc)))
        rm -f "$dir/meson-logs/testlog.json" "$dir/meson-logs/again.json"
        MESON_TESTTHREADS=${MESON_TESTTHREADS:-$((3 * $(nproc)))} meson test -C "$dir" --print-errorlogs \
                --timeout-multiplier "$multiplier" "$@" || python3 tests/again.py "$dir" "$multiplier"
}

format_check() {
        # git refuses to list files where there is no repository, or one of another user's.
        git -c safe.directory="$PWD" ls-files -z '*.c' '*.h' >"$logs/sources" || {
                echo "git does not list the sources here"
                return 77
        }
        xargs -0 clang-format-14 --dry-run -Werror <"$logs/sources"
}

# What a package is made of. It has no tests; clang reads those for warnings.
release() {
        build_with gcc build-release -Dtests=disabled --buildtype=release
}

# Suites under ASan and UBSan. At -O1, because gcc takes twice as long for these checks at -O2. Warnings are not errors
# here: at -O1 gcc knows less and warns of what is not so; tsan's build is the strict one. Only what these suites need is built, with lines
# for the stacks of reports and no more (-g1).
configure_asan() {
        configure gcc build-asan -Dwerror=false -Dtests=enabled -Doptimization=1 -Dc_args=-g1 -Db_sanitize=address,undefined -Db_lundef=false
}

asan() { # suites...
        configure_asan || return 1
        local suites=()
        for s in "$@"; do suites+=(--suite "$s"); done
        ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
                run_tests build-asan "${suites[@]}"
}

asan_others() {
        configure_asan && ninja -C build-asan && asan golden fragment fit fuzz
}

# Everything with threads, under TSan. Left out: fork-loader, last-thread, python, close and close-early, which this
# sanitizer does not survive (it has a thread and locks of its own, needs an interpreter built with it, and keeps
# descriptors that the test closes); "fabric clients" and "fabric outstanding" (a libfabric without it); the unit tests (libcriterion fails under it). front, secure, stepped and small-exit skip themselves.
tsan() {
        # -Wno-tsan: this sanitizer knows no fences, and warns of each; the two here stand beside acquiring loads
        build_with gcc build-tsan -Dtests=enabled -Db_sanitize=thread -Db_lundef=false -Dc_args=-Wno-tsan || return 1
        local preload
        export TSAN_OPTIONS=die_after_fork=0:report_thread_leaks=0
        preload=$(meson test -C build-tsan --no-rebuild --list --suite preload | sed -n 's|^capo:preload / ||p' |
                grep -vxE 'fork-loader|last-thread|python|close|close-early')
        # shellcheck disable=SC2086
        run_tests build-tsan --no-rebuild --suite recorder && run_tests build-tsan --no-rebuild --suite preload $preload &&
                run_tests build-tsan --no-rebuild --suite fabric "fabric fake" &&
                run_tests build-tsan --no-rebuild --suite e2e hang hang-watch hang-network hang-throttled
}

# One clang build folder: every source in it is read for warnings, tests too, and only the fuzz targets are compiled.
configure_clang() {
        configure clang build-fuzz -Dtests=enabled -Dfuzz=true -Db_lundef=false
}

clang_warnings() {
        configure_clang && ninja -C build-fuzz cli/commit.h && tests/analysis/clang_warnings.py build-fuzz
}

# Every reader of foreign bytes: the kept corpora, then new inputs from a fixed seed.
fuzz() { # seconds for each target
        configure_clang && ninja -C build-fuzz fuzzers || return 1
        RUNS=$((($1 + 2) / 3)) SECONDS_EACH=$((5 * $1)) tests/fuzz/run.sh build-fuzz
}

# What four analysers find in the product, in the releases that Debian 12 has.
analysis() {
        need clang-tidy-14 cppcheck clang-14 || {
                echo "clang-tidy-14, cppcheck and clang-14 cannot be installed"
                return 77
        }
        python3 tests/analysis/run.py build clang-tidy cppcheck gcc clang
}

memcheck() {
        need valgrind || {
                echo "valgrind cannot be installed"
                return 77
        }
        tests/faults/valgrind.sh build
}

aarch64() {
        need gcc-aarch64-linux-gnu qemu-user-static || {
                echo "the cross compiler or qemu-user cannot be installed"
                return 77
        }
        tests/aarch64/run.sh build/cli/capo
}

exports() {
        run_tests build --no-rebuild --suite exports
}

# The installed tree works by itself: capo finds its libraries beside it.
install_tree() {
        local prefix=$logs/prefix capo
        meson install -C build --no-rebuild --destdir "$prefix" || return 1
        capo=$(find "$prefix" -name capo -type f -perm -u+x | head -n 1)
        [ -n "$capo" ] && "$capo" --version && "$capo" run --dir "$logs/installed" -- true
}

# The suite that ./dev test leaves out, with Debian's own MPI over libfabric 1.17.
slow_tests() {
        need openmpi-bin libopenmpi-dev || echo "Debian's MPI cannot be installed; its test is skipped"
        tests/fabric/wheels.sh .deps/mpi || :
        need chromium || echo "Chromium cannot be installed; the test of the HTML page is skipped"
        run_tests build --no-rebuild --suite slow
}

# With its exit the block is read as a whole, so that the file may be edited while a check runs.
if [ "${BASH_SOURCE[0]}" = "$0" ]; then
        "$@"
        exit
fi
