/* SPDX-License-Identifier: Apache-2.0 */
/* A rank of an MPI program: beside each call of NCCL an all-reduce of MPI. Its ranks count in one
 * file. */
#include "mishap.h"

#include <mpi.h>

ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int n_ranks, ncclUniqueId id, int rank);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);

int main(int argc, char **argv)
{
        static const struct nccl nccl = {ncclGetUniqueId, ncclCommInitRank, ncclAllReduce,
                                         ncclCommDestroy};
        static char buf[4096];
        int rank, size, sum, wrong = 0;
        ncclUniqueId id;
        ncclComm_t comm;

        MPI_Init(&argc, &argv);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        mishap_begin(&nccl);
        if (rank == 0)
                MUST(ncclGetUniqueId(&id) == ncclSuccess);
        MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
        COUNTED(ncclCommInitRank(&comm, size, id, rank));
        for (int i = 0; i < 500; i++) {
                COUNTED(ncclAllReduce(buf, buf, 100, 7, 0, comm, NULL));
                MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
                wrong += sum != size * i;
        }
        COUNTED(ncclCommDestroy(comm));
        if (rank == 0)
                printf("done on %d ranks: %d wrong\n", size, wrong);
        MPI_Finalize();
        return wrong != 0;
}
