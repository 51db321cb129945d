/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that is written fast, and compressed (gzip, one member) by several threads when that is
 * asked for: blocks are deflated by themselves and joined, as pigz does.
 */
#ifndef CAPO_TRACE_OUT_H
#define CAPO_TRACE_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct trace_out;

/** trace_out_new() - to @file, compressed or not. NULL: no memory, or no thread. */
struct trace_out *trace_out_new(FILE *file, bool gzip);

/** trace_out_end() - write what is left, and free it. Return: 0; -ENOMEM; what the file said. */
int trace_out_end(struct trace_out *o);

/** trace_out_room() - at least @n bytes (at most 64 KiB) to write to; trace_out_take() - so many of
 * them were written. */
char *trace_out_room(struct trace_out *o, size_t n);
void trace_out_take(struct trace_out *o, size_t n);

/** trace_out_text() - any text. */
void trace_out_text(struct trace_out *o, const char *text, size_t n);

/** trace_put_us() - @ns as microseconds with three decimals. trace_put_number(). Return: behind
 * it. */
char *trace_put_us(char *to, uint64_t ns);
char *trace_put_number(char *to, uint64_t n);

#endif
