/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing in somebody else's process. Two errors of a write are answered by a signal to the thread
 * that wrote, which ends a program that did not write that itself: what goes beyond a limit on the
 * size of files (ulimit -f) by SIGXFSZ, and a message into a pipe that nobody reads any more by
 * SIGPIPE. Between these two they are error codes (EFBIG, EPIPE) like any other; a signal that was
 * pending before stays so.
 */
#ifndef CAPO_WRITE_SIGNALS_H
#define CAPO_WRITE_SIGNALS_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>

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
        pthread_sigmask(SIG_BLOCK, &both, &l.before);
        return l;
}

static inline void capo_write_signals_end(struct capo_write_signals *l)
{
        static const struct timespec at_once = {0};
        int saved = errno;

        while (sigtimedwait(&l->ours, NULL, &at_once) > 0 || errno == EINTR)
                ;
        pthread_sigmask(SIG_SETMASK, &l->before, NULL);
        errno = saved;
}

/* To the end of the block. */
#define CAPO_NO_WRITE_SIGNALS                                              \
        __attribute__((cleanup(capo_write_signals_end),                    \
                       unused)) struct capo_write_signals write_signals_ = \
                capo_write_signals_begin()

#endif
