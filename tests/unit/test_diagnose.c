/* SPDX-License-Identifier: Apache-2.0 */
/* What capo diagnose makes of lines; tests/diagnose has those of public reports. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util.h"
#include "analysis/diagnose/evidence.h"

static struct capo_evidence judged(const char *text)
{
        struct capo_evidence e = {0};

        capo_evidence_add(&e, "job.log", strdup(text));
        capo_evidence_judge(&e);
        return e;
}

static void expect(const char *text, const char *kind, int32_t rank, const char *headline)
{
        _cleanup_(capo_evidence_finish) struct capo_evidence e = judged(text);
        const struct capo_diagnose_finding *v = capo_evidence_verdict(&e);

        cr_assert(v || !*kind, "no verdict on:\n%s", text);
        if (!v)
                return;
        cr_expect_str_eq(v->kind, kind, "%s: %s", v->headline, text);
        cr_expect(strstr(v->headline, headline), "%s", v->headline);
        if (rank >= 0)
                cr_expect(v->n_ranks == 1 && v->ranks[0] == rank, "%s", v->headline);
}

#define WATCH(rank, seq, op, n)                                                                \
        "[rank" #rank "]:[E ProcessGroupNCCL.cpp:632] [Rank " #rank                            \
        "] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=" #seq ", OpType=" op \
        ", NumelIn=" #n ", NumelOut=" #n ", Timeout(ms)=600000) ran for 600009 milliseconds\n"
#define STATUS(rank, group, seq, enqueued, completed)                             \
        "[rank" #rank "]:[E ProcessGroupNCCL.cpp:2271] [PG " group " Rank " #rank \
        "]  failure detected by watchdog at work sequence id: " #seq              \
        " PG status: last enqueued work: " #enqueued ", last completed work: " #completed "\n"
#define DUMP(rank, group, enqueued, completed)                                                \
        "[rank" #rank "]:[E ProcessGroupNCCL.cpp:1743] [PG " group " Rank " #rank             \
        "] Received a dump signal due to a collective timeout from  rank 0 and we will try. " \
        "Last enqueued NCCL work: " #enqueued ", last completed NCCL work: " #completed ".\n"
#define G "ID 4 PG GUID 67"

Test(diagnose, a_rank_that_is_behind)
{
        expect(WATCH(0, 10, "BROADCAST", 8) STATUS(0, G, 10, 20, 9) WATCH(1, 9, "BROADCAST", 8)
                       STATUS(1, G, 9, 20, 8),
               "behind", 1, "RANK 1 IS ONE CALL BEHIND in process group 67 (BROADCAST)");
}

/* Whatever says that something failed must never lead to "no fault found". */
Test(diagnose, errors_that_programs_quote)
{
        expect("[rank1]: DistBackendError: NCCL error in: a.cpp:1, unhandled system error\n"
               "[rank1]: Last error:\n"
               "[rank1]: socketStartConnect: Connect to 10.0.0.2<4> failed : Connection refused\n",
               "network", 1, "CONNECTION TO ANOTHER RANK WAS REFUSED");
        expect("NCCL error in: a.cpp:1, unhandled cuda error\nLast error:\n"
               "Cuda failure 'out of memory'\n",
               "memory", -1, "GPU MEMORY IS NOT ENOUGH");
        expect("ncclRemoteError: x\nLast error:\nConnection closed by remote peer a\n", "undecided",
               -1, "a peer closed its connection");
        expect("NCCL communicator was aborted on rank 2.\n", "undecided", -1, "was aborted");
        expect("RuntimeError: NCCL error: unhandled system error\n", "error", -1, "system error");
        expect(WATCH(3, 18446744073709551615, "BROADCAST", 8), "undecided", -1, "timed out");
        expect("wrapper: Watchdog caught collective operation timeout\n", "undecided", -1,
               "timed out");
}

