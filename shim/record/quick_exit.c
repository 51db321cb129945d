/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a process that recorded nothing. A shell leaves by _exit(), which calls no destructor
 * and may be called anywhere, by a signal's handler and by a child of vfork() too: here nothing is
 * locked or allocated. */
#include <fcntl.h>
#include <sys/resource.h>

#include "capo/env.h"
#include "capo/msg.h"
#include "core/base/write_signals.h"
#include "shim/find/object.h"
#include "shim/record/start.h"

/* As the kernel has it: linux/dirent.h. */
struct entry {
        uint64_t inode;
        int64_t next;
        uint16_t size;
        uint8_t type;
        char name[];
};

/* Is there a file whose name does not begin with a dot? */
static bool has_files(const char *folder)
{
        _Alignas(struct entry) char entries[1024];
        _cleanup_close_ int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        long n;

        while (fd >= 0 && (n = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0) {
                for (long at = 0; at < n;) {
                        const struct entry *e = (const struct entry *)(entries + at);

                        if (e->name[0] != '.')
                                return true;
                        at += e->size;
                }
        }
        return false;
}

static bool is_run_command(void)
{
        const char *run = getenv(CAPO_ENV_run_pid);

        return run && atoi(run) == getpid();
}

/* Page faults of waited-for children: capo run had some before it became this command. */
static long child_faults(void)
{
        struct rusage used = {0};

        return syscall(SYS_getrusage, RUSAGE_CHILDREN, &used) ? 0 : used.ru_minflt;
}

static long faults_before; /* child_faults() at the start of the command of capo run */

/* Allocates nothing. */
static void report_nothing(int exit_status)
{
        static struct capo_env env;

        if (atomic_load(&capo_life.state) != CAPO_SHIM_UNSTARTED || !is_run_command())
                return;
        capo_env_read(&env);
        if (env.off || env.quiet || !*env.dir || has_files(env.dir))
                return;
        if (exit_status)
                capo_info("the command failed with status %d, and nothing was recorded in %s: no "
                          "process called NCCL or libfabric before",
                          exit_status, env.dir);
        else if (child_faults() != faults_before)
                capo_info("nothing recorded in %s: no process called NCCL or libfabric, or "
                          "LD_PRELOAD did not reach it (setuid, container, ssh); %s",
                          env.dir,
                          env.verbose > 0
                                  ? "a program that is not named above has lost LD_PRELOAD, and "
                                    "capo doctor -- PROGRAM looks at one that is"
                                  : CAPO_TRY_VERBOSE);
        else
                capo_info("nothing recorded in %s: the command called neither NCCL nor libfabric, "
                          "and started no other program; capo doctor -- COMMAND says whether NCCL "
                          "is linked into it statically",
                          env.dir);
}

static void at_exit(int status, void *unused) { report_nothing(status & 0xff); }

void capo_report_reached(void)
{
        const char *verbose = getenv(CAPO_ENV_verbose);
        char program[256];
        ssize_t n;

        if (is_run_command()) {
                faults_before = child_faults();
                on_exit(at_exit, NULL); /* set before that of ld.so: it runs after destructors */
        }
        if (!verbose || atoi(verbose) < 1 || !capo_env_wanted())
                return;
        n = readlink("/proc/self/exe", program, sizeof program);
        capo_info("process %d has libcapo.so: %.*s", (int)getpid(), n > 0 ? (int)n : 0, program);
}

CAPO_EXPORT _Noreturn void _exit(int status)
{
        void (*next)(int) = (void (*)(int))capo_object_next_function("_exit");

        if (!capo_on_signal_stack())
                report_nothing(status & 0xff);
        if (next)
                next(status);
        for (;;)
                syscall(SYS_exit_group, status);
}

CAPO_EXPORT _Noreturn void _Exit(int status) { _exit(status); }
