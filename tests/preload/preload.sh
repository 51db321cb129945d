#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One case of the preload suite: run a program bare and preloaded, want the same output, look into its log.
# usage: preload.sh CASE LIBCAPO FOLDER-OF-THE-TEST-PROGRAMS CAPO     CAPO_TEST_UNDER=COMMAND: the recorded run is its argument
set -u
unset LD_LIBRARY_PATH # the programs know where their NCCL is
here=$(dirname "$(realpath "$0")")
case=$1
lib=$(realpath "$2")
bin=$3
capo=$4
tmp=$(mktemp -d "${TMPDIR:-/tmp}/capo-preload-XXXXXX")
trap 'chmod -R u+rwx "$tmp" 2>/dev/null; umount "$tmp/disk" 2>/dev/null; rm -rf "$tmp"' EXIT
mkdir "$tmp/shm"
CAPO_DIR=$tmp/logs
CAPO_SHM=$tmp/shm
export CAPO_DIR CAPO_SHM
export CAPO_GPU_SAMPLE=0
under=${CAPO_TEST_UNDER:-}
bad=0

fail() {
        echo "$case: $*"
        bad=1
}

# The program with and without the recorder: same output, same status.
both() {
        "$@" >"$tmp/bare.out" 2>"$tmp/bare.err"
        bare=$?
        # shellcheck disable=SC2086
        LD_PRELOAD=$lib $under "$@" >"$tmp/out" 2>"$tmp/err"
        status=$?
        [ $bare -eq $status ] || fail "exit status $status, bare $bare"
        cmp -s "$tmp/bare.out" "$tmp/out" || fail "output differs: $(cat "$tmp/out")"
        [ "$bare" -eq 0 ] || [ "$bare" -ge 128 ] || fail "the program failed by itself: $(cat "$tmp/bare.out")"
        "$bin/log_text" "$CAPO_DIR"/*.capo >"$tmp/log" 2>&1
}
want() { # want N LINE-PATTERN: so many lines of the log match
        n=$(grep -cE -- "$2" "$tmp/log")
        [ "$n" -eq "$1" ] || fail "$n lines, not $1, are like: $2"
}
counted() { # counted N LINE-PATTERN: the counts of the lines that match add up to that
        n=$(grep -E -- "$2" "$tmp/log" | sed 's/.* count=\([0-9]*\) .*/\1/' | awk '{ n += $1 } END { print n + 0 }')
        [ "$n" = "$1" ] || fail "$n calls, not $1, are in lines like: $2"
}
quiet() { [ ! -s "$tmp/err" ] || fail "said: $(cat "$tmp/err")"; }
lines() { # one line, and it matches
        [ "$(wc -l <"$tmp/err")" -eq 1 ] || fail "$(wc -l <"$tmp/err") lines on stderr: $(cat "$tmp/err")"
        grep -qE -- "$1" "$tmp/err" || fail "did not say $1: $(cat "$tmp/err")"
}
# The run-time of a sanitizer asks the first dlsym before it is up itself, and cannot look into a set-user-id program.
unsanitized() {
        if ldd "$bin/app" | grep -q '/lib[a-z]*san\.so'; then
                echo "not tried: $case: the programs are built with a sanitizer"
                exit 77
        fi
}
gone() { [ -z "$(ls "$CAPO_SHM")" ] || fail "left behind: $(ls "$CAPO_SHM")"; }
basic_log() {
        want 1 '^cell AllReduce comm=1 bytes=400 count=3 result=0 flags=0 host=3 gpu=0'
        want 1 '^cell AllGather comm=1 bytes=80 count=1'
        want 1 '^cell ReduceScatter comm=1 bytes=160 count=1'
        want 1 '^cell Reduce comm=1 bytes=40 count=1'
        want 1 '^cell Bcast comm=1 bytes=11 count=1'
        want 1 '^cell Broadcast comm=1 bytes=11 count=1' # the nested one is not counted
        want 1 '^cell AllReduce comm=1 bytes=0 count=1'
        want 1 '^cell Send comm=1 bytes=200 count=1'
        want 1 '^cell AllReduce comm=1 bytes=28 count=1'
        want 1 '^call AllReduce .* seq=10 .* op=254 '
        want 1 '^call Recv .* seq=2 .* peer=0 type=9 op=255'
        want 1 '^comm 1 1/4 .* dead=1 library=0'
        want 16 '^call .* clock=host .* thread=1 .* order=1$'
        want 1 '^end calls=16 dropped=0 .* lost=0 clean=1 threads=1 cost=measured'
        want 1 '^health damages=0 cut=0'
        gone
}

