/* SPDX-License-Identifier: Apache-2.0 */
/* The network of the page: NIC use by rank, then which calls the traffic was for. See
 * analysis/network/network.h for how the latter is known. */
#include <math.h>
#include <string.h>

#include "cli/base/cli_table.h"
#include "cli/report/report_text.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/text.h"
#include "core/base/util.h"

#define LINKS_SHOWN          16
#define SHARES_SHOWN         8
#define LATE_WORTH_SAYING    0.05 /* part of the looks */
#define GUESSED_WORTH_SAYING 0.05 /* part of the calls */

static const char *link_nic(const struct capo_fabric_domain *d)
{
        return d->nic[0] ? d->nic : d->device[0] ? d->device : d->name;
}

static void note_cell(struct capo_table *t, const struct capo_page_link *link)
{
        char text[1024] = "";

        for (unsigned i = 0; i < link->n_notes; i++)
                capo_append(text, sizeof text, "%s%s", i ? "; " : "", link->note[i].text);
        capo_table_cell(t, "%s", text);
}

static void links_text(const struct capo_page *r, const struct capo_fabric_job *f, FILE *out)
{
        _cleanup_(capo_table_freep) struct capo_table *t =
                capo_table_new("ll/dl rrr/er/fr/cr/br/br/a l~");
        static const char *const heads[] = {"rank",   "provider", "NIC",   "sent",  "recv", "ops",
                                            "p50 us", "p99 us",   "retry", "empty", "MR",   "note"};
        size_t shown = 0;

        for (size_t i = 0; i < N_ELEMENTS(heads); i++)
                capo_table_cell(t, "%s", heads[i]);
        for (size_t i = 0; i < f->n_links && (r->all || shown < LINKS_SHOWN); i++) {
                const struct capo_fabric_link *l = &f->links[i];
                const struct capo_fabric_domain *d = l->domain;
                const struct capo_job_process *p = &r->job->processes[l->process];
                char text[256];

                if (!l->ops && !r->all && !strcmp(d->provider, "shm"))
                        continue; /* memory that nobody used is no idle NIC */
                shown++;

                if (p->rank >= 0)
                        capo_table_cell(t, "%d", p->rank);
                else
                        capo_table_cell(t, "pid %u", p->header.pid);
                capo_table_cell(t, "%s", d->provider);
                capo_table_cell(t, "%s", link_nic(d));
                capo_table_cell(t, "%s", capo_size_print(l->sent, text, sizeof text));
                capo_table_cell(t, "%s%s", l->received_exact ? "" : "<= ",
                                capo_size_print(l->received, text + 32, sizeof text - 32));
                capo_table_cell(t, "%s", capo_text_count(l->ops, text));
                if (d->tx.count) {
                        capo_table_cell(t, "%s",
                                        capo_text_us(capo_fabric_percentile(&d->tx, 0.50), text));
                        capo_table_cell(t, "%s",
                                        capo_text_us(capo_fabric_percentile(&d->tx, 0.99), text));
                } else {
                        capo_table_cell(t, "-");
                        capo_table_cell(t, "-");
                }
                capo_table_cell(t, "%s", capo_text_count(d->n.eagain, text));
                capo_table_cell(t, "%s", capo_text_count(d->n.empty, text));
                capo_table_cell(t, "%s", capo_text_count(d->mr_count, text));
                note_cell(t, &r->links[i]);
        }
        capo_table_print(t, out, 1, "", "");
        if (shown == LINKS_SHOWN && shown < f->n_links)
                fprintf(out, "%zu more: capo report --all %s\n", f->n_links - shown, r->what);
}

/* How much of the calls' time was network: estimated from looks, or without any (older logs) a
 * bound. */
static void network_cell(struct capo_table *t, const struct capo_fabric_share *s)
{
        struct capo_fabric_part part;
        char text[32];

        if (capo_fabric_share_network(s, &part))
                capo_table_cell(t, "%s%s (%.1f-%.1f)", capo_fabric_share_sure(s) ? "" : "at least ",
                                capo_text_percent(part.share, text), 100 * part.low,
                                100 * part.high);
        else if (s->call_ns > 0)
                capo_table_cell(t, "at most %s of its time",
                                capo_text_percent(s->net_ns / s->call_ns, text));
        else
                capo_table_cell(t, "-");
}

/* How long something posted had not completed, in all; when no look saw that, how long it may have
 * been. */
static void wait_cell(struct capo_table *t, const struct capo_fabric_share *s)
{
        struct capo_fabric_part part;
        char text[32];

        if (!capo_fabric_share_wait(s, &part))
                capo_table_cell(t, "-");
        else if (part.share > 0)
                capo_table_cell(t, "%s",
                                capo_text_time(part.share * capo_fabric_share_ns(s), text));
        else
                capo_table_cell(t, "< %s",
                                capo_text_time(part.high * capo_fabric_share_ns(s), text));
}

