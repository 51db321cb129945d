/* SPDX-License-Identifier: Apache-2.0 */
/* The order of an allocation's nodes. NCCL's trees give a node in the middle twice the traffic of
 * one at an end, which few GPUs, and few NICs beside them, carry less well. The order is
 * that of the ranks: a hostfile sets it, and it costs nothing. */
#pragma once

#include "profiles/fragment/fragment_model.h"

enum { FRAGMENT_ORDER_NODES = 8, FRAGMENT_ORDERS = 64 };

struct fragment_order {
        int nodes[FRAGMENT_ORDER_NODES];      /* of the allocation asked, first to last */
        char layout[CAPO_LAYOUT_TEXT];        /* "8+8+8+4" */
        char class_name[CAPO_CLASS_ROOM * 8]; /* by capo_class_name() */
        double own_us, best_us;               /* the largest all-reduce asked: NCCL's choice, and
                                                   the fastest by the corrected model */
        uint8_t best;                         /* that one */
};

struct fragment_orders {
        struct fragment_order v[FRAGMENT_ORDERS]; /* the first is as asked */
        int n;      /* 0: the order does not matter, or there are too many */
        int best;   /* with the least best_us */
        int own;    /* with the least own_us */
        size_t row; /* of the model: the largest all-reduce */
};

/** fragment_orders() - correct NCCL's answer for every order of the allocation's nodes
 * @f: of @a; afterwards it is corrected for the order asked again
 * @each: called with @f corrected for one order; may be NULL. Not 0 ends it and is returned
 *
 * NCCL's table has no order, so it is asked once. Nodes with the same GPUs are alike, and orders
 * that differ only in those are one.
 *
 * Return: 0; errors of fragment_model_reorder(); what @each returned. */
int fragment_orders(struct fragment_model *f, const struct capo_topology *t,
                    const struct capo_alloc *a,
                    int (*each)(void *user, const struct fragment_order *order), void *user,
                    struct fragment_orders *out);

/** fragment_nodes_differ() - do two nodes use different GPUs? */
bool fragment_nodes_differ(const struct capo_alloc *a);

/** fragment_orders_text() - the best order in a sentence; "": none is more than 1 % faster than the one
 * asked by NCCL's own choice, or by CAPO_MODEL_MARGIN with the best one. Returns @text. */
char *fragment_orders_text(const struct fragment_orders *o, const struct fragment_model *f,
                           int n_ranks, char *text, size_t room);
#define FRAGMENT_ORDER_TEXT 512

#define FRAGMENT_ORDER_HOW                                                                   \
        "a hostfile in this order sets it (mpirun; srun -m arbitrary with SLURM_HOSTFILE), " \
        "or torchrun --node-rank"
