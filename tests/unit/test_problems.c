/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with a recording: each kind once, at its border, with the ranks and the log that it
 * is about. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analysis/report/page_kinds.h"
#include "core/base/clock.h"
#include "core/base/text.h"
#include "analysis/report/job_judge.h"
#include "tests/golden/gen_log.h"
#include "tests/unit/made_job.h"
#include "core/log/info.h"
#include "tests/log_numbers.h"

static struct capo_page page;

static void begin(void) { page = (struct capo_page){.job = made_job(4)}; }

static void end(void) { capo_page_finish(&page); }

TestSuite(problems, .init = begin, .fini = end);

/* The only problem. */
static const struct capo_problem *only(enum capo_problem_kind kind, const char *text)
{
        capo_judge_problems(&page);
        cr_assert_eq(page.n_problems, 1, "%u: %s", page.n_problems,
                     page.n_problems ? page.problems[0].text : "");
        cr_assert_eq(page.problems[0].kind, kind);
        cr_assert_str_eq(page.problems[0].text, text);
        return page.problems;
}

/* Process @i is of this machine, and its log has no end. */
static struct capo_job_process *unfinished_here(uint32_t i)
{
        struct capo_job_process *p = &page.job->processes[i];
        char host[256] = "";

        gethostname(host, sizeof host - 1);
        free(p->host);
        p->host = strdup(host);
        p->end.clean = 0;
        return p;
}

static void launched(void)
{
        for (uint32_t i = 0; i < page.job->n_processes; i++)
                made_info(&page.job->processes[i], CAPO_INFO_RANK, "0");
}

Test(problems, a_whole_recording_has_none)
{
        launched();
        capo_judge_problems(&page);
        cr_assert_eq(page.n_problems, 0, "%s", page.problems[0].text);
}

Test(problems, ranks_without_a_log)
{
        const struct capo_problem *p;

        launched();
        page.job->n_ranks = 9;
        p = only(CAPO_PROBLEM_NO_LOG, "ranks 4-8 of 9 left no log");
        cr_assert(p->n_runs == 1 && p->runs->first == 4 && p->runs->n == 5 &&
                  p->comm == CAPO_NO_COMM && !p->log);
        cr_assert_str_eq(capo_problem_is[p->kind].name, "no_log");
        cr_assert_str_eq(capo_problem_is[p->kind].severity, "error");
}

Test(problems, one_rank_without_a_log)
{
        launched();
        page.job->n_ranks = 5;
        only(CAPO_PROBLEM_NO_LOG, "rank 4 of 5 left no log");
}

Test(problems, ranks_of_a_communicator_without_a_log)
{
        const struct capo_problem *p;

        page.job->comms[0].n_ranks = 6;
        p = only(CAPO_PROBLEM_NO_LOG_OF, "ranks 4, 5 of 6 of communicator dp left no log");
        cr_assert(p->comm == 0 && p->n_runs == 1 && p->runs->first == 4 && p->runs->n == 2);
}

Test(problems, one_rank_of_a_communicator_without_a_log)
{
        page.job->comms[0].n_ranks = 5;
        only(CAPO_PROBLEM_NO_LOG_OF, "rank 4 of 5 of communicator dp left no log");
}

/* A launcher that counts processes: each has two GPUs, and goes by its first rank. */
Test(problems, processes_of_several_gpus_lack_no_log)
{
        struct capo_job_comm *c = &page.job->comms[0];

        launched();
        for (uint32_t i = 0; i < 4; i++)
                c->members[i].process = i / 2;
        page.job->n_processes = 2;
        page.job->processes[1].rank = 2;
        made_info(&page.job->processes[0], CAPO_INFO_WORLD_SIZE, "2");
        capo_judge_problems(&page);
        cr_assert_eq(page.n_problems, 0, "%s", page.problems[0].text);
}

