/* SPDX-License-Identifier: Apache-2.0 */
/* What holds of some NCCL releases only. For the files that ask for a fact by name. */
#pragma once

#include <stdbool.h>

/* Facts that hold for some releases only; include/capo/nccl_facts.def says for which. */
enum capo_nccl_fact {
#define CAPO_NCCL_FACT(id, first, last) CAPO_NCCL_##id,
#include "capo/nccl_facts.def"
        CAPO_NCCL_FACTS,
};

/** capo_nccl_has() - does it hold of release @version? Never of 0. */
bool capo_nccl_has(int version, enum capo_nccl_fact fact);

/** capo_nccl_since() - the first release it holds of; 0: all before it stopped to. */
int capo_nccl_since(enum capo_nccl_fact fact);
