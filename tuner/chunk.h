/* SPDX-License-Identifier: Apache-2.0 */
/* Which row a question for a chunk size belongs to (ABI v6, NCCL 2.30). */
#pragma once

#include <stdbool.h>

#include "capo/call_kinds.h"
#include "core/profile/profile_table.h"

/* One communicator: the last question of each collective, and what was answered. */
struct capo_chunks {
        const struct capo_row
                *rows; /* capo_choice.rule - 1 is the place here; NULL: only a sweep says chunks */
        int n_ranks;
        struct capo_chunk_asked {
                uint64_t bytes;      /* per rank; 0: nothing is known */
                uint64_t first;      /* what was asked of its first channel; 0: nothing yet */
                uint32_t chunk;      /* 0: NCCL's own */
                uint8_t algo, proto; /* NCCL's numbers */
        } last[CAPO_NCCL_COLLS];
};

/** capo_chunks_note() - a cost table got @choice; algo 0: left as it is. @bytes as NCCL's. */
void capo_chunks_note(struct capo_chunks *chunks, int func, uint64_t bytes,
                      struct capo_choice choice);

/** capo_chunks_answer() - NCCL asks for a chunk size
 * @func, @algo, @proto: NCCL's numbers
 * @bytes: of one channel; of all where CollNet runs
 * @chunk: in: NCCL's own. Out, where the question belongs to a row that says one: that, no less
 * than the protocol's grain and no more than the buffer has room for: Ring's own is all of that;
 * NVLS and CollNet have smaller buffers than the one that NCCL cuts by, so they get no more than
 * NCCL's own; for Tree and PAT, whose own chunk follows the size, NCCL cuts
 *
 * Return: it is answered. */
bool capo_chunks_answer(struct capo_chunks *chunks, int func, uint64_t bytes, int algo, int proto,
                        size_t *chunk);
