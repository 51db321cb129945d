/* SPDX-License-Identifier: Apache-2.0 */
/* Dinic's algorithm. set_levels() numbers the vertices by their distance from the source over arcs
 * with capacity left. push_flow() then fills every path that rises one level per arc; `at`
 * remembers the exhausted arcs of a vertex, so that none is tried twice. Each round's distance is
 * larger, so there are fewer rounds than vertices. When the sink is out of reach, the vertices with
 * a level are the source's side of a smallest cut (flow_side).
 *
 * These networks have tens of vertices. The only optimisation is not to allocate between calls. */
#include "core/base/xalloc.h"
#include "profiles/fragment/flow.h"

void flow_begin(struct flow *f, int n)
{
        f->n = n;
        f->n_arcs = 0;
        if (n > f->room_v) {
                f->head = xrealloc(f->head, 4 * sizeof *f->head * (size_t)n);
                f->room_v = n;
        }
        f->level = f->head + n;
        f->at = f->level + n;
        f->queue = f->at + n;
        for (int i = 0; i < n; i++)
                f->head[i] = -1;
}

void flow_free(struct flow *f)
{
        free(f->head);
        free(f->arcs);
        memset(f, 0, sizeof *f);
}

void flow_add(struct flow *f, int from, int to, int64_t cap, int64_t back)
{
        if (f->n_arcs + 2 > f->room_a) {
                f->room_a = f->room_a ? 2 * f->room_a : 64;
                f->arcs = xrealloc(f->arcs, sizeof *f->arcs * (size_t)f->room_a);
        }
        f->arcs[f->n_arcs] = (struct flow_arc){.to = to, .next = f->head[from], .cap = cap};
        f->head[from] = f->n_arcs++;
        f->arcs[f->n_arcs] = (struct flow_arc){.to = from, .next = f->head[to], .cap = back};
        f->head[to] = f->n_arcs++;
}

static bool set_levels(struct flow *f, int s, int t)
{
        int first = 0, last = 0;

        for (int i = 0; i < f->n; i++)
                f->level[i] = -1;
        f->level[s] = 0;
        f->queue[last++] = s;
        while (first < last) {
                int v = f->queue[first++];

                for (int a = f->head[v]; a >= 0; a = f->arcs[a].next) {
                        int w = f->arcs[a].to;

                        if (f->arcs[a].left > 0 && f->level[w] < 0) {
                                f->level[w] = f->level[v] + 1;
                                f->queue[last++] = w;
                        }
                }
        }
        return f->level[t] >= 0;
}

static int64_t push_flow(struct flow *f, int v, int t, int64_t most)
{
        int64_t done = 0;

        if (v == t)
                return most;
        for (int *a = &f->at[v]; *a >= 0; *a = f->arcs[*a].next) {
                struct flow_arc *arc = &f->arcs[*a];
                int64_t got;

                if (arc->left <= 0 || f->level[arc->to] != f->level[v] + 1)
                        continue;
                got = push_flow(f, arc->to, t, most - done < arc->left ? most - done : arc->left);
                arc->left -= got;
                f->arcs[*a ^ 1].left += got;
                done += got;
                if (done == most) /* keep *a: this arc may have capacity left */
                        return done;
        }
        return done;
}

int64_t flow_max(struct flow *f, int s, int t, int64_t enough)
{
        int64_t total = 0;

        for (int i = 0; i < f->n_arcs; i++)
                f->arcs[i].left = f->arcs[i].cap;
        while (total < enough && set_levels(f, s, t)) {
                memcpy(f->at, f->head, sizeof *f->at * (size_t)f->n);
                total += push_flow(f, s, t, enough - total);
        }
        return total;
}
