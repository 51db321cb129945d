/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>
#include <sys/syscall.h>

#include "core/base/lock.h"
#include "core/base/util.h"
#include "shim/find/loader.h"

enum { MOST_MS = 1000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread bool held
        __attribute__((tls_model("initial-exec"))); /* by the fork of this thread */
static _Atomic int forks;                           /* that wait for it, or are under way */

static void sleep_millisecond(void)
{
        syscall(SYS_nanosleep, &(struct timespec){0, 1000000},
                NULL); /* libc's would be a point to be cancelled at */
}

void capo_loader_enter(void)
{
        /* forks come first: else they would hardly ever meet a moment between two walks */
        for (int i = 0; i < MOST_MS && atomic_load(&forks); i++)
                sleep_millisecond();
        capo_lock(&lock);
}

void capo_loader_leave(void) { capo_unlock(&lock); }

/* Who forks may have the loader's lock himself, as the constructor of a library that is being
 * loaded; then the drain thread waits for him, and he must not for ever. */
void capo_loader_fork(void)
{
        int saved = errno;

        atomic_fetch_add(&forks, 1);
        held = pthread_mutex_trylock(&lock) == 0;
        for (int i = 0; i < MOST_MS && !held; i++) {
                sleep_millisecond();
                held = pthread_mutex_trylock(&lock) == 0;
        }
        errno = saved;
}

void capo_loader_forked(void)
{
        if (held)
                pthread_mutex_unlock(&lock);
        held = false;
        atomic_fetch_sub(&forks, 1);
}

void capo_loader_child(void)
{
        pthread_mutex_init(&lock, NULL);
        held = false;
        atomic_store(&forks, 0);
}