Test(problems, logs_of_one_rank_twice)
{
        launched();
        page.job->processes[3].rank = 2;
        page.job->n_ranks = 3;
        only(CAPO_PROBLEM_RANK_TWICE,
             "1 log of ranks that have another: several jobs in one folder, or several processes per rank");
}

static void tuned(uint32_t process, const char *rules)
{
        page.job->processes[process].rules = strdup(rules);
}

Test(problems, ranks_that_decide_differently)
{
        for (uint32_t i = 0; i < 4; i++)
                tuned(i, i == 2 ? "digest\tbbbbbbbbb\nfile\t/y.json\n"
                                : "digest\taaaaaaaaa\nfile\t/x.json\n");
        only(CAPO_PROBLEM_OTHER_RULES,
             "rank 2 tunes by profile bbbbbbbb (/y.json), rank 0 by aaaaaaaa (/x.json): ranks that decide differently hang");
}

Test(problems, a_rank_without_a_profile)
{
        for (uint32_t i = 0; i < 4; i++)
                tuned(i, i == 3 ? "file\t/y.json\n" : "digest\taaaaaaaaa\nfile\t/x.json\n");
        only(CAPO_PROBLEM_OTHER_RULES,
             "rank 3 tunes by profile none (/y.json), rank 0 by aaaaaaaa (/x.json): ranks that decide differently hang");
}

Test(problems, modelled_rules_of_one_only)
{
        for (uint32_t i = 0; i < 4; i++)
                tuned(i, i == 1 ? "digest\ta\nmodelled\tallowed\nfile\t/x\n"
                                : "digest\ta\nmodelled\trefused\nfile\t/x\n");
        only(CAPO_PROBLEM_OTHER_RULES,
             "rank 1 tunes by profile a and its modelled rules (/x), rank 0 by a (/x): ranks that "
             "decide differently hang");
}

Test(problems, one_digest_from_two_places_is_one_profile)
{
        for (uint32_t i = 0; i < 4; i++)
                tuned(i, i ? "digest\ta\nfile\t/x\n" : "digest\ta\nfile\t/y\n");
        capo_judge_problems(&page);
        cr_assert_eq(page.n_problems, 0);
}

/* A rank said that NCCL had not loaded the tuner by its first communicator. */
Test(problems, a_tuner_that_nobody_asked)
{
        static const struct {
                const char *profile, *plugin;
                const char *text;
        } rows[] = {
                {"/p.json", "/lib/libcapo.so",
                 "profile /p.json was given, and NCCL 2.18.5 never loaded capo's tuner "
                 "(NCCL_TUNER_PLUGIN=/lib/libcapo.so): it ran without"},
                {"/p.json", "-",
                 "profile /p.json was given, and NCCL 2.18.5 never loaded capo's tuner "
                 "(NCCL_TUNER_PLUGIN=-): it ran without"},
                {"/p.json", NULL, NULL},
                {"", "capo",
                 "a sweep was given, and NCCL 2.18.5 never loaded capo's tuner "
                 "(NCCL_TUNER_PLUGIN=capo): it ran without"},
                {NULL, NULL, NULL},
        };

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                struct capo_job_process *p;

                capo_page_finish(&page);
                page = (struct capo_page){.job = made_job(2)};
                p = page.job->processes;
                if (rows[i].profile)
                        made_info(p, CAPO_INFO_PROFILE, rows[i].profile);
                if (rows[i].plugin)
                        made_info(p, CAPO_INFO_UNTUNED, rows[i].plugin);
                made_info(p, CAPO_INFO_NCCL_VERSION, "2.18.5");
                capo_judge_problems(&page);
                cr_expect_eq(page.n_problems, rows[i].text != NULL, "row %zu", i);
                if (rows[i].text && page.n_problems)
                        cr_expect_str_eq(page.problems[0].text, rows[i].text);
        }
}

