/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: planted_spaces [-v] CALLS < SPACES    searches of spaces whose fastest point is known
 *
 * SPACES: what tests/fit/planted/planted_spaces.py prints with --json, one space a line. Each size is searched in
 * rounds, as `capo sweep --refine` does, and measured in full, as without. Both measure a point CALLS times
 * a round. Printed per kind: sizes, how many searches and full sweeps end at the fastest point, how many within 1 %
 * of it, the worst loss, and the calls of the search as a share of the full sweep's. Exit status 1: the
 * searches find fewer than 95 % of what full sweeps find, or take more than a fifth of their calls.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capo/call_kinds.h"
#include "cli/run/sweep_search.h"
#include "core/base/calls.h"
#include "tests/log_numbers.h"

enum { ROUNDS = 12 };

struct space {
        json_t *json, *time; /* time_us */
        double sd, outlier_p, outlier_factor, small_factor;
        json_t *sizes, *own, *truth;
};

struct tally {
        char kind[32];
        int sizes, found, near, full_found, full_near, rounds;
        double worst, full_worst;
        unsigned long calls, full_calls;
};

static uint64_t state;

static double draw_uniform(void)
{
        state = state * 6364136223846793005u + 1442695040888963407u;
        return (double)(state >> 11) / 9007199254740992.0;
}

static double draw_normal(void)
{
        double u = draw_uniform(), v = draw_uniform();

        return sqrt(-2 * log(1 - u)) * cos(2 * M_PI * v);
}

static double number_of(json_t *o, const char *key, double otherwise)
{
        json_t *v = json_object_get(o, key);

        return v ? json_number_value(v) : otherwise;
}

static const char *word_of(json_t *o, const char *key)
{
        return json_string_value(json_object_get(o, key));
}

/* True time of a point at a size; NAN: forbidden. */
static double time_of(const struct space *s, const char *algo, const char *proto, unsigned channels,
                      unsigned chunk, uint64_t bytes)
{
        char c[16], k[16], b[32];
        json_t *v = json_object_get(json_object_get(s->time, algo), proto);

        snprintf(c, sizeof c, "%u", channels);
        snprintf(k, sizeof k, "%u", chunk);
        snprintf(b, sizeof b, "%llu", (unsigned long long)bytes);
        v = json_object_get(json_object_get(json_object_get(v, c), k), b);
        return v ? json_number_value(v) : NAN;
}

struct point {
        const char *algo, *proto;
        unsigned channels, chunk;
};

static const char *strangers_algo(unsigned algo)
{
        static char name[32];

        if (algo == CAPO_ALGO_COLLNET_DIRECT)
                return "collnet";
        snprintf(name, sizeof name, "%s", capo_algo_name(algo));
        for (char *p = name; *p; p++)
                *p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
        return !strcmp(name, "nvlstree") ? "nvls_tree" : name;
}

/* Candidate @i as a point; 0 channels and chunks are those of NCCL's own choice. */
static double candidate_time(const struct space *s, const struct capo_sweep_plan *p, unsigned i,
                             size_t size, uint64_t bytes)
{
        json_t *own = json_array_get(s->own, size);
        char proto[16];

        snprintf(proto, sizeof proto, "%s",
                 p->candidate[i].proto == CAPO_PROTO_LL      ? "ll"
                 : p->candidate[i].proto == CAPO_PROTO_LL128 ? "ll128"
                                                             : "simple");
        return time_of(s, strangers_algo(p->candidate[i].algo), proto,
                       p->candidate[i].channels ?: (unsigned)number_of(own, "channels", 0),
                       p->candidate[i].chunk ?: (unsigned)number_of(own, "chunk", 0), bytes);
}

static void measure_point(const struct space *s, struct capo_samples *set, double us,
                          uint64_t bytes, struct capo_sample what, int n)
{
        double sd = s->sd * (bytes <= 65536 ? s->small_factor : 1);

        for (int k = 0; k < n; k++) {
                what.run = (uint32_t)set->n_runs - 1;
                what.bytes = bytes;
                what.call = CAPO_CALL_ALLREDUCE;
                what.make = CAPO_MAKE_EVENT;
                what.us = us * exp(sd * draw_normal()) *
                          (draw_uniform() < s->outlier_p ? s->outlier_factor : 1);
                capo_samples_add(set, &what);
        }
}

static void measure_candidate(const struct space *s, const struct capo_sweep_plan *p, unsigned i,
                              struct capo_samples *set, double us, uint64_t bytes, int n)
{
        struct capo_sample what = {
                .want = CAPO_ALGO_PROTO(p->candidate[i].algo, p->candidate[i].proto),
                .want_channels = p->candidate[i].channels,
                .want_chunk = p->candidate[i].chunk};

