/* SPDX-License-Identifier: Apache-2.0 */

#include "capo/collectives.h"
#include "core/base/text.h"
#include "core/base/xalloc.h"
#include "profiles/fragment/bound.h"
#include "profiles/fragment/fragment_gpus.h"

enum { RANKS_MOST = 16, CHOICES_MOST = 1000 };
#define BETTER 1.05

/* Bus bandwidth of an all-reduce that the links allow; 0 not known. */
static double find_bound(const struct capo_topology *t, const struct capo_alloc *a)
{
        _cleanup_free_ struct capo_plan_gpu *gpus = capo_alloc_ranks(t, a);
        struct fragment_bound bound;

        return fragment_bound(t, gpus, (size_t)a->n_ranks, &bound) == 0
                       ? bound.busbw_gbs[CAPO_COLL_ALLREDUCE]
                       : 0;
}

static int count_gpus(const struct capo_alloc *a, int node)
{
        int n = 0;

        for (int i = 0; i < a->n_ranks; i++)
                n += a->ranks[i].node == node;
        return n;
}

/* Try every choice of @n GPUs for the nodes with as many, and keep the best in @a. */
static double find_best_set(const struct capo_topology *t, struct capo_alloc *a, int n, double most)
{
        struct capo_alloc try = {a->n_ranks, a->n_nodes, false,
                                 xcalloc((size_t)a->n_ranks + 1, sizeof *try.ranks)};
        uint32_t end = 1u << t->n_gpus, count = 0;

        memcpy(try.ranks, a->ranks, (size_t)a->n_ranks * sizeof *a->ranks);
        for (uint32_t set = 1; set < end && count < CHOICES_MOST; set++) {
                double gbs;

                if (__builtin_popcount(set) != n)
                        continue;
                count++;
                for (int node = 0, at = 0; node < a->n_nodes;
                     node++) { /* those with as many get @set */
                        int here = count_gpus(a, node);

                        for (int gpu = 0; here == n && set >> gpu; gpu++) {
                                if (set >> gpu & 1)
                                        try.ranks[at++].gpu = gpu;
                        }
                        at += here == n ? 0 : here;
                }
                gbs = find_bound(t, &try);
                if (gbs > 1.001 * most) {
                        most = gbs;
                        memcpy(a->ranks, try.ranks, (size_t)a->n_ranks * sizeof *a->ranks);
                }
        }
        free(try.ranks);
        return most;
}

/* The NICs nearest to the GPUs of a node, after a blank; "": none is known. */
static char *nics_text(const struct capo_topology *t, const struct capo_alloc *a, int node,
                       char *text, size_t room)
{
        _cleanup_free_ bool *near = xcalloc(t->n_nics + 1, sizeof *near);

        *text = 0;
        for (int i = 0; i < a->n_ranks; i++) {
                const uint8_t *path = t->nic_path + (size_t)a->ranks[i].gpu * t->n_nics;
                uint8_t least = CAPO_PATH_UNKNOWN;

                for (size_t k = 0; a->ranks[i].node == node && k < t->n_nics; k++)
                        least = path[k] < least ? path[k] : least;
                for (size_t k = 0; least < CAPO_PATH_UNKNOWN && k < t->n_nics; k++)
                        near[k] |= path[k] == least;
        }
        for (size_t k = 0; k < t->n_nics; k++) {
                if (near[k])
                        capo_append(text, room, "%s%s", *text ? "," : " (nearest NICs ",
                                    t->nics[k].name);
        }
        if (*text)
                capo_append(text, room, ")");
        return text;
}

char *fragment_gpus_text(const struct capo_topology *t, const struct capo_alloc *a, char *text)
{
        struct capo_alloc b = {a->n_ranks, a->n_nodes, false, NULL};
        double now, most;
        char gpus[64], nics[256];

        *text = 0;
        if (a->n_ranks < 2 || a->n_ranks > RANKS_MOST || t->n_gpus > 16)
                return text;
        for (int i = 1; i < a->n_ranks; i++) { /* two ranks on one GPU: slices of it */
                if (a->ranks[i].node == a->ranks[i - 1].node &&
                    a->ranks[i].gpu == a->ranks[i - 1].gpu)
                        return text;
        }
        most = now = find_bound(t, a);
        b.ranks = xcalloc((size_t)a->n_ranks + 1, sizeof *b.ranks);
        memcpy(b.ranks, a->ranks, (size_t)a->n_ranks * sizeof *a->ranks);
        for (int n = 1; now > 0 && n < (int)t->n_gpus; n++) {
                for (int node = 0; node < a->n_nodes; node++) {
                        if (count_gpus(a, node) != n)
                                continue;
                        most = find_best_set(t, &b, n, most);
                        break;
                }
        }
        if (most > BETTER * now)
                capo_append(text, FRAGMENT_GPUS_TEXT,
                            "other GPUs of the machine: the links allow %.1f GB/s of bus bandwidth "
                            "(all-reduce) instead of %.1f: CUDA_DEVICE_ORDER=PCI_BUS_ID",
                            most, now);
        for (int node = 0, i = 0; node < a->n_nodes && *text; node++) {
                for (*gpus = 0; i < b.n_ranks && b.ranks[i].node == node; i++)
                        capo_append(gpus, sizeof gpus, "%s%d", *gpus ? "," : "",
                                    t->gpus[b.ranks[i].gpu].dev);
                capo_append(text, FRAGMENT_GPUS_TEXT, " CUDA_VISIBLE_DEVICES=%s%s", gpus,
                            nics_text(t, &b, node, nics, sizeof nics));
                if (a->n_nodes > 1)
                        capo_append(text, FRAGMENT_GPUS_TEXT, " on node %d%s", node,
                                    node + 1 < a->n_nodes ? "," : "");
        }
        free(b.ranks);
        return text;
}
