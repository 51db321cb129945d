/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one recorded call is. Everything that records fills this struct, everything that reads gets it back.
 *
 * Calls, types and operators carry NCCL's own numbers (enum values have never been re-ordered: nccl.h 2.13 to 2.30);
 * the ids of calls are ours: include/capo/calls.def is the list.
 */
#ifndef CAPO_RECORD_H
#define CAPO_RECORD_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/* Which clock made the duration that counts (facts: a host time of an NCCL call is the enqueue, not the transfer). */
enum capo_clock {
        CAPO_CLOCK_NONE = 0,   /* not timed by itself: member of a group, or captured into a CUDA graph */
        CAPO_CLOCK_HOST = 1,   /* host time-stamp counter around the call: enqueue time */
        CAPO_CLOCK_EVENT = 2,  /* pair of CUDA events on the call's stream: waiting for slow peers included */
        CAPO_CLOCK_KERNEL = 3, /* GPU global timer stamped by NCCL's kernel, through the profiler plugin */
        CAPO_CLOCKS = 4,
};

/* enum capo_algo, capo_proto: NCCL's numbers plus one, so that 0 means "not known". */
enum capo_algo {
        CAPO_ALGO_UNKNOWN = 0,
#define CAPO_ALGO(id, ...) CAPO_ALGO_##id,
#include "capo/algorithms.def"
#undef CAPO_ALGO
        CAPO_ALGOS,
};

enum capo_proto {
        CAPO_PROTO_UNKNOWN = 0,
#define CAPO_PROTO(id, ...) CAPO_PROTO_##id,
#include "capo/protocols.def"
#undef CAPO_PROTO
        CAPO_PROTOS,
};

enum capo_record_flag {
        CAPO_RECORD_MEMBER = 1,   /* a call inside a group; `group` names the group's record, which has the time */
        CAPO_RECORD_GROUP = 2,    /* the group itself: call is CAPO_CALL_GROUP, bytes the sum over members; a group of
                                     one call is recorded as that call, with the group's time */
        CAPO_RECORD_CAPTURED = 4, /* the stream was being captured: it ran, if at all, in graph launches */
        CAPO_RECORD_ASYNC = 8,    /* returned ncclInProgress */
        CAPO_RECORD_NET = 16,     /* a libfabric event */
};

struct capo_record {
        uint64_t t_begin;   /* host; time-stamp counter ticks in the ring, ns since the log's epoch when read back */
        uint64_t t_end;     /* host, same unit; >= t_begin */
        uint64_t bytes;     /* as nccl-tests' "size": all-gather, reduce-scatter, all-to-all, gather, scatter the total
                               over ranks (count x element x ranks), else count x element */
        uint32_t stream;    /* handle, folded to 32 bits: equal streams are equal */
        uint32_t seq;       /* 1, 2, ... per communicator: number of the collective on it, the same on all its ranks;
                               p2p and RMA count by themselves; 0 for other calls; a group's is the group number */
        uint32_t group;     /* number of the group in this process (members and the group itself), 0 outside */
        int32_t peer;       /* root of rooted collectives, peer of send/recv; -1 when neither */
        uint16_t comm;      /* index in this process's table of communicators, 0 when none */
        uint16_t site;      /* index in this process's table of call sites, 0 when unknown */
        uint16_t rule;      /* 1 + index of the profile row (or sweep candidate) that decided, 0 when none did */
        uint8_t call;       /* enum capo_call_id */
        uint8_t type;       /* ncclDataType_t, 255 when none */
        uint8_t op;         /* ncclRedOp_t; user operators 254; 255 when none */
        int8_t result;      /* ncclResult_t */
        uint8_t clock;      /* enum capo_clock */
        uint8_t flags;      /* enum capo_record_flag */
        uint8_t algo_proto; /* enum capo_algo << 4 | enum capo_proto, of what really ran; 0 when not known */
        uint8_t channels;   /* 0 when not known */
        uint16_t thread;    /* number of the recording thread in this process, 1 .. */
        uint32_t gpu_begin; /* 16 ns units after t_begin; 0: not known. Readers use it where a log has it; the recorder
                               here never knows it (docs/log-format.md, "When it ran on the GPU") */
        uint32_t gpu_ns;    /* duration by the clock named, saturated; 0 unless clock is EVENT or KERNEL */
};
static_assert(sizeof(struct capo_record) == 64, "one record, one cache line");

enum capo_call_id {
        CAPO_CALL_NONE = 0,
#define CAPO_CALL(id, name, kind) CAPO_CALL_##id,
#include "capo/calls.def"
#undef CAPO_CALL
        CAPO_CALLS,
};

/* What a call does to sizes and bus bandwidth; formulas in core/base/calls.h. */
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
