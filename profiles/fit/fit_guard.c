/* SPDX-License-Identifier: Apache-2.0 */
/* Which runs may be compared. Two times can be compared only if nothing but the choice differs. So
 * runs under other settings, on other hosts, or stored twice under two names are left out before
 * the fit. */
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/xalloc.h"
#include "profiles/fit/fit_private.h"
#include "profiles/import/import_run.h"

/* Properties of a run's samples. */
struct seen {
        uint64_t sum; /* checksum over all it measured, in any order */
        size_t n, n_default, n_forced;
};

static uint64_t mix_hash(uint64_t h, uint64_t v)
{
        h = (h ^ v) * 0x9e3779b97f4a7c15u;
        return h ^ h >> 29;
}

static void sum_samples(const struct capo_samples *set, struct seen *seen)
{
        for (size_t i = 0; i < set->n; i++) {
                const struct capo_sample *s = &set->v[i];
                struct seen *r = &seen[s->run];
                uint64_t us;

                memcpy(&us, &s->us, sizeof us);
                r->sum += mix_hash(
                        mix_hash(mix_hash(s->bytes, us),
                                 (uint64_t)s->call << 16 | (uint64_t)s->place << 8 | s->want),
                        1);
                r->n++;
                if (s->want || s->want_channels)
                        r->n_forced++;
                else
                        r->n_default++;
        }
}

static int by_sum(const void *a, const void *b, void *seen)
{
        uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
        const struct seen *v = seen;

        return CAPO_ORDER(v[x].sum, v[y].sum) ?: CAPO_ORDER(x, y);
}

/* Identical times are one measurement, whatever the file names are. */
static void drop_identical(struct capo_samples *set, const struct seen *seen)
{
        enum { LEAST = 3 }; /* with fewer samples, equality may be chance */
        _cleanup_free_ uint32_t *order = xmalloc((set->n_runs + 1) * sizeof *order);

        for (size_t i = 0; i < set->n_runs; i++)
                order[i] = (uint32_t)i;
        qsort_r(order, set->n_runs, sizeof *order, by_sum, (void *)seen);
        for (size_t i = 1, first = 0; i < set->n_runs; i++) {
                const struct capo_trial *a = &set->runs[order[first]];
                const struct seen *x = &seen[order[first]], *y = &seen[order[i]];

                if (x->sum != y->sum || x->n != y->n || a->left_out ||
                    capo_trial_order(a, &set->runs[order[i]]))
                        first = i;
                else if (y->n >= LEAST && !set->runs[order[i]].left_out)
                        capo_trial_leave_out(&set->runs[order[i]], "the same times as %.60s:%u",
                                             a->source, a->line);
        }
}

static int by_settings(const void *a, const void *b, void *runs)
{
        uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
        const struct capo_trial *v = runs;

        return capo_trial_order(&v[x], &v[y]) ?: strcmp(v[x].settings, v[y].settings) ?:
               CAPO_ORDER(x, y);
}

/* Of the @n runs of one place, the settings with most samples of NCCL's own choice; on a tie none
 * (""), else the first. NULL: NCCL's own choice was not measured there. */
static const char *usual_settings(const struct capo_samples *set, const struct seen *seen,
                                  const uint32_t *runs, size_t n)
{
        const char *best = NULL;
        uint32_t best_first = 0;
        size_t most = 0;

        for (size_t i = 0, k; i < n; i = k) {
                const char *these = set->runs[runs[i]].settings;
                uint32_t first = UINT32_MAX;
                size_t sum = 0;

                for (k = i; k < n && !strcmp(set->runs[runs[k]].settings, these); k++) {
                        sum += seen[runs[k]].n_default;
                        if (seen[runs[k]].n_default && runs[k] < first)
                                first = runs[k];
                }
                if (sum > most ||
                    (sum && sum == most && *best && (!*these || first < best_first))) {
                        best = these;
                        best_first = first;
                        most = sum;
                }
        }
        return best;
}

/* Leave out runs with other settings than most of NCCL's own choice. */
static void same_settings(struct capo_samples *set, const struct seen *seen)
{
        _cleanup_free_ uint32_t *order = xmalloc((set->n_runs + 1) * sizeof *order);
        size_t n = 0;

        for (size_t i = 0; i < set->n_runs; i++) {
                if (!set->runs[i].left_out)
                        order[n++] = (uint32_t)i;
        }
        qsort_r(order, n, sizeof *order, by_settings, set->runs);
        for (size_t i = 0, k; i < n; i = k) {
                const char *usual;

                for (k = i + 1;
                     k < n && !capo_trial_order(&set->runs[order[k]], &set->runs[order[i]]); k++)
                        ;
                usual = usual_settings(set, seen, order + i, k - i);
                for (size_t x = i; usual && x < k; x++) {
                        struct capo_trial *t = &set->runs[order[x]];

                        if (strcmp(usual, t->settings))
                                capo_trial_leave_out(
                                        t, "other settings (%.50s) than NCCL's own choice",
                                        t->settings[0] ? t->settings : "none");
                }
        }
}

