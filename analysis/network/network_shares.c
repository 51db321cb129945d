/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joining two layers that do not know each other. NCCL's progress threads post to libfabric, the
 * job's own threads make the collectives, and nothing in a posted operation says which collective
 * it serves. What both have is the clock: the shim cut the traffic of each process into windows
 * (shim/fabric/windows.c) and looked at the network at random moments (shim/fabric/look.c), and the
 * log has the times of calls. So traffic is divided, window by window, among the calls that were
 * under way on that rank, in proportion to how much of the window each covers; and each look
 * belongs to the calls that were under way at its moment, so the part of them that found the
 * network busy estimates the part of the calls' time that it was. These are estimates and the
 * report says so. Where a thread posts from inside its own NCCL call there is nothing to estimate,
 * and those counts are kept apart.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

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

/* The calls that are under way, as one goes through time. */
struct under_way {
        const struct fabric_spans *all; /* sorted by begin */
        size_t next;                    /* of them */
        const struct fabric_span **span;
        size_t n;
        double *stand; /* by share: scratch, all 0 between looks */
};

static int under_way_init(struct under_way *u, struct fabric_spans *all)
{
        if (all->n) /* an empty list may be NULL, which qsort() does not take */
                qsort(all->span, all->n, sizeof *all->span, by_begin);
        u->all = all;
        u->span = malloc((all->n ? all->n : 1) * sizeof *u->span);
        return u->span ? 0 : -ENOMEM;
}

/* On to all that overlap with @begin .. @end; begins only ever rise. */
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

/* The traffic of a window among the calls it overlaps. Return: false when there is none. */
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
                else
                        to->net_ns += (double)window_overlap(u->span[k], w);
        }
        return covered > 0;
}

/* To the calls that were under way; where there is none, to those that can have been, as far as
 * anything tells. */
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

static void add_look(struct capo_fabric_share *s, const struct capo_fabric_look *look, double times)
{
        double time = (double)look->every_s * times;

        s->looks.n++;
        s->looks.time += time;
        s->looks.time_sq += time * time;
        s->looks.busy += look->moving || look->waiting ? time : 0;
        s->looks.waiting += look->waiting ? time : 0;
        s->looks.unsure += look->unsure ? time : 0;
}

/*
 * From @begin to @end there was no look although chance alone would have sent one: the looking
 * thread had no core, or the whole process had none. What the network did meanwhile nobody knows.
 * Return: how long no call was under way, ns.
 */
static double add_unseen(struct capo_fabric_job *f, struct under_way *u, uint64_t begin,
                         uint64_t end)
{
        const struct capo_fabric_window gap = {.begin_ns = begin, .end_ns = end};
        double outside = (double)(end - begin);

        under_way_move(u, begin, end);
        for (size_t k = 0; k < u->n; k++) {
                double ns = (double)window_overlap(u->span[k], &gap);

                if (u->span[k]->measured)
                        f->shares[u->span[k]->share].looks.unseen +=
                                ns / 1e9 * (double)u->span[k]->stands;
                outside -= ns;
        }
        return outside > 0 && u->all->all_measured ? outside : 0;
}

/* How far apart two looks are at most that came in time: they are drawn from nothing to twice the
 * mean. */
static uint64_t max_interval(const struct capo_fabric_look *a, const struct capo_fabric_look *b)
{
        return (uint64_t)fmin(2e9 * (double)fmaxf(a->every_s, b->every_s),
                              1e18); /* a damaged log may say anything */
}

/*
 * Each look to the calls under way at its moment. Windows are coarse enough to bear with spans that
 * are a guess; a look is one moment, so it counts only for calls whose time was measured (those
 * drawn stand for all, which is as good), and for what is outside of calls only where no call's
 * time is a guess.
 */
static void assign_looks(struct capo_fabric_job *f, const struct capo_fabric *of,
                         struct under_way *u, uint32_t outside)
{
        const struct capo_fabric_look *last = of->n_looks ? &of->looks[of->n_looks - 1] : NULL;

