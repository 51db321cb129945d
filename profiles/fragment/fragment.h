/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an allocation of GPUs can do at best: its class, its links, and the ceilings of the
 * collectives on them.
 *
 * Bandwidths are algorithm bandwidths as nccl-tests reports them: bytes / time, where bytes is the
 * size of the result for all-gather and of the input for reduce-scatter (the total over ranks), and
 * the buffer of one rank for the others.
 *
 * The model: links carry their full rate in both directions at once, data may be cut into any
 * shares, GPUs receive, add and send at the same time without limit, latency is nothing. So no
 * software can do better, and nothing here says that any does as well. Relays (NVSwitch, PCI
 * bridges, CPUs, NICs, the network) pass data on and neither copy nor add it: switches that add and
 * copy (NVLS) have ceilings of their own, and where there are such, these are what nothing exceeds:
 * capo_ceiling() has the one number for a collective.
 */
#ifndef CAPO_FRAGMENT_H
#define CAPO_FRAGMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/layout.h"
#include "profiles/machine/topology.h"

#define CAPO_CLASS_ROOM 64

/* GPUs of one or more machines of the same make. */
struct capo_alloc {
        int n_ranks, n_nodes;
        struct capo_alloc_rank {
                int node; /* 0 .. n_nodes - 1, rising */
                int gpu;  /* index in the topology */
        } * ranks;
};

/**
 * capo_alloc_parse() - an allocation as people and pages write it (profiles/machine/gpus.h)
 * @counts: "3+5" is the first 3 and 5 GPUs, else GPU 3 and GPU 5
 *
 * Return: 0; -EINVAL, -ENOENT the machine has no such GPU, with @why; -ENOMEM.
 */
int capo_alloc_parse(const struct capo_topology *t, const char *text, bool counts,
                     struct capo_alloc *out, char *why, size_t room);

/** capo_alloc_gpus() - GPUs (indexes) of one machine. Return: 0; -ENOMEM. */
int capo_alloc_gpus(const int *gpus, int n, struct capo_alloc *out);
void capo_alloc_free(struct capo_alloc *a);

/** capo_alloc_print() - "{1,2,3} + {0,1,2,3,4}", by device number. */
char *capo_alloc_print(const struct capo_topology *t, const struct capo_alloc *a, char *text,
                       size_t room);

/** capo_alloc_layout() - "3+5" as struct. */
void capo_alloc_layout(const struct capo_alloc *a, struct capo_layout *out);

enum capo_ceiling_what {
        CAPO_CEILING_RINGS = 1,  /* rings and chains */
        CAPO_CEILING_HYBRID = 2, /* NVLink, PCI and NIC together */
};

/* The best that the shapes NCCL knows can do over NVLink, up to 12 GPUs or behind a switch; -1: not
 * computed. */
struct capo_shapes {
        bool ring; /* a ring through all GPUs exists */
        int rings; /* whole-brick rings that share no brick; each serves both directions (two GPUs:
                      bricks) */
        bool rings_exact; /* false: a lower bound (more than 8 GPUs) */
        double ring_gbs;  /* sum of one-way rings, whole bricks: NCCL's "bus bandwidth" of Ring */
        double ring_split_gbs; /* the same if bricks may be shared between rings */
        double chain_gbs; /* sum over chains (NCCL's Tree inside a node), bricks shared: all-reduce
                           */
};

struct capo_rates {
        double broadcast_gbs, allgather_gbs, allreduce_gbs;
};

struct capo_ceilings {
        int n_ranks;
        bool connected;          /* over NVLink (xGMI) alone */
        struct capo_rates links; /* NVLink alone; 0 when not connected */
        struct capo_shapes shapes;
        /* All-reduce where switches add and copy (sm 90 and later behind NVSwitch), else 0. Inside
         * one machine that of NVLink SHARP: a GPU's shard comes summed from the switch and goes to
         * all by it. nvls_across_gbs is what nothing can exceed when links outside NVLink are used
         * too: each byte leaves every set of GPUs once, and enters it. */
        double nvls_gbs, nvls_across_gbs;
        struct capo_rates hybrid; /* NVLink + PCI + NIC; -1 not computed or the description lacks
                                     PCI speeds */
};

/** capo_ceilings() - Return: 0; -ENOMEM; -EINVAL no rank. */
int capo_ceilings(const struct capo_topology *t, const struct capo_alloc *a, unsigned what,
                  struct capo_ceilings *out);

/* What a ceiling counts on. */
enum capo_ceiling_of {
        CAPO_CEILING_NONE,       /* not known */
        CAPO_CEILING_LINKS,      /* NVLink (xGMI) alone */
        CAPO_CEILING_SWITCH,     /* NVLink, and its switches add and copy */
        CAPO_CEILING_ALL,        /* NVLink, PCIe and NICs */
        CAPO_CEILING_ALL_SWITCH, /* those, and the switches add and copy */
};

/**
 * capo_ceiling() - algorithm bandwidth that no software exceeds; 0 not known
 * @of: set to what it counts on, the simplest of equal ways
 *
 * With CAPO_CEILING_HYBRID it counts PCIe and NICs in, without it NVLink alone. Between machines,
 * and where NVLink does not join all, it needs that.
 */
double capo_ceiling(const struct capo_ceilings *c, unsigned coll, enum capo_ceiling_of *of);

/** capo_ceiling_text() - " with PCIe and NICs" and so on, to stand behind a bandwidth; "" for
 * NVLink alone. Static. */
const char *capo_ceiling_text(enum capo_ceiling_of of);

/** capo_ceiling_word() - the same for columns and programs: "NVLink", "NVLink+NVLS",
 * "NVLink+PCIe+NIC", "NVLink+PCIe+NIC+NVLS"; "" not known. Static. */
const char *capo_ceiling_word(enum capo_ceiling_of of);

/** capo_ring_allreduce_gbs() - algorithm bandwidth of all-reduce over one-way rings that carry
 * @ring_gbs together. */
static inline double capo_ring_allreduce_gbs(double ring_gbs, int n)
{
        return n < 2 ? 0 : ring_gbs * n / (2.0 * (n - 1));
}

/**
 * capo_class_name() - the class of an allocation: "dgx1v/3-chain", "dgx1v/3-chain+dgx1v/5-ring2"
 * @name: room for CAPO_CLASS_ROOM per machine is enough
 *
 * Allocations whose GPUs are joined alike have one name; docs/fragments.md says what the words
 * mean.
 *
 * Return: 0; -ENOMEM.
 */
int capo_class_name(const struct capo_topology *t, const struct capo_alloc *a, char *name,
                    size_t room);

#endif
