/* SPDX-License-Identifier: Apache-2.0 */
/* Writes this machine as an NCCL topology file, for `capo topo capture`, so that it can be used
 * elsewhere. */
#pragma once

#include <stddef.h>
#include <stdio.h>

struct capo_capture {
        unsigned n_cpus, n_gpus, n_nets, n_links; /* what was found */
        int nvml; /* did NVML answer? Without it, NVLinks and compute capability are missing */
};

/** capo_topology_capture() - write this machine in NCCL's format
 * @out: receives the XML
 * @found: filled; the caller decides what to do without GPUs
 *
 * CPUs, PCI tree and devices come from hwloc; link speeds and NIC rates from sysfs, as in NCCL; GPU
 * numbers, compute capability and NVLinks from NVML (libnvidia-ml.so.1, opened at run time).
 *
 * Return: 0; -EIO: hwloc fails, or the file cannot be written; with @why. */
int capo_topology_capture(FILE *out, struct capo_capture *found, char *why, size_t room);
