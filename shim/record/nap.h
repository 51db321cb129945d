/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

#include "core/base/util.h"

/** capo_nap() - wait @ns for a wake-up, while the futex @word is @value. Return: nobody woke us. */
static inline bool capo_nap(_Atomic uint32_t *word, uint32_t value, uint64_t ns)
{
        struct timespec time = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

        if (!syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &time, NULL, 0))
                return false;
        if (errno != EPERM)
                return errno == ETIMEDOUT;
        /* a seccomp filter of the job refuses futexes: no wake-up will come */
        time = (struct timespec){0, (long)(ns < 10000000 ? ns : 10000000)};
        syscall(SYS_nanosleep, &time, NULL);
        return true;
}

/** capo_wake_drain() - the drain thread's sleep ends; any thread. */
void capo_wake_drain(void);

/** capo_nap_or_wake() - the drain thread sleeps @ns, unless woken. Return: how much longer. */
uint64_t capo_nap_or_wake(uint64_t ns);
void capo_wake_fork(void);