        measure_point(s, set, us, bytes, what, n);
}

static void begin_run(struct capo_samples *set)
{
        static char source[] = "round";
        const struct capo_trial run = {.source = source, .n_ranks = 1, .iterations = 1};

        capo_samples_run(set, &run);
}

static void make_plan(json_t *space, struct capo_sweep_plan *plan)
{
        static const char *const keys[] = {"algorithms", "channels", "chunks"};
        static const char *const words[] = {" algos=", " channels=0", " chunks=0"};
        char text[1024] = "colls=allreduce slower=0 protos=ll+ll128+simple", why[128];

        for (int k = 0; k < 3; k++) {
                size_t i;
                json_t *v;

                strcat(text, words[k]);
                json_array_foreach(json_object_get(space, keys[k]), i, v)
                {
                        char item[32];

                        if (json_is_string(v))
                                snprintf(item, sizeof item, "%s%s", i ? "+" : "",
                                         !strcmp(json_string_value(v), "collnet")
                                                 ? "collnet_direct"
                                                 : json_string_value(v));
                        else
                                snprintf(item, sizeof item, "+%lld",
                                         (long long)json_integer_value(v));
                        strcat(text, item);
                }
        }
        if (capo_sweep_plan_parse(text, plan, why, sizeof why) < 0) {
                fprintf(stderr, "%s: %s\n", text, why);
                abort();
        }
}

/* Is time @us that of a point that is right? */
static bool is_right(const struct space *s, size_t size, double us, uint64_t bytes)
{
        json_t *ties = json_object_get(json_array_get(s->truth, size), "ties"), *t;
        size_t i;

        json_array_foreach(ties, i, t)
        {
                if (us == time_of(s, word_of(t, "algorithm"), word_of(t, "protocol"),
                                  (unsigned)number_of(t, "channels", 0),
                                  (unsigned)number_of(t, "chunk", 0), bytes))
                        return true;
        }
        return false;
}

static void score_search(const struct space *s, const struct capo_sweep_plan *plan, int best,
                         size_t size, uint64_t bytes, int *found, int *near, double *worst)
{
        double us = candidate_time(s, plan, (unsigned)best, size, bytes), loss;

        loss = us / number_of(json_array_get(s->truth, size), "time_us", NAN) - 1;
        *found += is_right(s, size, us, bytes);
        *near += loss <= 0.01;
        *worst = fmax(*worst, loss);
}

