/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "analysis/job/skew.h"
#include "analysis/job/skew_follow.h"
#include "analysis/job/skew_parts.h"
#include "analysis/job/spread.h"
#include "analysis/job/stops.h"
#include "core/base/among.h"
#include "core/base/order.h"
#include "core/base/xalloc.h"

/* Estimates the waiting that each rank caused from the calls compared, with its interval. */
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
 * all, not in which communicator they waited. So it is charged once, where most ranks are. */
static bool is_widest(const struct capo_job *job, const struct capo_job_comm *c, uint32_t process)
{
        return !ANY_OF(other, job->comms, job->n_comms,
                       (other->n_members > c->n_members ||
                        (other->n_members == c->n_members && other < c)) &&
                               ANY_OF(k, other->members, other->n_members, k->process == process));
}

/* When member @k's host made the call of @row. */
static uint64_t begun_ns(const struct skew_laid *l, uint32_t k, const struct capo_meet_row *row)
{
        const struct capo_job_member *member = &l->of.c->members[k];
        const struct capo_meet *m = l->of.m;

        return l->of.clocks->job->processes[member->process].header.t0_real_ns +
               m->arrivals[(size_t)(row - m->rows) * m->n_ranks + (size_t)member->rank].begin;
}

/* The part of that waiting that the compared calls already contain. */
static double compared_waiting(const struct skew_laid *l, uint32_t k, const struct capo_stop *s)
{
        double compared = 0;

        for (uint32_t i = 0; i < l->n_rows; i++) {
                double begin = (double)begun_ns(l, k, l->call[i].row);

                if (l->call[i].last == k && begin > s->from - 1e9 && begin < s->to + 1e9)
                        compared += l->call[i].waited;
        }
        return compared;
}

/* Charge the waiting for a process that did not run, minus what the compared calls already contain.
 */
