/* SPDX-License-Identifier: Apache-2.0 */
/* What NCCL really ran: the one body behind all profiler interfaces. */
#ifndef CAPO_PROFILER_H
#define CAPO_PROFILER_H

#include <stdbool.h>

#include "capo/record.h"
#include "capo/seam.h"
#include "core/base/util.h"
#include "tuner/nccl_profiler.h"
#include "tuner/plugin.h"

/* One communicator. */
struct capo_profiler {
        void (*ran)(const struct capo_seam_ran *ran); /* NULL: nobody wants to know */
        uint64_t comm_hash;                           /* v1 to v3: of the event instead */
        uint32_t n_ran;                               /* Coll events so far, where `kernels`; atomic */
        bool kernels;                                 /* kernel time stamps are wanted */
        int other_mask;                               /* events of the chained profiler, parents included; 0 none */
        void *other_context;
};

/**
 * capo_profiler_open() - a communicator is made
 * @mask: set to the events wanted (0: none; NCCL then calls nothing but finalize)
 * Return: CAPO_NCCL_SUCCESS always; without memory nothing is wanted and *out is NULL.
 */
capo_nccl_result capo_profiler_open(const struct capo_profiler_info *info, struct capo_profiler **out, int *mask);

/* The parts of an event that the body needs, as the version has them. */
struct capo_profiler_event {
        uint64_t type;
        void **parent;
        void *event;                            /* the whole, for a chained profiler */
        struct capo_seam_ran ran;               /* of a Coll event */
        const struct capo_kernel_event *kernel; /* of a KernelCh event from v4 on; else NULL */
};

/* The functions of the plugin's table; start after the version's adapter has filled @e. The handle of an event that
 * nobody follows is NULL, and NULL may be stopped. */
capo_nccl_result capo_profiler_start(struct capo_profiler *p, void **handle, struct capo_profiler_event *e);
capo_nccl_result capo_profiler_start_v5(void *context, void **handle, void *event); /* as NCCL calls v5 and v6 */
capo_nccl_result capo_profiler_stop(void *handle);
capo_nccl_result capo_profiler_state(void *handle, int state, const void *args);
capo_nccl_result capo_profiler_finish(void *profiler);

/* NCCL's spelling (src/misc/strings, ncclFuncToString and so on) to our numbers, by the letters that differ. */
static inline uint8_t capo_event_call(const char *s)
{
        switch (*s) {
        case 'A':
                return s[3] == 'R' ? CAPO_CALL_ALLREDUCE : s[3] == 'G' && !s[9] ? CAPO_CALL_ALLGATHER : CAPO_CALL_NONE;
        case 'B': return CAPO_CALL_BROADCAST;
        case 'R':
                return s[1] == 'e' && s[2] == 'd' ? (s[6] ? CAPO_CALL_REDUCESCATTER : CAPO_CALL_REDUCE)
                                                  : CAPO_CALL_NONE;
        default: return CAPO_CALL_NONE;
        }
}

static inline uint8_t capo_event_algo_proto(const char *algo, const char *proto)
{
        uint8_t a = CAPO_ALGO_UNKNOWN, p = CAPO_PROTO_UNKNOWN;

        switch (*algo) {
        case 'T': a = CAPO_ALGO_TREE; break;
        case 'R': a = CAPO_ALGO_RING; break;
        case 'N': a = algo[1] && algo[2] && algo[3] && algo[4] ? CAPO_ALGO_NVLS_TREE : CAPO_ALGO_NVLS; break;
        case 'P': a = CAPO_ALGO_PAT; break;
        case 'C': { /* COLLNET_DIRECT, CollNetChain: the letter behind COLLNET */
                const char *kind = algo;

                for (int i = 0; i < 7 && *kind; i++)
                        kind++;
                kind += *kind == '_';
                a = (*kind | 0x20) == 'd' ? CAPO_ALGO_COLLNET_DIRECT : CAPO_ALGO_COLLNET_CHAIN;
                break;
        }
        }
        if (*proto == 'S')
                p = CAPO_PROTO_SIMPLE;
        else if (*proto == 'L')
                p = proto[1] && proto[2] ? CAPO_PROTO_LL128 : CAPO_PROTO_LL;
        return (uint8_t)(a << 4 | p);
}

#endif
