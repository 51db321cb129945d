/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions on numbers and places of ranks that contradict each other. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/layout.h"
#include "core/profile/range.h"
#include "core/profile/when_never.h"

static bool outside(struct capo_range range, double value)
{
        return !capo_range_any(range) && (value < range.min || value > range.max);
}

static bool is_list(const char *layout)
{
        return layout && strcmp(layout, "even") && strcmp(layout, "uneven");
}

/* Against the list of ranks per node. */
static bool contradicts_layout(const struct capo_when *w, char *why, size_t room)
{
        struct capo_layout l;

        if (!is_list(w->layout) || capo_layout_parse(w->layout, &l, NULL) < 0)
                return false;
        snprintf(why, room, "layout %s has %u nodes and %u ranks, %u to %u on a node", w->layout,
                 l.n_nodes, l.n_ranks, capo_layout_smallest(&l), capo_layout_largest(&l));
        return outside(w->nodes, l.n_nodes) || outside(w->ranks, l.n_ranks) ||
               outside(w->min_local, capo_layout_smallest(&l)) ||
               outside(w->max_local, capo_layout_largest(&l));
}

static bool contradicts_trays(const struct capo_when *w, char *why, size_t room)
{
        struct capo_layout l;

        if (!w->trays || capo_layout_parse(w->trays, &l, NULL) < 0)
                return false;
        snprintf(why, room, "trays %s have %u ranks on at most %u nodes", w->trays, l.n_ranks,
                 l.n_nodes);
        return outside(w->ranks, l.n_ranks) || w->nodes.min > l.n_nodes;
}

static bool contradicts_counts(const struct capo_when *w, char *why, size_t room)
{
        double nodes = capo_range_any(w->nodes) ? 1 : w->nodes.min,
               ranks = capo_range_any(w->ranks) ? INFINITY : w->ranks.max,
               least = capo_range_any(w->min_local) ? 1 : w->min_local.min,
               most = capo_range_any(w->max_local) ? INFINITY : w->max_local.max;
        bool even = w->layout && !strcmp(w->layout, "even"),
             uneven = w->layout && !strcmp(w->layout, "uneven"),
             exact = w->nodes.min == w->nodes.max && w->ranks.min == w->ranks.max && nodes > 1 &&
                     ranks < INFINITY;
        const char *what = ranks < nodes           ? "fewer ranks than nodes"
                           : least > most          ? "min_local above max_local"
                           : ranks < nodes * least ? "fewer ranks than min_local on each node"
                           : even && exact && fmod(ranks, nodes) > 0
                                   ? "so many ranks are not even on so many nodes"
                           : uneven && !capo_range_any(w->nodes) && w->nodes.max < 2
                                   ? "one node is even"
                                   : "";

        snprintf(why, room, "%s", what);
        return *what;
}

bool capo_when_never(const struct capo_when *w, char *why, size_t room)
{
        return contradicts_layout(w, why, room) || contradicts_trays(w, why, room) ||
               contradicts_counts(w, why, room);
}
