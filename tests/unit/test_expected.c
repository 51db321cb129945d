/* SPDX-License-Identifier: Apache-2.0 */
/* Is a bandwidth normal: the public rows, the limits, and the causes. */
#include <criterion/criterion.h>
#include <string.h>

#include "core/base/calls.h"
#include "profiles/fragment/expected.h"
#include "profiles/machine/platform.h"
#include "tests/log_numbers.h"

static struct capo_expected_shape make_shape(const char *platform, const char *layout)
{
        struct capo_expected_shape s = {
                .platform = platform, .named = true, .n_nics = 8, .nvlink = true, .sharp = true};

        cr_assert_eq(capo_layout_parse(layout, &s.layout, NULL), 0);
        return s;
}

static enum capo_expected_verdict judge(const struct capo_expected_shape *shape, uint64_t bytes,
                                        double measured, double predicted, double ceiling)
{
        struct capo_expected_row row = {.call = CAPO_CALL_ALLREDUCE,
                                        .bytes = bytes,
                                        .measured = measured,
                                        .predicted = predicted,
                                        .ceiling = ceiling};

        capo_expected_judge(shape, &row);
        return row.verdict;
}

Test(expected, public_rows_are_whole)
{
        cr_assert_geq(capo_n_public_rates, 40u);
        for (size_t i = 0; i < capo_n_public_rates; i++) {
                const struct capo_public_rate *r = &capo_public_rates[i];
                struct capo_layout layout;
                char text[CAPO_LAYOUT_TEXT];

                cr_expect(capo_platform_find(r->platform) || !strcmp(r->platform, "gb10"),
                          "row %zu: %s", i, r->platform);
                cr_assert_eq(capo_layout_parse(r->layout, &layout, NULL), 0, "row %zu", i);
                cr_expect_str_eq(capo_layout_print(&layout, text, sizeof text), r->layout);
                cr_expect(r->busbw_gbs > 0 && r->bytes && capo_call_name(r->call), "row %zu", i);
                cr_expect_eq(strncmp(r->source, "https://github.com/", 19), 0, "row %zu", i);
                for (size_t k = 0; k < i; k++) {
                        const struct capo_public_rate *o = &capo_public_rates[k];

                        cr_expect(o->call != r->call || o->bytes != r->bytes ||
                                          strcmp(o->platform, r->platform) != 0 ||
                                          strcmp(o->layout, r->layout) != 0 ||
                                          strcmp(o->source, r->source) != 0,
                                  "rows %zu and %zu", k, i);
                }
        }
}

Test(expected, a_rack_and_a_pair_of_gb10_are_judged_by_their_names)
{
        struct capo_expected_shape rack = {.platform = ""}, pair = {.platform = ""};
        struct capo_expected_row row = {
                .call = CAPO_CALL_ALLREDUCE, .bytes = UINT64_C(1) << 30, .measured = 680};

        cr_assert_eq(capo_layout_parse("72", &rack.layout, NULL), 0);
        cr_assert(capo_expected_by_gpu("NVIDIA GB200", &rack, &row));
        cr_expect_str_eq(rack.platform, "gb200-nvl72");
        cr_expect_eq(row.verdict, CAPO_EXPECTED_NORMAL);
        cr_expect_eq(row.by, CAPO_BY_PUBLIC);
        cr_assert_eq(capo_layout_parse("1+1", &pair.layout, NULL), 0);
        row = (struct capo_expected_row){
                .call = CAPO_CALL_ALLREDUCE, .bytes = UINT64_C(1) << 30, .measured = 2};
        cr_assert(capo_expected_by_gpu("NVIDIA GB10", &pair, &row));
        cr_expect_eq(row.verdict, CAPO_EXPECTED_NOT_NORMAL);
        cr_expect_eq(row.ceiling, 25);
        cr_expect_not(capo_expected_by_gpu("NVIDIA GeForce RTX 4090", &pair, &row));
}

Test(expected, public_measurements_decide_before_the_model)
{
        struct capo_expected_shape p5 = make_shape("p5", "8+8");

        cr_expect_eq(judge(&p5, 1ull << 30, 9, 9, 700), CAPO_EXPECTED_NOT_NORMAL);
        cr_expect_eq(judge(&p5, 1ull << 30, 300, 9, 700), CAPO_EXPECTED_LOW);
        cr_expect_eq(judge(&p5, 1ull << 30, 400, 900, 700), CAPO_EXPECTED_NORMAL);
        cr_expect_eq(judge(&p5, 1ull << 30, 900, 400, 700), CAPO_EXPECTED_IMPOSSIBLE);
        cr_expect_eq(judge(&p5, 1ull << 30, 800, 400, 720), CAPO_EXPECTED_IMPOSSIBLE);
        /* larger than any row: no slower than 1 GiB; smaller than all that is near: the model */
        cr_expect_eq(judge(&p5, 1ull << 36, 400, 0, 0), CAPO_EXPECTED_NORMAL);
        cr_expect_eq(judge(&p5, 1ull << 12, 1, 0, 0), CAPO_EXPECTED_UNKNOWN);
        cr_expect_eq(judge(&p5, 1ull << 12, 1, 2, 0), CAPO_EXPECTED_NORMAL);
}

