/* SPDX-License-Identifier: Apache-2.0 */
/* Do the labels fit the times? Exchanged labels pass every test of noise, so they are looked for by
 * what must hold:
 *   - a candidate takes the time of NCCL's own choice at the sizes where NCCL ran it;
 *   - LL moves twice the bytes of Simple and LL128 (a flag for every four bytes of data; NCCL
 *     src/device/prims_ll.h), so it is slower where bandwidth decides, also than NCCL's own choice.
 *     With their short latency LL and LL128 are not slower than Simple at small sizes, nor LL much
 *     slower than LL128. LL128 moves a sixteenth more than Simple.
 *   - a run that is known to have run something else than its label contradicts it.
 * If one does not hold, no rule is written: it is not known which of the labels is wrong. */

#include "capo/algorithms.h"
#include "analysis/job/spread.h"
#include "core/base/xalloc.h"
#include "profiles/fit/fit_private.h"

#define APART 0.05 /* ln: times that differ by less are no contradiction */
#define FAR   0.25 /* ln: the same between protocols */
#define TWICE 0.7  /* ln: as FAR, for Simple and LL128 by trend and LL and LL128 at small sizes */
#define BOUND 0.7  /* part of a doubling of the time at a doubling of the size */

/* Mean ln us of the blocks that are labelled @c at point @p; NAN: there are none. */
static double labelled_time(const struct capo_fit_series *s, int p, int c)
{
        double sum = 0;
        int n = 0;

        for (int i = s->points[p].first_block; i < s->points[p].end_block; i++) {
                if (s->blocks[i].candidate != c)
                        continue;
                sum += s->blocks[i].value;
                n++;
        }
        return n ? sum / n : NAN;
}

/* The candidate with @algo and @proto, and NCCL's number of channels; 0: there is none. */
static int find_pair(const struct capo_fit_series *s, unsigned algo, unsigned proto)
{
        for (int c = 1; c < s->n_candidates; c++) {
                const struct capo_fit_candidate *k = &s->candidates[c];

                if (k->algo == algo && k->proto == proto && !k->channels && !k->chunk)
                        return c;
        }
        return 0;
}

/* Does the time of candidate @c grow nearly as the size does, up to point @p? */
static bool carries_bytes(const struct capo_fit_series *s, int p, int c)
{
        double ratio = p ? (double)s->points[p].bytes / (double)s->points[p - 1].bytes : 0;

        return p && labelled_time(s, p, c) - labelled_time(s, p - 1, c) > BOUND * log(ratio);
}

/* The sizes at which two times are compared. */
enum sizes {
        ALL,
        SMALL,       /* up to 16 KiB */
        HUGE_SIZES,  /* from 128 MiB on */
        CARRIED,     /* where bandwidth decides for both */
        OWN_CARRIED, /* the same, and NCCL's own choice is not known to be LL */
        OWN_RAN,     /* where NCCL ran the first by itself */
};

static bool counts_point(const struct capo_fit_series *s, int p, int a, int b, enum sizes sizes)
{
        const struct capo_fit_point *q = &s->points[p];

        switch (sizes) {
        case SMALL: return q->bytes <= 16 << 10;
        case HUGE_SIZES: return q->bytes >= 128 << 20;
        case OWN_CARRIED:
        case CARRIED:
                return (sizes == CARRIED || CAPO_PROTO_OF(q->default_ran) != CAPO_PROTO_LL) &&
                       carries_bytes(s, p, a) && carries_bytes(s, p, b);
        case OWN_RAN: return capo_fit_cell_of(s, p, a)->is_default;
        default: return true;
        }
}

/* Put into @v by how much the times of @a exceed those of @b, by rising size. Return: how many. */
static size_t list_apart(const struct capo_fit_series *s, int a, int b, enum sizes sizes, double *v)
{
        size_t n = 0;

        for (int p = 0; p < s->n_points; p++) {
                double apart = labelled_time(s, p, a) - labelled_time(s, p, b);

                if (!isnan(apart) && counts_point(s, p, a, b, sizes))
                        v[n++] = apart;
        }
        return n;
}

/* Is @fast slower than @slow at most of these sizes, by more than @limit? 0 is no candidate. */
static bool is_slower(const struct capo_fit_series *s, int fast, int slow, enum sizes sizes,
                      double limit, double *v)
{
        size_t n = fast && slow ? list_apart(s, fast, slow, sizes, v) : 0;

        return n && capo_median(v, n) > limit + 4 * s->noise;
}

/* Does the time of @low over that of @high fall from the smallest third of the sizes to the largest?
 * @low has the shorter latency and the lower bandwidth, so it must rise. */
static bool trend_contradicts(const struct capo_fit_series *s, int low, int high, double limit,
                              double *v)
{
        size_t n = low && high ? list_apart(s, low, high, ALL, v) : 0, third = (n + 2) / 3;

        return n > 2 &&
               capo_median(v, third) - capo_median(v + n - third, third) > limit + 4 * s->noise;
}

/* Is it recorded that a forced run ran something else? */
static bool ran_contradicts(const struct capo_fit_series *s)
{
        for (int i = 0; i < s->n_blocks; i++) {
                const struct capo_fit_block *b = &s->blocks[i];
                const struct capo_fit_candidate *k = &s->candidates[b->candidate];

                if (b->candidate && b->ran && k->algo && k->proto &&
                    b->ran != CAPO_ALGO_PROTO(k->algo, k->proto))
                        return true;
        }
        return false;
}

void capo_fit_labels(struct capo_fit_series *s)
{
        _cleanup_free_ double *v = xmalloc(((size_t)s->n_points + 1) * sizeof *v);

        s->labels_doubted = ran_contradicts(s);
        for (int c = 1; c < s->n_candidates; c++) {
                const struct capo_fit_candidate *k = &s->candidates[c];
                size_t n = list_apart(s, c, 0, OWN_RAN, v);
                double apart = n > 1 ? fabs(capo_median(v, n)) : 0;
                int simple = find_pair(s, k->algo, CAPO_PROTO_SIMPLE),
                    ll128 = find_pair(s, k->algo, CAPO_PROTO_LL128);

                if (s->turns != CAPO_FIT_IN_TURN)
                        s->apart = fmax(s->apart, apart);
                s->labels_doubted |= apart > APART + 4 * s->noise ||
                                     (c == simple && (is_slower(s, c, ll128, HUGE_SIZES, FAR, v) ||
                                                      is_slower(s, ll128, c, SMALL, FAR, v) ||
                                                      trend_contradicts(s, ll128, c, TWICE, v)));
                if (k->proto != CAPO_PROTO_LL || k->channels || k->chunk)
                        continue;
                /* LL as fast as NCCL's own choice where that is not LL */
                n = list_apart(s, 0, c, OWN_CARRIED, v);
                s->labels_doubted |= (n > 1 && capo_median(v, n) > 4 * s->noise - FAR) ||
                                     is_slower(s, simple, c, CARRIED, FAR, v) ||
                                     is_slower(s, c, ll128, SMALL, TWICE, v) ||
                                     is_slower(s, ll128, c, CARRIED, FAR, v) ||
                                     is_slower(s, c, simple, SMALL, FAR, v) ||
                                     trend_contradicts(s, c, simple, FAR, v) ||
                                     trend_contradicts(s, c, ll128, FAR, v);
        }
}
