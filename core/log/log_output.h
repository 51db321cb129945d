/* SPDX-License-Identifier: Apache-2.0 */
/* Where the drain's frames go: the log of one segment, and the segment's word on how much of it is
 * good. One store (commit_now) makes written frames valid. The process that continues a log cuts
 * the file back to the last such store. */
#pragma once

#include "core/log/log_write.h"
#include "core/log/segment.h"

struct capo_output {
        struct capo_segment_header *h;
        struct capo_log_writer log;
        struct capo_commit done; /* as committed, or about to be */
        bool resync; /* the file misses frames: the next description says everything again */
        char buffer[CAPO_LOG_BUFFER];
};

/** capo_output_init() - @o is zeroed; no file is touched yet. */
void capo_output_init(struct capo_output *o, struct capo_segment_header *h);

/** capo_output_create() - the log at header.log_path, or beside a taken name. Return: 0; -errno. */
int capo_output_create(struct capo_output *o);

/** capo_output_take_over() - go on with a dead process's log at its last commit, or make it. */
int capo_output_take_over(struct capo_output *o);

/** capo_output_frame() - a frame of two parts. Return: 0; -errno, and then resync is set. */
int capo_output_frame(struct capo_output *o, unsigned type, const void *a, size_t n_a,
                      const void *b, size_t n_b);

/** capo_output_mark(), capo_output_back() - frames that go to the file as a whole or not at all.
 * The first before them, where nothing waits to be written. The second when one could not be
 * written: the file ends where it did, and the segment says so. resync is set: what was taken for
 * written is to be described again. */
struct capo_output_mark {
        struct capo_commit commit;
        uint64_t lost_bytes;
};
struct capo_output_mark capo_output_mark(const struct capo_output *o);
void capo_output_back(struct capo_output *o, const struct capo_output_mark *mark);

/** capo_output_lost() - has a frame since @mark not been written? */
bool capo_output_lost(const struct capo_output *o, const struct capo_output_mark *mark);

/** capo_output_flush() - what waits goes to the file, and becomes true. Return: 0; -errno. */
int capo_output_flush(struct capo_output *o);
