/* SPDX-License-Identifier: Apache-2.0 */
/* A trial ends as faster, no gain, or open. Both choices ran in the same job, alternating, so the
 * error of the difference of their medians is the one within the run (struct
 * capo_fit_cell.se_within). Jobs are joined by these differences, never by their times. */
#include <math.h>

#include "analysis/steps/job_steps.h"
#include "capo/record.h"
#include "core/base/calls.h"
#include "core/base/order.h"
#include "core/base/xalloc.h"
#include "core/profile/match.h"
#include "profiles/fit/fit_trial.h"

enum { LEAST_CALLS = 8, LEAST_STEPS = 16 }; /* of each */
#define SURE       2.576                    /* standard errors: 99 % */
#define LEAST_GAIN 0.01                     /* as capo fit --min-gain */
#define LEAST_SE   0.002                    /* of ln us: the least error assumed for a median */

static bool holds_for(const struct capo_rule *rule, const struct capo_trial *like)
{
        struct capo_shape s = {.n_ranks = like->n_ranks,
                               .n_nodes = like->n_nodes > 0 ? like->n_nodes : -1,
                               .min_local = -1,
                               .max_local = -1,
                               .nccl = (int)like->nccl,
                               .allow_modelled = true,
                               .class_name = rule->when.class_name,
                               .comm = rule->when.comm};
        char text[CAPO_LAYOUT_TEXT];

        capo_shape_fill(&s, like->layout, text, sizeof text, NULL);
        return capo_rule_settled(rule, &s, NULL);
}

static int candidate_of(const struct capo_fit_series *s, const struct capo_row *row)
{
        for (int c = 1; c < s->n_candidates; c++) {
                const struct capo_fit_candidate *k = &s->candidates[c];

                if (k->algo == row->algo && k->proto == row->proto &&
                    k->channels == row->channels && k->chunk == row->chunk)
                        return c;
        }
        return -1;
}

/* Does the step decide? It may only where it clearly changes. */
static void conclude_by_step(struct capo_trial_found *f)
{
        if (!(f->step_se > 0) || fabs(f->step_change) < LEAST_GAIN ||
            fabs(f->step_change) < SURE * f->step_se)
                return;
        f->by_step = true;
        f->verdict = f->step_change < 0 ? CAPO_TRIAL_FASTER : CAPO_TRIAL_NO_GAIN;
}

static void conclude(struct capo_trial_found *f)
{
        f->gain = -expm1(f->change);
        f->gain_lo = -expm1(f->change + SURE * f->se);
        f->gain_hi = -expm1(f->change - SURE * f->se);
        f->verdict = CAPO_TRIAL_OPEN;
        f->by_step = false;
        if (f->n_own >= LEAST_CALLS && f->n_row >= LEAST_CALLS && isfinite(f->se)) {
                if (f->gain_lo > 0 && f->gain >= LEAST_GAIN)
                        f->verdict = CAPO_TRIAL_FASTER;
                else if (f->gain_hi < LEAST_GAIN)
                        f->verdict = CAPO_TRIAL_NO_GAIN;
        }
        conclude_by_step(f);
}

bool capo_trial_judge(const struct capo_fit_series *s, int point, int candidate,
                      struct capo_trial_found *out)
{
        const struct capo_fit_cell *own = capo_fit_cell_of(s, point, 0),
                                   *row = capo_fit_cell_of(s, point, candidate);
        const struct capo_fit_candidate *c = &s->candidates[candidate];
        bool itself = !c->channels && !c->chunk &&
                      s->points[point].default_ran == CAPO_ALGO_PROTO(c->algo, c->proto);

        if (isnan(own->us) || isnan(row->us) || row->is_default || itself)
                return false;
        *out = (struct capo_trial_found){
                .call = s->call,
                .n_ranks = s->like.n_ranks,
                .bytes = s->points[point].bytes,
                .n_jobs = 1,
                .own_us = own->us,
                .row_us = row->us,
                .n_own = own->n_samples,
                .n_row = row->n_samples,
                .change = log(row->us / own->us),
                .se = hypot(fmax(own->se_within, LEAST_SE), fmax(row->se_within, LEAST_SE))};
        conclude(out);
        return true;
}

static int add_row(const struct capo_fit_series *s, const struct capo_row *row, uint32_t number,
                   struct capo_trial_found **found, int *n)
{
        int c = row->algo ? candidate_of(s, row) : -1;

        for (int p = 0; c > 0 && p < s->n_points; p++) {
                struct capo_trial_found f;

                if (s->points[p].bytes < row->from || s->points[p].bytes > row->upto ||
                    !capo_trial_judge(s, p, c, &f))
                        continue;
                f.row = number;
                xarray_room(found, (size_t)*n, sizeof **found);
                (*found)[(*n)++] = f;
        }
        return 0;
}

