/* SPDX-License-Identifier: Apache-2.0 */
/* This machine as an NCCL topology file: for `capo topo capture`, and to ask about it elsewhere. */
#ifndef CAPO_PLAN_CAPTURE_H
#define CAPO_PLAN_CAPTURE_H

#include <stddef.h>
#include <stdio.h>

struct capo_capture {
        unsigned n_cpus, n_gpus, n_nets, n_links; /* what was found */
        int nvml; /* whether NVML answered: without it no NVLinks and no compute capability */
};

/**
 * capo_topology_capture() - write this machine in NCCL's format
 * @out:   receives the XML
 * @found: filled; what a file without GPUs is good for is for the caller to say
 *
 * CPUs, PCI tree and devices by hwloc; link speeds and NIC rates from sysfs, read as NCCL reads
 * them; GPU numbers, compute capability and NVLinks by NVML (libnvidia-ml.so.1, opened at run
 * time).
 *
 * Return: 0; -EIO hwloc sees no machine, or the file cannot be written; -ENOMEM; with @why.
 */
int capo_topology_capture(FILE *out, struct capo_capture *found, char *why, size_t room);

#endif
