/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim PROGRAM [N]: a job that something happens to, by signals, limits, preloads, or in the
 * middle of it (mishap.c). The programs below "of threads" are the faults of one row each. It
 * counts its own calls of NCCL. It knows nothing of capo.
 */
#include "mishap.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define CAPO_NCCL_CODE                                  FAKE_CODE
#define CALL(name, params, args, id, comm, stream, ...) ncclResult_t name params;
#define HAND(name, params, args)                        ncclResult_t name params;
#define PASS(type, name, params, args, missing)         type name params;
#include "capo/nccl_calls.def"

static char a[4096], b[4096];
static cudaStream_t stream = (cudaStream_t)0x5000;

static ncclComm_t comm_new(void)
{
        ncclUniqueId id;
        ncclComm_t comm = NULL;

        MUST(ncclGetUniqueId(&id) == ncclSuccess);
        COUNTED(ncclCommInitRank(&comm, 2, id, 0));
        return comm;
}

static void comm_end(ncclComm_t comm) { COUNTED(ncclCommDestroy(comm)); }

static __attribute__((noinline)) void all_reduce(ncclComm_t comm, int times)
{
        for (int i = 0; i < times; i++)
                COUNTED(ncclAllReduce(a, b, 100, 7, 0, comm, stream));
}

/* ---- programs ---- */

static int rounds = 2000;

static void pause_now_and_then(int i)
{
        if (i % 250 ==
            99) /* every program has as many rounds; the other threads get to theirs meanwhile */
                usleep(2000);
        if (i == 100)
                mishap_middle();
}

static void plain(int n)
{
        ncclComm_t comm = comm_new();

        for (int i = 0; i < n; i++) {
                all_reduce(comm, 1);
                pause_now_and_then(i);
        }
        comm_end(comm);
}

static pthread_barrier_t all_there;

/* No thread is made any more when the first of them calls exec: Linux refuses it meanwhile (EAGAIN,
 * fs->in_exec). */
static void *thread_plain(void *arg)
{
        pthread_barrier_wait(&all_there);
        plain((int)(intptr_t)arg);
        return NULL;
}

static void threads(int n)
{
        pthread_t t[8];

        MUST(pthread_barrier_init(&all_there, NULL, 8) == 0);
        for (int i = 0; i < 8; i++)
                MUST(pthread_create(&t[i], NULL, thread_plain, (void *)(intptr_t)(n / 8)) == 0);
        for (int i = 0; i < 8; i++)
                pthread_join(t[i], NULL);
}

/* A group is recorded as one call more than its members. */
static void groups(int n)
{
        ncclComm_t comm = comm_new();

        for (int i = 0; i < n / 4; i++) {
                truth->begun++;
                MUST(ncclGroupStart() == 0);
                all_reduce(comm, 3);
                MUST(ncclGroupEnd() == 0);
                truth->ended++;
                pause_now_and_then(i);
        }
        comm_end(comm);
}

static void comms(int n)
{
        for (int i = 0; i < n / 4; i++) {
                ncclComm_t comm = comm_new();

                all_reduce(comm, 2);
                comm_end(comm);
                pause_now_and_then(i);
        }
}

