/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: planted_trials [JOBS] [SEED...]    jobs with a row on trial whose effect is known
 *
 * Each job trains some hundred steps of equal all-reduces. The tuner's own schedule says which call
 * runs the row. Samples go through capo fit, the steps through the judge of steps. Five kinds,
 * as many jobs of each:
 *
 *   faster    the row takes 15 % less, and the step is as much shorter
 *   slower    the row takes 15 % more
 *   crowding  the row takes 15 % less, but the step is longer by 60 % of the call: it takes the GPU
 *             from other kernels
 *   neutral   the row is as fast as NCCL's choice, in calls and steps
 *   faster, no steps    as the first, in a job whose steps are not known
 *
 * Printed per seed and kind: verdicts, how many the step decided, and the share of calls with a
 * turn. Exit status 1: under 99 % are right (a neutral row stays open), or a turn is given to more
 * than 1 call in 100 and one more.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/steps/job_steps.h"
#include "profiles/fit/fit_trial.h"
#include "tests/fit/planted_turns.h"
#include "tests/log_numbers.h"

enum { STEPS = 3000, BUCKETS = 4, CALLS = STEPS * BUCKETS, PERIOD = 100 };
#define CALL_US 4000.0
#define STEP_US 100000.0

static const struct kind {
        const char *name;
        double call, step; /* what the row changes, as a share of the call */
        enum capo_trial_verdict right;
        bool no_steps; /* they are not known */
} kinds[] = {{"faster", -0.15, -0.15, CAPO_TRIAL_FASTER},
             {"slower", 0.15, 0.15, CAPO_TRIAL_NO_GAIN},
             {"crowding", -0.15, 0.60, CAPO_TRIAL_NO_GAIN},
             {"neutral", 0, 0, CAPO_TRIAL_OPEN},
             {"faster, no steps", -0.15, 0, CAPO_TRIAL_FASTER, true}};
enum { KINDS = sizeof kinds / sizeof *kinds };

struct tally {
        int verdict[3], by_step;
        int most_turns; /* of one job */
};

static uint64_t state;

static double draw_uniform(void)
{
        state = state * 6364136223846793005u + 1442695040888963407u;
        return (double)(state >> 11) / 9007199254740992.0;
}

static double draw_normal(double deviation)
{
        double u = draw_uniform(), v = draw_uniform();

        return deviation * sqrt(-2 * log(1 - u)) * cos(2 * M_PI * v);
}

static struct capo_profile *make_profile(void)
{
        static const char text[] =
                "{\"capo_profile\": 1, \"name\": \"p\", \"rules\": [{\"when\": {\"ranks\": 8}, "
                "\"basis\": \"modelled\", \"allreduce\": [{\"upto\": \"max\", \"algo\": \"tree\", "
                "\"proto\": \"simple\"}]}]}";
        struct capo_profile *p = NULL;
        struct capo_fault fault;

        if (capo_profile_parse(text, strlen(text), "p", &p, &fault) < 0)
                abort();
        return p;
}

/* Play one job. Steps are longer at times, for example because data came late. Return: calls that
 * had a turn. */
static int play_job(const struct kind *kind, struct capo_samples *set, struct capo_job_steps *steps)
{
        uint64_t comm = state | 1, t = 0;
        double base = STEP_US * (1 + 0.2 * draw_uniform());
        int turns = 0;

        for (int i = 0; i < STEPS; i++) {
                double us = base * (1 + draw_normal(0.01));

                if (draw_uniform() < 0.01)
                        us *= 1 + draw_uniform();
                for (int k = 0; k < BUCKETS; k++) {
                        uint32_t nth = (uint32_t)(i * BUCKETS + k + 1);
                        bool turn = planted_turn(comm, nth, PERIOD);
                        double noise = exp(draw_normal(0.05));
                        struct capo_sample s = {.bytes = 32 << 20,
                                                .us = CALL_US * noise * (turn ? 1 + kind->call : 1),
                                                .order = nth,
                                                .call = CAPO_CALL_ALLREDUCE,
                                                .make = CAPO_MAKE_EVENT};

                        if (turn)
                                s.want = s.ran = CAPO_ALGO_PROTO(CAPO_ALGO_TREE, CAPO_PROTO_SIMPLE);
                        capo_samples_add(set, &s);
                        steps->calls[nth - 1] = (struct capo_step_call){
                                .bytes = s.bytes, .comm = 1, .call = s.call, .rule = turn};
                        us += turn ? kind->step * CALL_US : 0;
                        turns += turn;
                }
                steps->steps.step[i] = (struct capo_step){.t_ns = t,
                                                          .ns = (uint64_t)(1e3 * us),
                                                          .first = (uint32_t)(i * BUCKETS),
                                                          .n = BUCKETS,
                                                          .plain = true};
                t += (uint64_t)(1e3 * us);
        }
        return turns;
}

