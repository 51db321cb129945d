/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers that logs and profiles hold, for tests that name one. They have the names of the enums of
 * include/capo/, and a file includes either this or those. The numbers never change, because old
 * logs have them; so a new row in calls.def, algorithms.def, protocols.def, collectives.def,
 * kernels.def or log_frames.def does not rebuild every test. Only what a test names is here.
 * tests/unit/test_log_numbers.c compares them with the lists.
 */
#pragma once

#include "capo/call_kinds.h"

/* capo/call_ids.h */
enum {
        CAPO_CALL_NONE = 0,
        CAPO_CALL_ALLREDUCE = 1,
        CAPO_CALL_BROADCAST = 2,
        CAPO_CALL_BCAST = 3,
        CAPO_CALL_REDUCE = 4,
        CAPO_CALL_ALLGATHER = 5,
        CAPO_CALL_REDUCESCATTER = 6,
        CAPO_CALL_ALLTOALL = 7,
        CAPO_CALL_GATHER = 8,
        CAPO_CALL_SCATTER = 9,
        CAPO_CALL_SEND = 10,
        CAPO_CALL_RECV = 11,
        CAPO_CALL_PUTSIGNAL = 12,
        CAPO_CALL_GROUP = 15,
        CAPO_CALL_COMMINIT = 16,
        CAPO_CALL_COMMSPLIT = 17,
        CAPO_CALL_COMMSHRINK = 18,
        CAPO_CALL_COMMGROW = 19,
        CAPO_CALL_COMMFINALIZE = 20,
        CAPO_CALL_COMMDESTROY = 21,
        CAPO_CALL_COMMABORT = 22,
        CAPO_CALL_MEMALLOC = 30,
};

/* capo/algorithms.h */
enum {
        CAPO_ALGO_UNKNOWN = 0,
        CAPO_ALGO_TREE = 1,
        CAPO_ALGO_RING = 2,
        CAPO_ALGO_COLLNET_DIRECT = 3,
        CAPO_ALGO_COLLNET_CHAIN = 4,
        CAPO_ALGO_NVLS = 5,
        CAPO_ALGO_NVLS_TREE = 6,
        CAPO_ALGO_PAT = 7,
};
enum {
        CAPO_PROTO_UNKNOWN = 0,
        CAPO_PROTO_LL = 1,
        CAPO_PROTO_LL128 = 2,
        CAPO_PROTO_SIMPLE = 3,
};

/* capo/collectives.h */
enum {
        CAPO_COLL_BROADCAST = 0,
        CAPO_COLL_REDUCE = 1,
        CAPO_COLL_ALLGATHER = 2,
        CAPO_COLL_REDUCESCATTER = 3,
        CAPO_COLL_ALLREDUCE = 4,
};

/* capo/kernels.h */
enum {
        CAPO_KERNEL_COPY_ENGINE = 0x84,
        CAPO_KERNEL_SYMK = 0x85,
        CAPO_KERNEL_SYMK_LL = 0x86,
        CAPO_KERNEL_SYMK_AGXLL_R = 0x8c,
        CAPO_KERNEL_SYMK_RSXLD_AGXST = 0x8e,
};

/* capo/frame_types.h */
enum {
        CAPO_FRAME_INFO = 1,
        CAPO_FRAME_COMM = 2,
        CAPO_FRAME_SITE = 3,
        CAPO_FRAME_SHAPE = 4,
        CAPO_FRAME_BLOCK = 5,
        CAPO_FRAME_WIDE = 6,
        CAPO_FRAME_CELL = 7,
        CAPO_FRAME_END = 8,
        CAPO_FRAME_FABRIC = 9,
        CAPO_FRAME_RULES = 10,
        CAPO_FRAME_HANG = 11,
        CAPO_FRAME_MACHINE = 12,
};
