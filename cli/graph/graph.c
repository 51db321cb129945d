/* SPDX-License-Identifier: Apache-2.0 */
/* capo graph: graph files for an allocation, if real NCCL takes them and expects something of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/machine.h"
#include "cli/base/output.h"
#include "cli/base/screen.h"
#include "cli/base/table.h"
#include "core/base/nccl.h"
#include "core/base/size.h"
#include "core/base/util.h"
#include "profiles/fragment/best.h"

static void line(struct capo_table *t, const char *name, const struct fragment_nccl_row *own,
                 const struct fragment_nccl_row *with)
{
        char gbs[32] = "-";

        if (own->gbs >= 0)
                snprintf(gbs, sizeof gbs, "%.2f", own->gbs);
        if (with)
                capo_table_row(t, "%s\t%s\t%s\t%.2f\t%s\t%+.0f %%", name, gbs, own->what, with->gbs, with->what,
                               100 * (with->gbs / own->gbs - 1));
        else
                capo_table_row(t, "%s\t%s\t%-22s", name, gbs, own->what);
}

static void table(struct capo_table *t, const struct fragment_nccl *own, const struct fragment_nccl *with)
{
        static const char *const names[FRAGMENT_COLLS] = {"broadcast", "all-gather", "all-reduce"};

        for (int c = 0; c < FRAGMENT_COLLS; c++) {
                for (size_t i = 0; i < own->n_sizes; i++) {
                        char size[32], name[64];

                        snprintf(name, sizeof name, "%-11s%9s", i ? "" : names[c],
                                 capo_size_print(own->sizes[i].bytes, size, sizeof size));
                        line(t, name, &own->sizes[i].row[c], with ? &with->sizes[i].row[c] : NULL);
                }
        }
}

/* "0  mlx5_1 2 1 3 mlx5_0 | mlx5_0 0 2 3 1 4 mlx5_2": in, the GPUs, out; machine by machine. */
static void rings(const struct graph_plan *g, const struct capo_topology *t, const struct capo_alloc *a)
{
        puts("  rings, in by a NIC, through the GPUs, out by a NIC:");
        for (int c = 0; c < g->n_channels; c++) {
                printf("  %4d ", c);
                for (int node = 0; node < g->n_nodes; node++) {
                        const struct graph_node *n = &g->nodes[node];
                        const struct rails_thing *ring = &n->ring[c];

                        printf("%s %s", node ? "  |" : "", t->nics[ring->nic_in].name);
                        for (int k = 0; k < n->n_gpus; k++)
                                printf(" %d", t->gpus[a->ranks[n->first + ring->order[k]].gpu].dev);
                        printf(" %s", t->nics[ring->nic_out].name);
                }
                putchar('\n');
        }
}

static void speeds(const struct graph_plan *g, const struct fragment_nccl *own)
{
        printf("  own: ring %s, tree %s; file%s: ring %d x %g GB/s %s, tree %d x %g GB/s %s; accepted as %s\n",
               own->ring, own->tree, g->n_nodes > 1 ? "s" : "", g->n_channels, g->ring.speed_intra, g->ring.intra,
               g->n_channels, g->tree.speed_intra, g->tree.intra, g->n_nodes > 1 ? "they are" : "it is");
        if (g->n_nodes > 1)
                printf("  by the links alone, no model: NCCL's own channels %.1f GB/s of all-reduce, these %.1f; %d of "
                       "%d rings stay on one rail\n",
                       g->own_gbs, g->ring_gbs > g->tree_gbs ? g->ring_gbs : g->tree_gbs, g->n_aligned, g->n_channels);
}

/* -o: several machines, or a folder that is there: a folder; else one machine's file, or a name with %n in it. Return:
 * 0; negative errno with @why, "" where it has been said. */
