/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder linked into a program of its own, so that a sanitizer sees all of it: many threads
 * make, use and destroy communicators, call, open groups, end and are followed by others, while the
 * drain empties their rings, and while a plugin (this file) speaks through the seam. Prints what
 * the log must have counted.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "capo/seam.h"
#include "shim/record/nccl_abi.h"
#include "shim/record/shim.h"
#include "tests/log_numbers.h"

#define CAPO_NCCL_CODE                                  22809
#define CALL(name, params, args, id, comm, stream, ...) ncclResult_t name params;
#define HAND(name, params, args)                        ncclResult_t name params;
#define PASS(type, name, params, args, missing)         type name params;
#include "capo/nccl_calls.def"

#define MUST(x)                                                                \
        do {                                                                   \
                if (!(x)) {                                                    \
                        printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #x); \
                        exit(1);                                               \
                }                                                              \
        } while (0)

static char a[64], b[64];
static ncclComm_t shared[8];
static _Atomic unsigned long records;

static __thread uint64_t hash;

/* What a plugin does while a communicator is made (fake_nccl.c calls it). */
void fake_in_init(void) __attribute__((visibility("default")));
void fake_in_init(void)
{
        capo_seam->comm(&(struct capo_seam_comm){.comm_hash = hash,
                                                 .n_ranks = 4,
                                                 .rank = 0,
                                                 .n_nodes = 2,
                                                 .min_local = 1,
                                                 .max_local = 3,
                                                 .name = "told",
                                                 .tuned = true});
}

static void *worker(void *arg)
{
        unsigned long mine = 0;
        int number = (int)(intptr_t)arg;
        struct capo_seam_call now;
        ncclUniqueId id;
        ncclComm_t comm;

        for (int round = 0; round < 6; round++) {
                MUST(ncclGetUniqueId(&id) == 0);
                hash = (uint64_t)(number + 1) << 32 | (unsigned)(round + 1);
                MUST(ncclCommInitRank(&comm, 4, id, 0) == 0);
                mine++;
                MUST(!capo_seam->current(0, &now));
                for (int i = 0; i < 200; i++) {
                        MUST(ncclAllReduce(a, b, (size_t)(i % 5), 7, 0, comm, NULL) == 0);
                        mine++;
                }
                for (int i = 0; i < 20; i++) {
                        MUST(ncclGroupStart() == 0);
                        MUST(ncclAllReduce(a, b, 3, 7, 0, comm, NULL) == 0);
                        MUST(ncclAllGather(a, b, 3, 7, comm, NULL) == 0);
                        MUST(capo_seam->current(hash, &now) && now.comm_uid &&
                             now.seq == 200 + 2 * (uint32_t)(i + 1));
                        capo_seam->decided(7);
                        capo_seam->ran(&(struct capo_seam_ran){.comm_hash = hash,
                                                               .count = 12,
                                                               .call = CAPO_CALL_ALLGATHER,
                                                               .algo_proto = CAPO_ALGO_RING << 4,
                                                               .channels = 2});
                        MUST(ncclGroupEnd() == 0);
                        mine += 3;
                }
                MUST(ncclAllReduce(a, b, 9, 7, 0, shared[number % 8], NULL) == 0);
                mine++;
                capo_shim_info("test.thread", "%d", number);
                usleep(3000);
                MUST(ncclCommDestroy(comm) == 0);
                mine++;
        }
        atomic_fetch_add(&records, mine);
        return NULL;
}

int main(int argc, char **argv)
{
        int n_threads = argc > 1 ? atoi(argv[1]) : 8, waves = argc > 2 ? atoi(argv[2]) : 3;
        pthread_t t[64];

        MUST(ncclCommInitAll(shared, 8, NULL) == 0);
        records = 1;
        for (int wave = 0; wave < waves; wave++) {
                for (int i = 0; i < n_threads; i++)
                        MUST(pthread_create(&t[i], NULL, worker, (void *)(intptr_t)i) == 0);
                for (int i = 0; i < n_threads; i++)
                        pthread_join(t[i], NULL);
        }
        printf("records %lu\n", records);
        return 0;
}
