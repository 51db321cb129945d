/* SPDX-License-Identifier: Apache-2.0 */
/* The first three steps of fit_make.c: sorted samples to blocks, removal of systematic differences,
 * and the remaining noise. */

#include "capo/algorithms.h"
#include "capo/call_ids.h"
#include "capo/msg.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/xalloc.h"
#include "profiles/fit/fit_private.h"
#include "analysis/job/spread.h"

#define STALL \
        5.0 /* a call that takes this many times its block's median, at most once in a hundred, is \
               a stall */

/* ---- 1. blocks ---- */

static void make_block(struct capo_fit_maker *m, const struct capo_fit_item *items, size_t n,
                       struct capo_fit_block *b)
{
        bool single = m->set->runs[items[0].run].iterations <= 1;
        size_t warm = single && n >= 8 ? (n / 20 < 1   ? 1
                                          : n / 20 > 5 ? 5
                                                       : n / 20)
                                       : 0,
               kept = n - warm, stalls = 0;

        for (size_t i = 0; i < kept; i++)
                m->v[i] = log(items[warm + i].us);
        if (kept > 1)
                qsort(m->v, kept, sizeof *m->v, capo_order_double);
        while (single && stalls < (kept + 99) / 100 && kept - stalls > 4 &&
               m->v[kept - 1 - stalls] - m->v[kept / 2] > log(STALL))
                stalls++;
        if (stalls) {
                double worst = exp(m->v[kept - 1]);

                m->fit->worst_stall_us = fmax(m->fit->worst_stall_us, worst);
                kept -= stalls;
        }
        m->fit->n_warmup += warm;
        m->fit->n_stalls += stalls;
        b->value = kept % 2 ? m->v[kept / 2] : (m->v[kept / 2 - 1] + m->v[kept / 2]) / 2;
        b->se = capo_median_se(m->v, kept, m->scratch);
        b->n = (uint32_t)kept;
        b->run = items[0].run;
        b->place = items[0].place;
        b->ran = items[0].ran;
        b->ran_channels = items[0].ran_channels;
        for (size_t i = 1; i < n; i++) {
                if (items[i].ran != b->ran)
                        b->ran = 0;
                if (items[i].ran_channels != b->ran_channels)
                        b->ran_channels = 0;
        }
}

static void make_points(struct capo_fit_maker *m, struct capo_fit_series *s,
                        const struct capo_fit_item *items, size_t n)
{
        _cleanup_free_ uint64_t *keys = xmalloc((n + 2) * sizeof *keys);
        int n_keys = 1, n_points = 0, n_blocks = 0;

        keys[0] = 0; /* NCCL's own choice */
        for (size_t i = 0; i < n; i++) {
                bool new_point = i == 0 || items[i].bytes != items[i - 1].bytes;
                bool new_candidate = new_point || items[i].candidate != items[i - 1].candidate;
                int k;

                n_points += new_point;
                n_blocks += new_candidate || items[i].run != items[i - 1].run ||
                            items[i].place != items[i - 1].place;
                if (!new_candidate)
                        continue;
                for (k = n_keys; k > 0 && keys[k - 1] > items[i].candidate;)
                        k--;
                if (k > 0 && keys[k - 1] == items[i].candidate)
                        continue;
                memmove(&keys[k + 1], &keys[k], (size_t)(n_keys - k) * sizeof *keys);
                keys[k] = items[i].candidate;
                n_keys++;
        }
        s->n_candidates = n_keys;
        s->candidates = xcalloc((size_t)s->n_candidates, sizeof *s->candidates);
        s->points = xcalloc((size_t)n_points, sizeof *s->points);
        s->blocks = xcalloc((size_t)n_blocks, sizeof *s->blocks);
        s->cells = xcalloc((size_t)n_points * (size_t)s->n_candidates, sizeof *s->cells);
        s->rows = xcalloc(2 * (size_t)n_points + 4, sizeof *s->rows);
        for (int k = 0; k < n_keys; k++)
                s->candidates[k] =
                        (struct capo_fit_candidate){.algo = (uint8_t)(keys[k] >> 44),
                                                    .proto = (uint8_t)(keys[k] >> 40 & 15),
                                                    .channels = (uint8_t)(keys[k] >> 32),
                                                    .chunk = (uint32_t)keys[k]};
        for (size_t i = 0, k; i < n; i = k) {
                struct capo_fit_block *b = &s->blocks[s->n_blocks++];

                for (k = i + 1; k < n && items[k].bytes == items[i].bytes &&
                                items[k].candidate == items[i].candidate &&
                                items[k].run == items[i].run && items[k].place == items[i].place;
                     k++)
                        ;
                if (s->n_points == 0 || s->points[s->n_points - 1].bytes != items[i].bytes)
                        s->points[s->n_points++].bytes = items[i].bytes;
                make_block(m, &items[i], k - i, b);
                b->point = s->n_points - 1;
                while (keys[b->candidate] != items[i].candidate)
                        b->candidate++;
        }
        s->n_samples = n;
}

