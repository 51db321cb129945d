/* SPDX-License-Identifier: Apache-2.0 */
/* The previous and next GPU of a rank in the rings of its NVLink domain: ncclTopoPreset() computes
 * them for its own rank, and the ranks exchange them. For a rank that is not started they cannot be
 * derived from other ranks. But the graphs of a domain are equal on all of its ranks, so this rank
 * calls ncclTopoPreset() once for each missing rank, and then for itself again.
 *
 * In NCCL 2.19 to 2.32, ncclTopoPreset(comm, graphs, ranks) depends on comm->rank, overwrites
 * @ranks and comm->channels, and @ranks is in what the rank gathers next (connect.cc). */

#include "profiles/plan/virtual/patch.h"
#include "profiles/plan/virtual/virtual.h"

static int (*real_preset)(void *comm, void *graphs, void *ranks);
static _Thread_local struct {
        char *comm, *graphs, *ranks;
} last;

static int note_preset(void *comm, void *graphs, void *ranks)
{
        last.comm = comm;
        last.graphs = graphs;
        last.ranks = ranks;
        return real_preset(comm, graphs, ranks);
}

void plan_preset_found(void *at) { real_preset = (int (*)(void *, void *, void *))at; }

int plan_preset_patch(char *code, size_t n, void *spare)
{
        return real_preset
                       ? capo_patch_calls(code, n, (void *)real_preset, (void *)note_preset, spare)
                       : 0;
}

int plan_preset_make_up(char *all, size_t size, int *rank)
{
        int own = *rank, rc = 0;
        ptrdiff_t at = last.ranks ? last.ranks - (all + (size_t)own * size) : -1;

        if (at < 0 || (size_t)at >= size) /* not in this exchange */
                return 0;
        for (*rank = 0; *rank < (int)plan_job->n_ranks && !rc; ++*rank) {
                if (plan_asked_at(*rank) < 0)
                        rc = real_preset(last.comm, last.graphs, all + (size_t)*rank * size + at);
        }
        *rank = own;
        last.ranks = NULL;
        return rc ? rc : real_preset(last.comm, last.graphs, all + (size_t)own * size + at);
}
