/* SPDX-License-Identifier: Apache-2.0 */
/* A thread of ours in somebody else's process. A new thread inherits much from its maker. This one
 * changes
 *      signals                all blocked
 *      cancellation           off: a tool that cancels every thread must not stop it in a write
 *      floating point         no traps, round to nearest
 *      a real-time policy     dropped: it must not run before the job
 *      timer slack            50 us, so that a sleep of 50 us is one
 * and keeps
 *      processors, priority   as NCCL's own threads do: a job that keeps processors free keeps them
 *      name spaces, folder    the log's path is absolute; a job that changes its root before the
 *                             log is made has none
 *      language               numbers are read and written without it */
#include <sys/prctl.h>

#include "core/base/fpu.h"
#include "core/base/write_signals.h"
#include "shim/record/start.h"

/* This thread runs for microseconds at a time: a short slice, on kernels that take one (Linux 6.12
 * and later, EEVDF), lets it have them at once, also beside threads that spin. */
static void be_prompt(void)
{
        struct { /* struct sched_attr, linux/sched/types.h, first version */
                uint32_t size, policy;
                uint64_t flags;
                int32_t nice;
                uint32_t priority;
                uint64_t runtime, deadline, period;
        } attr = {.size = sizeof attr, .runtime = 100000};

        if (syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0) ||
            attr.policy != 0 /* SCHED_OTHER */)
                return;
        attr.runtime = 100000; /* ns */
        syscall(SYS_sched_setattr, 0, &attr, 0);
}

/* A thread of the job with a real-time policy may start ours, which must not stand before any. */
static void be_modest(void)
{
        struct sched_param none = {0};
        int policy = sched_getscheduler(0);

        if (policy == SCHED_FIFO || policy == SCHED_RR)
                sched_setscheduler(0, SCHED_OTHER, &none);
}

static void *run_thread(void *life)
{
        CAPO_FPU_OURS;

        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
        prctl(PR_SET_NAME, "capo-drain", 0, 0, 0);
        be_modest();
        be_prompt();
        prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0); /* ns */
        return ((void *(*)(void *))life)(NULL);
}

int capo_own_thread(void *(*life)(void *))
{
        pthread_attr_t attr;
        sigset_t all, none, before;
        pthread_t thread;
        int r;

        sigfillset(&all);
        sigemptyset(&none);
        pthread_attr_init(&attr);
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        pthread_attr_setstacksize(&attr, 256 << 10);
        sigemptyset(&before);
        capo_signal_mask(SIG_BLOCK, &none, &before);
        pthread_sigmask(SIG_BLOCK, &all, NULL); /* but for those that libc itself needs */
        r = pthread_create(&thread, &attr, run_thread, (void *)life);
        if (r == EINVAL) { /* thread-local data of libraries, which is on the stack, is larger */
                pthread_attr_destroy(&attr);
                pthread_attr_init(&attr);
                pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
                r = pthread_create(&thread, &attr, run_thread, (void *)life);
        }
        capo_signal_mask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attr);
        return -r;
}
