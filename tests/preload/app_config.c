/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of NCCL 2.31 that say how they are to be done. What NCCL is given, and answers, is what
 * the program said. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "shim/record/nccl_abi.h"
#define CALL(name, params, args, id, comm, stream, ...) ncclResult_t name params;
#define HAND(name, params, args)                        ncclResult_t name params;
#define PASS(type, name, params, args, missing)         type name params;
#include "capo/nccl_calls.def"
const ncclCollConfig_t *fake_config(void);

#define MUST(x)                                                                \
        do {                                                                   \
                if (!(x)) {                                                    \
                        printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #x); \
                        exit(1);                                               \
                }                                                              \
        } while (0)

static const ncclCollConfig_t nothing = {sizeof nothing,
                                         CAPO_NCCL_CONFIG_MAGIC,
                                         23203,
                                         NULL,
                                         INT_MIN,
                                         INT_MIN,
                                         INT_MIN,
                                         INT_MIN,
                                         NULL,
                                         1,
                                         INT_MIN,
                                         0,
                                         NULL};
static char a[4096], b[4096];
static ncclComm_t comm;

static __attribute__((noinline)) void reduce(size_t count, const ncclCollConfig_t *config)
{
        MUST(ncclAllReduceConfig(a, b, count, 7, 0, comm, NULL, config) == ncclSuccess &&
             fake_config() == config);
}

int main(void)
{
        cudaStream_t st = (cudaStream_t)0x5000;
        ncclCollConfig_t ring = nothing, many = nothing, old = nothing, odd = nothing;
        const ncclCollConfig_t *c = &ring;
        ncclUniqueId id;

        MUST(ncclGetUniqueId(&id) == ncclSuccess &&
             ncclCommInitRank(&comm, 4, id, 1) == ncclSuccess);
        ring.algSelection = "Ring_LL, ^tree\n";
        ring.forceAlgSelection = 0;
        ring.minCTAs = 2;
        ring.maxCTAs = 4;
        for (int i = 0; i < 3; i++) /* one place, three ways */
                reduce(100, i == 0 ? NULL : i == 1 ? &nothing : &ring);
        for (int i = 0; i < 10; i++)
                reduce(100, &ring);
        many.cgaClusterSize = 2;
        many.CTAPolicy = 2;
        for (uint64_t i = 1; i <= 300; i++) { /* a program that numbers its calls */
                many.userProfilerTag = i;
                reduce(200, &many);
        }
        old.size = 40; /* of a release that never was: nothing of it is read */
        old.minCTAs = 7;
        odd.magic = 1;
        odd.minCTAs = 7;
        reduce(300, &old);
        reduce(300, &odd);
        MUST(ncclBroadcastConfig(a, b, 11, 1, 3, comm, st, c) == 0 && fake_config() == c);
        MUST(ncclReduceConfig(a, b, 5, 8, 1, 2, comm, st, c) == 0);
        MUST(ncclAllGatherConfig(a, b, 10, 6, comm, st, c) == 0);
        MUST(ncclReduceScatterConfig(a, b, 10, 7, 4, comm, st, c) == 0);
        MUST(ncclAlltoAllConfig(a, b, 10, 7, comm, st, c) == 0);
        MUST(ncclGatherConfig(a, b, 10, 7, 0, comm, st, c) == 0);
        MUST(ncclScatterConfig(a, b, 10, 7, 0, comm, st, c) == 0);
        MUST(ncclGroupStart() == 0);
        reduce(400, c);
        MUST(ncclAllReduce(a, b, 400, 7, 0, comm, st) == 0);
        MUST(ncclGroupEnd() == 0);
        MUST(ncclAllReduceConfig(a, b, 57005 + 5, 1, 0, comm, st, c) == ncclInvalidUsage);
        MUST(ncclAllReduce(a, b, 500, 7, 0, comm, st) ==
             0); /* asks for nothing, whatever was asked before */
        MUST(ncclSetEncryption(NULL) == 0);
        MUST(ncclCommDestroy(comm) == 0);
        puts("done");
        return 0;
}
