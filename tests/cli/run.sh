#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# capo run: the command's own exit status, the environment it gets, the folder it makes.
set -u
capo=$(realpath "$1")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
fail() { echo "$*"; bad=1; }
cd "$dir" || exit 1

"$capo" run --quiet -- sh -c 'exit 37'
[ $? = 37 ] || fail "exit status is not the command's"
"$capo" run --quiet -- sh -c 'kill -TERM $$'
[ $? = 143 ] || fail "death by signal is not passed on"
# a command that cannot be run is the only thing said, before anything is made or checked
: >plain
refused() { # STATUS TEXT COMMAND
        "$capo" run --dir no/logs --profile nosuch -- "$3" 2>err
        [ $? = "$1" ] && [ "$(cat err)" = "capo: $3: $2" ] && [ ! -e no ] || fail "$3: not status $1 and \"$2\": $(cat err)"
}
refused 127 "No such file or directory" ./no-such-command
refused 127 "No such file or directory" no-such-command
refused 126 "Permission denied" ./plain
refused 126 "Permission denied" "$PWD"
printf '#!/no/such/sh -e\nexit 9\n' >orphan && chmod +x orphan
refused 126 "its interpreter /no/such/sh: No such file or directory" ./orphan
path=$PATH
PATH=$PWD:$PATH refused 126 "Permission denied" plain
[ "$PATH" = "$path" ] || PATH=$path # not every shell forgets what is set for a function
mkdir here && printf '#!/bin/sh\nexit 9\n' >here/mine && chmod +x here/mine
(cd here && PATH=$PATH: "$capo" run --quiet -- mine)
[ $? = 9 ] || fail "a command in this folder, by an empty name in PATH"
"$capo" run 2>/dev/null
[ $? = 2 ] || fail "no command: not 2"
"$capo" run --trace some -- true 2>/dev/null
[ $? = 2 ] || fail "--trace some: not 2"

got=$("$capo" run --quiet --dir logs/x --trace all --sample 3 -- sh -c 'echo "$CAPO_DIR $CAPO_TRACE $CAPO_GPU_SAMPLE ${LD_PRELOAD##*/}"')
[ "$got" = "$(pwd -P)/logs/x all 3 libcapo.so" ] || [ "$got" = "$PWD/logs/x all 3 libcapo.so" ] || fail "environment: $got"
[ ! -e logs ] || fail "a job that calls nothing left a folder: $(find logs)"
mkdir -p kept/x
"$capo" run --quiet --dir kept/x -- true
[ -d kept/x ] && [ -z "$(ls -A kept/x)" ] || fail "a folder that was there is not as it was: $(ls -A kept/x)"
"$capo" run --quiet --dir logs/y --profile nosuch -- true 2>/dev/null
[ ! -e logs ] || fail "a job that did not start left a folder"
got=$(LD_PRELOAD=/lib/x86_64-linux-gnu/libdl.so.2 "$capo" run --quiet -- sh -c 'echo $LD_PRELOAD' 2>/dev/null)
case $got in */libcapo.so:/lib/x86_64-linux-gnu/libdl.so.2) ;; *) fail "an earlier LD_PRELOAD is lost: $got" ;; esac
library=$("$capo" run --quiet -- sh -c 'echo $LD_PRELOAD')
got=$(LD_PRELOAD="$library:/x$library" "$capo" run --quiet -- sh -c 'echo $LD_PRELOAD' 2>/dev/null)
[ "$got" = "$library:/x$library" ] || fail "preloaded twice: $got"
got=$(LD_PRELOAD="/x$library" "$capo" run --quiet -- sh -c 'echo $LD_PRELOAD' 2>/dev/null)
[ "$got" = "$library:/x$library" ] || fail "another library whose name ends in ours is taken for it: $got"
# no name for the loader has a blank or a colon in it
for odd in 'a b' 'a:b'; do
        mkdir -p "$odd/cli" "$odd/shim" && cp "$capo" "$odd/cli/capo" && cp "$("$capo" env --preload)" "$odd/shim"
        "$odd/cli/capo" run -- touch ran 2>err
        [ $? = 1 ] && [ ! -e ran ] || fail "a job that the loader cannot record starts"
        grep -q "^capo: .*$odd/shim/libcapo.so: the loader takes blanks and colons" err || fail "$odd: $(cat err)"
