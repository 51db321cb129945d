/* SPDX-License-Identifier: Apache-2.0 */
/* Every finding at its border: what is just wrong, and what is just right. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "capo/profile.h"
#include "core/base/util.h"
#include "core/profile/profile_check.h"

#define DOC(rest)        "{\"capo_profile\": 1, \"provenance\": {\"by\": 1}, " rest "}"
#define RULES(rules)     DOC("\"rules\": [\n" rules "\n]")
#define WHEN(when, rest) "{\"when\": {" when "}, " rest "}"
#define LEAVE            "{\"upto\": \"max\", \"leave\": true}"
#define RING(upto)       "{\"upto\": " upto ", \"algo\": \"ring\", \"proto\": \"ll\"}"
#define ROWS             "\"allreduce\": [" RING("\"max\"") "]"
#define ONE(when)        RULES(WHEN(when, ROWS))
#define ROW(coll, rest)  RULES(WHEN("", "\"" coll "\": [{\"upto\": \"max\", " rest "}]"))
#define CONST(when)                                                                           \
        RULES(WHEN(when, "\"constants\": [{\"table\": \"base_latency\", \"algo\": \"ring\", " \
                         "\"proto\": \"ll\", \"value\": 1}]"))

static char said[4096];

static void keep(void *user, enum capo_finding_level level, uint32_t line, const char *text)
{
        size_t used = strlen(said);

        cr_assert_eq(user, (void *)said);
        snprintf(said + used, sizeof said - used, "%c%u %s\n", "EWN"[level], line, text);
}

/* @expected: "level and line, words of the text; ..." in the order they are found, "" none */
static void check(const char *text, const char *expected)
{
        struct capo_profile *p = NULL;
        struct capo_fault fault;
        int errors = 0, found = 0, r = capo_profile_parse(text, strlen(text), "f", &p, &fault);
        char *copy = strdup(expected), *save = NULL, *line = said;

        cr_assert_eq(r, 0, "%s: %s", text, fault.text);
        said[0] = 0;
        r = capo_profile_check(p, keep, said);
        for (char *want = strtok_r(copy, ";", &save); want;
             want = strtok_r(NULL, ";", &save), found++) {
                char *end = strchr(line, '\n'), *words = strchr(want, ' ');

                want += *want == ' ';
                words = strchr(want, ' ');
                cr_expect(end, "%s\nexpected \"%s\", found:\n%s", text, want, said);
                if (!end)
                        break;
                *end = 0;
                cr_expect(!strncmp(line, want, (size_t)(words - want) + 1) &&
                                  strstr(line, words + 1),
                          "%s\nexpected \"%s\", found \"%s\"", text, want, line);
                errors += *want == 'E';
                line = end + 1;
        }
        cr_expect_str_empty(line, "%s\nnot expected: %s", text, line);
        cr_expect_eq(r, errors, "%s\n%d", text, r);
        free(copy);
        capo_profile_free(p);
}

struct row {
        const char *text, *expected;
};

