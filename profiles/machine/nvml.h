/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's GPUs as the driver shows them to this process: UUIDs, PCI bus ids, NVLinks, MIG slices.
 * libnvidia-ml.so.1 is opened when needed and closed again; it is never linked. In a container it
 * shows the container's devices, which may be fewer than in /sys. */
#pragma once

#include "core/base/gpu_clocks.h"
#include "profiles/machine/topology.h"

enum { CAPO_NVML_GPUS = 64, CAPO_NVML_SLICES = 512, CAPO_NVML_LINKS = 36, CAPO_UUID_ROOM = 96 };

struct capo_nvml_gpu {
        char busid[CAPO_BUSID_ROOM]; /* lower case, as in topologies */
        char uuid[CAPO_UUID_ROOM];   /* "GPU-..." */
        bool mig;                    /* MIG mode is on: only slices of it can be used */
        int dev;                     /* NVML's number */
        int sm;                      /* compute capability, 90; 0 not known */
        struct {
                char target[CAPO_BUSID_ROOM];
                int count;
        } links[CAPO_NVML_LINKS]; /* active NVLinks, by target */
        int n_links;
};

struct capo_nvml_slice { /* a compute instance: CUDA's device if MIG is on */
        int gpu;         /* index into gpus */
        unsigned gi, ci;
        char uuid[CAPO_UUID_ROOM]; /* "MIG-..." */
};

struct capo_nvml {
        int n_gpus, n_slices;
        struct capo_nvml_gpu gpus[CAPO_NVML_GPUS]; /* in NVML's order, which is PCI bus order */
        struct capo_nvml_slice slices[CAPO_NVML_SLICES];
};

/** capo_nvml_read() - query the driver
 * @why: on failure, one sentence
 *
 * A child process asks, so that a driver that never returns only costs time.
 *
 * Return: 0; -ENOENT: no libnvidia-ml.so.1; -EIO: it returned an error; -ETIMEDOUT: it does not
 * answer. */
int capo_nvml_read(struct capo_nvml *out, char *why, size_t room);

/** capo_nvml_limit() - set the timeout of capo_nvml_read() to @seconds, 30 at most. */
void capo_nvml_limit(double seconds);

/** capo_nvml_clocks() - current clocks of the GPU at @busid. The driver stays open. Return: 0;
 * -ENOENT; -EIO. */
int capo_nvml_clocks(const char *busid, struct capo_clock_sample *out);
