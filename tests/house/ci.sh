#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The scripts of .ci themselves: what they may not take for a success. usage: ci.sh SOURCE
set -u
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
bad=0
fail() { echo "$*: $(cat "$dir/said")"; bad=1; }
mkdir -p "$dir/tree" "$dir/bin"
cp -r "$1/.ci" "$dir/tree/"
# made STATUS COMMAND...: a command or function of checks.sh, in a tree without history
made() {
        want=$1
        shift
        TMPDIR=$dir GIT_CEILING_DIRECTORIES=$dir PATH=$dir/bin:$PATH bash "$dir/tree/.ci/checks.sh" "$@" >"$dir/said" 2>&1 </dev/null
        status=$?
        [ $status = "$want" ] || fail "$*: status $status, not $want"
}
printf '#!/bin/sh\nexit 0\n' >"$dir/bin/clang-format-14"
printf '#!/bin/sh\nexit 128\n' >"$dir/bin/git"
chmod +x "$dir/bin/clang-format-14" "$dir/bin/git"
made 77 format_check # of no sources is none as it should be
printf '#!/bin/sh\nprintf "a.c\\0"\n' >"$dir/bin/git"
made 0 format_check
printf '#!/bin/sh\nexit 1\n' >"$dir/bin/clang-format-14"
made 123 format_check

# A check that does not end is named; one that fails or skips by itself is not said to be so. The limit grows with the load of a
# processor: with so many processors it does not.
printf '#!/bin/sh\necho 1000000\n' >"$dir/bin/nproc"
chmod +x "$dir/bin/nproc"
export limit=1
made 124 check slow sleep 600
unset limit
grep -q '^FAIL  slow' "$dir/said" && grep -q 'did not end within [0-9]* s' "$dir/said" || fail "a slow one"
made 137 check killed sh -c 'kill -KILL $$'
grep -q '^FAIL  killed' "$dir/said" && ! grep -q 'did not end' "$dir/said" || fail "a killed one"
made 77 check skips sh -c 'echo why; exit 77'
grep -q '^SKIP  skips: why' "$dir/said" || fail "a skipped one"
# What its tests said is shown, however much comes behind.
printf 'cut=$1 line=$2\necho " 1/2 capo:unit / a   FAIL   0.1s"\necho "$line$cut$line"\nseq -f early%%.0f 50\necho why\necho "$line"\nseq 100\nexit 1\n' >"$dir/tests"
for marks in '✀  ――――' '8< ----'; do
        # shellcheck disable=SC2086
        made 1 check tests sh "$dir/tests" $marks
        grep -q ' why$' "$dir/said" && grep -q ' early20$' "$dir/said" && ! grep -q ' early9$' "$dir/said" || fail "what tests said"
        grep -q '^early9$' "$dir/tree/build-ci/tests.log" || fail "the whole output"
done
made 0 check tests true
[ ! -e "$dir/tree/build-ci/tests.log" ] || fail "the output of a failure, after it passed"
# A failed test is run again by itself, twice at most. One that passes then is named, with what it said; one that fails always fails.
mkdir -p "$dir/tree/tests" "$dir/again"
cp "$1/tests/again.py" "$dir/tree/tests/"
cat >"$dir/again/meson.build" <<'END'
project('again')
run = find_program('run.sh')
test('once', run, args: 'once', suite: 'unit')
test('twice', run, args: 'twice', suite: 'unit')
test('always', run, args: 'always', suite: 'unit')
test('once', run, args: 'always', suite: 'other')
END
# fails in the first run, in the first two, always
cat >"$dir/again/run.sh" <<'END'
#!/bin/sh
echo >>"$0.$1"
[ "$1" = once ] && [ "$(wc -l <"$0.$1")" -gt 1 ] && exit 0
[ "$1" = twice ] && [ "$(wc -l <"$0.$1")" -gt 2 ] && exit 0
echo why
exit 1
END
chmod +x "$dir/again/run.sh"
meson setup "$dir/again/build" "$dir/again" >"$dir/said" 2>&1 || fail "a project of two tests"
export MESON_TESTTHREADS=2
made 1 check unsteady run_tests "$dir/again/build" --suite unit
[ "$(cat "$dir"/again/run.sh.always | wc -l)" = 3 ] || fail "runs of one that always fails"
rm "$dir"/again/run.sh.*
made 0 check unsteady run_tests "$dir/again/build" --suite unit once twice # not its namesake
grep -q 'unsteady: once .* in run 1 of 2' "$dir/said" && grep -q 'unsteady: twice .* in run 2 of 2' "$dir/said" && grep -q ' why$' "$dir/said" ||
        fail "unsteady ones"
# A warning fails, whether or not its build takes warnings for errors; without one nothing does.
unset logs
mkdir "$dir/warned"
of() { # FILE COMMAND: as a build says it
        printf '[{"directory":"%s","file":"%s","command":"%s -o no.o -c %s"}]' "$dir" "$1" "$2" "$1" >"$dir/warned/compile_commands.json"
}
echo 'int f(void) { int unused; return 0; }' >"$dir/warns.c"
echo 'int used;' >"$dir/clean.c"
of warns.c "cc -Wall"
made 1 "$1/tests/analysis/clang_warnings.py" "$dir/warned"
of clean.c "cc -Wall"
made 0 "$1/tests/analysis/clang_warnings.py" "$dir/warned"
grep -q '^sources read: 1, with a warning or an error: 0$' "$dir/said" || fail "how many were read"
of notes.txt "cc"
made 1 "$1/tests/analysis/clang_warnings.py" "$dir/warned" # nothing to read is not all well

# ./dev deep: a part that passed is not run again on the same sources. One that failed is, and so is each when a source changes.
cat >"$dir/tree/.ci/checks.sh" <<'END'
check() { echo "ran $*"; [ "$1" != fuzz ]; }
logs=/nonexistent passed=0 failed=0 skipped=0
END
printf '#!/bin/sh\ncase "$*" in *ls-files*) printf "a.c\\0" ;; esac\n' >"$dir/bin/git"
deep() { (cd "$dir/tree" && PATH=$dir/bin:$PATH bash .ci/deep "$@" >"$dir/said" 2>&1); }
echo 1 >"$dir/tree/a.c"
deep kills fuzz
grep -q '^ran kills' "$dir/said" && grep -q '^ran fuzz' "$dir/said" || fail "deep, the first time"
deep kills fuzz
grep -q '^ok    kills (before: ' "$dir/said" && grep -q '^ran fuzz' "$dir/said" || fail "deep, the second time"
deep analysis valgrind tsan # docs/security.md names them
for part in analysis valgrind tsan; do grep -q "^ran $part" "$dir/said" || fail "deep has no $part"; done
deep --again kills
grep -q '^ran kills' "$dir/said" || fail "deep --again"
echo 2 >"$dir/tree/a.c"
deep kills
grep -q '^ran kills' "$dir/said" || fail "deep, of another source"
deep none-such
[ $? = 2 ] && grep -q 'found "none-such"' "$dir/said" || fail "deep, of a part that is none"
exit $bad
