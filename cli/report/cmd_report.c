/* SPDX-License-Identifier: Apache-2.0 */
/* capo report: one page from logs. This file has the command line and reads the logs.
 * analysis/report/job_judge.h judges; the formats (report_formats.def) print. */
#include <fnmatch.h>

#include "capo/env.h"
#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/cli_fields.h"
#include "cli/base/cli_output.h"
#include "cli/base/cli_progress.h"
#include "cli/hang/cmd_hang.h"
#include "cli/report/cmd_report.h"
#include "core/base/among.h"
#include "core/base/calls.h"
#include "core/base/text.h"
#include "core/base/xalloc.h"
#include "analysis/diagnose/recorded_bugs.h"
#include "analysis/log/live_jobs.h"
#include "analysis/log/live_logs.h"
#include "analysis/report/job_judge.h"
#include "analysis/report/page_kinds.h"

static void read_logs(struct capo_page *r, struct capo_log_paths *paths)
{
        char why[512] = "";

        for (size_t i = 0; i < paths->n; i++) {
                struct capo_log *log;

                cli_progress("reading log", i + 1, paths->n);
                if (capo_log_paths_take(paths, i, &log, why, sizeof why) >= 0) {
                        capo_job_add(r->job, log);
                        continue;
                }
                cli_progress_end();
                capo_warn("%s %s: left out", paths->path[i], why);
                capo_problem_left_out(r, paths->path[i], why);
        }
        cli_progress_end();
}

#define TOGETHER false
#define EXACT    true
static const struct {
        void (*write)(const struct capo_page *r, FILE *out);
        bool exact;
} formats[REPORT_FORMATS] = {
#define REPORT_FORMAT(name, where, rows, help) [REPORT_FORMAT_##name] = {report_##name, rows},
#include "cli/report/report_formats.def"
};

static void add_name(char text[400], const char *name)
{
        if (strlen(text) < 400 - 64)
                capo_append(text, 400, "%s%.60s", *text ? ", " : "", name);
}

/* A filter without a match is an error, not an empty page: print the names that there are. */
static int check_filter(const struct capo_page *r)
{
        bool comm = !r->only_comm, call = !r->only_call, said[UINT8_MAX + 1] = {false};
        char comms[400] = "", calls[400] = "", *names;

        for (uint32_t i = 0; i < r->job->n_comms && r->only_comm; i++) {
                comm |= fnmatch(r->only_comm, r->job->comms[i].name, 0) == 0;
                add_name(comms, r->job->comms[i].name);
        }
        for (uint32_t i = 0; i < r->job->n_rows; i++) {
                uint8_t id = r->job->rows[i].call;

                call |= id == r->only_call;
                if (!said[id])
                        add_name(calls, capo_call_name(id));
                said[id] = true;
        }
        if (comm && call)
                return 0;
        names = comm ? calls : comms;
        return capo_fail(-ENOENT, "%s: no %s \"%s\"; there %s: %s", r->what,
                         comm ? "call" : "communicator",
                         comm ? capo_call_name(r->only_call) : r->only_comm,
                         strchr(names, ',') ? "are" : "is", *names ? names : "none");
}

static int make_page(struct capo_page *r, const struct report_options *o, const char *word,
                     struct capo_log_paths *paths)
{
        r->job = capo_job_new();
        r->what = paths->n_folders == 1 ? paths->folder[0] : word;
        r->exact = r->all || formats[o->format].exact;
        read_logs(r, paths);
        if (!r->job->n_processes) {
                if (!paths->n)
                        capo_error(
                                "report: %s holds no logs (*.capo): no process called NCCL or libfabric, or LD_PRELOAD did "
                                "not reach it (setuid, container, ssh); " CAPO_TRY_VERBOSE,
                                word);
                else
                        capo_error("none of %s is a log that can be read",
                                   capo_text_plural(paths->n, "file", NULL));
                return -ENOENT;
        }
        capo_job_finish(r->job);
        r->fabric = capo_fabric_job_new(r->job);
        if (check_filter(r) < 0)
                return -ENOENT;
        if (report_ceilings(r, o) < 0)
                return -EINVAL;
        capo_judge(r);
        capo_page_bugs(r);
        return 0;
}

/* Several operands may be the nodes of one job. Several jobs cannot be on one page. */
static int refuse_several_jobs(struct capo_log_paths *paths)
{
        _cleanup_free_ uint32_t *job = xcalloc(paths->n + 1, sizeof *job);
        _cleanup_free_ struct capo_log_job *jobs = NULL;
        size_t first = paths->n, other = paths->n;
        int n = capo_log_jobs(paths, job, &jobs);

        if (n < 0)
                return capo_fail(n, "report: %s", strerror(-n));
        for (size_t i = 0; i < paths->n; i++) {
                if (job[i] == CAPO_LOG_NO_JOB)
                        continue;
                first = first == paths->n ? i : first;
                other = other == paths->n && job[i] != job[first] ? i : other;
        }
        if (other == paths->n)
                return 0;
        return capo_fail(-EINVAL,
                         "report: expected the logs of 1 job, found those of %d: %s and %s are of "
                         "different jobs; try: capo diff, or a report of each",
                         n, paths->path[first], paths->path[other]);
}

/* Find the logs, or print why there are none. */
static int find_logs(char **words, int n, struct capo_log_paths *paths)
{
        char why[512];
        int r = capo_log_find(words, (size_t)n, paths, why, sizeof why);

        return r < 0 ? capo_fail(r, "%s", why) : 0;
}

