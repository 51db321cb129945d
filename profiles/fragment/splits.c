/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "capo/collectives.h"
#include "capo/msg.h"
#include "core/base/xalloc.h"
#include "profiles/fragment/splits.h"
#include "profiles/plan/symmetry.h"

static void add_split(struct splits *s, uint32_t one, uint32_t two, uint32_t stands_for)
{
        struct split *p = xput(s->splits, s->n_splits, .set = {one, two}, .stands_for = stands_for,
                               .rc = -ECANCELED);

        p->gpus = xcalloc((size_t)(s->k[0] + s->k[1]), sizeof *p->gpus);
        p->cells = xcalloc(s->question->n_asks, sizeof *p->cells);
        for (int node = 0; node < 2; node++) {
                for (size_t g = 0; g < s->n_devs; g++) {
                        if (p->set[node] & 1u << g)
                                p->gpus[p->n_gpus++] =
                                        (struct capo_plan_gpu){(uint16_t)node, s->devs[g]};
                }
        }
}

/* List the sets of @k GPUs that no symmetry maps to a smaller one, each with the size of its orbit. */
static int list_orbits(const struct capo_symmetry *symmetry, int k, uint32_t **sets,
                       uint32_t **counts, size_t *n)
{
        uint64_t end = 1ull << symmetry->n_gpus;
        size_t n_all = 0;

        *n = 0;
        for (uint64_t set = (1ull << k) - 1; set < end; set = capo_set_next(set)) {
                if (n_all++ == 1000000)
                        return -E2BIG;
        }
        for (uint64_t set = (1ull << k) - 1; set < end; set = capo_set_next(set)) {
                uint32_t least = capo_symmetry_least(symmetry, (uint32_t)set);
                size_t at = 0;

                while (at < *n && (*sets)[at] != least)
                        at++;
                if (at == *n) {
                        xarray_room(sets, *n, sizeof **sets);
                        xarray_room(counts, *n, sizeof **counts);
                        (*sets)[at] = least;
                        (*counts)[(*n)++] = 0;
                }
                (*counts)[at]++;
        }
        return 0;
}

/* Symmetry is only used between two nodes. On one node, NCCL breaks ties of its search by GPU
 * number, so that sets equal by symmetry can differ. Of the 56 5-GPU subsets of a DGX-1V, 2.28.9
 * gives 13 two channels where their 14 representatives would give 12; of the 3-GPU subsets, 8 of 16
 * use another path. So all are asked there; it takes seconds. */
static int list_splits(struct splits *s, char *why, size_t room)
{
        bool two = s->k[1] > 0, same = two && s->k[0] == s->k[1] && !s->all;
        struct capo_symmetry symmetry = {.n_gpus = s->n_devs};
        struct capo_topology *t = NULL;
        uint32_t *sets[2] = {NULL, NULL}, *counts[2] = {NULL, NULL};
        size_t n[2] = {1, 1};
        int r = 0;

        /* GPU numbers in the topology are sorted, like ours. Without it all are asked. */
        if (two && !s->all && s->question->n_topo == 1 &&
            capo_topology_read(s->question->topo[0], 0, 0, &t, why, room) == 0 &&
            t->n_gpus == s->n_devs)
                capo_symmetry_find(t, &symmetry);
        for (int k = 0; k < 1 + two && r == 0; k++)
                r = list_orbits(&symmetry, s->k[k], &sets[k], &counts[k], &n[k]);
        for (size_t i = 0; i < n[0] && r == 0; i++) {
                for (size_t k = 0; k < n[1]; k++) {
                        uint32_t stands = counts[0][i] * (two ? counts[1][k] : 1);

                        /* 4+4: the nodes themselves are interchangeable */
                        if (same && sets[1][k] < sets[0][i])
                                continue;
                        if (same && sets[1][k] != sets[0][i])
                                stands *= 2;
                        s->n_all += stands;
                        add_split(s, sets[0][i], two ? sets[1][k] : 0, stands);
                }
        }
        return r;
}

static void graph_text(const struct capo_plan_graph *g, char *text, size_t room)
{
        bool leaves = g && g->n_paths && strstr(g->paths[0], "net");

        if (!g)
                snprintf(text, room, "-");
        else if (leaves)
                snprintf(text, room, "%d x %g %s, %s", g->n_channels, g->speed_inter, g->type_intra,
                         g->type_inter);
        else
                snprintf(text, room, "%d x %g %s", g->n_channels, g->speed_intra, g->type_intra);
}

static int take_answer(size_t i, int rc, struct capo_plan_answer *answer, const char *why,
                       void *arg)
{
        struct splits *s = arg;
        struct split *p = &s->splits[i];

        p->rc = rc;
        snprintf(p->why, sizeof p->why, "%s", why);
        s->done++;
        if (s->progress)
                s->progress(s->done, s->n_splits);
        if (rc < 0)
                return rc == -ENOEXEC || rc == -ENOENT || rc == -EINTR
                               ? rc
                               : 0; /* further questions are useless */
        s->version = answer->version;
        p->nodes = answer->reported.n_nodes;
        graph_text(capo_plan_graph_find(answer, -1, 0), p->ring, sizeof p->ring);
        graph_text(capo_plan_graph_find(answer, -1, 1), p->tree, sizeof p->tree);
        for (size_t k = 0; k < answer->n_rows; k++) {
                const struct capo_plan_row *row = &answer->rows[k];

                p->cells[k] = (struct split_cell){row->algo, row->proto, row->channels, row->us,
                                                  row->busbw_gbs};
        }
        return 0;
}

