/* SPDX-License-Identifier: Apache-2.0 */
/* Changing a log so that its readers get past the checksums. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct capo_job;

/** fuzz_frames_mutate() - one change of a log in place: of a frame's payload, of the order of
 * frames, of the header, of any byte; all checksums are right afterwards, but for one in sixteen
 * times. Return: the new size. */
size_t fuzz_frames_mutate(uint8_t *data, size_t size, size_t max_size, unsigned seed);

/** fuzz_frames_next() - where the log behind the one at @at begins in @data; @size: nowhere. */
size_t fuzz_frames_next(const uint8_t *data, size_t size, size_t at);

/** fuzz_frames_job() - the logs in @data as a job. NULL: none of them could be read, each for a
 * reason that was said. */
struct capo_job *fuzz_frames_job(const uint8_t *data, size_t size);