case $case in
linked)
        both "$bin/app" basic
        basic_log
        quiet
        want 1 '^info nccl.how next$'
        want 1 '^info nccl.version 2.28.9$'
        want 1 '^info host '
        want 1 '^site 2 3 (all_reduce\+0x[0-9a-f]+ [^;]*;)?basic\+0x[0-9a-f]+ .*;body\+.*;main\+' # a compiler may inline the first, or not
        modes=$(stat -c %a "$CAPO_DIR" "$CAPO_DIR"/*.capo | tr '\n' ' ')
        [ "$modes" = "700 600 " ] || fail "modes $modes"
        (umask 0 && CAPO_DIR=$tmp/a/b/c LD_PRELOAD=$lib "$bin/app" basic >/dev/null 2>&1)
        modes=$(stat -c %a "$tmp/a" "$tmp/a/b" "$tmp/a/b/c" | tr '\n' ' ')
        [ "$modes" = "700 700 700 " ] || fail "modes of folders $modes"
        ;;
old) # sends that come back through our group functions
        both "$bin/app_old" basic
        basic_log
        want 1 '^info nccl.version 2.21.5$'
        ;;
plugin)
        both "$bin/app_dlopen" plugin "$bin/libplugin.so" basic
        basic_log
        want 1 '^info nccl.how caller$'
        ;;
dlsym)
        both "$bin/app_dlopen" dlsym "$bin/fake/libnccl.so.2"
        want 1 '^cell AllReduce comm=1 bytes=400 count=3'
        want 1 '^info nccl.how dlsym$'
        gone
        # by site defaults alone, read before any thread of the job can be in the middle of it
        rm -r "$CAPO_DIR"
        printf 'CAPO_DIR=%s\n' "$CAPO_DIR" >"$tmp/site.conf"
        env -u CAPO_DIR CAPO_CONF="$tmp/site.conf" APP_REMOVES="$tmp/site.conf" LD_PRELOAD="$lib" "$bin/app_dlopen" dlsym "$bin/fake/libnccl.so.2" >"$tmp/out" 2>"$tmp/err" || fail "status $?"
        "$bin/log_text" "$CAPO_DIR"/*.capo >"$tmp/log" 2>&1
        want 1 '^cell AllReduce comm=1 bytes=400 count=3'
        ;;
front) # another tool's dlsym in front of ours, which asks libc itself: nothing is seen, and that is said
        unsanitized
        LD_PRELOAD="$bin/libdlsym_front.so $lib" "$bin/app_dlopen" dlsym "$bin/fake/libnccl.so.2" >"$tmp/out" 2>"$tmp/err" || fail "status $?"
        lines 'no call of NCCL was seen: .*/libdlsym_front.so has a dlsym of its own'
        [ ! -e "$CAPO_DIR" ] || fail "recorded all the same: $(ls "$CAPO_DIR")"
        LD_PRELOAD="$bin/libdlsym_front.so $lib" "$bin/app" basic >"$tmp/out" 2>"$tmp/err" || fail "status $?"
        quiet
        "$bin/log_text" "$CAPO_DIR"/*.capo >"$tmp/log" 2>&1
        basic_log
        want 1 '^info dlsym.front .*/libdlsym_front.so$'
        "$capo" report --wide "$CAPO_DIR" >"$tmp/page" 2>&1
        grep -q 'libdlsym_front.so stands in front of libcapo.so' "$tmp/page" || fail "report: $(cat "$tmp/page")"
        LD_PRELOAD="$bin/libdlsym_front.so $lib" "$capo" doctor >"$tmp/page" 2>&1
        grep -q 'libdlsym_front.so has a dlsym of its own and stands in front' "$tmp/page" || fail "doctor: $(cat "$tmp/page")"
        LD_PRELOAD="$lib $bin/libdlsym_front.so" "$capo" doctor >"$tmp/page" 2>&1
        ! grep -q 'has a dlsym of its own' "$tmp/page" || fail "doctor: $(cat "$tmp/page")"
        ;;
unseen) # ways of opening that no preload reaches: that is said
        unsanitized
        LD_PRELOAD=$lib "$bin/app_dlopen" deep "$bin/libplugin.so" basic >"$tmp/out" 2>"$tmp/err" || fail "status $?: $(cat "$tmp/err")"
        lines 'no call of NCCL was seen: .*/libplugin.so is bound to it past libcapo.so, .*RTLD_DEEPBIND'
        [ ! -e "$CAPO_DIR" ] || fail "recorded all the same: $(ls "$CAPO_DIR")"
        LD_PRELOAD=$lib "$bin/app_dlopen" apart "$bin/libplugin.so" basic >"$tmp/out" 2>"$tmp/err" || fail "status $?: $(cat "$tmp/err")"
        # earlier releases of glibc do not list such libraries
        [ "$(getconf GNU_LIBC_VERSION | tr -dc 0-9)" -lt 235 ] || lines 'no call of NCCL was seen: .*/libnccl.so.2 is in a namespace of its own'
        # beside calls that are recorded
        LD_PRELOAD=$lib "$bin/app_dlopen" both "$bin/libplugin.so" "$bin/fake/libnccl.so.2" >"$tmp/out" 2>"$tmp/err" || fail "status $?: $(cat "$tmp/err")"
        lines 'not all calls of NCCL are recorded: .*/libplugin.so is bound to it past libcapo.so, .*RTLD_DEEPBIND'
        "$bin/log_text" "$CAPO_DIR"/*.capo >"$tmp/log"
        want 1 '^cell AllReduce comm=1 bytes=400 count=1 '
        want 1 '^end calls=3 dropped=0 .* clean=1 ' # NCCL's own call of a public name is one
        rm -r "$CAPO_DIR"
        # loaded and not called
        LD_PRELOAD="$lib $bin/fake/libnccl.so.2" true >"$tmp/out" 2>"$tmp/err" || fail "status $?"
        quiet
        "$capo" doctor -- "$bin/app_dlopen" >"$tmp/page" 2>&1
        grep -q 'opens libraries by dlmopen(): their calls of NCCL are not seen' "$tmp/page" || fail "doctor: $(cat "$tmp/page")"
        ;;
secure) # AT_SECURE: the loader takes no preload from whoever starts a set-user-id program
        unsanitized
        [ "$(id -u)" = 0 ] || exit 77
        chmod 755 "$tmp"
        cp "$(command -v id)" "$tmp/id" && cp "$bin/app_dlopen" "$tmp/app" && cp "$bin/fake/libnccl.so.2" "$tmp/" || exit 77
        chown 65534 "$tmp/id" "$tmp/app" && chmod 4755 "$tmp/id" "$tmp/app" || exit 77
        [ "$("$tmp/id" -u)" = 65534 ] || exit 77 # a folder of nosuid
        mkdir -m 777 "$CAPO_DIR"
        both "$tmp/app" dlsym "$tmp/libnccl.so.2"
        quiet
        [ -z "$(ls "$CAPO_DIR")" ] || fail "recorded: $(ls "$CAPO_DIR")"
        chmod 755 "$tmp/app" # the same with a capability of the file, by a user whom it gives something
        if setcap cap_net_raw+ep "$tmp/app" 2>/dev/null; then
                LD_PRELOAD=$lib setpriv --reuid 65534 --clear-groups "$tmp/app" dlsym "$tmp/libnccl.so.2" >"$tmp/out" 2>"$tmp/err" || fail "with a capability: status $?"
                [ -z "$(ls "$CAPO_DIR")" ] || fail "recorded with a capability: $(ls "$CAPO_DIR")"
                setcap -r "$tmp/app"
        fi
        # the same without
        both "$tmp/app" dlsym "$tmp/libnccl.so.2"
        want 1 '^info nccl.how dlsym$'
        ;;
default)
        both "$bin/app_dlopen" default "$bin/fake/libnccl.so.2"
        want 1 '^cell AllReduce comm=1 bytes=400 count=1'
        want 1 '^info nccl.how next$'
        ;;
weak) # nobody has loaded NCCL, but preloaded there is something to call; that loads the one that can be found
        LD_LIBRARY_PATH=$bin/fake LD_PRELOAD=$lib "$bin/app_dlopen" weak x >"$tmp/out" 2>"$tmp/err" || fail "status $?"
        grep -q '^answered 0$' "$tmp/out" || fail "$(cat "$tmp/out")"
        ;;
none) # no NCCL at all: an answer, one line, no crash
        LD_LIBRARY_PATH=/nonexistent LD_PRELOAD=$lib "$bin/app_dlopen" weak x >"$tmp/out" 2>"$tmp/err" || fail "status $?"
        if ! grep -q '^answered 0$' "$tmp/out"; then # 0: this machine has an NCCL where ld.so looks
                grep -q '^answered 5$' "$tmp/out" || fail "$(cat "$tmp/out")"
                [ "$(grep -c 'no libnccl.so.2' "$tmp/err")" = 1 ] || fail "$(cat "$tmp/err")"
        fi
        ;;
two)
        both "$bin/app_dlopen" two "$bin/fake/libnccl.so.2" "$bin/fake_old/libnccl.so.2"
        want 1 '^info nccl.version 2.28.9$'
        want 1 '^info nccl.version.1 2.21.5$'
        want 1 '^comm 1 .* library=0 '
        want 1 '^comm 2 .* library=1 '
        want 1 '^cell AllReduce comm=2 bytes=4 count=1'
        ;;
missing)
        both "$bin/app_dlopen" missing "$bin/fake_old/libnccl.so.2"
        ;;
errors)
        CAPO_COMM_NAMES=$tmp/nowhere both "$bin/app" errors
        lines 'communicator names cannot be read'
        for r in 1 2 3 4 5 6 7; do
                want 1 "^cell AllReduce comm=1 bytes=$((57005 + r)) count=1 result=$r "
        done
        want 1 '^call AllReduce .* result=7 .* flags=8 '
        # what was refused has no number, so that the next call has the one it has on other ranks
        want 6 '^call AllReduce .* seq=0 .* result=[1-6] '
        want 1 '^call AllReduce .* seq=2001 .* result=7 '
        want 1 '^cell CommInit comm=0 .* result=4 '
        ;;
groups)
        both "$bin/app" groups 3000
        want 1 '^cell Group comm=1 bytes=816 count=1 result=0 flags=2 host=1'
        want 1 '^cell Group comm=0 bytes=800 count=1'
        want 1 '^cell Send comm=1 bytes=16 count=3000 result=0 flags=1 host=0'
        want 4 '^call .* group=1 .* clock=none flags=1 '
        want 1 '^call Group comm=1 bytes=816 seq=1 group=1 .* clock=host flags=2'
        want 3 '^comm [345] ./3 '
        [ "$(sed -n 's/^comm [345] .*\(uid=[0-9a-f]*\).*/\1/p' "$tmp/log" | sort -u | wc -l)" -eq 1 ] || fail "uids differ"
        want 1 '^site [0-9]+ 3000 .*app::calls::groups\+0x[0-9a-f]+ .*;body'
        want 0 '^site .*_ZN'
        want 0 '^site [0-9]+ [1-9].*comm_new' # nothing is moved from there
        # what was only tried is no call and has no number
        want 1 '^call AllReduce comm=1 bytes=400 seq=4 group=0 .* clock=host flags=0 '
        want 1 '^call AllReduce comm=2 bytes=400 seq=2 group=0 .* clock=host flags=0 '
        want 1 '^end calls=3020 dropped=0'
        # one that outgrows the ring a thread begins with: each member once, all of them of it
        rm -r "$CAPO_DIR"
        CAPO_TRACE=all both "$bin/app" groups 1500
        want 1500 '^call Send comm=1 bytes=16 seq=[0-9]+ group=[0-9]+ .* clock=none flags=1 '
        [ "$(grep -oE '^call Send comm=1 bytes=16 seq=[0-9]+' "$tmp/log" | sort -u | wc -l)" -eq 1500 ] || fail "sends twice"
        want 1 '^end calls=1520 dropped=0'
        ;;
