/* SPDX-License-Identifier: Apache-2.0 */
/* capo's own logs as measurements: what decides whether they can be compared, and what was forced.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/calls.h"
#include "profiles/import/import.h"
#include "tests/golden/gen_log.h"
#include "tests/log_numbers.h"

static struct capo_samples set;
static char error[512], paths[1250][32];
static size_t n_paths;

/* One rank of two on one node, two all-reduces of 4 KiB in 10 us; @ran of the second. */
static int import(const char *info, unsigned ran)
{
        static const uint32_t begin[] = {0, 100}, ns[] = {10000, 10000}, seq[] = {1, 2};
        static const uint16_t shape[] = {1, 2};
        char path[] = "/tmp/capo-log-XXXXXX";
        struct gen_log g;
        struct capo_log_shape shapes[2] = {
                {.id = 1,
                 .comm = 1,
                 .bytes = 4096,
                 .call = CAPO_CALL_ALLREDUCE,
                 .clock = CAPO_CLOCK_EVENT,
                 .algo_proto = CAPO_ALGO_PROTO(CAPO_ALGO_RING, CAPO_PROTO_LL)}};
        int r;

        shapes[1] = shapes[0];
        shapes[1].id = 2;
        shapes[1].algo_proto = (uint8_t)ran;
        close(mkstemp(path));
        gen_log_open(&g, path, 7);
        gen_log_text(&g, CAPO_FRAME_INFO, info);
        gen_log_comm(&g, (struct capo_log_comm){.id = 1, .uid = 5, .n_ranks = 2, .n_nodes = 1}, "");
        gen_log_shapes(&g, shapes, 2);
        gen_log_block(&g, 0, 0, 2, begin, ns, seq, shape, ns, NULL);
        gen_log_close(&g);
        r = capo_import(path, NULL, &set, error, sizeof error);
        unlink(path);
        return r;
}

static int n_ranks = 2, n_nodes = 2; /* of the job */

/* Rank @rank, one all-reduce that took it @ns, as an input of its own. */
static void more(int rank, uint32_t ns)
{
        static const uint32_t begin[] = {0}, seq[] = {1};
        static const uint16_t shape[] = {1};
        char path[] = "/tmp/capo-log-XXXXXX", host[32];
        struct gen_log g;

        close(mkstemp(path));
        gen_log_open(&g, path, 7);
        snprintf(host, sizeof host, "host\tn%d\n", rank);
        gen_log_text(&g, CAPO_FRAME_INFO, host);
        gen_log_comm(
                &g,
                (struct capo_log_comm){
                        .id = 1, .uid = 5, .rank = rank, .n_ranks = n_ranks, .n_nodes = n_nodes},
                "");
        gen_log_shapes(&g,
                       &(struct capo_log_shape){.id = 1,
                                                .comm = 1,
                                                .bytes = 4096,
                                                .call = CAPO_CALL_ALLREDUCE,
                                                .clock = CAPO_CLOCK_EVENT},
                       1);
        gen_log_block(&g, 0, 0, 1, begin, &ns, seq, shape, &ns, NULL);
        gen_log_close(&g);
        cr_expect_eq(capo_import_more(path, NULL, &set, error, sizeof error), 0, "%s", error);
        snprintf(paths[n_paths++], sizeof *paths, "%s", path);
}

/* They are read at the end only. */
static void end(void)
{
        cr_expect_eq(capo_import_end(&set, error, sizeof error), 0, "%s", error);
        while (n_paths > 0)
                unlink(paths[--n_paths]);
}

static void finish(void) { capo_samples_free(&set); }

TestSuite(import_log, .fini = finish);

enum { BOTH = CAPO_ALGO_PROTO(CAPO_ALGO_TREE, CAPO_PROTO_LL) };

