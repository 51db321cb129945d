/* SPDX-License-Identifier: Apache-2.0 */
/* The search for a graph file, for capo graph, capo topo --every --nccl and capo run --graph auto. */
#ifndef CAPO_GRAPH_CLI_H
#define CAPO_GRAPH_CLI_H

#include "cli/topo.h"
#include "profiles/fragment/graph.h"

/**
 * graph_best() - the file that real NCCL expects most of
 * @own:  what NCCL does by itself; fragment_nccl_finish() in every case
 * @best, @with: the file's content and NCCL's answer with it, when there is a gain
 *
 * Return: 1; 0 nothing to gain, @why says why; negative errno with @why.
 */
int graph_best(const struct topo_source *s, const struct capo_topology *t, const struct capo_alloc *a,
               struct fragment_nccl *own, struct graph_plan *best, struct fragment_nccl *with, char *why, size_t room);

#endif
