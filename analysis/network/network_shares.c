/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assigns network traffic to collectives. NCCL's progress threads post to libfabric, the job's own
 * threads call collectives, and nothing in a posted operation names its collective. The only common
 * element is the clock: the recorder divides the traffic of each process into windows
 * (shim/fabric/windows.c), and the log has the times of calls. So the traffic of each window is
 * divided among the calls that ran on that rank, in proportion to how much of the window each
 * covers. The report marks these as estimates. Operations that a thread posts inside its own NCCL
 * call need no estimate, and are counted apart.
 */
#include <errno.h>
#include <stdlib.h>

#include "capo/call_ids.h"
#include "core/base/array.h"
#include "core/base/order.h"
#include "analysis/network/network_parts.h"

int fabric_share_of(struct capo_fabric_job *f, uint32_t comm, uint8_t call, uint32_t *out)
{
        for (size_t i = 0; i < f->n_shares; i++) {
                if (f->shares[i].comm == comm && f->shares[i].call == call) {
                        *out = (uint32_t)i;
                        return 0;
                }
        }
        if (capo_array_room(&f->shares, f->n_shares, sizeof *f->shares) < 0)
                return -ENOMEM;
        f->shares[f->n_shares] = (struct capo_fabric_share){.comm = comm, .call = call};
        *out = (uint32_t)f->n_shares++;
        return 0;
}

static int by_begin(const void *a_, const void *b_)
{
        const struct fabric_span *a = a_, *b = b_;

        return CAPO_ORDER(a->begin, b->begin);
}

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

static int under_way_init(struct under_way *u, struct fabric_spans *all)
{
        if (all->n) /* an empty list may be NULL, which qsort() does not accept */
                qsort(all->span, all->n, sizeof *all->span, by_begin);
        u->all = all;
        u->span = malloc((all->n ? all->n : 1) * sizeof *u->span);
        return u->span ? 0 : -ENOMEM;
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

/* Assign the traffic of one process to its calls. */
static int assign_traffic(struct capo_fabric_job *f, const struct capo_fabric *of,
                          struct fabric_calls *calls, uint32_t outside)
{
        struct under_way were = {0}, maybe = {0};
        int r = -ENOMEM;

        if (under_way_init(&were, &calls->were) == 0 &&
            under_way_init(&maybe, &calls->maybe) == 0) {
                divide_windows(f, of, &were, &maybe, outside);
                r = 0;
        }
        free(were.span);
        free(maybe.span);
        return r;
}

static int add_inside(struct capo_fabric_job *f, const struct capo_job *job,
                      const struct capo_fabric *of)
{
        for (size_t i = 0; i < of->n_inside; i++) {
                uint32_t comm = CAPO_NO_COMM, share;

                for (uint32_t c = 0; c < job->n_comms; c++) {
                        if (job->comms[c].uid == of->inside[i].comm_uid)
                                comm = c;
                }
                if (fabric_share_of(f, comm, of->inside[i].call, &share))
                        return -ENOMEM;
                f->shares[share].own_ops += of->inside[i].ops;
                f->shares[share].own_bytes += of->inside[i].bytes;
        }
        return 0;
}

static int by_bytes(const void *a_, const void *b_)
{
        const struct capo_fabric_share *a = a_, *b = b_;
        double va = a->sent + a->received + (double)a->own_bytes,
               vb = b->sent + b->received + (double)b->own_bytes;

        return CAPO_ORDER(vb, va);
}

int fabric_shares_make(struct capo_fabric_job *f, const struct capo_job *job)
{
        uint32_t outside = 0;
        int r = fabric_share_of(f, CAPO_NO_COMM, CAPO_CALL_NONE, &outside);

        for (uint32_t p = 0; p < f->n_processes && r == 0; p++) {
                struct fabric_calls calls = {0};

                if (!f->process[p])
                        continue;
                r = fabric_spans_read(f, job, p, &calls);
                if (r == 0)
                        r = assign_traffic(f, f->process[p], &calls, outside);
                free(calls.were.span);
                free(calls.maybe.span);
                if (r == 0)
                        r = add_inside(f, job, f->process[p]);
        }
        if (r == 0)
                qsort(f->shares, f->n_shares, sizeof *f->shares, by_bytes);
        return r;
}
