/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the test programs do, by name. Compiled into a program that is linked to NCCL, and into a
 * plugin that is opened with dlopen. It knows nothing of capo and checks that NCCL's answers reach
 * it unchanged.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/record/nccl_abi.h"
#define CAPO_NCCL_CODE                                  FAKE_CODE
#define CALL(name, params, args, id, comm, stream, ...) ncclResult_t name params;
#define HAND(name, params, args)                        ncclResult_t name params;
#define PASS(type, name, params, args, missing)         type name params;
#include "capo/nccl_calls.def"
unsigned fake_count(const char *name) __attribute__((weak));

#define MUST(x)                                                                \
        do {                                                                   \
                if (!(x)) {                                                    \
                        printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #x); \
                        exit(1);                                               \
                }                                                              \
        } while (0)

static char a[4096] = "in-a-buffer-7319", b[4096];
static cudaStream_t stream = (cudaStream_t)0x5000;

static ncclComm_t comm_new(int n, int rank)
{
        ncclUniqueId id;
        ncclComm_t comm = NULL;

        MUST(ncclGetUniqueId(&id) == ncclSuccess);
        MUST(ncclCommInitRank(&comm, n, id, rank) == ncclSuccess && comm);
        return comm;
}

static void all_reduce(ncclComm_t comm, int times)
{
        for (int i = 0; i < times; i++)
                MUST(ncclAllReduce(a, b, 100, 7, 0, comm, stream) == ncclSuccess);
}

static void basic(int arg)
{
        ncclComm_t comm = comm_new(4, 1);
        ncclRedOp_t op;
        float two = 2;

        all_reduce(comm, 3);
        MUST(ncclAllGather(a, b, 10, 6, comm, stream) == 0);
        MUST(ncclReduceScatter(a, b, 10, 7, 4, comm, stream) == 0);
        MUST(ncclReduce(a, b, 5, 8, 1, 2, comm, stream) == 0);
        MUST(ncclBcast(a, 11, 0, 3, comm, stream) == 0);
        MUST(ncclBroadcast(a, b, 11, 1, 3, comm, stream) == 0);
        MUST(ncclAllReduce(a, b, 0, 7, 0, comm, stream) == 0);
        MUST(ncclSend(a, 100, 9, 2, comm, stream) == 0);
        MUST(ncclRecv(b, 100, 9, 0, comm, stream) == 0);
        MUST(ncclRedOpCreatePreMulSum(&op, &two, 7, 1, comm) == 0);
        MUST(ncclAllReduce(a, b, 7, 7, op, comm, stream) == 0);
        MUST(ncclRedOpDestroy(op, comm) == 0);
        MUST(fake_count("ncclAllReduce") == 5 && fake_count("ncclBroadcast") == 2);
        MUST(!strcmp(ncclGetErrorString(ncclInvalidUsage), "fake error"));
        MUST(ncclCommDestroy(comm) == 0);
}

static void errors(int arg)
{
        ncclComm_t comm = comm_new(2, 0);

        errno = 7;
        ncclCommDestroy(comm_new(2, 0));
        MUST(errno == 7);
        all_reduce(comm, 2000);
        MUST(errno == 7);
        for (int r = 1; r < 8; r++) {
                MUST((int)ncclAllReduce(a, b, 57005 + (size_t)r, 0, 0, comm, stream) == r);
                MUST(errno == ENOTRECOVERABLE);
        }
        MUST(ncclCommInitRank(&comm, 2, (ncclUniqueId){{0}}, 2) == ncclInvalidArgument);
}

