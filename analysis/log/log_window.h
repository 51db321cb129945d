/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of one log (a file, or a part of a packed file) and the window through which they are
 * read. Only for the files of the reader. */
#pragma once

#include <sys/stat.h>

#include "analysis/log/pack.h"

struct capo_log_window {
        char *path;
        int fd;    /* -1: parked without a descriptor */
        dev_t dev; /* identity of the file, to recognise it when it is opened again */
        ino_t ino;
        bool in_memory; /* the file has no name and cannot be opened again */
        char *pack; /* the file with several logs: the window then holds all of this one; NULL */
        struct capo_pack_entry *entry; /* of @pack; NULL without it */
        uint64_t size;
        unsigned char *bytes;
        size_t room;
        uint64_t start; /* the window holds bytes [start, start + held) of the file */
        size_t held;
};

/** capo_log_window_open() - Return: 0 with @st filled; as capo_others_open(), with @why. */
int capo_log_window_open(struct capo_log_window *w, const char *path, struct stat *st, char *why,
                         size_t room);

/** capo_log_window_give() - use the open file @fd from now on. */
void capo_log_window_give(struct capo_log_window *w, int fd);

/** capo_log_window_close() - close the descriptor, if any. */
void capo_log_window_close(struct capo_log_window *w);

/** capo_log_window_unpack() - unpack a packed log completely; w->size shrinks if it is damaged.
 * Return: 0; -ENOMEM, or the error of reading the file. */
int capo_log_window_unpack(struct capo_log_window *w);

void capo_log_window_free(struct capo_log_window *w);

/** capo_log_window_park() - free memory, close the file if many are open, until the next read. */
void capo_log_window_park(struct capo_log_window *w);

/** capo_log_window_opened() - how often this process has opened a log file; for tests. */
uint64_t capo_log_window_opened(void);

/** capo_log_window_read() - bytes [@offset, @offset + @n) of the log, which must exist. Opens a
 * parked log again. Return: valid until the next call; NULL with *@error set on a read error or
 * lack of memory. */
const unsigned char *capo_log_window_read(struct capo_log_window *w, uint64_t offset, size_t n,
                                          int *error);
