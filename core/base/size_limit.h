/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing in somebody else's process. Under a limit on the size of files (ulimit -f) what goes beyond it is answered by
 * SIGXFSZ to the thread that wrote, which ends a program that never wrote so much itself. Between these two it is an error
 * code (EFBIG) like any other; one that was pending before stays so.
 */
#ifndef CAPO_SIZE_LIMIT_H
#define CAPO_SIZE_LIMIT_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>

struct capo_size_limit {
        sigset_t signal, before;
        bool pending;
};

static inline struct capo_size_limit capo_size_limit_begin(void)
{
        struct capo_size_limit l;
        sigset_t pending;

        sigemptyset(&pending);
        sigpending(&pending);
        l.pending = sigismember(&pending, SIGXFSZ) == 1;
        sigemptyset(&l.signal);
        sigaddset(&l.signal, SIGXFSZ);
        pthread_sigmask(SIG_BLOCK, &l.signal, &l.before);
        return l;
}

static inline void capo_size_limit_end(struct capo_size_limit *l)
{
        static const struct timespec at_once = {0};
        int saved = errno;

        while (!l->pending && (sigtimedwait(&l->signal, NULL, &at_once) > 0 || errno == EINTR))
                ;
        pthread_sigmask(SIG_SETMASK, &l->before, NULL);
        errno = saved;
}

/* To the end of the block. */
#define CAPO_NO_SIZE_SIGNAL                                                                        \
        __attribute__((cleanup(capo_size_limit_end), unused)) struct capo_size_limit size_limit_ = \
                capo_size_limit_begin()

#endif
