/* SPDX-License-Identifier: Apache-2.0 */
/* Calibration. CLOCK_MONOTONIC is disciplined by NTP (up to 500 ppm of slew) and the counter is
 * not, so neither is "right"; over a run they differ by microseconds per second at most, and END
 * frames write the difference down. Durations come from one counter, so they are exact up to the
 * error of its rate. */
#if defined __x86_64__
#include <cpuid.h>
#endif
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/clock.h"

#define JUMP_NS 5000000u   /* more than two readings are ever apart by chance */
#define SURE_NS 100000000u /* a rate over less may be off by more itself */
#define NEW_NS  1000000000u

bool capo_clock_counter;

static struct {
        uint64_t ticks, mono_ns;
} since; /* from when on the rate is measured, after a jump; 0 from the epoch */

static bool counter_is_a_clock(void)
{
#if defined __x86_64__
        unsigned a, b, c, d;

        /* CPUID 80000007h EDX bit 8, "invariant TSC": same rate in all P-, C- and T-states (Intel
         * SDM 3B 18.17.1, AMD APM 3 E.4.7) */
        return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 0x100);
#elif defined __aarch64__
        return true; /* the generic timer is constant-rate by architecture (Arm ARM D11) */
#else
        return false;
#endif
}

/* The tightest of a few readings of both clocks: an interrupt between them would pass for drift. */
static void read_clocks(uint64_t *ticks, uint64_t *mono, uint64_t *real)
{
        uint64_t best = UINT64_MAX;

        for (int i = 0; i < 5; i++) {
                uint64_t before = capo_clock_ticks();
                uint64_t m = capo_clock_mono();
                uint64_t after = capo_clock_ticks();

                if (after - before < best) {
                        best = after - before;
                        *ticks = before + (after - before) / 2;
                        *mono = m;
                }
        }
        *real = capo_clock_of(CLOCK_REALTIME) - (capo_clock_mono() - *mono);
}

void capo_clock_init(struct capo_timebase *clock)
{
        capo_clock_counter = counter_is_a_clock();
        since.ticks = since.mono_ns = 0;
        *clock = (struct capo_timebase){.counter = capo_clock_counter};
        read_clocks(&clock->t0_ticks, &clock->t0_mono_ns, &clock->t0_real_ns);
        clock->now_ticks = clock->t0_ticks;
        clock->now_mono_ns = clock->t0_mono_ns;
        clock->now_real_ns = clock->t0_real_ns;
        if (!capo_clock_counter)
                clock->ns_per_tick = 1;
}

/* Has one clock gone on without the other since the last moment? In a virtual machine that was
 * paused, or a computer that was asleep, the counter may have and CLOCK_MONOTONIC not. NTP makes
 * 0.05 % at most. */
static bool clock_jumped(const struct capo_timebase *last, uint64_t ticks, uint64_t mono)
{
        double passed = (double)(int64_t)(mono - last->now_mono_ns);
        double counted = (double)(int64_t)(ticks - last->now_ticks) * last->ns_per_tick;
        double apart = counted > passed ? counted - passed : passed - counted;

        return apart > JUMP_NS + passed / 500;
}

void capo_clock_update(struct capo_timebase *clock)
{
        uint64_t from_ticks = since.ticks ? since.ticks : clock->t0_ticks;
        uint64_t from_mono = since.ticks ? since.mono_ns : clock->t0_mono_ns;
        uint64_t ticks, mono, real, least = since.ticks ? NEW_NS : 1000000;

        read_clocks(&ticks, &mono, &real);
        if (clock->counter && clock->now_mono_ns - from_mono >= SURE_NS &&
            clock_jumped(clock, ticks, mono)) {
                from_ticks = since.ticks = ticks;
                from_mono = since.mono_ns = mono;
        }
        clock->now_ticks = ticks;
        clock->now_mono_ns = mono;
        clock->now_real_ns = real;
        if (clock->counter && mono - from_mono >= least && ticks > from_ticks)
                clock->ns_per_tick = (double)(mono - from_mono) / (double)(ticks - from_ticks);
}

/* Reads the kernel's clock, also in a process that replaces clock_gettime(). Takes a millisecond.
 */
static double kernel_rate(void)
{
        struct timespec begin = {0}, end = {0}, nap = {0, 1000000};
        uint64_t ticks = capo_clock_read();
        int64_t ns;

        syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &begin);
        syscall(SYS_nanosleep, &nap, NULL);
        syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &end);
        ticks = capo_clock_read() - ticks;
        ns = (int64_t)(end.tv_sec - begin.tv_sec) * 1000000000 + (end.tv_nsec - begin.tv_nsec);
        return ns > 0 && (int64_t)ticks > 0 ? (double)ns / (double)ticks : 1;
}

void capo_clock_ready(struct capo_timebase *clock)
{
        enum { NAPS = 30 };

        for (int i = 0; i < NAPS && clock->ns_per_tick == 0; i++) {
                struct timespec nap = {0, 300000};

                syscall(SYS_nanosleep, &nap, NULL); /* no point to be cancelled at */
                capo_clock_update(clock);
        }
        if (clock->ns_per_tick ==
            0) /* the job's clock does not advance (libfaketime), or the counter was set back */
                clock->ns_per_tick = kernel_rate();
}
