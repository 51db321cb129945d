/* SPDX-License-Identifier: Apache-2.0 */
/*
 * experts-bench BUILD [PROCESSES]: what recording a dispatch of NCCL EP costs, beside the floor of
 * record-bench and an all-reduce of NCCL, in one run. The libraries do nothing. Each process takes
 * turns of bursts: dispatch bare (by a name that nobody wraps), through a wrapper that does the
 * least, recorded; all-reduce bare and recorded. Costs are over the bare call.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <nccl_ep.h>

#if defined __x86_64__
#define TICKS() __builtin_ia32_rdtsc()
#else
#define TICKS() cpu_ns()
#endif

enum { BARE, FLOOR, DISPATCH, BARE_REDUCE, REDUCE, WAYS, BURST = 700, WARM = 100, TURNS = 15 };

ncclResult_t quiet_all_reduce(const void *s, void *r, size_t n, ncclDataType_t t, ncclRedOp_t o,
                              ncclComm_t c, cudaStream_t st);

static __typeof__(ncclEpDispatch) *bare, *dispatch;
static ncclEpHandle_t handle;
static ncclComm_t comm;
static size_t sizes[] = {64, 4096};
static ncclEpTensor_t tokens = {.size = 48,
                                .magic = NCCL_EP_TENSOR_MAGIC,
                                .ndim = 2,
                                .datatype = ncclFloat32,
                                .sizes = sizes};
static ncclEpDispatchInputs_t in = {.size = 32, .magic = NCCL_EP_MAGIC, .tokens = &tokens};
static struct line {
        uint64_t w[8];
} ring[4096];
static uint64_t head;

static uint64_t cpu_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void call_floor(void)
{
        uint64_t t0 = TICKS(), t1;
        ncclResult_t rc = bare(handle, &in, NULL, NULL, NULL, NULL);

        t1 = TICKS();
        ring[head & 4095] = (struct line){{t0, t1, (uint64_t)rc, head, 0, 0, 0, 0}};
        __atomic_store_n(&head, head + 1, __ATOMIC_RELEASE);
}

static double time_burst(int way, int n)
{
        static float x[8];
        uint64_t t0 = cpu_ns();

        for (int i = 0; i < n; i++) {
                switch (way) {
                case BARE: bare(handle, &in, NULL, NULL, NULL, NULL); break;
                case FLOOR: call_floor(); break;
                case DISPATCH: dispatch(handle, &in, NULL, NULL, NULL, NULL); break;
                case BARE_REDUCE:
                        quiet_all_reduce(x, x, 8, ncclFloat32, ncclSum, comm, NULL);
                        break;
                default: ncclAllReduce(x, x, 8, ncclFloat32, ncclSum, comm, NULL);
                }
        }
        return (double)(cpu_ns() - t0) / n;
}

static int measure_calls(const char *library)
{
        ncclEpGroupConfig_t config = {.size = sizeof config,
                                      .magic = NCCL_EP_MAGIC,
                                      .version = NCCL_EP_API_VERSION,
                                      .num_experts = 8};
        void *l = dlopen(library, RTLD_NOW);
        __typeof__(ncclEpCreateGroup) *create = l ? dlsym(l, "ncclEpCreateGroup") : NULL;
        __typeof__(ncclEpInitHandle) *init = l ? dlsym(l, "ncclEpInitHandle") : NULL;
        ncclEpGroup_t group;
        ncclUniqueId id;

        bare = l ? dlsym(l, "fake_dispatch") : NULL;
        dispatch = l ? dlsym(l, "ncclEpDispatch") : NULL;
        if (!bare || !dispatch || !create || !init || ncclGetUniqueId(&id) ||
            ncclCommInitRank(&comm, 8, id, 0) || create(&group, comm, &config) ||
            init(&handle, group, NCCL_EP_LAYOUT_RANK_MAJOR, NULL, 2, NULL))
                return 1;
        for (int i = 0; i < TURNS; i++) {
                double ns[WAYS];

                usleep(60000); /* the drain empties the ring */
                for (int k = 0; k < WAYS; k++) {
                        time_burst((i + k) % WAYS, WARM);
                        ns[(i + k) % WAYS] = time_burst((i + k) % WAYS, BURST);
                }
                printf("%g %g %g\n", ns[FLOOR] - ns[BARE], ns[DISPATCH] - ns[BARE],
                       ns[REDUCE] - ns[BARE_REDUCE]);
        }
        return 0;
}

static int compare_doubles(const void *x, const void *y)
{
        double d = *(const double *)x - *(const double *)y;

        return (d > 0) - (d < 0);
}

static double median_of(double *v, int n)
{
        qsort(v, (size_t)n, sizeof *v, compare_doubles);
        return n ? v[n / 2] : 0;
}

int main(int argc, char **argv)
{
        enum { MOST = 100 };
        static double cost[5][MOST * TURNS];
        int processes = argc > 2 ? atoi(argv[2]) : 20, n = 0;
        char command[4096], folder[] = "/tmp/capo-bench-XXXXXX";

        if (argc == 3 && !strcmp(argv[1], "--child"))
                return measure_calls(argv[2]);
        if (argc < 2 || processes < 1 || processes > MOST || !mkdtemp(folder))
                return 2;
        snprintf(command, sizeof command,
                 "CAPO_DIR=%s LD_PRELOAD=%s/shim/libcapo.so %s/tests/bench/experts-bench --child "
                 "%s/tests/bench/libfake_experts.so",
                 folder, argv[1], argv[1], argv[1]);
        for (int i = 0; i < processes; i++) {
                FILE *f = popen(command, "r");

                while (f && n < MOST * TURNS &&
                       fscanf(f, "%lg %lg %lg", &cost[0][n], &cost[1][n], &cost[2][n]) == 3) {
                        cost[3][n] = cost[1][n] / cost[0][n];
                        cost[4][n] = cost[1][n] / cost[2][n];
                        n++;
                }
                if (!f || pclose(f))
                        return 1;
        }
        printf("EpDispatch  floor +%.1f ns   capo +%.1f ns   AllReduce capo +%.1f ns   ",
               median_of(cost[0], n), median_of(cost[1], n), median_of(cost[2], n));
        printf("dispatch/floor %.2f   dispatch/all-reduce %.2f\n", median_of(cost[3], n),
               median_of(cost[4], n));
        snprintf(command, sizeof command, "rm -rf %s*", folder);
        return system(command) != 0;
}
