/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's cost model for an allocation, and the same model corrected by the actual links. Nothing is
 * measured: rules made from it are marked as predicted ("modelled" in profiles). */
#pragma once

#include "profiles/fragment/link_loads.h"
#include "profiles/fragment/nccl_model.h"

/* Smaller gains are within the model's error: 1 to 4 % where bandwidth dominates, 17.6 % at worst
 * (docs/internals/models.md). */
#define CAPO_MODEL_MARGIN      0.20
#define CAPO_MODEL_MARGIN_TEXT "20 %"

/* The bus bandwidth of one shape, in GB/s as NCCL defines it. */
struct fragment_shape_rate {
        double believed, corrected; /* the value in NCCL's table; from the actual links */
        double links;               /* capacity of the links, without NCCL's formula; 0 not known */
        char full[64];              /* the link that limits it */
        bool understood; /* our formula reproduces its table; if not, values are only lowered */
};

struct fragment_model {
        struct capo_plan_answer nccl; /* rows as asked, from NCCL alone */
        int n_nodes;                  /* as NCCL counts them */
        int max_local, mean_local;    /* ranks of the largest node; nRanks / nNodes rounded down */
        int channels;                 /* the fewest that any node found for any graph */
        struct fragment_shape_rate ring, tree, nvls; /* nvls: all-reduce inside one node; 0: none */
        double tree_late_us[CAPO_PLAN_PROTOS];       /* added to Tree's all-reduce */
        double tree_cap; /* NCCL's cap per channel of Tree times the channels, GB/s; 0: not known */
        /* corrected us per row, -1 not available; the same without factor and cap for Tree Simple */
        float (*cost)[CAPO_PLAN_ALGOS][CAPO_PLAN_PROTOS],
                (*links)[CAPO_PLAN_ALGOS][CAPO_PLAN_PROTOS];
        char why_not[256];            /* why bandwidths were not corrected; "": they were */
        struct fragment_views *views; /* what fragment_model_reorder() needs */
};

/** fragment_model() - ask NCCL and correct its answer
 * @asks: sizes must be divisible by all ranks; for others NCCL answers for the next smaller one
 * @out: on success only, the caller ends it with fragment_model_finish()
 *
 * Return: 0; -ENOTSUP: this release has no cost table; errors of capo_plan_ask(); all with @why. */
int fragment_model(const struct fragment_machine *m, const struct capo_alloc *a,
                   const struct capo_plan_ask *asks, size_t n_asks, struct fragment_model *out,
                   char *why, size_t room);
void fragment_model_finish(struct fragment_model *f);

/** fragment_model_reorder() - correct the answer for the same machines in another order
 * @nodes: all @n nodes of the allocation, first to last
 *
 * The allocation and the machine given to fragment_model() must still be there.
 *
 * Return: 0; -ENOTSUP: bandwidths were not corrected (why_not). */
int fragment_model_reorder(struct fragment_model *f, const int *nodes, int n);

/** fragment_fastest() - the fastest cell of a row of cost or links, as CAPO_ALGO_PROTO; 0: none.
 * fragment_cost() - the time of a choice there; NAN: it has none. */
uint8_t fragment_fastest(float cost[CAPO_PLAN_ALGOS][CAPO_PLAN_PROTOS]);
double fragment_cost(float cost[CAPO_PLAN_ALGOS][CAPO_PLAN_PROTOS], uint8_t choice);