Test(check, rows)
{
        static const struct row rows[] = {
                {ONE(""), ""},
                {ROW("reduce", "\"algo\": \"tree\", \"proto\": \"ll\""),
                 "E2 reduce has no Tree with LL"},
                {ROW("allreduce", "\"algo\": \"nvls\", \"proto\": \"ll\""),
                 "E2 allreduce has no NVLS with LL"},
                {ROW("allreduce", "\"algo\": \"nvls\", \"proto\": \"simple\", \"channels\": 4"),
                 ""},
                {ROW("allreduce", "\"algo\": \"collnetdirect\", \"proto\": \"simple\""), ""},
                {ROW("allreduce",
                     "\"algo\": \"collnetdirect\", \"proto\": \"simple\", \"channels\": 4"),
                 "W2 unchecked for CollNetDirect"},
                {ROW("allreduce",
                     "\"algo\": \"collnetchain\", \"proto\": \"simple\", \"channels\": 4"),
                 "W2 unchecked for CollNetChain"},
                {ROW("allreduce", "\"algo\": \"ring\", \"proto\": \"ll\", \"channels\": 4"), ""},
                {ROW("allgather", "\"algo\": \"ring\", \"proto\": \"ll\", \"channels\": 4"),
                 "N2 from NCCL 2.29 on"},
                {ROW("allgather", "\"algo\": \"ring\", \"proto\": \"ll\""), ""},
                {ROW("allreduce", "\"algo\": \"ring\", \"proto\": \"ll\", \"gain\": -0.125"),
                 "W2 (gain -0.125)"},
                {ROW("allreduce", "\"algo\": \"ring\", \"proto\": \"ll\", \"gain\": 0"), ""},
                {ROW("allreduce", "\"algo\": \"ring\", \"proto\": \"simple\", \"chunk\": 511"),
                 "W2 less than the 512 bytes"},
                {ROW("allreduce", "\"algo\": \"ring\", \"proto\": \"simple\", \"chunk\": 512"), ""},
                {ROW("allreduce", "\"algo\": \"ring\", \"proto\": \"ll128\", \"chunk\": 4096"),
                 "N2 rounds it down to 3840"},
                {ROW("allreduce", "\"kernel\": \"symk RSxLD_AGxST\", \"ctas\": 4, \"cluster\": 2"),
                 ""},
                {ROW("broadcast", "\"kernel\": \"symk ST\""),
                 "E2 no symmetric kernel in any NCCL: ST does nothing"},
                {ROW("reduce", "\"kernel\": \"symk ST\""), "E2 no symmetric kernel"},
                {ROW("allreduce", "\"cta_policy\": \"zero\""), "W2 only all-gather"},
                {ROW("allreduce", "\"cta_policy\": \"efficiency\""), ""},
                {ROW("allgather", "\"cta_policy\": \"zero\""), ""},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                check(rows[i].text, rows[i].expected);
}

Test(check, neighbours)
{
        static const struct row rows[] = {
                {RULES(WHEN(
                         "",
                         "\"allreduce\": [{\"upto\": 8, \"ctas\": 2},\n{\"upto\": \"max\", \"ctas\": 4}]")),
                 ""},
                {RULES(WHEN("\"nccl\": \"-2.30\"",
                            "\"allreduce\": [\n{\"upto\": \"max\", \"ctas\": 4}]")),
                 "E3 NCCL before 2.31 has no calls"},
                {RULES(WHEN(
                         "\"nccl\": \"-2.29\"",
                         "\"allreduce\": [\n{\"upto\": \"max\", \"algo\": \"ring\", \"proto\": \"ll\", \"chunk\": 4096}]")),
                 "E3 NCCL before 2.30 asks no tuner for it"},
                {RULES(WHEN("\"link\": \"nvlink\"",
                            "\"allreduce\": [\n{\"upto\": \"max\", \"ctas\": 4}]")),
                 "E3 known only after the call is made"},
                {RULES(WHEN("", "\"allreduce\": [{\"upto\": 8, \"leave\": true},\n" LEAVE "]")),
                 ""},
                {RULES(WHEN("", "\"allreduce\": [" RING("8") ",\n" RING("\"max\"") "]")), ""},
                {RULES(WHEN("", "\"allreduce\": [" RING("8") ",\n" LEAVE "]")), ""},
                {RULES(WHEN("", "\"allreduce\": [" LEAVE "], \"reduce\": [\n" LEAVE "]")), ""},
                {RULES(WHEN("\"nodes\": 2", "\"allreduce\": [" LEAVE "]") ",\n" WHEN(
                         "\"nodes\": 3", "\"allreduce\": [" LEAVE "]")),
                 ""},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                check(rows[i].text, rows[i].expected);
}

Test(check, conditions_that_never_hold)
{
        static const struct row rows[] = {
                {ONE("\"layout\": \"3+5\""), ""},
                {ONE("\"layout\": \"even\", \"nodes\": 3"), ""},
                {ONE("\"layout\": \"uneven\", \"nodes\": 3"), ""},
                {ONE("\"layout\": \"3+5\", \"nodes\": 2, \"ranks\": 8, \"min_local\": 3, \"max_local\": 5"),
                 ""},
                {ONE("\"layout\": \"3+5\", \"nodes\": \"2-3\", \"ranks\": \"7-8\""), ""},
                {ONE("\"layout\": \"3+5\", \"nodes\": 3"),
                 "E2 layout 3+5 has 2 nodes and 8 ranks, 3 to 5 on a node"},
                {ONE("\"layout\": \"3+5\", \"nodes\": 1"), "E2 never holds: layout"},
                {ONE("\"nccl\": \"2.13-2.18\""), "E2 never holds: NCCL before 2.19.1"},
                {ONE("\"layout\": \"3+5\", \"ranks\": \"9-\""), "E2 never holds: layout"},
                {ONE("\"trays\": \"3+5\", \"ranks\": \"9-\""), "E2 never holds: trays 3+5"},
                {ONE("\"trays\": \"3+5\", \"nodes\": 3"),
                 "E2 never holds: trays 3+5 have 8 ranks on at most 2"},
                {ONE("\"class\": \"gb200-nvl72/8\", \"layout\": \"4+4\", \"nodes\": 2"),
                 "W2 inside one NVLink domain"},
                {ONE("\"class\": \"gb200-nvl72/8\", \"layout\": \"4+4\""),
                 "W2 inside one NVLink domain"},
                {ONE("\"layout\": \"3+5\", \"min_local\": 5"), "E2 never holds: layout"},
                {ONE("\"layout\": \"3+5\", \"max_local\": 3"), "E2 never holds: layout"},
                {ONE("\"nodes\": 4, \"ranks\": 3"), "E2 fewer ranks than nodes"},
                {ONE("\"nodes\": 4, \"ranks\": 4"), ""},
                {ONE("\"ranks\": 8, \"min_local\": 9"), "E2 fewer ranks than min_local"},
                {ONE("\"nodes\": 2, \"ranks\": 8, \"min_local\": 5"),
                 "E2 fewer ranks than min_local"},
                {ONE("\"nodes\": 2, \"ranks\": 7, \"layout\": \"even\""), "E2 not even"},
                {ONE("\"nodes\": 2, \"ranks\": \"7-8\", \"layout\": \"even\""), ""},
                {ONE("\"nodes\": 1, \"layout\": \"uneven\""), "E2 one node is even"},
                {ONE("\"nodes\": \"4-8\", \"ranks\": \"2-4\""), ""},
                {ONE("\"min_local\": 4, \"max_local\": 3"), "E2 min_local above max_local"},
                {ONE("\"min_local\": 4, \"max_local\": 4"), ""},
                {ONE("\"min_local\": 4"), ""},
                {ONE("\"max_local\": 4"), ""},
                {ONE("\"link\": \"nvlink\", \"nccl\": \"2.22-2.23\""), ""},
                {ONE("\"link\": \"nvlink\""), ""},
                {ONE("\"link\": \"nvlink\", \"nccl\": \"2.21\""),
                 "E2 NCCL before 2.22 shows no cost table"},
                {ONE("\"nccl\": \"2.21\""), ""},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                check(rows[i].text, rows[i].expected);
}

Test(check, bandwidths)
{
#define LARGE      "\"allreduce\": [{\"upto\": 16777215, \"leave\": true}, " RING("\"max\"") "]"
#define FROM(upto) "\"allreduce\": [" RING(upto) ",\n" LEAVE "]"
        static const struct row rows[] = {
                {RULES(WHEN("\"ring_gbs\": \"1-2\"", LARGE)), ""},
                {RULES(WHEN("\"tree_gbs\": \"1-2\"", FROM("16777216"))), ""},
                {RULES(WHEN("\"tree_gbs\": \"1-2\"", FROM("16777215"))), "E2 known from 16 MiB on"},
                {RULES(WHEN("\"ring_gbs\": \"1-2\"", FROM("16777215"))), "E2 known from 16 MiB on"},
                {RULES(WHEN("\"ring_gbs\": \"1-2\"",
                            "\"broadcast\": [" RING("16777215") ",\n" LEAVE "]")),
                 "E2 known from"},
                {RULES(WHEN("", FROM("16777215"))), ""},
                {RULES(WHEN("\"ring_gbs\": \"1-2\", \"nccl\": \"2.21\"", LARGE)),
                 "E2 no cost table"},
                {RULES(WHEN("\"tree_gbs\": \"1-2\", \"nccl\": \"2.21\"", LARGE)),
                 "E2 no cost table"},
                {RULES(WHEN("\"tree_gbs\": \"1-2\", \"nccl\": \"2.22\"", LARGE)), ""},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                check(rows[i].text, rows[i].expected);
}

Test(check, constants)
{
        static const struct row rows[] = {
                {RULES("{\"when\": {}}"), "W2 neither rows nor constants"},
                {CONST(""), ""},
                {CONST("\"nccl\": \"2.28\""), ""},
                {CONST("\"nccl\": \"2.27\""), "E2 NCCL before 2.28"},
                {CONST("\"nccl\": \"2.27-2.28\""), ""},
                {CONST("\"pipe_ops\": 1"), "E2 change from call to call"},
                {CONST("\"nodes\": 2"), ""},
                {ONE("\"reg_buff\": true"), "W2 reg_buff may differ"},
                {ONE("\"reg_buff\": false"), "W2 reg_buff may differ"},
                {ONE("\"comm\": \"x*\""), "W2 comm is set by hand"},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                check(rows[i].text, rows[i].expected);
}

/* Two rules of one profile have different conditions, so it takes "wins" by other keys to cover a
 * list. */
Test(check, lists_that_cannot_win)
{
        static const struct row rows[] = {
                {RULES(WHEN("\"nodes\": 2", ROWS) ",\n" WHEN("", ROWS)), ""},
                {RULES(WHEN("\"nodes\": \"2-4\"", ROWS) ",\n" WHEN("\"nodes\": 3", ROWS)), ""},
                {RULES(WHEN("\"nodes\": 2", ROWS) ",\n" WHEN("\"ranks\": 8", ROWS)), ""},
                {RULES(WHEN("", ROWS) ",\n" WHEN("", ROWS)),
                 "E3 allreduce rows cannot win: the rule of line 2"},
                {RULES(WHEN("", ROWS) ",\n" WHEN("", "\"reduce\": [" LEAVE "]")), ""},
                {RULES(WHEN("", "\"reduce\": [" LEAVE "]") ",\n" WHEN("", ROWS) ",\n" WHEN("",
                                                                                           ROWS)),
                 "E4 the rule of line 3"},
#define TWICE(when) RULES(WHEN(when, ROWS) ",\n" WHEN(when, ROWS))
                {TWICE("\"layout\": \"3+5\""), "E3 cannot win"},
                {TWICE("\"class\": \"a\""), "E3 cannot win"},
                {TWICE("\"link\": \"other\""), "E3 cannot win"},
                {TWICE("\"pipe_ops\": \"2-4\""), "E3 cannot win"},
                {RULES(WHEN("\"class\": \"a\"", ROWS) ",\n" WHEN("\"class\": \"b\"", ROWS)), ""},
                {RULES(WHEN("\"link\": \"nvlink\"", ROWS) ",\n" WHEN("\"link\": \"other\"", ROWS)),
                 ""},
                {RULES(WHEN("\"layout\": \"3+5\"", ROWS) ",\n" WHEN("\"layout\": \"4+4\"", ROWS)),
                 ""},
                {RULES(WHEN("\"nccl\": \"2.28\"", ROWS) ",\n" WHEN("\"nccl\": \"2.29\"", ROWS)),
                 ""},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                check(rows[i].text, rows[i].expected);
}

/* One key of two rules: alike, the second never wins; else it does. */
Test(check, every_condition_tells_two_rules_apart)
{
        static const struct {
                const char *key, *a, *b;
        } rows[] = {
                {"nodes", "2", "3"},
                {"ranks", "8", "9"},
                {"min_local", "2", "3"},
                {"max_local", "2", "3"},
                {"nccl", "\"2.28\"", "\"2.29\""},
                {"pipe_ops", "1", "2"},
                {"ring_gbs", "1", "2"},
                {"tree_gbs", "1", "2"},
                {"layout", "\"3+5\"", "\"4+4\""},
                {"class", "\"a\"", "\"b\""},
                {"comm", "\"a\"", "\"b\""},
                {"link", "\"nvlink\"", "\"other\""},
                {"reg_buff", "true", "false"},
                {"reg_buff", "false", "true"},
                {"nodes", "\"2-4\"", "\"3-5\""},
                {"nodes", "\"2-4\"", "\"1-3\""},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                for (int same = 0; same < 2; same++) {
                        struct capo_profile *p = NULL;
                        char text[1000];

                        snprintf(text, sizeof text,
                                 RULES(WHEN("\"%s\": %s", LARGE) ",\n" WHEN("\"%s\": %s", LARGE)),
                                 rows[i].key, rows[i].a, rows[i].key, same ? rows[i].a : rows[i].b);
                        cr_assert_eq(capo_profile_parse(text, strlen(text), "f", &p, NULL), 0, "%s",
                                     text);
                        said[0] = 0;
                        capo_profile_check(p, keep, said);
                        cr_expect_eq(
                                strstr(said,
                                       "E3 the allreduce rows cannot win: the rule of line 2") !=
                                        NULL,
                                same, "%s\n%s", text, said);
                        capo_profile_free(p);
                }
        }
}

static void count(void *user, enum capo_finding_level level, uint32_t line, const char *text)
{
        ++*(unsigned *)user;
}

/* Lines that make each other known one at a time, from the last to the first. */
Test(check, many_lines, .timeout = 60)
{
        enum { STEPS = 6000, WIDE = 6000 };
        struct capo_profile *p = NULL;
        unsigned n = 0;
        char *text;
        size_t size;
        FILE *f = open_memstream(&text, &size);

        for (int i = STEPS; i > 0; i--)
                fprintf(f, "allreduce,%d,%d,ring,ll,-1,-1,-1\n", i, i);
        for (int i = 0; i < WIDE; i++)
                fprintf(f, "allreduce,1,%d,ring,ll,-1,-1,%d\n", STEPS, i + 2);
        fclose(f);
        cr_assert_eq(capo_profile_parse(text, size, "f", &p, NULL), 0);
        cr_expect_eq(capo_profile_check(p, count, &n), WIDE);
        capo_profile_free(p);
        free(text);
}

#define LINE(from, upto, rest) "allreduce," from "," upto ",ring,ll,1," rest "\n"

Test(check, lines_of_csv)
{
        static const struct row rows[] = {
                {LINE("0", "10", "-1,-1") LINE("11", "max", "-1,-1"), ""},
                {LINE("0", "10", "-1,-1") LINE("0", "10", "-1,-1"),
                 "E2 line 1 and those before it cover all"},
                {LINE("0", "10", "-1,-1") LINE("2", "9", "4,8"), "E2 line 1 and"},
                {LINE("0", "10", "4,8") LINE("2", "9", "-1,-1"), ""},
                {LINE("0", "10", "-1,-1") LINE("2", "11", "-1,-1"), ""},
                {LINE("0", "10", "-1,-1") LINE("10", "20", "-1,-1"), ""},
                {LINE("5", "10", "-1,-1") LINE("0", "5", "-1,-1"), ""},
                {LINE("5", "10", "-1,-1") LINE("0", "4", "-1,-1"), ""},
                {LINE("11", "20", "-1,-1") LINE("0", "10", "-1,-1") LINE("5", "15", "-1,-1"),
                 "E3 line 2 and"},
                {LINE("11", "20", "-1,-1") LINE("0", "10", "-1,-1") LINE("0", "max", "-1,-1")
                         LINE("5", "15", "-1,-1"),
                 "E4 line 3 and"},
                {LINE("12", "20", "-1,-1") LINE("0", "10", "-1,-1") LINE("5", "15", "-1,-1"), ""},
                {LINE("0", "10", "-1,-1") "reduce,0,10,ring,ll,1,-1,-1\n", ""},
                {LINE("0", "100", "-1,-1") LINE("5", "9", "-1,-1") LINE("101", "200", "-1,-1"),
                 "E2 line 1 and"},
                {"allreduce,0,10,nvls,ll,1,-1,-1\n", "E1 has no NVLS"},
                {"allreduce,0,10,ring,ll,1,8,4\n", "E1 fewer ranks than nodes"},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                check(rows[i].text, rows[i].expected);
}

Test(check, whole_profiles)
{
        static const char head[] = "{\"capo_profile\": 1, \"rules\": []}";
        char *text;
        size_t size;
        FILE *f = open_memstream(&text, &size);

        check(head, "W0 no provenance;W0 no rules");
        check(RULES(""), "W0 no rules");
        fputs("{\"capo_profile\": 1, \"provenance\": {\"by\": 1}, \"rules\": [{\"when\": {}, \"allreduce\": [",
              f);
        for (int i = 1; i < 65534; i++)
                fprintf(f, "{\"upto\": %d, \"algo\": \"%s\", \"proto\": \"ll\"}, ", i,
                        i % 2 ? "ring" : "tree");
        fflush(f);
        fputs(LEAVE "]}]}", f);
        fflush(f);
        check(text, "");
        fseek(f, -(long)sizeof(LEAVE "]}]}") + 1, SEEK_CUR);
        fputs("{\"upto\": 65534, \"algo\": \"tree\", \"proto\": \"ll\"}, " LEAVE "]}]}", f);
        fclose(f);
        check(text, "W0 65535 rows: logs can tell the first 65534 apart");
        free(text);
        f = open_memstream(&text, &size);
        for (int i = 0; i < 20001; i++)
                fprintf(f, "allreduce,%d,%d,ring,ll,1,-1,-1\n", i, i);
        fclose(f);
        check(text, "N0 more than 20000 lines");
        free(text);
}

/* Older versions wrote what NCCL's cost table says for each layout. */
Test(check, layouts_of_older_versions)
{
        check(DOC("\n\"layouts\": [{\"layout\": \"4+4\", \"allreduce\": [1, 2]}, 7], \"rules\": [" WHEN(
                      "", ROWS) "]"),
              "N2 \"layouts\" has no effect");
}

Test(check, the_first_contradiction_is_given)
{
        struct capo_when w = {.nodes = {2, 2},
                              .ranks = {8, 8},
                              .min_local = {5, 5},
                              .max_local = CAPO_ANY,
                              .layout = "4+4"};
        char why[160];

        cr_expect(capo_when_never(&w, why, sizeof why));
        cr_expect_str_eq(why, "layout 4+4 has 2 nodes and 8 ranks, 4 to 4 on a node");
        w.layout = NULL;
        cr_expect(capo_when_never(&w, why, sizeof why));
        cr_expect_str_eq(why, "fewer ranks than min_local on each node");
        w.min_local = CAPO_ANY;
        cr_expect(!capo_when_never(&w, why, sizeof why));
}
