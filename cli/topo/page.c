/* SPDX-License-Identifier: Apache-2.0 */
/* One allocation, for people and for programs. */
#include <errno.h>
#include <string.h>

#include "cli/base/json.h"
#include "cli/base/screen.h"
#include "cli/base/table.h"
#include "cli/topo/topo.h"
#include "core/base/nccl.h"
#include "core/base/util.h"
#include "profiles/fragment/net.h"

enum { LINKS_SHOWN = 24 }; /* GPUs; more are no picture */

double topo_nic(const struct capo_topology *t, const struct capo_alloc *a, int rank, char *text, size_t room)
{
        const struct capo_alloc_rank *me = &a->ranks[rank];
        enum capo_path nearest = CAPO_PATH_UNKNOWN;
        const char *first = NULL;
        double share = 0;
        int more = -1;

        for (size_t k = 0; k < t->n_nics; k++) {
                enum capo_path p = t->nic_path[(size_t)me->gpu * t->n_nics + k];

                if (p < nearest && (t->nics[k].pci >= 0 || !t->pci_known))
                        nearest = p;
        }
        snprintf(text, room, "-");
        for (size_t k = 0; k < t->n_nics && nearest < CAPO_PATH_UNKNOWN; k++) {
                int users = 0;

                if (t->nic_path[(size_t)me->gpu * t->n_nics + k] != nearest || (t->nics[k].pci < 0 && t->pci_known))
                        continue;
                for (int i = 0; i < a->n_ranks; i++) { /* who else of this machine has it nearest */
                        enum capo_path best = CAPO_PATH_UNKNOWN;

                        if (a->ranks[i].node != me->node)
                                continue;
                        for (size_t j = 0; j < t->n_nics; j++) {
                                enum capo_path p = t->nic_path[(size_t)a->ranks[i].gpu * t->n_nics + j];

                                best = p < best && (t->nics[j].pci >= 0 || !t->pci_known) ? p : best;
                        }
                        users += t->nic_path[(size_t)a->ranks[i].gpu * t->n_nics + k] == best;
                }
                share += t->nics[k].gbs / (users ? users : 1);
                first = first ? first : t->nics[k].name;
                more++;
        }
        if (first && more > 0)
                snprintf(text, room, "%s +%d %s", first, more, capo_path_name(nearest));
        else if (first)
                snprintf(text, room, "%s %s", first, capo_path_name(nearest));
        return share;
}

static void entry(const struct capo_topology *t, const struct capo_alloc *a, int i, int j, char *text, size_t room)
{
        int from = a->ranks[i].gpu, to = a->ranks[j].gpu, switched = 0;

        if (i == j) {
                snprintf(text, room, ".");
                return;
        }
        if (a->ranks[i].node != a->ranks[j].node) {
                snprintf(text, room, "net");
                return;
        }
        for (size_t k = 0; k < t->n_links; k++) {
                const struct capo_topology_link *l = &t->links[k];

                if (l->end == CAPO_END_GPU && ((l->from == from && l->to == to) || (l->from == to && l->to == from))) {
                        snprintf(text, room, "%dx%s", l->count, l->kind == CAPO_WIRE_XGMI ? "XG" : "NV");
                        return;
                }
                if (l->end == CAPO_END_SWITCH && l->from == from)
                        switched += l->count;
        }
        if (switched)
                snprintf(text, room, "%dsw", switched);
        else if (from == to)
                snprintf(text, room, "same");
        else
                snprintf(text, room, "%s", capo_path_name(t->gpu_path[(size_t)from * t->n_gpus + (size_t)to]));
}

static void cell(struct capo_table *t, double gbs)
{
        if (gbs < 0)
                capo_table_cell(t, "-");
        else
                capo_table_cell(t, "%.1f", gbs);
}

/* Ring and chain rates as each collective's algorithm bandwidth. The share is that of what nothing exceeds, which may
 * count on more than the column "ceiling" does: on PCIe and NICs, on switches that add. */
