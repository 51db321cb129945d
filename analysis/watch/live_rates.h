/* SPDX-License-Identifier: Apache-2.0 */
/* What the rows of a running job did from one look to the next. */
#ifndef CAPO_LIVE_RATES_H
#define CAPO_LIVE_RATES_H

#include "analysis/watch/live_rows.h"

struct capo_live_rate {
        const struct capo_live_row *row;
        double calls_s, bytes_s; /* over the ranks seen */
        double share;            /* of the ranks' time, on the GPU in these calls; < 0 not known */
        double p50_ns;           /* since the start of the job, on the GPU; 0 not known */
};

struct capo_live_rates {
        struct capo_live_rate *rate; /* by row */
        uint32_t n;
        /* what the rows had at the look before, and when that was; 0: at the start of the job */
        struct capo_live_before {
                uint64_t calls, bytes;
                double total_ns;
        } * before;
        uint32_t n_before;
        uint64_t before_ns;
};

/**
 * capo_live_rates_update() - rates of @rows since the last call; of the first, since @begin_ns
 * @begin_ns, @now_ns: since 1970: the start of the job, and the look
 * @ranks:             whose time a share is of
 *
 * A look that is not later than the one before leaves the rates as they are. Return: 0; -ENOMEM.
 */
int capo_live_rates_update(struct capo_live_rates *rates, const struct capo_live_rows *rows,
                           uint64_t begin_ns, uint64_t now_ns, uint32_t ranks);
void capo_live_rates_finish(struct capo_live_rates *rates);

#endif
