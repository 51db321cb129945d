/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a job have algorithm and rule in their key. Rows of one (communicator, call, size) are
 * merged first, because the algorithm is what may have changed. Communicators are matched by name:
 * uids differ from run to run. */
#include <math.h>

#include "core/base/calls.h"
#include "core/base/order.h"
#include "core/base/xalloc.h"
#include "analysis/log/rules_read.h"
#include "analysis/report/job_diff.h"
#include "analysis/job/spread.h"

struct side {
        const char *comm;
        uint64_t bytes, count, most, calls; /* calls: over all ranks */
        struct capo_hist time[CAPO_TIMES];
        double run[CAPO_DIFF_RUNS][CAPO_CLOCKS]; /* p50 in us of each run; 0: not timed */
        uint16_t rule;
        uint8_t call, algo_proto;
};

CAPO_ORDERED(compare_sides, struct side, strcmp(a->comm, b->comm), CAPO_ORDER(a->call, b->call),
             CAPO_ORDER(a->bytes, b->bytes));

/* 0: not timed. */
static double side_quantile(const struct side *s, int clock, double q)
{
        struct capo_sampled sampled =
                capo_job_times_sampled(s->time, (enum capo_clock)clock, s->calls);

        return capo_sampled_quantile(&sampled, q);
}

struct row_of {
        const char *comm;
        const struct capo_job_row *row;
        size_t run;
};

CAPO_ORDERED(by_run, struct row_of, strcmp(a->comm, b->comm),
             CAPO_ORDER(a->row->call, b->row->call), CAPO_ORDER(a->row->bytes, b->row->bytes),
             CAPO_ORDER(a->run, b->run));
CAPO_ORDERED(by_row, struct row_of, by_run(a, b), CAPO_ORDER(a->row, b->row));

/* The first @n rows that are of one key and run. */
static struct side merge_rows(const struct row_of *rows, size_t most, size_t *n)
{
        struct side s = {.comm = rows->comm, .bytes = rows->row->bytes, .call = rows->row->call};

        for (*n = 0; *n < most && !by_run(rows, &rows[*n]); ++*n) {
                const struct capo_job_row *r = rows[*n].row;

                s.count += r->count;
                s.calls += r->calls;
                if (r->count > s.most) {
                        s.most = r->count;
                        s.algo_proto = r->algo_proto;
                        s.rule = r->rule;
                }
                for (int c = 0; c < CAPO_TIMES; c++) {
                        if (r->time[c].count)
                                capo_hist_merge(&s.time[c], &r->time[c]);
                }
        }
        for (int c = 0; c < CAPO_CLOCKS; c++)
                s.run[rows->run][c] = side_quantile(&s, c, 0.5) / 1e3;
        return s;
}

/* All runs of one side, by key. A key that some run lacks has a 0 there. */
static struct side *gather_side(struct capo_job *const *jobs, size_t n_jobs, size_t *n)
{
        _cleanup_free_ struct row_of *rows = NULL;
        size_t n_rows = 0, taken;
        struct side *all;

        for (size_t j = 0; j < n_jobs; j++) {
                for (uint32_t i = 0; i < jobs[j]->n_rows; i++) {
                        const struct capo_job_row *r = &jobs[j]->rows[i];

                        if (capo_call_kind(r->call) != CAPO_KIND_OTHER &&
                            !(r->flags & CAPO_RECORD_MEMBER))
                                *xadd(rows, n_rows) = (struct row_of){
                                        r->comm == CAPO_NO_COMM ? "" : jobs[j]->comms[r->comm].name,
                                        r, j};
                }
        }
        CAPO_SORT(rows, n_rows, by_row);
        all = xcalloc(n_rows + 1, sizeof *all);
        for (size_t i = 0; i < n_rows; i += taken) {
                struct side one = merge_rows(rows + i, n_rows - i, &taken), *to = &all[*n];

                if (!*n || compare_sides(to - 1, &one)) {
                        all[(*n)++] = one;
                        continue;
                }
                to[-1].count += one.count;
                to[-1].calls += one.calls;
                for (int t = 0; t < CAPO_TIMES; t++) {
                        if (t < CAPO_CLOCKS)
                                to[-1].run[rows[i].run][t] = one.run[rows[i].run][t];
                        capo_hist_merge(&to[-1].time[t], &one.time[t]);
                        capo_hist_finish(&one.time[t]);
                }
        }
        return all;
}

/* How many independent calls were timed. All ranks time the same calls, which are slow or fast for
 * all of them, so each counts once. */
static double n_timed(const struct side *s, int clock)
{
        return (double)s->time[clock].count * (double)s->count /
               (double)(s->calls ? s->calls : s->count);
}

/* Expected range of 2, 3, ... normal values in standard deviations (L. H. C. Tippett, Biometrika
 * 17, 1925). */
static const double normal_range[] = {1.128, 1.693, 2.059, 2.326, 2.534, 2.704};

