/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a fit in their order: gather, labels, estimate, decide, rows, judge, check.
 * fit_make.c calls them. */
#pragma once

#include <math.h>

#include "profiles/fit/fit.h"

/* A sample, reduced to what sorting needs. */
struct capo_fit_item {
        uint64_t key; /* class, call, make */
        uint64_t bytes;
        uint32_t run;
        uint32_t order;
        double us;
        uint64_t candidate; /* algo_proto << 40 | channels << 32 | chunk; 0: NCCL's choice */
        uint8_t place, ran, ran_channels;
};

/** capo_fit_sort() - sort @v by key; equal ones keep their order. */
struct capo_fit_key {
        uint64_t key;
        size_t at;
};
void capo_fit_sort(struct capo_fit_key *v, size_t n);

struct capo_fit_maker {
        const struct capo_samples *set;
        struct capo_fit *fit;
        double *v, *scratch; /* room for the largest block */
};

/* The samples of one candidate at one size in one run, in-place or out-of-place. */
struct capo_fit_block {
        double value; /* median of ln(us), corrected for the candidate's in-place difference */
        double se;    /* standard error of that median */
        uint32_t run;
        uint32_t n;
        int point, candidate;
        int fold; /* index among its candidate's runs, for leaving one out */
        uint8_t place;
        uint8_t ran, ran_channels;
        bool anchor; /* its run has NCCL's own choice and other candidates at this size: these are
                        compared within the run */
};

/* The part of the measurements that an estimate uses. */
struct capo_fit_part {
        int without_fold;  /* -1: all */
        int only_fold;     /* -1: all */
        int without_point; /* -1: all */
};
/* ln: how far all runs of a choice may be from the others: one or two, or more not measured in turn */
#define CAPO_FIT_UNSEEN     0.01
#define CAPO_FIT_APART_PART 0.35 /* of the distance between own and forced runs: a standard error */
/* The curve of a single run does not show an error that neighbouring sizes share: a loss is excluded with
 * up to this many times the error that it shows. */
#define CAPO_FIT_LIKE_BESIDE 2.0
#define CAPO_FIT_ALL         ((struct capo_fit_part){-1, -1, -1})

/**
 * capo_fit_gather() - make points, candidates, blocks and noise of a series from its items, sorted
 * by size, candidate, run, place and order
 *
 * Return: 0; -EINVAL: they contradict each other (@fault has the reason).
 */
int capo_fit_gather(struct capo_fit_maker *m, struct capo_fit_series *s,
                    const struct capo_fit_item *items, size_t n, struct capo_fault *fault);

/** capo_fit_noise() - set the noise between runs at each point (fit_noise.c). */
void capo_fit_noise(struct capo_fit_series *s);

/** capo_fit_estimate() - cells of @s from the blocks of @part, with the noise of its points. */
void capo_fit_estimate(const struct capo_fit_series *s, struct capo_fit_part part,
                       struct capo_fit_cell *cells);

static inline double ln_us(const struct capo_fit_cell *c) { return log(c->us); }

/** capo_fit_unseen() - the variance by which the runs of both may be off together; that of one or two
 * runs is in their cells. */
static inline double capo_fit_unseen(const struct capo_fit_series *s, const struct capo_fit_cell *a,
                                     const struct capo_fit_cell *b)
{
        int many = (a->n_runs > 2) + (b->n_runs > 2);
        double apart = CAPO_FIT_APART_PART * s->apart;

        return s->turns == CAPO_FIT_IN_TURN
                       ? 0
                       : many * CAPO_FIT_UNSEEN * CAPO_FIT_UNSEEN + apart * apart;
}

#define CAPO_FIT_SAME_TIME 1.5 /* standard errors: times that differ by less count as the same */

/** capo_fit_place_gap() - by how much the ln gain of candidate @c at point @p in one place exceeds
 * that in both; 0: the places were not both measured. */
static inline double capo_fit_place_gap(const struct capo_fit_series *s,
                                        const struct capo_fit_cell *cells, int p, int c)
{
        const struct capo_fit_cell *row = &cells[p * s->n_candidates];
        double gap = row[c].place_gap - row[0].place_gap;

        return isnan(gap) ? 0 : gap / 2;
}

/** capo_fit_decide() - set best, chosen and gains of the points from @cells; @skip: a point to
 * leave out; -1: none. */
void capo_fit_decide(const struct capo_fit_series *s, const struct capo_fit_options *o,
                     const struct capo_fit_cell *cells, int skip, struct capo_fit_point *points);

/** capo_fit_rows() - rows from decided points, at most 2 * n_points + 2. Returns how many. */
int capo_fit_rows(const struct capo_fit_series *s, const struct capo_fit_cell *cells, int skip,
                  const struct capo_fit_point *points, struct capo_fit_row *rows);

/** capo_fit_labels() - set labels_doubted from the blocks of @s (fit_labels.c). */
void capo_fit_labels(struct capo_fit_series *s);

/** capo_fit_check() - fill s->regret by leaving out parts. */
void capo_fit_check(struct capo_fit_series *s, const struct capo_fit_options *o);

/** capo_fit_judge() - set each point's verdict, and what to measure next. */
void capo_fit_judge(struct capo_fit_series *s, const struct capo_fit_options *o);
