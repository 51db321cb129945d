/* SPDX-License-Identifier: Apache-2.0 */
/* All allocations of one machine, a row per class. */
#ifndef CAPO_FRAGMENT_CENSUS_H
#define CAPO_FRAGMENT_CENSUS_H

#include "profiles/fragment/nccl.h"

struct census_row {
        char name[CAPO_CLASS_ROOM], example[64];
        int n;        /* GPUs */
        double count; /* allocations of this class */
        struct capo_ceilings c;
        struct fragment_nccl nccl; /* of the example */
        double graph_gbs;          /* all-reduce with a graph file; 0: no file helps, or nobody looked */
        double share; /* percent of the ceiling of all-reduce that NCCL reaches by its model; -1 not known */
};

struct census {
        const struct capo_topology *t;
        int low, high;                       /* GPUs */
        const struct fragment_nccl_ask *ask; /* NULL: NCCL is not asked, and why_not says why if it should have been */
        const char *why_not;
        bool graphs;                   /* also look for graph files */
        void (*progress)(size_t done); /* classes; may be NULL */

        struct census_row *rows; /* by number of GPUs and name */
        size_t n_rows;
};

/** census_take() - Return: 0; -EINVAL more GPUs than there are; -E2BIG no switch and more than 16 GPUs; -ENOMEM. End it
 * with census_finish() in any case. */
int census_take(struct census *w);
void census_finish(struct census *w);

#endif
