/* SPDX-License-Identifier: Apache-2.0 */
/* A library with the names of NCCL EP and NCCL M2N that notes what it is given. */
#include <nccl_ep.h>
#include <nccl_m2n.h>

#include "fake_ext.h"

#define API __attribute__((visibility("default")))

API struct fake_ext fake_ext_last;

static ncclResult_t note(const void *a, const void *b, const void *c)
{
        fake_ext_last = (struct fake_ext){{a, b, c}, fake_ext_last.n + 1};
#ifdef FAKE_QUIET
        return ncclSuccess;
#else
        return fake_ext_last.n % 7 == 0 ? ncclInvalidUsage : ncclSuccess;
#endif
}

API ncclResult_t ncclEpCreateGroup(ncclEpGroup_t *group, ncclComm_t comm,
                                   const ncclEpGroupConfig_t *config)
{
        *group = (ncclEpGroup_t)FAKE_GROUP;
        note(group, comm, config);
        return ncclSuccess;
}

API ncclResult_t ncclEpGroupDestroy(ncclEpGroup_t group)
{
        note(group, NULL, NULL);
        return ncclSuccess;
}

API ncclResult_t ncclEpInitHandle(ncclEpHandle_t *handle, ncclEpGroup_t group,
                                  ncclEpLayout_t layout, const ncclEpHandleConfig_t *config,
                                  int num_topk, const ncclEpTensor_t *handle_mem)
{
        (void)layout, (void)num_topk, (void)handle_mem;
        *handle = (ncclEpHandle_t)FAKE_HANDLE;
        note(handle, group, config);
        return ncclSuccess;
}

API ncclResult_t ncclEpUpdateHandle(ncclEpHandle_t handle, const ncclEpTensor_t *topk_idx,
                                    const ncclEpLayoutInfo_t *layout_info, cudaStream_t stream)
{
        (void)stream;
        return note(handle, topk_idx, layout_info);
}

API ncclResult_t ncclEpDispatch(ncclEpHandle_t handle, const ncclEpDispatchInputs_t *inputs,
                                const ncclEpDispatchOutputs_t *outputs,
                                const ncclEpLayoutInfo_t *layout_info,
                                const ncclEpDispatchConfig_t *config, cudaStream_t stream)
{
        (void)outputs, (void)layout_info, (void)stream;
        return note(handle, inputs, config);
}

/* The same by a name that nobody wraps, for a benchmark. */
API __typeof__(ncclEpDispatch) fake_dispatch __attribute__((alias("ncclEpDispatch")));

API ncclResult_t ncclEpCombine(ncclEpHandle_t handle, const ncclEpCombineInputs_t *inputs,
                               const ncclEpCombineOutputs_t *outputs,
                               const ncclEpCombineConfig_t *config, cudaStream_t stream)
{
        (void)inputs, (void)stream;
        return note(handle, outputs, config);
}

API ncclResult_t ncclReshard(ncclM2nHandle_t handle, ncclComm_t comm, const ncclDistTensor_t *src,
                             const ncclDistTensor_t *dst, cudaStream_t stream)
{
        (void)comm, (void)stream;
        return note(handle, src, dst);
}