creations) # made in one group, they all say which communicator they are of; and when there is no room for that it is said
        both "$bin/app" creations 1024
        want 0 '^comm .* uid=0000000000000000 '
        want 1024 '^comm .*/1024 '
        quiet
        rm -rf "$CAPO_DIR"
        both "$bin/app" creations 1025
        want 1 '^comm .* uid=0000000000000000 '
        lines 'more than 1024 communicators'
        ;;
stepped) # a signal's handler that calls NCCL at each instruction of a call: each call is counted, as what it is, or as dropped
        unsanitized
        for way in 0 1; do # as any call, and as one like the one before it
                rm -rf "$CAPO_DIR"
                both "$bin/app" stepped $way
                steps=$(cat "$tmp/err")
                [ "$steps" != 0 ] || exit 77 # another machine
                [ "$bad" -eq 0 ] || break
                outer=$(sed -n 's/^cell AllReduce comm=1 bytes=20 count=\([0-9]*\) .*/\1/p' "$tmp/log")
                inner=$(sed -n 's/^cell AllReduce comm=2 bytes=12 count=\([0-9]*\) .*/\1/p' "$tmp/log")
                dropped=$(sed -n 's/^end .* dropped=\([0-9]*\) .*/\1/p' "$tmp/log")
                [ "$outer" -eq $((2 * steps)) ] || fail "$outer of $((2 * steps)) calls"
                # the last time the call is over before the step
                [ $((inner + dropped)) -eq $((steps - 1)) ] || fail "of $((steps - 1)) calls in the handler $inner and $dropped dropped"
                [ "$inner" -gt 0 ] && [ "$dropped" -gt 0 ] || fail "in no call, or in none outside: $inner, $dropped"
                want 1 "^cell AllReduce comm=1 "
                want 1 "^cell AllReduce comm=2 "
        done
        ;;
astray) # called by a function whose unwind table is wrong: what called that is not printed, and nothing is read where it leads
        [ "$(uname -m)" = x86_64 ] || exit 77 # whose table it is, and elsewhere libgcc walks
        both "$bin/app" astray 3
        want 1 '^cell AllReduce comm=1 bytes=400 count=3 '
        want 1 '^site [0-9]+ 3 all_reduce\+0x[0-9a-f]+ \(program\)\+0x[0-9a-f]+;[^ ]*\(program\)\+0x[0-9a-f]+;$'
        ;;
comms)
        printf '# names\n7 pipeline\n' >"$tmp/names"
        CAPO_COMM_NAMES=$tmp/names both "$bin/app" comms
        want 1 '^comm 5 5/8 .* name=tensor parallel$'
        want 1 '^comm 6 5/8 .* name=$'
        want 1 '^comm 7 0/4 parent=5 color=3 .* name=pipeline$'
        want 1 '^comm 8 0/4 parent=5 color=3'
        want 1 '^comm 9 0/7 parent=5 color=-1 .* flags=2 .* dead=1'
        want 1 '^comm 10 15/16 .* flags=1 device=15'
        want 1 '^cell AlltoAll comm=10 bytes=256 '
        want 1 '^call CommInit comm=10 .* result=7 clock=host flags=8'
        # a file for many jobs, which lines are cut out of piece by piece; its last one has no end
        rm -rf "$CAPO_DIR"
        { yes '0123456789abcdef another job' | head -n 2000; printf '6 tensor\r\n'; yes '0123456789abcdef third' | head -n 2000; printf '7 last'; } >"$tmp/names"
        CAPO_COMM_NAMES=$tmp/names both "$bin/app" comms
        want 1 '^comm 6 5/8 .* name=tensor$'
        want 1 '^comm 7 0/4 parent=5 color=3 .* name=last$'
        rm -rf "$CAPO_DIR"
        mkfifo "$tmp/fifo"
        CAPO_COMM_NAMES=$tmp/fifo both "$bin/app" comms
        lines 'fifo: communicator names cannot be read: not a regular file'
        rm -rf "$CAPO_DIR"
        both "$bin/app" comms
        [ "$(sed -n 's/^comm [1234] .*\(uid=[0-9a-f]*\).*/\1/p' "$tmp/log" | sort -u | wc -l)" -eq 1 ] || fail "uids differ"
        [ "$(sed -n 's/^comm .*\(uid=[0-9a-f]*\).*/\1/p' "$tmp/log" | sort -u | wc -l)" -eq 6 ] || fail "uids are the same"
        ;;
every) # each row CALL() of nccl_calls.def is recorded under the name of its row in calls.def
        CAPO_TRACE=all both "$bin/app_every"
        cut -d ' ' -f 1 "$tmp/out" | sort >"$tmp/called"
        sed -n 's/^call \([^ ]*\) .*/\1/p' "$tmp/log" | grep -vx CommInit | sort >"$tmp/recorded"
        cmp -s "$tmp/called" "$tmp/recorded" || fail "called (<) and recorded (>) differ: $(diff "$tmp/called" "$tmp/recorded")"
        ;;
config) # calls that say how they are to be done (2.31) are their collectives; what they ask for is said with the place
        both "$bin/app_config"
        ring='config: algSelection=Ring_LL,_^tree_ minCTAs=2 maxCTAs=4 forceAlgSelection=0;reduce+'
        want 1 '^cell AllReduce comm=1 bytes=400 count=13 result=0 flags=0 host=13'
        want 1 '^cell AllReduce comm=1 bytes=800 count=300 '
        want 1 '^cell Broadcast comm=1 bytes=11 count=1 '
        want 1 '^cell Reduce comm=1 bytes=40 count=1 '
        want 1 '^cell AllGather comm=1 bytes=80 count=1 '
        want 1 '^cell ReduceScatter comm=1 bytes=160 count=1 '
        want 1 '^cell AlltoAll comm=1 bytes=160 count=1 '
        want 1 '^cell Gather comm=1 bytes=160 count=1 '
        want 1 '^cell Scatter comm=1 bytes=160 count=1 '
        want 1 '^cell AllReduce comm=1 bytes=1600 count=2 result=0 flags=1 ' # in a group
        want 1 '^cell AllReduce comm=1 bytes=57010 count=1 result=5 '
        sites() { awk -v like="$1" '/^site / && index($0, like) { n += $3 } END { print n + 0 }' "$tmp/log"; }
        [ "$(sites "$ring")" -eq 12 ] || fail "$(sites "$ring") calls ask for the ring" # of one line of the program
        [ "$(sites ' reduce+')" -eq 4 ] || fail "$(sites ' reduce+') ask for nothing" # of the same; and what cannot be read
        want 1 '^site [0-9]+ 1 config: cgaClusterSize=2 CTAPolicy=2 userProfilerTag=1;reduce\+'
        tags=$(grep -cE '^site [0-9]+ 1 config: .* userProfilerTag=[0-9]+;' "$tmp/log")
        [ "$tags" -ge 32 ] && [ "$tags" -le 64 ] || fail "$tags tags have a place of their own"
        want 1 "^site [0-9]+ $((300 - tags)) config: .* userProfilerTag=many;"
        want 1 '^info nccl.unknown ncclAllReduceTomorrow, ncclOtherTomorrow$|^info nccl.unknown ncclOtherTomorrow, ncclAllReduceTomorrow$'
        "$capo" report --all --wide "$CAPO_DIR" >"$tmp/page" 2>&1
        grep -q 'NCCL 2.32.3 has functions that this capo does not know (nccl.*Tomorrow, nccl.*Tomorrow)' "$tmp/page" ||
                fail "report: $(cat "$tmp/page")"
        grep -q 'reduce <- main (asks for algSelection=Ring_LL,_^tree_ minCTAs=2 maxCTAs=4 forceAlgSelection=0)' "$tmp/page" ||
                fail "report: $(cat "$tmp/page")"
        "$capo" explain allreduce 400 --log "$CAPO_DIR" >"$tmp/page" 2>&1
        grep -qE '^ *11  algSelection=Ring_LL,_\^tree_ minCTAs=2 maxCTAs=4 forceAlgSelection=0$' "$tmp/page" &&
                grep -qE '^ *2  nothing$' "$tmp/page" || fail "explain: $(cat "$tmp/page")"
        LD_LIBRARY_PATH=$bin/fake_new "$capo" doctor >"$tmp/page" 2>&1
        grep -q 'NCCL 2.32.3 has functions that this capo does not know (nccl[A-Za-z]*Tomorrow, nccl[A-Za-z]*Tomorrow)' "$tmp/page" ||
                fail "doctor: $(cat "$tmp/page")"
        grep -q 'looks for ncclTunerPlugin_v77 first, which this capo does not have: it is given the tuner.s v6' "$tmp/page" ||
                fail "doctor: $(cat "$tmp/page")"
        ;;
