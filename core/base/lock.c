/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/lock.h"

/* Initial-exec: the first look at it must not allocate. */
static __thread struct {
        unsigned held;
        int cancel; /* the thread's own setting, to go back to with the last */
} mine __attribute__((tls_model("initial-exec")));

void capo_lock(pthread_mutex_t *lock)
{
        int before;

        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
        if (mine.held++ == 0)
                mine.cancel = before;
        pthread_mutex_lock(lock);
}

void capo_unlock(pthread_mutex_t *lock)
{
        pthread_mutex_unlock(lock);
        if (--mine.held == 0)
                pthread_setcancelstate(mine.cancel, NULL);
}

unsigned capo_locked(void)
{
        return mine.held;
}
