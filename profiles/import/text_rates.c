/* SPDX-License-Identifier: Apache-2.0 */
/* Derives the number of ranks and the collective from the two bandwidths of a run's rows. */
#include <math.h>

#include "capo/call_ids.h"
#include "core/base/calls.h"
#include "profiles/import/text_reader.h"

/* The range of ranks that fit the bandwidths of row @r, by nccl-tests' convention. They are printed
 * with two decimals, so with few bytes or many ranks the range is wide. */
static void narrow_ranks(const struct row *r, unsigned kind, double *lo, double *hi)
{
        double f = r->busbw / r->algbw, half = 0.0055 * (1 + f) / r->algbw, at[2];

        for (int i = 0; i < 2; i++) {
                double x = i ? f + half : f - half;

                if (kind == CAPO_KIND_ALLREDUCE)
                        at[i] = x < 2 ? 2 / (2 - x) : INFINITY;
                else
                        at[i] = x < 1 ? 1 / (1 - x) : INFINITY;
        }
        *lo = fmax(*lo, at[0]);
        *hi = fmin(*hi, at[1]);
}

int capo_text_ranks(const struct block *b, unsigned call, double *factor, double *lo, double *hi)
{
        unsigned kind = capo_call_kind(call);
        double best = 0;

        *factor = *lo = 0;
        *hi = INFINITY;
        for (size_t i = 0; i < b->n_rows; i++) {
                const struct row *r = &b->rows[i];

                if (r->algbw < 1 || r->busbw <= 0)
                        continue;
                narrow_ranks(r, kind, lo, hi);
                if (r->algbw > best && r->algbw >= 5)
                        *factor = r->busbw / r->algbw;
                best = fmax(best, r->algbw);
        }
        switch (kind) {
        case CAPO_KIND_ALLREDUCE:
        case CAPO_KIND_ALLGATHER:
        case CAPO_KIND_REDUCESCATTER:
        case CAPO_KIND_ALLTOALL:
        case CAPO_KIND_GATHER:
        case CAPO_KIND_SCATTER: break;
        default: *hi = INFINITY; return 0;
        }
        return *hi < 1e6 && ceil(*lo) == floor(*hi) && *hi >= 2 ? (int)floor(*hi) : 0;
}

/* Do the rounded bandwidths of all rows fit @call on @n_ranks? */
static bool fits_rows(const struct block *b, unsigned call, unsigned n_ranks)
{
        double f = capo_busbw_factor(capo_call_kind(call), n_ranks);

        for (size_t i = 0; i < b->n_rows; i++) {
                const struct row *r = &b->rows[i];

                if (fabs(r->busbw - f * r->algbw) > 0.0055 * (1 + f))
                        return false;
        }
        return true;
}

uint8_t capo_text_call(const struct reader *r)
{
        const struct capo_label *user = r->in->label;
        int n = user && user->n_ranks ? user->n_ranks : r->block.n_devices;
        bool all, scatter;

        if (n < 2)
                return CAPO_CALL_NONE;
        all = fits_rows(&r->block, CAPO_CALL_ALLREDUCE, (unsigned)n);
        scatter = fits_rows(&r->block, CAPO_CALL_REDUCESCATTER, (unsigned)n);
        return all == scatter ? CAPO_CALL_NONE
               : all          ? CAPO_CALL_ALLREDUCE
                              : CAPO_CALL_REDUCESCATTER;
}
