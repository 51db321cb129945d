#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What is to be seen on a machine with GPUs: real driver, real NCCL, PyTorch, nccl-tests (docs/internals/gpu-kit.md). Each part checks that the
# job's results do not change and prints figures. What is missing is said and its part left out. Parts come by their worth.
# A part that is done is not done again: the same command goes on after a break. No network, no change of the machine.
# usage: run.sh [--dry] [--limit SECONDS] [--parts NAME,...] [--again] [--nccl-tests FOLDER] BUILD [OUT_DIR]
#   results in OUT_DIR/results.txt (default gpu-results)
#   --dry: all that can be done without a GPU, on the stand-in and shortened, with the PyTorch of ./dev frameworks if that is here
#   --limit: begin no part after so many seconds, and end one that is under way; --again: forget what is done
#   --nccl-tests: where all_reduce_perf is.   PYTHON: the Python that has torch.   CAPO_NCCL: an NCCL in an odd place
# Exit status: 0; 1 a check failed; 3 not all parts were begun, run it again; 77 nothing could run.
set -u
here=$(realpath "$(dirname "$0")")
# name, limit in seconds
parts='here:60 train:120 cost:180 torch:180 torch-cost:240 tuned:90 nccl-tests:180 graphs:60 driver:30 mig:60 train-more:120 torch-all:180'

usage() {
        sed -n '6,12s/^# //p' "$0"
        exit 2
}

if [ "${1:-}" = --part ]; then # one part, in a process of its own that a limit can end
        . "$here/parts.sh"
        part_file=$GPU_KIT_OUT/part.$2
        { run_part "$2"; echo $? >"$part_file.status"; } >"$part_file.text" 2>&1
        { echo "status $(cat "$part_file.status")"; cat "$part_file.text"; } >"$part_file.new"
        # only now it is done, whole
        mv "$part_file.new" "$GPU_KIT_OUT/done.$2"
        rm -f "$part_file".*
        exit 0
fi

GPU_KIT_DRY='' GPU_KIT_TESTS='' limit='' only='' again=''
while [ $# -gt 0 ]; do
        case $1 in
        --dry) GPU_KIT_DRY=1 ;;
        --again) again=1 ;;
        --limit | --parts | --nccl-tests)
                [ $# -ge 2 ] || usage
                case $1 in
                --limit) limit=$2 ;;
                --parts) only=$(echo "$2" | tr ',' ' ') ;;
                *) GPU_KIT_TESTS=$(realpath "$2") ;;
                esac
                shift
                ;;
        -*) usage ;;
        *) break ;;
        esac
        shift
done
[ $# -ge 1 ] && [ -x "$1/cli/capo" ] || usage
GPU_KIT_BUILD=$(realpath "$1")
work=
if [ $# -ge 2 ]; then out=$2; elif [ "$GPU_KIT_DRY" ]; then out=$(mktemp -d) && work=$out; else out=gpu-results; fi
mkdir -p "$out" && GPU_KIT_OUT=$(realpath "$out") || exit 2
export GPU_KIT_DRY GPU_KIT_TESTS GPU_KIT_BUILD GPU_KIT_OUT
cd "$GPU_KIT_OUT" || exit 2
for name in $only; do
        case " $parts" in *" $name:"*) ;; *) echo "run.sh: there is no part $name; there are $(echo "$parts" | sed 's/:[0-9]*//g')" >&2; exit 2 ;; esac
done

# A part outlives a run.sh that was killed; whoever comes next waits for it to end.
exec 9>lock
flock -n 9 || { echo "waiting for a part that a broken run has left"; flock 9; }
# What is done holds for one machine and one capo.
who="$GPU_KIT_DRY $(nvidia-smi -L 2>/dev/null | sort) $("$GPU_KIT_BUILD/cli/capo" --version) $GPU_KIT_BUILD $GPU_KIT_TESTS"
[ "$who" = "$(cat for 2>/dev/null)" ] || again=1
[ -z "$again" ] || rm -rf done.* part.* logs.* ./*.json
echo "$who" >for

child=
stop() {
        [ -z "$child" ] || kill "$child" 2>/dev/null
        echo "broken off; the same command goes on where it was"
        exit 3
}
trap stop INT TERM HUP
trap '[ -z "$work" ] || rm -rf "$work"' EXIT

results() {
        for entry in $parts; do
                [ ! -e "done.${entry%%:*}" ] || sed 1d "done.${entry%%:*}"
        done
        echo
        echo "$*"
}

begin=$(date +%s)
left_out=
for entry in $parts; do
        name=${entry%%:*} most=${entry#*:}
        case " ${only:-$name} " in *" $name "*) ;; *) continue ;; esac
        if [ -e "done.$name" ]; then
                echo "== $name: done before"
                continue
        fi
        [ -z "$GPU_KIT_DRY" ] || most=$((most * 5)) # a busy machine is no fault of these scripts
        if [ -n "$limit" ]; then
                rest=$((limit - $(date +%s) + begin))
                [ "$rest" -ge 5 ] || { left_out="$left_out $name"; continue; }
                [ "$rest" -ge "$most" ] || most=$rest
        fi
        rm -f "part.$name".*
        echo "$name" >>begun
        timeout -k 10 "$most" sh "$here/run.sh" --part "$name" &
        child=$!
        wait "$child"
        status=$?
        child=
        if [ ! -e "done.$name" ] && [ $status = 124 ] || [ $status = 137 ]; then
                { echo "status 1"; cat "part.$name.text"; echo "FAIL: $name was ended after its limit of $most s"; } >"part.$name.new"
                mv "part.$name.new" "done.$name"
        fi
        [ ! -e "done.$name" ] || sed 1d "done.$name"
        results "not all parts are done yet" >results.new && mv results.new results.txt
done

states=$(sed -sn '1s/^status //p' done.* 2>/dev/null | sort -u | tr '\n' ' ')
case " $states" in
*" 1 "*) verdict="something is not as it should be: see FAIL above" code=1 ;;
*" 0 "*) verdict="all that ran is as it should be" code=0 ;;
*) verdict="nothing could run: $(grep -h '^SKIPPED: ' done.* 2>/dev/null | head -n 1)" code=77 ;;
esac
if [ -n "$left_out" ]; then
        verdict="$verdict; not begun for want of time:$left_out (the same command goes on there)"
        [ $code = 1 ] || code=3
fi
results "$verdict" >results.new && mv results.new results.txt
printf '\nresults in %s\n%s\n' "$GPU_KIT_OUT/results.txt" "$verdict"
exit $code