how) # what was asked for is what ran, and explain says both
        NCCL_PROFILER_PLUGIN=$lib CAPO_PROFILER=on both "$bin/app_gpu" how
        want 32 '^call AllReduce .* ran=23/1 ' # Ring Simple
        want 32 '^call AllReduce .* ran=11/1 ' # Tree LL
        want 64 '^call AllReduce .* ran=21/1 ' # Ring LL, asked for or not
        want 1 '^cell AllReduce comm=1 .* result=4 '
        "$capo" explain --json allreduce 4K --log "$CAPO_DIR" >"$tmp/page" 2>&1
        for asked in ring_simple TREE Ring_LL,PAT; do
                grep -q "\"config\": \"algSelection=$asked maxCTAs=1\"" "$tmp/page" || fail "$asked: $(cat "$tmp/page")"
        done
        gone
        ;;
threads)
        both "$bin/app" threads 300
        want 1 '^end calls=15300 dropped=0 .* threads=300'
        want 300 '^cell AllReduce comm=[0-9]+ bytes=400 count=50 '
        ;;
churn) # rings are used again
        both "$bin/app" churn 100
        want 1 '^end calls=400 dropped=0 .* threads=100'
        ;;
fork)
        both "$bin/app" fork 200
        [ "$(ls "$CAPO_DIR" | wc -l)" -eq 2 ] || fail "logs: $(ls "$CAPO_DIR")"
        want 2 '^cell AllReduce comm=1 bytes=400 count=7 ' # 5 + 2 in the parent, 7 in the child
        want 2 '^end calls=8 dropped=0 .* clean=1'
        want 2 '^comm 1 '
        gone
        ;;
trace)
        CAPO_TRACE=all both "$bin/app" threads 20
        want 1000 '^call AllReduce comm=[0-9]+ bytes=400 seq=[0-9]+ '
        [ "$(grep -oE '^call AllReduce comm=[0-9]+ bytes=400 seq=[0-9]+' "$tmp/log" | sort -u | wc -l)" -eq 1000 ] || fail "calls twice"
        want 1 '^end calls=1020 dropped=0'
        ;;
flight) # the last N only, and all of them counted
        CAPO_FLIGHT=100 both "$bin/app" burst 1000
        want 100 '^call AllReduce '
        want 1 '^call AllReduce .* seq=1000 '
        want 0 '^call AllReduce .* seq=900 '
        want 1 '^end calls=1001 dropped=0'
        ;;
drops) # more than a ring holds, faster than anybody can take it: counted
        CAPO_RING=4096 both "$bin/app" burst 200000
        sum=$(sed -n 's/^end calls=\([0-9]*\) dropped=\([0-9]*\).*/\1 \2/p' "$tmp/log" | { read -r x y; echo $((x + y)); })
        [ "$sum" -eq 200001 ] || fail "recorded and dropped together $sum, not 200001"
        quiet
        ;;
