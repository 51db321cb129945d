/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All channels are equally fast, so what counts is the fullest link. Each channel takes the way that is cheapest when
 * links cost the more the fuller they are, exponentially (Aspnes and others 1997, for routes on line); then each is
 * taken out and laid anew, as long as that helps. The cheapest way is Held and Karp's table over sets of GPUs, with a
 * price for coming in, one for going out, and one for being second.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util.h"
#include "profiles/fragment/net.h"
#include "profiles/fragment/rails.h"

#define NICS_MAX 32
#define ROUNDS   24

struct rails {
        struct ways ways;
        int n, n_nics;
        int nic[NICS_MAX]; /* index in the topology */
        struct way gpu[RAILS_GPUS][RAILS_GPUS], in[NICS_MAX][RAILS_GPUS], out[NICS_MAX][RAILS_GPUS];
        double first, second; /* how often a tree goes through the NIC at its first and at its second GPU */
        double *cost;         /* [set * n + last] */
        int8_t *before;
};

static int no(char *why, size_t room, const char *text)
{
        snprintf(why, room, "%s", text);
        return -ENOTSUP;
}

int rails_new(const struct capo_topology *t, const struct capo_alloc *a, int node, int n_nodes, int pattern,
              struct rails **out, char *why, size_t room)
{
        struct rails *r = calloc(1, sizeof *r);
        int gpus[RAILS_GPUS], e = 0;

        if (!r)
                return -ENOMEM;
        for (int i = 0; i < a->n_ranks && !e; i++) {
                if (a->ranks[i].node != node)
                        continue;
                if (r->n == RAILS_GPUS)
                        e = no(why, room, "more than 12 GPUs of one machine");
                else if (t->gpus[a->ranks[i].gpu].pci < 0 || t->gpus[a->ranks[i].gpu].cpu < 0)
                        e = no(why, room, "the description does not say where the GPUs are on PCI");
                else
                        gpus[r->n++] = a->ranks[i].gpu;
        }
        for (size_t i = 0; i < t->n_nics && !e; i++) {
                if (t->nics[i].dev != (int)i)
                        e = no(why, room, "NICs are not numbered in the order of the description");
                else if (fragment_nic_counts(t, i) && r->n_nics < NICS_MAX)
                        r->nic[r->n_nics++] = (int)i;
        }
        if (!e && (!t->pci_known || !r->n_nics))
                e = no(why, room, "several machines: their PCI and NICs are not described");
        r->first = n_nodes == 2 ? 1 : pattern == 3 ? 2 : 1.5;
        r->second = n_nodes == 2 || pattern == 3 ? 0 : .5;
        r->cost = calloc((size_t)r->n << r->n, sizeof *r->cost);
        r->before = calloc((size_t)r->n << r->n, sizeof *r->before);
        if (!e && (ways_new(t, &r->ways) < 0 || !r->cost || !r->before))
                e = -ENOMEM;
        for (int u = 0; u < r->n && !e; u++) {
                for (int v = 0; v < r->n; v++)
                        r->gpu[u][v] = way_between(&r->ways, gpus, r->n, gpus[u], gpus[v]);
                for (int k = 0; k < r->n_nics; k++) {
                        r->in[k][u] = way_in(&r->ways, r->nic[k], gpus[u]);
                        r->out[k][u] = way_out(&r->ways, gpus, r->n, gpus[u], r->nic[k]);
                }
        }
        if (e)
                rails_free(r);
        else
                *out = r;
        return e;
}

void rails_free(struct rails *r)
{
        if (!r)
                return;
        ways_free(&r->ways);
        free(r->cost);
        free(r->before);
        free(r);
}

/* --- what a channel uses --- */

