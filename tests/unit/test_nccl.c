/* SPDX-License-Identifier: Apache-2.0 */
/* Releases: reading, printing, and what holds of which. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "core/base/nccl_facts.h"
#include "core/base/nccl_release.h"
#include "core/base/util.h"

Test(nccl, reads_a_release_or_all_of_one)
{
        static const struct {
                const char *text;
                int first, last; /* 0: not a release */
        } rows[] = {
                {"2.28.9", 22809, 22809},
                {"2.28", 22800, 22899},
                {"2.7.8", 20708, 20708},
                {"2.0.0", 20000, 20000},
                {"99.99.99", 999999, 999999},
                {"1.0", 10000, 10099},
                {"2.028.9", 22809, 22809},
                {"0.28", 0, 0},
                {"2", 0, 0},
                {"2.", 0, 0},
                {"2.28.", 0, 0},
                {".28", 0, 0},
                {"", 0, 0},
                {"2.100", 0, 0},
                {"100.1", 0, 0},
                {"2.28.100", 0, 0},
                {"2.28.9x", 0, 0},
                {" 2.28", 0, 0},
                {"2.28.9.1", 0, 0},
                {"2..8", 0, 0},
                {"v2.28", 0, 0},
                {"2.28-2.30", 0, 0},
                {"2.0028", 0, 0},
                {"-2.28", 0, 0},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                int first = -7, last = -7, r = capo_nccl_parse(rows[i].text, &first, &last, NULL);

                cr_expect_eq(r, rows[i].first ? 0 : -EINVAL, "%s", rows[i].text);
                cr_expect_eq(first, rows[i].first ? rows[i].first : -7, "%s: %d", rows[i].text,
                             first);
                cr_expect_eq(last, rows[i].first ? rows[i].last : -7, "%s: %d", rows[i].text, last);
        }
}

Test(nccl, says_where_a_release_ends)
{
        const char *end = NULL;
        int first, last;

        cr_expect_eq(capo_nccl_parse("2.29.2+cuda13.1", &first, &last, &end), 0);
        cr_expect(first == 22902 && last == 22902 && !strcmp(end, "+cuda13.1"));
        cr_expect_eq(capo_nccl_parse("2.28-2.30", &first, &last, &end), 0);
        cr_expect(first == 22800 && last == 22899 && !strcmp(end, "-2.30"));
        cr_expect_eq(capo_nccl_parse("2.28.9.1", &first, &last, &end), 0);
        cr_expect(first == 22809 && !strcmp(end, ".1"));
        cr_expect_eq(capo_nccl_parse("2.28", &first, &last, &end), 0);
        cr_expect(!*end);
        cr_expect_eq(capo_nccl_parse("2.28.x", &first, &last, &end), -EINVAL);
}

Test(nccl, named_is_one_release)
{
        cr_expect_eq(capo_nccl_named("2.29.2"), 22902);
        cr_expect_eq(capo_nccl_named("2.29.2+cuda13.1"), 22902);
        cr_expect_eq(capo_nccl_named("2.7.8"), 20708);
        cr_expect_eq(capo_nccl_named("2.29"), 0);
        cr_expect_eq(capo_nccl_named("master"), 0);
}

Test(nccl, old_releases_counted_otherwise)
{
        cr_expect_eq(capo_nccl_code(2708), 20708);
        cr_expect_eq(capo_nccl_code(2804), 20804);
        cr_expect_eq(capo_nccl_code(9999), 90999);
        cr_expect_eq(capo_nccl_code(10000), 10000);
        cr_expect_eq(capo_nccl_code(20901), 20901);
        cr_expect_eq(capo_nccl_code(22809), 22809);
        cr_expect_eq(capo_nccl_code(0), 0);
        cr_expect_eq(capo_nccl_code(-1), 0);
}

Test(nccl, prints)
{
        char text[16];

        cr_expect_str_eq(capo_nccl_text(22902, text, sizeof text), "2.29.2");
        cr_expect_str_eq(capo_nccl_text(20901, text, sizeof text), "2.9.1");
        cr_expect_str_eq(capo_nccl_text(2708, text, sizeof text), "2.7.8");
        cr_expect_str_eq(capo_nccl_text(20708, text, sizeof text), "2.7.8");
        cr_expect_str_eq(capo_nccl_text(22810, text, sizeof text), "2.28.10");
        cr_expect_str_eq(capo_nccl_text(0, text, sizeof text), "?");
}

