/* SPDX-License-Identifier: Apache-2.0 */
/* The profile reader against tables of good and bad inputs: what is wrong must be named where it
 * stands. */
#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "capo/profile.h"
#include "core/profile/profile_json.h"
#include "core/base/util.h"
#include "tests/unit/comma.h"
#include "tests/log_numbers.h"

#define RULE(rows) "{\"capo_profile\": 1, \"rules\": [{\"when\": {}, \"allreduce\": [" rows "]}]}"
#define WHEN(when) "{\"capo_profile\": 1, \"rules\": [{\"when\": {" when "}}]}"
#define LAST       "{\"upto\": \"max\", \"leave\": true}"

/* Where and what: the fault must begin with "t:<where>: expected" and contain the word. */
static const struct bad {
        const char *text, *where, *has;
} bad[] = {
        {"", "1:1", "empty file"},
        {" \n\t ", "1:1", "empty file"},
        {"{", "1:2", "end of the file"},
        {"[]", "1:1", "a profile"},
        {"nonsense", "1:1", "8 to 10 fields"},
        {"{}", "1:1", "capo_profile"},
        {"{\"capo_profile\": 1}", "1:1", "key rules"},
        {"{\"capo_profile\": 2, \"rules\": []}", "1:18", "newer"},
        {"{\"capo_profile\": 0, \"rules\": []}", "1:18", "version"},
        {"{\"capo_profile\": 1.5, \"rules\": []}", "1:18", "version"},
        {"{\"capo_profile\": \"1\", \"rules\": []}", "1:18", "version"},
        {"{\"capo_profile\": 1, \"rules\": [],}", "1:33", "a key"},
        {"{\"capo_profile\": 1, \"rules\": []} x", "1:34", "nothing after"},
        {"{\"capo_profile\": 1,\n \"rulez\": []}", "2:2", "one of capo_profile, name"},
        {"{\"capo_profile\": 1, \"capo_profile\": 1, \"rules\": []}", "1:21", "only once"},
        {"{\"capo_profile\": 1 \"rules\": []}", "1:20", "\",\" or"},
        {"{\"capo_profile\" 1}", "1:17", "\":\""},
        {"{\"capo_profile\": 1, \"rules\": [{}]}", "1:31", "key when"},
        {"{\"capo_profile\": 1, \"rules\": [1]}", "1:31", "a rule"},
        {"{\"capo_profile\": 1, \"name\": \"a\nb\", \"rules\": []}", "1:31", "control"},
        {"{\"capo_profile\": 1, \"name\": \"\\x\", \"rules\": []}", "1:30", "an escape"},
        {"{\"capo_profile\": 1, \"name\": \"\\u0000\", \"rules\": []}", "1:30", "an escape"},
        {"{\"capo_profile\": 1, \"name\": \"\\ud800\", \"rules\": []}", "1:30", "surrogates"},
        {"{\"capo_profile\": 1, \"name\": \"\xff\", \"rules\": []}", "1:30", "UTF-8"},
        {"{\"capo_profile\": 1, \"name\": \"\xed\xa0\x80\", \"rules\": []}", "1:30", "UTF-8"},
        {"\xef\xbb\xbf{\"capo_profile\": 1, \"rules\": []}", "1:1", ""},
        {"{\"capo_profile\": 01, \"rules\": []}", "1:18", "version"},
        {"{\"capo_profile\": 1, \"provenance\": {\"a\": nul}, \"rules\": []}", "1:41", "a value"},
        {"{\"capo_profile\": 1, \"provenance\": {\"a\": 1, \"a\": 2}, \"rules\": []}", "1:44",
         "only once"},
        {RULE(""), "1:57", "at least one row"},
        {RULE("{\"upto\": 5, \"leave\": true}"), "1:67", "\"max\" in the last row"},
        {RULE("{\"upto\": 5, \"leave\": true}, {\"upto\": 5, \"leave\": true}, " LAST), "1:95",
         "above the row before"},
        {RULE("{\"upto\": \"5X\", \"leave\": true}, " LAST), "1:67", "a size"},
        {RULE("{\"upto\": -5, \"leave\": true}, " LAST), "1:67", "a size"},
        {RULE("{\"upto\": 5.5, \"leave\": true}, " LAST), "1:67", "a size"},
        {RULE("{\"upto\": 00, \"leave\": true}, " LAST), "1:67", "a size"},
        {RULE("{\"upto\": 0, \"leave\": true}, {\"upto\": 0, \"leave\": true}, " LAST), "1:95",
         "above the row before"},
        {RULE("{\"upto\": 18446744073709551616, \"leave\": true}, " LAST), "1:67", "below 2^64"},
        {RULE("{\"upto\":\"5X\", \"leave\": true}, " LAST), "1:66",
         "a size"}, /* blanks where writers put none */
        {RULE("{\"upto\":   \"5X\", \"leave\": true}, " LAST), "1:69", "a size"},
        {RULE("{\"upto\":\n\"5X\", \"leave\": true}, " LAST), "2:1", "a size"},
        {RULE("{\"upto\": 5 \"leave\": true}, " LAST), "1:69", "\",\" or"},
        {RULE("{\"upto\": 5,\n\"leave\": false}, " LAST), "2:10", "true"},
        {RULE("{\"leave\": true, \"upto\": 5, \"leave\": true}, " LAST), "1:85", "only once"},
        {RULE("{\"leave\": true}"), "1:58", "key upto"},
        {RULE("{\"upto\": \"max\"}"), "1:58", "algo and proto"},
        {RULE("{\"upto\": \"max\", \"algo\": \"ring\"}"), "1:58", "algo and proto"},
        {RULE("{\"upto\": \"max\", \"algo\": \"rung\", \"proto\": \"ll\"}"), "1:82",
         "one of tree, ring"},
        {RULE("{\"upto\": \"max\", \"algo\": 1, \"proto\": \"ll\"}"), "1:82", "one of tree, ring"},
        {RULE("{\"upto\": \"max\", \"algo\": \"ring\", \"proto\": \"lll\"}"), "1:99",
         "one of ll, ll128"},
        {RULE("{\"upto\": \"max\", \"leave\": false}"), "1:83", "true"},
        {RULE("{\"upto\": \"max\", \"leave\": true, \"algo\": \"ring\"}"), "1:58",
         "no algo, proto, channels"},
        {RULE("{\"upto\": \"max\", \"leave\": true, \"channels\": 2}"), "1:58",
         "no algo, proto, channels"},
        {RULE("{\"upto\": \"max\", \"algo\": \"ring\", \"proto\": \"ll\", \"channels\": 0}"),
         "1:117", "1 to 64"},
        {RULE("{\"upto\": \"max\", \"algo\": \"ring\", \"proto\": \"ll\", \"channels\": 65}"),
         "1:117", "1 to 64"},
        {RULE("{\"upto\": \"max\", \"algo\": \"ring\", \"proto\": \"ll\", \"us\": -1}"), "1:111",
         "at least 0"},
        {RULE("{\"upto\": \"max\", \"algo\": \"ring\", \"proto\": \"ll\", \"us\": 1e999}"), "1:111",
         "a number"},
        {RULE("{\"upto\": \"max\", \"algo\": \"ring\", \"proto\": \"ll\", \"usec\": 1}"), "1:105",
         "one of upto"},
        {WHEN("\"nods\": 2"), "1:41", "one of nodes, ranks"},
        {WHEN("\"nodes\": 2, \"nodes\": 2"), "1:53", "only once"},
        {WHEN("\"nodes\": -2"), "1:50", "whole number"},
        {WHEN("\"nodes\": 2.5"), "1:50", "whole number"},
        {WHEN("\"nodes\": \"8-4\""), "1:50", "whole number"},
        {WHEN("\"nodes\": \"-\""), "1:50", "whole number"},
        {WHEN("\"layout\": \"3+\""), "1:51", "a layout"},
        {WHEN("\"layout\": \"3+0\""), "1:51", "a layout"},
        {WHEN("\"layout\": 8"), "1:51", "a layout"},
        {WHEN("\"nccl\": 2.28"), "1:49", "NCCL versions"},
        {WHEN("\"nccl\": \"2\""), "1:49", "NCCL versions"},
        {WHEN("\"nccl\": \"2.30-2.28\""), "1:49", "NCCL versions"},
        {WHEN("\"link\": \"any\""), "1:49", "one of nvlink, other"},
        {WHEN("\"reg_buff\": 1"), "1:53", "true or false"},
        {WHEN("\"comm\": \"\""), "1:49", "not empty"},
        {"{\"capo_profile\": 1, \"rules\": [{\"when\": {}, \"basis\": \"guessed\"}]}", "1:53",
         "one of measured"},
        {"{\"capo_profile\": 1, \"rules\": [{\"when\": {}, \"constants\": [{\"table\": \"tree_bw\", \"value\": -1}]}]}",
         "1:88", "microseconds or GB/s, at least 0"},
        {"{\"capo_profile\": 1, \"rules\": [{\"when\": {}, \"constants\": [{\"table\": \"tree_bw\", \"value\": 1}]}]}",
         "1:58", "gpu, scale"},
        {"{\"capo_profile\": 1, \"rules\": [{\"when\": {}, \"constants\": [{\"table\": \"tree_bw\", \"gpu\": "
         "\"volta\", "
         "\"scale\": 3, \"value\": 1}]}]}",
         "1:104", "1, 2 or 4"},
        /* CSV */
        {"# only a comment\n", "1:1", "at least one line"},
        {"allreduce,0,10,ring,ll,1,1\n", "1:1", "8 to 10 fields"},
        {"allreduce,0,10,ring,ll,1,1,1,1,1,1\n", "1:1", "8 to 10 fields"},
        {"#x\nallredux,0,10,ring,ll,1,1,1\n", "2:1", "a collective"},
        {"allreduce,x,10,ring,ll,1,1,1\n", "1:11", "the smallest size"},
        {"allreduce,11,10,ring,ll,1,1,1\n", "1:14", "not below the smallest"},
        {"allreduce,0,10,rung,ll,1,1,1\n", "1:16", "an algorithm"},
        {"allreduce,0,10,ring,l,1,1,1\n", "1:21", "a protocol"},
        {"allreduce,0,10,ring,ll,0,1,1\n", "1:24", "1 to 64, or -1"},
        {"allreduce,0,10,ring,ll,1,-2,1\n", "1:26", "nodes or -1"},
        {"allreduce,0,10,ring,ll,1,1,\n", "1:28", "ranks or -1"},
        {"allreduce,0,10,ring,ll,1,1,1,1,2\n", "1:32", "0, 1 or -1"},
        {"barrier,0,10,ring,ll,1,1,1\n", "1:1", "a collective"},
        {"send,0,10,ring,ll,1,1,1\n", "1:1", "a collective"},
};

