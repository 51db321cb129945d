/* SPDX-License-Identifier: Apache-2.0 */
/*
 * VICTIM_FAULT=WHAT: something that a program does to itself, in the middle of its calls. One
 * thread does it; others, where there are, go on with what they are at. The calls that are made
 * here are counted as the program's. It knows nothing of capo.
 */
#include "mishap.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

struct truth *truth;
static const struct nccl *nccl;
static char a[4096], b[4096];
static const cudaStream_t stream = (cudaStream_t)0x5000;
enum { N = 500, FROM_INSIDE = 4243 };

static ncclComm_t comm_new(const struct nccl *of)
{
        ncclUniqueId id;
        ncclComm_t comm = NULL;

        MUST(of->id(&id) == ncclSuccess);
        COUNTED(of->init(&comm, 2, id, 0));
        return comm;
}

static __attribute__((noinline)) void all_reduce(ncclComm_t comm, int times)
{
        for (int i = 0; i < times; i++)
                COUNTED(nccl->all_reduce(a, b, 100, 7, 0, comm, stream));
}

static void comm_end(ncclComm_t comm) { COUNTED(nccl->destroy(comm)); }

static void calls(int n)
{
        ncclComm_t comm = comm_new(nccl);

        all_reduce(comm, n);
        comm_end(comm);
}

/* ---- before the first call ---- */

/* Floating-point exceptions that trap, as simulation codes ask for. */
static void traps(void)
{
        feclearexcept(FE_ALL_EXCEPT);
        MUST(feenableexcept(FE_INEXACT | FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW | FE_UNDERFLOW) >=
             0);
}

/* A language whose numbers have a comma. */
static void comma(void)
{
        MUST(setlocale(LC_ALL, "de_DE.UTF-8") && !strcmp(localeconv()->decimal_point, ","));
}

static void priority(void)
{
        struct sched_param param = {.sched_priority = 1};
        cpu_set_t one;

        CPU_ZERO(&one);
        CPU_SET(0, &one);
        sched_setaffinity(0, sizeof one, &one);
        sched_setscheduler(0, SCHED_FIFO, &param); /* only who may */
}

/* ---- in the middle ---- */

static void wait_for_drain(void) { usleep(100000); }

