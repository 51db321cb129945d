/* SPDX-License-Identifier: Apache-2.0 */
/* The page: most important first, one screen, every number with its unit and its clock. */
#include <stdlib.h>
#include <string.h>

#include "cli/base/cli_screen.h"
#include "cli/base/cli_table.h"
#include "cli/report/report_formats.h"
#include "cli/report/report_text.h"
#include "core/base/plain_text.h"
#include "core/base/size.h"
#include "core/base/text.h"
#include "core/base/util.h"
#include "analysis/log/rules_read.h"

enum { SITES_SHOWN = 5, HINTS_SHOWN = 4 };

/* The job's layout is that of its largest communicator; several nodes without one are only counted.
 */
static void print_heading(const struct capo_page *r, FILE *out, const struct report_style *s)
{
        const struct capo_job *job = r->job;
        const struct capo_job_comm *c =
                job->n_comms && job->comms[0].n_ranks == job->n_ranks ? &job->comms[0] : NULL;
        char when[32], text[32], title[1200];

        capo_text_when(job->t_begin_ns, "%Y-%m-%d %H:%M:%S", when);
        fprintf(out, "%scapo report%s  ", s->bold, s->plain);
        capo_page_title(r, title, sizeof title);
        fprintf(out, "%s%s", title, *title ? "  " : "");
        fprintf(out, "%s  %s    %d rank%s on %u node%s", when,
                capo_text_time((double)capo_job_duration_ns(job), text), job->n_ranks,
                job->n_ranks == 1 ? "" : "s", job->n_nodes, job->n_nodes == 1 ? "" : "s");
        if (c && job->n_nodes > 1 && c->layout[0])
                fprintf(out, c->n_members < (uint32_t)c->n_ranks ? ", %s with a log" : ": %s",
                        c->layout);
        fputc('\n', out);
}

/* Which GPU clocks there are, and how many of the calls of such rows they saw. */
static void gpu_times(const struct capo_page *r, FILE *out)
{
        static const char *const names[CAPO_CLOCKS] = {"none", "host", "events", "kernel stamps"};
        bool any = false;

        fputs("GPU times: ", out);
        for (unsigned c = CAPO_CLOCK_EVENT; c < CAPO_CLOCKS; c++) {
                uint64_t timed = 0, calls = 0;

                for (uint32_t i = 0; i < r->rows.n; i++) {
                        timed += r->rows.row[i].row.time[c].count;
                        calls += r->rows.row[i].row.time[c].count ? r->rows.row[i].row.calls : 0;
                }
                if (!timed)
                        continue;
                fprintf(out, "%s%s", any ? "; " : "", names[c]);
                if (calls > timed + timed / 20)
                        fprintf(out, ", 1 call in %.2g", (double)calls / (double)timed);
                any = true;
        }
        fputs(any ? "" : "none, only what the host saw", out);
}

/* How the program reached NCCL, in words; INFO nccl.how has the recorder's (shim/nccl/real.c). */
static const char *describe_nccl_how(const char *how)
{
        static const char *const words[][2] = {
                {"next", "linked by the program"}, {"caller", "linked by a library"},
                {"noload", "linked by a library"}, {"walk", "inside another library"},
                {"dlopen", "opened by capo"},      {"dlsym", "opened at run time"},
        };

        for (size_t i = 0; i < N_ELEMENTS(words); i++) {
                if (!strcmp(how, words[i][0]))
                        return words[i][1];
        }
        return how;
}

/* What was there to be recorded, and how capo got at it. */
static void print_setup(const struct capo_page *r, FILE *out)
{
        const char *nccl = capo_page_info(r, CAPO_INFO_NCCL_VERSION),
                   *how = capo_page_info(r, CAPO_INFO_NCCL_HOW);
        const char *fabric = capo_page_info(r, CAPO_INFO_FABRIC_VERSION),
                   *tuner = capo_page_info(r, CAPO_INFO_NCCL_TUNER);
        const char *rules = r->job->processes[0].rules;
        char value[256];

        if (nccl)
                fprintf(out, "NCCL %s", nccl);
        else
                fputs("NCCL: not seen", out);
        if (how)
                fprintf(out, " (%s)", describe_nccl_how(how));
        if (fabric)
                fprintf(out, "   libfabric %s", fabric);
        if (capo_rules_value(rules, CAPO_RULES_SWEEP, value, sizeof value))
                fprintf(out, "   tuner: capo, sweeping %s   profile: none", value);
        else if ((capo_rules_value(rules, CAPO_RULES_NAME, value, sizeof value) && *value) ||
                 capo_rules_value(rules, CAPO_RULES_FILE, value, sizeof value))
                fprintf(out, "   tuner: capo   profile: %s", value);
        else
                fprintf(out, "   tuner: %s   profile: none", tuner ? tuner : "none");
        fputs("   ", out);
        gpu_times(r, out);
        fputc('\n', out);
}

