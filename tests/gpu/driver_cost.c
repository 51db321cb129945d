/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver-cost: what the driver calls cost that recording makes on the job's thread, on this
 * machine's driver: one cuStreamIsCapturing for each NCCL call on a GPU stream, and for one call in
 * CAPO_GPU_SAMPLE a pair of events. Prints the median of 101 batches; no verdict.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cuda.h>

enum { BATCHES = 101, CALLS = 256 };

static void must(CUresult r, const char *what)
{
        if (r) {
                fprintf(stderr, "driver-cost: %s: CUDA error %d\n", what, (int)r);
                exit(1);
        }
}

static double now_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

static CUstream stream;
static CUevent event[2];

static void is_capturing(void)
{
        CUstreamCaptureStatus status;

        must(cuStreamIsCapturing(stream, &status), "cuStreamIsCapturing");
}

static void event_pair(void)
{
        must(cuEventRecord(event[0], stream), "cuEventRecord");
        must(cuEventRecord(event[1], stream), "cuEventRecord");
}

static double median_ns(void (*call)(void))
{
        double ns[BATCHES];

        for (int b = 0; b < BATCHES; b++) {
                double begin = now_ns();

                for (int i = 0; i < CALLS; i++)
                        call();
                ns[b] = (now_ns() - begin) / CALLS;
                must(cuStreamSynchronize(stream), "cuStreamSynchronize");
        }
        qsort(ns, BATCHES, sizeof *ns, compare);
        return ns[BATCHES / 2];
}

int main(void)
{
        CUcontext context;

        must(cuInit(0), "cuInit");
        must(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
        must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
        must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
        for (int i = 0; i < 2; i++)
                must(cuEventCreate(&event[i], CU_EVENT_DEFAULT), "cuEventCreate");
        printf("cuStreamIsCapturing %.0f ns; cuEventRecord twice %.0f ns (medians of %d batches of %d, "
               "CLOCK_MONOTONIC)\n",
               median_ns(is_capturing), median_ns(event_pair), BATCHES, CALLS);
        return 0;
}
