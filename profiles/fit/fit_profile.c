/* SPDX-License-Identifier: Apache-2.0 */
/* Converts a fit to a profile. A rule claims only what was measured: it names ranks, nodes, layout
 * and the minor NCCL release; if one fit has several patch releases of one minor, the patch
 * release. */
#include <math.h>

#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/util.h"
#include "profiles/fit/fit.h"
#include "core/base/nccl_release.h"

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

static bool has_rows(const struct capo_fit_series *s)
{
        for (int i = 0; i < s->n_rows; i++) {
                if (s->rows[i].chosen > 0)
                        return true;
        }
        return false;
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

static void fill_evidence(const struct capo_fit_series *s, const struct capo_fit_row *from,
                          struct capo_row *row)
{
        double gain = 0;
        int n = 0;

        row->us = row->spread_us = row->gain = NAN;
        for (int p = from->first; p <= from->last; p++) {
                const struct capo_fit_cell *cell = capo_fit_cell_of(s, p, from->chosen);

                if (isnan(cell->us))
                        continue;
                row->us = (float)cell->us;
                row->spread_us = (float)(cell->us * cell->se * sqrt(cell->n_blocks));
                row->samples += cell->n_samples;
                if (s->has_default && !isnan(s->points[p].gain)) {
                        gain += s->points[p].gain;
                        n++;
                }
        }
        if (n && from->chosen)
                row->gain = (float)(gain / n);
}

static int add_rows(const struct capo_fit_series *s, struct capo_profile *profile, int *n_rows)
{
        for (int r = 0; r < s->n_rows; r++) {
                const struct capo_fit_row *from = &s->rows[r];
                const struct capo_fit_candidate *c = &s->candidates[from->chosen];
                struct capo_row row = {.upto = from->upto,
                                       .coll = (uint8_t)capo_coll_of_call(s->call)};
                int e;

                if (from->chosen > 0) {
                        row.algo = c->algo;
                        row.proto = c->proto;
                        row.channels = c->channels;
                        row.chunk = c->chunk;
                        ++*n_rows;
                }
                fill_evidence(s, from, &row);
                e = capo_profile_row(profile, &row);
                if (e < 0)
                        return e;
        }
        return 0;
}

int capo_fit_profile(const struct capo_fit *fit, struct capo_profile *profile, int *n_rules,
                     int *n_rows)
{
        *n_rules = *n_rows = 0;
        for (int i = 0, k; i < fit->n_series; i = k) {
                struct capo_rule *rule = NULL;

                for (k = i; k < fit->n_series &&
                            !capo_trial_order(&fit->series[k].like, &fit->series[i].like);
                     k++) {
                        const struct capo_fit_series *s = &fit->series[k];
                        int e;

                        if (!has_rows(s))
                                continue;
                        if (!rule) {
                                rule = capo_profile_rule(profile, CAPO_BASIS_MEASURED);
                                if (!rule)
                                        return -ENOMEM;
                                set_when(fit, &s->like, profile, &rule->when);
                                ++*n_rules;
                        }
                        e = add_rows(s, profile, n_rows);
                        if (e < 0)
                                return e;
                }
        }
        return 0;
}
