/* SPDX-License-Identifier: Apache-2.0 */
/* What is made of a text: runs, what they are taken for, and what is left out. docs/store.md has
 * the grammar of labels. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/calls.h"
#include "core/base/file.h"
#include "core/base/util.h"
#include "profiles/import/import.h"
#include "profiles/import/import_private.h"
#include "tests/log_numbers.h"

/* Three rows of eight ranks; @pre before each, @wrong values wrong. */
static void rows(FILE *f, double slow, const char *pre, const char *wrong)
{
        for (int i = 0; i < 3; i++) {
                double bytes = 1 << (20 + 2 * i), us = (bytes / 200e3 + 20) * slow,
                       gbs = bytes / us / 1e3;

                fprintf(f, "%s%12.0f %12.0f float sum -1 %.2f %.2f %.2f %s %.2f %.2f %.2f %s\n",
                        pre, bytes, bytes / 4, us, gbs, gbs * 1.75, wrong, us, gbs, gbs * 1.75,
                        wrong);
        }
}

static struct capo_samples set;
static char error[512];

/* Each format has a file in tests/fit/data. The tests of the suite fit and the fuzz target import
 * read those. */
Test(import, a_file_of_each_format)
{
        static const struct {
                const char *name;
                bool (*known)(const char *head, size_t n);
        } formats[] = {
#define IMPORTER(name, whole, what) {#name, capo_import_is_##name},
#include "profiles/import/importers.def"
        };
        bool found[N_ELEMENTS(formats)] = {false};
        DIR *folder = opendir(SOURCE_ROOT "/tests/fit/data");

        cr_assert(folder);
        for (struct dirent *d; (d = readdir(folder));) {
                _cleanup_free_ char *text = NULL;
                char path[4096];
                size_t size;

                snprintf(path, sizeof path, SOURCE_ROOT "/tests/fit/data/%s", d->d_name);
                if (*d->d_name == '.' || capo_file_read(path, 1u << 24, &text, &size) < 0)
                        continue;
                for (size_t i = 0; i < N_ELEMENTS(formats); i++) {
                        if (formats[i].known(text, size)) {
                                found[i] = true;
                                break;
                        }
                }
        }
        closedir(folder);
        for (size_t i = 0; i < N_ELEMENTS(formats); i++) /* logs are made by their tests */
                cr_expect(found[i] || !strcmp(formats[i].name, "log"),
                          "no file of tests/fit/data is of the format %s", formats[i].name);
}

static int import_as(const struct capo_label *label, const char *text)
{
        char path[] = "/tmp/capo-import-XXXXXX";
        FILE *f = fdopen(mkstemp(path), "w");
        double slow = 1;
        int r;

        for (const char *p = text; *p; p++) { /* % stands for rows, W for wrong ones */
                if (*p == '%')
                        rows(f, slow += 0.1, "", "0");
                else if (*p == 'W' && p[1] == '\n')
                        rows(f, slow += 0.1, "", "3.55843e+07");
                else
                        putc(*p, f);
        }
        fclose(f);
        r = capo_import(path, label, &set, error, sizeof error);
        unlink(path);
        return r;
}

static int import(const char *text)
{
        return import_as(&(struct capo_label){.call = CAPO_CALL_ALLREDUCE}, text);
}

static void finish(void) { capo_samples_free(&set); }

TestSuite(import, .fini = finish);

#define RING  CAPO_ALGO_PROTO(CAPO_ALGO_RING, 0)
#define TREE  CAPO_ALGO_PROTO(CAPO_ALGO_TREE, 0)
#define LL    CAPO_ALGO_PROTO(0, CAPO_PROTO_LL)
#define NCCLS 0
#define OUT   255 /* takes no part */

