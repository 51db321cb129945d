/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>
#include <criterion/criterion.h>

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

Test(lock, what_the_thread_had_set_comes_back)
{
        int before;

        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
        cr_assert_eq(capo_locked(), 0);
        capo_lock(&one);
        cr_assert_eq(capo_locked(), 1);
        capo_unlock(&one);
        cr_assert_eq(capo_locked(), 0);
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
        cr_assert_eq(before, PTHREAD_CANCEL_DISABLE);
}