static void search_size(const struct space *s, struct tally *t, size_t size, int calls,
                        bool verbose)
{
        static struct capo_sweep_plan whole, plan;
        struct capo_samples set = {0}, full = {0};
        json_t *own = json_array_get(s->own, size);
        uint64_t bytes = (uint64_t)number_of(own, "size", 0);
        unsigned log2 = 63u - (unsigned)__builtin_clzll(bytes);
        double own_us = time_of(s, word_of(own, "algorithm"), word_of(own, "protocol"),
                                (unsigned)number_of(own, "channels", 0),
                                (unsigned)number_of(own, "chunk", 0), bytes);
        const struct capo_sample nothing = {0};
        int best, rounds = 0, settled = 0;
        bool tried[CAPO_SWEEP_CANDIDATES] = {false};
        unsigned long used = 0, most = 0;

        make_plan(s->json, &whole);
        begin_run(&full);
        measure_point(s, &full, own_us, bytes, nothing, 2 * calls);
        most = 2ul * (unsigned)calls;
        for (unsigned i = 0; i < whole.n; i++) {
                double us = candidate_time(s, &whole, i, size, bytes);

                if (!isnan(us) && whole.candidate[i].channels && whole.candidate[i].chunk) {
                        measure_candidate(s, &whole, i, &full, us, bytes, calls);
                        most += (unsigned)calls;
                }
        }
        for (int r = 0; r < ROUNDS; r++) {
                struct sweep_round round;
                unsigned open = 0, fresh = 0;

                plan = whole;
                sweep_search(&plan, &set, &round);
                for (unsigned i = 0; i < plan.n; i++) {
                        if (capo_sweep_open(&plan, CAPO_COLL_ALLREDUCE, log2, i) &&
                            !isnan(candidate_time(s, &plan, i, size, bytes))) {
                                open++;
                                fresh += !tried[i];
                                tried[i] = true;
                        }
                }
                if (!open || (!fresh && settled++))
                        break;
                begin_run(&set);
                measure_point(s, &set, own_us, bytes, nothing, 2 * calls);
                used += (open + 2) * (unsigned)calls;
                rounds++;
                if (verbose)
                        printf("  size %llu round %d: %u open\n", (unsigned long long)bytes, r,
                               open);
                for (unsigned i = 0; i < plan.n; i++) {
                        double us = candidate_time(s, &plan, i, size, bytes);

                        if (!isnan(us) && capo_sweep_open(&plan, CAPO_COLL_ALLREDUCE, log2, i))
                                measure_candidate(s, &plan, i, &set, us, bytes, calls);
                }
        }
        best = sweep_search_best(&whole, &set, CAPO_COLL_ALLREDUCE, log2);
        score_search(s, &whole, best, size, bytes, &t->found, &t->near, &t->worst);
        if (verbose)
                printf("  size %llu: %s %s %u %u, %.2f %% slower than the best\n",
                       (unsigned long long)bytes, capo_algo_name(whole.candidate[best].algo),
                       capo_proto_name(whole.candidate[best].proto), whole.candidate[best].channels,
                       whole.candidate[best].chunk,
                       100 * (candidate_time(s, &whole, (unsigned)best, size, bytes) /
                                      number_of(json_array_get(s->truth, size), "time_us", NAN) -
                              1));
        best = sweep_search_best(&whole, &full, CAPO_COLL_ALLREDUCE, log2);
        score_search(s, &whole, best, size, bytes, &t->full_found, &t->full_near, &t->full_worst);
        t->sizes++;
        t->rounds = rounds > t->rounds ? rounds : t->rounds;
        t->calls += used;
        t->full_calls += most;
        capo_samples_free(&set);
        capo_samples_free(&full);
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

int main(int argc, char **argv)
{
        bool verbose = argc > 1 && !strcmp(argv[1], "-v");
        int calls = argc > 1 + verbose ? atoi(argv[1 + verbose]) : 10, n = 0;
        static struct tally tally[32];
        struct tally all = {.kind = "all"};
        char *line = NULL;
        size_t room = 0;

        while (getline(&line, &room, stdin) > 0) {
                json_t *whole = json_loads(line, 0, NULL), *noise;
                json_t *truth = json_object_get(whole, "truth");
                struct space s = {.json = json_object_get(whole, "space")};
                struct tally *t = tally_of(tally, &n, word_of(truth, "kind"));

                state = (uint64_t)number_of(truth, "seed", 0) * 0x9e3779b97f4a7c15u + (uint64_t)n;
                noise = json_object_get(s.json, "noise");
                s.time = json_object_get(s.json, "time_us");
                s.own = json_object_get(s.json, "own");
                s.truth = json_object_get(truth, "sizes");
                s.sd = number_of(noise, "sd", 0);
                s.outlier_p = number_of(noise, "outlier_p", 0);
                s.outlier_factor = number_of(noise, "outlier_factor", 1);
                s.small_factor = number_of(noise, "small_size_factor", 1);
                if (verbose)
                        printf("%s %d\n", t->kind, (int)number_of(truth, "seed", 0));
                for (size_t i = 0; i < json_array_size(s.own); i++)
                        search_size(&s, t, i, calls, verbose);
                json_decref(whole);
        }
        free(line);
        puts("| kind | sizes | searched: fastest | within 1 % | worst loss | measured in full: fastest | within 1 % | worst loss | calls | rounds |\n"
             "|---|---|---|---|---|---|---|---|---|---|");
        tally[n] = all;
        for (int i = 0; i <= n; i++) {
                struct tally *t = &tally[i], *sum = &tally[n];

                printf("| %s | %d | %d | %d | %.1f %% | %d | %d | %.1f %% | %.1f %% | %d |\n",
                       t->kind, t->sizes, t->found, t->near, 100 * t->worst, t->full_found,
                       t->full_near, 100 * t->full_worst,
                       100.0 * (double)t->calls / (double)t->full_calls, t->rounds);
                if (i == n)
                        break;
                sum->sizes += t->sizes;
                sum->found += t->found;
                sum->near += t->near;
                sum->full_found += t->full_found;
                sum->full_near += t->full_near;
                sum->worst = fmax(sum->worst, t->worst);
                sum->full_worst = fmax(sum->full_worst, t->full_worst);
                sum->calls += t->calls;
                sum->full_calls += t->full_calls;
                sum->rounds = t->rounds > sum->rounds ? t->rounds : sum->rounds;
        }
        return !n || tally[n].found * 100 < tally[n].full_found * 95 ||
               tally[n].calls * 5 > tally[n].full_calls;
}
