# SPDX-License-Identifier: Apache-2.0
# The parts of run.sh, which sources this in a process for each. A part: 0 as it should be, 1 not, 77 cannot be done here.

build=$GPU_KIT_BUILD out=$GPU_KIT_OUT dry=$GPU_KIT_DRY
capo=$build/cli/capo
python=${PYTHON:-python3}
bad=0
unset CAPO_DIR CAPO_PROFILE CAPO_GPU_SAMPLE CAPO_KERNEL_TIME CAPO_PROFILER NCCL_TUNER_PLUGIN NCCL_PROFILER_PLUGIN NCCL_ALGO NCCL_PROTO

part() { printf '\n== %s\n' "$*"; }
fail() { echo "FAIL: $*"; bad=1; }
skip() { echo "SKIPPED: $*"; return 77; }
median() { sort -g | awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)] }'; }
report() { "$capo" report --json "$out/logs.$1" >"$out/$1.json" 2>>"$out/$1.err" || fail "$1: no report"; }
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
        launch "$n" "$@" >"$out/$name.bare" 2>"$out/$name.err" || fail "$name: the job fails by itself: $(tail -n 3 "$out/$name.err")"
        recorded "$name" "$n" "$options" "$@" >"$out/$name.capo" 2>"$out/$name.err" || fail "$name: fails under capo: $(tail -n 3 "$out/$name.err")"
        if cmp -s "$out/$name.bare" "$out/$name.capo"; then
                echo "  output with and without capo: identical, $(wc -l <"$out/$name.bare") lines"
        else
                fail "$name: output differs: $(diff "$out/$name.bare" "$out/$name.capo" | head -n 4)"
        fi
        report "$name"
}
# steps FILE: median step in seconds; the first three steps are warm-up
steps() { sed -n 's/.*: step [0-9]* of [0-9]*: \([0-9.]*\) s$/\1/p' "$1" | sed 1,3d | median; }
# overhead NAME N SECONDS CMD: step time bare and recorded, in turns: as many as that time has room for, three at least, seven at most
overhead() {
        name=$1 n=$2 until=$(($(date +%s) + $3)) turns=0
        shift 3
        rm -f "$out/$name.bare" "$out/$name.8" "$out/$name.1"
        while [ $turns -lt $most_turns ] && { [ $turns -lt 3 ] || [ "$(date +%s)" -lt $until ]; }; do
                turns=$((turns + 1))
                launch "$n" "$@" 2>"$out/$name.err" >/dev/null || fail "$name: fails by itself: $(tail -n 2 "$out/$name.err")"
                steps "$out/$name.err" >>"$out/$name.bare"
                for sample in 8 1; do
                        recorded "$name" "$n" "--sample $sample" "$@" 2>"$out/$name.err" >/dev/null || fail "$name: fails under capo: $(tail -n 2 "$out/$name.err")"
                        steps "$out/$name.err" >>"$out/$name.$sample"
                done
                [ $bad = 0 ] || return
        done
        printf '  %s: step bare %s s (%s to %s over %s runs)\n' "$name" "$(median <"$out/$name.bare")" \
                "$(sort -g "$out/$name.bare" | head -n 1)" "$(sort -g "$out/$name.bare" | tail -n 1)" "$turns"
        for sample in 8 1; do
                printf '  %s: CAPO_GPU_SAMPLE=%s %s s, median ratio to the bare run before it %s\n' "$name" "$sample" \
                        "$(median <"$out/$name.$sample")" "$(paste "$out/$name.bare" "$out/$name.$sample" | awk 'NF == 2 { printf "%.4f\n", $2 / $1 }' | median)"
        done
        "$capo" report "$out/logs.$name" | sed -n "s/.*\(recording cost .*\)/  $name: \1 (CAPO_GPU_SAMPLE=1, as capo measures it)/p"
        [ -z "$dry" ] || echo "  (short runs on the stand-in: that it works is seen here, not what it costs)"
}

