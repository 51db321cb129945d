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
enum { HUGE_SIZE = 128 << 20, SMALL = 16 << 10 };

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

/* By how much forcing @c takes another time where NCCL ran it: the median over the sizes; 0: not
 * known at two. @v: room for all points. */
static double own_apart(const struct capo_fit_series *s, int c, double *v)
{
        size_t n = 0;

        for (int p = 0; p < s->n_points; p++) {
                double apart = capo_fit_cell_of(s, p, c)->is_default
                                       ? labelled_time(s, p, c) - labelled_time(s, p, 0)
                                       : NAN;

                if (!isnan(apart))
                        v[n++] = apart;
        }
        return n > 1 ? fabs(capo_median(v, n)) : 0;
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

/* Is @fast slower than @slow at most of the sizes where bandwidth decides for both? */
static bool rate_contradicts(const struct capo_fit_series *s, int fast, int slow, double *v)
{
        size_t n = 0;

        for (int p = 1; fast && slow && p < s->n_points; p++) {
                double apart = labelled_time(s, p, fast) - labelled_time(s, p, slow);

                if (!isnan(apart) && carries_bytes(s, p, fast) && carries_bytes(s, p, slow))
                        v[n++] = apart;
        }
        return n && capo_median(v, n) > FAR + 4 * s->noise;
}

/* Is @c, labelled LL, as fast as NCCL's own choice at the sizes where bandwidth decides for both and
 * that choice is not known to be LL? */
static bool own_contradicts(const struct capo_fit_series *s, int c, double *v)
{
        size_t n = 0;

        for (int p = 1; p < s->n_points; p++) {
                double apart = labelled_time(s, p, 0) - labelled_time(s, p, c);

                if (!isnan(apart) && CAPO_PROTO_OF(s->points[p].default_ran) != CAPO_PROTO_LL &&
                    carries_bytes(s, p, 0) && carries_bytes(s, p, c))
                        v[n++] = apart;
        }
        return n > 1 && capo_median(v, n) > 4 * s->noise - FAR;
}

/* Does the time of @low over that of @high fall from the smallest third of the sizes to the largest?
 * @low has the shorter latency and the lower bandwidth, so it must rise. */
static bool trend_contradicts(const struct capo_fit_series *s, int low, int high, double limit,
                              double *v)
{
        size_t n = 0, third;

        for (int p = 0; low && high && p < s->n_points; p++) {
                double apart = labelled_time(s, p, low) - labelled_time(s, p, high);

                if (!isnan(apart))
                        v[n++] = apart;
        }
        third = (n + 2) / 3;
        return n > 2 &&
               capo_median(v, third) - capo_median(v + n - third, third) > limit + 4 * s->noise;
}

/* Is @fast slower than @slow at most of the sizes @from to @upto? */
static bool order_contradicts(const struct capo_fit_series *s, int fast, int slow, uint64_t from,
                              uint64_t upto, double limit, double *v)
{
        size_t n = 0;

        for (int p = 0; fast && slow && p < s->n_points; p++) {
                double apart = labelled_time(s, p, fast) - labelled_time(s, p, slow);

                if (s->points[p].bytes >= from && s->points[p].bytes <= upto && !isnan(apart))
                        v[n++] = apart;
        }
        return n && capo_median(v, n) > limit + 4 * s->noise;
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
                double apart = own_apart(s, c, v);
                int simple = find_pair(s, k->algo, CAPO_PROTO_SIMPLE),
                    ll128 = find_pair(s, k->algo, CAPO_PROTO_LL128);

                if (s->turns != CAPO_FIT_IN_TURN)
                        s->apart = fmax(s->apart, apart);
                s->labels_doubted |=
                        apart > APART + 4 * s->noise ||
                        (c == simple &&
                         (order_contradicts(s, c, ll128, HUGE_SIZE, UINT64_MAX, FAR, v) ||
                          order_contradicts(s, ll128, c, 0, SMALL, FAR, v) ||
                          trend_contradicts(s, ll128, c, TWICE, v)));
                if (k->proto != CAPO_PROTO_LL || k->channels || k->chunk)
                        continue;
                s->labels_doubted |= rate_contradicts(s, simple, c, v) ||
                                     own_contradicts(s, c, v) ||
                                     order_contradicts(s, c, ll128, 0, SMALL, TWICE, v) ||
                                     rate_contradicts(s, ll128, c, v) ||
                                     order_contradicts(s, c, simple, 0, SMALL, FAR, v) ||
                                     trend_contradicts(s, c, simple, FAR, v) ||
                                     trend_contradicts(s, c, ll128, FAR, v);
        }
}