/* Named as a C++ compiler would. */
static void groups(int arg) __asm__("_ZN3app5calls6groupsEiRKNS_4argsE");
static void groups(int arg)
{
        ncclComm_t comm = comm_new(4, 0), other = comm_new(2, 0), created[3] = {0};
        ncclUniqueId id;

        MUST(ncclGroupStart() == 0);
        MUST(ncclGroupStart() == 0);
        all_reduce(comm, 2);
        MUST(ncclSend(a, 8, 0, 1, comm, stream) == 0);
        MUST(ncclGroupEnd() == 0);
        MUST(ncclRecv(a, 8, 0, 1, comm, stream) == 0);
        MUST(ncclGroupEnd() == 0);
        MUST(ncclGroupStart() == 0); /* empty */
        MUST(ncclGroupEnd() == 0);
        MUST(ncclGroupStart() == 0); /* over two communicators */
        all_reduce(comm, 1);
        all_reduce(other, 1);
        MUST(ncclGroupEnd() == 0);
        MUST(ncclGetUniqueId(&id) == 0);
        MUST(ncclGroupStart() == 0);
        for (int i = 0; i < 3; i++)
                MUST(ncclCommInitRank(&created[i], 3, id, i) == 0);
        MUST(ncclGroupEnd() == 0);
        for (int i = 0; i < 3; i++)
                all_reduce(created[i], 1);
        MUST(ncclGroupStart() == 0); /* larger than the ring */
        for (int i = 0; i < arg; i++)
                MUST(ncclSend(a, 16, 0, i % 4, comm, stream) == 0);
        MUST(ncclGroupEnd() == 0);
        MUST(ncclGroupEnd() == ncclInvalidUsage);
#if FAKE_CODE >= 22203
        MUST(ncclGroupStart() == 0); /* tried, and what follows is made */
        MUST(ncclGroupStart() == 0);
        all_reduce(comm, 2);
        all_reduce(other, 1);
        MUST(ncclGroupSimulateEnd((ncclSimInfo_t *)a) == 0);
        MUST(ncclSend(a, 8, 0, 1, comm, stream) == 0);
        MUST(ncclGroupSimulateEnd((ncclSimInfo_t *)a) == 0);
        MUST(ncclGroupStart() == 0); /* nothing to report: not tried */
        all_reduce(other, 1);
        MUST(ncclGroupSimulateEnd(NULL) == 0);
        MUST(ncclGroupSimulateEnd(NULL) == ncclInvalidUsage);
#endif
        all_reduce(comm, 1);
}

/* A process that drives several GPUs, with its communicators for all of them in one group. */
static void creations(int n)
{
        ncclComm_t *created = calloc((size_t)n, sizeof *created);
        ncclUniqueId id;

        MUST(ncclGetUniqueId(&id) == 0);
        MUST(ncclGroupStart() == 0);
        for (int i = 0; i < n; i++)
                MUST(ncclCommInitRank(&created[i], n, id, i) == 0);
        MUST(ncclGroupEnd() == 0);
        for (int i = 0; i < n; i++)
                all_reduce(created[i], 1);
        free(created);
}

static void comms(int arg)
{
#if FAKE_CODE >= 22807
        ncclComm_t all[4], comm, child, none = (ncclComm_t)1, shrunk, slow;
        ncclUniqueId ids[2];
        ncclConfig_t config = {.size = sizeof config,
                               .magic = CAPO_NCCL_CONFIG_MAGIC,
                               .version = 22700,
                               .blocking = 1};
        ncclResult_t state = ncclInProgress;
        int out[1] = {1};

        memset(&ids[0], 9, sizeof ids[0]);
        memset(&ids[1], 10, sizeof ids[1]);
        MUST(ncclCommInitAll(all, 4, NULL) == 0);
        for (int i = 0; i < 4; i++)
                all_reduce(all[i], 1);
        config.commName = "tensor parallel";
        MUST(ncclCommInitRankConfig(&comm, 8, ids[0], 5, &config) == 0);
        config.size =
                offsetof(ncclConfig_t,
                         commName); /* an older program: what lies behind is not ours to read */
        config.commName = (const char *)1;
        MUST(ncclCommInitRankScalable(&child, 8, 5, 2, ids, &config) == 0);
        all_reduce(child, 1);
        MUST(ncclCommSplit(comm, 3, 0, &child, NULL) == 0);
        all_reduce(child, 1);
        MUST(ncclCommSplit(comm, -1, 0, &none, NULL) == 0 && none == NULL);
        MUST(ncclCommSplit(comm, 3, 0, &child, NULL) == 0);
        MUST(ncclCommShrink(comm, out, 1, &shrunk, NULL, 0) == 0);
        all_reduce(shrunk, 1);
        config = (ncclConfig_t){
                .size = sizeof config, .magic = CAPO_NCCL_CONFIG_MAGIC, .blocking = 0};
        MUST(ncclCommInitRankConfig(&slow, 16, ids[1], 15, &config) == ncclInProgress);
        while (state == ncclInProgress)
                MUST(ncclCommGetAsyncError(slow, &state) == 0);
        MUST(ncclAlltoAll(a, b, 4, 7, slow, stream) == 0);
        MUST(ncclGather(a, b, 4, 7, 0, slow, stream) == 0);
        MUST(ncclScatter(a, b, 4, 7, 0, slow, stream) == 0);
        MUST(ncclCommFinalize(slow) == 0);
        MUST(ncclCommDestroy(slow) == 0);
        MUST(ncclCommAbort(shrunk) == 0);
        MUST(ncclCommRevoke(comm, 0) == 0);
#endif
}

