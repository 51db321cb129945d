/* SPDX-License-Identifier: Apache-2.0 */
/* The host clock of records: the time-stamp counter, calibrated against CLOCK_MONOTONIC. A record
 * carries raw ticks; the drain thread converts them. If the counter cannot serve as a clock (x86
 * without the invariant-TSC bit), ticks are nanoseconds of CLOCK_MONOTONIC. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Two moments, each seen on all clocks. Lives in the segment: plain numbers only. */
struct capo_timebase {
        uint64_t t0_ticks, t0_mono_ns, t0_real_ns; /* the epoch */
        uint64_t now_ticks, now_mono_ns,
                now_real_ns; /* the latest moment; equal to the epoch until the first update */
        double ns_per_tick;  /* 0 until the two moments are far enough apart to tell */
        uint32_t counter;    /* 1: ticks are the time-stamp counter; 0: CLOCK_MONOTONIC */
        uint32_t reserved;
};

extern bool capo_clock_counter; /* set by capo_clock_init() before any other thread reads it */

/** capo_clock_of() - ns of one of clock_gettime()'s; CLOCK_THREAD_CPUTIME_ID is a system call. */
static inline uint64_t capo_clock_of(clockid_t clock)
{
        struct timespec t;

        clock_gettime(clock, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t capo_clock_mono(void) { return capo_clock_of(CLOCK_MONOTONIC); }

/** capo_clock_read() - the counter, for who knows that capo_clock_counter is set. */
static inline uint64_t capo_clock_read(void)
{
#if defined __x86_64__
        return __builtin_ia32_rdtsc();
#elif defined __aarch64__
        uint64_t v;

        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(v));
        return v;
#else
        return capo_clock_mono();
#endif
}

/** capo_clock_ticks() - now. About 8 ns with the counter, 20 to 25 without. Not serialising. */
static inline uint64_t capo_clock_ticks(void)
{
        return __builtin_expect(capo_clock_counter, 1) ? capo_clock_read() : capo_clock_mono();
}

/** capo_clock_init() - choose the counter or CLOCK_MONOTONIC, and take the epoch. */
void capo_clock_init(struct capo_timebase *clock);

/** capo_clock_update() - take the latest moment and recompute the rate
 *
 * The rate is the average since the epoch, so its error shrinks as the process runs: two readings
 * bracketed to about 100 ns give 10 ppm after 10 ms and 0.1 ppm after a second. Below 1 ms apart
 * nothing is computed. If one clock has jumped (a virtual machine that was paused), the rate stays;
 * a second later it is the average since the jump. Durations stay right, and times go on by the
 * counter. */
void capo_clock_update(struct capo_timebase *clock);

/** capo_clock_ready() - wait until capo_clock_update() has a rate; at most about a millisecond
 * Where the clock does not move in ten the rate is that of the kernel's own. */
void capo_clock_ready(struct capo_timebase *clock);

/** capo_clock_span() - ticks in ns; UINT64_MAX: too many (a damaged file's). Needs a rate. */
static inline uint64_t capo_clock_span(const struct capo_timebase *clock, uint64_t ticks)
{
        double ns = (double)ticks * clock->ns_per_tick + 0.5;

        return ns < 0x1p64 ? (uint64_t)ns : UINT64_MAX;
}

/** capo_clock_ns() - ticks to ns since the epoch; 0 for a moment before it. Needs a rate. */
static inline uint64_t capo_clock_ns(const struct capo_timebase *clock, uint64_t ticks)
{
        return ticks <= clock->t0_ticks ? 0 : capo_clock_span(clock, ticks - clock->t0_ticks);
}
