/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ways: an all-reduce in each way that a program can make it: alone, in groups of one and of two,
 * captured in a graph and replayed, by the calls that take a config, on a communicator that does
 * not block. Each has a size of its own: 1024 bytes times its number. Every sum is checked. `ways
 * gpus` makes one for two ranks in one process.
 */
#include <string.h>
#include <unistd.h>

#include "perf_job.h"

enum {
        ALONE = 1,
        GROUP_OF_ONE,
        FIRST_OF_TWO,
        SECOND_OF_TWO,
        CAPTURED,
        NO_CONFIG,
        OWN_CTAS,
        NONBLOCKING,
        WAYS
};

static struct job job;
static CUdeviceptr data[WAYS];

static size_t count_of(int way) { return (size_t)way * 256; }

static void fill(int way)
{
        float host[WAYS * 256];

        for (size_t i = 0; i < count_of(way); i++)
                host[i] = (float)(i % 7 + (size_t)way);
        CU_CHECK(cuMemcpyHtoD(data[way], host, count_of(way) * sizeof *host));
}

static void check(int way, int times)
{
        float host[WAYS * 256], factor = 1;

        CU_CHECK(cuStreamSynchronize(job.stream));
        CU_CHECK(cuMemcpyDtoH(host, data[way], count_of(way) * sizeof *host));
        for (int i = 0; i < times; i++)
                factor *= (float)job.n;
        for (size_t i = 0; i < count_of(way); i++) {
                if (host[i] != (float)(i % 7 + (size_t)way) * factor) {
                        fprintf(stderr, "ways: way %d: element %zu is %g\n", way, i,
                                (double)host[i]);
                        exit(1);
                }
        }
}

static ncclResult_t reduce(ncclComm_t comm, int way)
{
        return ncclAllReduce((void *)data[way], (void *)data[way], count_of(way), ncclFloat32,
                             ncclSum, comm, job.stream);
}

static ncclResult_t reduce_so(int way, const ncclCollConfig_t *config)
{
        return ncclAllReduceConfig((void *)data[way], (void *)data[way], count_of(way), ncclFloat32,
                                   ncclSum, job.comm, job.stream, config);
}

static void settle(ncclComm_t comm)
{
        ncclResult_t state = ncclInProgress;

        while (state == ncclInProgress) {
                NCCL_CHECK(ncclCommGetAsyncError(comm, &state));
                usleep(100);
        }
        NCCL_CHECK(state);
}

static void nonblocking(void)
{
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        ncclComm_t comm = NULL;
        ncclResult_t r;

        config.blocking = 0;
        r = ncclCommSplit(job.comm, 0, job.rank, &comm, &config);
        if (r != ncclInProgress)
                NCCL_CHECK(r);
        settle(comm);
        r = reduce(comm, NONBLOCKING);
        if (r != ncclInProgress)
                NCCL_CHECK(r);
        settle(comm);
        check(NONBLOCKING, 1);
        NCCL_CHECK(ncclCommDestroy(comm));
}

/* Two ranks of this process, a member of one group for each. */
static int in_one_process(void)
{
        struct job jobs[2];
        CUdeviceptr at[2];
        float host[256];

        job_open_gpus(jobs, 2, "ways");
        NCCL_CHECK(ncclGroupStart());
        for (int g = 0; g < 2; g++) {
                CU_CHECK(cuCtxSetCurrent(jobs[g].ctx));
                CU_CHECK(cuMemAlloc(&at[g], sizeof host));
                for (size_t i = 0; i < 256; i++)
                        host[i] = (float)(i + (size_t)g);
                CU_CHECK(cuMemcpyHtoD(at[g], host, sizeof host));
                NCCL_CHECK(ncclAllReduce((void *)at[g], (void *)at[g], 256, ncclFloat32, ncclSum,
                                         jobs[g].comm, jobs[g].stream));
        }
        NCCL_CHECK(ncclGroupEnd());
        for (int g = 0; g < 2; g++) {
                CU_CHECK(cuCtxSetCurrent(jobs[g].ctx));
                CU_CHECK(cuStreamSynchronize(jobs[g].stream));
                CU_CHECK(cuMemcpyDtoH(host, at[g], sizeof host));
                for (size_t i = 0; i < 256; i++) {
                        if (host[i] != (float)(2 * i + 1))
                                exit(1);
                }
        }
        for (int g = 0; g < 2; g++)
                job_close(&jobs[g]);
        puts("ways: all sums are right");
        return 0;
}

int main(int argc, char **argv)
{
        ncclCollConfig_t own = NCCL_COLLCONFIG_INITIALIZER;
        CUgraphExec exec;
        CUgraph graph;
        int version;

        if (argc > 1)
                return strcmp(argv[1], "gpus") ? 2 : in_one_process();
        job_open(&job, "ways");
        NCCL_CHECK(ncclGetVersion(&version));
        for (int way = 1; way < WAYS; way++) {
                CU_CHECK(cuMemAlloc(&data[way], count_of(way) * sizeof(float)));
                fill(way);
        }
        NCCL_CHECK(reduce(job.comm, ALONE));
        check(ALONE, 1);
        NCCL_CHECK(ncclGroupStart());
        NCCL_CHECK(reduce(job.comm, GROUP_OF_ONE));
        NCCL_CHECK(ncclGroupEnd());
        check(GROUP_OF_ONE, 1);
        NCCL_CHECK(ncclGroupStart());
        NCCL_CHECK(reduce(job.comm, FIRST_OF_TWO));
        NCCL_CHECK(reduce(job.comm, SECOND_OF_TWO));
        NCCL_CHECK(ncclGroupEnd());
        check(FIRST_OF_TWO, 1);
        check(SECOND_OF_TWO, 1);
        CU_CHECK(cuStreamBeginCapture(job.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        NCCL_CHECK(reduce(job.comm, CAPTURED));
        CU_CHECK(cuStreamEndCapture(job.stream, &graph));
        CU_CHECK(cuGraphInstantiate(&exec, graph, 0));
        CU_CHECK(cuGraphLaunch(exec, job.stream));
        CU_CHECK(cuGraphLaunch(exec, job.stream));
        check(CAPTURED, 2);
        if (version >= 23102) {
                own.minCTAs = own.maxCTAs = 1;
                NCCL_CHECK(reduce_so(NO_CONFIG, NULL));
                check(NO_CONFIG, 1);
                NCCL_CHECK(reduce_so(OWN_CTAS, &own));
                check(OWN_CTAS, 1);
        }
        nonblocking();
        CU_CHECK(cuGraphExecDestroy(exec));
        CU_CHECK(cuGraphDestroy(graph));
        job_close(&job);
        puts("ways: all sums are right");
        return 0;
}
