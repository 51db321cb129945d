/* SPDX-License-Identifier: Apache-2.0 */
/* The links as a picture: GPUs on a circle per machine, a line per link bundle as wide as it has links. */
#include <errno.h>
#include <math.h>

#include "cli/topo/topo.h"
#include "core/base/util.h"

#define SIDE 420.0

static void place(const struct capo_alloc *a, int rank, double *x, double *y)
{
        int node = a->ranks[rank].node, before = 0, n = 0;

        for (int i = 0; i < a->n_ranks; i++) {
                n += a->ranks[i].node == node;
                before += a->ranks[i].node == node && i < rank;
        }
        *x = SIDE * (node + 0.5) + 150 * sin(2 * M_PI * before / n);
        *y = 40 + SIDE / 2 - 150 * cos(2 * M_PI * before / n);
}

int topo_svg(const char *path, const struct capo_topology *t, const struct capo_alloc *a, const struct capo_ceilings *c)
{
        FILE *f = fopen(path, "we");
        char class[512] = "", alloc[512];
        int r;

        if (!f)
                return -errno;
        capo_class_name(t, a, class, sizeof class);
        capo_alloc_print(t, a, alloc, sizeof alloc);
        fprintf(f,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" font-family=\"sans-serif\" "
                "font-size=\"13\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
                "<text x=\"12\" y=\"22\">%s  %s</text>\n"
                "<text x=\"12\" y=\"%.0f\">ceilings, algbw GB/s: broadcast %.1f,</text>\n"
                "<text x=\"12\" y=\"%.0f\">all-gather %.1f, all-reduce %.1f</text>\n",
                SIDE * a->n_nodes, SIDE + 80, alloc, class, SIDE + 48, c->broadcast_gbs, SIDE + 66, c->allgather_gbs,
                c->allreduce_gbs);
        for (size_t k = 0; k < t->n_links; k++) {
                const struct capo_topology_link *l = &t->links[k];

                for (int i = 0; i < a->n_ranks; i++) {
                        double x, y, u, v;

                        if (a->ranks[i].gpu != l->from || l->end == CAPO_END_CPU)
                                continue;
                        place(a, i, &x, &y);
                        if (l->end == CAPO_END_SWITCH) {
                                fprintf(f,
                                        "<line x1=\"%.0f\" y1=\"%.0f\" x2=\"%.0f\" y2=\"%.0f\" stroke=\"#76b900\" "
                                        "stroke-width=\"%d\"/>\n",
                                        x, y, SIDE * (a->ranks[i].node + 0.5), 40 + SIDE / 2, l->count);
                                continue;
                        }
                        for (int j = 0; j < a->n_ranks; j++) {
                                if (a->ranks[j].gpu != l->to || a->ranks[j].node != a->ranks[i].node)
                                        continue;
                                place(a, j, &u, &v);
                                fprintf(f,
                                        "<line x1=\"%.0f\" y1=\"%.0f\" x2=\"%.0f\" y2=\"%.0f\" stroke=\"#76b900\" "
                                        "stroke-width=\"%d\"/>\n<text x=\"%.0f\" y=\"%.0f\" fill=\"#345\">%d</text>\n",
                                        x, y, u, v, 3 * l->count, x + 0.3 * (u - x) + 6, y + 0.3 * (v - y) - 4,
                                        l->count);
                        }
                }
        }
        for (int i = 0; i < a->n_ranks; i++) {
                double x, y;

                place(a, i, &x, &y);
                fprintf(f,
                        "<circle cx=\"%.0f\" cy=\"%.0f\" r=\"17\" fill=\"#eef\" stroke=\"#225\"/>\n"
                        "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">%d</text>\n",
                        x, y, x, y + 5, t->gpus[a->ranks[i].gpu].dev);
        }
        fputs("</svg>\n", f);
        r = ferror(f) ? -EIO : 0;
        return fclose(f) ? -errno : r;
}
