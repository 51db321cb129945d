/* SPDX-License-Identifier: Apache-2.0 */
/* The ceilings in the terms of capo plan: ranks as (node, GPU number), rates as bus bandwidth. */
#pragma once

#include "capo/call_kinds.h"
#include "profiles/fragment/fragment.h"
#include "profiles/plan/plan.h"

struct fragment_bound {
        char class[3 * CAPO_CLASS_ROOM];
        double busbw_gbs[CAPO_NCCL_COLLS]; /* upper bound; 0 not known */
        enum capo_ceiling_of of[CAPO_NCCL_COLLS];
        bool hybrid; /* NVLink alone does not connect the ranks: the bound includes PCIe and NICs */
};

/** capo_class_of_gpus() - as capo_class_name(), for GPUs by number. Return: 0; -EINVAL: @t lacks a
 * GPU. */
int capo_class_of_gpus(const struct capo_topology *t, const struct capo_plan_gpu *gpus, size_t n,
                       char *class, size_t room);

/** capo_alloc_of_gpus() - the other way. Return: 0; -EINVAL: @t has no such GPU; @out is ended with
 * capo_alloc_free() in any case. */
int capo_alloc_of_gpus(const struct capo_topology *t, const struct capo_plan_gpu *gpus, size_t n,
                       struct capo_alloc *out);

/** capo_alloc_ranks() - convert an allocation to the form of plan.h. Return: to be freed. */
struct capo_plan_gpu *capo_alloc_ranks(const struct capo_topology *t, const struct capo_alloc *a);

/** fragment_bound() - ceilings of an allocation as nccl-tests' busbw. Return: 0; -EINVAL: @t lacks
 * a GPU. */
int fragment_bound(const struct capo_topology *t, const struct capo_plan_gpu *gpus, size_t n,
                   struct fragment_bound *out);
