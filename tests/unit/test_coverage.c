/* SPDX-License-Identifier: Apache-2.0 */
/* Made jobs whose waiting is known: the interval of what a rank caused holds it in 95 of 100, and
 * an interval without width always does. */
#include <math.h>
#include <criterion/criterion.h>

#include "analysis/job/skew.h"
#include "analysis/report/job_judge.h"
#include "capo/record.h"
#include "made_job.h"
#include "tests/log_numbers.h"

enum { RANKS = 4, EARLY = 32, CALLS_MOST = 400 };

static uint64_t state;

static double draw_share(void)
{
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return (double)(state >> 11) * 0x1p-53;
}

static uint32_t draw(uint32_t n) { return (uint32_t)(draw_share() * n); }

static double draw_exponential(double mean) { return -mean * log(1 - draw_share()); }

/* How the starts of the hosts differ from those of the GPUs. */
enum host { HOST_SAME, HOST_NOISY, HOST_MORE, HOST_LESS, HOST_AHEAD, N_HOSTS };
/* When the rank is late. */
enum when { NEVER, IN_A_WINDOW, NOW_AND_THEN, ALWAYS, ABOUT, N_WHENS };

struct plan {
        enum host host;
        enum when when;
        uint32_t n_calls, one_in, from, to, late;
        double noise, by, part, step;
        bool pauses; /* calls after a pause are timed, as all recorders do but older ones */
};

static struct plan make_plan(void)
{
        struct plan p = {.host = draw(N_HOSTS),
                         .when = draw(N_WHENS),
                         .n_calls = 36 + draw(CALLS_MOST - 36),
                         .one_in = draw(8) ? 8 : 1,
                         .late = draw(RANKS)};

        p.noise = 1e4 * exp(draw_share() * 4);
        p.by = 1e6 * exp(draw_share() * 4);
        p.part = 0.1 + 0.8 * draw_share();
        p.step = 2e6 * exp(draw_share() * 3);
        p.from = draw(p.n_calls);
        p.to = p.from + 10 + draw(60);
        p.pauses = p.one_in > 1 && draw(2);
        return p;
}

static double lateness_of(const struct plan *p, uint32_t call)
{
        switch (p->when) {
        case IN_A_WINDOW: return call >= p->from && call < p->to ? p->by : 0;
        case NOW_AND_THEN: return draw_share() < p->part ? p->by : 0;
        case ALWAYS: return p->by;
        case ABOUT: return draw_share() < p->part ? draw_exponential(p->by) : 0;
        default: return 0;
        }
}

static double on_host(const struct plan *p, double late, double last)
{
        switch (p->host) {
        case HOST_NOISY: return late + draw_exponential(p->noise);
        case HOST_MORE: return late < last ? late - fmin(0.9 * p->step, 0.25 * last) : late;
        case HOST_LESS: return late * 0.8 + draw_exponential(p->noise / 8);
        case HOST_AHEAD: return draw_exponential(p->noise);
        default: return late + draw_exponential(p->noise / 16);
        }
}

/* Make the calls. @truth: what the others waited for each rank, by their GPUs. Return: when the
 * last call began. */
static double make_calls(const struct plan *p, struct capo_meet *meet, double *truth)
{
        double now = 1e8, last_host[RANKS] = {0};
        uint32_t wait = 1 + draw(2 * p->one_in - 1);

        for (uint32_t i = 1; i <= p->n_calls; i++) {
                double late[RANKS], last = 0;
                uint32_t is_last = 0;
                bool drawn = --wait == 0, chosen = p->one_in > 1 && i <= EARLY;

                if (drawn)
                        wait = 1 + draw(2 * p->one_in - 1);
                for (uint32_t k = 0; k < RANKS; k++) {
                        late[k] =
                                draw_exponential(p->noise) + (k == p->late ? lateness_of(p, i) : 0);
                        if (late[k] > last) {
                                last = late[k];
                                is_last = k;
                        }
                }
                for (uint32_t k = 0; k < RANKS; k++) {
                        double begin = now + on_host(p, late[k], last);
                        struct capo_record r = {.seq = i,
                                                .call = CAPO_CALL_ALLREDUCE,
                                                .bytes = 8,
                                                .t_begin = (uint64_t)begin,
                                                .clock = CAPO_CLOCK_HOST};

                        truth[is_last] += last - late[k];
                        bool own = chosen || (p->pauses && i > 1 && begin - last_host[k] >= 20e6);

                        if (drawn || own) {
                                r.clock = CAPO_CLOCK_EVENT;
                                r.gpu_ns = (uint32_t)(20000 + last - late[k]);
                                r.flags = own ? CAPO_RECORD_CHOSEN : 0;
                        }
                        cr_assert_geq(capo_meet_add(meet, k, &r), 0);
                        if (i > 1 && begin - last_host[k] > fmax(1e6, begin / 1024))
                                capo_meet_gap(meet, i, (uint64_t)(begin - last_host[k]));
                        last_host[k] = begin;
                }
                now += last + p->step;
        }
        return now;
}

