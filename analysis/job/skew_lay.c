/* SPDX-License-Identifier: Apache-2.0 */
/* Compares a communicator's calls over its ranks: when each started them, how long it waited. */
#include <math.h>

#include "core/base/order.h"
#include "core/base/xalloc.h"
#include "analysis/job/skew_parts.h"

#define APART_NS 1e8 /* smaller differences between GPU times are not examined further */

double skew_quantile(double *v, size_t n, double q)
{
        return n ? capo_nth(v, n, (size_t)(q * (double)(n - 1) + 0.5)) : 0;
}

static double mean_of(const double *t, uint32_t n)
{
        double sum = 0;

        for (uint32_t k = 0; k < n; k++)
                sum += t[k] / n;
        return sum;
}

static uint32_t last_of(const double *t, uint32_t n)
{
        uint32_t last = 0;

        for (uint32_t k = 1; k < n; k++)
                last = t[k] > t[last] ? k : last;
        return last;
}

/* From the last start but one to that of @last. */
static double lead_of(const double *t, uint32_t n, uint32_t last)
{
        double second = -INFINITY;

        for (uint32_t k = 0; k < n; k++)
                second = k == last ? second : fmax(second, t[k]);
        return t[last] - second;
}

static double spread_of(const double *t, uint32_t n)
{
        double first = t[0], last = t[0];

        for (uint32_t k = 1; k < n; k++) {
                first = fmin(first, t[k]);
                last = fmax(last, t[k]);
        }
        return last - first;
}

/* "The rank with the shortest time came last" holds only if a call ends on all ranks together. It
 * does not if a rank was stopped inside the call: ranks that already had its data finish early,
 * while the others wait. They then make their next call earlier, by about the difference. */
static bool ends_apart(const struct skew_laid *l, uint32_t i, const double *gpu, double *host)
{
        const struct capo_meet *m = l->of.m;
        uint32_t last = last_of(gpu, l->n), first = 0;
        double spread = spread_of(gpu, l->n);

        for (uint32_t k = 1; k < l->n; k++)
                first = gpu[k] < gpu[first] ? k : first;
        for (uint32_t next = 0; spread > APART_NS && next < m->n_rows; next++) {
                if (m->rows[next].seq == m->rows[i].seq + 1)
                        return skew_row_starts(&l->of, next, CAPO_SKEW_HOST_START, host) &&
                               host[first] - host[last] > spread / 2;
        }
        return false;
}

/* Compare host starts with GPU starts over the calls that have both. Returns whether they agree:
 * they differ by less than half of the waiting itself. */
static bool host_agrees(struct skew_laid *l)
{
        double *gpu = l->start,
               *host = l->start + l->n; /* not filled yet; there are at least SKEW_FEW rows */
        double differ = 0, waited = 0;
        uint32_t n = 0;

        for (uint32_t i = 0; i < l->of.m->n_rows; i++) {
                double worst = 0, mg, mh;

                if (!skew_row_starts(&l->of, i, l->from, gpu) || ends_apart(l, i, gpu, host) ||
                    !skew_row_starts(&l->of, i, CAPO_SKEW_HOST_START, host))
                        continue;
                mg = mean_of(gpu, l->n);
                mh = mean_of(host, l->n);
                for (uint32_t k = 0; k < l->n; k++) {
                        double d = fabs((gpu[k] - mg) - (host[k] - mh));

                        worst = fmax(worst, d);
                        differ += d;
                        waited += fabs(gpu[k] - mg);
                }
                l->column[n++] = worst;
        }
        l->error = skew_quantile(l->column, n, 0.9);
        return differ < waited / 2;
}

/* Cap differences at the duration of the job: a damaged log or a bad clock may claim more. */
static void bound_starts(double *t, uint32_t n, double most)
{
        double least = t[last_of(t, n)] - most;

        for (uint32_t k = 0; k < n; k++)
                t[k] = fmax(t[k], least);
}

struct numbered {
        uint32_t seq, row;
};

CAPO_ORDERED(by_number, struct numbered, CAPO_ORDER(a->seq, b->seq));

/* How long the others waited in a call with starts @t, after one with @before (NULL: not known). */
static double waiting_of(const double *t, const double *before, uint32_t n)
{
        double last = t[last_of(t, n)], last_before = before ? before[last_of(before, n)] : 0;
        double sum = 0;

        for (uint32_t k = 0; k < n; k++) {
                double late = last - t[k];

                if (before && t[k] < last_before)
                        late = fmax(0, late - (last_before - before[k]));
                sum += late;
        }
        return sum;
}

/* A call with both clocks, in which host times show that the others waited for @last. */
static void add_difference(struct skew_laid *l, const struct skew_laid_call *call, uint32_t last,
                           double by_host)
{
        bool drawn = !capo_meet_is_chosen(call->row);

        l->n_both++;
        l->n_both_drawn += drawn;
        l->both_waited += call->waited;
        l->differ[call->last].waited += call->waited;
        l->differ[l->n].waited += call->waited;
        for (uint32_t k = 0; k <= l->n; k++) {
                struct skew_differ *of = &l->differ[k];
                double d = (k == call->last || k == l->n ? call->waited : 0) -
                           (k == last || k == l->n ? by_host : 0);

                of->sum += d;
                of->sq += d * d;
                of->drawn_sum += drawn ? d : 0;
                of->drawn_sq += drawn ? d * d : 0;
                of->most = fmax(of->most, fabs(d));
                l->both_differ += k < l->n ? fabs(d) : 0;
                l->most_differ = fmax(l->most_differ, fabs(d));
        }
}

