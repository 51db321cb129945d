/* SPDX-License-Identifier: Apache-2.0 */
/* Maximum flow in whole numbers (Dinic). A network is built once and can be solved many times. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define FLOW_INFINITE (INT64_MAX / 4)

struct flow_arc {
        int to, next; /* next arc of the same vertex, or -1; arc i ^ 1 is the reverse */
        int64_t cap, left;
};

struct flow {
        int n, n_arcs, room_v, room_a;
        int *head, *level, *at, *queue;
        struct flow_arc *arcs;
};

void flow_begin(struct flow *f, int n_vertices); /* empties it; keeps its memory */
void flow_free(struct flow *f);

/** flow_add() - add an arc; @back is the capacity of its reverse (0: one-way). */
void flow_add(struct flow *f, int from, int to, int64_t cap, int64_t back);

/** flow_max() - value of a maximum flow; stops at @enough. Capacities do not change: each call
 * starts anew. */
int64_t flow_max(struct flow *f, int s, int t, int64_t enough);

/** flow_side() - is @v on the source's side of the smallest cut with the fewest vertices there?
 * Valid after a flow_max() that did not stop early. */
static inline bool flow_side(const struct flow *f, int v) { return f->level[v] >= 0; }
