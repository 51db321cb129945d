/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>
#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/lock.h"
#include "core/base/write_signals.h"

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
#ifdef __SANITIZE_ADDRESS__
        cr_skip_test("ASan does not learn that a cancelled thread's frames have ended");
#endif
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
static void comes_late(void) { syscall(SYS_tgkill, getpid(), gettid(), 32); }

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
#ifdef __SANITIZE_ADDRESS__
        cr_skip_test("ASan does not learn that a cancelled thread's frames have ended");
#endif

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

/* ---- cancellation points under a lock ---- */

static int pipe_ends[2], point;
static _Atomic int sleeper;

/* Blocks until a byte comes, in one of libc's cancellation points. */
static void block_in_point(void)
{
        struct pollfd p = {pipe_ends[0], POLLIN, 0};
        struct capo_write_signals signals;
        fd_set set;
        char byte;

        switch (point) {
        case 0: break;
        case 1: poll(&p, 1, -1); break;
        case 2:
                FD_ZERO(&set);
                FD_SET(pipe_ends[0], &set);
                select(pipe_ends[0] + 1, &set, NULL, NULL, NULL);
                break;
        case 3: /* what a write under a lock ends with: asks, and does not wait */
                signals = capo_write_signals_begin();
                capo_write_signals_end(&signals);
                break;
        }
        cr_assert_eq(read(pipe_ends[0], &byte, 1), 1);
}

static void *blocks_with_a_lock(void *brief_outside)
{
        pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
        if (brief_outside)
                capo_lock_brief(&two);
        capo_lock(&one);
        sleeper = gettid();
        block_in_point();
        reached = 1;
        capo_unlock(&one);
        if (brief_outside)
                capo_unlock_brief(&two);
        pthread_testcancel();
        reached = 2;
        return NULL;
}

/* The thread waits in the kernel: the state after the name in /proc. */
static bool is_asleep(int tid)
{
        char path[64], text[256] = "";
        FILE *f;
        char *state;

        snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
        f = fopen(path, "r");
        if (!f)
                return false;
        if (!fgets(text, sizeof text, f))
                text[0] = 0;
        fclose(f);
        state = strrchr(text, ')');
        return state && state[2] == 'S';
}

/* In a cancellation point libc makes the cancellation asynchronous, and a signal that was sent
 * before the lock was taken ends the thread there. */
Test(lock, a_cancellation_in_a_call_that_blocks)
{
        pthread_t t;
        void *end;

        cr_assert_eq(pthread_create(&t, NULL, waits, NULL), 0);
        cr_assert_eq(pthread_cancel(t), 0);
        cr_assert_eq(pthread_join(t, NULL), 0);
        cr_assert_eq(pipe(pipe_ends), 0);
        for (int i = 0; i < 8; i++) {
                point = i / 2;
                reached = sleeper = 0;
                cr_assert_eq(pthread_create(&t, NULL, blocks_with_a_lock, i % 2 ? &two : NULL), 0);
                while (!sleeper || !is_asleep(sleeper))
                        usleep(1000);
                syscall(SYS_tgkill, getpid(), sleeper, CAPO_CANCEL_SIGNAL);
                cr_assert_eq(write(pipe_ends[1], "x", 1), 1);
                cr_assert_eq(pthread_join(t, &end), 0);
                cr_expect_eq(reached, 1, "point %d: the thread ended with a lock held", point);
                cr_expect_eq(end, PTHREAD_CANCELED, "point %d: and it is cancelled afterwards",
                             point);
                cr_assert_eq(pthread_mutex_trylock(&one), 0, "point %d", point);
                cr_assert_eq(pthread_mutex_trylock(&two), 0, "point %d", point);
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
