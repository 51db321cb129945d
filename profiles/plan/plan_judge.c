/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "core/base/calls.h"
#include "core/base/among.h"
#include "capo/algorithms.h"
#include "core/base/nccl_facts.h"
#include "core/base/text.h"
#include "core/base/xalloc.h"
#include "profiles/plan/plan_judge.h"

/* Bus bandwidth of a cell, computed as in the plugin (core/profile/match.h); -1 not known. */
static double cell_gbs(const struct capo_plan_row *r, enum capo_algo algo, unsigned n_ranks)
{
        unsigned a = algo - 1u, p = CAPO_PROTO_SIMPLE - 1u;

        if (a >= r->n_algo || r->cost[a][p] <= 0 || r->reported_bytes < CAPO_GBS_MIN_BYTES)
                return -1;
        return (double)r->reported_bytes / ((double)r->cost[a][p] * 1e3) *
               capo_busbw_factor(capo_coll_kind(r->coll), n_ranks);
}

void capo_plan_look_up(const struct capo_profile *profile, struct capo_plan_decision *out)
{
        struct capo_tables *tables = NULL;

        out->choice = (struct capo_choice){0};
        if (profile && capo_tables_new(profile, &out->shape, &tables) == 0)
                out->choice =
                        capo_tables_chunk(tables->chunks, capo_tables_find(tables, &out->question));
        capo_tables_free(tables);
        if (profile && out->choice.rule > profile->n_rows)
                out->choice.rule = 0;
}

void capo_plan_decide(const struct capo_plan_by *by, const struct capo_plan_answer *own,
                      const struct capo_plan_row *row, struct capo_plan_decision *out)
{
        const float *ring = row->cost[CAPO_ALGO_RING - 1];

        memset(out, 0, sizeof *out);
        out->shape = (struct capo_shape){.n_ranks = own->reported.abi ? own->reported.n_ranks
                                                                      : (int)by->n_ranks,
                                         .n_nodes = own->reported.n_nodes,
                                         .min_local = own->reported.nvl_min,
                                         .max_local = own->reported.nvl_max,
                                         .nccl = own->version,
                                         .allow_modelled = by->allow_modelled,
                                         .class_name = by->class && *by->class ? by->class : NULL};
        out->question = (struct capo_question){
                .coll = (uint8_t)row->coll,
                .reg_buff = (int8_t)row->reg_buff,
                .link = !row->n_algo                      ? CAPO_LINK_ANY
                        : ring[CAPO_PROTO_LL128 - 1] >= 0 ? CAPO_LINK_NVLINK
                                                          : CAPO_LINK_OTHER,
                .pipe_ops = row->pipe_ops,
                .bytes = row->reported_bytes ? row->reported_bytes : row->bytes,
                .ring_gbs = cell_gbs(row, CAPO_ALGO_RING, by->n_ranks),
                .tree_gbs = cell_gbs(row, CAPO_ALGO_TREE, by->n_ranks)};
        capo_shape_fill(&out->shape, by->layout ? by->layout : "", out->derived,
                        sizeof out->derived, &out->layout_why);
        capo_plan_look_up(by->profile, out);
}

const char *capo_plan_blocked(const struct capo_choice *choice, const struct capo_plan_row *own,
                              const struct capo_plan_row *with)
{
        if (!choice->algo || !with || (with->algo == choice->algo && with->proto == choice->proto))
                return NULL;
        if (choice->algo - 1u < own->n_algo && own->cost[choice->algo - 1][choice->proto - 1] < 0)
                return getenv("NCCL_ALGO") || getenv("NCCL_PROTO")
                               ? "NCCL marks the pair as not available here; NCCL_ALGO or NCCL_PROTO is set and wins"
                               : "NCCL marks the pair as not available for this call on this machine";
        return "NCCL ran something else although the pair was offered";
}

/* The rule of a row; UINT32_MAX: none. @row: index + 1; 0: none. */
static uint32_t rule_of(const struct capo_profile *p, unsigned coll, uint32_t row)
{
        for (uint32_t r = 0; r < p->n_rules && row; r++) {
                const struct capo_rule *rule = &p->rules[r];

                if (row - 1 >= rule->first[coll] && row - 1 < rule->first[coll] + rule->count[coll])
                        return r;
        }
        return UINT32_MAX;
}

struct capo_rule_verdict *capo_plan_judge(const struct capo_profile *profile,
                                          const struct capo_plan_decision *d, uint32_t *winner,
                                          size_t *n)
{
        struct capo_rule_verdict *list = xcalloc(profile->n_rules + 1, sizeof *list);
        unsigned coll = d->question.coll;

        *n = 0;
        *winner = rule_of(profile, coll, d->choice.rule);
        for (uint32_t r = 0; list && r < profile->n_rules; r++) {
                const struct capo_rule *rule = &profile->rules[r];
                struct capo_rule_verdict *v = &list[*n];

                if (!rule->count[coll])
                        continue;
                v->rule = r;
                (*n)++;
                if (r == *winner) {
                        v->fate = CAPO_RULE_DECIDES;
                } else if (!capo_rule_settled(rule, &d->shape, &v->why)) {
                        v->fate = CAPO_RULE_NOT_THIS_JOB;
                } else if (!capo_when_asked(&rule->when, &d->question)) {
                        v->fate = CAPO_RULE_NOT_THIS_CALL;
                } else if (*winner == UINT32_MAX) {
                        v->fate = CAPO_RULE_NO_ROW;
                } else {
                        v->fate = CAPO_RULE_LESS_SPECIFIC;
                        capo_rule_compare(profile, *winner, r, &v->why);
                        v->why = v->why ? v->why : "earlier in the file";
                }
        }
        return list;
}

