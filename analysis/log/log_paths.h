/* SPDX-License-Identifier: Apache-2.0 */
/* A list of logs, each of which is opened once, by whoever needs it first. */
#ifndef CAPO_LOG_PATHS_H
#define CAPO_LOG_PATHS_H

#include "analysis/log/log_read.h"

struct capo_log_paths {
        char **path;           /* sorted by name inside each folder */
        struct capo_log **log; /* by path; NULL while nobody has opened it. Owned */
        size_t n;
        char **folder; /* the folders they were found in */
        size_t n_folders;
};

/** capo_log_paths_add() - copies @path, takes over @log (may be NULL) in any case. Return: 0,
 * -ENOMEM. */
int capo_log_paths_add(struct capo_log_paths *paths, const char *path, struct capo_log *log);

/** capo_log_paths_add_pack() - every log in the file @pack (analysis/log/pack.h). One that cannot
 * be read is added without being open, and its path is PACK/NAME; where not even a name is known, a
 * line says so. Return: 0, -ENOMEM. */
int capo_log_paths_add_pack(struct capo_log_paths *paths, const char *pack);

/** capo_log_folder_size() - bytes of @path that name the folder of the log, without the slash; the
 * folder of PACK/NAME is that of PACK. 0: there is no folder in it. */
size_t capo_log_folder_size(const char *path);

/** capo_log_paths_open() - log @i, at its first frame; it stays @paths'. capo_log_park() it when it
 * is read. Return: as capo_log_open(). */
int capo_log_paths_open(struct capo_log_paths *paths, size_t i, struct capo_log **out, char *why,
                        size_t why_size);

/** capo_log_paths_take() - the same; the caller owns *@out from now on. */
int capo_log_paths_take(struct capo_log_paths *paths, size_t i, struct capo_log **out, char *why,
                        size_t why_size);

void capo_log_paths_finish(struct capo_log_paths *paths);

#endif
