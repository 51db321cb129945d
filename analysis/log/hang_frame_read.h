/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the text of HANG frames. core/log/hang_frame.h describes the lines. */
#pragma once

#include "analysis/log/log_read.h"
#include "core/log/hang_frame.h"

struct capo_unfinished_call;

/** capo_hang_text_read() - the head of the frame. Return: 0; -EBADMSG: a part is missing. */
int capo_hang_text_read(const struct capo_log_frame *f, struct capo_hang_text *out);

/** capo_hang_text_next() - the next call of the frame; *@at starts with 0. A call that had returned
 * has a t_end; t_begin and t_end are ns since the epoch. Its `where` is CAPO_UNFINISHED_WHERES if
 * the cells of the log count it, CAPO_UNFINISHED_GPU if they do not because the GPU had not
 * finished it. Return: false after the last. */
bool capo_hang_text_next(const struct capo_log_frame *f, size_t *at,
                         struct capo_unfinished_call *out);

/**
 * capo_hang_text_next_line() - the next line of @key that begins with a number (threads, Python and
 * C frames)
 * @at: starts with 0
 * @text: the rest of the line; CAPO_HANG_LINE bytes
 *
 * Return: false after the last.
 */
bool capo_hang_text_next_line(const struct capo_log_frame *f, const char *key, size_t *at,
                              unsigned *nth, char *text);
