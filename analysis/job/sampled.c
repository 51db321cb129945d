/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "analysis/job/sampled.h"
#include "analysis/job/spread.h"
#include "core/base/xalloc.h"

/* Calls that stand for others too: their number, how many were drawn, and the times of those. */
struct rest {
        double calls, drawn, sum_ns, sum_sq;
};

static struct rest rest_of(const struct capo_sampled *s)
{
        struct rest r = {.drawn = (double)(s->timed->count - s->chosen->count),
                         .sum_ns = (double)(s->timed->sum_ns - s->chosen->sum_ns),
                         .sum_sq = s->timed->sum_sq - s->chosen->sum_sq};

        r.calls = fmax(r.drawn,
                       (double)s->calls - (double)s->chosen->count - (double)s->inferred_calls);
        return r;
}

/* Estimated time of one of them. */
static double usual_time(const struct capo_sampled *s, const struct rest *r)
{
        return r->drawn > 0 ? r->sum_ns / r->drawn : capo_hist_quantile(s->chosen, 0.25);
}

double capo_sampled_mean(const struct capo_sampled *s)
{
        struct rest r = rest_of(s);

        if (!s->timed->count)
                return 0;
        return ((double)s->chosen->sum_ns + r.calls * usual_time(s, &r) + s->inferred_ns) /
               ((double)s->chosen->count + r.calls + (double)s->inferred_calls);
}

double capo_sampled_cov(const struct capo_sampled *s)
{
        struct rest r = rest_of(s);
        double mean = capo_sampled_mean(s), squares;

        if (r.drawn <= 0 || mean <= 0 ||
            s->inferred_calls) /* only the sum of the inferred calls is known */
                return capo_hist_cov(s->timed);
        squares = (s->chosen->sum_sq + r.sum_sq * (r.calls / r.drawn)) /
                  ((double)s->chosen->count + r.calls);
        return squares > mean * mean ? sqrt(squares - mean * mean) / mean : 0;
}

double capo_sampled_weight(const struct capo_sampled *s)
{
        struct rest r = rest_of(s);

        return r.drawn > 0 ? r.calls / r.drawn : 1;
}

double capo_sampled_quantile(const struct capo_sampled *s, double q)
{
        return capo_hist_quantile_of(s->timed, s->chosen, capo_sampled_weight(s), q);
}

double capo_sampled_doubt(const struct capo_sampled *s, uint64_t count)
{
        struct rest r = rest_of(s);
        double drawn, mean, variance;

        if (!s->timed->count || r.calls <= r.drawn)
                return 0;
        drawn = (double)count * r.drawn / (double)s->calls;
        mean = usual_time(s, &r);
        if (drawn < 2)
                return r.calls * mean;
        variance = fmax(0, r.sum_sq / r.drawn - mean * mean);
        return r.calls * sqrt(variance * (1 - r.drawn / r.calls) / drawn) *
               capo_quantile_t(0.05, drawn - 1);
}

enum { SILENCES_FEW = 8 };

void capo_silences_add(struct capo_silences *s, uint64_t from, uint64_t ns)
{
        uint32_t i;

        if (s->n == CAPO_SILENCES && ns <= s->v[s->n - 1].ns)
                return;
        if (s->n < CAPO_SILENCES)
                xarray_room(&s->v, s->n++, sizeof *s->v);
        for (i = s->n - 1; i && s->v[i - 1].ns < ns; i--)
                s->v[i] = s->v[i - 1];
        s->v[i] = (struct capo_silence){ns, from};
}

uint64_t capo_silences_usual(const struct capo_silences *s)
{
        return s->n < SILENCES_FEW ? 0 : s->v[s->n / 2].ns;
}

double capo_sampled_unseen(const struct capo_silences *s, double calls, double drawn)
{
        double most = calls * (drawn > 0 ? 1 - pow(0.05, 1 / drawn) : 1), ns = 0;

        for (uint32_t i = 0; i < s->n && most > 0; i++, most--)
                ns += fmin(most, 1) * (double)s->v[i].ns;
        if (most > 0 && s->n == CAPO_SILENCES) /* the list is full: there may have been more, of at
                                                  most that length */
                ns += most * (double)s->v[CAPO_SILENCES - 1].ns;
        return ns;
}
