/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of libcapo.so share beyond one room: the life of the recorder in this process, and
 * the doors through which another part of the library (libfabric hooks, plugins) brings its own
 * facts into the log.
 *
 * Life. A process that calls neither NCCL nor libfabric never gets past the loader: no thread, no
 * file, no output. The first wrapped call of either kind calls capo_shim_start(), which reads the
 * settings, makes the segment (core/log/segment.h) and starts the drain thread. After fork() the
 * child is a new process and starts afresh at its own first call. */
#pragma once

#include <stdatomic.h>

#include "core/base/clock.h"
#include "core/base/util.h"

struct capo_env; /* capo/env.h */

/* Where this process's recorder stands. Written once per process life (and on a fork). */
enum capo_shim_state {
        CAPO_SHIM_UNSTARTED = 0, /* no wrapped call yet */
        CAPO_SHIM_OFF, /* CAPO_OFF, no CAPO_DIR, or no memory: every call passes straight through */
        CAPO_SHIM_ON,
        CAPO_SHIM_OVER, /* process exit has begun: pass through */
};

/* What a child without our fork handler must not believe: the kernel empties this page in every
 * copy of the process (MADV_WIPEONFORK, Linux 4.14), so a child made by a bare clone() starts with
 * UNSTARTED too. Written under start_lock. */
#if defined __x86_64__
#define CAPO_LIFE_PAGE 4096
#else
#define CAPO_LIFE_PAGE 65536 /* the largest there is */
#endif
extern union capo_life {
        struct {
                _Atomic int state;      /* enum capo_shim_state */
                _Atomic bool short_way; /* no GPU is looked at, ticks are the time-stamp counter */
        };
        char page[CAPO_LIFE_PAGE];
} capo_life __attribute__((aligned(CAPO_LIFE_PAGE)));

/** capo_shim_start() - start the recorder of this process if that has not happened
 *
 * Cheap when it has (one load). May be called from any thread, by several at once, and from inside
 * a wrapped call; never from a signal handler. Keeps errno.
 *
 * Return: true when calls are recorded; false when they pass through. */
bool capo_shim_start_slow(void);
static inline bool capo_shim_start(void)
{
        int state = atomic_load_explicit(&capo_life.state, memory_order_acquire);

        return state == CAPO_SHIM_UNSTARTED ? capo_shim_start_slow() : state == CAPO_SHIM_ON;
}

/** capo_shim_thread() - start the drain thread if that has not happened; after capo_shim_start()
 * has said true. Whoever records calls needs it: rings must be emptied. Counters that merely stand
 * in memory do not, and a program of one thread is not made one of two for them: glibc's locks
 * leave out the bus lock in such a program, which is half the price of libfabric's polls. */
void capo_shim_thread_slow(void);
extern _Atomic bool capo_shim_threaded;
static inline void capo_shim_thread(void)
{
        if (!atomic_load_explicit(&capo_shim_threaded, memory_order_acquire))
                capo_shim_thread_slow();
}

/** capo_shim_alone() - does the process have one thread, as far as glibc knows, and none of ours?
 */
bool capo_shim_alone(void);

/** capo_settings - valid from the first capo_shim_start() on, whatever it answered, which writes
 * them; read them by capo_shim_env() */
extern struct capo_env capo_settings;
static inline const struct capo_env *capo_shim_env(void) { return &capo_settings; }

/** capo_shim_current() - the outermost NCCL call, or open group, that the calling thread is in
 *
 * This is how a libfabric operation posted on the job's own thread learns which collective it
 * serves. NCCL's proxy thread is in none. A few loads; no lock.
 *
 * Return: false outside any; @out is then untouched. */
struct capo_shim_outer {
        uint64_t
                comm_uid; /* capo_log_comm.uid; 0 for none, or a group over several communicators */
        uint64_t t_begin; /* ticks */
        uint32_t seq;     /* capo_record.seq of the call, of a group's first member */
        uint16_t comm;    /* capo_record.comm; 0 none */
        uint8_t call;     /* enum capo_call_id; of a group's first member, or CAPO_CALL_GROUP */
};
bool capo_shim_current(struct capo_shim_outer *out);

/** capo_shim_text() - append text to the log, as one frame of @type (enum capo_frame_type: INFO,
 * FABRIC, RULES). Any thread; copies; the drain thread writes it. Pieces are bounded by the room in
 * the segment (256 KiB not yet written): what does not fit is dropped whole and counted with the
 * log's bytes_lost. */
void capo_shim_text(unsigned type, const char *text, size_t size);

/** capo_shim_keep_begin(), capo_shim_keep(), capo_shim_keep_end() - text that is written only if
 * the process dies
 *
 * From begin to end a new edition of frames is put together, as capo_shim_text() would append them;
 * with the end it replaces the last one. Whoever recovers a killed process finds the last whole
 * edition and appends it to the log. An edition larger than CAPO_KEPT_HALF is dropped, and the last
 * one stays. Drain thread only. */
void capo_shim_keep_begin(void);
void capo_shim_keep(unsigned type, const char *text, size_t size);
void capo_shim_keep_end(void);

/** capo_shim_info() - one "key\tvalue\n" line of an INFO frame; @key: core/log/info.h. */
void capo_shim_info(const char *key, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** capo_shim_sysfs() - the number in CAPO_SYSFS/@dir/@name/@file, "bus/pci/devices" and such;
 * @missing when there is none. */
long capo_shim_sysfs(const char *dir, const char *name, const char *file, long missing);

/** capo_shim_join() - have the drain thread call @part, which lives as long as the process.
 * Checkpoints come after 10 s, then at growing distances up to 10 minutes. A child after fork() has
 * no part until it joins again. */
struct capo_shim_part {
        /* Before each checkpoint and once at the end (@last), then also on the exiting thread, never
         * on both at once: calls capo_shim_text() with what it has to say. It must not call NCCL,
         * libfabric or CUDA, must not take a lock that a job's thread may hold for long, and must
         * survive being called after the job's objects are gone. */
        void (*checkpoint)(bool last);
        void (*poll)(void); /* on every round, each 1 to 50 ms; as above */
        void (*fork)(void); /* in the child after fork(), before any wrapped call of it */
};
void capo_shim_join(const struct capo_shim_part *part);

/** capo_shim_alloc() - zeroed, from mmap, for good; NULL: none. Not for hot paths. */
void *capo_shim_alloc(size_t size);
