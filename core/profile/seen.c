/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/profile/seen.h"
#include "core/base/util.h"

static bool looks_at_layout(const struct capo_when *w)
{
        return w->layout || w->min_local.max >= 0 || w->max_local.max >= 0;
}

/* Can the answer matter? A rule with a condition on the layout whose other settled conditions hold.
 */
static bool layout_matters(const struct capo_profile *p, const struct capo_shape *told)
{
        for (uint32_t i = 0; i < p->n_rules; i++) {
                struct capo_rule rule = p->rules[i];

                if (!looks_at_layout(&rule.when))
                        continue;
                rule.when.layout = NULL;
                rule.when.min_local = rule.when.max_local = CAPO_ANY;
                if (capo_rule_settled(&rule, told, NULL))
                        return true;
        }
        return false;
}

static bool layout_fits(const struct capo_layout_cost *c, const struct capo_shape *told)
{
        struct capo_layout l;

        if (c->n_ranks != (uint32_t)told->n_ranks || c->n_nodes != (uint32_t)told->n_nodes)
                return false;
        if (c->nccl.max >= 0 &&
            !(told->nccl > 0 && told->nccl >= c->nccl.min && told->nccl <= c->nccl.max))
                return false;
        if (capo_layout_parse(c->layout, &l, NULL) < 0)
                return false;
        return (told->min_local < 0 || capo_layout_smallest(&l) == (uint32_t)told->min_local) &&
               (told->max_local < 0 || capo_layout_largest(&l) == (uint32_t)told->max_local);
}

static int layout_index(struct capo_seen *s, const char *layout)
{
        for (int i = 0; i < s->n_layouts; i++) {
                if (!strcmp(s->layout[i], layout))
                        return i;
        }
        if (s->n_layouts == CAPO_SEEN_LAYOUTS)
                return -E2BIG;
        s->layout[s->n_layouts] = layout;
        return s->n_layouts++;
}

int capo_seen_new(const struct capo_profile *p, const struct capo_shape *told,
                  const struct capo_layout_why *why, const char *claim, struct capo_seen **out)
{
        struct capo_seen *s;
        int r = 0;

        *out = NULL;
        if (why->source == CAPO_LAYOUT_NCCL || told->n_nodes < 2 || !p->n_layouts ||
            !layout_matters(p, told))
                return 0;
        s = calloc(1, sizeof *s);
        if (!s)
                return -ENOMEM;
        s->n_ranks = told->n_ranks;
        s->claim = -1;
        s->of = calloc(p->n_layouts, sizeof *s->of);
        for (int c = 0; c < CAPO_COLLS; c++)
                s->cost[c] = calloc(p->n_layouts, sizeof *s->cost[c]);
        for (uint32_t i = 0; i < p->n_layouts && r >= 0; i++) {
                const struct capo_layout_cost *l = &p->layouts[i];

                if (!layout_fits(l, told))
                        continue;
                r = layout_index(s, l->layout);
                for (int c = 0; c < CAPO_COLLS && r >= 0; c++) {
                        if (!s->of || !s->cost[c])
                                r = -ENOMEM;
                        else if (l->gbs[c] > 0)
                                s->cost[c][s->n_costs] =
                                        (struct capo_seen_cost){l->us[c], 1e-3 / l->gbs[c]};
                }
                if (r >= 0)
                        s->of[s->n_costs++] = (uint8_t)r;
        }
        for (int i = 0; i < s->n_layouts && claim; i++) {
                if (!strcmp(s->layout[i], claim))
                        s->claim = i;
        }
        for (int c = 0; c < CAPO_COLLS && r >= 0; c++) { /* a list with gaps is none */
                s->listed[c] = true;
                for (uint32_t i = 0; i < s->n_costs; i++)
                        s->listed[c] &= s->cost[c][i].us_per_byte > 0;
        }
        if (r < 0 || !s->n_costs || (claim && s->claim < 0)) {
                capo_seen_free(s);
                return r == -ENOMEM ? r : 0;
        }
        *out = s;
        return 0;
}

void capo_seen_free(struct capo_seen *s)
{
        if (!s)
                return;
        for (int c = 0; c < CAPO_COLLS; c++)
                free(s->cost[c]);
        free(s->of);
        free(s);
}

/* The layout whose costs agree with @us; the launcher's, if it is among them; -1: none, or several.
 */
static int find_cost_layout(const struct capo_seen *s, unsigned coll, double bytes, double ops,
                            double us)
{
        int found = -1;
        bool several = false;

        for (uint32_t i = 0; i < s->n_costs; i++) {
                const struct capo_seen_cost *c = &s->cost[coll][i];

                if (fabs(c->us * ops + bytes * c->us_per_byte - us) > us * CAPO_SEEN_TOLERANCE)
                        continue;
                if (s->of[i] == s->claim)
                        return s->claim;
                several |= found >= 0 && found != s->of[i];
                found = s->of[i];
        }
        return several || s->claim >= 0 ? -1 : found;
}

