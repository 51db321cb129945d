/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/** capo_size_parse() - a size as people write it, to bytes
 * @text: digits, optionally a fraction and a blank, then nothing, B, or K/M/G/T/P/E with optional
 * iB or B, any case; powers of 1024, as nccl-tests and NCCL's own variables read them. "max" and
 * "inf" are UINT64_MAX.
 * @out:  set only on success
 *
 * Return: 0; -EINVAL when it is not a size; -ERANGE when it does not fit 64 bits. */
int capo_size_parse(const char *text, uint64_t *out);

/** capo_size_range() - a size, or two as pages write them ("1-1.9 MiB", "900 B-1 KiB": what stands
 * behind the second counts for the first where that has nothing behind it)
 * @from, @to: set only on success, both to the size where it is one. Return: as capo_size_parse();
 * -EINVAL for 2-1. */
int capo_size_range(const char *text, uint64_t *from, uint64_t *to);

/** capo_size_print() - shortest exact or three-digit form: "1 MiB", "25.0 MiB", "900 B". @text: at
 * least 16 bytes. Returns @text. */
char *capo_size_print(uint64_t bytes, char *text, size_t room);
