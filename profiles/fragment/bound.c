/* SPDX-License-Identifier: Apache-2.0 */
/* Bus bandwidth is algorithm bandwidth times the bytes that a ring moves per byte of result
 * (nccl-tests, doc/PERFORMANCE.md). */
#include "core/base/calls.h"
#include "core/base/xalloc.h"
#include "profiles/fragment/bound.h"

struct capo_plan_gpu *capo_alloc_ranks(const struct capo_topology *t, const struct capo_alloc *a)
{
        struct capo_plan_gpu *ranks = xcalloc((size_t)a->n_ranks + 1, sizeof *ranks);

        for (int i = 0; i < a->n_ranks; i++)
                ranks[i] = (struct capo_plan_gpu){(uint16_t)a->ranks[i].node,
                                                  (uint16_t)t->gpus[a->ranks[i].gpu].dev};
        return ranks;
}

char *capo_alloc_print(const struct capo_topology *t, const struct capo_alloc *a, char *text,
                       size_t room)
{
        _cleanup_free_ struct capo_plan_gpu *ranks = capo_alloc_ranks(t, a);

        capo_plan_gpus_print(ranks, (size_t)a->n_ranks, text, room);
        return text;
}

int capo_alloc_of_gpus(const struct capo_topology *t, const struct capo_plan_gpu *gpus, size_t n,
                       struct capo_alloc *out)
{
        *out = (struct capo_alloc){.n_ranks = (int)n, .ranks = xcalloc(n + 1, sizeof *out->ranks)};
        for (size_t i = 0; i < n; i++) {
                out->ranks[i].node = gpus[i].node;
                out->ranks[i].gpu = capo_topology_gpu_by_dev(t, gpus[i].dev);
                out->n_nodes = gpus[i].node >= out->n_nodes ? gpus[i].node + 1 : out->n_nodes;
                if (out->ranks[i].gpu < 0)
                        return -EINVAL;
        }
        return 0;
}

int capo_class_of_gpus(const struct capo_topology *t, const struct capo_plan_gpu *gpus, size_t n,
                       char *class, size_t room)
{
        _cleanup_(capo_alloc_free) struct capo_alloc a;
        int r = capo_alloc_of_gpus(t, gpus, n, &a);

        if (!r)
                capo_class_name(t, &a, class, room);
        return r;
}

int fragment_bound(const struct capo_topology *t, const struct capo_plan_gpu *gpus, size_t n,
                   struct fragment_bound *out)
{
        _cleanup_(capo_alloc_free) struct capo_alloc a;
        struct capo_ceilings c;
        int r = capo_alloc_of_gpus(t, gpus, n, &a);

        memset(out, 0, sizeof *out);
        if (!r)
                r = capo_ceilings(t, &a, a.n_nodes > 1 ? CAPO_CEILING_HYBRID : 0, &c);
        if (!r && !c.connected && a.n_nodes == 1)
                r = capo_ceilings(t, &a, CAPO_CEILING_HYBRID, &c);
        if (r)
                return r;
        capo_class_name(t, &a, out->class, sizeof out->class);
        out->hybrid = !c.connected;
        for (int coll = 0; coll < CAPO_NCCL_COLLS; coll++)
                out->busbw_gbs[coll] = capo_ceiling(&c, coll, &out->of[coll]) *
                                       capo_busbw_factor(capo_coll_kind(coll), (unsigned)n);
        return 0;
}
