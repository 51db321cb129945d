/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <criterion/criterion.h>

#include "core/base/layout.h"
#include "core/base/util.h"

static const char *print(const struct capo_layout *l)
{
        static char text[CAPO_LAYOUT_TEXT];

        return capo_layout_print(l, text, sizeof text);
}

#define FOUR "1+2+1+2+1+2+1+2"
#define MANY FOUR "+" FOUR "+" FOUR "+" FOUR "+1"

Test(layout, parse)
{
        static const struct {
                const char *text;
                int r;
                const char *canonical;
                uint32_t ranks, nodes;
        } rows[] = {
                {"3+5", 0, "3+5", 8, 2},
                {"5+3", 0, "3+5", 8, 2},
                {" 5 + 3 ", 0, "3+5", 8, 2},
                {"8", 0, "8", 8, 1},
                {"1x8", 0, "8", 8, 1},
                {"2x4", 0, "4+4", 8, 2},
                {"8+8+8", 0, "3x8", 24, 3},
                {"4x8+2", 0, "4x8+2", 34, 5},
                {"8+2x8+2", 0, "3x8+2", 26, 4},
                {"8+4+8+8", 0, "8+4+8+8", 28, 4},
                {"8+4+8+8 in any order", 0, "4+3x8 in any order", 28, 4},
                {"8+8+8 in any order", 0, "3x8", 24, 3},
                {"5+3 in any order", 0, "3+5", 8, 2},
                {"8+4+8+8 in order", -EINVAL, 0, 0, 0},
                {"", -EINVAL, 0, 0, 0},
                {"3+", -EINVAL, 0, 0, 0},
                {"+3", -EINVAL, 0, 0, 0},
                {"3,5", -EINVAL, 0, 0, 0},
                {"0+8", -EINVAL, 0, 0, 0},
                {"3x", -EINVAL, 0, 0, 0},
                {"-3", -EINVAL, 0, 0, 0},
                {"99999999999999999999", -E2BIG, 0, 0, 0},
                {MANY "+3+3+1", 0, "18x1+16x2+3+3 in any order", 56, 36},
                {"1+2+3+4+5+6+7+8+9+10+11+12+13+14+15+16+17+18+19+20+21+22+23+24+25+26+27+28+29+30+31+32"
                 "+33",
                 -E2BIG, 0, 0, 0},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_layout l;

                cr_assert_eq(capo_layout_parse(rows[i].text, &l, NULL), rows[i].r, "\"%s\"",
                             rows[i].text);
                if (rows[i].r)
                        continue;
                cr_assert_str_eq(print(&l), rows[i].canonical);
                cr_assert_eq(l.n_ranks, rows[i].ranks);
                cr_assert_eq(l.n_nodes, rows[i].nodes);
        }
}

Test(layout, slurm)
{
        static const struct {
                const char *text;
                int r;
                const char *canonical;
        } rows[] = {
                {"3,5", 0, "3+5"},      {"4(x2),2", 0, "4+4+2"}, {"8(x128)", 0, "128x8"},
                {"1", 0, "1"},          {"3,", -EINVAL, ""},     {"4(x2", -EINVAL, ""},
                {"4(2)", -EINVAL, ""},  {"", -EINVAL, ""},       {"a", -EINVAL, ""},
                {"4(x0)", -EINVAL, ""}, {"4(x2)3", -EINVAL, ""}, {"3, 5", -EINVAL, ""},
                {"4(y2)", -EINVAL, ""}, {"4,x2)", -EINVAL, ""},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_layout l;

                cr_assert_eq(capo_layout_parse_slurm(rows[i].text, &l), rows[i].r, "\"%s\"",
                             rows[i].text);
                if (!rows[i].r)
                        cr_assert_str_eq(print(&l), rows[i].canonical);
        }
}

