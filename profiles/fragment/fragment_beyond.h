/* SPDX-License-Identifier: Apache-2.0 */
/* Experiments with settings, where no choice of NCCL's cost table has what the links allow. NCCL is
 * asked again with each setting that changes its graphs. Channels (NCCL_MIN_CTAS) are applied after
 * the search and are not in its cost model, so their gain is not predicted. */
#pragma once

#include "profiles/fragment/fragment_gpus.h"
#include "profiles/fragment/fragment_orders.h"

enum { FRAGMENT_BEYOND = 3, FRAGMENT_BEYOND_TEXT = 560 };
#define FRAGMENT_BEYOND_GAIN 0.15 /* less is within the error of the model */

struct fragment_beyond {
        char text[FRAGMENT_BEYOND]
                 [FRAGMENT_BEYOND_TEXT]; /* one experiment each, with its command */
        int n;
};

/** fragment_beyond() - what to try for the all-reduce @row of @f
 * @f: of @a
 *
 * Settings that the environment has are not asked. A second per setting, only between nodes. */
void fragment_beyond(const struct fragment_machine *m, const struct capo_alloc *a,
                     const struct fragment_model *f, size_t row, struct fragment_beyond *out);

/* What to change outside of NCCL's cost table. */
struct fragment_advice {
        char order[FRAGMENT_ORDER_TEXT]; /* the best order of the nodes; "" none is better */
        char gpus[FRAGMENT_GPUS_TEXT];   /* other GPUs of the machine; "" none is better */
        struct fragment_beyond beyond;
};

/** fragment_advise() - by an all-reduce of 1 GiB. @out is left alone where NCCL has no answer. A second
 * or more. @nccl: set to what NCCL answers, where it is asked; NULL: the order alone. */
void fragment_advise(const struct fragment_machine *m, const struct capo_alloc *a,
                     struct fragment_nccl *nccl, struct fragment_advice *out);
