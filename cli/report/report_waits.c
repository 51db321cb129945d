/* SPDX-License-Identifier: Apache-2.0 */
/* The sections on communicators, their ceilings, and waiting. */
#include <stdio.h>
#include <string.h>

#include "analysis/job/figures.h"
#include "cli/report/report_page.h"
#include "core/base/calls.h"
#include "core/base/util.h"

enum { COMMS_SHOWN = 6, CEILINGS_SHOWN = 12 };

static void add_comm_row(const struct capo_page *r, uint32_t i, struct cli_section *s)
{
        const struct capo_job *job = r->job;
        const struct capo_job_comm *c = &job->comms[i];
        uint64_t n_calls = 0, n_members = 0;
        char text[256];

        for (uint32_t k = i; k < job->n_comms; k++) {
                n_calls += r->class_of[k] == i ? job->comms[k].n_calls : 0;
                n_members += r->class_of[k] == i ? job->comms[k].n_members : 0;
        }
        cli_section_cell(s, "%s", capo_page_comm_label(r, i, text, sizeof text));
        cli_section_cell(s, "%u", c->n_nodes);
        cli_section_cell(s, "%s", c->layout);
        if (c->parent == CAPO_NO_COMM)
                cli_section_cell(s, "-");
        else if (c->color >= 0 && r->class_size[i] == 1)
                cli_section_cell(s, "%s color %d", job->comms[c->parent].name, c->color);
        else
                cli_section_cell(s, "%s", job->comms[c->parent].name);
        cli_section_cell(s, "%s", capo_text_count(n_calls, text));
        cli_section_cell(s, "%s", capo_text_count(n_members, text));
}

void report_comms(const struct report_view *view, struct cli_page *page)
{
        static const struct cli_column columns[] = {{"name (ranks)", "l"}, {"nodes", "r"},
                                                    {"layout", "l~"},      {"from", "l/a"},
                                                    {"collectives", "r"},  {"logs", "r"}};
        const struct capo_page *r = view->page;
        const struct capo_job *job = r->job;
        uint32_t shown = 0, n_classes = 0, limit;
        struct cli_section *s;

        for (uint32_t i = 0; i < job->n_comms; i++)
                n_classes += r->class_of[i] == i;
        if (n_classes < 2)
                return;
        s = cli_page_section(page, "COMMUNICATORS", columns, N_ELEMENTS(columns));
        s->how =
                "Communicators that do the same for other ranks are shown together, with nodes and "
                "layout of the first.";
        limit = r->all || n_classes <= COMMS_SHOWN + 2 ? n_classes : COMMS_SHOWN;
        for (uint32_t i = 0; i < job->n_comms && shown < limit; i++) {
                if (r->class_of[i] == i) {
                        add_comm_row(r, i, s);
                        shown++;
                }
        }
        if (shown < n_classes)
                cli_section_line(s, "%u more: --all", n_classes - shown);
}

enum { MEMBERS_SHOWN = 64 };

/* For communicators that --comm names: which job rank is which of their ranks. */
void report_members(const struct report_view *view, struct cli_page *page)
{
        static const struct cli_column columns[] = {
                {"comm", "l"}, {"in it", "r"}, {"rank", "r"}, {"host", "l~"}, {"GPU", "r"}};
        const struct capo_page *r = view->page;
        const struct capo_job *job = r->job;
        struct cli_section *s;
        uint32_t n = 0;

        if (!r->only_comm)
                return;
        s = cli_page_section(page, "MEMBERS", columns, N_ELEMENTS(columns));
        s->how = "The ranks of the communicators that were asked for, and which ranks of the job "
                 "they are.";
        for (uint32_t i = 0; i < job->n_comms; i++) {
                const struct capo_job_comm *c = &job->comms[i];

                for (uint32_t k = 0; capo_page_is_wanted(r, i) && k < c->n_members; k++) {
                        const struct capo_job_member *m = &c->members[k];

                        if (n++ >= MEMBERS_SHOWN && !r->all)
                                continue;
                        cli_section_cell(s, "%s", c->name);
                        cli_section_cell(s, m->rank < 0 ? "-" : "%d", m->rank);
                        cli_section_cell(s, m->job_rank < 0 ? "-" : "%d", m->job_rank);
                        cli_section_cell(s, "%s", job->processes[m->process].host);
                        cli_section_cell(s, m->device < 0 ? "-" : "%d", m->device);
                }
        }
        if (n > MEMBERS_SHOWN && !r->all)
                cli_section_line(s, "%u more: --all", n - MEMBERS_SHOWN);
}

/* ---- waiting ---- */

/* The source of start times, and which clocks they are from. */
static void add_clock_notes(const struct capo_page *r, struct cli_page *page, struct cli_section *s)
{
        const struct capo_job *job = r->job;
        uint64_t kernel = 0, host = 0, calls = 0;
        char a[32];

        for (uint32_t i = 0; i < r->n_waits; i++) {
                const struct capo_skew *k = job->comms[r->waits[i].comm].skew;

                kernel += k->n_kernel;
                host += k->from == CAPO_SKEW_GPU_DURATION ? k->n_host : k->n_calls;
                calls += k->n_calls;
        }
        if (kernel)
                cli_section_note(page, s,
                                 "%s of %s compared by how long NCCL's kernels waited (the GPU's "
                                 "clock)",
                                 capo_text_count(kernel, a), capo_text_plural(calls, "call", NULL));
        if (!host)
                return;
        if (job->n_clocks < 2)
                cli_section_note(page, s, "%s of %s compared by the host's start of the call",
                                 capo_text_count(host, a), capo_text_plural(calls, "call", NULL));
        else
                cli_section_note(page, s,
                                 "%s of %s compared by the host's start, on the clocks of %u "
                                 "hosts as they are",
                                 capo_text_count(host, a), capo_text_plural(calls, "call", NULL),
                                 job->n_clocks);
}

