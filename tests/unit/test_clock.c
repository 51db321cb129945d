/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of records: what is computed from made moments, and that the real ones are in order. */
#include <criterion/criterion.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/util.h"

Test(clock, ticks_to_ns)
{
        static const struct {
                uint64_t t0, ticks;
                double rate;
                uint64_t ns;
        } rows[] = {
                {1000, 1000, .5, 0},
                {1000, 999, .5, 0},
                {1000, 0, .5, 0},
                {1000, 1001, .5, 1}, /* rounded, not cut */
                {1000, 1002, .4, 1},
                {1000, 1001, .4, 0},
                {1000, 3000, .5, 1000},
                {0, 7, 1, 7},
                {0, 1ull << 40, 2, 1ull << 41},
                {0, UINT64_MAX, 4, UINT64_MAX}, /* more than there is: from an untrusted file */
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_timebase clock = {.t0_ticks = rows[i].t0, .ns_per_tick = rows[i].rate};

                cr_expect_eq(capo_clock_ns(&clock, rows[i].ticks), rows[i].ns, "row %zu", i);
        }
}

static uint64_t real_now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_REALTIME, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* What the machine's own clocks say before and after encloses the moment, however long it takes. */
Test(clock, the_epoch_is_now)
{
        uint64_t mono = capo_clock_mono(), real = real_now(), ticks;
        struct capo_timebase clock;

        capo_clock_init(&clock);
        cr_expect_eq(clock.counter, (uint32_t)capo_clock_counter);
        ticks = capo_clock_ticks();
        cr_expect(clock.t0_mono_ns >= mono && clock.t0_mono_ns <= capo_clock_mono());
        /* the wall clock may be slewed or set meanwhile: a second is enough to see a sign that is
         * wrong */
        cr_expect(clock.t0_real_ns + 1000000000 > real &&
                  clock.t0_real_ns < real_now() + 1000000000);
        cr_expect(clock.t0_ticks > 0 && clock.t0_ticks <= ticks);
        cr_expect(clock.now_ticks == clock.t0_ticks && clock.now_mono_ns == clock.t0_mono_ns &&
                  clock.now_real_ns == clock.t0_real_ns);
        cr_expect_eq(clock.ns_per_tick, clock.counter ? 0 : 1);
}

Test(clock, a_rate_after_a_millisecond)
{
        struct capo_timebase clock, before;

        capo_clock_init(&clock);
        capo_clock_ready(&clock);
        cr_expect_gt(clock.ns_per_tick, 0);
        before = clock;
        capo_clock_update(&clock);
        cr_expect(clock.now_mono_ns >= before.now_mono_ns && clock.now_ticks >= before.now_ticks);
        cr_expect(clock.t0_ticks == before.t0_ticks && clock.t0_mono_ns == before.t0_mono_ns &&
                  clock.t0_real_ns == before.t0_real_ns);
        if (clock.counter) {
                cr_expect_geq(before.now_mono_ns - before.t0_mono_ns, 1000000);
                cr_expect_float_eq(clock.ns_per_tick * (double)(clock.now_ticks - clock.t0_ticks),
                                   (double)(clock.now_mono_ns - clock.t0_mono_ns), 1);
        }
        cr_expect_lt((int64_t)(clock.now_real_ns - clock.t0_real_ns) -
                             (int64_t)(clock.now_mono_ns - clock.t0_mono_ns),
                     1000000000);
}

/* The epoch moved instead of waiting: near and far, ahead, and where ticks are ns already. */
Test(clock, too_near_gives_no_rate)
{
        struct capo_timebase clock, set;

        capo_clock_init(&clock);
        if (!clock.counter) { /* ticks are CLOCK_MONOTONIC */
                capo_clock_update(&clock);
                cr_expect_eq(clock.ns_per_tick, 1);
                return;
        }
        set = clock;
        set.t0_mono_ns -= 1000000000;
        set.t0_ticks = UINT64_MAX;
        capo_clock_update(&set);
        cr_expect_eq(set.ns_per_tick, 0, "no rate from ticks that lie ahead");
        set = clock;
        set.t0_mono_ns -= 1000000000;
        set.t0_ticks -= 1000000000;
        capo_clock_update(&set);
        cr_expect_float_eq(set.ns_per_tick * (double)(set.now_ticks - set.t0_ticks),
                           (double)(set.now_mono_ns - set.t0_mono_ns), 1);
        set = clock;
        set.counter = 0;
        set.ns_per_tick = 1;
        set.t0_mono_ns -= 1000000000;
        capo_clock_update(&set);
        cr_expect_eq(set.ns_per_tick, 1, "without the counter the rate stays");
}

/* An hour that the counter has and CLOCK_MONOTONIC has not, as of a virtual machine that was
 * paused; and the reverse. */