static void row(struct capo_table *t, const char *name, const struct capo_ceilings *c, enum capo_coll coll,
                double ceiling, int trees, double ring, double chain, double hybrid,
                const struct fragment_nccl_row *nccl)
{
        static const char *const marks[] = {"", "", "switch", "hybrid", "hybrid"};
        enum capo_ceiling_of of;
        double most = capo_ceiling(c, coll, &of);

        capo_table_cell(t, "%s", name);
        cell(t, ceiling);
        capo_table_cell(t, "%d", trees);
        cell(t, ring);
        cell(t, chain);
        cell(t, hybrid);
        if (nccl && nccl->gbs >= 0 && most > 0)
                capo_table_row(t, "%.1f\t%.0f %%\t%s\t%s", nccl->gbs, 100 * nccl->gbs / most, marks[of], nccl->what);
        else if (nccl && nccl->gbs >= 0)
                capo_table_row(t, "%.1f\t\t\t%s", nccl->gbs, nccl->what);
        else
                capo_table_end(t);
}

/* "3"; of several machines "1:3". */
static void print_gpu(FILE *out, const struct capo_topology *t, const struct capo_alloc *a, int rank)
{
        if (a->n_nodes > 1)
                fprintf(out, "%d:", a->ranks[rank].node);
        fprintf(out, "%d", t->gpus[a->ranks[rank].gpu].dev);
}

static void print_trees(FILE *out, const struct capo_topology *t, const struct capo_alloc *a, const char *name,
                        const struct pack_trees *trees, double unit_gbs)
{
        for (int i = 0; i < trees->n_trees; i++) {
                const struct pack_edge *e = trees->edges + i * (trees->n_ranks - 1);

                fprintf(out, "  %-12s %8.3f GB/s  root ", i ? "" : name,
                        (double)trees->trees[i].rate.num / (double)trees->trees[i].rate.den * unit_gbs);
                print_gpu(out, t, a, trees->trees[i].root);
                fputc(':', out);
                for (int k = 0; k < trees->n_ranks - 1; k++) {
                        fputc(' ', out);
                        print_gpu(out, t, a, e[k].from);
                        fputc('-', out);
                        print_gpu(out, t, a, e[k].to);
                }
                fputc('\n', out);
        }
}

static const char *link_word(const struct capo_topology *t)
{
        for (size_t i = 0; i < t->n_links; i++) {
                if (t->links[i].kind == CAPO_WIRE_XGMI)
                        return "xGMI";
        }
        return "NVLink";
}

static const char *base_name(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}

/* How each GPU reaches each other, and the network. */
static void links_page(FILE *out, const struct capo_topology *t, const struct capo_alloc *a)
{
        char columns[16 * LINKS_SHOWN + 16] = "r5,.r5", text[64], nic[80];
        _cleanup_(capo_table_freep) struct capo_table *table = NULL;
        int n = a->n_ranks;

        for (int j = 1; j < n; j++) /* the last is left out first */
                snprintf(columns + strlen(columns), 16, ",..r5/%c", 'a' + n - 1 - j);
        table = capo_table_new(strcat(columns, ", .l"));
        if (!table)
                return;
        capo_table_cell(table, " ");
        for (int j = 0; j < n; j++)
                capo_table_cell(table, "%d", t->gpus[a->ranks[j].gpu].dev);
        capo_table_row(table, "nearest NIC, GB/s of it");
        for (int i = 0; i < n; i++) {
                double share = topo_nic(t, a, i, nic, sizeof nic);

                if (i && a->ranks[i].node != a->ranks[i - 1].node)
                        capo_table_row(table, "%s", "");
                capo_table_cell(table, "%d", t->gpus[a->ranks[i].gpu].dev);
                for (int j = 0; j < n; j++) {
                        entry(t, a, i, j, text, sizeof text);
                        capo_table_cell(table, "%s", text);
                }
                if (share > 0)
                        capo_table_row(table, "%s  %.3g", nic, share);
                else
                        capo_table_row(table, "%s", nic);
        }
        capo_table_print(table, out, 1, "", "");
        fputc('\n', out);
}

