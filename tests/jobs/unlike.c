/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unlike: three ranks whose groups are not alike, or that come to one communicator in different
 * ways. One all-reduce of them all, again and again, and unlike others   in the groups of ranks 0
 * and 2 before it one of a communicator of theirs unlike sends    in the groups of ranks 0 and 2
 * two messages, before it and behind it unlike grown    nothing else; but rank 2 came later unlike
 * mixed    nothing else; but rank 1 does not block unlike simulated    rank 1 asks before it how
 * long it would take
 */
#include <string.h>

#include "perf_job.h"

enum { COUNT = 2000, TIMES = 100 };

static struct job job;
static char *data;

static void sum(ncclComm_t comm, size_t at)
{
        NCCL_CHECK(
                ncclAllReduce(data + at, data + at, COUNT, ncclFloat32, ncclSum, comm, job.stream));
}

/* Ranks 0 and 1, and then rank 2, too. */
static ncclComm_t grow(void)
{
        ncclComm_t first = NULL, grown = NULL;
        ncclUniqueId id;

        NCCL_CHECK(ncclCommSplit(job.comm, job.rank < 2, job.rank, &first, NULL));
        if (job.rank == 0) {
                NCCL_CHECK(ncclCommGetUniqueId(first, &id));
                CU_CHECK(cuMemcpyHtoD((CUdeviceptr)data, &id, sizeof id));
        }
        NCCL_CHECK(ncclBroadcast(data, data, sizeof id, ncclInt8, 0, job.comm, job.stream));
        CU_CHECK(cuStreamSynchronize(job.stream));
        CU_CHECK(cuMemcpyDtoH(&id, (CUdeviceptr)data, sizeof id));
        NCCL_CHECK(ncclCommGrow(job.rank < 2 ? first : NULL, 3, job.rank == 1 ? NULL : &id,
                                job.rank < 2 ? -1 : 2, &grown, NULL));
        return grown;
}

/* Of all ranks; rank 1 does not block. */
static ncclComm_t mix(void)
{
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        ncclComm_t mixed = NULL;
        ncclResult_t r;

        config.blocking = job.rank != 1;
        r = ncclCommSplit(job.comm, 0, job.rank, &mixed, &config);
        if (r != ncclInProgress)
                NCCL_CHECK(r);
        return mixed;
}

static void wait_for(ncclComm_t comm)
{
        ncclResult_t r = ncclInProgress;

        while (r == ncclInProgress)
                NCCL_CHECK(ncclCommGetAsyncError(comm, &r));
        NCCL_CHECK(r);
}

static void simulate(ncclComm_t comm)
{
        ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;

        NCCL_CHECK(ncclGroupStart());
        sum(comm, 0);
        NCCL_CHECK(ncclGroupSimulateEnd(&info));
}

int main(int argc, char **argv)
{
        const char *what = argc == 2 ? argv[1] : "";
        ncclComm_t all, part = NULL;
        CUdeviceptr memory;
        bool sends, mixed, simulated;

        job_open(&job, "world");
        if (job.n != 3) {
                fprintf(stderr, "unlike: wants three ranks\n");
                return 1;
        }
        CU_CHECK(cuMemAlloc(&memory, 4 * COUNT * sizeof(float)));
        data = (char *)memory;
        mixed = !strcmp(what, "mixed");
        simulated = !strcmp(what, "simulated");
        all = mixed ? mix() : strcmp(what, "grown") ? job.comm : grow();
        if (mixed)
                wait_for(all);
        if (!strcmp(what, "others"))
                NCCL_CHECK(ncclCommSplit(job.comm, job.rank == 1 ? NCCL_SPLIT_NOCOLOR : 5, job.rank,
                                         &part, NULL));
        sends = !strcmp(what, "sends");
        for (int i = 0; i < TIMES; i++) {
                ncclResult_t r;

                if (simulated && job.rank == 1)
                        simulate(all);
                NCCL_CHECK(ncclGroupStart());
                if (part)
                        sum(part, COUNT * sizeof(float));
                for (int k = 0; k < 2 && sends && job.rank == 0; k++)
                        NCCL_CHECK(ncclSend(data + 8 * COUNT, COUNT, ncclFloat32, 2, job.comm,
                                            job.stream));
                sum(all, 0);
                for (int k = 0; k < 2 && sends && job.rank == 2; k++)
                        NCCL_CHECK(ncclRecv(data + 8 * COUNT, COUNT, ncclFloat32, 0, job.comm,
                                            job.stream));
                r = ncclGroupEnd();
                if (r != ncclInProgress)
                        NCCL_CHECK(r);
                if (mixed)
                        wait_for(all);
                CU_CHECK(cuStreamSynchronize(job.stream));
        }
        CU_CHECK(cuMemFree(memory));
        job_close(&job);
        return 0;
}
