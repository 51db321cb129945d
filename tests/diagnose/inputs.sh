#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Inputs of capo diagnose: folders, compressed files, pickles, a dump that is missing, standard input, logs of capo.
set -u
capo=$(realpath "$1")
root=$(realpath "$2")
gen_job=$(realpath "$3")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export TMPDIR=$work/tmp
mkdir tmp
bad=0
# expect STATUS PATTERN -- arguments
expect() {
        want=$1 pattern=$2
        shift 3
        out=$("$capo" diagnose "$@" 2>&1)
        got=$?
        [ $got = "$want" ] || { echo "capo diagnose $*: exit status $got, expected $want: $out"; bad=1; }
        # also over the end of a line: where it breaks depends on where this checkout is
        { echo "$out"; echo "$out" | tr -s ' \n' ' '; } | grep -q "$pattern" || { echo "capo diagnose $*: no line like \"$pattern\": $out"; bad=1; }
}
reports=$root/tests/diagnose/reports
expect 2 'which files' --
expect 2 'expected a release' -- --bugs x
expect 3 'nothing could be read' -- nothing-here
expect 0 'fixed in 2.29.3' -- --bugs 2.28.9
expect 3 'NCCL 9.9.9 is newer than 2[.0-9]*, the newest release' -- --bugs 9.9.9
echo hello >plain.txt
expect 3 'NOTHING RECOGNISED' -- plain.txt
expect 3 'plain.txt ends with: hello' -- plain.txt
mkdir links
ln -s ../gone links/rank0.log
expect 3 'left out links/rank0.log: No such file' -- links
# as root without the right to read everything
unable() { if [ "$(id -u)" = 0 ]; then setpriv --bounding-set=-dac_override,-dac_read_search "$@"; else "$@"; fi; }
mkdir closed closed/in && echo hello >closed/in/x.log && chmod 0 closed/in
if unable true 2>/dev/null && ! unable ls closed/in >/dev/null 2>&1; then
        out=$(unable "$capo" diagnose closed 2>&1)
        [ "$(echo "$out" | grep -c 'left out closed/in: Permission denied$')" = 1 ] || { echo "a folder that cannot be read: $out"; bad=1; }
fi
chmod 700 closed/in
: >empty.txt
expect 3 'empty.txt is empty' -- empty.txt
echo 'a lossless worker of the highest rank' >plain.txt
expect 3 'NOTHING RECOGNISED' -- plain.txt
"$capo" diagnose --markdown "$reports/vllm-23448.log" | grep -q '^\* RANK 3 IS ONE CALL BEHIND' || { echo 'no item in the Markdown'; bad=1; }
expect 1 'RANK 3 IS ONE CALL BEHIND' -- - <"$reports/vllm-23448.log"
expect 1 'lines marked ranks 0, 1, 3' -- "$reports/vllm-23448.log"
gzip -c "$reports/vllm-23448.log" >job.log.gz
expect 1 'from job.log.gz:1,3,5' -- job.log.gz

zstd -q -c "$reports/vllm-23448.log" >job.zst 2>/dev/null && expect 1 'from job.zst:1,3,5' -- job.zst
PATH=/nowhere "$capo" diagnose job.log.gz 2>/dev/null | /usr/bin/env grep -q 'RANK 3' || { echo 'gzip needs a program'; bad=1; }
head -c 300 job.log.gz >cut.gz
"$capo" diagnose cut.gz 2>&1 | grep -q 'truncated or damaged: only its first' || { echo 'a cut gzip: not said'; bad=1; }
# inputs of any length: a line of 5 MB, UTF-16, a picture
{ head -c 5000000 /dev/zero | tr '\0' x; echo; echo '[rank3]: CUDA out of memory'; } >long.txt
expect 1 '1 line is longer than 64 KiB' -- long.txt
expect 1 'REPORTS OUT OF MEMORY (rank 3)' -- long.txt
# of too much text the middle is left out, the lines keep their numbers, and 256 MiB suffice
python3 - <<'EOF'
import gzip
with open("many.txt", "w") as out:
    out.write("a\n" * 2100000 + "[rank3]: CUDA out of memory\n")
with gzip.open("bomb.gz", "wb", 1) as out:
    for i in range(200):
        out.write((b"A" * 1023 + b"\n") * 1024)
    out.write(b"[rank3]: CUDA out of memory\n")