done
got=$(SLURM_JOB_ID=77 SLURM_STEP_ID=1 "$capo" run --quiet -- sh -c 'echo $CAPO_DIR')
[ "${got%/capo-logs/77.1}" != "$got" ] || fail "job id is not in the folder's name: $got"
got=$(CAPO_DIR=$PWD/base SLURM_JOB_ID=77 "$capo" run --quiet -- sh -c 'echo $CAPO_DIR')
[ "$got" = "$PWD/base/77" ] || fail "CAPO_DIR is not where the job's folder is: $got"
got=$(CAPO_DIR=$PWD/base SLURM_JOB_ID=77 "$capo" run --quiet -- "$capo" run --quiet -- sh -c 'echo $CAPO_DIR')
[ "${got%/capo-logs/77}" != "$got" ] || fail "a capo run inside another takes its folder for a site's: $got"
got=$(CAPO_OFF=1 "$capo" run -- true 2>&1)
[ "$got" = "capo: warning: CAPO_OFF is set: nothing is recorded" ] || fail "CAPO_OFF: $got"
got=$(CAPO_HANG=abc "$capo" run --quiet --no-watch -- true 2>&1)
[ "$got" = 'capo: warning: CAPO_HANG=abc is not a whole number, using the default "120"' ] || fail "a value that is not understood: $got"
got=$(CAPO_QUIET=1 "$capo" run -- true 2>&1)
[ -z "$got" ] || fail "CAPO_QUIET: $got"
if [ "$(id -u)" != 0 ]; then
        mkdir ro && chmod 500 ro
        "$capo" run --dir ro/x -- true 2>/dev/null && fail "an unwritable folder is accepted"
fi

# Loaders that end a program for our library, or for where it stands: the job goes on.
printf '#include <stdlib.h>\nint main(void) { char *volatile p = malloc(9); free(p); return 7; }\n' >seven.c
if gcc -fsanitize=address seven.c -o with-asan 2>/dev/null; then
        for options in "" detect_leaks=0; do
                ASAN_OPTIONS=$options "$capo" run --quiet -- ./with-asan 2>err
                [ $? = 7 ] && [ ! -s err ] || fail "a program with ASan: $(cat err)"
        done
        got=$(ASAN_OPTIONS=detect_leaks=0 "$capo" run --quiet -- sh -c 'echo $ASAN_OPTIONS')
        [ "$got" = detect_leaks=0:verify_asan_link_order=0 ] || fail "options of ASan: $got"
fi
if musl-gcc seven.c -o with-musl 2>/dev/null; then
        for before in "" env; do
                "$capo" run --dir musl -- $before ./with-musl 2>err
                [ $? = 7 ] && grep -q '^capo: warning: not recording: .*with-musl does not start with libcapo.so, .*musl' err ||
                        fail "a program of musl: $(cat err)"
        done
        [ ! -e musl ] || fail "a folder for a job that is not recorded"
        # started by something else: beside programs that are recorded
        printf './with-musl\n[ $? = 7 ] && grep -q /libcapo.so /proc/self/maps' >script
        "$capo" run --quiet --dir musl -- sh ./script 2>err && [ ! -s err ] || fail "a script with a program of musl: $(cat err)"
fi

# a command that the library cannot reach: said once, before it starts, and no folder
unreached() { # PATTERN COMMAND...
        pattern=$1
        shift
        "$capo" run --dir none/x -- "$@" 2>err
        [ $? = 5 ] && [ "$(wc -l <err)" = 1 ] && grep -q "^capo: warning: not recording: $pattern" err && [ ! -e none ] || fail "$*: $(cat err)"
}
unreached 'env removes LD_PRELOAD .*: env \.\.\. capo run -- PROGRAM$' env -i sh -c 'exit 5'
unreached 'env removes LD_PRELOAD ' env -u LD_PRELOAD B=2 sh -c 'exit 5'
unreached 'env removes CAPO_DIR ' env - LD_PRELOAD="$library" sh -c 'exit 5'
"$capo" run --dir none/x -- env -u B A=1 sh -c 'exit 5' 2>err
[ $? = 5 ] && grep -q 'recording to' err || fail "env that removes nothing of capo: $(cat err)"
if [ "$(id -u)" = 0 ] && cp /bin/sh foreign && chown 65534 foreign && chmod 4755 foreign && [ -u foreign ]; then
        unreached '.*/foreign is set-user-id .* capo run -- PROGRAM$' "$PWD/foreign" -c 'exit 5'