void topo_page(FILE *out, const struct topo_options *o, const struct capo_topology *t, const struct capo_alloc *a,
               const struct capo_ceilings *c, const struct fragment_nccl *nccl, const char *said)
{
        _cleanup_(capo_table_freep) struct capo_table *table =
                capo_table_new(" l28,.r9,.r6/c,.r9/b,.r9/a,.r9,.r9,.r6,.l6/d,l~");
        char alloc[512], class[512] = "?", version[16];
        const struct capo_shapes *s = &c->shapes;
        int n = c->n_ranks;
        bool wide = n > LINKS_SHOWN, asked = nccl->version != 0;

        out = cli_screen_begin(out);
        capo_class_name(t, a, class, sizeof class);
        capo_alloc_print(t, a, alloc, sizeof alloc);
        fprintf(out, "capo topo  %s   allocation %s   class %s\n", base_name(t->name), alloc, class);
        fprintf(out, "%d GPUs on %d machine%s, %s over %s", n, a->n_nodes, a->n_nodes > 1 ? "s" : "",
                n < 2          ? "nothing to join"
                : c->connected ? "connected"
                               : "not connected",
                link_word(t));
        if (n >= 2 && c->connected && s->ring_split_gbs >= 0) {
                if (!s->ring)
                        fprintf(out, ", no ring");
                else if (s->rings >= 0)
                        fprintf(out, ", %s%d ring%s without a shared link", s->rings_exact ? "" : "at least ", s->rings,
                                s->rings == 1 ? "" : "s");
                else
                        fprintf(out, ", a ring exists");
        }
        if (t->brick_gbs > 0)
                fprintf(out, "   one link %g GB/s each way (%s)", t->brick_gbs, t->brick_source);
        fputc('\n', out);
        if (*said)
                fprintf(out, "%s\n", said);
        if (t->hidden)
                fprintf(out, "%d links lead to GPUs that the description leaves out; they are not counted\n",
                        t->hidden);
        if (t->links_unknown)
                fprintf(out, "this file has the PCI tree only: NCCL asks the driver for NVLinks. --platform knows some "
                             "machines whole\n");
        fputc('\n', out);
        if (!wide)
                links_page(out, t, a);
        if (n < 2 || !table)
                return;
        capo_table_row(table, "algbw GB/s\tceiling\ttrees\trings\tchains\thybrid%s",
                       asked ? "\tNCCL by its model" : "");
        row(table, "broadcast, reduce", c, CAPO_COLL_BROADCAST, c->broadcast_gbs, c->broadcast.n_trees,
            s->ring_split_gbs, -1, c->hybrid_broadcast_gbs, asked ? &nccl->broadcast : NULL);
        row(table, "all-gather, reduce-scatter", c, CAPO_COLL_ALLGATHER, c->allgather_gbs, c->allgather.n_trees,
            s->ring_split_gbs < 0 ? -1 : s->ring_split_gbs * n / (n - 1), -1, c->hybrid_allgather_gbs,
            asked ? &nccl->allgather : NULL);
        row(table, "all-reduce", c, CAPO_COLL_ALLREDUCE, c->allreduce_gbs, c->allreduce.n_trees,
            s->ring_split_gbs < 0 ? -1 : capo_ring_allreduce_gbs(s->ring_split_gbs, n), s->chain_gbs,
            c->hybrid_allreduce_gbs, asked ? &nccl->allreduce : NULL);
        if (c->nvls_gbs > 0)
                capo_table_row(table, "all-reduce in the switch\t%.1f\t\t(the switch adds and copies: NVLS)",
                               c->nvls_gbs);
        else if (c->nvls_across_gbs > c->hybrid_allreduce_gbs)
                capo_table_row(table, "all-reduce in the switches\t\t\t\t\t%.1f\t (NVSwitches add and copy, at most)",
                               c->nvls_across_gbs);
        capo_table_print(table, out, 1, "", "");
        fprintf(out,
                "  ceiling: %s alone; rings, chains: the best that those shapes can do on it, links shared freely;\n"
                "  hybrid: with PCIe and NICs%s\n",
                link_word(t), t->pci_known ? "" : " (this description has no PCIe speeds)");
        if (asked)
                fprintf(out,
                        "  NCCL %s at 1 GiB: ring %s, tree %s, %d node%s as it counts; decisions are its own, "
                        "times its model\n",
                        capo_nccl_text((uint32_t)nccl->version, version, sizeof version),
                        *nccl->ring ? nccl->ring : "none", *nccl->tree ? nccl->tree : "none", nccl->nodes,
                        nccl->nodes == 1 ? "" : "s");
        if (*nccl->why_not)
                fprintf(out, "  NCCL was not asked: %s\n", nccl->why_not);
        if (o->trees) {
                fputs("\ntrees\n", out);
                print_trees(out, t, a, "broadcast", &c->broadcast, c->unit_gbs);
                print_trees(out, t, a, "all-gather", &c->allgather, c->unit_gbs);
                print_trees(out, t, a, "all-reduce", &c->allreduce, c->unit_gbs);
                print_trees(out, t, a, "hybrid bcast", &c->hybrid_broadcast, c->hybrid_unit_gbs);
                print_trees(out, t, a, "hybrid all-g", &c->hybrid_allgather, c->hybrid_unit_gbs);
                print_trees(out, t, a, "hybrid all-r", &c->hybrid_allreduce, c->hybrid_unit_gbs);
        }
}

