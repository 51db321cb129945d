/* SPDX-License-Identifier: Apache-2.0 */
/*
 * override-bench: what turning a call costs over its record (shim/nccl/call_override.c): an
 * all-reduce of a library that does nothing, by the pointer that a communicator without rows has,
 * and by that of one with 1,000 rows, for a size that stays as it is and for one that is turned.
 * Medians of 31 rounds; the three of a round are within a millisecond.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "capo/seam.h"
#include "core/profile/profile_table.h"
#include "shim/nccl/call_override.h"
#include "shim/record/recorder.h"
#include "tests/log_numbers.h"

enum { ROUNDS = 31, CALLS = 20000, ROWS = 1000 };

static volatile uint64_t sink;
static ncclResult_t quiet(const void *s, void *r, size_t n, ncclDataType_t type, ncclRedOp_t op,
                          ncclComm_t c, cudaStream_t st)
{
        sink = n;
        return ncclSuccess;
}
static ncclResult_t quiet_config(const void *s, void *r, size_t n, ncclDataType_t type,
                                 ncclRedOp_t op, ncclComm_t c, cudaStream_t st,
                                 const ncclCollConfig_t *config)
{
        sink = n;
        return ncclSuccess;
}

static struct capo_nccl lib = {
        .ncclAllReduce = quiet, .ncclAllReduceConfig = quiet_config, .base = 1, .version = 23203};
static struct capo_tables *tables;
const struct capo_tables *capo_tuner_overrides(uint64_t hash) { return hash ? tables : NULL; }
static struct capo_comm plain = {.handle = &plain, .lib = &lib, .into = &lib, .n_ranks = 8},
                        overridden = {.handle = &overridden,
                                      .lib = &lib,
                                      .into = &lib,
                                      .n_ranks = 8,
                                      .nccl_hash = 1};

static double burst(struct capo_comm *comm, size_t bytes)
{
        ncclComm_t handle = comm->handle;
        struct timespec a, b;

        capo_tls.comm = comm;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
        for (unsigned i = 0; i < CALLS; i++)
                comm->into->ncclAllReduce(NULL, NULL, bytes + (i & 63), 0, 0, handle, NULL);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
        return ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / CALLS;
}

static int compare(const void *x, const void *y)
{
        double d = *(const double *)x - *(const double *)y;

        return (d > 0) - (d < 0);
}

int main(void)
{
        static struct capo_ring ring;
        static double ns[3][ROUNDS];
        struct capo_shape shape = {
                .n_ranks = 8, .n_nodes = 1, .min_local = 8, .max_local = 8, .nccl = 23203};
        struct capo_profile *p = capo_profile_new("bench");

        capo_profile_rule(p, CAPO_BASIS_MEASURED);
        for (uint64_t i = 1; i <= ROWS; i++) {
                const struct capo_row row = {.coll = CAPO_COLL_ALLREDUCE,
                                             .upto = i == ROWS ? UINT64_MAX : i * 1024,
                                             .algo = CAPO_ALGO_RING,
                                             .proto = CAPO_PROTO_LL,
                                             .kernel = i % 2 ? NULL : "SYMK_ST",
                                             .ctas = i % 2 ? 0 : 8};

                if (capo_profile_row(p, &row))
                        return 1;
        }
        if (capo_tables_new(p, &shape, &tables))
                return 1;
        capo_tls.ring = calloc(1, sizeof ring + sizeof(struct capo_record));
        capo_tls.ready = 1;
        capo_tls.inside = &ring;
        capo_override_settle(&overridden);
        for (int i = -1; i < ROUNDS; i++) {
                double now[3] = {burst(&plain, 500), burst(&overridden, 500),
                                 burst(&overridden, 1500)};

                for (int k = 0; k < 3 && i >= 0; k++)
                        ns[k][i] = now[k];
        }
        for (int k = 0; k < 3; k++)
                qsort(ns[k], ROUNDS, sizeof(double), compare);
        printf("call of a library that does nothing %.1f ns   with rows, none for this size +%.1f ns   turned +%.1f ns\n",
               ns[0][ROUNDS / 2], ns[1][ROUNDS / 2] - ns[0][ROUNDS / 2],
               ns[2][ROUNDS / 2] - ns[0][ROUNDS / 2]);
        return 0;
}