Test(layout, of_comm)
{
        static const struct {
                const char *world;
                struct capo_layout_reported reported;
                int r;
                const char *canonical;
        } rows[] = {
                {NULL, {8, 2, 3, 5}, 0, "3+5"},
                {NULL, {8, 1, -1, -1}, 0, "8"},
                {NULL, {8, 8, -1, -1}, 0, "8x1"},
                {NULL, {16, 2, 8, 8}, 0, "8+8"},
                {NULL, {8, 2, -1, -1}, -ENODATA, ""},           /* 4+4, 3+5, ...: never a guess */
                {NULL, {14, 3, 3, 6}, 0, "3+5+6 in any order"}, /* one node between: the rest */
                {NULL, {20, 4, 3, 8}, -ENODATA, ""},            /* 9 over two nodes: several ways */
                {NULL, {22, 4, 3, 8}, -ENODATA, ""},            /* 11 = 3+8, 4+7, 5+6 */
                {NULL, {17, 4, 3, 8}, 0, "3x3+8 in any order"}, /* 6 = 3+3 only */
                {NULL, {18, 4, 3, 8}, 0, "3+3+4+8 in any order"}, /* 7 = 3+4 only */
                {NULL, {27, 4, 3, 8}, 0, "3+3x8 in any order"},   /* 16 = 8+8 only */
                {NULL, {31, 4, 7, 8}, 0, "7+3x8 in any order"},   /* sizes one apart */
                {NULL, {8, 2, 3, 4}, -EINVAL, ""},
                {NULL, {8, 2, 5, 3}, -EINVAL, ""},
                {NULL, {8, 0, -1, -1}, -EINVAL, ""},
                {NULL, {2, 3, 1, 1}, -EINVAL, ""},
                {NULL, {8, 2, 0, 5}, -ENODATA, ""},
                {NULL, {8, 2, 5, 0}, -ENODATA, ""},
                {NULL, {8, 1, 8, 9}, 0, "8"},
                {NULL, {8, 1, 8, 8}, 0, "8"},
                {"3+5", {8, 2, -1, -1}, 0, "3+5"},
                {"3+5", {8, 2, 3, 5}, 0, "3+5"},
                {"3+5", {8, 2, 4, 4}, 0, "4+4"},       /* NCCL is the stronger source */
                {"3+5", {8, 3, -1, -1}, -ENODATA, ""}, /* NCCL split a node: the launcher's view is
                                                          dropped */
                {"3+5", {4, 2, -1, -1}, -ENODATA, ""}, /* a split: 1+3 or 2+2 */
                {"3+5", {4, 2, 1, 3}, 0, "1+3"},
                {"3+5", {3, 1, -1, -1}, 0, "3"},
                {"8+8+4", {20, 3, 4, 8}, 0, "8+8+4"}, /* the order is the launcher's */
                {"8+4+8", {20, 3, -1, -1}, 0, "8+4+8"},
                {"8+8+8", {20, 3, 4, 8}, 0, "4+8+8 in any order"},
                {"6+6+8", {20, 3, 4, 8}, 0, "4+8+8 in any order"},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_layout world, l;
                struct capo_layout_why why;

                if (rows[i].world)
                        cr_assert_eq(capo_layout_parse(rows[i].world, &world, NULL), 0);
                cr_assert_eq(capo_layout_of_comm(rows[i].world ? &world : NULL, &rows[i].reported,
                                                 &l, &why),
                             rows[i].r, "row %zu: %s", i, why.text);
                cr_assert(why.text && *why.text, "row %zu", i);
                cr_assert_eq(why.source == CAPO_LAYOUT_UNKNOWN, rows[i].r != 0, "row %zu", i);
                if (!rows[i].r)
                        cr_assert_str_eq(print(&l), rows[i].canonical, "row %zu: %s", i, why.text);
        }
}

/* A launcher's layout of all ranks that NCCL's numbers contradict, each by itself. */
Test(layout, what_nccl_contradicts_is_dropped)
{
        static const struct {
                const char *world;
                struct capo_layout_reported reported;
                bool dropped;
        } rows[] = {
                {"3+6+6", {15, 3, 3, 6}, false},  {"3+6+6", {15, 3, 4, 6}, true},
                {"3+6+6", {15, 3, 3, 7}, true},   {"3+6+6", {15, 3, -1, -1}, false},
                {"3+6+6", {15, 3, 3, -1}, false}, {"3+6+6", {15, 4, -1, -1}, true},
                {"3+6+6", {14, 3, 4, 5}, false},  {"8", {8, 1, -1, -1}, false},
                {"4+4", {8, 1, -1, -1}, true},    {"4+4", {8, 8, -1, -1}, true},
                {"3+5", {8, 0, 3, 5}, false},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_layout world, l;
                struct capo_layout_why why;

                cr_assert_eq(capo_layout_parse(rows[i].world, &world, NULL), 0);
                capo_layout_of_comm(&world, &rows[i].reported, &l, &why);
                cr_expect_eq(why.dropped, rows[i].dropped, "row %zu: %s", i, why.text);
        }
}

