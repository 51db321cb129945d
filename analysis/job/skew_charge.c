/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates the waiting that each rank caused from the calls compared, with its interval. */
#include <math.h>

#include "analysis/job/skew_parts.h"
#include "analysis/job/spread.h"
#include "analysis/job/stops.h"

enum {
        SAMPLE_FEW = 30,
        DRAWN_FEW =
                8, /* with fewer drawn calls that have both clocks, the chosen ones are used too */
        SHOWN_ENOUGH = 3 /* this many late calls by both clocks give the error of host times */
};

/* Sum of squared deviations from the mean, from the sum and the sum of squares of @n values. */
static double variance_of(double n, double sum, double sq)
{
        return fmax(0, sq - sum * sum / n) / (n - 1);
}

/*
 * Half of the interval of a sum over @rest values, estimated from @n others drawn like them. To
 * allow for values that the sample missed, the variance is at least that with two more: one of 0
 * and one of the @largest possible.
 */
static double half_of_rest(double n, double rest, double sum, double sq, double largest)
{
        double variance;

        if (rest <= 0)
                return 0;
        if (n < 1)
                return rest * largest;
        variance = variance_of(n + 2, sum + largest, sq + largest * largest);
        if (n >= 2)
                variance = fmax(variance, variance_of(n, sum, sq));
        return capo_quantile_t(0.05, n < 2 ? 2 : n - 1) * rest *
               sqrt(variance * (1 / n + 1 / rest));
}

/* The sample of calls. */
struct sample {
        double n;       /* calls */
        double all;     /* calls that it stands for, itself included */
        double by_host; /* calls of it compared by host times although others have GPU times */
        double alone;   /* such calls that stand only for themselves */
        double longest; /* the longest of any rank */
};

/* Is it the largest communicator of that process? A stop shows only that the others made no call at
 * all, not in which communicator they waited. So it is charged once, in the communicator with most
 * ranks. */
static bool is_widest(const struct capo_job *job, const struct capo_job_comm *c, uint32_t process)
{
        for (uint32_t i = 0; i < job->n_comms; i++) {
                const struct capo_job_comm *other = &job->comms[i];

                for (uint32_t k = 0; k < other->n_members; k++) {
                        if (other->members[k].process == process &&
                            (other->n_members > c->n_members ||
                             (other->n_members == c->n_members && other < c)))
                                return false;
                }
        }
        return true;
}

/* The part of that waiting that the compared calls already contain. */
static double compared_waiting(const struct capo_job *job, const struct capo_job_comm *c,
                               uint32_t k, const struct skew_laid *l, const struct capo_meet *m,
                               const struct capo_stop *s)
{
        const struct capo_job_member *member = &c->members[k];
        double compared = 0;

        for (uint32_t i = 0; i < l->n_rows; i++) {
                const struct capo_meet_arrival *at =
                        &m->arrivals[(size_t)(l->call[i].row - m->rows) * m->n_ranks +
                                     (size_t)member->rank];
                double begin = (double)job->processes[member->process].header.t0_real_ns +
                               (double)at->begin;

                if (l->call[i].last == k && begin > s->from - 1e9 && begin < s->to + 1e9)
                        compared += l->call[i].waited;
        }
        return compared;
}

/* Charge the waiting for a process that did not run, minus what the compared calls already contain.
 */
static void charge_stops(const struct capo_job *job, const struct capo_job_comm *c,
                         struct capo_skew *skew, const struct skew_laid *l,
                         const struct capo_meet *m, struct skew_charge *charge)
{
        struct capo_stop stop[CAPO_STOPS_MOST];

        for (uint32_t k = 0; k < l->n; k++) {
                uint32_t process = c->members[k].process,
                         n = capo_stops_of(&job->processes[process], stop, CAPO_STOPS_MOST);

                for (uint32_t i = 0; i < n && is_widest(job, c, process); i++) {
                        double waited = capo_stop_waiting(job, c, k, &stop[i]);
                        double rest = waited - compared_waiting(job, c, k, l, m, &stop[i]);

                        if (waited > 0)
                                skew->ranks[k].stopped_ns += stop[i].to - stop[i].from;
                        if (waited > 0 && rest > 0) {
                                charge[k].own += rest;
                                charge[k].spared_own += rest / (l->n - 1);
                                skew->long_ns += rest;
                        }
                }
        }
}

