/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capo report: logs in, one page out. Here: the command line and reading the logs. report_rows.c chooses what is shown,
 * report_problems.c says what is wrong with it; the faces are report_text.c, report_json.c and report_html.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/report/report.h"
#include "core/base/calls.h"
#include "core/log/find.h"
#include "core/log/segment.h"
#include "core/base/util.h"

static const char *const sort_names[SORTS] = {"time", "count", "size",  "p50",  "p95", "p99",
                                              "max",  "algbw", "busbw", "comm", "call"};

static void help(void)
{
        puts("usage: capo report [OPTIONS] DIR|FILE...\n"
             "\n"
             "Merges the logs of all ranks of a job into one page: what its collectives cost, who came late, where\n"
             "they were called, what was wrong. DIR stands for the logs in it; a folder of jobs (capo-logs/) for the\n"
             "newest of them. What processes that were killed on this machine had not yet written is taken up first.\n"
             "\n"
             "  --all          every row and every exact size (else the rows that cost most, many sizes as ranges)\n"
             "  --sort KEY     time (default), count, size, p50, p95, p99, max, algbw, busbw, comm or call\n"
             "  --comm NAME    only communicators of this name; * and ? match as in the shell\n"
             "  --call NAME    only this call: AllReduce, allreduce and ncclAllReduce are the same\n"
             "  --json         for programs: docs/report.md lists the keys\n"
             "  --csv          the rows, for a spreadsheet\n"
             "  --topo FILE, --platform NAME  the machine, as in capo topo: then the page names the class of each\n"
             "                 communicator's GPUs, the share of their links' ceiling that its collectives reach, and\n"
             "                 NICs that a nearer one could replace; --topo this: the machine you are on, by hwloc\n"
             "  --html FILE    also write a page with pictures: time by size, lateness by rank\n"
             "  --no-recover   leave what killed processes left in memory alone\n"
             "\n"
             "How to read it. Times are per call, over all ranks; the column `clock` says what measured them: `event`\n"
             "and `kernel` are GPU times (waiting for late ranks included), `host` is only how long the call took to\n"
             "return, which is not the transfer, so it gives no bandwidth. Count is calls per rank: an AllReduce of 8\n"
             "ranks is one. Bandwidths follow nccl-tests: algbw is size over time (here p50), busbw is algbw times\n"
             "2(n-1)/n for AllReduce, (n-1)/n for AllGather and ReduceScatter, ...; for the latter two the size is "
             "the\n"
             "total over ranks. Percentiles are exact to 1/16 (they come from histograms of every call).\n"
             "\n"
             "NETWORK has a row per rank and NIC that libfabric moved data over, and how much of it fell into which "
             "call (by\n"
             "time), and how much of that call's time the network was busy (`network`, with its 95 % interval) or "
             "waited for\n"
             "(`wait`), estimated from looks at random moments; docs/fabric.md says how far to trust that. Programs "
             "without\n"
             "NCCL, such as MPI, have the NETWORK part only.\n"
             "\n"
             "  capo run -- torchrun --nproc-per-node 8 train.py && capo report capo-logs/\n"
             "  capo report --json logs/ | jq '.rows[] | select(.call == \"AllReduce\") | {bytes, busbw_gbs}'\n"
             "\n"
             "Exit status: 0; 1 when there is no log to report, 2 for a wrong command line.");
}