Test(diagnose, errors_that_nothing_explains)
{
        static const char trace[] = "[rank0]: Traceback (most recent call last):\n"
                                    "[rank0]:   File \"t.py\", line 3, in <module>\n"
                                    "[rank0]: KeyError: 'a'\n";
        _cleanup_(capo_evidence_finish) struct capo_evidence e = judged(trace);

        expect(trace, "error", 0, "raised an exception");
        cr_expect_str_eq(capo_evidence_verdict(&e)->detail, "[rank0]: KeyError: 'a'");
        expect("NCCL version 2.21.5\nFATAL: cannot open shard 7\n", "error", -1,
               "A WORD OF FAILURE");
        expect("a NCCL INFO b\nh:1:2 [0] NCCL WARN what is new\n", "error", -1, "NCCL warns");
        expect("NCCL version 2.21.5\nNCCL INFO x\nNCCL_ASYNC_ERROR_HANDLING=1\nerrors: 0\n", "", -1,
               "");
        expect("h NCCL INFO NET/Plugin: Failed to find the plugin\n", "", -1, "");
}

Test(diagnose, a_test_that_ended_well_vouches_for_itself_only)
{
        static const char ended[] = "# nThread 1 nGpus 8\nh:1:2 [0] NCCL WARN odd\n"
                                    "# Out of bounds values : 0 OK\n# Avg bus bandwidth : 4\n";
        _cleanup_(capo_evidence_finish) struct capo_evidence e = {0};

        expect(ended, "healthy", -1, "ENDED WITHOUT AN ERROR");
        capo_evidence_add(&e, "tests.log", strdup(ended));
        capo_evidence_add(&e, "job.log", strdup("step 1\nFATAL: no shard\n"));
        capo_evidence_judge(&e);
        cr_expect_str_eq(capo_evidence_verdict(&e)->kind, "error");
        cr_expect_eq(capo_evidence_verdict(&e)->marks[0].text, 1u);
}

Test(diagnose, the_next_command_names_no_file_that_a_shell_reads_otherwise)
{
        _cleanup_(capo_evidence_finish) struct capo_evidence e = {0};

        capo_evidence_add(&e, "it's 1.txt",
                          strdup("# nThread 1 nGpus 8\n# Avg bus bandwidth : 4\n"));
        capo_evidence_judge(&e);
        cr_expect(strstr(capo_evidence_verdict(&e)->next, "capo expect FILE --platform NAME"), "%s",
                  capo_evidence_verdict(&e)->next);
}

/* nccl-tests' sum of wrong values can be 0 although rows have some. */
Test(diagnose, a_test_with_wrong_rows_is_not_healthy)
{
        static const char begin[] = "# nThread 1 nGpus 8\n",
                          end[] = "# Out of bounds values : 0 OK\n# Avg bus bandwidth : 4\n";
        char text[512];

        snprintf(text, sizeof text, "%s%s%s", begin,
                 " 1024 256 float sum -1 9.1 0.11 0.20 0 9.0 0.11 0.20 7\n", end);
        expect(text, "wrong-results", -1, "WRONG RESULTS");
        snprintf(text, sizeof text, "%s%s%s", begin,
                 " 1024 256 float sum -1 9.1 0.11 0.20 7 9.0 0.11 0.20 N/A\n", end);
        expect(text, "wrong-results", -1, "WRONG RESULTS");
        snprintf(text, sizeof text, "%s%s%s", begin,
                 " 1024 256 float sum -1 9.1 0.11 0.20 N/A 9.0 0.11 0.20 N/A\n", end);
        expect(text, "healthy", -1, "ENDED WITHOUT AN ERROR");
}

/* Two rows of one crash. */
Test(diagnose, a_crash_that_two_lines_report)
{
        _cleanup_(capo_evidence_finish) struct capo_evidence e =
                judged("  exitcode  : -11 (pid: 3)\nSignal 11 (SIGSEGV) received by PID 3\n");

        cr_expect_eq(e.n_findings, 1);
        cr_expect_eq(e.findings[0].n_marks, 2);
}

