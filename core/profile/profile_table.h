/* SPDX-License-Identifier: Apache-2.0 */
/* From a profile and a communicator to flat tables: one look-up per question. */
#pragma once

#include "core/profile/match.h"

/* One answer. algo 0: no opinion, leave NCCL's choice. */
struct capo_choice {
        uint8_t algo : 4, proto : 4; /* enum capo_algo, capo_proto */
        uint8_t channels;            /* 0: NCCL's own */
        uint16_t rule;  /* 1 + row, as in capo_record; set for "leave" rows too; 0 no row */
        uint32_t chunk; /* bytes; 0: NCCL's own. No table has it: capo_tables_chunk() */
};

/* The same in one word, so that one load gets it and a decision needs no arithmetic: cell |
 * channels << 8 | rule << 16. The cell is the place of algorithm and protocol in NCCL's cost table,
 * row by row; the values above are none. */
enum { CAPO_CELL_LEAVE = 255, CAPO_CELL_CROWDED = 254 };

static inline uint32_t capo_choice_pack(struct capo_choice c)
{
        uint32_t cell = c.algo ? (c.algo - 1u) * CAPO_NCCL_PROTOS + c.proto - 1u : CAPO_CELL_LEAVE;

        return cell | (uint32_t)c.channels << 8 | (uint32_t)c.rule << 16;
}

static inline struct capo_choice capo_choice_unpack(uint32_t word)
{
        uint32_t cell = word & 255;
        bool none = cell >= CAPO_CELL_CROWDED;

        return (struct capo_choice){.algo = none ? 0 : (uint8_t)(cell / CAPO_NCCL_PROTOS + 1) & 15,
                                    .proto = none ? 0 : (uint8_t)(cell % CAPO_NCCL_PROTOS + 1) & 15,
                                    .channels = (uint8_t)(word >> 8),
                                    .rule = (uint16_t)(word >> 16)};
}

/* A look-up table for one list of steps (neighbouring rows): each power of two is cut into as many
 * buckets of equal width as keep the boundaries in it apart; then an answer is one load and one
 * comparison, however many rows there are. In a bucket that still has several boundaries both words
 * are CROWDED, and the steps are searched. */
struct capo_bucket {
        uint64_t upto;   /* sizes up to here are `below`, larger ones `above` */
        uint32_t below;  /* capo_choice_pack */
        uint32_t change; /* below ^ above */
};
struct capo_octave {
        uint32_t shift, add; /* size >> shift, plus `add`, is the bucket */
};
struct capo_table {
        struct capo_octave octave[64]; /* by the highest bit of the size; 0 is with 1 */
        const uint64_t *upto;          /* n_steps, rising, the last UINT64_MAX */
        const uint32_t *choice;
        uint32_t n_steps;
        struct capo_bucket bucket[];
};

/* What a call is turned into its Config twin for (NCCL 2.31): the fields of a row that no tuner
 * reaches. Only a rule that always holds for the communicator can say so, and only where no rule
 * with conditions on the question comes before it: those are known when NCCL asks the tuner, which
 * is after the call was made. */
struct capo_turn {
        const char *selection;             /* algSelection: a symmetric kernel; NULL: not said */
        uint8_t ctas, cluster, cta_policy; /* as in struct capo_row */
        uint16_t rule;                     /* as in struct capo_choice */
};

/* All tables of a communicator. Rules with asked conditions come first, in order of preference,
 * then at most one that always holds. Tables are shared between communicators of one shape and
 * never freed before the set is. */
