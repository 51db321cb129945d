/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs that contradict the others: times in other units, or another choice by NCCL for the same
 * question. The runs of one place vote on each question (collective, clock, size), and runs against
 * the majority are left out, with a message. Without a majority, as with one run against one, none
 * is left out, and the fit reports the contradiction.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/util.h"
#include "core/base/xalloc.h"
#include "profiles/fit/fit_private.h"

enum {
        DECADES = 16,
        CHOICES = 4,
        MOST = 1 << 16,
        LEAST = 3
}; /* LEAST: number of sizes that shows other units; a single one is a stall */

struct ballot {
        uint64_t key; /* 0: free */
        uint32_t decade[DECADES], n;
        uint8_t ran[CHOICES]; /* by NCCL's own choice */
        uint32_t n_ran[CHOICES], n_own;
};

struct votes {
        struct ballot *v; /* open addressing */
        size_t room, n;
};

struct suspect {
        uint32_t odd, sound;
        int64_t apart; /* sum of differences in decades */
};

static uint64_t mix_key(uint64_t h, uint64_t v)
{
        h = (h ^ v) * 0x9e3779b97f4a7c15u;
        return h ^ h >> 29;
}

static uint64_t place_of(const struct capo_trial *t)
{
        uint64_t h =
                mix_key(mix_key(mix_key(1, (uint64_t)t->n_ranks), (uint64_t)t->n_nodes), t->nccl);

        for (const char *c = t->layout; *c; c++)
                h = mix_key(h, (unsigned char)*c);
        for (const char *c = t->gpu; *c; c++)
                h = mix_key(h, (unsigned char)*c);
        return h;
}

/* The ballot of @key; NULL: it does not exist, and was not or could not be added. */
static struct ballot *find_ballot(struct votes *w, uint64_t key, bool add)
{
        size_t i;

        key |= 1;
        if (add && 2 * w->n >= w->room && w->n < MOST) {
                struct votes more = {.room = w->room ? 2 * w->room : 256};

                more.v = xcalloc(more.room, sizeof *more.v);
                for (i = 0; i < w->room; i++) {
                        size_t k = w->v[i].key >> 8 & (more.room - 1);

                        while (w->v[i].key && more.v[k].key)
                                k = (k + 1) & (more.room - 1);
                        if (w->v[i].key)
                                more.v[k] = w->v[i];
                }
                more.n = w->n;
                free(w->v);
                *w = more;
        }
        if (!w->room)
                return NULL;
        for (i = key >> 8 & (w->room - 1); w->v[i].key && w->v[i].key != key;)
                i = (i + 1) & (w->room - 1);
        if (w->v[i].key)
                return &w->v[i];
        if (!add || w->n >= MOST)
                return NULL;
        w->n++;
        w->v[i].key = key;
        return &w->v[i];
}

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

/* The decade that most runs are in, or next to; -1: no majority. */
static int usual_decade(const struct ballot *b)
{
        int best = -1;
        uint32_t most = b->n / 2;

        for (int d = 0; d < DECADES; d++) {
                uint32_t n = b->decade[d] + (d ? b->decade[d - 1] : 0) +
                             (d + 1 < DECADES ? b->decade[d + 1] : 0);

                if (n > most) {
                        most = n;
                        best = d;
                }
        }
        return best;
}

/* NCCL's choice in most runs; 0: no majority. */
static uint8_t usual_choice(const struct ballot *b)
{
        for (int k = 0; k < CHOICES; k++) {
                if (b->n_ran[k] * 2 > b->n_own)
                        return b->ran[k];
        }
        return 0;
}

static void other_choice(struct capo_trial *t, const struct capo_sample *s, uint8_t usual)
{
        char size[16];

        capo_size_print(s->bytes, size, sizeof size);
        snprintf(t->why, sizeof t->why,
                 "NCCL chose %s %s at %s, %s %s in most runs: forced, and nobody says so?",
                 capo_ran_algo(s->ran), capo_ran_proto(s->ran), size, capo_ran_algo(usual),
                 capo_ran_proto(usual));
        t->left_out = true;
}

static void count_sample(const struct votes *w, struct capo_samples *set, uint64_t key,
                         const struct capo_sample *s, struct suspect *x)
{
        const struct ballot *b = find_ballot((struct votes *)w, key, false);
        struct capo_trial *t = &set->runs[s->run];
        int usual = b ? usual_decade(b) : -1, apart = decade_of(s->us) - usual;
        uint8_t choice = b ? usual_choice(b) : 0;

        if (usual >= 0 && abs(apart) >= 2) {
                x->odd++;
                x->apart += apart;
        } else if (usual >= 0) {
                x->sound++;
        }
        if (choice && !t->left_out && !s->want && !s->want_channels && s->ran && s->ran != choice)
                other_choice(t, s, choice);
}

void capo_fit_odd_runs(struct capo_samples *set)
{
        _cleanup_free_ uint64_t *place = xmalloc((set->n_runs + 1) * sizeof *place);
        _cleanup_free_ struct suspect *suspects = xcalloc(set->n_runs + 1, sizeof *suspects);
        struct votes w = {0};

        for (size_t i = 0; i < set->n_runs; i++)
                place[i] = place_of(&set->runs[i]);
        for (int pass = 0; pass < 2; pass++) {
                for (size_t i = 0; i < set->n; i++) {
                        const struct capo_sample *s = &set->v[i];
                        uint64_t key = mix_key(mix_key(place[s->run], s->bytes),
                                               (uint64_t)s->call << 8 | s->make);
                        struct ballot *b;

                        if (capo_ran_beside(s->ran))
                                continue;
                        if (pass == 1)
                                count_sample(&w, set, key, s, &suspects[s->run]);
                        else if (!set->runs[s->run].left_out && (b = find_ballot(&w, key, true)))
                                cast_vote(b, s);
                }
        }
        for (size_t i = 0; i < set->n_runs; i++) {
                const struct suspect *x = &suspects[i];
                struct capo_trial *t = &set->runs[i];

                if (t->left_out || x->odd < LEAST || x->odd <= x->sound)
                        continue;
                snprintf(t->why, sizeof t->why,
                         "mixed units? most of its times are %s those of the other runs",
                         x->apart > 0 ? "more than ten times" : "less than a tenth of");
                t->left_out = true;
        }
        free(w.v);
}
