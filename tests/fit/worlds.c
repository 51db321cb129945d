/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/calls.h"
#include "core/base/util.h"
#include "tests/fit/worlds.h"
#include "tests/log_numbers.h"

/* What the worlds are made of. */
#define SLOW_STRETCH \
        0.04 /* of runs: a stretch of sizes, or all, 10 to 80 % slow; one in four up to ten times \
                as long */
#define STALL   0.003 /* of samples: 3 to 50 times */
#define MISSING 0.03  /* of the cells of a run */

static uint64_t state;

static double uniform(void) /* splitmix64: Steele, Lea, Flood 2014 */
{
        uint64_t z = state += 0x9e3779b97f4a7c15u;

        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        return (double)((z ^ z >> 31) >> 11) / 9007199254740992.0;
}

static double between(double lo, double hi) { return lo + (hi - lo) * uniform(); }

static double log_between(double lo, double hi) { return exp(between(log(lo), log(hi))); }

static bool chance(double p) { return uniform() < p; }

static double normal(void)
{
        double u = uniform();

        return sqrt(-2 * log(u > 0 ? u : 1e-300)) * cos(2 * M_PI * uniform());
}

const uint8_t world_kinds[KINDS] = {CAPO_ALGO_PROTO(CAPO_ALGO_RING, CAPO_PROTO_LL),
                                    CAPO_ALGO_PROTO(CAPO_ALGO_RING, CAPO_PROTO_LL128),
                                    CAPO_ALGO_PROTO(CAPO_ALGO_RING, CAPO_PROTO_SIMPLE),
                                    CAPO_ALGO_PROTO(CAPO_ALGO_TREE, CAPO_PROTO_LL),
                                    CAPO_ALGO_PROTO(CAPO_ALGO_TREE, CAPO_PROTO_LL128),
                                    CAPO_ALGO_PROTO(CAPO_ALGO_TREE, CAPO_PROTO_SIMPLE),
                                    CAPO_ALGO_PROTO(CAPO_ALGO_NVLS, CAPO_PROTO_SIMPLE)};

uint64_t world_size(const struct world *w, int i) { return w->first << i * w->step; }

double world_truth(const struct world *w, int k, double bytes)
{
        return w->alpha[k] + w->beta[k] * bytes;
}

double world_place_truth(const struct world *w, int k, double bytes, int place)
{
        double special = w->trouble == WORLD_PLACE && k == w->changed
                                 ? (place == CAPO_PLACE_IN ? w->in : w->out)
                                 : 0;

        return world_truth(w, k, bytes) * exp(special);
}

/* NCCL's own choice: the shortest by its belief. */
int world_own(const struct world *w, double bytes)
{
        int best = 0;
        double least = INFINITY;

        for (int k = 0; k < w->n_kinds; k++) {
                double t = world_truth(w, k, bytes) * w->wrong[k] *
                           exp(w->slide[k] * log2(bytes / 1e6));

                if (t < least) {
                        least = t;
                        best = k;
                }
        }
        return best;
}

void world_make(struct world *w, uint64_t seed, unsigned number, int default_runs, int runs)
{
        static const int repeats[] = {1, 2, 3, 3, 3, 3, 4, 5};

        state = seed * 1000003 + number;
        *w = (struct world){.n_kinds = 2 + (int)(uniform() * (KINDS - 1)),
                            .n_sizes = 6 + (int)(uniform() * (MAX_SIZES - 6)),
                            .step = chance(0.8) ? 1 : 2,
                            .first = 1024ull << (int)(uniform() * 6),
                            .default_runs = repeats[(int)(uniform() * 8)],
                            .runs = repeats[(int)(uniform() * 8)],
                            .sweep = chance(0.3),
                            .says_what_ran = chance(0.5),
                            .stretches = SLOW_STRETCH,
                            .noise_run = log_between(0.001, 0.05),
                            .noise_call = log_between(0.0005, 0.03),
                            .small = log_between(1, 6),
                            .drift = chance(0.5) ? between(-0.03, 0.03) : 0};
        for (int k = 0; k < w->n_kinds; k++) {
                unsigned proto = CAPO_PROTO_OF(world_kinds[k]);
                double latency = proto == CAPO_PROTO_LL ? 8 : proto == CAPO_PROTO_LL128 ? 11 : 22;
                double gbs = proto == CAPO_PROTO_LL ? 60 : proto == CAPO_PROTO_LL128 ? 180 : 220;

                w->alpha[k] = latency * log_between(0.6, 1.6);
                w->beta[k] = 1 / (gbs * 1e3) * log_between(0.75, 1.35);
                w->wrong[k] = exp(0.10 * normal());
                w->slide[k] = 0.008 * normal();
        }
        w->default_runs = default_runs ? default_runs : w->default_runs;
        w->runs = runs ? runs : w->runs;
        if (default_runs && default_runs != runs) /* a sweep has as many of both */
                w->sweep = false;
        if (w->sweep)
                w->runs = w->default_runs;
}

