/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the text of INFO frames, line by line. core/log/info.h describes the lines. */
#ifndef CAPO_INFO_READ_H
#define CAPO_INFO_READ_H

#include "analysis/log/log_read.h"
#include "core/log/info.h"

struct capo_log_frame;

struct capo_info_line {
        const char *key, *value; /* in the frame, no zero behind them */
        size_t n_key, n_value;
        bool more; /* the value goes behind the key's earlier one instead of replacing it */
};

/** capo_info_next() - the next line of @f that has a key and a value; *@at starts with 0. False: no
 * more. */
bool capo_info_next(const struct capo_log_frame *f, size_t *at, struct capo_info_line *out);

/** capo_info_is() - is it the line of @key? */
bool capo_info_is(const struct capo_info_line *line, const char *key);

/** capo_info_index() - N of a @key that is @base, a dot and N ("gpu.numa.3"); -1 when it is none.
 */
int capo_info_index(const char *key, const char *base);

#endif
