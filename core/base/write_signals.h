/* SPDX-License-Identifier: Apache-2.0 */
/* Writing in somebody else's process. Two errors of a write send a signal to the thread, which
 * would end the job: SIGXFSZ beyond a limit on the size of files (ulimit -f), and SIGPIPE for a
 * pipe that nobody reads any more. Between these two calls they are only error codes (EFBIG,
 * EPIPE). A signal that was pending before stays pending. */
#pragma once

#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

#include "core/base/util.h"

/** capo_signal_mask() - pthread_sigmask() as the kernel has it: 0 or -1 and errno. Libc removes the
 * signal of a cancellation from each mask that it sets, and so would deliver it under a lock
 * (core/base/lock.h). */
static inline int capo_signal_mask(int how, const sigset_t *set, sigset_t *before)
{
        enum { KERNEL_BYTES = 8 }; /* of its sigset_t, the beginning of libc's */

        return (int)syscall(SYS_rt_sigprocmask, how, set, before, KERNEL_BYTES);
}

/* But for those that the thread's own instructions raise. */
static inline sigset_t capo_signals_hold(void)
{
        static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
        sigset_t most, before;

        sigfillset(&most);
        for (unsigned i = 0; i < sizeof own / sizeof *own; i++)
                sigdelset(&most, own[i]);
        sigemptyset(&before);
        capo_signal_mask(SIG_BLOCK, &most, &before);
        return before;
}

static inline void capo_signals_release(sigset_t *before)
{
        int saved = errno;

        capo_signal_mask(SIG_SETMASK, before, NULL);
        errno = saved;
}

/* Is this a signal's handler on a stack of its own? That may have 8 KB, of which the kernel has
 * taken half for the registers. */
static inline bool capo_on_signal_stack(void)
{
        stack_t stack;

        return sigaltstack(NULL, &stack) == 0 && stack.ss_flags & SS_ONSTACK;
}

/* Until the end of the block no handler of the job runs on this thread. A siglongjmp() out of
 * one would leave a lock of the loader held. */
#define CAPO_NO_SIGNALS                                                            \
        __attribute__((cleanup(capo_signals_release), unused)) sigset_t signals_ = \
                capo_signals_hold()

struct capo_write_signals {
        sigset_t ours,
                before; /* signals that are of our own writing when they come; what was blocked */
};

static inline struct capo_write_signals capo_write_signals_begin(void)
{
        static const int signals[] = {SIGXFSZ, SIGPIPE};
        struct capo_write_signals l;
        sigset_t both, pending;

        sigemptyset(&pending);
        sigpending(&pending);
        sigemptyset(&both);
        sigemptyset(&l.ours);
        for (int i = 0; i < 2; i++) {
                sigaddset(&both, signals[i]);
                if (sigismember(&pending, signals[i]) != 1)
                        sigaddset(&l.ours, signals[i]);
        }
        sigemptyset(&l.before);
        capo_signal_mask(SIG_BLOCK, &both, &l.before);
        return l;
}

static inline void capo_write_signals_end(struct capo_write_signals *l)
{
        enum { NSIG_BYTES = 8 }; /* the kernel's sigset_t */
        static const struct timespec at_once = {0};
        int saved = errno;

        /* libc's sigtimedwait() is a point to be cancelled at, and a lock may be held here */
        while (syscall(SYS_rt_sigtimedwait, &l->ours, NULL, &at_once, NSIG_BYTES) > 0 ||
               errno == EINTR)
                ;
        capo_signal_mask(SIG_SETMASK, &l->before, NULL);
        errno = saved;
}

/* To the end of the block. */
#define CAPO_NO_WRITE_SIGNALS                                              \
        __attribute__((cleanup(capo_write_signals_end),                    \
                       unused)) struct capo_write_signals write_signals_ = \
                capo_write_signals_begin()