CAPO_ORDERED(by_row, struct capo_trial_found, CAPO_ORDER(a->row, b->row),
             CAPO_ORDER(a->bytes, b->bytes), CAPO_ORDER(b->n_row, a->n_row));

/* If a rule holds for several releases, keep the one with most calls. Returns how many are left. */
static int once_per_size(struct capo_trial_found *found, int n)
{
        int kept = 0;

        if (n)
                qsort(found, (size_t)n, sizeof *found, by_row);
        for (int i = 0; i < n; i++) {
                if (!kept || found[kept - 1].row != found[i].row ||
                    found[kept - 1].bytes != found[i].bytes)
                        found[kept++] = found[i];
        }
        return kept;
}

int capo_fit_trials(const struct capo_fit *fit, const struct capo_profile *profile,
                    struct capo_trial_found **found)
{
        int n = 0;

        *found = NULL;
        for (uint32_t r = 0; r < profile->n_rules; r++) {
                const struct capo_rule *rule = &profile->rules[r];

                for (int i = 0; i < fit->n_series; i++) {
                        const struct capo_fit_series *s = &fit->series[i];
                        int coll = capo_coll_of_call(s->call);

                        if (coll < 0 || !rule->count[coll] || !holds_for(rule, &s->like))
                                continue;
                        for (uint32_t k = 0; k < rule->count[coll]; k++) {
                                uint32_t at = rule->first[coll] + k;

                                if (add_row(s, &profile->rows[at], at, found, &n) < 0) {
                                        free(*found);
                                        *found = NULL;
                                        return -ENOMEM;
                                }
                        }
                }
        }
        return once_per_size(*found, n);
}

/* ---- by the step ---- */

/* Median and its standard error, of values that are nearly normal but for outliers. */
static double median_of(double *v, int n, double *se)
{
        double median;

        qsort(v, (size_t)n, sizeof *v, capo_order_double);
        median = v[n / 2];
        for (int i = 0; i < n; i++)
                v[i] = fabs(v[i] - median);
        qsort(v, (size_t)n, sizeof *v, capo_order_double);
        *se = 1.2533 * fmax(1.4826 * v[n / 2], LEAST_SE * median) / sqrt(n);
        return median;
}

/* The calls of @step that @f is about, and how many of them the row made. */
static void count_in_step(const struct capo_job *job, const struct capo_job_steps *s,
                          const struct capo_step *step, const struct capo_trial_found *f,
                          int *by_row, int *all)
{
        const struct capo_step_call *c = s->calls + step->first;

        for (uint32_t i = 0; i < step->n; i++, c++) {
                if (c->call != f->call || c->bytes != f->bytes || !c->comm ||
                    job->comms[c->comm - 1].n_ranks != f->n_ranks)
                        continue;
                (*all)++;
                *by_row += c->rule == f->row + 1;
        }
}

static void judge_steps(const struct capo_job *job, const struct capo_job_steps *s,
                        struct capo_trial_found *f)
{
        _cleanup_free_ int *by_row = xcalloc(s->steps.n + 1, sizeof *by_row),
                           *all = xcalloc(s->steps.n + 1, sizeof *all);
        _cleanup_free_ double *ns = xcalloc(2 * (size_t)s->steps.n + 1, sizeof *ns);
        double *in[2] = {ns, ns + s->steps.n}, median[2], se[2], sum = 0, sum_row = 0, turns = 0;
        int n[2] = {0};
        bool guard;

        for (uint32_t i = 0; i < s->steps.n; i++) {
                if (s->steps.step[i].plain)
                        count_in_step(job, s, &s->steps.step[i], f, &by_row[i], &all[i]);
                sum += all[i];
                sum_row += by_row[i];
        }
        guard = 2 * sum_row > sum; /* the row is usual, and NCCL's choice has its turn */
        for (uint32_t i = 0; i < s->steps.n; i++) {
                int turned = guard ? all[i] - by_row[i] : by_row[i];

                if (!all[i])
                        continue;
                in[turned > 0][n[turned > 0]++] = (double)s->steps.step[i].ns;
                turns += turned;
        }
        if (n[0] < LEAST_STEPS || n[1] < LEAST_STEPS)
                return;
        for (int k = 0; k < 2; k++)
                median[k] = median_of(in[k], n[k], &se[k]);
        turns *= 1e3 * f->own_us / n[1]; /* by call instead of by step, and as a share */
        f->step_change = (guard ? median[0] - median[1] : median[1] - median[0]) / turns;
        f->step_se = hypot(se[0], se[1]) / turns;
        conclude(f);
}

void capo_trial_steps(const struct capo_job *job, const struct capo_job_steps *s,
                      struct capo_trial_found *found, int n)
{
        for (int i = 0; s->steps.known == CAPO_STEPS_FOUND && s->calls && i < n; i++)
                judge_steps(job, s, &found[i]);
}

