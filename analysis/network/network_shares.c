/* SPDX-License-Identifier: Apache-2.0 */
/* Assigns network traffic to collectives. NCCL's progress threads post to libfabric, the job's own
 * threads call collectives, and nothing in a posted operation names its collective. The only common
 * element is the clock: the recorder divides the traffic of each process into windows
 * (shim/fabric/windows.c), and the log has the times of calls. So the traffic of each window is
 * divided among the calls that ran on that rank, in proportion to how much of the window each
 * covers. The report marks these as estimates. Operations that a thread posts inside its own NCCL
 * call need no estimate, and are counted apart. */

#include "analysis/job/gpu_spans.h"
#include "analysis/job/log_calls.h"
#include "analysis/job/stats_private.h"
#include "analysis/network/network_parts.h"
#include "capo/call_ids.h"
#include "core/base/among.h"
#include "core/base/calls.h"
#include "core/base/order.h"
#include "core/base/xalloc.h"

uint32_t fabric_share_of(struct capo_fabric_job *f, uint32_t comm, uint8_t call)
{
        struct capo_fabric_share *s =
                FIRST_OF(of, f->shares, f->n_shares, of->comm == comm && of->call == call)
                        ?: xput(f->shares, f->n_shares, .comm = comm, .call = call);

        return (uint32_t)(s - f->shares);
}

CAPO_ORDERED(by_begin, struct fabric_span, CAPO_ORDER(a->begin, b->begin));

static uint64_t window_overlap(const struct fabric_span *s, const struct capo_fabric_window *w)
{
        uint64_t begin = s->begin > w->begin_ns ? s->begin : w->begin_ns;
        uint64_t end = s->end < w->end_ns ? s->end : w->end_ns;

        return end > begin ? end - begin : 0;
}

/* The calls that run at a moving point of time. */
struct under_way {
        const struct fabric_spans *all; /* sorted by begin */
        size_t next;                    /* index of the next one */
        const struct fabric_span **span;
        size_t n;
};

static void under_way_init(struct under_way *u, struct fabric_spans *all)
{
        CAPO_SORT(all->span, all->n, by_begin);
        u->all = all;
        u->span = xmalloc((all->n ? all->n : 1) * sizeof *u->span);
}

/* Advance to all calls that overlap @begin .. @end; @begin must not decrease. */
static void under_way_move(struct under_way *u, uint64_t begin, uint64_t end)
{
        size_t n = 0;

        for (; u->next < u->all->n && u->all->span[u->next].begin < end; u->next++)
                u->span[u->n++] = &u->all->span[u->next];
        for (size_t i = 0; i < u->n; i++) {
                if (u->span[i]->end > begin)
                        u->span[n++] = u->span[i];
        }
        u->n = n;
}

/* Divide the traffic of a window among the calls it overlaps. Return: false: there is none. */
static bool divide_window(struct capo_fabric_job *f, const struct capo_fabric_window *w,
                          struct under_way *u, bool guess)
{
        double covered = 0;

        under_way_move(u, w->begin_ns, w->end_ns);
        for (size_t k = 0; k < u->n; k++)
                covered += (double)window_overlap(u->span[k], w);
        for (size_t k = 0; k < u->n && covered > 0; k++) {
                struct capo_fabric_share *to = &f->shares[u->span[k]->share];
                double part = (double)window_overlap(u->span[k], w) / covered;

                to->ops += part * (double)w->ops;
                to->sent += part * (double)w->tx_bytes;
                to->received += part * (double)w->rx_bytes;
                if (guess)
                        to->by_guess += part * (double)(w->tx_bytes + w->rx_bytes);
        }
        return covered > 0;
}

/* Assign windows to the calls that ran; if none did, to those that may have. */
static void divide_windows(struct capo_fabric_job *f, const struct capo_fabric *of,
                           struct under_way *were, struct under_way *maybe, uint32_t outside)
{
        for (size_t i = 0; i < of->n_windows; i++) {
                const struct capo_fabric_window *w = &of->windows[i];

                if ((double)(w->end_ns - w->begin_ns) > f->window_ns)
                        f->window_ns = (double)(w->end_ns - w->begin_ns);
                if (divide_window(f, w, were, false) || divide_window(f, w, maybe, true))
                        continue;
                f->shares[outside].ops += (double)w->ops;
                f->shares[outside].sent += (double)w->tx_bytes;
                f->shares[outside].received += (double)w->rx_bytes;
        }
}