Test(profile, bad_input_is_named_where_it_stands)
{
        for (size_t i = 0; i < N_ELEMENTS(bad); i++) {
                struct capo_profile *p = NULL;
                struct capo_fault fault = {""};
                char head[64];
                int r = capo_profile_parse(bad[i].text, strlen(bad[i].text), "t", &p, &fault);

                snprintf(head, sizeof head, "t:%s: expected ", bad[i].where);
                cr_expect_eq(r, -EINVAL, "%s: %d", bad[i].text, r);
                cr_expect_null(p);
                cr_expect(!strncmp(fault.text, head, strlen(head)), "%s\n gave: %s\n want: %s",
                          bad[i].text, fault.text, head);
                cr_expect(strstr(fault.text, bad[i].has), "%s\n gave: %s\n want: %s", bad[i].text,
                          fault.text, bad[i].has);
        }
}

/* Every prefix of a good profile is refused, without a crash. */
Test(profile, cut_anywhere)
{
        static const char text[] = WHEN(
                "\"nodes\": \"2-4\", \"layout\": \"5+3\", \"nccl\": \"2.28\", \"comm\": \"d\\u00e9*\"");
        struct capo_profile *p;

        for (size_t n = 0; n < sizeof text - 1; n++)
                cr_expect_eq(capo_profile_parse(text, n, "t", &p, NULL), -EINVAL, "%zu", n);
        cr_assert_eq(capo_profile_parse(text, sizeof text - 1, "t", &p, NULL), 0);
        cr_expect_str_eq(p->rules[0].when.layout, "3+5");
        cr_expect_str_eq(p->rules[0].when.comm, "d\xc3\xa9*");
        cr_expect_eq(p->rules[0].when.nccl.max, 22899);
        capo_profile_free(p);
}

