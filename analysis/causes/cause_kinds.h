/* SPDX-License-Identifier: Apache-2.0 */
/* The hypotheses by number, and one that was found to hold. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum capo_why {
#define CAPO_WHY(id, words, advice) CAPO_WHY_##id,
#include "analysis/causes/cause_kinds.def"
        CAPO_WHYS,
};

struct capo_cause_found {
        enum capo_why why;
        bool is_cause;           /* false: also seen */
        uint32_t process;        /* whose it is */
        bool of_node;            /* it is its node's, and none of the ranks there is late */
        double explained_ns;     /* of lost_ns; < 0: its counters have no time */
        double events;           /* what these counted; 0: it is a state */
        uint64_t from_ns, to_ns; /* when these grew, since 1970; 0: it has none */
        bool lasting;            /* it was as much so before the episode: not its cause */
        char text[512];          /* the evidence, a sentence without its subject's rank */
};
