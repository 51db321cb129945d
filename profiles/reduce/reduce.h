/* SPDX-License-Identifier: Apache-2.0 */
/* All-reduces for capo check: one child process per GPU of this node, in one communicator with
 * those of other nodes. Only the children open NCCL and the driver. */
#pragma once

#include "core/base/util.h"

enum { REDUCE_GPUS = 64, REDUCE_ID = 128 /* NCCL_UNIQUE_ID_BYTES */ };

struct reduce_id {
        char bytes[REDUCE_ID]; /* ncclUniqueId, which NCCL takes by value */
};

struct reduce_ask {
        const char *libnccl;
        uint64_t bytes;
        int gpus;       /* on this node: 0 to gpus - 1 */
        int first, all; /* rank of the first GPU; ranks of the communicator */
        double limit_s;
        /* Exchange of the communicator's id, which must be equal on all nodes: put() publishes it
         * on the node that makes it, get() fetches it on the others. Return: 0; negative: give up.
         * NULL: one node. */
        int (*put)(const struct reduce_id *id, void *arg);
        int (*get)(struct reduce_id *id, void *arg);
        void *arg;
};

/** reduce_run() - time one all-reduce on the slowest rank of this node
 * @seconds: time of one; set only on success
 * @why: one sentence on failure
 *
 * Return: 0; -EIO. */
int reduce_run(const struct reduce_ask *ask, double *seconds, char *why, size_t room);

/** reduce_gpus() - number of GPUs that the driver shows to a new process; 0: no driver. */
int reduce_gpus(void);