/*
 * Correction from host times to GPU times for calls compared by host times, estimated from the
 * calls that have both. If the rank was late in few of these, or in none, the general difference
 * between the two clocks counts more.
 */
static double host_error(const struct skew_laid *l, uint32_t k, const struct skew_charge *c,
                         const struct sample *s, double *pm)
{
        const struct skew_differ *d = &l->differ[k];
        bool few = l->n_both_drawn < DRAWN_FEW;
        double n = few ? l->n_both : l->n_both_drawn, sum = few ? d->sum : d->drawn_sum;
        double part = l->both_waited > 0 ? fmin(1, l->both_differ / l->both_waited) : 1;
        double scale = s->n > 0 ? s->all / s->n : 0, rest = s->by_host * scale + s->alone;
        double said = c->by_host * scale + c->alone, shown = 1;

        *pm = 0;
        if (!l->agrees || n < 1) {
                *pm = c->n_alone * l->n * l->error;
                return 0;
        }
        if (c->host_most > 0) /* assume as many late calls as its longest by host times */
                shown = fmax(1, d->waited / c->host_most);
        *pm = half_of_rest(n, rest, sum, few ? d->sq : d->drawn_sq,
                           d->most > 0 ? d->most : l->most_differ);
        *pm = fmax(*pm, part * said / sqrt(shown));
        if (shown >= SHOWN_ENOUGH && d->waited > d->sum)
                return d->sum / (d->waited - d->sum) * said;
        return fmax(sum / n * rest, -said);
}

/* How far the calls that were not compared can be from the mean of the sample. */
static double sampling_error(const struct skew_laid *l, uint32_t k, const struct skew_charge *c,
                             const struct sample *s)
{
        double rest = s->all - s->n, mean = s->n > 0 ? c->sum / s->n : 0, pm;

        pm = half_of_rest(s->n, rest, c->sum, c->sq, c->longest > 0 ? c->longest : s->longest);
        if (s->n < SAMPLE_FEW && l->n_untimed >= 0.9 * rest)
                pm = fmax(pm, fabs(mean * rest - l->untimed[k]));
        return pm;
}

/* Add a call in which @c's rank was last. */
static void add_call(struct skew_charge *c, const struct skew_laid_call *call, bool sampled,
                     double can_be)
{
        double by_host = call->by_host ? call->waited : 0;

        c->longest = fmax(c->longest, can_be);
        c->host_most = fmax(c->host_most, by_host);
        if (call->alone) {
                c->own += call->waited;
                c->spared_own += call->part * call->waited;
                c->alone += by_host;
                c->n_alone += call->by_host;
        } else if (sampled) {
                c->sum += call->waited;
                c->spared += call->part * call->waited;
                c->sq += call->waited * call->waited;
                c->by_host += by_host;
        }
}

static void add_rows(struct capo_skew *skew, const struct skew_laid *l, const struct capo_meet *m,
                     struct skew_charge *charge, struct sample *s)
{
        double most_missed = (double)m->most_missed_ns * (l->n - 1);
        bool any_whole = false;

        for (uint32_t i = 0; i < l->n_rows; i++)
                any_whole |= l->call[i].whole;
        for (uint32_t i = 0; i < l->n_rows; i++) {
                const struct skew_laid_call *call = &l->call[i];
                bool behind_gap = call->alone && capo_meet_is_long(m, call->row->seq);
                bool sampled = !call->alone && (call->whole || !any_whole);
                double can_be = behind_gap ? fmin(call->waited, most_missed) : call->waited;

                add_call(&charge[call->last], call, sampled, can_be);
                add_call(&charge[l->n], call, sampled, can_be);
                skew->long_ns += behind_gap ? call->waited : 0;
                skew->n_own += call->alone;
                s->alone += call->alone && call->by_host;
                s->by_host += sampled && call->by_host;
                s->n += sampled;
        }
        s->longest = charge[l->n].longest;
}

