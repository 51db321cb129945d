/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's own cost model for an allocation, and the same corrected by what is really there. Nothing
 * is measured: the result is good for rules that say "modelled".
 */
#ifndef CAPO_FRAGMENT_MODEL_H
#define CAPO_FRAGMENT_MODEL_H

#include "profiles/fragment/link_loads.h"
#include "profiles/fragment/nccl_model.h"

/* One shape's bus bandwidth, GB/s in NCCL's sense. */
struct fragment_shape_rate {
        double believed, corrected; /* believed: what NCCL's table was made from */
        double links;  /* what the links carry, whatever NCCL's formula makes of it; 0 not known */
        char full[64]; /* the link that limits it */
        bool understood; /* our account of NCCL's formula gives its table; else only lowered, never
                            raised */
};

struct fragment_model {
        struct capo_plan_answer nccl; /* rows as asked, by NCCL alone */
        int n_nodes;                  /* as NCCL counts them */
        int max_local, mean_local;    /* ranks of the largest node; nRanks / nNodes, rounded down as
                                         NCCL does */
        int channels;                 /* the least that any node found of any graph */
        struct fragment_shape_rate ring, tree, nvls; /* nvls: all-reduce inside one node; 0 none */
        double tree_late_us[CAPO_PLAN_PROTOS];       /* added to Tree's all-reduce, per protocol */
        double tree_cap; /* GB/s that NCCL plans with for Tree at most, its cap per channel times
                            the channels; 0 no cap, or not known */
        float (*cost)[CAPO_PLAN_ALGOS]
                     [CAPO_PLAN_PROTOS]; /* corrected us per row; -1 not available */
        float (*links)[CAPO_PLAN_ALGOS][CAPO_PLAN_PROTOS]; /* the same without NCCL's factor and cap
                                                              for Tree with Simple */
        char why_not[256]; /* bandwidths are NCCL's, because ...; "" they were corrected */
};

/**
 * fragment_model() - ask and correct
 * @asks: sizes that all ranks can divide, or NCCL answers for the next smaller one
 * @out:  ended by the caller with fragment_model_finish(), on success only
 *
 * Return: 0; -ENOTSUP this release has no cost table; what capo_plan_ask() returns; all with @why.
 */
int fragment_model(const struct fragment_machine *m, const struct capo_alloc *a,
                   const struct capo_plan_ask *asks, size_t n_asks, struct fragment_model *out,
                   char *why, size_t room);
void fragment_model_finish(struct fragment_model *f);

/** fragment_model_best() - the fastest cell of a row after correction, CAPO_ALGO_PROTO; 0 none.
 * fragment_links_best() - by the links' own account. */
uint8_t fragment_model_best(const struct fragment_model *f, size_t row);
uint8_t fragment_links_best(const struct fragment_model *f, size_t row);

#endif
