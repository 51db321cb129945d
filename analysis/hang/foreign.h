/* SPDX-License-Identifier: Apache-2.0 */
/* Reads jobs without capo for capo_hang_judge(): PyTorch's flight recorder (flight_recorder.c) and
 * NCCL's RAS (ras.c). Each fills a struct capo_hang_job, and the names of a struct capo_job: rank,
 * host and pid of each process (pid 0: not known), name of each communicator. docs/hang.md says
 * what each source does not know. */
#pragma once

#include <jansson.h>

#include "analysis/hang/hang_verdict.h"
#include "analysis/job/job.h"

/* Builds both structs; the caller made @job with capo_job_new(). */
struct capo_hang_foreign {
        struct capo_job *job;
        struct capo_hang_job *hang;
        json_t *names; /* of communicators */
};

/** capo_hang_foreign_process() - add a live process. @host is copied. Return: its index. */
uint32_t capo_hang_foreign_process(struct capo_hang_foreign *f, int32_t rank, const char *host,
                                   uint32_t pid);

/** capo_hang_foreign_comm() - add a communicator without members. @name is copied, and made unique.
 * Return: its index. */
uint32_t capo_hang_foreign_comm(struct capo_hang_foreign *f, const char *name, uint64_t uid,
                                int32_t n_ranks);

/** capo_hang_foreign_member() - add @process as rank @rank of @comm. Return: the member's index. */
uint32_t capo_hang_foreign_member(struct capo_hang_foreign *f, uint32_t comm, uint32_t process,
                                  int32_t rank);

/** capo_hang_foreign_call() - append a call of @process. */
void capo_hang_foreign_call(struct capo_hang_foreign *f, uint32_t process,
                            const struct capo_hang_call *call);

/** capo_hang_foreign_site() - add a call site; takes ownership of @text. Return: the value for a
 * call's .site; 0: too many. */
uint16_t capo_hang_foreign_site(struct capo_hang_foreign *f, char *text);

/** capo_hang_foreign_number() - the number of @key in the object *@known, NULL at first; a new key
 * gets @number. */
uint32_t capo_hang_foreign_number(json_t **known, const char *key, uint32_t number);

/** capo_hang_foreign_finish() - number ranks and nodes, unless @r is negative; @f cannot be used
 * afterwards in any case. Return: @r. */
int capo_hang_foreign_finish(struct capo_hang_foreign *f, int r);

/** capo_hang_flight() - read dumps of PyTorch's flight recorder in JSON, one per rank
 * @paths: the number at the end of a file name is the rank ("nccl_trace_rank_3", "rank3.json")
 * @job: empty; gets the names
 * @out: after_ns must be set. now_ns becomes the time of the first file's last write, because the
 * dump has no time
 * @why: a sentence, if the return is negative
 *
 * Return: 0; -EINVAL: not a dump, or two of one rank; -errno of reading. Call
 * capo_hang_job_finish() in any case. */
int capo_hang_flight(char *const *paths, size_t n, struct capo_job *job, struct capo_hang_job *out,
                     char *why, size_t room);