void world_trouble(struct world *w, enum world_trouble trouble)
{
        w->trouble = trouble;
        if (trouble == WORLD_PLAIN)
                return;
        w->in_turn = chance(0.5);
        w->order_known = chance(0.5);
        w->drift = 0;
        w->second_mode = between(0.04, 0.15);
        w->slope = (chance(0.5) ? 1 : -1) *
                   (trouble == WORLD_SHIFT ? between(0.03, 0.12) : between(0.03, 0.15));
        w->step_of_run = log_between(0.005, 0.03);
        w->changed = trouble == WORLD_SHIFT
                             ? 1 + (int)(uniform() * (w->default_runs + w->n_kinds * w->runs))
                             : (int)(uniform() * w->n_kinds);
        w->out = -between(0.05, 0.25);
        w->in = between(0.03, 0.15);
        if (trouble == WORLD_DRIFT)
                w->in_turn = false;
        if (trouble == WORLD_PLACE || trouble == WORLD_EXCHANGED)
                w->sweep = false;
}

/* An error of a run or a size, in standard deviations of a normal one. */
static double deviate(const struct world *w)
{
        double x = normal(), squares = 0;
        int freedom;

        switch (w->trouble) {
        case WORLD_HEAVY:
                freedom = w->n_sizes % 2 ? 3 : 2;
                for (int i = 0; i < freedom; i++) {
                        double y = normal();

                        squares += y * y / freedom;
                }
                return x / sqrt(squares) * (freedom == 2 ? 0.826 : 0.882); /* same quartiles */
        case WORLD_SKEWED: return -log(1 - uniform());
        default: return x;
        }
}

/* What is wrong with all of a run, or with a stretch of its sizes. */
struct disturbance {
        int from, to; /* sizes */
        double factor, offset;
};

/* @number: how many runs came before; @of: of how many; @level: of the random walk. */
static struct disturbance disturb(const struct world *w, double number, int of, double *level)
{
        struct disturbance d = {.from = 1, .to = 0, .factor = 0, .offset = w->drift * number / of};

        d.offset += 0.5 * w->noise_run *
                    deviate(w); /* half of the noise between runs is the run's own */
        *level += w->trouble == WORLD_WALK ? w->step_of_run * normal() : 0;
        d.offset += *level;
        if (w->trouble == WORLD_BIMODAL && chance(0.3))
                d.offset += w->second_mode;
        if (w->trouble == WORLD_DRIFT)
                d.offset += w->slope * number / of;
        if (w->trouble == WORLD_SHIFT && number >= w->changed)
                d.offset += w->slope;
        if (chance(w->stretches)) {
                d.from = chance(0.3) ? 0 : (int)(uniform() * w->n_sizes);
                d.to = chance(0.3) ? w->n_sizes - 1 : d.from + (int)(uniform() * 6);
                d.factor = chance(0.25) ? between(0.6, 2.3) : between(0.1, 0.6);
        }
        return d;
}

static double scale(const struct world *w, int i)
{
        return 1 + (w->small - 1) * (1 - (double)i / (w->n_sizes - 1));
}