static void *thread_calls(void *arg)
{
        ncclComm_t comm = comm_new(2, 0);

        for (int i = 0; i < (int)(intptr_t)arg; i++) {
                all_reduce(comm, 1);
                if (i % 64 == 63)
                        usleep(200);
        }
        return NULL;
}

static void threads(int n)
{
        pthread_t t[512];

        for (int i = 0; i < n; i++)
                MUST(pthread_create(&t[i], NULL, thread_calls, (void *)(intptr_t)50) == 0);
        for (int i = 0; i < n; i++)
                pthread_join(t[i], NULL);
}

static void thread_churn(int n)
{
        for (int i = 0; i < n; i++) {
                pthread_t t;

                MUST(pthread_create(&t, NULL, thread_calls, (void *)(intptr_t)3) == 0);
                pthread_join(t, NULL);
                usleep(500);
        }
}

/* Descriptors that are a log. */
static int open_logs(void)
{
        char path[64], file[4096];
        int found = 0;

        for (int fd = 0; fd < 1024; fd++) {
                ssize_t n;

                snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
                n = readlink(path, file, sizeof file);
                found += n > 5 && !memcmp(file + n - 5, ".capo", 5);
        }
        return found;
}

static void forks(int arg)
{
        ncclComm_t comm = comm_new(2, 0);
        pid_t pid;
        int status;

        all_reduce(comm, 5);
        for (int i = 0; i < arg && !open_logs(); i++)
                usleep(10000);
        pid = fork();
        if (pid == 0) {
                comm = comm_new(3, 2);
                all_reduce(comm, 7);
                exit(0);
        }
        MUST(waitpid(pid, &status, 0) == pid && status == 0);
        pid = fork(); /* one that never calls */
        if (pid == 0) {
                MUST(!open_logs()); /* the parent's is none of its own */
                exit(0);
        }
        MUST(waitpid(pid, &status, 0) == pid && status == 0);
        all_reduce(comm, 2);
}

static void killed(int n)
{
        ncclComm_t comm = comm_new(2, 0);

        for (int i = 0; i < n; i++) {
                all_reduce(comm, 1);
                if (i % 1000 == 999)
                        usleep(1500);
        }
        kill(getpid(), SIGKILL);
}

__attribute__((visibility("default"))) void fake_in_call(size_t count);
static sem_t in_call;
void fake_in_call(size_t count)
{
        if (count == 4243) {
                sem_post(&in_call);
                for (;;)
                        pause();
        }
        if (count == 4242)
                kill(getpid(), SIGKILL);
}

enum { IN_CALL = 1, IN_GROUP, AFTER_GROUP, IN_INIT, STAYS };

/* Places are named in the order of their first calls: with the name of this one that of all before
 * it is whole. */
__attribute__((noinline)) static void call_later(ncclComm_t comm)
{
        ncclAllReduce(a, b, 1, 7, 0, comm, stream);
        __asm__ volatile(""); /* no jump in place of the call */
}

/* Killed in a call, in a group, behind a group of one, while a communicator is made. */
static void killed_in(int where)
{
        ncclComm_t comm = comm_new(2, 0);

        all_reduce(comm, 3);
        if (where == STAYS)
                call_later(comm);
        if (where == IN_CALL || where == STAYS)
                ncclAllReduce(a, b, where == STAYS ? 4243 : 4242, 7, 0, comm, stream);
        if (where == IN_INIT)
                comm_new(4242, 0);
        ncclGroupStart();
        all_reduce(comm, where == IN_GROUP ? 2 : 1);
        if (where == AFTER_GROUP)
                ncclGroupEnd();
        kill(getpid(), SIGKILL);
}

static void unclean(int n)
{
        ncclComm_t comm = comm_new(2, 0);

        all_reduce(comm, n);
        _exit(0);
}

static void burst(int n)
{
        ncclComm_t comm = comm_new(2, 0);

        all_reduce(comm, n);
        MUST((int)fake_count("ncclAllReduce") == n);
}

