/* SPDX-License-Identifier: Apache-2.0 */
/* Tables as measurements (CSV of NVIDIA's example tuner): columns, repeats, and rows that are wrong. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/calls.h"
#include "profiles/import/import.h"
#include "tests/log_numbers.h"

static struct capo_samples set;
static char error[512];

static int import(const char *text)
{
        char path[] = "/tmp/capo-table-XXXXXX";
        FILE *f = fdopen(mkstemp(path), "w");
        int r;

        fputs(text, f);
        fclose(f);
        r = capo_import(path, NULL, &set, error, sizeof error);
        unlink(path);
        return r;
}

static void finish(void) { capo_samples_free(&set); }

TestSuite(table, .fini = finish);

#define HEADS "collective,size_bytes,algorithm,protocol,channels,nodes,ranks,latency_us\n"
#define GOOD  "allreduce,1024,default,default,-1,1,8,12.5\n"

static const char *note(size_t i) { return i < set.n_notes ? set.notes[i] : ""; }

Test(table, columns_by_their_names)
{
        cr_assert_eq(
                import("collective,latency_us,note,size_bytes,algorithm,protocol,channels,nodes,ranks\r\n"
                       "allreduce,12.5,x,1K,ring,ll128,4,2,16\r\n\r\n# a remark\r\n"
                       "allgather,13,,2048,default,auto,-1,1,8\r\n"),
                0, "%s", error);
        cr_assert_eq(set.n, 2);
        cr_expect_eq(set.v[0].bytes, 1024);
        cr_expect_float_eq(set.v[0].us, 12.5, 0);
        cr_expect_eq(set.v[0].want, CAPO_ALGO_PROTO(CAPO_ALGO_RING, CAPO_PROTO_LL128));
        cr_expect_eq(set.v[0].want_channels, 4);
        cr_expect_eq(set.runs[set.v[0].run].n_nodes, 2);
        cr_expect_str_eq(set.runs[set.v[0].run].layout, "",
                         "16 ranks on two nodes may lie in many ways");
        cr_expect_eq(set.v[1].want, 0);
        cr_expect_eq(set.v[1].call, CAPO_CALL_ALLGATHER);
        cr_expect_str_eq(set.runs[set.v[1].run].layout, "8");
        cr_expect_eq(set.n_notes, 0);
}

Test(table, a_wrong_row_is_named_and_costs_only_itself)
{
        static const struct {
                const char *row, *said;
        } rows[] = {
                {"allreduce,1024,default", ":3: expected 8 fields, found 3"},
                {"allreduce,1024,default,default,-1,1,8,12.5,1", ":3: expected 8 fields, found 9"},
                {"nothing,1024,default,default,-1,1,8,12.5",
                 ":3: expected a collective, found \"nothing\""},
                {"allreduce,0,default,default,-1,1,8,12.5",
                 ":3: expected a size in bytes, found \"0\""},
                {"allreduce,1024,best,default,-1,1,8,12.5", ":3: expected an algorithm"},
                {"allreduce,1024,ring,fast,-1,1,8,12.5", ":3: expected a protocol"},
                {"allreduce,1024,ring,ll,128,1,8,12.5", ":3: expected channels"},
                {"allreduce,1024,ring,ll,-1,1,1,12.5", ":3: expected at least 2 ranks"},
                {"allreduce,1024,ring,ll,-1,1,8,0",
                 ":3: expected a time in us above 0, found \"0\""},
                {"allreduce,1024,ring,ll,-1,1,8,1e",
                 ":3: expected a time in us above 0, found \"1e\""},
                {"allreduce,1024,ring,ll,-1,1,8,inf", ":3: expected a time in us above 0"},
        };

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                char text[512];

                snprintf(text, sizeof text,
                         HEADS GOOD "%s\nallreduce,2048,default,default,-1,1,8,13\n", rows[i].row);
                cr_expect_eq(import(text), 0, "%s: %s", rows[i].row, error);
                cr_expect_eq(set.n, 2, "%s: %zu samples", rows[i].row, set.n);
                cr_expect(set.n_notes == 1 && strstr(note(0), rows[i].said), "%s: %s", rows[i].row,
                          note(0));
                capo_samples_free(&set);
        }
}

Test(table, where_every_row_is_wrong_the_file_is)
{
        cr_expect_eq(import(HEADS "x\ny\n"), -EINVAL);
        cr_expect(strstr(error, ":2: expected 8 fields, found 1"), "%s", error);
        cr_expect_eq(import("collective,size_bytes\nallreduce,1024\n"), -EINVAL);
        cr_expect(strstr(error, ":1: expected a column \"algorithm\""), "%s", error);
}

Test(table, the_k_th_repeat_of_each_candidate_is_a_run)
{
        static const uint32_t runs[] = {0, 0, 1, 1, 2};

        cr_assert_eq(import(HEADS GOOD "allreduce,1024,ring,ll,-1,1,8,11\n" GOOD
                                       "allreduce,1024,ring,ll,-1,1,8,11.1\n" GOOD),
                     0, "%s", error);
        cr_assert_eq(set.n, 5);
        for (size_t i = 0; i < 5; i++) {
                cr_expect_eq(set.v[i].order, i + 2, "in the order of the file");
                cr_expect_eq(set.v[i].run, runs[i], "row %zu: run %u", i, set.v[i].run);
        }
}

/* Registered buffers and fused operations are another question: nothing to compare with. */
Test(table, rows_of_other_buffers_are_other_settings)
{
#define MORE \
        "collective,size_bytes,algorithm,protocol,channels,nodes,ranks,pipeOps,regBuff,latency_us\n"
        cr_assert_eq(import(MORE "allreduce,1024,default,default,-1,1,8,-1,-1,12\n"
                                 "allreduce,1024,ring,ll,-1,1,8,1,0,11\n"
                                 "allreduce,1024,tree,ll,-1,1,8,1,1,5\n"
                                 "allreduce,1024,tree,simple,-1,1,8,4,1,4\n"
                                 "allreduce,1024,ring,simple,-1,1,8,x,1,4\n"),
                     0, "%s", error);
        cr_assert_eq(set.n, 4);
        cr_assert_eq(set.n_runs, 3);
        cr_expect_str_eq(set.runs[0].settings, "");
        cr_expect_str_eq(set.runs[1].settings, "regBuff=1");
        cr_expect_str_eq(set.runs[2].settings, "pipeOps=4 regBuff=1");
        cr_expect(set.v[0].run == 0 && set.v[1].run == 0 && set.v[2].run == 1 && set.v[3].run == 2);
        cr_expect(strstr(note(0), ":6: expected a number or -1, found \"x\""), "%s", note(0));
}
