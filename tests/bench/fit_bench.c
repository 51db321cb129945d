/* SPDX-License-Identifier: Apache-2.0 */
/* Fit of a million samples, how many the store takes in a second, and questions to a store of two
 * million. Medians of five. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "profiles/fit/fit.h"
#include "analysis/job/spread.h"
#include "profiles/store/store.h"
#include "tests/log_numbers.h"

enum { SAMPLES = 1000000, TIMES = 5 };

static double now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static char source[] = "bench";

static void fill(struct capo_samples *set)
{
        uint64_t state = 1;

        for (unsigned r = 0; r < 4; r++) {
                struct capo_trial t = {.source = source,
                                       .n_ranks = 8,
                                       .n_nodes = 1,
                                       .nccl = 22907,
                                       .iterations = 1,
                                       .layout = "8"};

                capo_samples_run(set, &t);
        }
        for (unsigned i = 0; i < SAMPLES; i++) {
                struct capo_sample s = {.bytes = 1024ull << (i % 20),
                                        .run = i % 4,
                                        .order = i,
                                        .call = CAPO_CALL_ALLREDUCE,
                                        .make = CAPO_MAKE_EVENT,
                                        .type = 7,
                                        .op = 0};
                unsigned c = i / 80 % 8;

                state = state * 6364136223846793005u + 1442695040888963407u;
                if (c)
                        s.want = CAPO_ALGO_PROTO(1 + c / 4, 1 + c % 3);
                s.us = (10 + (double)s.bytes / 2e4) * (1 + 0.02 * c) *
                       (0.95 + 0.1 * (double)(state >> 40) / (1 << 24));
                capo_samples_add(set, &s);
        }
}

/* Through the view `samples`, as people ask: by place, of one algorithm, by size, by size and what
 * was forced or ran, by all of these; and by what no index has. */
static const char *const questions[] = {
        "select gpu, nccl, count(*) from samples group by 1, 2",
        "select count(*), avg(us) from samples where forced_algo = 'Ring'",
        "select bytes, avg(us) from samples where collective = 'AllReduce' group by 1",
        "select bytes, forced_algo, forced_proto, avg(us), min(us) from samples group by 1, 2, 3",
        "select collective, bytes, algo, proto, avg(us), count(*) from samples group by 1, 2, 3, 4",
        "select import, count(*), max(us) from samples group by 1",
};

static int ask_store(const struct capo_samples *set)
{
        static const struct capo_store_about about = {"", "", "", ""};
        char path[] = "/tmp/capo-bench-XXXXXX", why[512], beside[64];
        struct capo_store *store = NULL;
        FILE *null = fopen("/dev/null", "we");
        double took[TIMES];
        int64_t id;
        int r;

        close(mkstemp(path));
        unlink(path);
        r = null ? capo_store_open(path, true, &store, why, sizeof why) : -1;
        for (int i = 0; r >= 0 && i < 2; i++)
                r = capo_store_add(store, set, &about, &id, why, sizeof why);
        for (size_t q = 0; r >= 0 && q < sizeof questions / sizeof *questions; q++) {
                for (int i = 0; r >= 0 && i < TIMES; i++) {
                        double t = now();

                        r = capo_store_query(store, questions[q], null, why, sizeof why);
                        took[i] = now() - t;
                }
                if (r >= 0)
                        printf("store of 2,000,000: %.2f s   %s\n", capo_median(took, TIMES),
                               questions[q]);
        }
        if (r < 0)
                fprintf(stderr, "%s\n", null ? why : "/dev/null cannot be opened");
        capo_store_close(store);
        if (null)
                fclose(null);
        for (int k = 0; k < 3; k++) {
                static const char *const ends[] = {"", "-wal", "-shm"};

                snprintf(beside, sizeof beside, "%s%s", path, ends[k]);
                unlink(beside);
        }
        return r;
}

int main(void)
{
        static const struct capo_store_about about = {"", "", "", ""};
        struct capo_samples set = {0};
        struct capo_fit_options o = {.min_gain = 0.01};
        double fit_s[TIMES], store_s[TIMES], read_s[TIMES];

        fill(&set);
        for (int i = 0; i < TIMES; i++) {
                struct capo_fit *fit = NULL;
                struct capo_fault fault;
                struct capo_store *store = NULL;
                struct capo_samples back = {0};
                char path[] = "/tmp/capo-bench-XXXXXX", why[512], beside[64];
                int64_t id;
                double t = now();

                if (capo_fit_make(&set, &o, &fit, &fault) < 0) {
                        fprintf(stderr, "%s\n", fault.text);
                        return 1;
                }
                fit_s[i] = now() - t;
                capo_fit_free(fit);
                close(mkstemp(path));
                unlink(path);
                t = now();
                if (capo_store_open(path, true, &store, why, sizeof why) < 0 ||
                    capo_store_add(store, &set, &about, &id, why, sizeof why) < 0) {
                        fprintf(stderr, "%s\n", why);
                        return 1;
                }
                store_s[i] = now() - t;
                t = now();
                if (capo_store_read(store, &(struct capo_store_filter){0}, &back, why, sizeof why) <
                            0 ||
                    back.n != SAMPLES) {
                        fprintf(stderr, "%s\n", why);
                        return 1;
                }
                read_s[i] = now() - t;
                capo_store_close(store);
                capo_samples_free(&back);
                for (int k = 0; k < 3; k++) {
                        snprintf(beside, sizeof beside, "%s%s", path,
                                 k == 0   ? ""
                                 : k == 1 ? "-wal"
                                          : "-shm");
                        unlink(beside);
                }
        }
        printf("fit of 1,000,000 samples, with leave-one-out   %.2f s   (goal 2 s)\n",
               capo_median(fit_s, TIMES));
        printf("store: samples in per second                   %.0f   (goal 200,000)\n",
               SAMPLES / capo_median(store_s, TIMES));
        printf("store: samples out per second                  %.0f\n",
               SAMPLES / capo_median(read_s, TIMES));
        if (ask_store(&set) < 0)
                return 1;
        capo_samples_free(&set);
        return 0;
}