static void print_totals(const struct capo_page *r, FILE *out)
{
        const struct capo_job *job = r->job;
        char text[32];
        double per_rank = job->n_processes ? (double)job->calls / job->n_processes : 0;

        fprintf(out, "collectives %s", capo_text_count(r->collectives, text));
        fprintf(out, "   bytes %s", capo_size_print(r->moved_bytes, text, sizeof text));
        if (r->gpu_share >= 0) {
                fprintf(out, "   on the GPU %s", capo_text_percent(r->gpu_share, text));
                if (r->gpu_share_pm > 0)
                        fprintf(out, " +- %s", capo_text_percent(r->gpu_share_pm, text));
                fputs(" of the job", out);
                if (r->overlapping) /* several streams: it may be more than there was time */
                        fprintf(out, " (%s with overlaps once)",
                                capo_text_percent(r->exposed_most, text));
        }
        fprintf(out, "   dropped %s", capo_text_count(job->dropped, text));
        if (job->cost_ns > 0) {
                fprintf(out, "   capo's own cost %.0f ns/call", job->cost_ns);
                if (capo_job_duration_ns(job))
                        fprintf(out, ", %s of the job",
                                capo_text_percent(job->cost_ns * per_rank /
                                                          (double)capo_job_duration_ns(job),
                                                  text));
        }
        fputc('\n', out);
}

static void print_problems(const struct capo_page *r, FILE *out, const struct report_style *s)
{
        for (uint32_t i = 0; i < r->n_problems; i++)
                fprintf(out, "%s! %s%s\n", s->warn, r->problems[i].text, s->plain);
}

static void where_called(const struct capo_page *r, FILE *out, const struct report_style *s)
{
        _cleanup_(capo_table_freep) struct capo_table *t = capo_table_new("rrl~");
        uint32_t shown = r->all || r->n_places <= SITES_SHOWN + 1 ? r->n_places : SITES_SHOWN;

        if (!r->n_places || !t)
                return;
        fprintf(out,
                "\n%sWHERE IT WAS CALLED%s     share of %s; calls over all ranks; innermost frame first\n",
                s->bold, s->plain, r->places_by_gpu ? "GPU time" : "host time in the calls");
        for (uint32_t i = 0; i < shown; i++) {
                char text[32];

                capo_table_cell(t, "%s",
                                r->places[i].share >= 0
                                        ? capo_text_percent(r->places[i].share, text)
                                        : "-");
                capo_table_cell(t, "%s", capo_text_count(r->places[i].calls, text));
                capo_table_cell(t, "%s", r->places[i].line);
        }
        capo_table_print(t, out, 0, "", "");
        if (shown < r->n_places)
                fprintf(out, "%u more: capo report --all %s\n", r->n_places - shown, r->what);
}

/* Rows of the profile, or candidates of the sweep, and how many calls each decided. */
static void rules_fired(const struct capo_page *r, FILE *out, const struct report_style *s)
{
        _cleanup_(capo_table_freep) struct capo_table *t = capo_table_new("rrl~");
        char text[32];

        if (!r->n_rules || !t)
                return;
        fprintf(out, "\n%sRULES THAT DECIDED%s     of %s calls\n", s->bold, s->plain,
                capo_text_count(r->ruled_calls, text));
        for (uint32_t i = 0; i < r->n_rules; i++) {
                capo_table_cell(t, "%u", r->rules[i].rule);
                capo_table_cell(t, "%s", capo_text_count(r->rules[i].calls, text));
                capo_table_cell(t, "%s", r->rules[i].text);
        }
        capo_table_print(t, out, 0, "", "");
}

static void next_steps(const struct capo_page *r, FILE *out, const struct report_style *s)
{
        if (r->n_next)
                fprintf(out, "\n%sNEXT%s\n", s->bold, s->plain);
        for (uint32_t i = 0; i < r->n_next && i < HINTS_SHOWN; i++)
                fprintf(out, "%s\n", r->next[i].text);
}

void report_text_styled(const struct capo_page *r, FILE *out, const struct report_style *s)
{
        print_heading(r, out, s);
        print_setup(r, out);
        print_totals(r, out);
        print_problems(r, out, s);
        report_text_rows(r, out, s);
        report_text_comms(r, out, s);
        report_text_fabric(r, out, s);
        where_called(r, out, s);
        rules_fired(r, out, s);
        next_steps(r, out, s);
}

int report_text(const struct capo_page *r, FILE *out)
{
        bool terminal = cli_screen_is_terminal(out) && !getenv("NO_COLOR");
        struct report_style s = terminal ? (struct report_style){CAPO_STYLE_BOLD, CAPO_STYLE_YELLOW,
                                                                 CAPO_STYLE_NORMAL}
                                         : (struct report_style){"", "", ""};

        report_text_styled(r, cli_screen_begin(out), &s);
        return 0;
}
