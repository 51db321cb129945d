/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a log: frames are put together in memory and go to the file by write(2), whole frames at
 * a time. Neither stdio nor malloc: this runs inside somebody else's process, at its exit too. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "capo/log_layout.h"

#define CAPO_LOG_BUFFER (1u << 20)

struct capo_log_writer {
        const char *path; /* the caller's; not copied */
        int fd;           /* -1 while there is no file */
        dev_t dev;
        ino_t ino;
        uint64_t file_bytes; /* good bytes in the file */
        uint64_t lost_bytes; /* of frames that could not be written */
        uint32_t n;          /* bytes waiting in buffer */
        bool nameless;       /* fd is the caller's, of a file without a name; path is not used */
        bool failed;         /* the last flush failed, and one line said so */
        char *buffer;        /* CAPO_LOG_BUFFER bytes, the caller's */
};

/** capo_log_write_all() - @n bytes to @offset of a file. Return: 0; -errno: what was written before
 * the error stays, for the caller to cut off. */
int capo_log_write_all(int fd, const void *bytes, size_t n, uint64_t offset);

/** capo_log_create() - make the file and write its header
 * @w:      path and buffer set, fd -1
 * @header: written as it is
 *
 * O_EXCL and O_NOFOLLOW, mode 0600: never through a link, never over a file. Return: 0; -errno
 * (-EEXIST: take another name). */
int capo_log_create(struct capo_log_writer *w, const struct capo_log_header *header);

/**
 * capo_log_append() - go on with a file of which @good_bytes are known to be whole; the rest is cut
 * off
 * @header: what it must begin with (pid, t0_ticks compared)
 *
 * Return: 0; -ENOENT; -EBADMSG when it is not that log; -errno.
 */
int capo_log_append(struct capo_log_writer *w, const struct capo_log_header *header,
                    uint64_t good_bytes);

/** capo_log_frame() - one frame, its payload gathered from @iov. Flushes first when the buffer has
 * no room. Payloads above CAPO_LOG_BUFFER - 64 bytes are refused (-EMSGSIZE). With no file the
 * frame is lost and counted. Return: 0 or the error of the flush. */
int capo_log_frame(struct capo_log_writer *w, unsigned type, const struct iovec *iov, int n_iov);

/** capo_log_flush() - put what waits into the file. All or nothing: when the disk is full, a part
 * that was written is cut off again, the frames are counted as lost, and one line says so (once
 * until a flush succeeds again). If the program has closed the descriptor, the file is opened again
 * by its name. Return: 0 or -errno. */
int capo_log_flush(struct capo_log_writer *w);

/** capo_log_cut() - what waits is dropped, and the file ends at @bytes again. */
void capo_log_cut(struct capo_log_writer *w, uint64_t bytes);

/** capo_log_forget() - in a fork's child: close what is still our file, and write no more. */
void capo_log_forget(struct capo_log_writer *w);

/** capo_log_finish() - flush, sync when @sync, close. */
int capo_log_finish(struct capo_log_writer *w, bool sync);
