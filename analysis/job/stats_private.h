/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that add logs to a job: stats.c (frames) and stats_*.c. */
#pragma once

#include "analysis/job/job.h"
#include "analysis/job/scratch.h"

/* Flags of calls that are part of a row's key. */
#define JOB_ROW_FLAGS (CAPO_RECORD_MEMBER | CAPO_RECORD_GROUP | CAPO_RECORD_CAPTURED)

/* ncclSuccess and ncclInProgress are no failures. */
static inline bool job_failed(int8_t result) { return result != 0 && result != 7; }

/** job_text_copy() - copy text of a log for terminals: control bytes become '?'. */
char *job_text_copy(const void *bytes, size_t size);

/** job_hash() - hash of an index key. */
uint64_t job_hash(const void *bytes, size_t size);

void job_index_enter(struct job_index *ix, uint64_t hash, uint32_t entry);

#define JOB_INDEX_END UINT32_MAX

/** job_index_next() - the next entry with @hash, or JOB_INDEX_END. @at: starts with 0. */
uint32_t job_index_next(const struct job_index *ix, uint64_t hash, uint32_t *at);

/** job_comm_of() - index in job->comms of communicator @uid, made if missing. */
uint32_t job_comm_of(struct capo_job *job, uint64_t uid);

/** job_add_text_frame() - add an INFO, FABRIC or RULES frame to its process. */
void job_add_text_frame(struct capo_job_process *p, const struct capo_log_frame *f);

/** job_tally() - finish counting a row's calls of one rank: row->count becomes the larger count. */
void job_tally(struct capo_job_row *row);

/** job_add_to_row() - add a cell to the job's row with its key
 * @key: calls and failed are those of the cell; time is empty
 * @tally_of: number of the (process, communicator)
 *
 * Return: the row. */
struct capo_job_row *job_add_to_row(struct capo_job *job, const struct capo_job_row *key,
                                    uint64_t tally_of);

/** job_add_failure() - add @calls that returned @result, if that is an error. */
void job_add_failure(struct capo_job *job, uint32_t process, uint32_t comm, uint8_t call,
                     int8_t result, uint64_t calls);

/** job_add_site() - add the calls of a call site to the job's site with the same @text. */
void job_add_site(struct capo_job *job, const struct capo_log_site *s,
                  struct capo_log_site_chosen chosen, const char *text);

/* Later CELL and SITE frames replace those with their id: the position of each id's last. */
struct job_places {
        uint64_t *at; /* by id; 0: none. Owned */
        uint32_t n;
};

/** job_place() - note that the last frame of @id is at @offset. */
void job_place(struct job_places *places, uint16_t id, uint64_t offset);

/** job_add_cells(), job_add_sites() - add the frames at @places to the job. @comms: id in the
 * process -> 1 + index in job->comms. */
void job_add_cells(struct capo_job *job, struct capo_log *log, const struct job_places *places,
                   uint32_t process, const uint32_t *comms);
void job_add_sites(struct capo_job *job, struct capo_log *log, const struct job_places *places);

/** job_add_traced_cells() - make cells from the single calls of a log that has every call. For logs
 * of killed processes: their CELLs are as old as the last checkpoint, but their calls are not. @log
 * is read from its begin. @comms: id in the process -> 1 + index in job->comms. */
void job_add_traced_cells(struct capo_job *job, struct capo_log *log, uint32_t process,
                          const uint32_t *comms);

/** job_meet_long() - fetch the calls after long silences that the sample lacks; after the last log,
 * when communicators are sorted. */
void job_meet_long(struct capo_job *job);