static bool same_answer(const struct splits *s, const struct split *x, const struct split *y)
{
        if (x->rc != y->rc || x->nodes != y->nodes || strcmp(x->ring, y->ring) != 0 ||
            strcmp(x->tree, y->tree) != 0)
                return false;
        for (size_t k = 0; k < s->question->n_asks; k++) {
                const struct split_cell *c = &x->cells[k], *d = &y->cells[k];
                bool same_us = isnan(c->us) ? isnan(d->us) : c->us == d->us;

                if (c->algo != d->algo || c->proto != d->proto || c->channels != d->channels ||
                    !same_us)
                        return false;
        }
        return true;
}

/* Fastest first, by the last size. */
static int by_speed(const void *x, const void *y, void *arg)
{
        const struct splits *s = arg;
        size_t i = ((const struct split_group *)x)->first,
               k = ((const struct split_group *)y)->first, last = s->question->n_asks - 1;
        double u = s->splits[i].rc ? INFINITY : s->splits[i].cells[last].us;
        double v = s->splits[k].rc ? INFINITY : s->splits[k].cells[last].us;

        if (isnan(u) || isnan(v) || u == v)
                return i < k ? -1 : 1;
        return u < v ? -1 : 1;
}

static void group_splits(struct splits *s)
{
        for (size_t i = 0; i < s->n_splits; i++) {
                size_t g = 0;

                while (g < s->n_groups &&
                       !same_answer(s, &s->splits[i], &s->splits[s->groups[g].first]))
                        g++;
                if (g == s->n_groups)
                        *xadd(s->groups, s->n_groups) = (struct split_group){.first = i};
                s->groups[g].count += s->splits[i].stands_for;
        }
        if (s->n_groups)
                qsort_r(s->groups, s->n_groups, sizeof *s->groups, by_speed, s);
        for (size_t i = 0; i < s->n_splits; i++) {
                while (!same_answer(s, &s->splits[i],
                                    &s->splits[s->groups[s->splits[i].group].first]))
                        s->splits[i].group++;
        }
}

/* Compute classes and ceilings: for one node, of every allocation; for two nodes, which takes
 * longer, only of those that are printed first. */
static void set_bounds(struct splits *s)
{
        enum capo_coll coll = s->question->asks[s->question->n_asks - 1].coll;
        struct capo_topology *t = NULL;
        char why[512];

        if (capo_topology_read(s->question->topo[0], CAPO_TOPOLOGY_PARTIAL, 0, &t, why,
                               sizeof why) < 0)
                return; /* reported before, when NCCL was asked */
        for (size_t i = 0; i < s->n_splits && t->n_links; i++) {
                struct split *p = &s->splits[i];
                struct split_group *g = &s->groups[p->group];
                const struct fragment_bound *b = &p->bound;
                size_t k = 0;

                if (p->rc || (s->k[1] && g->first != i) ||
                    fragment_bound(t, p->gpus, p->n_gpus, &p->bound) < 0)
                        continue;
                g->hybrid |= b->hybrid;
                g->of = b->of[coll] > g->of ? b->of[coll] : g->of;
                g->low = g->n_classes ? fmin(g->low, b->busbw_gbs[coll]) : b->busbw_gbs[coll];
                g->high = fmax(g->high, b->busbw_gbs[coll]);
                while (k < g->n_classes && strcmp(g->classes[k], b->class) != 0)
                        k++;
                if (k == g->n_classes && k < N_ELEMENTS(g->classes))
                        g->classes[g->n_classes++] = b->class;
                else if (k == g->n_classes)
                        g->more_classes = true;
        }
        capo_topology_free(t);
}

int splits_ask(struct splits *s, char *why, size_t room)
{
        struct capo_plan_question *q;
        int r;

        *why = 0;
        r = list_splits(s, why, room);
        if (r)
                return r;
        q = xcalloc(s->n_splits + 1, sizeof *q);
        for (size_t i = 0; i < s->n_splits; i++) {
                q[i] = *s->question;
                q[i].gpus = s->splits[i].gpus;
                q[i].n_ranks = s->splits[i].n_gpus;
        }
        r = capo_plan_ask_all(q, s->n_splits, s->at_once, take_answer, s);
        if (!r)
                group_splits(s);
        if (!r && s->version)
                set_bounds(s);
        for (size_t i = 0; i < s->n_splits && (r < 0 || !s->version) && !*why; i++)
                capo_why(r, why, room, "%s", s->splits[i].why);
        return r < 0 ? r : s->version ? 0 : -EPROTO;
}
