/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One recorded call. The recorder fills this struct, every reader gets it back.
 *
 * Calls, types and operators carry NCCL's own numbers (enum values have never been re-ordered:
 * nccl.h 2.13 to 2.30); the ids of calls are ours: include/capo/calls.def is the list.
 */
#ifndef CAPO_RECORD_H
#define CAPO_RECORD_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The clock that made the duration. A host time of an NCCL call is the enqueue, not the
 * transfer. */
enum capo_clock {
        CAPO_CLOCK_NONE =
                0, /* not timed by itself: member of a group, or captured into a CUDA graph */
        CAPO_CLOCK_HOST = 1, /* host time-stamp counter around the call: enqueue time */
        CAPO_CLOCK_EVENT =
                2, /* pair of CUDA events on the call's stream: waiting for slow peers included */
        CAPO_CLOCK_KERNEL =
                3, /* GPU global timer stamped by NCCL's kernel, through the profiler plugin */
        CAPO_CLOCKS = 4,
};

/* enum capo_algo, capo_proto: NCCL's numbers plus one, so that 0 means "not known". */
enum capo_algo {
        CAPO_ALGO_UNKNOWN = 0,
#define CAPO_ALGO(id, ...) CAPO_ALGO_##id,
#include "capo/algorithms.def"
        CAPO_ALGOS,
};

enum capo_proto {
        CAPO_PROTO_UNKNOWN = 0,
#define CAPO_PROTO(id, ...) CAPO_PROTO_##id,
#include "capo/protocols.def"
        CAPO_PROTOS,
};

/* Kernels beside NCCL's table; they take the place of algorithm and protocol in algo_proto. */
enum capo_kernel {
        CAPO_KERNELS_FROM = 0x80,
#define CAPO_KERNEL(id, number, ...) CAPO_KERNEL_##id = (number),
#include "capo/kernels.def"
};

enum capo_record_flag {
        CAPO_RECORD_MEMBER =
                1, /* a call inside a group; `group` names the group's record, which has the time */
        CAPO_RECORD_GROUP =
                2, /* the group itself: call is CAPO_CALL_GROUP, bytes the sum over members; a group
                      of one call is recorded as that call, with the group's time */
        CAPO_RECORD_CAPTURED =
                4, /* the stream was being captured: it ran, if at all, in graph launches */
        CAPO_RECORD_ASYNC = 8,   /* returned ncclInProgress */
        CAPO_RECORD_CHOSEN = 16, /* of a sample: timed on the GPU as one of the first on its
                                    communicator, or the first or second of its kind and size there,
                                    not by draw: it stands for itself, those drawn for all others */
};

struct capo_record {
#define CAPO_FIELD(type, name, kept) type name;
#include "capo/record_fields.def"
};
static_assert(sizeof(struct capo_record) == 64, "one record, one cache line");

/**
 * capo_record_gpu_begin() - when a call began on the GPU, in ns (of a record out of a log)
 * What the events around it tell: within some microseconds, too early while no event has found its
 * stream idle for seconds. Return: false where that is not known: not timed by events, or by an
 * older capo.
 */
static inline bool capo_record_gpu_begin(const struct capo_record *r, uint64_t *ns)
{
        if (r->clock != CAPO_CLOCK_EVENT || r->flags & CAPO_RECORD_MEMBER || !r->group)
                return false;
        *ns = r->t_begin + (r->group - 1) * UINT64_C(100);
        return true;
}

/**
 * capo_record_waited() - how long the kernel of a call waited for the other ranks before it moved
 * anything, in ns By the GPU's clock; longer than 4.29 s is that. The rest of gpu_ns it moved data,
 * and waited for the others to have theirs. Return: false where that is not known: NCCL's kernel
 * did not tell its phases (CAPO_CLOCK_KERNEL, symmetric kernels, NCCL 2.31).
 */
static inline bool capo_record_waited(const struct capo_record *r, uint64_t *ns)
{
        if (r->clock != CAPO_CLOCK_KERNEL || r->flags & CAPO_RECORD_MEMBER || !r->group)
                return false;
        *ns = r->group - 1;
        return true;
}

/* Tables by call have so much room: a call that is added does not change who only has such a table.
 * The ids are in capo/call_ids.h. */
#define CAPO_CALL_ROOM 64

/* Properties of a call that decide sizes and bus bandwidth; formulas in core/base/calls.h. */
enum capo_call_kind {
        CAPO_KIND_OTHER, /* creates, destroys, asks */
        CAPO_KIND_ALLREDUCE,
        CAPO_KIND_BROADCAST,
        CAPO_KIND_REDUCE,
        CAPO_KIND_ALLGATHER,
        CAPO_KIND_REDUCESCATTER,
        CAPO_KIND_ALLTOALL,
        CAPO_KIND_GATHER,
        CAPO_KIND_SCATTER,
        CAPO_KIND_P2P,
        CAPO_KIND_RMA, /* PutSignal, Signal, WaitSignal */
        CAPO_KIND_GROUP,
};

#endif
