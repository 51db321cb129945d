/* SPDX-License-Identifier: Apache-2.0 */
/* The other tuner: NCCL's, had capo not taken its place. Asked where capo has no opinion. */
#pragma once

#include "tuner/other.h"

/** capo_chain_open() - let the other tuner know the communicator too
 * @out: set on success; NULL when there is no other tuner
 *
 * It is looked for once per process: CAPO_CHAIN_TUNER as NCCL would look for NCCL_TUNER_PLUGIN;
 * without that libnccl-tuner.so, then the loaded net plugin. The newest interface that both it and
 * this NCCL know is used, so it sees what it would have seen without capo (v5 on: also the
 * constants, after capo's corrections).
 *
 * Where its init fails, NCCL decides for this communicator, and the first time that is said.
 *
 * Return: CAPO_NCCL_SUCCESS; CAPO_NCCL_SYSTEM_ERROR: out of memory. */
capo_nccl_result capo_chain_open(const struct capo_tuner_info *info, struct capo_other **out);
/** capo_chain_close() - NULL is fine. */
void capo_chain_close(struct capo_other *chain);

/** capo_chain_mark(), capo_chain_name(), capo_chain_chunk() - what capo_other_mark() and the like
 * answer. An error is not handed on, since NCCL would fail the job's collective for one, which its
 * headers do not say: what is asked stays as it was, for NCCL itself to decide, said once. */
void capo_chain_mark(struct capo_other *chain, int func, size_t bytes, int pipe_ops, float *table,
                     int n_algos, int n_protos, int reg_buff, int *channels);
void capo_chain_name(struct capo_other *chain, int func, size_t bytes, int collnet, int nvls,
                     int pipe_ops, int *algo, int *proto, int *channels);
/** A chunk below the smallest grain is dropped: NCCL rounds down to it and would divide by 0. */
void capo_chain_chunk(struct capo_other *chain, int func, size_t bytes, int algo, int proto,
                      int channels, size_t *chunk);
