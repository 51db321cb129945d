/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a job did, in its own words: with JOB_TRUTH=FOLDER each rank appends a line per call to
 * FOLDER/rank.<n>
 *
 *      call <comm> <name> <bytes> <begin> <end> <gpu begin> <gpu end>
 *
 * so that a page about the job can be held against it (tests/referee). Times are ns of
 * CLOCK_MONOTONIC; those of the GPU come from events of the job's own around the call, so what a
 * recorder inside the call measures is never longer. Without JOB_TRUTH nothing here does anything,
 * and no event is made.
 */
#pragma once

#include <stdint.h>
#include <cuda.h>

struct truth; /* of one rank; NULL is one that is not asked for */

/** truth_open() - for the rank @rank, whose GPU's context is current; @stream is waited for. */
struct truth *truth_open(int rank, CUstream stream);

/**
 * truth_begin(), truth_end() - around a call of @bytes (as the report counts them) on @stream; the
 * context of that stream is current. Calls of one group are begun one after the other, then ended:
 * truth_end() ends all that are begun.
 */
void truth_begin(struct truth *t, const char *comm, const char *name, uint64_t bytes,
                 CUstream stream);
void truth_end(struct truth *t);

/** truth_write() - write the calls whose stream is known to be done with them: a rank that is
 * killed has written these. */
void truth_write(struct truth *t);

/** truth_close() - write all of them; streams have been synchronised. */
void truth_close(struct truth *t);