uint64_t capo_trial_captured(const struct capo_job *job)
{
        uint64_t n = 0;

        for (uint32_t i = 0; i < job->n_rows; i++) {
                if (job->rows[i].flags & CAPO_RECORD_CAPTURED && job->rows[i].rule)
                        n += job->rows[i].count;
        }
        return n;
}

char *capo_trial_by_text(const struct capo_trial_found *f, char *text, size_t room)
{
        double share = 100 * fabs(f->step_change), half = 100 * SURE * f->step_se;

        if (f->by_step)
                snprintf(text, room,
                         "by the step, which takes %.1f %% of the call's time %s (%.1f to %.1f)",
                         share, f->step_change < 0 ? "less" : "more", share - half, share + half);
        else
                snprintf(text, room, "by the calls' own times");
        return text;
}

/* ---- several jobs ---- */

static int by_place(const void *a, const void *b, void *found)
{
        const struct capo_trial_found *v = found, *x = &v[*(const int *)a],
                                      *y = &v[*(const int *)b];

        return CAPO_ORDER(x->row, y->row) ?: CAPO_ORDER(x->bytes, y->bytes) ?:
               CAPO_ORDER(x->n_ranks, y->n_ranks) ?: CAPO_ORDER(*(const int *)a, *(const int *)b);
}

/* Join differences by their weights. The variance between jobs is DerSimonian and Laird's estimate
 * (Controlled Clinical Trials 7, 1986). */
static void join_changes(const double *change, const double *se, int n, double *mean, double *error)
{
        double w = 0, w2 = 0, sum = 0, q = 0, by, spread;

        for (int i = 0; i < n; i++) {
                double x = 1 / (se[i] * se[i]);

                w += x;
                w2 += x * x;
                sum += x * change[i];
        }
        for (int i = 0; i < n; i++)
                q += (change[i] - sum / w) * (change[i] - sum / w) / (se[i] * se[i]);
        by = w - w2 / w;
        spread = fmax(by > 0 ? fmax(0, (q - (n - 1)) / by) : 0,
                      CAPO_TRIAL_JOB_SPREAD * CAPO_TRIAL_JOB_SPREAD);
        w = sum = 0;
        for (int i = 0; i < n; i++) {
                w += 1 / (se[i] * se[i] + spread);
                sum += change[i] / (se[i] * se[i] + spread);
        }
        *mean = sum / w;
        *error = 1 / sqrt(w);
}

static struct capo_trial_found join_jobs(const struct capo_trial_found *v, const int *of, int n)
{
        struct capo_trial_found f = v[of[n - 1]];
        _cleanup_free_ double *change = xmalloc((size_t)n * sizeof *change);
        _cleanup_free_ double *se = xmalloc((size_t)n * sizeof *se);
        int m = 0;

        f.n_row = f.n_own = 0;
        f.step_change = f.step_se = 0;
        f.n_jobs = n;
        for (int i = 0; i < n; i++) {
                f.n_row += v[of[i]].n_row;
                f.n_own += v[of[i]].n_own;
                change[i] = v[of[i]].change;
                se[i] = v[of[i]].se;
        }
        join_changes(change, se, n, &f.change, &f.se);
        for (int i = 0; i < n; i++) {
                if (v[of[i]].step_se > 0) {
                        change[m] = v[of[i]].step_change;
                        se[m++] = v[of[i]].step_se;
                }
        }
        if (m)
                join_changes(change, se, m, &f.step_change, &f.step_se);
        conclude(&f);
        return f;
}

int capo_trial_pool(struct capo_trial_found *found, int n)
{
        _cleanup_free_ int *of = xmalloc(((size_t)n + 1) * sizeof *of);
        _cleanup_free_ struct capo_trial_found *joined = xmalloc(((size_t)n + 1) * sizeof *joined);
        int kept = 0;

        for (int i = 0; i < n; i++)
                of[i] = i;
        qsort_r(of, (size_t)n, sizeof *of, by_place, found);
        for (int i = 0, k; i < n; i = k) {
                const struct capo_trial_found *f = &found[of[i]];

                for (k = i + 1;
                     k < n && found[of[k]].row == f->row && found[of[k]].bytes == f->bytes &&
                     found[of[k]].n_ranks == f->n_ranks;
                     k++)
                        ;
                joined[kept++] = join_jobs(found, of + i, k - i);
        }
        memcpy(found, joined, (size_t)kept * sizeof *found);
        return once_per_size(found, kept);
}

/* ---- the next profile ---- */

struct applying {
        const struct capo_trial_found *found;
        int n_found;
        struct capo_profile *out;
        bool predicted; /* rows of the rule are predicted unless they say otherwise */
        int changed;
};