Test(layout, why_it_is_not_known)
{
        static const struct {
                struct capo_layout_reported reported;
                const char *text;
        } rows[] = {
                {{8, 2, -1, -1}, "told neither"},         {{8, 2, 3, -1}, "told neither"},
                {{8, 2, -1, 5}, "told neither"},          {{20, 4, 3, 8}, "several layouts"},
                {{20, 4, 1, 8}, "several layouts"},       {{8, 2, 3, 4}, "contradict each other"},
                {{8, 2, 1, 1}, "contradict each other"},  {{8, 0, 3, 5}, "told no ranks or nodes"},
                {{0, 1, 1, 1}, "told no ranks or nodes"}, {{2, 3, 1, 1}, "told no ranks or nodes"},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_layout l;
                struct capo_layout_why why;

                cr_expect_lt(capo_layout_of_comm(NULL, &rows[i].reported, &l, &why), 0, "row %zu",
                             i);
                cr_expect(strstr(why.text, rows[i].text), "row %zu: %s", i, why.text);
        }
}

/* Every answer of_comm gives must be the only layout with these numbers: compare with counting all
 * of them. */
static int count_layouts(int nodes, int ranks, int low, int high, int least)
{
        int n = 0;

        if (!nodes)
                return ranks == 0;
        for (int k = least; k <= high && k * nodes <= ranks; k++)
                n += count_layouts(nodes - 1, ranks - k, low, high, k);
        return n;
}

Test(layout, of_comm_is_never_a_guess)
{
        int settled = 0;

        for (int nodes = 2; nodes <= 6; nodes++) {
                for (int low = 1; low <= 8; low++) {
                        for (int high = low; high <= 8; high++) {
                                for (int ranks = nodes; ranks <= 8 * nodes; ranks++) {
                                        struct capo_layout_reported reported = {ranks, nodes, low,
                                                                                high};
                                        struct capo_layout l;
                                        int ways = low == high ? low * nodes == ranks
                                                   : ranks - low - high < 0
                                                           ? 0
                                                           : count_layouts(nodes - 2,
                                                                           ranks - low - high, low,
                                                                           high, low);
                                        int r = capo_layout_of_comm(NULL, &reported, &l, NULL);

                                        if (ways == 0 && nodes < ranks)
                                                cr_assert_eq(r, -EINVAL, "%d %d %d %d: %d", ranks,
                                                             nodes, low, high, r);
                                        if (ways == 1) {
                                                cr_assert_eq(r, 0, "%d %d %d %d: %d", ranks, nodes,
                                                             low, high, r);
                                                cr_assert_eq(l.n_ranks, (uint32_t)ranks);
                                                cr_assert_eq(l.n_nodes, (uint32_t)nodes);
                                                cr_assert_eq(capo_layout_smallest(&l),
                                                             (uint32_t)low);
                                                cr_assert_eq(capo_layout_largest(&l),
                                                             (uint32_t)high);
                                                settled++;
                                        }
                                        if (ways > 1)
                                                cr_assert_eq(r, -ENODATA, "%d %d %d %d: %d", ranks,
                                                             nodes, low, high, r);
                                }
                        }
                }
        }
        cr_assert_gt(settled, 500);
}

/* An environment as "NAME=value" strings. */
static const char *from_list(const char *name, void *user)
{
        size_t n = strlen(name);

        for (const char *const *row = user; *row; row++) {
                if (!strncmp(*row, name, n) && (*row)[n] == '=')
                        return *row + n + 1;
        }
        return NULL;
}

struct launcher_row {
        const char *env[8];
        int r;
        const char *canonical;
        uint32_t ranks;
        const char *said; /* must occur in it; "" nothing may be said */
};

static void check_launchers(const struct launcher_row *rows, size_t n, bool in_rank)
{
        for (size_t i = 0; i < n; i++) {
                struct capo_layout_launch l;

                cr_assert_eq(capo_layout_from_launcher(from_list, (void *)rows[i].env, in_rank, &l),
                             rows[i].r, "row %zu", i);
                cr_assert_str_eq(print(&l.layout), rows[i].canonical, "row %zu", i);
                cr_assert_eq(l.n_ranks, rows[i].ranks, "row %zu", i);
                if (*rows[i].said)
                        cr_assert(strstr(l.said, rows[i].said), "row %zu: %s", i, l.said);
                else
                        cr_assert_str_empty(l.said, "row %zu: %s", i, l.said);
        }
}

