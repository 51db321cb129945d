/* SPDX-License-Identifier: Apache-2.0 */
/* The search for graph files: candidates, real NCCL asked with each, the best that loses nowhere. */
#ifndef CAPO_FRAGMENT_BEST_H
#define CAPO_FRAGMENT_BEST_H

#include "profiles/fragment/graph.h"

#define GRAPH_SIZES "64K,1M,16M,256M,1G" /* what matters when nobody says */

/* The sizes that matter: at the largest all-reduce must gain, at none may any collective lose. */
struct graph_sizes {
        uint64_t bytes[FRAGMENT_NCCL_SIZES];
        size_t n;
};

/** graph_sizes_parse() - as capo plan --sizes; sorted. Return: 0; -EINVAL, -E2BIG with @why. */
int graph_sizes_parse(const char *text, struct graph_sizes *out, char *why, size_t room);

/**
 * graph_best() - the files that real NCCL expects most of
 * @ask:   how to ask NCCL: sizes and graph files are filled in here
 * @sizes: NULL: GRAPH_SIZES
 * @own:   what NCCL does by itself; fragment_nccl_finish() in every case
 * @best, @with: the files' content and NCCL's answer with them, when there is a gain
 *
 * Return: 1; 0 nothing to gain, @why says why; negative errno with @why.
 */
int graph_best(const struct fragment_nccl_ask *ask, const struct capo_topology *t, const struct capo_alloc *a,
               const struct graph_sizes *sizes, struct fragment_nccl *own, struct graph_plan *best,
               struct fragment_nccl *with, char *why, size_t room);

/** graph_save_folder() - graph-0.xml ... and "machines" (core/base/graph_folder.h) in @folder, which is made if it is not
 * there; each file appears at once, so that several processes may do the same. Return: 0; negative errno with @why. */
int graph_save_folder(const char *folder, const struct graph_plan *g, const struct capo_topology *t,
                      const struct capo_alloc *a, int nccl_version, char *why, size_t room);

/** graph_path() - the name of one machine's file. Return: 0; -ENAMETOOLONG. */
int graph_path(const char *pattern, int node, char *path, size_t room);

#endif
