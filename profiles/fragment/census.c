/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/util.h"
#include "profiles/fragment/best.h"
#include "profiles/fragment/census.h"

static int by_name(const void *a, const void *b)
{
        const struct census_row *x = a, *y = b;

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

static void try_graph(struct census *w, const struct capo_alloc *a, struct census_row *row)
{
        _cleanup_free_ struct graph_plan *best = calloc(1, sizeof *best);
        struct fragment_nccl with = {0};
        char why[512];

        if (best && graph_best(w->ask, w->t, a, NULL, &row->nccl, best, &with, why, sizeof why) > 0)
                row->graph_gbs = with.allreduce.gbs;
        fragment_nccl_finish(&with);
}

static void ask(struct census *w, const struct capo_alloc *a, struct census_row *row)
{
        enum capo_ceiling_of of;
        double most = capo_ceiling(&row->c, CAPO_COLL_ALLREDUCE, &of);

        row->share = -1;
        if (!w->ask) {
                snprintf(row->nccl.why_not, sizeof row->nccl.why_not, "%s", w->why_not ? w->why_not : "");
                return;
        }
        if (w->graphs)
                try_graph(w, a, row);
        else
                (void)fragment_nccl_ask(w->ask, w->t, a, &row->nccl);
        if (most > 0 && row->nccl.version && row->nccl.allreduce.gbs > 0)
                row->share = 100 * row->nccl.allreduce.gbs / most;
        if (w->progress)
                w->progress(w->n_rows);
}

static int fold(struct census *w, const int *gpus, int n, double count)
{
        struct census_row *row;
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
        if (!r && capo_array_room(&w->rows, w->n_rows, sizeof *row) == 0) {
                row = &w->rows[w->n_rows];
                memset(row, 0, sizeof *row);
                row->n = n;
                row->count = count;
                memcpy(row->name, name, sizeof name);
                capo_alloc_print(w->t, &a, row->example, sizeof row->example);
                r = capo_ceilings(w->t, &a, CAPO_CEILING_TREES | CAPO_CEILING_RINGS | CAPO_CEILING_HYBRID, &row->c);
                if (!r) {
                        w->n_rows++;
                        ask(w, &a, row);
                }
        } else if (!r) {
                r = -ENOMEM;
        }
        capo_alloc_free(&a);
        return r;
}

int census_take(struct census *w)
{
        const struct capo_topology *t = w->t;
        _cleanup_free_ int *gpus = malloc(sizeof *gpus * (t->n_gpus + 1));
        int total = (int)t->n_gpus, r = gpus ? 0 : -ENOMEM;

        if (w->low > total)
                return -EINVAL;
        if (!uniform(t) && total > 16)
                return -E2BIG;
        for (int n = w->low; uniform(t) && n <= w->high && !r; n++) {
                for (int g = 0; g < n; g++)
                        gpus[g] = g;
                r = fold(w, gpus, n, choose(total, n));
        }
        for (unsigned set = 1; !uniform(t) && set < 1u << total && !r; set++) {
                int n = 0;

                for (int g = 0; g < total; g++) {
                        if (set >> g & 1)
                                gpus[n++] = g;
                }
                if (n >= w->low && n <= w->high)
                        r = fold(w, gpus, n, 1);
        }
        if (!r && w->n_rows)
                qsort(w->rows, w->n_rows, sizeof *w->rows, by_name);
        return r;
}

void census_finish(struct census *w)
{
        for (size_t i = 0; i < w->n_rows; i++) {
                capo_ceilings_free(&w->rows[i].c);
                fragment_nccl_finish(&w->rows[i].nccl);
        }
        free(w->rows);
}