/* In JSON a GPU of one machine is its number; of several machines its place in "ranks". */
static int name_of(const struct capo_topology *t, const struct capo_alloc *a, int rank)
{
        return a->n_nodes == 1 ? t->gpus[a->ranks[rank].gpu].dev : rank;
}

static json_t *json_trees(const struct capo_topology *t, const struct capo_alloc *a, const struct pack_trees *trees,
                          double unit_gbs)
{
        json_t *rows = json_array();

        for (int i = 0; i < trees->n_trees; i++) {
                const struct pack_edge *e = trees->edges + i * (trees->n_ranks - 1);
                json_t *edges = json_array();

                for (int k = 0; k < trees->n_ranks - 1; k++)
                        json_array_append_new(edges,
                                              json_pack("[i, i]", name_of(t, a, e[k].from), name_of(t, a, e[k].to)));
                json_array_append_new(
                        rows, json_pack("{s:f, s:i, s:o}", "gbs",
                                        (double)trees->trees[i].rate.num / (double)trees->trees[i].rate.den * unit_gbs,
                                        "root", name_of(t, a, trees->trees[i].root), "edges", edges));
        }
        return rows;
}

/* Where the edges of those trees go: by vertices, GPUs as "machine:number". */
static json_t *json_ways(const struct capo_ceilings *c, const struct pack_ways *ways, int64_t den)
{
        json_t *rows = json_array();

        for (int i = 0; i < ways->n_ways; i++) {
                json_t *way = json_array();

                for (int k = 0; k < ways->ways[i].n; k++)
                        json_array_append_new(way, json_string(c->hybrid_names[ways->ways[i].vertices[k]].text));
                json_array_append_new(rows, json_pack("{s:f, s:o}", "gbs",
                                                      (double)ways->ways[i].amount / (double)den * c->hybrid_unit_gbs,
                                                      "way", way));
        }
        return rows;
}

static void set_gbs(json_t *page, const char *key, double gbs)
{
        json_object_set_new(page, key, cli_json_known(gbs));
}

