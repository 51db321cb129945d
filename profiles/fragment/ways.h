/* SPDX-License-Identifier: Apache-2.0 */
/* The links of one machine, and the load on them of the paths that NCCL uses between GPUs, from GPU to
 * NIC and back. link_loads.h builds on this. */
#pragma once

#include "profiles/machine/topology.h"

/* Each link has two numbers, one per direction. The numbers do not depend on the GPUs that take
 * part. */
struct ways {
        const struct capo_topology *t; /* borrowed */
        double *cap, *load;            /* by link: GB/s, 0: no such link; what paths added */
        int port, pci, cpu, nic, n_links;
        bool lost; /* there was no path */
};

/** ways_new() - the caller frees cap and load. */
void ways_new(const struct capo_topology *t, struct ways *out);

/** ways_load_between() - add @rate to the links from GPU @a to GPU @b; ways_load_in() - from @nic to
 * @gpu; ways_load_out() - from @gpu to @nic
 * @gpus: the @n GPUs that take part; paths go only through these. All are indices in the topology.
 */
void ways_load_between(struct ways *w, const int *gpus, int n, int a, int b, double rate);
void ways_load_in(struct ways *w, int nic, int gpu, double rate);
void ways_load_out(struct ways *w, const int *gpus, int n, int gpu, int nic, double rate);

/** ways_link_name() - "NVLink GPU 0 to GPU 3", "PCIe of GPU 2", "NIC mlx5_0". */
void ways_link_name(const struct ways *w, int link, char *text, size_t room);
