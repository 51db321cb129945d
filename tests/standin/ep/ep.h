/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in of NCCL EP. Ranks of one machine exchange tokens through shared memory: each rank
 * has a segment with a mailbox of two slots for every rank that sends to it. A stream's tasks write
 * and read them, as the kernels of the real library do, so NCCL sees nothing of it.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include <nccl_ep.h>

enum { EP_TOPK = 16, EP_SLOTS = 2 };

/* One token on its way. */
struct ep_token {
        int32_t token;  /* its number at the rank that it comes from */
        int32_t expert; /* combine of an expert-major layout: whose result; else -1 */
        int64_t idx[EP_TOPK];
        float weight[EP_TOPK];
        unsigned char row[];
};

struct ep_slot {
        _Atomic uint64_t sent, taken; /* the number of the exchange, from 1 */
        uint32_t n;
};

struct ep_segment { /* of a rank; its slots follow */
        _Atomic uint64_t barrier, at;
};

struct ncclEpGroup {
        ncclComm_t comm;
        ncclEpGroupConfig_t config;
        int rank, n, local_experts;
        size_t token_size, slot_size, segment_size;
        struct ep_segment **segment; /* [n] */
        uint64_t exchange;           /* of the streams' tasks: one at a time */
        uint64_t barriers, timeout_ns;
        _Atomic int *active; /* [n] */
        _Atomic int error;
        bool lost;
};

/* Where a received token lies in the outputs of a dispatch. */
struct ep_place {
        int32_t source, token, expert; /* -1: the token's row is of all experts of this rank */
        size_t row;
        struct ep_token *came; /* its top-k */
};

struct ncclEpHandle {
        struct ncclEpGroup *group;
        ncclEpLayout_t layout;
        size_t alignment;
        int num_topk;
        _Atomic int refs;
        bool updated; /* in the order of the calls */
        int pending;  /* 0, or what waits for Complete */
        struct ep_call *started;
        size_t tokens; /* of the last update, in the order of the stream */
        int topk;
        int64_t *idx;
        struct ep_place *place; /* of the last dispatch */
        size_t n_places;
        uint64_t exchange; /* of the call that is being made */
};

enum { EP_DISPATCH = 1, EP_COMBINE };

/* A call, as its stream's tasks need it. */
struct ep_call {
        struct ncclEpHandle *handle;
        struct ncclEpGroup *group;
        int what;
        bool kept; /* captured: it may run again */
        bool backward;
        size_t row_bytes, n_rows;
        ncclDataType_t type;
        const void *in;
        const float *in_weights;
        void *out;
        float *out_weights;
        void *out_idx, *counters, *offsets, *source_counters, *total;
        ncclDataType_t idx_type, counter_type, offset_type, total_type;
        bool global_ids;
        int32_t *counts; /* UpdateHandle of high throughput */
        int *mask;
};

/* ep_move.c: the tasks */
void ep_run_update(void *call);
void ep_run_counts(void *call);
void ep_run_send(void *call);
void ep_run_receive(void *call);
void ep_run_clean(void *call);
void ep_call_free(struct ep_call *call);
void ep_handle_free(struct ncclEpHandle *handle);
size_t ep_type_bytes(ncclDataType_t type);

/* the driver's stand-in: the context of this task is lost, as after a kernel's trap */
void standin_lost(void);
