/* SPDX-License-Identifier: Apache-2.0 */
/* Converts Python's pickles of plain data (None, bool, int, float, str, list, tuple, dict) to JSON
 * text: PyTorch's flight recorder writes one by default. Nothing is executed: an opcode that would
 * name or call something of Python is an error. Format: Lib/pickletools.py of CPython, protocols 2
 * to 5. */
#pragma once

#include <stddef.h>

/** capo_pickle_json() - convert one value; tuples become arrays, keys become strings
 * @json: owned by the caller, zero-terminated
 * @why: a sentence, if the return is negative
 *
 * Return: 0; -EINVAL: cut, damaged, or not plain data; -EFBIG. */
int capo_pickle_json(const void *data, size_t size, char **json, char *why, size_t room);
