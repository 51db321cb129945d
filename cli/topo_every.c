/* SPDX-License-Identifier: Apache-2.0 */
/* All allocations of a machine, one line per class. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "capo/msg.h"
#include "cli/cli.h"
#include "cli/topo.h"
#include "core/util.h"

struct class_row {
        char name[CAPO_CLASS_ROOM], example[64];
        int n;
        double count;
        struct capo_ceilings c;
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

static int fold(const struct capo_topology *t, const int *gpus, int n, double count, struct class_row **rows,
                size_t *n_rows)
{
        struct capo_alloc a;
        char name[CAPO_CLASS_ROOM];
        int r = capo_alloc_gpus(gpus, n, &a);

        if (!r)
                r = capo_class_name(t, &a, name, sizeof name);
        for (size_t i = 0; i < *n_rows && !r; i++) {
                if (!strcmp((*rows)[i].name, name)) {
                        (*rows)[i].count += count;
                        capo_alloc_free(&a);
                        return 0;
                }
        }
        if (!r) {
                struct class_row *more = realloc(*rows, (*n_rows + 1) * sizeof *more);

                r = more ? 0 : -1;
                if (more) {
                        struct class_row *w = &more[*n_rows];

                        *rows = more;
                        memset(w, 0, sizeof *w);
                        w->n = n;
                        w->count = count;
                        memcpy(w->name, name, sizeof name);
                        capo_alloc_print(t, &a, w->example, sizeof w->example);
                        r = capo_ceilings(t, &a, CAPO_CEILING_TREES | CAPO_CEILING_RINGS | CAPO_CEILING_HYBRID, &w->c);
                        if (!r)
                                (*n_rows)++;
                }
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

static void print(const struct topo_options *o, const struct capo_topology *t, const struct class_row *rows, size_t n)
{
        bool md = o->classes;

        if (md) {
                printf("| class | how many | for example | broadcast | all-gather | all-reduce | rings | all-reduce by "
                       "rings "
                       "| by chains | hybrid all-reduce |\n|---|---|---|---|---|---|---|---|---|---|\n");
        } else {
                printf("capo topo  %s   allocations of %d GPUs by class   algbw GB/s", t->platform, o->every);
                if (t->brick_gbs > 0)
                        printf("   one link %g GB/s each way", t->brick_gbs);
                printf("\n\n%-24s %5s  %-18s %9s %9s %9s %5s %9s %9s %9s\n", "class", "count", "for example",
                       "broadcast", "allgather", "allreduce", "rings", "by rings", "by chains", "hybrid");
        }
        for (size_t i = 0; i < n; i++) {
                const struct class_row *w = &rows[i];
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
                putchar('\n');
        }
}

static void print_json(const struct capo_topology *t, const struct class_row *rows, size_t n)
{
        json_t *list = json_array(), *page;

        for (size_t i = 0; i < n; i++) {
                const struct capo_ceilings *c = &rows[i].c;

                json_array_append_new(list, json_pack("{s:s, s:i, s:f, s:s, s:b, s:b, s:i, s:f, s:f, s:f}", "class",
                                                      rows[i].name, "gpus", rows[i].n, "count", rows[i].count,
                                                      "example", rows[i].example, "connected", c->connected,
                                                      "nvlink_ring", c->shapes.ring, "nvlink_rings", c->shapes.rings,
                                                      "broadcast_gbs", c->broadcast_gbs, "allgather_gbs",
                                                      c->allgather_gbs, "allreduce_gbs", c->allreduce_gbs));
        }
        page = json_pack("{s:i, s:s, s:f, s:o}", "capo_topo", 1, "platform", t->platform, "nvlink_brick_gbs",
                         t->brick_gbs, "classes", list);
        json_dumpf(page, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(10));
        putchar('\n');
        json_decref(page);
}

int topo_every(const struct topo_options *o, const struct capo_topology *t)
{
        _cleanup_free_ int *gpus = malloc(sizeof *gpus * (t->n_gpus + 1));
        struct class_row *rows = NULL;
        size_t n_rows = 0;
        int total = (int)t->n_gpus, low = o->every ? o->every : 2, high = o->every ? o->every : total,
            r = gpus ? 0 : -1;

        if (low > total) {
                capo_error("topo: %s has %d GPUs, not %d", t->name, total, low);
                return CAPO_EXIT_FAIL;
        }
        if (uniform(t)) {
                for (int n = low; n <= high && !r; n++) {
                        for (int g = 0; g < n; g++)
                                gpus[g] = g;
                        r = fold(t, gpus, n, choose(total, n), &rows, &n_rows);
                }
        } else if (total > 16) {
                capo_error("topo: all allocations of %d GPUs without a switch are too many", total);
                return CAPO_EXIT_FAIL;
        }
        for (unsigned set = 1; !uniform(t) && set < 1u << total && !r; set++) {
                int n = 0;

                for (int g = 0; g < total; g++) {
                        if (set >> g & 1)
                                gpus[n++] = g;
                }
                if (n >= low && n <= high)
                        r = fold(t, gpus, n, 1, &rows, &n_rows);
        }
        if (!r) {
                qsort(rows, n_rows, sizeof *rows, by_name);
                if (o->json)
                        print_json(t, rows, n_rows);
                else
                        print(o, t, rows, n_rows);
        } else {
                capo_error("topo: out of memory");
        }
        for (size_t i = 0; i < n_rows; i++)
                capo_ceilings_free(&rows[i].c);
        free(rows);
        return r ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}
