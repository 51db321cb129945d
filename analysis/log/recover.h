/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the shared memory of recorded processes (core/log/segment.h) from outside. What killed
 * processes left is added to their logs; that of running ones can be read. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* One process. */
struct capo_segment_info {
        char path[512];
        int pid;
        bool alive;
        bool here; /* pid is valid here: the process is in our pid namespace, and was started since
                      this boot */
        bool trace_all; /* it writes every call to its log */
        char host[72];
        char log_path[1024];
        bool homeless;    /* the folder of the log no longer exists */
        uint64_t records; /* written to the rings, but not yet to any log */
};

/** capo_segment_find() - find segments in @shm_dir (NULL: CAPO_SEGMENT_DIR) of this user
 * @log_dir: only those whose log is, or was to be, directly in this folder; NULL: all
 * @living: also those of running processes (info->alive)
 * @found: called for each; returns non-zero to stop
 *
 * Silently skipped: files of other users or other versions, incomplete ones, and those of running
 * processes. (A running process holds a lock on its file and, in the same pid namespace, has a
 * /proc entry with the same start time.)
 *
 * Return: number found; what @found returned; -errno when the folder cannot be read. */
int capo_segment_find(const char *shm_dir, const char *log_dir, bool living,
                      int (*found)(const struct capo_segment_info *info, void *cookie),
                      void *cookie);

/** capo_segment_peek() - copy the memory of a process to a log in a file without a name
 * @info: from capo_segment_find(); the process, its segment and its own log are not changed
 * @fd: set on success to a file of memfd_create(2); for capo_log_open_fd()
 *
 * The drain runs on a copy while a live process goes on. If it is making calls, the newest ones may
 * be missing or damaged; if it makes no progress, all are there. The log's END is not clean for a
 * live process.
 *
 * Return: as capo_segment_recover(), but not -EBUSY; -ENOENT: the segment no longer exists. */
int capo_segment_peek(const struct capo_segment_info *info, int *fd);

/** capo_segment_recover() - add what a dead process left to its log, and remove the segment
 * @path: from capo_segment_find()
 * @log: append to this log, created when missing; NULL: the path that the process used
 * @out: set to the log's path and the number of records added; may be NULL
 *
 * Runs the same drain as the process did. A torn last frame of the log is cut off first. After a
 * failure it can be repeated: the segment is copied, and removed only after fsync of the log. A log
 * that belongs to another user than the process did is not written.
 *
 * Return: 0; -EBUSY: the process runs; -ESTALE: the segment no longer exists (another command
 * recovered it, or the process ended by itself meanwhile); -EBADMSG: not a complete segment;
 * another -errno of file operations. */
int capo_segment_recover(const char *path, const char *log, struct capo_segment_info *out);

/** capo_segment_drop() - remove what a dead process left if the folder of its log no longer exists
 * (info->homeless). Return: as capo_segment_recover(); -EEXIST: the folder exists. */
int capo_segment_drop(const char *path);