static int report_run(void *options, int n, char **words)
{
        _cleanup_(capo_log_paths_finish) struct capo_log_paths paths = {0};
        struct report_options *o = options;
        _cleanup_(capo_page_finish) struct capo_page r = o->page;
        _cleanup_free_ char *verdict = NULL;
        int e = 0;

        if (r.bytes)
                cli_fields_exact();
        if (o->recover >= REPORT_RECOVER_ONLY)
                return n > 1 ? capo_fail(CAPO_EXIT_USAGE,
                                         "report: --recover: expected one folder, found %d", n)
                             : report_recover_only(o->recover, n ? words[0] : NULL);
        if (n < 1)
                return capo_fail(CAPO_EXIT_USAGE, "report: which logs? expected a folder or files; "
                                                  "capo report --help");
        if (find_logs(words, n, &paths) < 0)
                return CAPO_EXIT_FAIL;
        if (o->recover == REPORT_RECOVER_FIRST && report_recover_first(&paths)) {
                capo_log_paths_finish(&paths);
                if (find_logs(words, n, &paths) < 0)
                        return CAPO_EXIT_FAIL;
        }
        if (n > 1 && refuse_several_jobs(&paths) < 0)
                return CAPO_EXIT_FAIL;
        e = capo_live_logs_take(&paths);
        if (e < 0)
                capo_warn("the memory of living processes cannot be read: %s", strerror(-e));
        /* the page of a job that is stuck says so first */
        if (ANY_OF(log, paths.log, paths.n, *log && capo_log_in_memory(*log)) &&
            (verdict = hang_of_running(n, words)))
                PROBLEM(&r, HANGS, verdict);
        if (make_page(&r, o, words[0], &paths) < 0)
                return CAPO_EXIT_FAIL;
        formats[o->format].write(&r, stdout);
        for (size_t i = 0; i < REPORT_FORMATS; i++) {
                struct cli_output file;

                if (!o->beside[i])
                        continue;
                if (cli_output_open(&file, o->beside[i]) < 0)
                        return CAPO_EXIT_FAIL;
                formats[i].write(&r, file.file);
                if (cli_output_close(&file, 0) < 0)
                        return CAPO_EXIT_FAIL;
                capo_info("wrote %s", o->beside[i]);
        }
        return CAPO_EXIT_OK;
}

static const char *take_call(void *call, const char *value)
{
        *(unsigned *)call = capo_call_find(value);
        return *(unsigned *)call ? NULL : "an NCCL call that capo records, such as AllReduce";
}

static const struct cli_option options[] = {
        {"all", CLI_FLAG(struct report_options, page.all),
         "every row and every exact size (else the rows that cost most, many sizes as ranges)"},
        {"notes", CLI_FLAG(struct report_options, page.notes),
         "also how each number was obtained, and all caveats"},
        {"bytes", CLI_FLAG(struct report_options, page.bytes), "sizes in bytes"},
        {"comm", CLI_TEXT(struct report_options, page.only_comm, "NAME"),
         "only communicators of this name; * and ? match as in the shell"},
        {"call", CLI_TAKE(struct report_options, page.only_call, "NAME", take_call),
         "only this call: AllReduce, allreduce and ncclAllReduce are the same",
         .example = "AllReduce"},
#define OPTION_PAGE(name, help) \
        {#name, CLI_SET(struct report_options, format, REPORT_FORMAT_##name), help},
#define OPTION_BESIDE(name, help) \
        {#name, CLI_FILE(struct report_options, beside[REPORT_FORMAT_##name], "FILE"), help},
#define REPORT_FORMAT(name, where, rows, help) OPTION_##where(name, help)
#include "cli/report/report_formats.def"
        {"topo", CLI_FILE(struct report_options, topo, "FILE"),
         "the machine, as in capo topo: adds the share of the links' ceiling that each collective reaches; this: the machine you are on"},
        {"platform", CLI_TEXT(struct report_options, platform, "NAME"), "the same by its name"},
        {"recover", CLI_SET(struct report_options, recover, REPORT_RECOVER_ONLY),
         "print no page, only recover what dead processes left in memory", .rare = true},
        {"recover-all", CLI_SET(struct report_options, recover, REPORT_RECOVER_ALL),
         "the same without DIR as root: those of every job", .rare = true},
        {"recover-list", CLI_SET(struct report_options, recover, REPORT_RECOVER_LIST),
         "only show what dead processes left", .rare = true},
        {"recover-drop", CLI_SET(struct report_options, recover, REPORT_RECOVER_DROP),
         "only remove what belongs to logs whose folder is gone", .rare = true},
        {"no-recover", CLI_SET(struct report_options, recover, REPORT_RECOVER_NOT),
         "leave what killed processes left in memory alone", .rare = true},
        CLI_WIDE,
        {0}};

const struct cli_command report_command = {
        .usage = "[OPTIONS] DIR|FILE...",
        .about = "Merges the logs of all ranks of a job into one page: what its collectives "
                 "cost, who came late, where they were called, what was wrong. DIR means the "
                 "newest job in it or in its folders (capo-logs/), DIR@1 the oldest. Calls that "
                 "killed processes on this machine had not yet written are recovered first.",
        .options = options,
        .after = "Times are per call, over all ranks. Calls are counted per rank: an AllReduce "
                 "of 8 ranks is one. Bandwidths are GB/s as in nccl-tests. docs/report.md "
                 "explains the page.\n"
                 "\n"
                 "  capo run -- torchrun --nproc-per-node 8 train.py && capo report capo-logs/\n"
                 "  capo report --json logs/ | jq '.rows[] | select(.call == \"AllReduce\") | "
                 "{bytes, busbw_gbs}'",
        .status =
                "0; 1 when there is no log to report or nothing of that --comm or --call, 2 for a wrong command line.",
        .most = UINT_MAX,
        .size = sizeof(struct report_options),
        .run = report_run,
};
