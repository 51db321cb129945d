/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim WHAT [ARG]: a job that something happens to, from inside. It counts its own calls of NCCL in a file that it maps
 * (VICTIM_TRUTH): begun before each, ended after it, so that whoever looks knows both, also when this process is killed.
 * A call that a fault leaves, by longjmp or cancellation, is begun and never ended. It knows nothing of capo.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <limits.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/record/nccl_abi.h"
#define CAPO_NCCL_CODE                                  FAKE_CODE
#define CALL(name, params, args, id, comm, stream, ...) ncclResult_t name params;
#define HAND(name, params, args)                        ncclResult_t name params;
#define PASS(type, name, params, args, missing)         type name params;
#include "capo/nccl_calls.def"

#define MUST(x)                                                                \
        do {                                                                   \
                if (!(x)) {                                                    \
                        printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #x); \
                        fflush(stdout);                                        \
                        _exit(1);                                              \
                }                                                              \
        } while (0)

static struct {
        _Atomic uint64_t begun, ended;
} * truth;
static char a[4096], b[4096];
static cudaStream_t stream = (cudaStream_t)0x5000;

static void look(void)
{
        const char *path = getenv("VICTIM_TRUTH");
        int fd = path ? open(path, O_RDWR | O_CREAT, 0600) : -1;

        truth = mmap(NULL, sizeof *truth, PROT_READ | PROT_WRITE, fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED, fd,
                     0);
        MUST(fd < 0 || ftruncate(fd, sizeof *truth) == 0);
        MUST(truth != MAP_FAILED);
        if (fd >= 0)
                close(fd);
}

static ncclComm_t comm_new(void)
{
        ncclUniqueId id;
        ncclComm_t comm = NULL;

        MUST(ncclGetUniqueId(&id) == ncclSuccess);
        truth->begun++;
        MUST(ncclCommInitRank(&comm, 2, id, 0) == ncclSuccess && comm);
        truth->ended++;
        return comm;
}

static void comm_end(ncclComm_t comm)
{
        truth->begun++;
        MUST(ncclCommDestroy(comm) == ncclSuccess);
        truth->ended++;
}

static __attribute__((noinline)) void all_reduce(ncclComm_t comm, int times)
{
        for (int i = 0; i < times; i++) {
                truth->begun++;
                MUST(ncclAllReduce(a, b, 100, 7, 0, comm, stream) == ncclSuccess);
                truth->ended++;
        }
}

/* ---- programs ---- */

static int rounds = 2000;