static int save(const char *out, const struct graph_plan *g, const struct capo_topology *t, const struct capo_alloc *a,
                int version, char *why, size_t room)
{
        struct stat st;
        bool folder = !strstr(out, "%n") && (g->n_nodes > 1 || (stat(out, &st) == 0 && S_ISDIR(st.st_mode)));
        int r = 0;

        if (folder)
                return graph_save_folder(out, g, t, a, version, why, room);
        *why = 0;
        for (int node = 0; node < g->n_nodes && r == 0; node++) {
                struct cli_output file;
                char path[4096];

                r = graph_path(out, node, path, sizeof path);
                if (r < 0)
                        snprintf(why, room, "%.200s: %s", out, strerror(-r));
                else
                        r = cli_output_open(&file, path);
                if (r == 0)
                        r = cli_output_close(&file, graph_write(file.file, g, node, t, a, version));
        }
        return r;
}

static int show(const char *out, const struct graph_sizes *sizes, const struct cli_machine_source *s,
                const struct capo_topology *t, const struct capo_alloc *a)
{
        _cleanup_free_ struct graph_plan *best = calloc(1, sizeof *best);
        struct fragment_nccl own = {0}, with = {0};
        _cleanup_(capo_table_freep) struct capo_table *estimates = capo_table_new(" l20,.r9,l22,.r9,l22,.r7");
        struct capo_ceilings c = {0};
        char why[512] = "out of memory", alloc[256], class[1024] = "", nccl[16];
        _cleanup_free_ struct cli_machine_asker *asker = malloc(sizeof *asker);
        int r = best && asker ? cli_machine_asker(s, asker, why, sizeof why) : -ENOMEM, status;

        if (!r)
                r = graph_best(&asker->ask, t, a, sizes, &own, best, &with, why, sizeof why);
        if (r > 0 && out) {
                int e = save(out, best, t, a, own.version, why, sizeof why);

                r = e < 0 ? e : r;
        }
        status = r > 0 ? CAPO_EXIT_OK : CAPO_EXIT_FAIL;
        if (r >= 0 && estimates && capo_ceilings(t, a, a->n_nodes > 1 ? CAPO_CEILING_HYBRID : 0, &c) == 0 &&
            capo_class_name(t, a, class, sizeof class) == 0) {
                enum capo_ceiling_of of;
                double most = capo_ceiling(&c, CAPO_COLL_ALLREDUCE, &of);

                capo_alloc_print(t, a, alloc, sizeof alloc);
                cli_screen_begin(stdout);
                printf("capo graph  %s   class %s   NCCL %s on virtual GPUs: estimates are its model, nothing "
                       "was measured\n\n",
                       alloc, class, capo_nccl_text((uint32_t)own.version, nccl, sizeof nccl));
                if (r > 0)
                        capo_table_row(estimates, "algbw GB/s\tNCCL\tby itself\t%s",
                                       best->n_nodes == 1 ? "  with the file" : "  with the files");
                else
                        capo_table_row(estimates, "algbw GB/s\tNCCL\t%-22s", "by itself");
                table(estimates, &own, r > 0 ? &with : NULL);
                capo_table_print(estimates, stdout, 1, "", "");
                printf("  %-20s %9.2f  of all-reduce: no software can do better over NVLink%s%s\n\n", "ceiling", most,
                       c.connected ? "" : ", PCIe and NICs",
                       of == CAPO_CEILING_SWITCH || of == CAPO_CEILING_ALL_SWITCH ? ", the switches adding" : "");
                if (r > 0) {
                        speeds(best, &own);
                        if (best->n_nodes > 1)
                                rings(best, t, a);
                        if (out)
                                printf("  wrote %s: only for communicators that have exactly these GPUs\n", out);
                } else {
                        printf("  no file: %s\n", why);
                }
        } else {
                if (*why)
                        capo_error("graph: %s", why);
                status = CAPO_EXIT_FAIL;
        }
        capo_ceilings_free(&c);
        fragment_nccl_finish(&own);
        fragment_nccl_finish(&with);
        return status;
}

