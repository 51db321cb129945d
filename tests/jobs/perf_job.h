/* SPDX-License-Identifier: Apache-2.0 */
/* What the test jobs share: who am I, how do ranks meet, check every call, count what was issued.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cuda.h>
#include <nccl.h>

#include "truth.h"

struct job {
        int rank, n, local;
        CUcontext ctx;
        ncclComm_t comm;
        CUstream stream;
        const char *name; /* of the communicator */
        struct truth *truth;
};

#define CU_CHECK(call)                                                                           \
        do {                                                                                     \
                CUresult cu_r_ = (call);                                                         \
                if (cu_r_) {                                                                     \
                        fprintf(stderr, "%s:%d: %s: CUDA error %d\n", __FILE__, __LINE__, #call, \
                                cu_r_);                                                          \
                        exit(1);                                                                 \
                }                                                                                \
        } while (0)
#define NCCL_CHECK(call)                                                                       \
        do {                                                                                   \
                ncclResult_t nccl_r_ = (call);                                                 \
                if (nccl_r_) {                                                                 \
                        fprintf(stderr, "%s:%d: %s: NCCL error %d (%s)\n", __FILE__, __LINE__, \
                                #call, nccl_r_, ncclGetLastError(NULL));                       \
                        exit(1);                                                               \
                }                                                                              \
        } while (0)

/* job_open() - rank and size from torchrun's, Slurm's, Open MPI's or MPICH's variables (else one
 * rank), a device, a communicator named `name` over all ranks (its id goes by TCP at
 * MASTER_ADDR:MASTER_PORT), a stream. Exits on trouble.
 */
void job_open(struct job *job, const char *name);
void job_close(struct job *job);

/* job_open_gpus() - the same for a process with several GPUs, of which each is a rank: @jobs[i] is
 * the one of GPU i. Calls of theirs are made in one group, each with its context current.
 * job_close() each. */
void job_open_gpus(struct job *jobs, int gpus, const char *name);

/* job_begin(), job_end() - around one call on @stream: counted when @comm is the job's own, and
 * written down where that is asked for (truth.h). job_end() ends all that are begun, so the members
 * of a group are begun first. Bytes are the caller's buffer as nccl-tests' size: the total over
 * ranks for all-gather and reduce-scatter. */
void job_begin(struct job *job, const char *comm, const char *call, uint64_t bytes,
               CUstream stream);
void job_end(struct job *job);

/* job_report() - print the counts: "issued call=AllReduce bytes=4096 times=20". */
void job_report(const struct job *job, FILE *to);

double job_now(void); /* seconds, CLOCK_MONOTONIC */
size_t job_type_bytes(ncclDataType_t type);