static void measure(const struct world *w, struct capo_samples *set, uint32_t run, int kind,
                    int label, int from, int to, const struct disturbance *d)
{
        double before = w->trouble == WORLD_DEPENDENT ? normal() : 0;

        for (int i = from; i <= to; i++) {
                double bytes = (double)world_size(w, i), error = deviate(w), cell;
                int ran = kind < 0 ? world_own(w, bytes) : kind, calls = w->sweep ? 12 : 2;

                if (w->trouble == WORLD_DEPENDENT)
                        error = 0.9 * before + sqrt(1 - 0.81) * error;
                before = error;
                cell = 0.87 * w->noise_run * scale(w, i) * error + d->offset;
                if (chance(MISSING))
                        continue;
                if (i >= d->from && i <= d->to)
                        cell += d->factor;
                for (int n = 0; n < calls; n++) {
                        double call = w->noise_call * scale(w, i) * normal() / (w->sweep ? 1 : 4);
                        struct capo_sample s = {
                                .bytes = world_size(w, i),
                                .us = world_place_truth(w, ran, bytes,
                                                        n ? CAPO_PLACE_IN : CAPO_PLACE_OUT) *
                                      exp(cell + call),
                                .run = run,
                                .order = (uint32_t)(i * 100 + n),
                                .call = CAPO_CALL_ALLREDUCE,
                                .make = w->sweep ? CAPO_MAKE_EVENT : CAPO_MAKE_LOOP,
                                .place = w->sweep ? CAPO_PLACE_UNKNOWN
                                         : n      ? CAPO_PLACE_IN
                                                  : CAPO_PLACE_OUT,
                                .want = label < 0 ? 0 : world_kinds[label],
                                .ran = w->says_what_ran ? world_kinds[ran] : 0};

                        if (chance(STALL))
                                s.us *= log_between(3, 50);
                        capo_samples_add(set, &s);
                }
        }
}

static uint32_t new_run(struct capo_samples *set, const struct world *w, int number)
{
        static char name[24];
        struct capo_trial t = {.source = name,
                               .layout = "8",
                               .n_ranks = 8,
                               .n_nodes = 1,
                               .nccl = 22902,
                               .line = (unsigned)number + 1,
                               .iterations = w->sweep ? 1 : 20};

        snprintf(name, sizeof name, "world");
        if (w->trouble && !w->order_known)
                snprintf(name, sizeof name, "world-%d-%d", number * 7919 % 97, number);
        return capo_samples_run(set, &t);
}

/* All runs as they came: in turn (own, A, B, own, A, B), or one choice after the other. */
static void measure_in_order(const struct world *w, struct capo_samples *set, const int *from,
                             const int *to)
{
        int choices = w->n_kinds + 1, all = w->default_runs + w->n_kinds * w->runs, number = 0,
            rounds = w->default_runs > w->runs ? w->default_runs : w->runs,
            pair = (int)(uniform() * (w->n_kinds - 1));
        double level = 0;

        for (int i = 0; i < choices * rounds; i++) {
                int k = (w->in_turn ? i % choices : i / rounds) - 1,
                    r = w->in_turn ? i / choices : i % rounds, label = k;
                struct disturbance d;

                if (r >= (k < 0 ? w->default_runs : w->runs))
                        continue;
                d = disturb(w, number, all > 1 ? all - 1 : 1, &level);
                if (w->trouble == WORLD_EXCHANGED && (k == pair || k == pair + 1))
                        label = k == pair ? pair + 1 : pair;
                measure(w, set, new_run(set, w, number++), k, label, k < 0 ? 0 : from[k],
                        k < 0 ? w->n_sizes - 1 : to[k], &d);
        }
}

void world_measure(const struct world *w, struct capo_samples *set)
{
        int from[KINDS], to[KINDS], n_runs = 0;
        double level = 0;

        for (int k = 0; k < w->n_kinds; k++) {
                bool part = chance(0.3);

                from[k] = part ? (int)(uniform() * w->n_sizes / 2) : 0;
                to[k] = part ? from[k] + (int)(uniform() * (w->n_sizes - from[k])) : w->n_sizes - 1;
        }
        if (w->sweep) {
                for (int r = 0; r < w->runs; r++) {
                        struct disturbance d = disturb(w, r, w->runs, &level);
                        uint32_t run = new_run(set, w, r);

                        measure(w, set, run, -1, -1, 0, w->n_sizes - 1, &d);
                        for (int k = 0; k < w->n_kinds; k++)
                                measure(w, set, run, k, k, from[k], to[k], &d);
                }
                return;
        }
        if (w->trouble) {
                measure_in_order(w, set, from, to);
                return;
        }
        for (int r = 0; r < w->default_runs; r++) {
                struct disturbance d = disturb(w, r, 12, &level);

                d.offset += w->slow_hour;
                measure(w, set, new_run(set, w, n_runs++), -1, -1, 0, w->n_sizes - 1, &d);
        }
        for (int k = 0; k < w->n_kinds; k++) {
                for (int r = 0; r < w->runs; r++) {
                        struct disturbance d = disturb(w, r + k, 12, &level);
                        int label = w->runs >= 3 && chance(w->swapped) ? (k + 1) % w->n_kinds : k;

                        measure(w, set, new_run(set, w, n_runs++), k, label, from[k], to[k], &d);
                }
        }
}
