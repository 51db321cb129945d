/* SPDX-License-Identifier: Apache-2.0 */
/* Communicator names: the profiler (v4 on) gets them, the tuner does not; they meet by commHash. */
#pragma once

#include "core/base/util.h"

/** capo_comm_name_keep() - remember; the oldest of 256 is forgotten. capo_comm_name_find() - copy
 * to @name; false: not known. */
void capo_comm_name_keep(uint64_t comm_hash, const char *name);
bool capo_comm_name_find(uint64_t comm_hash, char *name, size_t room);
