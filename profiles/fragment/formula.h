/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's own formula (src/graph/tuning.cc, ncclTopoTuneModel): what a shape's bus bandwidth becomes
 * per protocol, and the constants in it. fragment_model.c says what is done with it.
 */
#ifndef CAPO_FRAGMENT_FORMULA_H
#define CAPO_FRAGMENT_FORMULA_H

#include "capo/algorithms.h"
#include "profiles/plan/plan.h"

/* Places in cost tables and constants. */
enum { TREE = CAPO_ALGO_TREE - 1, RING = CAPO_ALGO_RING - 1, NVLS = CAPO_ALGO_NVLS - 1 };
enum { LL = CAPO_PROTO_LL - 1, LL128 = CAPO_PROTO_LL128 - 1, SIMPLE = CAPO_PROTO_SIMPLE - 1 };

/* ncclTunerConstants_t as capo_plan_told.constants has it. */
struct constants {
        double base_latency[7][3], hw_latency[3][7][3], ll_bw[4][3], ring_ll128_bw[4][3],
                tree_ll128_bw[4][3], tree_bw[4][3], nvls_tree_bw[4][3];
};

/* The formula for one communicator. */
struct formula {
        bool caps; /* the constants are known */
        bool told; /* NCCL told them, and lets a tuner change them */
        const struct constants *k;
        int gpu, scale, ll, channels, n_nodes;
};

/* Latency and bandwidth of a cell, from its times at LARGE and 2 LARGE. */
struct line {
        double us, gbs;
};

/** formula_new() - for GPUs of which @sm is the least capability; @told: NCCL's answer; @amd: AMD's
 * processors. @k: room for the constants that NCCL told. channels and n_nodes are the
 * communicator's. */
struct formula formula_new(const struct capo_plan_answer *a, int sm, bool amd, int channels,
                           int n_nodes, struct constants *k);

/** formula_tree() - Tree with Simple of a bus bandwidth, formula_gbs() - any algorithm and
 * protocol. GB/s. */
double formula_tree(const struct formula *f, double bus);
double formula_gbs(const struct formula *f, int algo, int proto, double bus);

/** formula_line() - of the cell @algo, @proto; gbs NAN: it is not in the table. */
struct line formula_line(const struct capo_plan_row *one, const struct capo_plan_row *two, int algo,
                         int proto);

/** formula_nvls_efficiency() - what NCCL takes of NVLS inside one node; 0: this generation has
 * none. */
double formula_nvls_efficiency(const struct formula *f);

#endif
