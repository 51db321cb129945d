/* SPDX-License-Identifier: Apache-2.0 */
/* What skew.c (who waits for whom) and skew_lay.c (calls side by side) share. */
#ifndef CAPO_SKEW_PARTS_H
#define CAPO_SKEW_PARTS_H

#include "analysis/job/clocks.h"
#include "analysis/job/job.h"
#include "analysis/job/meet.h"

#define SKEW_FEW 4 /* calls timed on the GPUs of all ranks: fewer say nothing */

struct skew_laid_call {
        const struct capo_meet_row *row;
        uint32_t nth;  /* of the rows */
        bool by_host;  /* where others have GPU times */
        uint32_t last; /* who started last */
        bool whole;    /* `waited` is of this call alone: see lay_waiting() */
        double waited; /* how long the others waited for that one, summed over them */
        double spread; /* from the first start to the last */
};

/* Calls laid side by side: start[i * n + k] of member k in call[i]. */
struct skew_laid {
        uint32_t n; /* members */
        uint32_t n_rows;
        double *start;
        struct skew_laid_call *call;
        double *untimed;    /* per member: the waiting that it caused in calls that are not laid, by
                               the host's starts */
        uint32_t n_untimed; /* calls */
        double *charges;    /* four values per member, 0; then scratch */
        double *differ;     /* two per member: the waiting that it caused by the GPUs less that by
                               the host's starts, over the n_both calls that have both: sum, squares */
        uint32_t n_both, n_by_host;
        double *column; /* scratch: one value per row */
};

/** skew_quantile() - reorders @v. 0 of nothing. */
double skew_quantile(double *v, size_t n, double q);

/** skew_row_tells() - does the row say by @from when each member started? Then @to has it. */
bool skew_row_tells(const struct capo_clocks *s, uint32_t comm, uint32_t i,
                    enum capo_skew_from from, double *to);

/** skew_row_starts() - the same; what a kernel itself says of its waiting is better than how long
 * it took, which has the moving in it. */
bool skew_row_starts(const struct capo_clocks *s, uint32_t comm, uint32_t i,
                     enum capo_skew_from from, double *to);

/** skew_lay_out() - fill l->call and l->start; no two ranks are further apart than the job lasted.
 * Return: 0, -ENOMEM. */
int skew_lay_out(const struct capo_clocks *s, uint32_t comm, enum capo_skew_from from,
                 struct skew_laid *l);

#endif
