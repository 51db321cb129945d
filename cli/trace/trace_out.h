/* SPDX-License-Identifier: Apache-2.0 */
/* Fast text output, optionally compressed (gzip). */
#pragma once

#include "core/base/util.h"

struct trace_out;

/** trace_out_new() - write to @file, compressed or not. NULL: zlib cannot begin. */
struct trace_out *trace_out_new(FILE *file, bool gzip);

/** trace_out_end() - write the rest, and free it. Return: 0; the error of the file. */
int trace_out_end(struct trace_out *o);

/** trace_out_room() - a buffer for at least @n bytes (at most 64 KiB); trace_out_take() - @n bytes
 * of it were filled. */
char *trace_out_room(struct trace_out *o, size_t n);
void trace_out_take(struct trace_out *o, size_t n);

/** trace_put_us() - @ns as microseconds with three decimals; trace_put_number() - @n. Return: the
 * end of the text. */
char *trace_put_us(char *to, uint64_t ns);
char *trace_put_number(char *to, uint64_t n);
