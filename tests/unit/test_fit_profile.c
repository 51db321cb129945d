/* SPDX-License-Identifier: Apache-2.0 */
/* A fit as a profile: which allocation a rule names, which rows it has, and with what evidence. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "capo/profile.h"
#include "core/base/calls.h"
#include "profiles/fit/fit.h"
#include "tests/log_numbers.h"

enum { RING_LL = CAPO_ALGO_PROTO(CAPO_ALGO_RING, CAPO_PROTO_LL) };

static struct capo_fit_candidate candidates[] = {{0}, {CAPO_ALGO_RING, CAPO_PROTO_LL, 4, 3}};
static struct capo_fit_cell cells[] = {
        {.us = 100, .se = 0.01, .n_samples = 6, .n_blocks = 2},
        {.us = 80, .se = 0.01, .n_samples = 8, .n_blocks = 4},
        {.us = 200, .se = 0.01, .n_samples = 6, .n_blocks = 2},
        {.us = 150, .se = 0.02, .n_samples = 9, .n_blocks = 4},
};
static struct capo_fit_point points[] = {{.bytes = 1024, .chosen = 1, .gain = 0.2},
                                         {.bytes = 2048, .chosen = 1, .gain = 0.25}};
static struct capo_fit_row rows[] = {{.upto = 1023, .chosen = 0, .first = 0, .last = -1},
                                     {.upto = 2048, .chosen = 1, .first = 0, .last = 1},
                                     {.upto = UINT64_MAX, .chosen = 0, .first = 0, .last = -1}};

static struct capo_fit_series series(uint32_t nccl, int ranks, int nodes, const char *layout,
                                     unsigned call, int n_rows)
{
        struct capo_fit_series s = {.like = {.n_ranks = ranks, .n_nodes = nodes, .nccl = nccl},
                                    .call = (uint8_t)call,
                                    .has_default = true,
                                    .candidates = candidates,
                                    .n_candidates = 2,
                                    .points = points,
                                    .n_points = 2,
                                    .cells = cells,
                                    .rows = n_rows == 3 ? rows : rows + 2,
                                    .n_rows = n_rows};

        strcpy(s.like.layout, layout);
        return s;
}

static struct capo_profile *write_rules(struct capo_fit_series *s, int n, int n_rules, int n_rows)
{
        struct capo_fit fit = {.series = s, .n_series = n};
        struct capo_profile *p = capo_profile_new("x");
        int written = 0;

        capo_fit_profile(&fit, p);
        for (uint32_t i = 0; i < p->n_rows; i++)
                written += p->rows[i].algo > 0;
        cr_expect_eq(written, n_rows, "%d rows", written);
        cr_assert_eq(p->n_rules, (size_t)n_rules, "%u rules", p->n_rules);
        return p;
}

Test(fit_profile, a_rule_names_where_it_was_measured)
{
        struct capo_fit_series s[] = {series(22902, 8, 2, "3+5", CAPO_CALL_ALLREDUCE, 3),
                                      series(22902, 8, 2, "3+5", CAPO_CALL_ALLGATHER, 3),
                                      series(0, 4, 1, "4", CAPO_CALL_ALLREDUCE, 3),
                                      series(0, 2, 0, "", CAPO_CALL_ALLREDUCE, 3)};
        struct capo_profile *p = write_rules(s, 4, 3, 4);
        const struct capo_rule *r = p->rules;

        cr_expect(r[0].when.ranks.min == 8 && r[0].when.ranks.max == 8 && r[0].when.nodes.min == 2);
        cr_expect_str_eq(r[0].when.layout, "3+5");
        cr_expect(r[0].when.nccl.min == 22900 && r[0].when.nccl.max == 22999,
                  "to the minor release");
        cr_expect(r[0].count[CAPO_COLL_ALLREDUCE] == 3 && r[0].count[CAPO_COLL_ALLGATHER] == 3);
        cr_expect(r[1].when.nodes.max == 1 && !r[1].when.layout, "one node has one layout");
        cr_expect(r[2].when.ranks.max == 2 && r[2].when.nodes.max != 2,
                  "nodes that nobody said are not named");
        capo_profile_free(p);
}

Test(fit_profile, nothing_to_gain_makes_no_rule)
{
        struct capo_fit_series s[] = {series(22902, 8, 1, "8", CAPO_CALL_ALLREDUCE, 1)};

        capo_profile_free(write_rules(s, 1, 0, 0));
}

Test(fit_profile, two_patch_releases_of_one_minor_are_distinguished)
{
        struct capo_fit_series s[] = {series(22902, 8, 1, "8", CAPO_CALL_ALLREDUCE, 3),
                                      series(22907, 8, 1, "8", CAPO_CALL_ALLREDUCE, 3),
                                      series(23001, 8, 1, "8", CAPO_CALL_ALLREDUCE, 3)};
        struct capo_profile *p = write_rules(s, 3, 3, 3);

        cr_expect(p->rules[0].when.nccl.min == 22902 && p->rules[0].when.nccl.max == 22902);
        cr_expect(p->rules[1].when.nccl.min == 22907 && p->rules[1].when.nccl.max == 22907);
        cr_expect(p->rules[2].when.nccl.min == 23000 && p->rules[2].when.nccl.max == 23099);
        capo_profile_free(p);
}

Test(fit_profile, a_row_has_its_choice_and_its_evidence)
{
        struct capo_fit_series s[] = {series(22902, 8, 1, "8", CAPO_CALL_ALLREDUCE, 3)};
        struct capo_profile *p = write_rules(s, 1, 1, 1);
        const struct capo_row *row = &p->rows[p->rules[0].first[CAPO_COLL_ALLREDUCE]];

        cr_assert_eq(p->rules[0].count[CAPO_COLL_ALLREDUCE], 3);
        cr_expect(row[0].upto == 1023 && !row[0].algo && !row[0].proto && isnan(row[0].us),
                  "left to NCCL");
        cr_expect(row[1].upto == 2048 && row[1].coll == CAPO_COLL_ALLREDUCE);
        cr_expect_eq(CAPO_ALGO_PROTO(row[1].algo, row[1].proto), RING_LL);
        cr_expect_eq(row[1].channels, 4);
        cr_expect_float_eq(row[1].us, 150, 1e-3, "at the largest size");
        cr_expect_float_eq(row[1].spread_us, 150 * 0.02 * 2, 1e-3);
        cr_expect_eq(row[1].samples, 17);
        cr_expect_float_eq(row[1].gain, 0.225, 1e-6, "the mean of its sizes");
        cr_expect_eq(row[2].upto, UINT64_MAX);
        capo_profile_free(p);
}

Test(fit_profile, texts)
{
        char text[200];

        cr_expect_str_eq(capo_fit_candidate_text(&candidates[0], text, sizeof text),
                         "NCCL's choice");
        cr_expect_str_eq(capo_fit_candidate_text(&candidates[1], text, sizeof text),
                         "Ring LL ch 4");
        cr_expect_str_eq(
                capo_fit_candidate_text(&(struct capo_fit_candidate){CAPO_ALGO_TREE, 0, 0, 0}, text,
                                        sizeof text),
                "Tree any");
        cr_expect_str_eq(
                capo_fit_candidate_text(&(struct capo_fit_candidate){.algo = CAPO_ALGO_RING,
                                                                     .proto = CAPO_PROTO_SIMPLE,
                                                                     .channels = 8,
                                                                     .chunk = 65536},
                                        text, sizeof text),
                "Ring Simple ch 8 chunk 64 KiB");
        cr_expect_str_eq(capo_fit_class_text(&(struct capo_trial){.n_ranks = 8,
                                                                  .n_nodes = 2,
                                                                  .layout = "3+5",
                                                                  .gpu = "H100",
                                                                  .nccl = 22902},
                                             text, sizeof text),
                         "8 x H100, 2 nodes: 3+5, NCCL 2.29.2");
        cr_expect_str_eq(capo_fit_class_text(&(struct capo_trial){.n_ranks = 8}, text, sizeof text),
                         "8 ranks, nodes not recorded, NCCL not recorded");
}
