/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls are timed on the GPU: CAPO_GPU_SAMPLE. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct capo_comm;

struct capo_draw {
        bool timed;
        bool chosen; /* timed for what it is, so it stands for itself (CAPO_RECORD_CHOSEN) */
};

/** capo_draw_one_in() - of @n calls one is timed by draw; 1: all are. @early: and the first calls
 * of each communicator and those after a pause, which nothing else times. */
void capo_draw_one_in(uint32_t n, bool early);

/** capo_draw_call() - is the call @id of @bytes, made at @now_ms, the last one that @comm has
 * counted, timed? Every call of the communicator has to be asked for, in order, by one thread at a
 * time. */
struct capo_draw capo_draw_call(struct capo_comm *comm, unsigned id, uint64_t bytes,
                                uint64_t now_ms);