struct capo_branch {
        const struct capo_when *when; /* asked conditions; NULL: always */
        const struct capo_table *table;
};
struct capo_tables {
        const struct capo_table
                *table[CAPO_NCCL_COLLS]; /* when no question is asked; NULL: no opinion */
        const struct capo_branch
                *branch[CAPO_NCCL_COLLS];  /* NULL: none asked; else ends with when == NULL */
        bool asks;                         /* any branch at all */
        bool asks_links;                   /* some need link or bandwidths */
        const struct capo_rule *constants; /* rule whose constants apply, NULL none */
        const struct capo_table *turn[CAPO_NCCL_COLLS]; /* NULL: no call is turned; the "rule" it
                                                      finds is a place in turns, plus 1 */
        const struct capo_turn *turns[CAPO_NCCL_COLLS];
        const struct capo_row *chunks; /* the profile's rows, where one that is in a table says a
                                          chunk; NULL: none */
        const struct capo_rule
                *first; /* the most specific rule that holds, NULL none; names the match in logs */
        struct capo_tables_block *blocks;
};

/** capo_tables_new() - match and compile
 * @out: set only on success; points into @profile, which must outlive it
 *
 * Channel counts are dropped or clamped here where NCCL would not do it itself: CollNet algorithms,
 * NVLS over several nodes, and all-gather from 2.29 on use the number unchecked; before 2.25 no
 * more than 32 are allowed (enqueue.cc). Calls are turned on releases that can (@shape->nccl).
 *
 * Return: 0; -ENOMEM; -E2BIG a CSV with more than 64 different pipe_ops for one communicator. */
int capo_tables_new(const struct capo_profile *profile, const struct capo_shape *shape,
                    struct capo_tables **out);
void capo_tables_free(struct capo_tables *tables);

/** capo_table_word() - the packed choice for @bytes, or CROWDED; no branch. */
static inline uint32_t capo_table_word(const struct capo_table *t, uint64_t bytes)
{
        const struct capo_octave *o = &t->octave[63 ^ __builtin_clzll(bytes | 1)];
        const struct capo_bucket *b = &t->bucket[(uint32_t)(bytes >> o->shift) + o->add];

        return b->below ^ (b->change & -(uint32_t)(bytes > b->upto));
}

/** capo_table_find() - the choice for @bytes. */
struct capo_choice capo_table_crowded(const struct capo_table *table, uint64_t bytes);
static inline struct capo_choice capo_table_find(const struct capo_table *t, uint64_t bytes)
{
        uint32_t word = capo_table_word(t, bytes);

        return (word & 255) == CAPO_CELL_CROWDED ? capo_table_crowded(t, bytes)
                                                 : capo_choice_unpack(word);
}

/** capo_tables_turns() - is any call turned? */
static inline bool capo_tables_turns(const struct capo_tables *t)
{
        bool any = false;

        for (int coll = 0; coll < CAPO_NCCL_COLLS; coll++)
                any |= t->turn[coll] != NULL;
        return any;
}

/** capo_tables_turn() - what a call of @coll is turned for; NULL: it stays as it is. */
static inline const struct capo_turn *capo_tables_turn(const struct capo_tables *t, unsigned coll,
                                                       uint64_t bytes)
{
        uint16_t at = t->turn[coll] && bytes ? capo_table_find(t->turn[coll], bytes).rule : 0;

        return at ? &t->turns[coll][at - 1] : NULL;
}

/** capo_tables_chunk() - @c with its row's chunk; @rows: of the tables that @c was found in. */
static inline struct capo_choice capo_tables_chunk(const struct capo_row *rows,
                                                   struct capo_choice c)
{
        if (rows && c.rule &&
            c.rule < UINT16_MAX) /* which row the last number stands for nobody knows */
                c.chunk = rows[c.rule - 1].chunk;
        return c;
}

/** capo_tables_find() - the choice for a question. */
static inline struct capo_choice capo_tables_find(const struct capo_tables *t,
                                                  const struct capo_question *q)
{
        const struct capo_table *table = t->table[q->coll];
        const struct capo_branch *b = t->branch[q->coll];

        if (__builtin_expect(b != NULL, 0)) {
                while (b->when && !capo_when_asked(b->when, q))
                        b++;
                table = b->table;
        }
        return table ? capo_table_find(table, q->bytes) : (struct capo_choice){0};
}
