/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers that tests name are those of the lists. */
#include <criterion/criterion.h>

#include "capo/call_kinds.h"
#include "core/base/calls.h"
#include "analysis/log/log_read.h"
#include "tests/log_numbers.h"

Test(log_numbers, calls)
{
        static const struct {
                unsigned call;
                const char *name;
        } rows[] = {
                {CAPO_CALL_NONE, "?"},
                {CAPO_CALL_ALLREDUCE, "AllReduce"},
                {CAPO_CALL_BROADCAST, "Broadcast"},
                {CAPO_CALL_BCAST, "Bcast"},
                {CAPO_CALL_REDUCE, "Reduce"},
                {CAPO_CALL_ALLGATHER, "AllGather"},
                {CAPO_CALL_REDUCESCATTER, "ReduceScatter"},
                {CAPO_CALL_ALLTOALL, "AlltoAll"},
                {CAPO_CALL_GATHER, "Gather"},
                {CAPO_CALL_SCATTER, "Scatter"},
                {CAPO_CALL_SEND, "Send"},
                {CAPO_CALL_RECV, "Recv"},
                {CAPO_CALL_PUTSIGNAL, "PutSignal"},
                {CAPO_CALL_GROUP, "Group"},
                {CAPO_CALL_COMMINIT, "CommInit"},
                {CAPO_CALL_COMMSPLIT, "CommSplit"},
                {CAPO_CALL_COMMFINALIZE, "CommFinalize"},
                {CAPO_CALL_COMMDESTROY, "CommDestroy"},
                {CAPO_CALL_COMMABORT, "CommAbort"},
                {CAPO_CALL_MEMALLOC, "MemAlloc"},
        };

        for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
                cr_expect_str_eq(capo_call_name(rows[i].call), rows[i].name);
}

Test(log_numbers, choices)
{
        cr_expect_str_eq(capo_algo_name(CAPO_ALGO_UNKNOWN), "-");
        cr_expect_str_eq(capo_algo_name(CAPO_ALGO_TREE), "Tree");
        cr_expect_str_eq(capo_algo_name(CAPO_ALGO_RING), "Ring");
        cr_expect_str_eq(capo_algo_name(CAPO_ALGO_COLLNET_DIRECT), "CollNetDirect");
        cr_expect_str_eq(capo_algo_name(CAPO_ALGO_COLLNET_CHAIN), "CollNetChain");
        cr_expect_str_eq(capo_algo_name(CAPO_ALGO_NVLS), "NVLS");
        cr_expect_str_eq(capo_algo_name(CAPO_ALGO_NVLS_TREE), "NVLSTree");
        cr_expect_str_eq(capo_algo_name(CAPO_ALGO_PAT), "PAT");
        cr_expect_str_eq(capo_proto_name(CAPO_PROTO_UNKNOWN), "-");
        cr_expect_str_eq(capo_proto_name(CAPO_PROTO_LL), "LL");
        cr_expect_str_eq(capo_proto_name(CAPO_PROTO_LL128), "LL128");
        cr_expect_str_eq(capo_proto_name(CAPO_PROTO_SIMPLE), "Simple");
        cr_expect_str_eq(capo_coll_word(CAPO_COLL_BROADCAST), "broadcast");
        cr_expect_str_eq(capo_coll_word(CAPO_COLL_REDUCE), "reduce");
        cr_expect_str_eq(capo_coll_word(CAPO_COLL_ALLGATHER), "allgather");
        cr_expect_str_eq(capo_coll_word(CAPO_COLL_REDUCESCATTER), "reducescatter");
        cr_expect_str_eq(capo_coll_word(CAPO_COLL_ALLREDUCE), "allreduce");
}

Test(log_numbers, kernels)
{
        cr_expect_str_eq(capo_ran_algo(CAPO_KERNEL_COPY_ENGINE), "copy");
        cr_expect_eq(capo_symk_find("unheard of"), CAPO_KERNEL_SYMK);
        cr_expect_str_eq(capo_ran_proto(CAPO_KERNEL_SYMK_LL), "LL");
        cr_expect_str_eq(capo_ran_proto(CAPO_KERNEL_SYMK_AGXLL_R), "AGxLL_R");
        cr_expect_str_eq(capo_ran_proto(CAPO_KERNEL_SYMK_RSXLD_AGXST), "RSxLD_AGxST");
}

Test(log_numbers, frames)
{
        cr_expect_str_eq(capo_frame_name(CAPO_FRAME_INFO), "INFO");
        cr_expect_str_eq(capo_frame_name(CAPO_FRAME_COMM), "COMM");
        cr_expect_str_eq(capo_frame_name(CAPO_FRAME_SITE), "SITE");
        cr_expect_str_eq(capo_frame_name(CAPO_FRAME_SHAPE), "SHAPE");
        cr_expect_str_eq(capo_frame_name(CAPO_FRAME_BLOCK), "BLOCK");
        cr_expect_str_eq(capo_frame_name(CAPO_FRAME_WIDE), "WIDE");
        cr_expect_str_eq(capo_frame_name(CAPO_FRAME_CELL), "CELL");
        cr_expect_str_eq(capo_frame_name(CAPO_FRAME_END), "END");
        cr_expect_str_eq(capo_frame_name(CAPO_FRAME_FABRIC), "FABRIC");
        cr_expect_str_eq(capo_frame_name(CAPO_FRAME_RULES), "RULES");
        cr_expect_str_eq(capo_frame_name(CAPO_FRAME_HANG), "HANG");
}