/* Nor where one process was asked, whichever it is: then the others' silence is what is said. */
Test(problems, a_tuner_that_some_asked)
{
        for (uint32_t asked = 0; asked < 4; asked++) {
                capo_page_finish(&page);
                page = (struct capo_page){.job = made_job(4)};
                made_info(page.job->processes, CAPO_INFO_PROFILE, "/p.json");
                made_info(page.job->processes, CAPO_INFO_NCCL_TUNER, "libcapo.so");
                tuned(asked, "digest\ta\nfile\t/x\n");
                capo_judge_problems(&page);
                cr_assert_eq(page.n_problems, 1);
                cr_expect_eq(page.problems[0].kind, CAPO_PROBLEM_OTHER_RULES, "%u", asked);
        }
}

/* A rank that the launcher's count has no room for: then the launcher counts something else. */
Test(problems, a_rank_beyond_the_launchers_count)
{
        launched();
        for (uint32_t i = 0; i < 4; i++)
                page.job->processes[i].rank = (int32_t)i + 1;
        capo_judge_problems(&page);
        cr_assert_eq(page.n_problems, 0, "%s", page.problems[0].text);
}

/* The first one that reports it is named, with what it runs. */
Test(problems, functions_that_are_newer)
{
        made_info(&page.job->processes[2], CAPO_INFO_NCCL_UNKNOWN, "ncclNew, ncclNewer");
        made_info(&page.job->processes[2], CAPO_INFO_NCCL_VERSION, "2.99.1");
        made_info(&page.job->processes[3], CAPO_INFO_NCCL_UNKNOWN, "ncclOther");
        only(CAPO_PROBLEM_UNKNOWN_CALLS,
             "NCCL 2.99.1 has functions that this capo does not know (ncclNew, ncclNewer): calls of them would be in no "
             "log");
}

Test(problems, slices)
{
        made_info(&page.job->processes[1], "gpu.mig.0", "1");
        made_info(&page.job->processes[1], "gpu.mig.1", "1");
        made_info(&page.job->processes[2], "gpu.migrate", "1");
        only(CAPO_PROBLEM_SLICES,
             "1 of 4 processes run on MIG slices, which neither NVLink nor P2P reaches: NCCL goes through "
             "the host's memory");
        cr_assert_str_eq(capo_problem_is[CAPO_PROBLEM_SLICES].severity, "note");
}

Test(problems, ranks_disagree_on_a_call)
{
        struct capo_skew *k = made_skew(page.job, 1, (uint32_t[]){1, 0, 0, 0}, NULL);

        k->mismatched = 3;
        k->mismatch_seq = 17;
        cr_assert_eq(
                only(CAPO_PROBLEM_MISMATCH,
                     "ranks of dp disagree on what its call number 17 is (kind or size): a hang or wrong data")
                        ->comm,
                0);
}

Test(problems, calls_that_failed)
{
        made_row(page.job, CAPO_CALL_ALLREDUCE, 8, 1000, CAPO_CLOCK_HOST, 0)->failed = 1000;
        made_row(page.job, CAPO_CALL_ALLREDUCE, 16, 1, CAPO_CLOCK_HOST, 0)->failed = 1;
        only(CAPO_PROBLEM_FAILED, "1,001 calls returned an error");
}

/* What was said of each by name is not said again. */
Test(problems, the_rest_of_calls_that_failed)
{
        struct capo_job *job = page.job;

        made_row(job, CAPO_CALL_ALLREDUCE, 8, 1000, CAPO_CLOCK_HOST, 0)->failed = 12;
        job->failures = calloc(1, sizeof *job->failures);
        job->failures[job->n_failures++] = (struct capo_job_failure){
                .calls = 5, .process = 1, .call = CAPO_CALL_ALLREDUCE, .result = 2};
        capo_judge_problems(&page);
        cr_assert_eq(page.n_problems, 2);
        cr_assert(page.problems[0].kind == CAPO_PROBLEM_FAILED_CALL &&
                  page.problems[0].call == CAPO_CALL_ALLREDUCE && page.problems[0].comm == 0 &&
                  page.problems[0].runs->first == 1);
        cr_assert_str_eq(page.problems[0].result, "system error");
        cr_assert_eq(page.problems[1].kind, CAPO_PROBLEM_FAILED);
        cr_assert_str_eq(page.problems[1].text, "7 calls returned an error");
        page.n_problems = 0;
        job->rows[0].failed = 5;
        capo_judge_problems(&page);
        cr_assert_eq(page.n_problems, 1);
}