struct options {
        struct cli_machine_words machine;
        const char *gpus, *alloc, *sizes, *out;
};

static int run(void *options, int n, char **words)
{
        const struct options *o = options;
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        struct cli_machine_source s;
        struct capo_alloc a;
        struct graph_sizes sizes;
        char why[512];
        int status;

        if (!(o->machine.topo || o->machine.platform) || !o->gpus == !o->alloc) {
                capo_error("graph: wants --topo or --platform, and one of --gpus and --alloc; capo graph --help");
                return CAPO_EXIT_USAGE;
        }
        if (graph_sizes_parse(o->sizes, &sizes, why, sizeof why) < 0) {
                capo_error("graph: --sizes: %s", why);
                return CAPO_EXIT_USAGE;
        }
        if (cli_machine_load("graph", &o->machine, &t, &s) < 0)
                return CAPO_EXIT_FAIL;
        if (capo_alloc_parse(t, o->gpus ? o->gpus : o->alloc, !o->gpus, &a, why, sizeof why) < 0) {
                capo_error("graph: %s", why);
                return CAPO_EXIT_FAIL;
        }
        status = show(o->out, &sizes, &s, t, &a);
        capo_alloc_free(&a);
        return status;
}

static const struct options defaults = {.sizes = GRAPH_SIZES};

static const struct cli_option options[] = {
        {"topo", CLI_FILE(struct options, machine.topo, "FILE"), "the machine, as in capo topo"},
        {"platform", CLI_TEXT(struct options, machine.platform, "NAME"), "the same by its name"},
        {"gpus", CLI_TEXT(struct options, gpus, "LIST"), "its GPUs, as in capo topo; 1,2,3+0-4 is two machines"},
        {"alloc", CLI_TEXT(struct options, alloc, "SIZES"), "or the first ones: 3+5"},
        {"sizes", CLI_TEXT(struct options, sizes, "S"), "the sizes that matter, as in capo plan; default " GRAPH_SIZES},
        {"output", CLI_FILE(struct options, out, "PATH"),
         "where to; without it the page only says what there is to gain. A file for one machine; for several (or when it "
         "is there) a folder, with graph-0.xml and so on, or a name with %n for the number",
         .letter = 'o'},
        CLI_WIDE,
        {0}};

const struct cli_command graph_command = {
        .usage = "(--topo FILE | --platform NAME) (--gpus LIST | --alloc SIZES) [--sizes S] [-o PATH]",
        .about =
                "Writes an NCCL_GRAPH_FILE per machine of an allocation: rings and chains that use links, and between "
                "machines NICs, which NCCL's own search leaves idle. Real NCCL, on virtual GPUs, is asked first without "
                "and then with the files; they are written only if NCCL takes every channel on every machine as it is, "
                "its own model expects at least 2 % more of all-reduce at the largest size, and of no collective at any "
                "size over 1 % less. Times are NCCL's model: nothing is measured. Measure before you rely on it.",
        .options = options,
        .after =
                "NCCL_GRAPH_FILE holds for every communicator of a process, and one that has not exactly these GPUs fails "
                "at init. capo run --graph FOLDER (or --graph auto) sets it for the communicator of all ranks only. A "
                "file belongs to one NCCL release and to this machine's GPU and NIC numbers. Behind a switch NCCL's own "
                "graph uses every link of one machine; 12 GPUs of a machine at most. RCCL's xGMI machines cannot be "
                "asked.\n"
                "\n"
                "  capo graph --platform dgx1v --gpus 0,2,3 -o graph.xml\n"
                "  capo graph --platform dgx1v --gpus 1,2,3+0-4 -o graphs\n"
                "  capo run --platform dgx1v --gpus 1,2,3+0-4 --graph graphs -- srun ./all_reduce_perf",
        .status = "0 there is a gain (and files are written), 1 there is none, or an error, 2 wrong command line.",
        .size = sizeof(struct options),
        .defaults = &defaults,
        .run = run,
};