/* Standard error of ln(median), including the width of histogram buckets. From 8 calls on from
 * order statistics. Fewer calls have no two with 95 % between them, so they are taken as normal,
 * with their range as the only estimate of spread. @freedom: its degrees of freedom. */
static double log_se(const struct side *s, int clock, double *freedom)
{
        double n = n_timed(s, clock), half = 0.98 / sqrt(fmax(n, 1)),
               p50 = side_quantile(s, clock, 0.5);
        size_t few = n < 2 ? 0 : (size_t)n - 2;
        bool normal = few < N_ELEMENTS(normal_range);
        double lo = side_quantile(s, clock, normal ? 0 : 0.5 - half),
               hi = side_quantile(s, clock, normal ? 1 : 0.5 + half);

        *freedom = normal ? (double)few + 1 : 100;
        if (!(p50 > 0) || !(lo > 0))
                return INFINITY;
        return fmax(log(hi / lo) * (normal ? 1.2533 / normal_range[few] / sqrt((double)few + 2)
                                           : 1 / (2 * 1.96)),
                    0.005);
}

CAPO_ORDERED(by_seconds, struct capo_diff_row, CAPO_ORDER(fabs(b->seconds), fabs(a->seconds)),
             CAPO_ORDER(a->bytes, b->bytes));

/* Logarithms of the runs' medians. Returns how many runs have one. */
static size_t runs_of(const struct side *s, size_t n, int clock, double *out)
{
        size_t k = 0;

        for (size_t i = 0; i < n; i++) {
                if (s->run[i][clock] > 0)
                        out[k++] = log(s->run[i][clock]);
        }
        return k;
}

static double mean_value(const double *v, size_t n)
{
        double sum = 0;

        for (size_t i = 0; i < n; i++)
                sum += v[i];
        return sum / (double)n;
}

static double sum_squares(const double *v, size_t n, double center)
{
        double sum = 0;

        for (size_t i = 0; i < n; i++)
                sum += (v[i] - center) * (v[i] - center);
        return sum;
}

/* Calls that a run of each side made. */
static double calls_of_both(const struct capo_diff_row *r, size_t n_a, size_t n_b)
{
        return fmin((double)r->count_a / (double)n_a, (double)r->count_b / (double)n_b);
}

/* The change and its standard error from the runs; from the histograms if a side has one run. */
static void measure_change(struct capo_diff_row *r, const struct side *a, size_t n_a,
                           const struct side *b, size_t n_b)
{
        double va[CAPO_DIFF_RUNS], vb[CAPO_DIFF_RUNS], d[CAPO_DIFF_RUNS];
        size_t ka = runs_of(a, n_a, r->clock, va), kb = runs_of(b, n_b, r->clock, vb);

        /* one call says nothing about variation; below 1.5, because a rank may have made one more
         */
        if (!ka || !kb || n_timed(a, r->clock) < 1.5 || n_timed(b, r->clock) < 1.5)
                return;
        r->p50_a_us = exp(mean_value(va, ka));
        r->p50_b_us = exp(mean_value(vb, kb));
        r->change = r->p50_b_us / r->p50_a_us - 1;
        if (ka == kb && ka == n_a && kb == n_b && ka > 1) {
                for (size_t i = 0; i < ka; i++)
                        d[i] = vb[i] - va[i];
                r->freedom_ = (double)ka - 1;
                r->se_ = sqrt(sum_squares(d, ka, mean_value(d, ka)) / r->freedom_ / (double)ka);
        } else if (ka > 1 && kb > 1) {
                r->freedom_ = (double)(ka + kb) - 2;
                r->se_ = sqrt((sum_squares(va, ka, mean_value(va, ka)) +
                               sum_squares(vb, kb, mean_value(vb, kb))) /
                              r->freedom_ * (1.0 / (double)ka + 1.0 / (double)kb));
        } else {
                double fa, fb, sa = pow(log_se(a, r->clock, &fa), 2),
                               sb = pow(log_se(b, r->clock, &fb), 2);

                r->se_ = sqrt(sa + sb);
                r->calls_freedom_ = pow(sa + sb, 2) /
                                    (sa * sa / fa + sb * sb / fb); /* Welch and Satterthwaite */
        }
        r->seconds = (r->p50_b_us - r->p50_a_us) / 1e6 * calls_of_both(r, n_a, n_b);
}

static void add_paired_row(const struct side *a, size_t n_a, const struct side *b, size_t n_b,
                           struct capo_diff *d)
{
        struct capo_diff_row *r = &d->rows[d->n_rows++];
        int clock = CAPO_CLOCK_KERNEL;
        uint64_t matched;

