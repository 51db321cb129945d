/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `capo sweep` tries, as text in CAPO_SWEEP and in memory. The same text on every rank (it
 * comes with the environment), so the same plan, so the same decisions.
 *
 *   colls=allreduce+allgather sizes=1024-4194304 algos=ring+tree protos=ll+ll128+simple
 * channels=0+4 chunks=0+65536 calls=20000 slower=4 keep=base:1+allreduce:20:3+7
 *
 * Fields in any order, separated by blanks; each may be left out. `channels` 0 is NCCL's own
 * number, `chunks` 0 (bytes) its own chunk; others are tried where NCCL asks for it. `slower`: what
 * NCCL itself predicts to be this many times slower than its choice is not tried; 0 tries all.
 * `keep`: in the size class 2^20 <= bytes < 2^21 of all-reduce, only candidates 3 and 7 are tried;
 * base: in other classes each algorithm and protocol is tried with these of its combinations of channels
 * and chunk; 1 has the first of both lists.
 */
#pragma once

#include "capo/call_kinds.h"
#include "capo/seam.h"
#include "core/profile/profile_table.h"

enum { CAPO_SWEEP_CANDIDATES = 2048, CAPO_SWEEP_VALUES = 16 };

struct capo_sweep_ask {
        struct capo_seam_call call; /* which call this is: equal on all ranks */
        struct capo_question question;
        const float *table; /* NCCL's predictions, flat [n_algos][n_protos], < 0 not available; NULL
                               for ABI v1, v2 */
        int n_algos, n_protos;
        bool chunks; /* this NCCL asks for the chunk size too */
        int n_ranks, n_nodes;
};

struct capo_sweep_plan {
        uint64_t min_bytes, max_bytes;
        uint64_t calls; /* per communicator; after them everything is left to NCCL */
        double slower;
        unsigned n; /* candidates; ids are 1 .. n, by algorithm, protocol, channels, chunk */
        unsigned n_channels, n_chunks; /* values of each, for every algorithm and protocol */
        struct capo_sweep_candidate {
                uint8_t algo, proto, channels;
                uint32_t chunk;
        } candidate[CAPO_SWEEP_CANDIDATES];
        uint8_t colls; /* bit per enum capo_coll */
        struct capo_sweep_list {
                bool any; /* it was given */
                uint64_t bit[CAPO_SWEEP_CANDIDATES / 64];
        } base, keep[CAPO_NCCL_COLLS][64]; /* base: positions among the candidates of a pair */
};

static inline void capo_sweep_put(struct capo_sweep_list *list, unsigned i)
{
        list->any = true;
        list->bit[i / 64] |= 1ull << i % 64;
}

/** capo_sweep_open() - may candidate @i (its id is one more) be tried in the size class 2^@log2? */
static inline bool capo_sweep_open(const struct capo_sweep_plan *plan, unsigned coll, unsigned log2,
                                   unsigned i)
{
        const struct capo_sweep_list *list = &plan->keep[coll][log2];

        if (!list->any) {
                list = &plan->base;
                i %= plan->n_channels * plan->n_chunks;
        }
        return !list->any || list->bit[i / 64] >> i % 64 & 1;
}

/** capo_sweep_plan_parse() - Return: 0; -EINVAL with the reason in @why. */
int capo_sweep_plan_parse(const char *text, struct capo_sweep_plan *plan, char *why, size_t room);

/**
 * capo_sweep_pick() - the candidate for one call
 *
 * By a hash of (communicator, sequence number, collective): every candidate gets its turn at every
 * moment, so that drift hits all alike, and no period of the job can fall in step with the
 * schedule. NCCL's own choice takes two of the turns, because everything is compared with it. Pure.
 *
 * Return: the choice, rule = candidate id; algo 0: leave this call to NCCL.
 */
struct capo_choice capo_sweep_pick(const struct capo_sweep_plan *plan,
                                   const struct capo_sweep_ask *ask);

/** capo_sweep_plan_rules() - text of the RULES frame (core/log/rules.h), cut to @room; length. */
size_t capo_sweep_plan_rules(const struct capo_sweep_plan *plan, char *text, size_t room);
