/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/steps/steps.h"
#include "core/base/calls.h"
#include "tests/golden/gen_pattern.h"
#include "tests/steps/made_jobs.h"
#include "tests/log_numbers.h"

/* Do the calls stand in the pattern, one after the other, as @kind makes them? */
static bool is_recorded(const char *file, enum made_kind kind, uint32_t layers)
{
        struct made_job job = made_plain(kind, layers, 1);
        struct pattern p;
        uint8_t call[512];
        uint32_t n = 0;
        bool found = false;
        char path[512];

        snprintf(path, sizeof path, "%s/tests/patterns/%s.pattern", SOURCE_ROOT, file);
        pattern_read(path, &p);
        for (unsigned i = 0; i < p.class[0].n_calls && n < sizeof call; i++) {
                if (capo_call_kind(p.class[0].call[i].call) != CAPO_KIND_OTHER)
                        call[n++] = p.class[0].call[i].call;
        }
        for (uint32_t i = 0; i + job.n <= n && !found; i++) {
                found = true;
                for (uint32_t k = 0; k < job.n; k++)
                        found &= call[i + k] == job.call[k].call;
        }
        pattern_free(&p);
        free(job.call);
        return found;
}

Test(steps, made_as_recorded)
{
        cr_expect(is_recorded("fsdp", MADE_FSDP, 4));
        cr_expect(is_recorded("deepspeed_zero", MADE_ZERO2, 1));
        cr_expect(is_recorded("pipeline", MADE_PIPELINE, 4));
        cr_expect(is_recorded("ddp", MADE_DDP, 1));
        cr_expect_not(is_recorded("ddp", MADE_FSDP, 4));
}

Test(steps, plain)
{
        struct made_job job = made_plain(MADE_FSDP, 4, 20);
        struct capo_steps s;

        cr_assert_eq(capo_steps_find(job.call, job.n, &s), 0);
        cr_expect_eq(s.known, CAPO_STEPS_FOUND, "%s", s.why);
        cr_expect_eq(s.period, 12);
        cr_expect_geq(s.n, 18);
        cr_expect_eq(s.n_plain, s.n);
        cr_expect_eq(s.n_parts, 2);
        for (uint32_t i = 0; i < s.n_parts; i++)
                cr_expect_eq(s.part[i].count, s.part[i].call == CAPO_CALL_ALLGATHER ? 8 : 4);
        cr_expect_eq(s.bytes, 12 * 2080);
        cr_expect_eq(s.changed, 0);
        cr_expect_eq(s.step[1].t_ns - s.step[0].t_ns, s.step[0].ns);
        capo_steps_finish(&s);
        free(job.call);
}

enum { STEPS = 100, CALLS = 3, FROM = 60 };

/* Steps begin behind the longest pause, and take longer from the 60th on. */
static void changed_steps(struct capo_step_call *call, uint64_t unit)
{
        uint64_t now = 1000;

        for (uint32_t i = 0; i < STEPS; i++) {
                for (uint32_t k = 0; k < CALLS; k++) {
                        now += 1000 * unit;
                        call[i * CALLS + k] = (struct capo_step_call){.t_ns = now,
                                                                      .bytes = 1u << (20 + k),
                                                                      .comm = 1,
                                                                      .peer = -1,
                                                                      .call = CAPO_CALL_ALLREDUCE};
                }
                now += ((i < FROM ? 5000 : 7000) + i % 7) * unit;
        }
}

/* Ten seconds a step: the last two minutes hold only long ones. */
Test(steps, recent)
{
        struct capo_step_call call[STEPS * CALLS];
        struct capo_steps s;
        double share = (double)FROM / (STEPS - 1); /* the last one has no end */

        changed_steps(call, 1000000);
        cr_assert_eq(capo_steps_find(call, STEPS * CALLS, &s), 0);
        cr_expect_float_eq(s.p50_ns, 8004e6, 2e6);
        cr_expect_float_eq(s.recent_p50_ns, 10003e6, 2e6);
        cr_expect_float_eq(s.mean_error_ns, 2e9 * sqrt(share * (1 - share) / s.n_plain), 2e6);
        capo_steps_finish(&s);
}

Test(steps, change)
{
        struct capo_step_call call[STEPS * CALLS];
        struct capo_steps s;

        changed_steps(call, 1);
        cr_assert_eq(capo_steps_find(call, STEPS * CALLS, &s), 0);
        cr_expect_eq(s.known, CAPO_STEPS_FOUND, "%s", s.why);
        cr_expect_eq(s.period, CALLS);
        cr_expect_eq(s.step[0].first % CALLS, 0);
        cr_expect_eq(s.step[s.changed].first, FROM * CALLS);
        cr_expect_float_eq(s.before_ns, 8003, 1);
        cr_expect_float_eq(s.after_ns, 10003, 1);
        cr_expect_float_eq(s.drift, 0.25, 0.01);
        capo_steps_finish(&s);
}

/* One stall is no change, and shows in the longest step alone. */
Test(steps, stall)
{
        struct made_job job = made_plain(MADE_ZERO2, 1, 200);
        struct capo_steps s;
        uint64_t longest = 0;

        for (uint32_t i = 300; i < job.n; i++)
                job.call[i].t_ns += 1000000000;
        cr_assert_eq(capo_steps_find(job.call, job.n, &s), 0);
        cr_expect_eq(s.period, 3);
        cr_expect_eq(s.changed, 0);
        for (uint32_t i = 0; i < s.n; i++)
                longest = s.step[i].ns > longest ? s.step[i].ns : longest;
        cr_expect_geq(longest, 1000000000);
        cr_expect_lt(s.p95_ns, 1e6);
        capo_steps_finish(&s);
        free(job.call);
}

/* More calls than are looked at: what the last ones repeat is followed to the beginning. */
Test(steps, followed)
{
        struct made_job job = made_plain(MADE_FSDP, 20, 2000);
        struct capo_steps s;

        cr_assert_gt(job.n, 100000);
        cr_assert_eq(capo_steps_find(job.call, job.n, &s), 0);
        cr_expect_eq(s.period, 60);
        cr_expect_geq(s.n, 1998);
        cr_expect_lt(s.step[0].first, 120);
        capo_steps_finish(&s);
        free(job.call);
}

Test(steps, none)
{
        struct made_job job = made_job(MADE_SWEEP, 3);
        struct capo_steps s;

        cr_assert_eq(capo_steps_find(NULL, 0, &s), 0);
        cr_expect_eq(s.known, CAPO_STEPS_NONE);
        cr_expect_str_eq(s.why, "there are too few calls");
        capo_steps_finish(&s);
        cr_assert_eq(capo_steps_find(job.call, job.n, &s), 0);
        cr_expect_eq(s.known, CAPO_STEPS_NONE);
        cr_expect_str_eq(s.why, "the calls repeat in no pattern");
        cr_expect_eq(s.n, 0);
        capo_steps_finish(&s);
        free(job.call);
}
