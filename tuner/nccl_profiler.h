/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's profiler plugin ABI in our own words, versions 1 to 7, as far as capo looks into it: the
 * head of every event and the Coll and KernelCh events. Layouts: nccl
 * src/include/plugin/profiler/profiler_v1.h .. profiler_v6.h of 2.30.7, profiler_v7.h of a public
 * copy of 2.31.
 *
 *   v1  2.23.4   codes            v3  2.26.2   KernelCh               v5  2.28.3   64-bit type,
 *       parentGroup
 *   v2  2.24.3   strings          v4  2.27.3   names, GPU time stamps  v6  2.29.2   copy-engine
 *       events
 *   v7  2.31.2   at the end of events: the caller's tag, the kernel of symmetric collectives;
 *       phases of a kernel */
#pragma once

#include "tuner/nccl_plugin.h"

enum { /* event types, also the bits of the mask */
       CAPO_EVENT_GROUP = 1,
       CAPO_EVENT_COLL = 2,
       CAPO_EVENT_P2P = 4,
       CAPO_EVENT_PROXY_OP = 8,
       CAPO_EVENT_PROXY_STEP = 16,
       CAPO_EVENT_PROXY_CTRL = 32,
       CAPO_EVENT_KERNEL = 64,
       CAPO_EVENT_NET = 128,
       CAPO_EVENT_GROUP_API = 256,
       CAPO_EVENT_COLL_API = 512,
       CAPO_EVENT_P2P_API = 1024,
       CAPO_EVENT_KERNEL_LAUNCH = 2048,
       CAPO_EVENT_CE_COLL = 4096, /* v6, as the next two: a collective by copy engines */
       CAPO_EVENT_CE_SYNC = 8192,
       CAPO_EVENT_CE_BATCH = 16384,
       CAPO_EVENT_KERNEL_PHASE = 32768, /* v7; KernelCh comes along */
};
#define CAPO_STATE_KERNEL_STOP 22 /* ncclProfilerKernelChStop; its argument is the GPU time */

struct capo_kernel_event { /* v4 on */
        uint8_t channel;
        uint64_t timer; /* GPU global timer, ns */
};

struct capo_phase_event { /* v7; symmetric kernels have them */
        uint8_t channel;
        uint8_t phase; /* 0 initial_sync, 1 compute, 2 final_sync; one without time is left out */
        const char *name;
        uint64_t timer; /* its begin, as above */
};

/* What versions have in common, in its order. */
#define CAPO_EVENT_HEAD(type_bits) \
        uint##type_bits##_t type;  \
        void *parent;              \
        int rank;
#define CAPO_EVENT_COMM   \
        const char *name; \
        uint64_t comm_hash;
#define CAPO_EVENT_CALL   \
        uint64_t seq;     \
        const char *func; \
        const void *send; \
        void *recv;       \
        size_t count;     \
        int root;         \
        const char *datatype;
#define CAPO_EVENT_WAY(how_many) \
        uint8_t how_many;        \
        uint8_t n_warps;         \
        const char *algo;        \
        const char *proto;

struct capo_event_v1 {
        CAPO_EVENT_HEAD(8)
        union {
                struct {
                        CAPO_EVENT_COMM
                        uint64_t seq;
                        uint8_t func;
                        const void *send;
                        void *recv;
                        size_t count;
                        int root;
                        uint8_t datatype;
                        uint32_t op;
                        size_t traffic;
                        uint8_t max_channels;
                        uint8_t n_warps;
                        uint8_t algo;
                        uint8_t proto;
                        int collnet, nvls;
                } coll;
        };
};

struct capo_event_v2 {
        CAPO_EVENT_HEAD(8)
        union {
                struct {
                        CAPO_EVENT_COMM
                        CAPO_EVENT_CALL
                        size_t traffic;
                        CAPO_EVENT_WAY(max_channels)
                } coll;
        };
};

struct capo_event_v3 {
        CAPO_EVENT_HEAD(8)
        union {
                struct {
                        CAPO_EVENT_COMM
                        CAPO_EVENT_CALL
                        CAPO_EVENT_WAY(max_channels)
                } coll;
        };
};

struct capo_event_v4 {
        CAPO_EVENT_HEAD(8)
        union {
                struct {
                        CAPO_EVENT_CALL
                        CAPO_EVENT_WAY(n_channels)
                } coll;
                struct capo_kernel_event kernel;
        };
};