int topo_json(FILE *out, const struct capo_topology *t, const struct capo_alloc *a, const struct capo_ceilings *c,
              const struct fragment_nccl *nccl, const char *said)
{
        json_t *page = json_object(), *gpus = json_array(), *matrix = json_array(), *nodes = json_array();
        char class[512] = "", text[80];
        int n = c->n_ranks;

        capo_class_name(t, a, class, sizeof class);
        for (int i = 0; i < n; i++) {
                const struct capo_topology_gpu *g = &t->gpus[a->ranks[i].gpu];
                double share = topo_nic(t, a, i, text, sizeof text);
                json_t *row = json_array();

                json_array_append_new(gpus, json_integer(g->dev));
                for (int j = 0; j < n; j++) {
                        char word[64];

                        entry(t, a, i, j, word, sizeof word);
                        json_array_append_new(row, json_string(word));
                }
                json_array_append_new(matrix, row);
                json_array_append_new(nodes, json_pack("{s:i, s:i, s:s, s:s, s:f, s:b}", "node", a->ranks[i].node,
                                                       "dev", g->dev, "busid", g->busid, "nic", text, "nic_gbs", share,
                                                       "mig", g->mig));
        }
        json_object_set_new(page, "capo_topo", json_integer(1));
        json_object_set_new(page, "source", json_string(t->name));
        json_object_set_new(page, "platform", json_string(t->platform));
        json_object_set_new(page, "gpus", gpus);
        json_object_set_new(page, "seen", json_string(said));
        json_object_set_new(page, "ranks", nodes);
        json_object_set_new(page, "class", json_string(class));
        set_gbs(page, "nvlink_brick_gbs", t->brick_gbs);
        json_object_set_new(page, "nvlink_brick_source", json_string(t->brick_source ? t->brick_source : ""));
        json_object_set_new(page, "matrix", matrix);
        json_object_set_new(page, "connected", json_boolean(c->connected));
        json_object_set_new(page, "nvlink_ring",
                            c->shapes.ring_split_gbs < 0 ? json_null() : json_boolean(c->shapes.ring));
        json_object_set_new(page, "nvlink_rings", c->shapes.rings < 0 ? json_null() : json_integer(c->shapes.rings));
        set_gbs(page, "broadcast_gbs", c->broadcast_gbs);
        set_gbs(page, "reduce_gbs", c->broadcast_gbs);
        set_gbs(page, "allgather_gbs", c->allgather_gbs);
        set_gbs(page, "reducescatter_gbs", c->allgather_gbs);
        set_gbs(page, "allreduce_gbs", c->allreduce_gbs);
        set_gbs(page, "allreduce_nvls_gbs", c->nvls_gbs > 0 ? c->nvls_gbs : -1);
        set_gbs(page, "hybrid_allreduce_nvls_gbs", c->nvls_across_gbs > 0 ? c->nvls_across_gbs : -1);
        set_gbs(page, "ring_allreduce_gbs",
                c->shapes.ring_split_gbs < 0 ? -1 : capo_ring_allreduce_gbs(c->shapes.ring_split_gbs, n));
        set_gbs(page, "ring_busbw_gbs", c->shapes.ring_split_gbs);
        set_gbs(page, "whole_ring_busbw_gbs", c->shapes.ring_gbs);
        set_gbs(page, "chain_allreduce_gbs", c->shapes.chain_gbs);
        set_gbs(page, "hybrid_broadcast_gbs", c->hybrid_broadcast_gbs);
        set_gbs(page, "hybrid_allgather_gbs", c->hybrid_allgather_gbs);
        set_gbs(page, "hybrid_allreduce_gbs", c->hybrid_allreduce_gbs);
        json_object_set_new(page, "edges_are", json_string(a->n_nodes == 1 ? "gpus" : "ranks"));
        json_object_set_new(page, "trees", json_trees(t, a, &c->allreduce, c->unit_gbs));
        json_object_set_new(page, "broadcast_trees", json_trees(t, a, &c->broadcast, c->unit_gbs));
        json_object_set_new(page, "allgather_trees", json_trees(t, a, &c->allgather, c->unit_gbs));
        json_object_set_new(page, "hybrid_broadcast_trees", json_trees(t, a, &c->hybrid_broadcast, c->hybrid_unit_gbs));
        json_object_set_new(page, "hybrid_allgather_trees", json_trees(t, a, &c->hybrid_allgather, c->hybrid_unit_gbs));
        json_object_set_new(page, "hybrid_broadcast_ways",
                            json_ways(c, &c->hybrid_broadcast_ways, c->hybrid_broadcast_den));
        json_object_set_new(page, "hybrid_allgather_ways",
                            json_ways(c, &c->hybrid_allgather_ways, c->hybrid_allgather_den));
        json_object_set_new(page, "hybrid_allreduce_trees", json_trees(t, a, &c->hybrid_allreduce, c->hybrid_unit_gbs));
        if (nccl->version) {
                json_t *own = json_object();

                json_object_set_new(own, "version", json_integer(nccl->version));
                set_gbs(own, "broadcast_gbs", nccl->broadcast.gbs);
                set_gbs(own, "allgather_gbs", nccl->allgather.gbs);
                set_gbs(own, "allreduce_gbs", nccl->allreduce.gbs);
                json_object_set_new(own, "allreduce", json_string(nccl->allreduce.what));
                json_object_set_new(page, "nccl_model", own);
        }
        return cli_json_print(out, page, JSON_INDENT(2) | JSON_REAL_PRECISION(10));
}