static const struct {
        const char *name, *text;
        int runs[4]; /* what each is taken for, -1 ends */
} labels[] = {
        {"nothing said", "%", {OUT, -1}},
        {"a label line", "### ALGO=Ring GPUS=8\n%", {RING, -1}},
        {"with a repeat's number", "=== NCCL_PROTO=LL rep 2\n%", {LL, -1}},
        {"unlabelled after labelled", "### ALGO=Ring\n%# nThread 1 iters: 20\n%", {RING, OUT, -1}},
        {"unlabelled before labelled", "%### ALGO=Ring\n%", {OUT, RING, -1}},
        {"auto after labelled", "### ALGO=Ring\n%### ALGO=auto\n%", {RING, NCCLS, -1}},
        {"prose is no label", "DEFAULT vs NCCL_PROTO=LL\n%", {OUT, -1}},
        {"a heading is no label", "| size | NCCL_ALGO=Ring | NCCL_ALGO=Tree |\n%", {OUT, -1}},
        {"a command line", "NCCL_ALGO=Tree ./build/all_reduce_perf -b 1M\n%", {TREE, -1}},
        {"mpirun's", "$ mpirun -x NCCL_ALGO=Tree -np 8 ./all_reduce_perf -b 1M\n%", {TREE, -1}},
        {"a command line that forces nothing",
         "$ mpirun -x NCCL_ALGO=Tree ./all_reduce_perf\n%$ mpirun ./all_reduce_perf\n%",
         {TREE, NCCLS, -1}},
        {"a list says that NCCL did not choose freely",
         "### ALGO=Ring,Tree\n%### ALGO=auto\n%",
         {OUT, NCCLS, -1}},
        {"so does an exclusion",
         "NCCL_ALGO=^Ring NCCL_PROTO=LL ./all_reduce_perf -b 1M\n%",
         {OUT, -1}},
        {"in a command line too",
         "$ mpirun -x NCCL_ALGO=Ring,Tree ./all_reduce_perf -b 1M\n%",
         {OUT, -1}},
        {"labels with commas between",
         "### ALGO=Ring, GPUS=8,REP=2,\n%### ALGO=Tree,GPUS=8\n%",
         {RING, TREE, -1}},
        {"another tuner", "h:1:2 [0] NCCL INFO TUNER/Plugin: Using AWS OFI (v4)\n%", {OUT, -1}},
        {"NCCL's own tuner",
         "$ ./all_reduce_perf\nh:1:2 [0] NCCL INFO TUNER/Plugin: Using internal tuner plugin.\n%",
         {NCCLS, -1}},
        {"NCCL 2.20's words for another tuner",
         "$ ./all_reduce_perf\nh:1:2 [0] NCCL INFO Using tuner plugin: 'nccl_ofi_tuner'\n%",
         {OUT, -1}},
        {"a command over several lines",
         "mpirun -np 8 \\\n  -x NCCL_ALGO=Ring \\\n  ./all_reduce_perf -b 1M\n%",
         {RING, -1}},
        {"it forces nothing", "mpirun -np 8 \\\n  -x A=B \\\n  ./all_reduce_perf\n%", {NCCLS, -1}},
        {"a value that is forwarded", "mpirun -x NCCL_ALGO ./all_reduce_perf\n%", {OUT, -1}},
        {"Hydra's", "mpiexec -genv NCCL_ALGO Ring ./all_reduce_perf\n%", {RING, -1}},
        {"two dashes", "mpirun --env NCCL_ALGO Ring ./all_reduce_perf\n%", {RING, -1}},
        {"csh", "setenv NCCL_ALGO Ring\n./all_reduce_perf\n%", {RING, -1}},
        {"blanks around the sign", "NCCL_ALGO = Ring\n%", {RING, -1}},
        {"YAML", "  NCCL_ALGO: Ring\n%", {RING, -1}},
        {"quotes and a list by collective",
         "env NCCL_ALGO=\"allreduce:ring;allgather:ring\" ./all_reduce_perf\n%",
         {OUT, -1}},
        {"what was exported holds on",
         "export NCCL_ALGO=Ring\n./all_reduce_perf\n%./all_reduce_perf\n%",
         {RING, OUT, -1}},
        {"a file that was sourced", "source env.sh\n./all_reduce_perf\n%", {OUT, -1}},
        {"a heading behind the command line",
         "$ ./all_reduce_perf\n### Experiment A: NCCL_PROTO=Simple\n%",
         {OUT, -1}},
        {"a sentence behind the command line",
         "$ ./all_reduce_perf\nRunning with the Tree algorithm\n%",
         {OUT, -1}},
        {"a label in small letters", "$ ./all_reduce_perf\n### algo=ring\n%", {OUT, -1}},
        {"a variable in small letters", "$ nccl_algo=ring ./all_reduce_perf\n%", {OUT, -1}},
        {"a script that may set anything",
         "$ mpirun -np 8 ./bind.sh ./all_reduce_perf\n%",
         {OUT, -1}},
        {"a script that is told",
         "$ mpirun -x NCCL_ALGO=Ring ./bind.sh ./all_reduce_perf\n%",
         {RING, -1}},
        {"the value of an option", "$ mpirun --hostfile ./hosts ./all_reduce_perf\n%", {NCCLS, -1}},
        {"two tables under one heading",
         "$ ./all_reduce_perf\n#  size count algbw\n// Ring\n%#  size count algbw\n// Tree\n%",
         {OUT, OUT, -1}},
        {"the threshold of old releases", "NCCL_TREE_THRESHOLD=0 ./all_reduce_perf\n%", {OUT, -1}},
        {"MSCCL's table", "MSCCL_XML_FILES=a.xml ./all_reduce_perf\n%", {OUT, -1}},
        {"a tuner by the environment", "NCCL_TUNER_PLUGIN=libx.so ./all_reduce_perf\n%", {OUT, -1}},
        {"NCCL says which variables it obeys",
         "h:1:2 [0] NCCL INFO NCCL_IB_HCA set by environment to mlx5_0.\n%",
         {NCCLS, -1}},
        {"one run in error among others",
         "### ALGO=Ring\n%### ALGO=Ring\n### PROTO=LL ALGO=Ring\nW\n### ALGO=Tree\n%",
         {RING, TREE, -1}},
};

