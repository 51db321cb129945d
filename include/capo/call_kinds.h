/* SPDX-License-Identifier: Apache-2.0 */
/* What kind of call it is and how it was timed. No list (.def) is included here, because nearly
 * every file includes this header: a list's new row then rebuilds only files that name its rows. */
#pragma once

/* The clock of a duration. A host time of an NCCL call is the enqueue, not the transfer. */
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

/* Tables by call have so much room: a call that is added does not change who only has such a table.
 * The ids are in capo/call_ids.h. */
#define CAPO_CALL_ROOM 64

/* In algo_proto, numbers from here on are kernels beside NCCL's table (enum capo_kernel). */
#define CAPO_KERNELS_FROM 0x80

/* The collectives that NCCL asks a tuner about, and the rows and columns of its cost table. These
 * sizes are part of NCCL's interfaces. capo/collectives.h and capo/algorithms.h compare them. */
#define CAPO_NCCL_COLLS  5
#define CAPO_NCCL_ALGOS  7
#define CAPO_NCCL_PROTOS 3

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
        CAPO_KIND_EXCHANGE, /* a collective in which each rank has a size of its own: EpDispatch, EpCombine, Reshard */
};