static void add_inside(struct capo_fabric_job *f, const struct capo_job *job,
                       const struct capo_fabric *of)
{
        for (size_t i = 0; i < of->n_inside; i++) {
                const struct capo_job_comm *comm =
                        LAST_OF(c, job->comms, job->n_comms, c->uid == of->inside[i].comm_uid);
                uint32_t share = fabric_share_of(
                        f, comm ? (uint32_t)(comm - job->comms) : CAPO_NO_COMM, of->inside[i].call);

                f->shares[share].own_ops += of->inside[i].ops;
                f->shares[share].own_bytes += of->inside[i].bytes;
        }
}

CAPO_ORDERED(by_bytes, struct capo_fabric_share,
             CAPO_ORDER(b->sent + b->received + (double)b->own_bytes,
                        a->sent + a->received + (double)a->own_bytes));

void fabric_shares_make(struct capo_fabric_job *f, const struct capo_job *job)
{
        uint32_t outside = fabric_share_of(f, CAPO_NO_COMM, CAPO_CALL_NONE);

        for (uint32_t p = 0; p < f->n_processes; p++) {
                struct fabric_calls calls = {0};
                struct under_way were = {0}, maybe = {0};

                if (!f->process[p])
                        continue;
                fabric_spans_read(f, job, p, &calls);
                under_way_init(&were, &calls.were);
                under_way_init(&maybe, &calls.maybe);
                divide_windows(f, f->process[p], &were, &maybe, outside);
                xfree(were.span, maybe.span, calls.were.span, calls.maybe.span);
                add_inside(f, job, f->process[p]);
        }
        qsort(f->shares, f->n_shares, sizeof *f->shares, by_bytes);
}

/* Single calls of a log as spans on the host's clock: on the GPU if there (gpu_spans.h). */

static uint32_t comm_of(const struct capo_job *job, uint32_t process, uint16_t id)
{
        uint32_t n;
        const struct capo_job_use *uses = capo_job_uses(job, process, &n),
                                  *use = FIRST_OF(u, uses, n,
                                                  job->comms[u->comm].members[u->member].id == id);

        return use ? use->comm : CAPO_NO_COMM;
}

/* Order of rows: communicator, call, bytes. */
static int by_kind(const struct capo_job_row *row, uint32_t comm, const struct capo_record *r)
{
        return CAPO_ORDER(row->comm, comm) ?: row->call - r->call ?: CAPO_ORDER(row->bytes, r->bytes);
}

/* Usual GPU time of calls like @r; 0: none was timed. */
static uint64_t usual_time_of(const struct capo_job *job, uint32_t comm,
                              const struct capo_record *r)
{
        uint64_t usual_ns = 0;
        uint32_t first = 0, end = job->n_rows;

        while (first < end) {
                uint32_t middle = first + (end - first) / 2;

                if (by_kind(&job->rows[middle], comm, r) < 0)
                        first = middle + 1;
                else
                        end = middle;
        }
        for (; first < job->n_rows && by_kind(&job->rows[first], comm, r) == 0; first++) {
                struct capo_sampled s = capo_job_row_sampled(&job->rows[first]);

                if (capo_job_row_clock(&job->rows[first]) < CAPO_CLOCK_EVENT)
                        continue;
                usual_ns = (uint64_t)capo_sampled_quantile(&s, 0.5);
        }
        return usual_ns;
}

/* Calls on communicators with one rank send nothing: if the process has larger communicators, the
 * traffic belongs to those, and the calls only take their time on the stream. (If all communicators
 * have one rank, the program talks to itself.) */
#define SHARE_NONE UINT32_MAX

/* What equal calls of a process have in common: a log has millions of calls of a few hundred kinds.
 */
struct alike {
        uint64_t bytes;
        uint32_t share;
        uint16_t comm;
        uint8_t call;
        uint64_t usual_ns; /* on the GPU; 0: none was timed */
};

