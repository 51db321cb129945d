/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From decisions at measured sizes to rows that cover all sizes. Little is claimed beyond the first
 * and the last size, because NCCL's own choice may change there.
 */
#include <math.h>

#include "profiles/fit/fit_private.h"

static int next_of(const struct capo_fit_series *s, int p, int skip)
{
        while (++p < s->n_points) {
                if (p != skip)
                        return p;
        }
        return -1;
}

/* Between these sizes lie more than two doublings that nobody measured: no row bridges them. */
static bool far_apart(const struct capo_fit_series *s, int a, int b)
{
        return s->points[b].bytes / 8 > s->points[a].bytes;
}

/* Is candidate @c slower than NCCL's own choice at @part of the way between two sizes? */
static bool slower_between(const struct capo_fit_cell *ra, const struct capo_fit_cell *rb, int c,
                           double part)
{
        double a = ln_us(&ra[c]) - ln_us(&ra[0]), b = ln_us(&rb[c]) - ln_us(&rb[0]);

        return !isnan(ra[0].us) && !isnan(rb[0].us) && a + (b - a) * part > 0;
}

/* Is NCCL's own choice at @row one of the candidates, by what ran or by its time? */
static bool own_measured(const struct capo_fit_series *s, const struct capo_fit_cell *row)
{
        for (int k = 1; k < s->n_candidates; k++) {
                if (row[k].is_default || fabs(ln_us(&row[k]) - ln_us(&row[0])) <=
                                                 CAPO_FIT_SAME_TIME * hypot(row[k].se, row[0].se))
                        return true;
        }
        return false;
}

/* Two neighbouring sizes, and the logarithms of both. */
struct span {
        const struct capo_fit_series *s;
        const struct capo_fit_cell *cells;
        int from, to;
};

static double ln_bytes(const struct span *g, int p)
{
        return log((double)g->s->points[p].bytes);
}

static const struct capo_fit_cell *row_of(const struct span *g, int p)
{
        return &g->cells[p * g->s->n_candidates];
}

/* Where the times of @c and @k cross from g->from to g->to, each a + b x size; ln bytes. Half of the
 * way if they do not. */
static double cross_times(const struct span *g, int c, int k)
{
        const struct capo_fit_cell *ra = row_of(g, g->from), *rb = row_of(g, g->to);
        double a = (double)g->s->points[g->from].bytes, b = (double)g->s->points[g->to].bytes,
               ta = ra[c].us - ra[k].us, tb = rb[c].us - rb[k].us;

        return ta < 0 && tb > 0 ? log(a + (b - a) * ta / (ta - tb)) : log(a * b) / 2;
}

/* How far from g->from to g->to @c certainly gains over @k: ln bytes. Where it gains at g->to, too,
 * it was left there for another reason: not at all over NCCL's own choice. */
static double certain_gain(const struct span *g, int c, int k)
{
        double at[2], x = cross_times(g, c, k), xa = ln_bytes(g, g->from), xb = ln_bytes(g, g->to),
                      ends;

        for (int i = 0; i < 2; i++) {
                int p = i ? g->to : g->from;
                const struct capo_fit_cell *row = row_of(g, p);

                at[i] = ln_us(&row[c]) - ln_us(&row[k]) +
                        g->s->points[p].quantile * hypot(row[c].se, row[k].se) +
                        fabs(capo_fit_place_gap(g->s, g->cells, p, c));
        }
        if (!(at[0] < 0))
                return xa;
        if (!(at[1] > 0))
                return k ? xb : xa;
        ends = xa + (xb - xa) * at[0] / (at[0] - at[1]);
        return fabs(x - xa) < fabs(ends - xa) ? x : ends;
}

/*
 * How far from g->from to g->to, where NCCL's own choice is left, a row of @c goes: ln bytes. NCCL's
 * own curve jumps where its choice changes. If the same choice is known to have run at both sizes,
 * it is as straight as the others. If not, but its times at both are those of candidates, it is one of
 * the candidates between them: @c, if repeated, must gain over all of them. Otherwise it keeps to
 * the size.
 */