/* Calls @each with every hop of a channel and how often it is gone. */
static void hops(const struct rails *r, enum rails_shape shape, const struct rails_thing *c,
                 void (*each)(const struct way *h, double times, bool inside, void *arg), void *arg)
{
        int last = c->order[r->n - 1];

        each(&r->in[c->nic_in][c->order[0]], shape == RAILS_TREE ? r->first : 1, false, arg);
        if (shape == RAILS_RING)
                each(&r->out[c->nic_out][last], 1, false, arg);
        else
                each(&r->out[c->nic_out][c->order[0]], r->first, false, arg);
        if (shape == RAILS_TREE && r->second > 0 && r->n > 1) {
                each(&r->in[c->nic_in][c->order[1]], r->second, false, arg);
                each(&r->out[c->nic_out][c->order[1]], r->second, false, arg);
        }
        for (int i = 1; i < r->n; i++) {
                each(&r->gpu[c->order[i - 1]][c->order[i]], 1, true, arg);
                if (shape == RAILS_TREE)
                        each(&r->gpu[c->order[i]][c->order[i - 1]], 1, true, arg);
        }
}

struct sum {
        double *use;
        enum way_type worst[2]; /* to the NICs, inside */
};

static void add_hop(const struct way *h, double times, bool inside, void *arg)
{
        struct sum *s = arg;

        if (h->type > s->worst[inside])
                s->worst[inside] = h->type;
        if (s->use)
                way_load(h, times, s->use);
}

/* NICs of the topology to places in ours; -1 one that does not count. */
static int place_of(const struct rails *r, int nic)
{
        for (int k = 0; k < r->n_nics; k++) {
                if (r->nic[k] == nic)
                        return k;
        }
        return -1;
}

static bool placed(const struct rails *r, const struct rails_thing *from, struct rails_thing *to)
{
        *to = *from;
        to->nic_in = (int8_t)place_of(r, from->nic_in);
        to->nic_out = (int8_t)place_of(r, from->nic_out);
        return to->nic_in >= 0 && to->nic_out >= 0;
}

double rails_fits(const struct rails *r, enum rails_shape shape, const struct rails_thing *things, int n)
{
        _cleanup_free_ double *use = calloc((size_t)r->ways.n_links + 1, sizeof *use);
        struct sum s = {use, {WAY_LOC, WAY_LOC}};
        double least = INFINITY;

        for (int i = 0; i < n && use; i++) {
                struct rails_thing c;

                if (!placed(r, &things[i], &c))
                        return 0;
                hops(r, shape, &c, add_hop, &s);
        }
        if (!use || s.worst[0] == WAY_NONE || s.worst[1] == WAY_NONE)
                return 0;
        for (int l = 0; l < r->ways.n_links; l++) {
                if (use[l] > 0 && r->ways.cap[l] / use[l] < least)
                        least = r->ways.cap[l] / use[l];
        }
        return least < INFINITY ? least : 0;
}

void rails_types(const struct rails *r, enum rails_shape shape, const struct rails_thing *thing, enum way_type *intra,
                 enum way_type *inter)
{
        struct sum s = {NULL, {*inter, *intra}};
        struct rails_thing c;

        if (placed(r, thing, &c))
                hops(r, shape, &c, add_hop, &s);
        else
                s.worst[0] = s.worst[1] = WAY_NONE;
        *inter = s.worst[0];
        *intra = s.worst[1];
}

/* --- packing --- */

struct search {
        struct rails *r;
        enum rails_shape shape;
        bool cross;
        double step[RAILS_GPUS][RAILS_GPUS], begin[RAILS_GPUS], second[RAILS_GPUS], end[RAILS_GPUS];
        int begin_nic[RAILS_GPUS], end_nic[RAILS_GPUS];
};

static double priced(const struct way *h, const double *price, double times)
{
        double sum = 0;

        if (h->type == WAY_NONE)
                return INFINITY;
        for (int i = 0; i < h->n; i++)
                sum += h->use[i].share * price[h->use[i].link];
        return times * sum;
}

/*
 * The cheapest order of GPUs under the prices that are set; the channel's NICs from the ends it has. As in shapes.c,
 * cost[set][v] is the cheapest way through the GPUs of `set` that ends at v, the set without v comes before it, and
 * `before` keeps where from. Here a way pays at its first GPU for coming in from a NIC (`begin`), at its second, which
 * is where the set has two members, for what a tree sends there from outside (`second`), and at its last for going out
 * (`end`).
 */
