/* SPDX-License-Identifier: Apache-2.0 */
/* A trial ends as faster, no gain, or open. Both choices ran in the same job, so each call is compared
 * with the calls around it: a slow hour, another tenant or a warm-up is in both. Steps likewise. Jobs
 * are joined by these differences, never by their times. */
#include <math.h>

#include "analysis/steps/job_steps.h"
#include "core/base/calls.h"
#include "core/base/xalloc.h"
#include "core/profile/match.h"
#include "profiles/fit/fit_trial.h"

enum { LEAST_CALLS = 8, LEAST_STEPS = 12 }; /* with a turn */
enum { AROUND = 8 };                        /* calls or steps on each side */
enum { SWITCH = 4 };                        /* calls after a turn that may pay for it */
enum { REACH = 4 };      /* a verdict holds for sizes up to so many times smaller or larger */
#define CLIP       4.0   /* standard deviations */
#define SURE       2.576 /* standard errors: 99 % */
#define NO_CHANCE  3.29  /* 99.9 % */
#define BY_CHANCE  0.005 /* a probability */
#define LEAST_GAIN 0.01  /* as capo fit --min-gain */
#define LEAST_SE   0.002 /* of ln us: the least error assumed for a median */

static void conclude(struct capo_trial_found *f)
{
        f->gain = -expm1(f->change);
        f->gain_lo = -expm1(f->change + SURE * f->se);
        f->gain_hi = -expm1(f->change - SURE * f->se);
        f->verdict = CAPO_TRIAL_OPEN;
        f->by_step = false;
        if (f->n_own >= LEAST_CALLS && f->n_row >= LEAST_CALLS && isfinite(f->se)) {
                if (f->change + SURE * f->se + f->doubt < 0 && f->gain >= LEAST_GAIN)
                        f->verdict = CAPO_TRIAL_FASTER;
                else if (f->change - SURE * f->se - f->doubt > 0 && f->gain <= -LEAST_GAIN)
                        f->verdict = CAPO_TRIAL_NO_GAIN;
        }
        /* The step decides where it clearly changes. Faster calls alone do not decide where steps got longer, as
         * far as is seen. */
        if (!(f->step_se > 0) || fabs(f->step_change) < LEAST_GAIN)
                return;
        f->by_step = fabs(f->step_change) >= SURE * f->step_se && !(f->doubt > 0) &&
                     f->step_change > -1; /* no call saves more than it takes */
        if (f->by_step)
                f->verdict = f->step_change < 0 ? CAPO_TRIAL_FASTER : CAPO_TRIAL_NO_GAIN;
        else if (f->verdict == CAPO_TRIAL_FASTER && f->step_change > 0)
                f->verdict = CAPO_TRIAL_OPEN;
}

/* ---- against what is around it ---- */

struct seen {
        double value, turns; /* ln of a call's time, or a step's time; by the choice that is rare */
        uint32_t run, order;
        bool late; /* in the second half of its run */
};

CAPO_ORDERED(by_order, struct seen, CAPO_ORDER(a->run, b->run), CAPO_ORDER(a->order, b->order));

/* The median of the values around v[i], of those without a turn if @plain. NAN: none. */
static double level_at(const struct seen *v, int n, int i, bool plain)
{
        double around[2 * AROUND];
        int m = 0;

        for (int step = -1; step <= 1; step += 2) {
                int most = m + AROUND;

                for (int k = i + step; k >= 0 && k < n && v[k].run == v[i].run && m < most;
                     k += step) {
                        if (!plain || v[k].turns == 0)
                                around[m++] = v[k].value;
                }
        }
        return m ? capo_middle(around, (size_t)m) : NAN;
}

/* Least squares of value by turns over the early ones (@part 0), the late ones (1), or all (2). The error is the
 * larger one of the usual one and of White's (Econometrica 48, 1980), as the effect may differ from turn to turn.
 * Return: how many have a turn. */
