/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that run beside NCCL's table, by name. For the files that name one. */
#pragma once

/* They take the place of algorithm and protocol in algo_proto. */
enum capo_kernel {
#define CAPO_KERNEL(id, number, ...) CAPO_KERNEL_##id = (number),
#include "capo/kernels.def"
};