# Sets gpus, loadable (jobs can load an NCCL) and what they run on; 77 where nothing can run.
machine() {
        gpus=0 most_turns=7 steps=40 scale=1
        library_path=${LD_LIBRARY_PATH-}
        if [ "$dry" ]; then
                most_turns=1 steps=12 scale=0.004
                export CAPO_STANDIN=1
        else
                unset CAPO_STANDIN
                gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')
                [ "$gpus" -gt 0 ] || { skip "no GPU: nvidia-smi finds none"; return; }
                # PyTorch's own NCCL, where the system has none
                nccl_dir=$("$python" -c 'import importlib.util as u; print(*u.find_spec("nvidia.nccl").submodule_search_locations)' 2>/dev/null)
                if [ -z "${CAPO_NCCL:-}" ] && [ -e "$nccl_dir/lib/libnccl.so.2" ] && ! ldconfig -p | grep -q 'libnccl\.so\.2'; then
                        export CAPO_NCCL="$nccl_dir/lib/libnccl.so.2"
                fi
        fi
        . "$here/../e2e/job.sh"
        if [ -z "$dry" ]; then
                [ -n "${cuda:-}" ] || { skip "no libcuda.so.1"; return; }
        fi
        loadable=${dry:+1}${nccl:-} # else job.sh has fallen back to the stand-in, which is not what is asked here
}
needs_nccl() { [ -n "$loadable" ] || skip "no libnccl.so.2 (CAPO_NCCL says where one is)"; }

# The environment and the python of a PyTorch that sees a GPU; in a dry run that of ./dev frameworks, if it was fetched.
needs_torch() {
        export LD_LIBRARY_PATH="$library_path" # torch brings its own NCCL
        torch_options=
        if [ "$dry" ]; then
                "$python" "$here/dry_torch.py" "$build" >"$out/torch.env" 2>"$out/torch.err" || { skip "$(tail -n 1 "$out/torch.err")"; return; }
                . "$out/torch.env"
                torch_options=--dry
        fi
        torch=$("$python" -c 'import torch
assert torch.cuda.is_available(), "torch finds no GPU"
print("torch", torch.__version__, "CUDA", torch.version.cuda, "NCCL", ".".join(map(str, torch.cuda.nccl.version())))' 2>"$out/torch.err") || {
                skip "no torch that sees a GPU ($(tail -n 1 "$out/torch.err"))"
                return
        }
        echo "$torch"
}

part_here() {
        part "what is here"
        date -u '+%Y-%m-%d %H:%M UTC'
        printf '%s, %s cores, %s, load %s\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" "$(uname -sr)" "$(cut -d' ' -f1-3 /proc/loadavg)"
        "$capo" --version
        [ "$dry" ] || nvidia-smi --query-gpu=name,driver_version,memory.total,mig.mode.current --format=csv,noheader
        machine || return
        [ -z "$loadable" ] || echo "jobs run on $what"
        [ -z "$loadable" ] || "$python" -c 'import ctypes; v = ctypes.c_int(); ctypes.CDLL("libnccl.so.2").ncclGetVersion(ctypes.byref(v)); print("ncclGetVersion", v.value)'
        [ "$dry" ] || "$capo" topo capture 2>/dev/null | grep -c '<gpu ' | sed 's/^/capo topo capture: GPUs /'
}

part_train() {
        part "training on NCCL, 2 ranks: same results, every call counted, times by GPU events"
        machine && needs_nccl || return
        same train2 2 "--trace all --sample 1" "$build/tests/jobs/ddp_train" --epochs 4
        counts train2 ""
        check train2 event ""
}

part_train_more() {
        part "training on NCCL, 4 ranks"
        machine && needs_nccl || return
        same train4 4 "--trace all --sample 1" "$build/tests/jobs/ddp_train" --epochs 4
        counts train4 ""
        check train4 event ""
}

part_cost() {
        part "what recording costs: ResNet-50's gradient buckets, 2 ranks"
        machine && needs_nccl || return
        overhead resnet50 2 100 "$build/tests/jobs/ddp_train" --replay resnet50 --bucket 4M --scale $scale --steps $steps
}

