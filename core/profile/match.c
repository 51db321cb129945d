/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which rules hold for a communicator or a question, and which of them comes first. */
#include <fnmatch.h>
#include <math.h>

#include "core/base/order.h"
#include "core/base/text.h"
#include "core/profile/match.h"
#include "core/profile/range.h"

/* ---- what is known about a communicator ---- */

void capo_shape_fill(struct capo_shape *s, const char *launcher, char *text, size_t room,
                     struct capo_layout_why *why)
{
        const struct capo_layout_reported reported = {s->n_ranks, s->n_nodes, s->min_local,
                                                      s->max_local};
        struct capo_layout world, layout;
        bool known = launcher && *launcher && capo_layout_parse(launcher, &world, NULL) == 0;

        s->layout = NULL;
        *s->trays = 0;
        if (known && world.n_ranks == (uint32_t)s->n_ranks && s->n_nodes > 0 &&
            world.n_nodes >= (uint32_t)s->n_nodes)
                capo_layout_print(&world, s->trays, sizeof s->trays);
        if (capo_layout_of_comm(known ? &world : NULL, &reported, &layout, why) < 0)
                return;
        s->layout = capo_layout_print(&layout, text, room);
        s->min_local = (int)capo_layout_smallest(&layout);
        s->max_local = (int)capo_layout_largest(&layout);
}

/* ---- conditions ---- */

#define BARRED "basis: modelled, not allowed (--allow-modelled)"

/* @value < 0: not known, which only "any" matches. */
static bool range_includes(struct capo_range r, double value)
{
        return capo_range_any(r) || (value >= 0 && value >= r.min && value <= r.max);
}

static bool layout_holds(const char *wanted, const struct capo_shape *s)
{
        bool known = s->min_local >= 0 && s->max_local >= 0;

        if (!strcmp(wanted, "even"))
                return known && s->min_local == s->max_local;
        if (!strcmp(wanted, "uneven"))
                return known && s->min_local < s->max_local;
        return s->layout && capo_layout_text_covers(wanted, s->layout);
}

static bool trays_hold(const char *wanted, const struct capo_shape *s)
{
        struct capo_layout trays;
        bool even;

        if (!*s->trays || capo_layout_parse(s->trays, &trays, NULL) < 0)
                return false;
        even = capo_layout_smallest(&trays) == capo_layout_largest(&trays);
        return !strcmp(wanted, "even")     ? even
               : !strcmp(wanted, "uneven") ? !even
                                           : capo_layout_text_covers(wanted, s->trays);
}

enum { CONDITIONS = 9 };

/* The keys of the conditions that do not hold. Return: how many. */
static unsigned missed_conditions(const struct capo_when *w, const struct capo_shape *s,
                                  const char *missed[CONDITIONS])
{
        const struct {
                const char *key;
                bool holds;
        } by[CONDITIONS] = {
                {"nodes", range_includes(w->nodes, s->n_nodes)},
                {"ranks", range_includes(w->ranks, s->n_ranks)},
                {"layout", !w->layout || layout_holds(w->layout, s)},
                {"trays", !w->trays || trays_hold(w->trays, s)},
                {"min_local", range_includes(w->min_local, s->min_local)},
                {"max_local", range_includes(w->max_local, s->max_local)},
                {"class",
                 !w->class_name || (s->class_name && !strcmp(w->class_name, s->class_name))},
                {"nccl", range_includes(w->nccl, s->nccl > 0 ? s->nccl : -1)},
                {"comm", !w->comm || (s->comm && !fnmatch(w->comm, s->comm, 0))},
        };
        unsigned n = 0;

        for (size_t i = 0; i < N_ELEMENTS(by); i++) {
                if (!by[i].holds)
                        missed[n++] = by[i].key;
        }
        return n;
}

bool capo_when_settled(const struct capo_when *w, const struct capo_shape *s, const char **why)
{
        const char *missed[CONDITIONS] = {NULL};
        unsigned n = missed_conditions(w, s, missed);

        if (why)
                *why = missed[0];
        return n == 0;
}