struct capo_event_v5 { /* and v6 */
        CAPO_EVENT_HEAD(64)
        union {
                struct {
                        CAPO_EVENT_CALL
                        CAPO_EVENT_WAY(n_channels)
                        void *parent_group;
                } coll;
                struct { /* v6; what follows the call is not read */
                        CAPO_EVENT_CALL
                } ce;
                struct capo_kernel_event kernel;
        };
};

struct capo_event_v7 { /* v5's, with more behind each kind: whoever knows v5 or v6 reads it, too */
        CAPO_EVENT_HEAD(64)
        union {
                struct {
                        CAPO_EVENT_CALL
                        CAPO_EVENT_WAY(n_channels)
                        void *parent_group;
                        const char *kernel_variant;
                        uint8_t is_symmetric; /* a bool there; kernel_variant ran: algo and proto
                                                 say nothing */
                        uint64_t tag;         /* as the caller gave it */
                } coll;
                struct {
                        CAPO_EVENT_CALL
                        const char *sync;
                        uint8_t intra_batch; /* a bool there */
                        uint32_t batch_size, n_batches, ce_seq;
                        void *stream;
                        uint64_t tag;
                } ce;
                struct capo_kernel_event kernel;
                struct capo_phase_event phase;
        };
};
static_assert(offsetof(struct capo_event_v7, coll.parent_group) ==
                      offsetof(struct capo_event_v5, coll.parent_group),
              "profiler_v7.h: only added to");
static_assert(offsetof(struct capo_event_v7, coll.kernel_variant) == 24 + 88 &&
                      offsetof(struct capo_event_v7, coll.tag) == 24 + 104 &&
                      offsetof(struct capo_event_v7, ce.tag) == 24 + 88 &&
                      offsetof(struct capo_event_v7, phase.timer) == 24 + 16,
              "profiler_v7.h");
static_assert(offsetof(struct capo_event_v1, coll) == 24 &&
                      offsetof(struct capo_event_v5, coll) == 24,
              "one head");
static_assert(offsetof(struct capo_event_v1, coll.algo) == 24 + 82, "profiler_v1.h");
static_assert(offsetof(struct capo_event_v2, coll.algo) == 24 + 88, "profiler_v2.h");
static_assert(offsetof(struct capo_event_v3, coll.algo) == 24 + 80, "profiler_v3.h");
static_assert(offsetof(struct capo_event_v4, coll.algo) == 24 + 64, "profiler_v4.h");
static_assert(offsetof(struct capo_event_v5, coll.algo) == 24 + 64, "profiler_v5.h");

/* All versions: name, init, startEvent, stopEvent, recordEventState, finalize; init differs. */
#define CAPO_PROFILER(v, init_args)                                                          \
        struct capo_profiler_v##v {                                                          \
                const char *name;                                                            \
                capo_nccl_result(*init) init_args;                                           \
                capo_nccl_result (*start_event)(void *context, void **handle, void *event);  \
                capo_nccl_result (*stop_event)(void *handle);                                \
                capo_nccl_result (*record_state)(void *handle, int state, const void *args); \
                capo_nccl_result (*finalize)(void *context);                                 \
        };
#define CAPO_PROFILER_INIT_1 (void **context, int *mask)
#define CAPO_PROFILER_INIT_4                                                              \
        (void **context, int *mask, const char *comm_name, uint64_t comm_id, int n_nodes, \
         int n_ranks, int rank, capo_nccl_log log)
#define CAPO_PROFILER_INIT_5                                                              \
        (void **context, uint64_t comm_id, int *mask, const char *comm_name, int n_nodes, \
         int n_ranks, int rank, capo_nccl_log log)
CAPO_PROFILER(1, CAPO_PROFILER_INIT_1)
CAPO_PROFILER(2, CAPO_PROFILER_INIT_1)
CAPO_PROFILER(3, CAPO_PROFILER_INIT_1)
CAPO_PROFILER(4, CAPO_PROFILER_INIT_4)
CAPO_PROFILER(5, CAPO_PROFILER_INIT_5)
CAPO_PROFILER(6, CAPO_PROFILER_INIT_5)
CAPO_PROFILER(7, CAPO_PROFILER_INIT_5)
#undef CAPO_PROFILER
