/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layouts told by the cost table. The machine is a model of what real NCCL shows on one with a NIC
 * per GPU: the table is that of the poorest node, later nodes count a little, and a lost NIC is a
 * smaller node to the last digit.
 */
#include <math.h>
#include <string.h>
#include <criterion/criterion.h>

#include "core/profile/seen.h"
#include "core/base/util.h"

TestSuite(seen, .timeout = 120);

/* us and GB/s of a layout of @sizes, by rising size; @lost NICs on the smallest node. */
static void cost(const int *sizes, int n, int lost, int coll, double *us, double *gbs)
{
        int poorest = sizes[0] - lost > 1 ? sizes[0] - lost : 1;
        /* as three nodes of HGX H100: 3+5+8 is 4+5+7, 3+6+7 is 4+6+6, but not each other */
        int bonus = n > 2 ? (sizes[1] - sizes[0]) % 3 : 0;

        *us = 40 + 8.5 * n + 3 * coll;
        *gbs = 24.0 * poorest / (1 + 0.5 * coll) + 5 * bonus;
}

static void list_add(struct capo_profile *p, const int *sizes, int n, int lost)
{
        struct capo_layout_cost c = {.nccl = CAPO_ANY};
        struct capo_layout l = {0};
        char text[CAPO_LAYOUT_TEXT];

        for (int i = 0; i < n; i++)
                capo_layout_add(&l, (uint32_t)sizes[i], 1);
        c.layout = capo_layout_print(&l, text, sizeof text);
        for (int k = 0; k < CAPO_COLLS; k++)
                cost(sizes, n, lost, k, &c.us[k], &c.gbs[k]);
        cr_assert_eq(capo_profile_layout(p, &c), 0);
}

/* Every way to put @ranks on @n nodes of 8, by rising size. Return: how many; sizes in @all. */
static int all_layouts(int ranks, int n, int (*all)[6], int *now, int at, int found)
{
        for (int s = at ? now[at - 1] : 1; s <= 8 && s * (n - at) <= ranks; s++) {
                now[at] = s;
                if (at + 1 < n)
                        found = all_layouts(ranks - s, n, all, now, at + 1, found);
                else if (s == ranks)
                        memcpy(all[found++], now, sizeof *all);
        }
        return found;
}

static struct capo_profile *profile_for(int (*all)[6], int n_all, int n, bool lost_too)
{
        struct capo_profile *p = capo_profile_new("list");

        capo_profile_rule(p, CAPO_BASIS_MEASURED)->when.min_local = (struct capo_range){1, 8};
        for (int i = 0; i < n_all; i++) {
                list_add(p, all[i], n, 0);
                if (lost_too)
                        list_add(p, all[i], n, 1);
        }
        return p;
}

/*
 * All layouts of up to 6 nodes of 8, each collective, several sizes and pipelines, with and without
 * NCCL's smallest and largest node, with a NIC lost: what the table settles is the truth or
 * nothing.
 */
