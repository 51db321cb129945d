/* SPDX-License-Identifier: Apache-2.0 */
/* The machine named by --topo or --platform, or this one, for verbs about allocations. */
#pragma once

#include "profiles/fragment/nccl_model.h"

struct cli_machine_words {
        const char *topo, *platform; /* both NULL: this machine, by hwloc */
        double brick_gbs; /* bandwidth of one link instead of NCCL's constant; 0: NCCL's */
        bool partial;     /* CAPO_TOPOLOGY_PARTIAL */
};

/* The description in a form that NCCL reads. */
struct cli_machine_source {
        char path[4096];      /* NCCL XML; "": there is none (hwloc, nvidia-smi text) */
        const char *platform; /* completes it, or NULL */
};

/** cli_platform_meant() - ", is it hgxh100?": the names that a wrong one may mean; "": none.
 * @text: set. Return: @text. */
char *cli_platform_meant(const char *wrong, char *text, size_t room);

/** cli_machine_load() - load the machine of @words; end it with capo_topology_free(). Return: 0;
 * negative errno, printed with @verb; -ENODEV: unknown platform. */
int cli_machine_load(const char *verb, const struct cli_machine_words *words,
                     struct capo_topology **t, struct cli_machine_source *source);

/* For questions to NCCL about that machine. Strings of `machine` point into this struct and into
 * the source. */
struct cli_machine_asker {
        struct fragment_machine machine;
        char tools[4096], libnccl[4096];
};

/** cli_machine_asker() - find the worker and the libnccl: @libnccl; NULL: as cli_parts_find().
 * Return: 0; negative errno with @why: there is no NCCL XML, or a part is missing. */
int cli_machine_asker(const struct cli_machine_source *source, const struct capo_topology *t,
                      const char *libnccl, struct cli_machine_asker *out, char *why, size_t room);

/** cli_machine_order() - the best order of the nodes of an allocation (fragment_orders_ask()), "" if
 * it does not matter or cannot be known. @counts: as capo_alloc_parse(). Returns @text. */
char *cli_machine_order(const struct cli_machine_words *words, const char *alloc, bool counts,
                        const char *libnccl, char *text, size_t room);