static double cheapest_order(struct search *w, struct rails_thing *thing)
{
        struct rails *r = w->r;
        int n = r->n, full = (1 << n) - 1, last = -1;
        double best = INFINITY;

        for (int set = 1; set <= full; set++) {
                for (int v = 0; v < n; v++) {
                        double *c = &r->cost[set * n + v];
                        int rest = set & ~(1 << v);
                        bool is_second = rest && !(rest & (rest - 1));

                        *c = INFINITY;
                        if (!(set >> v & 1))
                                continue;
                        if (!rest) {
                                *c = w->begin[v];
                                continue;
                        }
                        for (int u = 0; u < n; u++) {
                                double d = rest >> u & 1 ? r->cost[rest * n + u] + w->step[u][v] : INFINITY;

                                if (d < *c) {
                                        *c = d;
                                        r->before[set * n + v] = (int8_t)u;
                                }
                        }
                        if (is_second)
                                *c += w->second[v];
                }
        }
        for (int v = 0; v < n; v++) {
                if (r->cost[full * n + v] + w->end[v] < best) {
                        best = r->cost[full * n + v] + w->end[v];
                        last = v;
                }
        }
        for (int set = full, i = n - 1, v = last; last >= 0 && i >= 0; i--) {
                int u = r->before[set * n + v];

                thing->order[i] = (int8_t)v;
                set &= ~(1 << v);
                v = u;
        }
        if (last >= 0) {
                thing->nic_in = (int8_t)w->begin_nic[(int)thing->order[0]];
                thing->nic_out = (int8_t)(w->shape == RAILS_RING ? w->end_nic[last] : thing->nic_in);
        }
        return best;
}

/* Prices of the ends when these NICs are open, first and last for the way in and for the way out. */
static void price_ends(struct search *w, const double *price, const int in_nics[2], const int out_nics[2])
{
        const struct rails *r = w->r;
        bool tree = w->shape == RAILS_TREE;

        for (int v = 0; v < r->n; v++) {
                w->begin[v] = INFINITY;
                w->end[v] = tree ? 0 : INFINITY;
                w->second[v] = 0;
                for (int k = in_nics[0]; k <= in_nics[1]; k++) {
                        double in = priced(&r->in[k][v], price, 1), both = in + priced(&r->out[k][v], price, 1);
                        double at = tree ? r->first * both : in;

                        if (at < w->begin[v]) {
                                w->begin[v] = at;
                                w->begin_nic[v] = k;
                        }
                        if (tree && r->second > 0)
                                w->second[v] = r->second * both; /* one NIC is open */
                }
                for (int k = out_nics[0]; k <= out_nics[1] && !tree; k++) {
                        double out = priced(&r->out[k][v], price, 1);

                        if (out < w->end[v]) {
                                w->end[v] = out;
                                w->end_nic[v] = k;
                        }
                }
        }
}

/* The cheapest channel at these prices. Return: false where there is none. */
static bool cheapest(struct search *w, const double *price, const struct rails_thing *nics, struct rails_thing *out)
{
        struct rails *r = w->r;
        double best = INFINITY;
        int last = r->n_nics - 1, turns = nics || w->cross ? 1 : r->n_nics;

        for (int u = 0; u < r->n; u++) {
                for (int v = 0; v < r->n; v++) {
                        w->step[u][v] = u == v ? INFINITY : priced(&r->gpu[u][v], price, 1);
                        if (w->shape == RAILS_TREE && u != v)
                                w->step[u][v] += priced(&r->gpu[v][u], price, 1);
                }
        }
        for (int k = 0; k < turns; k++) {
                int in[2] = {nics ? nics->nic_in : w->cross ? 0 : k, nics ? nics->nic_in : w->cross ? last : k};
                int to[2] = {nics ? nics->nic_out : w->cross ? 0 : k, nics ? nics->nic_out : w->cross ? last : k};
                struct rails_thing c = {0};
                double cost;

                price_ends(w, price, in, to);
                cost = cheapest_order(w, &c);
                if (cost < best) {
                        best = cost;
                        *out = c;
                }
        }
        return best < INFINITY;
}