Test(import, labels)
{
        for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
                size_t n = 0;

                cr_expect_eq(import(labels[i].text), 0, "%s: %s", labels[i].name, error);
                for (; labels[i].runs[n] >= 0 && n < set.n_runs; n++) {
                        const struct capo_sample *s = set.v;

                        while (s < set.v + set.n && s->run != n)
                                s++;
                        cr_expect_eq(set.runs[n].left_out ? OUT : s->want, labels[i].runs[n],
                                     "%s: run %zu is %d (%s)", labels[i].name, n,
                                     set.runs[n].left_out ? OUT : s->want, set.runs[n].why);
                }
                cr_expect(n == set.n_runs && labels[i].runs[n] < 0, "%s: %zu runs", labels[i].name,
                          set.n_runs);
                capo_samples_free(&set);
        }
}

Test(import, what_a_launcher_puts_before_a_line_is_no_part_of_it)
{
        static const char *const before[] = {"[1,0]<stdout>:",
                                             "Mon Nov 22 10:00:00 2026[1,0]<stdout>:",
                                             "2026-11-22T10:00:00.123456Z stdout F ",
                                             "2026-11-22 10:00:00,123 ",
                                             "[pod/nccl-test-0/main] ",
                                             "(RayTrainWorker pid=123, ip=10.0.0.1) ",
                                             "[default0]:",
                                             "\033[36m",
                                             "0: ",
                                             "node-a: ",
                                             "[0] ",
                                             "[node-a] ",
                                             "2026-11-20T10:00:05.1+01:00 node-a job[123]: ",
                                             "Nov 20 10:00:00 ",
                                             "worker-1  | ",
                                             "Nov 20 10:00:00 node-a job[123]: "};

        for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
                char *text;
                size_t n;
                FILE *f = open_memstream(&text, &n);

                rows(f, 1, before[i], "0");
                fclose(f);
                cr_expect_eq(import(text), 0, "\"%s\": %s", before[i], error);
                cr_expect_eq(set.n, 6, "\"%s\": %zu samples", before[i], set.n);
                capo_samples_free(&set);
                free(text);
        }
}

