/* SPDX-License-Identifier: Apache-2.0 */
/* The other tuner: the one NCCL would have used had capo not taken its place. Asked where capo has no opinion. */
#ifndef CAPO_CHAIN_H
#define CAPO_CHAIN_H

#include "tuner/choose.h"

/**
 * capo_chain_open() - let the other tuner know the communicator too
 * @out: set on success; NULL when there is no other tuner
 *
 * It is looked for once per process: CAPO_CHAIN_TUNER as NCCL would look for NCCL_TUNER_PLUGIN; without that
 * libnccl-tuner.so, then the loaded net plugin. The newest interface that both it and this NCCL know is used,
 * so it sees what it would have seen without capo (v5 on: also the constants, after capo's corrections).
 *
 * Return: what the other tuner's init returned; CAPO_NCCL_SUCCESS when there is none.
 */
capo_nccl_result capo_chain_open(const struct capo_tuner_info *info, struct capo_chain **out);
/** capo_chain_close() - NULL is fine. */
void capo_chain_close(struct capo_chain *chain);

/* Ask it. Its errors are not handed on: NCCL would fail the job's collective for one. A v2 tuner's answer becomes a 0.0
 * in the table as in NCCL's own adapter (plugin/tuner/tuner_v2.cc): only where the entry is available. */
void capo_chain_ask(struct capo_chain *chain, int func, size_t bytes, int pipe_ops, float *table, int n_algos,
                    int n_protos, int reg_buff, int *channels);
void capo_chain_ask_direct(struct capo_chain *chain, int func, size_t bytes, int collnet, int nvls, int pipe_ops,
                           int *algo, int *proto, int *channels);

/** capo_chain_chunk() - v6 getChunkSize. An answer below the smallest grain (or an error) is dropped: NCCL rounds down
 * to the grain and would divide by zero. */
void capo_chain_chunk(struct capo_chain *chain, int func, size_t bytes, int algo, int proto, int channels,
                      size_t *chunk);

/**
 * capo_plugin_find() - load another plugin the way NCCL would
 * @kind:    "tuner" or "profiler"
 * @value:   what the variable says, "" when unset
 * @symbols: names to look for, newest first, NULL at the end
 * @own:     an address inside this library for each symbol, to know ourselves; same order
 * @which:   set to the index of the symbol found
 *
 * Return: the object, or NULL.
 */
const void *capo_plugin_find(const char *kind, const char *value, const char *const *symbols, const void *const *own,
                             int *which);

#endif