char *capo_match_nearest(const struct capo_profile *p, const struct capo_shape *s, char *text,
                         size_t room)
{
        const struct capo_rule *nearest = NULL;
        unsigned least = CONDITIONS + 2;
        char when[400];

        *text = 0;
        for (uint32_t r = 0; r < p->n_rules; r++) {
                const struct capo_rule *rule = &p->rules[r];
                const char *missed[CONDITIONS];
                unsigned n = missed_conditions(&rule->when, s, missed);
                bool barred = rule->basis == CAPO_BASIS_MODELLED && !s->allow_modelled;

                if (n + barred >= least)
                        continue;
                least = n + barred;
                nearest = rule;
                *text = 0;
                for (unsigned i = 0; i < n; i++)
                        capo_append(text, room, "%s%s", i ? ", " : "", missed[i]);
                if (barred)
                        capo_append(text, room, "%s%s", n ? ", " : "", BARRED);
        }
        if (nearest && least) {
                capo_when_print(&nearest->when, when, sizeof when);
                capo_append(text, room, "; the nearest rule%s is for %s",
                            p->n_rules > 1 ? "" : ", the only one,", when);
        }
        return text;
}

bool capo_rule_settled(const struct capo_rule *rule, const struct capo_shape *s, const char **why)
{
        if (!capo_when_settled(&rule->when, s, why))
                return false;
        if (rule->basis != CAPO_BASIS_MODELLED || s->allow_modelled)
                return true;
        if (why)
                *why = BARRED;
        return false;
}

bool capo_when_asks(const struct capo_when *w)
{
        return !capo_range_any(w->pipe_ops) || !capo_range_any(w->ring_gbs) ||
               !capo_range_any(w->tree_gbs) || w->link || w->reg_buff >= 0;
}

bool capo_when_asked(const struct capo_when *w, const struct capo_question *q)
{
        return range_includes(w->pipe_ops, q->pipe_ops) &&
               range_includes(w->ring_gbs, q->ring_gbs) &&
               range_includes(w->tree_gbs, q->tree_gbs) && (!w->link || w->link == q->link) &&
               (w->reg_buff < 0 || w->reg_buff == q->reg_buff);
}

/* ---- order ---- */

/* 0 a single value, more the wider, none the widest */
static double range_width(struct capo_range r)
{
        return capo_range_any(r) ? INFINITY : isinf(r.max) ? 1e300 : r.max - r.min;
}

static int by_width(struct capo_range a, struct capo_range b)
{
        double x = range_width(a), y = range_width(b);

        return CAPO_ORDER(x, y);
}

static int layout_rank(const char *layout)
{
        return !layout                            ? 3
               : *layout == 'e' || *layout == 'u' ? 2
                                                  : strstr(layout, CAPO_LAYOUT_ANY) != NULL;
}

int capo_rule_compare(const struct capo_profile *p, uint32_t ia, uint32_t ib, const char **why)
{
        const struct capo_when *a = &p->rules[ia].when, *b = &p->rules[ib].when;
        const struct {
                const char *key;
                int order;
        } by[] = {
                {"comm", !a->comm - !b->comm},
                {"class", !a->class_name - !b->class_name},
                {"layout", layout_rank(a->layout) - layout_rank(b->layout)},
                {"trays", layout_rank(a->trays) - layout_rank(b->trays)},
                {"ranks", by_width(a->ranks, b->ranks)},
                {"nodes", by_width(a->nodes, b->nodes)},
                {"min_local", by_width(a->min_local, b->min_local)},
                {"max_local", by_width(a->max_local, b->max_local)},
                {"link", !a->link - !b->link},
                {"ring_gbs", by_width(a->ring_gbs, b->ring_gbs)},
                {"tree_gbs", by_width(a->tree_gbs, b->tree_gbs)},
                {"nccl", by_width(a->nccl, b->nccl)},
                {"pipe_ops", by_width(a->pipe_ops, b->pipe_ops)},
                {"reg_buff", (a->reg_buff < 0) - (b->reg_buff < 0)},
                {"basis", p->rules[ia].basis - p->rules[ib].basis},
        };

        for (size_t i = 0; i < N_ELEMENTS(by) && !p->csv; i++) {
                if (by[i].order) {
                        if (why)
                                *why = by[i].key;
                        return by[i].order;
                }
        }
        if (why)
                *why = "place in the file";
        return CAPO_ORDER(ia, ib);
}

static int by_preference(const void *a, const void *b, void *profile)
{
        return capo_rule_compare(profile, *(const uint32_t *)a, *(const uint32_t *)b, NULL);
}

int capo_match(const struct capo_profile *p, const struct capo_shape *shape, uint32_t **order)
{
        uint32_t *list = malloc((p->n_rules + 1) * sizeof *list);
        int n = 0;

        if (!list)
                return -ENOMEM;
        for (uint32_t i = 0; i < p->n_rules; i++) {
                if (!shape || capo_rule_settled(&p->rules[i], shape, NULL))
                        list[n++] = i;
        }
        if (!p->csv) /* a CSV is in order as it stands */
                qsort_r(list, (size_t)n, sizeof *list, by_preference, (void *)p);
        *order = list;
        return n;
}
