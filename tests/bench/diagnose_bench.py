#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""capo diagnose of one log in which 64 ranks are mixed, 60 communicators each: seconds and memory, for a log and one four times as large.
The time must grow like the log. usage: diagnose_bench.py BUILD [MB]"""
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

RANKS, COMMS = 64, 60


def write_log(path, size):
    """Calls, training lines, and at the end 63 watchdogs that wait for rank 17."""
    with open(path, "w") as out:
        head = [f"node{r // 8:02d}:{10000 + r}:{10000 + r} [{r % 8}] NCCL INFO" for r in range(RANKS)]
        for r in range(RANKS):
            for c in range(COMMS):
                for what in ("START", "COMPLETE"):
                    out.write(f"[rank{r}]: {head[r]} ncclCommInitRank comm 0x5{r:03x}{c:04x} rank {r} nranks {RANKS} cudaDev {r % 8} nvmlDev {r % 8} "
                              f"busId {r % 8}b000 commId 0xabc{c} - Init {what}\n")
        n = out.tell()
        step = 0
        while n < size:
            for r in range(RANKS):
                n += out.write(f"[rank{r}]: {head[r]} AllReduce: opCount {step // COMMS:x} sendbuff 0x7f0000{step:06x} recvbuff 0x7f0000{step:06x} count "
                               f"1048576 datatype 7 op 0 root 0 comm 0x5{r:03x}{step % COMMS:04x} [nranks={RANKS}] stream 0x55aa\n")
                n += out.write(f"[rank{r}]: INFO trainer.py:412 step {step} | loss 2.{step % 1000:03d} | lr 1.2e-4 | tokens/s 123456 | mem 61.2 GiB\n")
            step += 1
        for r in range(RANKS):
            pg = f"ProcessGroupNCCL.cpp:2251] [PG ID 0 PG GUID 0(default_pg) Rank {r}] "
            if r == 17:
                out.write(f"[rank{r}]:[E1126 12:30:00.1 {pg} Received a dump signal due to a collective timeout from rank 0 and we will try our best to "
                          f"dump the debug info. Last enqueued NCCL work: {step}, last completed NCCL work: {step}.\n")
                continue
            out.write(f"[rank{r}]:[E1126 12:30:00.1 ProcessGroupNCCL.cpp:685] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum="
                      f"{step + 1}, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=600000) ran for 600010 milliseconds before timing out.\n")
            out.write(f"[rank{r}]:[E1126 12:30:00.1 {pg} failure detected by watchdog at work sequence id: {step + 1} PG status: last enqueued work: "
                      f"{step + 1}, last completed work: {step}\n")


def time_log(capo, folder, size):
    """Seconds of a processor, and MiB at most."""
    path = os.path.join(folder, "job.log")
    write_log(path, size)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    began = time.monotonic()
    run = subprocess.run([capo, "diagnose", "--json", path], stdout=subprocess.PIPE)
    took = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    verdict = json.loads(run.stdout)["verdict"]
    if verdict["kind"] != "missing" or verdict["ranks"] != [17]:
        sys.exit(f"expected rank 17 missing, found {verdict['text']}")
    cpu = after.ru_utime - before
    print(f"{os.path.getsize(path) / 1e6:6.0f} MB  {cpu:6.2f} s of a processor  {took:6.2f} s  {after.ru_maxrss / 1024:6.0f} MiB")
    os.unlink(path)
    return cpu


def main():
    size = float(sys.argv[2] if len(sys.argv) > 2 else 256) * 1e6
    with tempfile.TemporaryDirectory() as folder:
        small, large = (time_log(os.path.join(sys.argv[1], "cli/capo"), folder, n) for n in (size / 4, size))
    print(f"4 times the log takes {large / small:.1f} times as long")


main()
