/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of the JSON form that its reader and its writer share, so that they stay one format. docs/profile-format.md
 * is the same for people.
 */
#ifndef CAPO_PROFILE_WORDS_H
#define CAPO_PROFILE_WORDS_H

#include <stddef.h>

#include "capo/profile.h"

/* the collectives follow in the order they are written: the ones people look for first */
static const char *const rule_keys[] = {"when",      "basis",  "constants", "allreduce",
                                        "broadcast", "reduce", "allgather", "reducescatter"};
enum { RULE_WHEN, RULE_BASIS, RULE_CONSTANTS, RULE_COLLS };
static const enum capo_coll rule_colls[] = {CAPO_COLL_ALLREDUCE, CAPO_COLL_BROADCAST, CAPO_COLL_REDUCE,
                                            CAPO_COLL_ALLGATHER, CAPO_COLL_REDUCESCATTER};

static const char *const constant_tables[CAPO_CONST_TABLES] = {
        "base_latency", "hw_latency", "ll_bw", "ring_ll128_bw", "tree_ll128_bw", "tree_bw", "nvls_tree_bw"};
static const char *const constant_links[] = {"nvlink", "pci", "net"};
static const char *const constant_gpus[] = {"volta", "ampere", "hopper", "blackwell"};
static const int constant_scales[] = {1, 2, 4};

static const char *const basis_words[] = {"measured", "modelled"};
static const char *const link_words[] = {"any", "nvlink", "other"};
static const char *const algo_words[] = {"tree", "ring", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat"};
static const char *const proto_words[] = {"ll", "ll128", "simple"};

/* The conditions: one row says key, kind and place; reader, writer and printer go by it. */
enum kind { RANGE, GBS, NCCL, LAYOUT, TEXT, PATTERN, LINK, FLAG };
static const struct when_key {
        const char *key;
        enum kind kind;
        size_t offset;
} when_keys[] = {
#define WHEN(key, kind, field)                               \
        {                                                    \
                key, kind, offsetof(struct capo_when, field) \
        }
        WHEN("nodes", RANGE, nodes),
        WHEN("ranks", RANGE, ranks),
        WHEN("layout", LAYOUT, layout),
        WHEN("min_local", RANGE, min_local),
        WHEN("max_local", RANGE, max_local),
        WHEN("class", TEXT, fragment),
        WHEN("link", LINK, link),
        WHEN("ring_gbs", GBS, ring_gbs),
        WHEN("tree_gbs", GBS, tree_gbs),
        WHEN("nccl", NCCL, nccl),
        WHEN("comm", PATTERN, comm),
        WHEN("pipe_ops", RANGE, pipe_ops),
        WHEN("reg_buff", FLAG, reg_buff),
#undef WHEN
};

#endif
