/* SPDX-License-Identifier: Apache-2.0 */
/* The upper limits of an allocation of GPUs: its class, its links, and the ceilings of collectives
 * on them.
 *
 * Bandwidths are algorithm bandwidths as in nccl-tests: bytes / time. Bytes is the size of the
 * result for all-gather, of the input for reduce-scatter (the total over ranks), and of one rank's
 * buffer for the others.
 *
 * The model: links carry their full rate in both directions at once; data can be split into any
 * shares; GPUs receive, add and send at the same time without limit; latency is zero. So no
 * software can do better, and none need reach it. Relays (NVSwitch, PCI bridges, CPUs, NICs, the
 * network) forward data, and neither copy nor add it. Switches that add and copy (NVLS) have
 * separate ceilings, which are the bound where they exist: capo_ceiling() has the one number for a
 * collective. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/base/layout.h"
#include "profiles/machine/topology.h"

#define CAPO_CLASS_ROOM 64

/* GPUs of one or more machines of the same model. */
struct capo_alloc {
        int n_ranks, n_nodes;
        bool any_order; /* asked for every order of the nodes; `ranks` is one of them */
        struct capo_alloc_rank {
                int node; /* 0 .. n_nodes - 1, ascending */
                int gpu;  /* index in the topology */
        } * ranks;
};

/** capo_alloc_parse() - parse an allocation in the user's notation (profiles/machine/gpus.h)
 * @counts: true: "3+5" means the first 3 and the first 5 GPUs; false: GPU 3 and GPU 5
 *
 * "4+8+8 in any order" sets any_order.
 *
 * Return: 0; -EINVAL; -ENOENT: the machine has no such GPU; both with @why. */
int capo_alloc_parse(const struct capo_topology *t, const char *text, bool counts,
                     struct capo_alloc *out, char *why, size_t room);

/** capo_alloc_gpus() - an allocation of GPUs (indices) of one machine. */
void capo_alloc_gpus(const int *gpus, int n, struct capo_alloc *out);
void capo_alloc_free(struct capo_alloc *a);

/** capo_alloc_print() - "{1,2,3} + {0,1,2,3,4}", by device number. */
char *capo_alloc_print(const struct capo_topology *t, const struct capo_alloc *a, char *text,
                       size_t room);

/** capo_alloc_layout() - its layout, for example 3+5. */
void capo_alloc_layout(const struct capo_alloc *a, struct capo_layout *out);

enum capo_ceiling_what {
        CAPO_CEILING_RINGS = 1,  /* rings and chains */
        CAPO_CEILING_HYBRID = 2, /* NVLink, PCI and NIC together */
};

/* The best rates of the shapes that NCCL can use over NVLink, for up to 12 GPUs or behind a switch;
 * -1: not computed. */
struct capo_shapes {
        bool ring; /* a ring through all GPUs exists */
        int rings; /* link-disjoint rings of whole bricks, in both directions (two GPUs: bricks) */
        bool rings_exact; /* false: a lower bound (more than 8 GPUs) */
        double ring_gbs;  /* sum of one-way rings of whole bricks: NCCL's "bus bandwidth" of Ring */
        double ring_split_gbs; /* the same if bricks may be shared between rings */
        double chain_gbs; /* all-reduce over chains (NCCL's Tree inside a node), bricks shared */
};

struct capo_rates {
        double broadcast_gbs, allgather_gbs, allreduce_gbs;
};

struct capo_ceilings {
        int n_ranks;
        bool connected;          /* over NVLink (xGMI) alone */
        struct capo_rates links; /* NVLink alone; 0 if not connected */
        struct capo_shapes shapes;
        /* All-reduce if switches add and copy (sm 90 and later behind NVSwitch), else 0. nvls_gbs:
         * NVLink SHARP inside one machine: each GPU fetches its shard summed from the switch, and
         * the switch stores it to all. nvls_across_gbs: upper bound if other links are used too:
         * each byte leaves every set of GPUs once and enters it once. */
        double nvls_gbs, nvls_across_gbs;
        struct capo_rates hybrid; /* with PCI and NICs; -1: not computed, or speeds not known */
};

/** capo_ceilings() - @what: of enum capo_ceiling_what. Return: 0; -EINVAL: no rank. */
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

/** capo_ceiling() - algorithm bandwidth that no software exceeds; 0 not known
 * @of: set to the links it assumes, the simplest of equally fast ones
 *
 * Includes PCIe and NICs if @c was computed with CAPO_CEILING_HYBRID. That is required between
 * machines, and if NVLink does not connect all ranks. */
double capo_ceiling(const struct capo_ceilings *c, unsigned coll, enum capo_ceiling_of *of);

/** capo_ceiling_text() - text to follow a bandwidth: " with PCIe and NICs" and so on; "" for NVLink
 * alone. Static. */
const char *capo_ceiling_text(enum capo_ceiling_of of);

/** capo_ceiling_word() - the same for columns and JSON: "NVLink", "NVLink+NVLS", "NVLink+PCIe+NIC",
 * "NVLink+PCIe+NIC+NVLS"; "" not known. Static. */
const char *capo_ceiling_word(enum capo_ceiling_of of);

/** capo_ring_allreduce_gbs() - algorithm bandwidth of all-reduce over one-way rings that carry
 * @ring_gbs together. */
static inline double capo_ring_allreduce_gbs(double ring_gbs, int n)
{
        return n < 2 ? 0 : ring_gbs * n / (2.0 * (n - 1));
}

/** capo_class_name() - the class of an allocation: "dgx1v/3-chain", "dgx1v/3-chain+dgx1v/5-ring2"
 * @name: CAPO_CLASS_ROOM per machine is enough
 *
 * Allocations with the same links among their GPUs have the same name; docs/fragments.md explains
 * the words. */
void capo_class_name(const struct capo_topology *t, const struct capo_alloc *a, char *name,
                     size_t room);
