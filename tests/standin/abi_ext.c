/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled by abi_ext.sh against nccl_ep.h and nccl_m2n.h of nccl-extensions: our list of functions,
 * our numbers and layouts agree with them. */
#include <stddef.h>
#include <nccl_ep.h>
#include <nccl_m2n.h>

/* Each function once more: the compiler compares it with the header's. */
#define EP(result, name, params)  result ncclEp##name params;
#define M2N(result, name, params) result nccl##name params;
#include "include/standin_nccl_ext.def"

/* And as capo's list has it. */
#define EVENT(name, params, ...) ncclResult_t name params;
#define DATA(name, params, ...)  ncclResult_t name params;
#define HAND(name, params, ...)  ncclResult_t name params;
#include "capo/nccl_ext_calls.def"

#define IS(name, value)         _Static_assert((name) == (value), #name);
#define AT(type, field, offset) IS(offsetof(type, field), offset)
IS(NCCL_EP_VERSION_CODE, 200)
IS(NCCL_EP_MAGIC, 0xC00FFFEEu)
IS(NCCL_EP_TENSOR_MAGIC, 0xCAFECAFEu)
IS(NCCL_EP_ALGO_HIGH_THROUGHPUT, 1)
IS(NCCL_EP_LAYOUT_FLAT, 3)
IS(NCCL_EP_LAYOUT_RANK_MAJOR, 2)
IS(NCCL_EP_BWD_PASS, 1)
IS(NCCL_EP_DISP_QUANT_DS_FP8E3M4, 2)
IS(NCCL_EP_COMB_QUANT_NVFP4, 1)
IS(NCCL_EP_EXPERT_ID_GLOBAL, 2)
IS(sizeof(ncclEpTensor_t), 48)
AT(ncclEpTensor_t, data, 16)
IS(sizeof(ncclEpGroupConfig_t), 112)
AT(ncclEpGroupConfig_t, max_dispatch_tokens_per_rank, 20)
AT(ncclEpGroupConfig_t, max_recv_tokens_per_rank, 24)
AT(ncclEpGroupConfig_t, max_token_bytes, 28)
AT(ncclEpGroupConfig_t, rdma_buffer_size, 32)
AT(ncclEpGroupConfig_t, alloc, 56)
AT(ncclEpGroupConfig_t, timeout_ns, 88)
AT(ncclEpGroupConfig_t, num_topk, 104)
IS(sizeof(ncclEpLayoutInfo_t), 48)
AT(ncclEpLayoutInfo_t, src_rank_counters, 16)
AT(ncclEpLayoutInfo_t, recv_total_counter, 32)
AT(ncclEpLayoutInfo_t, recv_topk_idx_kind, 40)
IS(sizeof(ncclEpDispatchInputs_t), 32)
AT(ncclEpDispatchInputs_t, topk_weights, 16)
IS(sizeof(ncclEpDispatchOutputs_t), 40)
AT(ncclEpDispatchOutputs_t, topk_idx, 32)
IS(sizeof(ncclEpCombineInputs_t), 32)
AT(ncclEpCombineInputs_t, scales, 24)
IS(sizeof(ncclEpCombineOutputs_t), 24)
IS(sizeof(ncclEpHandleConfig_t), 16)
IS(sizeof(ncclEpDispatchConfig_t), 24)
AT(ncclEpDispatchConfig_t, pass_direction, 16)
IS(sizeof(ncclEpCombineConfig_t), 20)
AT(ncclEpCombineConfig_t, pass_direction, 12)
IS(sizeof(ncclEpCompleteConfig_t), 8)
IS(NCCL_M2N_API_MAGIC, 0x4d324e32u)
IS(NCCL_M2N_API_VERSION, 2)
IS(sizeof(ncclMesh_t), 32)
IS(sizeof(ncclDistTensor_t), 56)
AT(ncclDistTensor_t, dataPtr, 16)
AT(ncclDistTensor_t, placements, 48)
IS(sizeof(ncclM2nConfig_t), 24)
AT(ncclM2nConfig_t, maxCta, 16)
#include "abi_ext_fields.def"