kill | kill-trace)
        [ "$case" = kill ] || export CAPO_TRACE=all
        export CAPO_RING=1M # the question is what a kill loses, not what a busy machine does
        both "$bin/app" kill 5000 # 128 + 9
        [ "$(ls "$CAPO_SHM" | wc -l)" -eq 1 ] || fail "no segment left behind"
        "$bin/log_text" --recover "$CAPO_SHM" >"$tmp/recovered"
        grep -q '^dead 1$' "$tmp/recovered" || fail "$(cat "$tmp/recovered")"
        "$bin/log_text" "$CAPO_DIR"/*.capo >"$tmp/log"
        want 1 '^cell AllReduce comm=1 bytes=400 count=500[01] ' # one may be counted twice: docs/internals/log-format.md
        want 1 '^call AllReduce .* seq=1 '
        want 1 '^call AllReduce .* seq=5000 '
        want 5000 '^call AllReduce '
        want 1 '^end calls=500[12] dropped=0 .* clean=2'
        want 1 '^health damages=0 cut=0'
        want 1 '^comm 1 0/2 '
        gone
        ;;
kill-in) # in which call it was: of the host; in a group; in none; in one that makes a communicator
        for in in "1 host 1 AllReduce 4 1 16968 [0-9]+ .*" "2 group 1 AllReduce 5 1 400 [0-9]+ .*" "3" "4 host 1 CommInit 0 0 [0-9]+ [0-9]+ 255 255 .*"; do
                both "$bin/app" kill-in ${in%% *}
                "$bin/log_text" --recover "$CAPO_SHM" >"$tmp/recovered"
                "$bin/log_text" "$CAPO_DIR"/*.capo >"$tmp/log"
                want 1 '^end calls=.* clean=2'
                if [ "$in" = 3 ]; then want 0 '^info unfinished'; else want 1 "^info unfinished[+] ${in#* }\$"; fi
                rm -r "$CAPO_DIR"
                gone
        done
        ;;
early) # killed before anything was written
        both "$bin/app" kill 10
        "$bin/log_text" --recover "$CAPO_SHM" >"$tmp/recovered"
        "$bin/log_text" "$CAPO_DIR"/*.capo >"$tmp/log"
        want 1 '^cell AllReduce comm=1 bytes=400 count=1[01] '
        want 1 '^end calls=1[12] dropped=0 .* clean=2'
        gone
        ;;
kill-named) # where it called from is named before, because nobody can name it afterwards
        LD_PRELOAD=$lib "$bin/app" kill-in 5 >/dev/null 2>&1 &
        i=0
        until grep -qs 'call_later+' "$CAPO_SHM"/*; do
                i=$((i + 1))
                [ $i -lt 3000 ] || { kill -9 $!; fail "no name within 30 s"; break; }
                sleep 0.01
        done
        kill -9 $! 2>/dev/null
        wait 2>/dev/null
        "$bin/log_text" --recover "$CAPO_SHM" >"$tmp/recovered"
        "$bin/log_text" "$CAPO_DIR"/*.capo >"$tmp/log"
        want 1 '^site [0-9]+ 3 (all_reduce\+0x[0-9a-f]+ [^;]*;)?killed_in\+0x[0-9a-f]+ '
        gone
        ;;
episodes) # not of the suite: EPISODES (200) times of errors, which begin and end anywhere
        export CAPO_RING=4M
        i=0
        while [ $i -lt "${EPISODES:-200}" ]; do
                i=$((i + 1))
                rm -rf "$CAPO_DIR"
                # EIO, ESTALE, ETIMEDOUT, ENOSPC, EDQUOT; EMFILE and ENOMEM of opens
                set -- $((i % 7)) 5 116 110 28 122 24 12
                shift $(($1 + 1))
                error=$1 from=$((1 + i * 7 % 5)) which=WRITES trace=
                case $error in 24 | 12) which=OPENS from=1 ;; esac
                [ $((i % 2)) = 0 ] || trace=all
                until=$((from + i * 11 % 13))
                [ $((i % 3)) != 0 ] || until=1000000
                env LD_PRELOAD="$lib $bin/libfailing.so" CAPO_TRACE=$trace FAIL_ERROR="$error" FAIL_$which=$from-$until "$bin/app" burst 5000 >"$tmp/out" 2>"$tmp/err" || fail "$i: status $?"
                "$bin/log_text" --recover "$CAPO_SHM" >"$tmp/recovered" 2>&1
                "$bin/log_text" "$CAPO_DIR"/*.capo >"$tmp/log" 2>&1
                had=$bad
                want 1 '^cell AllReduce .* count=5000 .* host=5000'
                want 1 '^end calls=5001 dropped=0 .* lost=0 clean=1'
                gone
                [ $had = $bad ] || echo "episode $i: error $error, $which $from-$until, trace=$trace: $(cat "$tmp/err")"
        done
        ;;
unclean) # _exit
        both "$bin/app" unclean 10
        "$bin/log_text" --recover "$CAPO_SHM" >"$tmp/recovered"
        grep -q '^recovered ' "$tmp/recovered" || fail "$(cat "$tmp/recovered")"
        "$bin/log_text" "$CAPO_DIR"/*.capo >"$tmp/log"
        want 1 '^cell AllReduce comm=1 bytes=400 count=1[01] '
        gone
        # the folder above those of several jobs, and one whose name begins alike
        for job in 1 2 3; do
                [ $job = 3 ] && folder=$tmp/jobs-more || folder=$tmp/jobs/$job
                env -u CAPO_SHM CAPO_DIR="$folder" LD_PRELOAD="$lib" "$bin/app" unclean >/dev/null 2>&1
        done
        "$capo" recover "$tmp/jobs" >"$tmp/out" 2>&1 || fail "recover: $(cat "$tmp/out")"
        [ "$(grep -c "calls -> $tmp/jobs/[12]/" "$tmp/out")" = 2 ] && [ "$(wc -l <"$tmp/out")" = 2 ] || fail "recover of a folder of jobs: $(cat "$tmp/out")"
        "$capo" recover "$tmp/jobs" | grep -q '^nothing to recover: no dead process has its log in ' || fail "recover again"
        "$capo" recover "$tmp/jobs-more" | grep -q 'calls -> ' || fail "the other folder's are gone"
        ;;
alive) # the segment of a living process is left alone
        for _ in $(seq 50); do # until one is caught that has made its log, and lives
                rm -rf "$CAPO_DIR"
                LD_PRELOAD=$lib "$bin/app" busy-exit 1 >/dev/null 2>&1 &
                until [ -s "$(echo "$CAPO_DIR"/*)" ] || ! kill -0 $! 2>/dev/null; do :; done
                kill -STOP $! 2>/dev/null
                there=
                # one that has ended leaves its memory, too, when another thread was in a call
                if grep -q '^State:.[Tt]' "/proc/$!/status" 2>/dev/null; then there=$(ls "$CAPO_SHM"); fi
                "$bin/log_text" --recover "$CAPO_SHM" >"$tmp/recovered"
                left=$(ls "$CAPO_SHM")
                kill -CONT $! 2>/dev/null
                wait
                [ -z "$there" ] || break
                rm -f "$CAPO_SHM"/*
        done
        [ -n "$there" ] || fail "none was seen alive"
        [ "$there" = "$left" ] && grep -q '^dead 0$' "$tmp/recovered" || fail "there was $there, left is $left: $(cat "$tmp/recovered")"
        ;;
exec) # the same pid twice: two segments, two logs, nothing overwritten
        both "$bin/app" exec 1
        "$bin/log_text" --recover "$CAPO_SHM" >"$tmp/recovered"
        [ "$(ls "$CAPO_DIR" | wc -l)" -eq 2 ] || fail "logs: $(ls "$CAPO_DIR")"
        "$bin/log_text" "$CAPO_DIR"/*.capo >"$tmp/log"
        want 2 '^cell AllReduce comm=1 bytes=400 count=4 '
        ;;
full) # no room for the log: what could not be written waits for capo report --recover
        both "$bin/app" full 4000
        # the recording memory's file may not grow either
        [ "$(grep -vc 'no room for more recording memory' "$tmp/err")" -eq 2 ] || fail "$(cat "$tmp/err")"
        grep -q 'cannot be written: File too large' "$tmp/err" || fail "$(cat "$tmp/err")"
        grep -q 'no room for the rest; capo report --recover' "$tmp/err" || fail "$(cat "$tmp/err")"
        "$bin/log_text" --recover "$CAPO_SHM" >/dev/null
        "$bin/log_text" "$CAPO_DIR"/*.capo >"$tmp/log"
        want 1 '^cell AllReduce .* count=4001 .* host=4001'
        want 1 '^end calls=4002 dropped=0 .* clean=1' # it was not killed
        gone
        ;;
limit) # ulimit -f: the layout of the segment is longer than files may be, the log soon
        for blocks in 0 64 16384 131072; do
                rm -rf "$CAPO_DIR"
                # shellcheck disable=SC2016
                both sh -c 'ulimit -f "$0"; exec "$@"' "$blocks" "$bin/app" burst 1000
                gone
                [ "$blocks" -ge 64 ] || continue
                want 1 '^cell AllReduce .* count=1000 .* host=1000'
                want 1 '^end .* dropped=0 gpu_dropped=0 lost=0 clean=1'
        done
        ;;
full-exit) # no room at the end: the rest waits in memory
        mkdir "$tmp/disk"
        mount -t tmpfs -o size=8k tmpfs "$tmp/disk" 2>/dev/null || exit 77
        CAPO_DIR=$tmp/disk both "$bin/app" burst 1000
        grep -q 'no room for the rest; capo report --recover' "$tmp/err" || fail "not said: $(cat "$tmp/err")"
        mount -o remount,size=1m "$tmp/disk"
        "$bin/log_text" --recover "$CAPO_SHM" >"$tmp/recovered"
        "$bin/log_text" "$tmp"/disk/*.capo >"$tmp/log"
        want 1 '^cell AllReduce .* count=1000 .* host=1000'
        want 1 '^end calls=1001 dropped=0 .* lost=0 clean=1'
        want 1 '^health damages=0 cut=0'
        gone
        ;;
vanish)
        both "$bin/app" vanish 100
        lines 'cannot be written.*No such file'
        gone
        ;;
close | close-early) # a program that closes every descriptor and opens its own
        both "$bin/app" "$case" 100
        quiet
        [ ! -s "$CAPO_DIR/mine" ] || fail "written into the program's own file"
        want 1 '^cell AllReduce comm=1 bytes=400 count=200 '
        want 1 '^end calls=201 dropped=0 gpu_dropped=0 lost=0 clean=1 '
        gone
        ;;
unwritable)
        mkdir "$CAPO_DIR"
        printf 'not a folder' >"$CAPO_DIR/file"
        CAPO_DIR=$CAPO_DIR/file/logs both "$bin/app" basic
        lines 'calls are counted but not kept'
        gone
        ;;
link) # no symbolic link is followed, no file overwritten
        mkdir "$CAPO_DIR"
        cat >"$tmp/link.sh" <<'END'
: >"$CAPO_DIR/precious"
ln -s precious "$CAPO_DIR/$(uname -n).$$.capo"
exec "$1" basic
END
        LD_PRELOAD=$lib sh "$tmp/link.sh" "$bin/app" >"$tmp/out" 2>"$tmp/err" || fail "status $?"
        [ ! -s "$CAPO_DIR/precious" ] || fail "written through a link"
        ls "$CAPO_DIR" | grep -q '\.1\.capo$' || fail "no second name: $(ls "$CAPO_DIR")"
        ;;
no-shm)
        CAPO_SHM=$tmp/nowhere both "$bin/app" basic
        lines 'no recording memory'
        basic_log
        ;;
small-shm) # a full /dev/shm is an error code, not SIGBUS
        mkdir "$tmp/disk"
        mount -t tmpfs -o size=64k tmpfs "$tmp/disk" 2>/dev/null || exit 77
        CAPO_SHM=$tmp/disk both "$bin/app" burst 1000
        sum=$(sed -n 's/^end calls=\([0-9]*\) dropped=\([0-9]*\).*/\1 \2/p' "$tmp/log" | { read -r x y; echo $((x + y)); })
        [ "$sum" -eq 1001 ] || fail "recorded and dropped together $sum, not 1001"
        want 1 '^end .* dropped=0 gpu_dropped=0 lost=0 clean=1'
        want 1 '^cell AllReduce .* count=1000 .* host=1000'
        grep -q "$tmp/disk/capo-.*: no room for more recording memory" "$tmp/err" || fail "not said: $(cat "$tmp/err")"
        rm -r "$CAPO_DIR" # and a kill: the log is whole, and says that it is not all
        CAPO_SHM=$tmp/disk both "$bin/app" kill 5000
        "$bin/log_text" --recover "$tmp/disk" >"$tmp/recovered"
        grep -q '^dead 1$' "$tmp/recovered" || fail "$(cat "$tmp/recovered")"
        "$bin/log_text" "$CAPO_DIR"/*.capo >"$tmp/log"
        want 1 '^health damages=0 cut=0'
        grep -q '^info recording.memory full' "$tmp/log" || fail "not said in the log"
        ;;
busy-exit)
        both "$bin/app" busy-exit 3
        want 1 '^end .* clean=1'
        "$bin/log_text" --recover "$CAPO_SHM" >"$tmp/recovered" 2>&1 # the calls made while it ended
        "$bin/log_text" "$CAPO_DIR"/*.capo >"$tmp/log"
        want 1 '^end .* clean=1'
        gone
        ;;
small-handler) # calls by a signal's handler with a stack of 8 KB
        unsanitized
        both "$bin/app" small-handler
        quiet
        want 1 '^end calls=3 dropped=0 .* clean=1'
        gone
        ;;
small-exit) # exit() by a thread of 16 KB, and by a signal's handler with a stack of 8 KB
        unsanitized
        for in_handler in 0 1; do
                rm -rf "$CAPO_DIR"
                both "$bin/app" small-exit $in_handler
                quiet
                want 1 '^end calls=11 dropped=0 .* clean=1'
                gone
        done
        ;;
hung) # a folder in which writes never return: the end of the process waits five seconds for them, and no call is lost
        for later in 0 1; do
                rm -rf "$CAPO_DIR"
                LD_PRELOAD="$lib $bin/libhung.so" timeout -s KILL 300 "$bin/app" hung $later >"$tmp/out" 2>"$tmp/err" || fail "status $?"
                lines 'the log cannot be finished now; capo report --recover will do it'
                "$bin/log_text" --recover "$CAPO_SHM" >"$tmp/recovered" 2>&1
                "$bin/log_text" "$CAPO_DIR"/*.capo >"$tmp/log" 2>&1
                want 1 '^cell AllReduce comm=1 bytes=400 count=200 '
                want 1 '^end calls=201 dropped=0 .* clean=1'
                gone
        done
        ;;
wrapped) # other libraries that wrap NCCL, in front of the recorder, behind it, or in a plugin: they see what they see without
        unsanitized # whose library must be the first
        for wrap in init reduce full calls; do
                for program in "$bin/app basic" "$bin/app_dlopen plugin $bin/libplugin.so basic"; do
                        # shellcheck disable=SC2086
                        LD_PRELOAD=$bin/libwrap_$wrap.so $program >"$tmp/bare.out" 2>"$tmp/bare.err" || fail "bare: status $?"
                        grep -q '^wrapped calls: [1-9]' "$tmp/bare.out" || fail "bare: $(cat "$tmp/bare.out")"
                        for order in "$bin/libwrap_$wrap.so $lib" "$lib $bin/libwrap_$wrap.so"; do
                                rm -rf "$CAPO_DIR"
                                # shellcheck disable=SC2086
                                LD_PRELOAD=$order timeout 300 $program >"$tmp/out" 2>"$tmp/err" || fail "status $?: $order $program"
                                cmp -s "$tmp/bare.out" "$tmp/out" || fail "$order $program: $(cat "$tmp/out")"
                                quiet
                                # where the tool has asked for NCCL itself, that is a second copy
                                "$bin/log_text" "$CAPO_DIR"/*.capo 2>&1 | sed 's/ library=1 / library=0 /' >"$tmp/log"
                                basic_log
                        done
                done
        done
        rm -rf "$CAPO_DIR"
        both timeout 300 "$bin/app_dlopen" plugin "$bin/libplugin_wrapped.so" basic
        basic_log
        ;;
write-errors) # a server that is away for a while, or for good; no descriptor is left
        export CAPO_RING=4M # every burst fits in: how soon the log takes it does not matter
        for error in 5 116 110; do # EIO, ESTALE, ETIMEDOUT
                for trace in "" all; do
                        rm -rf "$CAPO_DIR"
                        # for good, after the header: all of it waits in memory
                        LD_PRELOAD="$lib $bin/libfailing.so" CAPO_TRACE=$trace FAIL_ERROR=$error FAIL_WRITES=2-1000000 "$bin/app" burst 10000 >"$tmp/out" 2>"$tmp/err" || fail "status $?"
                        grep -q 'cannot be finished: .*; capo report --recover will do it' "$tmp/err" || fail "not said: $(cat "$tmp/err")"
                        "$bin/log_text" --recover "$CAPO_SHM" >"$tmp/recovered" 2>&1
                        "$bin/log_text" "$CAPO_DIR"/*.capo >"$tmp/log"
                        want 1 '^cell AllReduce .* count=10000 .* host=10000'
                        want 1 '^end calls=10001 dropped=0 .* lost=0 clean=1'
                        gone
                        # for a while
                        rm -rf "$CAPO_DIR"
                        LD_PRELOAD="$lib $bin/libfailing.so" CAPO_TRACE=$trace FAIL_ERROR=$error FAIL_WRITES=2-3 "$bin/app" burst 10000 >"$tmp/out" 2>"$tmp/err" || fail "status $?"
                        "$bin/log_text" "$CAPO_DIR"/*.capo >"$tmp/log"
                        want 1 '^cell AllReduce .* count=10000 .* host=10000'
                        want 1 '^end calls=10001 dropped=0 .* lost=0 clean=1'
                        gone
                done
        done
        # EMFILE when the log is made: tried again, and nothing is lost
        for until in 1 2 1000000; do
                rm -rf "$CAPO_DIR"
                LD_PRELOAD="$lib $bin/libfailing.so" FAIL_ERROR=24 FAIL_OPENS=1-$until "$bin/app" burst 1000 >"$tmp/out" 2>"$tmp/err" || fail "status $?"
                "$bin/log_text" --recover "$CAPO_SHM" >"$tmp/recovered" 2>&1
                "$bin/log_text" "$CAPO_DIR"/*.capo >"$tmp/log"
                want 1 '^cell AllReduce .* count=1000 .* host=1000'
                want 1 '^end calls=1001 dropped=0 .* lost=0 clean=1'
                gone
        done
        # the folder, too: its server is away when the job begins; no descriptor is left, neither for recording memory
        cd "$tmp" || exit
        for error in 5 116 24; do
                for until in 1 3 8 1000000; do
                        rm -rf "$CAPO_DIR" "$tmp/logs-of-all"
                        CAPO_DIR=logs-of-all/of-one LD_PRELOAD="$lib $bin/libfailing.so" FAIL_ERROR=$error FAIL_FOLDERS=1-$until "$bin/app" burst 1000 >"$tmp/out" 2>"$tmp/err" || fail "status $?"
                        "$bin/log_text" --recover "$CAPO_SHM" >"$tmp/recovered" 2>&1
                        [ $until != 1000000 ] || { # recover makes no folder: there may be a reason why it is gone
                                mkdir -p "$tmp/logs-of-all/of-one"
                                "$bin/log_text" --recover "$CAPO_SHM" >"$tmp/recovered" 2>&1
                        }
                        "$bin/log_text" "$tmp"/logs-of-all/of-one/*.capo >"$tmp/log"
                        had=$bad
                        want 1 '^cell AllReduce .* count=1000 .* host=1000'
                        want 1 '^end calls=1001 dropped=0 .* lost=0 clean=1'
                        gone
                        [ $had = $bad ] || echo "folder: error $error until $until: $(cat "$tmp/err" "$tmp/recovered")"
                done
        done
        (ulimit -n 64 && LD_PRELOAD=$lib exec "$bin/app" no-descriptor) >"$tmp/out" 2>"$tmp/err" || fail "status $?: $(cat "$tmp/err")"
        "$bin/log_text" "$CAPO_DIR"/*.capo >"$tmp/log"
        want 1 '^end calls=2001 dropped=0 .* lost=0 clean=1'
        ;;
locked-exit) # a handler's exit() while its thread holds a lock of ours
        echo '1 world' >"$tmp/names"
        LD_PRELOAD="$lib $bin/libhung.so" CAPO_COMM_NAMES=$tmp/names timeout -s KILL 300 "$bin/app" locked-exit >"$tmp/out" 2>"$tmp/err" || fail "status $?"
        lines 'the log cannot be finished now; capo report --recover will do it'
        "$bin/log_text" --recover "$CAPO_SHM" >"$tmp/recovered" 2>&1
        "$bin/log_text" "$CAPO_DIR"/*.capo >"$tmp/log" 2>&1
        want 1 '^end calls=1 dropped=0 .* clean=1'
        gone
        ;;
last-thread) # the first thread ends by pthread_exit(): the process ends with the last one that is the program's
        both timeout -s KILL 300 "$bin/app" last-thread
        quiet
        want 1 '^end calls=9 dropped=0 .* clean=1'
        gone
        ;;
keys) # no key is left for what threads have of their own: the program's keep what is in them
        both "$bin/app" keys
        lines 'no key for a thread.s own data is left'
        want 1 '^end calls=4 dropped=0 .* clean=1'
        gone
        ;;
fork-handler) # a fork's child that makes calls before the recorder's own handler in it
        both "$bin/app" fork-handler
        quiet
        [ "$(ls "$CAPO_DIR" | wc -l)" -eq 2 ] || fail "logs: $(ls "$CAPO_DIR")"
        want 2 '^end calls=8 dropped=0 .* clean=1' # 1 + 5 + 2 in the parent, twice 1 + 3 in the child
        gone
        ;;
fork-loader) # fork() while the recorder's thread has the loader's lock: the child can use the loader
        LD_PRELOAD="$lib $bin/libslow_walk.so" "$bin/app" fork-loader 40 >"$tmp/out" 2>"$tmp/err" || fail "status $?: $(cat "$tmp/out")"
        quiet
        gone
        ;;
jump-loader) # siglongjmp() out of a call, while the recorder asks the loader: its lock is not held afterwards
        LD_PRELOAD="$lib $bin/libslow_walk.so" timeout 300 "$bin/app" jump-loader >"$tmp/out" 2>"$tmp/err" || fail "status $?: $(cat "$tmp/out")"
        grep -q '^done jump-loader' "$tmp/out" || fail "$(cat "$tmp/out")"
        ;;
environment) # it is read while the job is in a call of its own, so not while the job changes it
        RANK=3 both "$bin/app" environment
        want 0 '^info rank 9$'
        grep -q '^info rank 3$' "$tmp/log" || fail "no rank: $(grep '^info' "$tmp/log")"
        grep '^info nccl.settings ' "$tmp/log" | tail -n 1 | grep -q 'NCCL_BEFORE=1' || fail "not what NCCL set: $(grep '^info' "$tmp/log")"
        want 0 'NCCL_BEFORE=2'
        gone
        ;;
clone-exit) # the end of a thread in a child made by a bare clone() is none of a thread of ours
        [ "$(uname -m)" = x86_64 ] || exit 77 # the system call's arguments are in another order elsewhere
        both "$bin/app" clone-exit
        want 1 '^cell AllReduce comm=1 bytes=400 count=510 '
        want 1 '^cell AllReduce comm=2 bytes=400 count=500 '
        want 1 '^end calls=1012 dropped=0 .* clean=1 threads=2'
        gone
        ;;
cancelled) # a call whose thread has been cancelled in it is not under way any more: that is no hang
        CAPO_HANG=3 both "$bin/app" cancelled 6
        quiet
        want 1 '^end calls=4 dropped=1 .* clean=1'
        gone
        ;;
inert) # a process that never calls: no file, no thread, no output
        both "$bin/app" nothing
        quiet
        [ ! -e "$CAPO_DIR" ] || fail "made $CAPO_DIR"
        gone
        ;;
off)
        CAPO_OFF=1 both "$bin/app" basic
        quiet
        [ ! -e "$CAPO_DIR" ] || fail "made $CAPO_DIR"
        CAPO_DIR=
        both "$bin/app" threads 10
        both "$bin/app_dlopen" two "$bin/fake/libnccl.so.2" "$bin/fake_old/libnccl.so.2"
        quiet
        ;;
secrets) # the arguments are on a page that people pass on
        secrets="--hf-token abcdef --lr 1e-4 WANDB_API_KEY=abcdef https://me:abcdef@host"
        OTHER_VARIABLE=in-a-variable-7319 NCCL_X_TOKEN=abcdef NCCL_ALGO=Ring SLURM_JOB_NAME=run:hf_abcdefghijklmnopqrstuvwxyz both "$bin/app" basic 0 $secrets
        want 1 '^info cmdline .*/app [.]{3} --lr 1e-4 [.]{3}$'
        want 1 '^info nccl.settings .*NCCL_X_TOKEN=[*]{3}'
        want 1 '^info nccl.algo Ring$'
        want 1 '^info job.name run:[*]{3}$'
        ! grep -q abcdef "$CAPO_DIR"/*.capo || fail "the secret is in the log"
        ! grep -aqE 'in-a-(buffer|variable)-7319' "$CAPO_DIR"/*.capo || fail "the log has a buffer or another variable"
        grep -aq nccl.algo "$CAPO_DIR"/*.capo || fail "grep finds nothing in a log"
        rm -r "$CAPO_DIR"
        CAPO_CMDLINE=all both "$bin/app" basic 0 $secrets
        want 1 '^info cmdline .*/app basic 0 --hf-token [*]{3} --lr 1e-4 WANDB_API_KEY=[*]{3} https://me:[*]{3}@host$'
        ! grep -q abcdef "$CAPO_DIR"/*.capo || fail "the secret is in the log"
        rm -r "$CAPO_DIR"
        CAPO_CMDLINE=none both "$bin/app" basic 0 --lr 1e-4
        want 0 '^info cmdline '
        want 1 '^info exe '
        ;;
settings) # what does not parse: one line, and the default
        CAPO_RING=lots both "$bin/app" basic
        lines 'CAPO_RING=lots'
        basic_log
        ;;
python)
        command -v python3 >/dev/null || exit 77
        # every release at hand, once; frames are read by offsets that differ by release
        tried=" "
        for python in python3 python3.9 python3.10 python3.11 python3.12 python3.13 python3.14 "$(pyenv root 2>/dev/null)"/versions/3.*/bin/python3 \
                "$here"/../../.deps/*/bin/python3 ${CAPO_TEST_PYTHONS:-}; do
                release=$("$python" -c 'import sys; (3, 9) <= sys.version_info[:2] <= (3, 14) and print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null) || continue
                [ -n "$release" ] || continue
                case "$tried" in *" $release "*) continue ;; esac
                tried="$tried$release "
                rm -rf "$CAPO_DIR"
                both "$python" "$here/job.py" "$bin/fake/libnccl.so.2"
                want 1 '^info nccl.how dlsym$'
                want 1 '^site [0-9]+ 1 .*job.py:12 count;[^;]*job.py:30 <module>;'
                want 1 '^site [0-9]+ 1 .*job.py:12 count;[^;]*job.py:17 backward;[^;]*job.py:31 <module>;'
                want 1 '^site [0-9]+ 1 .*job.py:12 count;[^;]*job.py:21 schritt_für_schritt;[^;]*job.py:32 <module>;'
                want 1 '^site [0-9]+ 1 .*job.py:12 count;[^;]*job.py:34 <lambda>;.*threading.py:[0-9]+ run;'
                want 1 '^comm [0-9]+ 0/1 .* name=mesh_größe$'
                want 1 '^comm [0-9]+ 0/1 .* name=8$'
                want 1 '^comm [0-9]+ 0/1 .* name=9$'
                # what the interpreter frees at its end is filled with something that is no pointer
                MALLOC_PERTURB_=165 PYTHONMALLOC=malloc both "$python" "$here/daemon.py" "$bin/fake/libnccl.so.2" "$bin/libpy_lines.so"
                "$python" "$here/py_lines.py" "$bin/libpy_lines.so" >>"$tmp/lines" 2>&1 || fail "lines: $(tail -n 1 "$tmp/lines")"
                [ $bad -eq 0 ] || { "$python" -V; break; }
        done
        echo "Python$tried: $(paste -s -d ' ' "$tmp/lines")"
        ;;
gpu)
        export CAPO_GPU_SAMPLE=4 CAPO_SYSFS="$tmp/sys"
        mkdir -p "$CAPO_SYSFS/bus/pci/devices/0000:01:00.0"
        echo 1 >"$CAPO_SYSFS/bus/pci/devices/0000:01:00.0/numa_node"
        both "$bin/app_gpu" calls
        want 1 '^info cuda.driver '
        want 1 '^info gpu.busid.0 0000:01:00.0$'
        want 1 '^info gpu.numa.0 1$'
        # 16: the first of all, the first two of a kind and size, and those after a pause of this machine, which stand for themselves
        want 1 '^cell AllReduce comm=1 bytes=1048576 count=([3-7][0-9]) result=0 flags=16 host=\1 gpu=\1$'
        want 1 '^cell AllReduce comm=1 bytes=1048576 count=([0-9]+) result=0 flags=0 host=\1 gpu=([1-9]|1[0-9]|2[0-4])$'
        counted 80 '^cell AllReduce comm=1 bytes=1048576 count=[0-9]+ result=0 flags=(16|0) '
        want 1 '^cell AllReduce comm=1 bytes=1048576 count=4 result=0 flags=4 host=0 gpu=0'
        want 4 '^call AllReduce .* clock=none flags=4 '
        want 1 '^cell Group comm=1 bytes=2097152 count=([2-9]|1[0-5]) result=0 flags=18 host=\1 gpu=\1$'
        counted 16 '^cell Group comm=1 bytes=2097152 count=[0-9]+ result=0 flags=(18|2) '
        want 1 '^end .* gpu_dropped=0 '
        n=$(grep -cE '^call .* clock=event .* gpu=1 ' "$tmp/log")
        [ "$n" -ge 40 ] || fail "$n calls with GPU time"
        gone
        rm -r "$CAPO_DIR" # nothing by chance
        CAPO_GPU_SAMPLE=1000000 both "$bin/app_gpu" calls
        want 1 '^cell AllReduce comm=1 bytes=1048576 count=([3-7][0-9]) .* flags=16 .* gpu=\1$'
        want 1 '^cell AllReduce comm=1 bytes=1048576 count=[0-9]+ .* flags=0 .* gpu=0$'
        counted 80 '^cell AllReduce comm=1 bytes=1048576 count=[0-9]+ result=0 flags=(16|0) '
        want 1 '^cell Group comm=1 bytes=2097152 count=([2-9]|1[0-5]) .* flags=18 .* gpu=\1$'
        gone
        rm -r "$CAPO_DIR" # all of them: nothing is there for others to stand for
        CAPO_GPU_SAMPLE=1 both "$bin/app_gpu" calls
        want 1 '^cell AllReduce comm=1 bytes=1048576 count=80 result=0 flags=0 .* gpu=80$'
        gone
        ;;
gpu-cancel) # a thread may still be cancelled after its calls were timed
        CAPO_GPU_SAMPLE=1 both timeout 300 "$bin/app_gpu" cancel
        want 1 '^cell AllReduce comm=1 bytes=1048576 count=20 '
        gone
        ;;
gpu-reset) # what was made in a context goes with it
        CAPO_GPU_SAMPLE=1 both "$bin/app_gpu" reset
        want 1 '^cell AllReduce comm=1 bytes=1048576 count=20 result=0 flags=0 ' # of these what was seen before it went
        want 1 '^cell AllReduce comm=2 bytes=1048576 count=20 result=0 flags=0 .* gpu=20$'
        want 1 '^end .* gpu_dropped=0 '
        gone
        ;;
kernel | kernel-late) # GPU time stamps through the profiler plugin; of GPUs that begin three seconds behind their hosts
        late=0
        [ "$case" = kernel ] || late=3000
        CAPO_KERNEL_TIME=1 CAPO_PROFILER=on CAPO_GPU_SAMPLE=0 NCCL_PROFILER_PLUGIN=$lib both "$bin/app_gpu" ranks $late
        n=$(grep -cE '^call AllReduce .* clock=kernel .* ran=[1-9][0-9a-f]/[1-9][0-9]* .* gpu=1 ' "$tmp/log")
        [ "$n" -eq 128 ] || fail "$n calls of 128 with stamps"
        want 1 '^end calls=132 dropped=0 '
        gone
        ;;
devices) # one thread drives all ranks: what each group is of is one call, of each of them, and can be tuned and swept
        NCCL_PROFILER_PLUGIN=$lib CAPO_PROFILER=on both "$bin/app_gpu" devices
        want 128 '^call AllReduce .* group=0 .* clock=host flags=0 .* ran=[1-9][0-9a-f]/[1-9]'
        want 1 '^cell AllReduce comm=1 bytes=4096 count=64 result=0 flags=0 host=64'
        want 1 '^cell AllReduce comm=2 bytes=4096 count=64 result=0 flags=0 host=64'
        want 0 '^call Group '
        gone
        rm -r "$CAPO_DIR" # each on its own GPU
        CAPO_GPU_SAMPLE=1 both "$bin/app_gpu" devices
        want 128 '^call AllReduce .* group=[1-9][0-9]* .* clock=event flags=0 .* gpu=1 '
        for c in 1 2; do want 1 "^cell AllReduce comm=$c bytes=4096 count=64 result=0 flags=0 host=64 gpu=64\$"; done
        gone
        rm -r "$CAPO_DIR"
        export NCCL_PROFILER_PLUGIN=$lib CAPO_PROFILER=on NCCL_TUNER_PLUGIN=$lib
        export CAPO_SWEEP='algos=ring+tree protos=ll+simple channels=0 calls=1000 slower=0'
        # a rank whose calls the recorder does not see would choose otherwise than the others, which hangs
        "$bin/app_gpu" devices >"$tmp/bare.out" 2>"$tmp/bare.err" && fail "a sweep without the recorder was not refused"
        grep -q 'CAPO_SWEEP wants candidates tried call by call' "$tmp/bare.err" || fail "refused for another reason: $(cat "$tmp/bare.err")"
        LD_PRELOAD=$lib "$bin/app_gpu" devices >"$tmp/out" 2>"$tmp/err" || fail "exit status $?: $(cat "$tmp/out")"
        "$bin/log_text" "$CAPO_DIR"/*.capo >"$tmp/log" 2>&1
        for c in 1 2; do # each number of a call is the same candidate on both
                sed -n "s/^call AllReduce comm=$c .* \(seq=[0-9]*\) .* \(rule=[0-9]*\).*/\1 \2/p" "$tmp/log" | sort >"$tmp/tried.$c"
        done
        cmp -s "$tmp/tried.1" "$tmp/tried.2" || fail "ranks tried different candidates: $(diff "$tmp/tried.1" "$tmp/tried.2")"
        quiet # such as that no tuner was loaded
        [ "$(grep -c 'rule=[1-9]' "$tmp/tried.1")" -gt 20 ] || fail "little was tried: $(cat "$tmp/tried.1")"
        gone
        ;;
