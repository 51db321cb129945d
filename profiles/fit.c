/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From samples to rows, in five steps.
 *
 * 1. Blocks. Samples are sorted once by what they are (class, collective, size, candidate, run, in-place or not).
 * Within a block the first calls go as warm-up, stalls are set aside, and the median of ln(us) stays with its error.
 * 2. Habits. In-place and out-of-place runs differ by a habit of the candidate, not by noise: half the median
 * difference is taken out of each, so that a cell is a cell.
 *    A run that has both NCCL's own choice and other candidates at a size (a sweep) was slow or fast for all of them:
 * what its own choice differs by from that of the other runs is taken out of all.
 * 3. Noise. What blocks of one cell still differ by, pooled over the series, is the variation between runs. It, not the
 *    spread within a run, decides what can be told apart.
 * 4. Decisions. A candidate is admitted at a size where the lower end of its gain over NCCL's own choice is above zero,
 *    the interval widened for the number of candidates compared, and its gain above min_gain. Among the admitted the
 *    path through the sizes with the largest total gain is taken, a change of candidate costing a little, so that equal
 *    candidates do not alternate.
 * 5. Rows. Where the choice changes between two sizes the boundary is put where the two curves cross, both taken
 *    straight in log size and log time.
 *
 * Beyond the sizes measured a row goes on only as far as the trend of its gain does, at most three doublings.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/calls.h"
#include "core/size.h"
#include "core/util.h"
#include "profiles/fit_priv.h"
#include "profiles/fit_stats.h"

#define SWITCH_COST  0.003 /* of ln time: what a change of candidate between neighbours must bring */
#define ASSUMED      0.05  /* noise when nothing repeats at all */
#define STALL        5.0   /* a single call this many times its block's median, once in a hundred, is a stall */
#define UNREPEATED   0.005 /* least noise believed in while no run was repeated */
#define EXTEND_STEPS 3     /* doublings beyond the measured sizes, at most; and at most two of its own steps */

/* One sample, reduced to what sorting needs. */
struct item {
        uint64_t key; /* class, call, make */
        uint64_t bytes;
        uint32_t run;
        uint32_t order;
        double us;
        uint16_t candidate; /* algo_proto << 8 | channels; 0: NCCL's choice */
        uint8_t place, ran, ran_channels;
};

static int by_what(const void *a, const void *b)
{
        const struct item *x = a, *y = b;

#define BY(field)                 \
        if (x->field != y->field) \
        return x->field < y->field ? -1 : 1
        BY(key);
        BY(bytes);
        BY(candidate);
        BY(run);
        BY(place);
        BY(order);
        BY(us);
#undef BY
        return 0;
}

/* ---- classes ---- */

static int same_class(const struct capo_trial *a, const struct capo_trial *b)
{
        int c = a->n_ranks - b->n_ranks;

        c = c ? c : a->n_nodes - b->n_nodes;
        c = c ? c : strcmp(a->layout, b->layout);
        c = c ? c : strcmp(a->gpu, b->gpu);
        return c ? c : a->nccl < b->nccl ? -1 : a->nccl > b->nccl;
}

static int by_class(const void *a, const void *b, void *runs)
{
        uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
        const struct capo_trial *v = runs;
        int c = same_class(&v[x], &v[y]);

        return c ? c : x < y ? -1 : x > y;
}

/* class_of[run]: number of its class; like[class]: one of its runs. Returns the number of classes. */
static int classes(const struct capo_samples *set, uint32_t *class_of, uint32_t *like)
{
        uint32_t *order = malloc((set->n_runs + 1) * sizeof *order);
        int n = 0;

        if (!order)
                return -ENOMEM;
        for (size_t i = 0; i < set->n_runs; i++)
                order[i] = (uint32_t)i;
        qsort_r(order, set->n_runs, sizeof *order, by_class, set->runs);
        for (size_t i = 0; i < set->n_runs; i++) {
                if (i == 0 || same_class(&set->runs[order[i]], &set->runs[order[i - 1]]))
                        like[n++] = order[i];
                class_of[order[i]] = (uint32_t)n - 1;
        }
        free(order);
        return n;
}

/* What was forced, completed by what ran and by what NCCL has: NVLS, CollNet and PAT exist as Simple only, broadcast
 * and reduce as Ring only (NCCL 2.30.7 src/graph/tuning.cc). */
static uint16_t candidate_of(const struct capo_sample *s)
{
        unsigned algo = CAPO_ALGO_OF(s->want), proto = CAPO_PROTO_OF(s->want);

        if (!s->want && !s->want_channels)
                return 0;
        if (!algo)
                algo = CAPO_ALGO_OF(s->ran);
        if (!algo && (s->call == CAPO_CALL_BROADCAST || s->call == CAPO_CALL_BCAST || s->call == CAPO_CALL_REDUCE))
                algo = CAPO_ALGO_RING;
        if (!proto)
                proto = CAPO_PROTO_OF(s->ran);
        if (!proto && algo && algo != CAPO_ALGO_RING && algo != CAPO_ALGO_TREE)
                proto = CAPO_PROTO_SIMPLE;
        return (uint16_t)(CAPO_ALGO_PROTO(algo, proto) << 8 | s->want_channels);
}

