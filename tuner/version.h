/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tuner/nccl_plugin.h"

/** capo_nccl_version() - NCCL_VERSION_CODE of the library that the logger @log belongs to, or,
 * without a logger, of the libnccl.so.2 that is loaded; 0 when it cannot be found (linked
 * statically and stripped). Any thread. */
int capo_nccl_version(capo_nccl_log log);
