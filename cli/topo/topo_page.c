/* SPDX-License-Identifier: Apache-2.0 */
/* One allocation, as text and as JSON. */
#include "core/base/among.h"
#include "capo/collectives.h"
#include "cli/base/cli_json.h"
#include "cli/topo/cmd_topo.h"
#include "core/base/calls.h"
#include "core/base/nccl_release.h"
#include "profiles/fragment/fragment_gpus.h"

enum { LINKS_SHOWN = 24 }; /* more GPUs do not fit a picture */

/* Distance of a GPU to NIC @nic; UNKNOWN: the NIC is known to be behind no PCI device. */
static enum capo_path nic_path(const struct capo_topology *t, int gpu, size_t nic)
{
        return t->nics[nic].pci < 0 && t->pci_known ? CAPO_PATH_UNKNOWN
                                                    : t->nic_path[(size_t)gpu * t->n_nics + nic];
}

static enum capo_path nearest_nic(const struct capo_topology *t, int gpu)
{
        enum capo_path nearest = CAPO_PATH_UNKNOWN;

        for (size_t k = 0; k < t->n_nics; k++)
                nearest = nic_path(t, gpu, k) < nearest ? nic_path(t, gpu, k) : nearest;
        return nearest;
}

/* The NICs nearest to a GPU of the allocation, "mlx5_0 PIX". Return: its share of them in GB/s; 0: none. */
static double topo_nic(const struct capo_topology *t, const struct capo_alloc *a, int rank,
                       char *text, size_t room)
{
        const struct capo_alloc_rank *me = &a->ranks[rank];
        enum capo_path nearest = nearest_nic(t, me->gpu);
        const char *first = NULL;
        double share = 0;
        int more = -1;

        snprintf(text, room, "-");
        for (size_t k = 0; k < t->n_nics && nearest < CAPO_PATH_UNKNOWN; k++) {
                int users = 0;

                if (nic_path(t, me->gpu, k) != nearest)
                        continue;
                for (int i = 0; i < a->n_ranks;
                     i++) /* other GPUs of this machine with the same nearest NIC */
                        users += a->ranks[i].node == me->node &&
                                 nic_path(t, a->ranks[i].gpu, k) == nearest_nic(t, a->ranks[i].gpu);
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

static void format_link(const struct capo_topology *t, const struct capo_alloc *a, int i, int j,
                        char *text, size_t room)
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

                if (l->end == CAPO_END_GPU &&
                    ((l->from == from && l->to == to) || (l->from == to && l->to == from))) {
                        snprintf(text, room, "%dx%s", l->count,
                                 l->kind == CAPO_WIRE_XGMI ? "XG" : "NV");
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
                snprintf(text, room, "%s",
                         capo_path_name(t->gpu_path[(size_t)from * t->n_gpus + (size_t)to]));
}

/* "-": there is no such path. */
static const char *rate_text(double gbs, char text[32])
{
        snprintf(text, 32, gbs <= 0 ? "-" : gbs < 1 ? "%.2g" : "%.1f", gbs);
        return text;
}

/* The links included in the best possible rate. */
static const char *over_word(const struct capo_topology *t, enum capo_ceiling_of of)
{
        const char *word = capo_ceiling_word(of);

        return of >= CAPO_CEILING_ALL && !t->n_links ? word + strlen("NVLink+") : word;
}

/* All rates as bus bandwidth; they are given as algorithm bandwidth. */
static void add_coll_row(struct cli_section *s, const struct capo_topology *topology,
                         const char *name, const struct capo_ceilings *c, enum capo_coll coll,
                         double links, double ring, double chain,
                         const struct fragment_nccl_row *nccl)
{
        char best[32], link[32], rings[32], chains[32], model[80] = "";
        enum capo_ceiling_of of;
        double most = capo_ceiling(c, coll, &of),
               bus = capo_busbw_factor(capo_coll_kind(coll), (unsigned)c->n_ranks);

        if (nccl && nccl->gbs >= 0 && most > 0)
                snprintf(model, sizeof model, "\t%.1f\t%.0f %%\t%s", bus * nccl->gbs,
                         100 * nccl->gbs / most, nccl->what);
        else if (nccl && nccl->gbs >= 0)
                snprintf(model, sizeof model, "\t%.1f\t\t%s", bus * nccl->gbs, nccl->what);
        cli_section_row(s, "%s\t%s\t%s\t%s\t%s\t%s%s", name, rate_text(bus * most, best),
                        over_word(topology, of), rate_text(c->connected ? bus * links : 0, link),
                        rate_text(bus * ring, rings), rate_text(bus * chain, chains), model);
}

static const char *link_word(const struct capo_topology *t)
{
        return ANY_OF(l, t->links, t->n_links, l->kind == CAPO_WIRE_XGMI) ? "xGMI" : "NVLink";
}

/* The connection of each GPU to each other and to the network. */
static void add_links(struct cli_page *page, const struct capo_topology *t,
                      const struct capo_alloc *a)
{
        static const char leaves[] =
                "zyxwvutsrqponmlkjihgfedcba"; /* the last one is dropped first */
        static struct cli_column columns[LINKS_SHOWN + 4];
        static char numbers[LINKS_SHOWN][16], specs[LINKS_SHOWN][8];
        unsigned c = 0;
        int n = a->n_ranks;
        struct cli_section *s;

        if (a->n_nodes > 1)
                columns[c++] = (struct cli_column){"node", "r"};
        columns[c++] = (struct cli_column){"GPU", "r"};
        for (int j = 0; j < n; j++) {
                snprintf(numbers[j], sizeof numbers[j], "%d", t->gpus[a->ranks[j].gpu].dev);
                snprintf(specs[j], sizeof specs[j], j ? ".r/%c" : "r", leaves[j]);
                columns[c++] = (struct cli_column){numbers[j], specs[j]};
        }
        columns[c++] = (struct cli_column){"nearest NIC", " l"};
        columns[c++] = (struct cli_column){"GB/s", "r"};
        s = cli_page_section(page, "LINKS", columns, c);
        s->how = "2xNV: two NVLinks; sw: links to a switch; PIX to SYS: the PCI way, as NCCL "
                 "names it. GB/s: this GPU's part of its NIC.";
        for (int i = 0; i < n; i++) {
                char text[80];
                double share = topo_nic(t, a, i, text, sizeof text);

                if (a->n_nodes > 1)
                        cli_section_cell(s, "%d", a->ranks[i].node);
                cli_section_cell(s, "%d", t->gpus[a->ranks[i].gpu].dev);
                for (int j = 0; j < n; j++) {
                        char link[64];

                        format_link(t, a, i, j, link, sizeof link);
                        cli_section_cell(s, "%s", link);
                }
                cli_section_cell(s, "%s", text);
                if (share > 0)
                        cli_section_cell(s, "%.3g", share);
                else
                        cli_section_cell(s, "%s", "");
        }
}

/* Shorten "0,1,2,3,7" to "0-3,7" in each list of @text, in place: a range is no longer than its
 * list. */
static void shorten_lists(char *text)
{
        char *to = text;

        for (const char *at = text; *at;) {
                char *end, range[48];
                long first, last;
                int n;

                if (!isdigit((unsigned char)*at)) {
                        *to++ = *at++;
                        continue;
                }
                last = first = strtol(at, &end, 10);
                for (at = end; *at == ',' && isdigit((unsigned char)at[1]) &&
                               strtol(at + 1, &end, 10) == last + 1;
                     at = end)
                        last++;
                n = snprintf(range, sizeof range,
                             last - first > 1 ? "%ld-%ld"
                             : last > first   ? "%ld,%ld"
                                              : "%ld",
                             first, last);
                memcpy(to, range, (size_t)n);
                to += n;
        }
        *to = 0;
}

/* The number of GPUs, and what connects them. */
static void add_shape(struct cli_page *page, const struct capo_topology *t,
                      const struct capo_alloc *a, const struct capo_ceilings *c)
{
        const struct capo_shapes *s = &c->shapes;
        int n = c->n_ranks;
        char rings[80] = "";

        if (n >= 2 && c->connected && s->ring_split_gbs >= 0) {
                if (!s->ring)
                        strcpy(rings, ", no ring");
                else if (s->rings >= 0)
                        snprintf(rings, sizeof rings, ", %s%s", s->rings_exact ? "" : "at least ",
                                 capo_text_plural((unsigned)s->rings, "ring without a shared link",
                                                  "rings without a shared link"));
                else
                        strcpy(rings, ", a ring exists");
        }
        cli_page_under(page, "%s on %s, %s over %s%s", capo_text_plural((unsigned)n, "GPU", NULL),
                       capo_text_plural((unsigned)a->n_nodes, "machine", NULL),
                       n < 2          ? "nothing to join"
                       : c->connected ? "connected"
                                      : "not connected",
                       link_word(t), rings);
        if (t->brick_gbs > 0)
                cli_page_under(page, "one link %g GB/s each way (%s)", t->brick_gbs,
                               t->brick_source);
}

static void add_rates(struct cli_page *page, const struct capo_topology *t,
                      const struct capo_alloc *a, const struct capo_ceilings *c,
                      const struct fragment_nccl *nccl)
{
        static struct cli_column columns[] = {{"", "l~"},    {"best", "r"},    {"over", "l/d"},
                                              {NULL, "r/c"}, {"rings", "r/b"}, {"chains", "r/a"},
                                              {"NCCL", "r"}, {"part", "r"},    {"runs", "l"}};
        const struct capo_shapes *s = &c->shapes;
        bool asked = nccl->version != 0;
        struct cli_section *rates;
        char version[16], gpus[FRAGMENT_GPUS_TEXT];
        int n = c->n_ranks;

        columns[3].head = link_word(t);
        rates = cli_page_section(page, "BUS BANDWIDTH", columns, asked ? 9 : 6);
        cli_section_of(rates, "GB/s");
        rates->how = "best: no software exceeds it. rings, chains: the best of those shapes, links "
                     "shared freely. NCCL: by its own model, asked on virtual GPUs; part: of best.";
        add_coll_row(rates, t, "Broadcast, Reduce", c, CAPO_COLL_BROADCAST, c->links.broadcast_gbs,
                     s->ring_split_gbs, -1, asked ? &nccl->broadcast : NULL);
        add_coll_row(rates, t, "AllGather, ReduceScatter", c, CAPO_COLL_ALLGATHER,
                     c->links.allgather_gbs,
                     s->ring_split_gbs < 0 ? -1 : s->ring_split_gbs * n / (n - 1), -1,
                     asked ? &nccl->allgather : NULL);
        add_coll_row(rates, t, "AllReduce", c, CAPO_COLL_ALLREDUCE, c->links.allreduce_gbs,
                     s->ring_split_gbs < 0 ? -1 : capo_ring_allreduce_gbs(s->ring_split_gbs, n),
                     s->chain_gbs, asked ? &nccl->allreduce : NULL);
        cli_section_note(
                page, rates, "best: with the links as they are%s",
                t->pci_known ? ", PCIe and NICs included"
                : c->connected
                        ? ", without PCIe and NICs (this description has no speeds of theirs)"
                        : ", not known: this description has no speeds of PCIe and NICs");
        cli_section_note(page, rates, "%s alone, rings and chains: links shared freely",
                         link_word(t));
        if (asked)
                cli_section_note(
                        page, rates,
                        "NCCL %s at 1 GiB: ring %s, tree %s, %s as it counts; decisions are "
                        "its own, times its model",
                        capo_nccl_text((uint32_t)nccl->version, version, sizeof version),
                        *nccl->ring ? nccl->ring : "none", *nccl->tree ? nccl->tree : "none",
                        capo_text_plural((unsigned)nccl->nodes, "node", NULL));
        /* of all GPUs of the machine: not where some are not open to this process */
        if (a && *fragment_gpus_text(t, a, gpus))
                cli_section_line(rates, "%s", gpus);
        if (nccl->advice && *nccl->advice->order)
                cli_section_line(rates, "%s; %s", nccl->advice->order, FRAGMENT_ORDER_HOW);
        for (int i = 0; nccl->advice && i < nccl->advice->beyond.n; i++)
                cli_section_line(rates, "%s", nccl->advice->beyond.text[i]);
        if (*nccl->why_not)
                cli_section_note(page, rates, "NCCL was not asked: %s", nccl->why_not);
}

struct cli_page *topo_page(const struct capo_topology *t, const struct capo_alloc *a,
                           const struct capo_ceilings *c, const struct fragment_nccl *nccl,
                           const char *said)
{
        struct cli_page *page = cli_page_new();
        char alloc[512], class[512] = "?";

        capo_class_name(t, a, class, sizeof class);
        capo_alloc_print(t, a, alloc, sizeof alloc);
        shorten_lists(alloc);
        cli_page_title(page, "capo topo   %s   allocation %s", capo_base_name(t->name), alloc);
        cli_page_under(page, "class %s", class);
        add_shape(page, t, a, c);
        if (*said)
                cli_page_under(page, "%s", said);
        if (t->hidden)
                cli_page_under(
                        page,
                        "%d links lead to GPUs that the description leaves out, or the driver "
                        "does not show; they are not counted",
                        t->hidden);
        if (t->links_unknown)
                cli_page_under(page, "only the PCI tree is known: NCCL asks the driver for "
                                     "NVLinks. --platform knows some machines whole");
        if (c->n_ranks <= LINKS_SHOWN)
                add_links(page, t, a);
        if (c->n_ranks > 1)
                add_rates(page, t, *said ? NULL : a, c, nccl);
        return page;
}

json_t *topo_json(const struct capo_topology *t, const struct capo_alloc *a,
                  const struct capo_ceilings *c, const struct fragment_nccl *nccl, const char *said)
{
        const struct capo_shapes *s = &c->shapes;
        const struct {
                const char *key;
                double gbs; /* negative: null */
        } rates[] = {
                {"nvlink_brick_gbs", t->brick_gbs},
                {"broadcast_gbs", c->links.broadcast_gbs},
                {"reduce_gbs", c->links.broadcast_gbs},
                {"allgather_gbs", c->links.allgather_gbs},
                {"reducescatter_gbs", c->links.allgather_gbs},
                {"allreduce_gbs", c->links.allreduce_gbs},
                {"allreduce_nvls_gbs", c->nvls_gbs > 0 ? c->nvls_gbs : -1},
                {"hybrid_allreduce_nvls_gbs", c->nvls_across_gbs > 0 ? c->nvls_across_gbs : -1},
                {"ring_allreduce_gbs",
                 s->ring_split_gbs < 0 ? -1
                                       : capo_ring_allreduce_gbs(s->ring_split_gbs, c->n_ranks)},
                {"ring_busbw_gbs", s->ring_split_gbs},
                {"whole_ring_busbw_gbs", s->ring_gbs},
                {"chain_allreduce_gbs", s->chain_gbs},
                {"hybrid_broadcast_gbs", c->hybrid.broadcast_gbs},
                {"hybrid_allgather_gbs", c->hybrid.allgather_gbs},
                {"hybrid_allreduce_gbs", c->hybrid.allreduce_gbs}};
        const struct {
                const char *key, *over;
                enum capo_coll coll;
        } best[] = {{"best_broadcast_gbs", "best_broadcast_over", CAPO_COLL_BROADCAST},
                    {"best_allgather_gbs", "best_allgather_over", CAPO_COLL_ALLGATHER},
                    {"best_allreduce_gbs", "best_allreduce_over", CAPO_COLL_ALLREDUCE}};
        json_t *page, *gpus = json_array(), *matrix = json_array(), *ranks = json_array();
        char class[512] = "", text[80];

        capo_class_name(t, a, class, sizeof class);
        for (int i = 0; i < c->n_ranks; i++) {
                const struct capo_topology_gpu *g = &t->gpus[a->ranks[i].gpu];
                double share = topo_nic(t, a, i, text, sizeof text);
                json_t *row = json_array();

                json_array_append_new(gpus, json_integer(g->dev));
                for (int j = 0; j < c->n_ranks; j++) {
                        char word[64];

                        format_link(t, a, i, j, word, sizeof word);
                        json_array_append_new(row, json_string(word));
                }
                json_array_append_new(matrix, row);
                json_array_append_new(ranks,
                                      json_pack("{s:i, s:i, s:s, s:s, s:f, s:b}", "node",
                                                a->ranks[i].node, "dev", g->dev, "busid", g->busid,
                                                "nic", text, "nic_gbs", share, "mig", g->mig));
        }
        page = json_pack("{s:i, s:s, s:s, s:o, s:s, s:o, s:s, s:s, s:o, s:b, s:o, s:o}",
                         "capo_topo", 1, "source", t->name, "platform", t->platform, "gpus", gpus,
                         "seen", said, "ranks", ranks, "class", class, "nvlink_brick_source",
                         t->brick_source ? t->brick_source : "", "matrix", matrix, "connected",
                         c->connected, "nvlink_ring",
                         s->ring_split_gbs < 0 ? json_null() : json_boolean(s->ring),
                         "nvlink_rings", s->rings < 0 ? json_null() : json_integer(s->rings));
        for (size_t i = 0; i < N_ELEMENTS(best); i++) {
                enum capo_ceiling_of of;
                double gbs = capo_ceiling(c, best[i].coll, &of);

                json_object_set_new(page, best[i].key, cli_json_known(gbs > 0 ? gbs : -1));
                json_object_set_new(page, best[i].over, json_string(over_word(t, of)));
        }
        for (size_t i = 0; i < N_ELEMENTS(rates); i++)
                json_object_set_new(page, rates[i].key, cli_json_known(rates[i].gbs));
        if (nccl->version)
                json_object_set_new(
                        page, "nccl_model",
                        json_pack("{s:i, s:o, s:o, s:o, s:s, s:s, s:o}", "version", nccl->version,
                                  "broadcast_gbs", cli_json_known(nccl->broadcast.gbs),
                                  "allgather_gbs", cli_json_known(nccl->allgather.gbs),
                                  "allreduce_gbs", cli_json_known(nccl->allreduce.gbs), "allreduce",
                                  nccl->allreduce.what, "order",
                                  nccl->advice ? nccl->advice->order : "", "beyond",
                                  cli_beyond_json(nccl->advice ? &nccl->advice->beyond : NULL)));
        return page;
}
