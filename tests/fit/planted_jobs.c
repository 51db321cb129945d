/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: planted_jobs [-v] < JOBS    |    planted_jobs --turns PERIOD
 *
 * JOBS: a line each, of planted/planted_jobs.py: the truth, and calls of which some ran the row. Each is judged as
 * `capo run --tune` does. Printed per kind: what the truth says of the verdicts. Exit status 1: more than
 * 1 job in 100 uses a row that harms, 1 neutral one in 20 one without gain, or 1 in 20 that must be used is left.
 *
 * --turns: for 60 communicators, which of their first 4,000 questions have a turn.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/steps/job_steps.h"
#include "profiles/fit/fit_trial.h"
#include "tests/fit/planted_turns.h"
#include "tests/log_numbers.h"

enum { CALLS = 4000, STEPS = 1000, COMMS = 60 };

static const char *const said[] = {"right", "undecided", "wrong: harmful", "wrong: no gain",
                                   "wrong: missed"};
enum { RIGHT, UNDECIDED, HARMFUL, NO_GAIN, MISSED, SAID };

struct tally {
        char kind[32];
        int jobs, said[SAID], use, used, neutral, by_step;
};

static struct capo_profile *make_profile(int ranks)
{
        char text[256];
        struct capo_profile *p = NULL;
        struct capo_fault fault;

        snprintf(text, sizeof text,
                 "{\"capo_profile\": 1, \"name\": \"p\", \"rules\": [{\"when\": {\"ranks\": %d}, "
                 "\"basis\": \"modelled\", \"allreduce\": [{\"upto\": \"max\", \"algo\": \"tree\", "
                 "\"proto\": \"simple\"}]}]}",
                 ranks);
        if (capo_profile_parse(text, strlen(text), "p", &p, &fault) < 0)
                abort();
        return p;
}

/* The calls and steps of @job. */
static void read_job(json_t *job, struct capo_samples *set, struct capo_job_steps *steps)
{
        uint64_t bytes = (uint64_t)json_integer_value(json_object_get(job, "message_bytes"));
        json_t *list = json_object_get(job, "steps"), *step, *call;
        uint32_t n = 0;
        size_t i, k;

        json_array_foreach(list, i, step)
        {
                json_t *calls = json_object_get(step, "calls");
                double s = json_number_value(json_object_get(step, "step_s"));

                steps->steps.step[i] = (struct capo_step){
                        .t_ns = (uint64_t)(1e9 * json_number_value(json_object_get(step, "t_s"))),
                        .ns = (uint64_t)(1e9 * s),
                        .first = n,
                        .n = (uint32_t)json_array_size(calls),
                        .plain = s > 0};
                json_array_foreach(calls, k, call)
                {
                        bool row = !strcmp(json_string_value(json_object_get(call, "arm")), "row");
                        json_t *us = json_object_get(call, "call_us");
                        struct capo_sample x = {.bytes = bytes,
                                                .us = json_number_value(us),
                                                .order = n + 1,
                                                .call = CAPO_CALL_ALLREDUCE,
                                                .make = CAPO_MAKE_EVENT};

                        if (row)
                                x.want = x.ran = CAPO_ALGO_PROTO(CAPO_ALGO_TREE, CAPO_PROTO_SIMPLE);
                        if (json_is_number(us))
                                capo_samples_add(set, &x);
                        steps->calls[n++] = (struct capo_step_call){.bytes = bytes,
                                                                    .comm = 1,
                                                                    .call = CAPO_CALL_ALLREDUCE,
                                                                    .rule = row};
                }
        }
        steps->steps.n = (uint32_t)json_array_size(list);
}

static struct capo_trial_found judge_job(json_t *job)
{
        static struct capo_step_call calls[CALLS];
        static struct capo_step step[STEPS];
        static char source[] = "job";
        int ranks = (int)json_integer_value(json_object_get(job, "ranks"));
        struct capo_trial run = {.source = source, .n_ranks = ranks, .n_nodes = 1, .iterations = 1};
        static const struct capo_fit_options options = {.min_gain = 0.01, .force = true};
        struct capo_job_comm comm = {.n_ranks = (uint32_t)ranks};
        struct capo_job whole = {.comms = &comm, .n_comms = 1};
        struct capo_job_steps steps = {.steps = {.known = CAPO_STEPS_FOUND, .step = step},
                                       .calls = calls};
        struct capo_trial_found *found = NULL, first = {0};
        struct capo_profile *p = make_profile(ranks);
        struct capo_samples set = {0};
        struct capo_fit *fit = NULL;
        struct capo_fault fault;
        int n = 0;

