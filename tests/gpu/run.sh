#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What is to be seen on a machine with GPUs: real driver, real NCCL, PyTorch. Each part checks that the job's results do
# not change and prints figures for docs/measurements.md. What is missing is said and its part left out.
# usage: run.sh [--dry] BUILD [OUT_DIR]       results in OUT_DIR/results.txt (default gpu-results)
#   --dry: all that can be done without a GPU, on the stand-in of tests/standin and shortened; it checks these scripts
# PYTHON: the Python that has torch. Exit status: 0; 1 a check failed; 77 nothing could run.
set -u
dry=
[ "${1:-}" != --dry ] || { dry=1; shift; }
[ $# -ge 1 ] || { sed -n '5,7s/^# //p' "$0"; exit 2; }
build=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
work=
if [ $# -ge 2 ]; then out=$2; elif [ "$dry" ]; then out=$(mktemp -d) && work=$out; else out=gpu-results; fi
mkdir -p "$out" && out=$(realpath "$out") || exit 2
trap '[ -z "$work" ] || rm -rf "$work"' EXIT
capo=$build/cli/capo
python=${PYTHON:-python3}
bad=0
rm -rf "$out"/logs.* "$out/status"
unset CAPO_DIR CAPO_PROFILE CAPO_GPU_SAMPLE CAPO_KERNEL_TIME CAPO_PROFILER NCCL_TUNER_PLUGIN NCCL_PROFILER_PLUGIN NCCL_ALGO NCCL_PROTO

part() { printf '\n== %s\n' "$*"; }
fail() { echo "FAIL: $*"; bad=1; }
skip() { echo "SKIPPED: $*"; }
median() { sort -g | awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)] }'; }
report() { "$capo" report --json "$out/logs.$1" >"$out/$1.json" 2>>"$out/stderr" || fail "$1: no report"; }
check() { "$python" "$here/check_report.py" "$out/$1.json" "$2" $3 || fail "$1: $2"; }
counts() { "$python" "$here/../e2e/check_counts.py" "$out/$1.json" "$out/$1.capo" $2 || fail "$1: counts"; }

# where N: how launch places N ranks; NCCL takes several on one GPU when each seems to be on a host of its own
where() { [ "$gpus" -ge "$1" ] && echo "-n $1" || echo "--layout $(yes 1 | head -n "$1" | paste -sd+)"; }
# launch N CMD: N ranks of it
launch() {
        layout=$(where "$1")
        shift
        "$build/tests/jobs/launch" $layout --timeout 300 -- "$@"
}
# recorded NAME N OPTIONS CMD: the same under capo run, logs in logs.NAME
recorded() {
        logs=$out/logs.$1 layout=$(where "$2") options=$3
        shift 3
        rm -rf "$logs"
        "$capo" run --quiet $options --dir "$logs" -- "$build/tests/jobs/launch" $layout --timeout 300 -- "$@"
}
# same NAME N OPTIONS CMD: bare and under capo, same output; then its report
same() {
        name=$1 n=$2 options=$3
        shift 3
        echo "    \$ capo run $options -- launch, $n ranks: $(basename "$1") $(shift; echo "$*" | sed "s|$here/||")"
        launch "$n" "$@" >"$out/$name.bare" 2>"$out/stderr" || fail "$name: the job fails by itself: $(tail -n 3 "$out/stderr")"
        recorded "$name" "$n" "$options" "$@" >"$out/$name.capo" 2>"$out/stderr" || fail "$name: fails under capo: $(tail -n 3 "$out/stderr")"
        if cmp -s "$out/$name.bare" "$out/$name.capo"; then
                echo "  output with and without capo: identical, $(wc -l <"$out/$name.bare") lines"
        else
                fail "$name: output differs: $(diff "$out/$name.bare" "$out/$name.capo" | head -n 4)"
        fi
        report "$name"
}
# steps FILE: median step in seconds; the first three steps are warm-up
steps() { sed -n 's/.*: step [0-9]* of [0-9]*: \([0-9.]*\) s$/\1/p' "$1" | sed 1,3d | median; }
# overhead NAME N CMD: step time bare and recorded, in turns
overhead() {
        name=$1 n=$2
        shift 2
        rm -f "$out/$name".[b18]*
        for pair in $(seq "$pairs"); do
                launch "$n" "$@" 2>"$out/stderr" >/dev/null || fail "$name: fails by itself"
                steps "$out/stderr" >>"$out/$name.bare"
                for sample in 8 1; do
                        recorded "$name" "$n" "--sample $sample" "$@" 2>"$out/stderr" >/dev/null || fail "$name: fails under capo"
                        steps "$out/stderr" >>"$out/$name.$sample"
                done
        done
        printf '  %s: step bare %s s (%s to %s over %s runs)\n' "$name" "$(median <"$out/$name.bare")" \
                "$(sort -g "$out/$name.bare" | head -n 1)" "$(sort -g "$out/$name.bare" | tail -n 1)" "$pairs"
        for sample in 8 1; do
                printf '  %s: CAPO_GPU_SAMPLE=%s %s s, median ratio to the bare run before it %s\n' "$name" "$sample" \
                        "$(median <"$out/$name.$sample")" "$(paste "$out/$name.bare" "$out/$name.$sample" | awk 'NF == 2 { printf "%.4f\n", $2 / $1 }' | median)"
        done
        "$capo" report "$out/logs.$name" | sed -n "s/.*\(capo's own cost .*\)/  $name: \1 (CAPO_GPU_SAMPLE=1, as capo measures it)/p"
}