/* ---- 1. blocks ---- */

struct maker {
        const struct capo_samples *set;
        struct capo_fit *fit;
        double *v, *scratch; /* room for the largest block */
};

static int rising(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return x < y ? -1 : x > y;
}

static void make_block(struct maker *m, const struct item *items, size_t n, struct capo_fit_block *b)
{
        bool single = m->set->runs[items[0].run].iterations <= 1;
        size_t warm = single && n >= 8 ? (n / 20 < 1 ? 1 : n / 20 > 5 ? 5 : n / 20) : 0, kept = n - warm, stalls = 0;

        for (size_t i = 0; i < kept; i++)
                m->v[i] = log(items[warm + i].us);
        qsort(m->v, kept, sizeof *m->v, rising);
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

static int find_candidate(const struct capo_fit_series *s, uint16_t key)
{
        for (int c = 1; c < s->n_candidates; c++) {
                const struct capo_fit_candidate *k = &s->candidates[c];

                if ((CAPO_ALGO_PROTO(k->algo, k->proto) << 8 | k->channels) == key)
                        return c;
        }
        return 0;
}

static int make_points(struct maker *m, struct capo_fit_series *s, const struct item *items, size_t n)
{
        uint16_t *keys = malloc((n + 1) * sizeof *keys);
        int n_keys = 0, n_points = 0, n_blocks = 0;

        if (!keys)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                bool new_point = i == 0 || items[i].bytes != items[i - 1].bytes;
                bool new_candidate = new_point || items[i].candidate != items[i - 1].candidate;
                int k;

                n_points += new_point;
                n_blocks += new_candidate || items[i].run != items[i - 1].run || items[i].place != items[i - 1].place;
                if (!new_candidate || items[i].candidate == 0)
                        continue;
                for (k = n_keys; k > 0 && keys[k - 1] >= items[i].candidate; k--) {
                        if (keys[k - 1] == items[i].candidate)
                                break;
                }
                if (k > 0 && keys[k - 1] == items[i].candidate)
                        continue;
                memmove(&keys[k + 1], &keys[k], (size_t)(n_keys - k) * sizeof *keys);
                keys[k] = items[i].candidate;
                n_keys++;
        }
        s->n_candidates = n_keys + 1;
        s->candidates = calloc((size_t)s->n_candidates, sizeof *s->candidates);
        s->points = calloc((size_t)n_points, sizeof *s->points);
        s->blocks = calloc((size_t)n_blocks, sizeof *s->blocks);
        s->cells = calloc((size_t)n_points * (size_t)s->n_candidates, sizeof *s->cells);
        s->rows = calloc(2 * (size_t)n_points + 4, sizeof *s->rows);
        if (!s->candidates || !s->points || !s->blocks || !s->cells || !s->rows) {
                free(keys);
                return -ENOMEM;
        }
        for (int k = 0; k < n_keys; k++)
                s->candidates[k + 1] = (struct capo_fit_candidate){(uint8_t)(keys[k] >> 12),
                                                                   (uint8_t)(keys[k] >> 8 & 15), (uint8_t)keys[k]};
        free(keys);
        for (size_t i = 0, k; i < n; i = k) {
                struct capo_fit_block *b = &s->blocks[s->n_blocks++];

                for (k = i + 1; k < n && items[k].bytes == items[i].bytes && items[k].candidate == items[i].candidate &&
                                items[k].run == items[i].run && items[k].place == items[i].place;
                     k++)
                        ;
                if (s->n_points == 0 || s->points[s->n_points - 1].bytes != items[i].bytes)
                        s->points[s->n_points++].bytes = items[i].bytes;
                make_block(m, &items[i], k - i, b);
                b->point = s->n_points - 1;
                b->candidate = items[i].candidate ? find_candidate(s, items[i].candidate) : 0;
        }
        s->n_samples = n;
        return 0;
}

/* ---- contradictions ---- */

/* Two runs of one candidate that differ by the same huge factor at all sizes were not written in the same units. One
 * size alone is a stall. */
static int mixed_units(const struct maker *m, const struct capo_fit_series *s, struct capo_fault *fault)
{
        const struct capo_trial *runs = m->set->runs;
        double *v = malloc(((size_t)s->n_blocks + 1) * sizeof *v);
        int e = 0;

        if (!v)
                return -ENOMEM;
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
                if (capo_median(v, n) > log(100)) {
                        snprintf(fault->text, sizeof fault->text,
                                 "mixed units? times in %s:%u and %s:%u differ by a factor of %.0f at most sizes, for "
                                 "the same "
                                 "choice",
                                 runs[a->run].source, runs[a->run].line, runs[b->run].source, runs[b->run].line,
                                 exp(capo_median(v, n)));
                        e = -EINVAL;
                }
        }
        free(v);
        return e;
}