/* ---- contradictions ---- */

/* Two runs of one candidate that differ by the same huge factor at all sizes have different units.
 * At one size alone it is a stall. */
static int mixed_units(const struct capo_fit_maker *m, const struct capo_fit_series *s,
                       struct capo_fault *fault)
{
        const struct capo_trial *runs = m->set->runs;
        _cleanup_free_ double *v = xmalloc(((size_t)s->n_blocks + 1) * sizeof *v);
        int e = 0;

        for (int i = 1, first = 0; i < s->n_blocks && e == 0; i++) {
                const struct capo_fit_block *a = &s->blocks[i - 1], *b = &s->blocks[i];
                size_t n = 0;

                if (a->point != b->point || a->candidate != b->candidate || a->run == b->run ||
                    fabs(a->value - b->value) < log(100) || first++ > 16)
                        continue;
                for (int k = 1; k < s->n_blocks; k++) {
                        const struct capo_fit_block *x = &s->blocks[k - 1], *y = &s->blocks[k];

                        if (x->run == a->run && y->run == b->run && x->point == y->point &&
                            x->candidate == y->candidate)
                                v[n++] = fabs(y->value - x->value);
                }
                if (capo_median(v, n) > log(100))
                        e = capo_why(
                                -EINVAL, fault->text, sizeof fault->text,
                                "mixed units? times in %s:%u and %s:%u differ by a factor of %.0f at most sizes, for "
                                "the same choice",
                                runs[a->run].source, runs[a->run].line, runs[b->run].source,
                                runs[b->run].line, exp(capo_median(v, n)));
        }
        return e;
}

static int check_labels(const struct capo_fit_maker *m, const struct capo_fit_series *s,
                        struct capo_fault *fault)
{
        const struct capo_trial *runs = m->set->runs;
        char size[16];

        for (int i = 1; i < s->n_blocks; i++) {
                const struct capo_fit_block *a = &s->blocks[i - 1], *b = &s->blocks[i];

                if (a->point == b->point && a->candidate == 0 && b->candidate == 0 && a->ran &&
                    b->ran && a->ran != b->ran && a->run != b->run) {
                        capo_size_print(s->points[a->point].bytes, size, sizeof size);
                        return capo_why(
                                -EINVAL, fault->text, sizeof fault->text,
                                "contradicting labels: for %s %s NCCL chose %s %s in %s:%u, %s %s in %s:%u, and "
                                "neither says what was forced; --algo and --proto before a file do",
                                capo_call_name(s->call), size, capo_ran_algo(a->ran),
                                capo_ran_proto(a->ran), runs[a->run].source, runs[a->run].line,
                                capo_ran_algo(b->ran), capo_ran_proto(b->ran), runs[b->run].source,
                                runs[b->run].line);
                }
        }
        return mixed_units(m, s, fault);
}

/* Is it a mean over a few calls, one of which stalled? With three or more repeats the others
 * outvote it; of two, the one that also deviates from the neighbouring sizes is dropped. */
static bool block_stalled(const struct capo_fit_series *s, int i, double median, int repeats,
                          double other)
{
        const struct capo_fit_block *b = &s->blocks[i];
        int beside = 0;

        if (repeats >= 3)
                return b->value - median > log(2);
        if (repeats < 2 || b->value - other < log(1.5))
                return false;
        for (int k = 0; k < s->n_blocks; k++) {
                const struct capo_fit_block *n = &s->blocks[k];

                if (n->candidate != b->candidate || n->run != b->run || n->place != b->place ||
                    (n->point != b->point - 1 && n->point != b->point + 1))
                        continue;
                if (b->value - n->value < log(1.5))
                        return false;
                beside++;
        }
        return beside == 2;
}

