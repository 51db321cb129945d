/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiled against an nccl.h: our types, numbers and prototypes are those of that release. Nothing
 * here runs; that it compiles is the test. Needs cuda_runtime.h beside nccl.h.
 */
#define ncclResult_t           capo_ncclResult_t
#define ncclComm_t             capo_ncclComm_t
#define ncclWindow_t           capo_ncclWindow_t
#define ncclParamHandle_t      capo_ncclParamHandle_t
#define cudaStream_t           capo_cudaStream_t
#define ncclDataType_t         capo_ncclDataType_t
#define ncclRedOp_t            capo_ncclRedOp_t
#define ncclScalarResidence_t  capo_ncclScalarResidence_t
#define ncclCommMemStat_t      capo_ncclCommMemStat_t
#define ncclUniqueId           capo_ncclUniqueId
#define ncclConfig_t           capo_ncclConfig_t
#define ncclCollConfig_t       capo_ncclCollConfig_t
#define ncclEncryptionConfig_t capo_ncclEncryptionConfig_t
#define ncclSimInfo_t          capo_ncclSimInfo_t
#define ncclWaitSignalDesc_t   capo_ncclWaitSignalDesc_t
#define ncclSuccess            capo_ncclSuccess
#define ncclUnhandledCudaError capo_ncclUnhandledCudaError
#define ncclSystemError        capo_ncclSystemError
#define ncclInternalError      capo_ncclInternalError
#define ncclInvalidArgument    capo_ncclInvalidArgument
#define ncclInvalidUsage       capo_ncclInvalidUsage
#define ncclRemoteError        capo_ncclRemoteError
#define ncclInProgress         capo_ncclInProgress
#include "shim/record/nccl_abi.h"
#undef ncclResult_t
#undef ncclComm_t
#undef ncclWindow_t
#undef ncclParamHandle_t
#undef cudaStream_t
#undef ncclDataType_t
#undef ncclRedOp_t
#undef ncclScalarResidence_t
#undef ncclCommMemStat_t
#undef ncclUniqueId
#undef ncclConfig_t
#undef ncclCollConfig_t
#undef ncclEncryptionConfig_t
#undef ncclSimInfo_t
#undef ncclWaitSignalDesc_t
#undef ncclSuccess
#undef ncclUnhandledCudaError
#undef ncclSystemError
#undef ncclInternalError
#undef ncclInvalidArgument
#undef ncclInvalidUsage
#undef ncclRemoteError
#undef ncclInProgress
#include <stdint.h>

#define NCCL_OS_LINUX /* for ncclResetDebugInit */
#include <nccl.h>

#define SAME_SIZE(t)   _Static_assert(sizeof(t) == sizeof(capo_##t), #t)
#define SAME_NUMBER(n) _Static_assert((int)n == (int)capo_##n, #n)
SAME_SIZE(ncclResult_t);
SAME_SIZE(ncclComm_t);
SAME_SIZE(ncclDataType_t);
SAME_SIZE(ncclRedOp_t);
SAME_SIZE(ncclScalarResidence_t);
SAME_SIZE(ncclUniqueId);
SAME_SIZE(cudaStream_t);
SAME_NUMBER(ncclSuccess);
SAME_NUMBER(ncclUnhandledCudaError);
SAME_NUMBER(ncclSystemError);
SAME_NUMBER(ncclInternalError);
SAME_NUMBER(ncclInvalidArgument);
SAME_NUMBER(ncclInvalidUsage);
SAME_NUMBER(ncclRemoteError);
_Static_assert(ncclInt8 == 0 && ncclUint8 == 1 && ncclInt32 == 2 && ncclUint32 == 3 &&
                       ncclInt64 == 4 && ncclUint64 == 5 && ncclFloat16 == 6 && ncclFloat32 == 7 &&
                       ncclFloat64 == 8,
               "types, as core/base/calls.c and capo_bytes() have them");
_Static_assert(ncclSum == 0 && ncclProd == 1 && ncclMax == 2 && ncclMin == 3 && ncclAvg == 4,
               "operators");
#if NCCL_VERSION_CODE >= 21403
SAME_NUMBER(ncclInProgress);
_Static_assert(offsetof(ncclConfig_t, blocking) == offsetof(capo_ncclConfig_t, blocking), "config");
#endif
#if NCCL_VERSION_CODE >= 22403
_Static_assert(ncclBfloat16 == 9 && ncclFloat8e4m3 == 10 && ncclFloat8e5m2 == 11, "types of 2.24");
#endif
#if NCCL_VERSION_CODE >= 22703
_Static_assert(offsetof(ncclConfig_t, commName) == offsetof(capo_ncclConfig_t, commName),
               "config of 2.27");
SAME_SIZE(ncclWindow_t);
#endif

#if NCCL_VERSION_CODE >= 23102
#define SAME_PLACE(field)                                              \
        _Static_assert(offsetof(ncclCollConfig_t, field) ==            \
                               offsetof(capo_ncclCollConfig_t, field), \
                       #field)
SAME_PLACE(size);
SAME_PLACE(magic);
SAME_PLACE(minCTAs);
SAME_PLACE(maxCTAs);
SAME_PLACE(nvlsCTAs);
SAME_PLACE(cgaClusterSize);
SAME_PLACE(algSelection);
SAME_PLACE(forceAlgSelection);
SAME_PLACE(CTAPolicy);
SAME_PLACE(userProfilerTag);
_Static_assert(NCCL_API_MAGIC == CAPO_NCCL_CONFIG_MAGIC, "magic of configs");
#endif
#if NCCL_VERSION_CODE >= 23203
SAME_PLACE(launchCompletionEvent);
#endif

/* Each row's prototype is nccl.h's, with nccl.h's own types. */
#if NCCL_VERSION_CODE == \
        23004 /* handed ncclParam* a pointer to its handle: another type, the same register */
#define CAPO_NCCL_CODE 23003
#else
#define CAPO_NCCL_CODE NCCL_VERSION_CODE
#endif
#define SAME_TYPE(type, name, params) \
        _Static_assert(__builtin_types_compatible_p(__typeof__(&name), type(*) params), #name);
#define CALL(name, params, args, id, comm, stream, ...) SAME_TYPE(ncclResult_t, name, params)
#define HAND(name, params, args)                        SAME_TYPE(ncclResult_t, name, params)
#define PASS(type, name, params, args, missing)         SAME_TYPE(type, name, params)
#include "capo/nccl_calls.def"

int main(void) { return 0; }