static char *written(const struct capo_profile *p)
{
        char *text;
        size_t size;
        FILE *f = open_memstream(&text, &size);

        cr_assert_eq(capo_profile_write(p, f), 0);
        fclose(f);
        return text;
}

static struct capo_profile *built(void)
{
        struct capo_profile *p = capo_profile_new("built \"here\"");
        struct capo_rule *rule;

        capo_profile_note(p, CAPO_PROVENANCE, "who", "a\n\"b\"\\");
        capo_profile_note_number(p, CAPO_PROVENANCE, "samples", 5120);
        rule = capo_profile_rule(p, CAPO_BASIS_MODELLED);
        rule->when.nodes = (struct capo_range){2, 2};
        rule->when.ranks = (struct capo_range){4, INFINITY};
        rule->when.nccl = (struct capo_range){22800, 23099};
        rule->when.ring_gbs = (struct capo_range){0, 22.5};
        rule->when.layout = capo_profile_keep(p, "3+5");
        rule->when.link = CAPO_LINK_NVLINK;
        rule->when.reg_buff = 0;
        cr_assert_eq(
                capo_profile_constant(p, &(struct capo_constant){.table = CAPO_CONST_HW_LATENCY,
                                                                 .index = {2, 1, 2},
                                                                 .value = 14}),
                0);
        cr_assert_eq(capo_profile_constant(p, &(struct capo_constant){.table = CAPO_CONST_TREE_BW,
                                                                      .index = {2, 1},
                                                                      .value = 24.25}),
                     0);
        cr_assert_eq(capo_profile_constant(p, &(struct capo_constant){.table = CAPO_CONST_TREE_BW,
                                                                      .index = {4, 1},
                                                                      .value = 1}),
                     -EINVAL);
        cr_assert_eq(capo_profile_row(p, &(struct capo_row){.upto = 65536,
                                                            .algo = CAPO_ALGO_TREE,
                                                            .proto = CAPO_PROTO_LL,
                                                            .channels = 2,
                                                            .coll = CAPO_COLL_ALLREDUCE,
                                                            .samples = 40,
                                                            .us = 41.5f,
                                                            .spread_us = 0.1f,
                                                            .gain = 0.18f}),
                     0);
        cr_assert_eq(
                capo_profile_row(p, &(struct capo_row){.upto = 65536, .coll = CAPO_COLL_ALLREDUCE}),
                -EINVAL);
        cr_assert_eq(capo_profile_row(p, &(struct capo_row){.upto = 65537,
                                                            .coll = CAPO_COLL_ALLREDUCE,
                                                            .algo = 1}),
                     -EINVAL);
        cr_assert_eq(capo_profile_row(p, &(struct capo_row){.upto = 5000000000,
                                                            .coll = CAPO_COLL_ALLREDUCE,
                                                            .us = NAN,
                                                            .spread_us = NAN,
                                                            .gain = NAN}),
                     0);
        cr_assert_eq(capo_profile_row(p, &(struct capo_row){.upto = UINT64_MAX,
                                                            .algo = CAPO_ALGO_NVLS_TREE,
                                                            .proto = CAPO_PROTO_SIMPLE,
                                                            .coll = CAPO_COLL_ALLREDUCE,
                                                            .us = NAN,
                                                            .spread_us = NAN,
                                                            .gain = -0.5f}),
                     0);
        return p;
}

