/* SPDX-License-Identifier: Apache-2.0 */
/* Maximum flow, whole numbers (Dinic). One network is built once and may be asked often. */
#ifndef CAPO_FRAGMENT_FLOW_H
#define CAPO_FRAGMENT_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#define FLOW_INFINITE (INT64_MAX / 4)

struct flow_arc {
        int to, next; /* next arc of the same vertex, or -1; arc i ^ 1 is the way back */
        int64_t cap, left;
};

struct flow {
        int n, n_arcs, room_v, room_a;
        int *head, *level, *at, *queue;
        struct flow_arc *arcs;
        bool no_memory; /* an add failed: every answer is meaningless */
};

void flow_begin(struct flow *f, int n_vertices); /* empties it; keeps its memory */
void flow_free(struct flow *f);

/** flow_add() - an arc; @back is the capacity of the way back (0 for one-way). */
void flow_add(struct flow *f, int from, int to, int64_t cap, int64_t back);

/** flow_max() - value of a maximum flow, at most @enough (stops when it is reached). Capacities are
 * kept: each call starts anew. */
int64_t flow_max(struct flow *f, int s, int t, int64_t enough);

/** flow_side() - after flow_max() that was not stopped: is @v on the source's side of the smallest
 * source-side cut? */
static inline bool flow_side(const struct flow *f, int v)
{
        return f->level[v] >= 0;
}

#endif
