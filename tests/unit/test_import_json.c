/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of nccl-tests and of Inspector: a file may have many documents, and one that is bad costs
 * only itself. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/calls.h"
#include "profiles/import/import.h"
#include "tests/log_numbers.h"

static struct capo_samples set;
static char error[512];

static int import_as(const struct capo_label *label, const char *text)
{
        char path[] = "/tmp/capo-json-XXXXXX";
        FILE *f = fdopen(mkstemp(path), "w");
        int r;

        fputs(text, f);
        fclose(f);
        r = capo_import(path, label, &set, error, sizeof error);
        unlink(path);
        return r;
}

static int import(const char *text) { return import_as(NULL, text); }

static void finish(void) { capo_samples_free(&set); }

TestSuite(import_json, .fini = finish);

#define RUN(env, us)                                                                           \
        "{\"version\":2,\"args\":[\"./all_reduce_perf\"],\"env\":[" env                        \
        "],\"nccl_version\":22907,"                                                            \
        "\"config\":{\"iterations\":20,\"devices\":["                                          \
        "{\"rank\":0,\"hostname\":\"n1\",\"device_info\":\"NVIDIA H100\"},"                    \
        "{\"rank\":1,\"hostname\":\"n1\",\"device_info\":\"NVIDIA H100\"}]},\n\"results\":[\n" \
        " {\"size\":1048576,\"type\":\"float\",\"out_of_place\":{\"time\":" us                 \
        ",\"nwrong\":0.0}}\n]}"                                                                \
        "\n"
#define CALL(host, rank, sn, us)                                                                   \
        "{\"header\":{\"id\":\"0x1\",\"rank\":" rank ",\"n_ranks\":2,\"nnodes\":2},\"metadata\":{" \
        "\"hostname\":\"" host "\"},\"coll_perf\":{\"coll\":\"AllReduce\",\"coll_algo\":\"RING\"," \
        "\"coll_proto\":\"LL\",\"coll_sn\":" sn ",\"coll_msg_size_bytes\":4096,"                   \
        "\"coll_exec_time_us\":" us ",\"coll_timing_source\":\"kernel_gpu\"}}\n"

static const char *note(size_t i) { return i < set.n_notes ? set.notes[i] : ""; }

Test(import_json, one_bad_document_of_several_costs_only_itself)
{
        static const struct {
                const char *name, *text, *said;
                size_t n;
        } files[] = {
                {"cut, lines",
                 CALL("a", "0", "1", "9") "{\"header\":{\"id\":\n" CALL("a", "0", "2", "9"),
                 ":2: ", 2},
                {"no document", CALL("a", "0", "1", "9") "{\"x\":1}\n" CALL("a", "0", "2", "9"),
                 ":2: expected \"results\"", 2},
                {"no collective",
                 CALL("a", "0", "1", "9") "{\"header\":{},\"coll_perf\":{\"coll\":\"X\"}}\n" CALL(
                         "a", "0", "2", "9"),
                 ":2: coll_perf.coll", 2},
                {"cut, over lines",
                 RUN("", "20.5") "{\"args\":[\"./all_reduce_perf\"],\n \"results\":[\n  {\"size\":}\n" RUN(
                         "", "20.6"),
                 ":5: unexpected token near '}', in line 7", 2},
                {"a time of zero", RUN("", "20.5") RUN("", "0") RUN("", "20.6"), ":5: results[0]",
                 2},
                {"another program",
                 RUN("", "20.5") "{\"args\":[\"x\"],\"results\":[]}\n" RUN("", "20.6"),
                 ":5: expected args", 2},
                {"indented", "[\n  {\"x\":1},\n  " RUN("", "20.5") "]\n", ":2: ", 1},
        };

        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
                cr_expect_eq(import(files[i].text), 0, "%s: %s", files[i].name, error);
                cr_expect_eq(set.n, files[i].n, "%s: %zu samples", files[i].name, set.n);
                cr_expect(set.n_notes == 1 && strstr(note(0), files[i].said), "%s: %zu notes, %s",
                          files[i].name, set.n_notes, note(0));
                capo_samples_free(&set);
        }
}

