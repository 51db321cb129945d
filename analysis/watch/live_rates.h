/* SPDX-License-Identifier: Apache-2.0 */
/* Rates of the rows of a running job between two samples. */
#pragma once

#include "analysis/watch/live_rows.h"

struct capo_live_rate {
        const struct capo_live_row *row;
        double calls_s, bytes_s; /* over the ranks seen */
        double share;  /* share of the ranks' time on the GPU in these calls; < 0 not known */
        double p50_ns; /* on the GPU, since the start of the job; 0 not known */
};

struct capo_live_rates {
        struct capo_live_rate *rate; /* by row */
        uint32_t n;
        /* the values of the previous sample and its time; 0: the start of the job */
        struct capo_live_before {
                uint64_t calls, bytes;
                double total_ns;
        } * before;
        uint64_t before_ns;
};

/**
 * capo_live_rates_update() - rates of @rows since the last call; in the first call, since @begin_ns
 * @begin_ns: start of the job, ns since 1970
 * @now_ns: time of the sample, ns since 1970
 * @ranks: number of ranks that shares refer to
 *
 * If @now_ns is not later than before, rates do not change.
 */
void capo_live_rates_update(struct capo_live_rates *rates, const struct capo_live_rows *rows,
                            uint64_t begin_ns, uint64_t now_ns, uint32_t ranks);
void capo_live_rates_finish(struct capo_live_rates *rates);