Test(diagnose, a_rank_that_has_not_made_the_call)
{
        expect(WATCH(0, 10, "ALLREDUCE", 8) STATUS(0, G, 10, 10, 9) DUMP(1, G, 9, 9), "missing", 1,
               "RANK 1 HAS NOT MADE ALLREDUCE number 10");
}

Test(diagnose, calls_that_differ)
{
        expect(WATCH(0, 10, "ALLREDUCE", 8) STATUS(0, G, 10, 10, 9) WATCH(1, 10, "BROADCAST", 8)
                       STATUS(1, G, 10, 10, 9),
               "mismatch", -1, "MADE DIFFERENT CALLS as number 10");
        expect(WATCH(0, 10, "ALLREDUCE", 8) STATUS(0, G, 10, 10, 9) WATCH(1, 10, "ALLREDUCE", 9)
                       STATUS(1, G, 10, 10, 9),
               "mismatch", -1, "MADE DIFFERENT CALLS as number 10");
}

/* A rank without lines, groups that are not known to be one, and numbers of sends prove nothing. */
Test(diagnose, what_is_not_decided)
{
        expect(WATCH(0, 10, "ALLREDUCE", 8) STATUS(0, G, 10, 10, 9), "undecided", -1,
               "rank 0 has not completed");
        expect(WATCH(0, 10, "ALLREDUCE", 8) WATCH(1, 9, "ALLREDUCE", 8), "undecided", -1, "");
        expect(WATCH(0, 10, "ALLREDUCE", 8) STATUS(0, "1", 10, 10, 9) WATCH(1, 9, "ALLREDUCE", 8)
                       STATUS(1, "1", 9, 9, 8),
               "undecided", -1, "");
        expect(WATCH(0, 10, "ALLREDUCE", 8) STATUS(0, "0", 10, 10, 9) WATCH(1, 9, "ALLREDUCE", 8)
                       STATUS(1, "0", 9, 9, 8),
               "undecided", -1, "");
        expect(WATCH(0, 10, "COALESCED", 0) STATUS(0, G, 10, 10, 9) WATCH(1, 9, "COALESCED", 0)
                       STATUS(1, G, 9, 9, 8),
               "undecided", -1, "");
        expect(WATCH(0, 1, "ALLREDUCE", 8) STATUS(0, G, 1, 1, 93459313471793), "undecided", -1, "");
        expect("step 1\nstep 2\n", "", -1, "");
}

#define LINE(host, pid, said) host ":" #pid ":" #pid " [0] NCCL INFO " said "\n"
#define COLL(host, pid, call, nth, n, comm)                                \
        LINE(host, pid,                                                    \
             call ": opCount " #nth " sendbuff 0x1 recvbuff 0x2 count " #n \
                  " datatype 7 op 0 root 0 comm " comm " [nranks=2] stream 0x1")
#define INIT(host, pid, comm, rank, id, what)                                               \
        LINE(host, pid,                                                                     \
             "comm " comm " rank " #rank " nranks 2 cudaDev 0 nvmlDev 0 busId 1 commId " id \
             " - Init " what)

Test(diagnose, two_communicators_in_opposite_order)
{
        expect(COLL("a", 1, "AllReduce", 0, 3, "0xa2") COLL("a", 1, "AllReduce", 0, 2, "0xa3")
                       COLL("b", 2, "AllReduce", 0, 2, "0xb3")
                               COLL("b", 2, "AllReduce", 0, 3, "0xb2"),
               "order", -1, "IN OPPOSITE ORDER");
        expect(COLL("a", 1, "AllReduce", 0, 3, "0xa2") COLL("a", 1, "AllReduce", 0, 2, "0xa3")
                       COLL("b", 2, "AllReduce", 0, 3, "0xb2")
                               COLL("b", 2, "AllReduce", 0, 2, "0xb3"),
               "", -1, "");
}

