/* SPDX-License-Identifier: Apache-2.0 */
/* capo graph: a graph file for an allocation, if real NCCL takes it and expects something of it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capo/msg.h"
#include "cli/cli.h"
#include "cli/graph.h"
#include "cli/topo.h"
#include "core/util.h"

#define GAIN_LEAST 1.02 /* of NCCL's own estimate: less is not worth a file */
#define LOSS_MOST  0.99 /* and no other collective may fall below this share of its own */

static void help(void)
{
        puts("usage: capo graph (--topo FILE | --platform NAME) --gpus LIST [-o FILE]\n\n"
             "Writes an NCCL_GRAPH_FILE for GPUs of one machine: rings and chains that use NVLinks which NCCL's own "
             "search\n"
             "leaves idle. Real NCCL, on virtual GPUs, is asked first without and then with the file; it is written "
             "only\n"
             "if NCCL takes every channel as it is and its own model expects at least 2 % more of all-reduce, and not\n"
             "less of broadcast and all-gather. Times are NCCL's model: nothing is measured. Measure before you rely "
             "on it.\n\n"
             "  --topo, --platform, --gpus   as in capo topo\n"
             "  -o FILE                      where to; without it the page only says what there is to gain\n\n"
             "NCCL_GRAPH_FILE holds for every communicator of a process. One that has not exactly these GPUs fails at\n"
             "init, so the file is for jobs with one communicator per process; capo run --graph auto sees to that.\n"
             "It belongs to one NCCL release and to this machine's GPU numbers.\n\n"
             "  capo graph --platform dgx1v --gpus 0,2,3 -o graph.xml\n"
             "  NCCL_GRAPH_FILE=graph.xml ./all_reduce_perf -g 3\n\n"
             "Exit status: 0 there is a gain (and the file is written), 1 there is none, or an error, 2 wrong command "
             "line.");
}

struct tried {
        struct graph_plan plan;
        struct fragment_nccl nccl;
};

static bool better(const struct fragment_nccl *with, const struct fragment_nccl *own)
{
        return with->allreduce.gbs >= GAIN_LEAST * own->allreduce.gbs &&
               with->broadcast.gbs >= LOSS_MOST * own->broadcast.gbs &&
               with->allgather.gbs >= LOSS_MOST * own->allgather.gbs && with->nodes == own->nodes;
}

static int write_to(const char *path, const struct graph_plan *g, const struct capo_topology *t,
                    const struct capo_alloc *a, int version)
{
        FILE *f = fopen(path, "we");
        int r;

        if (!f)
                return -errno;
        r = graph_write(f, g, t, a, version);
        if (fclose(f) != 0 && !r)
                r = -errno;
        return r;
}

int graph_best(const struct topo_source *s, const struct capo_topology *t, const struct capo_alloc *a,
               struct fragment_nccl *own, struct graph_plan *best, struct fragment_nccl *with, char *why, size_t room)
{
        _cleanup_free_ struct graph_plan *plans = calloc(GRAPH_CHANNELS, sizeof *plans);
        char name[] = "/tmp/capo-graph-XXXXXX", refused[256] = "";
        int n, fd, found = 0, r;

        memset(with, 0, sizeof *with);
        if (!plans)
                return -ENOMEM;
        r = topo_ask(s, t, a, NULL, own);
        if (r < 0) {
                snprintf(why, room, "NCCL could not be asked: %.400s", own->why_not);
                return r;
        }
        n = graph_choose(t, a, own, plans, why, room);
        if (n <= 0)
                return n;
        fd = mkstemp(name);
        if (fd < 0) {
                snprintf(why, room, "no temporary file: %s", strerror(errno));
                return -errno;
        }
        close(fd);
        for (int i = 0; i < n; i++) {
                struct fragment_nccl seen;

                if (write_to(name, &plans[i], t, a, own->version) < 0 || topo_ask(s, t, a, name, &seen) < 0)
                        continue;
                if (!graph_accepted(&plans[i], t, a, &seen, refused, sizeof refused) || !better(&seen, own) ||
                    (found && seen.allreduce.gbs < 1.005 * with->allreduce.gbs)) { /* fewer channels, if as good */
                        fragment_nccl_finish(&seen);
                        continue;
                }
                fragment_nccl_finish(with);
                *with = seen;
                *best = plans[i];
                found = 1;
        }
        unlink(name);
        if (!found && *refused)
                snprintf(why, room, "%s", refused);
        else if (!found)
                snprintf(why, room, "NCCL expects nothing of %d files with up to %d channels that use the links better",
                         n, plans[n - 1].n_channels);
        return found;
}