Test(import, wrong_results_in_any_notation_reject_a_run)
{
        cr_expect_lt(import("W\n"), 0);
        cr_expect_eq(set.n_rejected, 1);
}

Test(import, ranks_are_taken_from_bandwidths_only_where_one_number_fits)
{
        static const char *const eight = "16777216 4194304 float sum -1 367.77 45.62 79.83 0\n"
                                         "67108864 16777216 float sum -1 871.09 77.04 134.82 0\n";
        static const char *const many = "16777216 4194304 float sum -1 367.77 45.62 90.88 0\n"
                                        "67108864 16777216 float sum -1 871.09 77.04 153.48 0\n";

        cr_expect_eq(import(eight), 0, "%s", error);
        cr_expect_eq(set.runs[0].n_ranks, 8);
        capo_samples_free(&set);
        cr_expect_lt(import(many), 0);
}

Test(import, a_row_cut_in_its_last_column_is_left_out_alone)
{
        cr_expect_eq(
                import("%8388608 2097152 float sum -1 61.94 135.43 237.00 0 61.94 135.43 237.00\n"),
                0, "%s", error);
        cr_expect_eq(set.n, 6);
        cr_expect_eq(set.n_rejected, 0);
}

Test(import, rows_with_commas)
{
        cr_expect_eq(
                import("size,count,type,redop,root,time,algbw,busbw,#wrong,time,algbw,busbw,#wrong\n"
                       "16777216,4194304,float,sum,-1,367.77,45.62,79.83,0,367.77,45.62,79.83,0,\n"),
                0, "%s", error);
        cr_expect_eq(set.n, 2);
}

Test(import, ncclS_own_count_of_nodes_is_the_one_of_a_rule)
{
        cr_expect_eq(
                import("#  Rank  0 Group  0 Pid  1 on  a device  0 [0x00] NVIDIA GB200\n"
                       "#  Rank  1 Group  0 Pid  1 on  a device  1 [0x00] NVIDIA GB200\n"
                       "#  Rank  2 Group  0 Pid  1 on  a device  2 [0x00] NVIDIA GB200\n"
                       "#  Rank  3 Group  0 Pid  1 on  a device  3 [0x00] NVIDIA GB200\n"
                       "#  Rank  4 Group  0 Pid  1 on  b device  0 [0x00] NVIDIA GB200\n"
                       "#  Rank  5 Group  0 Pid  1 on  b device  1 [0x00] NVIDIA GB200\n"
                       "#  Rank  6 Group  0 Pid  1 on  b device  2 [0x00] NVIDIA GB200\n"
                       "#  Rank  7 Group  0 Pid  1 on  b device  3 [0x00] NVIDIA GB200\n"
                       "a:1:1 [0] NCCL INFO comm 0x5 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 1\n%"),
                0, "%s", error);
        cr_expect_eq(set.runs[0].n_nodes, 1);
        cr_expect_str_eq(set.runs[0].layout, "8");
        cr_expect_str_eq(set.runs[0].hosts, "a,b");
}

Test(import, a_layout_that_nccl_counts_otherwise_is_refused)
{
        static const struct capo_label label = {
                .call = CAPO_CALL_ALLREDUCE, .n_ranks = 8, .n_nodes = 2, .layout = "4+4"};

        cr_expect_neq(
                import_as(
                        &label,
                        "a:1:1 [0] NCCL INFO comm 0x5 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 1\n%"),
                0);
        cr_expect(set.n_notes && strstr(set.notes[0], "could never match"), "%s",
                  set.n_notes ? set.notes[0] : error);
}

