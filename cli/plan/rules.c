/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which row of the profile stands behind each answer: the same look-up the plugin makes (core/profile/match.h), with what NCCL
 * told a tuner about this communicator.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capo/msg.h"
#include "cli/plan/plan.h"
#include "core/base/calls.h"
#include "core/base/layout.h"
#include "core/profile/match.h"
#include "core/profile/seen.h"
#include "core/base/util.h"

static void row_text(const struct capo_profile *profile, const struct capo_row *row, uint32_t index, char *text,
                     size_t room)
{
        const char *slash = strrchr(profile->file, '/'), *basis = "";
        int n;

        for (uint32_t r = 0; r < profile->n_rules; r++) {
                const struct capo_rule *rule = &profile->rules[r];

                if (index >= rule->first[row->coll] && index < rule->first[row->coll] + rule->count[row->coll])
                        basis = rule->basis == CAPO_BASIS_MODELLED ? "modelled" : "measured";
        }
        n = snprintf(text, room, "%.40s:%u %s", slash ? slash + 1 : profile->file, row->line,
                     row->algo ? basis : "leaves it to NCCL");
        if (row->algo && !isnan(row->gain) && n > 0 && (size_t)n < room)
                snprintf(text + n, room - (size_t)n, ", gain %.0f %%", (double)row->gain * 100);
}

/* Bus bandwidth that a cell implies, as the plugin works it out (core/profile/match.h); -1 not known. */
static double cell_gbs(const struct capo_plan_row *r, unsigned algo, unsigned n_ranks)
{
        static const enum capo_call_kind kinds[CAPO_COLLS] = {CAPO_KIND_BROADCAST, CAPO_KIND_REDUCE,
                                                              CAPO_KIND_ALLGATHER, CAPO_KIND_REDUCESCATTER,
                                                              CAPO_KIND_ALLREDUCE};
        float us = r->n_algo > algo ? r->cost[algo][2] : -1;

        if (us <= 0 || r->told < CAPO_GBS_MIN_BYTES)
                return -1;
        return (double)r->told / ((double)us * 1e3) * capo_busbw_factor(kinds[r->coll], n_ranks);
}

char (*plan_rules_text(const struct plan_options *o, const struct capo_plan_answer *plain))[96]
{
        struct capo_profile *profile = NULL;
        char layout[CAPO_LAYOUT_TEXT], given[CAPO_LAYOUT_TEXT];
        struct capo_shape told = {.n_ranks = plain->told.n_ranks,
                                  .n_nodes = plain->told.n_nodes,
                                  .min_local = plain->told.nvl_min,
                                  .max_local = plain->told.nvl_max,
                                  .nccl = plain->version,
                                  .allow_modelled = o->allow_modelled,
                                  .fragment = *o->class ? o->class : NULL};
        char(*texts)[96] = NULL;
        uint32_t n;

        if (capo_profile_load(o->profile_path, &profile, NULL) < 0)
                return NULL;
        n = o->allow_modelled ? 0 : capo_profile_modelled(profile);
        if (n)
                capo_info("modelled rules of the profile that are not used: %u; --allow-modelled uses them", n);
        texts = calloc(plain->n_rows ? plain->n_rows : 1, sizeof *texts);
        for (size_t i = 0; texts && i < plain->n_rows; i++) {
                const struct capo_plan_row *r = &plain->rows[i];
                struct capo_question q = {.coll = (uint8_t)r->coll,
                                          .reg_buff = (int8_t)r->reg_buff,
                                          .link = !r->n_algo           ? CAPO_LINK_ANY
                                                  : r->cost[1][1] >= 0 ? CAPO_LINK_NVLINK
                                                                       : CAPO_LINK_OTHER,
                                          .pipe_ops = r->pipe_ops,
                                          .bytes = r->told ? r->told : r->bytes,
                                          .ring_gbs = cell_gbs(r, 1, (unsigned)o->n_ranks),
                                          .tree_gbs = cell_gbs(r, 0, (unsigned)o->n_ranks)};
                struct capo_tables *tables = NULL;
                struct capo_shape shape = told;
                struct capo_choice c = {0};

                capo_seen_settle(profile, &shape, plan_layout(o, given, sizeof given), layout, sizeof layout, &q,
                                 r->n_algo ? (double)r->cost[1][2] : -1, NULL);
                if (capo_tables_new(profile, &shape, &tables) == 0)
                        c = capo_tables_find(tables, &q);
                capo_tables_free(tables);
                if (c.rule && c.rule <= profile->n_rows)
                        row_text(profile, &profile->rows[c.rule - 1], c.rule - 1u, texts[i], sizeof texts[i]);
        }
        capo_profile_free(profile);
        return texts;
}
