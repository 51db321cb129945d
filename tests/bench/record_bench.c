/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record-bench BUILD [PROCESSES]: what recording a call costs. BUILD is the build folder.
 *
 * The program runs itself again and again (30 fresh processes: where the kernel puts libraries and
 * stacks differs by process, and has mattered), each with libcapo.so preloaded. A process calls in
 * turns, in bursts: bare, an all-reduce of a library whose functions do nothing, by a name that
 * nobody wraps; floor, the same through a wrapper that does the least a recorder can, two readings
 * of the time-stamp counter and one store of 64 bytes; capo, ncclAllReduce. Bursts fit half a ring,
 * with pauses in which the drain empties it (so nothing is dropped, and the ring is as warm as in a
 * job). The three of a turn are within a quarter of a millisecond, so that a busy machine is busy
 * for all alike; a turn gives one ratio of costs over the bare call, a process the median of its
 * turns.
 *
 * The lines after them are about NCCL's profiler interface with the recorder behind it: the
 * library's all-reduce then starts and stops a Coll event, as NCCL does inside the call, and the
 * cost is over the same preloaded call without the event. Of v7 the event is a symmetric kernel's
 * and bears a tag; then come the kernel's stamps, of 16 channels, and its phases, which NCCL
 * collects on a thread of its own and which are here on the caller's.
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

#include "shim/record/nccl_abi.h"
#include "tuner/nccl_profiler.h"
#if defined __x86_64__
#define TICKS() __builtin_ia32_rdtsc()
#else
#define TICKS() now(CLOCK_MONOTONIC)
#endif

ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int n, ncclUniqueId id, int rank);
ncclResult_t ncclAllReduce(const void *s, void *r, size_t n, ncclDataType_t t, ncclRedOp_t o,
                           ncclComm_t c, cudaStream_t st);

ncclResult_t quiet_all_reduce(const void *s, void *r, size_t n, ncclDataType_t t, ncclRedOp_t o,
                              ncclComm_t c, cudaStream_t st);

#define BURST     1500
#define WARM      100
#define TURNS     12
#define THREADS   8
#define PROCESSES 30

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
static ncclResult_t floor_all_reduce(const void *s, void *r, size_t n, ncclDataType_t type,
                                     ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
        uint64_t t0 = TICKS(), t1;
        ncclResult_t rc = quiet_all_reduce(s, r, n, type, op, comm, stream);

        t1 = TICKS();
        ring[head & 4095] = (struct line){{t0, t1, n, (uint64_t)rc, (uintptr_t)comm, head, 0, 0}};
        __atomic_store_n(&head, head + 1, __ATOMIC_RELEASE);
        return rc;
}

/* What NCCL does when there is a profiler plugin: while a communicator is made, and in a collective
 * when the plugin asked for Coll events. */
void fake_in_init(void);
void fake_in_call(size_t count);
static const struct capo_profiler_v5
        *profiler; /* but for init, which is alike from v5 on, and the event all are alike */
static __thread void *profiler_context;
enum { EVENTS, SYMMETRIC, STAMPS, PHASES, HOWS };
static const struct {
        const char *name, *symbol, *kernel_time, *about;
        int mask;
} hows[HOWS] = {
        {"events", "ncclProfiler_v5", "0", "Coll start + stop, v5, in a recorded call",
         CAPO_EVENT_COLL},
        {"symmetric", "ncclProfiler_v7", "0", "the same of a symmetric kernel, tagged, v7",
         CAPO_EVENT_COLL},
        {"stamps", "ncclProfiler_v7", "1", "and the stamps of its 16 channels", CAPO_EVENT_KERNEL},
        {"phases", "ncclProfiler_v7", "1", "and the three phases of each", CAPO_EVENT_KERNEL_PHASE},
};
static int chosen_how;

