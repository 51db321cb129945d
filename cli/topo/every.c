/* SPDX-License-Identifier: Apache-2.0 */
/* All allocations of a machine, one line per class. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/graph/graph.h"
#include "cli/topo/topo.h"
#include "core/base/util.h"

struct class_row {
        char name[CAPO_CLASS_ROOM], example[64];
        int n;
        double count;
        struct capo_ceilings c;
        struct fragment_nccl nccl; /* of the example */
        double graph_gbs;          /* all-reduce with a graph file; 0: no file helps */
};

struct table {
        const struct topo_options *o;
        const struct capo_topology *t;
        const struct topo_source *s;
        struct class_row *rows;
        size_t n_rows;
};

static int by_name(const void *a, const void *b)
{
        const struct class_row *x = a, *y = b;

        return x->n != y->n ? x->n - y->n : strcmp(x->name, y->name);
}

/* Subsets of a switch machine are all alike: the first n GPUs stand for each size. */
static bool uniform(const struct capo_topology *t)
{
        return t->n_switches && t->n_gpus > 10;
}

static double choose(int n, int k)
{
        double ways = 1;

        for (int i = 1; i <= k; i++)
                ways = ways * (n - k + i) / i;
        return ways;
}

static void try_graph(struct table *w, const struct capo_alloc *a, struct class_row *row)
{
        struct graph_plan *best = calloc(1, sizeof *best);
        struct fragment_nccl with = {0};
        char why[512];

        if (best && graph_best(w->s, w->t, a, NULL, &row->nccl, best, &with, why, sizeof why) > 0)
                row->graph_gbs = with.allreduce.gbs;
        fragment_nccl_finish(&with);
        free(best);
}

static int fold(struct table *w, const int *gpus, int n, double count)
{
        struct class_row *row;
        struct capo_alloc a;
        char name[CAPO_CLASS_ROOM];
        int r = capo_alloc_gpus(gpus, n, &a);

        if (r < 0)
                return r;
        r = capo_class_name(w->t, &a, name, sizeof name);
        for (size_t i = 0; i < w->n_rows && !r; i++) {
                if (!strcmp(w->rows[i].name, name)) {
                        w->rows[i].count += count;
                        capo_alloc_free(&a);
                        return 0;
                }
        }
        row = r ? NULL : realloc(w->rows, (w->n_rows + 1) * sizeof *row);
        if (row) {
                w->rows = row;
                row += w->n_rows;
                memset(row, 0, sizeof *row);
                row->n = n;
                row->count = count;
                memcpy(row->name, name, sizeof name);
                capo_alloc_print(w->t, &a, row->example, sizeof row->example);
                r = capo_ceilings(w->t, &a, CAPO_CEILING_TREES | CAPO_CEILING_RINGS | CAPO_CEILING_HYBRID, &row->c);
                if (!r) {
                        w->n_rows++;
                        if (w->o->atlas)
                                try_graph(w, &a, row);
                        else if (w->o->ask_nccl)
                                (void)topo_ask(w->s, w->t, &a, NULL, &row->nccl);
                        if (w->o->ask_nccl && isatty(2))
                                fprintf(stderr, "\r%zu classes asked\033[K", w->n_rows);
                }
        } else if (!r) {
                r = -ENOMEM;
        }
        capo_alloc_free(&a);
        return r;
}

static void rate(double gbs, bool markdown)
{
        if (gbs < 0)
                printf(markdown ? " - |" : " %9s", "-");
        else
                printf(markdown ? " %.1f |" : " %9.1f", gbs);
}

/* What NCCL reaches of the most its links allow: over NVLink, or with everything where NVLink does not join all. */
static double share(const struct class_row *w)
{
        double best = w->c.allreduce_gbs > 0 ? w->c.allreduce_gbs : w->c.hybrid_allreduce_gbs;

        return best > 0 && w->nccl.allreduce.gbs > 0 ? 100 * w->nccl.allreduce.gbs / best : -1;
}

static void print(const struct table *table)
{
        const struct topo_options *o = table->o;
        bool md = o->classes, nccl = o->ask_nccl;

        if (md) {
                printf("| class | how many | for example | broadcast | all-gather | all-reduce | rings | all-reduce by "
                       "rings "
                       "| by chains | hybrid all-reduce |%s\n|---|---|---|---|---|---|---|---|---|---|%s\n",
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
                const struct class_row *w = &table->rows[i];
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
                        printf(md ? " %.0f %% | %s |" : " %4.0f %%  %s", share(w), w->nccl.allreduce.what);
                } else if (nccl) {
                        printf(md ? " - | - | %s |" : " %9s %6s  %s", "-", "-", w->nccl.why_not);
                }
                putchar('\n');
        }
}

