/* SPDX-License-Identifier: Apache-2.0 */
/* The links of one machine, and the paths that NCCL uses over them between GPUs, from GPU to NIC
 * and back. link_loads.h builds on this. */
#pragma once

#include "profiles/machine/topology.h"

/* NCCL's path types and names, nearest first. */
enum way_type { WAY_LOC, WAY_NVL, WAY_NVB, WAY_PIX, WAY_PXB, WAY_PXN, WAY_PHB, WAY_SYS, WAY_NONE };

/* Each link has two numbers, one per direction. The numbers do not depend on the GPUs that take
 * part. */
struct ways {
        const struct capo_topology *t; /* borrowed */
        double *cap;                   /* GB/s; 0: no such link */
        int port, pci, cpu, nic, n_links;
};

#define WAY_LINKS 16

/* From one device to another: the share of each link that a rate of 1 uses. WAY_NONE: there is no
 * path. */
struct way {
        enum way_type type;
        int n;
        struct {
                int link;
                double share;
        } use[WAY_LINKS];
};

/** ways_new() - ways_free() ends it. */
void ways_new(const struct capo_topology *t, struct ways *out);
void ways_free(struct ways *w);

/** way_between() - path from GPU @a to GPU @b; way_in() - from @nic to @gpu; way_out() - from @gpu
 * to @nic
 * @gpus: the @n GPUs that take part; paths go only through these. All are indices in the topology.
 */
struct way way_between(const struct ways *w, const int *gpus, int n, int a, int b);
struct way way_in(const struct ways *w, int nic, int gpu);
struct way way_out(const struct ways *w, const int *gpus, int n, int gpu, int nic);

/** way_load() - add the load of @rate over @way to @use, an array by link. */
void way_load(const struct way *way, double rate, double *use);

/** ways_link_name() - "NVLink GPU 0 to GPU 3", "PCIe of GPU 2", "NIC mlx5_0". */
void ways_link_name(const struct ways *w, int link, char *text, size_t room);