static int contradiction(const struct maker *m, const struct capo_fit_series *s, struct capo_fault *fault)
{
        const struct capo_trial *runs = m->set->runs;
        char size[16];

        for (int i = 1; i < s->n_blocks; i++) {
                const struct capo_fit_block *a = &s->blocks[i - 1], *b = &s->blocks[i];

                if (a->point != b->point || a->candidate != b->candidate)
                        continue;
                capo_size_print(s->points[a->point].bytes, size, sizeof size);
                if (a->candidate == 0 && a->ran && b->ran && a->ran != b->ran && a->run != b->run) {
                        snprintf(fault->text, sizeof fault->text,
                                 "contradicting labels: for %s %s NCCL chose %s %s in %s:%u, %s %s in %s:%u, and "
                                 "neither says "
                                 "what was forced; --algo and --proto before a file do",
                                 capo_call_name(s->call), size, capo_algo_name(CAPO_ALGO_OF(a->ran)),
                                 capo_proto_name(CAPO_PROTO_OF(a->ran)), runs[a->run].source, runs[a->run].line,
                                 capo_algo_name(CAPO_ALGO_OF(b->ran)), capo_proto_name(CAPO_PROTO_OF(b->ran)),
                                 runs[b->run].source, runs[b->run].line);
                        return -EINVAL;
                }
        }
        return mixed_units(m, s, fault);
}

/* A mean over a few calls with a stall in it. Three and more repeats outvote it; of two, the one that also stands out
 * from the sizes beside it goes. */
static bool stalled(const struct capo_fit_series *s, int i, double median, int repeats, double other)
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

static int set_aside(struct maker *m, struct capo_fit_series *s)
{
        bool *gone = calloc((size_t)s->n_blocks + 1, sizeof *gone);
        double *v = malloc(((size_t)s->n_blocks + 1) * sizeof *v);
        int kept = 0;

        if (!gone || !v) {
                free(gone);
                free(v);
                return -ENOMEM;
        }
        for (int i = 0, end; i < s->n_blocks; i = end) {
                double median;

                for (end = i; end < s->n_blocks && s->blocks[end].point == s->blocks[i].point &&
                              s->blocks[end].candidate == s->blocks[i].candidate;
                     end++)
                        v[end - i] = s->blocks[end].value;
                median = capo_median(v, (size_t)(end - i));
                for (int k = i; end - i > 1 && k < end; k++)
                        gone[k] = stalled(s, k, median, end - i, v[0]);
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
        free(gone);
        free(v);
        return 0;
}

/* ---- 2. in-place habit ---- */

static int place_habit(struct maker *m, struct capo_fit_series *s)
{
        double *habit = calloc((size_t)s->n_candidates, sizeof *habit), all = 0;
        double *v = malloc(((size_t)s->n_blocks + 1) * sizeof *v);
        size_t n_all = 0;

        if (!habit || !v) {
                free(habit);
                free(v);
                return -ENOMEM;
        }
        for (int c = -1; c < s->n_candidates; c++) { /* first over all, for candidates with few pairs */
                size_t n = 0;

                for (int i = 1; i < s->n_blocks; i++) {
                        const struct capo_fit_block *a = &s->blocks[i - 1], *b = &s->blocks[i];

                        if ((c < 0 || a->candidate == c) && a->candidate == b->candidate && a->point == b->point &&
                            a->run == b->run && a->place == CAPO_PLACE_OUT && b->place == CAPO_PLACE_IN)
                                v[n++] = b->value - a->value;
                }
                if (c < 0) {
                        all = n ? capo_median(v, n) : 0;
                        n_all = n;
                } else {
                        habit[c] = n >= 3 ? capo_median(v, n) : all;
                }
        }
        for (int i = 0; n_all && i < s->n_blocks; i++) {
                struct capo_fit_block *b = &s->blocks[i];

                if (b->place == CAPO_PLACE_IN)
                        b->value -= habit[b->candidate] / 2;
                else if (b->place == CAPO_PLACE_OUT)
                        b->value += habit[b->candidate] / 2;
        }
        free(habit);
        free(v);
        return 0;
}

/* Blocks are sorted by size: one size at a time. */
static int run_habit(struct capo_fit_series *s)
{
        double *v = malloc(((size_t)s->n_blocks + 1) * sizeof *v);

        if (!v)
                return -ENOMEM;
        for (int i = 0, end; i < s->n_blocks; i = end) {
                size_t n = 0;
                double usual;

                for (end = i; end < s->n_blocks && s->blocks[end].point == s->blocks[i].point; end++) {
                        if (s->blocks[end].candidate == 0)
                                v[n++] = s->blocks[end].value;
                }
                if (n < 2)
                        continue;
                usual = capo_median(v, n);
                for (int d = i, next; d < end && s->blocks[d].candidate == 0;
                     d = next) { /* NCCL's choice sorts first, by run */
                        double own = 0;
                        bool others = false;

                        for (next = d;
                             next < end && s->blocks[next].candidate == 0 && s->blocks[next].run == s->blocks[d].run;
                             next++)
                                own += s->blocks[next].value;
                        own /= next - d;
                        for (int k = next; k < end; k++) {
                                if (s->blocks[k].candidate == 0 || s->blocks[k].run != s->blocks[d].run)
                                        continue;
                                others = true;
                                s->blocks[k].value -= own - usual;
                        }
                        for (int k = d; others && k < next; k++) {
                                s->blocks[k].value -= own - usual;
                                s->blocks[k].anchor = true;
                        }
                }
        }
        free(v);
        return 0;
}

/* ---- the same thing under two names, and folds ---- */

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
                                CAPO_ALGO_PROTO(d->algo, d->proto) == p->default_ran &&
                                (d->channels == 0 || d->channels == p->default_channels);
                }
        }
}

