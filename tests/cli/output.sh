#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Files that verbs write with -o: a regular one appears at once and keeps its mode, a link stays one, a device or a FIFO is
# written in place and never replaced, a folder is refused. And a page that does not arrive is no success.
# As root the devices are real: a node like /dev/null, made in our own folder, is what -o /dev/null would have replaced.
set -u
capo=$(realpath "$1")
data=$(realpath "$2")/tests/fit/data
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
bad=0
fail() { echo "$*"; bad=1; }
log=$data/h100_g4_auto.log
"$capo" export "$log" >want.csv 2>/dev/null || fail "export"
"$capo" fit "$log" --without-default -o want.json >/dev/null 2>&1 || fail "fit"

# verb, what it is to write: to a file that is not there, over one with a mode of its own, through a link
writes() {
        name=$1 want=$2
        shift 2
        "$capo" "$@" -o new >/dev/null 2>err || fail "$name: exit status $?: $(cat err)"
        cmp -s new "$want" || fail "$name: the new file differs"
        echo old >old
        chmod 640 old
        ln -s old link
        "$capo" "$@" -o link >/dev/null 2>&1 || fail "$name through a link: exit status $?"
        [ -L link ] && cmp -s old "$want" || fail "$name: a link or its file is not what it was"
        [ "$(stat -c %a old)" = 640 ] || fail "$name: mode is $(stat -c %a old)"
        ln -s nowhere empty
        "$capo" "$@" --output=empty >/dev/null 2>&1 || fail "$name through a link to nowhere: exit status $?"
        [ -L empty ] && cmp -s nowhere "$want" || fail "$name: a link to nowhere is not filled"
        mkfifo fifo
        cat fifo >read &
        "$capo" "$@" -o fifo >/dev/null 2>&1 || fail "$name to a FIFO: exit status $?"
        wait $!
        [ -p fifo ] || fail "$name: the FIFO is replaced"
        cmp -s read "$want" || fail "$name: what came through the FIFO differs"
        mkdir folder
        "$capo" "$@" -o folder >/dev/null 2>err && fail "$name: a folder is no error"
        grep -q 'capo: folder: is a folder' err || fail "$name to a folder: $(cat err)"
        rm -r new old link empty nowhere fifo read folder
        if mknod device c 1 3 2>/dev/null && : >device 2>/dev/null; then
                "$capo" "$@" -o device >/dev/null 2>&1 || fail "$name to a device: exit status $?"
                [ -c device ] || fail "$name: a device like /dev/null is replaced"
                rm -f device
        fi
        "$capo" "$@" -o /dev/full >/dev/null 2>err && fail "$name: a full device is no error"
        [ -c /dev/full ] && grep -q '/dev/full: No space left' err || fail "$name to /dev/full: $(cat err)"
        [ -z "$(find . -name '*.??????' -newer want.json)" ] || fail "$name leaves $(ls)"
}
writes export want.csv export "$log"
# Who is ended by a signal while the file is being written leaves nothing: here by the signal of a limit, which comes for sure.
mkdir limited
(ulimit -f 1; cd limited; "$capo" export "$log" -o new >/dev/null 2>&1) && fail "a file beyond the limit is no error"
[ -z "$(ls limited)" ] || fail "a signal leaves $(ls limited)"
rm -r limited
# A trace to which a log is missing is none, and leaves what was there.
echo old >trace.json
echo nonsense >bad.capo
"$capo" dump --chrome -o trace.json bad.capo >out 2>err && fail "a trace of no log: status 0"
[ "$(cat trace.json)" = old ] && [ ! -s out ] || fail "half a trace is left"
"$capo" dump -o trace.json bad.capo >/dev/null 2>err && fail "dump -o without --chrome"
grep -q 'expected --chrome' err || fail "dump -o without --chrome: $(cat err)"
# A page that standard output cannot take: status 1 and the reason, whichever verb
printf '# nThread 1 nGpus 8\n# Avg bus bandwidth : 4\n' >tests.log
for words in "topo --platform dgx1v" "expect --no-nccl --busbw 9 --platform p5 --alloc 2x8" "diagnose tests.log" "diagnose --json bad.capo"; do
        # shellcheck disable=SC2086
        "$capo" $words >/dev/full 2>err
        [ $? = 1 ] && grep -q 'standard output: No space left' err && ! grep -q 'out of memory' err || fail "$words to a full device: $(cat err)"
done
rm tests.log
# A file where a folder is expected is called that, also when we are root.
"$capo" run --quiet --dir bad.capo -- true 2>err && fail "run --dir FILE: status 0"
grep -q 'bad.capo: cannot be used for logs: a file is there' err || fail "run --dir FILE: $(cat err)"
CAPO_DIR=$PWD/bad.capo "$capo" doctor 2>/dev/null | grep -q 'CAPO_DIR=.*bad.capo: no log can be written there: Not a directory' || fail "doctor: CAPO_DIR is a file"
rm -f trace.json bad.capo out
SOURCE_DATE_EPOCH=0
export SOURCE_DATE_EPOCH
"$capo" fit "$log" --without-default -o want.json >/dev/null 2>&1
writes fit want.json fit "$log" --without-default
if [ "$(id -u)" != 0 ]; then
        echo old >locked
        chmod 400 locked
        "$capo" export "$log" -o locked 2>/dev/null && fail "a file that may not be written is replaced"
fi

# Pages of every verb that prints one without asking for a job or a libnccl; help of all.
"$capo" store add s.db "$log" >/dev/null 2>&1 || fail "store add"
verbs=$("$capo" help --options | cut -f 1 | sort -u)
[ -n "$verbs" ] || fail "no verbs"
printf '%s\n' "$verbs" | sed 's/$/ --help/' >words
cat >>words <<END
--help
--version
help --options
env
env --markdown
report --recover-list
recover --list
doctor
doctor --json
completion bash
help --man
export $log
fit $log --without-default
fit $log --without-default --json
profile list
profile show want.json
profile check want.json
profile digest want.json
profile export want.json
store list s.db
store query s.db
store fit s.db
topo --platform dgx1v
topo --platform dgx1v --json
topo --platform dgx1v --gpus 0,1,2
topo --platform dgx1v --gpus 0,1,2 --json
explain allreduce 64K --ranks 8 --nodes 1 --profile want.json
explain allreduce 64K --ranks 8 --nodes 1 --profile want.json --json
END
while read -r words; do
        # shellcheck disable=SC2086
        "$capo" $words >page 2>err </dev/null || [ "${words%% *}" = doctor ] || fail "capo $words: exit status $?: $(cat err)"
        [ -s page ] || continue
        # shellcheck disable=SC2086
        "$capo" $words >/dev/full 2>err </dev/null && fail "capo $words: a full standard output is no error"
        grep -q 'standard output: ' err || fail "capo $words > /dev/full: $(cat err)"
done <words
exit $bad
