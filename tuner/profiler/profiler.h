/* SPDX-License-Identifier: Apache-2.0 */
/* What NCCL really ran: the one body behind all profiler interfaces. */
#pragma once

#include "capo/call_kinds.h"
#include "capo/seam.h"
#include "core/base/util.h"
#include "tuner/nccl_profiler.h"
#include "tuner/plugin.h"

/* One communicator. */
struct capo_profiler {
        void (*ran)(const struct capo_seam_ran *ran); /* NULL: nobody wants to know */
        uint64_t comm_hash;                           /* v1 to v3: of the event instead */
        uint32_t n_ran; /* Coll events so far, where `kernels`; atomic */
        bool kernels;   /* kernel time stamps are wanted */
        int other_mask; /* events of the chained profiler, parents included; 0 none */
        void *other_context;
};

/** capo_profiler_open() - a communicator is made
 * @mask: set to the events wanted (0: none; NCCL then calls nothing but finalize)
 * Return: CAPO_NCCL_SUCCESS always; without memory nothing is wanted and *out is NULL. */
capo_nccl_result capo_profiler_open(const struct capo_profiler_info *info,
                                    struct capo_profiler **out, int *mask);

/* The parts of an event that the body needs, as the version has them. */
struct capo_profiler_event {
        uint64_t type;
        void **parent;
        void *event;                            /* the whole, for a chained profiler */
        struct capo_seam_ran ran;               /* of a Coll event, and of a CeColl event */
        const struct capo_kernel_event *kernel; /* of a KernelCh event from v4 on; else NULL */
        const struct capo_phase_event *phase;   /* of a KernelPhase event, v7; else NULL */
};

/* The functions of the plugin's table; start after the version's adapter has filled @e. The handle
 * of an event that nobody follows is NULL, and NULL may be stopped. */
capo_nccl_result capo_profiler_start(struct capo_profiler *p, void **handle,
                                     struct capo_profiler_event *e);
capo_nccl_result capo_profiler_start_v5(void *context, void **handle,
                                        void *event); /* as NCCL calls v5 and v6 */
capo_nccl_result capo_profiler_stop(void *handle);
capo_nccl_result capo_profiler_state(void *handle, int state, const void *args);
capo_nccl_result capo_profiler_finish(void *profiler);
