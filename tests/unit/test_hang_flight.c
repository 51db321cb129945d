/* SPDX-License-Identifier: Apache-2.0 */
/* Dumps of PyTorch's flight recorder: real ones (tests/hang/flight/README.md), and what a line more
 * or less changes. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/calls.h"
#include "core/base/util.h"
#include "analysis/hang/foreign.h"
#include "analysis/hang/hang_load.h"
#include "tests/log_numbers.h"

enum { MOST = 8, S = 1000000000 };

static struct capo_hang_job job;
static struct capo_job *names;
static struct capo_hang_verdict v;
static char folder[] = "/tmp/capo-flight-XXXXXX", *paths[MOST], why[1024];
static size_t n_paths;

static void begin(void)
{
        cr_assert(mkdtemp(folder));
        names = capo_job_new();
}

static void end(void)
{
        for (size_t i = 0; i < n_paths; i++) {
                unlink(paths[i]);
                free(paths[i]);
        }
        rmdir(folder);
        capo_hang_verdict_finish(&v);
        capo_hang_job_finish(&job);
        capo_job_free(names);
}

TestSuite(hang_flight, .init = begin, .fini = end);

/* A dump of rank @rank, last written at second @at. */
static void dump(int rank, const char *text, long at)
{
        struct timespec times[2] = {{.tv_sec = at}, {.tv_sec = at}};
        FILE *f;

        cr_assert(asprintf(&paths[n_paths], "%s/rank_%d", folder, rank) > 0);
        f = fopen(paths[n_paths], "w");
        fputs(text, f);
        fclose(f);
        cr_assert_eq(utimensat(AT_FDCWD, paths[n_paths++], times, 0), 0);
}

static int take(void)
{
        int r;

        job.after_ns = 10ull * S;
        r = capo_hang_flight(paths, n_paths, names, &job, why, sizeof why);
        if (r == 0)
                capo_hang_judge(&job, &v);
        return r;
}

/* Real dumps as they were, looked at a minute after the last call. */
static void real(const char *name)
{
        for (int i = 0; i < 4; i++) {
                char path[512], text[1 << 14];
                size_t n;
                FILE *f;

                snprintf(path, sizeof path, SOURCE_ROOT "/tests/hang/flight/%s/rank_%d.json", name,
                         i);
                f = fopen(path, "r");
                cr_assert(f, "%s", path);
                n = fread(text, 1, sizeof text - 1, f);
                text[n] = 0;
                fclose(f);
                dump(i, text, 1795374100);
        }
        cr_assert_eq(take(), 0, "%s", why);
        cr_assert_eq(job.n_comms, 3);
        cr_assert_eq(names->n_ranks, 4);
        cr_assert_eq(names->n_nodes, 0);
}

Test(hang_flight, a_rank_that_never_came)
{
        real("missing");
        cr_assert_eq(v.kind, CAPO_HANG_MISSING);
        cr_assert_eq(v.sure, CAPO_HANG_CERTAIN);
        cr_assert_eq(v.n_culprits, 1);
        cr_assert_eq(job.processes[v.culprits[0].process].rank, 2);
        cr_assert_eq(v.culprits[0].why, CAPO_HANG_WHY_HOST);
        cr_assert_str_eq(job.comms[v.comm].name, "default_pg");
        cr_assert_eq(v.seq, 5);
        cr_assert_eq(v.n_waiting, 3);
        cr_assert_eq(v.call->bytes, 4096);
        cr_assert_eq(v.since_ns / S, 1795373863);
}

Test(hang_flight, a_call_that_differs_and_where_it_was_made)
{
        real("kind");
        cr_assert_eq(v.kind, CAPO_HANG_MISMATCH);
        cr_assert_eq(v.n_culprits, 1);
        cr_assert_eq(job.processes[v.culprits[0].process].rank, 1);
        cr_assert_str_eq(v.culprits[0].differs, "collective");
        cr_assert_eq(v.culprits[0].call->call, CAPO_CALL_BROADCAST);
        cr_assert(strstr(job.sites[v.culprits[0].call->site - 1], "train.py:29 <module>"));
}

#define CONFIG "\"pg_config\":{\"7\":{\"name\":\"7\",\"desc\":\"dp\",\"ranks\":\"[0, 1]\"}}"
#define ENTRY(name, p2p, seq, p2p_seq, state, sizes)                                        \
        "{\"process_group\":[\"7\",\"dp\"],\"record_id\":0,\"profiling_name\":\"nccl:" name \
        "\",\"is_p2p\":" p2p ",\"collective_seq_id\":" seq ",\"p2p_seq_id\":" p2p_seq       \
        ",\"state\":\"" state "\",\"input_sizes\":" sizes ",\"output_sizes\":" sizes        \
        ",\"input_dtypes\":[\"BFloat16\"],\"time_created_ns\":1000000000000}"
#define DUMP(entries) "{\"version\":\"2.10\"," CONFIG ",\"entries\":[" entries "]}"

static void says(enum capo_hang_kind kind, int rank)
{
        cr_assert_eq(take(), 0, "%s", why);
        cr_assert_eq(v.kind, kind, "%s", capo_hang_kind_name(v.kind));
        cr_assert_eq(v.n_culprits, rank >= 0);
        if (rank >= 0)
                cr_assert_eq(job.processes[v.culprits[0].process].rank, rank);
}

