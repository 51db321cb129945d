/* SPDX-License-Identifier: Apache-2.0 */
/* What killed processes left in memory (core/log/segment.h): found, and brought into their logs. */
#ifndef CAPO_RECOVER_H
#define CAPO_RECOVER_H

#include "core/log/segment.h"

/* What a dead process left. */
struct capo_segment_info {
        char path[96];
        int pid;
        char host[72];
        char log_path[1024];
        uint64_t records; /* published and not yet in any log */
};

/**
 * capo_segment_find_dead() - segments in @shm_dir (NULL: CAPO_SEGMENT_DIR) of this user whose process is gone
 * @log_dir: only those whose log is, or was to be, directly in this folder; NULL for all
 * @found:   called for each; stop early by returning non-zero
 *
 * Left alone without a word: files of other users, of other versions, not whole, or of a living process (which holds a
 * lock on its file; and, in the same pid namespace, has a /proc entry with the same start time).
 *
 * Return: number found, or what @found returned, or -errno when the folder cannot be read.
 */
int capo_segment_find_dead(const char *shm_dir, const char *log_dir,
                           int (*found)(const struct capo_segment_info *info, void *cookie), void *cookie);

/**
 * capo_segment_recover() - bring what a dead process left into its log, and remove the segment
 * @path: as found by capo_segment_find_dead()
 * @log:  where to append; NULL: the path the process itself used. Created when missing.
 * @out:  room for the log's path and the number of records taken; may be NULL
 *
 * Runs the very drain the process ran. A torn last frame in the log is cut off first. Repeating after a failure is
 * safe: the segment is mapped privately and removed only after the log is on its way to disk (fsync).
 *
 * Return: 0; -EBUSY when the process lives; -EBADMSG when it is not a whole segment; other -errno of file operations.
 */
int capo_segment_recover(const char *path, const char *log, struct capo_segment_info *out);

#endif