Test(problems, counts_of_the_recorder)
{
        page.job->dropped = 1;
        page.job->shape_overflow = 2;
        page.job->bytes_lost = 3;
        capo_judge_problems(&page);
        cr_assert_eq(page.n_problems, 3);
        cr_assert(page.problems[0].kind == CAPO_PROBLEM_DROPPED &&
                  !strncmp(page.problems[0].text, "1 calls were not", 16));
        cr_assert(page.problems[1].kind == CAPO_PROBLEM_SHAPES &&
                  !strncmp(page.problems[1].text, "2 calls are", 11));
        cr_assert(page.problems[2].kind == CAPO_PROBLEM_NOT_WRITTEN &&
                  !strncmp(page.problems[2].text, "3 bytes of", 10));
}

Test(problems, killed_ranks)
{
        const struct capo_problem *p;
        static const char unknown[] = ": when it ended and in which call is not known";

        unfinished_here(1);
        unfinished_here(2)->has_end = false;
        capo_judge_problems(&page);
        cr_assert_eq(page.n_problems, 3);
        p = page.problems;
        cr_assert_eq(p->kind, CAPO_PROBLEM_KILLED);
        cr_assert_str_eq(
                p->text,
                "ranks 1, 2: killed, or ended without an exit that capo sees; all written before is used");
        cr_assert(!strncmp(p[1].text, "rank 1", 6) && !strcmp(p[1].text + 6, unknown), "%s",
                  p[1].text);
        cr_assert(!strncmp(p[2].text, "rank 2", 6) && !strcmp(p[2].text + 6, unknown), "%s",
                  p[2].text);
        cr_assert(p->n_runs == 1 && p->runs->first == 1 && p->runs->n == 2);
        cr_assert_str_eq(capo_problem_is[p->kind].name, "killed");
}

/* How it ended stood in what is missing. */
Test(problems, a_log_whose_end_is_missing)
{
        struct capo_job_process *p = unfinished_here(1);

        p->has_end = false;
        p->health.cut_bytes = 10;
        capo_judge_problems(&page);
        for (uint32_t i = 0; i < page.n_problems; i++)
                cr_expect_neq(page.problems[i].kind, CAPO_PROBLEM_KILLED);
        cr_assert_eq(page.problems[0].kind, CAPO_PROBLEM_NO_END);
        cr_assert_str_eq(
                page.problems[0].text,
                "rank 1: whether it ended well is not known: the end of its log is missing");
}

/* Of another machine nobody here can say whether it runs. */
Test(problems, ranks_of_another_machine_that_may_run)
{
        unfinished_here(1);
        page.job->processes[2].end.clean = 0;
        page.job->processes[3].end.clean = 0;
        page.job->processes[3].rank = -1;
        capo_judge_problems(&page);
        cr_assert_eq(page.n_problems, 6);
        cr_expect_eq(page.problems[0].kind, CAPO_PROBLEM_KILLED);
        cr_expect_str_eq(
                page.problems[1].text,
                "n0.103.capo: killed, ended without an exit that capo sees, or still running on "
                "another machine; all written so far is used");
        cr_expect_str_eq(
                page.problems[2].text,
                "rank 2: killed, ended without an exit that capo sees, or still running on "
                "another machine; all written so far is used");
        cr_expect(page.problems[2].n_runs == 1 && page.problems[2].runs->first == 2);
        cr_expect_str_eq(capo_problem_is[page.problems[2].kind].name, "not_ended");
        cr_expect_str_eq(page.problems[3].text,
                         "rank 1: when it ended and in which call is not known");
        cr_expect_str_eq(page.problems[4].text,
                         "rank 2: when it ended, if it did, and in which call is not known");
}

