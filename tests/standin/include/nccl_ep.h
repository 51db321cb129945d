/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host interface of NCCL EP 0.2.0 (package nccl-extensions 0.1.0) in our own words.
 * standin_nccl_ext.def lists the functions; abi_ext.sh compares both with an installed header.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <cuda.h>
#include <nccl.h>

#define NCCL_EP_API_VERSION  2
#define NCCL_EP_VERSION_CODE 200
#define NCCL_EP_MAGIC        0xC00FFFEEu
#define NCCL_EP_TENSOR_MAGIC 0xCAFECAFEu
#define NCCL_EP_AUTO         0

typedef enum { NCCL_EP_ALGO_LOW_LATENCY, NCCL_EP_ALGO_HIGH_THROUGHPUT } ncclEpAlgorithm_t;
typedef enum {
        NCCL_EP_LAYOUT_UNSET,
        NCCL_EP_LAYOUT_EXPERT_MAJOR,
        NCCL_EP_LAYOUT_RANK_MAJOR,
        NCCL_EP_LAYOUT_FLAT,
} ncclEpLayout_t;
typedef enum { NCCL_EP_FWD_PASS, NCCL_EP_BWD_PASS } ncclEpPassDir_t;
typedef enum {
        NCCL_EP_ZERO_COPY_AUTO,
        NCCL_EP_ZERO_COPY_OFF,
        NCCL_EP_ZERO_COPY_ON
} ncclEpZeroCopyMode_t;
typedef enum {
        NCCL_EP_OVERFLOW_AUTO,
        NCCL_EP_OVERFLOW_TRAP,
        NCCL_EP_OVERFLOW_DROP
} ncclEpOverflowPolicy_t;
typedef enum {
        NCCL_EP_EXPERT_ID_AUTO,
        NCCL_EP_EXPERT_ID_LOCAL,
        NCCL_EP_EXPERT_ID_GLOBAL
} ncclEpExpertIdKind_t;
typedef enum {
        NCCL_EP_DISP_QUANT_NONE,
        NCCL_EP_DISP_QUANT_FWD,
        NCCL_EP_DISP_QUANT_DS_FP8E3M4
} ncclEpDispQuant_t;
typedef enum { NCCL_EP_COMB_QUANT_NONE, NCCL_EP_COMB_QUANT_NVFP4 } ncclEpCombQuant_t;

typedef struct ncclEpGroup *ncclEpGroup_t;
typedef struct ncclEpHandle *ncclEpHandle_t;
typedef int (*ncclEpAllocFn_t)(void **ptr, size_t size, void *context);
typedef int (*ncclEpFreeFn_t)(void *ptr, void *context);

/* Every struct begins with its size and a magic number; later releases append. */
#define EP_STRUCT unsigned int size, magic;

typedef struct ncclEpTensor {
        EP_STRUCT
        unsigned int ndim;
        ncclDataType_t datatype;
        void *data;
        ncclWindow_t win_hdl;
        uint64_t win_offset;
        size_t *sizes;
} ncclEpTensor_t;

typedef struct {
        EP_STRUCT
} ncclEpTensorAllocConfig_t;

typedef struct {
        ncclEpAllocFn_t alloc_fn;
        ncclEpFreeFn_t free_fn;
        void *context;
} ncclEpAllocConfig_t;

typedef struct {
        EP_STRUCT
        unsigned int version;
        ncclEpAlgorithm_t algorithm;
        unsigned int num_experts, max_dispatch_tokens_per_rank, max_recv_tokens_per_rank;
        unsigned int max_token_bytes;
        unsigned long rdma_buffer_size;
        unsigned int num_qp_per_rank, num_channels, max_num_sms;
        ncclEpAllocConfig_t alloc;
        unsigned int enable_mask;
        uint64_t timeout_ns; /* the end of version 1 */
        ncclEpZeroCopyMode_t zero_copy;
        ncclEpOverflowPolicy_t overflow_policy;
        unsigned int num_topk;
        unsigned char padding_v2[4];
} ncclEpGroupConfig_t;

typedef struct {
        EP_STRUCT
        ncclEpTensor_t *expert_counters, *src_rank_counters, *expert_offsets;
        ncclEpTensor_t *recv_total_counter; /* the end of version 1 */
        ncclEpExpertIdKind_t recv_topk_idx_kind;
        unsigned char padding_v2[4];
} ncclEpLayoutInfo_t;

typedef struct {
        EP_STRUCT
        ncclEpTensor_t *tokens, *topk_weights, *scales;
} ncclEpDispatchInputs_t;

typedef struct {
        EP_STRUCT
        ncclEpTensor_t *tokens, *topk_weights, *scales, *topk_idx;
} ncclEpDispatchOutputs_t;

typedef struct {
        EP_STRUCT
        ncclEpTensor_t *tokens, *topk_weights; /* the end of version 1 */
        ncclEpTensor_t *scales;
} ncclEpCombineInputs_t;

typedef struct {
        EP_STRUCT
        ncclEpTensor_t *tokens, *topk_weights;
} ncclEpCombineOutputs_t;

typedef struct {
        EP_STRUCT
        size_t dispatch_output_per_expert_alignment;
} ncclEpHandleConfig_t;

typedef struct {
        EP_STRUCT
        unsigned int send_only, round_scales;
        ncclEpPassDir_t pass_direction; /* the end of version 1 */
        ncclEpDispQuant_t quant_recipe;
} ncclEpDispatchConfig_t;

typedef struct {
        EP_STRUCT
        unsigned int send_only;
        ncclEpPassDir_t pass_direction; /* the end of version 1 */
        ncclEpCombQuant_t quant_recipe;
} ncclEpCombineConfig_t;

typedef struct ncclEpCompleteConfig {
        EP_STRUCT
} ncclEpCompleteConfig_t;

#define EP(result, name, params) result ncclEp##name params;
#define M2N(result, name, params)
#include "standin_nccl_ext.def"
