/* SPDX-License-Identifier: Apache-2.0 */
/* Converts a fit to a profile. A rule claims only what was measured: it names ranks, nodes, layout
 * and the minor NCCL release; if one fit has several patch releases of one minor, the patch
 * release. */
#include <math.h>

#include "core/base/calls.h"
#include "core/base/layout.h"
#include "core/base/nccl_release.h"
#include "core/base/size.h"
#include "core/base/text.h"
#include "core/base/xalloc.h"
#include "profiles/fit/fit.h"

char *capo_fit_candidate_text(const struct capo_fit_candidate *c, char *text, size_t room)
{
        char channels[12] = "", chunk[24] = "", size[16];

        if (!c->algo && !c->proto && !c->channels) {
                snprintf(text, room, "NCCL's choice");
                return text;
        }
        if (c->channels)
                snprintf(channels, sizeof channels, " ch %u", c->channels);
        if (c->chunk)
                snprintf(chunk, sizeof chunk, " chunk %s",
                         capo_size_print(c->chunk, size, sizeof size));
        snprintf(text, room, "%s %s%s%s", c->algo ? capo_algo_name(c->algo) : "any",
                 c->proto ? capo_proto_name(c->proto) : "any", channels, chunk);
        return text;
}

char *capo_fit_class_text(const struct capo_trial *r, char *text, size_t room)
{
        char nccl[16], nodes[96];

        if (r->n_nodes == 1)
                snprintf(nodes, sizeof nodes, "one node");
        else if (r->n_nodes && r->layout[0])
                snprintf(nodes, sizeof nodes, "%d nodes: %s", r->n_nodes, r->layout);
        else if (r->n_nodes)
                snprintf(nodes, sizeof nodes, "%d nodes", r->n_nodes);
        else
                snprintf(nodes, sizeof nodes, "nodes not recorded");
        snprintf(text, room, "%d %s%s, %s, NCCL %s", r->n_ranks, r->gpu[0] ? "x " : "ranks", r->gpu,
                 nodes, r->nccl ? capo_nccl_text(r->nccl, nccl, sizeof nccl) : "not recorded");
        return text;
}

static void set_when(const struct capo_fit *fit, const struct capo_trial *r,
                     struct capo_profile *profile, struct capo_when *when)
{
        uint32_t minor = r->nccl - r->nccl % 100;

        when->ranks = (struct capo_range){r->n_ranks, r->n_ranks};
        if (r->n_nodes)
                when->nodes = (struct capo_range){r->n_nodes, r->n_nodes};
        if (r->n_nodes > 1 && r->layout[0])
                when->layout = capo_profile_keep(profile, r->layout);
        if (!r->nccl)
                return;
        when->nccl = (struct capo_range){minor, minor + 99};
        for (int i = 0; i < fit->n_series; i++) {
                uint32_t other = fit->series[i].like.nccl;

                if (other != r->nccl && other - other % 100 == minor)
                        when->nccl = (struct capo_range){r->nccl, r->nccl};
        }
}

static struct capo_row make_row(const struct capo_fit_series *s, const struct capo_fit_row *from)
{
        const struct capo_fit_candidate *c = &s->candidates[from->chosen];
        struct capo_row row = {.upto = from->upto,
                               .coll = (uint8_t)capo_coll_of_call(s->call),
                               .us = NAN,
                               .spread_us = NAN,
                               .gain = NAN};
        double gain = 0;
        int n = 0;

        if (from->chosen > 0) {
                row.algo = c->algo;
                row.proto = c->proto;
                row.channels = c->channels;
                row.chunk = c->chunk;
        }
        for (int p = from->first; p <= from->last; p++) {
                const struct capo_fit_cell *cell = capo_fit_cell_of(s, p, from->chosen);

                if (isnan(cell->us))
                        continue;
                row.us = (float)cell->us;
                row.spread_us = (float)(cell->us * cell->se * sqrt(cell->n_blocks));
                row.samples += cell->n_samples;
                if (s->has_default && !isnan(s->points[p].gain)) {
                        gain += s->points[p].gain;
                        n++;
                }
        }
        if (n && from->chosen)
                row.gain = (float)(gain / n);
        return row;
}

/* ---- ranges of nodes ---- */

enum { REGION = 16 }; /* the most numbers of nodes in one */

/* Ranks on each of several nodes; 0: one node, not even, or not known. */
static uint32_t ranks_each(const struct capo_trial *t)
{
        struct capo_layout l;

        return t->n_nodes > 1 && capo_layout_parse(t->layout, &l, NULL) == 0 &&
                               capo_layout_smallest(&l) == capo_layout_largest(&l)
                       ? capo_layout_largest(&l)
                       : 0;
}

/* @v: the series of @first's kind on more nodes, each at most twice the nodes of the one before.
 * Return: how many, with it. */
