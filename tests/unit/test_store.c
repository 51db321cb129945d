/* SPDX-License-Identifier: Apache-2.0 */
/* The store: what goes in comes out, filters, whole imports or none, and files that are no store.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/calls.h"
#include "core/base/util.h"
#include "profiles/store/store.h"
#include "tests/log_numbers.h"

static char folder[] = "/tmp/capo-store-XXXXXX", path[64], why[512];
static struct capo_samples set, back;
static struct capo_store *store;

static void begin(void)
{
        cr_assert_not_null(mkdtemp(folder));
        snprintf(path, sizeof path, "%s/x.db", folder);
}

static void finish(void)
{
        char command[128];

        capo_store_close(store);
        capo_samples_free(&set);
        capo_samples_free(&back);
        snprintf(command, sizeof command, "rm -r %s", folder);
        cr_expect_eq(system(command), 0);
}

TestSuite(store, .init = begin, .fini = finish);

static char one[] = "one.log", two[] = "two.log";

/* Two runs, three samples, every field another number. */
static void make(void)
{
        struct capo_trial a = {.source = one,
                               .line = 3,
                               .layout = "3+5",
                               .gpu = "H100",
                               .nccl = 22907,
                               .n_ranks = 8,
                               .n_nodes = 2,
                               .iterations = 20,
                               .hosts = "a,b",
                               .driver = "CUDA 12.4",
                               .settings = "NCCL_BUFFSIZE=1",
                               .tuner = "ofi",
                               .why = "its header"};
        struct capo_trial b = {.source = two,
                               .n_ranks = 4,
                               .iterations = 1,
                               .why = "nobody knows",
                               .left_out = true};

        cr_assert_eq(capo_samples_run(&set, &a), 0);
        cr_assert_eq(capo_samples_run(&set, &b), 1);
        for (unsigned i = 0; i < 3; i++) {
                struct capo_sample s = {.bytes = 1024u << i,
                                        .us = 10.25 + i,
                                        .run = i == 2,
                                        .order = 7 + i,
                                        .call = i ? CAPO_CALL_ALLGATHER : CAPO_CALL_ALLREDUCE,
                                        .make = CAPO_MAKE_LOOP,
                                        .place = CAPO_PLACE_IN,
                                        .type = 7,
                                        .op = 255,
                                        .want = CAPO_ALGO_PROTO(CAPO_ALGO_RING, 0),
                                        .want_channels = 4,
                                        .want_chunk = i << 16,
                                        .ran = CAPO_ALGO_PROTO(CAPO_ALGO_RING, CAPO_PROTO_LL),
                                        .ran_channels = 2};

                capo_samples_add(&set, &s);
        }
}

static int64_t add(const char *cluster)
{
        const struct capo_store_about about = {cluster, "nvlink", "none", "580"};
        int64_t id = -1;

        if (!store)
                cr_assert_eq(capo_store_open(path, true, &store, why, sizeof why), 0, "%s", why);
        cr_assert_eq(capo_store_add(store, &set, &about, &id, why, sizeof why), 0, "%s", why);
        return id;
}

static size_t count(struct capo_store_filter filter)
{
        capo_samples_free(&back);
        cr_assert_eq(capo_store_read(store, &filter, &back, why, sizeof why), 0, "%s", why);
        return back.n;
}

Test(store, what_goes_in_comes_out)
{
        make();
        cr_expect_eq(add("x"), 1);
        cr_assert_eq(count((struct capo_store_filter){0}), 3);
        cr_assert_eq(back.n_runs, 2);
        for (size_t i = 0; i < 3; i++)
                cr_expect_eq(memcmp(&back.v[i], &set.v[i], sizeof set.v[i]), 0, "sample %zu", i);
        for (size_t i = 0; i < 2; i++) {
                const struct capo_trial *a = &set.runs[i], *b = &back.runs[i];

                cr_expect_str_eq(a->source, b->source);
                cr_expect_str_eq(a->layout, b->layout);
                cr_expect_str_eq(a->gpu, b->gpu);
                cr_expect_str_eq(a->hosts, b->hosts);
                cr_expect_str_eq(a->settings, b->settings);
                cr_expect_str_eq(a->tuner, b->tuner);
                cr_expect_str_eq(a->why, b->why);
                cr_expect_str_eq(b->driver, "580", "what was told goes before what was recorded");
                cr_expect(a->line == b->line && a->nccl == b->nccl && a->n_ranks == b->n_ranks &&
                          a->n_nodes == b->n_nodes && a->iterations == b->iterations &&
                          a->left_out == b->left_out);
        }
}

