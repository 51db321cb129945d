/* SPDX-License-Identifier: Apache-2.0 */
/* A list of logs. Each log is opened once, when it is first needed. */
#pragma once

#include "analysis/log/log_read.h"

struct capo_log_paths {
        char **path;           /* sorted by name inside each folder */
        struct capo_log **log; /* by path; NULL: not opened yet. Owned */
        size_t n;
        char **folder; /* folders in which they were found */
        size_t n_folders;
};

/** capo_log_paths_add() - copies @path; takes ownership of @log (may be NULL). */
void capo_log_paths_add(struct capo_log_paths *paths, const char *path, struct capo_log *log);

/** capo_log_paths_add_pack() - add every log in the file @pack (analysis/log/pack.h) as PACK/NAME.
 * An unreadable log is added without being opened; without a known name, a line is printed. */
void capo_log_paths_add_pack(struct capo_log_paths *paths, const char *pack);

/** capo_log_folder_size() - length of the folder part of @path, without the slash; for PACK/NAME,
 * of the folder of PACK. 0: no folder in it. */
size_t capo_log_folder_size(const char *path);

/** capo_log_paths_open() - log @i at its first frame; @paths keeps it. Call capo_log_park() when it
 * is read. Return: as capo_log_open(). */
int capo_log_paths_open(struct capo_log_paths *paths, size_t i, struct capo_log **out, char *why,
                        size_t why_size);

/** capo_log_paths_take() - the same, but the caller owns *@out. */
int capo_log_paths_take(struct capo_log_paths *paths, size_t i, struct capo_log **out, char *why,
                        size_t why_size);

void capo_log_paths_finish(struct capo_log_paths *paths);

/** capo_log_path_is() - is @path @real (absolute)? Calls realpath() only if their names agree. */
bool capo_log_path_is(const char *path, const char *real);
