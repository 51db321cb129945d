/* SPDX-License-Identifier: Apache-2.0 */
/* `capo plan` as JSON. */
#include <math.h>

#include "cli/base/cli_json.h"
#include "cli/plan/cmd_plan.h"
#include "core/base/calls.h"
#include "core/base/nccl_release.h"
#include "core/base/util.h"

static json_t *choice_json(const struct capo_plan_row *r)
{
        return json_pack("{s:o, s:o, s:i, s:i, s:o, s:o}", "algo",
                         r->kernel ? json_string(capo_ran_algo(r->kernel))
                         : r->algo ? json_string(capo_algo_name(r->algo))
                                   : json_null(),
                         "proto",
                         r->kernel  ? json_string(capo_ran_proto(r->kernel))
                         : r->proto ? json_string(capo_proto_name(r->proto))
                                    : json_null(),
                         "channels", r->channels, "warps", r->warps, "us", cli_json_real(r->us),
                         "busbw_gbs", cli_json_real(r->busbw_gbs));
}

static json_t *costs_json(const struct capo_plan_row *r,
                          const float cost[CAPO_PLAN_ALGOS][CAPO_PLAN_PROTOS])
{
        json_t *o = json_object();

        for (int a = 0; a < r->n_algo; a++) {
                for (int p = 0; p < r->n_proto; p++) {
                        char key[40];

                        if (cost[a][p] < 0)
                                continue;
                        snprintf(key, sizeof key, "%s/%s", capo_algo_name((unsigned)a + 1),
                                 capo_proto_name((unsigned)p + 1));
                        json_object_set_new(o, key, json_real((double)cost[a][p]));
                }
        }
        return o;
}

static json_t *graphs_json(const struct capo_plan_answer *a)
{
        json_t *list = json_array();

        for (size_t i = 0; i < a->n_graphs; i++) {
                const struct capo_plan_graph *g = &a->graphs[i];
                json_t *paths = json_array();

                for (size_t k = 0; k < g->n_paths; k++)
                        json_array_append_new(paths, json_string(g->paths[k]));
                json_array_append_new(
                        list,
                        json_pack("{s:i, s:i, s:i, s:i, s:f, s:f, s:s, s:s, s:o}", "node", g->node,
                                  "id", g->id, "pattern", g->pattern, "channels", g->n_channels,
                                  "intra_gbs", g->speed_intra, "inter_gbs", g->speed_inter, "intra",
                                  g->type_intra, "inter", g->type_inter, "paths", paths));
        }
        return list;
}

static json_t *reported_json(const struct capo_plan_reported *t)
{
        json_t *constants = json_array();

        for (int i = 0; i < t->n_constants; i++)
                json_array_append_new(constants, json_real(t->constants[i]));
        return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:o}", "abi", t->abi, "ranks", t->n_ranks,
                         "nodes", t->n_nodes, "nvl_domains", t->nvl_domains, "nvl_min", t->nvl_min,
                         "nvl_max", t->nvl_max, "constants", constants);
}

json_t *plan_json(const struct plan_options *o, const struct capo_plan_answer *plain,
                  const struct capo_plan_answer *tuned, const struct capo_plan_comparison *c)
{
        json_t *rows = json_array(), *root;
        char version[16];
        unsigned n_nodes = plan_nodes(o);

        for (size_t i = 0; i < plain->n_rows; i++) {
                const struct capo_plan_row *r = &plain->rows[i];
                json_t *row = json_pack("{s:s, s:I, s:o}", "coll", capo_coll_word(r->coll), "bytes",
                                        (json_int_t)r->bytes, "default", choice_json(r));

                if (c->rows) {
                        json_object_set_new(row, o->q.nccl_2 ? "second" : "profile",
                                            choice_json(&c->rows[i].with));
                        json_object_set_new(row, "same", json_boolean(c->rows[i].same));
                        if (o->by_rules)
                                json_object_set_new(row, "rule", json_string(c->rows[i].rule));
                } else {
                        json_object_set_new(row, "profile", json_null());
                }
                json_object_set_new(
                        row, "ranks_agree",
                        json_boolean(r->ranks_agree && (!tuned || tuned->rows[i].ranks_agree)));
                if (o->q.spy) {
                        const struct capo_plan_row *s = tuned ? &tuned->rows[i] : r;

                        json_object_set_new(row, "told_bytes",
                                            json_integer((json_int_t)s->reported_bytes));
                        json_object_set_new(row, "costs", costs_json(s, s->cost));
                        if (tuned) {
                                json_object_set_new(row, "costs_after",
                                                    costs_json(s, s->cost_after));
                                json_object_set_new(row, "tuner_channels",
                                                    json_integer(s->tuner_channels));
                        }
                        if (s->chunk)
                                json_object_set_new(row, "chunk", json_integer(s->chunk));
                        if (s->chunk && tuned)
                                json_object_set_new(row, "tuner_chunk",
                                                    json_integer(s->tuner_chunk));
                }
                json_array_append_new(rows, row);
        }
        root = json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:o, s:i, s:o}", "nccl",
                         capo_nccl_text((uint32_t)plain->version, version, sizeof version),
                         "libnccl", o->q.libnccl, "times", "NCCL's model", "ranks",
                         (int)o->q.n_ranks, "nodes", (int)n_nodes, "nccl_nodes",
                         plain->reported.n_nodes, "gpus", cli_json_gpus(o->q.ranks, o->q.n_ranks),
                         "profiler_abi", plain->profiler_abi, "rows", rows);
        json_object_set_new(root, "domain_nodes", json_integer(o->q.domain ? o->q.domain : 1));
        json_object_set_new(root, "asked_ranks", json_integer(plain->asked));
        json_object_set_new(root, "asked_nodes", json_integer(plain->asked_nodes));
        json_object_set_new(root, "wall_ms",
                            json_real(plain->wall_ms + (tuned ? tuned->wall_ms : 0)));
        if (o->q.nccl_2 && tuned) {
                json_object_set_new(root, "nccl_2",
                                    json_string(capo_nccl_text((uint32_t)tuned->version, version,
                                                               sizeof version)));
                json_object_set_new(root, "libnccl_2", json_string(o->q.libnccl_2));
        }
        if (*o->advice.order)
                json_object_set_new(root, "best_order", json_string(o->advice.order));
        if (c->no_match)
                json_object_set_new(root, "no_rule_holds", json_string(c->no_match));
        if (o->graph)
                json_object_set_new(root, "graphs", graphs_json(plain));
        if (o->q.spy)
                json_object_set_new(root, "told",
                                    reported_json(&(tuned ? tuned : plain)->reported));
        return root;
}
