/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From decisions at measured sizes to rows that cover all sizes. Little is claimed beyond the first
 * and the last size, because NCCL's own choice may change there.
 */

#include "profiles/fit/fit_private.h"

#define LEAST_GAIN 0.005 /* ln: between measured sizes, of the expected gain */

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

/* Two neighbouring sizes, and the logarithms of both. */
struct span {
        const struct capo_fit_series *s;
        const struct capo_fit_cell *cells;
        int from, to;
};

static double ln_bytes(const struct span *g, int p) { return log((double)g->s->points[p].bytes); }

static const struct capo_fit_cell *row_of(const struct span *g, int p)
{
        return &g->cells[p * g->s->n_candidates];
}

/* Is @c faster than @k by @least at @x (ln bytes) between the two sizes, and a loss of CAPO_FIT_HARM
 * excluded? Each time is a + b x size through both, with the errors of both. */
static bool faster_at(const struct span *g, int c, int k, double x, double least)
{
        const struct capo_fit_cell *ra = row_of(g, g->from), *rb = row_of(g, g->to);
        const struct capo_fit_point *pa = &g->s->points[g->from], *pb = &g->s->points[g->to];
        double part = (exp(x) - (double)pa->bytes) / ((double)pb->bytes - (double)pa->bytes),
               gain = -fmax(fabs(capo_fit_place_gap(g->s, g->cells, g->from, c)),
                            fabs(capo_fit_place_gap(g->s, g->cells, g->to, c))),
               variance = capo_fit_unseen(g->s, &ra[c], &ra[k]),
               quantile = fmax(pa->harm_quantile, pb->harm_quantile);

        for (int i = 0; i < 2; i++) {
                int choice = i ? k : c;
                double ta = ra[choice].us * (1 - part), tb = rb[choice].us * part;

                gain += (i ? 1 : -1) * log(ta + tb);
                variance += (ta * ra[choice].se * ta * ra[choice].se +
                             tb * rb[choice].se * tb * rb[choice].se) /
                            (ta + tb) / (ta + tb);
        }
        if (ra[c].n_runs < 2)
                quantile *= CAPO_FIT_LIKE_BESIDE;
        return gain > least && gain - quantile * sqrt(variance) > -log1p(CAPO_FIT_HARM);
}

/* May candidate @k be NCCL's own choice at @p, by what ran, or else by its time? */
static bool may_be_own(const struct span *g, int p, int k)
{
        const struct capo_fit_cell *row = row_of(g, p);

        return row[k].is_default || (!g->s->points[p].default_ran &&
                                     fabs(ln_us(&row[k]) - ln_us(&row[0])) <=
                                             CAPO_FIT_SAME_TIME * hypot(row[k].se, row[0].se));
}

/*
 * Is @c faster than NCCL's own choice at @x? NCCL's own curve jumps where its choice changes. If the
 * same choice is known to have run at both sizes (@same), it is as straight as the others. If not,
 * its own choice is one of the candidates that may be it at one of the sizes, and @c gains over each
 * of them. A third one must not be much faster either.
 */
static bool gains_at(const struct span *g, int c, double x, bool same)
{
        const struct capo_fit_cell *ra = row_of(g, g->from), *rb = row_of(g, g->to);
        bool known[2] = {false, false};

        if (same)
                return faster_at(g, c, 0, x, LEAST_GAIN);
        for (int k = 1; k < g->s->n_candidates; k++) {
                bool own[2] = {may_be_own(g, g->from, k), may_be_own(g, g->to, k)};

                known[0] |= own[0];
                known[1] |= own[1];
                if (k == c || (isnan(ra[k].us) && isnan(rb[k].us)))
                        continue;
                if (!faster_at(g, c, k, x, own[0] || own[1] ? LEAST_GAIN : -1))
                        return false;
        }
        return known[0] && known[1];
}

/* How far from g->from to g->to, where NCCL's own choice is left, a row of @c goes: ln bytes. */
static double reach_of(const struct span *g, int c)
{
        enum { STEPS = 8 };
        const struct capo_fit_point *a = &g->s->points[g->from], *b = &g->s->points[g->to];
        double xa = ln_bytes(g, g->from), xb = ln_bytes(g, g->to), x = xa;
        bool same = a->default_ran && a->default_ran == b->default_ran;

        if (far_apart(g->s, a->bytes < b->bytes ? g->from : g->to,
                      a->bytes < b->bytes ? g->to : g->from) ||
            isnan(row_of(g, g->to)[c].us) || (!same && row_of(g, g->from)[c].n_runs < 2))
                return xa;
        for (int i = 1; i <= STEPS && gains_at(g, c, xa + (xb - xa) * i / STEPS, same); i++)
                x = xa + (xb - xa) * i / STEPS;
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
                double from = (double)s->points[a].bytes, to = (double)s->points[b].bytes,
                       ta = ra[ca].us - ra[cb].us, tb = rb[ca].us - rb[cb].us,
                       x = ta < 0 && tb > 0
                                   ? log(from + (to - from) * ta / (ta - tb)) /* they cross */
                                   : log(from * to) / 2,
                       part = (x - log(from)) / (log(to) - log(from)),
                       over = ln_us(&ra[ca]) - ln_us(&ra[0]), end = ln_us(&rb[ca]) - ln_us(&rb[0]);

                if (!(over + (end - over) * part > 0)) /* slower than NCCL's own choice there */
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