        while (clock > CAPO_CLOCK_HOST && !(a->time[clock].count && b->time[clock].count))
                clock--;
        *r = (struct capo_diff_row){.comm = a->comm,
                                    .call = a->call,
                                    .clock = (uint8_t)clock,
                                    .bytes = a->bytes,
                                    .count_a = a->count,
                                    .count_b = b->count,
                                    .algo_proto_a = a->algo_proto,
                                    .algo_proto_b = b->algo_proto,
                                    .rule_b = b->rule,
                                    .change = NAN,
                                    .low = NAN,
                                    .high = NAN,
                                    .half_width = NAN};
        matched = (uint64_t)llround(calls_of_both(r, n_a, n_b) * (double)(n_a + n_b));
        d->matched += matched;
        d->unmatched += a->count + b->count - matched;
        measure_change(r, a, n_a, b, n_b);
}

/* Root mean square of the rows' errors: no row is assumed to vary much less than is usual in this
 * job. */
static double typical_error(const struct capo_diff *d)
{
        double sum = 0;
        size_t n = 0;

        for (size_t i = 0; i < d->n_rows; i++) {
                if (!isnan(d->rows[i].change) && d->rows[i].freedom_ > 0) {
                        sum += d->rows[i].se_ * d->rows[i].se_;
                        n++;
                }
        }
        return n ? sqrt(sum / (double)n) : 0;
}

static void judge_rows(struct capo_diff *d, double min_change)
{
        double usual = typical_error(d);

        for (size_t n = 0; n < d->n_rows; n++) {
                struct capo_diff_row *r = &d->rows[n];
                double width,
                        freedom = r->freedom_ > 0 ? fmax(2 * r->freedom_, 3) : r->calls_freedom_;

                r->verdict = CAPO_DIFF_NOT_TIMED;
                if (isnan(r->change))
                        continue;
                r->verdict = CAPO_DIFF_NOISE;
                d->between_runs |= r->freedom_ > 0;
                width = capo_quantile_t(0.05 / (double)d->n_rows, freedom) *
                        (r->freedom_ > 0 ? fmax(r->se_, usual) : r->se_);
                r->low = (1 + r->change) * exp(-width) - 1;
                r->high = (1 + r->change) * exp(width) - 1;
                r->half_width = (r->high - r->low) / 2;
                if (r->clock == CAPO_CLOCK_HOST) {
                        r->verdict = CAPO_DIFF_HOST_TIMES;
                        continue;
                }
                if (!(r->low <= 0 && r->high >= 0) && fabs(r->change) < min_change)
                        r->verdict = CAPO_DIFF_SMALL;
                if ((r->low <= 0 && r->high >= 0) || fabs(r->change) < min_change)
                        continue;
                r->verdict = r->change < 0 ? CAPO_DIFF_FASTER : CAPO_DIFF_SLOWER;
                d->seconds += r->seconds;
                *(r->verdict == CAPO_DIFF_FASTER ? &d->n_faster : &d->n_slower) += 1;
        }
}

/* The rules of all runs; NULL: their profiles differ. */
static const char *rules_of(struct capo_job *const *jobs, size_t n)
{
        char first[128], digest[128];

        for (size_t i = 0; i < n; i++) {
                if (!jobs[i]->n_processes)
                        return NULL;
                capo_rules_value(jobs[i]->processes[0].rules, CAPO_RULES_DIGEST, i ? digest : first,
                                 sizeof digest);
                if (i && strcmp(first, digest))
                        return NULL;
        }
        return n ? jobs[0]->processes[0].rules : NULL;
}

void capo_diff_make(struct capo_job *const *ja, size_t n_a, struct capo_job *const *jb, size_t n_b,
                    double min_change, struct capo_diff *d)
{
        size_t na = 0, nb = 0, i = 0, k = 0;
        struct side *a, *b;

        n_a = n_a > CAPO_DIFF_RUNS ? CAPO_DIFF_RUNS : n_a;
        n_b = n_b > CAPO_DIFF_RUNS ? CAPO_DIFF_RUNS : n_b;
        a = gather_side(ja, n_a, &na);
        b = gather_side(jb, n_b, &nb);
        *d = (struct capo_diff){.runs_a = n_a,
                                .runs_b = n_b,
                                .seconds_a = n_a ? (double)capo_job_duration_ns(ja[0]) / 1e9 : 0,
                                .seconds_b = n_b ? (double)capo_job_duration_ns(jb[0]) / 1e9 : 0,
                                .rules = rules_of(jb, n_b)};
        d->rows = xcalloc((na < nb ? na : nb) + 1, sizeof *d->rows);
        while (i < na || k < nb) {
                int c = i == na ? 1 : k == nb ? -1 : compare_sides(&a[i], &b[k]);

                if (c < 0)
                        d->unmatched += a[i++].count;
                else if (c > 0)
                        d->unmatched += b[k++].count;
                else
                        add_paired_row(&a[i++], n_a, &b[k++], n_b, d);
        }
        judge_rows(d, min_change);
        qsort(d->rows, d->n_rows, sizeof *d->rows, by_seconds);
}