static void set_aside(struct capo_fit_maker *m, struct capo_fit_series *s)
{
        _cleanup_free_ bool *gone = xcalloc((size_t)s->n_blocks + 1, sizeof *gone);
        _cleanup_free_ double *v = xmalloc(((size_t)s->n_blocks + 1) * sizeof *v);
        int kept = 0;

        for (int i = 0, end; i < s->n_blocks; i = end) {
                double median;

                for (end = i; end < s->n_blocks && s->blocks[end].point == s->blocks[i].point &&
                              s->blocks[end].candidate == s->blocks[i].candidate;
                     end++)
                        v[end - i] = s->blocks[end].value;
                median = capo_median(v, (size_t)(end - i));
                for (int k = i; end - i > 1 && k < end; k++)
                        gone[k] = block_stalled(s, k, median, end - i, v[0]);
        }
        for (int i = 0; i < s->n_blocks; i++) {
                if (!gone[i]) {
                        s->blocks[kept++] = s->blocks[i];
                        continue;
                }
                m->fit->n_stalls++;
                m->fit->worst_stall_us = fmax(m->fit->worst_stall_us, exp(s->blocks[i].value));
        }
        s->n_blocks = kept;
}

/* ---- 2. in-place differences ---- */

/* Are blocks @i - 1 and @i the in-place and out-of-place parts of one run of a candidate? */
static bool are_halves(const struct capo_fit_series *s, int i)
{
        const struct capo_fit_block *a = &s->blocks[i - 1], *b = &s->blocks[i];

        return a->place == CAPO_PLACE_OUT && b->place == CAPO_PLACE_IN && a->run == b->run &&
               a->candidate == b->candidate && a->point == b->point;
}

static void place_habit(struct capo_fit_series *s)
{
        _cleanup_free_ double *v = xmalloc(((size_t)s->n_blocks + 1) * sizeof *v);
        double all = 0, habit;

        /* keep what a candidate's places differ by at each size: the mean over its runs */
        for (int i = 0; i < s->n_points * s->n_candidates; i++)
                s->cells[i].place_gap = NAN;
        for (int i = 1, n = 0; i < s->n_blocks; i++) {
                double *gap =
                        &capo_fit_cell_of(s, s->blocks[i].point, s->blocks[i].candidate)->place_gap;

                if (!are_halves(s, i))
                        continue;
                n = isnan(*gap) ? 1 : n + 1;
                *gap = isnan(*gap) ? 0 : *gap;
                *gap += (s->blocks[i].value - s->blocks[i - 1].value - *gap) / n;
        }
        for (int c = -1; c < s->n_candidates; c++) { /* -1: over all, for those with few pairs */
                size_t n = 0;

                for (int i = 1; i < s->n_blocks; i++) {
                        if (are_halves(s, i) && (c < 0 || s->blocks[i].candidate == c))
                                v[n++] = s->blocks[i].value - s->blocks[i - 1].value;
                }
                if (c < 0 && n == 0)
                        return;
                habit = c < 0 || n >= 3 ? capo_median(v, n) : all;
                all = c < 0 ? habit : all;
                for (int i = 0; i < s->n_blocks; i++) {
                        struct capo_fit_block *b = &s->blocks[i];

                        if (b->candidate != c)
                                continue;
                        if (b->place == CAPO_PLACE_IN)
                                b->value -= habit / 2;
                        else if (b->place == CAPO_PLACE_OUT)
                                b->value += habit / 2;
                }
        }
}

/* Systematic difference of a run, per size (blocks are sorted by size). Only if single calls were
 * timed is a run one process: the rows of a hand-written table may come from anywhere. */
