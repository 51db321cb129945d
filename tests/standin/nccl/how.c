/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How one call is to be done: ncclCollConfig_t of NCCL 2.31. The stand-in obeys algSelection (names
 * such as RING, RING_LL, TREE_SIMPLE, SYMK_LL, in any case, as prefixes; ^ in front leaves out),
 * forceAlgSelection, minCTAs and maxCTAs, and of the policies the one that means copy engines; it
 * has no clusters, and takes them without a word.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "std.h"

/* "RING_LL" of Ring and LL; a word that is a whole name means that one, else all that begin so. */
static bool names_it(const char *word, size_t n, int algo, int proto, bool whole)
{
        char name[64];

        snprintf(name, sizeof name, "%s_%s", algo_names[algo], proto_names[proto]);
        return !strncasecmp(name, word, n) && (!whole || !name[n]);
}

static void select_algorithms(const char *text, struct how *how)
{
        bool listed[N_ALGOS][N_PROTOS] = {{false}}, invert = *text == '^';
        unsigned symk = 0;

        for (text += invert; *text;) {
                size_t n = strcspn(text, ",");
                bool whole = false;

                symk |= sym_named(text, n);
                for (int pass = 0; pass < 2 && !(pass && whole); pass++)
                        for (int a = 0; a < N_ALGOS; a++)
                                for (int p = 0; p < N_PROTOS; p++)
                                        if (n && names_it(text, n, a, p, !pass))
                                                listed[a][p] = whole = true;
                text += n + (text[n] == ',');
        }
        for (int a = 0; a < N_ALGOS; a++)
                for (int p = 0; p < N_PROTOS; p++)
                        how->leave_out[a][p] = listed[a][p] == invert;
        how->no_symk = invert ? symk : ~symk;
        how->chosen = true;
}

ncclResult_t how_read(struct comm *comm, const ncclCollConfig_t *config, struct how *how)
{
        *how = (struct how){.force = true, .policy = -1};
        if (!config)
                return ncclSuccess;
        if (config->magic != NCCL_CONFIG_MAGIC ||
            config->size < offsetof(ncclCollConfig_t, launchCompletionEvent))
                return fail(
                        comm, ncclInvalidArgument,
                        "ncclCollConfig_t argument not initialized via NCCL_COLLCONFIG_INITIALIZER");
        if (config->algSelection && *config->algSelection)
                select_algorithms(config->algSelection, how);
        how->force = config->forceAlgSelection != 0;
        how->min_channels = config->minCTAs == INT_MIN ? 0 : config->minCTAs;
        how->max_channels = config->maxCTAs == INT_MIN ? 0 : config->maxCTAs;
        how->policy = config->CTAPolicy == INT_MIN ? -1 : config->CTAPolicy;
        how->tag = config->userProfilerTag;
        if (how->min_channels < 0 || how->max_channels < 0 ||
            (how->max_channels && how->min_channels > how->max_channels))
                return fail(comm, ncclInvalidArgument, "config: %d to %d CTAs", how->min_channels,
                            how->max_channels);
        return ncclSuccess;
}

bool how_same(const struct how *a, const struct how *b)
{
        return !memcmp(a->leave_out, b->leave_out, sizeof a->leave_out) && a->force == b->force &&
               a->no_symk == b->no_symk && a->policy == b->policy &&
               a->min_channels == b->min_channels && a->max_channels == b->max_channels;
}