Test(profile, what_is_built_is_written_and_read_back)
{
        struct capo_profile *p = built(), *q;
        struct capo_fault fault;
        char *first = written(p), *second;
        char when[300];
        json_t *json = json_loads(first, JSON_REJECT_DUPLICATES, NULL);

        cr_assert_not_null(json, "another reader understands it:\n%s", first);
        json_decref(json);
        cr_assert_eq(capo_profile_parse(first, strlen(first), "t", &q, &fault), 0, "%s\n%s",
                     fault.text, first);
        second = written(q);
        cr_expect_str_eq(first, second);
        cr_expect_str_eq(
                capo_when_print(&q->rules[0].when, when, sizeof when),
                "nodes=2 ranks=4- layout=3+5 link=nvlink ring_gbs=-22.5 nccl=2.28-2.30 reg_buff=false");
        cr_expect_eq(q->n_rows, 3);
        cr_expect_eq(q->rows[1].from, 65537);
        cr_expect_eq(q->rows[1].algo, 0);
        cr_expect_eq(q->rows[2].upto, UINT64_MAX);
        cr_expect_eq(q->rules[0].n_constants, 2);
        cr_expect_eq(strlen(q->digest), 32);
        capo_profile_free(p);
        capo_profile_free(q);
        free(first);
        free(second);
}

