/* SPDX-License-Identifier: Apache-2.0 */
/* The words of a question, the symmetry of a machine, and the jump patch: what needs no libnccl. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util.h"
#include "profiles/plan/plan.h"
#include "profiles/plan/symmetry.h"

static const uint16_t devs[8] = {0, 1, 2, 3, 4, 5, 6, 7};
static const struct capo_gpus_of machine = {"a machine", devs, 8},
                                 none = {0}; /* none: its GPUs are not known */

Test(plan_words, gpus)
{
        static const struct {
                const char *text;
                int n; /* -1: refused */
                struct capo_plan_gpu last;
        } rows[] = {
                {"1,4,6", 3, {0, 6}},       {"0:1,2,3;1:0,1,2,3,4", 8, {1, 4}},
                {"0:1-3;1:0-4", 8, {1, 4}}, {"7", 1, {0, 7}},
                {"2:0;0:3,1", 3, {0, 1}},   {"", -1, {0, 0}},
                {"1,,2", -1, {0, 0}},       {"0:", -1, {0, 0}},
                {"0:1;", -1, {0, 0}},       {"a", -1, {0, 0}},
                {"3-1", -1, {0, 0}},        {"1,", -1, {0, 0}},
                {"0:1 2", -1, {0, 0}},      {"99999999", -1, {0, 0}},
                {"0-70000", -1, {0, 0}},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_plan_gpu out[CAPO_PLAN_RANKS_MAX];
                char why[256] = "";
                size_t n = 0;
                int r = capo_plan_ranks_parse(rows[i].text, false, &none, out, N_ELEMENTS(out), &n,
                                              why, sizeof why);

                cr_assert_eq(r == 0 ? (int)n : -1, rows[i].n, "%s: %d, %zu GPUs, %s", rows[i].text,
                             r, n, why);
                if (r < 0)
                        cr_assert(why[0], "%s: no reason given", rows[i].text);
                else
                        cr_assert(out[n - 1].node == rows[i].last.node &&
                                          out[n - 1].dev == rows[i].last.dev,
                                  "%s", rows[i].text);
        }
}

Test(plan_words, allocations)
{
        static const struct {
                const char *text;
                int n;
        } rows[] = {{"8", 8},      {"3+5", 8},     {"4x8", 32},     {"2+2x3", 8},   {"9", -1},
                    {"", -1},      {"3+", -1},     {"0", -1},       {"0x3", -1},    {"x3", -1},
                    {"40x8", 320}, {"3000x8", -1}, {"3 +\v5\n", 8}, {"2\n*\t3 ", 6}};

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_plan_gpu out[CAPO_PLAN_RANKS_MAX];
                char why[256];
                size_t n;
                int r = capo_plan_ranks_parse(rows[i].text, true, &machine, out, N_ELEMENTS(out),
                                              &n, why, sizeof why);

                cr_assert_eq(r == 0 ? (int)n : -1, rows[i].n, "%s", rows[i].text);
        }
}

/* What is printed is an allocation again, also where machines were left out. */
Test(plan_words, print)
{
        static const struct capo_plan_gpu gpus[] = {{2, 0}, {2, 3}, {5, 1}};
        char text[64];

        cr_expect_str_eq(capo_plan_gpus_print(gpus, 3, text, sizeof text), "{0,3} + {1}");
        cr_expect_str_eq(capo_plan_gpus_print(gpus, 2, text, sizeof text), "{0,3}");

        struct capo_plan_gpu many[13];

        for (uint16_t i = 0; i < 13; i++) /* nodes 0 to 5 of two, 6 of one */
                many[i] = (struct capo_plan_gpu){(uint16_t)(i / 2), (uint16_t)(i % 2)};
        cr_expect_str_eq(capo_plan_gpus_print(many, 13, text, sizeof text), "6 x {0,1} + {0}");
        cr_expect_str_eq(capo_plan_gpus_print(many, 8, text, sizeof text),
                         "{0,1} + {0,1} + {0,1} + {0,1}");
}