static void line(const char *name, const struct fragment_nccl_row *own, const struct fragment_nccl_row *with)
{
        printf("  %-12s %9.1f  %-22s", name, own->gbs, own->what);
        if (with)
                printf(" %9.1f  %-22s %+5.0f %%", with->gbs, with->what, 100 * (with->gbs / own->gbs - 1));
        putchar('\n');
}

static int show(const struct topo_options *o, const char *out, const struct topo_source *s,
                const struct capo_topology *t, const struct capo_alloc *a)
{
        struct graph_plan *best = calloc(1, sizeof *best);
        struct fragment_nccl own, with = {0};
        struct capo_ceilings c = {0};
        char why[512] = "out of memory", alloc[256], class[CAPO_CLASS_ROOM * 2] = "";
        int r = best ? graph_best(s, t, a, &own, best, &with, why, sizeof why) : -ENOMEM, status;

        if (r > 0 && out) {
                int e = write_to(out, best, t, a, own.version);

                if (e < 0) {
                        snprintf(why, sizeof why, "%.200s: %s", out, strerror(-e));
                        r = e;
                }
        }
        status = r > 0 ? CAPO_EXIT_OK : CAPO_EXIT_FAIL;
        if (r >= 0 && capo_ceilings(t, a, 0, &c) == 0 && capo_class_name(t, a, class, sizeof class) == 0) {
                capo_alloc_print(t, a, alloc, sizeof alloc);
                printf("capo graph  %s   class %s   NCCL %d.%d.%d on virtual GPUs: estimates are its model, nothing "
                       "was "
                       "measured\n\n  %-12s %9s  %-22s%s\n",
                       alloc, class, own.version / 10000, own.version / 100 % 100, own.version % 100, "algbw GB/s",
                       "NCCL", "by itself", r > 0 ? "   with the file" : "");
                line("broadcast", &own.broadcast, r > 0 ? &with.broadcast : NULL);
                line("all-gather", &own.allgather, r > 0 ? &with.allgather : NULL);
                line("all-reduce", &own.allreduce, r > 0 ? &with.allreduce : NULL);
                printf("  %-12s %9.1f  no software can do better over NVLink\n\n", "ceiling", c.allreduce_gbs);
                if (r > 0) {
                        printf("  own: ring %s, tree %s; file: ring %d x %g GB/s %s, tree %d x %g GB/s %s; accepted as "
                               "it is\n",
                               own.ring, own.tree, best->n_channels, best->ring.speed, best->ring.type,
                               best->n_channels, best->tree.speed, best->tree.type);
                        if (out)
                                printf("  wrote %s: only for jobs whose every communicator has exactly these GPUs\n",
                                       out);
                } else {
                        printf("  no file: %s\n", why);
                }
        } else {
                capo_error("graph: %s", why);
                status = CAPO_EXIT_FAIL;
        }
        (void)o;
        free(best);
        fragment_nccl_finish(&own);
        fragment_nccl_finish(&with);
        return status;
}

int capo_verb_graph(int argc, char **argv)
{
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        struct topo_options o = {0};
        struct topo_source s;
        struct capo_alloc a;
        const char *out = NULL;
        char why[512];
        int status;

        for (int i = 1; i < argc; i++) {
                const struct {
                        const char *name;
                        const char **value;
                } texts[] = {{"--topo", &o.topo}, {"--platform", &o.platform}, {"--gpus", &o.gpus}, {"-o", &out}};
                bool known = false;

                if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
                        help();
                        return CAPO_EXIT_OK;
                }
                for (size_t k = 0; k < N_ELEMENTS(texts) && !known; k++) {
                        if (!strcmp(argv[i], texts[k].name) && i + 1 < argc) {
                                *texts[k].value = argv[++i];
                                known = true;
                        }
                }
                if (!known) {
                        capo_error("graph: unknown option \"%s\", or its value is missing; capo graph --help", argv[i]);
                        return CAPO_EXIT_USAGE;
                }
        }
        if (!(o.topo || o.platform) || !o.gpus) {
                capo_error("graph: wants --topo or --platform, and --gpus; capo graph --help");
                return CAPO_EXIT_USAGE;
        }
        if (topo_load("graph", &o, &t, &s) < 0)
                return CAPO_EXIT_FAIL;
        if (capo_alloc_parse(t, o.gpus, false, &a, why, sizeof why) < 0) {
                capo_error("graph: %s", why);
                return CAPO_EXIT_FAIL;
        }
        status = show(&o, out, &s, t, &a);
        capo_alloc_free(&a);
        return status;
}
