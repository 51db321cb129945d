/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What processes have in memory (core/log/segment.h), seen from outside: that of killed ones is
 * brought into their logs, that of living ones can be looked at.
 */
#ifndef CAPO_RECOVER_H
#define CAPO_RECOVER_H

#include <stdbool.h>
#include <stdint.h>

/* What a process has, or left. */
struct capo_segment_info {
        char path[512];
        int pid;
        bool alive;
        bool here; /* pid is its number here, too: it is in no pid namespace but ours, and of this
                      start of the machine */
        bool trace_all; /* every call goes to its log */
        char host[72];
        char log_path[1024];
        bool homeless;    /* the folder of the log is not there any more */
        uint64_t records; /* published and not yet in any log */
};

/**
 * capo_segment_find_dead() - segments in @shm_dir (NULL: CAPO_SEGMENT_DIR) of this user whose
 * process is gone
 * @log_dir: only those whose log is, or was to be, directly in this folder; NULL for all
 * @found:   called for each; stop early by returning non-zero
 *
 * Left alone without a word: files of other users, of other versions, not whole, or of a living
 * process (which holds a lock on its file; and, in the same pid namespace, has a /proc entry with
 * the same start time).
 *
 * Return: number found, or what @found returned, or -errno when the folder cannot be read.
 */
int capo_segment_find_dead(const char *shm_dir, const char *log_dir,
                           int (*found)(const struct capo_segment_info *info, void *cookie),
                           void *cookie);

/** capo_segment_find() - the same of all processes, living or dead: info->alive tells. */
int capo_segment_find(const char *shm_dir, const char *log_dir,
                      int (*found)(const struct capo_segment_info *info, void *cookie),
                      void *cookie);

/**
 * capo_segment_peek() - what a process has in memory, as a log in a file without a name
 * @info: of capo_segment_find(); nothing of the process, its segment and its own log is touched
 * @fd:   set on success to a file of memfd_create(2); for capo_log_open_fd()
 *
 * The drain runs on a copy. A living process goes on meanwhile: of one that is making calls the
 * newest may be missing or damaged; of one that makes no progress all is there. The log's END is
 * not clean for a living process.
 *
 * Return: as capo_segment_recover(), but for -EBUSY; -ENOENT when it is there no more.
 */
int capo_segment_peek(const struct capo_segment_info *info, int *fd);

/**
 * capo_segment_recover() - bring what a dead process left into its log, and remove the segment
 * @path: as found by capo_segment_find_dead()
 * @log:  where to append; NULL: the path the process itself used. Created when missing.
 * @out:  room for the log's path and the number of records taken; may be NULL
 *
 * Runs the very drain the process ran. A torn last frame in the log is cut off first. Repeating
 * after a failure is safe: the segment is mapped privately and removed only after the log is on its
 * way to disk (fsync). A log that belongs to another user than the process did is not written.
 *
 * Return: 0; -EBUSY when the process lives; -ESTALE when it is there no more (another took it up,
 * or the process came to its end by itself after it was found); -EBADMSG when it is not a whole
 * segment; other -errno of file operations.
 */
int capo_segment_recover(const char *path, const char *log, struct capo_segment_info *out);

/** capo_segment_drop() - remove what a dead process left whose log has no folder any more
 * (info->homeless). Return: as capo_segment_recover(); -EEXIST when the folder is there. */
int capo_segment_drop(const char *path);

#endif
