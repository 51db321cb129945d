/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that reads the machine: every ten seconds (every two at first), when a GPU
 * is first used, when a call stalls, and at the end; between these it samples what the process
 * does. It is not the drain thread, because a driver that hangs would hold the log up. The drain
 * thread sees what it is at and reports a source that does not answer.
 */
#include <sys/prctl.h>

#include "capo/env.h"
#include "capo/frame_types.h"
#include "shim/machine/between.h"
#include "shim/machine/machine_gpu.h"
#include "shim/machine/machine_read.h"
#include "shim/record/nap.h"
#include "shim/record/start.h"

#define EVERY_NS UINT64_C(10000000000)
#define DENSE_NS UINT64_C(2000000000) /* at first: a short job has few windows else */
#define SLACK_NS 10000000
#define HANGS_NS UINT64_C(1000000000) /* of naps of the drain thread that came in time */
#define IN_TIME  UINT64_C(20000000)
#define END_NS   1000000000
#define SHORT_NS UINT64_C(500000000) /* a process that lived no longer gets no last reading */

enum { IDLE, WANTED, ENDING, ENDED };

static struct {
        _Atomic bool lives;
        _Atomic int tid;
        _Atomic uint32_t wish;      /* futex: one of the above */
        _Atomic(const char *) busy; /* what is asked now */
        _Atomic uint32_t asked;     /* changes with every source */
        uint64_t begun_ns;
        /* of the drain thread */
        uint32_t seen;
        uint64_t stood_ns;
        bool told;
} own;

static int thread_id(void) { return atomic_load_explicit(&own.tid, memory_order_relaxed); }

static unsigned count_threads(void) { return atomic_load(&own.lives); }

static void note_busy(const char *what)
{
        atomic_store_explicit(&own.busy, what, memory_order_relaxed);
        atomic_fetch_add_explicit(&own.asked, 1, memory_order_relaxed);
}

static uint64_t sample_period(void)
{
        int64_t rate = capo_shim_env()->machine_samples;

        return rate <= 0 ? 0 : 1000000000u / (uint64_t)(rate < 100 ? rate : 100);
}

/* A third of the time so far, from two seconds to ten. */
static uint64_t period_after(uint64_t lived_ns)
{
        uint64_t ns = lived_ns / 3;

        return ns < DENSE_NS ? DENSE_NS : ns < EVERY_NS ? ns : EVERY_NS;
}

static void *machine_main(void *unused)
{
        uint64_t period = sample_period(), next = 0, now, reading;
        uint32_t wish;

        prctl(PR_SET_NAME, "capo-machine", 0, 0, 0);
        prctl(PR_SET_TIMERSLACK, SLACK_NS, 0, 0, 0); /* it wakes when others do */
        atomic_store(&own.tid, (int)syscall(SYS_gettid));
        capo_machine_roots();
        for (;;) {
                wish = atomic_load(&own.wish);
                now = capo_clock_mono();
                reading = 0;
                if (wish != IDLE || now >= next) {
                        if (wish != ENDING || now - own.begun_ns > SHORT_NS)
                                capo_machine_read(wish != IDLE, note_busy);
                        reading = capo_clock_mono() - now;
                        next = now + period_after(now - own.begun_ns);
                        if (wish == ENDING)
                                break;
                        atomic_compare_exchange_strong(&own.wish, &wish, IDLE);
                }
                if (period)
                        capo_between_sample(reading);
                capo_nap(&own.wish, IDLE, period ? period : next - now);
        }
        atomic_store(&own.tid, 0);
        atomic_store(&own.lives, false);
        atomic_store(&own.wish, ENDED);
        syscall(SYS_futex, &own.wish, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
        return NULL;
}

static void begin_thread(void)
{
        if (!capo_shim_env()->machine || atomic_load(&own.wish) != IDLE ||
            atomic_exchange(&own.lives, true))
                return;
        own.begun_ns = capo_clock_mono();
        if (capo_own_thread(machine_main) < 0)
                atomic_store(&own.lives, false);
}

static void ask_reading(void)
{
        uint32_t idle = IDLE;

        if (atomic_load(&own.lives) && atomic_compare_exchange_strong(&own.wish, &idle, WANTED))
                syscall(SYS_futex, &own.wish, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* What its counters have before the job has used it is no one's. */
static void watch_gpu(int device, const char *busid)
{
        capo_machine_gpu_watch(device, busid);
        ask_reading();
}

static void check_answers(uint64_t nap_ns, uint64_t late_ns)
{
        uint32_t asked = atomic_load_explicit(&own.asked, memory_order_relaxed);
        const char *busy = atomic_load_explicit(&own.busy, memory_order_relaxed);
        char text[200];
        int n;

        if (!busy || asked != own.seen) {
                own.seen = asked;
                own.stood_ns = 0;
                own.told = false;
                return;
        }
        own.stood_ns += late_ns < IN_TIME ? nap_ns : 0;
        if (own.told || own.stood_ns < HANGS_NS)
                return;
        own.told = true;
        n = snprintf(text, sizeof text, "at\t%llu\nleft\tprocess\t%.60s\t" CAPO_MACHINE_SILENT "\n",
                     (unsigned long long)(capo_clock_mono() - capo_seg.header->clock.t0_mono_ns),
                     busy);
        capo_shim_text(CAPO_FRAME_MACHINE, text, (size_t)n);
}

static bool end_thread(void)
{
        uint64_t until = capo_clock_mono() + END_NS, now;
        uint32_t wish;

        if (!atomic_load(&own.lives))
                return true;
        atomic_store(&own.wish, ENDING);
        syscall(SYS_futex, &own.wish, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
        while ((wish = atomic_load(&own.wish)) == ENDING) {
                now = capo_clock_mono();
                if (now >= until)
                        return false;
                capo_nap(&own.wish, ENDING, until - now);
        }
        return true;
}

static void forget_parent(void)
{
        memset(&own, 0, sizeof own);
        capo_machine_read_fork();
        capo_machine_gpus_fork();
        capo_between_fork();
}

const struct capo_machine_part capo_machine_part = {
        .begin = begin_thread,
        .ask = ask_reading,
        .round = check_answers,
        .end = end_thread,
        .watch = watch_gpu,
        .threads = count_threads,
        .tid = thread_id,
        .fork = forget_parent,
};
