/* SPDX-License-Identifier: Apache-2.0 */
/* Reads NCCL 2.19's choice from its kernel launch. That release has no profiler interface and
 * prints nothing about its choice. Its kernels take (communicator, channel mask, first work). A
 * work begins with 4 bytes of chaining and the 16-bit number of the device function. The number
 * comes from a table, ncclDevFuncRowToId, whose rows are ordered by collective, operator, type,
 * algorithm and protocol (2.19.3 src/include/device.h: ncclWorkHeader, ncclDevFuncId). */

#include "core/base/nccl_facts.h"
#include "profiles/plan/virtual/virtual.h"

enum {
        BROADCAST,
        REDUCE,
        ALLGATHER,
        REDUCESCATTER,
        ALLREDUCE, /* ncclFunc_t */
        TYPES = 10,
        OPS = 5,
        ALGOS = 6,
        PROTOS = 3,
        RING = 1,
        COLLNET_DIRECT = 2,
        NVLS = 4,
};

static const int *row_to_id;
static int kinds; /* for all-gather and reduce-scatter: Ring, NVLS; from 2.20 on Ring,
                     CollNetDirect, NVLS */

int plan_kernel_table(const char *name, uint64_t value, uint64_t size, void *base)
{
        kinds = capo_nccl_has(plan_job->version, CAPO_NCCL_KERNELS_OF_2_19) ? 2 : 3;
        if (!strcmp(name, "ncclDevFuncRowToId") &&
            size >= sizeof *row_to_id * (size_t)(1 + (kinds + 1) * PROTOS +
                                                 OPS * TYPES * (ALGOS + 1 + kinds) * PROTOS))
                row_to_id = (const int *)((const char *)base + value);
        return 0;
}

int plan_kernel_work(void **args)
{
        uint16_t index;

        if (!row_to_id)
                return -1;
        memcpy(&index, *(char **)args[2] + 4, sizeof index);
        return index;
}

/* Row of a sum over @type; -1: no such function. */
static int row_of(int func, int type, int algo, int proto)
{
        int row = 1; /* 0 is send and receive */
        int kind = algo == RING                           ? 0
                   : algo == NVLS                         ? kinds - 1
                   : algo == COLLNET_DIRECT && kinds == 3 ? 1
                                                          : -1;

        switch (func) {
        case ALLGATHER: return kind < 0 ? -1 : row + kind * PROTOS + proto;
        case BROADCAST: return algo == RING ? row + kinds * PROTOS + proto : -1;
        }
        row += (kinds + 1) * PROTOS;
        if (func == ALLREDUCE)
                return row + (type * ALGOS + algo) * PROTOS + proto;
        row += OPS * TYPES * ALGOS * PROTOS;
        if (func == REDUCE)
                return algo == RING ? row + type * PROTOS + proto : -1;
        row += OPS * TYPES * PROTOS;
        return kind < 0 ? -1 : row + (type * kinds + kind) * PROTOS + proto;
}

void plan_kernel_decode(struct plan_seen *seen, int func)
{
        static const int types[] = {7, 0}; /* the types that the worker uses: float, or bytes */

        if (!row_to_id || seen->func_index < 0)
                return;
        for (int t = 0; t < 2; t++) {
                for (int algo = 0; algo < ALGOS; algo++) {
                        for (int proto = 0; proto < PROTOS; proto++) {
                                int row = row_of(func, types[t], algo, proto);

                                if (row < 0 || row_to_id[row] != seen->func_index)
                                        continue;
                                seen->algo = algo;
                                seen->proto = proto;
                                return;
                        }
                }
        }
}