Test(diagnose, calls_of_a_communicator_that_init_lines_join)
{
#define BOTH                                      \
        INIT("a", 1, "0xa", 0, "0x5", "COMPLETE") \
        INIT("b", 2, "0xb", 1, "0x5", "COMPLETE")
        expect(BOTH COLL("a", 1, "AllReduce", 0, 8, "0xa") COLL("b", 2, "AllReduce", 0, 9, "0xb"),
               "mismatch", -1, "ANOTHER CALL");
        /* lines that begin later are counted otherwise */
        expect(BOTH COLL("a", 1, "AllReduce", 0, 8, "0xa") COLL("b", 2, "AllReduce", 5, 9, "0xb"),
               "", -1, "");
        /* it may be on its way */
        expect(BOTH COLL("a", 1, "AllReduce", 0, 8, "0xa") COLL("b", 2, "AllReduce", 0, 8, "0xb")
                       COLL("a", 1, "AllReduce", 1, 8, "0xa"),
               "undecided", 1, "IF THE JOB HANGS: rank 1 HAS NOT MADE AllReduce #2");
}

Test(diagnose, a_communicator_that_is_not_created)
{
        expect(INIT("a", 1, "0xa", 0, "0x5", "START"), "birth", -1,
               "2 RANKS: lines of 1 rank begin");
        expect(INIT("a", 1, "0xa", 0, "0x5", "START") INIT("a", 1, "0xa", 0, "0x5", "COMPLETE"), "",
               -1, "");
}

Test(diagnose, what_happened_first)
{
        expect("[1.0] Out of memory: Killed process 77 (python3)\n", "killed", -1, "out of memory");
        expect("[1.0] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n", "gpu",
               -1, "FALLEN OFF THE BUS");
        expect("table (a): 48, 49\n", "", -1, "");
        expect("NVRM: Xid (PCI:0000:1a:00): 145, RLW_RXPIPE Nonfatal\n", "nvlink", -1, "NVLINK");
        expect("a:1:1 [0] x.cc:1 NCCL WARN Connection closed by remote peer b<1>\n"
               "a:2:2 [1] y.cc:1 NCCL WARN Cuda failure 'out of memory'\n",
               "memory", -1, "GPU MEMORY IS NOT ENOUGH");
        expect("a:1:1 [0] x.cc:1 NCCL WARN Connection closed by remote peer b<1>\n", "undecided",
               -1, "a peer closed its connection");
        expect("Connection refused\n", "", -1, "");
        expect("a:1:1 [0] x.cc:1 NCCL WARN connect failed : Connection refused\n", "network", -1,
               "WAS REFUSED");
        expect("[rank5]: torch.OutOfMemoryError: CUDA out of memory.\n" WATCH(0, 10, "ALLREDUCE",
                                                                              8),
               "memory", 5, "OUT OF MEMORY");
        expect(WATCH(0, 10, "ALLREDUCE", 8) "[rank5]: CUDA out of memory.\n", "undecided", -1, "");
}

/* " 8: " of srun -l; a listing with numbers has none. */
Test(diagnose, ranks_of_labels)
{
#define TRACE(p)                                                                 \
        p "Traceback (most recent call last):\n" p "  File \"t.py\", line 3\n" p \
          "FileNotFoundError: [Errno 2] x\n"
        static const char node[] = "srun: error: node005: task 8: Exited with exit code 1\n";
        char text[2048];

        snprintf(text, sizeof text, "%s%s%s", TRACE(" 8: "), WATCH(0, 10, "ALLREDUCE", 8), node);
        expect(text, "exception", 8, "RANK 8 RAISED AN EXCEPTION");
        snprintf(text, sizeof text, "%s%s", TRACE("[1,8]<stderr>:"), WATCH(0, 10, "ALLREDUCE", 8));
        expect(text, "exception", 8, "RANK 8 RAISED AN EXCEPTION");
        snprintf(text, sizeof text, "%s%s", TRACE("[8] "), WATCH(0, 10, "ALLREDUCE", 8));
        expect(text, "exception", 8, "RANK 8 RAISED AN EXCEPTION");
        snprintf(text, sizeof text,
                 "1: Traceback (most recent call last):\n2: KeyError: 3\n3: x\n%s",
                 WATCH(0, 10, "ALLREDUCE", 8));
        expect(text, "undecided", -1, "");
        snprintf(text, sizeof text, "1: [rank9]: x\n%s%s", TRACE("1: "),
                 WATCH(0, 10, "ALLREDUCE", 8));
        expect(text, "undecided", -1, "");
}