int capo_seen_find(const struct capo_seen *s, unsigned coll, uint64_t bytes, int pipe_ops,
                   double us)
{
        double ops = pipe_ops > 1 ? pipe_ops : 1;
        int i;

        if (coll >= CAPO_COLLS || !s->listed[coll] || !(us > 0) ||
            bytes < (uint64_t)s->n_ranks * CAPO_SEEN_BYTES_PER_RANK)
                return CAPO_SEEN_UNASKED;
        i = find_cost_layout(s, coll, (double)bytes, ops, us);
        /* fp8 over more than 8 ranks: NCCL 2.24 and later make rings dear on purpose (enqueue.cc)
         */
        if (i < 0 && coll == CAPO_COLL_ALLREDUCE && s->n_ranks > 8)
                i = find_cost_layout(s, coll, (double)bytes, ops, us / 1024);
        return i;
}

static bool same_list(const struct capo_layout_cost *a, const struct capo_layout_cost *b)
{
        return a->n_ranks == b->n_ranks && a->n_nodes == b->n_nodes && a->nccl.min == b->nccl.min &&
               a->nccl.max == b->nccl.max;
}

struct gap {
        const struct capo_profile *p;
        const struct capo_layout_cost *of;
        uint32_t largest, tried;
        char *text;
        size_t room;
};

/*
 * All layouts with rising nodes; true at the first that is not listed. @nodes nodes with @left
 * ranks are not in @l yet, none has fewer than @least. They can be filled: @nodes * @least <= @left
 * <= @nodes * largest. A step is all nodes of one size, so there are no more steps than sizes,
 * however many nodes.
 */
static bool find_gap(struct gap *g, struct capo_layout l, uint64_t nodes, uint64_t left,
                     uint64_t least)
{
        uint64_t room = nodes * g->largest - left; /* ranks that could be added */
        bool listed = false;

        for (uint64_t s = least + room > g->largest ? least : g->largest - room;
             nodes && s * nodes <= left; s++) {
                /* as many of them that the others, which are larger, can have the rest */
                uint64_t fewest = (s + 1) * nodes > left ? (s + 1) * nodes - left : 1;

                for (uint64_t n = s < g->largest ? room / (g->largest - s) : nodes; n >= fewest;
                     n--) {
                        struct capo_layout next = l;

                        if (capo_layout_add(&next, (uint32_t)s, (uint32_t)n) < 0)
                                return false; /* of more sizes than a layout can have */
                        if (find_gap(g, next, nodes - n, left - n * s, s + 1))
                                return true;
                }
        }
        if (nodes)
                return false;
        *g->text = 0;
        if (g->tried++ > CAPO_SEEN_LAYOUTS)
                return true; /* more than a tuner would look at: it is not asked, whole or not */
        capo_layout_print(&l, g->text, g->room);
        for (uint32_t k = 0; k < g->p->n_layouts && !listed; k++)
                listed = same_list(&g->p->layouts[k], g->of) &&
                         !strcmp(g->p->layouts[k].layout, g->text);
        return !listed;
}

bool capo_seen_gap(const struct capo_profile *p, uint32_t i, char *text, size_t room)
{
        struct gap g = {.p = p, .of = &p->layouts[i], .text = text, .room = room};

        for (uint32_t k = 0; k < p->n_layouts; k++) {
                struct capo_layout l;

                if (!same_list(&p->layouts[k], g.of))
                        continue;
                if (k < i)
                        return false;
                if (capo_layout_parse(p->layouts[k].layout, &l, NULL) == 0 &&
                    capo_layout_largest(&l) > g.largest)
                        g.largest = capo_layout_largest(&l);
        }
        return find_gap(&g, (struct capo_layout){0}, g.of->n_nodes, g.of->n_ranks, 1) && *text;
}

void capo_seen_settle(const struct capo_profile *p, struct capo_shape *shape, const char *launcher,
                      char *text, size_t room, const struct capo_question *q, double us,
                      struct capo_layout_why *why)
{
        struct capo_shape told = *shape;
        struct capo_layout_why unused;
        struct capo_seen *s = NULL;
        int i;

        why = why ? why : &unused;
        capo_shape_fill(shape, launcher, text, room, why);
        if (!p || capo_seen_new(p, &told, why, shape->layout, &s) < 0 || !s)
                return;
        i = capo_seen_find(s, q->coll, q->bytes, q->pipe_ops, us);
        if (i >= 0 && i == s->claim) {
                why->text = "the launcher's layout, and NCCL's cost table agrees";
        } else if (i != CAPO_SEEN_UNASKED) {
                *shape = told;
                why->dropped |= s->claim >= 0;
                why->source = i < 0 ? CAPO_LAYOUT_UNKNOWN : CAPO_LAYOUT_TABLE;
                if (i >= 0)
                        capo_shape_claim(shape, s->layout[i], text, room);
                why->text =
                        s->claim >= 0 ? CAPO_SEEN_CONTRADICTS
                        : i < 0 ? "not known: the cost table fits no layout of the profile's list, or several"
                                : "NCCL's cost table fits this layout alone of the profile's list";
        }
        capo_seen_free(s);
}
