/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which rules hold for a communicator, and in which order.
 *
 * A rule's conditions are of two kinds. The settled ones (nodes, ranks, layout, local ranks, class,
 * NCCL version, name) are answered once, when the communicator is made. The asked ones (pipe_ops,
 * reg_buff, link, bandwidths) can change from question to question and are answered from the
 * question alone, never from history: all ranks see the same question, and all ranks answer alike,
 * whatever else any of them asked before.
 *
 * Link and bandwidth come out of the cost table. NCCL offers Ring/LL128 only where every path
 * inside the nodes is NVLink (direct or over one GPU) and every path between them at most one PCIe
 * switch (src/graph/tuning.cc), so the presence of that cell is the link class, at any size. A
 * cell's value is latency + bytes / bandwidth; from 16 MiB on the latency is small, and bytes /
 * value x bus-bandwidth factor is the bandwidth of NCCL's graph. Below that size nobody can tell
 * the two apart in one table, so there the bandwidths are "not known" and conditions on them do not
 * hold. */
#pragma once

#include "capo/profile.h"
#include "core/base/layout.h"
#include "core/base/util.h"

#define CAPO_GBS_MIN_BYTES (16u << 20)

/* What is settled about a communicator. Equal on all of its ranks. */
struct capo_shape {
        int n_ranks, n_nodes;
        int min_local, max_local; /* -1 not known */
        int nccl;                 /* NCCL_VERSION_CODE; 0 not known */
        bool allow_modelled; /* rules that no clock has seen may decide (CAPO_ALLOW_MODELLED) */
        const char *layout;  /* as capo_layout_print(), in rank order; NULL not known */
        char trays[CAPO_LAYOUT_TEXT]; /* of the launcher's hosts, however NCCL counts them;
                                         canonical,
                                         "" not known */
        const char *class_name;       /* allocation class, NULL not known */
        const char *comm;             /* name, NULL not known */
};

/** capo_shape_fill() - derive what the numbers imply (core/base/layout.h, capo_layout_of_comm)
 * @shape:    n_ranks and n_nodes known, min_local and max_local -1 or known; all three of the
 *            layout are filled in where they follow, and the trays, where the communicator has all
 *            ranks that the launcher knows and NCCL does not count more nodes than it
 * @launcher: the launcher's layout of the whole job, or NULL
 * @text:     where the layout is kept, CAPO_LAYOUT_TEXT bytes; must outlive @shape
 * @why:      who settled it and what was dropped; may be NULL */
void capo_shape_fill(struct capo_shape *shape, const char *launcher, char *text, size_t room,
                     struct capo_layout_why *why);

/* One question, in our own words. */
struct capo_question {
        uint8_t coll; /* enum capo_coll */
        int8_t reg_buff;
        uint8_t link; /* enum capo_link; CAPO_LINK_ANY: not known */
        int pipe_ops;
        uint64_t bytes;
        double ring_gbs, tree_gbs; /* -1 not known */
};

/** capo_when_settled() - do the settled conditions hold?
 * @why: NULL, or set to the key of the first that does not */
bool capo_when_settled(const struct capo_when *when, const struct capo_shape *shape,
                       const char **why);
/** capo_rule_settled() - do the settled conditions hold, and may the rule be used? @why as above.
 * It has words for a modelled rule that @shape does not allow while all else holds. */
bool capo_rule_settled(const struct capo_rule *rule, const struct capo_shape *shape,
                       const char **why);
/** capo_match_nearest() - why no rule holds: the conditions that the nearest one misses, and what
 * it is for; "" where a rule holds, or there is none. Return: @text. */
char *capo_match_nearest(const struct capo_profile *profile, const struct capo_shape *shape,
                         char *text, size_t room);
#define CAPO_NEAREST_TEXT 640
/** capo_when_asked() - do the conditions on the question hold? capo_when_asks() - are there any? */
bool capo_when_asked(const struct capo_when *when, const struct capo_question *question);
bool capo_when_asks(const struct capo_when *when);

/** capo_rule_compare() - < 0: @a wins over @b. The order is that of docs/profile-format.md, "Which
 * rule wins". @why: NULL, or set to the key that decided. Never 0 for two rules of one profile. CSV
 * profiles: the order in the file. */
int capo_rule_compare(const struct capo_profile *profile, uint32_t a, uint32_t b, const char **why);

/** capo_match() - the rules that hold (capo_rule_settled), winner first
 * @shape: NULL: all rules, in that order
 * @order: malloc'ed list of rule indexes; the caller frees it
 *
 * Return: how many, 0 included; -ENOMEM. */
int capo_match(const struct capo_profile *profile, const struct capo_shape *shape,
               uint32_t **order);
