/* SPDX-License-Identifier: Apache-2.0 */
/* What profiles/job/stats.c (adding logs) and profiles/job/stats_finish.c (drawing conclusions) share. */
#ifndef CAPO_STATS_PRIVATE_H
#define CAPO_STATS_PRIVATE_H

#include "profiles/job/skew.h"
#include "profiles/job/stats.h"

/* Open addressing: hash -> 1 + index in the job's array. */
struct job_index {
        uint32_t *slots;
        uint32_t n_slots; /* power of two, at most half full */
};

/* Flags of calls that keep rows apart. */
#define JOB_ROW_FLAGS (CAPO_RECORD_MEMBER | CAPO_RECORD_GROUP | CAPO_RECORD_CAPTURED)

/* ncclSuccess and ncclInProgress are no failures. */
static inline bool job_failed(int8_t result)
{
        return result != 0 && result != 7;
}

struct job_scratch {
        struct job_index rows, sites;
        struct capo_meet **meets; /* one per job->comms; NULL: no call of it seen yet, or it has one rank */
        uint64_t tally_of;        /* number of the (log, communicator) whose calls are being counted */
};

/** job_grow() - room for one more in an array that doubles at powers of two. Return: the array, NULL: no memory. */
void *job_grow(void *array, uint32_t n, size_t size);

/** job_tally() - close the counting of a row's calls of one rank: row->count becomes the larger. */
void job_tally(struct capo_job_row *row);

/** job_add_to_row() - what one cell says, into the job's row of its key; key.calls is the cell's count, key.failed
 * those of them that failed, key.time empty. @tally_of: number of the (process, communicator). Return: the row, NULL:
 * no memory. */
struct capo_job_row *job_add_to_row(struct capo_job *job, struct capo_job_row *key, uint64_t tally_of);

/**
 * job_add_traced_cells() - cells made anew from the single calls of a log in which every call is kept
 *
 * For logs of killed processes: their CELLs are as old as the last checkpoint, their calls are not.
 * @comms: id in the process -> 1 + index in job->comms. Return: 0, -ENOMEM, or what capo_log_open() says.
 */
int job_add_traced_cells(struct capo_job *job, const char *path, uint32_t process, const uint32_t *comms);

/** job_text_hash() - 64 bits of @size bytes. */
uint64_t job_text_hash(const void *bytes, size_t size);

#endif
