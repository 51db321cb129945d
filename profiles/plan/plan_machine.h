/* SPDX-License-Identifier: Apache-2.0 */
/* Prepares a topology file for a worker: the list of GPUs and NICs, and a complete XML for NCCL. */
#pragma once

#include "profiles/plan/plan_job.h"

/** plan_machine_prepare() - read @topo, complete it, write it for NCCL
 * @topo: NCCL topology XML
 * @platform: its NVLinks and compute capability fill in what the file leaves to the driver; NULL:
 * nothing is filled in
 * @write_to: path of the completed XML; NULL: do not write it
 * @m: filled
 *
 * Return: 0; -EINVAL and other negative errno with @why. */
int plan_machine_prepare(const char *topo, const char *platform, const char *write_to,
                         struct plan_machine *m, char *why, size_t room);