static int option(struct report_options *o, int argc, char **argv, int *i)
{
        const struct {
                const char *name;
                const char **value;
        } valued[] = {{"--comm", &o->comm},         {"--html", &o->html}, {"--topo", &o->topo},
                      {"--platform", &o->platform}, {"--sort", NULL},     {"--call", NULL}};

        if (!strcmp(argv[*i], "--all"))
                o->all = true;
        else if (!strcmp(argv[*i], "--json"))
                o->format = REPORT_JSON;
        else if (!strcmp(argv[*i], "--csv"))
                o->format = REPORT_CSV;
        else if (!strcmp(argv[*i], "--no-recover"))
                o->recover = false;
        else {
                for (size_t k = 0; k < N_ELEMENTS(valued); k++) {
                        size_t n = strlen(valued[k].name);
                        const char *value;

                        if (strncmp(argv[*i], valued[k].name, n) != 0 || (argv[*i][n] && argv[*i][n] != '='))
                                continue;
                        value = argv[*i][n] ? argv[*i] + n + 1 : *i + 1 < argc ? argv[++*i] : NULL;
                        if (!value) {
                                capo_error("report: %s needs a value", valued[k].name);
                                return -EINVAL;
                        }
                        if (valued[k].value) {
                                *valued[k].value = value;
                        } else if (!strcmp(valued[k].name, "--call")) {
                                o->call = capo_call_find(value);
                                if (!o->call) {
                                        capo_error("report: --call %s: not an NCCL call that capo records", value);
                                        return -EINVAL;
                                }
                        } else {
                                for (o->sort = 0; o->sort < SORTS && strcmp(sort_names[o->sort], value) != 0; o->sort++)
                                        ;
                                if (o->sort == SORTS) {
                                        capo_error("report: --sort %s: expected time, count, size, p50, p95, p99, max, "
                                                   "algbw, busbw, comm or call",
                                                   value);
                                        return -EINVAL;
                                }
                        }
                        return 0;
                }
                capo_error("report: unknown option \"%s\"; capo report --help", argv[*i]);
                return -EINVAL;
        }
        return 0;
}

static int parse(struct report_options *o, int argc, char **argv)
{
        bool files_only = false;

        *o = (struct report_options){.recover = true, .args = argv};
        for (int i = 1; i < argc; i++) {
                if (!files_only && !strcmp(argv[i], "--")) {
                        files_only = true;
                } else if (!files_only && argv[i][0] == '-' && argv[i][1]) {
                        if (option(o, argc, argv, &i) < 0)
                                return -EINVAL;
                } else {
                        o->args[o->n_args++] = argv[i]; /* never overtakes i */
                }
        }
        if (!o->n_args) {
                capo_error("report: which logs? expected a folder or files; capo report --help");
                return -EINVAL;
        }
        return 0;
}

static void report_finish(struct report *r)
{
        for (uint32_t i = 0; i < r->n_rows; i++) {
                for (unsigned c = 0; c < CAPO_CLOCKS; c++)
                        capo_hist_finish(&r->rows[i].row.time[c]);
        }
        for (uint32_t i = 0; i < r->n_problems; i++)
                free(r->problems[i]);
        free(r->problems);
        free(r->rows);
        free(r->others);
        free(r->class_of);
        free(r->class_size);
        free(r->bounds);
        free(r->near);
        capo_fabric_job_free(r->fabric);
        capo_job_free(r->job);
}

/* ---- reading ---- */

struct recovering {
        unsigned processes;
        uint64_t records;
};

static int recover_one(const struct capo_segment_info *info, void *arg)
{
        struct recovering *sum = arg;
        struct capo_segment_info done = {0};
        int r = capo_segment_recover(info->path, NULL, &done);

        if (r == 0) {
                sum->processes++;
                sum->records += done.records;
        } else if (r != -EBUSY) {
                capo_warn("pid %d left calls that are not in its log, and they cannot be taken up: %s", info->pid,
                          strerror(-r));
        }
        return 0;
}

/* What killed processes of this machine left in memory goes into their logs first. */
static void recover(const struct capo_log_paths *paths)
{
        struct recovering sum = {0};

        for (size_t i = 0; i < paths->n_folders; i++) {
                _cleanup_free_ char *absolute = realpath(paths->folder[i], NULL);

                if (absolute)
                        capo_segment_find_dead(NULL, absolute, recover_one, &sum);
        }
        if (sum.processes)
                capo_info("took up %llu calls that %u killed process%s had not yet written",
                          (unsigned long long)sum.records, sum.processes, sum.processes > 1 ? "es" : "");
}

struct progress {
        uint64_t total, before;
        size_t nth, n;
        bool shown;
        struct timespec started;
};

static void show_progress(uint64_t bytes, void *arg)
{
        struct progress *p = arg;
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        if (!p->shown && now.tv_sec - p->started.tv_sec < 1)
                return;
        p->shown = true;
        fprintf(stderr, "\rcapo: reading log %zu of %zu, %.0f %%\033[K", p->nth + 1, p->n,
                p->total ? 100.0 * (double)(p->before + bytes) / (double)p->total : 0);
}

