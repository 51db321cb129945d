/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record-bench BUILD [REPEATS]: what recording a call costs. BUILD is the build folder.
 *
 * The program runs itself again and again, in turns: bare, and with libcapo.so preloaded. Each time it calls
 * ncclAllReduce of a library whose functions do nothing, in bursts that fit half a ring, with pauses in which the drain
 * empties it (so nothing is dropped, and the ring is as warm as in a job). Beside it stands the floor: a wrapper that
 * only reads the time-stamp counter twice and stores 64 bytes. Printed are medians over all bursts, costs over the bare
 * call, and ratios; absolute times belong to this machine.
 *
 * A last line is about NCCL's profiler interface with the recorder behind it: the library's all-reduce then starts and
 * stops a Coll event, as NCCL does inside the call, and the cost is over the same preloaded call without the event.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shim/nccl/nccl_abi.h"
#include "tuner/nccl_profiler.h"
#if defined __x86_64__
#define TICKS() __builtin_ia32_rdtsc()
#else
#define TICKS() now(CLOCK_MONOTONIC)
#endif

ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int n, ncclUniqueId id, int rank);
ncclResult_t ncclAllReduce(const void *s, void *r, size_t n, ncclDataType_t t, ncclRedOp_t o, ncclComm_t c,
                           cudaStream_t st);

#define BURST   1500
#define WARM    200
#define BURSTS  24
#define THREADS 8

extern char **environ;
static char a[64], b[64];