/* The calls of one log while they are read: times, and the share in which each counts. */
struct gathered {
        struct capo_fabric_job *f;
        const struct capo_job *job;
        uint32_t process;
        struct alike *alike;
        uint32_t n_alike;
        struct job_index index; /* index of the kinds */
        struct capo_gpu_span *spans;
        struct fabric_span *as; /* by span.nth: its share */
        bool any_placed;        /* some have a begin measured by events */
        bool others;            /* some communicator has more than one rank */
        size_t n;
};

static const struct alike *alike_of(struct gathered *g, const struct capo_record *r)
{
        const uint64_t key[2] = {r->bytes, (uint64_t)r->comm << 8 | r->call};
        uint64_t hash = job_hash(key, sizeof key);
        struct alike *a;
        uint32_t comm;

        for (uint32_t at = 0, i; (i = job_index_next(&g->index, hash, &at)) != JOB_INDEX_END;) {
                a = &g->alike[i];
                if (a->bytes == r->bytes && a->comm == r->comm && a->call == r->call)
                        return a;
        }
        comm = comm_of(g->job, g->process, r->comm);
        job_index_enter(&g->index, hash, g->n_alike);
        a = xput(g->alike, g->n_alike, .bytes = r->bytes, .comm = r->comm, .call = r->call,
                 .share = SHARE_NONE, .usual_ns = usual_time_of(g->job, comm, r));
        if (!(g->others && comm != CAPO_NO_COMM && g->job->comms[comm].n_ranks == 1))
                a->share = fabric_share_of(g->f, comm, r->call);
        return a;
}

static int add_call(const struct capo_record *r, unsigned thread, void *arg)
{
        struct gathered *g = arg;
        struct capo_gpu_span span = capo_gpu_span_of(r, (uint32_t)g->n);
        const struct alike *a;

        if (r->flags & CAPO_RECORD_MEMBER || capo_call_kind(r->call) == CAPO_KIND_OTHER ||
            (r->flags & CAPO_RECORD_GROUP &&
             !r->bytes)) /* for example a group that creates communicators */
                return 0;
        a = alike_of(g, r);
        xarray_room(&g->spans, g->n, sizeof *g->spans);
        xarray_room(&g->as, g->n, sizeof *g->as);
        if (span.kind && !span.measured)
                span.gpu_ns = a->usual_ns;
        g->any_placed |= span.placed;
        g->spans[g->n] = span;
        g->as[g->n++] = (struct fabric_span){.share = a->share};
        return 0;
}

static void place_calls(struct gathered *g, uint64_t epoch, struct fabric_calls *calls)
{
        struct capo_fabric_job *f = g->f;

        f->placed |= g->any_placed;
        capo_gpu_spans(g->spans, g->n);
        for (size_t i = 0; i < g->n; i++) {
                const struct capo_gpu_span *w = &g->spans[i];
                struct fabric_span as = g->as[w->nth];
                uint64_t end = w->end;

                if (w->by <= CAPO_SPAN_BY_HOST && w->host_end > end)
                        end = w->host_end; /* the host was in the call, and may have moved data, for
                                              longer than the GPU */
                if (end <= w->begin || as.share == SHARE_NONE)
                        continue;
                f->shares[as.share].calls++;
                f->shares[as.share].guessed += w->by == CAPO_SPAN_BY_GUESS;
                f->shares[as.share].call_ns += (double)(end - w->begin);
                as.begin = epoch + w->begin;
                as.end = epoch + end;
                *xadd(calls->were.span, calls->were.n) = as;
                if (!g->any_placed || (w->least >= w->begin && w->most <= end))
                        continue;
                as.begin = epoch + w->least;
                as.end = epoch + w->most;
                *xadd(calls->maybe.span, calls->maybe.n) = as;
        }
}

void fabric_spans_read(struct capo_fabric_job *f, const struct capo_job *job, uint32_t process,
                       struct fabric_calls *calls)
{
        const struct capo_job_process *p = &job->processes[process];
        struct capo_log *log = capo_job_log(job, process);
        struct gathered g = {.f = f, .job = job, .process = process};

        for (uint32_t i = 0; i < job->n_comms; i++)
                g.others |= job->comms[i].n_ranks > 1;
        if (!p->n_records || !log)
                return;
        capo_log_calls_each(log, add_call, &g);
        place_calls(&g, p->header.t0_mono_ns, calls);
        capo_log_park(log);
        xfree(g.alike, g.index.slots, g.spans, g.as);
}
