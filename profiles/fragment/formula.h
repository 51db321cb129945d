/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's formula (src/graph/tuning.cc, ncclTopoTuneModel): bandwidth per protocol from a shape's
 * bus bandwidth, and its constants. fragment_model.c explains how it is used. */
#pragma once

#include "capo/algorithms.h"
#include "profiles/plan/plan.h"

/* Indices in cost tables and constants. */
enum { TREE = CAPO_ALGO_TREE - 1, RING = CAPO_ALGO_RING - 1, NVLS = CAPO_ALGO_NVLS - 1 };
enum { LL = CAPO_PROTO_LL - 1, LL128 = CAPO_PROTO_LL128 - 1, SIMPLE = CAPO_PROTO_SIMPLE - 1 };

/* ncclTunerConstants_t, as in capo_plan_reported.constants. */
struct constants {
        double base_latency[7][3], hw_latency[3][7][3], ll_bw[4][3], ring_ll128_bw[4][3],
                tree_ll128_bw[4][3], tree_bw[4][3], nvls_tree_bw[4][3];
};

/* The formula for one communicator. */
struct formula {
        bool caps;     /* the constants are known */
        bool reported; /* NCCL reported them, and a tuner can change them */
        const struct constants *k;
        int gpu, scale, ll, channels, n_nodes;
};

/* Latency and bandwidth of a cell, from its times at the sizes LARGE and 2 LARGE. */
struct line {
        double us, gbs;
};

/** formula_new() - @a: NCCL's answer; @sm: the lowest compute capability of the GPUs; @amd: AMD
 * processors; @channels, @n_nodes: of the communicator; @k: room for the constants that NCCL
 * reported. */
struct formula formula_new(const struct capo_plan_answer *a, int sm, bool amd, int channels,
                           int n_nodes, struct constants *k);

/** formula_tree() - Tree with Simple, formula_gbs() - any algorithm and protocol: bandwidth in GB/s
 * for a bus bandwidth @bus. */
double formula_tree(const struct formula *f, double bus);
double formula_gbs(const struct formula *f, int algo, int proto, double bus);

/** formula_line() - of the cell (@algo, @proto); gbs NAN: not in the table. */
struct line formula_line(const struct capo_plan_row *one, const struct capo_plan_row *two, int algo,
                         int proto);

/** formula_nvls_efficiency() - NCCL's efficiency factor for NVLS inside one node; 0: this GPU
 * generation has no NVLS. */
double formula_nvls_efficiency(const struct formula *f);