Test(store, a_filter_is_all_it_says)
{
        make();
        add("alps");
        cr_expect_eq(add("andes"), 2);
        cr_expect_eq(count((struct capo_store_filter){0}), 6);
        cr_expect_eq(count((struct capo_store_filter){.import = 2}), 3);
        cr_expect_eq(count((struct capo_store_filter){.cluster = "al%"}), 3);
        cr_expect_eq(count((struct capo_store_filter){.gpu = "H1__"}), 4);
        cr_expect_eq(count((struct capo_store_filter){.gpu = "H200"}), 0);
        cr_expect_eq(
                count((struct capo_store_filter){.layout = "3+5", .call = CAPO_CALL_ALLREDUCE}), 2);
        cr_expect_eq(count((struct capo_store_filter){.layout = "3+%"}), 0, "exactly");
        cr_expect_eq(count((struct capo_store_filter){.n_ranks = 4}), 2);
        cr_expect_eq(count((struct capo_store_filter){.nccl = 22907, .import = 1}), 2);
}

static void each(const struct capo_store_import *m, void *user)
{
        int64_t *n = user;

        n[m->id] += m->n_samples + 100 * m->n_trials;
        cr_expect_str_eq(m->link, "nvlink");
        cr_expect_str_eq(m->source, "one.log");
}

Test(store, list_and_remove)
{
        int64_t n[4] = {0};

        make();
        add("x");
        add("y");
        cr_assert_eq(capo_store_remove(store, 1, why, sizeof why), 0, "%s", why);
        cr_expect_eq(capo_store_remove(store, 1, why, sizeof why), -ENOENT);
        cr_assert_eq(capo_store_list(store, each, n, why, sizeof why), 0, "%s", why);
        cr_expect(n[1] == 0 && n[2] == 203, "%d %d", (int)n[1], (int)n[2]);
        cr_expect_eq(count((struct capo_store_filter){0}), 3);
        cr_expect_eq(add("z"), 3, "a number is not given twice");
}

Test(store, a_query_only_reads)
{
        char *text = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);

        make();
        add("x");
        cr_expect_eq(capo_store_query(store, "select bytes, us from samples order by 1", f, why,
                                      sizeof why),
                     0, "%s", why);
        cr_expect_eq(capo_store_query(store, "delete from sample", f, why, sizeof why), -EINVAL);
        cr_expect_eq(capo_store_query(store, "select nothing", f, why, sizeof why), -EINVAL);
        fclose(f);
        cr_expect_str_eq(text, "bytes,us\n1024,10.25\n2048,11.25\n4096,12.25\n");
        cr_expect_eq(count((struct capo_store_filter){0}), 3);
        free(text);
}

Test(store, what_is_no_store)
{
        FILE *f;

        cr_expect_eq(capo_store_open(path, false, &store, why, sizeof why), -ENOENT);
        f = fopen(path, "w");
        for (int i = 0; i < 100; i++)
                fputs("a text that is long enough to be looked at\n", f);
        fclose(f);
        for (int write = 0; write < 2; write++)
                cr_expect_eq(capo_store_open(path, write, &store, why, sizeof why), -EBADMSG, "%s",
                             why);
}

/* As capo fit reads a store, import by import: each looks at its own trials only. Processor time,
 * and a wide margin. */
Test(store, many_imports_take_time_in_proportion)
{
        enum { IMPORTS = 400, TRIALS = 250 };
        struct capo_store_filter f = {0};
        struct capo_samples all = {0};
        clock_t at[3];
        int64_t id;

        for (unsigned i = 0; i < TRIALS; i++) {
                struct capo_trial t = {.source = one, .line = i, .n_ranks = 8, .iterations = 1};
                struct capo_sample s = {
                        .bytes = 1024, .us = 5, .run = i, .call = CAPO_CALL_ALLREDUCE};

                cr_assert_eq(capo_samples_run(&set, &t), i);
                capo_samples_add(&set, &s);
        }
        cr_assert_eq(capo_store_open(path, true, &store, why, sizeof why), 0, "%s", why);
        for (int i = 0; i < IMPORTS; i++)
                cr_assert_eq(capo_store_add(store, &set, &(struct capo_store_about){"", "", "", ""},
                                            &id, why, sizeof why),
                             0, "%s", why);
        at[0] = clock();
        cr_expect_eq(capo_store_read(store, &f, &all, why, sizeof why), 0, "%s", why);
        at[1] = clock();
        for (f.import = 1; f.import <= IMPORTS; f.import++)
                cr_expect_eq(capo_store_read(store, &f, &back, why, sizeof why), 0, "%s", why);
        at[2] = clock();
        cr_expect_eq(all.n, (size_t)IMPORTS * TRIALS);
        cr_expect_eq(back.n, all.n);
        cr_expect_lt(at[2] - at[1], 10 * (at[1] - at[0]) + CLOCKS_PER_SEC / 5,
                     "%ld us at once, %ld one by one", (long)(at[1] - at[0]),
                     (long)(at[2] - at[1]));
        capo_samples_free(&all);
}
