#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Whole jobs with the plugin and every kind of profile a user can end up with. A job may fail at once with a reason, or go
# on untuned where that was asked for; it may never hang (launch ends with 124) and never crash.
# usage: job.sh LAUNCH COLL_PERF PLUGIN CAPO
set -u
launch=$1 perf=$2 plugin=$3 capo=$4
work=$(mktemp -d "${TMPDIR:-/tmp}/capo-job.XXXXXX")
trap 'rm -rf "$work"' EXIT
export LD_LIBRARY_PATH="$(dirname "$perf")/../standin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export NCCL_TUNER_PLUGIN=$plugin CAPO_STANDIN_TIMEOUT=300
unset CAPO_PROFILE CAPO_PROFILE_DIGEST CAPO_ALLOW_MODELLED CAPO_STRICT CAPO_TUNER CAPO_LAYOUT
bad=0

cat >"$work/good.json" <<END
{"capo_profile": 1, "rules": [{"when": {"ranks": 3}, "allreduce": [
{"upto": "64K", "algo": "tree", "proto": "ll", "channels": 1}, {"upto": "max", "leave": true}]}]}
END
sed 's/tree/ring/' "$work/good.json" >"$work/other.json"
: >"$work/empty"
echo "this is no profile" >"$work/text"
sed 's/"capo_profile": 1/"capo_profile": 2/' "$work/good.json" >"$work/newer.json"
head -c 100 "$work/good.json" >"$work/cut.json"
mkfifo "$work/fifo"
awk 'BEGIN { for (i = 0; i < 1000000; i++) printf "allreduce,%d,%d,ring,simple,%d,-1,-1\n", i * 100, i * 100 + 99, i % 8 + 1 }' >"$work/huge.csv"
awk 'BEGIN { print "{\"capo_profile\": 1, \"rules\": [{\"when\": {}, \"allreduce\": ["
             for (i = 1; i < 1000000; i++) printf "{\"upto\": %d, \"algo\": \"ring\", \"proto\": \"simple\"},\n", i * 100
             print "{\"upto\": \"max\", \"leave\": true}]}]}" }' >"$work/huge.json"
digest=$("$capo" profile digest "$work/good.json" | cut -d' ' -f1)

# A rank that sees something else than the others: rank 1 gets $OTHER as its profile, or $MODELLED.
cat >"$work/rank" <<'END'
#!/bin/sh
[ "$RANK" = 1 ] && [ -n "${OTHER+set}" ] && export CAPO_PROFILE=$OTHER
[ "$RANK" = 1 ] && [ -n "${MODELLED+set}" ] && export CAPO_ALLOW_MODELLED=$MODELLED
exec "$@"
END
chmod +x "$work/rank"

# try NAME EXPECTED WORD [VARIABLE=VALUE...]: EXPECTED is ends or runs
try() {
        name=$1 expected=$2 word=$3
        shift 3
        begin=$(date +%s)
        env "$@" "$launch" -n 3 --timeout 600 -- "$work/rank" "$perf" allreduce -b 1K -e 16K -f 4 -n 2 -w 1 >"$work/out" 2>&1
        rc=$?
        seconds=$(($(date +%s) - begin))
        case $expected:$rc in
        runs:0) ;;
        ends:124 | ends:0 | runs:* | ends:1[23][0-9])
                echo "FAIL $name: ended with status $rc after $seconds s"
                head -20 "$work/out"
                bad=1
                return
                ;;
        esac
        if ! grep -q -- "$word" "$work/out" && [ "$word" ]; then
                echo "FAIL $name: \"$word\" was not said"
                head -20 "$work/out"
                bad=1
        else
                echo "ok   $name: status $rc in $seconds s"
        fi
}

try "no profile" runs ""
try "a good profile" runs "" CAPO_PROFILE="$work/good.json"
try "a good profile and its digest" runs "" CAPO_PROFILE="$work/good.json" CAPO_PROFILE_DIGEST="$digest"
try "not there" ends "No such file" CAPO_PROFILE="$work/none.json"
try "empty" ends "found an empty file" CAPO_PROFILE="$work/empty"
try "not JSON" ends "expected" CAPO_PROFILE="$work/text"
try "from a newer version" ends "newer than this capo" CAPO_PROFILE="$work/newer.json"
try "cut off" ends "expected" CAPO_PROFILE="$work/cut.json"
try "a folder" ends "Is a directory" CAPO_PROFILE="$work"
try "a pipe that nobody writes" ends "not a regular file" CAPO_PROFILE="$work/fifo"
try "a million rows of CSV" runs "" CAPO_PROFILE="$work/huge.csv"
try "a million rows of JSON" runs "" CAPO_PROFILE="$work/huge.json"
try "one rank cannot read it" ends "No such file" CAPO_PROFILE="$work/good.json" CAPO_PROFILE_DIGEST="$digest" OTHER="$work/none.json"
try "one rank cannot read it, no digest" ends "No such file" CAPO_PROFILE="$work/good.json" OTHER="$work/none.json"
try "changed before one rank started" ends "has digest" CAPO_PROFILE="$work/good.json" CAPO_PROFILE_DIGEST="$digest" OTHER="$work/other.json"
try "modelled rules on all ranks" runs "" CAPO_PROFILE="$work/good.json" CAPO_PROFILE_DIGEST="$digest+modelled" CAPO_ALLOW_MODELLED=1
try "modelled rules on all but one rank" ends "CAPO_ALLOW_MODELLED or CAPO_TRIAL is not the same" CAPO_PROFILE="$work/good.json" CAPO_PROFILE_DIGEST="$digest+modelled" CAPO_ALLOW_MODELLED=1 MODELLED=0
try "one rank has no profile" ends "CAPO_PROFILE is not set" CAPO_PROFILE="$work/good.json" CAPO_PROFILE_DIGEST="$digest" OTHER=
try "not there, not strict" runs "CAPO_STRICT=0" CAPO_PROFILE="$work/none.json" CAPO_STRICT=0
try "auto without capo run" runs "only under capo run" CAPO_PROFILE=auto
exit $bad