static int find_region(const struct capo_fit *fit, int first, const struct capo_fit_series **v)
{
        const struct capo_fit_series *a = &fit->series[first];
        int n = 0;

        for (int i = first; i < fit->n_series && n < REGION && ranks_each(&a->like); i++) {
                const struct capo_fit_series *b = &fit->series[i];

                if (b->call != a->call || b->make != a->make || b->like.nccl != a->like.nccl ||
                    strcmp(b->like.gpu, a->like.gpu) ||
                    ranks_each(&b->like) != ranks_each(&a->like))
                        continue;
                if (n && b->like.n_nodes > 2 * v[n - 1]->like.n_nodes)
                        break;
                v[n++] = b;
        }
        return n;
}

/* The rows on which all of @v agree, by rising size. Return: how many, with those that leave a size to
 * NCCL; 0: all do. @rows: room for all rows of @v. */
static int agree_rows(const struct capo_fit_series **v, int n, struct capo_row *rows)
{
        uint64_t from = 0;
        int n_rows = 0, chosen = 0;

        do {
                struct capo_row all, one;

                for (int i = 0; i < n; i++) {
                        const struct capo_fit_row *row = v[i]->rows;

                        while (row->upto < from)
                                row++;
                        one = make_row(v[i], row);
                        if (i == 0) {
                                all = one;
                                continue;
                        }
                        if (one.algo != all.algo || one.proto != all.proto ||
                            one.channels != all.channels || one.chunk != all.chunk)
                                all.algo = 0;
                        all.upto = one.upto < all.upto ? one.upto : all.upto;
                        all.samples += one.samples;
                        all.gain = fminf(all.gain, one.gain);
                }
                if (!all.algo) {
                        all = (struct capo_row){.upto = all.upto, .coll = all.coll, .gain = NAN};
                        n_rows -= n_rows && !rows[n_rows - 1].algo;
                }
                all.us = all.spread_us = NAN;
                chosen += all.algo > 0;
                from = all.upto + 1;
                rows[n_rows++] = all;
        } while (from > 0);
        return chosen ? n_rows : 0;
}

/* Add a rule over the numbers of nodes from v[0] to v[n - 1], if all agree. Return: do they? */
static bool add_region(const struct capo_fit *fit, const struct capo_fit_series **v, int n,
                       struct capo_profile *profile)
{
        const struct capo_trial *last = &v[n - 1]->like;
        const double each = ranks_each(last);
        _cleanup_free_ struct capo_row *rows = NULL;
        struct capo_rule *rule;
        char measured[128] = "";
        int room = 0, found;

        for (int i = 0; i < n; i++) {
                room += v[i]->n_rows;
                capo_append(measured, sizeof measured, "%s%d", i ? ", " : "", v[i]->like.n_nodes);
        }
        capo_append(measured, sizeof measured, " nodes");
        rows = xmalloc((size_t)room * sizeof *rows);
        found = agree_rows(v, n, rows);
        if (!found)
                return false;
        rule = capo_profile_rule(profile, CAPO_BASIS_MEASURED);
        capo_fit_memory(rule);
        set_when(fit, &v[0]->like, profile, &rule->when);
        rule->when.nodes.max = last->n_nodes;
        rule->when.ranks.max = last->n_ranks;
        rule->when.min_local = rule->when.max_local = (struct capo_range){each, each};
        rule->when.layout = capo_profile_keep(profile, "even");
        for (int i = 0; i < found; i++) {
                rows[i].measured = rows[i].algo ? measured : NULL;
                capo_fit_memory(capo_profile_row(profile, &rows[i]) == 0);
        }
        return true;
}

/* Each range of three measured numbers of nodes or more, the longest first. */
static void add_regions(const struct capo_fit *fit, struct capo_profile *profile)
{
        const struct capo_fit_series *v[REGION];
        _cleanup_free_ bool *inside = xcalloc((size_t)fit->n_series + 1, sizeof *inside);

        for (int i = 0; i < fit->n_series; i++) {
                int n = inside[i] ? 0 : find_region(fit, i, v);

                while (n >= 3 && !add_region(fit, v, n, profile))
                        n--;
                for (int k = 0; n >= 3 && k < n - 1; k++)
                        inside[v[k] - fit->series] = true;
        }
}

void capo_fit_profile(const struct capo_fit *fit, struct capo_profile *profile)
{
        const struct capo_fit_series *last = NULL; /* with a row to write; of the last rule */

        for (int i = 0; i < fit->n_series; i++) {
                const struct capo_fit_series *s = &fit->series[i];

                if (s->n_rows < 2)
                        continue;
                if (!last || capo_trial_order(&s->like, &last->like)) {
                        struct capo_rule *rule = capo_profile_rule(profile, CAPO_BASIS_MEASURED);

                        capo_fit_memory(rule);
                        set_when(fit, &s->like, profile, &rule->when);
                }
                last = s;
                for (int r = 0; r < s->n_rows; r++) {
                        struct capo_row row = make_row(s, &s->rows[r]);

                        capo_fit_memory(capo_profile_row(profile, &row) == 0);
                }
        }
        add_regions(fit, profile);
}
