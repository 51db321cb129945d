/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the text of HANG frames. core/log/hang_frame.h describes the lines. */
#ifndef CAPO_HANG_FRAME_READ_H
#define CAPO_HANG_FRAME_READ_H

#include "analysis/log/log_read.h"
#include "core/log/hang_frame.h"

/** capo_hang_text_read() - Return: 0; -EBADMSG: it lacks something. */
int capo_hang_text_read(const struct capo_log_frame *f, struct capo_hang_text *out);

/**
 * capo_hang_text_next() - the next call of the frame; *@at starts with 0
 * Calls that had returned have a t_end, ns since the epoch like t_begin: `where` is
 * CAPO_UNFINISHED_WHERES of those that the cells of the log count, CAPO_UNFINISHED_GPU of those
 * that were not counted because the GPU had not ended them. Return: false behind the last.
 */
bool capo_hang_text_next(const struct capo_log_frame *f, size_t *at,
                         struct capo_unfinished_call *out);

/**
 * capo_hang_text_next_line() - the next line of @key that begins with a number, as those of Python
 * and C frames and of threads do
 * @at:   starts with 0
 * @text: what comes behind the number; CAPO_HANG_LINE bytes
 *
 * Return: false behind the last.
 */
bool capo_hang_text_next_line(const struct capo_log_frame *f, const char *key, size_t *at,
                              unsigned *nth, char *text);

#endif
