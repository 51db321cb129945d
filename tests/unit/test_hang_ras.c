/* SPDX-License-Identifier: Apache-2.0 */
/* What NCCL's RAS answers, in both formats; tests/hang/foreign.py has it over a socket. Samples:
 * NCCL's user guide, and real ones. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capo/call_ids.h"
#include "core/base/calls.h"
#include "core/base/util.h"
#include "analysis/hang/ras.h"
#include "analysis/hang/hang_load.h"

static struct ras_snapshot snapshot;
static char why[512];

static void end(void) { ras_snapshot_finish(&snapshot); }

TestSuite(hang_ras, .fini = end);

static int read_text(const char *text)
{
        _cleanup_free_ char *copy = strdup(text);

        ras_snapshot_finish(&snapshot);
        return ras_read(copy, &snapshot, why, sizeof why);
}

#define HEAD                                                                          \
        "NCCL version 2.24.3 compiled with CUDA 12.2\n\n"                             \
        "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n" \
        "    #  in group  per comm  per node  per comm  in group\n"

static uint64_t count(uint32_t comm, uint32_t rank, const char *call)
{
        return snapshot.comms[comm].ranks[rank].count[ras_call_of(call)];
}

Test(hang_ras, knows_every_collective)
{
        for (unsigned call = 1; call < CAPO_CALLS; call++) {
                if (capo_call_is_collective(call) && call != CAPO_CALL_BCAST &&
                    !capo_call_sized_by_rank(call)) /* which NCCL does not know */
                        cr_expect_geq(ras_call_of(capo_call_name(call)), 0,
                                      "analysis/hang/ras.c has no row for %s",
                                      capo_call_name(call));
        }
}

Test(hang_ras, who_is_not_named_has_the_count_that_names_nobody)
{
        cr_assert_eq(
                read_text(
                        HEAD
                        "    0         1         4         8        32        32   RUNNING  MISMATCH\n"
                        "\nWarnings\n========\n\n#0-0 (27a079b828ff1a75) MISMATCH\n"
                        "  Communicator ranks have different collective operation counts\n"
                        "  26 ranks have launched up to operation 6650\n"
                        "  2 ranks have launched up to operation 6649\n"
                        "  Rank 0 -- GPU 0 managed by process 483072 on node 172.16.64.210\n"
                        "  Rank 30 -- GPU 6 (NVML 7) managed by process 483074 on node 172.16.64.213\n"
                        "  Rank 7 has not launched any operations -- [process information not found]\n"),
                0);
        cr_assert_eq(snapshot.n_comms, 1);
        cr_assert_eq(snapshot.comms[0].n_ranks, 32);
        cr_assert_eq(snapshot.comms[0].hash, 0x27a079b828ff1a75);
        cr_assert_eq(count(0, 0, "collective"), 6649);
        cr_assert_eq(count(0, 1, "collective"), 6650);
        cr_assert_eq(count(0, 30, "collective"), 6649);
        cr_assert_eq(count(0, 7, "collective"), 0);
        cr_assert_eq(snapshot.comms[0].ranks[30].pid, 483074);
        cr_assert_eq(snapshot.comms[0].ranks[30].device, 6);
        cr_assert_str_eq(snapshot.comms[0].ranks[30].host, "172.16.64.213");
        cr_assert(!snapshot.partial);
}

Test(hang_ras, two_halves_that_are_not_named)
{
        cr_assert_eq(
                read_text(
                        HEAD
                        "    0         1         1         4         4         4   RUNNING  MISMATCH\n"
                        "#0-0 (1) MISMATCH\n"
                        "  Communicator ranks have different AllGather operation counts\n"
                        "  2 ranks have launched up to operation 7\n"
                        "  2 ranks have launched up to operation 9\n\n"
                        "  Communicator ranks have different AllReduce operation counts\n"
                        "  3 ranks have launched up to operation 2\n"
                        "  Rank 1 has launched up to operation 1 -- GPU 0 managed by process 5 on node a\n"),
                0);
        cr_assert(snapshot.partial);
        for (uint32_t i = 0; i < 4; i++) {
                cr_assert_eq(count(0, i, "AllGather"), 9); /* nobody is accused */
                cr_assert_eq(count(0, i, "AllReduce"), i == 1 ? 1 : 2);
        }
}

