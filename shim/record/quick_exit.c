/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a process that recorded nothing. A shell leaves by _exit(), which calls no destructor
 * and may be called anywhere, by a signal's handler and by a child of vfork() too: here nothing is
 * locked or allocated.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capo/env.h"
#include "capo/msg.h"
#include "core/base/util.h"
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

void capo_report_nothing(void)
{
        static struct capo_env env;
        const char *run = getenv(CAPO_ENV_run_pid);

        if (atomic_load(&capo_life.state) != CAPO_SHIM_UNBORN || !run || atoi(run) != getpid())
                return;
        capo_env_read(&env);
        if (env.off || env.quiet || !*env.dir || has_files(env.dir))
                return;
        capo_info("nothing recorded in %s: no process called NCCL or libfabric, or LD_PRELOAD "
                  "did not reach it (setuid, container, ssh); try: capo doctor -- COMMAND",
                  env.dir);
}

CAPO_EXPORT _Noreturn void _exit(int status)
{
        void (*next)(int) = (void (*)(int))capo_object_next_function("_exit");

        if (!capo_on_signal_stack())
                capo_report_nothing();
        if (next)
                next(status);
        for (;;)
                syscall(SYS_exit_group, status);
}

CAPO_EXPORT _Noreturn void _Exit(int status)
{
        _exit(status);
}