static void wait_for(pid_t pid)
{
        int status;

        MUST(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
}

/* Children that no fork handler sees: one that makes calls, one that never does. */
static void cloned(void)
{
        for (int n = N; n >= 0; n -= N) {
                pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

                if (pid == 0) {
                        if (n)
                                calls(n);
                        exit(0);
                }
                wait_for(pid);
        }
}

static void forked(void)
{
        pid_t pid = fork();

        if (pid == 0) {
                calls(N);
                exit(0);
        }
        wait_for(pid);
}

static void vforked(void)
{
        char name[] = "true", *argv[] = {name, NULL}, *envp[] = {NULL};
        pid_t pid = vfork();

        if (pid == 0) {
                execve("/bin/true", argv, envp);
                _exit(127);
        }
        wait_for(pid);
}

/* Another program in its place, which makes calls, too; there is no end of this one but what the
 * kernel does. */
static void execs(void)
{
        const char *program = getenv("VICTIM_PROGRAM");

        unsetenv("VICTIM_FAULT");
        execl(program, "victim", "plain", "500", NULL);
        MUST(!"exec");
}

static void aborts(void) { abort(); }

static void segv(void) { raise(SIGSEGV); }

static void leaves(void) { _exit(3); }

/* The kernel ends it when it has had its second of a processor. */
static void second_of_cpu(void)
{
        const struct rlimit limit = {1, 2};
        ncclComm_t comm = comm_new(nccl);

        MUST(setrlimit(RLIMIT_CPU, &limit) == 0);
        for (;;) {
                all_reduce(comm, 1);
                for (volatile int i = 0; i < 20000; i++)
                        ;
        }
}

static void chroots(void)
{
        if (chroot("/proc/self/fdinfo") || chdir("/"))
                printf("may not\n");
}

static void other_user(void)
{
        if (setgid(65534) || setuid(65534))
                printf("may not\n");
        usleep(60000);
}

/* ---- another NCCL than the program's ---- */

static void *other_open(struct nccl *o)
{
        void *handle = dlopen(getenv("VICTIM_OTHER_NCCL"), RTLD_NOW | RTLD_LOCAL);

        MUST(handle && (*(void **)&o->id = dlsym(handle, "ncclGetUniqueId")) &&
             (*(void **)&o->init = dlsym(handle, "ncclCommInitRank")) &&
             (*(void **)&o->all_reduce = dlsym(handle, "ncclAllReduce")) &&
             (*(void **)&o->destroy = dlsym(handle, "ncclCommDestroy")));
        return handle;
}

static ncclComm_t other_comm;

static void other_calls(const struct nccl *o, int n)
{
        for (int i = 0; i < n; i++)
                COUNTED(o->all_reduce(a, b, 50, 7, 0, other_comm, stream));
}

static void two(void)
{
        ncclComm_t comm = comm_new(nccl);
        struct nccl o;
        void *handle = other_open(&o);

        other_comm = comm_new(&o);
        for (int i = 0; i < N; i++) {
                other_calls(&o, 1);
                all_reduce(comm, 1);
        }
        COUNTED(o.destroy(other_comm));
        MUST(dlclose(handle) == 0);
        comm_end(comm);
}

/* It is also the first that the process calls. */
static void closes(void)
{
        for (int i = 0; i < 5; i++) {
                struct nccl o;
                void *handle = other_open(&o);

                other_comm = comm_new(&o);
                other_calls(&o, N / 5);
                COUNTED(o.destroy(other_comm));
                MUST(dlclose(handle) == 0);
        }
}

/* ---- out of a call, and in the middle of one ---- */

static jmp_buf back;
static sigjmp_buf out;
static _Atomic int inside; /* what fake_in_call() is to do */
enum { JUMP = 1, RAISE };

EXPORT void fake_in_call(size_t count);
void fake_in_call(size_t count)
{
        if (count != FROM_INSIDE)
                return;
        if (inside == JUMP)
                longjmp(back, 1);
        raise(SIGUSR1);
}

static void jumps(int signal_number) { siglongjmp(out, 1); }

/* Begun and, where it is left, never ended. */
static __attribute__((noinline)) void call_that_is_left(ncclComm_t comm)
{
        COUNTED(nccl->all_reduce(a, b, FROM_INSIDE, 7, 0, comm, stream));
}

static __attribute__((noinline)) void deeper(ncclComm_t comm)
{
        volatile char room[4096];

        memset((char *)room, 1, sizeof room);
        all_reduce(comm, 1);
        room[5] = 2;
}

static void jump(void)
{
        ncclComm_t comm = comm_new(nccl);

        inside = JUMP;
        for (volatile int i = 0; i < 3; i++) {
                if (setjmp(back) == 0)
                        call_that_is_left(comm);
                all_reduce(comm, N / 2);
        }
        signal(SIGUSR1, jumps);
        inside = RAISE;
        for (volatile int i = 0; i < 3; i++) {
                if (sigsetjmp(out, 1) == 0)
                        call_that_is_left(comm);
                deeper(comm); /* the stack where the call was is in use by others */
                all_reduce(comm, N / 2);
        }
        comm_end(comm);
}

static ncclComm_t of_handler;
static void handler_calls(int signal_number) { all_reduce(of_handler, 1); }

/* A handler that calls NCCL: inside a call, on the same stack and on one of its own, and outside
 * any. */
static void handler(void)
{
        struct sigaction act = {.sa_handler = handler_calls};
        static char stack[65536];
        stack_t other = {.ss_sp = stack, .ss_size = sizeof stack}, was;
        ncclComm_t comm = comm_new(nccl);

        of_handler = comm_new(nccl);
        inside = RAISE;
        MUST(sigaction(SIGUSR1, &act, NULL) == 0);
        all_reduce(comm, N);
        call_that_is_left(comm);
        raise(SIGUSR1);
        MUST(sigaltstack(&other, &was) == 0);
        act.sa_flags = SA_ONSTACK;
        MUST(sigaction(SIGUSR1, &act, NULL) == 0);
        call_that_is_left(comm);
        raise(SIGUSR1);
        all_reduce(comm, N);
        comm_end(comm);
        comm_end(of_handler);
        MUST(sigaltstack(&was, NULL) == 0);
}

/* Timer signals all over a loop of calls. */
static void timer(void)
{
        struct sigaction act = {.sa_handler = handler_calls, .sa_flags = SA_RESTART};
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
        struct itimerspec every = {{0, 50000}, {0, 50000}};
        ncclComm_t comm;
        timer_t t;

        of_handler = comm_new(nccl);
        comm = comm_new(nccl);
        MUST(sigaction(SIGUSR2, &act, NULL) == 0);
        MUST(timer_create(CLOCK_MONOTONIC, &event, &t) == 0 &&
             timer_settime(t, 0, &every, NULL) == 0);
        all_reduce(comm, N * 80);
        every = (struct itimerspec){0};
        timer_settime(t, 0, &every, NULL);
        comm_end(comm);
}

/* ---- */

static const struct {
        const char *name;
        void (*begin)(void), (*middle)(void);
} rows[] = {
        {"traps", traps, wait_for_drain},
        {"comma", comma, wait_for_drain},
        {"priority", priority, NULL},
        {"clone", NULL, cloned},
        {"fork", NULL, forked},
        {"vfork", NULL, vforked},
        {"exec", NULL, execs},
        {"abort", NULL, aborts},
        {"segv", NULL, segv},
        {"_exit", NULL, leaves},
        {"cpu", NULL, second_of_cpu},
        {"chroot", NULL, chroots},
        {"setuid", NULL, other_user},
        {"two", NULL, two},
        {"dlclose", closes, NULL},
        {"jump", NULL, jump},
        {"handler", NULL, handler},
        {"timer", NULL, timer},
};
static void (*_Atomic middle)(void);

EXPORT void mishap_begin(const struct nccl *its)
{
        const char *path = getenv("VICTIM_TRUTH"), *fault = getenv("VICTIM_FAULT");
        int fd = path ? open(path, O_RDWR | O_CREAT, 0600) : -1;
        bool known = !fault;

        nccl = its;
        MUST(fd < 0 || ftruncate(fd, sizeof *truth) == 0);
        truth = mmap(NULL, sizeof *truth, PROT_READ | PROT_WRITE,
                     fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
        MUST(truth != MAP_FAILED);
        if (fd >= 0)
                close(fd);
        for (size_t i = 0; fault && i < sizeof rows / sizeof *rows; i++) {
                if (strcmp(rows[i].name, fault))
                        continue;
                known = true;
                middle = rows[i].middle;
                if (rows[i].begin)
                        rows[i].begin();
        }
        MUST(known);
}

EXPORT void mishap_middle(void)
{
        void (*happens)(void) = atomic_exchange(&middle, NULL);

        if (happens)
                happens();
}