Test(import_json, where_nothing_else_is_in_a_file_the_fault_is_the_file_s)
{
        cr_expect_eq(import("{\"x\":1}\n"), -EINVAL);
        cr_expect(strstr(error, ":1: expected \"results\""), "%s", error);
        cr_expect_eq(set.n_notes, 0);
        cr_expect_eq(import("{\"x\":1}\n{\"y\":1}\n"), -EINVAL);
        cr_expect(strstr(error, ":1: expected \"results\""), "%s", error);
        cr_expect_eq(set.n_notes, 0);
}

Test(import_json, many_bad_documents_do_not_flood)
{
        char *text;
        size_t n;
        FILE *f = open_memstream(&text, &n);

        for (int i = 0; i < 100; i++)
                fputs("{\"x\":1}\n", f);
        fputs(CALL("a", "0", "2", "9"), f);
        fclose(f);
        cr_expect_eq(import(text), 0, "%s", error);
        cr_expect_eq(set.n, 1);
        cr_expect_eq(set.n_notes, 6);
        cr_expect(strstr(note(5), "95 documents more"), "%s", note(5));
        free(text);
}

Test(import_json, a_list_in_nccl_algo_makes_its_run_unknown)
{
        static const struct capo_label ring = {.algo = CAPO_ALGO_RING};

        cr_expect_eq(import(RUN("", "20.5") RUN("\"NCCL_ALGO=Ring,Tree\"", "20.6") RUN(
                             "\"NCCL_PROTO=^LL\"", "20.7") RUN("\"NCCL_ALGO=Tree\"", "20.8")),
                     0, "%s", error);
        cr_assert_eq(set.n_runs, 4);
        cr_expect(!set.runs[0].left_out && set.runs[1].left_out && set.runs[2].left_out &&
                  !set.runs[3].left_out);
        cr_expect(strstr(set.runs[1].why, "NCCL_ALGO=Ring,Tree does not say"), "%s",
                  set.runs[1].why);
        cr_expect(strstr(set.runs[2].why, "NCCL_PROTO=^LL does not say"), "%s", set.runs[2].why);
        cr_expect_eq(set.v[3].want, CAPO_ALGO_PROTO(CAPO_ALGO_TREE, 0));
        cr_expect_eq(import_as(&ring, RUN("\"NCCL_ALGO=Ring,Tree\"", "20.6")), 0);
        cr_expect(!set.runs[4].left_out, "who says what ran is believed");
}

Test(import_json, inspector_s_hosts_once_every_node_has_said_its_name)
{
        cr_expect_eq(import(CALL("b", "0", "1", "9") CALL("a", "1", "1", "9")), 0, "%s", error);
        cr_expect_str_eq(set.runs[0].hosts, "a,b");
        cr_expect_eq(set.n, 1);
        cr_expect_eq(import(CALL("b", "0", "1", "9") CALL("b", "1", "1", "9")), 0, "%s", error);
        cr_expect_str_eq(set.runs[1].hosts, "", "two nodes, one name: the other is not known");
}

#define OF(coll, rank, sn, us)                                                   \
        "{\"header\":{\"id\":\"0x1\",\"rank\":" rank                             \
        ",\"n_ranks\":4,\"nnodes\":1},\"coll_perf\":{"                           \
        "\"coll\":\"" coll "\",\"coll_sn\":" sn ",\"coll_msg_size_bytes\":4096," \
        "\"coll_exec_time_us\":" us ",\"coll_timing_source\":\"kernel_gpu\"}}\n"

/* NCCL counts the calls of each collective by themselves, and Inspector's bytes are what the
 * program gave as count. */