EOF
expect 1 '100001 lines between are left out' -- many.txt
expect 1 'from many.txt:2100001' -- many.txt
python3 - "$capo" <<'EOF' || bad=1
import os, subprocess, sys
run = subprocess.Popen([sys.argv[1], "diagnose", "bomb.gz"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
page = run.stdout.read().decode()
use = os.wait4(run.pid, 0)[2].ru_maxrss
asan = b"__asan_init" in open(sys.argv[1], "rb").read()  # it needs several times the memory
if "from bomb.gz:204801" not in page or (use > 256 << 10 and not asan):
    sys.exit(f"bomb.gz: {use} KiB of memory: {page}")
EOF
python3 -c 'open("wide.txt", "wb").write("CUDA out of memory\n".encode("utf-16"))'
expect 1 'REPORTS OUT OF MEMORY' -- wide.txt
printf '\211PNG\r\n' >shot.png
expect 3 'shot.png is a picture (PNG)' -- shot.png
# what capo itself wrote
printf 'capo hang  job 1  ended at 14:03:12\nRANK 1 IS MISSING from Bcast #5       certain\nNEXT  look there\n' >hang.page
expect 1 'capo hang SAYS: RANK 1 IS MISSING' -- hang.page
echo '{"capo_hang": 1, "verdict": "missing", "culprits": [{"rank": 7}]}' >hang.json
expect 1 'capo hang SAYS: missing, rank 7' -- hang.json
echo '{"capo_hang": 1, "verdict": "stopped", "culprits": [{"rank": 2}], "went_on": 1764385200.5}' >went_on.json
expect 3 'capo hang SAYS: WENT ON' -- went_on.json
mkdir own
"$gen_job" own pattern "$root/tests/patterns/ddp.pattern" missing=1 at=5 >made || exit 1
for form in '' --markdown --json; do
        "$capo" hang $form own >own.hang
        expect 1 'capo hang SAYS: .*[rR][aA][nN][kK] 1' -- own.hang
        "$capo" report $form own >own.report
        expect 1 'capo report SAYS: no rank made a call for 60.0 s' -- own.report
        "$capo" report $form "$root/tests/golden/sample-v1" >fine.report
        expect 3 'capo report SAYS: no problem' -- fine.report
done
"$capo" check --gpus 1024 >own.check
expect 1 'capo check SAYS: FAIL' -- own.check
"$capo" check --gpus 1024 --json >own.check
expect 1 'capo check SAYS: not ready' -- own.check

flight=$root/tests/hang/flight/missing
expect 1 'RANK 2 HAS NOT MADE AllReduce #5' -- "$flight"
mkdir dumps pickles
cp "$flight"/rank_[0-3].json dumps
for i in 0 1 2 3; do
        python3 -c 'import json, pickle, sys; pickle.dump(json.load(open(sys.argv[1])), open(sys.argv[2], "wb"), 2)' dumps/rank_$i.json pickles/nccl_trace_rank_$i || exit 1
done
expect 1 'RANK 2 HAS NOT MADE AllReduce #5' -- pickles
[ -z "$(ls -A "$TMPDIR")" ] || { echo "a temporary folder is left"; bad=1; }
rm pickles/nccl_trace_rank_2 # the one who is missing from the call left no dump, either
expect 1 'NO DUMP OF RANK 2 IS HERE' -- pickles
python3 -c 'import os, pickle, sys; pickle.dump(os.getcwd, open(sys.argv[1], "wb"))' evil
expect 3 'nothing of it is run' -- evil

# stacks: who does something else while the others wait; two processes suffice
mkdir stacks
stack() {
        printf 'Process %d: python train.py\nPython v3.10.12 (/usr/bin/python3.10)\n\nThread %d (idle): "MainThread"\n    %s\n    <module> (train.py:99)\n' "$1" "$1" "$2"
        printf 'Thread %d (idle): "Thread-1"\n    sleep (x.py:1)\n' "$(($1 + 100))"
}
for i in 0 1 3; do stack 70$i 'all_reduce (torch/distributed/distributed_c10d.py:2501)' >stacks/rank$i.txt; done
stack 702 '_try_get_data (torch/utils/data/dataloader.py:1132)' >stacks/rank2.txt
expect 1 'RANK 2 IS NOT IN A COLLECTIVE: it is' -- stacks
cat stacks/*.txt >stacks.txt
expect 1 'PID 702 IS NOT IN A COLLECTIVE' -- stacks.txt
expect 1 'RANK 2 IS NOT IN A COLLECTIVE' -- stacks/rank0.txt stacks/rank2.txt
expect 3 'of 3 stacks 3 are in a collective' -- stacks/rank0.txt stacks/rank1.txt stacks/rank3.txt
# two ranks that wait in different places of one function: a call lies between that one of them does not make
mkdir parting
for i in 0:88:barrier 1:91:all_reduce; do
        IFS=: read -r rank line call <<EOP
$i
EOP
        stack 80"$rank" "$call (torch/distributed/distributed_c10d.py:2501)" | sed "s/(train.py:99)/(train.py:$line)/" >"parting/rank$rank.txt"
done
expect 1 'RANK 0 AND RANK 1 ARE AT DIFFERENT PLACES of <module>' -- parting
printf '%s\n' 'Thread 1 (Thread 0x7f (LWP 5) "python"):' '#0  0x00 in ncclAllReduce ()' >gdb.txt
expect 3 'of 1 stack 1 is in a collective' -- gdb.txt
echo 'RuntimeError: [Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 600000 ms' >barrier.txt
expect 1 'RANKS 1, 3 DID NOT COME' -- barrier.txt

printf '%s\n' '# nThread 1 nGpus 8 minBytes 8 maxBytes 8' '# Out of bounds values : 0 OK' '# Avg bus bandwidth    : 1.0' >tests.txt
expect 0 'capo expect tests.txt --platform NAME' -- tests.txt

# who waits in the earliest call decides; a rank that has made all of it is not missing from a later one
watchdog() { echo "[rank$1]:[E1126 12:30:00.1 ProcessGroupNCCL.cpp:2251] [PG ID 0 PG GUID 0(default_pg) Rank $1] failure detected by watchdog at work sequence id: $2 PG status: last enqueued work: $2, last completed work: $(($2 - 1))"; }
{ watchdog 0 9; watchdog 1 8; watchdog 2 8; } >earliest.txt
echo '[rank3]:[E1126 12:30:00.1 ProcessGroupNCCL.cpp:1537] [PG ID 0 PG GUID 0(default_pg) Rank 3] Received a dump signal due to a collective timeout from rank 0. Last enqueued NCCL work: 7, last completed NCCL work: 7.' >>earliest.txt
expect 1 'RANK 3 HAS NOT MADE call number 8' -- earliest.txt
expect 1 'ranks 1, 2 have not completed it' -- earliest.txt

# calls of which only the last are kept: a communicator that was used early is not missing on anyone
python3 - >early.txt <<'EOF'
for rank in range(2):
    head = f"n{rank}:10{rank}:10{rank} [0] NCCL INFO "
    for comm in "ab":
        for what in ("START", "COMPLETE"):
            print(f"{head}ncclCommInitRank comm 0x{rank + 1}{comm} rank {rank} nranks 2 cudaDev 0 commId 0x{comm} - Init {what}")
    for comm, n in (("a", 3), ("b", 40000)):
        for i in range(n):
            print(f"{head}AllReduce: opCount {i:x} sendbuff 0x1 recvbuff 0x1 count 8 datatype 7 op 0 root 0 comm 0x{rank + 1}{comm} [nranks=2] stream 0x1")
EOF
# AddressSanitizer's strstr() measures the whole rest of the text at each call
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}intercept_strstr=0"
expect 3 'NOT DECIDED: capo knows no line here that shows a fault' -- early.txt

# no line decides: where the job stops, and what the person says
expect 3 'THE LAST LINES OF THE RANKS DIFFER.*batch 87 Loss.*batch 88 start' -- "$reports/validation-one-batch-more"
expect 3 'a part of the text ends with: All distributed processes.*the text says:.*With 535.113 everything ran fine.*their stacks' -- "$reports/driver-545-two-3090"
expect 3 'the text says:.*zero0' -- "$reports/zero3-over-10g"
expect 3 'a part of the text ends with:.*NVLINK_MODE=force_off' -- "$reports/two-5090-nccl-stop"

# the person's own words
printf '%s\n' 'Slower speed with multi-node training' '' 'I get 10K words a second with 2 machines, while on a single one I get 38K.' >slower.md
expect 3 'the text says:.*while on a single one I get 38K' -- slower.md
printf '%s\n' 'The training hangs.' 'The checkpoint of the first epoch was written without a problem.' >saved.md
out=$("$capo" diagnose saved.md) && bad=1
case $out in *CHECKPOINT*) echo "a checkpoint that is no cause: $out"; bad=1 ;; esac
printf '%s\n' '2. docker mode: --net=host, ssh on port 2222 works between the dockers' 'Traceback (most recent call last):' \
        '    model = lib.Model(solver)' 'RuntimeError: Runtime error: unhandled system error' '        ncclGroupEnd() at Core(/src/core.cpp:175)' >works.md
expect 3 'NCCL reports a system error' -- works.md
printf '%s\n' 'Multi-node training stops at the start.' 'initializing ddp: GLOBAL_RANK: 1, MEMBER: 2/4' 'initializing ddp: GLOBAL_RANK: 0, MEMBER: 1/4' >member.md
expect 3 'OF 4 RANKS THAT ARE TO START, NO SUCH LINE IS OF ranks 2, 3' -- member.md
tail -2 member.md >>member.md
expect 3 'RANKS 0, 1 OF 4 START TWICE, AND NO LINE IS OF ranks 2, 3' -- member.md
# a setting is listed for a slow job, and never shown for one that hangs
for said in 'The training is slow on these cards.' 'The training hangs.'; do
        printf '%s\n' "$said" '' 'n0:1:2 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.' >setting.md
        case $said in
        *slow*) expect 3 'NOT DECIDED; SETTINGS AND STATES .*: n0:1:2 .0. NCCL INFO NCCL_P2P_DISABLE set' -- setting.md ;;
        *) "$capo" diagnose setting.md | grep -q 'SETTINGS AND STATES' && { echo "a setting beside a hang: $("$capo" diagnose setting.md)"; bad=1; } ;;
        esac
done
# a silence, a refusal and what an image is built with are shown as lines
printf '%s\n' 'mpirun hangs here:' '[1744102518.3] [n0:1:0] UCX DEBUG a' '[1744102670.6] [n0:1:0] UCX DEBUG b' >silence.md
expect 3 '152 s pass between these two lines:.*DEBUG a.*DEBUG b' -- silence.md
printf '%s\n' 'Two workers are slow.' '    [ ] NCCL' '    [X] Gloo' 'Authentication refused: bad ownership or modes for directory /root/.ssh' >built.md
expect 3 '\[ \] NCCL.*bad ownership' -- built.md
# the data goes over sockets though nobody complains
printf '%s\n' 'node-a:1:2 [0] NCCL INFO NET/IB : No device found.' 'node-a:1:2 [0] NCCL INFO Failed to open libibverbs.so[.1]' \
        'node-a:1:2 [0] NCCL INFO Using network Socket' >socket.log
expect 3 'TCP sockets: node-a.*libibverbs was not opened: node-a' -- socket.log
# a launcher's label inside a row of nccl-tests
printf '[0]  %s [0] 1335 12 %s 0\n' '16777216 4194304 float     sum -1[0] 1334 12 24.09 0' 24.06 '67108864 16777216 float     sum -1[0] 24410 2.7 5.27 0' 5.27 | sed '1i# size count type redop root time algbw busbw #wrong' >labels.txt
expect 3 'BUS BANDWIDTH FALLS AS MESSAGES GROW: from 24.09 to 5.27' -- labels.txt
# a log store prints the newest line first; who failed is killed with the job
printf '%s\n' '2026-04-05T00:01:19Z run.sh: line 48:    28 Killed                  python3 serve.py' \
        '2026-04-05T00:01:18Z Error while creating shared memory segment /dev/shm/nccl-lNPZ0f (size 7340384)' \
        '2026-04-05T00:01:17Z Last error:' '2026-04-05T00:01:10Z start' >newest.txt
expect 1 'VERDICT *NCCL COULD NOT CREATE ITS SHARED MEMORY' -- newest.txt
# two ranks failed: the page has the first, and its rank
printf '%s\n' '[rank5]: torch.OutOfMemoryError: CUDA out of memory.' '[rank6]: CUDA error: an illegal memory access was encountered' >two.txt
expect 1 'REPORTS OUT OF MEMORY (rank 5), likely' -- two.txt

# logs of capo alone are those of capo hang
"$capo" hang "$root/tests/golden/sample-v1" >hang.txt 2>&1
status=$?
"$capo" diagnose "$root/tests/golden/sample-v1" >diagnose.txt 2>&1
[ $? = $status ] && cmp -s hang.txt diagnose.txt || { echo "logs of capo: not what capo hang says:"; cat diagnose.txt; bad=1; }
# what is named beside logs is read, or said not to be used
echo 'launch: rank 3 ended with status 137' >live.err
expect 1 'A PROCESS WAS KILLED (SIGKILL)' -- "$root/tests/golden/sample-v1" live.err
expect 1 'what each rank did last' -- "$root/tests/golden/sample-v1" live.err
# logs and texts are judged together: the stronger is the verdict
mkdir logs
"$gen_job" logs pattern "$root/tests/patterns/ddp.pattern" missing=1 at=5 >made || exit 1
echo '[rank0]: NCCL error: remote process exited or there was a network error' >text.err
expect 1 'VERDICT *RANK 1 HAS NOT MADE Bcast #5' -- logs text.err
expect 1 "lines marked ranks 0, 1" -- logs text.err
expect 1 'a capo log (and 1 more such file)' -- logs text.err
expect 1 'VERDICT *A PROCESS WAS KILLED (SIGKILL)' -- logs live.err
echo 'rank 3 is odd' >live.err
"$capo" diagnose "$root/tests/golden/sample-v1" live.err 2>&1 | grep -q 'not used: live.err' || { echo 'live.err: not said that it is not used'; bad=1; }

# what a person tried: a setting that helps names the cause, one that does not proves nothing
tried() { printf "%s\n" "$3" >tried.txt; expect "$1" "$2" -- tried.txt; }
tried 1 'WITHOUT DIRECT COPIES BETWEEN GPUs' 'the test stops; with NCCL_P2P_DISABLE=1 it works'
tried 1 'WITHOUT DIRECT COPIES BETWEEN GPUs' 'without NCCL_P2P_DISABLE=1 the test hangs'
tried 1 'OVER TCP SOCKETS, WITHOUT INFINIBAND OR RoCE, THE JOB WORKS' 'NCCL_IB_DISABLE=1 fixes the hang, but it is slow'
tried 1 'STANDS UNDER A CONDITION ON THE RANK' "$(printf 'it hangs here:\nif rank == 0:\n    save(model)\n    dist.barrier()\n')"
tried 3 'NOT DECIDED' "$(printf 'it hangs here:\nif rank == 0:\n    save(model)\ndist.barrier()\n')"
tried 3 'NOT DECIDED' "$(printf 'if rank == 0:\n    save(model)\n    dist.barrier()\n')"
tried 3 'the text says: .*2.18.6 works' 'It hangs in NCCL 2.19.1, but with 2.18.6 works fine'
tried 3 'NOT DECIDED' 'NCCL_P2P_DISABLE=1: the same'
tried 3 'NOT DECIDED' 'with NCCL_P2P_DISABLE=1 it still hangs'
tried 3 'NOT DECIDED' 'it did not help to set NCCL_P2P_DISABLE=1'
tried 3 'NOT DECIDED' 'NCCL_P2P_DISABLE=1 in both runs on these ranks'

# a known bug whose release and symptom fit is the verdict: hosts with 7 and 8 ranks
uneven() { # RANKS of the first host, RANKS of the second, RELEASE
        echo "NCCL version $3+cuda13.0"
        for i in $(seq 0 $(($1 + $2 - 1))); do
                echo "n$((i >= $1)):9$i:9$i [$i] NCCL INFO ncclCommInitRank comm 0xa$i rank $i nranks $(($1 + $2)) cudaDev 0 commId 0x7 - Init START"
        done
}
uneven 7 8 2.31.2 >uneven.txt
expect 1 'A KNOWN BUG (NCCL): nodes with different numbers of ranks' -- uneven.txt
uneven 8 8 2.31.2 >even.txt
expect 3 'A COMMUNICATOR OF 16 RANKS: lines of' -- even.txt
uneven 7 8 2.32.3 >mended.txt
expect 3 'A COMMUNICATOR OF 15 RANKS: lines of' -- mended.txt

# summaries of stacks, one line for each rank
printf '%s\n' 'rank 0: save (train.py:9) <- main (train.py:4)' 'ranks 1-3: _all_gather_base <- forward (fsdp) <- main (train.py:4)' >short.txt
expect 3 'of 4 stacks 3 are in' -- short.txt
printf '%s\n' 'rank 0: state_dict (m.py) -> summon (fsdp) -> _all_gather_base' 'ranks 1, 2: forward (fsdp) -> rebuild -> _all_gather_base' >short.txt
expect 3 'of 3 stacks 3 are in' -- short.txt
printf '%s\n' 'rank 0: irecv <- recv_forward <- step' 'rank 1: isend <- send_forward <- step' >short.txt
expect 1 'ALL 2 STACKS ARE IN SENDS AND RECEIVES' -- short.txt
stack 5 'broadcast (vllm/distributed/device_communicators/pynccl.py:317)' >trainer.txt
expect 3 'of 1 stack 1 is in a collective' -- trainer.txt

# facts that no single line says
printf '\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSYS\t0-31\nGPU1\tSYS\t X \t0-31\n' >far.txt
expect 3 'no NVLink and no common PCIe switch' -- far.txt
printf 'n0:1:2 [0] NCCL INFO Init\nout_of_sequence: %s\n' 0 >quiet.txt
expect 3 'NOT DECIDED' -- quiet.txt
printf 'n0:1:2 [0] NCCL INFO Init\nout_of_sequence: %s\n' 7213 >lossy.txt
expect 3 'a NIC counts lost packets.*: out_of_sequence: 7213' -- lossy.txt

# what NCCL 2.32 says itself
echo 'n0:1:2 [0] NCCL WARN NET/IB: NCCL_IB_PKEY_VALUE=0x8001 not found in PKey table (pkey_tbl_len=4, port=1)' >pkey.txt
expect 1 'TWO NICS COULD NOT BE CONNECTED' -- pkey.txt
echo 'ECC: uncorrected volatile errors on rank(s) 3 (worst=2) across 8 ranks in comm 0x1' >ecc.txt
expect 1 'A GPU HAS A MEMORY ERROR' -- ecc.txt
echo 'HINT: In many cases this error indicates that ACS is enabled, which breaks the GPU Direct RDMA protocol.' >hint.txt
expect 1 'ACS) IS ON, by NCCL' -- hint.txt

# two logs of one test: what NCCL's lines say of one run only
run_of() { # RELEASE CHANNEL BUSBW
        printf '%s\n' '# nThread 1 nGpus 1 minBytes 268435456 maxBytes 268435456' "NCCL version $1+cuda12.4" \
                "n0:1:2 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via $2" \
                '#       size         count      type   redop    root     time   algbw   busbw #wrong' \
                "   268435456      67108864     float     sum      -1   9999.9   10.00   $3      0   9999.9   10.00   $3      0" \
                '# Out of bounds values : 0 OK' '# Avg bus bandwidth    : 1'
}
run_of 2.21.5 NET/IB/0/GDRDMA 45.0 >good.log
run_of 2.25.1 NET/Socket/0 9.0 >slow.log
expect 1 'THE TEST REACHES 9 GB/s WITH NCCL 2.25.1, AND 45 GB/s WITH NCCL 2.21.5' -- good.log slow.log
expect 1 'NCCL.s network is TCP sockets.*via NET/Socket/0' -- good.log slow.log
sed -i 's/NET.Socket.0/NET\/IB\/0\/GDRDMA/' slow.log
expect 1 'VERDICT *THE TEST REACHES 9 GB/s WITH NCCL 2.25.1' -- good.log slow.log
# frames below a head; the stack of a crash
printf '%s\n' 'Process 7 (rank 0)' '    barrier (torch/distributed/distributed_c10d.py:27)' '    save (core.py:10)' '    fit (core.py:11)' \
        'Process 8 (rank 1)' '    backward (torch/autograd/__init__.py:154)' '    fit (core.py:98)' >blocks.txt
expect 1 'RANK 0 AND RANK 1 ARE AT DIFFERENT PLACES of fit' -- blocks.txt
printf '%s\n' 'Segmentation fault (core dumped)' '#0  0x01 in ?? ()' '#1  0x02 in cuFoo () from libcuda.so.1' '#2  0x03 in ncclBar () at misc/x.cc:7' >crash.txt
expect 1 'its stack: cuFoo <- ncclBar' -- crash.txt

# what the third set of strangers showed: false sentences
echo 'n0:1:2 [0] include/shm.h:27 NCCL WARN Call to shm_open failed : Permission denied' >eacces.txt
echo 'n0:1:2 [0] include/shm.h:48 NCCL WARN Error while creating shared memory segment nccl-shm-recv-1 (size 4460544)' >>eacces.txt
expect 1 'NCCL MAY NOT CREATE A FILE IN /dev/shm' -- eacces.txt
"$capo" diagnose eacces.txt | grep -q 'IS FULL OR TOO SMALL for' && { echo 'no right to write: said to be full'; bad=1; }
watchdog_wait() { echo "[rank$1]:[E1 10:00:00.1 ProcessGroupNCCL.cpp:607] [Rank $1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800044 milliseconds before timing out."; }
for i in 1 2 3; do watchdog_wait $i; done >zero.txt
expect 3 'no line here is of rank 0' -- zero.txt
# two threads of a process that wait for each other
printf '%s\n' 'Thread 2 (LWP 5):' '#1  0x1 in cudaLaunchKernel () from libcudart.so' 'Thread 3 (LWP 6):' '#1  0x2 in ncclRecv () from libnccl.so.2' >threads.txt
expect 3 'A THREAD WAITS IN A CUDA CALL WHILE ANOTHER IS IN A COLLECTIVE' -- threads.txt
# what the seventh set showed: the words of CUDA in a warning decide, before the crash that follows them
cat >stub.log <<'END'
n0:1:2 [0] init.cc:255 NCCL WARN Cuda failure 'CUDA driver is a stub library'
[n0:00001] [ 0] /lib/libpthread.so.0(+0x13140)[0x7f64ea1996c8]
[n0:00001] [ 1] /opt/libnccl.so.2(+0x5a2c7)[0x7f7dc700da1b]
[n0:00001] [ 2] /opt/libnccl.so.2(ncclCommDestroy+0x3d)[0x7f06c7ab603c]
mpirun noticed that process rank 1 with PID 1 on node n0 exited on signal 11 (Segmentation fault).
END
expect 1 "CUDA.S STUB LIBRARY WAS LOADED" -- stub.log
sed -i 1d stub.log
expect 1 'its stack: libpthread.so.0 <- libnccl.so.2 <- ncclCommDestroy' -- stub.log
# only CUDA's own words explain what NCCL quotes of CUDA, and what is enabled already can be reached
for said in 'unsupported limit' 'exec affinity type is not supported' 'peer access is already enabled' 'unknown error'; do
        echo "n0:1:2 [0] init.cc:255 NCCL WARN Cuda failure 1 '$said'" >quoted.txt
        "$capo" diagnose quoted.txt | grep -q 'THE SERVER REFUSES\|CANNOT REACH\|CUDA REFUSES' && { echo "$said: $("$capo" diagnose quoted.txt)"; bad=1; }
        expect 1 'A CALL OF CUDA FAILED IN NCCL' -- quoted.txt
done
echo 'n0: Test CUDA failure common.cu:1045 .unknown error.' >cuda.txt
expect 3 'a call of CUDA failed in nccl-tests' -- cuda.txt
# a command is no sentence about what works
echo '$ NCCL_ALGO=Ring ./sendrecv_perf -b 16M works' >command.txt
"$capo" diagnose command.txt | grep -q 'THE JOB WORKS' && { echo 'a command was read as a sentence'; bad=1; }
# two runs in one file, each behind its command without a prompt
ran() {
        printf '%s\n' "mpirun -np 2 $1 ./build/all_reduce_perf -b 1G -e 1G" '# nThread 1 nGpus 1 minBytes 1073741824 maxBytes 1073741824' \
                "  1073741824     268435456     float     sum      -1   1000   $2   $2      0   1000   $2   $2      0" \
                '# Out of bounds values : 0 OK' "# Avg bus bandwidth    : $2"
}
{ ran '' 20.1; ran '-x NCCL_IB_ECE_ENABLE=0' 190.1; } >two.txt
expect 1 'THE TEST REACHES 190.1 GB/s WITH NCCL_IB_ECE_ENABLE=0, AND 20.1 GB/s WITHOUT' -- two.txt
# a matrix of p2pBandwidthLatencyTest with what is no number ends, and so does what stands behind it
printf '%s\n' 'Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)' '   D\D     0      1' '     0 540.1  20.0' '     1    N/A 540.1' '2 GPUs were tested here' >matrix.txt
timeout 20 "$capo" diagnose matrix.txt >/dev/null 2>&1
[ $? -lt 100 ] || { echo "capo diagnose matrix.txt does not end"; bad=1; }
exit $bad
