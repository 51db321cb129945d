/* SPDX-License-Identifier: Apache-2.0 */
/* The links as a picture: per machine, GPUs on a circle, a line per bundle with a width by its
 * links, and NICs outside. */
#include <math.h>
#include <string.h>

#include "capo/collectives.h"
#include "cli/base/cli_output.h"
#include "cli/base/svg_draw.h"
#include "cli/topo/cmd_topo.h"
#include "core/base/util.h"

#define SIDE   580.0
#define TOP    40.0
#define RADIUS 140.0
#define NICS   190.0 /* from the centre */

struct point {
        double x, y;
};

static struct point find_centre(int node)
{
        return (struct point){SIDE * (node + 0.5), TOP + SIDE / 2};
}

/* Position of a GPU; @radius NICS: position of its link to the network. */
static struct point place_gpu(const struct capo_alloc *a, int rank, double radius)
{
        int node = a->ranks[rank].node, before = 0, n = 0;
        struct point p = find_centre(node);

        for (int i = 0; i < a->n_ranks; i++) {
                n += a->ranks[i].node == node;
                before += a->ranks[i].node == node && i < rank;
        }
        p.x += radius * sin(2 * M_PI * before / n);
        p.y -= radius * cos(2 * M_PI * before / n);
        return p;
}

static void draw_line(FILE *f, struct point from, struct point to, double width, const char *class)
{
        fprintf(f,
                "<line x1=\"%.0f\" y1=\"%.0f\" x2=\"%.0f\" y2=\"%.0f\" class=\"%s\" stroke-width=\"%.1f\"/>\n",
                from.x, from.y, to.x, to.y, class, width);
}

/* All links of one GPU; each pair is drawn from its first GPU. */
static void draw_links(FILE *f, const struct capo_topology *t, const struct capo_alloc *a, int rank)
{
        struct point from = place_gpu(a, rank, RADIUS);
        int switched = 0;

        for (size_t k = 0; k < t->n_links; k++) {
                const struct capo_topology_link *l = &t->links[k];

                if (l->from != a->ranks[rank].gpu || l->end == CAPO_END_CPU)
                        continue;
                switched += l->end == CAPO_END_SWITCH ? l->count : 0;
                for (int j = 0; j < a->n_ranks && l->end == CAPO_END_GPU; j++) {
                        struct point to = place_gpu(a, j, RADIUS);
                        char count[16];

                        if (a->ranks[j].gpu != l->to || a->ranks[j].node != a->ranks[rank].node)
                                continue;
                        snprintf(count, sizeof count, "%d", l->count);
                        draw_line(f, from, to, 3 * l->count, "s3");
                        capo_svg_text(f, from.x + 0.3 * (to.x - from.x) + 6,
                                      from.y + 0.3 * (to.y - from.y) - 4, 's', 0, NULL, count);
                }
        }
        if (switched)
                draw_line(f, from, find_centre(a->ranks[rank].node), switched / 4.0, "s3");
}

/* The nearest NICs of a GPU and its share of them. */
static void draw_nics(FILE *f, const struct capo_topology *t, const struct capo_alloc *a, int rank)
{
        struct point gpu = place_gpu(a, rank, RADIUS), out = place_gpu(a, rank, NICS);
        double aside = out.x - find_centre(a->ranks[rank].node).x,
               room = SIDE / 2 - fabs(aside) - 8;
        char anchor = fabs(aside) < NICS / 4 ? 'm' : aside > 0 ? 's' : 'e', name[80], share[96];
        double gbs = topo_nic(t, a, rank, name, sizeof name);

        if (!strcmp(name, "-"))
                return;
        if (gbs > 0)
                snprintf(share, sizeof share, "%.3g GB/s", gbs);
        draw_line(f, gpu,
                  (struct point){gpu.x + 0.6 * (out.x - gpu.x), gpu.y + 0.6 * (out.y - gpu.y)}, 2,
                  "s1");
        capo_svg_text(f, out.x, out.y - 2, anchor, room, NULL, name);
        if (gbs > 0)
                capo_svg_text(f, out.x, out.y + 12, anchor, room, "t", share);
}

static void draw_ceilings(FILE *f, const struct capo_ceilings *c)
{
        static const struct {
                enum capo_coll coll;
                const char *name;
        } rows[] = {{CAPO_COLL_BROADCAST, "broadcast"},
                    {CAPO_COLL_ALLGATHER, "all-gather"},
                    {CAPO_COLL_ALLREDUCE, "all-reduce"}};

        if (c->n_ranks < 2)
                return;
        capo_svg_text(f, 12, TOP + SIDE + 18, 's', 0, "t", "at most, algbw GB/s:");
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                enum capo_ceiling_of of;
                double gbs = capo_ceiling(c, rows[i].coll, &of);
                char text[128];

                if (gbs > 0)
                        snprintf(text, sizeof text, "%s %.1f%s", rows[i].name, gbs,
                                 capo_ceiling_text(of));
                else
                        snprintf(text, sizeof text, "%s: not known", rows[i].name);
                capo_svg_text(f, 12, TOP + SIDE + 36 + 16 * (double)i, 's', 0, NULL, text);
        }
}

static void draw_node(FILE *f, const struct capo_topology *t, const struct capo_alloc *a, int node)
{
        struct point middle = find_centre(node);
        bool switched = false;
        char text[32];

        for (int i = 0; i < a->n_ranks; i++) {
                if (a->ranks[i].node != node)
                        continue;
                draw_links(f, t, a, i);
                if (a->n_ranks <= 24 * a->n_nodes)
                        draw_nics(f, t, a, i);
                for (size_t k = 0; k < t->n_links; k++)
                        switched |= t->links[k].end == CAPO_END_SWITCH &&
                                    t->links[k].from == a->ranks[i].gpu;
        }
        if (switched) {
                fprintf(f, "<rect x=\"%.0f\" y=\"%.0f\" width=\"76\" height=\"24\" class=\"h\"/>\n",
                        middle.x - 38, middle.y - 12);
                capo_svg_text(f, middle.x, middle.y + 4, 'm', 0, NULL, "NVSwitch");
        }
        for (int i = 0; i < a->n_ranks; i++) {
                struct point p = place_gpu(a, i, RADIUS);

                if (a->ranks[i].node != node)
                        continue;
                fprintf(f,
                        "<circle cx=\"%.0f\" cy=\"%.0f\" r=\"17\" class=\"ground\" stroke=\"#888\"/>\n",
                        p.x, p.y);
                snprintf(text, sizeof text, "%d", t->gpus[a->ranks[i].gpu].dev);
                capo_svg_text(f, p.x, p.y + 4, 'm', 0, NULL, text);
        }
}

int topo_svg(const char *path, const struct capo_topology *t, const struct capo_alloc *a,
             const struct capo_ceilings *c)
{
        char class[512] = "", alloc[512], title[1100];
        double width = SIDE * a->n_nodes;
        struct cli_output out;
        int r = cli_output_open(&out, path);

        if (r < 0)
                return r;
        capo_class_name(t, a, class, sizeof class);
        capo_alloc_print(t, a, alloc, sizeof alloc);
        snprintf(title, sizeof title, "%s  %s", alloc, class);
        capo_svg_begin(out.file, width, SIDE + TOP + 84, title, true);
        capo_svg_text(out.file, 12, 22, 's', width - 24, NULL, title);
        for (int node = 0; node < a->n_nodes; node++)
                draw_node(out.file, t, a, node);
        draw_ceilings(out.file, c);
        capo_svg_end(out.file);
        return cli_output_close(&out, 0);
}