Test(import_log, other_settings_tuner_driver)
{
        cr_assert_eq(
                import("host\tn1\nnccl.settings\tNCCL_SOCKET_NTHREADS=4 NCCL_DEBUG=INFO NCCL_BUFFSIZE=8 NCCL_ALGO=Ring "
                       "NCCL_INSPECTOR_ENABLE=1 NCCL_PROFILER_PLUGIN=x\n"
                       "nccl.net_plugin\taws-ofi\nnccl.algo\tRing\ncuda.driver\t12.8\n",
                       BOTH),
                0, "%s", error);
        cr_expect_str_eq(set.runs[0].settings,
                         "NCCL_BUFFSIZE=8 NCCL_NET_PLUGIN=aws-ofi NCCL_SOCKET_NTHREADS=4");
        cr_expect_str_eq(set.runs[0].driver, "CUDA 12.8");
        cr_expect_eq(set.n, 2);
        cr_expect_eq(set.v[0].want, CAPO_ALGO_PROTO(CAPO_ALGO_RING, 0));
        cr_expect(!set.runs[0].left_out);
        cr_assert_eq(import("nccl.tuner_plugin\tofi\n", BOTH), 0, "%s", error);
        cr_expect(set.runs[1].left_out, "another tuner decided");
}

Test(import_log, a_list_in_nccl_algo)
{
        cr_assert_eq(import("nccl.algo\tRing,Tree\n", BOTH), 0, "%s", error);
        cr_expect(!set.runs[0].left_out && set.n == 2, "what ran is recorded of all");
        cr_expect_eq(set.v[1].want, BOTH);
        cr_assert_eq(import("nccl.algo\tRing,Tree\nnccl.proto\tLL\n", 0), 0, "%s", error);
        cr_expect(!set.runs[1].left_out && set.n == 3, "and here of one: %zu", set.n);
        cr_expect_eq(set.v[2].want, CAPO_ALGO_PROTO(CAPO_ALGO_RING, CAPO_PROTO_LL));
}

/* What runs beside the table is nobody's choice, whatever the variable forces. */
Test(import_log, symmetric_kernels_were_not_forced)
{
        cr_assert_eq(import("nccl.algo\tRing\nnccl.proto\tLL\n", CAPO_KERNEL_SYMK_LL), 0, "%s",
                     error);
        cr_assert_eq(set.n, 2);
        cr_expect_eq(set.v[0].want, CAPO_ALGO_PROTO(CAPO_ALGO_RING, CAPO_PROTO_LL));
        cr_expect(set.v[1].want == 0 && set.v[1].ran == CAPO_KERNEL_SYMK_LL);
}

Test(import_log, a_list_and_nothing_recorded_is_unknown)
{
        static const uint32_t begin[] = {0}, ns[] = {10000}, seq[] = {1};
        static const uint16_t shape[] = {1};
        char path[] = "/tmp/capo-log-XXXXXX";
        struct gen_log g;

        close(mkstemp(path));
        gen_log_open(&g, path, 7);
        gen_log_text(&g, CAPO_FRAME_INFO, "nccl.algo\t^Ring\n");
        gen_log_comm(&g, (struct capo_log_comm){.id = 1, .uid = 5, .n_ranks = 2, .n_nodes = 1}, "");
        gen_log_shapes(&g,
                       &(struct capo_log_shape){.id = 1,
                                                .comm = 1,
                                                .bytes = 4096,
                                                .call = CAPO_CALL_ALLREDUCE,
                                                .clock = CAPO_CLOCK_EVENT},
                       1);
        gen_log_block(&g, 0, 0, 1, begin, ns, seq, shape, ns, NULL);
        gen_log_close(&g);
        cr_expect_eq(capo_import(path, NULL, &set, error, sizeof error), 0, "%s", error);
        unlink(path);
        cr_assert_eq(set.n_runs, 1);
        cr_expect(set.runs[0].left_out && strstr(set.runs[0].why, "is a list"), "%s",
                  set.runs[0].why);
        cr_expect_eq(set.n, 1, "it is there to be shown");
}

