/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's host interface in our own words: names, numbers, layouts and prototypes of nccl.h 2.30
 * that the stand-in has, so that it and the test jobs build without a toolkit. standin_nccl.def is
 * the list of functions; tests/standin/abi_check.c compares both with an installed nccl.h.
 */
#pragma once

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <cuda.h>

typedef struct CUstream_st *cudaStream_t;
typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;
#define NCCL_COMM_NULL       NULL
#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
        char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
        ncclSuccess = 0,
        ncclUnhandledCudaError = 1,
        ncclSystemError = 2,
        ncclInternalError = 3,
        ncclInvalidArgument = 4,
        ncclInvalidUsage = 5,
        ncclRemoteError = 6,
        ncclInProgress = 7,
        ncclTimeout = 8, /* from 2.30 on; before, the number of results */
} ncclResult_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_CONFIG_MAGIC     0xcafebeef
#define NCCL_SPLIT_NOCOLOR    -1
#define NCCL_UNDEF_FLOAT      -1.0f
#define NCCL_SHRINK_DEFAULT   0
#define NCCL_SHRINK_ABORT     1

/* As of 2.28; `size` says how much of it the caller has, and younger releases append. */
typedef struct {
        size_t size;
        unsigned int magic;
        unsigned int version;
        int blocking;
        int cgaClusterSize;
        int minCTAs;
        int maxCTAs;
        const char *netName;
        int splitShare;
        int trafficClass;
        const char *commName;
        int collnetEnable;
        int CTAPolicy;
        int shrinkShare;
        int nvlsCTAs;
        int nChannelsPerNetPeer;
        int nvlinkCentricSched;
} ncclConfig_t;
#define NCCL_CONFIG_INITIALIZER                                                                    \
        {                                                                                          \
                sizeof(ncclConfig_t), NCCL_CONFIG_MAGIC, 22809, INT_MIN, INT_MIN, INT_MIN,         \
                        INT_MIN, NULL, INT_MIN, INT_MIN, NULL, INT_MIN, INT_MIN, INT_MIN, INT_MIN, \
                        INT_MIN, INT_MIN                                                           \
        }

/* How one call is to be done (2.31). */
typedef struct {
        size_t size;
        unsigned int magic;
        unsigned int version;
        void *ext;
        int minCTAs;
        int maxCTAs;
        int nvlsCTAs;
        int cgaClusterSize;
        const char *algSelection;
        int forceAlgSelection;
        int CTAPolicy;
        uint64_t userProfilerTag;
        void *launchCompletionEvent; /* 2.32 */
} ncclCollConfig_t;
#define NCCL_COLLCONFIG_INITIALIZER                                                         \
        {                                                                                   \
                sizeof(ncclCollConfig_t), NCCL_CONFIG_MAGIC, 23203, NULL, INT_MIN, INT_MIN, \
                        INT_MIN, INT_MIN, NULL, 1, INT_MIN, 0, NULL                         \
        }

typedef struct {
        size_t size;
        unsigned int magic;
        unsigned int version;
        float estimatedTime;
} ncclSimInfo_t;
#define NCCL_SIM_INFO_MAGIC 0x74685283
#define NCCL_SIM_INFO_INITIALIZER                                                   \
        {                                                                           \
                sizeof(ncclSimInfo_t), NCCL_SIM_INFO_MAGIC, 22809, NCCL_UNDEF_FLOAT \
        }

typedef enum {
        ncclSum = 0,
        ncclProd = 1,
        ncclMax = 2,
        ncclMin = 3,
        ncclAvg = 4,
        ncclNumOps = 5,
        ncclMaxRedOp = 0x7fffffff,
} ncclRedOp_t;

typedef enum {
        ncclInt8 = 0,
        ncclChar = 0,
        ncclUint8 = 1,
        ncclInt32 = 2,
        ncclInt = 2,
        ncclUint32 = 3,
        ncclInt64 = 4,
        ncclUint64 = 5,
        ncclFloat16 = 6,
        ncclHalf = 6,
        ncclFloat32 = 7,
        ncclFloat = 7,
        ncclFloat64 = 8,
        ncclDouble = 8,
        ncclBfloat16 = 9,
        ncclFloat8e4m3 = 10,
        ncclFloat8e5m2 = 11,
        ncclNumTypes = 12,
} ncclDataType_t;

typedef enum {
        ncclScalarDevice = 0,
        ncclScalarHostImmediate = 1,
} ncclScalarResidence_t;

typedef struct {
        int opCnt, peer, sigIdx, ctx;
} ncclWaitSignalDesc_t; /* 2.29 */

#define NCCL(result, name, since, params) \
        result nccl##name params;         \
        result pnccl##name params;
#include "standin_nccl.def"