Test(diagnose, quotes_are_cut_between_words)
{
        char line[600], out[768];

        memset(line, 'a', sizeof line);
        memcpy(line + 310, " Process 81233 has", 18);
        line[599] = 0;
        capo_quote(line, out, sizeof out);
        cr_expect_str_eq(out + 310, " Process ...");
}

Test(diagnose, a_peer_that_did_not_answer)
{
        expect("h:1:2 [0] net_ib.cc:1 NCCL WARN NET/IB: Got completion from peer 10.0.0.5<53297> with "
               "status=12 opcode=0 len=0 vendor err 129 (Recv) hca mlx5_3\n",
               "network", -1, "DID NOT ANSWER");
        expect("launch: rank 3 ended with status 137\n", "killed", -1, "SIGKILL");
}

#define SLURM(what, due) \
        "slurmstepd: error: *** " what " ON node100 CANCELLED AT 2026-11-20T10:00:00" due " ***\n"

/* The node behind ON is where Slurm's message comes from. */
Test(diagnose, nodes_that_failed)
{
        static const char due[] = SLURM("JOB 991", " DUE TO NODE FAILURE");
        _cleanup_(capo_evidence_finish) struct capo_evidence e = judged(
                "srun: error: Node failure on node117\n" SLURM("JOB 991", " DUE TO NODE FAILURE"));

        cr_expect(strstr(capo_evidence_verdict(&e)->headline, "A NODE FAILED"));
        cr_expect_str_eq(capo_evidence_verdict(&e)->detail, "srun: error: Node failure on node117");
        expect(due, "node", -1, "A NODE FAILED");
        cr_expect(!strstr(capo_evidence_verdict(&e)->headline, "node100"));
        expect("srun: error: Node failure on a,b\n", "node", -1, "A NODE FAILED");
        expect("slurmctld: error: Nodes n[1-2] not responding, setting DOWN\n", "node", -1,
               "DOES NOT ANSWER Slurm");
        expect("slurmctld: node n7 is not responding\n", "node", -1, "DOES NOT ANSWER");
}

Test(diagnose, jobs_that_slurm_cancelled)
{
        expect(SLURM("JOB 4711", ""), "cancelled", -1, "THE JOB WAS CANCELLED by a user or");
        expect(SLURM("STEP 4711.0", ""), "cancelled", -1, "A STEP OF THE JOB WAS CANCELLED");
        expect("srun: forcing job termination\n" SLURM("JOB 4711", ""), "cancelled", -1, "THE JOB");
        expect("srun: Job step aborted: Waiting up to 32 seconds\n", "cancelled", -1, "BY SRUN");
        expect(SLURM("JOB 4711", " DUE TO TIME LIMIT"), "time-limit", -1, "its time limit");
        expect("srun: error: n1: task 8: Exited with exit code 1\n" SLURM("STEP 4711.0", ""),
               "error", -1, "a task ended with an exit code");
        expect("Traceback (most recent call last):\nKeyError: 3\n" SLURM("STEP 4711.0", ""),
               "error", -1, "raised an exception");
}