static double fullest(const struct rails *r, const double *use)
{
        double most = 0;

        for (int l = 0; l < r->ways.n_links; l++)
                most = use[l] > most * r->ways.cap[l] ? use[l] / r->ways.cap[l] : most;
        return most;
}

/*
 * A link's price grows by e^12 from empty to full, so that the sum along a way is nearly that of its fullest link: the
 * cheapest way is then the one that leaves the fullest link as empty as it can. Per unit of capacity, because a channel
 * fills a narrow link faster. A link without capacity cannot be used at all: dearer than any other, and finite.
 */
#define STEEP 12.0
static void set_prices(const struct rails *r, const double *use, double scale, double *price)
{
        for (int l = 0; l < r->ways.n_links; l++)
                price[l] = r->ways.cap[l] > 0 ? exp(STEEP * use[l] / r->ways.cap[l] / scale) / r->ways.cap[l] : 1e30;
}

/* Lay one channel on top of what is used. */
static bool lay(struct search *w, double *use, double scale, double *price, const struct rails_thing *nics,
                struct rails_thing *out)
{
        struct sum s = {use, {WAY_LOC, WAY_LOC}};

        set_prices(w->r, use, scale, price);
        if (!cheapest(w, price, nics, out))
                return false;
        hops(w->r, w->shape, out, add_hop, &s);
        return true;
}

static void take_out(const struct search *w, const struct rails_thing *c, double *spare, double *use)
{
        struct sum s = {spare, {WAY_LOC, WAY_LOC}};

        memset(spare, 0, sizeof *spare * (size_t)w->r->ways.n_links);
        hops(w->r, w->shape, c, add_hop, &s);
        for (int l = 0; l < w->r->ways.n_links; l++)
                use[l] -= spare[l];
}

double rails_route(struct rails *r, enum rails_shape shape, bool cross, const struct rails_thing *nics, int n,
                   struct rails_thing *out)
{
        size_t links = (size_t)r->ways.n_links + 1;
        _cleanup_free_ double *memory = calloc(3 * links, sizeof *memory);
        _cleanup_free_ struct search *w = calloc(1, sizeof *w);
        _cleanup_free_ struct rails_thing *now = calloc((size_t)n + 1, sizeof *now),
                                          *must = calloc((size_t)n + 1, sizeof *must);
        double *use = memory, *price = use + links, *spare = price + links, best = INFINITY, scale = 1;

        if (!memory || !w || !now || !must)
                return -ENOMEM;
        *w = (struct search){.r = r, .shape = shape, .cross = cross && shape == RAILS_RING};
        for (int i = 0; i < n && nics; i++) {
                if (!placed(r, &nics[i], &must[i]))
                        return 0;
        }
        for (int i = 0; i < n; i++) {
                if (!lay(w, use, scale, price, nics ? &must[i] : NULL, &now[i]))
                        return 0;
                if (i == 0) /* one channel alone says what a full link is */
                        scale = fullest(r, use) * n;
        }
        for (int round = 0, idle = 0; round < ROUNDS && idle < 2; round++) {
                double full = fullest(r, use);

                idle = full < best * (1 - 1e-9) ? 0 : idle + 1;
                if (!idle) {
                        best = full;
                        memcpy(out, now, sizeof *out * (size_t)n);
                }
                for (int i = 0; i < n; i++) {
                        take_out(w, &now[i], spare, use);
                        if (!lay(w, use, full, price, nics ? &must[i] : NULL, &now[i]))
                                return 0;
                }
        }
        for (int i = 0; i < n; i++) {
                out[i].nic_in = (int8_t)r->nic[(int)out[i].nic_in];
                out[i].nic_out = (int8_t)r->nic[(int)out[i].nic_out];
        }
        return rails_fits(r, shape, out, n);
}
