/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's binary interface in our own words, so that one libcapo.so serves every release from 2.13
 * on and needs no nccl.h to build. Only what the wrappers touch has a body.
 * tests/preload/check_abi.c compares all of this, and the prototypes of nccl_calls.def, with every
 * nccl.h that is installed. Source of the facts: nccl.h.in of the tags named. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;    /* 2.27 */
typedef struct ncclParamHandle *ncclParamHandle_t; /* 2.30.7; 2.30.4 passes a pointer too */
typedef struct CUstream_st *cudaStream_t;

/* Enums are 4 bytes in NCCL's C; their numbers were only ever added to (2.13 .. 2.32). */
typedef enum {
        ncclSuccess = 0,
        ncclUnhandledCudaError = 1,
        ncclSystemError = 2,
        ncclInternalError = 3,
        ncclInvalidArgument = 4,
        ncclInvalidUsage = 5,
        ncclRemoteError = 6, /* 2.13.4 */
        ncclInProgress = 7,  /* 2.14.3 */
} ncclResult_t;
typedef int ncclDataType_t; /* 0 .. 11; sizes in core/base/calls.c */
typedef int ncclRedOp_t; /* 0 .. 4 built in; from 5 on made by ncclRedOpCreatePreMulSum (2.11.4) */
typedef int ncclScalarResidence_t;
typedef int ncclCommMemStat_t; /* 2.29.7 */

/* 128 bytes by value: in memory on x86-64, by reference on aarch64, as the compiler knows. */
typedef struct {
        char internal[128];
} ncclUniqueId;

/* Grows at its end with releases; `size` says how much of it the caller has. Of the fields only
 * commName is read, and only within `size`. It came with 2.27; nothing before it moved then. */
typedef struct {
        size_t size;
        unsigned magic; /* 0xcafebeef */
        unsigned version;
        int blocking; /* 2.14; INT_MIN: not set */
        int cgaClusterSize, minCTAs, maxCTAs;
        const char *netName;
        int splitShare;       /* 2.18 */
        int trafficClass;     /* 2.26 */
        const char *commName; /* 2.27 */
} ncclConfig_t;
#define CAPO_NCCL_CONFIG_MAGIC 0xcafebeefu

/* How one call is to be made (2.31). It grows at its end, and is read only within `size`. */
typedef struct {
        size_t size;
        unsigned magic; /* as above */
        unsigned version;
        void *ext;                                      /* of other vendors */
        int minCTAs, maxCTAs, nvlsCTAs, cgaClusterSize; /* INT_MIN: not set */
        const char *algSelection;                       /* NULL or "": NCCL's choice */
        int forceAlgSelection;                          /* 1, unless set */
        int CTAPolicy;                                  /* INT_MIN: the communicator's */
        uint64_t userProfilerTag;                       /* 0: none */
        void *launchCompletionEvent;                    /* 2.32 */
} ncclCollConfig_t;

typedef struct ncclSimInfo_v22200 ncclSimInfo_t;            /* 2.22; passed through */
typedef struct capo_nccl_wait_signal ncclWaitSignalDesc_t;  /* 2.29.2; passed through */
typedef struct capo_nccl_encryption ncclEncryptionConfig_t; /* 2.32; passed through */
