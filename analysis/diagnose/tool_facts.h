/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "analysis/diagnose/evidence.h"

/** capo_tools_read() - what the output of a node's tools, and NCCL's addresses, show: facts and findings. */
void capo_tools_read(struct capo_evidence *e);