Test(diagnose, nccl_tests)
{
        expect("# nThread 1 nGpus 2\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 9\n",
               "healthy", -1, "WITHOUT AN ERROR");
        expect("# nThread 1 nGpus 2\n# Out of bounds values : 8 FAILED\n# Avg bus bandwidth : 9\n",
               "wrong-results", -1, "WRONG RESULTS");
        expect("# nThread 1 nGpus 2\n", "undecided", -1, "DID NOT COME TO ITS END");
}

Test(diagnose, ranks_and_releases_of_lines)
{
        _cleanup_(capo_evidence_finish) struct capo_evidence e =
                judged("NCCL version 2.28.9+cuda13.0\nnvidia-nccl-cu13==2.27.3\n[rank7]: x\n");
        char text[128];

        cr_expect_eq(e.nccl, 22809);
        cr_expect(e.n_seen == 8 && e.seen[7] && !e.seen[6]);
        cr_expect_eq(capo_line_rank("(W[rank=97] pid=1) [rank97]: [Rank 6] x"), 97);
        cr_expect_eq(capo_line_rank("[Rank 3] x\n[rank4]"), 3);
        cr_expect_eq(capo_line_rank("nothing"), -1);
        cr_expect_str_eq(capo_rank_list((int32_t[]){3}, 1, text), "rank 3");
        cr_expect_str_eq(capo_rank_list((int32_t[]){0, 1, 2, 5, 7}, 5, text), "ranks 0-2, 5, 7");
}

/* How processes end, by the words of each launcher and runtime. */
Test(diagnose, ends_of_processes)
{
        static const struct {
                const char *kind, *line;
        } lines[] = {
                {"crash", "srun: error: n12: task 3: Illegal instruction (core dumped)"},
                {"crash", "srun: error: n12: task 3: Floating point exception"},
                {"crash",
                 "run.sh: line 28:  8156 Segmentation fault      (core dumped) python a.py"},
                {"crash", "Command '['python', 'x.py']' died with <Signals.SIGILL: 4>."},
                {"crash", "=   RANK 3 PID 1021 RUNNING AT node3\n=   EXIT CODE: 139"},
                {"crash",
                 "APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)"},
                {"crash", "ProcessExitedException: process 1 terminated with signal SIGSEGV"},
                {"crash", "(raylet) *** SIGSEGV received at time=1709028495 on cpu 22 ***"},
                {"crash", "      Reason:       Error\n      Exit Code:    139"},
                {"crash", "DataLoader worker (pid 12) is killed by signal: Segmentation fault."},
                {"killed", "run.sh: line 28:  8156 Killed                  python3 main.py"},
                {"killed", "=   PID 1021 RUNNING AT node3\n=   KILLED BY SIGNAL: 9 (Killed)"},
                {"killed", "ProcessExitedException: process 2 terminated with signal SIGKILL"},
                {"killed",
                 "systemd[1]: t.service: Main process exited, code=killed, status=9/KILL"},
                {"killed", "991.batch         batch            OUT_OF_ME+    0:125"},
                {"killed", "JobState=OUT_OF_MEMORY Reason=OutOfMemory Dependency=(null)"},
                {"shm", "[n1:12:0:12] Caught signal 7 (Bus error: nonexistent physical address)"},
                {"shm", "bash: line 1: 42 Bus error               (core dumped) python t.py"},
                {"error", "ProcessExitedException: process 2 terminated with signal SIGABRT"},
                {"node", "991          train  gpu     root  64  NODE_FAIL      0:0"},
                {"node", "Warning  NodeNotReady  2m  node-controller  Node is not ready"},
                {"node", "(raylet) The node with node id: aa and address: 10.0.0.2 has been marked "
                         "dead because the detector has missed too many heartbeats from it."},
                {"node", "The actor is dead because its node has died. Node Id: 67"},
                {"time-limit", "JobState=TIMEOUT Reason=TimeLimit"},
                {"time-limit", "Pod was active on the node longer than the specified deadline"},
                {"ssh", "ssh: connect to host node2 port 22: Connection timed out"},
                {"ssh", "pdsh@node1: node2: ssh exited with exit code 255"},
                {"memory", "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to "
                           "allocate 8589934592 bytes."},
                {"memory",
                 "ValueError: Free memory on device (10.2/79.1 GiB) on startup is less than "
                 "desired GPU memory utilization (0.9, 71.2 GiB)."},
                {"limit", "RuntimeError: can't start new thread"},
                {"limit", "libgomp: Thread creation failed: Resource temporarily unavailable"},
                {"disk", "OSError: [Errno 122] Disk quota exceeded: 'a'"},
                {"container", "Failed to initialize NVML: Unknown Error"},
                {"gpu", "NVRM: Xid (PCI:0000:19:00): 154, GPU recovery action changed from 0x0 "
                        "(None) to 0x1 (GPU Reset Required)"},
                {"network", "libfabric:35:16::efa:cq:rxr_cq_write_tx_error():243<warn> err: 20, "
                            "prov_err: Not a directory (20)"},
                {"network", "n1:1:9 [0] misc/ibvwrap.cc:300 NCCL WARN Call to ibv_poll_cq failed"},
                {"undecided", "mlx5: node2: got completion with error:"},
                {"undecided", "IBV_WC_RETRY_EXC_ERR(12) from peer 10.0.0.2"},
                {"undecided", "RuntimeError: Timed out waiting 1800000ms for recv operation"},
        };

        for (size_t i = 0; i < N_ELEMENTS(lines); i++)
                expect(lines[i].line, lines[i].kind, -1, "");
        expect("mpirun noticed that process rank 1 with PID 13580 on node n1 exited on signal 4 "
               "(Illegal instruction).\n",
               "crash", 1, "SIGILL");
        /* Intel MPI kills the others: the crash came before */
        expect("=   KILLED BY SIGNAL: 9 (Killed)\n=   KILLED BY SIGNAL: 11 (Segmentation fault)\n",
               "crash", -1, "SIGSEGV");
}

