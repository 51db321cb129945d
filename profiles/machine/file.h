/* SPDX-License-Identifier: Apache-2.0 */
/* A whole text file in memory. */
#ifndef CAPO_MACHINE_FILE_H
#define CAPO_MACHINE_FILE_H

#include <stddef.h>

/**
 * capo_file_read() - all of it
 * @path: - is standard input
 * @most: bytes
 * @text: malloc'ed, with a zero behind its @size bytes; set on success only
 *
 * Return: 0; -E2BIG more than @most; -ENOMEM; negative errno of opening and reading.
 */
int capo_file_read(const char *path, size_t most, char **text, size_t *size);

#endif