/* An end is reported in one way: it was in exit() when it was killed. */
Test(problems, killed_in_exit)
{
        made_info(unfinished_here(1), CAPO_INFO_EXIT, "1");
        capo_judge_problems(&page);
        cr_assert_eq(page.n_problems, 1);
        cr_assert_eq(page.problems[0].kind, CAPO_PROBLEM_ENDED);
        cr_assert(strstr(page.problems[0].text, "rank 1: exit status 1, "));
}

Test(problems, a_killed_process_without_a_rank)
{
        unfinished_here(1)->rank = -1;
        capo_judge_problems(&page);
        cr_assert_eq(page.n_problems, 2);
        cr_assert_eq(page.problems[0].kind, CAPO_PROBLEM_KILLED);
        cr_assert_str_eq(
                page.problems[0].text,
                "n0.101.capo: killed, or ended without an exit that capo sees; all written before "
                "is used");
        cr_assert_str_eq(page.problems[0].log, "n0.101.capo");
        cr_assert_eq(page.problems[1].kind, CAPO_PROBLEM_ENDED);
        cr_assert_str_eq(page.problems[1].log, "n0.101.capo");
}

/* A rank that the job's count has no room for is called by its log, too. */
Test(problems, a_killed_process_of_a_rank_too_many)
{
        unfinished_here(0);
        unfinished_here(3)->rank = 4;
        capo_judge_problems(&page);
        cr_assert_eq(page.n_problems, 4);
        cr_expect_eq(page.problems[0].kind, CAPO_PROBLEM_KILLED);
        cr_expect_str_eq(page.problems[0].log, "n0.103.capo");
        cr_expect_str_eq(
                page.problems[1].text,
                "rank 0: killed, or ended without an exit that capo sees; all written before is used");
        cr_expect(page.problems[1].n_runs == 1 && page.problems[1].runs->n == 1 &&
                  page.problems[1].runs->first == 0);
}

Test(problems, calls_captured_into_graphs)
{
        made_row(page.job, CAPO_CALL_ALLREDUCE, 1024, 2, CAPO_CLOCK_HOST, 0)->flags =
                CAPO_RECORD_CAPTURED;
        only(CAPO_PROBLEM_CAPTURED,
             "8 calls were captured into CUDA graphs: replays of a graph are not seen, so they are "
             "neither counted nor timed");
}

Test(problems, a_process_that_still_runs)
{
        struct capo_job_process *p = unfinished_here(3);

        p->header.pid = (uint32_t)getpid();
        p->header.t0_mono_ns = capo_clock_mono();
        only(CAPO_PROBLEM_RUNNING,
             "rank 3 still runs: this page is live, and of what has been done so far");
}

/* /dev/shm is gone: the page is of what the log had when it was written last. */
Test(problems, a_process_that_still_runs_and_whose_memory_is_not_read)
{
        struct capo_job_process *p = unfinished_here(3);
        struct timespec times[2] = {{.tv_sec = 1700000000}, {.tv_sec = 1700000000}};
        struct gen_log g;
        char why[256], path[64], when[32], text[256];

        snprintf(path, sizeof path, "/tmp/capo-test-problems-%d", (int)getpid());
        gen_log_open(&g, path, (uint32_t)getpid());
        gen_log_text(&g, CAPO_FRAME_INFO, "host\tn0");
        gen_log_close(&g);
        cr_assert_eq(capo_log_open(path, &p->log, why, sizeof why), 0, "%s", why);
        cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
        free(p->path);
        p->path = strdup(path);
        p->header.pid = (uint32_t)getpid();
        p->header.t0_mono_ns = capo_clock_mono();
        snprintf(text, sizeof text,
                 "rank 3 still runs, but capo's memory of it in /dev/shm is gone or not readable: "
                 "nothing is known since %s (",
                 capo_text_when(1700000000000000000, "%Y-%m-%d %H:%M:%S", when));
        capo_judge_problems(&page);
        cr_expect(page.n_problems == 1 && page.problems[0].kind == CAPO_PROBLEM_MEMORY);
        cr_expect_eq(strncmp(page.problems[0].text, text, strlen(text)), 0, "%s",
                     page.problems[0].text);
        unlink(path);
}