/* What the fragment costs: all-reduce as NCCL does it, as it could, and as nothing can. */
static void print_atlas(const struct table *table)
{
        bool md = table->o->classes;

        if (md)
                puts("| class | how many | for example | NCCL by itself | by | Tree | Ring | with a graph file | "
                     "ceiling | "
                     "hybrid ceiling |\n|---|---|---|---|---|---|---|---|---|---|");
        else
                printf("capo topo  %s   what all-reduce reaches, algbw GB/s at 1 GiB; NCCL %d.%d.%d on virtual GPUs, "
                       "by its "
                       "model: nothing was measured\n\n%-24s %5s  %-18s %9s  %-18s %9s %9s %9s %9s %9s\n",
                       table->t->platform, table->rows[0].nccl.version / 10000, table->rows[0].nccl.version / 100 % 100,
                       table->rows[0].nccl.version % 100, "class", "count", "for example", "NCCL", "by itself", "Tree",
                       "Ring", "graph", "ceiling", "hybrid");
        for (size_t i = 0; i < table->n_rows; i++) {
                const struct class_row *w = &table->rows[i];

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
                     "graph, - where none "
                     "helps;\n  ceiling: over NVLink no software exceeds it, - where NVLink does not join all; hybrid: "
                     "with PCIe "
                     "and NICs");
}

static void print_json(const struct table *table)
{
        json_t *list = json_array(), *page;

        for (size_t i = 0; i < table->n_rows; i++) {
                const struct class_row *w = &table->rows[i];
                const struct capo_ceilings *c = &w->c;
                json_t *row =
                        json_pack("{s:s, s:i, s:f, s:s, s:b, s:b, s:i, s:f, s:f, s:f}", "class", w->name, "gpus", w->n,
                                  "count", w->count, "example", w->example, "connected", c->connected, "nvlink_ring",
                                  c->shapes.ring, "nvlink_rings", c->shapes.rings, "broadcast_gbs", c->broadcast_gbs,
                                  "allgather_gbs", c->allgather_gbs, "allreduce_gbs", c->allreduce_gbs);

                json_object_set_new(row, "hybrid_allreduce_gbs",
                                    c->hybrid_allreduce_gbs < 0 ? json_null() : json_real(c->hybrid_allreduce_gbs));
                json_object_set_new(row, "chain_allreduce_gbs",
                                    c->shapes.chain_gbs < 0 ? json_null() : json_real(c->shapes.chain_gbs));
                if (w->nccl.version) {
                        json_object_set_new(row, "nccl_allreduce_gbs", json_real(w->nccl.allreduce.gbs));
                        json_object_set_new(row, "nccl_allreduce", json_string(w->nccl.allreduce.what));
                        json_object_set_new(row, "nccl_nodes", json_integer(w->nccl.nodes));
                        json_object_set_new(row, "nccl_tree_gbs", json_real(w->nccl.allreduce.best_gbs[0]));
                        json_object_set_new(row, "nccl_ring_gbs", json_real(w->nccl.allreduce.best_gbs[1]));
                        if (table->o->atlas)
                                json_object_set_new(row, "graph_allreduce_gbs",
                                                    w->graph_gbs > 0 ? json_real(w->graph_gbs) : json_null());
                }
                json_array_append_new(list, row);
        }
        page = json_pack("{s:i, s:s, s:f, s:o}", "capo_topo", 1, "platform", table->t->platform, "nvlink_brick_gbs",
                         table->t->brick_gbs, "classes", list);
        json_dumpf(page, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(10));
        putchar('\n');
        json_decref(page);
}

int topo_every(const struct topo_options *o, const struct capo_topology *t, const struct topo_source *s)
{
        _cleanup_free_ int *gpus = malloc(sizeof *gpus * (t->n_gpus + 1));
        struct table w = {o, t, s, NULL, 0};
        int total = (int)t->n_gpus, low = o->every ? o->every : 2, high = o->every ? o->every : total,
            r = gpus ? 0 : -ENOMEM;

        if (low > total) {
                capo_error("topo: %s has %d GPUs, not %d", t->name, total, low);
                return CAPO_EXIT_FAIL;
        }
        if (!uniform(t) && total > 16) {
                capo_error("topo: all allocations of %d GPUs without a switch are too many", total);
                return CAPO_EXIT_FAIL;
        }
        for (int n = low; uniform(t) && n <= high && !r; n++) {
                for (int g = 0; g < n; g++)
                        gpus[g] = g;
                r = fold(&w, gpus, n, choose(total, n));
        }
        for (unsigned set = 1; !uniform(t) && set < 1u << total && !r; set++) {
                int n = 0;

                for (int g = 0; g < total; g++) {
                        if (set >> g & 1)
                                gpus[n++] = g;
                }
                if (n >= low && n <= high)
                        r = fold(&w, gpus, n, 1);
        }
        if (o->ask_nccl && isatty(2))
                fputs("\r\033[K", stderr);
        if (!r) {
                qsort(w.rows, w.n_rows, sizeof *w.rows, by_name);
                if (o->json)
                        print_json(&w);
                else if (o->atlas)
                        print_atlas(&w);
                else
                        print(&w);
        } else {
                capo_error("topo: out of memory");
        }
        for (size_t i = 0; i < w.n_rows; i++) {
                capo_ceilings_free(&w.rows[i].c);
                fragment_nccl_finish(&w.rows[i].nccl);
        }
        free(w.rows);
        return r ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}
