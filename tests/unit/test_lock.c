/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>
#include <criterion/criterion.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/lock.h"

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, two = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int reached;

static void *cancels_itself(void *kind)
{
        pthread_setcanceltype(*(int *)kind, NULL);
        capo_lock(&one);
        capo_lock(&two);
        pthread_cancel(pthread_self());
        pthread_testcancel();
        reached = 1;
        capo_unlock(&two);
        pthread_testcancel();
        reached = 2;
        capo_unlock(&one);
        pthread_testcancel();
        reached = 3;
        return NULL;
}

Test(lock, nobody_ends_with_one_held)
{
        for (int kind = 0; kind < 2; kind++) {
                int type = kind ? PTHREAD_CANCEL_ASYNCHRONOUS : PTHREAD_CANCEL_DEFERRED;
                pthread_t t;
                void *end;

                reached = 0;
                cr_assert_eq(pthread_create(&t, NULL, cancels_itself, &type), 0);
                cr_assert_eq(pthread_join(t, &end), 0);
                cr_assert_eq(end, PTHREAD_CANCELED);
                cr_assert_eq(reached, 2);
                cr_assert_eq(pthread_mutex_trylock(&one), 0);
                cr_assert_eq(pthread_mutex_trylock(&two), 0);
                pthread_mutex_unlock(&one);
                pthread_mutex_unlock(&two);
        }
}

/* glibc's signal of a cancellation, which was sent before the lock was taken and comes now. */
static void comes_late(void)
{
        syscall(SYS_tgkill, getpid(), gettid(), 32);
}

/* No local variable: ASan does not learn that a cancelled thread's frames have ended. */
static void *is_sent_late(void *at)
{
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
        capo_lock(&one);
        if (*(int *)at == 0)
                comes_late();
        capo_lock(&two);
        if (*(int *)at == 1)
                comes_late();
        capo_unlock(&two);
        if (*(int *)at == 2)
                comes_late();
        if (*(int *)at == 3) {
                if (!capo_trylock(&two))
                        return at;
                comes_late();
                capo_unlock(&two);
        }
        reached = 1;
        capo_unlock(&one);
        return NULL;
}

static void *waits(void *unused)
{
        pause();
        return NULL;
}

/* Of glibc's releases some ask in the handler whether the thread may be cancelled at all, some do
 * not. */
Test(lock, a_cancellation_that_comes_late)
{
        pthread_t t;
        void *end;

        cr_assert_eq(pthread_create(&t, NULL, waits, NULL),
                     0); /* the first cancellation of all sets the handler up */
        cr_assert_eq(pthread_cancel(t), 0);
        cr_assert_eq(pthread_join(t, NULL), 0);
        for (int at = 0; at < 4; at++) {
                reached = 0;
                cr_assert_eq(pthread_create(&t, NULL, is_sent_late, &at), 0);
                cr_assert_eq(pthread_join(t, &end), 0);
                cr_assert_neq(end, &at, "what nobody holds was not to be had");
                cr_expect_eq(reached, 1, "%d", at);
                cr_assert_eq(pthread_mutex_trylock(&one), 0, "%d", at);
                cr_assert_eq(pthread_mutex_trylock(&two), 0, "%d", at);
                pthread_mutex_unlock(&one);
                pthread_mutex_unlock(&two);
        }
}

static void *holds(void *unused)
{
        capo_lock(&one);
        reached = 1;
        while (reached == 1)
                usleep(100);
        capo_unlock(&one);
        return NULL;
}

Test(lock, one_that_is_tried)
{
        pthread_t t;
        int before;

        reached = 0;
        cr_assert(capo_trylock(&one));
        cr_assert_eq(capo_locked(), 1);
        cr_assert(capo_trylock(&two));
        capo_unlock(&two);
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
        cr_assert_eq(before, PTHREAD_CANCEL_DISABLE);
        capo_unlock(&one);
        cr_assert_eq(capo_locked(), 0);
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
        cr_assert_eq(before, PTHREAD_CANCEL_ENABLE);
        cr_assert_eq(pthread_create(&t, NULL, holds, NULL), 0);
        while (reached == 0)
                usleep(100);
        cr_assert_not(capo_trylock(&one));
        cr_assert_eq(capo_locked(), 0);
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
        cr_assert_eq(before, PTHREAD_CANCEL_ENABLE);
        reached = 2;
        pthread_join(t, NULL);
}

Test(lock, what_the_thread_had_set_comes_back)
{
        for (int i = 0; i < 4; i++) {
                int had_state = i & 1 ? PTHREAD_CANCEL_DISABLE : PTHREAD_CANCEL_ENABLE, state;
                int had_type = i & 2 ? PTHREAD_CANCEL_ASYNCHRONOUS : PTHREAD_CANCEL_DEFERRED, type;

                pthread_setcancelstate(had_state, NULL);
                pthread_setcanceltype(had_type, NULL);
                cr_assert_eq(capo_locked(), 0);
                capo_lock(&one);
                capo_lock(&two);
                cr_assert_eq(capo_locked(), 2);
                capo_unlock(&two);
                capo_unlock(&one);
                cr_assert_eq(capo_locked(), 0);
                pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
                pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
                cr_assert_eq(state, had_state, "%d", i);
                cr_assert_eq(type, had_type, "%d", i);
        }
}
