/* SPDX-License-Identifier: Apache-2.0 */
/* Which machine is meant, for every verb that looks at allocations: --topo, --platform, or this
 * one. */
#ifndef CAPO_CLI_MACHINE_H
#define CAPO_CLI_MACHINE_H

#include "profiles/fragment/nccl_model.h"

struct cli_machine_words {
        const char *topo, *platform; /* NULL both: this machine, by hwloc */
        double brick_gbs;            /* one link, in place of NCCL's constant; 0 that */
        bool partial;                /* CAPO_TOPOLOGY_PARTIAL */
};

/* Where the description is, for asking NCCL. */
struct cli_machine_source {
        char path[4096];      /* NCCL XML; "" there is none (hwloc, nvidia-smi text) */
        const char *platform; /* completes it, or NULL */
};

/** cli_machine_load() - @words' machine, ended with capo_topology_free(). Return: 0; negative
 * errno, said as @verb: -ENODEV no such platform. */
int cli_machine_load(const char *verb, const struct cli_machine_words *words,
                     struct capo_topology **t, struct cli_machine_source *source);

/* Real NCCL for questions about that machine; strings of `machine` point into this, and into the
 * source. */
struct cli_machine_asker {
        struct fragment_machine machine;
        char tools[4096], libnccl[4096];
};

/** cli_machine_asker() - find the worker and the libnccl: @libnccl, or NULL: as cli_parts_find().
 * Return: 0; negative errno with @why: there is no NCCL XML, or a part is missing. */
int cli_machine_asker(const struct cli_machine_source *source, const struct capo_topology *t,
                      const char *libnccl, struct cli_machine_asker *out, char *why, size_t room);

#endif