Test(import_json, inspector_s_collectives_are_counted_apart_and_their_bytes_are_of_all_ranks)
{
        static const struct {
                unsigned call;
                uint64_t bytes;
                double us;
        } expected[] = {{CAPO_CALL_ALLGATHER, 4 * 4096, 8},
                        {CAPO_CALL_ALLREDUCE, 4096, 9},
                        {CAPO_CALL_REDUCESCATTER, 4 * 4096, 7}};
        size_t found = 0;

        cr_expect_eq(import(OF("AllReduce", "0", "1", "9") OF("AllGather", "0", "1", "8") OF(
                             "ReduceScatter", "0", "1", "7") OF("AllReduce", "1", "1", "10")
                                    OF("AllGather", "1", "1", "18")
                                            OF("ReduceScatter", "1", "1", "17")),
                     0, "%s", error);
        cr_assert_eq(set.n, 3, "%zu samples", set.n);
        for (size_t i = 0; i < set.n; i++) {
                for (size_t k = 0; k < sizeof expected / sizeof *expected; k++)
                        found += set.v[i].call == expected[k].call &&
                                 set.v[i].bytes == expected[k].bytes &&
                                 set.v[i].us == expected[k].us;
        }
        cr_expect_eq(found, 3);
}

/* Every process writes a file: the ranks of one communicator are one run, in which file ever they
 * are. */
Test(import_json, inspector_s_ranks_in_files_of_their_own_are_one_run)
{
        static const char *const ranks[] = {CALL("a", "0", "1", "9") CALL("a", "0", "2", "30"),
                                            CALL("b", "1", "1", "30") CALL("b", "1", "2", "8")};
        char folder[] = "/tmp/capo-json-XXXXXX", path[2][64];

        cr_assert_not_null(mkdtemp(folder));
        for (int i = 0; i < 2; i++) {
                FILE *f;

                snprintf(path[i], sizeof path[i], "%s/%d.log", folder, i);
                f = fopen(path[i], "w");
                fputs(ranks[i], f);
                fclose(f);
                cr_expect_eq(capo_import_more(path[i], NULL, &set, error, sizeof error), 0, "%s",
                             error);
        }
        cr_expect_eq(capo_import_end(&set, error, sizeof error), 0, "%s", error);
        for (int again = 0; again < 2; again++) { /* as inputs, and as a folder */
                cr_assert_eq(set.n_runs, 1, "%zu runs", set.n_runs);
                cr_assert_eq(set.n, 2);
                cr_expect(set.v[0].us == 9 && set.v[1].us == 8,
                          "the rank that waited for nobody: %g, %g", set.v[0].us, set.v[1].us);
                cr_expect_str_eq(set.runs[0].hosts, "a,b");
                capo_samples_free(&set);
                if (!again)
                        cr_expect_eq(capo_import(folder, NULL, &set, error, sizeof error), 0, "%s",
                                     error);
        }
        for (int i = 0; i < 2; i++)
                unlink(path[i]);
        rmdir(folder);
}

/* --algo auto --proto ll: NCCL was free in one of the two only, and a file that says the same
 * contradicts nothing. */
Test(import_json, the_algorithm_free_and_the_protocol_forced)
{
        static const struct capo_label label = {.default_choice = true, .proto = CAPO_PROTO_LL};

        cr_expect_eq(import_as(&label, RUN("\"NCCL_PROTO=LL\"", "20.5") RUN("", "20.6")), 0, "%s",
                     error);
        cr_assert_eq(set.n, 2);
        cr_expect(set.v[0].want == CAPO_ALGO_PROTO(0, CAPO_PROTO_LL) &&
                  set.v[1].want == set.v[0].want);
        cr_expect_eq(set.n_notes, 0);
        cr_expect_eq(import_as(&label, RUN("\"NCCL_PROTO=LL128\"", "20.5")), -EINVAL);
        cr_expect(strstr(error, "NCCL_PROTO=LL128 in the file"), "%s", error);
        cr_expect_eq(import_as(&label, RUN("\"NCCL_ALGO=Ring\",\"NCCL_PROTO=LL\"", "20.5")),
                     -EINVAL);
        cr_expect(strstr(error, "NCCL_ALGO=Ring in the file"), "%s", error);
        cr_expect_eq(import_as(&(struct capo_label){.default_choice = true},
                               RUN("\"NCCL_PROTO=LL\"", "20.5")),
                     -EINVAL, "auto alone says that nothing was forced");
}