/* The log began before the process of that number, or before the machine began anew, or with no
 * number at all. */
Test(problems, a_process_that_has_another_ones_number)
{
        struct capo_job_process *p = unfinished_here(3);

        p->header.pid = (uint32_t)getpid();
        p->header.t0_mono_ns = 1;
        cr_expect(!capo_process_alive(p));
        p->header.t0_mono_ns = capo_clock_mono();
        cr_expect(capo_process_alive(p));
        made_info(p, CAPO_INFO_BOOT_ID, "another-boot");
        cr_expect(!capo_process_alive(p));
        p->n_info = 0;
        for (int i = 0; i < 2; i++) {
                p->header.pid = i ? UINT32_MAX : 0; /* to kill() a group, everybody */
                cr_expect(!capo_process_alive(p));
        }
        p->n_info = 1;
}

/* The number of a process that ended, and was waited for, is nobody's. */
Test(problems, a_process_of_this_machine_that_is_gone)
{
        struct capo_job_process *p = unfinished_here(3);
        pid_t child = fork();

        if (child == 0)
                _exit(0);
        cr_assert_eq(waitpid(child, NULL, 0), child);
        p->header.pid = (uint32_t)child;
        p->header.t0_mono_ns = capo_clock_mono();
        cr_assert_not(capo_process_alive(p));
        p->header.pid = (uint32_t)getpid();
        cr_assert(capo_process_alive(p));
        p->host[0] ^= 1;
        cr_assert_not(capo_process_alive(p), "it is another host's");
        p->host[0] ^= 1;
        p->end.clean = 2;
        cr_assert_not(capo_process_alive(p), "it was taken over");
}

Test(problems, damage)
{
        struct capo_log_health *h = &page.job->processes[0].health;
        static struct capo_log_damage damages[CAPO_DAMAGES_KEPT];

        h->damages = damages;
        h->n_damages = CAPO_DAMAGES_KEPT + 2;
        for (unsigned i = 0; i < CAPO_DAMAGES_KEPT; i++) {
                h->damages[i].offset = 1000;
                h->damages[i].bytes = 2000;
                h->damages[i].what = "checksum";
        }
        h->bytes_lost = 9000;
        h->cut_bytes = 1;
        h->cut_at = 4096;
        page.job->processes[0].read_error = -5;
        capo_judge_problems(&page);
        cr_assert_eq(page.n_problems, CAPO_DAMAGES_KEPT + 3);
        cr_assert_str_eq(
                page.problems[0].text,
                "n0.100.capo: damaged at byte 1,000 (checksum): 2,000 bytes left out, the rest is used");
        cr_assert_str_eq(page.problems[CAPO_DAMAGES_KEPT].text,
                         "n0.100.capo: damaged in 2 more places, 9,000 bytes lost in all");
        cr_assert_eq(page.problems[CAPO_DAMAGES_KEPT + 1].kind, CAPO_PROBLEM_UNREAD);
        cr_assert_str_eq(page.problems[CAPO_DAMAGES_KEPT + 2].text,
                         "n0.100.capo: ends inside a frame at byte 4,096; all before it is used");
        cr_assert_str_eq(page.problems[CAPO_DAMAGES_KEPT + 2].log, "n0.100.capo");
}

