/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms against exact sorting; a job's logs merged; who waits for whom on made-up jobs whose
 * truth is known. */
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <criterion/criterion.h>

#include "analysis/job/hist.h"
#include "analysis/job/skew.h"
#include "analysis/job/stats.h"
#include "core/base/util.h"
#include "tests/golden/gen_log.h"
#include "tests/job_add.h"
#include "tests/log_numbers.h"

static char dir[64];

static void make_dir(void)
{
        strcpy(dir, "/tmp/capo-test-stats-XXXXXX");
        cr_assert(mkdtemp(dir));
}

static int by_name(const void *a, const void *b)
{
        return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Paths of all files in `dir`, sorted; the array is static. */
static unsigned list(char *paths[2048])
{
        DIR *d = opendir(dir);
        struct dirent *e;
        unsigned n = 0;

        while ((e = readdir(d))) {
                if (e->d_name[0] != '.')
                        cr_assert_gt(asprintf(&paths[n++], "%s/%s", dir, e->d_name), 0);
        }
        closedir(d);
        qsort(paths, n, sizeof *paths, by_name);
        return n;
}

static void drop_dir(void)
{
        static char *paths[2048];

        for (unsigned n = list(paths); n--;)
                unlink(paths[n]);
        rmdir(dir);
}

TestSuite(stats, .init = make_dir, .fini = drop_dir);

static struct capo_job *read_job(void)
{
        static char *paths[2048];
        struct capo_job *job = capo_job_new();
        unsigned n = list(paths);
        char why[256];

        for (unsigned i = 0; i < n; i++) {
                cr_assert_eq(add_log(job, paths[i], why, sizeof why), 0, "%s: %s", paths[i], why);
                free(paths[i]);
        }
        capo_job_finish(job);
        return job;
}

static int by_value(const void *a, const void *b)
{
        uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

        return x < y ? -1 : x > y;
}

Test(stats, quantiles_are_within_a_sixteenth)
{
        enum { N = 20000 };
        static uint64_t v[N];

        for (unsigned shape = 0; shape < 4; shape++) {
                struct capo_hist h = {0};
                uint64_t state = 88172645463325252ull + shape;
                double sum = 0, sq = 0, mean;

                for (unsigned i = 0; i < N; i++) {
                        double u;

                        state ^= state << 13;
                        state ^= state >> 7;
                        state ^= state << 17;
                        u = (double)(state >> 11) / 9007199254740992.0;
                        v[i] = shape == 0   ? (uint64_t)(u * 14) /* tiny: exact buckets */
                               : shape == 1 ? 1000 + (uint64_t)(u * 1000000) /* even */
                               : shape == 2
                                       ? (uint64_t)exp(5 + 12 * u)               /* five decades */
                                       : 5000 + (uint64_t)(-log(1 - u) * 20000); /* long tail */
                        capo_hist_add(&h, v[i], 1);
                        sum += (double)v[i];
                        sq += (double)v[i] * (double)v[i];
                }
                qsort(v, N, sizeof *v, by_value);
                for (unsigned k = 0; k < 5; k++) {
                        static const double qs[] = {0.01, 0.5, 0.95, 0.99, 0.999};
                        double exact = (double)v[(size_t)(qs[k] * (N - 1))],
                               got = capo_hist_quantile(&h, qs[k]);

                        cr_assert_leq(fabs(got - exact), exact / 16 + 1,
                                      "shape %u q %g: %g, exact %g", shape, qs[k], got, exact);
                }
                cr_assert_eq(capo_hist_quantile(&h, 1), (double)v[N - 1]);
                cr_assert_eq(capo_hist_quantile(&h, 0), (double)v[0]);
                mean = sum / N;
                cr_assert_float_eq(capo_hist_mean(&h), mean, 1e-6 * mean);
                cr_assert_float_eq(capo_hist_cov(&h), sqrt(sq / N - mean * mean) / mean, 1e-6);
                capo_hist_finish(&h);
        }
}

Test(stats, histograms_merge)
{
        struct capo_hist a = {0}, b = {0}, all = {0};

        for (unsigned i = 1; i < 1000; i++) {
                capo_hist_add(i % 3 ? &a : &b, (uint64_t)i * i * i, i);
                capo_hist_add(&all, (uint64_t)i * i * i, i);
        }
        capo_hist_merge(&a, &b);
        cr_assert(a.count == all.count && a.sum_ns == all.sum_ns && a.min_ns == all.min_ns &&
                  a.max_ns == all.max_ns);
        cr_assert_eq(capo_hist_quantile(&a, 0.7), capo_hist_quantile(&all, 0.7));
        capo_hist_finish(&a);
        capo_hist_finish(&b);
        capo_hist_finish(&all);
}

static const uint64_t sizes[] = {25 << 20, 4 << 20};

Test(stats, a_job_of_3_plus_5)
{
        struct gen_job g = {.dir = dir,
                            .layout = (unsigned[]){3, 5},
                            .n_nodes = 2,
                            .n_steps = 500,
                            .sizes = sizes,
                            .n_sizes = 2,
                            .trace = true,
                            .gpu = true,
                            .late_rank = 5,
                            .late_ns = 88000,
                            .clock_ns = 7654321,
                            .drift = 20e-6};
        double algbw, busbw;

        cr_assert_eq(gen_job_write(&g), 8000);
        struct capo_job *job = read_job();
        const struct capo_job_comm *c = &job->comms[0];

        cr_assert(job->n_processes == 8 && job->n_nodes == 2 && job->n_clocks == 2 &&
                  job->n_ranks == 8);
        cr_assert_eq(job->n_records, 8000);
        cr_assert_eq(job->calls, 8000);
        cr_assert_eq(job->n_comms, 1);
        cr_assert_str_eq(c->name, "dp");
        cr_assert_str_eq(c->layout, "3+5");
        cr_assert(c->n_members == 8 && c->n_ranks == 8 && c->n_calls == 1000);
        cr_assert_eq(job->n_rows, 2);
        cr_assert(job->rows[0].bytes == 4 << 20 && job->rows[1].bytes == 25 << 20);
        cr_assert(job->rows[0].count == 500 && job->rows[0].calls == 4000);
        cr_assert_eq(capo_job_row_clock(&job->rows[0]), CAPO_CLOCK_EVENT);
        cr_assert(capo_job_row_bandwidth(job, &job->rows[1], &algbw, &busbw));
        cr_assert_float_eq(busbw, algbw * 1.75, 1e-9);
        cr_assert_eq(job->n_sites, 1);
        cr_assert_eq(job->sites[0].count, 8000);

        cr_assert_not_null(c->skew);
        cr_assert_eq(c->skew->n_calls, 1000);
        cr_assert_eq(c->skew->from, CAPO_SKEW_GPU_DURATION);
        cr_assert_eq(c->members[c->skew->worst].rank, 5);
        cr_assert(c->skew->ranks[5].last > 700 && c->skew->ranks[5].last < 850, "%u",
                  c->skew->ranks[5].last);
        cr_assert(c->skew->aligned);
        cr_assert_float_eq(c->skew->worst_p50_ns, 88000, 2000);
        cr_assert_gt(c->skew->wait_share, 0);
        capo_job_free(job);
}

Test(stats, gpu_durations_need_no_clocks)
{
        struct gen_job g = {.dir = dir,
                            .layout = (unsigned[]){2, 2},
                            .n_nodes = 2,
                            .n_steps = 400,
                            .sizes = sizes,
                            .n_sizes = 1,
                            .trace = true,
                            .gpu = true,
                            .late_rank = 3,
                            .late_ns = 50000,
                            .clock_ns = 1ll << 40};

        gen_job_write(&g);
        struct capo_job *job = read_job();
        const struct capo_skew *s = job->comms[0].skew;

        cr_assert_eq(s->from, CAPO_SKEW_GPU_DURATION);
        cr_assert_eq(s->n_calls, 400);
        cr_assert_eq(job->comms[0].members[s->worst].rank, 3);
        cr_assert_float_eq(s->worst_p50_ns, 50000, 2000);
        cr_assert_lt(s->others_p50_ns, 1000);
        /* three of four ranks wait 50 us in three of four calls of 1 ms */
        cr_assert_float_eq(s->wait_share,
                           0.05 * 0.75 * 0.75 * 400 * 1e6 / (double)capo_job_duration_ns(job),
                           0.003);
        capo_job_free(job);
}

/* The recorder describes a communicator when it comes to it, which may be behind the calls on it.
 */
static void write_order(unsigned rank, const char *order)
{
        const struct capo_log_shape shape = {.id = 3,
                                             .bytes = 64,
                                             .comm = 5,
                                             .call = CAPO_CALL_ALLREDUCE,
                                             .clock = CAPO_CLOCK_HOST};
        const struct capo_log_comm comm = {
                .id = 5, .uid = 77, .rank = (int32_t)rank, .n_ranks = 2, .device = -1, .color = -1};
        uint32_t begin[20], took[20], seq[20];
        uint16_t shapes[20];
        struct gen_log g;
        char path[128];

        for (unsigned i = 0; i < 20; i++) {
                begin[i] = 1000000 * i + 500 * rank;
                took[i] = 100;
                seq[i] = i + 1;
                shapes[i] = 3;
        }
        snprintf(path, sizeof path, "%s/n.%u.capo", dir, rank);
        gen_log_open(&g, path, rank + 1);
        for (; *order; order++) {
                if (*order == 'S')
                        gen_log_shapes(&g, &shape, 1);
                else if (*order == 'C')
                        gen_log_comm(&g, comm, "dp");
                else
                        gen_log_block(&g, 0, 1, 20, begin, took, seq, shapes, NULL, NULL);
        }
        gen_log_close(&g);
}

Test(stats, calls_may_come_before_what_they_are_on)
{
        static const char *const orders[] = {"CSB", "SCB", "SBC", "SBCC", "SCBC"};

        for (size_t i = 0; i < N_ELEMENTS(orders); i++) {
                write_order(0, orders[i]);
                write_order(1, orders[N_ELEMENTS(orders) - 1 - i]);
                struct capo_job *job = read_job();

                cr_assert_not_null(job->comms[0].skew, "%s", orders[i]);
                cr_assert_eq(job->comms[0].skew->n_calls, 20, "%s: %u", orders[i],
                             job->comms[0].skew->n_calls);
                cr_assert_eq(job->comms[0].skew->ranks[1].last, 20);
                cr_assert_eq(job->comms[0].no_skew, CAPO_SKEW_COMPARED);
                cr_assert_eq(job->n_records, 40, "%s: each call is counted once", orders[i]);
                capo_job_free(job);
                drop_dir();
                mkdir(dir, 0700);
        }
}

Test(stats, why_nothing_is_compared)
{
        write_order(0, "CSB");
        struct capo_job *job = read_job();

        cr_assert_null(job->comms[0].skew);
        cr_assert_eq(job->comms[0].no_skew, CAPO_SKEW_ONE_LOG);
        capo_job_free(job);
        write_order(0, "CS");
        write_order(1, "CS");
        job = read_job();
        cr_assert_eq(job->comms[0].no_skew, CAPO_SKEW_NO_CALLS);
        capo_job_free(job);
        write_order(0, "CSB");
        job = read_job();
        cr_assert_null(job->comms[0].skew);
        cr_assert_eq(job->comms[0].no_skew, CAPO_SKEW_NO_COMMON);
        capo_job_free(job);
}

Test(stats, host_times_are_not_aligned)
{
        struct gen_job g = {.dir = dir,
                            .layout = (unsigned[]){2, 2},
                            .n_nodes = 2,
                            .n_steps = 50,
                            .sizes = sizes,
                            .n_sizes = 1,
                            .trace = true,
                            .late_rank = 3,
                            .late_ns = 50000};
        double algbw, busbw;

        gen_job_write(&g);
        struct capo_job *job = read_job();

        cr_assert_not(job->comms[0].skew->aligned);
        cr_assert_lt(job->comms[0].skew->wait_share, 0);
        cr_assert_eq(job->comms[0].skew->from, CAPO_SKEW_HOST_START);
        cr_assert_not(capo_job_row_bandwidth(job, &job->rows[0], &algbw, &busbw));
        capo_job_free(job);
}

Test(stats, a_killed_rank_counts_what_it_kept)
{
        struct gen_job g = {.dir = dir,
                            .layout = (unsigned[]){2},
                            .n_nodes = 1,
                            .n_steps = 1000,
                            .sizes = sizes,
                            .n_sizes = 2,
                            .trace = true,
                            .gpu = true,
                            .killed = true,
                            .stale = true};

        gen_job_write(&g);
        struct capo_job *job = read_job();

        cr_assert_eq(job->calls, 4000);
        cr_assert_eq(job->n_rows, 2);
        for (unsigned i = 0; i < 2; i++) {
                cr_assert_eq(job->rows[i].count, 1000);
                cr_assert_eq(job->rows[i].calls, 2000);
                cr_assert_eq(job->rows[i].time[CAPO_CLOCK_EVENT].count, 2000);
                cr_assert_eq(job->rows[i].time[CAPO_CLOCK_HOST].count, 2000);
        }
        capo_job_free(job);
}

Test(stats, missing_and_killed_ranks)
{
        struct gen_job g = {.dir = dir,
                            .layout = (unsigned[]){4, 4},
                            .n_nodes = 2,
                            .n_steps = 10,
                            .sizes = sizes,
                            .n_sizes = 2,
                            .missing = 3,
                            .killed = true};

        gen_job_write(&g);
        struct capo_job *job = read_job();

        cr_assert(job->n_ranks == 8 && job->n_processes == 5 && job->comms[0].n_members == 5);
        cr_assert_str_eq(job->comms[0].layout, "1+4");
        cr_assert(job->rows[0].count == 10 && job->rows[0].calls == 50);
        cr_assert_eq(job->processes[0].end.clean, 0);
        capo_job_free(job);
}

Test(stats, a_thousand_ranks, .timeout = 60)
{
        static unsigned layout[128];
        struct gen_job g = {.dir = dir,
                            .layout = layout,
                            .n_nodes = 128,
                            .n_steps = 150,
                            .sizes = sizes,
                            .n_sizes = 2,
                            .trace = true,
                            .gpu = true,
                            .late_rank = 500,
                            .late_ns = 300000,
                            .clock_ns = 1000000};

        for (unsigned i = 0; i < 128; i++)
                layout[i] = 8;
        gen_job_write(&g);
        struct capo_job *job = read_job();
        const struct capo_skew *s = job->comms[0].skew;

        cr_assert(job->n_ranks == 1024 && job->comms[0].n_members == 1024 && job->n_nodes == 128);
        cr_assert_str_eq(job->comms[0].layout, "128x8");
        cr_assert(job->rows[0].count == 150 && job->rows[0].calls == 150 * 1024);
        cr_assert_eq(job->comms[0].members[s->worst].rank, 500);
        cr_assert(s->n_calls >= 64 && s->aligned);
        capo_job_free(job);
}
