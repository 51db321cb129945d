/* SPDX-License-Identifier: Apache-2.0 */
/* All allocations of a machine, one line per class. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/json.h"
#include "cli/base/progress.h"
#include "core/base/calls.h"
#include "cli/base/screen.h"
#include "cli/base/table.h"
#include "cli/topo/topo.h"
#include "core/base/nccl.h"
#include "core/base/util.h"
#include "profiles/fragment/census.h"

static void rate(struct capo_table *t, double gbs)
{
        if (gbs < 0)
                capo_table_cell(t, "-");
        else
                capo_table_cell(t, "%.1f", gbs);
}

static void class_cells(struct capo_table *t, const struct census_row *w, bool markdown)
{
        if (markdown)
                capo_table_cell(t, "`%s`", w->name);
        else
                capo_table_cell(t, "%s", w->name);
        capo_table_cell(t, "%.0f", w->count);
        capo_table_cell(t, "%s", w->example);
}

static void finish(const struct capo_table *t, bool markdown)
{
        if (markdown)
                capo_table_markdown(t, stdout);
        else
                capo_table_print(t, stdout, 1, "", "");
}

static void print(const struct topo_options *o, const struct census *table)
{
        _cleanup_(capo_table_freep) struct capo_table *t =
                capo_table_new("l24,.r5/a,l18/d,.r9/f,.r9/e,.r9,.r5/b,.r9/c,.r9/c,.r9,.r9,.r6,l~");
        bool md = o->classes, nccl = o->ask_nccl;

        if (!t)
                return;
        if (!md)
                cli_screen_begin(stdout);

        if (md) {
                printf("| class | how many | for example | broadcast | all-gather | all-reduce | rings | all-reduce by "
                       "rings | by chains | hybrid all-reduce |%s\n|---|---|---|---|---|---|---|---|---|---|%s\n",
                       nccl ? " NCCL all-reduce | share | by |" : "", nccl ? "---|---|---|" : "");
        } else {
                printf("capo topo  %s   allocations of %d GPUs by class   algbw GB/s", table->t->platform, o->every);
                if (table->t->brick_gbs > 0)
                        printf("   one link %g GB/s each way", table->t->brick_gbs);
                fputs("\n\n", stdout);
                capo_table_row(
                        t,
                        "class\tcount\tfor example\tbroadcast\tallgather\tallreduce\trings\tby rings\tby chains\t"
                        "hybrid%s",
                        nccl ? "\tNCCL\tshare\tby its model, 1 GiB" : "");
        }
        for (size_t i = 0; i < table->n_rows; i++) {
                const struct census_row *w = &table->rows[i];
                const struct capo_shapes *s = &w->c.shapes;

                class_cells(t, w, md);
                rate(t, w->c.broadcast_gbs);
                rate(t, w->c.allgather_gbs);
                rate(t, w->c.allreduce_gbs);
                if (s->rings < 0)
                        capo_table_cell(t, "-");
                else
                        capo_table_cell(t, "%d", s->rings);
                rate(t, s->ring_split_gbs < 0 ? -1 : capo_ring_allreduce_gbs(s->ring_split_gbs, w->n));
                rate(t, s->chain_gbs);
                rate(t, w->c.hybrid_allreduce_gbs);
                if (nccl && w->nccl.version) {
                        rate(t, w->nccl.allreduce.gbs);
                        capo_table_row(t, "%.0f %%\t%s", w->share, w->nccl.allreduce.what);
                } else if (nccl) {
                        capo_table_row(t, "-\t-\t%s", w->nccl.why_not);
                } else {
                        capo_table_end(t);
                }
        }
        finish(t, md);
}

/* What the fragment costs: all-reduce as NCCL does it, as it could, and as nothing can. */
static void print_atlas(const struct topo_options *o, const struct census *table)
{
        _cleanup_(capo_table_freep) struct capo_table *t =
                capo_table_new("l24,.r5/a,l18/b,.r9,l18/c,.r9/d,.r9/e,.r9,.r9,.r9");
        bool md = o->classes;
        char nccl[16];

        if (!t)
                return;
        if (!md)
                cli_screen_begin(stdout);

        if (md)
                puts("| class | how many | for example | NCCL by itself | by | Tree | Ring | with a graph file | "
                     "ceiling | hybrid ceiling |\n|---|---|---|---|---|---|---|---|---|---|");
        else
                printf("capo topo  %s   what all-reduce reaches, algbw GB/s at 1 GiB; NCCL %s on virtual GPUs, "
                       "by its model: nothing was measured\n\n",
                       table->t->platform, capo_nccl_text((uint32_t)table->rows[0].nccl.version, nccl, sizeof nccl));
        if (!md)
                capo_table_row(t, "class\tcount\tfor example\tNCCL\tby itself\t%s\t%s\tgraph\tceiling\thybrid",
                               capo_algo_name(CAPO_ALGO_TREE), capo_algo_name(CAPO_ALGO_RING));
        for (size_t i = 0; i < table->n_rows; i++) {
                const struct census_row *w = &table->rows[i];

                class_cells(t, w, md);
                if (!w->nccl.version) {
                        capo_table_row(t, " %s", w->nccl.why_not);
                        continue;
                }
                rate(t, w->nccl.allreduce.gbs);
                capo_table_cell(t, "%s", w->nccl.allreduce.what);
                rate(t, w->nccl.allreduce.best_gbs[0]);
                rate(t, w->nccl.allreduce.best_gbs[1]);
                rate(t, w->graph_gbs > 0 ? w->graph_gbs : -1);
                rate(t, w->c.connected ? w->c.allreduce_gbs : -1);
                rate(t, w->c.hybrid_allreduce_gbs);
        }
        finish(t, md);
        if (!md)
                puts("\n  Tree, Ring: the best protocol of each in NCCL's cost table; graph: with the file of capo "
                     "graph, - where none helps;\n  ceiling: over NVLink no software exceeds it, - where NVLink does "
                     "not join all; hybrid: with PCIe and NICs");
}

