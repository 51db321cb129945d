#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sweeps and trials of jobs whose ranks group their calls each in its own way, or that come to one communicator in different ways: the ranks must
# try the same all the same. Two algorithms in one call hang; the stand-in gives up after its time-out then.
# usage: unlike.sh LAUNCH UNLIKE CAPO LOG_TEXT
set -u
launch=$1 unlike=$2 capo=$3 log_text=$4
work=$(mktemp -d "${TMPDIR:-/tmp}/capo-unlike.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/shm"
export LD_LIBRARY_PATH="$(dirname "$unlike")/../standin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export CAPO_STANDIN_TIMEOUT=300 CAPO_STANDIN_NCCL_VERSION=2.30.7 CAPO_SHM=$work/shm
unset CAPO_PROFILE CAPO_PROFILE_DIGEST CAPO_TUNER CAPO_LAYOUT CAPO_DIR RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
bad=0

for what in others sends grown mixed simulated; do
        "$capo" sweep --dir "$work/$what" -- "$launch" -n 3 --timeout 600 -- "$unlike" $what >"$work/out" 2>&1 || {
                echo "FAIL $what: ended with status $?"
                head -20 "$work/out"
                bad=1
                continue
        }
        ranks=3
        case $what in
        grown) comm='[23]' ;;
        mixed) comm=2 ranks=2 ;; # of the rank that does not block the recorder knows no candidate
        *) comm=1 ;;
        esac
        # the candidates of the all-reduces of all three: rank, number of the call, candidate. A group of which two
        # communicators were asked about has the candidate of neither
        for log in "$work/$what"/*.capo; do
                "$log_text" "$log" | sed -n 's/^call AllReduce comm='$comm' .* seq=\([0-9]*\) .* rule=\([1-9][0-9]*\) .*/\1 \2/p' |
                        sed "s,^,$(basename "$log") ,"
        done >"$work/tried"
        if [ "$(cut -d' ' -f2 "$work/tried" | sort -u | wc -l)" -ne "$(cut -d' ' -f2- "$work/tried" | sort -u | wc -l)" ] ||
                [ "$(cut -d' ' -f1 "$work/tried" | sort | uniq -c | awk '$1 >= 20' | wc -l)" -ne $ranks ]; then
                echo "FAIL $what: tried by each rank:"
                cat "$work/tried"
                bad=1
        else
                echo "ok   $what"
        fi
done

# Trials, every second question one: of a rank that does not block the recorder does not see what is decided, but it must decide as the others do.
# Each job with a configuration of its own: what one has tried can decide the next, which then tries nothing.
cat >"$work/p.json" <<'END'
{"capo_profile": 1, "rules": [{"when": {"ranks": 3, "nodes": 1}, "basis": "modelled", "allreduce": [{"upto": "max", "algo": "tree", "proto": "ll"}]}]}
END
for what in others grown mixed simulated; do
        export XDG_CONFIG_HOME="$work/config-$what"
        "$capo" run --dir "$work/trial-$what" --profile "$work/p.json" --allow-predicted --budget 50 -- "$launch" -n 3 --timeout 600 -- "$unlike" $what >"$work/out" 2>&1 || {
                echo "FAIL trials of $what: ended with status $?"
                head -20 "$work/out"
                bad=1
                continue
        }
        case $what in
        grown) comm='[23]' ranks=3 ;;
        mixed) comm=2 ranks=2 ;;
        *) comm=1 ranks=3 ;;
        esac
        for log in "$work/trial-$what"/*.capo; do
                "$log_text" "$log" | sed -n 's/^call AllReduce comm='$comm' .* seq=\([0-9]*\) .* rule=\([0-9]*\) .*/\1 \2/p' | sort -n | cut -d' ' -f2 | tr '\n' ' '
                echo
        done | grep 1 | sort >"$work/tried"
        if [ "$(uniq <"$work/tried" | wc -l)" -ne 1 ] || [ "$(wc -l <"$work/tried")" -ne $ranks ] || [ "$(head -n 1 "$work/tried" | tr -cd 1 | wc -c)" -lt 30 ]; then
                echo "FAIL trials of $what: tried by each rank:"
                cat "$work/tried"
                bad=1
        else
                echo "ok   trials of $what"
        fi
done
exit $bad
