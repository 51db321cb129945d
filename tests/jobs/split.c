/* SPDX-License-Identifier: Apache-2.0 */
/*
 * split: an all-reduce over all ranks, then one in each part of them: `split 0,1,0,0` puts rank 1
 * alone. A minus sign is a rank in no part. Every sum is checked.
 */
#include <string.h>

#include "perf_job.h"

#define COUNT 65536 /* of float: a size where a profile's row for many layouts can differ */

static struct job job;

static void sum(ncclComm_t comm, int n, const char *name, const char *what)
{
        size_t bytes = COUNT * sizeof(float);
        float *host = malloc(bytes);
        CUdeviceptr data;

        CU_CHECK(cuMemAlloc(&data, bytes));
        for (int i = 0; i < COUNT; i++)
                host[i] = (float)(i % 5);
        CU_CHECK(cuMemcpyHtoD(data, host, bytes));
        job_begin(&job, name, "AllReduce", bytes, job.stream);
        NCCL_CHECK(ncclAllReduce((void *)data, (void *)data, COUNT, ncclFloat32, ncclSum, comm,
                                 job.stream));
        job_end(&job);
        CU_CHECK(cuStreamSynchronize(job.stream));
        CU_CHECK(cuMemcpyDtoH(host, data, bytes));
        for (int i = 0; i < COUNT; i++) {
                if (host[i] != (float)(i % 5 * n)) {
                        fprintf(stderr, "split: %s: element %d is %g, not %d\n", what, i,
                                (double)host[i], i % 5 * n);
                        exit(1);
                }
        }
        CU_CHECK(cuMemFree(data));
        free(host);
}

int main(int argc, char **argv)
{
        const char *colours = argc == 2 ? argv[1] : "";
        int mine = NCCL_SPLIT_NOCOLOR, n = 0;
        ncclComm_t part = NULL;
        char name[32];

        job_open(&job, "world");
        for (int r = 0; *colours; r++) {
                if (r == job.rank)
                        mine = *colours == '-' ? NCCL_SPLIT_NOCOLOR : atoi(colours);
                colours += strcspn(colours, ",");
                colours += *colours == ',';
        }
        sum(job.comm, job.n, job.name, "all ranks");
        NCCL_CHECK(ncclCommSplit(job.comm, mine, job.rank, &part, NULL));
        if (part) {
                NCCL_CHECK(ncclCommCount(part, &n));
                snprintf(name, sizeof name, "world/%d", mine);
                sum(part, n, name, "a part");
                NCCL_CHECK(ncclCommDestroy(part));
        }
        job_close(&job);
        return 0;
}
