/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's GPUs as the driver shows them to this process: UUIDs, PCI bus ids, NVLinks, MIG slices.
 * libnvidia-ml.so.1 is opened when asked for and closed again; never linked. In a container it
 * shows the devices the container was given, which may be fewer than /sys has.
 */
#ifndef CAPO_NVML_H
#define CAPO_NVML_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/gpu_clocks.h"
#include "profiles/machine/topology.h"

enum { CAPO_NVML_GPUS = 64, CAPO_NVML_SLICES = 512, CAPO_NVML_LINKS = 36, CAPO_UUID_ROOM = 96 };

struct capo_nvml_gpu {
        char busid[CAPO_BUSID_ROOM]; /* lower case, as topologies have it */
        char uuid[CAPO_UUID_ROOM];   /* "GPU-..." */
        bool mig;                    /* MIG mode is on: only slices of it can be used */
        int dev;                     /* NVML's number */
        int sm;                      /* compute capability, 90; 0 not known */
        struct {
                char target[CAPO_BUSID_ROOM];
                int count;
        } links[CAPO_NVML_LINKS]; /* active NVLinks by what they lead to */
        int n_links;
};

struct capo_nvml_slice { /* a compute instance; CUDA's device where MIG is on */
        int gpu;         /* index into gpus */
        unsigned gi, ci;
        char uuid[CAPO_UUID_ROOM]; /* "MIG-..." */
};

struct capo_nvml {
        int n_gpus, n_slices;
        struct capo_nvml_gpu
                gpus[CAPO_NVML_GPUS]; /* in NVML's order, which is that of the PCI bus */
        struct capo_nvml_slice slices[CAPO_NVML_SLICES];
};

/**
 * capo_nvml_read() - ask the driver
 * @why: for a failure: one sentence
 *
 * A child asks, so that a driver that never returns costs time only.
 *
 * Return: 0; -ENOENT there is no libnvidia-ml.so.1 here; -EIO it has an error for us; -ETIMEDOUT it
 * does not answer.
 */
int capo_nvml_read(struct capo_nvml *out, char *why, size_t room);

/** capo_nvml_limit() - capo_nvml_read() waits for at most @seconds, and never longer than 30. */
void capo_nvml_limit(double seconds);

/** capo_nvml_clocks() - of the GPU at @busid, at this moment. The driver stays open. Return: 0;
 * -ENOENT; -EIO. */
int capo_nvml_clocks(const char *busid, struct capo_clock_look *out);

#endif
