/* SPDX-License-Identifier: Apache-2.0 */
/* Files read whole; descriptors. */
#pragma once

#include <fcntl.h>

#include "core/base/util.h"

/** capo_file_read() - all of a file
 * @path: - is standard input
 * @most: bytes
 * @text: to be freed; a 0 stands behind its *@size bytes. Both set only on success.
 *
 * Return: 0; -E2BIG more than @most; -ENOMEM; -errno of opening and reading; as capo_file_open().
 */
int capo_file_read(const char *path, size_t most, char **text, size_t *size);

/** capo_file_read_fd() - the same of what is left of @fd, also of a pipe; of more, @most bytes. */
int capo_file_read_fd(int fd, size_t most, char **text, size_t *size);

/** capo_file_open() - to read, without waiting for a pipe's writer or a lease's holder. Return: the
 * descriptor; -ESPIPE: a pipe with a name; -errno. */
int capo_file_open(const char *path);

/** capo_file_is_fifo() - a named pipe, whose opening waits for a writer? Not - nor /dev/fd/N. */
bool capo_file_is_fifo(const char *path);

/** capo_file_find() - the file that a search path means
 * @dirs: folders with colons between, as in PATH; NULL: none. Empty ones are stepped over.
 * @name: with a slash it is the file itself
 * @mode: for access(2): R_OK, X_OK
 *
 * Return: is there one? @path is empty when not. */
bool capo_file_find(const char *dirs, const char *name, int mode, char *path, size_t room);

/** capo_file_temp_folder() - TMPDIR, when absolute and of at most 40 bytes, otherwise /tmp */
const char *capo_file_temp_folder(void);

/** capo_file_high() - the same file by a descriptor out of the way of low numbers; *@fd is -1. */
static inline int capo_file_high(int *fd)
{
        int low = *fd, high = fcntl(low, F_DUPFD_CLOEXEC, 700);

        *fd = -1;
        if (high < 0)
                return low;
        close(low);
        return high;
}
