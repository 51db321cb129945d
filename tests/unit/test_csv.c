/* SPDX-License-Identifier: Apache-2.0 */
/* The CSV form: what a line becomes, what rules lines make, what JSON loses on the way. Bad lines:
 * test_profile.c. */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capo/profile.h"
#include "core/base/util.h"
#include "core/profile/profile_check.h"
#include "tests/log_numbers.h"

static struct capo_fault fault;

static struct capo_profile *read_text(const char *text, int expected)
{
        struct capo_profile *p = NULL;

        fault.text[0] = 0;
        cr_assert_eq(capo_profile_parse(text, strlen(text), "f", &p, &fault), expected, "%s: %s",
                     text, fault.text);
        return p;
}

Test(csv, fields)
{
        static const struct {
                const char *line;
                uint64_t from, upto;
                int coll, algo, proto, channels, nodes, ranks, pipe_ops, reg_buff;
        } rows[] = {
                {"allreduce,0,10,ring,ll,1,2,8", 0, 10, CAPO_COLL_ALLREDUCE, CAPO_ALGO_RING,
                 CAPO_PROTO_LL, 1, 2, 8, -1, -1},
                {" all_gather , 1K , 1M , NVLS , Simple , 64 , 1 , 1 , 1 , 0 ", 1024, 1 << 20,
                 CAPO_COLL_ALLGATHER, CAPO_ALGO_NVLS, CAPO_PROTO_SIMPLE, 64, 1, 1, 1, 0},
                {"reduce,7,7,tree,ll128,-1,-1,-1,-1,-1", 7, 7, CAPO_COLL_REDUCE, CAPO_ALGO_TREE,
                 CAPO_PROTO_LL128, 0, -1, -1, -1, -1},
                {"\tbroadcast,0,max,ring,ll,-1,16777216,16777216,16777216,1\t\r", 0, UINT64_MAX,
                 CAPO_COLL_BROADCAST, CAPO_ALGO_RING, CAPO_PROTO_LL, 0, 1 << 24, 1 << 24, 1 << 24,
                 1},
                {"reducescatter,0,1,pat,simple,2,3,4,5#,1", 0, 1, CAPO_COLL_REDUCESCATTER,
                 CAPO_ALGO_PAT, CAPO_PROTO_SIMPLE, 2, 3, 4, 5, -1},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_profile *p = read_text(rows[i].line, 0);
                const struct capo_row *row = &p->rows[0];
                const struct capo_when *when = &p->rules[0].when;

                cr_assert(p->csv && p->n_rows == 1 && p->n_rules == 1);
                cr_expect(row->from == rows[i].from && row->upto == rows[i].upto, "row %zu", i);
                cr_expect(row->coll == rows[i].coll && row->algo == rows[i].algo &&
                                  row->proto == rows[i].proto,
                          "row %zu", i);
                cr_expect(row->channels == rows[i].channels && row->line == 1, "row %zu", i);
                cr_expect(isnan(row->us) && isnan(row->spread_us) && isnan(row->gain));
                cr_expect(when->nodes.min == rows[i].nodes && when->nodes.max == rows[i].nodes,
                          "row %zu", i);
                cr_expect(when->ranks.min == rows[i].ranks && when->ranks.max == rows[i].ranks,
                          "row %zu", i);
                cr_expect(when->pipe_ops.min == rows[i].pipe_ops &&
                                  when->pipe_ops.max == rows[i].pipe_ops,
                          "row %zu", i);
                cr_expect_eq(when->reg_buff, rows[i].reg_buff, "row %zu", i);
                cr_expect(p->rules[0].line == 1);
                cr_expect_eq(p->rules[0].basis, CAPO_BASIS_MEASURED);
                capo_profile_free(p);
        }
}