static int fit_turns(const struct seen *v, int n, int part, double *slope, double *se)
{
        double m = 0, x = 0, y = 0, xx = 0, xy = 0, rest = 0, white = 0;
        int turned = 0;

        for (int i = 0; i < n; i++) {
                if (part == 2 || v[i].late == part) {
                        m++;
                        turned += v[i].turns > 0;
                        x += v[i].turns;
                        y += v[i].value;
                        xx += v[i].turns * v[i].turns;
                        xy += v[i].turns * v[i].value;
                }
        }
        xx -= x * x / m;
        *slope = (xy - x * y / m) / xx;
        for (int i = 0; i < n; i++) {
                double turns = v[i].turns - x / m, off = v[i].value - y / m - *slope * turns;

                if (part == 2 || v[i].late == part) {
                        rest += off * off;
                        white += off * off * turns * turns;
                }
        }
        *se = fmax(sqrt(rest / (m - 2) / xx), sqrt(white) / xx);
        return m > turned + 2 ? turned : 0;
}

/* Put the values with a turn, or without, into @to. Return: their median; *@n_to: how many they are. */
static double median_of(const struct seen *v, int n, bool turned, double *to, size_t *n_to)
{
        *n_to = 0;
        for (int i = 0; i < n; i++) {
                if (turned == (v[i].turns > 0))
                        to[(*n_to)++] = v[i].value;
        }
        return capo_middle(to, *n_to);
}

/* Bring outliers to @spread from the median of those with a turn, or without. Return: their median distance from
 * it, before. */
static double clip_arm(struct seen *v, int n, double *scratch, bool turned, double spread)
{
        size_t m;
        double middle = median_of(v, n, turned, scratch, &m);

        for (size_t i = 0; i < m; i++)
                scratch[i] = fabs(scratch[i] - middle);
        for (int i = 0; i < n; i++) {
                if (turned == (v[i].turns > 0))
                        v[i].value = fmax(middle - spread, fmin(middle + spread, v[i].value));
        }
        return capo_middle(scratch, m);
}

/* A stall is a value above the median of its choice by more than @spread. Are those with a turn more than chance
 * allows, if each stall falls on a turn with the turns' share of the calls? Then they are an effect. */
static bool turns_stall(const struct seen *v, int n, double *scratch, double spread)
{
        size_t calls[2];
        int stalls[2] = {0};
        double share, chance = 0;

        for (int turned = 0; turned < 2; turned++) {
                double middle = median_of(v, n, turned, scratch, &calls[turned]);

                for (size_t i = 0; i < calls[turned]; i++)
                        stalls[turned] += scratch[i] > middle + spread;
        }
        share = (double)calls[1] / (double)(calls[0] + calls[1]);
        for (int k = stalls[1], all = stalls[0] + stalls[1]; k <= all; k++)
                chance += exp(lgamma(all + 1) - lgamma(k + 1) - lgamma(all - k + 1) +
                              k * log(share) + (all - k) * log1p(-share));
        return chance < BY_CHANCE;
}

/* Calls right after a turn that differ from those right before it show what the switch of choices
 * costs, which both choices may pay. Return: the largest mean difference of a place after the turn. */
static double switch_cost(const struct seen *v, int n)
{
        double most = 0;

        for (int lag = 1; lag <= SWITCH; lag++) {
                double sum = 0, squares = 0, m = 0;

                for (int i = SWITCH; i < n - lag; i++) {
                        double d = v[i + lag].value - v[i - lag].value;

                        if (!v[i].turns || v[i + lag].turns || v[i - lag].turns ||
                            v[i + lag].run != v[i - lag].run)
                                continue;
                        m++;
                        sum += d;
                        squares += d * d;
                }
                if (m >= LEAST_CALLS &&
                    sum / m > NO_CHANCE * sqrt((squares / m - sum / m * sum / m) / m))
                        most = fmax(most, sum / m);
        }
        return most;
}

