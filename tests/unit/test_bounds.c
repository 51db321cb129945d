/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a job's logs say, no share of a page is outside of 0..1, no sum of waiting is more than
 * ranks x time, and no interval reaches beyond what is possible: 10,000 made jobs. */
#include <math.h>
#include <criterion/criterion.h>

#include "analysis/job/skew.h"
#include "analysis/report/job_judge.h"
#include "capo/record.h"
#include "made_job.h"
#include "tests/log_numbers.h"

static uint64_t state;

/* One of 0 .. @n - 1. */
static uint64_t draw(uint64_t n)
{
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return state % n;
}

/* ns, up to @most, of any order of magnitude. */
static uint64_t draw_ns(uint64_t most) { return draw(most >> draw(40) ?: 1); }

/* Calls as a tight loop, a training step or nonsense would make them; GPU times of none, some, all.
 */
static struct capo_meet *made_calls(struct capo_job *job, uint32_t n_calls)
{
        struct capo_meet *meet = capo_meet_new((uint32_t)job->n_ranks);
        uint64_t lasted = capo_job_duration_ns(job), step = draw_ns(2 * lasted / n_calls);
        uint64_t timed = draw(3), skip = draw(2) ? 1 : 1 + draw(9), t[8];

        for (int32_t k = 0; k < job->n_ranks; k++)
                t[k] = draw(4) ? draw_ns(lasted) : draw_ns(lasted * 1000);
        for (uint32_t i = 1; i <= n_calls; i++) {
                for (int32_t k = 0; k < job->n_ranks; k++) {
                        struct capo_record r = {.seq = 1 + i * (uint32_t)skip,
                                                .call = CAPO_CALL_ALLREDUCE,
                                                .bytes = 8,
                                                .t_begin = t[k] += draw_ns(2 * step + 1),
                                                .clock = CAPO_CLOCK_HOST};

                        if (timed && !(i % (timed == 2 ? 8 : 1))) {
                                r.clock = CAPO_CLOCK_EVENT;
                                r.gpu_ns = (uint32_t)draw_ns(draw(9) ? lasted : UINT32_MAX);
                        }
                        capo_meet_add(meet, (uint32_t)k, &r);
                        if (!draw(200))
                                capo_meet_gap(meet, r.seq, draw_ns(lasted));
                }
        }
        return meet;
}

static void made_times(struct capo_job *job)
{
        struct capo_job_row *row =
                made_row(job, CAPO_CALL_ALLREDUCE, 8, 1 + draw(20000), CAPO_CLOCK_HOST, 0);
        uint64_t n = draw(2) ? row->calls : 1 + draw(row->calls);

        for (uint64_t i = 0; i < 20 && n; i++) {
                uint64_t some = i == 19 ? n : draw(n);

                capo_hist_add(&row->time[CAPO_CLOCK_EVENT], draw_ns(4000000000), some);
                n -= some;
        }
        for (uint32_t i = 0; i < job->n_processes; i++) {
                job->processes[i].many_streams = !draw(8);
                for (uint64_t k = draw(9); k--;)
                        capo_silences_add(&job->processes[i].silent, 0, draw_ns(10000000000));
        }
        job->comms[0].n_calls = row->count;
}

static void expect_share(double share, const char *of, uint64_t nth)
{
        cr_assert(share <= 1 && isfinite(share), "job %lu: %s is %g", nth, of, share);
}

static void expect_interval(double value, struct capo_interval i, double most, const char *of,
                            uint64_t nth)
{
        cr_assert(i.low >= 0 && i.low <= value && value <= i.high * (1 + 1e-9) &&
                          i.high <= most * (1 + 1e-9),
                  "job %lu: %s is %g, %g .. %g of %g", nth, of, value, i.low, i.high, most);
}

static void expect_waits(const struct capo_page *page, uint64_t nth)
{
        const struct capo_skew *k = page->job->comms[0].skew;
        double lasted = (double)capo_job_duration_ns(page->job);
        double most = lasted * page->job->n_ranks, sum = 0;

        if (!k)
                return;
        expect_share(k->wait_share, "the share of waiting", nth);
        for (int32_t i = 0; i < page->job->n_ranks; i++) {
                cr_assert_geq(k->ranks[i].caused_ns, 0);
                sum += k->ranks[i].caused_ns;
                cr_assert_leq(k->ranks[i].late_p50_ns, lasted, "job %lu", nth);
                cr_assert_leq(k->ranks[i].wait_ns, lasted * (1 + 1e-9), "job %lu", nth);
                cr_assert_leq(k->ranks[i].hole_ns, lasted, "job %lu", nth);
        }
        cr_assert_leq(sum, most, "job %lu: %g s of waiting, of %g", nth, sum, most);
        if (page->wait_share >= 0)
                expect_interval(page->wait_share, page->wait_range, 1, "waiting for late ranks",
                                nth);
        if (page->wait_share >= 0)
                cr_assert_leq(page->wait_range.high - page->wait_range.low, 0.5, "job %lu", nth);
        cr_assert(k->max_ns <= lasted && k->worst_max_ns <= lasted, "job %lu", nth);
        for (uint32_t i = 0; i < page->n_waits; i++) {
                expect_share(page->waits[i].caused_share, "the share of a rank", nth);
                expect_interval(k->ranks[k->worst].caused_ns, page->waits[i].caused, most,
                                "waiting", nth);
        }
}

static void try_job(uint64_t nth)
{
        struct capo_page page = {.what = "capo-logs/"};
        const struct capo_job_steps steps = {.nccl_share = 0.5};
        struct capo_meet *meet;

        state = nth * 0x9e3779b97f4a7c15u | 1;
        page.job = made_job(2 + (uint32_t)draw(4));
        page.job->t_end_ns = 1000 + draw_ns(4000000000000);
        for (uint32_t i = 0; i < page.job->n_processes; i++)
                page.job->processes[i].clock = (uint32_t)draw(2);
        made_times(page.job);
        meet = made_calls(page.job, 8 + (uint32_t)draw(60));
        capo_skew_solve(page.job, &meet);
        capo_judge(&page);
        expect_share(page.gpu_share, "on the GPU", nth);
        expect_share(page.exposed_most, "with overlaps once", nth);
        if (page.gpu_share >= 0) {
                expect_interval(page.gpu_share, page.gpu_range, 1, "on the GPU", nth);
                cr_assert_leq(page.gpu_range.high - page.gpu_range.low, 0.5);
        } else if (page.gpu_sum >= 0) {
                cr_assert(page.steps.nccl_share < 0, "job %lu: known of steps, not of all", nth);
        }
        cr_assert_eq(capo_known_nccl_share(page.job, &steps) < 0,
                     page.gpu_sum >= 0 && page.gpu_share < 0,
                     "job %lu: a comparison knows what the report does", nth);
        for (uint32_t i = 0; i < page.judged.n; i++)
                expect_share(page.judged.row[i].share, "the share of a row", nth);
        for (uint32_t i = 0; i < page.n_next; i++)
                expect_share(page.next[i].share, "the share of a step", nth);
        expect_waits(&page, nth);
        capo_page_finish(&page);
        capo_meet_free(meet);
}

Test(bounds, of_ten_thousand_jobs)
{
        for (uint64_t nth = 1; nth <= 10000; nth++)
                try_job(nth);
}