Test(profile, numbers_do_not_depend_on_the_locale)
{
        struct capo_profile *p = built();
        char *plain = written(p), *other;
        double value;

        comma_locale();
        other = written(p);
        cr_expect_str_eq(plain, other);
        cr_expect(capo_number_parse("22.5", 4, &value) && value == 22.5);
        cr_expect(capo_number_parse("1.25e-3", 7, &value) && value == 1.25e-3);
        capo_profile_free(p);
        free(plain);
        free(other);
}

Test(profile, numbers_are_those_of_strtod)
{
        static const char *const texts[] = {"0",
                                            "-0",
                                            "1",
                                            "0.1",
                                            "11.9",
                                            "123456789012345",
                                            "1234567890123456",
                                            "0.000123",
                                            "123456789.123456",
                                            "1e22",
                                            "1e23",
                                            "5e-324",
                                            "1.7976931348623157e308",
                                            "-3.25e2",
                                            "99999999999999.9",
                                            "9007199254740993"};
        double value;

        for (size_t i = 0; i < N_ELEMENTS(texts); i++) {
                cr_expect(capo_number_parse(texts[i], strlen(texts[i]), &value), "%s", texts[i]);
                cr_expect_eq(value, strtod(texts[i], NULL), "%s", texts[i]);
        }
        for (const char *t = ".5\0"
                             "5.\0"
                             "+5\0"
                             "0x5\0"
                             "1e\0"
                             "1e400\0"
                             "--1\0"
                             "1 \0";
             *t; t += strlen(t) + 1)
                cr_expect_not(capo_number_parse(t, strlen(t), &value), "%s", t);
}

Test(profile, sizes_are_64_bit)
{
        static const char text[] =
                RULE("{\"upto\": \"5G\", \"algo\": \"Ring\", \"proto\": \"LL128\"}, {\"upto\": "
                     "\"16T\", \"algo\": \"collnet_direct\", \"proto\": \"simple\"}, "
                     "{\"upto\": \"max\", \"algo\": \"NVLS-Tree\", \"proto\": \"Simple\"}");
        struct capo_profile *p;
        struct capo_fault fault;

        cr_assert_eq(capo_profile_parse(text, strlen(text), "t", &p, &fault), 0, "%s", fault.text);
        cr_expect_eq(p->rows[0].upto, 5ull << 30);
        cr_expect_eq(p->rows[1].upto, 16ull << 40);
        cr_expect_eq(p->rows[1].algo, CAPO_ALGO_COLLNET_DIRECT);
        cr_expect_eq(p->rows[2].algo, CAPO_ALGO_NVLS_TREE);
        capo_profile_free(p);
}

Test(profile, csv_of_8_9_and_10_fields)
{
        static const char text[] = "# NVIDIA's example\r\n"
                                   "allreduce,0,65536,tree,simple,2,1,-1,-1,1\r\n"
                                   " allreduce , 65537, 8589934592 ,ring,ll128,-1,-1,-1,4 # wide\n"
                                   "\n"
                                   "allgather,0,4294967295,nvls_tree,simple,4,2,-1";
        struct capo_profile *p;
        struct capo_fault fault;
        char *csv;
        size_t size;
        FILE *f = open_memstream(&csv, &size);

        cr_assert_eq(capo_profile_parse(text, strlen(text), "t", &p, &fault), 0, "%s", fault.text);
        cr_expect(p->csv);
        cr_expect_eq(p->n_rows, 3);
        cr_expect_eq(p->n_rules, 3);
        cr_expect_eq(p->rows[1].upto, 8589934592ull);
        cr_expect_eq(p->rows[1].channels, 0);
        cr_expect_eq(p->rows[1].line, 3);
        cr_expect_eq(p->rules[1].when.pipe_ops.min, 4);
        cr_expect_eq(p->rules[2].when.reg_buff, -1);
        cr_expect_eq(capo_profile_write_csv(p, f, NULL), 3);
        fclose(f);
        cr_expect(strstr(csv, "allreduce,65537,8589934592,ring,ll128,-1,-1,-1,4,-1\n"), "%s", csv);
        capo_profile_free(p);
        free(csv);
}

