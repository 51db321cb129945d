/* SPDX-License-Identifier: Apache-2.0 */
/* Which logs somebody means who names files and folders on a command line. */
#ifndef CAPO_LOG_FIND_H
#define CAPO_LOG_FIND_H

#include <stdbool.h>
#include <stddef.h>

struct capo_log_paths {
        char **path; /* sorted by name inside each folder, folders and files in the order given */
        size_t n;
        char **folder; /* the folders they were found in */
        size_t n_folders;
};

/**
 * capo_log_find() - files as they are; a folder stands for its *.capo
 * @out: filled from empty; capo_log_paths_finish() it in any case
 *
 * A folder without logs that has folders with logs (capo-logs/, one folder per job) stands for the newest of them, by
 * the newest log in it; one line says which. A folder without any logs adds nothing but itself to out->folder.
 *
 * Return: 0; -ENOMEM; -errno with @why: "PATH: cause".
 */
int capo_log_find(char *const *args, size_t n_args, struct capo_log_paths *out, char *why, size_t why_size);
void capo_log_paths_finish(struct capo_log_paths *paths);

#endif
