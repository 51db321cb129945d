/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Python's pickles of plain data (None, bool, int, float, str, list, tuple, dict) as JSON text:
 * PyTorch's flight recorder is dumped in one by default. Nothing is run: an opcode that would name
 * or call something of Python is an error. Format: Lib/pickletools.py of CPython, protocols 2 to 5.
 */
#ifndef CAPO_PICKLE_H
#define CAPO_PICKLE_H

#include <stddef.h>

/**
 * capo_pickle_json() - one value; a tuple is an array, a key that is no string the string of it
 * @json: owned by the caller, zero-terminated
 * @why:  a sentence, where the return is negative
 *
 * Return: 0; -EINVAL: cut off, damaged, more than plain data; -EFBIG; -ENOMEM.
 */
int capo_pickle_json(const void *data, size_t size, char **json, char *why, size_t room);

#endif