/* A histogram that nobody wrote: buckets that there are not, counts that run over. */
Test(import_log, damaged_histogram)
{
        static const uint32_t buckets[] = {3, 5, 12345, UINT32_MAX};
        struct capo_log_cell cell = {.id = 1,
                                     .comm = 1,
                                     .bytes = 64,
                                     .count = 8,
                                     .call = CAPO_CALL_ALLREDUCE,
                                     .clock = CAPO_CLOCK_EVENT,
                                     .hists = 2,
                                     .algo_proto = CAPO_ALGO_PROTO(CAPO_ALGO_RING, CAPO_PROTO_LL)};
        struct {
                struct capo_log_cell cell;
                struct capo_log_hist head;
                struct capo_log_hist_pair pairs[4];
        } frame = {.cell = cell, .head = {.count = 8, .n = 4}};
        char path[] = "/tmp/capo-log-XXXXXX";
        struct gen_log g;

        for (unsigned i = 0; i < 4; i++)
                frame.pairs[i] =
                        (struct capo_log_hist_pair){.bucket = buckets[i], .count = i == 1 ? 0 : 2};
        close(mkstemp(path));
        gen_log_open(&g, path, 7);
        gen_log_comm(&g, (struct capo_log_comm){.id = 1, .uid = 5, .n_ranks = 2, .n_nodes = 1}, "");
        gen_log_frame(&g, CAPO_FRAME_CELL, &frame, sizeof frame);
        gen_log_close(&g);
        cr_expect_eq(capo_import(path, NULL, &set, error, sizeof error), 0, "%s", error);
        unlink(path);
        cr_assert_geq(set.n, 4);
        for (size_t i = 0; i < set.n; i++)
                cr_expect(set.v[i].us < 1 || set.v[i].us > 3e6, "in its bucket or the last: %g",
                          set.v[i].us);
}

/* A checkpoint writes the cell, the next one what it has become. */
Test(import_log, only_the_last_state_of_a_cell_counts)
{
        const struct capo_log_cell cell = {.id = 1,
                                           .comm = 1,
                                           .bytes = 64,
                                           .count = 8,
                                           .call = CAPO_CALL_ALLREDUCE,
                                           .clock = CAPO_CLOCK_EVENT};
        char path[] = "/tmp/capo-log-XXXXXX";
        struct gen_hist hist = {0};
        struct gen_log g;

        close(mkstemp(path));
        gen_log_open(&g, path, 7);
        gen_log_comm(&g, (struct capo_log_comm){.id = 1, .uid = 5, .n_ranks = 2, .n_nodes = 1}, "");
        gen_hist_add(&hist, 10000, 4);
        gen_log_cell(&g, cell, NULL, &hist);
        gen_hist_add(&hist, 20000, 5);
        gen_log_cell(&g, cell, NULL, &hist);
        gen_log_close(&g);
        cr_expect_eq(capo_import(path, NULL, &set, error, sizeof error), 0, "%s", error);
        unlink(path);
        cr_expect_eq(set.n, 9, "%zu", set.n);
}

/* Logs named one by one on a command line: a job's ranks are one run, not repeats of each other. */
Test(import_log, ranks_as_inputs_of_their_own_are_one_run)
{
        more(0, 30000);
        more(1, 10000);
        end();
        cr_assert_eq(set.n_runs, 1, "%zu runs", set.n_runs);
        cr_assert_eq(set.n, 1);
        cr_expect_eq(set.v[0].us, 10, "what the rank needed that came last");
        cr_expect_str_eq(set.runs[0].hosts, "n0,n1");
}

/* A rank has one log in a job; so the same number of a communicator is another job's. */
Test(import_log, a_rank_that_is_there_twice_is_of_another_run)
{
        more(0, 30000);
        more(1, 10000);
        more(0, 8000);
        more(1, 20000);
        end();
        cr_assert_eq(set.n_runs, 2, "%zu runs", set.n_runs);
        cr_assert_eq(set.n, 2);
        cr_expect(set.v[0].us == 10 && set.v[1].us == 8);
}

/* A job of any number of nodes: of 1,250 the last 227 counted as one. */
Test(import_log, more_than_a_thousand_hosts)
{
        n_ranks = 1250;
        n_nodes = -1;
        for (int rank = 0; rank < n_ranks; rank++)
                more(rank, 10000);
        end();
        cr_assert_eq(set.n_runs, 1);
        cr_expect_str_eq(set.runs[0].layout, "1250x1");
        cr_expect_eq(set.runs[0].n_nodes, 1250);
}