/* A log that says nothing of a failure is no unknown file. */
Test(diagnose, log_lines_of_a_program)
{
        _cleanup_(capo_evidence_finish) struct capo_evidence
                e = judged("INFO 05-16 13:12:16 [core.py:425] waiting\n"),
                none = judged("see core.py: it waits\n");

        cr_expect_eq(e.texts[0].n[CAPO_EVIDENCE_LINES], 1);
        cr_expect(!e.texts[0].n[CAPO_EVIDENCE_UNKNOWN]);
        cr_expect(none.texts[0].n[CAPO_EVIDENCE_UNKNOWN]);
}

#define FAILED(time, rank, code)                                                            \
        "  time      : 2026-11-26_15:43:" time "\n  host      : node7\n  rank      : " rank \
        " (local_rank: 1)\n  exitcode  : " code " (pid: 1235)\n  error_file: <N/A>\n"
#define CHILD "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
#define ROOT  "Root Cause (first observed failure):\n[0]:\n"

Test(diagnose, the_rank_that_torchrun_saw_fail_first)
{
        static const char later[] = "[rank2]: DistBackendError: NCCL error in: a.cpp:1, remote "
                                    "process exited or there was a network error\n";
        char text[1024];

        expect(CHILD ROOT FAILED("03", "5", "1"), "error", 5, "rank 5 fail first (exit code 1");
        expect("Failures:\n[1]:\n" FAILED("04", "4", "-15") ROOT FAILED("03", "5", "-9"), "killed",
               5, "SIGKILL");
        expect("Root Cause:\n[0]:\n  time: 2026-01-01_00:00:01\n  rank: 3 (local_rank: 3)\n"
               "  exitcode: 1 (pid: 4216)\n",
               "error", 3, "rank 3 fail first");
        /* of two nodes the first; an error of another rank is one of its consequences */
        expect(ROOT FAILED("09", "1", "1") ROOT FAILED("03", "5", "1"), "error", 5, "rank 5");
        snprintf(text, sizeof text, "%s%s", later, CHILD ROOT FAILED("03", "5", "1"));
        expect(text, "error", 5, "rank 5 fail first");
        snprintf(text, sizeof text, "%s%s", later, CHILD ROOT FAILED("03", "2", "1"));
        expect(text, "error", 2, "another rank ended");
        /* cut off, or torchrun's own traceback alone */
        expect(CHILD ROOT "  rank      : 5 (local_rank: 1)\n", "error", -1,
               "a process that failed");
        expect("Traceback (most recent call last):\n  File \"torchrun\", line 8\n" CHILD, "error",
               -1, "a process that failed");
}

