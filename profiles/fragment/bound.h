/* SPDX-License-Identifier: Apache-2.0 */
/* The ceilings beside what capo plan says NCCL does: in its terms, ranks as (node, GPU number) and
 * bus bandwidth. */
#ifndef CAPO_FRAGMENT_BOUND_H
#define CAPO_FRAGMENT_BOUND_H

#include "capo/call_kinds.h"
#include "profiles/fragment/fragment.h"
#include "profiles/plan/plan.h"

struct fragment_bound {
        char class[3 * CAPO_CLASS_ROOM];
        double busbw_gbs[CAPO_NCCL_COLLS]; /* nothing exceeds it; 0 not known */
        enum capo_ceiling_of of[CAPO_NCCL_COLLS];
        bool hybrid; /* NVLink alone does not join the ranks: PCIe and NICs are in it */
};

/** capo_class_of_gpus() - capo_class_name() of the same. Return: 0; -EINVAL a GPU that @t lacks;
 * -ENOMEM. */
int capo_class_of_gpus(const struct capo_topology *t, const struct capo_plan_gpu *gpus, size_t n,
                       char *class, size_t room);

/** capo_alloc_ranks() - an allocation as plan.h has it. Return: malloc'ed; NULL out of memory. */
struct capo_plan_gpu *capo_alloc_ranks(const struct capo_topology *t, const struct capo_alloc *a);

/** fragment_bound() - ceilings of an allocation as nccl-tests' busbw. Return: 0; -EINVAL a GPU that
 * @t lacks; -ENOMEM.
 */
int fragment_bound(const struct capo_topology *t, const struct capo_plan_gpu *gpus, size_t n,
                   struct fragment_bound *out);

#endif