Test(expected, one_node_serves_its_shape_and_several_only_themselves)
{
        struct capo_expected_shape one = make_shape("ndv5", "8"), two = make_shape("ndv5", "8+8"),
                                   seen = make_shape("p5", "8+8");

        seen.named = false; /* recognised by its GPUs: its NICs may be others */
        cr_expect_eq(judge(&one, 1ull << 30, 470, 0, 0), CAPO_EXPECTED_NORMAL);
        cr_expect_eq(judge(&two, 1ull << 30, 437, 0, 0), CAPO_EXPECTED_UNKNOWN);
        cr_expect_eq(judge(&seen, 1ull << 30, 437, 0, 0), CAPO_EXPECTED_UNKNOWN);
}

Test(expected, the_named_platform_comes_before_its_like)
{
        struct capo_expected_shape named = make_shape("hgxh100", "8"), like = named;
        struct capo_expected_row row = {
                .call = CAPO_CALL_ALLREDUCE, .bytes = 1ull << 30, .measured = 300};

        capo_expected_judge(&named, &row);
        cr_assert_geq(row.n_rates, 2u);
        cr_expect_str_eq(row.rates[0]->platform, "hgxh100");
        cr_expect_eq(row.normal, row.rates[0]->busbw_gbs);
        like.named = false; /* recognised by its shape: any of these machines */
        capo_expected_judge(&like, &row);
        cr_expect_str_eq(row.rates[0]->platform, "p5");
}

Test(expected, a_ceiling_alone_says_little)
{
        struct capo_expected_shape odd = make_shape("ndv5", "3+5");

        cr_expect_eq(judge(&odd, 1ull << 30, 300, 0, 400), CAPO_EXPECTED_NORMAL);
        cr_expect_eq(judge(&odd, 1ull << 30, 150, 0, 400), CAPO_EXPECTED_UNKNOWN);
        cr_expect_eq(judge(&odd, 1ull << 30, 30, 0, 400), CAPO_EXPECTED_NOT_NORMAL);
        cr_expect_eq(judge(&odd, 1ull << 20, 30, 0, 400), CAPO_EXPECTED_UNKNOWN);
}

static bool is_text(const char *text, void *arg) { return strstr(arg, text); }

static unsigned find_causes(const struct capo_expected_shape *shape, double share,
                            const char *evidence, struct capo_expected_cause *out)
{
        struct capo_expected_row row = {
                .call = CAPO_CALL_ALLREDUCE, .bytes = 1ull << 30, .measured = share, .normal = 1};

        return capo_expected_causes(shape, &row, is_text, (void *)(uintptr_t)evidence, out);
}

Test(expected, causes_fit_the_share_and_proved_ones_lead)
{
        struct capo_expected_cause c[CAPO_EXPECTED_CAUSES];
        struct capo_expected_shape one = make_shape("hgxh100", "8"),
                                   two = make_shape("hgxh100", "8+8");

        cr_assert_geq(find_causes(&two, 0.125, "", c), 2u);
        cr_expect_str_eq(c[0].name, "SOCKETS");
        cr_expect_str_eq(c[1].name, "ONE_NIC");
        cr_expect(strstr(c[0].next, "Using network"));
        cr_assert_geq(find_causes(&two, 0.125, "Using network Socket", c), 1u);
        cr_expect(!strstr(c[0].next, "NCCL_DEBUG") && *c[0].next, "%s", c[0].next);
        cr_assert_geq(find_causes(&two, 0.5, "NCCL_ALGO=Tree", c), 2u);
        cr_expect_str_eq(c[0].name, "FORCED");
        cr_expect_str_eq(c[0].proof, "NCCL_ALGO=");
        cr_assert_geq(find_causes(&one, 0.75, "", c), 2u);
        cr_expect_str_eq(c[0].name, "SOME_NVLINKS");
        cr_expect_str_eq(c[1].name, "NO_SHARP");
        cr_assert_geq(find_causes(&one, 0.05, "NCCL_P2P_DISABLE=1", c), 2u);
        cr_expect_str_eq(c[0].name, "NO_P2P");
        for (unsigned i = 0, n = find_causes(&one, 0.05, "", c); i < n; i++)
                cr_expect_str_neq(c[i].name, "FORCED"); /* only where it is found */
}

Test(expected, names_of_gpus)
{
        cr_expect_null(capo_expected_misfit("NVIDIA H100 80GB HBM3", 90, true));
        cr_expect_null(capo_expected_misfit("A100-SXM4-40GB", 0, true));
        cr_expect_null(capo_expected_misfit("NVIDIA B300 SXM6 AC", 103, true));
        cr_expect_null(capo_expected_misfit("NVIDIA GB200 NVL72", 100, true));
        cr_expect_null(capo_expected_misfit("", 90, true));
        cr_expect_null(capo_expected_misfit("NVIDIA L40S", 89, false), "a topology of one's own");
        cr_expect_not_null(capo_expected_misfit("A100-SXM4-40GB", 90, true));
        cr_expect_not_null(capo_expected_misfit("NVIDIA L40S", 80, true));
        cr_expect_not_null(capo_expected_misfit("NVIDIA H100 PCIe", 90, true));
        cr_expect_not_null(capo_expected_misfit("NVIDIA H100 NVL", 90, true));
        cr_expect_not_null(capo_expected_misfit("NVIDIA A800-SXM4-80GB", 80, true));
        cr_expect_not_null(capo_expected_misfit("AMD Instinct MI300X", 0, true));
}