/* The waiting for member @k, or for all together; @pm: half of its interval. */
static double charge_of(const struct skew_laid *l, uint32_t k, const struct sample *s, double *pm,
                        double *by_host)
{
        const struct skew_charge *c = &l->charge[k];
        double scale = s->n > 0 ? s->all / s->n : 0,
               caused = c->own + c->sum * scale + host_error(l, k, c, s, by_host);

        *pm = sampling_error(l, k, c, s) + *by_host;
        return caused;
}

/*
 * Is more of the waiting for skew->worst than chance would have it, whatever the calls hold that
 * were not compared? Its share is known better than its time: if it was last in every long call of
 * the sample, only their number is uncertain. Two calls as long as the longest, one of them for
 * another rank, stand for what the sample missed. It is sure, too, if all that were not compared
 * could be as long and for others.
 */
static bool is_worst_sure(const struct capo_skew *skew, const struct skew_laid *l,
                          const struct sample *s, double by_host)
{
        const struct skew_charge *c = &l->charge[skew->worst], *of = &l->charge[l->n];
        double scale = s->n > 0 ? s->all / s->n : 0, more = of->longest, sum = of->sum + 2 * more,
               sq = of->sq + 2 * more * more, own = c->sq + more * more, all = 0, total, share,
               half, chance = 1.0 / l->n;

        for (uint32_t k = 0; k < l->n; k++)
                all += l->charge[k].own;
        if (c->own + c->sum - by_host > chance * (all + of->sum + (s->all - s->n) * more))
                return true;
        if (s->n < SAMPLE_FEW || !(sq > 0))
                return false;
        total = all + scale * sum;
        share = (c->own + scale * (c->sum + more)) / total;
        half = capo_quantile_t(0.05, sum * sum / sq - 2) * scale *
               sqrt((own * (1 - share) * (1 - share) + (sq - own) * share * share) *
                    fmax(0, 1 - s->n / s->all));
        return (share - chance) * total > by_host + half;
}

/* Per ns of the waiting that a rank caused: how much earlier the calls would have begun without its
 * delay, when the last but one came. */
static double spared_share(const struct skew_charge *c, double scale)
{
        double waited = c->own + scale * c->sum;

        return waited > 0 ? (c->spared_own + scale * c->spared) / waited : 0;
}

/*
 * The waiting that each rank caused in the whole job. Calls that stand only for themselves count
 * once. The others are an even sample of the rest: their mean stands for it, with the interval for
 * the mean of a finite population.
 */
void skew_charge_ranks(const struct capo_job *job, const struct capo_job_comm *c,
                       struct capo_skew *skew, const struct skew_laid *l, const struct capo_meet *m)
{
        double most = (double)capo_job_duration_ns(job) * (l->n - 1), charged = 0, by_host;
        struct sample s = {0};

        add_rows(skew, l, m, l->charge, &s);
        charge_stops(job, c, skew, l, m, l->charge);
        s.all = fmax((double)c->n_calls - (double)c->n_captured, l->n_rows) - skew->n_own;
        for (uint32_t k = 0; k < l->n; k++) {
                struct capo_skew_rank *rank = &skew->ranks[k];

                rank->caused_ns = charge_of(l, k, &s, &rank->caused_pm_ns, &by_host);
                charged += rank->caused_ns;
                rank->spared = spared_share(&l->charge[k], s.n > 0 ? s.all / s.n : 0);
                if (rank->caused_ns > skew->ranks[skew->worst].caused_ns)
                        skew->worst = k;
        }
        host_error(l, skew->worst, &l->charge[skew->worst], &s, &by_host);
        skew->worst_sure = is_worst_sure(skew, l, &s, by_host);
        charge_of(l, l->n, &s, &skew->waited_pm_ns, &by_host);
        for (uint32_t k = 0; k < l->n && charged > most; k++) {
                skew->ranks[k].caused_ns *= most / charged;
                skew->ranks[k].caused_pm_ns *= most / charged;
        }
}
