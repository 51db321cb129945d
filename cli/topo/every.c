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
#include "cli/topo/topo.h"
#include "core/base/nccl.h"
#include "core/base/util.h"
#include "profiles/fragment/census.h"

static void rate(double gbs, bool markdown)
{
        if (gbs < 0)
                printf(markdown ? " - |" : " %9s", "-");
        else
                printf(markdown ? " %.1f |" : " %9.1f", gbs);
}

static void print(const struct topo_options *o, const struct census *table)
{
        bool md = o->classes, nccl = o->ask_nccl;

        if (md) {
                printf("| class | how many | for example | broadcast | all-gather | all-reduce | rings | all-reduce by "
                       "rings | by chains | hybrid all-reduce |%s\n|---|---|---|---|---|---|---|---|---|---|%s\n",
                       nccl ? " NCCL all-reduce | share | by |" : "", nccl ? "---|---|---|" : "");
        } else {
                printf("capo topo  %s   allocations of %d GPUs by class   algbw GB/s", table->t->platform, o->every);
                if (table->t->brick_gbs > 0)
                        printf("   one link %g GB/s each way", table->t->brick_gbs);
                printf("\n\n%-24s %5s  %-18s %9s %9s %9s %5s %9s %9s %9s%s\n", "class", "count", "for example",
                       "broadcast", "allgather", "allreduce", "rings", "by rings", "by chains", "hybrid",
                       nccl ? "      NCCL  share  by its model, 1 GiB" : "");
        }
        for (size_t i = 0; i < table->n_rows; i++) {
                const struct census_row *w = &table->rows[i];
                const struct capo_shapes *s = &w->c.shapes;

                printf(md ? "| `%s` | %.0f | %s |" : "%-24s %5.0f  %-18s", w->name, w->count, w->example);
                rate(w->c.broadcast_gbs, md);
                rate(w->c.allgather_gbs, md);
                rate(w->c.allreduce_gbs, md);
                if (s->rings < 0)
                        printf(md ? " - |" : " %5s", "-");
                else
                        printf(md ? " %d |" : " %5d", s->rings);
                rate(s->ring_split_gbs < 0 ? -1 : capo_ring_allreduce_gbs(s->ring_split_gbs, w->n), md);
                rate(s->chain_gbs, md);
                rate(w->c.hybrid_allreduce_gbs, md);
                if (nccl && w->nccl.version) {
                        rate(w->nccl.allreduce.gbs, md);
                        printf(md ? " %.0f %% | %s |" : " %4.0f %%  %s", w->share, w->nccl.allreduce.what);
                } else if (nccl) {
                        printf(md ? " - | - | %s |" : " %9s %6s  %s", "-", "-", w->nccl.why_not);
                }
                putchar('\n');
        }
}

/* What the fragment costs: all-reduce as NCCL does it, as it could, and as nothing can. */
static void print_atlas(const struct topo_options *o, const struct census *table)
{
        bool md = o->classes;
        char nccl[16];

        if (md)
                puts("| class | how many | for example | NCCL by itself | by | Tree | Ring | with a graph file | "
                     "ceiling | hybrid ceiling |\n|---|---|---|---|---|---|---|---|---|---|");
        else
                printf("capo topo  %s   what all-reduce reaches, algbw GB/s at 1 GiB; NCCL %s on virtual GPUs, "
                       "by its model: nothing was measured\n\n%-24s %5s  %-18s %9s  %-18s %9s %9s %9s %9s %9s\n",
                       table->t->platform, capo_nccl_text((uint32_t)table->rows[0].nccl.version, nccl, sizeof nccl),
                       "class", "count", "for example", "NCCL", "by itself", capo_algo_name(CAPO_ALGO_TREE),
                       capo_algo_name(CAPO_ALGO_RING), "graph", "ceiling", "hybrid");
        for (size_t i = 0; i < table->n_rows; i++) {
                const struct census_row *w = &table->rows[i];

                printf(md ? "| `%s` | %.0f | %s |" : "%-24s %5.0f  %-18s", w->name, w->count, w->example);
                if (!w->nccl.version) {
                        printf("  %s\n", w->nccl.why_not);
                        continue;
                }
                rate(w->nccl.allreduce.gbs, md);
                printf(md ? " %s |" : "  %-18s", w->nccl.allreduce.what);
                rate(w->nccl.allreduce.best_gbs[0], md);
                rate(w->nccl.allreduce.best_gbs[1], md);
                rate(w->graph_gbs > 0 ? w->graph_gbs : -1, md);
                rate(w->c.connected ? w->c.allreduce_gbs : -1, md);
                rate(w->c.hybrid_allreduce_gbs, md);
                putchar('\n');
        }
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
