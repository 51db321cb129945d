/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-reduces that capo check times: a child for each GPU of this node, in one communicator with
 * those of other nodes. NCCL and the driver are opened in the children.
 */
#ifndef CAPO_CHECK_REDUCE_H
#define CAPO_CHECK_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REDUCE_GPUS = 64, REDUCE_ID = 128 /* NCCL_UNIQUE_ID_BYTES */ };

struct reduce_id {
        char bytes[REDUCE_ID]; /* as ncclUniqueId, which NCCL takes by value */
};

struct reduce_ask {
        const char *libnccl;
        uint64_t bytes;
        int gpus;       /* of this node: 0 to gpus - 1 */
        int first, all; /* rank of the first; ranks of the communicator */
        double limit_s;
        /* The id of the communicator, on all nodes alike: its maker's goes out by put, the others'
         * come by get. Return: 0; negative: give up. NULL: one node. */
        int (*put)(const struct reduce_id *id, void *arg);
        int (*get)(struct reduce_id *id, void *arg);
        void *arg;
};

/**
 * reduce_run() - time one all-reduce, the slowest rank of this node
 * @seconds: of one; set only on success
 * @why:     what went wrong, one sentence
 *
 * Return: 0; -EIO.
 */
int reduce_run(const struct reduce_ask *ask, double *seconds, char *why, size_t room);

/** reduce_gpus() - GPUs that the driver shows to a new process; 0 there is no driver. */
int reduce_gpus(void);

#endif