static uint64_t file_size(const char *path)
{
        FILE *f = fopen(path, "re");
        long size = -1;

        if (f) {
                if (fseek(f, 0, SEEK_END) == 0)
                        size = ftell(f);
                fclose(f);
        }
        return size > 0 ? (uint64_t)size : 0;
}

static int read_logs(struct report *r, const struct capo_log_paths *paths)
{
        struct progress p = {.n = paths->n};
        bool tell = isatty(STDERR_FILENO);
        char why[512] = "";

        clock_gettime(CLOCK_MONOTONIC, &p.started);
        for (size_t i = 0; tell && i < paths->n; i++)
                p.total += file_size(paths->path[i]);
        for (p.nth = 0; p.nth < paths->n; p.nth++) {
                const char *path = paths->path[p.nth];
                int e = capo_job_add_log(r->job, path, why, sizeof why, tell ? show_progress : NULL, &p);

                if (e == -ENOMEM) {
                        capo_error("report: out of memory");
                        return e;
                }
                if (e < 0) {
                        if (p.shown)
                                fputs("\r\033[K", stderr);
                        capo_warn("%s %s: left out", path, why);
                        report_problem(r, "%s %s: left out", report_base_name(path), why);
                }
                if (tell) {
                        p.before += file_size(path);
                        show_progress(0, &p);
                }
        }
        if (p.shown)
                fputs("\r\033[K", stderr);
        return 0;
}

static int make(struct report *r, const struct report_options *o, const struct capo_log_paths *paths)
{
        r->job = capo_job_new();
        if (!r->job)
                return -ENOMEM;
        r->what = paths->n_folders == 1 ? paths->folder[0] : paths->n ? paths->path[0] : o->args[0];
        r->all = o->all;
        if (read_logs(r, paths) < 0)
                return -ENOMEM;
        if (!r->job->n_processes) {
                if (!paths->n)
                        capo_error("%s holds no logs (*.capo); capo run --dir %s -- COMMAND makes some", o->args[0],
                                   o->args[0]);
                else
                        capo_error("none of %zu file%s is a log that can be read", paths->n, paths->n > 1 ? "s" : "");
                return -ENOENT;
        }
        if (capo_job_finish(r->job) < 0 || capo_fabric_job_new(r->job, &r->fabric) < 0 || report_choose_rows(r, o) < 0)
                return -ENOMEM;
        if ((o->topo || o->platform) && report_bound(r, o) < 0)
                return -EINVAL;
        report_find_problems(r);
        return 0;
}

int capo_verb_report(int argc, char **argv)
{
        _cleanup_(capo_log_paths_finish) struct capo_log_paths paths = {0};
        _cleanup_(report_finish) struct report r = {0};
        struct report_options o;
        char why[512];
        int e = 0;

        for (int i = 1; i < argc; i++) {
                if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
                        help();
                        return CAPO_EXIT_OK;
                }
        }
        if (parse(&o, argc, argv) < 0)
                return CAPO_EXIT_USAGE;
        if (capo_log_find(o.args, (size_t)o.n_args, &paths, why, sizeof why) < 0) {
                capo_error("%s", why);
                return CAPO_EXIT_FAIL;
        }
        if (o.recover && paths.n_folders) {
                recover(&paths);
                capo_log_paths_finish(&paths); /* a log may have been born */
                if (capo_log_find(o.args, (size_t)o.n_args, &paths, why, sizeof why) < 0) {
                        capo_error("%s", why);
                        return CAPO_EXIT_FAIL;
                }
        }
        if (make(&r, &o, &paths) < 0)
                return CAPO_EXIT_FAIL;
        if (o.format == REPORT_JSON)
                e = report_json(&r, stdout);
        else if (o.format == REPORT_CSV)
                e = report_csv(&r, stdout);
        else
                report_text(&r, stdout);
        if (e == 0 && o.html)
                e = report_html(&r, o.html);
        if (e == 0 && (fflush(stdout) != 0 || ferror(stdout)))
                e = -errno;
        if (e < 0 && e != -EPIPE)
                capo_error("report: cannot write%s%s: %s", o.html ? " " : "", o.html ? o.html : "", strerror(-e));
        return e < 0 ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}