fi

if gcc -static seven.c -o alone 2>/dev/null; then
        "$capo" run --dir none/x -- ./alone 2>err
        [ $? = 7 ] && [ "$(grep -c '^capo: ./alone is statically linked: ' err)" = 1 ] && [ ! -e none ] || fail "a static program: $(cat err)"
        "$capo" run --quiet --dir none/x -- ./alone 2>err
        [ $? = 7 ] && [ ! -s err ] || fail "a static program, --quiet: $(cat err)"
fi

# nobody called NCCL: the command's end says so, and so does the report of the folder
"$capo" run --dir none/x -- python3 -c 'print(1)' >out 2>err
grep -q "^capo: nothing recorded in .*none/x: the command called neither .*; capo doctor -- COMMAND says" err && [ "$(cat out)" = 1 ] || fail "nothing recorded: $(cat err)"
"$capo" run --dir none/x -- sh -c 'env true; exit 0' 2>err
grep -q "^capo: nothing recorded in .*none/x: no process called NCCL .*; CAPO_VERBOSE=1 capo run " err || fail "nothing recorded, of several: $(cat err)"
# who is not named has lost LD_PRELOAD
CAPO_VERBOSE=1 "$capo" run --dir none/x -- sh -c 'env -i python3 -c 1; exit 0' 2>err
grep -q '^capo: process [0-9]* has libcapo.so: .*/env$' err && ! grep -q 'libcapo.so: .*python' err && grep -q 'not named above has lost LD_PRELOAD' err || fail "processes that are reached: $(cat err)"
for ends in 'exit 3' 'python3 -c 1; exit 3' 'exec python3 -c "raise SystemExit(3)"'; do
        "$capo" run --dir none/x -- sh -c "$ends" 2>err
        [ $? = 3 ] && grep -q '^capo: the command failed with status 3, and nothing was recorded in .*none/x' err || fail "a command that failed, $ends: $(cat err)"
        grep -q doctor err && fail "a command that failed has doctor look at it: $(cat err)"
done
for verb in report hang; do
        "$capo" $verb none/x 2>err && fail "$verb of nothing"
        grep -q '^capo: none/x: no such folder .* no process called NCCL .*; CAPO_VERBOSE=1 capo run ' err || fail "$verb of nothing: $(cat err)"
done
for leaves in 'import os; os._exit(7)' 'import os; os.fork() or os._exit(0); os.wait(); os._exit(7)'; do # and says it once
        "$capo" run --dir none/x -- python3 -c "$leaves" >out 2>err
        [ $? = 7 ] && [ "$(grep -c '^capo: .*nothing was recorded in .*none/x: ' err)" = 1 ] || fail "nothing recorded, _exit(): $(cat err)"
done
"$capo" run --quiet --dir none/x -- python3 -c 'print(1)' >out 2>err
[ ! -s err ] || fail "--quiet, and yet: $(cat err)"
[ -f "$("$capo" env --preload)" ] && [ -f "$("$capo" env --plugin)" ] || fail "capo env: no libraries: $("$capo" env --preload) $("$capo" env --plugin)"
"$capo" raport x 2>err
[ $? = 2 ] && grep -q 'unknown verb "raport", is it report?' err || fail "a mistyped verb: $(cat err)"

# A profile is resolved once, here: absolute path, digest, layout, plugin by path; what was set before is kept for chaining.
cat >p.json <<'EOF'
{"capo_profile": 1, "rules": [{"when": {}, "allreduce": [{"upto": "max", "algo": "ring", "proto": "simple"}]}]}
EOF
got=$(NCCL_TUNER_PLUGIN=other "$capo" run --quiet --profile p.json --layout 5+3 -- sh -c \
        'echo "$CAPO_PROFILE $CAPO_PROFILE_DIGEST $CAPO_LAYOUT ${NCCL_TUNER_PLUGIN##*/} $CAPO_CHAIN_TUNER"')
