/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two steps. The thread makes a child whose end is told to nobody (clone() without an exit signal,
 * so that only __WCLONE finds it), that one makes another in the same way, which executes the
 * program, and ends; so the program has no parent here. Both share our memory, and we stand still
 * until they are through: they touch nothing but their stack and the structure below.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/util.h"
#include "core/base/write_signals.h"
#include "shim/record/apart.h"

enum { STACK = 32 << 10 };

/*
 * glibc's clone() by the name that nobody puts another in front of. The thread sanitizer's own
 * takes the child for a fork()'s, and as the memory is shared, marks the thread here as one whose
 * locks it need not follow any more.
 */
int plain_clone(int (*run)(void *), void *stack, int flags, void *arg, ...) __asm__("__clone");

struct plan {
        char *const *argv, *const *envp;
        const char *out;
        unsigned seconds;
        char *stack; /* of the second child */
        int error;
};

static void limit_resource(int what, rlim_t most)
{
        struct rlimit l;

        if (getrlimit(what, &l) == 0 && (l.rlim_max == RLIM_INFINITY || l.rlim_max > most)) {
                l = (struct rlimit){most, most};
                setrlimit(what, &l);
        }
}

/* What a handler of the job's would do here is not to happen here. */
static void no_handlers(void)
{
        struct sigaction plain = {.sa_handler = SIG_DFL};
        sigset_t none;

        for (int s = 1; s < NSIG; s++)
                sigaction(s, &plain, NULL);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
}

/* False: one of them is not to be had. The program does not begin then: it would speak where the
 * job does. */
static bool only_these_files(const char *out)
{
        int null = open("/dev/null", O_RDWR), file = open(out, O_WRONLY | O_TRUNC | O_NOFOLLOW);

        if (null < 0 || file < 0 || dup2(null, 0) < 0 || dup2(file, 1) < 0 || dup2(null, 2) < 0)
                return false;
        if (syscall(SYS_close_range, 3, ~0u, 0)) { /* before Linux 5.9 */
                for (int fd = 3; fd < 65536; fd++)
                        close(fd);
        }
        return true;
}

static CAPO_UNSANITIZED int run_grandchild(void *arg)
{
        struct plan *p = arg;

        no_handlers();
        setsid();
        setpriority(PRIO_PROCESS, 0, 19);
        limit_resource(RLIMIT_CPU, p->seconds / 2 + 1);
        limit_resource(RLIMIT_CORE, 0);
        alarm(p->seconds);
        if (only_these_files(p->out))
                execve(p->argv[0], p->argv, p->envp);
        p->error = -errno;
        _exit(127);
}

static CAPO_UNSANITIZED int run_child(void *arg)
{
        struct plan *p = arg;

        if (plain_clone(run_grandchild, p->stack + STACK, CLONE_VM | CLONE_VFORK, p) < 0)
                p->error = -errno;
        _exit(0);
}

int capo_apart(char *const argv[], char *const envp[], const char *out, unsigned seconds)
{
        char *stacks = mmap(NULL, 2 * STACK, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
        struct plan p = {
                .argv = argv, .envp = envp, .out = out, .seconds = seconds, .stack = stacks};
        sigset_t all, before;
        pid_t child;

        if (stacks == MAP_FAILED)
                return -ENOMEM;
        sigfillset(&all);
        capo_signal_mask(SIG_SETMASK, &all, &before);
        child = plain_clone(run_child, stacks + 2 * STACK, CLONE_VM | CLONE_VFORK, &p);
        if (child < 0)
                p.error = -errno;
        else
                while (waitpid(child, NULL, __WCLONE) < 0 && errno == EINTR)
                        ;
        capo_signal_mask(SIG_SETMASK, &before, NULL);
        munmap(stacks, 2 * STACK);
        return p.error;
}
