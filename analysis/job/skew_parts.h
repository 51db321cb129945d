/* SPDX-License-Identifier: Apache-2.0 */
/* What skew.c (who waits for whom), skew_lay.c (calls side by side) and skew_charge.c (how much
 * each rank caused) share. */
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
        bool alone;    /* it stands for itself, the others are a sample of all that are left */
        double waited; /* how long the others waited for that one, summed over them */
        double spread; /* from the first start to the last */
};

/* The waiting that a member caused by the GPUs less that by the hosts' starts, in calls of which
 * both tell; in those of them that were drawn. */
struct skew_differ {
        double sum, sq, drawn_sum, drawn_sq;
        double most;   /* the largest, without its sign */
        double waited; /* by the GPUs */
};

/* What is known of one rank's calls. */
struct skew_charge {
        double own;       /* of calls that stand for themselves */
        double sum, sq;   /* of the sample */
        double longest;   /* of all, as far as calls that are not laid out can be so long */
        double by_host;   /* part of `sum` by the host's starts, where others have GPU times */
        double alone;     /* and of `own` */
        double n_alone;   /* in so many calls */
        double host_most; /* the longest by the host's starts */
};

/* Calls laid side by side: start[i * n + k] of member k in call[i]. */
struct skew_laid {
        uint32_t n; /* members */
        uint32_t n_rows;
        double *start;
        struct skew_laid_call *call;
        double *untimed;    /* per member, and of all together: the waiting that it caused in calls
                               that are not laid, by the host's starts */
        uint32_t n_untimed; /* calls */
        struct skew_charge *charge;      /* per member, of zeros; for skew_charge_ranks() */
        struct skew_differ *differ;      /* per member */
        uint32_t n_both, n_both_drawn;   /* calls of which both clocks tell; of them, such as were
                                            drawn */
        bool agrees;                     /* the hosts' starts tell the same as the GPUs */
        double both_waited, both_differ; /* the waiting in them by the GPUs; what the hosts' differs
                                            by */
        double most_differ;              /* by most */
        double error;                    /* what a host's start hardly ever differs by */
        double *column;                  /* scratch: one value per row */
        double *middle;                  /* scratch: one value per member */
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

/** skew_charge_ranks() - the waiting that each rank caused in the whole job, with its interval: all
 * skew->ranks[].caused_ns, skew->worst */
void skew_charge_ranks(const struct capo_job *job, const struct capo_job_comm *c,
                       struct capo_skew *skew, const struct skew_laid *l,
                       const struct capo_meet *m);

#endif