echo "$got" | grep -Eqx "$(realpath p.json) [0-9a-f]{32} 3\+5 libcapo.so other" || fail "profile: $got"
# Modelled rules only by request, and the digest says so: a rank that has it otherwise refuses.
cat >m.json <<'EOF'
{"capo_profile": 1, "rules": [{"when": {}, "basis": "modelled", "allreduce": [{"upto": "max", "algo": "ring", "proto": "simple"}]}]}
EOF
show='echo "$CAPO_ALLOW_MODELLED $CAPO_PROFILE_DIGEST"'
digest=$("$capo" profile digest m.json | cut -d' ' -f1)
got=$("$capo" run --profile m.json -- sh -c "$show" 2>err)
[ "$got" = "0 $digest" ] || fail "modelled rules without the option: $got"
grep -q 'that are not used: 1; --allow-predicted tries them, --allow-modelled' err || fail "not said: $(cat err)"
for allow in 0 1; do # by the option, by the variable
        [ $allow = 0 ] && set -- --allow-modelled || set --
        got=$(CAPO_ALLOW_MODELLED=$allow "$capo" run "$@" --profile m.json -- sh -c "$show" 2>err)
        [ "$got" = "1 $digest+modelled" ] || fail "modelled rules, variable $allow: $got"
        grep -q 'not used' err && fail "said to be not used: $(cat err)"
done
got=$("$capo" run --quiet -- sh -c 'echo "[$NCCL_TUNER_PLUGIN]"')
[ "$got" = "[]" ] || fail "a tuner is loaded without a profile: $got"
echo '{' >bad.json
"$capo" run --profile bad.json -- touch ran 2>err && fail "a broken profile starts the job"
[ -e ran ] && fail "a broken profile starts the job"
grep -q '^capo: .*bad.json:2:1' err || fail "a broken profile: $(cat err)"
"$capo" run --profile nosuch -- true 2>err && fail "a missing profile starts the job"
for path in ./no/such.json "$PWD/such.json"; do
        "$capo" run --profile "$path" -- touch ran 2>err && fail "a missing file starts the job"
        grep -q "^capo: $path: No such file or directory" err || fail "a missing file is not named: $(cat err)"
done
echo '{"capo_profile": 1, "rules": []}' | "$capo" run --profile - -- touch ran 2>err && fail "standard input starts the job"
grep -q '^capo: run: --profile - is no file' err || fail "standard input: $(cat err)"
"$capo" run --profile p.json --layout 3+x -- true 2>err && fail "a wrong layout starts the job"

# a profile of a fragment says when this job is none of its class
echo '{"capo_profile": 1, "rules": [{"when": {"class": "dgx1v/3-ring1-b"}, "allreduce": [{"upto": "max", "algo": "tree", "proto": "simple"}]}]}' >class.json
"$capo" run --profile class.json --platform dgx1v --gpus 0,3,4 -- true 2>err || fail "another class: $(cat err)"
grep -q 'no rule of .*class.json can hold: .*(dgx1v/3-ring1-b), and this one is dgx1v/' err || fail "another class: $(cat err)"
"$capo" run --profile class.json -- true 2>err || fail "class not known: $(cat err)"
grep -q 'no rule of .*class.json can hold: .* is not known' err || fail "class not known: $(cat err)"
"$capo" run --profile class.json --platform dgx1v --gpus 0,1,2 -- true 2>err || fail "its class: $(cat err)"
grep -q 'can hold' err && fail "its class: $(cat err)"
"$capo" run --profile p.json -- true 2>err
grep -q 'can hold' err && fail "a profile without classes: $(cat err)"

# Open MPI's launcher is given what to pass on; a stand-in for it shows its arguments.
mkdir bin && cat >bin/mpirun <<'EOF'
#!/bin/sh
[ "$1" = --version ] && { echo "mpirun (Open MPI) 4.1.4"; exit; }
echo "$@"
EOF
chmod +x bin/mpirun
got=$(PATH=$PWD/bin:$PATH "$capo" run --quiet --dir logs -- mpirun -n 2 prog)
case $got in *"-x CAPO_DIR"*"-x LD_PRELOAD -x ASAN_OPTIONS -n 2 prog") ;; *) fail "Open MPI: $got" ;; esac
exit $bad
