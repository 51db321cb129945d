/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files that make up the recorder's life. */
#pragma once

#include "shim/record/state.h"

/** capo_own_thread() - a detached thread that calls @life (thread.c). Return: 0; -errno. */
int capo_own_thread(void *(*life)(void *));

/** capo_rounds_begin(), _fork(), _forked() - the drain thread's state (rounds.c). The first when
 * the segment is there; return: 0; -ENOMEM. The second in a fork's child, where the parent recorded
 * (@lived), and the third when all else is as new there: the part that had joined forgets, too. */
int capo_rounds_begin(void);
void capo_rounds_fork(bool lived);
void capo_rounds_forked(void);

/** capo_rounds_ask() - the process ends: have this done, by the drain thread, and wait for it
 * @wish: a last poll of the GPU, and no more of it; then also all that is left to say
 *
 * The drain thread is made where there is none yet. Return: false: it has not got on for five
 * seconds, or this thread holds a lock that it may wait for; the rest is for `capo recover`. */
enum capo_wish { CAPO_WISH_NONE, CAPO_WISH_GPU, CAPO_WISH_END };
bool capo_rounds_ask(enum capo_wish wish);

/** capo_report_reached() - at the start of a process: CAPO_VERBOSE asks which ones the preload
 * reaches; and if it is the command of capo run, its end says when nothing was recorded
 * (quick_exit.c). */
void capo_report_reached(void);

/** capo_info_write() - this process's INFO lines (record_info.c); on the drain thread, once. */
void capo_info_write(void);

/** capo_info_environment() - those that the environment has, where it has changed since; on a
 * thread of the job, one at a time. */
void capo_info_environment(void);
void capo_info_fork(void);

/** capo_shim_text_early() - capo_shim_text(), also while the recorder begins */
void capo_shim_text_early(unsigned type, const char *text, size_t size);

/** capo_launcher_rank() - that capo_info_environment() found; -1: no launcher told one. */
long capo_launcher_rank(void);

/** capo_hang_begin(), capo_hang_check() - what is done about a hang (hang_record.c)
 *
 * The first on the job's thread when the recorder begins, for the settings; the second on each
 * round of the drain thread, once there is a log. A hang is a HANG frame, one line on standard
 * error, and, by one of the ranks that share a folder, a verdict over all of them beside the logs;
 * nothing is signalled, stopped or ended. Return: a frame waits: write a checkpoint, so that the
 * log has all that it speaks of. */
void capo_hang_begin(void);
bool capo_hang_check(void);

/** capo_site_text() - pc[] to text (site.c); on the drain thread. */
unsigned capo_site_text(const struct capo_seg_site *site, char *text, unsigned room);

/** capo_gpu_detect() - is the CUDA driver here by now? Cheap once it is, or once GPU timing is off.
 */
void capo_gpu_detect(void);

/** capo_gpu_describe() - INFO gpu.busid.<device>, gpu.numa.<device> and, for a MIG slice,
 * gpu.mig.<device>, once per device and process; nothing without the driver. GPU timing need not be
 * on. */
void capo_gpu_describe(int device);
/** capo_gpu_poll() - on the drain thread: times of calls that have ended. */
void capo_gpu_poll(void);
/** capo_stream_poll() - ask the GPU about communicators that made no call for @quiet_ns, once, and
 * again where it is busy; on the drain thread, once a second or so
 * @now_ns: CLOCK_MONOTONIC */
void capo_stream_poll(uint64_t now_ns, uint64_t quiet_ns);

/** capo_gpu_stop() - no more driver calls; what is under way keeps its host time. */
void capo_gpu_stop(void);

/* Readings of the machine (shim/machine), by a thread of their own. */
extern const struct capo_machine_part {
        void (*begin)(void); /* on the drain thread, once: starts the thread */
        void (*ask)(void);   /* a reading now */
        /* on each round of the drain thread, after a nap of @nap_ns that took @late_ns longer: a
         * source that does not answer goes into the log */
        void (*round)(uint64_t nap_ns, uint64_t late_ns);
        /* a last reading, and no more; waits a second at most: false when that is not enough */
        bool (*end)(void);
        /* CUDA device @device, 0 to 63, is used here, and this is its PCI bus id; any thread */
        void (*watch)(int device, const char *busid);
        unsigned (*threads)(void); /* 1 while the thread lives */
        int (*tid)(void);          /* its id; 0: it does not live */
        void (*fork)(void);
} capo_machine_part;

/** capo_kernel_poll() - on the drain thread: let go of records without GPU stamps; @all: of all. */
void capo_kernel_poll(bool all);

/** capo_nccl_tell() - INFO lines about copies of NCCL that are not logged yet; on the drain thread.
 */
void capo_nccl_tell(void);

/* In the child after fork(): forget the parent's. */
void capo_record_fork(void);
void capo_comm_fork(void);
void capo_nccl_fork(void);
void capo_kernel_fork(void);
void capo_gpu_fork(void);
void capo_stream_fork(void);
void capo_site_fork(void);
