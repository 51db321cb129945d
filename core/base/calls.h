/* SPDX-License-Identifier: Apache-2.0 */
/* Names and arithmetic of recorded calls, algorithms, protocols, types. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "capo/call_kinds.h"

/* Algorithms, protocols, kernels and collectives are numbers here: their names are in
 * capo/algorithms.h and capo/collectives.h, for files that name one. */

/** capo_call_name() - "AllReduce", ...; "?" for an id this version does not know. */
const char *capo_call_name(unsigned call);

/** capo_call_kind() - CAPO_KIND_OTHER for an unknown id. */
enum capo_call_kind capo_call_kind(unsigned call);

/** capo_call_channels() - what capo_record.channels says of channels; 0: nothing. */
static inline unsigned capo_call_channels(unsigned call, unsigned channels)
{
        return capo_call_kind(call) == CAPO_KIND_GROUP ? 0 : channels;
}

/** capo_call_is_collective() - every rank of the communicator takes part. */
bool capo_call_is_collective(unsigned call);

/** capo_call_sized_by_rank() - a collective whose size is each rank's own. */
static inline bool capo_call_sized_by_rank(unsigned call)
{
        return capo_call_kind(call) == CAPO_KIND_EXCHANGE;
}

/** capo_call_find() - enum capo_call_id by name, case and '_' ignored, "nccl" prefix optional;
 * CAPO_CALL_NONE when there is none. */
unsigned capo_call_find(const char *name);

/** capo_algo_name(), capo_proto_name() - as in NCCL_ALGO (Ring, LL128); "-" for unknown. */
const char *capo_algo_name(unsigned algo);
const char *capo_proto_name(unsigned proto);

/** capo_proto_grain() - bytes that the protocol moves at least, in multiples; 0 for unknown. */
unsigned capo_proto_grain(unsigned proto);

/** capo_ran_algo(), capo_ran_proto() - the same of what ran (capo_record.algo_proto): Ring and
 * LL128, symk and RSxLD_AGxST, copy and engine; "-" each for unknown. */
const char *capo_ran_algo(unsigned algo_proto);
const char *capo_ran_proto(unsigned algo_proto);

/** capo_ran_beside() - something that is not of NCCL's table ran: no tuner forces or prevents it.
 */
static inline bool capo_ran_beside(unsigned algo_proto) { return algo_proto >= CAPO_KERNELS_FROM; }

/** capo_ran_half() - the first half of a call of NCCL EP: its end says nothing about other ranks. */
bool capo_ran_half(unsigned algo_proto);

/** capo_symk_find() - a symmetric kernel by NCCL's name, with the collective before it or without;
 * CAPO_KERNEL_SYMK for one that is not known, and for NULL. */
unsigned capo_symk_find(const char *name);

/** capo_algo_word(), capo_proto_word() - as in CSV profiles (collnet_direct, ll); "" unknown. */
const char *capo_algo_word(unsigned algo);
const char *capo_proto_word(unsigned proto);

/** capo_word_same() - equal but for case and the separators people put into these words? */
bool capo_word_same(const char *a, const char *b);

/** capo_algo_find(), capo_proto_find() - without regard to case, '_' and '-'; UNKNOWN: none. */
unsigned capo_algo_find(const char *name);
unsigned capo_proto_find(const char *name);

/* All words of a list, for "expected one of ...", with ", " between them and @last before the last:
 * ", ", " or ". @text: at least 80 bytes. Return: @text. */
char *capo_algo_words(const char *last, char *text, size_t room);
char *capo_proto_words(const char *last, char *text, size_t room);
char *capo_coll_words(const char *last, char *text, size_t room);

/** capo_pair_offered() - has any NCCL this pair for this collective? Unknown algorithms are. */
bool capo_pair_offered(unsigned coll, unsigned algo, unsigned proto);

/** capo_coll_word() - the key of the collective in a profile: "allreduce", ... @coll < CAPO_COLLS.
 */
const char *capo_coll_word(unsigned coll);
/** capo_coll_find() - by its words or its call's name, without regard to case and '_'; -1: none. */
int capo_coll_find(const char *word);
/** capo_coll_of_call() - the collective of CAPO_CALL_ALLREDUCE, ...; -1: no tuner is asked. */
int capo_coll_of_call(unsigned call);
/** capo_coll_call() - the call it is, enum capo_call_id; capo_coll_kind() - and its kind. */
unsigned capo_coll_call(unsigned coll);
enum capo_call_kind capo_coll_kind(unsigned coll);
/** capo_coll_at() - the one that a profile lists at @place, from 0. */
unsigned capo_coll_at(unsigned place);

/** capo_clock_name() - "none", "host", "event", "kernel". */
const char *capo_clock_name(unsigned clock);

/** capo_type_size() - bytes of one ncclDataType_t element; 0 for one this version does not know. */
unsigned capo_type_size(unsigned type);

/** capo_type_name(), capo_op_name() - as nccl-tests ("float", "half", "sum", ...); "none". */
const char *capo_type_name(unsigned type);
const char *capo_op_name(unsigned op);

/** capo_busbw_factor() - bus bandwidth over algorithm bandwidth, by nccl-tests' convention
 * (doc/PERFORMANCE.md there): all-reduce 2(n-1)/n; all-gather, reduce-scatter, all-to-all, gather,
 * scatter (n-1)/n; the rest 1. n <= 1 gives 0 for the factors that have n. */
double capo_busbw_factor(enum capo_call_kind kind, unsigned n_ranks);