/* A rank that enqueues without waiting may be one second ahead by host time in every call of a
 * tight loop, although it waits for that second once. So if a rank made a call before the last rank
 * made the previous one, only the time by which it got further ahead counts. Summed over
 * consecutive calls that is never more than the time that passed. Between sampled calls that are
 * not consecutive, it also covers the calls left out: such a call stands for no others. */
static void lay_waiting(struct skew_laid *l)
{
        const struct capo_meet *m = l->of.m;
        _cleanup_free_ struct numbered *order = xmalloc((m->n_rows + 1) * sizeof *order);
        _cleanup_free_ uint32_t *laid = xcalloc(m->n_rows + 1, sizeof *laid);
        double *t = l->start + (size_t)l->n_rows * l->n, *before = t + l->n, *swap, waited;
        uint32_t seq = 0; /* of @before; 0: none */

        for (uint32_t i = 0; i < l->n_rows; i++)
                laid[l->call[i].nth] = i + 1;
        for (uint32_t i = 0; i < m->n_rows; i++)
                order[i] = (struct numbered){m->rows[i].seq, i};
        qsort(order, m->n_rows, sizeof *order, by_number);
        for (uint32_t i = 0; i < m->n_rows; i++) {
                struct skew_laid_call *call =
                        laid[order[i].row] ? &l->call[laid[order[i].row] - 1] : NULL;

                if (!skew_row_tells(&l->of, order[i].row, CAPO_SKEW_HOST_START, t))
                        continue;
                if (call && (l->from == CAPO_SKEW_HOST_START || call->by_host)) {
                        bound_starts(t, l->n, (double)capo_job_duration_ns(l->of.clocks->job));
                        call->waited = waiting_of(t, seq ? before : NULL, l->n);
                        call->whole = order[i].seq == seq + 1;
                } else if (call && order[i].seq == seq + 1) {
                        bound_starts(t, l->n, (double)capo_job_duration_ns(l->of.clocks->job));
                        add_difference(l, call, last_of(t, l->n),
                                       waiting_of(t, seq ? before : NULL, l->n));
                } else if (!call) {
                        l->n_untimed++;
                        bound_starts(t, l->n, (double)capo_job_duration_ns(l->of.clocks->job));
                        waited = waiting_of(t, seq ? before : NULL, l->n);
                        l->untimed[last_of(t, l->n)] += waited;
                        l->untimed[l->n] += waited;
                }
                seq = order[i].seq;
                swap = before;
                before = t;
                t = swap;
        }
}

/* Does the row stand only for itself? Calls chosen to be timed do. So do calls after a long
 * silence, if host times do not agree with GPU times and the ranks are further apart than the error
 * of a host time. That holds for timed calls too: after a silence they stand for no others. */
static bool stands_alone(const struct skew_laid *l, const struct skew_laid_call *call, double *host)
{
        if (l->from != CAPO_SKEW_HOST_START && !call->by_host && capo_meet_is_chosen(call->row))
                return true;
        return capo_meet_is_long(l->of.m, call->row->seq) &&
               (l->agrees || l->from == CAPO_SKEW_HOST_START ||
                (skew_row_starts(&l->of, call->nth, CAPO_SKEW_HOST_START, host) &&
                 spread_of(host, l->n) > 10 * l->error));
}

/* GPU times exist for the few calls timed on all ranks, host times for all. Untimed calls are
 * compared by host times if these agree with GPU times. If they do not (work is enqueued ahead),
 * only those are that follow a long silence and are further apart than the error of a host time. */
void skew_lay_out(struct skew_laid *l)
{
        const struct capo_meet *m = l->of.m;

        l->agrees = l->from != CAPO_SKEW_HOST_START && host_agrees(l);
        for (uint32_t i = 0; i < m->n_rows; i++) {
                double *to = l->start + (size_t)l->n_rows * l->n;
                struct skew_laid_call *at = &l->call[l->n_rows];

                *at = (struct skew_laid_call){.row = &m->rows[i], .nth = i, .whole = true};
                if (!skew_row_starts(&l->of, i, l->from, to) ||
                    (l->from != CAPO_SKEW_HOST_START && ends_apart(l, i, to, to + l->n))) {
                        if (l->from == CAPO_SKEW_HOST_START ||
                            !skew_row_starts(&l->of, i, CAPO_SKEW_HOST_START, to))
                                continue;
                        at->by_host = true;
                }
                at->alone = stands_alone(l, at, to + l->n);
                if (at->by_host && !l->agrees && !at->alone)
                        continue;
                bound_starts(to, l->n, (double)capo_job_duration_ns(l->of.clocks->job));
                at->last = last_of(to, l->n);
                if (!at->row->further || at->by_host) /* a group is waited for once */
                        at->waited = l->n * (to[at->last] - mean_of(to, l->n));
                at->spread = spread_of(to, l->n);
                at->part = at->waited > 0 ? lead_of(to, l->n, at->last) / at->waited : 0;
                l->n_rows++;
        }
        lay_waiting(l);
}
