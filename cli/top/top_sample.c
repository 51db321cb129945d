/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/top/top_page.h"
#include "core/base/among.h"
#include "core/base/calls.h"
#include "core/base/order.h"
#include "core/base/xalloc.h"

enum { NIC_SILENT_S = 15 }; /* without new data for this long, the rate is zero */

static void ignore_gone(struct watch *w, struct watch_job *job) {}

static void finish_job(struct top_job *job)
{
        capo_live_rates_finish(&job->rates);
        free(job->nic);
}

void top_finish(struct top *t)
{
        for (uint32_t i = 0; i < t->n_jobs; i++)
                finish_job(&t->job[i]);
        free(t->job);
        watch_finish(&t->watch);
}

const struct watch_job *top_job_of(const struct top *t, const struct top_job *job)
{
        return FIRST_OF(w, t->watch.job, t->watch.n_jobs, !strcmp(w->id, job->id) && w->readable);
}

static double rate_of(uint64_t now, uint64_t before, double s)
{
        return s > 0 && now > before ? (double)(now - before) / s : 0;
}

/* The recorder reports network counters only every few seconds: between reports the rate does not
 * change. */
static void rate_nic(struct top_nic *nic, uint64_t sent, uint64_t received, uint64_t begin_ns,
                     uint64_t now_ns)
{
        uint64_t since = nic->since_ns ? nic->since_ns : begin_ns;
        double s = now_ns > since ? (double)(now_ns - since) / 1e9 : 0;

        if (nic->since_ns && sent == nic->sent && received == nic->received && s < NIC_SILENT_S)
                return;
        nic->sent_s = rate_of(sent, nic->sent, s);
        nic->received_s = rate_of(received, nic->received, s);
        nic->sent = sent;
        nic->received = received;
        nic->since_ns = now_ns;
}

/* Each interface once, over the ranks that use it. */
static void update_nics(struct top_job *job, const struct capo_fabric_job *f, uint64_t begin_ns,
                        uint64_t now_ns)
{
        for (size_t i = 0; f && i < f->n_links; i++) {
                const char *name = watch_nic_name(&f->links[i]);

                if (!ANY_OF(nic, job->nic, job->n_nics, !strcmp(nic->name, name)))
                        snprintf(xput(job->nic, job->n_nics, .sent = 0)->name,
                                 sizeof job->nic->name, "%s", name);
        }
        for (size_t n = 0; n < job->n_nics; n++) {
                uint64_t sent = 0, received = 0;

                for (size_t i = 0; f && i < f->n_links; i++) {
                        if (!strcmp(watch_nic_name(&f->links[i]), job->nic[n].name)) {
                                sent += f->links[i].sent;
                                received += f->links[i].received;
                        }
                }
                rate_nic(&job->nic[n], sent, received, begin_ns, now_ns);
        }
}

static void update_job(struct top *t, const struct watch_job *w)
{
        struct top_job *job = FIRST_OF(j, t->job, t->n_jobs, !strcmp(j->id, w->id));
        uint64_t begin = w->page.job->t_begin_ns, now = w->page.hang.now_ns;

        if (!job) {
                job = xput(t->job, t->n_jobs, 0);
                snprintf(job->id, sizeof job->id, "%s", w->id);
        }
        job->here = true;
        update_nics(job, w->fabric, begin, now);
        job->sampled_ns = now;
        capo_live_rates_update(&job->rates, &w->rows, begin, now,
                               COUNT_OF(p, w->page.hang.processes, w->page.hang.n_processes,
                                        p->life <= CAPO_HANG_STOPPED));
}

int top_sample(struct top *t)
{
        int r = watch_sample(&t->watch, ignore_gone);
        uint32_t kept = 0;

        for (uint32_t i = 0; i < t->n_jobs; i++)
                t->job[i].here = false;
        for (uint32_t i = 0; i < t->watch.n_jobs && r == 0; i++) {
                if (t->watch.job[i].readable)
                        update_job(t, &t->watch.job[i]);
        }
        for (uint32_t i = 0; i < t->n_jobs; i++) {
                if (t->job[i].here)
                        t->job[kept++] = t->job[i];
                else
                        finish_job(&t->job[i]);
        }
        t->n_jobs = kept;
        return r;
}

/* ---- sorting ---- */

static double value_of(const struct capo_live_rate *r, enum top_sort sort)
{
        switch (sort) {
        case TOP_SORT_TIME: return r->share;
        case TOP_SORT_CALLS: return r->calls_s;
        case TOP_SORT_BYTES: return r->bytes_s;
        case TOP_SORT_P50: return r->p50_ns;
        case TOP_SORT_BUSBW: return r->row->busbw;
        default: return 0;
        }
}

struct sorting {
        const struct capo_live_rates *rates;
        enum top_sort sort;
};

static int by_sort(const void *a_, const void *b_, void *arg)
{
        const struct sorting *s = arg;
        const struct capo_live_rate *a = &s->rates->rate[*(const uint32_t *)a_],
                                    *b = &s->rates->rate[*(const uint32_t *)b_];
        double x = value_of(a, s->sort), y = value_of(b, s->sort);

        if (x != y)
                return x > y ? -1 : 1;
        return strcmp(a->row->comm, b->row->comm)
                       ?: CAPO_ORDER(a->row->call, b->row->call) ?: CAPO_ORDER(a->row->size, b->row->size);
}

uint32_t top_rows(const struct top *t, const struct top_job *job, uint32_t *order)
{
        struct sorting s = {&job->rates, t->sort};
        uint32_t n = 0;

        for (uint32_t i = 0; i < job->rates.n; i++) {
                const struct capo_live_row *row = job->rates.rate[i].row;

                if (row && row->calls &&
                    (capo_call_kind(row->call) != CAPO_KIND_OTHER ||
                     job->rates.rate[i].calls_s > 0))
                        order[n++] = i;
        }
        qsort_r(order, n, sizeof *order, by_sort, &s);
        return n;
}
