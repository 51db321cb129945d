/* SPDX-License-Identifier: Apache-2.0 */
/* The other tuner: the one NCCL would have used had capo not taken its place. Asked where capo has no opinion. */
#ifndef CAPO_CHAIN_H
#define CAPO_CHAIN_H

#include "tuner/other.h"

/**
 * capo_chain_open() - let the other tuner know the communicator too
 * @out: set on success; NULL when there is no other tuner. Asked with capo_other_mark() and capo_other_name(), whose errors
 * are not handed on: NCCL would fail the job's collective for one.
 *
 * It is looked for once per process: CAPO_CHAIN_TUNER as NCCL would look for NCCL_TUNER_PLUGIN; without that
 * libnccl-tuner.so, then the loaded net plugin. The newest interface that both it and this NCCL know is used,
 * so it sees what it would have seen without capo (v5 on: also the constants, after capo's corrections).
 *
 * Return: what the other tuner's init returned; CAPO_NCCL_SUCCESS when there is none.
 */
capo_nccl_result capo_chain_open(const struct capo_tuner_info *info, struct capo_other **out);
/** capo_chain_close() - NULL is fine. */
void capo_chain_close(struct capo_other *chain);

/** capo_chain_chunk() - v6 getChunkSize. An answer below the smallest grain (or an error) is dropped: NCCL rounds down
 * to the grain and would divide by zero. */
void capo_chain_chunk(struct capo_other *chain, int func, size_t bytes, int algo, int proto, int channels,
                      size_t *chunk);

#endif