static double reach_of(const struct span *g, int c)
{
        const struct capo_fit_point *a = &g->s->points[g->from], *b = &g->s->points[g->to];
        const struct capo_fit_cell *ra = row_of(g, g->from), *rb = row_of(g, g->to);
        double xa = ln_bytes(g, g->from), x;

        if (far_apart(g->s, a->bytes < b->bytes ? g->from : g->to,
                      a->bytes < b->bytes ? g->to : g->from) ||
            isnan(rb[c].us))
                return xa;
        x = certain_gain(g, c, 0);
        if (a->default_ran && a->default_ran == b->default_ran)
                return x;
        if (ra[c].n_runs < 2 || !own_measured(g->s, ra) || !own_measured(g->s, rb))
                return xa;
        for (int k = 1; k < g->s->n_candidates; k++) {
                double end = xa;

                if (k == c || (isnan(ra[k].us) && isnan(rb[k].us)))
                        continue;
                if (!isnan(ra[k].us) && !isnan(rb[k].us))
                        end = certain_gain(g, c, k);
                x = fabs(end - xa) < fabs(x - xa) ? end : x;
        }
        return x;
}

/* The last byte of a row that ends at @x, ln bytes, with no more digits than the measurement has. */
static uint64_t round_border(const struct capo_fit_series *s, int a, int b, double x)
{
        uint64_t bytes = (uint64_t)exp(x), step = 1;

        if (bytes >= s->points[b].bytes - 1)
                return s->points[b].bytes - 1;
        while (step * 64 <= bytes)
                step *= 2;
        bytes -= bytes % step;
        return bytes < s->points[a].bytes ? s->points[a].bytes : bytes;
}

/*
 * The border between the choices of the sizes @a and @b (the next): the last byte of the first row.
 * *@leave: the last byte left to NCCL between the two; if there are none, the same.
 *
 * It is where the two curves cross, each time is a + b x size. If two candidates cross above NCCL's
 * own curve, or their curves end, NCCL's choice is left between them.
 */
static uint64_t find_border(const struct capo_fit_series *s, const struct capo_fit_cell *cells,
                            int a, int b, int ca, int cb, uint64_t *leave)
{
        const struct span up = {s, cells, a, b}, down = {s, cells, b, a};
        const struct capo_fit_cell *ra = row_of(&up, a), *rb = row_of(&up, b);
        uint64_t ends;

        if (ca > 0 && cb > 0 && !far_apart(s, a, b) && !isnan(rb[ca].us) && !isnan(ra[cb].us)) {
                double x = cross_times(&up, ca, cb), xa = ln_bytes(&up, a);

                if (!slower_between(ra, rb, ca, (x - xa) / (ln_bytes(&up, b) - xa)))
                        return *leave = round_border(s, a, b, x);
        }
        ends = ca > 0 ? round_border(s, a, b, reach_of(&up, ca)) : 0;
        *leave = cb > 0 ? round_border(s, a, b, reach_of(&down, cb)) : ends;
        return ca > 0 ? ends : *leave;
}

int capo_fit_rows(const struct capo_fit_series *s, const struct capo_fit_cell *cells, int skip,
                  const struct capo_fit_point *points, struct capo_fit_row *rows)
{
        int n = 0, first = skip == 0 ? 1 : 0,
            last = skip == s->n_points - 1 ? s->n_points - 2 : s->n_points - 1;

        if (first > last)
                goto open_end;
        if (points[first].chosen > 0) {
                rows[n++] = (struct capo_fit_row){
                        .upto = points[first].bytes - 1, .chosen = 0, .first = 0, .last = -1};
        }
        for (int p = first; p >= 0; p = next_of(s, p, skip)) {
                int next = next_of(s, p, skip), start = p;
                uint64_t leave = 0;

                while (next >= 0 && points[next].chosen == points[p].chosen &&
                       (points[p].chosen <= 0 || !far_apart(s, p, next))) {
                        p = next;
                        next = next_of(s, p, skip);
                }
                rows[n] = (struct capo_fit_row){
                        .chosen = points[p].chosen, .first = start, .last = p};
                if (next >= 0)
                        rows[n].upto = find_border(s, cells, p, next, points[p].chosen,
                                                   points[next].chosen, &leave);
                else if (points[p].chosen > 0)
                        rows[n].upto = points[p].bytes;
                else
                        rows[n].upto = UINT64_MAX;
                if (leave > rows[n++].upto && points[p].chosen > 0)
                        rows[n++] = (struct capo_fit_row){
                                .upto = leave, .chosen = 0, .first = 0, .last = -1};
        }
open_end:
        if (n == 0 || rows[n - 1].upto != UINT64_MAX)
                rows[n++] = (struct capo_fit_row){
                        .upto = UINT64_MAX, .chosen = 0, .first = 0, .last = -1};
        return n;
}
