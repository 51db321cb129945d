/* SPDX-License-Identifier: Apache-2.0 */

#include "capo/collectives.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/xalloc.h"
#include "profiles/fragment/fragment_orders.h"
#include "profiles/import/import.h"

/* Do two nodes of the allocation use the same GPUs? */
static bool nodes_alike(const struct capo_alloc *a, int x, int y)
{
        int i = 0, k = 0, n = a->n_ranks;

        for (;; i++, k++) {
                for (; i < n && a->ranks[i].node != x; i++)
                        ;
                for (; k < n && a->ranks[k].node != y; k++)
                        ;
                if (i == n || k == n || a->ranks[i].gpu != a->ranks[k].gpu)
                        return i == n && k == n;
        }
}

bool fragment_nodes_differ(const struct capo_alloc *a)
{
        for (int i = 1; i < a->n_nodes; i++) {
                if (!nodes_alike(a, 0, i))
                        return true;
        }
        return false;
}

static void name_order(const struct capo_topology *t, const struct capo_alloc *a,
                       struct fragment_order *o)
{
        _cleanup_(capo_alloc_free) struct capo_alloc b = {
                .n_ranks = a->n_ranks,
                .n_nodes = a->n_nodes,
                .ranks = xcalloc((size_t)a->n_ranks + 1, sizeof *b.ranks)};
        struct capo_layout layout;
        int at = 0;

        for (int k = 0; k < a->n_nodes; k++) {
                for (int i = 0; i < a->n_ranks; i++) {
                        if (a->ranks[i].node == o->nodes[k])
                                b.ranks[at++] = (struct capo_alloc_rank){k, a->ranks[i].gpu};
                }
        }
        capo_alloc_layout(&b, &layout);
        capo_layout_print(&layout, o->layout, sizeof o->layout);
        capo_class_name(t, &b, o->class_name, sizeof o->class_name);
}

/* The next order of the kinds @kind, which rise at first; false: that was the last. */
static bool next_order(int *kind, int n)
{
        int i = n - 1, k = n - 1, x;

        while (i > 0 && kind[i - 1] >= kind[i])
                i--;
        if (i == 0)
                return false;
        while (kind[k] <= kind[i - 1])
                k--;
        x = kind[i - 1], kind[i - 1] = kind[k], kind[k] = x;
        for (k = n - 1; i < k; i++, k--)
                x = kind[i], kind[i] = kind[k], kind[k] = x;
        return true;
}

/* All orders of the kinds of node, the one asked first. Return: false: too many. */
static bool list_orders(const struct capo_alloc *a, struct fragment_orders *out)
{
        int asked[FRAGMENT_ORDER_NODES], kind[FRAGMENT_ORDER_NODES], n = a->n_nodes;

        for (int i = 0; i < n; i++) {
                for (asked[i] = 0; !nodes_alike(a, asked[i], i); asked[i]++)
                        ;
                kind[i] = asked[i];
        }
        for (int i = 1; i < n; i++) { /* by insertion: a handful */
                for (int k = i, x = kind[i]; k > 0 && kind[k - 1] > x; k--)
                        kind[k] = kind[k - 1], kind[k - 1] = x;
        }
        out->n = 1; /* the first is filled by the order asked */
        do {
                struct fragment_order *o =
                        &out->v[memcmp(kind, asked, (size_t)n * sizeof *kind) ? out->n : 0];
                bool used[FRAGMENT_ORDER_NODES] = {false};

                if (o != out->v && ++out->n > FRAGMENT_ORDERS)
                        return false;
                for (int i = 0; i < n; i++) { /* a node of this kind that is not placed yet */
                        int node = kind[i];

                        while (used[node] || asked[node] != kind[i])
                                node++;
                        used[node] = true;
                        o->nodes[i] = node;
                }
        } while (next_order(kind, n));
        return out->n > 1;
}

int fragment_orders(struct fragment_model *f, const struct capo_topology *t,
                    const struct capo_alloc *a,
                    int (*each)(void *user, const struct fragment_order *order), void *user,
                    struct fragment_orders *out)
{
        int r = 0;

        memset(out, 0, sizeof *out);
        for (size_t i = 0; i < f->nccl.n_rows; i++) {
                if (f->nccl.rows[i].coll == CAPO_COLL_ALLREDUCE)
                        out->row = i;
        }
        if (a->n_nodes < 3 || a->n_nodes > FRAGMENT_ORDER_NODES || *f->why_not || !f->nccl.n_rows ||
            f->nccl.rows[out->row].coll != CAPO_COLL_ALLREDUCE || !list_orders(a, out)) {
                out->n = 0;
                return 0;
        }
        for (int i = 0; i < out->n && r == 0; i++) {
                struct fragment_order *o = &out->v[i];
                const struct capo_plan_row *row = &f->nccl.rows[out->row];

                name_order(t, a, o);
                r = fragment_model_reorder(f, o->nodes, a->n_nodes);
                o->best = fragment_fastest(f->cost[out->row]);
                o->best_us = fragment_cost(f->cost[out->row], o->best);
                o->own_us =
                        fragment_cost(f->cost[out->row], CAPO_ALGO_PROTO(row->algo, row->proto));
                out->best = o->best_us < out->v[out->best].best_us ? i : out->best;
                out->own = o->own_us < out->v[out->own].own_us ? i : out->own;
                if (r == 0 && each)
                        r = each(user, o);
        }
        return r ?: fragment_model_reorder(f, out->v[0].nodes, a->n_nodes);
}

char *fragment_orders_text(const struct fragment_orders *o, const struct fragment_model *f,
                           int n_ranks, char *text, size_t room)
{
        const struct fragment_order *asked = &o->v[0], *own = &o->v[o->own], *best = &o->v[o->best];
        const struct capo_plan_row *row = &f->nccl.rows[o->row];
        double bus = (double)row->bytes / 1000 *
                     capo_busbw_factor(capo_coll_kind(row->coll), (unsigned)n_ranks);
        char size[16];

        *text = 0;
        if (!o->n || !(own->own_us < 0.99 * asked->own_us ||
                       best->best_us <= (1 - CAPO_MODEL_MARGIN) * asked->best_us))
                return text; /* the second needs a setting, too */
        capo_size_print(row->bytes, size, sizeof size);
        if (own->own_us < 0.99 * asked->own_us)
                snprintf(text, room,
                         "best order of the nodes %s: all-reduce of %s by NCCL's own choice %.1f "
                         "GB/s of bus bandwidth, predicted, instead of %.1f: %.0f %% less time",
                         own->layout, size, bus / own->own_us, bus / asked->own_us,
                         100 * (1 - own->own_us / asked->own_us));
        else
                snprintf(
                        text, room,
                        "best order of the nodes %s: all-reduce of %s with %s %s %.1f GB/s of bus "
                        "bandwidth, predicted, and at most %.1f with any choice in this order: "
                        "%.0f %% less time; NCCL's own choice is as fast in both orders, so it also needs "
                        "NCCL_ALGO=allreduce:%s (NCCL 2.24 and later)",
                        best->layout, size, capo_ran_algo(best->best), capo_ran_proto(best->best),
                        bus / best->best_us, bus / asked->best_us,
                        100 * (1 - best->best_us / asked->best_us), capo_ran_algo(best->best));
        return text;
}
