/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled by abi_check.sh against an installed nccl.h: our list of functions, our numbers and
 * layouts agree with it.
 */
#include <stddef.h>
#include <nccl.h>

/* What a header of this age does not have yet. */
#ifndef STANDIN_DRIVER /* that is: in nccl.h proper */
#if NCCL_VERSION_CODE < 22902
ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *id);
typedef struct {
        int opCnt, peer, sigIdx, ctx;
} ncclWaitSignalDesc_t;
ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void **ptr);
ncclResult_t ncclPutSignal(const void *, size_t, ncclDataType_t, int, ncclWindow_t, size_t, int,
                           int, unsigned int, ncclComm_t, cudaStream_t);
ncclResult_t ncclSignal(int, int, int, unsigned int, ncclComm_t, cudaStream_t);
ncclResult_t ncclWaitSignal(int, ncclWaitSignalDesc_t *, ncclComm_t, cudaStream_t);
ncclResult_t ncclCommGrow(ncclComm_t, int, const ncclUniqueId *, int, ncclComm_t *, ncclConfig_t *);
#endif
#if NCCL_VERSION_CODE < 22907
ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags);
ncclResult_t ncclCommResume(ncclComm_t comm);
#endif
#if NCCL_VERSION_CODE < 23102
typedef struct how ncclCollConfig_t;
#define HOW ncclComm_t, cudaStream_t, const ncclCollConfig_t *
ncclResult_t ncclAllReduceConfig(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, HOW);
ncclResult_t ncclBroadcastConfig(const void *, void *, size_t, ncclDataType_t, int, HOW);
ncclResult_t ncclReduceConfig(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, int, HOW);
ncclResult_t ncclAllGatherConfig(const void *, void *, size_t, ncclDataType_t, HOW);
ncclResult_t ncclReduceScatterConfig(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t,
                                     HOW);
ncclResult_t ncclAlltoAllConfig(const void *, void *, size_t, ncclDataType_t, HOW);
ncclResult_t ncclGatherConfig(const void *, void *, size_t, ncclDataType_t, int, HOW);
ncclResult_t ncclScatterConfig(const void *, void *, size_t, ncclDataType_t, int, HOW);
#endif

#endif

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#define NCCL(result, name, since, params)                                                   \
        _Static_assert(__builtin_types_compatible_p(__typeof__(nccl##name), result params), \
                       "nccl" #name ": the prototype differs");
#include "include/standin_nccl.def"

#define IS(name, value) _Static_assert((name) == (value), #name);
IS(ncclRemoteError, 6)
IS(ncclInProgress, 7)
IS(ncclFloat16, 6)
IS(ncclBfloat16, 9)
IS(ncclFloat8e4m3, 10)
IS(ncclFloat8e5m2, 11)
IS(ncclNumTypes, 12)
IS(ncclAvg, 4)
IS(ncclNumOps, 5)
IS(ncclScalarDevice, 0)
IS(ncclScalarHostImmediate, 1)
IS(NCCL_UNIQUE_ID_BYTES, 128)
IS(NCCL_SHRINK_ABORT, 1)
IS(offsetof(ncclConfig_t, magic), 8)
IS(offsetof(ncclConfig_t, blocking), 16)
IS(offsetof(ncclConfig_t, maxCTAs), 28)
IS(offsetof(ncclConfig_t, netName), 32)
IS(offsetof(ncclConfig_t, commName), 48)
IS(offsetof(ncclConfig_t, nvlinkCentricSched), 76)
IS(offsetof(ncclSimInfo_t, estimatedTime), 16)