Test(layout, launchers)
{
        static const struct launcher_row rows[] = {
                {{NULL}, -ENODATA, "", 0, ""},
                {{"CAPO_LAYOUT=5+3"}, 0, "3+5", 8, ""},
                {{"CAPO_LAYOUT=5/3"}, -EINVAL, "", 0, "expected ranks per node"},
                {{"SLURM_STEP_TASKS_PER_NODE=3,5"}, 0, "3+5", 8, ""},
                {{"SLURM_STEP_TASKS_PER_NODE=3,5", "SLURM_TASKS_PER_NODE=8(x2)"}, 0, "3+5", 8, ""},
                {{"SLURM_TASKS_PER_NODE=4(x2),2"}, 0, "4+4+2", 10, ""},
                {{"SLURM_TASKS_PER_NODE=4(x2"}, -ENODATA, "", 0, "not understood"},
                /* one torchrun per node: Slurm's tasks are not the ranks */
                {{"SLURM_STEP_TASKS_PER_NODE=1(x2)", "WORLD_SIZE=8", "LOCAL_WORLD_SIZE=3",
                  "GROUP_WORLD_SIZE=2"},
                 0,
                 "3+5",
                 8,
                 ""},
                {{"WORLD_SIZE=8", "LOCAL_WORLD_SIZE=5", "GROUP_WORLD_SIZE=2"}, 0, "3+5", 8, ""},
                {{"WORLD_SIZE=8", "LOCAL_WORLD_SIZE=8", "GROUP_WORLD_SIZE=1"}, 0, "8", 8, ""},
                {{"WORLD_SIZE=12", "LOCAL_WORLD_SIZE=4", "GROUP_WORLD_SIZE=3"},
                 -ENODATA,
                 "",
                 12,
                 ""}, /* 4+4+4 or 4+3+5 */
                {{"OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_SIZE=4"}, -ENODATA, "", 8, ""},
                {{"OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_SIZE=8"}, 0, "8", 8, ""},
                {{"PMI_SIZE=4", "MPI_LOCALNRANKS=4"}, 0, "4", 4, ""},
                /* inside mpirun: the allocation's on one node, the daemons' step on the next */
                {{"OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_SIZE=3",
                  "SLURM_TASKS_PER_NODE=3,5"},
                 -ENODATA,
                 "",
                 8,
                 ""},
                {{"CAPO_LAYOUT=4+4", "SLURM_STEP_TASKS_PER_NODE=3,5"},
                 0,
                 "4+4",
                 8,
                 "CAPO_LAYOUT says 4+4: SLURM_STEP_TASKS_PER_NODE is dropped"},
                {{"CAPO_LAYOUT=4+5", "SLURM_STEP_TASKS_PER_NODE=3,5"},
                 0,
                 "3+5",
                 8,
                 "CAPO_LAYOUT is dropped"},
                {{"CAPO_LAYOUT=5+3", "SLURM_STEP_TASKS_PER_NODE=3,5"}, 0, "3+5", 8, ""},
                {{"SLURM_STEP_TASKS_PER_NODE=x", "SLURM_TASKS_PER_NODE=3,5"},
                 0,
                 "3+5",
                 8,
                 "=x is not understood"},
                /* torchrun with one rank per node, and what several agents do not settle */
                {{"WORLD_SIZE=4", "LOCAL_WORLD_SIZE=1", "GROUP_WORLD_SIZE=4"}, 0, "4x1", 4, ""},
                {{"WORLD_SIZE=1", "LOCAL_WORLD_SIZE=1", "GROUP_WORLD_SIZE=1"}, 0, "1", 1, ""},
                {{"WORLD_SIZE=8", "LOCAL_WORLD_SIZE=8", "GROUP_WORLD_SIZE=2"}, 0, "8", 8, ""},
                {{"WORLD_SIZE=8", "LOCAL_WORLD_SIZE=1", "GROUP_WORLD_SIZE=4"}, -ENODATA, "", 8, ""},
                {{"WORLD_SIZE=8", "LOCAL_WORLD_SIZE=2", "GROUP_WORLD_SIZE=8"}, -ENODATA, "", 8, ""},
                {{"WORLD_SIZE=8", "LOCAL_WORLD_SIZE=4"}, -ENODATA, "", 8, ""},
                {{"WORLD_SIZE=8"}, -ENODATA, "", 0, ""},
                {{"LOCAL_WORLD_SIZE=8"}, -ENODATA, "", 0, ""},
                {{"PMI_SIZE=4"}, -ENODATA, "", 4, ""},
                /* numbers that are none, or more ranks than there can be */
                {{"PMI_SIZE=4x", "MPI_LOCALNRANKS=4"}, -ENODATA, "", 0, ""},
                {{"PMI_SIZE=", "MPI_LOCALNRANKS=4"}, -ENODATA, "", 0, ""},
                {{"PMI_SIZE=16777216", "MPI_LOCALNRANKS=16777216"}, 0, "16777216", 16777216, ""},
                {{"PMI_SIZE=16777217", "MPI_LOCALNRANKS=16777217"}, -ENODATA, "", 0, ""},
        };

        check_launchers(rows, N_ELEMENTS(rows), false);
}