Test(seen, is_never_a_wrong_layout)
{
        static const uint64_t sizes[] = {1 << 10, 256 << 10, 64 << 20, 8ull << 30};
        static int all[512][6];
        long settled = 0, open = 0;

        for (int n = 2; n <= 6; n++) {
                for (int ranks = n; ranks <= 8 * n; ranks++) {
                        int now[6], n_all = all_layouts(ranks, n, all, now, 0, 0);
                        struct capo_profile *p = profile_for(all, n_all, n, true);

                        for (int i = 0; i < 2 * n_all; i++) {
                                const int *truth = all[i / 2];
                                bool told = i % 3 == 0;
                                struct capo_shape shape = {.n_ranks = ranks,
                                                           .n_nodes = n,
                                                           .min_local = told ? truth[0] : -1,
                                                           .max_local = told ? truth[n - 1] : -1};
                                struct capo_layout_why why = {0};
                                struct capo_layout layout = {0};
                                char text[CAPO_LAYOUT_TEXT];
                                struct capo_seen *seen;

                                for (int k = 0; k < n; k++)
                                        capo_layout_add(&layout, (uint32_t)truth[k], 1);
                                capo_layout_print(&layout, text, sizeof text);
                                cr_assert_eq(capo_seen_new(p, &shape, &why, NULL, &seen), 0);
                                cr_assert_not_null(seen);
                                for (int q = 0; q < 4 * CAPO_COLLS; q++) {
                                        int coll = q % CAPO_COLLS, pipe = 1 + q % 3, at;
                                        uint64_t bytes = sizes[q / CAPO_COLLS];
                                        double us, gbs;

                                        cost(truth, n, i % 2, coll, &us, &gbs);
                                        us = us * pipe + (double)bytes / gbs / 1e3;
                                        at = capo_seen_find(seen, (unsigned)coll, bytes, pipe,
                                                            (double)(float)us);
                                        cr_assert(at != CAPO_SEEN_UNASKED ||
                                                  bytes < 4096u * (unsigned)ranks);
                                        if (at >= 0) {
                                                cr_assert_str_eq(seen->layout[at], text);
                                                settled++;
                                        } else {
                                                open++;
                                        }
                                }
                                capo_seen_free(seen);
                        }
                        capo_profile_free(p);
                }
        }
        cr_assert_gt(settled, 10000);
        cr_assert_gt(open, 10000);
}

/* A launcher's layout stands while the table agrees; any other is dropped, and none put in its
 * place. */
Test(seen, contradicts_a_launcher_and_no_more)
{
        static int all[16][6];
        int now[6], n = all_layouts(8, 2, all, now, 0, 0);
        struct capo_profile *p = profile_for(all, n, 2, false);
        const struct capo_shape told = {
                .n_ranks = 8, .n_nodes = 2, .min_local = -1, .max_local = -1};

        cr_assert_eq(n, 4);
        for (int truth = 0; truth < 4; truth++) {
                for (int says = -1; says < 4; says++) {
                        struct capo_question q = {
                                .coll = CAPO_COLL_ALLREDUCE, .bytes = 64 << 20, .pipe_ops = 1};
                        char launcher[16] = "", expected[16], text[CAPO_LAYOUT_TEXT];
                        struct capo_shape shape = told;
                        struct capo_layout_why why;
                        double us, gbs;

                        if (says >= 0)
                                snprintf(launcher, sizeof launcher, "%d+%d", all[says][0],
                                         all[says][1]);
                        snprintf(expected, sizeof expected, "%d+%d", all[truth][0], all[truth][1]);
                        cost(all[truth], 2, 0, q.coll, &us, &gbs);
                        us += (double)q.bytes / gbs / 1e3;
                        capo_seen_settle(p, &shape, launcher, text, sizeof text, &q, us, &why);
                        if (says >= 0 && says != truth) {
                                cr_assert_null(shape.layout, "%s", why.text);
                                cr_assert(why.dropped && why.source == CAPO_LAYOUT_UNKNOWN);
                                cr_assert_eq(shape.min_local, -1);
                        } else {
                                cr_assert_str_eq(shape.layout, expected, "%s", why.text);
                                cr_assert_eq(why.source,
                                             says < 0 ? CAPO_LAYOUT_TABLE : CAPO_LAYOUT_LAUNCHER);
                                cr_assert_eq(shape.min_local, all[truth][0]);
                        }
                        /* too small, or no such cell: the launcher alone */
                        shape = told;
                        q.bytes = 4096;
                        capo_seen_settle(p, &shape, launcher, text, sizeof text, &q, us, &why);
                        cr_assert_eq(shape.layout != NULL, says >= 0);
                        shape = told;
                        q.bytes = 64 << 20;
                        capo_seen_settle(p, &shape, launcher, text, sizeof text, &q, -1, &why);
                        cr_assert_eq(shape.layout != NULL, says >= 0);
                        /* NCCL's own numbers go before both */
                        shape = told;
                        shape.min_local = all[truth][0];
                        shape.max_local = all[truth][1];
                        capo_seen_settle(p, &shape, launcher, text, sizeof text, &q, 1, &why);
                        cr_assert_str_eq(shape.layout, expected);
                        cr_assert_eq(why.source, CAPO_LAYOUT_NCCL);
                        cr_assert_eq(why.dropped, says >= 0 && says != truth);
                        /* a table like none of the list */
                        shape = told;
                        capo_seen_settle(p, &shape, launcher, text, sizeof text, &q, us * 1.01,
                                         &why);
                        cr_assert_null(shape.layout);
                }
        }
        capo_profile_free(p);
}