static void judge_job(const struct kind *kind, const struct capo_profile *p, struct tally *tally)
{
        static struct capo_step_call calls[CALLS];
        static struct capo_step step[STEPS];
        static char source[] = "job";
        const struct capo_trial run = {
                .source = source, .layout = "8", .n_ranks = 8, .n_nodes = 1, .iterations = 1};
        static const struct capo_fit_options options = {.min_gain = 0.01, .force = true};
        struct capo_job_comm comm = {.n_ranks = 8};
        struct capo_job job = {.comms = &comm, .n_comms = 1};
        struct capo_job_steps steps = {
                .steps = {.known = kind->no_steps ? CAPO_STEPS_NONE : CAPO_STEPS_FOUND,
                          .step = step,
                          .n = STEPS},
                .calls = calls};
        struct capo_trial_found *found = NULL;
        struct capo_samples set = {0};
        struct capo_fit *fit = NULL;
        struct capo_fault fault;
        int turns, n;

        capo_samples_run(&set, &run);
        turns = play_job(kind, &set, &steps);
        if (capo_fit_make(&set, &options, &fit, &fault) < 0)
                abort();
        n = capo_fit_trials(&set, fit, p, &found);
        if (n != 1)
                abort();
        capo_trial_steps(&job, &steps, found, n);
        n = capo_trial_pool(found, n);
        tally->verdict[found[0].verdict]++;
        tally->by_step += found[0].by_step;
        tally->most_turns = turns > tally->most_turns ? turns : tally->most_turns;
        free(found);
        capo_fit_free(fit);
        capo_samples_free(&set);
}

static bool print_tally(const struct kind *kind, const struct tally *t, int jobs, const char *seed)
{
        int used = t->verdict[CAPO_TRIAL_FASTER], right = t->verdict[kind->right];

        printf("| %s | %s | %d | %d | %d | %d | %d | %d of %d |\n", seed, kind->name, jobs, used,
               t->verdict[CAPO_TRIAL_NO_GAIN], t->verdict[CAPO_TRIAL_OPEN], t->by_step,
               t->most_turns, CALLS);
        return t->most_turns <= CALLS / 100 + 1 && right * 100 >= jobs * 99;
}

int main(int argc, char **argv)
{
        static const char *const seeds[] = {"1", "2"};
        int jobs = argc > 1 ? atoi(argv[1]) : 200, n = argc > 2 ? argc - 2 : 2;
        const char *const *seed = argc > 2 ? (const char *const *)argv + 2 : seeds;
        struct capo_profile *p = make_profile();
        bool good = true;

        puts("| seed | kind | jobs | used | left to NCCL | open | by the step | turns, at most |\n"
             "|---|---|---|---|---|---|---|---|");
        for (int i = 0; i < n; i++) {
                state = strtoull(seed[i], NULL, 10) * 0x9e3779b97f4a7c15u;
                for (int k = 0; k < KINDS; k++) {
                        struct tally tally = {0};

                        for (int j = 0; j < jobs / KINDS; j++)
                                judge_job(&kinds[k], p, &tally);
                        good &= print_tally(&kinds[k], &tally, jobs / KINDS, seed[i]);
                }
        }
        capo_profile_free(p);
        return !good;
}
