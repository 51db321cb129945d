/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver half of the virtual CUDA takes from the runtime half. */
#ifndef CAPO_PLAN_CUDA_VIRTUAL_H
#define CAPO_PLAN_CUDA_VIRTUAL_H

#include <stdbool.h>

/* The driver we claim to be: new enough for every runtime inside a libnccl so far. */
#define PLAN_DRIVER_VERSION 13000

int plan_cuda_device_attribute(int *v, int attr, int dev);
int plan_cuda_launched(unsigned grid, unsigned block, void **args);

/* Whether the runtime inside this libnccl passes cudaGetDriverEntryPoint a place for the status
 * (CUDA 12 and later). */
extern bool plan_cuda_has_status;

#endif
