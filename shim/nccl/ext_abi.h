/* SPDX-License-Identifier: Apache-2.0 */
/* The binary interface of NCCL EP and NCCL M2N 0.2.0 in our own words. Structs begin with their
 * size and are only appended to: a field is read where the caller's size covers it (CAPO_EXT_HAS).
 * tests/standin/abi_ext.sh compares all of this with the headers of nccl-extensions 0.1.0. */
#pragma once

#include "shim/record/nccl_abi.h"

#define CAPO_EP_MAGIC        0xC00FFFEEu
#define CAPO_EP_TENSOR_MAGIC 0xCAFECAFEu
#define CAPO_EP_ALLOC_MAGIC  0xBEEFBEEFu /* what ncclEpTensorAlloc makes */
#define CAPO_M2N_VERSION     2u

/* Does the struct @s, whose size the caller has given, reach beyond @field? */
#define CAPO_EXT_HAS(s, field) ((s)->size >= offsetof(__typeof__(*(s)), field) + sizeof((s)->field))

typedef struct ncclEpGroup *ncclEpGroup_t;
typedef struct ncclEpHandle *ncclEpHandle_t;
typedef int ncclEpLayout_t;
enum { CAPO_EP_EXPERT_MAJOR = 1, CAPO_EP_HIGH_THROUGHPUT = 1 };

typedef struct ncclEpTensor {
        unsigned size, magic, ndim;
        ncclDataType_t datatype;
        void *data, *win_hdl;
        uint64_t win_offset;
        size_t *sizes;
} ncclEpTensor_t;

typedef struct {
        unsigned size, magic, version;
        int algorithm;
        unsigned num_experts, max_dispatch_tokens_per_rank, max_recv_tokens_per_rank;
        unsigned max_token_bytes;
        unsigned long rdma_buffer_size;
        unsigned num_qp_per_rank, num_channels, max_num_sms;
        void *alloc[3];
        unsigned enable_mask;
        uint64_t timeout_ns;
} ncclEpGroupConfig_t;

typedef struct {
        unsigned size, magic;
        ncclEpTensor_t *tokens;
} ncclEpDispatchInputs_t, ncclEpCombineOutputs_t;

typedef struct {
        unsigned size, magic, send_only, round_scales;
        int pass_direction;
        int quant_recipe;
} ncclEpDispatchConfig_t;

typedef struct {
        unsigned size, magic, send_only;
        int pass_direction;
        int quant_recipe;
} ncclEpCombineConfig_t;

/* passed through */
typedef struct capo_ep_alloc_config ncclEpTensorAllocConfig_t;
typedef struct capo_ep_handle_config ncclEpHandleConfig_t;
typedef struct capo_ep_layout_info ncclEpLayoutInfo_t;
typedef struct capo_ep_dispatch_outputs ncclEpDispatchOutputs_t;
typedef struct capo_ep_combine_inputs ncclEpCombineInputs_t;
typedef struct capo_ep_complete_config ncclEpCompleteConfig_t;

typedef struct ncclM2nHandle *ncclM2nHandle_t;
typedef struct capo_m2n_config ncclM2nConfig_t;

typedef struct {
        size_t size;
        unsigned version;
        int ndims;
        int *dims;
        int startRank;
} ncclMesh_t;

typedef struct {
        size_t size;
        unsigned version;
        void *dataPtr;
        size_t *localShape;
        int ndims;
        ncclDataType_t dtype;
        const ncclMesh_t *mesh;
} ncclDistTensor_t;
