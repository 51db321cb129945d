/* SPDX-License-Identifier: Apache-2.0 */
/* While one log is read: what stats.c (frames) and stats_calls.c (single calls) share. */
#pragma once

#include "analysis/job/stats_private.h"

/* A sampled group member that waits for its group's times; the group's record follows soon. */
struct pending {
        struct capo_meet *meet;
        int64_t handle;
        uint32_t seq, group;
};
enum { N_PENDING = 64, JOB_GAP_THREADS = 64 };

/* How the calls of one shape are met: those above the limit are not wanted. */
struct wanted {
        uint32_t limit; /* 0: none (the hash of no seq but 0 is 0) */
        bool grouped;   /* a group's own record: may complete pending members */
};

/* A thread of the process; of many, several that share a place. */
struct reading_thread {
        uint64_t n_calls;
        uint64_t silent_from; /* when its latest call began; 0: none yet */
        bool silent_untimed;  /* a call behind its last silence was on the GPU and not timed */
        struct capo_silences silent, still;
};

/* While one log is read. */
struct reading {
        struct capo_job *job;
        struct capo_log *log;
        uint32_t process;
        uint32_t n_ids, n_shapes; /* one past the highest number so far: most logs use a few */
        struct job_places cells, sites;
        struct pending pending[N_PENDING];
        uint32_t n_pending;
        bool blocks; /* calls have been seen */
        bool missed; /* calls came before their communicator was described: not sampled */
        bool again;  /* the log is read once more for those */
        bool longs;  /* it is read once more for calls behind long silences */
        struct reading_thread threads[JOB_GAP_THREADS];
        uint32_t comms[65536]; /* id in this process -> 1 + index in job->comms */
        int32_t ranks[65536];  /* id in this process -> rank */
        struct capo_log_shape shapes[65536];
        struct wanted wanted[65536];
};

/** job_reading_new() - of log @log, or of a second reading (NULL). Return: for job_reading_end().
 */
struct reading *job_reading_new(struct capo_job *job, uint32_t process, struct capo_log *log);

/** job_reading_end() - the log is read. The job keeps the tables for the next one. */
void job_reading_end(struct reading *rd);

/** job_reading_comm() - the process's @id is job->comms[@comm], in which its rank is @rank. */
void job_reading_comm(struct reading *rd, uint16_t id, uint32_t comm, int32_t rank);

/** job_read_shapes(), job_read_block(), job_read_wide() - a frame of the type. */
void job_read_shapes(struct reading *rd, const struct capo_log_frame *f);
void job_read_block(struct reading *rd, const struct capo_log_frame *f);
void job_read_wide(struct reading *rd, const struct capo_log_frame *f);

/** job_read_silences() - behind the last frame: the longest silences of the process. */
void job_read_silences(struct reading *rd);

/** job_want_again() - a communicator is known now, or its limit has fallen. */
void job_want_again(struct reading *rd, uint16_t comm);

/** job_seen_until() - the log reaches to @t. */
void job_seen_until(struct reading *rd, uint64_t t);

/** job_read_again() - shapes and calls of rd->log once more, from its beginning. */
void job_read_again(struct reading *rd);