/* What one turn changes. @v is sorted, and afterwards has the values against their surroundings. Where the effect
 * changed within the run, that of the second half counts. *@doubt: by how much it may be wrong besides. Return:
 * false: too few to say. */
static bool effect_of(struct seen *v, int n, int least, double *effect, double *se, double *doubt)
{
        _cleanup_free_ double *off = xmalloc(((size_t)n + 1) * sizeof *off);
        double slope[2], error[2], spread, stalls, whole;
        int plain = 0, kept = 0;

        for (int i = 0, end; i < n; i = end) {
                for (end = i; end < n && v[end].run == v[i].run; end++)
                        plain += v[end].turns == 0;
                for (int k = i; k < end; k++)
                        v[k].late = 2 * (k - i) >= end - i;
        }
        for (int i = 0; i < n; i++)
                off[i] = v[i].value - level_at(v, n, i, 4 * plain >= n);
        for (int i = 0; i < n; i++) {
                if (isnan(off[i]))
                        continue;
                v[kept] = v[i];
                v[kept++].value = off[i];
        }
        *doubt = switch_cost(v, kept);
        fit_turns(v, kept, 2, &whole, &error[0]);
        spread = CLIP * 1.4826 * clip_arm(v, kept, off, false, INFINITY);
        if (!(spread > 0) || turns_stall(v, kept, off, spread))
                spread = INFINITY; /* a coarse clock, where most values are equal, or an effect */
        clip_arm(v, kept, off, false, spread);
        clip_arm(v, kept, off, true, spread);
        if (fit_turns(v, kept, 2, effect, se) < least)
                return false;
        stalls = whole - *effect; /* what clipping took away */
        if (whole * *effect < 0)
                *doubt = fmax(*doubt, fabs(stalls));
        if (fit_turns(v, kept, 0, &slope[0], &error[0]) >= least &&
            fit_turns(v, kept, 1, &slope[1], &error[1]) >= least &&
            fabs(slope[0] - slope[1]) > SURE * hypot(error[0], error[1])) {
                *effect = slope[1];
                *se = error[1];
        }
        return true;
}

/* ---- by the calls ---- */

/* Judge by the single calls of @set: those of the series with the choice, and with NCCL's own. */
static void judge_calls(const struct capo_samples *set, const struct capo_fit_series *s,
                        const struct capo_fit_candidate *c, struct capo_trial_found *f)
{
        _cleanup_free_ struct seen *v = xmalloc((set->n + 1) * sizeof *v);
        double effect, se, doubt;
        int n = 0, n_row = 0;

        for (size_t i = 0; i < set->n; i++) {
                const struct capo_sample *x = &set->v[i];
                const struct capo_trial *run = &set->runs[x->run];
                bool row = x->want == CAPO_ALGO_PROTO(c->algo, c->proto) &&
                           x->want_channels == c->channels && x->want_chunk == c->chunk,
                     own = !x->want && !x->want_channels && !x->want_chunk;

                if (!(row || own) || x->call != s->call || x->make != s->make ||
                    x->bytes != f->bytes || run->n_ranks != f->n_ranks || run->left_out ||
                    strcmp(run->layout, s->like.layout))
                        continue;
                v[n++] = (struct seen){log(x->us), row, x->run, x->order, false};
                n_row += row;
        }
        qsort(v, (size_t)n, sizeof *v, by_order);
        for (int i = 0; 2 * n_row > n && i < n; i++)
                v[i].turns = !v[i].turns; /* a guard: NCCL's choice has its turn */
        if (!effect_of(v, n, LEAST_CALLS, &effect, &se, &doubt))
                return;
        f->doubt = doubt;
        f->change = 2 * n_row > n ? -effect : effect;
        f->se = fmax(se, LEAST_SE);
        f->row_us = f->own_us * exp(f->change);
        conclude(f);
}

bool capo_trial_judge(const struct capo_samples *set, const struct capo_fit_series *s, int point,
                      int candidate, struct capo_trial_found *out)
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
        judge_calls(set, s, c, out);
        return true;
}

