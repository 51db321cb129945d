/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/syscall.h>

#include "core/base/lock.h"
#include "core/base/util.h"

/* Initial-exec: the first look at it must not allocate. */
static __thread struct {
        unsigned held, blocked; /* locks; of them, those under which the signal is blocked */
        int state, type;        /* the thread's own settings, to go back to with the last */
        uint64_t mask;          /* what it had blocked */
} mine __attribute__((tls_model("initial-exec")));

/* Both settings are needed. A canceller checks them and then sends a signal. When the signal
 * arrives the thread may hold a lock, and the handler of some glibc releases (2.36 is one) checks
 * the type alone. */
static void disable_cancel(void)
{
        int state, type;

        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
        pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
        if (mine.held++ == 0) {
                mine.state = state;
                mine.type = type;
        }
}

/* The type last: going back to an asynchronous one ends a thread cancelled meanwhile. */
static void restore_cancel(void)
{
        int state = mine.state,
            type = mine.type; /* a signal's handler behind the next line has its own */

        if (--mine.held == 0) {
                pthread_setcancelstate(state, NULL);
                pthread_setcanceltype(type, NULL);
        }
}

/* In each cancellation point these releases make the type asynchronous, whatever it was, so the
 * signal that comes late would end the thread in the middle of a read(). It has to wait. libc's own
 * functions never block this signal; the kernel does. */
static void block_signal(void)
{
        const uint64_t cancel = UINT64_C(1) << (CAPO_CANCEL_SIGNAL - 1);
        uint64_t mask;

        if (mine.blocked++ == 0) {
                syscall(SYS_rt_sigprocmask, SIG_BLOCK, &cancel, &mask, sizeof mask);
                mine.mask = mask;
        }
}

static void unblock_signal(void)
{
        const uint64_t cancel = UINT64_C(1) << (CAPO_CANCEL_SIGNAL - 1);
        uint64_t mask = mine.mask;

        if (--mine.blocked == 0 && !(mask & cancel))
                syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &cancel, NULL, sizeof cancel);
}

void capo_lock_brief(pthread_mutex_t *lock)
{
        disable_cancel();
        pthread_mutex_lock(lock);
}

void capo_unlock_brief(pthread_mutex_t *lock)
{
        pthread_mutex_unlock(lock);
        restore_cancel();
}

void capo_lock(pthread_mutex_t *lock)
{
        disable_cancel();
        block_signal();
        pthread_mutex_lock(lock);
}

bool capo_trylock(pthread_mutex_t *lock)
{
        disable_cancel();
        if (pthread_mutex_trylock(lock) == 0) {
                block_signal();
                return true;
        }
        restore_cancel();
        return false;
}

void capo_unlock(pthread_mutex_t *lock)
{
        pthread_mutex_unlock(lock);
        unblock_signal();
        restore_cancel();
}

unsigned capo_locked(void) { return mine.held; }
