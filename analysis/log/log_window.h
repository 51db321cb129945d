/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of one log: its file or its part of a packed one, and the window on them. For the files
 * of the reader. */
#ifndef CAPO_LOG_WINDOW_H
#define CAPO_LOG_WINDOW_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "analysis/log/pack.h"

struct capo_log_window {
        char *path;
        int fd;    /* -1: parked without a descriptor */
        dev_t dev; /* the file, to know it when it is opened again */
        ino_t ino;
        bool in_memory; /* the file has no name, and cannot be opened again */
        char *pack;     /* NULL, or the file with several logs: the window has all of this one */
        struct capo_pack_entry entry;
        uint64_t size;
        unsigned char *bytes;
        size_t room;
        uint64_t start; /* these are bytes [start, start + held) of the file */
        size_t held;
};

/** capo_log_window_open() - Return: 0 with @st filled; -errno. */
int capo_log_window_open(struct capo_log_window *w, const char *path, struct stat *st);

/** capo_log_window_give() - @fd, which is open, is the file from now on. */
void capo_log_window_give(struct capo_log_window *w, int fd);

/** capo_log_window_close() - the descriptor, if there is one. */
void capo_log_window_close(struct capo_log_window *w);

/** capo_log_window_unpack() - all of a packed log; of a damaged one less than it says. Return: 0;
 * -ENOMEM, or the error of reading the file. */
int capo_log_window_unpack(struct capo_log_window *w);

void capo_log_window_free(struct capo_log_window *w);

/** capo_log_window_park() - let go of memory, and of the descriptor where many are open; the next
 * read has them again. */
void capo_log_window_park(struct capo_log_window *w);

/** capo_log_window_opened() - how often this process has opened a file of a log: for tests. */
uint64_t capo_log_window_opened(void);

/**
 * capo_log_window_read() - bytes [@offset, @offset + @n) of the log, which has them
 *
 * Opens again what was parked. Return: valid until the next call; NULL with *@error
 * when they cannot be read or memory is short.
 */
const unsigned char *capo_log_window_read(struct capo_log_window *w, uint64_t offset, size_t n,
                                          int *error);

#endif
