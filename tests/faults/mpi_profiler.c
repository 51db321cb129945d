/* SPDX-License-Identifier: Apache-2.0 */
/* What profilers of MPI are: MPI's names, over its PMPI_ ones. This one says how many all-reduces
 * there were, and that they took time. */
#include <mpi.h>
#include <stdio.h>

static long calls;
static double seconds;

int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm)
{
        double begin = PMPI_Wtime();
        int r = PMPI_Allreduce(from, to, count, type, op, comm);

        seconds += PMPI_Wtime() - begin;
        calls++;
        return r;
}

int MPI_Finalize(void)
{
        long all = 0;
        int rank;

        PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
        PMPI_Reduce(&calls, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
        if (rank == 0)
                printf("%ld calls of MPI_Allreduce%s\n", all, seconds > 0 ? "" : " in no time");
        return PMPI_Finalize();
}
