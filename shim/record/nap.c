/* SPDX-License-Identifier: Apache-2.0 */
/* The drain thread sleeps, and others wake it. */
#include "shim/record/nap.h"

#include "core/base/clock.h"

static _Atomic uint32_t wake; /* futex: 1 when the drain should not sleep */

void capo_wake_drain(void)
{
        if (atomic_exchange_explicit(&wake, 1, memory_order_relaxed) == 0)
                syscall(SYS_futex, &wake, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

uint64_t capo_nap_or_wake(uint64_t ns)
{
        uint64_t before = capo_clock_mono(), passed;

        capo_nap(&wake, 0, ns);
        atomic_store_explicit(&wake, 0, memory_order_relaxed);
        passed = capo_clock_mono() - before;
        return passed > ns ? passed - ns : 0;
}

void capo_wake_fork(void) { atomic_store(&wake, 0); }
