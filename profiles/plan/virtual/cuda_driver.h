/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the driver half and the runtime half of the virtual CUDA. */
#pragma once

#include <stdbool.h>

/* The driver version to report: new enough for every runtime in a libnccl so far. */
#define PLAN_DRIVER_VERSION 13000
#define PLAN_GRANULARITY    (2ul << 20) /* of device memory */

/** plan_cuda_gpu() - device @dev of this machine; NULL: none. */
const struct plan_gpu *plan_cuda_gpu(int dev);

int plan_cuda_device_attribute(int *v, int attr, int dev);
int plan_cuda_launched(unsigned grid, unsigned block, void **args);

/* Does the runtime in this libnccl pass a status pointer to cudaGetDriverEntryPoint (CUDA 12 and
 * later)? */
extern bool plan_cuda_has_status;
