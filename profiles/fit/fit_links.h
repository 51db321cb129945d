/* SPDX-License-Identifier: Apache-2.0 */
/* The incoming bandwidth that links allow. A time in which they cannot carry the result is a
 * measurement error: every GPU must receive the whole result except its own part, and so must every
 * node. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct capo_topology;
struct capo_trial;

struct capo_fit_links {
        double gpu_gbs;  /* into one GPU, over NVLink (xGMI) and PCIe; 0: not known */
        double node_gbs; /* into one node, over its NICs; 0: not known */
};

/** capo_fit_links_of_gpu() - from the GPU's name ("H100 80GB HBM3"): NVLink in one direction
 * (NVIDIA's data sheets) and PCIe x16 of its generation; 0 for unknown names. */
struct capo_fit_links capo_fit_links_of_gpu(const char *name);

/** capo_fit_links_of_machine() - from a topology: of its GPU with the most links, and all its NICs.
 */
struct capo_fit_links capo_fit_links_of_machine(const struct capo_topology *t);

/** capo_fit_beyond() - is @us too short for @bytes (nccl-tests' size) of @call on @where? False:
 * also if that is not known. */
bool capo_fit_beyond(struct capo_fit_links links, const struct capo_trial *where, unsigned call,
                     uint64_t bytes, double us);