Test(hang_flight, what_is_younger_than_after_is_slow)
{
        dump(0, DUMP(ENTRY("all_reduce", "false", "1", "0", "scheduled", "[[4]]")), 1005);
        dump(1, DUMP(""), 2000);
        says(CAPO_HANG_SLOW, 1);
}

Test(hang_flight, another_size)
{
        dump(0, DUMP(ENTRY("all_reduce", "false", "1", "0", "scheduled", "[[4,3]]")), 2000);
        dump(1, DUMP(ENTRY("all_reduce", "false", "1", "0", "scheduled", "[[4]]")), 2000);
        cr_assert_eq(take(), 0);
        cr_assert_eq(v.kind, CAPO_HANG_MISMATCH);
        cr_assert_eq(v.n_culprits, 2);
        cr_assert_str_eq(v.culprits[1].differs ?: "", "count");
        cr_assert_eq(v.call->bytes, 24);
}

Test(hang_flight, sizes_that_may_differ)
{
        dump(0, DUMP(ENTRY("all_to_all", "false", "1", "0", "completed", "[[4,3]]")), 2000);
        dump(1, DUMP(ENTRY("all_to_all", "false", "1", "0", "completed", "[[4]]")), 2000);
        says(CAPO_HANG_UNDECIDED, -1);
        cr_assert(v.quiet); /* all have ended, and what the ranks do since is not known */
}

Test(hang_flight, entered_by_all_and_not_ended)
{
        dump(0, DUMP(ENTRY("_all_gather_base", "false", "1", "0", "started", "[[4]]")), 2000);
        dump(1, DUMP(ENTRY("_all_gather_base", "false", "1", "0", "started", "[[4]]")), 2000);
        cr_assert_eq(take(), 0);
        cr_assert_eq(v.kind, CAPO_HANG_RUNNING);
}

Test(hang_flight, a_receive_without_its_send)
{
        dump(0, DUMP(ENTRY("recv 0<-1", "true", "0", "1", "scheduled", "[[4]]")), 2000);
        dump(1, DUMP(ENTRY("all_reduce", "false", "1", "0", "scheduled", "[[4]]")), 2000);
        says(CAPO_HANG_P2P, 1); /* which keeps it from the collective */
}

Test(hang_flight, a_receive_from_one_that_does_something_else)
{
        dump(0, DUMP(ENTRY("recv 0<-1", "true", "0", "1", "scheduled", "[[4]]")), 2000);
        dump(1, DUMP(""), 2000);
        says(CAPO_HANG_P2P, 1);
}

/* The two of a group are reported as never completed; the entry that closes the group is. */
#define PAIR(me, other, state)                                               \
        ENTRY("send " me "->" other, "true", "0", "1", "scheduled", "[[4]]") \
        "," ENTRY("recv " me "<-" other, "true", "0", "1", "scheduled",      \
                  "[[4]]") "," ENTRY("coalesced", "false", "0", "1", state, "[]")

Test(hang_flight, a_group_is_ended_by_what_closes_it)
{
        dump(0, DUMP(PAIR("0", "1", "completed")), 2000);
        dump(1, DUMP(PAIR("1", "0", "completed")), 2000);
        says(CAPO_HANG_UNDECIDED, -1);
        cr_assert(v.quiet); /* all have ended, and what the ranks do since is not known */
        cr_assert_eq(job.processes[0].calls[0].gpu, CAPO_HANG_GPU_ENDED);
        cr_assert_eq(job.processes[0].calls[1].group, job.processes[0].calls[0].group);
}

Test(hang_flight, a_rank_without_a_dump)
{
        dump(0, DUMP(ENTRY("all_reduce", "false", "1", "0", "scheduled", "[[4]]")), 2000);
        cr_assert_eq(take(), 0);
        cr_assert_eq(v.kind, CAPO_HANG_UNDECIDED);
        cr_assert_eq(v.unseen, 1);
}

Test(hang_flight, what_is_no_dump)
{
        static const struct {
                const char *text, *says;
        } bad[] = {
                {"\x80\x02}q", "is a pickle"},
                {"{\"a\": 1}", "no dump"},
                {"[1, 2", "expected"},
                {"", "expected"},
        };
        char nowhere_1[] = "/nowhere/rank_1", *nowhere = nowhere_1;

        for (size_t i = 0; i < N_ELEMENTS(bad); i++) {
                dump((int)i, bad[i].text, 2000);
                cr_assert_eq(capo_hang_flight(&paths[i], 1, names, &job, why, sizeof why), -EINVAL);
                cr_assert(strstr(why, bad[i].says), "%s", why);
        }
        cr_assert(capo_hang_flight(&nowhere, 1, names, &job, why, sizeof why) == -ENOENT);
}

Test(hang_flight, one_dump_per_rank)
{
        dump(3, DUMP(""), 2000);
        paths[n_paths++] = strdup(paths[0]);
        cr_assert_eq(take(), -EINVAL);
        cr_assert(strstr(why, "both of rank 3"), "%s", why);
}