Test(plan_words, sizes)
{
        static const struct {
                const char *text;
                long n;
                uint64_t last;
        } rows[] = {{"1K..1G*2", 21, 1ull << 30},
                    {"1K..1M", 11, 1 << 20},
                    {"4K,1M", 2, 1 << 20},
                    {"64K..1M+64K", 16, 1 << 20},
                    {"1..10*3", 3, 9},
                    {"1K,1M..2M*2", 3, 2 << 20},
                    {"", -1, 0},
                    {"1..", -1, 0},
                    {"8..4", -1, 0},
                    {"1..8*1", -1, 0},
                    {"x", -1, 0},
                    {"0..8", -1, 0},
                    {"1..1T+1", -1, 0}};

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                uint64_t out[100];
                char why[256];
                long n = capo_plan_sizes_parse(rows[i].text, out, N_ELEMENTS(out), why, sizeof why);

                cr_assert_eq(n < 0 ? -1 : n, rows[i].n, "%s: %ld", rows[i].text, n);
                if (n > 0)
                        cr_assert_eq(out[n - 1], rows[i].last, "%s", rows[i].text);
        }
}

/* A square of four GPUs, 0-1-2-3-0, one NIC at GPU 0's switch: only the mirror through 0 and 2
 * keeps everything. */
Test(plan_words, symmetry)
{
        static const char square[] =
                "<system version=\"1\"><cpu numaid=\"0\">"
                "<pci busid=\"0000:01:00.0\" class=\"0x060400\" link_speed=\"8 GT/s\" link_width=\"16\">"
                "%s<pci busid=\"0000:0a:00.0\" class=\"0x020700\" link_width=\"16\"><nic><net name=\"n\" dev=\"0\" "
                "speed=\"100000\"/></nic></pci></pci>%s%s%s</cpu></system>";
        static const char gpu[] =
                "<pci busid=\"0000:%02x:00.0\" class=\"0x030200\" link_width=\"16\"><gpu dev=\"%d\" "
                "sm=\"70\" gdr=\"1\">"
                "<nvlink target=\"0000:%02x:00.0\" count=\"1\" tclass=\"0x030200\"/>"
                "<nvlink target=\"0000:%02x:00.0\" count=\"1\" tclass=\"0x030200\"/></gpu></pci>";
        char gpus[4][512], text[4096], path[] = "/tmp/capo-square-XXXXXX", why[256];
        struct capo_topology *t;
        struct capo_symmetry s;
        FILE *f;

        for (int i = 0; i < 4; i++)
                snprintf(gpus[i], sizeof gpus[i], gpu, 0x10 + i, i, 0x10 + (i + 1) % 4,
                         0x10 + (i + 3) % 4);
        snprintf(text, sizeof text, square, gpus[0], gpus[1], gpus[2], gpus[3]);
        f = fdopen(mkstemp(path), "w");
        cr_assert(f);
        fputs(text, f);
        fclose(f);
        cr_assert_eq(capo_topology_read(path, 0, 0, &t, why, sizeof why), 0, "%s", why);
        unlink(path);
        cr_assert_eq(capo_symmetry_find(t, &s), 0);
        cr_assert_eq(s.n_maps, 2, "%zu permutations", s.n_maps);
        cr_assert_eq(capo_symmetry_least(&s, 1u << 3), 1u << 1); /* 3 and 1 are the same */
        cr_assert_eq(capo_symmetry_least(&s, 1u << 2), 1u << 2);
        capo_topology_free(t);
}

Test(plan_words, a_question_without_sense_is_refused)
{
        struct capo_plan_answer a;
        char why[256] = "";
        struct capo_plan_question q = {.tools = "/nowhere", .libnccl = "/nowhere"};

        cr_assert_lt(capo_plan_ask(&q, &a, why, sizeof why), 0);
        cr_assert(why[0]);
}