struct tally {
        uint32_t jobs, held, unknown;
        double width; /* parts of the truth */
};

/* Of one rank: does its interval hold the truth? Not without width where that is not so. */
static bool is_held(const struct capo_skew_rank *rank, double truth, double doubt, double most)
{
        struct capo_interval is = capo_interval_within(rank->caused_ns, rank->caused_pm_ns, most);

        return is.low <= truth + doubt && is.high >= truth - doubt;
}

static void try_job(uint64_t nth, struct tally tally[N_HOSTS][N_WHENS])
{
        struct capo_job *job = made_job(RANKS);
        struct capo_meet *meet = capo_meet_new(RANKS);
        double truth[RANKS] = {0}, most, lasted;
        const struct capo_skew *skew;
        struct plan p;
        struct tally *t;

        state = nth * 0x9e3779b97f4a7c15u | 1;
        draw_share();
        p = make_plan();
        t = &tally[p.host][p.when];
        lasted = make_calls(&p, meet, truth);
        job->t_end_ns = (uint64_t)lasted;
        job->comms[0].n_calls = p.n_calls;
        capo_meet_close_gaps(meet, (uint64_t)fmax(1e6, lasted / 1024));
        capo_skew_solve(job, &meet);
        skew = job->comms[0].skew;
        cr_assert_not_null(skew);
        most = lasted * (RANKS - 1);
        for (uint32_t k = 0; k < RANKS; k++) {
                const struct capo_skew_rank *rank = &skew->ranks[k];
                double doubt = 0.01 * truth[k] + 4000.0 * p.n_calls; /* of kernels and clocks */
                bool held = is_held(rank, truth[k], doubt, most), wide;

                cr_expect(held || rank->caused_pm_ns > rank->caused_ns / 1000,
                          "job %lu, rank %u: %g +- %g ns is %g", nth, k, rank->caused_ns,
                          rank->caused_pm_ns, truth[k]);
                if (k != (p.when == NEVER ? skew->worst : p.late))
                        continue;
                wide = capo_interval_is_wide(
                        capo_interval_within(rank->caused_ns, rank->caused_pm_ns, most), most);
                t->jobs++;
                t->held += held || wide;
                t->unknown += wide;
                t->width += wide ? 0 : rank->caused_pm_ns / truth[k];
        }
        capo_job_free(job);
        capo_meet_free(meet);
}

/* An interval over everything would hold all: most are narrow where the hosts tell the same. */
Test(coverage, of_ten_thousand_jobs)
{
        struct tally tally[N_HOSTS][N_WHENS] = {0};

        for (uint64_t nth = 1; nth <= 10000; nth++)
                try_job(nth, tally);
        for (int host = 0; host < N_HOSTS; host++) {
                for (int when = 0; when < N_WHENS; when++) {
                        const struct tally *t = &tally[host][when];

                        cr_expect_gt(t->jobs, 100);
                        cr_expect_geq(t->held, 0.95 * t->jobs, "host %d, when %d: %u of %u", host,
                                      when, t->held, t->jobs);
                        cr_expect_leq(
                                t->unknown, host == HOST_AHEAD ? 0.4 * t->jobs : 0.02 * t->jobs,
                                "host %d, when %d: %u of %u", host, when, t->unknown, t->jobs);
                        cr_expect_leq(t->width,
                                      (when == NEVER        ? 2
                                       : host == HOST_AHEAD ? 1
                                                            : 0.3) *
                                              (t->jobs - t->unknown),
                                      "host %d, when %d: +- %g", host, when,
                                      t->width / (t->jobs - t->unknown));
                }
        }
}