static uint64_t cpu_time(void)
{
        struct timespec now;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* More than there are 16-bit numbers. The last ones cost what the first ones cost: the least of
 * several stretches each, in time of the processor, and a factor that only something that grows
 * reaches. */
static void many(int n)
{
        uint64_t least[7] = {[0 ... 6] = UINT64_MAX};
        ncclUniqueId id = {{1}};

        for (int k = 0; k < 70; k++) {
                uint64_t before = cpu_time(), took;

                for (int i = 0; i < n / 2; i++) {
                        ncclComm_t comm = NULL;

                        id.internal[i % 64]++;
                        COUNTED(ncclCommInitRank(&comm, 2, id, 0));
                        all_reduce(comm, 1);
                        comm_end(comm);
                }
                took = cpu_time() - before;
                if (took < least[k / 10])
                        least[k / 10] = took;
        }
        MUST(least[5] < 4 * least[0]);
}

/* ---- what happens to threads ---- */

static _Atomic int go, stage;

static void *cancelled_at_first(void *arg)
{
        ncclUniqueId id;
        ncclComm_t comm;

        stage = 1;
        while (!go) /* no cancellation point: the request waits for the first one that the first
                       call has */
                ;
        ncclGetUniqueId(&id);
        truth->begun++;
        ncclCommInitRank(&comm, 2, id, 0);
        truth->ended++;
        pthread_testcancel();
        return NULL;
}

static void cancel_first(int n)
{
        pthread_t t;

        MUST(pthread_create(&t, NULL, cancelled_at_first, NULL) == 0);
        while (stage != 1)
                sched_yield();
        MUST(pthread_cancel(t) == 0);
        go = 1;
        pthread_join(t, NULL);
        plain(n);
}

static void *cancelled_any_time(void *arg)
{
        ncclComm_t comm = arg;

        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
        for (;;)
                all_reduce(comm, 1);
        return NULL;
}

/* Wherever it is: in its first call, on its way out of one, in none. */
static void cancel_async(int n)
{
        ncclComm_t comm = comm_new();

        for (int i = 0; i < n / 10; i++) {
                struct timespec wait = {0, (i * 7919) % 200000};
                pthread_t t;

                MUST(pthread_create(&t, NULL, cancelled_any_time, comm) == 0);
                nanosleep(&wait, NULL);
                pthread_cancel(t);
                pthread_join(t, NULL);
        }
        all_reduce(comm, 100);
        comm_end(comm);
}

static void small_stack(int n)
{
        pthread_attr_t attr;
        size_t size = n > 16384 ? (size_t)n : 16384;
        pthread_t t;
        char *stack =
                mmap(NULL, size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        MUST(stack != MAP_FAILED && mprotect(stack, 4096, PROT_NONE) == 0);
        pthread_attr_init(&attr);
        MUST(pthread_attr_setstack(&attr, stack + 4096, size) == 0);
        MUST(pthread_create(&t, &attr, thread_plain, (void *)(intptr_t)100) == 0);
        pthread_join(t, NULL);
}

static void *ends_itself(void *arg)
{
        ncclComm_t comm = comm_new();

        all_reduce(comm, 50);
        pthread_exit(NULL);
}

static void exits(int n)
{
        for (int i = 0; i < n / 50; i++) {
                pthread_t t;

                MUST(pthread_create(&t, NULL, ends_itself, NULL) == 0);
                pthread_join(t, NULL);
        }
}

/* More threads than there are rings. */
static void *thread_at_once(void *arg)
{
        ncclComm_t comm = comm_new();

        all_reduce(comm, 3);
        pthread_barrier_wait(&all_there);
        comm_end(comm);
        return NULL;
}

static void many_threads(int n)
{
        enum { THREADS = 1040 };
        static pthread_t t[THREADS];
        pthread_attr_t attr;

        MUST(pthread_barrier_init(&all_there, NULL, THREADS) == 0 &&
             pthread_attr_init(&attr) == 0 && pthread_attr_setstacksize(&attr, 65536) == 0);
        for (int i = 0; i < THREADS; i++)
                MUST(pthread_create(&t[i], &attr, thread_at_once, NULL) == 0);
        for (int i = 0; i < THREADS; i++)
                pthread_join(t[i], NULL);
}

static void *calls_to_the_end(void *called)
{
        ncclComm_t comm = comm_new();

        for (;;) {
                all_reduce(comm, 1);
                *(_Atomic int *)called = 1;
        }
        return NULL;
}

/* exit() by one thread, while others go on: what they call meanwhile was called. */
static void exit_calls(int n)
{
        static _Atomic int called[4];

        for (int i = 0; i < 4; i++) {
                pthread_t t;

                MUST(pthread_create(&t, NULL, calls_to_the_end, (void *)&called[i]) == 0);
        }
        for (int i = 0; i < 4; i++) {
                while (!called[i])
                        usleep(100);
        }
}

static _Atomic bool ends;

static void begin_end(void) { ends = true; }

/* Is the recorder's memory still there? */
static bool has_segment(void)
{
        const char *folder = getenv("CAPO_SHM");
        DIR *d = folder ? opendir(folder) : NULL;
        bool has = false;

        for (struct dirent *e; d && (e = readdir(d));)
                has |= !strncmp(e->d_name, "capo-", 5);
        if (d)
                closedir(d);
        return has;
}

static void *calls_late(void *begun)
{
        ncclComm_t comm = comm_new();

        all_reduce(comm, 1);
        *(_Atomic int *)begun = 1;
        while (!ends || has_segment())
                usleep(10000);
        for (int i = 0; i < 100; i++)
                all_reduce(comm, 1);
        usleep(500000); /* a round of the recorder's thread */
        close(open(getenv("FAKE_ENDS_WITH"), O_CREAT | O_WRONLY, 0600));
        return NULL;
}

/* A thread that is quiet while exit() ends the recording, and calls afterwards. */
static void exit_late(int n)
{
        static _Atomic int begun;
        pthread_t t;

        MUST(pthread_create(&t, NULL, calls_late, (void *)&begun) == 0);
        while (!begun)
                usleep(100);
        all_reduce(comm_new(), 1);
        atexit(begin_end);
}

int main(int argc, char **argv)
{
        static const struct {
                const char *name;
                void (*run)(int);
        } rows[] = {
                {"plain", plain},
                {"threads", threads},
                {"groups", groups},
                {"comms", comms},
                {"many", many},
                {"cancel", cancel_first},
                {"cancel-async", cancel_async},
                {"stack", small_stack},
                {"thread-exit", exits},
                {"exit-calls", exit_calls},
                {"exit-late", exit_late},
                {"many-threads", many_threads},
        };
        static const struct nccl nccl = {ncclGetUniqueId, ncclCommInitRank, ncclAllReduce,
                                         ncclCommDestroy};
        const char *what = argc > 1 ? argv[1] : "plain";

        mishap_begin(&nccl);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                if (!strcmp(rows[i].name, what)) {
                        rows[i].run(argc > 2 ? atoi(argv[2]) : rounds);
                        printf("done %s\n", what);
                        return 0;
                }
        }
        printf("no such thing: %s\n", what);
        return 2;
}