Test(import, under_a_list_only_what_the_log_says_is_known)
{
        cr_expect_eq(
                import("### NCCL_ALGO=Ring,Tree\n"
                       "h:1:2 [0] NCCL INFO AllReduce: 1048576 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..3}\n%"),
                0, "%s", error);
        cr_expect_eq(set.n, 2, "%zu", set.n);
        cr_expect(set.n && set.v[0].want == CAPO_ALGO_PROTO(CAPO_ALGO_TREE, CAPO_PROTO_LL));
        cr_expect(set.n_runs && !set.runs[0].left_out);
}

Test(import, other_settings_are_kept_in_order)
{
        cr_expect_eq(
                import("### NCCL_SOCKET_NTHREADS=4 NCCL_IB_HCA=a,b NCCL_BUFFSIZE=8388608 NCCL_DEBUG=INFO\n%"),
                0, "%s", error);
        cr_expect_str_eq(set.runs[0].settings,
                         "NCCL_BUFFSIZE=8388608 NCCL_IB_HCA=a,b NCCL_SOCKET_NTHREADS=4");
}

Test(import, what_decides_whether_runs_compare_comes_from_every_format)
{
        static const char json[] =
                "{\"version\":2,\"args\":[\"./all_reduce_perf\"],\"env\":[\"NCCL_SOCKET_NTHREADS=4\",\"NCCL_BUFFSIZE=1\","
                "\"NCCL_DEBUG=INFO\"%s],\"nccl_version\":22907,\"config\":{\"iterations\":20,\"devices\":["
                "{\"rank\":0,\"hostname\":\"n2\",\"device_info\":\"NVIDIA H100\"},"
                "{\"rank\":1,\"hostname\":\"n1\",\"device_info\":\"NVIDIA H100\"}]},\"results\":[{\"size\":1048576,"
                "\"type\":\"float\",\"out_of_place\":{\"time\":20.5,\"nwrong\":0.0}}]}";
        char text[1024];

        cr_expect_eq(
                import("#  Rank  0 Group  0 Pid  1 on  b device  0 [0x00] NVIDIA H100\n"
                       "#  Rank  1 Group  0 Pid  1 on  a device  0 [0x00] NVIDIA H100\n"
                       "b:1:1 [0] NCCL INFO cudaDriverVersion 12080\n"
                       "  1048576 262144 float sum -1 105.24 9.96 9.96 0 105.24 9.96 9.96 0\n"),
                0, "%s", error);
        cr_expect_str_eq(set.runs[0].hosts, "a,b");
        cr_expect_str_eq(set.runs[0].driver, "CUDA 12.8");
        snprintf(text, sizeof text, json, "");
        cr_expect_eq(import(text), 0, "%s", error);
        cr_expect_str_eq(set.runs[1].hosts, "n1,n2");
        cr_expect_str_eq(set.runs[1].settings, "NCCL_BUFFSIZE=1 NCCL_SOCKET_NTHREADS=4");
        snprintf(text, sizeof text, json, ",\"NCCL_TUNER_PLUGIN=/x/libnccl-tuner-y.so\"");
        cr_expect_eq(import(text), 0, "%s", error);
        cr_expect_str_eq(set.runs[2].tuner, "libnccl-tuner-y.so");
        cr_expect(set.runs[2].left_out && !set.runs[1].left_out, "%s", set.runs[2].why);
}

Test(import, one_bad_file_of_a_folder_costs_only_itself)
{
        char folder[] = "/tmp/capo-import-XXXXXX", path[64];
        static const char *const files[] = {"a.txt", "b.json", "c.txt"};

        cr_assert_not_null(mkdtemp(folder));
        for (int i = 0; i < 3; i++) {
                FILE *f;

                snprintf(path, sizeof path, "%s/%s", folder, files[i]);
                f = fopen(path, "w");
                if (i == 1)
                        fputs("{\"neither\": 1}\n", f);
                else
                        rows(f, 1 + 0.1 * i, "", "0");
                fclose(f);
        }
        cr_expect_eq(capo_import(folder, &(struct capo_label){.call = CAPO_CALL_ALLREDUCE}, &set,
                                 error, sizeof error),
                     0, "%s", error);
        cr_expect_eq(set.n, 12);
        cr_expect_eq(set.n_notes, 1);
        cr_expect(set.n_notes && strstr(set.notes[0], "b.json:1"), "%s",
                  set.n_notes ? set.notes[0] : "");
        for (int i = 0; i < 3; i++) {
                snprintf(path, sizeof path, "%s/%s", folder, files[i]);
                unlink(path);
        }
        rmdir(folder);
}

