/* SPDX-License-Identifier: Apache-2.0 */
/* What the test jobs share: who am I, how do ranks meet, check every call, count what was issued. */
#ifndef JOB_H
#define JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cuda.h>
#include <nccl.h>

struct job {
        int rank, n, local;
        CUcontext ctx;
        ncclComm_t comm;
        CUstream stream;
};

#define CU_CHECK(call)                                                                                   \
        do {                                                                                             \
                CUresult cu_r_ = (call);                                                                 \
                if (cu_r_) {                                                                             \
                        fprintf(stderr, "%s:%d: %s: CUDA error %d\n", __FILE__, __LINE__, #call, cu_r_); \
                        exit(1);                                                                         \
                }                                                                                        \
        } while (0)
#define NCCL_CHECK(call)                                                                                       \
        do {                                                                                                   \
                ncclResult_t nccl_r_ = (call);                                                                 \
                if (nccl_r_) {                                                                                 \
                        fprintf(stderr, "%s:%d: %s: NCCL error %d (%s)\n", __FILE__, __LINE__, #call, nccl_r_, \
                                ncclGetLastError(NULL));                                                       \
                        exit(1);                                                                               \
                }                                                                                              \
        } while (0)

/* job_open() - rank and size from torchrun's, Slurm's, Open MPI's or MPICH's variables (else one rank), a device, a
 * communicator named `name` over all ranks (its id goes by TCP at MASTER_ADDR:MASTER_PORT), a stream. Exits on trouble.
 */
void job_open(struct job *job, const char *name);
void job_close(struct job *job);

/* job_issued() - count one call; job_report() - print the counts: "issued call=AllReduce bytes=4096 times=20". Bytes
 * are the caller's buffer as nccl-tests' size: the total over ranks for all-gather and reduce-scatter. */
void job_issued(const char *call, uint64_t bytes);
void job_report(const struct job *job, FILE *to);

double job_now(void); /* seconds, CLOCK_MONOTONIC */
size_t job_type_bytes(ncclDataType_t type);
#endif