Test(profile, layouts)
{
        static const char *const pairs[][2] = {{"5+3", "3+5"},
                                               {" 5 + 3 ", "3+5"},
                                               {"8", "8"},
                                               {"8+3+8+5", "8+3+8+5"},
                                               {"8+3+8+5 in any order", "3+5+8+8 in any order"},
                                               {"min<max", "uneven"},
                                               {"Even", "even"}};
        char text[64];

        for (size_t i = 0; i < N_ELEMENTS(pairs); i++) {
                cr_expect_eq(capo_layout_canonical(pairs[i][0], text, sizeof text), 0);
                cr_expect_str_eq(text, pairs[i][1]);
        }
        cr_expect_eq(capo_layout_canonical("3++5", text, sizeof text), -EINVAL);
        cr_expect_eq(capo_layout_canonical("", text, sizeof text), -EINVAL);
        cr_expect_eq(capo_layout_canonical("3+5", text, 3), -ENOSPC);
}

/* What is accepted here is JSON to another reader too, and what that one refuses is refused here.
 */
Test(profile, agrees_with_jansson)
{
        static const char *const values[] = {"1",
                                             "-0.5e+10",
                                             "\"\\ud834\\udd1e\"",
                                             "[1, 2, [3]]",
                                             "{\"a\": {\"b\": null}}",
                                             "tru",
                                             "01",
                                             "1.",
                                             "[1,]",
                                             "{\"a\" 1}",
                                             "\"\\ud834\"",
                                             "\"a\tb\"",
                                             "nan",
                                             "[}",
                                             "\"\xc3\"",
                                             "1e5",
                                             "[[[[]]]]",
                                             "{,}",
                                             "'a'",
                                             "1e999",
                                             "+1",
                                             "\"\\u12\""};
        char text[200];

        for (size_t i = 0; i < N_ELEMENTS(values); i++) {
                struct capo_profile *p = NULL;
                json_t *json;

                snprintf(text, sizeof text,
                         "{\"capo_profile\": 1, \"provenance\": {\"x\": %s}, \"rules\": []}",
                         values[i]);
                json = json_loads(text, 0, NULL);
                cr_expect_eq(capo_profile_parse(text, strlen(text), "t", &p, NULL) == 0,
                             json != NULL, "%s", values[i]);
                json_decref(json);
                capo_profile_free(p);
        }
}

Test(profile, files_that_are_not_there_or_not_files)
{
        struct capo_profile *p;
        struct capo_fault fault;

        cr_expect_eq(capo_profile_load("/nonexistent/x.json", &p, &fault), -ENOENT);
        cr_expect(strstr(fault.text, "/nonexistent/x.json: No such file"), "%s", fault.text);
        cr_expect_eq(capo_profile_load("/", &p, &fault), -EISDIR);
        cr_expect_eq(capo_profile_load("/dev/zero", &p, &fault), -ENOTSUP);
        cr_expect_eq(capo_profile_load("/dev/null", &p, &fault), -ENOTSUP);
}

Test(profile, constants_of_each_scale)
{
        static const int good[] = {1, 2, 4}, wrong[] = {0, 3, 5};

        for (int i = 0; i < 6; i++) {
                struct capo_profile *p = NULL;
                char text[300];
                int r;

                snprintf(
                        text, sizeof text,
                        "{\"capo_profile\": 1, \"rules\": [{\"when\": {}, \"constants\": [{\"table\": \"tree_bw\", "
                        "\"gpu\": \"volta\", \"scale\": %d, \"value\": 1}]}]}",
                        i < 3 ? good[i] : wrong[i - 3]);
                r = capo_profile_parse(text, strlen(text), "t", &p, NULL);
                cr_expect_eq(r, i < 3 ? 0 : -EINVAL, "%s", text);
                if (r == 0)
                        cr_expect(p->rules[0].constants[0].index[0] == 0 &&
                                  p->rules[0].constants[0].index[1] == i);
                capo_profile_free(p);
        }
}

Test(profile, at_most_256_keys_of_provenance)
{
        for (int n = 256; n <= 257; n++) {
                struct capo_profile *p = NULL;
                char *text;
                size_t size;
                FILE *f = open_memstream(&text, &size);

                fputs("{\"capo_profile\": 1, \"provenance\": {", f);
                for (int i = 0; i < n; i++)
                        fprintf(f, "%s\"k%d\": 1", i ? ", " : "", i);
                fputs("}, \"rules\": []}", f);
                fclose(f);
                cr_expect_eq(capo_profile_parse(text, size, "t", &p, NULL), n > 256 ? -EINVAL : 0);
                capo_profile_free(p);
                free(text);
        }
}
