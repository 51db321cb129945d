/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What NCCL's cost table betrays of a communicator's layout.
 *
 * A cell of the table is latency x operations + bytes / bandwidth (facts: NCCL src/graph/tuning.cc,
 * ncclTopoGetAlgoTime). The bandwidth is that of the graph NCCL found, the smallest over all nodes,
 * and so betrays how few GPUs and NICs the poorest node has. NCCL 2.22 to 2.27 tell a tuner nothing
 * else about nodes.
 *
 * A bandwidth is not a layout: on a machine with one NIC per GPU a table of 1+7 is, in every digit,
 * that of 4+4 where one NIC is seen, and three nodes with 1, 3 and 8 ranks have that of 1, 4 and 7.
 * So nothing is worked out backwards. The profile lists all layouts that a number of ranks can have
 * on its machine, with what real NCCL's table says for each ("layouts", made by `capo profile
 * layouts`); the cell of a question is compared with all of them, at that question's size, and
 * settles a layout only when every entry it agrees with is of that layout.
 *
 * Every answer is a function of the question and the profile, so that all ranks have the same one:
 * nothing is remembered. Tables are equal on all ranks as far as NCCL_ALGO and NCCL_PROTO are.
 */
#ifndef CAPO_SEEN_H
#define CAPO_SEEN_H

#include "core/profile/match.h"

#define CAPO_SEEN_LAYOUTS \
        255 /* of one number of ranks and nodes; a profile with more is not asked */

/* NCCL's model is exact arithmetic on constants; what differs is rounding: of floats, and of the
 * profile's numbers. */
#define CAPO_SEEN_TOLERANCE 2e-4

/* Below 64 bytes per rank and channel (64 of them at most) NCCL's Ring/Simple has another latency
 * for all-reduce (tuning.cc, "plateau effect of ring"); there the table is not asked. */
#define CAPO_SEEN_BYTES_PER_RANK 4096u

struct capo_seen_cost {
        double us, us_per_byte; /* us_per_byte 0: not known */
};

/* The layouts one communicator can have. */
struct capo_seen {
        int n_ranks;
        int n_layouts, claim; /* claim: index of the launcher's layout, -1 it has none for this
                                 communicator */
        const char *layout[CAPO_SEEN_LAYOUTS]; /* the profile's texts */
        uint32_t n_costs;
        bool listed[CAPO_COLLS]; /* the list has this collective for every layout */
        uint8_t *of;             /* index into layout, of each cost */
        struct capo_seen_cost *cost[CAPO_COLLS];
};

/**
 * capo_seen_new() - the layouts of @profile that the table can tell apart for this communicator
 * @told:  what NCCL told: ranks, nodes, smallest and largest (-1 not), version; no layout yet
 * @why:   of capo_shape_fill; @claim: the layout it found, NULL none
 * @out:   NULL when the table is not to be asked: NCCL settled the layout itself, the profile has
 *         no list for so many ranks and nodes and this NCCL, no rule that could hold looks at the
 *         layout, or the launcher's layout is none of the list (which is then not complete)
 *
 * Return: 0; -ENOMEM.
 */
int capo_seen_new(const struct capo_profile *profile, const struct capo_shape *told,
                  const struct capo_layout_why *why, const char *claim, struct capo_seen **out);
void capo_seen_free(struct capo_seen *seen);

/** capo_seen_find() - layout of a question, by its Ring/Simple cell @us (0 and below: not
 * available)
 *
 * The table is stronger than a launcher: a layout of the launcher's that it does not agree with is
 * dropped. But it does not put another in its place: it may be that the launcher is right and NICs
 * are missing.
 *
 * Return: index into layout; -1: no layout is known, because the table contradicts the launcher, or
 * fits no layout or several; CAPO_SEEN_UNASKED: the question is too small or has no such cell: what
 * the other sources say stands. */
#define CAPO_SEEN_CONTRADICTS \
        "the launcher's layout is dropped: NCCL's cost table has other bandwidths than the profile's list has for it"
#define CAPO_SEEN_UNASKED (-2)
int capo_seen_find(const struct capo_seen *seen, unsigned coll, uint64_t bytes, int pipe_ops,
                   double us);

/**
 * capo_seen_gap() - is the list that entry @i of the profile's layouts begins whole?
 * @text: the first layout that is missing, of nodes no larger than the largest in the list;
 * CAPO_LAYOUT_TEXT bytes
 *
 * Return: true with @text when one is missing; false also for entries that do not begin a list.
 */
bool capo_seen_gap(const struct capo_profile *profile, uint32_t i, char *text, size_t room);

/**
 * capo_seen_settle() - capo_shape_fill and the cost table together, for one question: what the
 * tuner does, explained
 * @shape: as told by NCCL; layout, min_local and max_local are filled in where they follow
 * @us:    Ring/Simple cell of the question's table; 0 and below: there is none
 * @why:   who settled it, and what was dropped; may be NULL
 */
void capo_seen_settle(const struct capo_profile *profile, struct capo_shape *shape,
                      const char *launcher, char *text, size_t room,
                      const struct capo_question *question, double us, struct capo_layout_why *why);

#endif
