/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "analysis/process/proc_pid.h"
#include "analysis/process/python_stack.h"
#include "analysis/process/stacks.h"
#include "capo/msg.h"
#include "core/base/demangle.h"
#include "core/base/file.h"
#include "core/base/plain_text.h"
#include "core/base/xalloc.h"

/* libunwind-ptrace is loaded when it is needed and never linked: its libraries also define the
 * compiler's unwinder, and capo must run without them. The declarations are the used part of
 * libunwind.h and libunwind-ptrace.h (equal in 1.3 to 1.8); a cursor is 127 words on x86-64, 250 on
 * AArch64. */
#if defined __x86_64__
#define ARCH "x86_64"
enum { FIRST_IP = 16, IP = FIRST_IP };
#else
#define ARCH "aarch64"
/* The program counter keeps the innermost frame's value. For outer frames libunwind's instruction
 * pointer is the link register. */
enum { FIRST_IP = 32, IP = 30 };
#endif
enum { FRAMES = 64 };

static struct {
        void *accessors; /* unw_accessors_t */
        void *(*create)(int tid);
        void (*destroy)(void *thread);
        void *(*create_addr_space)(void *accessors, int order);
        int (*init_remote)(void *cursor, void *space, void *thread);
        int (*step)(void *cursor);
        int (*get_reg)(void *cursor, int reg, uint64_t *value);
        int (*get_proc_name)(void *cursor, char *name, size_t room, uint64_t *into);
        void *space;
} unw;

/* Load libunwind-ptrace. False: not installed. */
static bool process_unwind_open(void)
{
        void *ptrace, *arch;

        if (unw.space)
                return true;
        /* the second library uses symbols of the first without linking it */
        arch = dlopen("libunwind-" ARCH ".so.8", RTLD_NOW | RTLD_GLOBAL);
        ptrace = arch ? dlopen("libunwind-ptrace.so.0", RTLD_NOW | RTLD_LOCAL) : NULL;
        if (!ptrace)
                return false;
#define FIND(name, library, symbol)                             \
        do {                                                    \
                *(void **)&unw.name = dlsym(library, (symbol)); \
                if (!unw.name)                                  \
                        return false;                           \
        } while (0)
        FIND(accessors, ptrace, "_UPT_accessors");
        FIND(create, ptrace, "_UPT_create");
        FIND(destroy, ptrace, "_UPT_destroy");
        FIND(create_addr_space, arch, "_U" ARCH "_create_addr_space");
        FIND(init_remote, arch, "_U" ARCH "_init_remote");
        FIND(step, arch, "_U" ARCH "_step");
        FIND(get_reg, arch, "_U" ARCH "_get_reg");
        FIND(get_proc_name, arch, "_U" ARCH "_get_proc_name");
#undef FIND
        unw.space = unw.create_addr_space(unw.accessors, 0);
        return unw.space;
}

/* Print the functions on the stack of a thread that is stopped and traced by this process, innermost
 * first. */
static void process_unwind(int tid, FILE *out)
{
        static uint64_t cursor[2048];
        void *thread = unw.create(tid);

        if (!thread)
                return;
        for (int i = 0; i < FRAMES; i++) {
                uint64_t ip = 0, into = 0;
                char name[1024] = "", plain[512];

                if ((i ? unw.step(cursor) <= 0 : unw.init_remote(cursor, unw.space, thread) != 0) ||
                    unw.get_reg(cursor, i ? IP : FIRST_IP, &ip) < 0 || !ip)
                        break;
                if (unw.get_proc_name(cursor, name, sizeof name, &into) < 0 || !*name) {
                        fprintf(out, " 0x%llx\n", (unsigned long long)ip);
                        continue;
                }
                name[sizeof name - 1] = 0;
                fprintf(out, " %s+0x%llx\n",
                        capo_demangle(name, plain, sizeof plain) ? plain : name,
                        (unsigned long long)into);
        }
        unw.destroy(thread);
}

enum { SECONDS = 2, SIZE = 256 << 10, THREADS = 1024, EXIT_NOT_ALLOWED = 3, EXIT_NO_UNWIND };

/* ---- the helper ---- */

/* Stop it, read its stack, continue it. False: not permitted. */
static bool one_thread(int pid, int tid, const struct process_python *python, FILE *out)
{
        int status = 0, signal = 0;
        char name[64];

        if (ptrace(PTRACE_SEIZE, tid, NULL, NULL))
                return errno != EPERM && errno != EACCES;
        if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) || waitpid(tid, &status, __WALL) != tid ||
            !WIFSTOPPED(status))
                return true; /* it has ended meanwhile */
        fprintf(out, "%d %s\n", tid, capo_pid_name(pid, tid, name, sizeof name));
        process_unwind(tid, out);
        for (unsigned i = 0; i < python->n; i++) {
                if (python->threads[i].tid == tid)
                        process_python_frames(python, &python->threads[i], "  ", out);
        }
        if (status >> 16 != PTRACE_EVENT_STOP) /* a signal arrived first: deliver it */
                signal = WSTOPSIG(status);
        ptrace(PTRACE_DETACH, tid, NULL, (void *)(intptr_t)signal);
        fflush(out);
        return true;
}

static int is_thread(const struct dirent *e) { return *e->d_name != '.'; }

static int all_threads(int pid, FILE *out)
{
        static struct process_python python;
        struct dirent **tasks;
        char path[64], why[400];
        int n;

        if (!process_unwind_open())
                return EXIT_NO_UNWIND;
        process_python_open(pid, &python, why, sizeof why); /* there may be no Python */
        snprintf(path, sizeof path, "/proc/%d/task", pid);
        /* the main thread has the smallest id, except after a wrap-around */
        n = scandir(path, &tasks, is_thread, versionsort);
        for (int i = 0; i < n && i < THREADS; i++) {
                if (!one_thread(pid, atoi(tasks[i]->d_name), &python, out))
                        return EXIT_NOT_ALLOWED;
        }
        return 0;
}

/* ---- the caller ---- */

char *process_stacks(int pid, char *why, size_t room)
{
        _cleanup_free_ char *text = NULL;
        int pair[2], status = 0;
        pid_t helper, self = getpid();
        size_t n = 0;

        fflush(NULL);
        helper = pipe(pair) ? -1 : fork();
        if (helper < 0) {
                capo_why(-errno, why, room, "%s", strerror(errno));
                return NULL;
        }
        if (helper == 0) {
                FILE *out = fdopen(pair[1], "w");

                prctl(PR_SET_PDEATHSIG, SIGKILL);
                signal(SIGALRM, SIG_DFL);
                alarm(SECONDS);
                close(pair[0]);
                _exit(out && getppid() == self ? all_threads(pid, out)
                                               : 1); /* it may have ended already */
        }
        close(pair[1]);
        capo_file_read_fd(pair[0], SIZE, &text, &n);
        close(pair[0]);
        kill(helper, SIGKILL);
        while (waitpid(helper, &status, 0) < 0 && errno == EINTR)
                ;
        while (n && text[n - 1] != '\n') /* it was killed inside a line */
                n--;
        if (n) {
                text[n] = 0;
                capo_plain(text, n, false, true);
                return steal(&text);
        }
        if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NOT_ALLOWED)
                process_not_allowed(pid, "traced", why, room);
        else if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NO_UNWIND)
                capo_why(-ENOSYS, why, room,
                         "libunwind-ptrace is not installed (Debian, Ubuntu: libunwind8)");
        else
                capo_why(-ETIMEDOUT, why, room, "pid %d let nothing be read within %d s", pid,
                         SECONDS);
        return NULL;
}
