/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that add logs to a job share: stats.c (frames, single calls) and stats_*.c. */
#ifndef CAPO_STATS_PRIVATE_H
#define CAPO_STATS_PRIVATE_H

#include "analysis/job/job.h"
#include "analysis/job/scratch.h"

/* Flags of calls that keep rows apart. */
#define JOB_ROW_FLAGS (CAPO_RECORD_MEMBER | CAPO_RECORD_GROUP | CAPO_RECORD_CAPTURED)

/* ncclSuccess and ncclInProgress are no failures. */
static inline bool job_failed(int8_t result)
{
        return result != 0 && result != 7;
}

/** job_text_copy() - text out of a log goes to terminals: bytes that may steer them become '?'.
 * NULL: no memory. */
char *job_text_copy(const void *bytes, size_t size);

/** job_hash() - of what an index finds things by. */
uint64_t job_hash(const void *bytes, size_t size);

/** job_index_grow() - room for one more than @n entries. Return: 1 grown: the caller enters all
 * again; 0; -ENOMEM. */
int job_index_grow(struct job_index *ix, uint32_t n);

/** job_index_enter() - there is room. */
void job_index_enter(struct job_index *ix, uint64_t hash, uint32_t entry);

#define JOB_INDEX_END UINT32_MAX

/** job_index_next() - the next entry that may be the one with @hash, or JOB_INDEX_END. @at: 0 at
 * first. There is room. */
static inline uint32_t job_index_next(const struct job_index *ix, uint64_t hash, uint32_t *at)
{
        return ix->slots[((uint32_t)hash + (*at)++) & (ix->n_slots - 1)] -
               1; /* of a free slot that is the end */
}

/** job_comm_of() - index in job->comms of the communicator @uid, made if need be; CAPO_NO_COMM: no
 * memory. */
uint32_t job_comm_of(struct capo_job *job, uint64_t uid);

/** job_add_text_frame() - an INFO, FABRIC or RULES frame into its process. Return: 0, -ENOMEM. */
int job_add_text_frame(struct capo_job_process *p, const struct capo_log_frame *f);

/** job_tally() - close the counting of a row's calls of one rank: row->count becomes the larger. */
void job_tally(struct capo_job_row *row);

/**
 * job_add_to_row() - what one cell says, into the job's row of its key
 * @key: calls and failed are those of the cell, time is empty
 * @tally_of: number of the (process, communicator)
 * Return: the row, NULL: no memory.
 */
struct capo_job_row *job_add_to_row(struct capo_job *job, struct capo_job_row *key,
                                    uint64_t tally_of);

/** job_add_failure() - @calls that returned @result, when that is an error. Return: 0, -ENOMEM. */
int job_add_failure(struct capo_job *job, uint32_t process, uint32_t comm, uint8_t call,
                    int8_t result, uint64_t calls);

/** job_add_site() - calls of one call site, to the job's site of the same @text. Return: 0,
 * -ENOMEM. */
int job_add_site(struct capo_job *job, const struct capo_log_site *s,
                 struct capo_log_site_chosen chosen, const char *text);

/* CELLs and SITEs replace their earlier selves: where the last frame of each id is. */
struct job_places {
        uint64_t *at; /* by id; 0: none. Owned */
        uint32_t n;
};

/** job_place() - the frame of @id is now at @offset. Return: 0, -ENOMEM. */
int job_place(struct job_places *places, uint16_t id, uint64_t offset);

/** job_add_cells(), job_add_sites() - read the frames at @places into the job. @comms: id in the
 * process -> 1 + index in job->comms. Return: 0, -ENOMEM. */
int job_add_cells(struct capo_job *job, struct capo_log *log, const struct job_places *places,
                  uint32_t process, const uint32_t *comms);
int job_add_sites(struct capo_job *job, struct capo_log *log, const struct job_places *places);

/**
 * job_add_traced_cells() - cells made anew from the single calls of a log in which every call is
 * kept
 *
 * For logs of killed processes: their CELLs are as old as the last checkpoint, their calls are not.
 * @log is read from its beginning. @comms: id in the process -> 1 + index in job->comms. Return:
 * 0, -ENOMEM.
 */
int job_add_traced_cells(struct capo_job *job, struct capo_log *log, uint32_t process,
                         const uint32_t *comms);

/**
 * job_set_clocks() - times of hosts whose clocks are more than a minute apart, by one clock
 * (host_clocks.c) After the last log, processes placed. It changes header.t0_real_ns and ahead_ns
 * of processes, births and deaths of members. Return: 0, -ENOMEM.
 */
int job_set_clocks(struct capo_job *job);

/** job_meet_long() - after the last log, communicators in order: calls behind long silences that
 * the sample lacks. Return: 0, -ENOMEM. */
int job_meet_long(struct capo_job *job);

#endif