static void run_habit(struct capo_fit_series *s)
{
        _cleanup_free_ double *v = NULL;

        if (s->make != CAPO_MAKE_EVENT && s->make != CAPO_MAKE_KERNEL && s->make != CAPO_MAKE_HOST)
                return;
        v = xmalloc(((size_t)s->n_blocks + 1) * sizeof *v);
        for (int i = 0, end; i < s->n_blocks; i = end) {
                size_t n = 0;
                double usual;

                for (end = i; end < s->n_blocks && s->blocks[end].point == s->blocks[i].point;
                     end++) {
                        if (s->blocks[end].candidate == 0)
                                v[n++] = s->blocks[end].value;
                }
                if (n < 1)
                        continue;
                usual = capo_median(v, n);
                for (int d = i, next; d < end && s->blocks[d].candidate == 0;
                     d = next) { /* NCCL's choice sorts first, then by run */
                        uint32_t run = s->blocks[d].run;
                        double own = 0;
                        bool others = false;

                        for (next = d; next < end && s->blocks[next].candidate == 0 &&
                                       s->blocks[next].run == run;
                             next++)
                                own += s->blocks[next].value;
                        own /= next - d;
                        for (int k = next; k < end; k++)
                                others |= s->blocks[k].candidate && s->blocks[k].run == run;
                        for (int k = d; others && k < end; k++) {
                                if (s->blocks[k].run != run)
                                        continue;
                                s->blocks[k].value -= own - usual;
                                s->blocks[k].anchor = true;
                        }
                }
        }
}

/* ---- one candidate under two names, and folds ---- */

static void what_default_ran(struct capo_fit_series *s)
{
        for (int i = 0; i < s->n_blocks; i++) {
                const struct capo_fit_block *b = &s->blocks[i];
                struct capo_fit_point *p = &s->points[b->point];

                if (b->candidate)
                        continue;
                s->has_default = true;
                p->default_ran = b->ran;
                p->default_channels = b->ran_channels;
        }
        for (int k = 0; k < s->n_points; k++) {
                const struct capo_fit_point *p = &s->points[k];

                for (int c = 1; c < s->n_candidates && p->default_ran; c++) {
                        const struct capo_fit_candidate *d = &s->candidates[c];

                        capo_fit_cell_of(s, k, c)->is_default =
                                CAPO_ALGO_PROTO(d->algo, d->proto) == p->default_ran && !d->chunk &&
                                (d->channels == 0 || d->channels == p->default_channels);
                }
        }
}

/* Must NCCL's own choice be one of these candidates? NCCL takes the cheapest pair by its model;
 * with NCCL_PROTO=p it takes the cheapest with p. So one of the three runs with a forced protocol
 * is its own choice. The same holds for algorithms, if all that the collective has were tried. */
static bool covers_default(const struct capo_fit_series *s)
{
        unsigned algos = 0, protos = 0;

        for (int c = 1; c < s->n_candidates; c++) {
                const struct capo_fit_candidate *k = &s->candidates[c];

                if (k->channels || k->chunk)
                        continue;
                if (k->algo && !k->proto)
                        algos |= 1u << k->algo;
                if (k->algo == CAPO_ALGO_NVLS || k->algo == CAPO_ALGO_NVLS_TREE)
                        algos |= 1u << k->algo;
                if (!k->algo && k->proto)
                        protos |= 1u << k->proto;
        }
        if (protos == (1u << CAPO_PROTO_LL | 1u << CAPO_PROTO_LL128 | 1u << CAPO_PROTO_SIMPLE))
                return true;
        return s->call == CAPO_CALL_ALLREDUCE && s->like.n_nodes <= 1 &&
               (algos & 1u << CAPO_ALGO_RING) && (algos & 1u << CAPO_ALGO_TREE) &&
               (algos & 1u << CAPO_ALGO_NVLS);
}

int capo_fit_gather(struct capo_fit_maker *m, struct capo_fit_series *s,
                    const struct capo_fit_item *items, size_t n, struct capo_fault *fault)
{
        int e;

        make_points(m, s, items, n);
        e = check_labels(m, s, fault);
        if (e < 0)
                return e;
        set_aside(m, s);
        place_habit(s);
        run_habit(s);
        what_default_ran(s);
        for (int i = 0; i < s->n_blocks; i++) { /* sorted by run within a cell */
                struct capo_fit_block *b = &s->blocks[i], *a = i ? b - 1 : NULL;
                bool same = a && a->point == b->point && a->candidate == b->candidate;

                b->fold = !same ? 0 : a->fold + (a->run != b->run);
        }
        s->covered = !s->has_default && covers_default(s);
        capo_fit_noise(s);
        return 0;
}