/* NCCL_ALGO=^Tree, NCCL_PROTO=^LL: the table has zeros where NCCL always has something, and more
 * than one thing is left. */
Test(import, a_tuning_table_that_lacks_some_is_of_a_list)
{
#define HEADS \
        "h:1:2 [0] NCCL INFO   Algorithm   |                 Tree                 |                  Ring                 | NVLS |\n"
        static const struct {
                const char *row;
                bool free;
        } tables[] = {
                {"10.4/ 43.6 | 21.5/ 128.8 | 32.4/ 165.6 | 10.2/ 94.0 | 25.4/ 220.8 | 28.8/ 240.0 | 0/ 0 | 0/ 0 | 25/ 160",
                 true},
                {"10.4/ 43.6 | 21.5/ 0.0 | 32.4/ 165.6 | 10.2/ 94.0 | 25.4/ 0.0 | 28.8/ 240.0 | 0/ 0 | 0/ 0 | 0/ 0",
                 true},
                {"10.4/ 0.0 | 21.5/ 0.0 | 32.4/ 0.0 | 10.2/ 94.0 | 25.4/ 220.8 | 28.8/ 240.0 | 0/ 0 | 0/ 0 | 25/ 160",
                 false},
                {"10.4/ 0.0 | 21.5/ 128.8 | 32.4/ 165.6 | 10.2/ 0.0 | 25.4/ 220.8 | 28.8/ 240.0 | 0/ 0 | 0/ 0 | 25/ 160",
                 false},
        };

        for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
                char text[1024];

                snprintf(text, sizeof text, "%sh:1:2 [0] NCCL INFO     AllReduce | %s |\n", HEADS,
                         tables[i].row);
                strcat(text, "%");
                cr_expect_eq(import(text), 0, "%s", error);
                cr_assert_eq(set.n_runs, i + 1);
                cr_expect_eq(set.runs[i].left_out, !tables[i].free, "%zu: %s", i, set.runs[i].why);
        }
        cr_expect(strstr(set.runs[2].why, "is a list"), "%s", set.runs[2].why);
        /* where NCCL's lines say what ran, that is known */
        cr_expect_eq(
                import(HEADS
                       "h:1:2 [0] NCCL INFO     AllReduce | 1/ 0 | 2/ 0 | 3/ 0 | 1/ 9 | 2/ 9 | 3/ 9 | 0/ 0 | 0/ 0 | 2/ 9 |\n"
                       "h:1:2 [0] NCCL INFO AllReduce: 16777216 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..3}\n%"),
                0, "%s", error);
        cr_expect(!set.runs[4].left_out &&
                  set.v[set.n - 1].want == CAPO_ALGO_PROTO(CAPO_ALGO_NVLS, CAPO_PROTO_SIMPLE));
}

/* Rates of a broken network have few digits; the listed ranks leave one collective. */
Test(import, collective_of_low_rates)
{
        static const char *const busbw[] = {"4.20", "2.10", "3.00"};
        static const unsigned calls[] = {CAPO_CALL_ALLREDUCE, CAPO_CALL_REDUCESCATTER, 0};

        for (size_t i = 0; i < 3; i++) {
                char text[4096] = "";

                for (int rank = 0; rank < 16; rank++)
                        snprintf(
                                text + strlen(text), sizeof text - strlen(text),
                                "#  Rank %2d Group  0 Pid %d on n%d device %2d [0x00] NVIDIA H100\n",
                                rank, rank + 1, rank / 8, rank % 8);
                snprintf(
                        text + strlen(text), sizeof text - strlen(text),
                        "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
                        "  8589934592    2147483648     float     sum      -1  3834792   2.24   %s      0  3834792   2.24   %s      0\n",
                        busbw[i], busbw[i]);
                cr_assert_eq(import_as(NULL, text) == 0, calls[i] != 0, "%s: %s", busbw[i], error);
                if (calls[i])
                        cr_expect_eq(set.v[0].call, calls[i], "%s", busbw[i]);
                capo_samples_free(&set);
        }
}