void fake_in_init(void)
{
        int mask = 0;

        if (profiler && (profiler->init(&profiler_context, 1, &mask, "bench", 1, 8, 0, NULL) ||
                         !(mask & hows[chosen_how].mask)))
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

static void channel(void *kernel, uint8_t number)
{
        struct capo_event_v7 e = {.type = CAPO_EVENT_KERNEL,
                                  .parent = kernel,
                                  .kernel = {.channel = number, .timer = 1000}};
        uint64_t timer = 5000;
        void *handle = NULL;

        profiler->start_event(profiler_context, &handle, &e);
        for (uint8_t i = 0; i < 3 && chosen_how == PHASES; i++) {
                struct capo_event_v7 p = {.type = CAPO_EVENT_KERNEL_PHASE,
                                          .parent = handle,
                                          .phase = {number, i, "", 1000 + i * UINT64_C(1000)}};
                void *phase = NULL;

                profiler->start_event(profiler_context, &phase, &p);
                profiler->stop_event(phase);
        }
        profiler->record_state(handle, CAPO_STATE_KERNEL_STOP, &timer);
        profiler->stop_event(handle);
}

static __attribute__((noinline)) void symmetric_event(size_t count)
{
        struct capo_event_v7 e = {.type = CAPO_EVENT_COLL,
                                  .coll = {.func = "AllReduce",
                                           .count = count,
                                           .datatype = "ncclFloat32",
                                           .n_channels = 16,
                                           .kernel_variant = "RSxLD_AGxST",
                                           .is_symmetric = true,
                                           .tag = 7}};
        void *handle = NULL;

        profiler->start_event(profiler_context, &handle, &e);
        profiler->stop_event(handle);
        for (uint8_t i = 0; i < 16 && chosen_how >= STAMPS; i++)
                channel(handle, i);
}

void fake_in_call(size_t count)
{
        if (profiler && chosen_how >= SYMMETRIC)
                symmetric_event(count);
        else if (profiler)
                event(count);
}

typedef ncclResult_t (*all_reduce)(const void *s, void *r, size_t n, ncclDataType_t t,
                                   ncclRedOp_t o, ncclComm_t c, cudaStream_t st);
enum { BARE, FLOOR, CAPO, WAYS };
static all_reduce volatile ways[WAYS] = {quiet_all_reduce, floor_all_reduce, ncclAllReduce};

/* CPU time of a call, ns. */
static double burst(int way, ncclComm_t comm, int n)
{
        all_reduce call = ways[way];
        uint64_t t0 = now(CLOCK_THREAD_CPUTIME_ID);

        for (int i = 0; i < n; i++)
                call(a, b, (size_t)i, 7, 0, comm, NULL);
        return (double)(now(CLOCK_THREAD_CPUTIME_ID) - t0) / n;
}

static pthread_mutex_t print = PTHREAD_MUTEX_INITIALIZER;

/* One line per turn: bare, floor, capo. */
static void *caller(void *unused)
{
        double ns[TURNS][WAYS];
        ncclComm_t comm;
        ncclUniqueId id;

        ring = calloc(4096, sizeof *ring);
        ncclGetUniqueId(&id);
        ncclCommInitRank(&comm, 8, id, 0);
        for (int i = 0; i < TURNS; i++) {
                usleep(60000);
                for (int k = 0; k < 2 * WAYS; k++) {
                        burst((i + k) % WAYS, comm, WARM);
                        ns[i][(i + k) % WAYS] = burst((i + k) % WAYS, comm, BURST / 2);
                }
        }
        pthread_mutex_lock(&print);
        for (int i = 0; i < TURNS; i++)
                printf("%g %g %g\n", ns[i][BARE], ns[i][FLOOR], ns[i][CAPO]);
        pthread_mutex_unlock(&print);
        return NULL;
}

static int child(const char *how, int n_threads)
{
        pthread_t t[THREADS];

        for (int i = 0; i < HOWS; i++) {
                if (!strcmp(how, hows[i].name)) {
                        profiler = dlsym(RTLD_DEFAULT, hows[i].symbol);
                        chosen_how = i;
                }
        }
        for (int i = 0; i < n_threads; i++)
                pthread_create(&t[i], NULL, caller, NULL);
        for (int i = 0; i < n_threads; i++)
                pthread_join(t[i], NULL);
        return 0;
}

/* ---- the parent ---- */

static char dir[64] = "/tmp/capo-bench-XXXXXX";

struct turns {
        double ns[THREADS * TURNS][WAYS];
        int n;
};

/* Run ourselves. Returns the wall time in us. */
static double run(const char *how, int n_threads, const char *preload, struct turns *const out)
{
        char threads[16], line[128],
                *argv[] = {(char *)"record-bench", (char *)"--child", (char *)how, threads, NULL};
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
        while (f && out && out->n < THREADS * TURNS && fgets(line, sizeof line, f)) {
                double *ns = out->ns[out->n++];

                if (sscanf(line, "%lg %lg %lg", &ns[BARE], &ns[FLOOR], &ns[CAPO]) != WAYS)
                        exit(1);
        }
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

/* Medians over the turns: of a call; of what @way costs over the bare call; of its ratio to the
 * floor's. */
static double whole(const struct turns *t, int way)
{
        double v[THREADS * TURNS];

        for (int i = 0; i < t->n; i++)
                v[i] = t->ns[i][way];
        return median(v, t->n);
}

static double cost(const struct turns *t, int way)
{
        double v[THREADS * TURNS];

        for (int i = 0; i < t->n; i++)
                v[i] = t->ns[i][way] - t->ns[i][BARE];
        return median(v, t->n);
}

static double ratio(const struct turns *t)
{
        double v[THREADS * TURNS];

        for (int i = 0; i < t->n; i++)
                v[i] = (t->ns[i][CAPO] - t->ns[i][BARE]) / (t->ns[i][FLOOR] - t->ns[i][BARE]);
        return median(v, t->n);
}

static void calls(const char *libcapo, int n_threads, int processes)
{
        double floor[1000], capo[1000], ratios[1000];
        int above = 0;

        for (int i = 0; i < processes; i++) {
                struct turns t = {.n = 0};

                run("calls", n_threads, libcapo, &t);
                floor[i] = cost(&t, FLOOR);
                capo[i] = cost(&t, CAPO);
                ratios[i] = ratio(&t);
                above += ratios[i] > 1.3;
        }
        printf("%d thread%s  floor +%.1f ns   capo +%.1f ns   ", n_threads,
               n_threads > 1 ? "s" : " ", median(floor, processes), median(capo, processes));
        median(ratios, processes);
        printf("capo/floor min %.2f median %.2f max %.2f, above 1.3 in %d of %d processes\n",
               ratios[0], ratios[processes / 2], ratios[processes - 1], above, processes);
}

static void events(const char *libcapo, int processes)
{
        double with[HOWS][1000], without[1000], base;

        for (int i = 0; i < processes; i++) {
                struct turns t = {.n = 0};

                run("calls", 1, libcapo, &t);
                without[i] = whole(&t, CAPO);
                for (int h = 0; h < HOWS; h++) {
                        setenv("CAPO_KERNEL_TIME", hows[h].kernel_time, 1);
                        t.n = 0;
                        run(hows[h].name, 1, libcapo, &t);
                        with[h][i] = whole(&t, CAPO);
                }
                unsetenv("CAPO_KERNEL_TIME");
        }
        base = median(without, processes);
        for (int h = 0; h < HOWS; h++)
                printf("profiler: %-42s  +%.0f ns   (%d processes each)\n", hows[h].about,
                       median(with[h], processes) - base, processes);
}

static void starts(const char *libcapo, int runs)
{
        double bare[10000], capo[10000];
        double m_bare, m_capo;

        for (int i = 0; i < runs; i++) {
                bare[i] = run("exit", 0, NULL, NULL);
                capo[i] = run("exit", 0, libcapo, NULL);
        }
        m_bare = median(bare, runs);
        m_capo = median(capo, runs);
        printf("start to exit without an NCCL call  bare %.0f us   preloaded +%.0f us   (%d runs each)\n",
               m_bare, m_capo - m_bare, runs);
}

int main(int argc, char **argv)
{
        int processes = argc > 2 ? atoi(argv[2]) : PROCESSES;
        char command[128], libcapo[4096];

        if (argc > 3 && !strcmp(argv[1], "--child"))
                return child(argv[2], atoi(argv[3]));
        if (argc < 2 || processes < 1 || processes > 1000) {
                fprintf(stderr, "usage: record-bench BUILD [PROCESSES]\n");
                return 2;
        }
        snprintf(libcapo, sizeof libcapo, "%s/shim/libcapo.so", argv[1]);
        if (access(libcapo, R_OK) || !mkdtemp(dir)) {
                perror(libcapo);
                return 1;
        }
        calls(libcapo, 1, processes);
        calls(libcapo, THREADS, processes);
        events(libcapo, processes / 4 + 1);
        starts(libcapo, 10 * processes);
        snprintf(command, sizeof command, "rm -rf %s", dir);
        return system(command) != 0;
}
