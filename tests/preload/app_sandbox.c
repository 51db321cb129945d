/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that shuts itself in after it has called NCCL.
 *      first FILE          the first call of the process, then of a thread, in a handler of 8 KB
 *      unshare             a user namespace of its own, before there is a communicator
 *      filter CALL FLAGS ACTION      a seccomp filter for one system call; then the calls of a job
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shim/record/nccl_abi.h"
ncclResult_t ncclGetVersion(int *version);
ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int n, ncclUniqueId id, int rank);
ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, int type, int op,
                           ncclComm_t comm, void *stream);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

#define MUST(x)                                                        \
        do {                                                           \
                if (!(x)) {                                            \
                        printf("line %d: not so: " #x "\n", __LINE__); \
                        exit(1);                                       \
                }                                                      \
        } while (0)

static ncclComm_t comm;

static void make_comm(void)
{
        ncclUniqueId id;

        MUST(ncclGetUniqueId(&id) == 0 && ncclCommInitRank(&comm, 2, id, 0) == 0);
}

static void all_reduce(int times)
{
        static char a[400], b[400];

        while (times--)
                MUST(ncclAllReduce(a, b, 100, 7, 0, comm, NULL) == 0);
}

static void sleep_ms(long ms)
{
        struct timespec time = {0, ms * 1000000};

        nanosleep(&time, NULL);
}

/* ---- first ---- */

static void calls_first(int signal_number)
{
        if (comm)
                all_reduce(1);
        else
                MUST(ncclGroupStart() == 0 && ncclGroupEnd() == 0);
}

static void *raise_on_little_stack(void *unused)
{
        enum { GUARD = 65536, ROOM = 8192 };
        char *stack = mmap(NULL, GUARD + ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        stack_t alternative = {.ss_sp = stack + GUARD, .ss_size = ROOM};

        MUST(stack != MAP_FAILED && mprotect(stack + GUARD, ROOM, PROT_READ | PROT_WRITE) == 0);
        MUST(sigaltstack(&alternative, NULL) == 0);
        raise(SIGUSR1);
        return NULL;
}

static void call_first(void)
{
        struct sigaction act = {.sa_handler = calls_first, .sa_flags = SA_ONSTACK};

        MUST(sigaction(SIGUSR1, &act, NULL) == 0);
        for (int i = 0; i < 2; i++) {
                pthread_t thread;

                MUST(pthread_create(&thread, NULL, raise_on_little_stack, NULL) == 0 &&
                     pthread_join(thread, NULL) == 0);
                make_comm();
        }
}

/* ---- unshare ---- */

static void leave_namespace(void)
{
        ncclUniqueId id;
        int version;

        MUST(ncclGetVersion(&version) == 0 && ncclGetUniqueId(&id) == 0);
        if (unshare(CLONE_NEWUSER)) {
                perror("unshare");
                exit(3);
        }
        make_comm();
        all_reduce(3);
}

/* ---- filter ---- */

static void shut_in(char **args)
{
        struct sock_filter filter[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)atoi(args[0]), 0, 1),
                BPF_STMT(BPF_RET | BPF_K, strcmp(args[2], "kill")
                                                  ? SECCOMP_RET_ERRNO | 1 /* EPERM */
                                                  : SECCOMP_RET_KILL_PROCESS),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {4, filter};

        make_comm();
        all_reduce(100);
        sleep_ms(200); /* the log is there */
        MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, (unsigned)atoi(args[1]), &program)) {
                perror("seccomp");
                exit(3);
        }
        all_reduce(100);
        sleep_ms(400);
        all_reduce(100);
}

int main(int n, char **args)
{
        struct timespec used;

        setvbuf(stdout, NULL, _IONBF, 0);
        if (n == 2 && !strcmp(args[1], "first"))
                call_first();
        else if (n == 2 && !strcmp(args[1], "unshare"))
                leave_namespace();
        else if (n == 5 && !strcmp(args[1], "filter"))
                shut_in(args + 2);
        else
                return 2;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
        printf("done %ld\n", used.tv_sec * 1000 + used.tv_nsec / 1000000);
        return 0;
}