Test(hang_ras, states_and_errors)
{
        cr_assert_eq(
                read_text(
                        HEAD
                        "    0         1         4       1-2         8         8  FINALIZE  MISMATCH\n"
                        "    1         1         4       1-2         4         4      INIT     ERROR\n"
                        "#0-0 (a) MISMATCH\n"
                        "  Communicator ranks have different status\n"
                        "  4 ranks have status NOCOMM\n"
                        "  2 ranks have status RUNNING\n"
                        "  Rank 2 -- GPU 0 managed by process 5 on node a\n"
                        "  Rank 3 -- GPU 1 managed by process 6 on node a\n"
                        "  Rank 4 has status ABORT -- GPU 2 managed by process 7 on node a\n"
                        "#1-0 (b) ERROR\n"
                        "  Asynchronous error on 1 rank\n"
                        "  Rank 1 reported Remote process error -- GPU 2 managed by process 7 on node a\n"
                        "#1-1 (c) INCOMPLETE\n"
                        "  Missing communicator data from 2 ranks\n"
                        "  The missing ranks: 0,3\n"),
                0);
        cr_assert_eq(snapshot.n_comms, 3); /* the largest first */
        cr_assert(snapshot.comms[0].ranks[4].ended && !snapshot.comms[0].ranks[2].ended);
        cr_assert_eq(snapshot.comms[1].ranks[1].error, 1);
        cr_assert(snapshot.comms[2].ranks[0].absent && !snapshot.comms[2].ranks[1].absent &&
                  snapshot.comms[2].ranks[3].absent);
        cr_assert(snapshot.partial);
}

Test(hang_ras, what_is_no_answer)
{
        cr_assert_eq(read_text("HTTP/1.1 200 OK\r\n"), -EINVAL);
        cr_assert_str_eq(why, "what answered is no RAS of NCCL: HTTP/1.1 200 OK");
        cr_assert_eq(read_text("{"), -EINVAL);
        cr_assert_eq(
                read_text(
                        HEAD
                        "    0         1         1    1000000   1000000   1000000   RUNNING  MISMATCH\n"
                        "#0-0 (1) MISMATCH\n#0-0 (2) MISMATCH\n#0-0 (3) MISMATCH\n#9999-0 (4) MISMATCH\n"),
                0);
        cr_assert_eq(snapshot.n_comms, 1); /* no more than a million ranks */
        cr_assert(snapshot.partial);
}

/* What @text tells of a job, judged. */
static void judge_text(const char *text, struct capo_job *names, struct capo_hang_job *job,
                       struct capo_hang_verdict *v)
{
        cr_assert_eq(read_text(text), 0);
        ras_job(&snapshot, &snapshot, names, job);
        capo_hang_judge(job, v);
}

/* Nodes are those of the summary, not of the ranks that are named. */
Test(hang_ras, what_counts_tell)
{
        _cleanup_(capo_job_freep) struct capo_job *names = capo_job_new(), *none = capo_job_new();
        struct capo_hang_job job = {0};
        struct capo_hang_verdict v = {0};

        judge_text(
                "NCCL version 2.24.3 compiled with CUDA 12.6\n"
                "Job summary\n===========\n\n"
                "  Nodes  Processes         GPUs  Processes     GPUs\n"
                "(total)   per node  per process    (total)  (total)\n"
                "      4          1            1          4        4\n\n"
                "    #  in group  per comm  per node  per comm  in group\n"
                "    0         1         4         1         4         4   RUNNING  MISMATCH\n"
                "#0-0 (a) MISMATCH\n"
                "  Communicator ranks have different collective operation counts\n"
                "  3 ranks have launched up to operation 7\n"
                "  Rank 2 has launched up to operation 6 -- GPU 0 managed by process 5 on node b\n",
                names, &job, &v);
        cr_assert(job.any_kind && job.n_nodes == 4);
        cr_assert(v.n_culprits == 1 && job.processes[v.culprits[0].process].rank == 2);
        capo_hang_verdict_finish(&v);
        capo_hang_job_finish(&job);
        judge_text(HEAD
                   "    0         1        32         8       256       256   RUNNING        OK\n",
                   none, &job, &v);
        cr_assert_eq(v.kind, CAPO_HANG_UNDECIDED); /* no rank is behind, which is no proof */
        cr_assert(!job.any_kind);
        capo_hang_verdict_finish(&v);
        capo_hang_job_finish(&job);
}

/* All but one of a million ranks have not come: found in a second or so, not after half a million
 * million comparisons. */
Test(hang_ras, a_million_ranks_that_have_not_come)
{
        _cleanup_(capo_job_freep) struct capo_job *names = capo_job_new();
        struct capo_hang_job job = {0};
        struct capo_hang_verdict v = {0};
        uint32_t wrong = 0; /* an assertion each would take most of this test's time */

        judge_text(
                HEAD
                "    0         1         1   1000000   1000000   1000000   RUNNING  MISMATCH\n"
                "#0-0 (1) MISMATCH\n  Communicator ranks have different operation counts\n"
                "  999999 ranks have launched up to operation 1\n"
                "  Rank 7 has launched up to operation 2 -- GPU 0 managed by process 5 on node a\n",
                names, &job, &v);
        cr_assert_eq(v.kind, CAPO_HANG_MISSING);
        cr_assert_eq(v.n_waiting, 1);
        cr_assert_eq(v.n_culprits, 999999);
        for (uint32_t i = 0; i < v.n_culprits; i++) /* each of them once */
                wrong += v.culprits[i].process != i + (i >= 7);
        cr_assert_eq(wrong, 0);
        capo_hang_verdict_finish(&v);
        capo_hang_job_finish(&job);
}