/* All descriptors are in use when the recorder begins, and until long after it wanted its log. */
static void no_descriptor(int arg)
{
        ncclComm_t comm;
        int fd[64], n = 0;

        while (n < 64 && (fd[n] = open("/dev/null", O_RDONLY)) >= 0)
                n++;
        MUST(n < 64 && errno == EMFILE);
        comm = comm_new(2, 0);
        all_reduce(comm, 1000);
        usleep(300000);
        while (n > 0)
                close(fd[--n]);
        all_reduce(comm, 1000);
}

static void full_disk(int n)
{
        struct rlimit limit = {4096, 4096};
        ncclComm_t comm = comm_new(2, 0);

        all_reduce(comm, 1); /* the recorder has its memory */
        MUST(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        for (int i = 0; i < n; i++) {
                all_reduce(comm, 1);
                if (i % 1000 == 999)
                        usleep(60000);
        }
        MUST((int)fake_count("ncclAllReduce") == n + 1);
}

/* The folder of the log goes when there is one: on a busy machine it may take a while to be made.
 */
static void vanish(int n)
{
        ncclComm_t comm = comm_new(2, 0);
        char command[4096];

        all_reduce(comm, n);
        snprintf(
                command, sizeof command,
                "cd '%s' 2>/dev/null && for i in $(seq 600); do ls *.capo >/dev/null 2>&1 && break; sleep 0.1; done; "
                "rm -rf '%s'",
                getenv("CAPO_DIR"), getenv("CAPO_DIR"));
        MUST(system(command) == 0);
        all_reduce(comm, n);
}

/* A daemon's habit: close every descriptor, then open files of its own. */
static void close_all_after(int n, unsigned wait_us)
{
        ncclComm_t comm = comm_new(2, 0);
        char path[256];
        FILE *f;

        all_reduce(comm, n);
        usleep(wait_us);
        for (int fd = 3; fd < 4096; fd++)
                close(fd);
        snprintf(path, sizeof path, "%s/mine", getenv("CAPO_DIR"));
        for (int i = 0; i < 1000; i++) { /* take up the numbers the recorder had */
                f = fopen(path, "a");
                if (!f)
                        break;
        }
        all_reduce(comm, n);
}

static void close_all(int n) { close_all_after(n, 100000); }

/* Before the recorder's thread has taken a call, or made a log. */
static void close_early(int n) { close_all_after(n, 0); }

static void *never_ends(void *arg)
{
        ncclComm_t comm = comm_new(2, 0);

        all_reduce(comm, 1);
        sem_post(arg);
        for (;;)
                all_reduce(comm, 1);
        return NULL;
}

/* exit() while other threads are inside calls; each has made one, so the recorder has begun */
static void busy_exit(int n)
{
        static sem_t called;
        pthread_t t;

        MUST(sem_init(&called, 0, 0) == 0);
        for (int i = 0; i < n; i++)
                MUST(pthread_create(&t, NULL, never_ends, &called) == 0);
        for (int i = 0; i < n; i++)
                MUST(sem_wait(&called) == 0);
        usleep(50000);
        exit(0);
}

static void calls_in_child(void) { all_reduce(comm_new(2, 0), 3); }

/* fork() with a handler that makes calls in the child, set before the recorder's own: it comes
 * first. */
static void fork_handler(int arg)
{
        ncclComm_t comm;
        pid_t pid;
        int status;

        MUST(pthread_atfork(NULL, NULL, calls_in_child) == 0);
        comm = comm_new(2, 0);
        all_reduce(comm, 5);
        pid = fork();
        if (pid == 0) {
                usleep(100000); /* the recorder's thread, if it is confused, has time to fall over
                                   it */
                calls_in_child();
                exit(0);
        }
        MUST(waitpid(pid, &status, 0) == pid && status == 0);
        all_reduce(comm, 2);
}

static int any_object(struct dl_phdr_info *info, size_t size, void *arg) { return 1; }

/* Children that ask the loader, as any that opens a library does, made while the recorder's thread
 * asks it, too. */
static void fork_loader(int n)
{
        int status;
        pid_t pid;

        basic(0); /* many places, whose names are looked up soon */
        for (int i = 0; i < n; i++) {
                pid = fork();
                if (pid == 0) {
                        alarm(20);
                        dl_iterate_phdr(any_object, NULL);
                        _exit(0);
                }
                MUST(waitpid(pid, &status, 0) == pid && status == 0);
                usleep(5000);
        }
}

extern atomic_int jump_now __attribute__((weak));
static sigjmp_buf out_of_call;

static void jump_out(int sig) { siglongjmp(out_of_call, 1); }

static void *walk_objects(void *done)
{
        dl_iterate_phdr(any_object, NULL);
        sem_post(done);
        return NULL;
}

/* A handler jumps out of a call in which the recorder asks the loader: other threads still can. */
static void jump_loader(int arg)
{
        struct sigaction act = {.sa_handler = jump_out};
        static sem_t done;
        pthread_t t;

        comm_new(2, 0);
        MUST(sigaction(SIGUSR1, &act, NULL) == 0 && sem_init(&done, 0, 0) == 0);
        if (sigsetjmp(out_of_call, 1) == 0) {
                if (&jump_now)
                        jump_now = 1;
                comm_new(2, 0);
        }
        alarm(20);
        MUST(pthread_create(&t, NULL, walk_objects, &done) == 0);
        MUST(sem_wait(&done) == 0);
        pthread_join(t, NULL);
}

/* The environment changes: before NCCL has been asked to make a communicator (as NCCL's own files
 * of settings do it), and afterwards. */
static void environment(int arg)
{
        ncclComm_t comm = NULL;
        ncclUniqueId id;

        MUST(ncclGetUniqueId(&id) == 0 && ncclGroupStart() == 0 &&
             ncclGroupEnd() == 0); /* the recorder has begun */
        MUST(setenv("NCCL_BEFORE", "1", 1) == 0);
        MUST(ncclCommInitRank(&comm, 2, id, 0) == 0);
        MUST(setenv("RANK", "9", 1) == 0 && setenv("NCCL_BEFORE", "2", 1) == 0);
        all_reduce(comm, 3);
}

static void *calls_slowly(void *comm)
{
        for (int i = 0; i < 500; i++) {
                all_reduce(comm, 1);
                if (i % 50 == 0)
                        usleep(1000);
        }
        return NULL;
}

/* A child made by a bare clone(), whose thread ends without a call; then this thread and a new one
 * make calls. */
static void clone_exit(int arg)
{
        ncclComm_t comm = comm_new(2, 0), other = comm_new(2, 0);
        pthread_t t;
        pid_t pid;

        all_reduce(comm, 10);
        usleep(50000);
        pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (pid == 0)
                pthread_exit(NULL);
        MUST(waitpid(pid, NULL, 0) == pid);
        usleep(200000); /* the recorder's thread looks at its rings */
        MUST(pthread_create(&t, NULL, calls_slowly, other) == 0);
        calls_slowly(comm);
        pthread_join(t, NULL);
}

static void *never_returns(void *comm)
{
        ncclAllReduce(a, b, 4243, 7, 0, comm, stream);
        return NULL;
}

/* A thread is cancelled in a call; so many seconds nothing else happens. */
static void cancelled(int seconds)
{
        ncclComm_t comm = comm_new(2, 0);
        pthread_t t;

        all_reduce(comm, 3);
        MUST(sem_init(&in_call, 0, 0) == 0 && pthread_create(&t, NULL, never_returns, comm) == 0);
        MUST(sem_wait(&in_call) == 0 && pthread_cancel(t) == 0 && pthread_join(t, NULL) == 0);
        sleep((unsigned)seconds);
}

/* The program has all keys there are, and something in each. */
static void all_keys(int arg)
{
        pthread_key_t keys[PTHREAD_KEYS_MAX];
        unsigned n = 0;

        while (n < PTHREAD_KEYS_MAX && pthread_key_create(&keys[n], NULL) == 0) {
                MUST(pthread_setspecific(keys[n], &keys[n]) == 0);
                n++;
        }
        MUST(pthread_key_create(&keys[0], NULL) == EAGAIN);
        all_reduce(comm_new(2, 0), 3);
        for (unsigned i = 0; i < n; i++)
                MUST(pthread_getspecific(keys[i]) == &keys[i]);
}

static void *ends_last(void *comm)
{
        usleep(300000);
        all_reduce(comm, 5);
        return NULL;
}

/* The first thread ends by itself; the process does with the last one. */
static void last_thread(int arg)
{
        ncclComm_t comm = comm_new(2, 0);
        pthread_t t;

        all_reduce(comm, 3);
        MUST(pthread_create(&t, NULL, ends_last, comm) == 0);
        pthread_exit(NULL);
}

static void *ends_all(void *arg)
{
        all_reduce(arg, 7);
        exit(0);
}

static void end_all(int signal_number) { exit(0); }

/* exit() where there is little stack: of a thread, and of a signal's handler. */
static void small_exit(int in_handler)
{
#if defined __aarch64__
        enum { LEAST = 131072 }; /* PTHREAD_STACK_MIN, which glibc no longer has as a constant */
#else
        enum { LEAST = 16384 };
#endif
        enum { GUARD = 65536, HANDLERS = 8192 };
        char *stack = mmap(NULL, GUARD + HANDLERS, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        struct sigaction act = {.sa_handler = end_all, .sa_flags = SA_ONSTACK};
        stack_t alternative = {.ss_sp = stack + GUARD, .ss_size = HANDLERS};
        ncclComm_t comm = comm_new(2, 0);
        pthread_attr_t attr;
        pthread_t t;

        MUST(stack != MAP_FAILED && mprotect(stack + GUARD, HANDLERS, PROT_READ | PROT_WRITE) == 0);
        all_reduce(comm, 3);
        if (in_handler) {
                all_reduce(comm, 7);
                MUST(sigaltstack(&alternative, NULL) == 0 && sigaction(SIGTERM, &act, NULL) == 0);
                raise(SIGTERM);
        }
        MUST(pthread_attr_init(&attr) == 0 && pthread_attr_setstacksize(&attr, LEAST) == 0);
        MUST(pthread_create(&t, &attr, ends_all, comm) == 0);
        pthread_join(t, NULL);
}

static ncclComm_t of_handler;

static void calls_in_handler(int sig) { all_reduce(of_handler, 1); }

/* Calls in a handler with a stack of 8 KB, the first from that place. */
static void small_handler(int arg)
{
        enum { GUARD = 65536, HANDLERS = 8192 };
        char *stack = mmap(NULL, GUARD + HANDLERS, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        struct sigaction act = {.sa_handler = calls_in_handler, .sa_flags = SA_ONSTACK};
        stack_t alternative = {.ss_sp = stack + GUARD, .ss_size = HANDLERS};

        MUST(stack != MAP_FAILED && mprotect(stack + GUARD, HANDLERS, PROT_READ | PROT_WRITE) == 0);
        of_handler = comm_new(2, 0);
        MUST(sigaltstack(&alternative, NULL) == 0 && sigaction(SIGUSR1, &act, NULL) == 0);
        raise(SIGUSR1);
        raise(SIGUSR1);
}

/* The folder of the log hangs, from the beginning or when there has been a log for a while. hung.c
 */
extern atomic_int hung_now __attribute__((weak)), hung_writes __attribute__((weak));
extern atomic_int hung_reads_now __attribute__((weak)), hung_reading __attribute__((weak));
static void hung(int later)
{
        ncclComm_t comm;

        if (&hung_now)
                hung_now = !later;
        comm = comm_new(2, 0);
        all_reduce(comm, 100);
        for (int i = 0; &hung_now && later && i < 600 && !hung_writes; i++)
                usleep(100000);
        usleep(200000);
        if (&hung_now)
                hung_now = 1;
        all_reduce(comm, 100);
}

static void *interrupts(void *thread)
{
        while (!hung_reading)
                usleep(1000);
        pthread_kill(*(pthread_t *)thread, SIGTERM);
        return NULL;
}

/* Ended by a signal's handler while this thread is in the middle of what the recorder's thread may
 * wait for: it reads the file of names, which does not come back. */
static void locked_exit(int arg)
{
        struct sigaction act = {.sa_handler = end_all};
        pthread_t self = pthread_self(), t;

        if (!&hung_reads_now)
                return; /* bare */
        MUST(sigaction(SIGTERM, &act, NULL) == 0 &&
             pthread_create(&t, NULL, interrupts, &self) == 0);
        comm_new(2, 0); /* recording has begun */
        hung_reads_now = 1;
        comm_new(2, 0);
        MUST(!"ended in between");
}

/*
 * A signal's handler that calls NCCL, at each instruction of a call: the first time before the
 * first, the next before the second, and so on until the call is over before that. The processor
 * raises the signals (its trap flag).
 */
static struct {
        ncclComm_t comm; /* the handler's */
        unsigned at, when;
} step;

#ifdef __x86_64__
enum { TRAP_FLAG = 0x100 };

static void step_taken(int signal_number, siginfo_t *info, void *context)
{
        ucontext_t *u = context;

        if (step.at++ != step.when)
                return;
        u->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
        MUST(ncclAllReduce(a, b, 3, 7, 0, step.comm, stream) == ncclSuccess);
}

/* What the compiler keeps in the other flags must not live across this. */
static __attribute__((noinline)) void step_by_step(bool on)
{
        unsigned long flags = __builtin_ia32_readeflags_u64();

        __builtin_ia32_writeeflags_u64(on ? flags | TRAP_FLAG : flags & ~(unsigned long)TRAP_FLAG);
        __asm__ volatile("" : : : "cc", "memory");
}

static void stepped(int arg)
{
        struct sigaction act = {.sa_sigaction = step_taken, .sa_flags = SA_SIGINFO};
        ncclComm_t comm = comm_new(2, 0);

        step.comm = comm_new(2, 0);
        MUST(sigaction(SIGTRAP, &act, NULL) == 0);
        do {
                step.at = 0;
                /* the short way is for the second call of a communicator from the same place */
                for (int i = 0; i < 2; i++) {
                        if (i == arg)
                                step_by_step(true);
                        MUST(ncclAllReduce(a, b, 5, 7, 0, comm, stream) == ncclSuccess);
                        step_by_step(false);
                }
        } while (step.at > step.when++);
        MUST(ncclCommDestroy(step.comm) == ncclSuccess && ncclCommDestroy(comm) == ncclSuccess);
        fprintf(stderr, "%u\n", step.when);
}
#else
static void stepped(int arg) { fprintf(stderr, "0\n"); }
#endif

/* From a function whose unwind table is wrong, as tables of assembly by hand are: the flags pass
 * for who called it. */
#ifdef __x86_64__
void astray_call(void (*function)(ncclComm_t, int), ncclComm_t comm, int times);
__asm__(".text\n astray_call: .cfi_startproc\n pushfq\n sub $16, %rsp\n .cfi_adjust_cfa_offset 16\n mov %rdi, %rax\n mov %rsi, %rdi\n"
        " mov %edx, %esi\n call *%rax\n add $24, %rsp\n .cfi_adjust_cfa_offset -16\n ret\n .cfi_endproc\n");
#else
static void astray_call(void (*function)(ncclComm_t, int), ncclComm_t comm, int times)
{
        function(comm, times);
}
#endif

static void astray(int n) { astray_call(all_reduce, comm_new(2, 0), n); }

static void exec_again(int arg)
{
        ncclComm_t comm = comm_new(2, 0);

        all_reduce(comm, 4);
        if (arg) {
                execl("/proc/self/exe", "again", "exec", "0", NULL);
                MUST(0);
        }
}

static void nothing(int arg) {}

void body(const char *what, int arg);
void body(const char *what, int arg)
{
        static const struct {
                const char *name;
                void (*run)(int);
        } bodies[] = {
                {"basic", basic},
                {"errors", errors},
                {"groups", groups},
                {"creations", creations},
                {"comms", comms},
                {"threads", threads},
                {"churn", thread_churn},
                {"fork", forks},
                {"kill", killed},
                {"unclean", unclean},
                {"burst", burst},
                {"no-descriptor", no_descriptor},
                {"full", full_disk},
                {"vanish", vanish},
                {"close", close_all},
                {"close-early", close_early},
                {"busy-exit", busy_exit},
                {"exec", exec_again},
                {"nothing", nothing},
                {"kill-in", killed_in},
                {"stepped", stepped},
                {"astray", astray},
                {"small-exit", small_exit},
                {"small-handler", small_handler},
                {"hung", hung},
                {"locked-exit", locked_exit},
                {"last-thread", last_thread},
                {"keys", all_keys},
                {"fork-handler", fork_handler},
                {"fork-loader", fork_loader},
                {"jump-loader", jump_loader},
                {"environment", environment},
                {"cancelled", cancelled},
                {"clone-exit", clone_exit},
        };

        for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
                if (!strcmp(bodies[i].name, what)) {
                        bodies[i].run(arg);
                        printf("done %s\n", what);
                        return;
                }
        }
        printf("no such body: %s\n", what);
        exit(2);
}