/* Is there a run of NCCL's own choice (or else of candidates) in @t's place that is not known to
 * differ from @t? -1: there is no such run. @of: offset of the text to compare. */
static int has_comparable_run(const struct capo_samples *set, const struct seen *seen,
                              const struct capo_trial *t, size_t of, bool own_choice)
{
        const char *x, *y = (const char *)t + of;
        int found = -1;

        for (size_t i = 0; i < set->n_runs; i++) {
                const struct capo_trial *a = &set->runs[i];

                if (a->left_out || !(own_choice ? seen[i].n_default : seen[i].n_forced) ||
                    capo_trial_order(a, t))
                        continue;
                /* a driver version from CUDA is not compared with one that a person wrote */
                x = (const char *)a + of;
                if (!*x || !*y || !strcmp(x, y) ||
                    !strncmp(x, "CUDA ", 5) != !strncmp(y, "CUDA ", 5))
                        return 1;
                found = 0;
        }
        return found;
}

/* Leave out candidates without NCCL's own choice on the same host or driver, then NCCL's own choice
 * without candidates: the difference between two hosts would be taken for noise. */
static void one_place(struct capo_samples *set, const struct seen *seen, size_t of,
                      const char *what)
{
        for (size_t i = 0; i < 2 * set->n_runs; i++) {
                bool own = i >= set->n_runs;
                struct capo_trial *t = &set->runs[i % set->n_runs];
                const struct seen *x = &seen[i % set->n_runs];

                if (!t->left_out &&
                    (own ? x->n_default && !x->n_forced : x->n_forced && !x->n_default) &&
                    has_comparable_run(set, seen, t, of, !own) == 0)
                        capo_trial_leave_out(t, "%s measured %s than %.40s",
                                             own ? "the candidates were" : "NCCL's own choice was",
                                             what, (const char *)t + of);
        }
}

/* Few sets of files have runs with different hosts or drivers, so these loops over all runs are
 * rare. */
static void compare_runs(struct capo_samples *set, const struct seen *seen)
{
        bool settings = false, hosts = false, drivers = false;

        for (size_t i = 0; i < set->n_runs; i++) {
                settings |= strcmp(set->runs[i].settings, set->runs[0].settings) != 0;
                hosts |= strcmp(set->runs[i].hosts, set->runs[0].hosts) != 0;
                drivers |= strcmp(set->runs[i].driver, set->runs[0].driver) != 0;
        }
        if (settings)
                same_settings(set, seen);
        if (hosts)
                one_place(set, seen, offsetof(struct capo_trial, hosts), "on other hosts");
        if (drivers)
                one_place(set, seen, offsetof(struct capo_trial, driver),
                          "with another GPU driver");
}

/* Runs that contradict the others: times in other units, or another choice by NCCL for the same
 * question. The runs of one place vote on each question (collective, clock, size), and runs against
 * the majority are left out, with a message. Without a majority, as with one run against one, none
 * is left out, and the fit reports the contradiction. */

enum {
        DECADES = 16,
        CHOICES = 4,
        LEAST = 3
}; /* LEAST: number of sizes that shows other units; a single one is a stall */

struct ballot {
        uint32_t decade[DECADES], n;
        uint8_t ran[CHOICES]; /* by NCCL's own choice */
        uint32_t n_ran[CHOICES], n_own;
};

/* The result of a vote. */
struct usual {
        int decade;     /* -1: no majority */
        uint8_t choice; /* 0: no majority */
};

struct suspect {
        uint32_t odd, sound;
        int64_t apart; /* sum of differences in decades */
};

/* From 0.1 ns on; without a logarithm, because it runs for each sample. */
static int decade_of(double us)
{
        int d = 0;

        for (double next = 1e-3; d < DECADES - 1 && us >= next; d++)
                next *= 10;
        return d;
}

static void cast_vote(struct ballot *b, const struct capo_sample *s)
{
        int k = 0;

        b->n++;
        b->decade[decade_of(s->us)]++;
        if (s->want || s->want_channels || !s->ran)
                return;
        while (k < CHOICES && b->ran[k] && b->ran[k] != s->ran)
                k++;
        b->n_own++;
        if (k < CHOICES) {
                b->ran[k] = s->ran;
                b->n_ran[k]++;
        }
}

/* The decade that most runs are in, or next to, and NCCL's choice in most runs. */
static struct usual count_ballot(const struct ballot *b)
{
        struct usual usual = {.decade = -1};
        uint32_t most = b->n / 2;

