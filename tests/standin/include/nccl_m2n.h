/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host interface of NCCL M2N 0.2.0 (package nccl-extensions 0.1.0) in our own words.
 * standin_nccl_ext.def lists the functions; abi_ext.sh compares both with an installed header.
 */
#pragma once

#include <limits.h>
#include <stddef.h>
#include <nccl.h>

#define NCCL_M2N_API_VERSION      2u
#define NCCL_M2N_API_MAGIC        0x4d324e32u
#define NCCL_M2N_CONFIG_UNDEF_INT INT_MIN
#define NCCL_RESHARD_REPLICATE    (-1)

typedef struct ncclM2nHandle *ncclM2nHandle_t;

typedef struct ncclMesh_v2 {
        size_t size;
        unsigned int version;
        int ndims;
        int *dims; /* [ndims] */
        int startRank;
} ncclMesh_t;

typedef struct ncclDistTensor_v2 {
        size_t size;
        unsigned int version;
        void *dataPtr;
        size_t *localShape; /* [ndims] */
        int ndims;
        ncclDataType_t dtype;
        const ncclMesh_t *mesh;
        int *placements; /* [mesh->ndims]: the tensor's dimension that this one cuts, or -1 */
} ncclDistTensor_t;

typedef struct ncclM2nConfig_v2 {
        size_t size;
        unsigned int magic, version;
        int maxCta;
} ncclM2nConfig_t;

#define EP(result, name, params)
#define M2N(result, name, params) result nccl##name params;
#include "standin_nccl_ext.def"