/* What launchers and log drivers put before each line, also of a row that NCCL's lines have cut
 * into pieces. */
Test(import, lines_with_something_before_them)
{
        static const char *const lines[] = {
                "# nccl-tests version 2.17.6 nccl-headers=22902 nccl-library=22902",
                "# Collective test starting: all_reduce_perf",
                "#  Rank  0 Group  0 Pid  1 on node-a device  0 [0000:1b:00] NVIDIA H100",
                "#  Rank  1 Group  0 Pid  2 on node-a device  1 [0000:1c:00] NVIDIA H100",
                "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong",
                "     8388608       2097152     float     sum      -1node-a:1:1 [0] NCCL INFO AllReduce: 8388608 Bytes -> Algo RING proto "
                "LL channel{Lo..Hi}={0..3}",
                "   100.00   83.89   83.89       0node-a:1:1 [0] NCCL INFO AllReduce: 8388608 Bytes -> Algo RING proto LL "
                "channel{Lo..Hi}={0..3}",
                "    99.00   84.73   84.73       0",
        };
        static const char *const before[] = {"",
                                             "0: ",
                                             " 3: ",
                                             "0:\t",
                                             "[1,0]<stdout>:",
                                             "[prterun-node-a-4711@1,0]<stdout>: ",
                                             "Thu Nov 20 10:00:00 2025[1,0]<stdout>:",
                                             "Thu Nov 20 10:00:00 2025<stdout>:",
                                             "2025-11-20T10:00:00.123456789Z stdout F ",
                                             "2025-11-20 10:00:00,123 ",
                                             "[2025-11-20 10:00:00] ",
                                             "[2025-11-20T10:00:00.123+01:00] ",
                                             "[rank0]:",
                                             "(worker pid=123, ip=10.0.0.1) ",
                                             "\x1b[36m(worker pid=123)\x1b[0m "};

        for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
                for (int mark = 0; mark < 2; mark++) {
                        char text[4096] = "";

                        strcat(text, mark ? "\xef\xbb\xbf" : "");
                        for (size_t k = 0; k < sizeof lines / sizeof *lines; k++)
                                snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s\n",
                                         before[i], lines[k]);
                        cr_expect_eq(import_as(NULL, text), 0, "\"%s\": %s", before[i], error);
                        cr_expect(set.n == 2 && set.v[0].us == 100 && set.v[1].us == 99 &&
                                          set.v[1].ran_channels == 4 && set.runs[0].nccl == 22902,
                                  "\"%s\": %zu samples%s%s", before[i], set.n,
                                  set.n_notes ? ", " : "", set.n_notes ? set.notes[0] : "");
                        capo_samples_free(&set);
                }
        }
}

/* A pipe, as from <(zcat FILE): what tells the format is not read a second time. */
Test(import, a_pipe_is_read_whole)
{
        enum { RUNS = 800 };
        char folder[] = "/tmp/capo-import-XXXXXX", path[64];
        pid_t child;
        int status;

        cr_assert_not_null(mkdtemp(folder));
        snprintf(path, sizeof path, "%s/pipe", folder);
        cr_assert_eq(mkfifo(path, 0600), 0);
        child = fork();
        if (child == 0) {
                FILE *f = fopen(path, "w");

                for (int i = 0; i < RUNS; i++) {
                        fprintf(f, "### rep %d GPUS=8\n", i);
                        rows(f, 1 + 0.001 * i, "", "0");
                }
                _exit(fclose(f) != 0);
        }
        cr_expect_eq(capo_import(path, &(struct capo_label){.call = CAPO_CALL_ALLREDUCE}, &set,
                                 error, sizeof error),
                     0, "%s", error);
        cr_expect_eq(waitpid(child, &status, 0), child);
        cr_expect_eq(status, 0);
        cr_expect_eq(set.n_runs, RUNS, "%zu runs", set.n_runs);
        cr_expect_eq(set.n, 6 * RUNS, "%zu samples", set.n);
        unlink(path);
        rmdir(folder);
}