        for (int d = 0; d < DECADES; d++) {
                uint32_t n = b->decade[d] + (d ? b->decade[d - 1] : 0) +
                             (d + 1 < DECADES ? b->decade[d + 1] : 0);

                if (n > most) {
                        most = n;
                        usual.decade = d;
                }
        }
        for (int k = CHOICES - 1; k >= 0; k--) {
                if (b->n_ran[k] * 2 > b->n_own)
                        usual.choice = b->ran[k];
        }
        return usual;
}

static void count_sample(const struct usual *usual, struct capo_samples *set,
                         const struct capo_sample *s, struct suspect *x)
{
        struct capo_trial *t = &set->runs[s->run];
        int apart = decade_of(s->us) - usual->decade;

        if (usual->decade >= 0 && abs(apart) >= 2) {
                x->odd++;
                x->apart += apart;
        } else if (usual->decade >= 0) {
                x->sound++;
        }
        if (usual->choice && !t->left_out && !s->want && !s->want_channels && s->ran &&
            s->ran != usual->choice)
                capo_trial_leave_out(
                        t,
                        "NCCL chose %s %s at %s, %s %s in most runs: forced, and nobody says so?",
                        capo_ran_algo(s->ran), capo_ran_proto(s->ran),
                        capo_size_print(s->bytes, (char[16]){0}, 16), capo_ran_algo(usual->choice),
                        capo_ran_proto(usual->choice));
}

/* The vote on the question of each sample. */
static void count_votes(const struct capo_samples *set, struct usual *usual)
{
        _cleanup_free_ uint64_t *place = xmalloc((set->n_runs + 1) * sizeof *place);
        _cleanup_free_ struct capo_fit_key *keys = xmalloc((set->n + 1) * sizeof *keys);

        for (size_t i = 0; i < set->n_runs; i++) {
                const struct capo_trial *t = &set->runs[i];

                place[i] = mix_hash(
                        mix_hash(mix_hash(1, (uint64_t)t->n_ranks), (uint64_t)t->n_nodes), t->nccl);
                for (const char *c = t->layout; *c; c++)
                        place[i] = mix_hash(place[i], (unsigned char)*c);
                for (const char *c = t->gpu; *c; c++)
                        place[i] = mix_hash(place[i], (unsigned char)*c);
        }
        for (size_t i = 0; i < set->n; i++) {
                const struct capo_sample *s = &set->v[i];

                keys[i] = (struct capo_fit_key){mix_hash(mix_hash(place[s->run], s->bytes),
                                                         (uint64_t)s->call << 8 | s->make),
                                                i};
        }
        capo_fit_sort(keys, set->n);
        for (size_t i = 0, end; i < set->n; i = end) {
                struct ballot b = {0};
                struct usual result;

                for (end = i; end < set->n && keys[end].key == keys[i].key; end++) {
                        const struct capo_sample *s = &set->v[keys[end].at];

                        if (!capo_ran_beside(s->ran) && !set->runs[s->run].left_out)
                                cast_vote(&b, s);
                }
                result = count_ballot(&b);
                for (size_t k = i; k < end; k++)
                        usual[keys[k].at] = result;
        }
}

/* Leave out runs that most others of their place contradict: other units, or another choice by NCCL
 * at the same size. */
static void leave_odd_runs(struct capo_samples *set)
{
        _cleanup_free_ struct suspect *suspects = xcalloc(set->n_runs + 1, sizeof *suspects);
        _cleanup_free_ struct usual *usual = xmalloc((set->n + 1) * sizeof *usual);

        count_votes(set, usual);
        for (size_t i = 0; i < set->n; i++) {
                if (!capo_ran_beside(set->v[i].ran))
                        count_sample(&usual[i], set, &set->v[i], &suspects[set->v[i].run]);
        }
        for (size_t i = 0; i < set->n_runs; i++) {
                const struct suspect *x = &suspects[i];
                struct capo_trial *t = &set->runs[i];

                if (t->left_out || x->odd < LEAST || x->odd <= x->sound)
                        continue;
                capo_trial_leave_out(
                        t, "mixed units? most of its times are %s those of the other runs",
                        x->apart > 0 ? "more than ten times" : "less than a tenth of");
        }
}

void capo_fit_guard(struct capo_samples *set, bool force)
{
        _cleanup_free_ struct seen *seen = xcalloc(set->n_runs + 1, sizeof *seen);

        for (size_t i = 0; i < set->n_runs; i++) {
                struct capo_trial *t = &set->runs[i];

                if (!t->left_out && strstr(t->layout, CAPO_LAYOUT_ANY)) /* a rule needs it */
                        capo_trial_leave_out(
                                t, "the order of its nodes is not known: --layout tells it");
        }
        sum_samples(set, seen);
        drop_identical(set, seen);
        leave_odd_runs(set);
        if (!force)
                compare_runs(set, seen);
}