Test(import_json, numbers_that_no_whole_one_holds)
{
        cr_assert_eq(
                import("{\"args\":[\"all_reduce_perf\"],\"nccl_version\":1e50,\"config\":{\"iterations\":-1e50,"
                       "\"ngpus\":1e50,\"nthreads\":\"nan\",\"devices\":[{\"hostname\":\"a\"},{\"hostname\":\"b\"}]},"
                       "\"results\":[{\"size\":1e50,\"out_of_place\":{\"time\":5}},"
                       "{\"size\":-8,\"out_of_place\":{\"time\":5}},"
                       "{\"size\":8,\"out_of_place\":{\"time\":5}}]}\n"),
                0, "%s", error);
        cr_assert_eq(set.n, 1);
        cr_expect_eq(set.n_empty, 2);
        cr_expect_eq(set.v[0].bytes, 8);
        cr_expect_eq(set.runs[0].n_ranks, 2);
        cr_expect_eq(set.runs[0].nccl, 0);
        cr_expect_eq(set.runs[0].iterations, 1);
        capo_samples_free(&set);

        cr_assert_eq(
                import(CALL(
                        "a", "0", "1e50",
                        "9") "{\"header\":{\"id\":\"0x2\",\"rank\":0,\"n_ranks\":1e50,\"nnodes\":-3},\"coll_perf\":{"
                             "\"coll\":\"AllReduce\",\"coll_n_channels\":1e50,\"coll_msg_size_bytes\":4096,"
                             "\"coll_exec_time_us\":9}}\n"),
                0, "%s", error);
        cr_assert_eq(set.n, 1, "a communicator of no number of ranks is left out");
        cr_expect_eq(set.v[0].order, 0);
        capo_samples_free(&set);

        import(RUN("", "\"inf\"") RUN("", "20.6"));
        cr_assert_eq(set.n, 1, "a time without end is none");
        cr_expect_eq(set.v[0].us, 20.6);
}

/* With -I each call's time between events comes beside the mean of the loop; all of a run are of
 * one clock. */
Test(import_json, times_of_single_calls_are_of_another_clock)
{
        cr_assert_eq(
                import("{\"version\":2,\"args\":[\"./all_reduce_perf\",\"-I\",\"1\"],\"env\":[],\"nccl_version\":22907,"
                       "\"config\":{\"iterations\":4,\"devices\":[{\"hostname\":\"a\"},{\"hostname\":\"a\"}]},\"results\":["
                       "{\"size\":1048576,\"out_of_place\":{\"time\":20.5},"
                       "\"out_of_place_per_iter\":{\"skipped_iterations\":1,\"times_us\":[900,25,26,27]}}]}"),
                0, "%s", error);
        cr_assert_eq(set.n, 1, "%zu samples", set.n);
        cr_expect(set.v[0].us == 20.5 && set.v[0].make == CAPO_MAKE_LOOP &&
                  set.runs[0].iterations == 4);
}

Test(import_json, two_kinds_of_gpu_are_no_class)
{
        cr_expect_neq(
                import("{\"version\":2,\"args\":[\"./all_reduce_perf\"],\"env\":[],\"nccl_version\":22907,\"config\":{\"devices\":["
                       "{\"hostname\":\"a\",\"device_info\":\"NVIDIA H100\"},{\"hostname\":\"b\",\"device_info\":\"NVIDIA A100\"}]},"
                       "\"results\":[{\"size\":1048576,\"out_of_place\":{\"time\":20.5}}]}"),
                0);
        cr_expect(set.n == 0 && strstr(note(0), "two kinds of GPU"), "%zu samples, %s", set.n,
                  note(0));
}