/* A list from which a layout was cut: said, with its name. */
Test(seen, gaps_are_found)
{
        static int all[512][6];

        for (int n = 2; n <= 5; n++) {
                for (int ranks = n; ranks <= 8 * n; ranks += 3) {
                        int now[6], n_all = all_layouts(ranks, n, all, now, 0, 0);
                        struct capo_profile *p = profile_for(all, n_all, n, true);
                        char text[CAPO_LAYOUT_TEXT], cut[CAPO_LAYOUT_TEXT];

                        cr_assert_not(capo_seen_gap(p, 0, text, sizeof text), "%d on %d: %s", ranks,
                                      n, text);
                        snprintf(cut, sizeof cut, "%s", p->layouts[p->n_layouts - 1].layout);
                        p->n_layouts -= 2; /* the most even one: both of its entries */
                        if (p->n_layouts)
                                cr_assert(capo_seen_gap(p, 0, text, sizeof text) &&
                                                  !strcmp(text, cut),
                                          "%d on %d: %s", ranks, n, cut);
                        if (p->n_layouts > 1)
                                cr_assert_not(capo_seen_gap(p, 1, text, sizeof text),
                                              "a list is looked at once");
                        capo_profile_free(p);
                }
        }
}

/* However many nodes: one step is all of a size. */
Test(seen, gaps_of_many_nodes)
{
        static const struct {
                const char *layout, *lacks;
        } rows[] = {{"16777216x1", ""},
                    {"2+1000000x1", ""},
                    {"2x2+500000x1", ""},
                    {"3+500000x1", "499999x1+2+2"}};

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_profile *p = capo_profile_new("many");
                struct capo_layout_cost cost = {
                        .layout = rows[i].layout, .nccl = CAPO_ANY, .us = {1}, .gbs = {1}};
                char text[CAPO_LAYOUT_TEXT] = "";

                cr_assert_eq(capo_profile_layout(p, &cost), 0);
                cr_expect_eq(capo_seen_gap(p, 0, text, sizeof text), *rows[i].lacks != 0, "%s: %s",
                             rows[i].layout, text);
                if (*rows[i].lacks)
                        cr_expect_str_eq(text, rows[i].lacks);
                capo_profile_free(p);
        }
}

