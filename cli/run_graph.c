/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What capo run knows about the allocation when it is told: the class, which profile rules may name, the layout, and a
 * graph file. All of it comes from the command line, so it is the same on every machine that runs the same command.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capo/msg.h"
#include "cli/cli.h"
#include "cli/graph.h"
#include "cli/run.h"
#include "core/util.h"

static int write_graph(const char *path, const struct graph_plan *g, const struct capo_topology *t,
                       const struct capo_alloc *a, int version)
{
        FILE *f = fopen(path, "we");
        int r;

        if (!f)
                return -errno;
        r = graph_write(f, g, 0, t, a, version);
        return fclose(f) != 0 && !r ? -errno : r;
}

/* No gain, no file and no failure: the job runs as it would have. */
static void graph_auto(const struct topo_source *s, const struct capo_topology *t, const struct capo_alloc *a,
                       const char *dir)
{
        struct graph_plan *best = calloc(1, sizeof *best);
        struct fragment_nccl own = {0}, with = {0};
        char why[512] = "out of memory", path[4096];
        int r = best ? graph_best(s, t, a, NULL, &own, best, &with, why, sizeof why) : -ENOMEM;

        snprintf(path, sizeof path, "%s/graph.xml", dir);
        if (r > 0 && (r = write_graph(path, best, t, a, own.version)) < 0)
                capo_warn("no graph file: %s: %s", path, strerror(-r));
        else if (r <= 0 && !(r == 0 && with.version))
                capo_info("no graph file: %s", why);
        else {
                capo_run_setenv("NCCL_GRAPH_FILE", path);
                capo_info("NCCL_GRAPH_FILE=%s: NCCL %d.%d.%d expects %.1f GB/s of all-reduce instead of %.1f (its "
                          "model); "
                          "a communicator without exactly these GPUs will fail at init",
                          path, own.version / 10000, own.version / 100 % 100, own.version % 100, with.allreduce.gbs,
                          own.allreduce.gbs);
        }
        free(best);
        fragment_nccl_finish(&own);
        fragment_nccl_finish(&with);
}

int capo_run_allocation(const struct capo_run *run, const char *dir)
{
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        struct topo_options o = {.topo = run->topo, .platform = run->platform};
        char why[512], class[1024], layout_text[CAPO_LAYOUT_TEXT];
        struct topo_source s;
        struct capo_layout layout;
        struct capo_alloc a;

        if (!run->topo && !run->platform && !run->gpus && !run->graph)
                return 0;
        if (!(run->topo || run->platform) || !run->gpus) {
                capo_error("run: --gpus, --graph and --topo or --platform go together: which GPUs of which machine");
                return CAPO_EXIT_USAGE;
        }
        if (topo_load("run", &o, &t, &s) < 0)
                return CAPO_EXIT_FAIL;
        if (capo_alloc_parse(t, run->gpus, false, &a, why, sizeof why) < 0) {
                capo_error("run: %s", why);
                return CAPO_EXIT_FAIL;
        }
        if (capo_class_name(t, &a, class, sizeof class) == 0)
                capo_run_setenv("CAPO_CLASS", class);
        capo_alloc_layout(&a, &layout);
        if (!run->layout && !getenv("CAPO_LAYOUT"))
                capo_run_setenv("CAPO_LAYOUT", capo_layout_print(&layout, layout_text, sizeof layout_text));
        if (run->graph && getenv("NCCL_GRAPH_FILE"))
                capo_warn("NCCL_GRAPH_FILE is set already and stays as it is");
        else if (run->graph && !strcmp(run->graph, "auto"))
                graph_auto(&s, t, &a, dir);
        else if (run->graph && access(run->graph, R_OK) == 0)
                capo_run_setenv("NCCL_GRAPH_FILE", run->graph);
        else if (run->graph) {
                capo_error("run: --graph %s: %s; auto, or a file of capo graph", run->graph, strerror(errno));
                capo_alloc_free(&a);
                return CAPO_EXIT_FAIL;
        }
        capo_alloc_free(&a);
        return 0;
}
