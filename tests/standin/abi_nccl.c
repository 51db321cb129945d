/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled by abi_check.sh against an installed nccl.h: our list of functions, our numbers and
 * layouts agree with it.
 */
#include <stddef.h>
#include <nccl.h>

/* Types that a header of this age does not have yet. */
#ifndef STANDIN_DRIVER /* that is: in nccl.h proper */
#if NCCL_VERSION_CODE < 22902
typedef struct {
        int opCnt, peer, sigIdx, ctx;
} ncclWaitSignalDesc_t;
#endif
#if NCCL_VERSION_CODE < 23102
typedef struct how ncclCollConfig_t;
#endif
#endif

/* Each function once more: the compiler compares it with the header's, where the header has it. */
#define NCCL(result, name, since, params) result nccl##name params;
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
