/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the text of INFO frames, line by line. core/log/info.h describes the lines. */
#pragma once

#include "analysis/log/log_read.h"

struct capo_log_frame;

struct capo_info_line {
        const char *key, *value; /* pointers into the frame, without a zero at the end */
        size_t n_key, n_value;
        bool more; /* append the value to the key's earlier one; else it replaces that one */
};

/** capo_info_next() - @f's next line with a key and a value; *@at is 0 at first. False: no more. */
bool capo_info_next(const struct capo_log_frame *f, size_t *at, struct capo_info_line *out);

/** capo_info_is() - is @key the key of the line? */
bool capo_info_is(const struct capo_info_line *line, const char *key);

/** capo_info_value() - the value of the line as a string, cut to @room. Return: @text. */
char *capo_info_value(const struct capo_info_line *line, char *text, size_t room);

/** capo_info_index() - N if @key is @base, a dot and N ("gpu.numa.3"); else -1. */
int capo_info_index(const char *key, const char *base);