static void charge_stops(struct capo_skew *skew, const struct skew_laid *l)
{
        const struct capo_job *job = l->of.clocks->job;
        const struct capo_job_comm *c = l->of.c;

        struct capo_stop stop[CAPO_STOPS_MOST];

        for (uint32_t k = 0; k < l->n; k++) {
                uint32_t process = c->members[k].process,
                         n = capo_stops_of(&job->processes[process], stop, CAPO_STOPS_MOST);

                for (uint32_t i = 0; i < n && is_widest(job, c, process); i++) {
                        double waited = capo_stop_waiting(job, c, k, &stop[i]);
                        double rest = waited - compared_waiting(l, k, &stop[i]);

                        if (waited > 0)
                                skew->ranks[k].stopped_ns += stop[i].to - stop[i].from;
                        if (waited > 0 && rest > 0) {
                                skew->ranks[k].stopped_rest_ns += rest;
                                l->charge[k].own += rest;
                                l->charge[k].spared_own += rest / (l->n - 1);
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

static void add_rows(struct capo_skew *skew, const struct skew_laid *l, struct sample *s)
{
        double most_missed = (double)l->of.m->most_missed_ns * (l->n - 1);
        bool any_whole = ANY_OF(call, l->call, l->n_rows, call->whole);

        for (uint32_t i = 0; i < l->n_rows; i++) {
                const struct skew_laid_call *call = &l->call[i];
                bool behind_gap = call->alone && capo_meet_is_long(l->of.m, call->row->seq);
                bool sampled = !call->alone && (call->whole || !any_whole);
                double can_be = behind_gap ? fmin(call->waited, most_missed) : call->waited;

                add_call(&l->charge[call->last], call, sampled, can_be);
                add_call(&l->charge[l->n], call, sampled, can_be);
                skew->long_ns += behind_gap ? call->waited : 0;
                skew->n_own += call->alone;
                s->alone += call->alone && call->by_host;
                s->by_host += sampled && call->by_host;
                s->n += sampled;
        }
        s->longest = l->charge[l->n].longest;
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

/* The starts by the GPUs are the cautious ones (skew_starts.c). In the calls that have both: how far
 * what they say of the rank is from what the hosts' say, for all calls like them. */
static double clocks_error(const struct skew_laid *l, uint32_t k, const struct sample *s)
{
        const struct skew_differ *d = &l->differ[k];
        double n = l->n_both;

        return l->agrees && n >= 1
                       ? (fabs(d->sum) + 2 * sqrt(fmax(0, d->sq - d->sum * d->sum / n))) *
                                 fmax(1, s->all / n)
                       : 0;
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

/*
 * The waiting that each rank caused in the whole job. Calls that stand only for themselves count
 * once. The others are an even sample of the rest: their mean stands for it, with the interval for
 * the mean of a finite population.
 */
static void skew_charge_ranks(struct capo_skew *skew, const struct skew_laid *l)
{
        const struct capo_job_comm *c = l->of.c;
        double most = (double)capo_job_duration_ns(l->of.clocks->job) * (l->n - 1), charged = 0,
               by_host, scale, waited;
        struct sample s = {0};

        add_rows(skew, l, &s);
        charge_stops(skew, l);
        s.all = fmax((double)c->n_calls - (double)c->n_captured, l->n_rows) - skew->n_own;
        scale = s.n > 0 ? s.all / s.n : 0;
        for (uint32_t k = 0; k < l->n; k++) {
                struct capo_skew_rank *rank = &skew->ranks[k];
                const struct skew_charge *of = &l->charge[k];

                rank->caused_ns = charge_of(l, k, &s, &rank->caused_pm_ns, &by_host);
                rank->clocks_pm_ns = clocks_error(l, k, &s);
                charged += rank->caused_ns;
                waited = of->own + scale * of->sum;
                rank->spared = waited > 0 ? (of->spared_own + scale * of->spared) / waited : 0;
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

enum among { EVERYBODY, OTHERS };

/*
 * Over the calls in which skew->worst was last, the median of one of: its delay behind the first
 * rank; the delay of the last of the others.
 */
static double when_last(const struct capo_skew *skew, const struct skew_laid *l, enum among among)
{
        uint32_t n = l->n, n_last = 0;

        for (uint32_t i = 0; i < l->n_rows; i++) {
                const double *t = l->start + (size_t)i * n;
                double first = INFINITY, last = -INFINITY;
                bool is_last = true;

                for (uint32_t k = 0; k < n; k++) {
                        is_last &= t[k] <= t[skew->worst];
                        if (k == skew->worst && among == OTHERS)
                                continue;
                        first = fmin(first, t[k]);
                        last = fmax(last, t[k]);
                }
                if (is_last)
                        l->column[n_last++] = last - first;
        }
        return skew_quantile(l->column, n_last, 0.5);
}

/* The median start of all members but @except; of two in the middle the earlier. */
static double middle_of(const double *t, uint32_t n, uint32_t except, double *scratch)
{
        uint32_t m = 0;

        for (uint32_t k = 0; k < n; k++) {
                if (k != except)
                        scratch[m++] = t[k];
        }
        return capo_middle(scratch, m);
}

#define AS_FAR 0.9

/* Find the call in which each rank was furthest behind the median of all: the first of those in which
 * it was about as far, for a host that came late stays behind. The first call of a communicator is
 * skipped, because ranks always start a job one after the other. */
static void find_holes(struct capo_skew *skew, const struct skew_laid *l)
{
        _cleanup_free_ double *most = xcalloc(l->n + 1, sizeof *most),
                              *middle = xcalloc(l->n_rows + 1, sizeof *middle);

        for (uint32_t at = 0; at < 2 * l->n_rows; at++) { /* once for the maxima */
                uint32_t i = at % l->n_rows, seq = l->call[i].row->seq;
                const double *t = l->start + (size_t)i * l->n;

                if (at < l->n_rows)
                        middle[i] = middle_of(t, l->n, l->n, l->middle);
                for (uint32_t k = 0; seq > 1 && k < l->n; k++) {
                        struct capo_skew_rank *rank = &skew->ranks[k];
                        double behind = t[k] - middle[i];

                        if (at < l->n_rows)
                                most[k] = fmax(most[k], behind);
                        else if (behind > 0 && behind >= AS_FAR * most[k] &&
                                 (!rank->hole_seq || seq < rank->hole_seq)) {
                                rank->hole_ns = behind;
                                rank->hole_seq = seq;
                                rank->hole_call = l->call[i].row->call;
                        }
                }
        }
}

enum { TURN_FEW = 8 };
#define TURN_LESS 0.25 /* of the waiting per call behind the turn: as much may be before it */

struct turn {
        uint32_t seq, row;
        double worth, waited;
};

CAPO_ORDERED(by_seq, struct turn, CAPO_ORDER(a->seq, b->seq));

/*
 * In which run of calls skew->worst was last in most. Weigh calls in which it was last against the
 * others, so that the weights balance at half way between its chance and certainty; the run is the
 * one with the largest sum. If the result is not clear, or the others waited for it besides, too, it
 * is all of them.
 */
static void find_turn(struct capo_skew *skew, const struct skew_laid *l)
{
        _cleanup_free_ struct turn *turn = xmalloc((l->n_rows + 1) * sizeof *turn);
        double level = (1 + 1.0 / l->n) / 2, sum = 0, best = 0, waited[2] = {0};
        uint32_t from = 0, to = 0, begin = 0, n;

        for (uint32_t i = 0; i < l->n_rows; i++) {
                bool last = l->call[i].last == skew->worst;

                turn[i] = (struct turn){l->call[i].row->seq, i, last - level,
                                        last ? l->call[i].waited : 0};
        }
        qsort(turn, l->n_rows, sizeof *turn, by_seq);
        for (uint32_t i = 0; i < l->n_rows; i++) {
                sum += turn[i].worth;
                if (sum > best) {
                        best = sum;
                        from = begin;
                        to = i + 1;
                }
                if (sum <= 0) {
                        sum = 0;
                        begin = i + 1;
                }
        }
        from = from < TURN_FEW ? 0 : from;
        to = to + TURN_FEW > l->n_rows ? l->n_rows : to;
        n = to - from;
        if (n < TURN_FEW || n == l->n_rows)
                return;
        for (uint32_t i = 0; i < l->n_rows; i++)
                waited[i >= from && i < to] += turn[i].waited;
        if (waited[0] / (l->n_rows - n) > TURN_LESS * waited[1] / n || waited[0] > waited[1])
                return;
        skew->worst_outside = waited[0] / (waited[0] + waited[1]);
        if (from) {
                skew->worst_from_seq = l->call[turn[from].row].row->seq;
                skew->worst_from_ns = begun_ns(l, skew->worst, l->call[turn[from].row].row);
        }
        if (to < l->n_rows) {
                skew->worst_to_seq = l->call[turn[to - 1].row].row->seq;
                skew->worst_to_ns = begun_ns(l, skew->worst, l->call[turn[to - 1].row].row);
        }
}

enum { FEW_CALLS = 16, FEW_OF = 8 };

CAPO_ORDERED(by_waited, struct turn, CAPO_ORDER(b->waited, a->waited), CAPO_ORDER(a->seq, b->seq));

/* Is most of the waiting for skew->worst in a few calls, as of a rank that compiles in its first
 * steps or writes a checkpoint now and then? Calls of the sample stand for others like them. */
static void find_few(struct capo_skew *skew, const struct skew_laid *l)
{
        const struct capo_job_comm *c = l->of.c;

        _cleanup_free_ struct turn *turn = xmalloc((l->n_rows + 1) * sizeof *turn);
        double drawn = l->n_rows > skew->n_own ? l->n_rows - skew->n_own : 1, own = 0, others = 0,
               half = 0, all = 0, seen = 0, chance = 1.0 / l->n,
               weight = fmax(1, ((double)c->n_calls - c->n_captured - skew->n_own) / drawn);
        uint32_t n = 0, last = 0, few = 0, from = UINT32_MAX, to = 0;

        for (uint32_t i = 0; i < l->n_rows; i++) {
                double waited = l->call[i].waited * (l->call[i].alone ? 1 : weight);
                uint32_t seq = l->call[i].row->seq;

                last = seq > last ? seq : last;
                all += l->call[i].waited;
                if (l->call[i].last == skew->worst)
                        turn[n++] = (struct turn){seq, i, 0, waited};
                *(l->call[i].last == skew->worst ? &own : &others) += waited;
        }
        qsort(turn, n, sizeof *turn, by_waited);
        while (few < n && (half <= own / 2 || turn[few].waited > half / few / 2)) {
                half += turn[few].waited;
                seen += l->call[turn[few].row].waited;
                from = turn[few].seq < from ? turn[few].seq : from;
                to = turn[few].seq > to ? turn[few].seq : to;
                few++;
        }
        if (skew->worst_to_seq)
                skew->worst_over = skew->worst_to_seq < last / 2;
        if (!few || few > FEW_CALLS || few * FEW_OF > l->n_rows ||
            half <= skew->ranks[skew->worst].stopped_rest_ns)
                return;
        skew->few = few;
        skew->few_ns = seen > all / 2 ? seen : 0;
        skew->few_from_seq = from;
        skew->few_to_seq = to;
        skew->worst_over |=
                to < last / 2 && own - half <= (chance + (1 - chance) / 4) * (own - half + others);
}

/* Median, percentiles and per-rank figures of the calls compared. */
static void read_rows(struct capo_skew *skew, const struct skew_laid *l)
{
        uint32_t n = l->n, n_even = 0;
        const double *starts = l->start;
        double waited = 0, *column = l->column,
               job_ns = (double)capo_job_duration_ns(l->of.clocks->job);

        for (uint32_t i = 0; i < l->n_rows; i++) {
                const double *t = starts + (size_t)i * n;

                skew->max_ns = fmax(skew->max_ns, l->call[i].spread);
                skew->ranks[l->call[i].last].last++;
                for (uint32_t k = 0; k < n && (!l->call[i].row->further || l->call[i].by_host); k++)
                        skew->ranks[k].wait_ns += (t[l->call[i].last] - t[k]) / l->n_rows;
                if (!l->call[i].row->extra)
                        column[n_even++] = l->call[i].spread;
        }
        skew->p50_ns = skew_quantile(column, n_even, 0.5);
        skew->p95_ns = skew_quantile(column, n_even, 0.95);
        skew_charge_ranks(skew, l);
        find_holes(skew, l);
        find_turn(skew, l);
        find_few(skew, l);
        for (uint32_t i = 0; i < l->n_rows; i++) {
                if (l->call[i].last == skew->worst)
                        skew->worst_max_ns = fmax(skew->worst_max_ns, l->call[i].spread);
        }
        for (uint32_t k = 0; k < n; k++) {
                skew->ranks[k].seen = l->n_rows;
                for (uint32_t i = 0; i < l->n_rows; i++) {
                        const double *t = starts + (size_t)i * n;

                        column[i] = t[k] - t[l->call[i].last] + l->call[i].spread;
                }
                skew->ranks[k].late_p50_ns = skew_quantile(column, l->n_rows, 0.5);
                for (uint32_t i = 0; i < l->n_rows; i++)
                        column[i] =
                                starts[(size_t)i * n + l->call[i].last] - starts[(size_t)i * n + k];
                skew->ranks[k].wait_p50_ns = skew_quantile(column, l->n_rows, 0.5);
                waited += skew->ranks[k].caused_ns / n;
        }
        skew->worst_p50_ns = when_last(skew, l, EVERYBODY);
        skew->others_p50_ns = when_last(skew, l, OTHERS);
        skew->wait_share = -1;
        if (skew->from != CAPO_SKEW_HOST_START && job_ns > 0) {
                skew->wait_share = waited / job_ns;
                skew->wait_pm = fmin(1, skew->waited_pm_ns / n / job_ns);
        }
}

/*
 * Are the calls of skew->worst late by host time too? A call is, if its host start is at least half
 * as late as its GPU start; the calls that are must hold half of the waiting that it caused. Host
 * times of other ranks do not count: on a busy machine each of them is late now and then.
 */
static bool is_late_on_host(const struct capo_skew *skew, const struct skew_laid *l)
{
        double *host = l->start + (size_t)l->n_rows * l->n; /* there is one more row than calls */
        double all = 0, hosts = 0;
        uint32_t k = skew->worst;

        for (uint32_t i = 0; i < l->n_rows; i++) {
                const double *gpu = l->start + (size_t)i * l->n;

                if (l->call[i].last != k ||
                    !skew_row_starts(&l->of, l->call[i].nth, CAPO_SKEW_HOST_START, host))
                        continue;
                all += l->call[i].waited;
                if (host[k] - middle_of(host, l->n, k, l->middle) >=
                    (gpu[k] - middle_of(gpu, l->n, k, l->middle)) / 2)
                        hosts += l->call[i].waited;
        }
        return hosts >= all / 2;
}

/*
 * A freeze of seconds is in one call, which is hardly ever timed on the GPU; the last rank may have
 * timed it, after its pause. But the others' waiting in it is GPU time and is known: add it to the
 * row of that call, on top of the shortest time that such a call takes.
 */
static void infer_row(struct capo_job *job, uint32_t comm, const struct capo_meet_row *call,
                      double spread, double waited)
{
        for (uint32_t i = 0; i < job->n_rows; i++) {
                struct capo_job_row *row = &job->rows[i];
                const struct capo_hist *timed = &row->time[CAPO_CLOCK_EVENT];

                if (row->comm != comm || row->call != call->call || row->bytes != call->bytes ||
                    !timed->count)
                        continue;
                if (spread > (double)timed->max_ns) {
                        row->inferred_calls += job->comms[comm].n_members;
                        row->inferred_ns +=
                                waited + (double)job->comms[comm].n_members * (double)timed->min_ns;
                }
                return;
        }
}

static void laid_finish(struct skew_laid *l)
{
        xfree(l->start, l->call, l->column, l->untimed, l->charge, l->middle, l->differ);
}

static void solve_comm(struct capo_job *job, const struct capo_clocks *s, uint32_t comm)
{
        struct capo_job_comm *c = &job->comms[comm];
        const struct capo_meet *m = s->meets[comm];
        _cleanup_(laid_finish) struct skew_laid l = {.of = {s, c, m}, .n = c->n_members};
        struct capo_skew *skew;

        c->no_skew = c->n_members < 2                        ? CAPO_SKEW_ONE_LOG
                     : !m && c->no_skew == CAPO_SKEW_NO_ROOM ? CAPO_SKEW_NO_ROOM
                     : !m || !m->n_rows                      ? CAPO_SKEW_NO_CALLS
                                                             : CAPO_SKEW_COMPARED;
        if (c->no_skew != CAPO_SKEW_COMPARED)
                return;
        l.start = xmalloc(((size_t)m->n_rows + 2) * c->n_members * sizeof *l.start);
        l.call = xmalloc(m->n_rows * sizeof *l.call);
        l.column = xmalloc(m->n_rows * sizeof *l.column);
        l.untimed = xcalloc(c->n_members + 1, sizeof *l.untimed);
        l.charge = xcalloc(c->n_members + 1, sizeof *l.charge);
        l.middle = xmalloc(c->n_members * sizeof *l.middle);
        l.differ = xcalloc(c->n_members + 1, sizeof *l.differ);
        skew = xcalloc(1, sizeof *skew);
        skew->ranks = xcalloc(c->n_members, sizeof *skew->ranks);
        l.from = CAPO_SKEW_GPU_DURATION; /* the best source that at least a few calls have */
        while (l.from != CAPO_SKEW_HOST_START &&
               COUNT_OF(row, m->rows, m->n_rows,
                        skew_row_starts(&l.of, (uint32_t)(row - m->rows), l.from, l.start)) <
                       SKEW_FEW)
                l.from++;
        skew_lay_out(&l);
        for (uint32_t i = 0; i < m->n_rows; i++) {
                if (!m->rows[i].mismatch)
                        continue;
                skew->mismatched++;
                if (!skew->mismatch_seq || m->rows[i].seq < skew->mismatch_seq)
                        skew->mismatch_seq = m->rows[i].seq;
        }
        if (!l.n_rows)
                c->no_skew = CAPO_SKEW_NO_COMMON;
        if (!l.n_rows && !skew->mismatched) {
                capo_skew_free(skew);
                return;
        }
        skew->n_calls = l.n_rows;
        for (uint32_t i = 0; i < l.n_rows; i++) {
                skew->n_host += l.call[i].by_host;
                skew->n_kernel +=
                        l.from == CAPO_SKEW_GPU_DURATION && !l.call[i].by_host &&
                        skew_row_tells(&l.of, l.call[i].nth, CAPO_SKEW_KERNEL_WAIT, l.column);
        }
        skew->from = l.from;
        skew->aligned = l.from == CAPO_SKEW_GPU_DURATION || capo_comm_has_one_clock(job, c);
        if (l.n_rows) {
                read_rows(skew, &l);
                skew->host_late = is_late_on_host(skew, &l);
        }
        for (uint32_t i = 0; i < l.n_rows; i++) {
                if (l.call[i].by_host && capo_meet_is_long(m, l.call[i].row->seq) &&
                    !capo_meet_is_timed(m, l.call[i].row, c->members[l.call[i].last].rank))
                        infer_row(job, comm, l.call[i].row, l.call[i].spread, l.call[i].waited);
        }
        c->skew = skew;
}

void capo_skew_solve(struct capo_job *job, struct capo_meet *const *meets)
{
        _cleanup_(capo_clocks_finish) struct capo_clocks clocks;

        capo_clocks_make(&clocks, job, meets);
        for (uint32_t i = 0; i < job->n_comms; i++)
                solve_comm(job, &clocks, i);
        capo_skew_follow(job);
}
