/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs without capo, as what capo_hang_judge() asks for: PyTorch's flight recorder
 * (flight_recorder.c), NCCL's own RAS (ras.c). Each fills a struct capo_hang_job, and of a struct
 * capo_job what names things on a page: per process its rank, its host and its pid (0 not known),
 * per communicator its name. What a source does not know stands in docs/hang.md.
 */
#ifndef CAPO_HANG_FOREIGN_H
#define CAPO_HANG_FOREIGN_H

#include "analysis/hang/hang_verdict.h"
#include "analysis/hang/rank_index.h"
#include "analysis/job/job.h"

/* Where the two are put together; @job is the caller's, made by capo_job_new(). */
struct capo_hang_foreign {
        struct capo_job *job;
        struct capo_hang_job *hang;
        struct capo_index names; /* of communicators */
};

/** capo_hang_foreign_process() - one more, alive. @host is copied. Return: its number; -ENOMEM. */
int64_t capo_hang_foreign_process(struct capo_hang_foreign *f, int32_t rank, const char *host,
                                  uint32_t pid);

/** capo_hang_foreign_comm() - one more, without members. @name is copied, and made to differ from
 * the others'. Return: its number; -ENOMEM. */
int64_t capo_hang_foreign_comm(struct capo_hang_foreign *f, const char *name, uint64_t uid,
                               int32_t n_ranks);

/** capo_hang_foreign_member() - @process is rank @rank of @comm. Return: its number there; -ENOMEM.
 */
int64_t capo_hang_foreign_member(struct capo_hang_foreign *f, uint32_t comm, uint32_t process,
                                 int32_t rank);

/** capo_hang_foreign_call() - one more of @process. Return: it, until the next; NULL no memory. */
struct capo_hang_call *capo_hang_foreign_call(struct capo_hang_foreign *f, uint32_t process,
                                              const struct capo_hang_call *call);

/** capo_hang_foreign_site() - a call site, taken over. Return: what a call's .site is; 0 no memory
 * or too many. */
uint16_t capo_hang_foreign_site(struct capo_hang_foreign *f, char *text);

/** capo_hang_foreign_finish() - numbers of ranks and nodes, unless @r is negative; in any case @f
 * is done with. Return: @r; -ENOMEM. */
int capo_hang_foreign_finish(struct capo_hang_foreign *f, int r);

/**
 * capo_hang_flight() - dumps of PyTorch's flight recorder in JSON, one per rank
 * @paths: the number at the end of a file's name is its rank ("nccl_trace_rank_3", "rank3.json")
 * @job:   empty; names
 * @out:   after_ns is set. now_ns: when the first of the files was last written, since nothing in
 *         them says it
 * @why:   a sentence, where the return is negative
 *
 * Return: 0; -EINVAL: a file is no such dump, or two are of one rank; -errno of reading; -ENOMEM.
 * capo_hang_job_finish() in any case.
 */
int capo_hang_flight(char *const *paths, size_t n, struct capo_job *job, struct capo_hang_job *out,
                     char *why, size_t room);

#endif