static int put_piece(struct applying *a, const struct capo_row *row, uint64_t upto,
                     const struct capo_trial_found *f)
{
        struct capo_row piece = *row;

        piece.upto = upto;
        piece.predicted = row->algo && (row->predicted || a->predicted);
        if (f) {
                piece.predicted = false;
                piece.us = (float)(f->verdict == CAPO_TRIAL_FASTER ? f->row_us : f->own_us);
                piece.spread_us = NAN;
                piece.samples = f->n_row;
                piece.gain = (float)(f->by_step ? -f->step_change : f->gain);
                a->changed++;
        }
        if (f && f->verdict == CAPO_TRIAL_NO_GAIN) {
                piece.algo = piece.proto = piece.channels = 0;
                piece.chunk = 0;
                piece.gain = NAN;
        }
        return capo_profile_row(a->out, &piece);
}

/* What a size says of its part of the row: open only where there were enough calls to decide. */
static bool has_part(const struct capo_trial_found *f, uint32_t at)
{
        return f->row == at && (f->verdict != CAPO_TRIAL_OPEN ||
                                (f->n_row >= LEAST_CALLS && f->n_own >= LEAST_CALLS));
}

/* Write @row in pieces, one for each run of sizes with one verdict. They meet in the middle. */
static int put_row(struct applying *a, const struct capo_row *row, uint32_t at)
{
        const struct capo_trial_found *last = NULL;
        int e = 0;

        for (int i = 0; i < a->n_found && e == 0; i++) {
                const struct capo_trial_found *f = &a->found[i];

                if (!has_part(f, at))
                        continue;
                if (last && last->verdict != f->verdict)
                        e = put_piece(a, row,
                                      (uint64_t)sqrt((double)last->bytes * (double)f->bytes),
                                      last->verdict == CAPO_TRIAL_OPEN ? NULL : last);
                last = f;
        }
        return e < 0 ? e
                     : put_piece(a, row, row->upto,
                                 last && last->verdict != CAPO_TRIAL_OPEN ? last : NULL);
}

static bool is_decided(const struct applying *a, const struct capo_rule *rule)
{
        for (int i = 0; i < a->n_found; i++) {
                for (int c = 0; c < CAPO_NCCL_COLLS; c++) {
                        if (a->found[i].verdict != CAPO_TRIAL_OPEN &&
                            a->found[i].row - rule->first[c] < rule->count[c])
                                return true;
                }
        }
        return false;
}

static int put_rule(struct applying *a, const struct capo_profile *p, const struct capo_rule *rule)
{
        bool decided = is_decided(a, rule);
        struct capo_rule *to =
                capo_profile_rule(a->out, decided ? CAPO_BASIS_MEASURED : rule->basis);
        int e = to ? 0 : -ENOMEM;

        if (e < 0)
                return e;
        to->when = rule->when;
        to->when.layout = capo_profile_keep(a->out, rule->when.layout);
        to->when.class_name = capo_profile_keep(a->out, rule->when.class_name);
        to->when.comm = capo_profile_keep(a->out, rule->when.comm);
        for (uint32_t i = 0; i < rule->n_constants && e == 0; i++)
                e = capo_profile_constant(a->out, &rule->constants[i]);
        a->predicted = decided && rule->basis == CAPO_BASIS_MODELLED;
        for (int c = 0; c < CAPO_NCCL_COLLS; c++) {
                for (uint32_t k = 0; k < rule->count[c] && e == 0; k++) {
                        struct capo_row row = p->rows[rule->first[c] + k];

                        row.kernel = capo_profile_keep(a->out, row.kernel);
                        e = put_row(a, &row, rule->first[c] + k);
                }
        }
        return e;
}

static int copy_notes(const struct capo_profile *p, struct capo_profile *out)
{
        for (int s = 0; s < CAPO_SECTIONS; s++) {
                for (uint32_t i = 0; i < p->n_notes[s]; i++) {
                        int e = capo_profile_note_json(out, (enum capo_section)s,
                                                       p->notes[s][i].key, p->notes[s][i].json);

                        if (e < 0)
                                return e;
                }
        }
        return 0;
}

int capo_trial_apply(const struct capo_profile *p, const struct capo_trial_found *found,
                     int n_found, struct capo_profile *out)
{
        struct applying a = {.found = found, .n_found = n_found, .out = out};
        int e = copy_notes(p, out);

        for (uint32_t r = 0; r < p->n_rules && e == 0; r++)
                e = put_rule(&a, p, &p->rules[r]);
        return e < 0 ? e : a.changed;
}

struct capo_trial_change capo_trial_change(const struct capo_trial_found *f)
{
        if (f->gain < 0)
                return (struct capo_trial_change){-100 * f->gain, -100 * f->gain_hi,
                                                  -100 * f->gain_lo, "more time"};
        return (struct capo_trial_change){100 * f->gain, 100 * f->gain_lo, 100 * f->gain_hi,
                                          "less time"};
}
