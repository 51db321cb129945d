/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to a program from inside, whichever program it is; and how it counts its calls. For
 * victim.c, client.c, client.py. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "shim/record/nccl_abi.h"

#define MUST(x)                                                                \
        do {                                                                   \
                if (!(x)) {                                                    \
                        printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #x); \
                        fflush(stdout);                                        \
                        _exit(1);                                              \
                }                                                              \
        } while (0)

/* The file VICTIM_TRUTH: what was begun is counted before, what ended behind each call, so that
 * whoever looks knows both, also when the process is killed. Processes that share it add to the
 * same numbers. */
struct truth {
        _Atomic uint64_t begun, ended;
        _Atomic uint64_t sends_begun, sends_ended; /* over libfabric */
};
extern struct truth *truth;

#define COUNTED(x)              \
        do {                    \
                truth->begun++; \
                MUST((x) == 0); \
                truth->ended++; \
        } while (0)

/* The NCCL that the program uses, by whatever way it came to it. */
struct nccl {
        ncclResult_t (*id)(ncclUniqueId *);
        ncclResult_t (*init)(ncclComm_t *, int, ncclUniqueId, int);
        ncclResult_t (*all_reduce)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t,
                                   ncclComm_t, cudaStream_t);
        ncclResult_t (*destroy)(ncclComm_t);
};

/** mishap_begin() - maps the counts; before the first call: what VICTIM_FAULT names, if it belongs
 * there. @nccl must stay. */
void mishap_begin(const struct nccl *nccl);

/** mishap_middle() - between two calls, by any thread, as often as one likes: the first time it
 * happens. */
void mishap_middle(void);
