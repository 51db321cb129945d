/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a data-parallel training job, from how often each size is reduced. */
#pragma once

#include "analysis/job/job.h"

/** capo_training_row() - is @r an all-reduce of @comm that can be part of a step? */
bool capo_training_row(const struct capo_job_row *r, uint32_t comm);

/** capo_training_steps() - number of steps on @comm
 * @steps: set on success, 2 or more
 *
 * A step reduces the same gradients every time, so the count of each size is a multiple of the
 * number of steps: the result is the greatest common divisor. Sizes with less than a thousandth of
 * the bytes are ignored: a loss average or a norm has its own count.
 *
 * Return: 0; -ENODATA: no all-reduces, or no common count; -EDOM: the sizes look like a benchmark.
 */
int capo_training_steps(const struct capo_job *job, uint32_t comm, uint64_t *steps);

/** capo_training_timed() - number of sizes of @comm's all-reduces that were timed on the GPU. */
int capo_training_timed(const struct capo_job *job, uint32_t comm);