Test(clock, a_jump_does_not_change_the_rate)
{
        const double hour_ns = 3600e9;

        for (int way = -1; way <= 1; way += 2) {
                struct capo_timebase clock, set;
                uint64_t hour;
                double rate;

                capo_clock_init(&clock);
                if (!clock.counter)
                        return;
                capo_clock_ready(&clock);
                rate = clock.ns_per_tick;
                hour = (uint64_t)(hour_ns / rate);
                set = clock; /* up to now all went well for two hours */
                set.t0_mono_ns = clock.now_mono_ns - 2 * (uint64_t)hour_ns;
                set.t0_ticks = clock.now_ticks - 2 * hour - (uint64_t)(way * (int64_t)hour);
                set.now_ticks = clock.now_ticks - (uint64_t)(way * (int64_t)hour);
                capo_clock_update(&set);
                cr_expect_float_eq(set.ns_per_tick, rate, rate / 1000, "%d: %g for %g", way,
                                   set.ns_per_tick, rate);
                capo_clock_update(&set);
                cr_expect_float_eq(set.ns_per_tick, rate, rate / 1000);
                usleep(1100000); /* from now on the rate is what it was since */
                set.ns_per_tick = rate * 1.0001;
                capo_clock_update(&set);
                cr_expect_float_eq(set.ns_per_tick, rate, rate / 1000);
                cr_expect_neq(set.ns_per_tick, rate * 1.0001);
        }
}

/* A rate that was 0.005 % off is mended by all that has passed since the beginning: no jump. */
Test(clock, a_small_error_of_the_rate_is_no_jump)
{
        struct capo_timebase clock, set;
        double rate;

        capo_clock_init(&clock);
        if (!clock.counter)
                return;
        capo_clock_ready(&clock);
        rate = clock.ns_per_tick;
        set = clock;
        set.now_mono_ns -= 1000000000;
        set.now_ticks -= (uint64_t)(1e9 / rate);
        set.t0_mono_ns = set.now_mono_ns - UINT64_C(60000000000);
        set.t0_ticks = set.now_ticks - (uint64_t)(60e9 / rate);
        set.ns_per_tick = rate * 1.00005;
        capo_clock_update(&set);
        cr_expect_float_eq(set.ns_per_tick, rate, rate / 1e5, "%.9g for %.9g", set.ns_per_tick,
                           rate);
}

Test(clock, a_thread_s_own_time_only_grows)
{
        uint64_t a = capo_clock_of(CLOCK_THREAD_CPUTIME_ID), b;

        do
                b = capo_clock_of(CLOCK_THREAD_CPUTIME_ID);
        while (b == a);
        cr_expect_gt(b, a);
}

/* A machine with a fake clock: each reading of CLOCK_MONOTONIC is the next of a list, the wall
 * clock stands. */
static const uint64_t *fake_readings;
static unsigned n_fake_readings;
static bool stands; /* or all are one moment */
enum { WALL = 1000000000 };

int clock_gettime(clockid_t clock, struct timespec *t)
{
        if (stands) {
                *t = (struct timespec){.tv_sec = WALL};
                return 0;
        }
        if (!fake_readings)
                return (int)syscall(SYS_clock_gettime, clock, t);
        *t = (struct timespec){
                .tv_sec = clock == CLOCK_REALTIME ? WALL : 0,
                .tv_nsec = clock == CLOCK_REALTIME ? 0 : (long)fake_readings[n_fake_readings++]};
        return 0;
}

/* Without the counter a moment is the middle of the tightest of five pairs of readings. */
Test(clock, the_tightest_reading_is_the_moment)
{
        static const uint64_t readings[] = {100, 105, 110, 200, 203, 208, 300, 301,
                                            304, 400, 403, 406, 500, 507, 520, 640};
        struct capo_timebase clock = {.t0_ticks = 1};

        capo_clock_counter = false;
        fake_readings = readings;
        capo_clock_update(&clock);
        fake_readings = NULL;
        cr_expect_eq(n_fake_readings, 16);
        cr_expect(clock.now_ticks == 302 && clock.now_mono_ns == 301, "%llu %llu",
                  (unsigned long long)clock.now_ticks, (unsigned long long)clock.now_mono_ns);
        cr_expect_eq(clock.now_real_ns, WALL * 1000000000ull - (640 - 301));
}

/* libfaketime's, for one. */
Test(clock, one_that_stands_still_is_not_waited_for)
{
        struct capo_timebase clock, real;

        capo_clock_init(&real);
        capo_clock_ready(&real);
        stands = true;
        capo_clock_init(&clock);
        capo_clock_ready(&clock);
        stands = false;
        cr_expect_float_eq(clock.ns_per_tick, real.ns_per_tick, real.ns_per_tick / 2);
}