Test(csv, numbers_at_their_borders)
{
        static const struct {
                const char *line, *said; /* NULL: taken */
        } rows[] = {
                {"allreduce,0,10,ring,ll,65,1,1",
                 "f:1:24: expected a number of channels, 1 to 64, or -1, found 65"},
                {"allreduce,0,10,ring,ll,1.5,1,1",
                 "f:1:24: expected a number of channels, 1 to 64, or -1, found 1.5"},
                {"allreduce,0,10,ring,ll,,1,1",
                 "f:1:24: expected a number of channels, 1 to 64, or -1, found nothing"},
                {"allreduce,0,10,ring,ll,1,0,1",
                 "f:1:26: expected a number of nodes or -1, found 0"},
                {"allreduce,0,10,ring,ll,1,16777217,1",
                 "f:1:26: expected a number of nodes or -1, found 16777217"},
                {"allreduce,0,10,ring,ll,1,1,0",
                 "f:1:28: expected a number of ranks or -1, found 0"},
                {"allreduce,0,10,ring,ll,1,1,1,0",
                 "f:1:30: expected a number of pipelined operations or -1, found 0"},
                {"allreduce,0,10,ring,ll,1,1,1,1,-2",
                 "f:1:32: expected 0, 1 or -1 (registered buffers), found -2"},
                {"allreduce,0,10,ring,ll,1,1,1,1,0", NULL},
                {"allreduce,10,10,ring,ll,1,1,1", NULL},
                {"rung,0,10,ring,ll,1,1,1",
                 "f:1:1: expected a collective: allreduce, broadcast, reduce, allgather, "
                 "reducescatter, found rung"},
                {"allreduce,0,10,ring,l\x01l,1,1,1",
                 "f:1:21: expected a protocol: ll, ll128, simple, found l?l"},
                {"allreduce,0,10,ring,l\x7fl,1,1,1",
                 "f:1:21: expected a protocol: ll, ll128, simple, found l?l"},
                {"allreduce,0,10,ring,l~l,1,1,1",
                 "f:1:21: expected a protocol: ll, ll128, simple, found l~l"},
                {"allreduce,0,10,ring,l l,1,1,1",
                 "f:1:21: expected a protocol: ll, ll128, simple, found l l"},
                /* 47 bytes fit a field, 48 do not; 40 of them are said */
                {"allreduce,0,10,ring,12345678901234567890123456789012345678901234567,1,1,1",
                 "f:1:21: expected a protocol: ll, ll128, simple, found 1234567890123456789012345678901234567890"},
                {"allreduce,0,10,ring,123456789012345678901234567890123456789012345678,1,1,1",
                 "f:1:21: expected a protocol: ll, ll128, simple, found 1234567890123456789012345678901234567890"},
                {"allreduce,0,10",
                 "f:1:1: expected 8 to 10 fields (collective,min,max,algorithm,protocol,channels,"
                 "nodes,ranks,pipe_ops,reg_buff), found allreduce"},
                {"#\n\n  \n", "f:3:1: expected at least one line, found none"},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                capo_profile_free(read_text(rows[i].line, rows[i].said ? -EINVAL : 0));
                cr_expect_str_eq(fault.text, rows[i].said ? rows[i].said : "");
        }
}

/* A long line's later fields are counted and not kept; a byte 0 is in no word. */
Test(csv, bytes_0)
{
        static const char text[] = "allreduce,0,10,ring,ll\0,1,1,1\n";
        struct capo_profile *p = NULL;

        cr_expect_eq(capo_profile_parse(text, sizeof text - 1, "f", &p, &fault), -EINVAL);
        cr_expect(strstr(fault.text, "f:1:21: expected a protocol"), "%s", fault.text);
}

Test(csv, neighbours_make_a_rule)
{
#define A(rest) "allreduce,0,10,ring,ll,1," rest "\n"
#define R(rest) "reduce,0,10,ring,ll,1," rest "\n"
        static const struct {
                const char *text, *rules; /* lines of the rules */
        } rows[] = {
                {A("1,1") A("1,1") A("1,1"), "1"},
                {A("1,1") A("2,1") A("1,1"), "1 2 3"},
                {A("1,1") A("1,2"), "1 2"},
                {A("1,1,1") A("1,1,2"), "1 2"},
                {A("1,1,1,0") A("1,1,1,1"), "1 2"},
                {A("1,1") R("1,1") R("1,1"), "1"},
                {A("1,1") R("1,1") A("1,1"), "1 3"},
                {"# head\n\n" A("1,1") "   # between\n" A("1,1"), "3"},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_profile *p = read_text(rows[i].text, 0);
                char said[64] = "";
                size_t used = 0;

                for (uint32_t k = 0; k < p->n_rules; k++)
                        used += (size_t)snprintf(said + used, sizeof said - used, "%s%u",
                                                 k ? " " : "", p->rules[k].line);
                cr_expect_str_eq(said, rows[i].rules, "row %zu", i);
                capo_profile_free(p);
        }
}