/* Both ends of every fact that has them, against numbers written down a second time. */
Test(nccl, facts_begin_and_end_where_the_releases_do)
{
        static const struct {
                enum capo_nccl_fact fact;
                int first, last;
        } rows[] = {
                {CAPO_NCCL_TUNER, 21901, CAPO_NCCL_LAST},
                {CAPO_NCCL_PROFILER, 22304, CAPO_NCCL_LAST},
                {CAPO_NCCL_COST_TABLE, 22200, CAPO_NCCL_LAST},
                {CAPO_NCCL_MODEL_CONSTANTS, 22800, CAPO_NCCL_LAST},
                {CAPO_NCCL_PROFILER_SLOW, 23100, CAPO_NCCL_LAST},
                {CAPO_NCCL_CHANNELS_32, 0, 22499},
                {CAPO_NCCL_ALLGATHER_CHANNELS_UNSAFE, 22900, CAPO_NCCL_LAST},
                {CAPO_NCCL_ALGO_FOR_ALLREDUCE, 20700, 21699},
                {CAPO_NCCL_ALGO_TREE_FAILS, 21700, 21899},
                {CAPO_NCCL_ALGO_BY_COLL, 22400, CAPO_NCCL_LAST},
                {CAPO_NCCL_NTHREADS_CHECKED, 20500, CAPO_NCCL_LAST},
                {CAPO_NCCL_RECORDED, 21300, CAPO_NCCL_LAST},
                {CAPO_NCCL_PLANNED, 21900, CAPO_NCCL_LAST},
                {CAPO_NCCL_TUNER_BY_FILE, 21901, 22099},
                {CAPO_NCCL_PLUGIN_NO_PATH, 22703, 22703},
                {CAPO_NCCL_CALL_CONFIG, 23102, CAPO_NCCL_LAST},
                {CAPO_NCCL_CHUNK, 23003, CAPO_NCCL_LAST},
                {CAPO_NCCL_KERNELS_BY_TABLE, 0, 22199},
                {CAPO_NCCL_KERNELS_OF_2_19, 0, 21999},
                {CAPO_NCCL_NVLS_GRAPH_UNWRITABLE, 0, 22099},
                {CAPO_NCCL_PATHS_TWICE, 22900, 23199},
                {CAPO_NCCL_MODEL_KNOWN, 22400, CAPO_NCCL_LAST},
        };
        bool seen[CAPO_NCCL_FACTS] = {false};

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                enum capo_nccl_fact f = rows[i].fact;

                seen[f] = true;
                cr_expect_eq(capo_nccl_since(f), rows[i].first, "row %zu", i);
                cr_expect(capo_nccl_has(rows[i].first ? rows[i].first : 1, f), "row %zu", i);
                cr_expect(capo_nccl_has(rows[i].last, f), "row %zu", i);
                cr_expect_not(capo_nccl_has(rows[i].first - 1, f), "row %zu", i);
                cr_expect_not(capo_nccl_has(rows[i].last + 1, f), "row %zu", i);
                cr_expect_not(capo_nccl_has(0, f), "row %zu: not known", i);
        }
        for (int f = 0; f < CAPO_NCCL_FACTS; f++)
                cr_expect(seen[f], "fact %d has no row here", f);
}

/* Which versions a release looks for: facts as read in each tag's misc/tuner.cc and
 * plugin/{tuner,profiler}.cc. */
Test(nccl, plugin_interfaces_of_releases)
{
        static const struct {
                int version;
                unsigned tuner; /* bit v */
        } rows[] = {{21803, 0},
                    {21901, 1 << 1},
                    {22005, 1 << 1},
                    {22105, 1 << 2},
                    {22203, 1 << 2 | 1 << 3},
                    {22304, 1 << 2 | 1 << 3},
                    {22403, 1 << 2 | 1 << 3 | 1 << 4},
                    {22703, 1 << 2 | 1 << 3 | 1 << 4},
                    {22803, 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5},
                    {23007, 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6}};

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                for (int v = 1; v <= 6; v++) {
                        cr_expect_eq(capo_tuner_abi_asked(rows[i].version, v),
                                     rows[i].tuner >> v & 1, "%d v%d", rows[i].version, v);
                }
        }
        cr_expect_not(capo_tuner_abi_asked(23007, 0));
        cr_expect_not(capo_tuner_abi_asked(23007, 1000));
        cr_expect_eq(capo_tuner_abi_since(5), 22803);
        cr_expect_eq(capo_tuner_abi_since(6), 23003);
}

/* Functions that a library has and this capo does not know: each once, and dots where there are
 * more than fit. */
Test(nccl, strange_functions)
{
        static const char *const names[] = {"ncclAllReduce",  "ncclFuture", "nccl",       "ncclfoo",
                                            "printf",         "ncxlFuture", "ncclFuture", "ncclFut",
                                            "ncclFutureMore", "ncclA",      "ncclZ",      "ncclFut",
                                            "nccl[x",         "nccl@x"};
        char list[128] = "", little[24] = "ncclOne", least[10] = "";

        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
                capo_nccl_strange(list, sizeof list, names[i]);
        cr_expect_str_eq(list, "ncclFuture, ncclFut, ncclFutureMore, ncclA, ncclZ");
        capo_nccl_strange(little, sizeof little, "ncclTooLongForIt");
        cr_expect_str_eq(little, "ncclOne, ...");
        capo_nccl_strange(little, sizeof little, "ncclAgain");
        cr_expect_str_eq(little, "ncclOne, ...");
        capo_nccl_strange(least, sizeof least, "ncclOne");
        cr_expect_lt(strlen(least), sizeof least);
        for (size_t room = 8; room < 40; room++) {
                memset(list, 'x', sizeof list);
                list[0] = 0;
                for (int i = 0; i < 4; i++)
                        capo_nccl_strange(
                                list, room,
                                (const char *[]){"ncclA1", "ncclB2", "ncclC3", "ncclD4"}[i]);
                cr_expect(strlen(list) < room && list[room] == 'x', "%zu: %s", room, list);
        }
        cr_expect_str_eq(list, "ncclA1, ncclB2, ncclC3, ncclD4");
}

Test(nccl, what_has_a_row_is_not_strange)
{
        static const char *const names[] = {
#define CALL(name, ...)       #name,
#define HAND(name, ...)       #name,
#define PASS(type, name, ...) #name,
#define PAST(name)            #name,
#include "capo/nccl_calls.def"
        };
        char list[128] = "";

        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
                capo_nccl_strange(list, sizeof list, names[i]);
        cr_expect_str_eq(list, "");
}
