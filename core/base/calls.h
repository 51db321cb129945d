/* SPDX-License-Identifier: Apache-2.0 */
/* Names and arithmetic of recorded calls, algorithms, protocols, types. */
#ifndef CAPO_CALLS_H
#define CAPO_CALLS_H

#include "capo/record.h"

/** capo_call_name() - "AllReduce", ...; "?" for an id this version does not know. */
const char *capo_call_name(unsigned call);

/** capo_call_kind() - CAPO_KIND_OTHER for an unknown id. */
enum capo_call_kind capo_call_kind(unsigned call);

/** capo_call_find() - id by name, case and '_' ignored, "nccl" prefix optional; CAPO_CALL_NONE when there is none. */
enum capo_call_id capo_call_find(const char *name);

/** capo_algo_name(), capo_proto_name() - NCCL's spelling as in NCCL_ALGO ("Ring", "LL128", ...); "-" for unknown. */
const char *capo_algo_name(unsigned algo);
const char *capo_proto_name(unsigned proto);

/** capo_algo_find(), capo_proto_find() - case, '_' and '-' ignored; the UNKNOWN value when there is none. */
enum capo_algo capo_algo_find(const char *name);
enum capo_proto capo_proto_find(const char *name);

/** capo_clock_name() - "none", "host", "event", "kernel". */
const char *capo_clock_name(unsigned clock);

/** capo_type_size() - bytes of one ncclDataType_t element; 0 for one this version does not know. */
unsigned capo_type_size(unsigned type);

/** capo_type_name(), capo_op_name() - nccl-tests' spelling ("float", "half", "bfloat16"; "sum", ...), "none" when
 * absent. */
const char *capo_type_name(unsigned type);
const char *capo_op_name(unsigned op);

/**
 * capo_busbw_factor() - bus bandwidth over algorithm bandwidth, by nccl-tests' convention (doc/PERFORMANCE.md there):
 * all-reduce 2(n-1)/n; all-gather, reduce-scatter, all-to-all, gather, scatter (n-1)/n; the rest 1. n <= 1 gives 0 for
 * the factors that have n.
 */
double capo_busbw_factor(enum capo_call_kind kind, unsigned n_ranks);

#endif
