/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "shim/machine/machine_source.h"

/** capo_machine_gpu() - read the GPUs of this process by NVML, between two of these calls.
 * @value: as capo_machine_number(). Begin returns false where there is no NVML. */
bool capo_machine_gpus_begin(void);
bool capo_machine_gpu(struct machine_object *o, unsigned reading, uint64_t *value);
void capo_machine_gpus_end(bool report);
void capo_machine_gpus_fork(void);

/** capo_machine_gpu_watch() - CUDA device @device, 0 to 63, is used here, and this is its PCI bus
 * id; any thread, once per device. */
void capo_machine_gpu_watch(int device, const char *busid);

/** capo_machine_gpu_busid() - of a device that is watched; NULL: it is not. */
const char *capo_machine_gpu_busid(int device);