static void pause_now_and_then(int i)
{
        if (i % 500 == 499)
                usleep(2000);
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

static void *thread_plain(void *arg)
{
        plain((int)(intptr_t)arg);
        return NULL;
}

static void threads(int n)
{
        pthread_t t[8];

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

/* More than there are 16-bit numbers. The last ones cost what the first ones cost: the least of several stretches each, in
 * time of the processor, and a factor that only something that grows reaches. */
static void many(int n)
{
        uint64_t least[7] = {[0 ... 6] = UINT64_MAX};
        ncclUniqueId id = {{1}};

        for (int k = 0; k < 70; k++) {
                uint64_t before = cpu_time(), took;

                for (int i = 0; i < n / 2; i++) {
                        ncclComm_t comm = NULL;

                        id.internal[i % 64]++;
                        truth->begun++;
                        MUST(ncclCommInitRank(&comm, 2, id, 0) == ncclSuccess && comm);
                        truth->ended++;
                        all_reduce(comm, 1);
                        comm_end(comm);
                }
                took = cpu_time() - before;
                if (took < least[k / 10])
                        least[k / 10] = took;
        }
        MUST(least[5] < 4 * least[0]);
}

/* ---- what happens to them from inside ---- */

static _Atomic int go, stage;

static void *cancelled_at_first(void *arg)
{
        ncclUniqueId id;
        ncclComm_t comm;

        stage = 1;
        while (!go) /* no cancellation point: the request waits for the first one that the first call has */
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

static jmp_buf back;
static sigjmp_buf out;
enum { FROM_INSIDE = 4243 };
static int inside; /* what fake_in_call() is to do */
enum { JUMP = 1, RAISE, CLONE, THROW_AWAY };

__attribute__((visibility("default"))) void fake_in_call(size_t count);
void fake_in_call(size_t count)
{
        if (count != FROM_INSIDE)
                return;
        if (inside == JUMP)
                longjmp(back, 1);
        raise(SIGUSR1);
}

static void jumps(int signal_number)
{
        siglongjmp(out, 1);
}

static __attribute__((noinline)) void call_that_is_left(ncclComm_t comm)
{
        truth->begun++;
        ncclAllReduce(a, b, FROM_INSIDE, 7, 0, comm, stream);
        truth->ended++;
}

static __attribute__((noinline)) void deeper(ncclComm_t comm)
{
        volatile char room[4096];

        memset((char *)room, 1, sizeof room);
        all_reduce(comm, 1);
        room[5] = 2;
}

static void jump(int n)
{
        ncclComm_t comm = comm_new();

        inside = JUMP;
        for (volatile int i = 0; i < 3; i++) {
                if (setjmp(back) == 0)
                        call_that_is_left(comm);
                all_reduce(comm, n / 8);
        }
        signal(SIGUSR1, jumps);
        inside = RAISE;
        for (volatile int i = 0; i < 3; i++) {
                if (sigsetjmp(out, 1) == 0)
                        call_that_is_left(comm);
                deeper(comm); /* the stack where the call was is in use by others */
                all_reduce(comm, n / 8);
        }
        comm_end(comm);
}

static ncclComm_t of_handler;
static void calls(int signal_number)
{
        all_reduce(of_handler, 1);
}

/* A handler that calls NCCL: inside a call, on the same stack and on one of its own, and outside any. */
static void handler(int n)
{
        struct sigaction act = {.sa_handler = calls};
        static char stack[65536];
        stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
        ncclComm_t comm = comm_new();

        of_handler = comm_new();
        inside = RAISE;
        MUST(sigaction(SIGUSR1, &act, NULL) == 0);
        all_reduce(comm, n / 4);
        call_that_is_left(comm);
        raise(SIGUSR1);
        MUST(sigaltstack(&other, NULL) == 0);
        act.sa_flags = SA_ONSTACK;
        MUST(sigaction(SIGUSR1, &act, NULL) == 0);
        call_that_is_left(comm);
        raise(SIGUSR1);
        all_reduce(comm, n / 4);
        comm_end(comm);
        comm_end(of_handler);
}

/* Timer signals all over a loop of calls. */
static void timer(int n)
{
        struct sigaction act = {.sa_handler = calls, .sa_flags = SA_RESTART};
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
        struct itimerspec every = {{0, 50000}, {0, 50000}};
        ncclComm_t comm;
        timer_t t;

        of_handler = comm_new();
        comm = comm_new();
        MUST(sigaction(SIGUSR2, &act, NULL) == 0);
        MUST(timer_create(CLOCK_MONOTONIC, &event, &t) == 0 && timer_settime(t, 0, &every, NULL) == 0);
        for (int i = 0; i < n * 20; i++)
                all_reduce(comm, 1);
        every = (struct itimerspec){0};
        timer_settime(t, 0, &every, NULL);
        comm_end(comm);
}

/* Children that no fork handler sees. */
static void cloned(int n)
{
        ncclComm_t comm = comm_new();
        int status;
        pid_t pid;

        all_reduce(comm, n / 2);
        pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
        if (pid == 0) {
                all_reduce(comm, n / 4);
                exit(0);
        }
        MUST(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
        pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
        if (pid == 0) /* one that never calls */
                exit(0);
        MUST(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
        all_reduce(comm, n / 2);
        comm_end(comm);
}

static void forked(int n)
{
        ncclComm_t comm = comm_new();
        int status;
        pid_t pid;

        all_reduce(comm, n / 2);
        pid = fork();
        if (pid == 0) {
                all_reduce(comm, n / 4);
                exit(0);
        }
        MUST(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
        all_reduce(comm, n / 2);
        comm_end(comm);
}

static void vforked(int n)
{
        ncclComm_t comm = comm_new();
        char name[] = "true", *argv[] = {name, NULL}, *envp[] = {NULL};
        int status;
        pid_t pid;

        all_reduce(comm, n / 2);
        pid = vfork();
        if (pid == 0) {
                execve("/bin/true", argv, envp);
                _exit(127);
        }
        MUST(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
        all_reduce(comm, n / 2);
        comm_end(comm);
}

/* Floating-point exceptions that trap, as simulation codes ask for. */
static void traps(int n)
{
        feclearexcept(FE_ALL_EXCEPT);
        MUST(feenableexcept(FE_INEXACT | FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW | FE_UNDERFLOW) >= 0);
        plain(n);
        usleep(100000); /* the drain thread has looked */
}

/* A language whose numbers have a comma. */
static void comma(int n)
{
        setlocale(LC_ALL, getenv("VICTIM_LOCALE") ? getenv("VICTIM_LOCALE") : "");
        plain(n);
        usleep(100000);
}

static void small_stack(int n)
{
        pthread_attr_t attr;
        size_t size = n > 16384 ? (size_t)n : 16384;
        pthread_t t;
        char *stack = mmap(NULL, size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        MUST(stack != MAP_FAILED && mprotect(stack, 4096, PROT_NONE) == 0);
        pthread_attr_init(&attr);
        MUST(pthread_attr_setstack(&attr, stack + 4096, size) == 0);
        MUST(pthread_create(&t, &attr, thread_plain, (void *)(intptr_t)100) == 0);
        pthread_join(t, NULL);
}

static void *real_time(void *arg)
{
        struct sched_param param = {.sched_priority = 1};
        cpu_set_t one;

        CPU_ZERO(&one);
        CPU_SET(0, &one);
        sched_setaffinity(0, sizeof one, &one);
        sched_setscheduler(0, SCHED_FIFO, &param); /* only who may */
        plain((int)(intptr_t)arg);
        return NULL;
}

static void priority(int n)
{
        pthread_t t;

        MUST(pthread_create(&t, NULL, real_time, (void *)(intptr_t)n) == 0);
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

static void aborts(int n)
{
        plain(n);
        fflush(stdout);
        abort();
}

static void segv(int n)
{
        plain(n);
        fflush(stdout);
        raise(SIGSEGV);
}

static void leaves(int n)
{
        plain(n);
        fflush(stdout);
        _exit(3);
}

/* Another program in its place, which makes calls, too; there is no end of this one but what the kernel does. */
static void execs(int n)
{
        ncclComm_t comm = comm_new();

        all_reduce(comm, n / 2);
        execl("/proc/self/exe", "victim", "plain", "500", NULL);
        MUST(!"exec");
}

/* The kernel ends it when it has had its second of a processor. */
static void second_of_cpu(int n)
{
        const struct rlimit limit = {1, 2};
        ncclComm_t comm = comm_new();

        MUST(setrlimit(RLIMIT_CPU, &limit) == 0);
        for (;;) {
                all_reduce(comm, 1);
                for (volatile int i = 0; i < 20000; i++)
                        ;
        }
}

/* Another NCCL than the one that this program is linked to. */
struct other {
        void *handle;
        __typeof__(ncclGetUniqueId) *id;
        __typeof__(ncclCommInitRank) *init;
        __typeof__(ncclAllReduce) *all_reduce;
        __typeof__(ncclCommDestroy) *destroy;
        ncclComm_t comm;
};

static void other_open(struct other *o)
{
        char path[PATH_MAX] = "";
        ncclUniqueId id;

        MUST(readlink("/proc/self/exe", path, sizeof path - 64) > 0);
        strcpy(strrchr(path, '/'), "/../preload/fake_old/libnccl.so.2");
        MUST((o->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)));
        MUST((*(void **)&o->id = dlsym(o->handle, "ncclGetUniqueId")) &&
             (*(void **)&o->init = dlsym(o->handle, "ncclCommInitRank")) &&
             (*(void **)&o->all_reduce = dlsym(o->handle, "ncclAllReduce")) &&
             (*(void **)&o->destroy = dlsym(o->handle, "ncclCommDestroy")));
        MUST(o->id(&id) == ncclSuccess);
        truth->begun++;
        MUST(o->init(&o->comm, 2, id, 1) == ncclSuccess && o->comm);
        truth->ended++;
}

static void other_calls(struct other *o, int n)
{
        for (int i = 0; i < n; i++) {
                truth->begun++;
                MUST(o->all_reduce(a, b, 50, 7, 0, o->comm, stream) == ncclSuccess);
                truth->ended++;
        }
}

static void other_close(struct other *o)
{
        truth->begun++;
        MUST(o->destroy(o->comm) == ncclSuccess);
        truth->ended++;
        MUST(dlclose(o->handle) == 0);
}

static void two(int n)
{
        ncclComm_t comm = comm_new();
        struct other other;

        other_open(&other);
        for (int i = 0; i < n; i++) {
                all_reduce(comm, 1);
                other_calls(&other, 1);
        }
        comm_end(comm);
        other_close(&other);
}

static void closes(int n)
{
        struct other other;

        for (int i = 0; i < 5; i++) {
                other_open(&other);
                other_calls(&other, n / 10);
                other_close(&other);
        }
        plain(n / 4);
}

static void chroots(int n)
{
        ncclComm_t comm = comm_new();

        all_reduce(comm, n);
        if (chroot("/proc/self/fdinfo") || chdir("/"))
                printf("may not\n");
        all_reduce(comm, n);
        comm_end(comm);
}

static void other_user(int n)
{
        ncclComm_t comm = comm_new();

        all_reduce(comm, n);
        if (setgid(65534) || setuid(65534))
                printf("may not\n");
        usleep(60000);
        all_reduce(comm, n);
        comm_end(comm);
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
                {"jump", jump},
                {"handler", handler},
                {"timer", timer},
                {"clone", cloned},
                {"fork", forked},
                {"vfork", vforked},
                {"traps", traps},
                {"comma", comma},
                {"stack", small_stack},
                {"priority", priority},
                {"thread-exit", exits},
                {"abort", aborts},
                {"segv", segv},
                {"_exit", leaves},
                {"exec", execs},
                {"cpu", second_of_cpu},
                {"two", two},
                {"dlclose", closes},
                {"chroot", chroots},
                {"setuid", other_user},
        };
        const char *what = argc > 1 ? argv[1] : "plain";

        look();
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