/* The table is asked only where the answer could matter and the list is whole. */
Test(seen, is_not_asked_for_nothing)
{
        static int all[16][6];
        int now[6], n = all_layouts(8, 2, all, now, 0, 0);
        struct capo_profile *p = profile_for(all, n, 2, false);
        const struct capo_shape told = {
                .n_ranks = 8, .n_nodes = 2, .min_local = -1, .max_local = -1, .nccl = 22707};
        struct capo_layout_why unknown = {0}, nccl = {.source = CAPO_LAYOUT_NCCL},
                               launcher = {.source = CAPO_LAYOUT_LAUNCHER};
        struct capo_shape other = told;
        struct capo_seen *seen;

#define ASKED(shape, why, claim)                                                   \
        ({                                                                         \
                cr_assert_eq(capo_seen_new(p, (shape), (why), (claim), &seen), 0); \
                bool asked_ = seen != NULL;                                        \
                capo_seen_free(seen);                                              \
                asked_;                                                            \
        })
        cr_expect(ASKED(&told, &unknown, NULL));
        cr_expect(ASKED(&told, &launcher, "3+5"));
        cr_expect_not(ASKED(&told, &nccl, "3+5"));
        cr_expect_not(ASKED(&told, &launcher, "3+6"), "a list without it is not whole");
        other.n_ranks = 9;
        cr_expect_not(ASKED(&other, &unknown, NULL), "no list");
        p->layouts[2].nccl = (struct capo_range){22800, 22899};
        cr_expect(ASKED(&told, &unknown, NULL));
        for (int i = 0; i < n; i++)
                p->layouts[i].nccl = (struct capo_range){22800, 22899};
        cr_expect_not(ASKED(&told, &unknown, NULL), "another release");
        for (int i = 0; i < n; i++)
                p->layouts[i].nccl = (struct capo_range){22707, 22707};
        cr_expect(ASKED(&told, &unknown, NULL), "this very one");
        other = told;
        other.nccl = 0;
        cr_expect_not(ASKED(&other, &unknown, NULL), "release not known");
        for (int i = 0; i < n; i++)
                p->layouts[i].nccl = CAPO_ANY;
        p->rules[0].when.nodes = (struct capo_range){3, 3};
        cr_expect_not(ASKED(&told, &unknown, NULL), "the rule cannot hold");
        p->rules[0].when = (struct capo_when){.nodes = CAPO_ANY,
                                              .ranks = CAPO_ANY,
                                              .min_local = CAPO_ANY,
                                              .max_local = CAPO_ANY,
                                              .nccl = CAPO_ANY,
                                              .pipe_ops = CAPO_ANY,
                                              .ring_gbs = CAPO_ANY,
                                              .tree_gbs = CAPO_ANY,
                                              .reg_buff = -1};
        cr_expect_not(ASKED(&told, &unknown, NULL), "no rule looks at the layout");
        p->rules[0].when.layout = "uneven";
        p->layouts[1].gbs[CAPO_COLL_REDUCE] = 0;
        cr_assert_eq(capo_seen_new(p, &told, &unknown, NULL, &seen), 0);
        cr_expect_eq(capo_seen_find(seen, CAPO_COLL_REDUCE, 1 << 30, 1, 1), CAPO_SEEN_UNASKED,
                     "a gap in the list");
        capo_seen_free(seen);
        capo_profile_free(p);
}

/* NCCL makes fp8 rings 1024 times as dear over more than 8 ranks; all-reduce alone, and the
 * tolerance as everywhere. */
Test(seen, fp8_is_asked_again)
{
        for (int n_ranks = 8; n_ranks <= 9; n_ranks++) {
                static int all[16][6];
                int now[6], n = all_layouts(n_ranks, 2, all, now, 0, 0);
                struct capo_profile *p = profile_for(all, n, 2, false);
                const struct capo_shape told = {
                        .n_ranks = n_ranks, .n_nodes = 2, .min_local = -1, .max_local = -1};
                struct capo_layout_why unknown = {0};
                struct capo_seen *seen;

                cr_assert_eq(capo_seen_new(p, &told, &unknown, NULL, &seen), 0);
                for (int coll = 0; coll < CAPO_COLLS; coll++) {
                        double us, gbs;

                        cost(all[1], 2, 0, coll, &us, &gbs);
                        us += (64 << 20) / gbs / 1e3;
                        cr_expect_eq(capo_seen_find(seen, (unsigned)coll, 64 << 20, 1, us), 1);
                        for (int more = -1; more <= 1;
                             more++) /* 0.15 ppt beside it is within 0.2 */
                                cr_expect_eq(capo_seen_find(seen, (unsigned)coll, 64 << 20, 1,
                                                            us * 1024 * (1 + 1.5e-4 * more)),
                                             n_ranks > 8 && coll == CAPO_COLL_ALLREDUCE ? 1 : -1);
                }
                capo_seen_free(seen);
                capo_profile_free(p);
        }
}

