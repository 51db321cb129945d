/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calibration. CLOCK_MONOTONIC is disciplined by NTP (up to 500 ppm of slew) and the counter is not, so neither is
 * "right"; over a run they differ by microseconds per second at most, and END frames write the difference down. What
 * matters is that durations, which come from one counter, are exact to the rate's error.
 */
#if defined __x86_64__
#include <cpuid.h>
#endif

#include "core/base/clock.h"

bool capo_clock_counter;

static bool counter_is_a_clock(void)
{
#if defined __x86_64__
        unsigned a, b, c, d;

        /* CPUID 80000007h EDX bit 8, "invariant TSC": same rate in all P-, C- and T-states (Intel SDM 3B 18.17.1, AMD
         * APM 3 E.4.7) */
        return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 0x100);
#elif defined __aarch64__
        return true; /* the generic timer is constant-rate by architecture (Arm ARM D11) */
#else
        return false;
#endif
}

/* The tightest of a few readings of both clocks: an interrupt between them would pass for drift. */
static void moment(uint64_t *ticks, uint64_t *mono, uint64_t *real)
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
        *clock = (struct capo_timebase){.counter = capo_clock_counter};
        moment(&clock->t0_ticks, &clock->t0_mono_ns, &clock->t0_real_ns);
        clock->now_ticks = clock->t0_ticks;
        clock->now_mono_ns = clock->t0_mono_ns;
        clock->now_real_ns = clock->t0_real_ns;
        if (!capo_clock_counter)
                clock->ns_per_tick = 1;
}

void capo_clock_update(struct capo_timebase *clock)
{
        uint64_t ticks, mono, real;

        moment(&ticks, &mono, &real);
        clock->now_ticks = ticks;
        clock->now_mono_ns = mono;
        clock->now_real_ns = real;
        if (clock->counter && mono - clock->t0_mono_ns >= 1000000 && ticks > clock->t0_ticks)
                clock->ns_per_tick = (double)(mono - clock->t0_mono_ns) / (double)(ticks - clock->t0_ticks);
}

void capo_clock_ready(struct capo_timebase *clock)
{
        while (clock->ns_per_tick == 0) {
                struct timespec nap = {0, 300000};

                nanosleep(&nap, NULL);
                capo_clock_update(clock);
        }
}