static uint64_t now(clockid_t clock)
{
        struct timespec t;

        clock_gettime(clock, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int compare(const void *x, const void *y)
{
        double d = *(const double *)x - *(const double *)y;

        return (d > 0) - (d < 0);
}

static double median(double *v, int n)
{
        qsort(v, (size_t)n, sizeof *v, compare);
        return n ? v[n / 2] : 0;
}

/* ---- the child: one way of calling ---- */

struct line {
        uint64_t w[8];
};
static __thread struct line *ring;
static __thread uint64_t head;

/* The least a recorder can do: two readings and one cache line. */
static __attribute__((noinline)) ncclResult_t floor_call(size_t n, ncclComm_t comm)
{
        uint64_t t0 = TICKS(), t1;
        ncclResult_t r = ncclAllReduce(a, b, n, 7, 0, comm, NULL);

        t1 = TICKS();
        ring[head & 4095] = (struct line){{t0, t1, n, (uint64_t)r, (uintptr_t)comm, head, 0, 0}};
        __atomic_store_n(&head, head + 1, __ATOMIC_RELEASE);
        return r;
}

/* What NCCL does when there is a profiler plugin: while a communicator is made, and in a collective when the plugin
 * asked for Coll events. */
void fake_in_init(void);
void fake_in_call(size_t count);
static const struct capo_profiler_v5 *profiler;
static __thread void *profiler_context;

void fake_in_init(void)
{
        int mask = 0;

        if (profiler &&
            (profiler->init(&profiler_context, 1, &mask, "bench", 1, 8, 0, NULL) || !(mask & CAPO_EVENT_COLL)))
                exit(1);
}

static __attribute__((noinline)) void event(size_t count)
{
        struct capo_event_v5 e = {.type = CAPO_EVENT_COLL,
                                  .coll = {.func = "AllReduce",
                                           .count = count,
                                           .datatype = "ncclFloat32",
                                           .n_channels = 2,
                                           .algo = "RING",
                                           .proto = "SIMPLE"}};
        void *handle = NULL;

        profiler->start_event(profiler_context, &handle, &e);
        profiler->stop_event(handle);
}

void fake_in_call(size_t count)
{
        if (profiler)
                event(count);
}

static void burst(bool floor, ncclComm_t comm, int n)
{
        if (floor) {
                for (int i = 0; i < n; i++)
                        floor_call((size_t)i, comm);
        } else {
                for (int i = 0; i < n; i++)
                        ncclAllReduce(a, b, (size_t)i, 7, 0, comm, NULL);
        }
}

static pthread_mutex_t print = PTHREAD_MUTEX_INITIALIZER;

static void *caller(void *cookie)
{
        bool floor = cookie != NULL;
        double ns[BURSTS];
        ncclComm_t comm;
        ncclUniqueId id;

        ring = calloc(4096, sizeof *ring);
        ncclGetUniqueId(&id);
        ncclCommInitRank(&comm, 8, id, 0);
        for (int i = 0; i < BURSTS; i++) {
                uint64_t t0;

                usleep(60000);
                burst(floor, comm, WARM);
                t0 = now(CLOCK_THREAD_CPUTIME_ID);
                burst(floor, comm, BURST);
                ns[i] = (double)(now(CLOCK_THREAD_CPUTIME_ID) - t0) / BURST;
        }
        pthread_mutex_lock(&print);
        for (int i = 0; i < BURSTS; i++)
                printf("%g\n", ns[i]);
        pthread_mutex_unlock(&print);
        return NULL;
}

static int child(const char *how, int n_threads)
{
        pthread_t t[THREADS];
        void *cookie = !strcmp(how, "floor") ? t : NULL;

        if (!strcmp(how, "exit"))
                return 0;
        if (!strcmp(how, "events"))
                profiler = dlsym(RTLD_DEFAULT, "ncclProfiler_v5");
        for (int i = 0; i < n_threads; i++)
                pthread_create(&t[i], NULL, caller, cookie);
        for (int i = 0; i < n_threads; i++)
                pthread_join(t[i], NULL);
        return 0;
}

/* ---- the parent ---- */

static char dir[64] = "/tmp/capo-bench-XXXXXX";

/* Run ourselves; the numbers printed are added to @v. Returns the wall time in us. */
static double run(const char *how, int n_threads, const char *preload, double *v, int *n)
{
        char threads[16], number[64], *argv[] = {(char *)"record-bench", (char *)"--child", (char *)how, threads, NULL};
        uint64_t t0;
        int pipes[2], status;
        pid_t pid;
        FILE *f;

        snprintf(threads, sizeof threads, "%d", n_threads);
        if (pipe2(pipes, O_CLOEXEC))
                exit(1);
        if (preload)
                setenv("LD_PRELOAD", preload, 1);
        setenv("CAPO_DIR", dir, 1);
        t0 = now(CLOCK_MONOTONIC);
        pid = vfork();
        if (pid == 0) {
                dup2(pipes[1], 1);
                execv("/proc/self/exe", argv);
                _exit(127);
        }
        close(pipes[1]);
        f = fdopen(pipes[0], "r");
        while (f && fgets(number, sizeof number, f))
                v[(*n)++] = atof(number);
        if (f)
                fclose(f);
        waitpid(pid, &status, 0);
        unsetenv("LD_PRELOAD");
        if (status) {
                fprintf(stderr, "record-bench: a run failed\n");
                exit(1);
        }
        return (double)(now(CLOCK_MONOTONIC) - t0) / 1000;
}

static void calls(const char *libcapo, int n_threads, int repeats)
{
        static double bare[100000], floor[100000], capo[100000];
        int n_bare = 0, n_floor = 0, n_capo = 0;
        double m_bare, m_floor, m_capo;

        for (int i = 0; i < repeats; i++) {
                run("bare", n_threads, NULL, bare, &n_bare);
                run("floor", n_threads, NULL, floor, &n_floor);
                run("capo", n_threads, libcapo, capo, &n_capo);
        }
        m_bare = median(bare, n_bare);
        m_floor = median(floor, n_floor);
        m_capo = median(capo, n_capo);
        printf("%d thread%s  bare %.1f ns   floor +%.1f ns   capo +%.1f ns   capo/floor %.2f   (CPU time per call, %d "
               "bursts each)\n",
               n_threads, n_threads > 1 ? "s" : " ", m_bare, m_floor - m_bare, m_capo - m_bare,
               (m_capo - m_bare) / (m_floor - m_bare), n_capo);
}

static void events(const char *libcapo, int repeats)
{
        static double without[100000], with[100000];
        int n_without = 0, n_with = 0;

        for (int i = 0; i < repeats; i++) {
                run("capo", 1, libcapo, without, &n_without);
                run("events", 1, libcapo, with, &n_with);
        }
        printf("profiler, Coll start + stop, v5, in a recorded call  +%.1f ns   (%d bursts each)\n",
               median(with, n_with) - median(without, n_without), n_with);
}

static void starts(const char *libcapo, int repeats)
{
        static double bare[10000], capo[10000];
        double m_bare, m_capo;
        int none = 0;

        for (int i = 0; i < repeats; i++) {
                bare[i] = run("exit", 0, NULL, bare, &none);
                capo[i] = run("exit", 0, libcapo, capo, &none);
        }
        m_bare = median(bare, repeats);
        m_capo = median(capo, repeats);
        printf("start to exit without an NCCL call  bare %.0f us   preloaded +%.0f us   (%d runs each)\n", m_bare,
               m_capo - m_bare, repeats);
}

int main(int argc, char **argv)
{
        int repeats = argc > 2 ? atoi(argv[2]) : 3;
        char command[128], libcapo[4096];

        if (argc > 3 && !strcmp(argv[1], "--child"))
                return child(argv[2], atoi(argv[3]));
        if (argc < 2) {
                fprintf(stderr, "usage: record-bench BUILD [REPEATS]\n");
                return 2;
        }
        snprintf(libcapo, sizeof libcapo, "%s/shim/libcapo.so", argv[1]);
        if (access(libcapo, R_OK) || !mkdtemp(dir)) {
                perror(libcapo);
                return 1;
        }
        starts(libcapo, 200 * repeats);
        calls(libcapo, 1, repeats);
        calls(libcapo, THREADS, repeats);
        events(libcapo, repeats);
        snprintf(command, sizeof command, "rm -rf %s", dir);
        return system(command) != 0;
}