part_torch() {
        part "PyTorch, 2 ranks: same losses, every call counted, captured calls marked, Python call sites"
        machine && needs_torch || return
        same torch 2 "--trace all --sample 1" "$python" "$here/torch_job.py" $torch_options
        counts torch AllReduce
        check torch event ""
        check torch captured 4
        check torch python ""
        same torch-ddp 2 "--sample 1" "$python" "$here/torch_job.py" --ddp --no-graph $torch_options
        counts torch-ddp AllReduce
}

part_torch_cost() {
        part "what recording costs a PyTorch job (DistributedDataParallel), 2 ranks"
        machine && needs_torch || return
        overhead torch-step 2 150 "$python" "$here/torch_job.py" --ddp --no-graph --width $([ "$dry" ] && echo 64 || echo 4096) --steps $steps $torch_options
}

part_torch_all() {
        part "PyTorch on every GPU"
        machine && needs_torch || return
        [ "$gpus" -gt 2 ] || { skip "more than two GPUs are not here"; return; }
        same torch-every "$gpus" "--sample 1" "$python" "$here/torch_job.py" --ddp --no-graph
        counts torch-every AllReduce
        check torch-every event ""
}

# p50 NAME CLOCK BYTES: of its all-reduces
p50() { "$python" -c 'import json, sys
rows = [r for r in json.load(open(sys.argv[1]))["rows"] if r["call"] == "AllReduce" and r["clock"] == sys.argv[2] and r["bytes"] == int(sys.argv[3])]
print(rows[0]["p50_us"] if rows else "")' "$out/$1.json" "$2" "$3"; }

part_tuned() {
        part "the tuner obeyed, NCCL's profiler interface, kernel stamps against events"
        machine && needs_nccl || return
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
        event=$(p50 tuned event 16384) kernel=$(p50 kernel kernel 16384)
        echo "  p50 of 16 KiB: $event us by events, $kernel us by kernel stamps, ratio $(echo "$kernel $event" | awk '{ if ($2) printf "%.3f", $1 / $2 }')"
        echo "  coll_perf's own times, us: sampled by events, then with kernel stamps"
        grep -h '^ *16384 ' "$out/tuned.capo" "$out/kernel.capo"
}

# us FILE: size and time of each row of a table as nccl-tests prints it
us() { awk '$1 ~ /^[0-9]+$/ && NF >= 8 && $6 > 0 { print $1, $6 }' "$1"; }

part_nccl_tests() {
        part "nccl-tests: all_reduce_perf bare and recorded, in turns"
        machine && needs_nccl || return
        perf=$GPU_KIT_TESTS/all_reduce_perf
        set -- -b 8 -e 128M -f 4 -g "$gpus" -n 20
        if [ "$dry" ]; then # coll_perf prints the same table
                perf=$build/tests/jobs/coll_perf
                set -- allreduce -b 1K -e 64K -f 4 -n 20
        elif [ ! -x "$perf" ]; then
                skip "no all_reduce_perf (--nccl-tests FOLDER says where it is)"
                return
        fi
        [ "$dry" ] && ranks="$build/tests/jobs/launch -n 2 --timeout 300 --" || ranks=
        echo "    \$ [capo run] $(basename "$perf") $*"
        rm -f "$out"/perf.*
        turns=0
        while [ $turns -lt $((most_turns > 3 ? 3 : most_turns)) ]; do
                turns=$((turns + 1))
                $ranks "$perf" "$@" >"$out/perf.bare.$turns" 2>"$out/perf.err" || fail "nccl-tests fails by itself: $(tail -n 2 "$out/perf.err")"
                rm -rf "$out/logs.perf"
                "$capo" run --quiet --sample 8 --dir "$out/logs.perf" -- $ranks "$perf" "$@" >"$out/perf.capo.$turns" 2>"$out/perf.err" || fail "nccl-tests fails under capo: $(tail -n 2 "$out/perf.err")"
                us "$out/perf.bare.$turns" >"$out/perf.a"
                us "$out/perf.capo.$turns" >"$out/perf.b"
                paste -d' ' "$out/perf.a" "$out/perf.b" >>"$out/perf.both"
        done
        grep -hE 'Out of bounds|Avg bus' "$out"/perf.capo.1
        awk '$1 == $3 { print $1, $2, $4, $4 / $2 }' "$out/perf.both" | sort -g | awk '
                { if ($1 != size && size != "") flush(); size = $1; n++; bare[n] = $2; ratio[n] = $4 }
                function flush(   i, j, t) { for (i = 1; i <= n; i++) for (j = i + 1; j <= n; j++) if (ratio[j] < ratio[i]) { t = ratio[i]; ratio[i] = ratio[j]; ratio[j] = t; t = bare[i]; bare[i] = bare[j]; bare[j] = t }
                        printf "  %11d B  bare %10.2f us  recorded / bare %.4f\n", size, bare[int((n + 1) / 2)], ratio[int((n + 1) / 2)]; n = 0 }
                END { if (n) flush() }' >"$out/perf.table"
        cat "$out/perf.table"
        [ -s "$out/perf.table" ] || fail "nccl-tests: no table"
        "$capo" report --json "$out/logs.perf" >"$out/perf.json" 2>"$out/perf.err" && grep -q '"AllReduce"' "$out/perf.json" || fail "nccl-tests: nothing recorded"
}

part_graphs() {
        part "groups, the default stream, a graph captured while calls are in flight (tests/preload/app_gpu)"
        machine && needs_nccl || return
        rm -rf "$out/logs.app"
        mkdir -p "$out/logs.app"
        "$build/tests/preload/app_gpu" calls >"$out/app.bare" || fail "app_gpu fails by itself: $(tail -n 1 "$out/app.bare")"
        LD_PRELOAD=$build/shim/libcapo.so CAPO_DIR=$out/logs.app CAPO_QUIET=1 CAPO_GPU_SAMPLE=4 "$build/tests/preload/app_gpu" calls >"$out/app.capo" 2>"$out/app.err" ||
                fail "app_gpu fails under capo: $(tail -n 1 "$out/app.capo" "$out/app.err")"
        cmp "$out/app.bare" "$out/app.capo" || fail "app_gpu: output differs"
        "$build/tests/preload/log_text" "$out"/logs.app/*.capo >"$out/app.log"
        # 80 and 16, of which the first 32 of the communicator and two of a kind are timed for what they are (flag 16)
        for line in '^cell AllReduce .* count=48 result=0 flags=0 host=48 gpu=[1-9]' '^cell AllReduce .* count=32 result=0 flags=16 host=32 gpu=32' \
                '^cell AllReduce .* count=4 result=0 flags=4 host=0 gpu=0' '^cell Group .* count=14 result=0 flags=2 host=14 gpu=[1-9]' \
                '^cell Group .* count=2 result=0 flags=18 host=2 gpu=2' '^end .* gpu_dropped=0 '; do
                grep -E -- "$line" "$out/app.log" | cut -c1-140 | sed 's/^/  /' | grep . || fail "app_gpu: its log has no line like $line"
        done
}

part_driver() {
        part "what the driver's calls cost that recording makes"
        machine && needs_nccl || return
        "$build/tests/gpu/driver-cost" || fail "driver-cost"
}

# MIG as it is: nothing is made, changed or reset.
part_mig() {
        part "MIG slices, where there are any"
        machine && needs_nccl || return
        slices=$(nvidia-smi -L 2>/dev/null | sed -n 's/.*MIG .*(UUID: \(MIG-[^)]*\)).*/\1/p')
        [ -z "$dry" ] && [ -n "$slices" ] || { skip "no MIG slices"; return; }
        nvidia-smi -L | grep MIG
        for slice in $(echo "$slices" | head -n 2); do
                export CUDA_VISIBLE_DEVICES="$slice"
                same "mig" 1 "--trace all --sample 1" "$build/tests/jobs/ddp_train" --epochs 1
                check mig event ""
                "$build/tests/preload/log_text" "$out"/logs.mig/*.capo | grep -E '^info gpu\.(mig|busid)' || fail "mig: the log does not say that it was a slice"
        done
        unset CUDA_VISIBLE_DEVICES
}

run_part() {
        "part_$(echo "$1" | tr - _)"
        status=$?
        [ $status = 77 ] || status=$bad
        # what was looked at only to judge
        rm -f "$out/$1".bare
        return $status
}
