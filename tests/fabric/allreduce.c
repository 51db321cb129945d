/* SPDX-License-Identifier: Apache-2.0 */
/* An MPI program that knows nothing of libfabric: allreduce N BYTES. Checks its sums. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
        int n = argc > 1 ? atoi(argv[1]) : 100,
            count = (argc > 2 ? atoi(argv[2]) : 65536) / (int)sizeof(int);
        int *in = malloc(sizeof *in * (size_t)count), *out = malloc(sizeof *out * (size_t)count),
            rank, size, wrong = 0;

        MPI_Init(&argc, &argv);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        for (int i = 0; i < n; i++) {
                for (int k = 0; k < count; k++)
                        in[k] = rank + i + k;
                MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
                for (int k = 0; k < count; k++)
                        wrong += out[k] != size * (i + k) + size * (size - 1) / 2;
        }
        if (rank == 0)
                printf("allreduce %d x %d bytes on %d ranks: %d wrong\n", n,
                       count * (int)sizeof(int), size, wrong);
        MPI_Finalize();
        return wrong != 0;
}