/* A list of two layouts, the first of them with a cost more: found by either, and said in words. */
Test(seen, two_costs_of_one_layout)
{
        struct capo_profile *p = capo_profile_new("list");
        struct capo_shape told = {.n_ranks = 8,
                                  .n_nodes = 2,
                                  .min_local = -1,
                                  .max_local = -1,
                                  .nccl = 22707},
                          shape;
        struct capo_question q = {
                .coll = CAPO_COLL_ALLREDUCE, .bytes = 1u << 30, .pipe_ops = 1, .reg_buff = -1};
        struct capo_layout_why unknown = {0}, why;
        struct capo_seen *seen;
        char text[CAPO_LAYOUT_TEXT];

        capo_profile_rule(p, CAPO_BASIS_MEASURED)->when.min_local = (struct capo_range){1, 8};
        list_add(p, (const int[]){3, 5}, 2, 0);
        list_add(p, (const int[]){3, 5}, 2, 0);
        list_add(p, (const int[]){4, 4}, 2, 0);
        cr_assert_eq(capo_seen_new(p, &told, &unknown, NULL, &seen), 0);
        cr_assert_not_null(seen);
        for (int i = 0; i < 2; i++) {
                const int sizes[2][2] = {{3, 5}, {4, 4}};
                double us, gbs, cost_us;

                cost(sizes[i], 2, 0, CAPO_COLL_ALLREDUCE, &us, &gbs);
                cost_us = us + (1u << 30) * 1e-3 / gbs;
                cr_expect_eq(capo_seen_find(seen, q.coll, q.bytes, 1, cost_us), i);
                shape = told;
                capo_seen_settle(p, &shape, NULL, text, sizeof text, &q, cost_us, &why);
                cr_expect_str_eq(why.text,
                                 "NCCL's cost table fits this layout alone of the profile's list");
                cr_expect_eq(why.source, CAPO_LAYOUT_TABLE);
                cr_expect_str_eq(shape.layout, i ? "4+4" : "3+5");
        }
        cr_expect_eq(capo_seen_find(seen, q.coll, q.bytes, 1, 0.5), -1, "asked, and nobody's");
        cr_expect_eq(capo_seen_find(seen, q.coll, q.bytes, 1, 0), CAPO_SEEN_UNASKED);
        capo_seen_free(seen);
        list_add(p, (const int[]){8}, 1, 0);
        told.n_nodes = 1;
        cr_assert_eq(capo_seen_new(p, &told, &unknown, NULL, &seen), 0);
        cr_expect_null(seen, "one node has one layout");
        capo_profile_free(p);
}

/* Over more than eight ranks, too, the first layout of a list is one. */
Test(seen, the_first_of_a_list_of_sixteen_ranks)
{
        struct capo_profile *p = capo_profile_new("list");
        const struct capo_shape told = {
                .n_ranks = 16, .n_nodes = 3, .min_local = -1, .max_local = -1, .nccl = 22707};
        struct capo_layout_why unknown = {0};
        struct capo_seen *seen;
        double us, gbs;

        capo_profile_rule(p, CAPO_BASIS_MEASURED)->when.min_local = (struct capo_range){1, 8};
        list_add(p, (const int[]){4, 4, 8}, 3, 0);
        list_add(p, (const int[]){5, 5, 6}, 3, 0);
        cost((const int[]){4, 4, 8}, 3, 0, CAPO_COLL_ALLREDUCE, &us, &gbs);
        cr_assert_eq(capo_seen_new(p, &told, &unknown, NULL, &seen), 0);
        cr_assert_not_null(seen);
        cr_expect_eq(capo_seen_find(seen, CAPO_COLL_ALLREDUCE, 1u << 30, 1,
                                    us + (1u << 30) * 1e-3 / gbs),
                     0);
        capo_seen_free(seen);
        capo_profile_free(p);
}