static void shares_text(const struct capo_page *r, const struct capo_fabric_job *f, FILE *out)
{
        _cleanup_(capo_table_freep) struct capo_table *t = capo_table_new("ll rrr/cr/brr/ar");
        static const char *const heads[] = {"comm",    "call",    "sent",  "recv", "ops",
                                            "own ops", "network", "looks", "wait"};
        uint64_t calls = 0, guessed = 0;
        bool exact = true;
        double bytes = 0, by_guess = 0;
        size_t shown = 0, n = 0;
        char text[32], slit[32], part[96] = "what is outside may be theirs";

        for (size_t i = 0; i < f->n_shares; i++) {
                n += f->shares[i].comm != CAPO_NO_COMM && !capo_page_share_empty(&f->shares[i]);
                calls += f->shares[i].calls;
                guessed += f->shares[i].guessed;
                bytes += f->shares[i].sent + f->shares[i].received;
                by_guess += f->shares[i].by_guess;
        }
        if (!n)
                return;
        for (size_t i = 0; i < f->n_links; i++)
                exact &= f->links[i].received_exact || !f->links[i].domain->n.blind;
        fprintf(out,
                "\nWHAT THE NETWORK CARRIED     over all ranks; by time: traffic is divided among the calls under way, "
                "to %s; \"own\" was posted inside the call\n",
                capo_text_time(f->window_ns, text));
        if (f->slit_ns)
                fprintf(out,
                        "network: part of the calls' time (95 %% interval), by looks at random moments: something "
                        "posted had not completed (wait), or moved within %s\n",
                        capo_text_time((double)f->slit_ns, slit));
        if (f->looks_late > LATE_WORTH_SAYING * (double)f->looks_taken)
                fprintf(out,
                        "%s of the looks came late, because the cores were busy: the interval covers the time in which "
                        "none came, not what lateness does besides\n",
                        capo_text_percent((double)f->looks_late / (double)f->looks_taken, text));
        if (f->placed)
                snprintf(part, sizeof part,
                         "%s of the bytes moved when no other call can have been there",
                         capo_text_percent(bytes > 0 ? by_guess / bytes : 0, text));
        if (guessed > GUESSED_WORTH_SAYING * (double)calls)
                fprintf(out,
                        "%s of %s calls were enqueued behind one that was not timed: when those were on the GPU is a "
                        "guess, and %s (capo run --sample 1 times all)\n",
                        capo_text_count(guessed, text), capo_text_count(calls, slit), part);
        for (size_t i = 0; i < N_ELEMENTS(heads); i++)
                capo_table_cell(t, "%s", heads[i]);
        for (size_t i = 0; i < f->n_shares && (r->all || shown < SHARES_SHOWN); i++) {
                const struct capo_fabric_share *s = &f->shares[i];

                if (capo_page_share_empty(s))
                        continue;
                shown++;
                capo_table_cell(t, "%s",
                                s->comm == CAPO_NO_COMM ? "-" : capo_page_comm(r, s->comm));
                capo_table_cell(t, "%s",
                                s->call ? capo_call_name(s->call) : "outside recorded calls");
                capo_table_cell(t, "%s",
                                capo_size_print((uint64_t)round(s->sent), text, sizeof text));
                capo_table_cell(t, "%s%s", exact || s->received < 0.5 ? "" : "<= ",
                                capo_size_print((uint64_t)round(s->received), text, sizeof text));
                capo_table_cell(t, "%s", capo_text_count((uint64_t)round(s->ops), text));
                capo_table_cell(t, "%s", capo_text_count(s->own_ops, text));
                network_cell(t, s);
                capo_table_cell(t, "%s", s->looks.n ? capo_text_count(s->looks.n, text) : "-");
                wait_cell(t, s);
        }
        capo_table_print(t, out, 1, "", "");
}

void report_text_fabric(const struct capo_page *r, FILE *out, const struct report_style *s)
{
        const struct capo_fabric_job *f = r->fabric;
        unsigned sample = 0;

        if (!f)
                return;
        for (size_t i = 0; i < f->n_links; i++)
                sample = f->links[i].domain->sample ? f->links[i].domain->sample : sample;
        fprintf(out,
                "\n%sNETWORK%s (libfabric)     post to completion of about one send in %u (CLOCK_MONOTONIC); "
                "empty: queue reads that found nothing\n",
                s->bold, s->plain, sample ? sample : 1);
        links_text(r, f, out);
        shares_text(r, f, out);
}