static uint32_t cut_logs(bool all, bool exact)
{
        capo_page_finish(&page);
        page = (struct capo_page){.job = made_job(12), .all = all, .exact = exact};
        for (uint32_t i = 0; i < 12; i++)
                page.job->processes[i].health.cut_bytes = 1;
        capo_judge_problems(&page);
        return page.n_problems;
}

Test(problems, many_logs_share_a_line)
{
        cr_assert_eq(cut_logs(false, false), 9);
        cr_assert_str_eq(page.problems[8].text,
                         "4 more logs are cut or damaged: capo report --all names them");
        cr_assert_eq(cut_logs(true, false), 12);
        cr_assert_eq(cut_logs(false, true), 12);
}

Test(problems, a_log_that_is_left_out_comes_first)
{
        capo_problem_left_out(&page, "/x/a.capo", "is no log");
        page.job->dropped = 1;
        capo_judge_problems(&page);
        cr_assert_eq(page.n_problems, 2);
        cr_assert_str_eq(page.problems[0].text, "a.capo is no log: left out");
        cr_assert_str_eq(page.problems[0].log, "a.capo");
}

Test(problems, ranks_in_words)
{
        static const struct {
                bool is[6];
                const char *text;
        } table[] = {{{0}, "0-5"},
                     {{1, 1, 1, 1, 1, 1}, NULL},
                     {{1, 0, 1, 0, 0, 1}, "1, 3, 4"},
                     {{0, 1, 0, 0, 0, 1}, "0, 2-4"}};

        for (unsigned i = 0; i < 4; i++) {
                char *text = capo_ranks_text(table[i].is, 6);

                cr_assert(text == table[i].text || !strcmp(text, table[i].text), "%s", text);
                free(text);
        }
        capo_problem_ranks(capo_problem_add(&page, CAPO_PROBLEM_NETWORK, NULL, "%s", "x"),
                           table[3].is, 6);
        cr_assert(page.problems[0].n_runs == 2);
        cr_assert(page.problems[0].runs[0].first == 0 && page.problems[0].runs[0].n == 1);
        cr_assert(page.problems[0].runs[1].first == 2 && page.problems[0].runs[1].n == 3);
        capo_judge_logs(&page);
        cr_assert_eq(page.n_problems, 1);
}

Test(problems, a_rank_that_was_taken_over_did_not_end)
{
        page.job->processes[2].end.clean = 2;
        capo_judge_problems(&page);
        cr_assert_eq(page.n_problems, 2);
        cr_assert_eq(page.problems[0].kind, CAPO_PROBLEM_KILLED);
        cr_assert_str_eq(
                page.problems[0].text,
                "rank 2: killed, or ended without an exit that capo sees; all written before is used");
        cr_assert(page.problems[0].n_runs == 1 && page.problems[0].runs->n == 1 &&
                  page.problems[0].runs->first == 2);
}

Test(problems, but_one_that_had_destroyed_all_its_communicators_did)
{
        page.job->processes[2].end.clean = 2;
        page.job->comms[0].members[2].t_destroyed_ns = 5;
        capo_judge_problems(&page);
        cr_assert_eq(page.n_problems, 0);
}

Test(problems, others_that_wait_for_a_second)
{
        struct capo_skew *k = made_skew(page.job, 100, (uint32_t[]){0, 1, 99, 0}, NULL);

        k->aligned = true;
        k->ranks[1] = (struct capo_skew_rank){
                .hole_ns = 999999999, .hole_seq = 3, .hole_call = CAPO_CALL_ALLREDUCE};
        k->ranks[2] = (struct capo_skew_rank){
                .hole_ns = 1e9, .hole_seq = 7, .hole_call = CAPO_CALL_ALLREDUCE};
        only(CAPO_PROBLEM_STOOD_STILL,
             "rank 2 made no progress, or did something else: it came to AllReduce number 7 of dp 1.0 s after the others");
        cr_assert(page.problems[0].seq == 7 && page.problems[0].comm == 0 &&
                  page.problems[0].runs->first == 2);
}