static void print_json(const struct topo_options *o, const struct census *table)
{
        json_t *list = json_array(), *page;

        for (size_t i = 0; i < table->n_rows; i++) {
                const struct census_row *w = &table->rows[i];
                const struct capo_ceilings *c = &w->c;
                json_t *row =
                        json_pack("{s:s, s:i, s:f, s:s, s:b, s:b, s:i, s:f, s:f, s:f}", "class", w->name, "gpus", w->n,
                                  "count", w->count, "example", w->example, "connected", c->connected, "nvlink_ring",
                                  c->shapes.ring, "nvlink_rings", c->shapes.rings, "broadcast_gbs", c->broadcast_gbs,
                                  "allgather_gbs", c->allgather_gbs, "allreduce_gbs", c->allreduce_gbs);

                json_object_set_new(row, "hybrid_allreduce_gbs", cli_json_known(c->hybrid_allreduce_gbs));
                json_object_set_new(row, "chain_allreduce_gbs", cli_json_known(c->shapes.chain_gbs));
                if (w->nccl.version) {
                        json_object_set_new(row, "nccl_allreduce_gbs", json_real(w->nccl.allreduce.gbs));
                        json_object_set_new(row, "nccl_allreduce", json_string(w->nccl.allreduce.what));
                        json_object_set_new(row, "nccl_nodes", json_integer(w->nccl.nodes));
                        json_object_set_new(row, "nccl_tree_gbs", json_real(w->nccl.allreduce.best_gbs[0]));
                        json_object_set_new(row, "nccl_ring_gbs", json_real(w->nccl.allreduce.best_gbs[1]));
                        if (o->atlas)
                                json_object_set_new(row, "graph_allreduce_gbs",
                                                    cli_json_known(w->graph_gbs > 0 ? w->graph_gbs : -1));
                }
                json_array_append_new(list, row);
        }
        page = json_pack("{s:i, s:s, s:f, s:o}", "capo_topo", 1, "platform", table->t->platform, "nvlink_brick_gbs",
                         table->t->brick_gbs, "classes", list);
        cli_json_print(stdout, page, JSON_INDENT(2) | JSON_REAL_PRECISION(10));
}

static void progress(size_t classes)
{
        cli_progress("classes asked", classes, 0);
}

int topo_every(const struct topo_options *o, const struct capo_topology *t, const struct cli_machine_source *s)
{
        _cleanup_free_ struct cli_machine_asker *asker = malloc(sizeof *asker);
        int total = (int)t->n_gpus, r = -ENOMEM;
        struct census w = {.t = t,
                           .low = o->every ? o->every : 2,
                           .high = o->every ? o->every : total,
                           .graphs = o->atlas,
                           .progress = progress};
        char why[512];

        if (asker && o->ask_nccl) {
                w.why_not = why;
                w.ask = cli_machine_asker(s, asker, why, sizeof why) == 0 ? &asker->ask : NULL;
        }
        if (asker)
                r = census_take(&w);
        cli_progress_end();
        if (r == -EINVAL)
                capo_error("topo: %s has %d GPUs, not %d", t->name, total, w.low);
        else if (r == -E2BIG)
                capo_error("topo: all allocations of %d GPUs without a switch are too many", total);
        else if (r < 0)
                capo_error("topo: out of memory");
        else if (o->json)
                print_json(o, &w);
        else if (o->atlas)
                print_atlas(o, &w);
        else
                print(o, &w);
        census_finish(&w);
        return r ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}
