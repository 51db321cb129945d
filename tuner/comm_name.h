/* SPDX-License-Identifier: Apache-2.0 */
/* Communicator names: the profiler plugin gets them (v4 on), the tuner plugin does not; they meet
 * by commHash. */
#pragma once

#include "core/base/util.h"

/** capo_comm_name_keep() - remember; the oldest of 256 is forgotten. capo_comm_name_find() - copy
 * to @name; false: not known. */
void capo_comm_name_keep(uint64_t comm_hash, const char *name);
bool capo_comm_name_find(uint64_t comm_hash, char *name, size_t room);
