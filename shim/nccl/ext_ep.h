/* SPDX-License-Identifier: Apache-2.0 */
/* What the rows of nccl_ext_calls.def name for NCCL EP: before a call whose group it is of and what
 * it moves, after it, with its result, what it made, changed or ended. */
#pragma once

#include "shim/nccl/ext_call.h"

struct capo_comm *capo_ep_group_of(ncclEpHandle_t handle);
struct capo_comm *capo_ep_handle_forgotten(ncclEpHandle_t handle);
struct capo_comm *capo_ep_group_ending(struct capo_tls *t, ncclEpGroup_t group);
void capo_ep_group_created(struct capo_tls *t, struct capo_record *r, ncclEpGroup_t *group,
                           const ncclEpGroupConfig_t *config, ncclResult_t rc, const void *real);
void capo_ep_group_ended(struct capo_tls *t, ncclResult_t rc);
void capo_ep_handle_made(ncclResult_t rc, ncclEpHandle_t *handle, ncclEpGroup_t group,
                         ncclEpLayout_t layout, int num_topk, const ncclEpTensor_t *topk_idx);
void capo_ep_handle_updated(ncclResult_t rc, ncclEpHandle_t handle, const ncclEpTensor_t *topk_idx);
struct capo_what capo_ep_dispatch(ncclEpHandle_t handle, const ncclEpDispatchInputs_t *inputs,
                                  const ncclEpDispatchConfig_t *config,
                                  struct capo_call_asked *asked);
struct capo_what capo_ep_combine(ncclEpHandle_t handle, const ncclEpCombineOutputs_t *outputs,
                                 const ncclEpCombineConfig_t *config,
                                 struct capo_call_asked *asked);
struct capo_what capo_ep_complete(ncclEpHandle_t handle, struct capo_call_asked *asked);
void capo_ep_sent(struct capo_tls *t, ncclResult_t rc, ncclEpHandle_t handle,
                  const struct capo_call_asked *asked);
void capo_ep_cleared(ncclResult_t rc, ncclEpGroup_t group);
ncclResult_t capo_ncclEpGetAsyncError(const void *real, const void *caller, const void *frame,
                                      ncclEpGroup_t group, int *error);
