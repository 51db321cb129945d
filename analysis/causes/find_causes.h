/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "analysis/causes/cause_kinds.h"
#include "analysis/causes/machine_series.h"

/* Whose cause is looked for. */
struct why_asked {
        const struct capo_job *job;
        struct capo_machine_series **all;    /* by process; NULL: it has none */
        struct capo_machine_series **before; /* by process: what is compared with; NULL: the other
                                                processes, or nodes, of the same time */
        uint32_t process;
        bool on_gpu; /* it is its GPU that is late */
};

/* Fill explained_ns and text. False: it is not so, or was not asked. */
typedef bool capo_why_finder(const struct why_asked *a, struct capo_cause_found *f);
extern capo_why_finder *const capo_why_finders[CAPO_WHYS];

/** capo_why_between() - by how much longer than the others it was outside of NCCL, be it that it ran
 * or waited for a CPU; NAN: not known. */
double capo_why_between(const struct why_asked *a);

/** capo_why_ratio() - how many times longer the readings of @s are than those of @before; NAN: not
 * known. */
double capo_why_ratio(const struct capo_machine_series *s,
                      const struct capo_machine_series *before);
