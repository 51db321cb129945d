/* SPDX-License-Identifier: Apache-2.0 */
/* The machine named by --topo or --platform, or this one, for verbs about allocations. */
#pragma once

#include <jansson.h>

#include "profiles/fragment/fragment_beyond.h"

struct cli_machine_words {
        const char *topo, *platform; /* both NULL: this machine */
        double brick_gbs; /* bandwidth of one link instead of NCCL's constant; 0: NCCL's */
        bool partial;     /* CAPO_TOPOLOGY_PARTIAL */
};

/* The description in a form that NCCL reads. */
struct cli_machine_source {
        char path[4096];      /* NCCL XML; "": there is none (this machine, nvidia-smi text) */
        const char *platform; /* completes it, or NULL */
};

/** cli_platform_meant() - ", is it hgxh100?": the names that a wrong one may mean; "": none.
 * @text: set. Return: @text. */
char *cli_platform_meant(const char *wrong, char *text, size_t room);

/** cli_machine_load() - load the machine of @words; end it with capo_topology_free(). Return: 0;
 * negative errno, printed with @verb; -ENODEV: unknown platform. */
int cli_machine_load(const char *verb, const struct cli_machine_words *words,
                     struct capo_topology **t, struct cli_machine_source *source);

/** cli_machine_measured() - the same with the rate of a link that was measured instead of NCCL's
 * constant; *@measured_in: where, NULL none was. */
int cli_machine_measured(const char *verb, const struct cli_machine_words *words,
                         struct capo_topology **t, struct cli_machine_source *source,
                         const char **measured_in);

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

/** cli_machine_advise() - the order of fragment_advise(), where nodes use different GPUs, and other
 * GPUs. What is not known, or not better, is empty. @counts: as capo_alloc_parse(). */
void cli_machine_advise(const struct cli_machine_words *words, const char *alloc, bool counts,
                        const char *libnccl, struct fragment_advice *out);

/** cli_beyond_json() - the list of experiments. @beyond may be NULL. */
json_t *cli_beyond_json(const struct fragment_beyond *beyond);