        snprintf(run.layout, sizeof run.layout, "%d", ranks);
        capo_samples_run(&set, &run);
        read_job(job, &set, &steps);
        if (capo_fit_make(&set, &options, &fit, &fault) == 0)
                n = capo_fit_trials(&set, fit, p, &found);
        if (n > 0) {
                capo_trial_steps(&whole, &steps, found, n);
                if (capo_trial_pool(found, n) != 1)
                        abort();
                first = found[0];
        }
        free(found);
        capo_fit_free(fit);
        capo_samples_free(&set);
        capo_profile_free(p);
        return first;
}

static struct tally *tally_of(struct tally *v, int *n, const char *kind)
{
        for (int i = 0; i < *n; i++) {
                if (!strcmp(v[i].kind, kind))
                        return &v[i];
        }
        snprintf(v[*n].kind, sizeof v[*n].kind, "%s", kind);
        return &v[(*n)++];
}

static void add_job(struct tally *t, json_t *whole, bool verbose)
{
        static const char *const words[] = {"open", "use", "leave"};
        json_t *truth = json_object_get(whole, "truth");
        struct capo_trial_found f = judge_job(json_object_get(whole, "job"));
        const char *what = json_string_value(
                json_object_get(json_object_get(truth, "verdicts"), words[f.verdict]));
        bool use = !strcmp(json_string_value(json_object_get(truth, "must")), "use");

        t->jobs++;
        t->use += use;
        t->used += use && f.verdict == CAPO_TRIAL_FASTER;
        t->neutral += !strcmp(json_string_value(json_object_get(truth, "class")), "neutral");
        t->by_step += f.by_step;
        for (int i = 0; i < SAID; i++)
                t->said[i] += !strcmp(said[i], what);
        if (verbose)
                printf("%s %d: %s, effect %.3f, step %.3f: %s, gain %.3f (%.3f to %.3f), step %.4f +- "
                       "%.4f of the call, %u and %u calls%s: %s\n",
                       t->kind, (int)json_integer_value(json_object_get(truth, "seed")),
                       json_string_value(json_object_get(truth, "must")),
                       json_number_value(json_object_get(truth, "call_effect")),
                       json_number_value(json_object_get(truth, "step_effect")), words[f.verdict],
                       f.gain, f.gain_lo, f.gain_hi, f.step_change, f.step_se, f.n_row, f.n_own,
                       f.by_step ? ", by the step" : "", what);
}

static int print_turns(uint32_t period)
{
        for (uint64_t comm = 1; period && comm <= COMMS; comm++) {
                for (uint64_t nth = 1; nth <= CALLS; nth++) {
                        if (planted_turn(comm, nth, period))
                                printf("%d ", (int)nth);
                }
                puts("");
        }
        return 0;
}

int main(int argc, char **argv)
{
        bool verbose = argc > 1 && !strcmp(argv[1], "-v");
        static struct tally tally[32];
        struct tally *all;
        char *line = NULL;
        size_t room = 0;
        int n = 0;

        if (argc > 2)
                return print_turns((uint32_t)atoi(argv[2]));
        while (getline(&line, &room, stdin) > 0) {
                json_t *whole = json_loads(line, 0, NULL);

                add_job(tally_of(tally, &n,
                                 json_string_value(
                                         json_object_get(json_object_get(whole, "truth"), "kind"))),
                        whole, verbose);
                json_decref(whole);
        }
        free(line);
        puts("| kind | jobs | right | undecided | wrong: harmful | no gain | missed | used, of those that must | by the step |\n"
             "|---|---|---|---|---|---|---|---|---|");
        all = tally_of(tally, &n, "all");
        for (struct tally *t = tally; t <= all; t++) {
                printf("| %s | %d | %d | %d | %d | %d | %d | %d of %d | %d |\n", t->kind, t->jobs,
                       t->said[RIGHT], t->said[UNDECIDED], t->said[HARMFUL], t->said[NO_GAIN],
                       t->said[MISSED], t->used, t->use, t->by_step);
                if (t == all)
                        break;
                all->jobs += t->jobs;
                for (int i = 0; i < SAID; i++)
                        all->said[i] += t->said[i];
                all->use += t->use;
                all->used += t->used;
                all->neutral += t->neutral;
                all->by_step += t->by_step;
        }
        return !all->jobs || all->said[HARMFUL] * 100 > all->jobs ||
               all->said[NO_GAIN] * 20 > all->neutral || all->said[MISSED] * 20 > all->use;
}
