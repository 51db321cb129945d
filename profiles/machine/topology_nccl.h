/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "profiles/machine/topology_build.h"

/** topology_read_nccl() - read NCCL's or RCCL's XML. Return: 0; an error with b->why. */
int topology_read_nccl(struct topology_build *b, const char *text, size_t size);