/* Judge @row, number @number, at each of its sizes. Return: how many have been found then. */
static int judge_row(const struct capo_samples *set, const struct capo_fit_series *s,
                     const struct capo_row *row, uint32_t number, struct capo_trial_found **found,
                     int n)
{
        int c = 1;

        while (c < s->n_candidates &&
               (s->candidates[c].algo != row->algo || s->candidates[c].proto != row->proto ||
                s->candidates[c].channels != row->channels || s->candidates[c].chunk != row->chunk))
                c++;
        for (int p = 0; row->algo && c < s->n_candidates && p < s->n_points; p++) {
                struct capo_trial_found f;

                if (s->points[p].bytes < row->from || s->points[p].bytes > row->upto ||
                    !capo_trial_judge(set, s, p, c, &f))
                        continue;
                f.row = number;
                *xadd(*found, n) = f;
        }
        return n;
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

int capo_fit_trials(const struct capo_samples *set, const struct capo_fit *fit,
                    const struct capo_profile *profile, struct capo_trial_found **found)
{
        char text[CAPO_LAYOUT_TEXT];
        int n = 0;

        *found = NULL;
        for (uint32_t r = 0; r < profile->n_rules; r++) {
                const struct capo_rule *rule = &profile->rules[r];

                for (int i = 0; i < fit->n_series; i++) {
                        const struct capo_fit_series *s = &fit->series[i];
                        int coll = capo_coll_of_call(s->call);

                        struct capo_shape shape = {.n_ranks = s->like.n_ranks,
                                                   .n_nodes = s->like.n_nodes > 0 ? s->like.n_nodes
                                                                                  : -1,
                                                   .min_local = -1,
                                                   .max_local = -1,
                                                   .nccl = (int)s->like.nccl,
                                                   .allow_modelled = true,
                                                   .class_name = rule->when.class_name,
                                                   .comm = rule->when.comm};

                        capo_shape_fill(&shape, s->like.layout, text, sizeof text, NULL);
                        if (coll < 0 || !rule->count[coll] ||
                            !capo_rule_settled(rule, &shape, NULL))
                                continue;
                        for (uint32_t k = 0; k < rule->count[coll]; k++)
                                n = judge_row(set, s, &profile->rows[rule->first[coll] + k],
                                              rule->first[coll] + k, found, n);
                }
        }
        return once_per_size(*found, n);
}

/* ---- by the step ---- */

static void judge_steps(const struct capo_job *job, const struct capo_job_steps *s,
                        struct capo_trial_found *f)
{
        _cleanup_free_ struct seen *v = xmalloc((s->steps.n + 1) * sizeof *v);
        double sum = 0, sum_row = 0, effect, se, doubt;
        bool guard;
        int n = 0;

        for (uint32_t i = 0; i < s->steps.n; i++) {
                const struct capo_step *step = &s->steps.step[i];
                const struct capo_step_call *c = s->calls + step->first, *end = c + step->n;
                int all = 0, by_row = 0; /* calls that @f is about, and those that the row made */

                for (; step->plain && c < end; c++) {
                        if (c->call != f->call || c->bytes != f->bytes || !c->comm ||
                            job->comms[c->comm - 1].n_ranks != f->n_ranks)
                                continue;
                        all++;
                        by_row += c->rule == f->row + 1;
                }
                if (all) /* run: all calls, until it is known which are the rare ones */
                        v[n++] = (struct seen){(double)step->ns, by_row, (uint32_t)all, i, false};
                sum += all;
                sum_row += by_row;
        }
        guard = 2 * sum_row > sum; /* the row is usual, and NCCL's choice has its turn */
        for (int i = 0; i < n; i++) {
                v[i].turns = guard ? v[i].run - v[i].turns : v[i].turns;
                v[i].run = 0;
        }
        if (!effect_of(v, n, LEAST_STEPS, &effect, &se, &doubt) || !(se > 0))
                return;
        f->step_change = (guard ? -effect : effect) / (1e3 * f->own_us);
        f->step_se = se / (1e3 * f->own_us);
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
        f.doubt = 0;
        f.step_change = f.step_se = 0;
        f.n_jobs = n;
        for (int i = 0; i < n; i++) {
                f.n_row += v[of[i]].n_row;
                f.n_own += v[of[i]].n_own;
                f.doubt = fmax(f.doubt, v[of[i]].doubt);
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

        f = f && f->verdict != CAPO_TRIAL_OPEN ? f : NULL;
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

/* Write @row in pieces, one for each run of sizes with one verdict, which reaches two doublings beyond
 * them. Where two reach each other, they meet in the middle. */
static int put_row(struct applying *a, const struct capo_row *row, uint32_t at)
{
        const struct capo_trial_found *last = NULL; /* of the piece that is not written yet */
        bool open = false;                          /* it is not decided */
        int e = 0;

        for (int i = 0; i < a->n_found && e == 0; i++) {
                const struct capo_trial_found *f = &a->found[i];
                bool alike = last && last->verdict == f->verdict;
                uint64_t end = last ? last->bytes * REACH : row->from, from = f->bytes / REACH;

                /* an open one has a part only where there were enough calls to decide */
                if (f->row != at || (f->verdict == CAPO_TRIAL_OPEN &&
                                     (f->n_row < LEAST_CALLS || f->n_own < LEAST_CALLS)))
                        continue;
                if (end >= from && last && !alike)
                        e = put_piece(a, row,
                                      (uint64_t)sqrt((double)last->bytes * (double)f->bytes), last);
                if (end < from && last && !open)
                        e = put_piece(a, row, end, last);
                open = f->verdict == CAPO_TRIAL_OPEN;
                if (end < from && !open && e == 0)
                        e = put_piece(a, row, from, NULL);
                last = f;
        }
        if (e == 0 && last && !open && last->bytes < row->upto / REACH) {
                e = put_piece(a, row, last->bytes * REACH, last);
                last = NULL;
        }
        return e < 0 ? e : put_piece(a, row, row->upto, last);
}

static int put_rule(struct applying *a, const struct capo_profile *p, const struct capo_rule *rule)
{
        struct capo_rule *to;
        bool decided = false;
        int e = 0;

        for (int i = 0; i < a->n_found * CAPO_NCCL_COLLS; i++) {
                const struct capo_trial_found *f = &a->found[i / CAPO_NCCL_COLLS];
                int c = i % CAPO_NCCL_COLLS;

                decided |=
                        f->verdict != CAPO_TRIAL_OPEN && f->row - rule->first[c] < rule->count[c];
        }
        to = capo_profile_rule(a->out, decided ? CAPO_BASIS_MEASURED : rule->basis);
        if (!to)
                return -ENOMEM;
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

int capo_trial_apply(const struct capo_profile *p, const struct capo_trial_found *found,
                     int n_found, struct capo_profile *out)
{
        struct applying a = {.found = found, .n_found = n_found, .out = out};
        int e = 0;

        for (int s = 0; s < CAPO_SECTIONS; s++) {
                for (uint32_t i = 0; i < p->n_notes[s] && e == 0; i++)
                        e = capo_profile_note_json(out, (enum capo_section)s, p->notes[s][i].key,
                                                   p->notes[s][i].json);
        }
        for (uint32_t r = 0; r < p->n_rules && e == 0; r++)
                e = put_rule(&a, p, &p->rules[r]);
        return e < 0 ? e : a.changed;
}

struct capo_trial_change capo_trial_change(const struct capo_trial_found *f)
{
        bool less = !(f->gain < 0);
        double lo = 100 * f->gain_lo, hi = 100 * f->gain_hi;

        return (struct capo_trial_change){fabs(100 * f->gain), less ? lo : -hi, less ? hi : -lo,
                                          less ? "less time" : "more time"};
}
