/* SPDX-License-Identifier: Apache-2.0 */
/* What core/stats.c (adding logs) and core/stats_finish.c (drawing conclusions) share. */
#ifndef CAPO_STATS_PRIVATE_H
#define CAPO_STATS_PRIVATE_H

#include "core/skew.h"
#include "core/stats.h"

/* Open addressing: hash -> 1 + index in the job's array. */
struct job_index {
        uint32_t *slots;
        uint32_t n_slots; /* power of two, at most half full */
};

struct job_scratch {
        struct job_index rows, sites;
        struct capo_meet **meets; /* one per job->comms; NULL: no call of it seen yet, or it has one rank */
        uint64_t tally_of;        /* number of the (log, communicator) whose calls are being counted */
};

/** job_grow() - room for one more in an array that doubles at powers of two. Return: the array, NULL: no memory. */
void *job_grow(void *array, uint32_t n, size_t size);

/** job_tally() - close the counting of a row's calls of one rank: row->count becomes the larger. */
void job_tally(struct capo_job_row *row);

/** job_text_hash() - 64 bits of @size bytes. */
uint64_t job_text_hash(const void *bytes, size_t size);

#endif
