/* SPDX-License-Identifier: Apache-2.0 */
/* What the rows of nccl_ext_calls.def name for NCCL M2N. */
#pragma once

#include "shim/nccl/ext_call.h"

/** capo_m2n_comm() - the reshards of @comm. */
struct capo_comm *capo_m2n_comm(struct capo_tls *t, ncclComm_t comm, const void *caller);
struct capo_what capo_m2n_reshard(struct capo_tls *t, const ncclDistTensor_t *src,
                                  const ncclDistTensor_t *dst, struct capo_call_asked *asked);
ncclResult_t capo_ncclM2nGroupStart(const void *real, const void *caller, const void *frame);
ncclResult_t capo_ncclM2nGroupEnd(const void *real, const void *caller, const void *frame);
ncclResult_t capo_ncclM2nGroupAbort(const void *real, const void *caller, const void *frame);
