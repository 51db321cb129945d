#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A file of site defaults: the recorder in a job that knows nothing of capo reads it, the environment wins, capo env says
# where a value is from, and a file that others may write to is not read.
# usage: site.sh CAPO SOURCE
set -u
capo=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
build=$(realpath "$(dirname "$1")/..")
export CAPO_STANDIN=1
. "$here/job.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
bad=0
fail() { echo "site: $*"; bad=1; }
unset CAPO_DIR CAPO_TRACE
printf '# defaults\nCAPO_DIR=%s/logs\nCAPO_TRACE=all\n' "$work" >capo.conf
chmod 644 capo.conf
export CAPO_CONF="$work/capo.conf"

job() { LD_PRELOAD=$("$capo" env --preload) "$@" "$jobs/launch" -n 2 --timeout 600 -- "$jobs/ddp_train" --epochs 1 >out 2>&1 || fail "job: $(cat out)"; }
job env
[ "$(ls logs 2>/dev/null | wc -l)" = 2 ] || fail "the file's folder has no logs: $(ls logs; cat out)"
"$capo" dump "$(echo logs/*.capo | cut -d' ' -f1)" | grep -q AllReduce || fail "no calls"
job env CAPO_DIR="$work/mine"
[ "$(ls mine | wc -l)" = 2 ] && [ "$(ls logs | wc -l)" = 2 ] || fail "the environment does not win: $(ls mine logs)"
CAPO_TRACE=maybe "$capo" env --wide >env
grep -q "^CAPO_DIR  *$work/logs  *site " env && grep -q "^CAPO_TRACE  *maybe  *env " env && grep -q "site defaults: $work/capo.conf" env || fail "capo env does not name the file: $(cat env)"
CAPO_HANG=abc "$capo" env --wide | grep -q '^CAPO_HANG *120 (abc is not a whole number) *env' || fail "a value that is not understood is shown as in force"
printf 'CAPO_HNAG=60\n' >>capo.conf
said='capo.conf:4: expected NAME=VALUE with a name of capo env, found "CAPO_HNAG=60"; this line is ignored'
job env
[ "$(grep -c "$said" out)" = 2 ] || fail "a wrong line is not said once by each rank: $(cat out)"
# capo run says it for its own node's file; another node's is said by the ranks there
run() { "$capo" run --quiet --no-watch --dir run -- "$jobs/launch" -n 2 --timeout 600 -- env "$@" "$jobs/ddp_train" --epochs 1 >out 2>&1 || fail "capo run: $(cat out)"; }
run A=1
[ "$(grep -c "$said" out)" = 1 ] || fail "a wrong line is not said once by capo run: $(cat out)"
sed 's/HNAG/GHAN/' capo.conf >there.conf
run CAPO_CONF="$work/there.conf"
[ "$(grep -c "$said" out)" = 1 ] && [ "$(grep -c 'there.conf:4: .*"CAPO_GHAN=60"' out)" = 2 ] || fail "another file: $(cat out)"
got=$(LD_PRELOAD=$("$capo" env --preload 2>/dev/null) /bin/true 2>&1)
[ -z "$got" ] || fail "a program without NCCL says it: $got"
rm -r logs && mkdir logs && cp -r mine/. logs
chmod 666 capo.conf
job env
[ "$(ls logs | wc -l)" = 2 ] || fail "a file that others may write to was read"
grep -q 'capo.conf is not read: others may write to it' out || fail "nothing says why: $(cat out)"
exit $bad