/* What a rank may believe of its own variables: what all ranks of the job read alike. */
Test(layout, launchers_seen_from_a_rank)
{
        static const struct launcher_row rows[] = {
                {{"CAPO_LAYOUT=5+3"}, 0, "3+5", 8, ""},
                {{"SLURM_STEP_TASKS_PER_NODE=3,5", "SLURM_TASKS_PER_NODE=8(x2)"}, 0, "3+5", 8, ""},
                {{"SLURM_STEP_TASKS_PER_NODE=3,5", "PMI_SIZE=8"},
                 0,
                 "3+5",
                 8,
                 ""}, /* srun --mpi=pmi2 */
                {{"SLURM_TASKS_PER_NODE=3,5"},
                 -ENODATA,
                 "",
                 0,
                 ""}, /* the allocation's, on its first node */
                /* mpirun in an allocation: its own node has the one variable, the others their
                   daemons' step */
                {{"OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_SIZE=4",
                  "SLURM_TASKS_PER_NODE=4(x2)"},
                 -ENODATA,
                 "",
                 8,
                 ""},
                {{"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_SIZE=1",
                  "SLURM_STEP_TASKS_PER_NODE=1(x2)"},
                 -ENODATA,
                 "",
                 2,
                 ""},
                {{"PMI_SIZE=2", "MPI_LOCALNRANKS=1", "SLURM_STEP_TASKS_PER_NODE=1(x2)"},
                 -ENODATA,
                 "",
                 2,
                 ""},
                {{"PMI_SIZE=2", "MPI_LOCALNRANKS=2", "SLURM_STEP_TASKS_PER_NODE=1"}, 0, "2", 2, ""},
                /* srun starts one torchrun per node */
                {{"SLURM_STEP_TASKS_PER_NODE=1(x2)", "WORLD_SIZE=8", "LOCAL_WORLD_SIZE=3",
                  "GROUP_WORLD_SIZE=2"},
                 0,
                 "3+5",
                 8,
                 ""},
                {{"SLURM_STEP_TASKS_PER_NODE=1(x2)", "WORLD_SIZE=8", "LOCAL_WORLD_SIZE=5",
                  "GROUP_WORLD_SIZE=2"},
                 0,
                 "3+5",
                 8,
                 ""},
                {{"SLURM_STEP_TASKS_PER_NODE=1(x3)", "WORLD_SIZE=12", "LOCAL_WORLD_SIZE=4",
                  "GROUP_WORLD_SIZE=3"},
                 -ENODATA,
                 "",
                 12,
                 ""},
        };

        check_launchers(rows, N_ELEMENTS(rows), true);
}

Test(layout, equal_is_equal_in_every_run)
{
        static const char *const texts[] = {"8",     "4",   "4+4", "3+5",  "3+3+5",
                                            "3+5+5", "3+6", "2+5", "3+5+8"};
        struct capo_layout a, b;

        for (size_t i = 0; i < N_ELEMENTS(texts); i++) {
                for (size_t k = 0; k < N_ELEMENTS(texts); k++) {
                        cr_assert_eq(capo_layout_parse(texts[i], &a, NULL), 0);
                        cr_assert_eq(capo_layout_parse(texts[k], &b, NULL), 0);
                        cr_expect_eq(capo_layout_equal(&a, &b), i == k, "%s and %s", texts[i],
                                     texts[k]);
                }
        }
}