/* The same of a communicator that is being made. */
Test(hang_ras, a_million_ranks_and_one_that_makes_it)
{
        _cleanup_(capo_job_freep) struct capo_job *names = capo_job_new();
        struct capo_hang_job job = {0};
        struct capo_hang_verdict v = {0};

        judge_text(HEAD
                   "    0         1         1   1000000   1000000   1000000      INIT  MISMATCH\n"
                   "#0-0 (1) MISMATCH\n  Communicator ranks have different status\n"
                   "  Rank 7 has status INIT -- GPU 0 managed by process 5 on node a\n",
                   names, &job, &v);
        cr_assert_eq(v.kind, CAPO_HANG_INSIDE);
        capo_hang_verdict_finish(&v);
        capo_hang_job_finish(&job);
}

static void add_rank(struct ras_comm *comm, uint32_t rank, uint32_t process)
{
        struct ras_rank *r = ras_rank_new(comm, (int32_t)rank);

        r->device = (int32_t)(process % 8);
        r->pid = 1000 + process % 8; /* in containers they are the same everywhere */
        snprintf(r->host, sizeof r->host, "gpu-node-%05u", process / 8);
}

/* 100,000 processes, each in two communicators, are distinguished in a second or so. */
Test(hang_ras, a_hundred_thousand_processes)
{
        enum { MACHINES = 12500, RANKS = MACHINES * 8 };
        _cleanup_(capo_job_freep) struct capo_job *names = capo_job_new();
        struct capo_hang_job job = {0};
        struct ras_comm *comm = ras_comm_new(&snapshot, "all", 1, RANKS);
        uint32_t wrong = 0;

        for (uint32_t i = 0; i < RANKS; i++)
                add_rank(comm, i, i);
        for (uint32_t m = 0; m < MACHINES; m++) {
                char id[16];

                snprintf(id, sizeof id, "%05u", m);
                comm = ras_comm_new(&snapshot, id, m, 8);
                for (uint32_t i = 0; i < 8; i++)
                        add_rank(comm, i, 8 * m + i);
        }
        ras_job(&snapshot, &snapshot, names, &job);
        cr_assert_eq(job.n_processes, RANKS);
        cr_assert_eq(names->n_nodes, MACHINES);
        cr_assert_eq(names->n_comms, MACHINES + 1);
        for (uint32_t i = 0; i < RANKS; i++) {
                wrong += job.comms[0].members[i].process != i;
                wrong += job.comms[1 + i / 8].members[i % 8].process != i;
                wrong += names->processes[i].node != i / 8;
        }
        cr_assert_eq(wrong, 0);
        capo_hang_job_finish(&job);
}

/* Bytes changed at random in real answers: whatever is read of them, nothing is read or written
 * that is not there. */
Test(hang_ras, damaged)
{
        static const char *const names[] = {"behind-2.24.3.txt", "stopped-2.24.3.txt",
                                            "behind-2.28.9.json"};
        unsigned seed = 7;

        for (size_t i = 0; i < N_ELEMENTS(names); i++) {
                char path[512], text[8192], bad[8192];
                size_t n;
                FILE *f;

                snprintf(path, sizeof path, SOURCE_ROOT "/tests/hang/ras/%s", names[i]);
                f = fopen(path, "r");
                cr_assert(f, "%s", path);
                n = fread(text, 1, sizeof text - 1, f);
                fclose(f);
                text[n] = 0;
                for (unsigned k = 0; k < 300; k++) {
                        struct capo_hang_job job = {0};
                        struct capo_job *job_names = capo_job_new();
                        struct capo_hang_verdict v = {0};

                        memcpy(bad, text, n + 1);
                        for (unsigned times = k % 8; times > 0; times--)
                                bad[(size_t)rand_r(&seed) % n] =
                                        "0123456789#-(\n ,R\"{}"[rand_r(&seed) % 20];
                        if (read_text(bad) == 0) {
                                ras_job(&snapshot, &snapshot, job_names, &job);
                                capo_hang_judge(&job, &v);
                                cr_assert_neq(v.sure == CAPO_HANG_CERTAIN && v.n_culprits, true);
                        }
                        capo_hang_verdict_finish(&v);
                        capo_hang_job_finish(&job);
                        capo_job_free(job_names);
                }
        }
}