const struct capo_rule *capo_plan_constants(const struct capo_profile *profile,
                                            const struct capo_shape *shape)
{
        const char *why;

        for (uint32_t r = 0;
             r < profile->n_rules && capo_nccl_has(shape->nccl, CAPO_NCCL_MODEL_CONSTANTS); r++) {
                if (profile->rules[r].n_constants &&
                    capo_rule_settled(&profile->rules[r], shape, &why))
                        return &profile->rules[r];
        }
        return NULL;
}

/* --- without and with a tuner --- */

static void row_text(const struct capo_profile *profile, const struct capo_row *row,
                     uint32_t number, char *text, size_t room)
{
        const char *basis = "";
        uint32_t rule = rule_of(profile, row->coll, number);

        if (rule != UINT32_MAX)
                basis = profile->rules[rule].basis == CAPO_BASIS_MODELLED ? "modelled" : "measured";
        snprintf(text, room, "%.40s:%u %s", capo_base_name(profile->file), row->line,
                 row->algo              ? basis
                 : capo_row_turned(row) ? "turns the call"
                                        : "leaves it to NCCL");
        if (row->measured)
                capo_append(text, room, " on %s", row->measured);
        if (row->algo && !isnan(row->gain))
                capo_append(text, room, ", gain %.0f %%", (double)row->gain * 100);
}

static bool same_choice(const struct capo_plan_row *a, const struct capo_plan_row *b)
{
        return a->algo == b->algo && a->proto == b->proto && a->kernel == b->kernel &&
               a->channels == b->channels;
}

/* The time of the tuned choice, from NCCL's own unchanged table. */
static double model_us(const struct capo_plan_row *own, const struct capo_plan_row *with)
{
        if (with->algo && with->proto && with->algo <= own->n_algo && with->proto <= own->n_proto) {
                float us = own->cost[with->algo - 1][with->proto - 1];

                return us >= 0 ? us : NAN;
        }
        return same_choice(own, with) ? own->us : with->us;
}

static const char *gap_of(const struct capo_plan_answer *a)
{
        if (ANY_OF(r, a->rows, a->n_rows, r->algo == CAPO_ALGO_UNKNOWN && !r->kernel))
                return "this release tells nobody which algorithm it chose where no tuner chose it (-)";
        for (size_t i = 0; i < a->n_rows; i++) {
                if (a->rows[i].kernel)
                        return "what NCCL expects of symmetric kernels and copy engines it shows to no tuner (-)";
                if (isnan(a->rows[i].us))
                        return "this release tells nobody what it expects (-)";
        }
        return NULL;
}

static void find_rules(const struct capo_plan_answer *own, const struct capo_plan_by *by,
                       struct capo_plan_comparison *out)
{
        const struct capo_profile *p = by->profile;
        struct capo_plan_decision d;

        out->modelled_left = by->allow_modelled ? 0 : capo_profile_modelled(p);
        for (size_t i = 0; i < own->n_rows; i++) {
                const struct capo_rule *constants;

                capo_plan_decide(by, own, &own->rows[i], &d);
                constants = d.choice.algo || out->rows[i].same ? NULL
                                                               : capo_plan_constants(p, &d.shape);
                if (constants) {
                        snprintf(out->rows[i].rule, sizeof out->rows[i].rule,
                                 "%.40s:%u NCCL's choice with its constants changed",
                                 capo_base_name(p->file), constants->line);
                        out->any_rule = true;
                        continue;
                }
                if (!d.choice.rule)
                        continue;
                row_text(p, &p->rows[d.choice.rule - 1], d.choice.rule, out->rows[i].rule,
                         sizeof out->rows[i].rule);
                out->any_rule = true;
                out->n_chunks += p->rows[d.choice.rule - 1].chunk != 0;
                out->chunks_dead = !capo_nccl_has(d.shape.nccl, CAPO_NCCL_CHUNK);
                out->n_turned += capo_row_turned(&p->rows[d.choice.rule - 1]);
                out->turned_dead = !capo_nccl_has(d.shape.nccl, CAPO_NCCL_CALL_CONFIG);
        }
        if (!own->n_rows || out->any_rule ||
            !*capo_match_nearest(p, &d.shape, out->why, sizeof out->why))
                return;
        if (d.shape.class_name && !strncmp(out->why, "class", 5))
                capo_append(out->why, sizeof out->why, " (this allocation is %.100s)",
                            d.shape.class_name);
        out->no_match = out->why;
}

void capo_plan_compare(const struct capo_plan_answer *own, const struct capo_plan_answer *with,
                       const struct capo_plan_by *by, struct capo_plan_comparison *out)
{
        *out = (struct capo_plan_comparison){.agree = true, .gap = gap_of(own)};
        for (size_t i = 0; i < own->n_rows; i++)
                out->agree &= own->rows[i].ranks_agree && (!with || with->rows[i].ranks_agree);
        if (!with)
                return;
        out->rows = xcalloc(own->n_rows + 1, sizeof *out->rows);
        for (size_t i = 0; i < own->n_rows; i++) {
                const struct capo_plan_row *r = &own->rows[i];
                struct capo_plan_difference *d = &out->rows[i];

                d->with = with->rows[i];
                d->same = same_choice(r, &d->with);
                d->with.us = model_us(r, &with->rows[i]);
                d->with.busbw_gbs = r->us > 0 ? r->busbw_gbs * r->us / d->with.us : NAN;
                out->n_differ += !d->same;
        }
        if (by && by->profile)
                find_rules(own, by, out);
}
