/* SPDX-License-Identifier: Apache-2.0 */
/* The network sections: NIC use by rank, then traffic by call (see analysis/network/network.h). */
#include <math.h>
#include <string.h>

#include "analysis/job/figures.h"
#include "analysis/report/job_judge.h"
#include "cli/report/report_page.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/text.h"
#include "core/base/util.h"

enum { LINKS_SHOWN = 16 };

#define GUESSED_WORTH_SAYING 0.05 /* share of the calls */

static char *bytes_text(const struct report_view *view, uint64_t bytes, char *text, size_t room)
{
        if (!view->bytes)
                return capo_size_print(bytes, text, room);
        return strcat(capo_text_count(bytes, text), " B");
}

static const char *link_nic(const struct capo_fabric_domain *d)
{
        return d->nic[0] ? d->nic : d->device[0] ? d->device : d->name;
}

static void add_link_row(const struct report_view *view, size_t i, struct cli_section *s)
{
        const struct capo_page *r = view->page;
        const struct capo_fabric_link *l = &r->fabric->links[i];
        const struct capo_fabric_domain *d = l->domain;
        const struct capo_job_process *p = &r->job->processes[l->process];
        char text[1024];

        if (p->rank >= 0)
                cli_section_cell(s, "%d", p->rank);
        else
                cli_section_cell(s, "pid %u", p->header.pid);
        cli_section_cell(s, "%s", d->provider);
        cli_section_cell(s, "%s", link_nic(d));
        cli_section_cell(s, "%s", bytes_text(view, l->sent, text, sizeof text));
        cli_section_cell(s, "%s%s", l->received_exact ? "" : "<= ",
                         bytes_text(view, l->received, text, sizeof text));
        cli_section_cell(s, "%s", capo_text_count(l->ops, text));
        for (unsigned k = 0; k < 2; k++) {
                double ns = capo_fabric_percentile(&d->tx, k ? 0.99 : 0.50);

                cli_section_cell(s, "%s", capo_text_duration(d->tx.count ? ns : -1, text));
        }
        cli_section_cell(s, "%s", capo_text_count(d->n.eagain, text));
        cli_section_cell(s, "%s", capo_text_count(d->n.empty, text));
        cli_section_cell(s, "%s", capo_text_count(d->mr_count, text));
        *text = 0;
        for (unsigned k = 0; k < r->links[i].n_notes; k++)
                capo_append(text, sizeof text, "%s%s", k ? "; " : "", r->links[i].note[k].text);
        cli_section_cell(s, "%s", text);
}

static void add_links(const struct report_view *view, struct cli_page *page)
{
        static const struct cli_column columns[] = {
                {"rank", "l"},    {"provider", "l"}, {"NIC", "l"},   {"sent", "r"},
                {"recv", "r"},    {"ops", "r/c"},    {"p50", "r/d"}, {"p99", "r"},
                {"retries", "r"}, {"empty", "r/a"},  {"MR", "r/b"},  {"note", "l~"}};
        const struct capo_fabric_job *f = view->page->fabric;
        struct cli_section *s = cli_page_section(page, "NETWORK", columns, N_ELEMENTS(columns));
        unsigned sample = 1, shown = 0;
        size_t left = 0;

        s->how = "libfabric's operations by rank and NIC. p50, p99: from posting a send to its "
                 "completion, on the host's clock. retries: posts that found a full queue. empty: "
                 "queue reads that found nothing. MR: memory registrations.";
        for (size_t i = 0; i < f->n_links; i++) {
                const struct capo_fabric_domain *d = f->links[i].domain;

                sample = d->sample ? d->sample : sample;
                if (!f->links[i].ops && !view->page->all && !strcmp(d->provider, "shm"))
                        continue; /* an opened but unused domain of shared memory is no idle NIC */
                if (view->page->all || shown < LINKS_SHOWN)
                        add_link_row(view, i, s);
                left += !view->page->all && shown >= LINKS_SHOWN;
                shown++;
        }
        if (left)
                cli_section_line(s, "%zu more: --all", left);
        if (shown && sample > 1)
                cli_section_note(page, s, "p50, p99: of 1 send in %u", sample);
}

/* The times of some calls are derived from untimed ones. */
static void add_guess_note(const struct capo_job *job, const struct capo_fabric_job *f,
                           struct cli_page *page, struct cli_section *s)
{
        uint64_t calls = 0, guessed = 0;
        double bytes = 0, by_guess = 0;
        char a[32], b[32], c[32];

        for (size_t i = 0; i < f->n_shares; i++) {
                calls += f->shares[i].calls;
                guessed += f->shares[i].guessed;
                bytes += f->shares[i].sent + f->shares[i].received;
                by_guess += f->shares[i].by_guess;
        }
        if (guessed <= GUESSED_WORTH_SAYING * (double)calls)
                return;
        capo_text_count(guessed, a);
        capo_text_count(calls, b);
        if (f->placed)
                cli_section_note(
                        page, s,
                        "%s of %s calls: GPU time is a guess (%s of the bytes moved outside "
                        "all known times); %s",
                        a, b, capo_text_percent(bytes > 0 ? by_guess / bytes : 0, c),
                        capo_sample_advice(job));
        else
                cli_section_note(page, s, "%s of %s calls: GPU time is a guess; %s", a, b,
                                 capo_sample_advice(job));
}

static void add_shares(const struct report_view *view, struct cli_page *page)
{
        static const struct cli_column columns[] = {{"comm", "l"}, {"call", "l"},
                                                    {"sent", "r"}, {"recv", "r"},
                                                    {"ops", "r"},  {"own ops", "r/a"}};
        const struct capo_page *r = view->page;
        const struct capo_fabric_job *f = r->fabric;
        struct cli_section *s = NULL;
        bool exact = true, any = false;
        char text[32];

        for (size_t i = 0; i < f->n_links; i++)
                exact &= f->links[i].received_exact || !f->links[i].domain->n.blind;
        for (size_t i = 0; i < f->n_shares; i++)
                any |= f->shares[i].comm != CAPO_NO_COMM && !capo_page_share_empty(&f->shares[i]);
        if (!any)
                return;
        s = cli_page_section(page, "NETWORK BY CALL", columns, N_ELEMENTS(columns));
        cli_section_of(s, "over all ranks, by time");
        s->how =
                "Traffic is divided among the calls under way when it moved. own ops: posted by the "
                "calling thread inside the call.";
        for (size_t i = 0; i < f->n_shares; i++) {
                const struct capo_fabric_share *share = &f->shares[i];

                if (capo_page_share_empty(share))
                        continue;
                cli_section_cell(s, "%s", capo_page_comm(r, share->comm));
                cli_section_cell(s, "%s",
                                 share->call ? capo_call_name(share->call)
                                             : "outside recorded calls");
                cli_section_cell(s, "%s",
                                 bytes_text(view, (uint64_t)round(share->sent), text, sizeof text));
                cli_section_cell(
                        s, "%s%s", exact || share->received < 0.5 ? "" : "<= ",
                        bytes_text(view, (uint64_t)round(share->received), text, sizeof text));
                cli_section_cell(s, "%s", capo_text_count((uint64_t)round(share->ops), text));
                cli_section_cell(s, "%s", capo_text_count(share->own_ops, text));
        }
        add_guess_note(r->job, f, page, s);
}

void report_network(const struct report_view *view, struct cli_page *page)
{
        if (!view->page->fabric)
                return;
        add_links(view, page);
        if (view->page->all)
                add_shares(view, page);
}
