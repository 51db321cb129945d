/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What capo run knows about the allocation when it is told: the class, which profile rules may name, the layout, and
 * graph files. All of it comes from the command line, so it is the same on every machine that runs the same command.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capo/env.h"
#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/machine.h"
#include "cli/run/run.h"
#include "core/base/nccl.h"
#include "core/base/util.h"
#include "profiles/fragment/best.h"

/* No gain, no file and no failure: the job runs as it would have. */
static void graph_auto(const struct cli_machine_source *s, const struct capo_topology *t, const struct capo_alloc *a,
                       const char *dir)
{
        _cleanup_free_ struct graph_plan *best = calloc(1, sizeof *best);
        struct fragment_nccl own = {0}, with = {0};
        char why[512] = "out of memory", path[4096], nccl[16];
        _cleanup_free_ struct cli_machine_asker *asker = malloc(sizeof *asker);
        int r = best && asker ? cli_machine_asker(s, asker, why, sizeof why) : -ENOMEM;

        if (!r)
                r = graph_best(&asker->ask, t, a, NULL, &own, best, &with, why, sizeof why);

        if (r > 0 && snprintf(path, sizeof path, "%s/graph", dir) < (int)sizeof path)
                r = graph_save_folder(path, best, t, a, own.version, why, sizeof why) ? -EIO : r;
        if (r == 0) {
                capo_info("no graph file: %s", why);
        } else if (r < 0) {
                capo_warn("no graph file: %s", why);
        } else {
                run_setenv(CAPO_ENV_graph, path);
                capo_info("graph files in %s: NCCL %s expects %.1f GB/s of all-reduce instead of %.1f (its model) "
                          "from communicators of all %d ranks; others are made without",
                          path, capo_nccl_text((uint32_t)own.version, nccl, sizeof nccl), with.allreduce.gbs,
                          own.allreduce.gbs, a->n_ranks);
        }
        fragment_nccl_finish(&own);
        fragment_nccl_finish(&with);
}

/* What --graph names: auto, a folder of capo graph, or one file, which then holds for every communicator. */
static int graph_option(const char *graph, const struct cli_machine_source *s, const struct capo_topology *t,
                        const struct capo_alloc *a, const char *dir)
{
        char path[PATH_MAX];
        struct stat st;

        if (getenv("NCCL_GRAPH_FILE")) {
                capo_warn("NCCL_GRAPH_FILE is set already and stays as it is");
        } else if (!strcmp(graph, "auto")) {
                graph_auto(s, t, a, dir);
        } else if (!realpath(graph, path) || stat(path, &st) < 0 || access(path, R_OK) < 0) {
                capo_error("run: --graph %s: %s; auto, or what capo graph -o wrote", graph, strerror(errno));
                return CAPO_EXIT_FAIL;
        } else {
                run_setenv(S_ISDIR(st.st_mode) ? CAPO_ENV_graph : "NCCL_GRAPH_FILE", path);
        }
        return 0;
}

int run_allocation(const struct run *run, const char *dir)
{
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        struct cli_machine_words o = {.topo = run->topo, .platform = run->platform};
        char why[512], class[1024], layout_text[CAPO_LAYOUT_TEXT];
        struct cli_machine_source s;
        struct capo_layout layout;
        struct capo_alloc a;
        const char *gpus = run->gpus ? run->gpus : run->alloc;
        bool told = run->topo || run->platform || gpus, is_auto = run->graph && !strcmp(run->graph, "auto");
        int status;

        if (!told && !is_auto)
                return run->graph ? graph_option(run->graph, NULL, NULL, NULL, dir) : 0;
        if (!(run->topo || run->platform) || !gpus || (run->gpus && run->alloc)) {
                capo_error("run: --gpus or --alloc, --graph auto and --topo or --platform go together: which GPUs of "
                           "which machine");
                return CAPO_EXIT_USAGE;
        }
        if (cli_machine_load("run", &o, &t, &s) < 0)
                return CAPO_EXIT_FAIL;
        if (capo_alloc_parse(t, gpus, !run->gpus, &a, why, sizeof why) < 0) {
                capo_error("run: %s", why);
                return CAPO_EXIT_FAIL;
        }
        if (capo_class_name(t, &a, class, sizeof class) == 0)
                run_setenv(CAPO_ENV_class_name, class);
        capo_alloc_layout(&a, &layout);
        if (!run->layout && !getenv(CAPO_ENV_layout))
                run_setenv(CAPO_ENV_layout, capo_layout_print(&layout, layout_text, sizeof layout_text));
        status = run->graph ? graph_option(run->graph, &s, t, &a, dir) : 0;
        capo_alloc_free(&a);
        return status;
}