/* Blocks are sorted by run within a cell: the how many-th run. */
static void number_folds(struct capo_fit_series *s)
{
        for (int i = 0; i < s->n_blocks; i++) {
                struct capo_fit_block *b = &s->blocks[i], *a = i ? b - 1 : NULL;
                bool same = a && a->point == b->point && a->candidate == b->candidate;

                b->fold = !same ? 0 : a->run == b->run ? a->fold : a->fold + 1;
        }
}

/* Could NCCL's own choice have been anything but one of these? Its choice is the cheapest pair by its model, and under
 * NCCL_PROTO=p it takes the cheapest with p: so one of the three runs with each protocol is its own choice. The same
 * holds for algorithms, where all that the collective has were tried. */
static bool covers(const struct capo_fit_series *s)
{
        unsigned algos = 0, protos = 0;

        for (int c = 1; c < s->n_candidates; c++) {
                const struct capo_fit_candidate *k = &s->candidates[c];

                if (k->channels)
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
        return s->call == CAPO_CALL_ALLREDUCE && s->like.n_nodes <= 1 && (algos & 1u << CAPO_ALGO_RING) &&
               (algos & 1u << CAPO_ALGO_TREE) && (algos & 1u << CAPO_ALGO_NVLS);
}

/* ---- 3. noise ---- */

static int find_noise(struct capo_fit_series *s)
{
        double *r = malloc(2 * ((size_t)s->n_blocks + 1) * sizeof *r), *group = r + s->n_blocks + 1;
        size_t n = 0;
        uint32_t most = 0;
        bool runs_repeat = false;

        if (!r)
                return -ENOMEM;
        for (int i = 0, end; i < s->n_blocks; i = end) {
                for (end = i; end < s->n_blocks && s->blocks[end].point == s->blocks[i].point; end++)
                        most = s->blocks[end].n > most ? s->blocks[end].n : most;
                /* the candidates of this size; those that ran what NCCL chose count as its choice */
                for (int c = 0; c < s->n_candidates; c++) {
                        double sum = 0;
                        uint32_t run = 0;
                        size_t k = 0;

                        if (c > 0 && capo_fit_cell_of(s, s->blocks[i].point, c)->is_default)
                                continue;
                        for (int j = i; j < end; j++) {
                                const struct capo_fit_block *b = &s->blocks[j];
                                bool same = capo_fit_cell_of(s, b->point, b->candidate)->is_default;

                                if (b->anchor || (b->candidate != c && !(c == 0 && same)))
                                        continue;
                                runs_repeat |= k > 0 && b->run != run;
                                run = b->run;
                                sum += group[k++] = b->value;
                        }
                        for (size_t j = 0; k > 1 && j < k; j++)
                                r[n++] = (group[j] - sum / (double)k) * sqrt((double)k / ((double)k - 1));
                }
        }
        s->one_run = !runs_repeat;
        if (n)
                s->noise = fmax(capo_spread(r, n, 0, group), runs_repeat ? 0.001 : UNREPEATED);
        else
                s->noise = most >= 5 ? UNREPEATED : ASSUMED;
        free(r);
        return 0;
}

/* ln of a candidate's time over NCCL's own at a point; over 1 us where that was not measured. */
static double relative(const struct capo_fit_series *s, const struct capo_fit_cell *cells, int p, int c,
                       bool over_default)
{
        const struct capo_fit_cell *row = &cells[p * s->n_candidates];

        return log(row[c].us) - (over_default ? log(row[0].us) : 0);
}

/*
 * A candidate that was measured at other sizes, but not here: between two of them, or a step beyond the last, and less
 * sure for each doubling to the nearest. Its ratio to NCCL's own choice is carried, which changes slower than its time.
 * Only for deciding; what is printed as best, and what judges the decisions, is what was measured.
 */
static void interpolate(const struct capo_fit_series *s, int skip, struct capo_fit_cell *cells)
{
        int m = s->n_candidates;

        for (int c = 1; c < m; c++) {
                for (int p = 0, lo = -1, hi = -1, step = -1; p < s->n_points; p++) {
                        struct capo_fit_cell *cell = &cells[p * m + c];
                        const struct capo_fit_cell *near;
                        double x = log2((double)s->points[p].bytes), xa, xb, y, away;
                        bool over;

                        if (cell->n_blocks) {
                                step = lo;
                                lo = p;
                                continue;
                        }
                        if (p == skip)
                                continue;
                        if (hi < p) {
                                for (hi = p + 1; hi < s->n_points && !cells[hi * m + c].n_blocks;)
                                        hi++;
                        }
                        over = cells[p * m].n_blocks && (lo < 0 || cells[lo * m].n_blocks) &&
                               (hi >= s->n_points || cells[hi * m].n_blocks);
                        if (lo >= 0 && hi < s->n_points) {
                                xa = log2((double)s->points[lo].bytes);
                                xb = log2((double)s->points[hi].bytes);
                                if (xb - xa > 6)
                                        continue;
                                y = relative(s, cells, lo, c, over);
                                y += (relative(s, cells, hi, c, over) - y) * (x - xa) / (xb - xa);
                                away = fmin(x - xa, xb - x) / 2;
                                near = x - xa < xb - x ? &cells[lo * m + c] : &cells[hi * m + c];
                        } else {
                                int end = lo >= 0 ? lo : hi, next = lo >= 0 ? step : -1;

                                for (int k = end + 1; lo < 0 && next < 0 && end < s->n_points && k < s->n_points; k++)
                                        next = cells[k * m + c].n_blocks ? k : -1;
                                if (!over || end >= s->n_points || next < 0)
                                        continue;
                                xa = log2((double)s->points[end].bytes);
                                away = fabs(x - xa);
                                if (away > fmin(EXTEND_STEPS, fabs(log2((double)s->points[next].bytes) - xa)))
                                        continue;
                                y = relative(s, cells, end, c, true);
                                near = &cells[end * m + c];
                        }
                        cell->us = exp(y + (over ? log(cells[p * m].us) : 0));
                        cell->se = near->se + 0.01 * away;
                        cell->lo = cell->us * exp(-1.96 * cell->se);
                        cell->hi = cell->us * exp(1.96 * cell->se);
                }
        }
}

void capo_fit_estimate(const struct capo_fit_series *s, struct capo_fit_part part, struct capo_fit_cell *cells)
{
        size_t n_cells = (size_t)s->n_points * (size_t)s->n_candidates;

        for (size_t i = 0; i < n_cells; i++) {
                bool same = s->cells[i].is_default;

                cells[i] = (struct capo_fit_cell){.us = NAN, .lo = NAN, .hi = NAN, .is_default = same};
        }
        for (int i = 0; i < s->n_blocks; i++) {
                const struct capo_fit_block *b = &s->blocks[i];
                bool same = s->cells[b->point * s->n_candidates + b->candidate].is_default;

                if (b->fold == part.without_fold || (part.only_fold >= 0 && b->fold != part.only_fold) ||
                    b->point == part.without_point)
                        continue;
                /* a candidate that is NCCL's own choice is measured by its samples too, and the other way round */
                for (int c = 0; c < s->n_candidates; c++) {
                        struct capo_fit_cell *cell = &cells[b->point * s->n_candidates + c];
                        bool pooled = (b->candidate == 0 || same) && (c == 0 || cell->is_default);

                        if (c != b->candidate && !pooled)
                                continue;
                        if (isnan(cell->us))
                                cell->us = 0;
                        cell->us += b->value; /* sums, until all are in */
                        cell->se += b->se * b->se;
                        cell->n_blocks++;
                        cell->n_samples += b->n;
                }
        }
        for (size_t i = 0; i < n_cells; i++) {
                struct capo_fit_cell *c = &cells[i];
                double center, q = 1.96;

                if (!c->n_blocks)
                        continue;
                center = c->us / c->n_blocks;
                c->se = sqrt(s->noise * s->noise / c->n_blocks + c->se / c->n_blocks / c->n_blocks);
                c->us = exp(center);
                c->lo = exp(center - q * c->se);
                c->hi = exp(center + q * c->se);
        }
        if (part.only_fold < 0)
                interpolate(s, part.without_point, cells);
}

double capo_fit_quantile(const struct capo_fit_series *s)
{
        double freedom = 0;
        int compared = s->n_candidates - 1 < 1 ? 1 : s->n_candidates - 1;

        for (int i = 1; i < s->n_blocks; i++)
                freedom += s->blocks[i].point == s->blocks[i - 1].point &&
                           s->blocks[i].candidate == s->blocks[i - 1].candidate;
        for (int i = 0; s->one_run && i < s->n_blocks; i++)
                freedom = fmax(freedom, s->blocks[i].n - 1.0);
        return capo_quantile_t(0.05 / compared, fmax(freedom, 3));
}

/* ---- 4. decisions ---- */

static double ln_us(const struct capo_fit_cell *c)
{
        return log(c->us);
}

/* What the candidate is measured against: NCCL's own choice, or the next best where that is a fair stand-in. */
static int baseline(const struct capo_fit_series *s, const struct capo_fit_options *o, const struct capo_fit_cell *row,
                    int c)
{
        int next = -1;

        if (!isnan(row[0].us))
                return 0;
        if (s->has_default || !(s->covered || o->without_default))
                return -1;
        for (int k = 1; k < s->n_candidates; k++) {
                if (k != c && !isnan(row[k].us) && (next < 0 || row[k].us < row[next].us))
                        next = k;
        }
        return next;
}

int capo_fit_decide(const struct capo_fit_series *s, const struct capo_fit_options *o,
                    const struct capo_fit_cell *cells, int skip, struct capo_fit_point *points)
{
        int n = s->n_points, m = s->n_candidates;
        double q = capo_fit_quantile(s), *score = malloc((size_t)(n * m + 1) * sizeof *score);
        int *from = malloc((size_t)(n * m + 1) * sizeof *from), last = -1, at = 0;

        if (!score || !from) {
                free(score);
                free(from);
                return -ENOMEM;
        }
        for (int p = 0; p < n; p++) {
                const struct capo_fit_cell *row = &cells[p * m];
                int stay = last < 0 ? 0 : 1;

                points[p].best = points[p].chosen = -1;
                points[p].gain = points[p].gain_lo = points[p].gain_hi = NAN;
                if (p == skip)
                        continue;
                for (int c = 0; c < m; c++) {
                        double best = 0, value = 0;
                        int b = baseline(s, o, row, c);

                        from[p * m + c] = 0;
                        for (int k = 0; stay && k < m; k++) {
                                double v = score[last * m + k] - (k != c) * SWITCH_COST;

                                if (k == 0 || v > best) {
                                        best = v;
                                        from[p * m + c] = k;
                                }
                        }
                        if (row[c].n_blocks && (points[p].best < 0 || row[c].us < row[points[p].best].us))
                                points[p].best = c;
                        if (c > 0) {
                                value = -INFINITY;
                                if (b >= 0 && !isnan(row[c].us) && !row[c].is_default &&
                                    capo_fit_writable(&s->candidates[c])) {
                                        double gain = ln_us(&row[b]) - ln_us(&row[c]);
                                        double se = sqrt(row[b].se * row[b].se + row[c].se * row[c].se);

                                        if (gain - q * se > 0 && 1 - exp(-gain) >= o->min_gain)
                                                value = gain;
                                }
                        }
                        score[p * m + c] = best + value;
                }
                last = p;
        }
        for (int c = 1; last >= 0 && c < m; c++) {
                if (score[last * m + c] > score[last * m + at])
                        at = c;
        }
        for (int p = last; p >= 0; p--) {
                const struct capo_fit_cell *row = &cells[p * m];
                int c, b;

                if (p == skip)
                        continue;
                points[p].chosen = at;
                at = from[p * m + at];
                c = points[p].chosen ? points[p].chosen : points[p].best;
                b = c < 0 ? -1 : baseline(s, o, row, c);
                if (b >= 0 && (b == 0 || points[p].chosen)) {
                        double gain = ln_us(&row[b]) - ln_us(&row[c]);
                        double se =
                                c == b || row[c].is_default ? 0 : sqrt(row[b].se * row[b].se + row[c].se * row[c].se);

                        points[p].gain = 1 - exp(-gain);
                        points[p].gain_lo = 1 - exp(-(gain - q * se));
                        points[p].gain_hi = 1 - exp(-(gain + q * se));
                }
        }
        free(score);
        free(from);
        return 0;
}

/* ---- 5. rows ---- */

static int neighbour(const struct capo_fit_series *s, int p, int step, int skip)
{
        for (p += step; p >= 0 && p < s->n_points; p += step) {
                if (p != skip)
                        return p;
        }
        return -1;
}

/* Where the choice of @a's size gives way to that of the next size @b. */
static uint64_t crossing(const struct capo_fit_series *s, const struct capo_fit_cell *cells, int a, int b, int ca,
                         int cb)
{
        double xa = log((double)s->points[a].bytes), xb = log((double)s->points[b].bytes), x = (xa + xb) / 2;
        const struct capo_fit_cell *ra = &cells[a * s->n_candidates], *rb = &cells[b * s->n_candidates];
        uint64_t bytes, step = 1;

        if (!isnan(ra[ca].us) && !isnan(rb[ca].us) && !isnan(ra[cb].us) && !isnan(rb[cb].us)) {
                double da = ln_us(&ra[ca]) - ln_us(&ra[cb]), db = ln_us(&rb[ca]) - ln_us(&rb[cb]);

                if (da < 0 && db > 0)
                        x = xa + (xb - xa) * da / (da - db);
        }
        bytes = (uint64_t)exp(x);
        while (step * 64 <= bytes) /* no more digits than the measurement has */
                step *= 2;
        bytes -= bytes % step;
        if (bytes < s->points[a].bytes)
                bytes = s->points[a].bytes;
        return bytes >= s->points[b].bytes ? s->points[b].bytes - 1 : bytes;
}

/* How far a row may go beyond the size @p at its end: while the gain, continued straight from the last measured sizes,
 * stays above what a rule is worth. A lone size goes half a doubling. In doublings. */
static double reach(const struct capo_fit_series *s, const struct capo_fit_options *o,
                    const struct capo_fit_cell *cells, int p, int step, int skip)
{
        int before = neighbour(s, p, -step, skip), c = s->points[p].chosen;
        const struct capo_fit_cell *here = &cells[p * s->n_candidates], *there;
        double gain, slope, span, most, worth = -log(1 - o->min_gain);
        int b = baseline(s, o, here, c);

        if (before < 0 || b < 0)
                return 0.5;
        there = &cells[before * s->n_candidates];
        if (isnan(there[c].us) || isnan(there[b].us))
                return 0.5;
        span = fabs(log2((double)s->points[p].bytes) - log2((double)s->points[before].bytes));
        gain = ln_us(&here[b]) - ln_us(&here[c]);
        slope = (gain - (ln_us(&there[b]) - ln_us(&there[c]))) / span; /* per doubling, outwards */
        if (gain <= worth)
                return 0.5;
        most = fmax(0.5, fmin(EXTEND_STEPS, 2 * span));
        return slope >= 0 ? most : fmin(most, fmax(0.5, (gain - worth) / -slope));
}

int capo_fit_rows(const struct capo_fit_series *s, const struct capo_fit_options *o, const struct capo_fit_cell *cells,
                  int skip, const struct capo_fit_point *points, struct capo_fit_row *rows)
{
        struct capo_fit_series view = *s; /* the decided points may be a copy */
        int n = 0, first = skip == 0 ? 1 : 0, last = skip == s->n_points - 1 ? s->n_points - 2 : s->n_points - 1;

        view.points = (struct capo_fit_point *)points;
        if (first > last)
                goto open_end;
        if (points[first].chosen > 0) {
                double down = (double)points[first].bytes * exp2(-reach(&view, o, cells, first, -1, skip));

                rows[n++] = (struct capo_fit_row){.upto = (uint64_t)down, .chosen = 0, .first = 0, .last = -1};
        }
        for (int p = first; p >= 0; p = neighbour(s, p, 1, skip)) {
                int next = neighbour(s, p, 1, skip), start = p;

                while (next >= 0 && points[next].chosen == points[p].chosen) {
                        p = next;
                        next = neighbour(s, p, 1, skip);
                }
                rows[n] = (struct capo_fit_row){.chosen = points[p].chosen, .first = start, .last = p};
                rows[n].extended = rows[n].chosen > 0 && (start == first || next < 0);
                if (next >= 0)
                        rows[n].upto = crossing(&view, cells, p, next, points[p].chosen, points[next].chosen);
                else if (points[p].chosen > 0)
                        rows[n].upto = (uint64_t)((double)points[p].bytes * exp2(reach(&view, o, cells, p, 1, skip)));
                else
                        rows[n].upto = UINT64_MAX;
                n++;
        }
open_end:
        if (n == 0 || rows[n - 1].upto != UINT64_MAX)
                rows[n++] = (struct capo_fit_row){.upto = UINT64_MAX, .chosen = 0, .first = 0, .last = -1};
        return n;
}

int capo_fit_choice(const struct capo_fit_series *s, uint64_t bytes)
{
        for (int i = 0; i < s->n_rows; i++) {
                if (bytes <= s->rows[i].upto)
                        return s->rows[i].chosen;
        }
        return 0;
}

/* ---- all of it ---- */

static int make_series(struct maker *m, struct capo_fit_series *s, const struct item *items, size_t n,
                       const struct capo_fit_options *o, struct capo_fault *fault)
{
        int e = make_points(m, s, items, n);

        if (e == 0)
                e = contradiction(m, s, fault);
        if (e == 0)
                e = set_aside(m, s);
        if (e == 0)
                e = place_habit(m, s);
        if (e == 0)
                e = run_habit(s);
        if (e < 0)
                return e;
        what_default_ran(s);
        number_folds(s);
        s->covered = !s->has_default && covers(s);
        e = find_noise(s);
        if (e < 0)
                return e;
        capo_fit_estimate(s, CAPO_FIT_ALL, s->cells);
        e = capo_fit_decide(s, o, s->cells, -1, s->points);
        if (e < 0)
                return e;
        s->n_rows = capo_fit_rows(s, o, s->cells, -1, s->points, s->rows);
        return capo_fit_check(s, o);
}

/* Of the clocks a class and collective was timed by, the one with most samples; the others cannot be compared. */
static uint64_t one_clock(struct item *items, size_t *n)
{
        size_t kept = 0;
        uint64_t dropped = 0;

        for (size_t i = 0, k; i < *n; i = k) { /* key = class and call, above the clock */
                size_t best = i, best_n = 0;

                for (k = i; k < *n && items[k].key >> 8 == items[i].key >> 8;) {
                        size_t j = k;

                        while (j < *n && items[j].key == items[k].key)
                                j++;
                        if (j - k > best_n) {
                                best = k;
                                best_n = j - k;
                        }
                        k = j;
                }
                dropped += k - i - best_n;
                memmove(&items[kept], &items[best], best_n * sizeof *items);
                kept += best_n;
        }
        *n = kept;
        return dropped;
}

int capo_fit_make(const struct capo_samples *set, const struct capo_fit_options *o, struct capo_fit **out,
                  struct capo_fault *fault)
{
        _cleanup_(capo_fit_freep) struct capo_fit *fit = calloc(1, sizeof *fit);
        _cleanup_free_ struct item *items = malloc((set->n + 1) * sizeof *items);
        _cleanup_free_ uint32_t *class_of = malloc((set->n_runs + 1) * sizeof *class_of);
        _cleanup_free_ uint32_t *like = malloc((set->n_runs + 1) * sizeof *like);
        _cleanup_free_ double *v = malloc((set->n + 1) * 2 * sizeof *v);
        struct maker m = {.set = set, .fit = fit, .v = v, .scratch = v + set->n};
        size_t n = 0, room = 0;
        int e;

        fault->text[0] = 0;
        if (!fit || !items || !class_of || !like || !v || classes(set, class_of, like) < 0)
                return -ENOMEM;
        for (size_t i = 0; i < set->n; i++) {
                const struct capo_sample *s = &set->v[i];
                unsigned call = s->call == CAPO_CALL_BCAST ? CAPO_CALL_BROADCAST : s->call;

                if (capo_coll_of_call(call) < 0 || set->runs[s->run].n_ranks < 2)
                        continue;
                items[n++] = (struct item){.key = (uint64_t)class_of[s->run] << 16 | call << 8 | s->make,
                                           .bytes = s->bytes,
                                           .run = s->run,
                                           .order = s->order,
                                           .us = s->us,
                                           .candidate = candidate_of(s),
                                           .place = s->place,
                                           .ran = s->ran,
                                           .ran_channels = s->ran_channels};
        }
        if (n == 0) {
                snprintf(fault->text, sizeof fault->text,
                         "no samples of a collective that a tuner decides (all-reduce, all-gather, reduce-scatter, "
                         "broadcast, "
                         "reduce)");
                return -ENODATA;
        }
        if (o->progress)
                o->progress("sorting", 0.1, o->user);
        qsort(items, n, sizeof *items, by_what);
        fit->n_other_clock = one_clock(items, &n);
        for (size_t i = 0, k; i < n; i = k) {
                struct capo_fit_series *s;

                for (k = i + 1; k < n && items[k].key == items[i].key; k++)
                        ;
                if ((size_t)fit->n_series == room) {
                        void *p = reallocarray(fit->series, room ? room * 2 : 8, sizeof *fit->series);

                        if (!p)
                                return -ENOMEM;
                        fit->series = p;
                        room = room ? room * 2 : 8;
                }
                s = &fit->series[fit->n_series++];
                *s = (struct capo_fit_series){.like = set->runs[like[items[i].key >> 16]],
                                              .call = (uint8_t)(items[i].key >> 8),
                                              .make = (uint8_t)items[i].key};
                s->like.source = NULL;
                e = make_series(&m, s, &items[i], k - i, o, fault);
                if (e < 0)
                        return e;
                fit->n_samples += k - i;
                if (o->progress)
                        o->progress("fitting", (double)k / (double)n, o->user);
        }
        *out = steal(&fit);
        return 0;
}

void capo_fit_free(struct capo_fit *fit)
{
        if (!fit)
                return;
        for (int i = 0; i < fit->n_series; i++) {
                struct capo_fit_series *s = &fit->series[i];

                free(s->candidates);
                free(s->points);
                free(s->cells);
                free(s->rows);
                free(s->blocks);
        }
        free(fit->series);
        free(fit);
}

void capo_fit_freep(struct capo_fit **fit)
{
        capo_fit_free(*fit);
}