#define HEAD \
        "# collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks,pipe_ops,reg_buff\n"

static int lines_of(const char *text)
{
        int n = 0;

        for (; *text; text++)
                n += *text == '\n';
        return n;
}

static void writes(const char *text, const char *csv, const char *lost, int n)
{
        struct capo_profile *p = read_text(text, 0);
        char *out, *left;
        size_t size;
        FILE *f = open_memstream(&out, &size), *g = open_memstream(&left, &size);

        cr_expect_eq(lines_of(lost), n);
        cr_expect_eq(capo_profile_write_csv(p, f, g), lines_of(csv), "%s", text);
        fclose(f);
        fclose(g);
        cr_expect(!strncmp(out, HEAD, sizeof HEAD - 1));
        cr_expect_str_eq(out + sizeof HEAD - 1, csv);
        cr_expect_str_eq(left, lost);
        f = open_memstream(&out, &size);
        cr_expect_eq(capo_profile_write_csv(p, f, NULL), lines_of(csv),
                     "nobody wants to know what is lost");
        fclose(f);
        capo_profile_free(p);
}

Test(csv, written)
{
#define JSON(when, rest) "{\"capo_profile\": 1, \"rules\": [\n{\"when\": {" when "}, " rest "}]}"
#define ROWS                                                                                                      \
        "\"allreduce\": [\n{\"upto\": 9, \"algo\": \"ring\", \"proto\": \"ll\"},\n{\"upto\": \"max\", \"algo\": " \
        "\"nvlstree\", \"proto\": \"simple\", \"channels\": 3}]"
        static const struct {
                const char *text, *csv, *lost;
                int n;
        } rows[] = {
                {"all_reduce,0,1K,RING,ll128,-1,2,8\nreduce,0,max,ring,ll,1,-1,-1,2,0\n",
                 "allreduce,0,1024,ring,ll128,-1,2,8,-1,-1\n"
                 "reduce,0,18446744073709551615,ring,ll,1,-1,-1,2,0\n",
                 "", 0},
                {JSON("\"nodes\": 2, \"ranks\": 8, \"pipe_ops\": 3, \"reg_buff\": true", ROWS),
                 "allreduce,0,9,ring,ll,-1,2,8,3,1\nallreduce,10,18446744073709551615,nvls_tree,simple,3,2,8,3,1\n",
                 "", 0},
                {JSON("\"nodes\": \"2-3\"", ROWS), "", "f:2: CSV cannot say nodes=2-3\n", 1},
                {JSON("\"ranks\": \"2-3\"", ROWS), "", "f:2: CSV cannot say ranks=2-3\n", 1},
                {JSON("\"pipe_ops\": \"2-3\"", ROWS), "", "f:2: CSV cannot say pipe_ops=2-3\n", 1},
                {JSON("\"layout\": \"3+5\"", ROWS), "", "f:2: CSV cannot say layout=3+5\n", 1},
                {JSON("\"min_local\": 3", ROWS), "", "f:2: CSV cannot say min_local=3\n", 1},
                {JSON("\"max_local\": 3", ROWS), "", "f:2: CSV cannot say max_local=3\n", 1},
                {JSON("\"class\": \"c\"", ROWS), "", "f:2: CSV cannot say class=c\n", 1},
                {JSON("\"comm\": \"c\"", ROWS), "", "f:2: CSV cannot say comm=c\n", 1},
                {JSON("\"link\": \"other\"", ROWS), "", "f:2: CSV cannot say link=other\n", 1},
                {JSON("\"nccl\": \"2.28.9\"", ROWS), "", "f:2: CSV cannot say nccl=2.28.9\n", 1},
                {JSON("\"ring_gbs\": 3", ROWS), "", "f:2: CSV cannot say ring_gbs=3\n", 1},
                {JSON("\"tree_gbs\": 3", ROWS), "", "f:2: CSV cannot say tree_gbs=3\n", 1},
                {JSON("", "\"reduce\": [\n{\"upto\": \"max\", \"leave\": true}]"), "",
                 "f:3: CSV cannot say \"leave to NCCL\"; lines with wider conditions may apply there\n",
                 1},
                {JSON("",
                      "\"constants\": [{\"table\": \"base_latency\", \"algo\": \"ring\", \"proto\": \"ll\", "
                      "\"value\": 1}], \"reduce\": [{\"upto\": \"max\", \"algo\": \"ring\", \"proto\": \"ll\"}]"),
                 "reduce,0,18446744073709551615,ring,ll,-1,-1,-1,-1,-1\n",
                 "f:2: CSV cannot say constants\n", 1},
                {JSON("", "\"basis\": \"modelled\", " ROWS), "",
                 "f:2: CSV cannot say \"modelled\": its lines would hold without being allowed\n",
                 1},
                {JSON("",
                      "\"reduce\": [{\"upto\": 9, \"ctas\": 4},\n{\"upto\": \"max\", \"algo\": \"ring\", "
                      "\"proto\": \"ll\", \"chunk\": 1024, \"kernel\": \"symk AB\"}]"),
                 "reduce,10,18446744073709551615,ring,ll,-1,-1,-1,-1,-1\n",
                 "f:2: CSV cannot say \"4 CTAs\"\nf:3: CSV cannot say \"symk AB\"\nf:3: CSV cannot say chunk\n",
                 3},
                {JSON("\"comm\": \"\\u001b[31m\"", ROWS), "", "f:2: CSV cannot say comm=?[31m\n",
                 1},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                writes(rows[i].text, rows[i].csv, rows[i].lost, rows[i].n);
}

Test(csv, a_full_disk_is_reported)
{
        struct capo_profile *p = read_text("allreduce,0,10,ring,ll,1,1,1", 0);
        FILE *full = fopen("/dev/full", "w");

        if (full) {
                cr_expect_eq(capo_profile_write_csv(p, full, NULL), -EIO);
                fclose(full);
        }
        capo_profile_free(p);
}

Test(csv, a_full_disk)
{
        struct capo_profile *p = NULL;
        FILE *full = fopen("/dev/full", "w");

        cr_assert_eq(capo_profile_parse("allreduce,0,10,ring,ll,1,1,1\n", 29, "t", &p, &fault), 0);
        cr_expect_eq(capo_profile_write_csv(p, full, NULL), -EIO);
        cr_expect_neq(capo_profile_write(p, full), 0);
        fclose(full);
        capo_profile_free(p);
}

Test(csv, every_collective_is_written)
{
        struct capo_profile *p = capo_profile_new("x");
        char text[1024] = "";
        FILE *f = fmemopen(text, sizeof text, "w");

        capo_profile_rule(p, CAPO_BASIS_MEASURED);
        for (uint8_t c = 0; c < CAPO_NCCL_COLLS; c++) {
                cr_assert_eq(capo_profile_row(p, &(struct capo_row){.coll = c,
                                                                    .upto = 100,
                                                                    .algo = CAPO_ALGO_RING,
                                                                    .proto = CAPO_PROTO_LL,
                                                                    .us = NAN,
                                                                    .spread_us = NAN,
                                                                    .gain = NAN}),
                             0);
                cr_assert_eq(capo_profile_row(p, &(struct capo_row){.coll = c,
                                                                    .upto = UINT64_MAX,
                                                                    .algo = CAPO_ALGO_TREE,
                                                                    .proto = CAPO_PROTO_LL,
                                                                    .us = NAN,
                                                                    .spread_us = NAN,
                                                                    .gain = NAN}),
                             0);
                cr_expect(p->rows[2 * c].from == 0 && p->rows[2 * c + 1].from == 101);
        }
        cr_assert_eq(capo_profile_write_csv(p, f, NULL), 2 * CAPO_NCCL_COLLS);
        fclose(f);
        cr_expect(strstr(text, "broadcast,0,100,ring") && strstr(text, "broadcast,101,") &&
                          strstr(text, "allreduce,101,"),
                  "%s", text);
        capo_profile_free(p);
}

Test(csv, constants_that_are_none)
{
        struct capo_profile *p = capo_profile_new("x");
        static const double values[] = {-1, NAN, INFINITY, -INFINITY};

        cr_expect_eq(capo_profile_constant(p, &(struct capo_constant){.value = 1}), -EINVAL,
                     "no rule");
        capo_profile_rule(p, CAPO_BASIS_MEASURED);
        for (size_t i = 0; i < sizeof values / sizeof *values; i++)
                cr_expect_eq(capo_profile_constant(p, &(struct capo_constant){.value = values[i]}),
                             -EINVAL, "%zu", i);
        cr_expect_eq(capo_profile_constant(
                             p, &(struct capo_constant){.table = CAPO_CONST_TABLES, .value = 1}),
                     -EINVAL);
        cr_expect_eq(capo_profile_constant(p, &(struct capo_constant){.value = 0}), 0);
        capo_profile_free(p);
}

/* Each table of constants has places in three directions, and none behind. */
Test(csv, places_of_constants)
{
        static const uint8_t places[CAPO_CONST_TABLES][3] = {
                [CAPO_CONST_BASE_LATENCY] = {7, 3, 1},  [CAPO_CONST_HW_LATENCY] = {3, 7, 3},
                [CAPO_CONST_LL_BW] = {4, 3, 1},         [CAPO_CONST_RING_LL128_BW] = {4, 3, 1},
                [CAPO_CONST_TREE_LL128_BW] = {4, 3, 1}, [CAPO_CONST_TREE_BW] = {4, 3, 1},
                [CAPO_CONST_NVLS_TREE_BW] = {4, 3, 1},
        };
        struct capo_profile *p = capo_profile_new("x");

        capo_profile_rule(p, CAPO_BASIS_MEASURED);
        for (uint8_t t = 0; t < CAPO_CONST_TABLES; t++) {
                struct capo_constant last = {.table = t, .value = 1};

                for (int k = 0; k < 3; k++)
                        last.index[k] = (uint8_t)(places[t][k] - 1);
                cr_expect_eq(capo_profile_constant(p, &last), 0, "table %u", t);
                for (int k = 0; k < 3; k++) {
                        struct capo_constant behind = last;

                        behind.index[k]++;
                        cr_expect_eq(capo_profile_constant(p, &behind), -EINVAL, "table %u, %d", t,
                                     k);
                }
        }
        capo_profile_free(p);
}

Test(csv, rows_of_what_there_is)
{
        static const struct {
                uint8_t coll, algo, proto, channels;
                int r;
        } rows[] = {{0, 1, 1, CAPO_CHANNELS_MAX, 0},
                    {0, 1, 1, CAPO_CHANNELS_MAX + 1, -EINVAL},
                    {CAPO_NCCL_COLLS, 1, 1, 1, -EINVAL},
                    {0, CAPO_NCCL_ALGOS + 1, 1, 1, -EINVAL},
                    {0, 1, CAPO_NCCL_PROTOS + 1, 1, -EINVAL},
                    {0, 0, 1, 1, -EINVAL},
                    {0, 1, 0, 1, -EINVAL},
                    {0, 0, 0, 0, 0}};

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                struct capo_profile *p = capo_profile_new("x");
                struct capo_row row = {.coll = rows[i].coll,
                                       .algo = rows[i].algo,
                                       .proto = rows[i].proto,
                                       .channels = rows[i].channels,
                                       .upto = 100};

                cr_expect_eq(capo_profile_row(p, &row), -EINVAL, "no rule");
                capo_profile_rule(p, CAPO_BASIS_MEASURED);
                cr_expect_eq(capo_profile_row(p, &row), rows[i].r, "row %zu", i);
                capo_profile_free(p);
        }
}