gpu-pending | gpu-kill) # what was still on the GPU keeps its host time
        export CAPO_GPU_SAMPLE=1
        timed='^call AllReduce .* clock=event .* gpu=1 '
        for ms in 50 500 5000; do # before it is killed: on a busy machine it takes longer until the recorder looks at the GPU
                rm -rf "$CAPO_DIR"
                both "$bin/app_gpu" "${case#gpu-}" $ms
                [ "$case" = gpu-kill ] || break
                "$bin/log_text" --recover "$CAPO_SHM" >"$tmp/recovered"
                "$bin/log_text" "$CAPO_DIR"/*.capo >"$tmp/log"
                ! grep -qE "$timed" "$tmp/log" || break
        done
        # who is killed while a call is counted has it twice in a histogram, or altogether: docs/internals/log-format.md
        [ "$case" = gpu-pending ] && cell='4 result=0 flags=0 host=4 gpu=1' || cell='[45] result=0 flags=0 host=[45] gpu=[12]'
        want 1 "^cell AllReduce comm=1 bytes=1048576 count=$cell\$"
        want 3 '^call AllReduce .* clock=host .* gpu=0 '
        want 1 "$timed"
        gone
        ;;
*)
        echo "no such case: $case"
        exit 2
        ;;
esac
if [ $bad -ne 0 ]; then
        sed 's/^/stderr: /' "$tmp/err" 2>/dev/null | head -5
fi
exit $bad
