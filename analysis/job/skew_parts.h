/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by skew.c (which rank the others wait for), skew_lay.c (start times of a call on all
 * ranks) and skew.c (waiting that each rank caused). */
#pragma once

#include "analysis/job/skew_starts.h"

#define SKEW_FEW \
        4 /* with fewer calls timed on the GPUs of all ranks, nothing is concluded from GPU times \
           */

struct skew_laid_call {
        const struct capo_meet_row *row;
        uint32_t nth;  /* index of the row */
        bool by_host;  /* compared by host times although others have GPU times */
        uint32_t last; /* the member that started last */
        bool whole;    /* `waited` belongs to this call alone: see lay_waiting() */
        bool alone;    /* it stands only for itself; the others are a sample of the rest */
        double waited; /* how long the others waited for the last one, summed */
        double spread; /* from the first start to the last */
        double part;   /* of `waited`: the call would have begun so much earlier without the last */
};

/* Waiting that a member caused by GPU times minus that by host times, over the calls that have
 * both. drawn_*: only calls drawn at random. */
struct skew_differ {
        double sum, sq, drawn_sum, drawn_sq;
        double most;   /* the largest absolute difference */
        double waited; /* by GPU times */
};

/* Waiting caused by one rank. */
struct skew_charge {
        double own;     /* in calls that stand only for themselves */
        double sum, sq; /* in the sample */
        double spared_own,
                spared;   /* of `own` and `sum`: how much earlier the calls would have begun
                                      without it */
        double longest;   /* the longest of all, if calls that are not compared can be as long */
        double by_host;   /* the part of `sum` from host times, where other calls have GPU times */
        double alone;     /* the same part of `own` */
        double n_alone;   /* number of calls in `alone` */
        double host_most; /* the longest by host times */
};

/* Start times: start[i * n + k] is that of member k in call[i]. */
struct skew_laid {
        struct skew_comm of;
        enum capo_skew_from from; /* the source compared */
        uint32_t n;               /* members */
        uint32_t n_rows;
        double *start;
        struct skew_laid_call *call;
        double *untimed;    /* per member, then all: waiting by host times in calls not compared */
        uint32_t n_untimed; /* number of those calls */
        struct skew_charge *charge; /* per member, zeroed by the caller; for skew_charge_ranks() */
        struct skew_differ *differ; /* per member */
        uint32_t n_both, n_both_drawn;   /* calls that have GPU and host times; of them, those drawn
                                            at random */
        bool agrees;                     /* host times agree with GPU times */
        double both_waited, both_differ; /* their waiting by GPU times, and how host times differ */
        double most_differ;              /* the largest difference */
        double error;                    /* error that host times hardly ever exceed */
        double *column;                  /* scratch: one value per row */
        double *middle;                  /* scratch: one value per member */
};

/** skew_quantile() - reorders @v. 0 when n is 0. */
double skew_quantile(double *v, size_t n, double q);

/** skew_lay_out() - fill l->call and l->start; ranks differ by the job's duration at most. */
void skew_lay_out(struct skew_laid *l);