        if (of->looked.slit_ns > f->slit_ns)
                f->slit_ns = of->looked.slit_ns;
        f->looks_taken += of->looked.taken;
        f->looks_late += of->looked.late;
        for (size_t i = 0; i < of->n_looks; i++) {
                const struct capo_fabric_look *look = &of->looks[i], *before = i ? look - 1 : look;
                uint64_t due = before->t_ns +
                               max_interval(look, before); /* at the latest, had it a core */

                if (!i && of->looked.since_ns)
                        due = of->looked.since_ns + max_interval(look, look);
                if (look->t_ns > due)
                        f->shares[outside].looks.unseen += add_unseen(f, u, due, look->t_ns) / 1e9;
                under_way_move(u, look->t_ns, look->t_ns + 1);
                if (!u->n && u->all->all_measured)
                        add_look(&f->shares[outside], look, 1);
                for (size_t k = 0; k < u->n;
                     k++) /* calls of one kind may overlap: one look at all of them */
                        u->stand[u->span[k]->share] +=
                                u->span[k]->measured ? (double)u->span[k]->stands : 0;
                for (size_t k = 0; k < u->n; k++) {
                        double *times = &u->stand[u->span[k]->share];

                        if (*times > 0)
                                add_look(&f->shares[u->span[k]->share], look, *times);
                        *times = 0;
                }
        }
        if (last)
                add_unseen(f, u, last->t_ns + max_interval(last, last), UINT64_MAX);
}

/* What the process did over the network, to its calls. */
static int assign_traffic(struct capo_fabric_job *f, const struct capo_fabric *of,
                          struct fabric_calls *calls, uint32_t outside)
{
        struct under_way were = {0}, maybe = {0};
        int r = -ENOMEM;

        were.stand = calloc(f->n_shares, sizeof *were.stand);
        if (were.stand && under_way_init(&were, &calls->were) == 0 &&
            under_way_init(&maybe, &calls->maybe) == 0) {
                divide_windows(f, of, &were, &maybe, outside);
                were.next = were.n = 0;
                assign_looks(f, of, &were, outside);
                r = 0;
        }
        free(were.stand);
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

        f->gpu_timed = fabric_gpu_timed(job);
        for (uint32_t p = 0; p < f->n_processes && r == 0; p++) {
                struct fabric_calls calls = {.were.all_measured = true};

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

/* ---- parts of time
 * -----------------------------------------------------------------------------------------------
 */

double capo_fabric_share_unseen(const struct capo_fabric_share *s)
{
        return s->looks.unseen > 0 ? s->looks.unseen / (s->looks.unseen + s->looks.time) : 0;
}

static bool part_of(const struct capo_fabric_share *s, double part, struct capo_fabric_part *out)
{
        const double z = 1.96, z2 = z * z;
        double n, p, middle, half, seen;

        if (s->looks.time <= 0)
                return false;
        seen = 1 - capo_fabric_share_unseen(s);
        n = s->looks.time * s->looks.time / s->looks.time_sq;
        p = part / s->looks.time;
        middle = (p + z2 / (2 * n)) / (1 + z2 / n);
        half = z / (1 + z2 / n) * sqrt(p * (1 - p) / n + z2 / (4 * n * n));
        *out = (struct capo_fabric_part){.share = p, /* at the ends of the range Wilson's interval
                                                        ends there, but for rounding */
                                         .low = p > 0 ? fmax(0, middle - half) : 0,
                                         .high = p < 1 ? fmin(1, middle + half) : 1};
        out->low *= seen; /* where nobody looked it may have been nothing, or all */
        out->high = 1 - (1 - out->high) * seen;
        return true;
}

bool capo_fabric_share_network(const struct capo_fabric_share *s, struct capo_fabric_part *out)
{
        return part_of(s, s->looks.busy, out);
}

bool capo_fabric_share_wait(const struct capo_fabric_share *s, struct capo_fabric_part *out)
{
        return capo_fabric_share_sure(s) && part_of(s, s->looks.waiting, out);
}

bool capo_fabric_share_sure(const struct capo_fabric_share *s)
{
        return s->looks.unsure <= 0.01 * s->looks.time;
}