Test(import, of_a_run_that_contradicts_itself_late_nothing_is_kept)
{
        cr_expect_eq(
                import("### ALGO=Ring\n"
                       "h:1:2 [0] NCCL INFO AllReduce: 16777216 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..3}\n%"
                       "### ALGO=Tree\n%"),
                0, "%s", error);
        cr_expect_eq(set.n, 6, "%zu samples", set.n);
        cr_expect_eq(set.n_rejected, 1);
}

/* --algo auto --proto ll: NCCL was free in one of the two only, and a text that says the same
 * contradicts nothing. */
Test(import, the_algorithm_free_and_the_protocol_forced)
{
        static const struct capo_label label = {
                .call = CAPO_CALL_ALLREDUCE, .default_choice = true, .proto = CAPO_PROTO_LL};

        cr_expect_eq(import_as(&label, "%"), 0, "%s", error);
        cr_expect_eq(import_as(&label, "### PROTO=LL\n%"), 0, "%s", error);
        cr_expect(set.n_runs == 2 && !set.runs[0].left_out && !set.runs[1].left_out);
        for (size_t i = 0; i < set.n; i++)
                cr_expect_eq(set.v[i].want, LL);
        cr_expect_neq(import_as(&label, "### PROTO=LL128\n%"), 0);
        cr_expect(set.n_notes == 1 && strstr(set.notes[0], "contradicting labels"), "%s", error);
        cr_expect_neq(import_as(&label, "### ALGO=Ring\n%"), 0);
}

/* NCCL's decisions come in any order and again and again. */
Test(import, decisions_in_any_order)
{
        enum { SIZES = 3000 };
        char *text;
        size_t n;
        FILE *f = open_memstream(&text, &n);

        for (int again = 0; again < 3; again++) {
                for (int i = SIZES; i > 0; i--)
                        fprintf(f,
                                "h:1:2 [0] NCCL INFO AllReduce: %ld Bytes -> Algo %s proto LL channel{Lo..Hi}={0..%d}\n",
                                (long)i << 20, i == 4 && again == 1 ? "TREE" : "RING",
                                i == 16 && again == 2 ? 7 : 3);
        }
        fprintf(f, "%%");
        fclose(f);
        cr_expect_eq(import(text), 0, "%s", error);
        free(text);
        cr_assert_eq(set.n, 6);
        cr_expect(set.v[0].ran == CAPO_ALGO_PROTO(CAPO_ALGO_RING, CAPO_PROTO_LL) &&
                  set.v[0].ran_channels == 4);
        cr_expect_eq(set.v[2].ran, 0, "decided in two ways");
        cr_expect(set.v[4].ran && !set.v[4].ran_channels, "on two numbers of channels");
}

/* The first time stamp of a run is when it began. */
Test(import, when_a_run_began)
{
        cr_expect_eq(import("2026-01-02T03:04:05.5+01:00 ### ALGO=Ring\n%"
                            "[2026-01-02 04:00:00] ### ALGO=Tree\n%### ALGO=NVLS\n%"),
                     0, "%s", error);
        cr_assert_eq(set.n_runs, 3);
        cr_expect(set.runs[0].began.at == 1767319445 && !set.runs[0].began.local, "%lld",
                  (long long)set.runs[0].began.at);
        cr_expect(set.runs[1].began.at == 1767326400 && set.runs[1].began.local);
        cr_expect_eq(set.runs[2].began.at, 0);
}