struct cli_section *report_waits(const struct report_view *view, struct cli_page *page)
{
        static const struct cli_column columns[] = {{NULL, "l~"}};
        const struct capo_page *r = view->page;
        uint32_t shown = r->all || r->n_waits <= COMMS_SHOWN ? r->n_waits : COMMS_SHOWN;
        uint32_t unknown = r->all || r->n_unknown <= 2 ? r->n_unknown : 2;
        struct cli_section *s = cli_page_section(page, "WAITING", columns, N_ELEMENTS(columns));
        char text[32];

        s->how =
                "Who starts the same call last, by how much. By GPU durations where there are any: a "
                "call ends on all ranks together, so the rank that is in it shortest came last. "
                "Else by when the host made the call. The cost is the sum of all waiting over the "
                "ranks' time in the job.";
        for (uint32_t i = 0; i < shown; i++) {
                double cost = r->job->comms[r->waits[i].comm].skew->wait_share;

                if (cost >= 0 && r->n_waits > 1 && r->wait_share >= 0)
                        cli_section_cell(s, "%s; all waiting here: %s of the job", r->waits[i].text,
                                         capo_text_percent(cost, text));
                else
                        cli_section_cell(s, "%s", r->waits[i].text);
        }
        if (shown < r->n_waits)
                cli_section_line(s, "%u more communicators: --all", r->n_waits - shown);
        for (uint32_t i = 0; i < unknown; i++)
                cli_section_cell(s, "%s: not known: %s", capo_page_comm(r, r->unknown[i].comm),
                                 r->unknown[i].why);
        if (unknown < r->n_unknown)
                cli_section_line(s, "not known for %u more: --all", r->n_unknown - unknown);
        add_clock_notes(r, page, s);
        return s;
}

/* ---- ceilings ---- */

/* What a ceiling includes besides NVLink. */
static const char *beside_nvlink(const char *on)
{
        static const char word[] = "NVLink";
        static char text[32];

        if (strncmp(on, word, sizeof word - 1) || !on[sizeof word - 1])
                return "";
        snprintf(text, sizeof text, " %s", on + sizeof word);
        return text;
}

static void add_ceiling_row(const struct report_view *view, const struct capo_page_row *row,
                            struct cli_section *s)
{
        const struct capo_page *r = view->page;
        char text[256];

        cli_section_cell(s, "%s", capo_page_comm_label(r, row->row.comm, text, sizeof text));
        cli_section_cell(s, "%s", r->ceiling[row->row.comm].class);
        cli_section_cell(s, "%s", capo_page_call(&row->row, text, sizeof text));
        cli_section_cell(s, "%s", report_size(view, row, text, sizeof text));
        cli_section_cell(s, "%s", capo_text_gbs(row->busbw, text));
        cli_section_cell(s, "%s%s", capo_text_gbs(row->ceiling, text),
                         beside_nvlink(r->ceiling[row->row.comm].on[row->row.call]));
        cli_section_cell(s, "%s", capo_text_percent(row->reached, text));
}

void report_ceiling_rows(const struct report_view *view, struct cli_page *page)
{
        static const struct cli_column columns[] = {
                {"comm", "l"},  {"class", "l/a"}, {"call", "l"},   {"size", "r"},
                {"busbw", "r"}, {"ceiling", "r"}, {"reached", "r"}};
        const struct capo_page *r = view->page;
        const char *beyond = NULL; /* kind of the exceeded ceilings: NVLink alone, or more */
        struct cli_section *s;
        bool adding = false;
        uint32_t shown = 0;

        if (!r->ceiling)
                return;
        s = cli_page_section(page, "CEILINGS", columns, N_ELEMENTS(columns));
        cli_section_of(s, "of the links in %s, busbw in GB/s", r->topology);
        s->how =
                "The bandwidth that the links of the communicator's GPUs allow: no software exceeds "
                "it (docs/fragments.md).";
        for (uint32_t i = 0; i < r->rows.n && (r->all || shown < CEILINGS_SHOWN); i++) {
                const struct capo_page_row *row = &r->rows.row[i];
                const char *on;

                if (row->row.comm == CAPO_NO_COMM || !*r->ceiling[row->row.comm].class ||
                    row->reached < 0)
                        continue;
                add_ceiling_row(view, row, s);
                on = r->ceiling[row->row.comm].on[row->row.call];
                adding |= strstr(on, "+NVLS") != NULL;
                if (row->reached > 1 && (!beyond || *beyond))
                        beyond = strstr(on, "PCIe") ? "" : on;
                shown++;
        }
        if (adding)
                cli_section_note(page, s,
                                 "NVLS: the switches add and copy, which only NCCL's NVLS uses");
        if (beyond)
                cli_section_note(page, s,
                                 "above 100 %%: %s is less than these links carry, or the call "
                                 "used others too",
                                 *beyond && *r->link_speed ? r->link_speed
                                                           : "what the description says");
        for (uint32_t i = 0; !shown && i < r->job->n_comms;
             i++) { /* without GPU times, show only the classes */
                if (*r->ceiling[i].class && r->class_of[i] == i)
                        cli_section_line(s, "%s   %s", r->job->comms[i].name, r->ceiling[i].class);
        }
        if (*r->no_ceiling)
                cli_section_line(s, "not known for %s", r->no_ceiling);
}