main() {
        part "1. what is here"
        date -u '+%Y-%m-%d %H:%M UTC'
        printf '%s, %s cores, %s, load %s\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" "$(uname -sr)" "$(cut -d' ' -f1-3 /proc/loadavg)"
        "$capo" --version
        library_path=${LD_LIBRARY_PATH-}
        gpus=0 pairs=7 steps=40 scale=1 jobs_ranks="2 4"
        if [ "$dry" ]; then
                pairs=1 steps=12 scale=0.004 jobs_ranks=2
                export CAPO_STANDIN=1
        else
                unset CAPO_STANDIN
                nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null || { skip "no GPU: nvidia-smi finds none"; return 77; }
                gpus=$(nvidia-smi -L | grep -c '^GPU ')
                # PyTorch's own NCCL, where the system has none
                nccl_dir=$("$python" -c 'import importlib.util as u; print(*u.find_spec("nvidia.nccl").submodule_search_locations)' 2>/dev/null)
                if [ -z "${CAPO_NCCL:-}" ] && [ -e "$nccl_dir/lib/libnccl.so.2" ] && ! ldconfig -p | grep -q 'libnccl\.so\.2'; then
                        export CAPO_NCCL="$nccl_dir/lib/libnccl.so.2"
                fi
        fi
        . "$here/../e2e/job.sh"
        if [ -z "$dry" ]; then
                [ -n "${cuda:-}" ] || { skip "no libcuda.so.1"; return 77; }
                [ -n "${nccl:-}" ] || skip "no libnccl.so.2 (CAPO_NCCL says where one is): parts 2, 4, 5, 6"
        fi
        loadable=${dry:+1}${nccl:-} # else job.sh has fallen back to the stand-in, which is not what is asked here
        [ -z "$loadable" ] || echo "jobs run on $what"
        [ -z "$loadable" ] || "$python" -c 'import ctypes; v = ctypes.c_int(); ctypes.CDLL("libnccl.so.2").ncclGetVersion(ctypes.byref(v)); print("ncclGetVersion", v.value)'
        torch=$(LD_LIBRARY_PATH=$library_path "$python" -c 'import torch
assert torch.cuda.is_available(), "torch finds no GPU"
print("torch", torch.__version__, "CUDA", torch.version.cuda, "NCCL", ".".join(map(str, torch.cuda.nccl.version())))' 2>"$out/stderr") || torch=
        [ -z "$dry" ] || torch=
        [ -n "$torch" ] && echo "$torch" || skip "${dry:+a dry run, so }no torch that sees a GPU ($(tail -n 1 "$out/stderr")): part 3"
        [ -n "$loadable$torch" ] || return 77

        if [ "$loadable" ]; then
                for n in $jobs_ranks; do
                        part "2. training on NCCL, $n ranks: same results, every call counted, times by GPU events"
                        same "train$n" "$n" "--trace all --sample 1" "$build/tests/jobs/ddp_train" --epochs 4
                        counts "train$n" ""
                        check "train$n" event ""
                done
        fi

        if [ "$torch" ]; then
                job_path=$LD_LIBRARY_PATH
                export LD_LIBRARY_PATH="$library_path" # torch brings its own NCCL
                part "3. PyTorch: same losses, every call counted, captured calls marked, Python call sites"
                same torch 2 "--trace all --sample 1" "$python" "$here/torch_job.py"
                counts torch AllReduce
                check torch event ""
                check torch captured 4
                check torch python ""
                same torch-ddp 2 "--sample 1" "$python" "$here/torch_job.py" --ddp --no-graph
                counts torch-ddp AllReduce
                part "4a. what recording costs a PyTorch job"
                overhead torch-step 2 "$python" "$here/torch_job.py" --ddp --no-graph --width 4096 --steps $steps
                LD_LIBRARY_PATH=$job_path
        fi

        if [ "$loadable" ]; then
                part "4. what recording costs: ResNet-50's gradient buckets, scale $scale, 2 ranks"
                overhead resnet50 2 "$build/tests/jobs/ddp_train" --replay resnet50 --bucket 4M --scale $scale --steps $steps
                [ -z "$dry" ] || echo "  (one pair of short runs on the stand-in: that it works is seen here, not what it costs)"
                "$build/tests/gpu/driver-cost" || fail "driver-cost"

                part "5. the tuner obeyed, NCCL's profiler interface, kernel times"
                cat >"$out/tree-ll.json" <<'END'
{"capo_profile": 1, "rules": [{"when": {}, "allreduce": [
  {"upto": "64K", "algo": "tree", "proto": "ll", "channels": 1},
  {"upto": "max", "leave": true}]}]}
END
                perf="$build/tests/jobs/coll_perf allreduce -b 16K -e 16K -n 50 -C"
                echo "    \$ capo run --profile tree-ll.json -- launch, 2 ranks: coll_perf allreduce -b 16K -e 16K -n 50"
                export NCCL_DEBUG=INFO CAPO_PROFILER=on
                recorded tuned 2 "--sample 1 --profile $out/tree-ll.json" $perf >"$out/tuned.capo" 2>&1 || fail "tuned: the job fails"
                grep -ohE '(TUNER|PROFILER)/Plugin: Using.*' "$out/tuned.capo" | sort | uniq -c
                report tuned
                counts tuned ""
                check tuned ran "Tree LL 16384"
                echo "    \$ CAPO_KERNEL_TIME=1 capo run --sample 0 --profile tree-ll.json -- the same"
                CAPO_KERNEL_TIME=1 recorded kernel 2 "--sample 0 --profile $out/tree-ll.json" $perf >"$out/kernel.capo" 2>&1 || fail "kernel: the job fails"
                unset NCCL_DEBUG CAPO_PROFILER
                report kernel
                counts kernel ""
                check kernel kernel ""
                echo "  coll_perf's own times, us: sampled by events, then with kernel stamps"
                grep -h '^ *16384 ' "$out/tuned.capo" "$out/kernel.capo"

                part "6. groups, the default stream, a graph captured while calls are in flight (tests/preload/app_gpu)"
                mkdir -p "$out/logs.app"
                "$build/tests/preload/app_gpu" calls >"$out/app.bare" || fail "app_gpu fails by itself: $(tail -n 1 "$out/app.bare")"
                LD_PRELOAD=$build/shim/libcapo.so CAPO_DIR=$out/logs.app CAPO_QUIET=1 CAPO_GPU_SAMPLE=4 "$build/tests/preload/app_gpu" calls >"$out/app.capo" 2>"$out/stderr" ||
                        fail "app_gpu fails under capo: $(tail -n 1 "$out/app.capo" "$out/stderr")"
                cmp "$out/app.bare" "$out/app.capo" || fail "app_gpu: output differs"
                "$build/tests/preload/log_text" "$out"/logs.app/*.capo >"$out/app.log"
                # 80 and 16, of which the first two of a kind are timed for what they are (flag 16)
                for line in '^cell AllReduce .* count=78 result=0 flags=0 host=78 gpu=[1-9]' '^cell AllReduce .* count=2 result=0 flags=16 host=2 gpu=2' \
                        '^cell AllReduce .* count=4 result=0 flags=4 host=0 gpu=0' '^cell Group .* count=14 result=0 flags=2 host=14 gpu=[1-9]' \
                        '^cell Group .* count=2 result=0 flags=18 host=2 gpu=2' '^end .* gpu_dropped=0 '; do
                        grep -E -- "$line" "$out/app.log" | cut -c1-140 | sed 's/^/  /' | grep . || fail "app_gpu: its log has no line like $line"
                done
        fi
        part "end"
        rm -rf "$out"/*.bare "$out"/*.[18] "$out/stderr"
        [ $bad = 0 ] && echo "all that ran is as it should be" || echo "something is not as it should be: see FAIL above"
        return $bad
}

{ main; echo $? >"$out/status"; } | tee "$out/results.txt"
exit "$(cat "$out/status" 2>/dev/null || echo 1)"