/* A record ends where the next writer's begins, whatever the line says. */
Test(diagnose, two_writers_on_one_line)
{
        expect(WATCH(0, 10, "BROADCAST", 8) STATUS(
                       0, G, 10, 20,
                       9) "[rank1]:[E ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation "
                          "timeout: WorkNCCL(SeqNum=10, OpType=BROADCAST, NumelIn=8, NumelOut=8, "
                          "Timeout(ms)=600000) ran for 600009 milliseconds" WATCH(
                                  2, 9, "BROADCAST",
                                  8) "[rank1]:[E ProcessGroupNCCL.cpp:2271] [PG " G
                                     " Rank 1]  failure detected by "
                                     "watchdog at work sequence id: 10 PG status: last enqueued work: 20, last completed "
                                     "work: 9" STATUS(2, G, 9, 20, 8),
               "behind", 2, "RANK 2 IS ONE CALL BEHIND");
}

#define LOKI(pod, line) \
        "{\"stream\":{\"pod\":\"" pod "\"},\"values\":[[\"1790000000000000000\",\"" line "\"]]}"
#define STUCK(rank, seq)                                                      \
        "[rank" #rank "]:[E ProcessGroupNCCL.cpp:2271] [PG " G " Rank " #rank \
        "]  failure detected by watchdog at work sequence id: " #seq          \
        " PG status: last enqueued work: 20, last completed work: 8"

Test(diagnose, an_answer_of_a_log_store)
{
        expect("{\"data\":{\"result\":[" LOKI("w-0", STUCK(0, 10)) "," LOKI("w-1",
                                                                            STUCK(1, 9)) "]}}",
               "behind", 1, "RANK 1 IS ONE CALL BEHIND");
        /* the numbers of two jobs are not compared */
        expect("{\"data\":{\"result\":[" LOKI("a-0", STUCK(0, 10)) "," LOKI("b-0",
                                                                            STUCK(1, 9)) "]}}",
               "undecided", -1, "rank 0 has not completed");
}

Test(diagnose, attempts_are_judged_alone)
{
        static const char again[] =
                "[default] Worker group FAILED. 3/3 attempts left; will restart "
                "worker group\n";
        _cleanup_free_ char *text = NULL;

        cr_assert_gt(asprintf(&text, "%s%s%s", STATUS(0, G, 10, 20, 9) STATUS(1, G, 10, 20, 9),
                              again, STATUS(0, G, 9, 20, 8)),
                     0);
        expect(text, "undecided", -1, "ranks 0, 1 have not completed");
        expect(STATUS(0, G, 9000, 9000, 8999) STATUS(1, G, 120, 121, 119), "undecided", -1,
               "more than one job, attempt or group");
}

Test(diagnose, a_mismatch_explains_who_is_behind)
{
        expect(WATCH(0, 12, "ALLREDUCE", 8) STATUS(0, G, 12, 20, 11) WATCH(1, 10, "BROADCAST", 8)
                       STATUS(1, G, 10, 20, 9) WATCH(2, 10, "BROADCAST", 64)
                               STATUS(2, G, 10, 20, 9),
               "mismatch", -1, "MADE DIFFERENT CALLS as number 10");
}
