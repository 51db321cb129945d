/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The links of one machine, and the ways that NCCL goes over them from GPU to GPU, from a GPU to a
 * NIC and back. What judges channels (link_loads.h) counts on them.
 */
#ifndef CAPO_FRAGMENT_WAYS_H
#define CAPO_FRAGMENT_WAYS_H

#include "profiles/machine/topology.h"

/* In NCCL's order, nearest first; the names are NCCL's. */
enum way_type { WAY_LOC, WAY_NVL, WAY_NVB, WAY_PIX, WAY_PXB, WAY_PXN, WAY_PHB, WAY_SYS, WAY_NONE };

/* Each link is two numbers, one per direction. Links keep their numbers whichever GPUs take part.
 */
struct ways {
        const struct capo_topology *t; /* borrowed */
        double *cap;                   /* GB/s; 0: no such link */
        int port, pci, cpu, nic, n_links;
};

#define WAY_LINKS 16

/* From one device to another: what a rate of 1 takes of each link. Of type WAY_NONE where there is
 * no way. */
struct way {
        enum way_type type;
        int n;
        struct {
                int link;
                double share;
        } use[WAY_LINKS];
};

/** ways_new() - Return: 0; -ENOMEM. ways_free() in any case. */
int ways_new(const struct capo_topology *t, struct ways *out);
void ways_free(struct ways *w);

/**
 * way_between(), way_in(), way_out() - from GPU @a to GPU @b; from @nic to @gpu; from @gpu to @nic
 * @gpus: the GPUs that take part, @n of them; only these are gone through. All are indexes in the
 * topology.
 */
struct way way_between(const struct ways *w, const int *gpus, int n, int a, int b);
struct way way_in(const struct ways *w, int nic, int gpu);
struct way way_out(const struct ways *w, const int *gpus, int n, int gpu, int nic);

/** way_load() - add @rate over @way to @use, a number per link. */
void way_load(const struct way *way, double rate, double *use);

/** ways_link_name() - "NVLink GPU 0 to GPU 3", "PCIe of GPU 2", "NIC mlx5_0". */
void ways_link_name(const struct ways *w, int link, char *text, size_t room);

#endif
