/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls of a pattern belong together, at which beat of a round each is made, and what ends in
 * a round with a fault. */
#pragma once

#include "tests/golden/gen_pattern.h"

#define PATTERN_NO_KEY UINT32_MAX

/* A collective of one communicator, or a send and its receive: of the pattern, so the same for all
 * copies. */
struct pattern_key {
        uint8_t family;
        bool p2p;
        bool shared; /* one for all copies: a collective of a communicator that grows */
        unsigned inst, from, to, nth;
        unsigned needed; /* calls that make it whole, over all copies it is shared by */
        uint32_t tick;
        uint64_t ranks; /* bits of those of the pattern */
};

struct pattern_play {
        const struct pattern *p;
        const struct pattern_job *job;
        struct pattern_key *key;
        unsigned n_keys, most_calls; /* of a rank */
        uint32_t ticks;              /* of a round */
        uint32_t *key_of, *tick_of;  /* by rank of the pattern and call */
        uint8_t *ended; /* by rank of the job and call, in the last round; NULL: everything */
};

/** pattern_play() - ends the process when the calls of the pattern cannot be put in an order.
 * pattern_play_free() afterwards. */
void pattern_play(const struct pattern *p, const struct pattern_job *job, struct pattern_play *out);
void pattern_play_free(struct pattern_play *play);

static inline const struct pattern_class *pattern_class_of(const struct pattern *p, unsigned rank)
{
        return &p->class[p->class_of[rank % p->ranks]];
}

/** pattern_place() - in which communicator of family @c rank @r of the pattern is. Return: its
 * place there; -1 in none. */
int pattern_place(const struct pattern_comm *c, unsigned r, unsigned *inst);

/** pattern_item() - how many calls from @i on are one group; 1 outside. */
unsigned pattern_item(const struct pattern_class *c, unsigned i);

static inline uint32_t pattern_key_at(const struct pattern_play *play, unsigned rank, unsigned i)
{
        return play->key_of[rank % play->p->ranks * play->most_calls + i];
}

static inline uint32_t pattern_tick_at(const struct pattern_play *play, unsigned rank, unsigned i)
{
        return play->tick_of[rank % play->p->ranks * play->most_calls + i];
}
