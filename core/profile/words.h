/* SPDX-License-Identifier: Apache-2.0 */
/* The words of the JSON form that its reader and its writer share, so that they stay one format.
 * docs/profile-format.md is the same for people. */
#pragma once

#include "core/profile/range.h"

#define WORD(text) CAPO_SLICE(text)

/* the collectives follow, each at its place (capo_coll_at) */
enum { RULE_WHEN, RULE_BASIS, RULE_CONSTANTS, RULE_COLLS };
static const struct capo_slice rule_keys[] = {
        WORD("when"),
        WORD("basis"),
        WORD("constants"),
#define CAPO_COLL(id, word, long_word, place, size) [RULE_COLLS + (place)] = WORD(word),
#include "capo/collectives.def"
};

static const struct capo_slice constant_tables[CAPO_CONST_TABLES] = {
        WORD("base_latency"),  WORD("hw_latency"), WORD("ll_bw"),       WORD("ring_ll128_bw"),
        WORD("tree_ll128_bw"), WORD("tree_bw"),    WORD("nvls_tree_bw")};
static const struct capo_slice constant_links[] = {WORD("nvlink"), WORD("pci"), WORD("net")};
static const struct capo_slice constant_gpus[] = {WORD("volta"), WORD("ampere"), WORD("hopper"),
                                                  WORD("blackwell")};
static const struct capo_slice constant_scales[] = {WORD("1"), WORD("2"), WORD("4")};

static const struct capo_slice basis_words[] = {WORD("measured"), WORD("modelled")};
/* by their bits in NCCL's CTAPolicy, minus one */
static const struct capo_slice policy_words[] = {WORD("efficiency"), WORD("zero")};
static const struct capo_slice link_words[] = {WORD("any"), WORD("nvlink"), WORD("other")};
static const struct capo_slice algo_words[] = {
#define CAPO_ALGO(id, name, word, short_word, ...) WORD(short_word),
#include "capo/algorithms.def"
};
static const struct capo_slice proto_words[] = {
#define CAPO_PROTO(id, name, word, grain) WORD(word),
#include "capo/protocols.def"
};

/* The keys of a constant; its table says which of the last ones are its indices. */
enum {
        CONST_TABLE,
        CONST_VALUE,
        CONST_LINK,
        CONST_ALGO,
        CONST_PROTO,
        CONST_GPU,
        CONST_SCALE,
        CONST_KEYS
};
static const struct capo_slice constant_keys[CONST_KEYS] = {
        WORD("table"), WORD("value"), WORD("link"), WORD("algo"),
        WORD("proto"), WORD("gpu"),   WORD("scale")};
static const struct {
        const struct capo_slice *words;
        size_t n;
} constant_words[CONST_KEYS] = {
        [CONST_TABLE] = {constant_tables, N_ELEMENTS(constant_tables)},
        [CONST_LINK] = {constant_links, N_ELEMENTS(constant_links)},
        [CONST_ALGO] = {algo_words, N_ELEMENTS(algo_words)},
        [CONST_PROTO] = {proto_words, N_ELEMENTS(proto_words)},
        [CONST_GPU] = {constant_gpus, N_ELEMENTS(constant_gpus)},
        [CONST_SCALE] = {constant_scales, N_ELEMENTS(constant_scales)}, /* numbers */
};

/* Up to three keys, then 0. */
static inline const uint8_t *constant_indices(uint8_t table)
{
        static const uint8_t keys[][4] = {
                [CAPO_CONST_BASE_LATENCY] = {CONST_ALGO, CONST_PROTO},
                [CAPO_CONST_HW_LATENCY] = {CONST_LINK, CONST_ALGO, CONST_PROTO},
                [CAPO_CONST_LL_BW] = {CONST_GPU, CONST_SCALE},
        };

        return keys[table < CAPO_CONST_LL_BW ? table : CAPO_CONST_LL_BW];
}

/* The conditions: one row says key, kind and place; reader, writer and printer go by it. */
enum kind {
        RANGE = CAPO_RANGE_WHOLE,
        GBS = CAPO_RANGE_GBS,
        NCCL = CAPO_RANGE_NCCL,
        LAYOUT,
        TEXT,
        PATTERN,
        LINK,
        FLAG
};
static const struct when_key {
        struct capo_slice key;
        enum kind kind;
        size_t offset;
} when_keys[] = {
#define WHEN(key, kind, field)                                     \
        {                                                          \
                WORD(key), kind, offsetof(struct capo_when, field) \
        }
        WHEN("nodes", RANGE, nodes),
        WHEN("ranks", RANGE, ranks),
        WHEN("layout", LAYOUT, layout),
        WHEN("trays", LAYOUT, trays),
        WHEN("min_local", RANGE, min_local),
        WHEN("max_local", RANGE, max_local),
        WHEN("class", TEXT, class_name),
        WHEN("link", LINK, link),
        WHEN("ring_gbs", GBS, ring_gbs),
        WHEN("tree_gbs", GBS, tree_gbs),
        WHEN("nccl", NCCL, nccl),
        WHEN("comm", PATTERN, comm),
        WHEN("pipe_ops", RANGE, pipe_ops),
        WHEN("reg_buff", FLAG, reg_buff),
#undef WHEN
};
