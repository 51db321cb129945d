/* SPDX-License-Identifier: Apache-2.0 */
/* Fits samples to decisions. There is a series per allocation class (layout, ranks, GPU, NCCL
 * release) and collective: sizes by candidates, each cell a time with its uncertainty. A candidate
 * is written for a size only if it beats NCCL's own choice there by more than the noise and by more
 * than min_gain. Otherwise NCCL's choice is unchanged.
 *
 * Deterministic: the same samples give the same fit, bit by bit, whatever the order of equal times.
 */
#pragma once

#include "capo/msg.h"
#include "capo/profile.h"
#include "core/base/xalloc.h"
#include "profiles/fit/fit_links.h"
#include "profiles/import/import.h"

struct capo_fit_options {
        double min_gain;      /* fraction of time saved below which no rule is written */
        bool force;           /* accept gains that look like a measurement error */
        bool without_default; /* NCCL's own choice was not measured: the next best stands in for it */
        struct capo_fit_links links; /* of the machine; all 0: from the GPU's name */
        void (*progress)(const char *what, double done); /* may be NULL; done 0 .. 1 */
};

struct capo_fit_candidate {
        uint8_t algo, proto; /* 0: NCCL chose that part */
        uint8_t channels;    /* 0: NCCL's own number */
        int n_runs;          /* the most runs at any size */
        uint32_t chunk;      /* bytes; 0: NCCL's own */
};

struct capo_fit_cell {
        double us;        /* NAN: not measured */
        double lo, hi;    /* 95 % interval of us */
        double se;        /* standard error of ln(us) */
        double se_within; /* the part of it that comes from within the runs */
        double place_gap; /* ln of its time in place over that out of place; NAN: not both measured */
        uint32_t n_samples, n_runs;
        uint32_t n_blocks; /* block: one run, in-place or out-of-place; 0: not measured */
        bool disagree;     /* its runs differ by more than noise */
        bool anchored; /* all its runs also have NCCL's own choice: it is compared within the run */
        bool is_default; /* it is what NCCL chose by itself; pooled with that */
};

/* The result for a size, and the reason, for the candidate that is shown. */
enum capo_fit_verdict {
#define FIT_VERDICT(name, word, text) CAPO_FIT_##name,
#include "profiles/fit/fit_verdicts.def"
        CAPO_FIT_VERDICTS
};

#define CAPO_FIT_HARM \
        0.03 /* a rule must not cost this much more than NCCL's own choice at any size */

struct capo_fit_point {
        uint64_t bytes;
        uint8_t default_ran, default_channels; /* what NCCL's own choice was; 0: not known, or not
                                                  always the same */
        double noise; /* standard deviation between runs here, as a fraction; measured or assumed */
        double freedom;       /* degrees of freedom of @noise */
        double cell_quantile; /* standard errors in a 95 % interval of one time */
        double quantile;      /* standard errors required for a gain: 95 % over all compared */
        double harm_quantile; /* the same for excluding a loss of CAPO_FIT_HARM */
        int repeats;          /* repeated runs that @noise comes from; 0: assumed */
        int default_runs;     /* of NCCL's own choice */
        int first_block, end_block;
        enum capo_fit_verdict refused; /* reason of a refusal; WRITTEN: not refused */
        int best;                      /* candidate with the shortest time; -1: none */
        int chosen;                    /* candidate; 0: NCCL's choice is unchanged */
        double gain; /* of the chosen candidate, else of the best: (default - us) / default; NAN: none */
        int shown; /* candidate to show: the chosen one, else the best; 0: NCCL's choice */
        enum capo_fit_verdict verdict;
        double gain_lo, gain_hi; /* its interval; 95 % over all candidates together */
};

struct capo_fit_row {
        uint64_t upto; /* bytes, inclusive */
        int chosen;
        int first, last; /* points in it; last < first: none */
};

struct capo_fit_regret {
        unsigned n; /* decisions checked with measurements that they were not made from */
        unsigned n_scored, n_unscored; /* sizes of the series with and without such a decision */
        unsigned n_worse;              /* decisions significantly slower than NCCL's own choice */
        double mean, worst;            /* part of the time that the best over all would save */
        double mean_default;  /* the same for NCCL's own choice everywhere; NAN: not measured */
        double worst_default; /* loss against NCCL's own choice; NAN: not measured */
        bool by_run;          /* true: one run was left out at a time; false: one size */
};

/* What to measure next: adjacent sizes where more measurements may decide for the same candidate.
 * Sorted by expected gain. */
struct capo_fit_next {
        enum {
                CAPO_FIT_NEXT_NOTHING,
                CAPO_FIT_NEXT_DEFAULT,       /* NCCL's own choice, which was not measured */
                CAPO_FIT_NEXT_DEFAULT_AGAIN, /* once more: one run, or its runs disagree */
                CAPO_FIT_NEXT_OTHERS,        /* nothing but NCCL's own choice was measured */
                CAPO_FIT_NEXT_CANDIDATE
        } what;
        int candidate, first, last; /* candidate, and range of points */
        int times;                  /* number of runs */
        double gain;                /* expected gain: mean over the points of its positive part */
};
enum { CAPO_FIT_NEXTS = 3 };

/* Were NCCL's own choice and the candidates measured in turn? If not, a slow hour looks like a
 * gain. */
enum capo_fit_turns { CAPO_FIT_TURNS_UNKNOWN, CAPO_FIT_IN_TURN, CAPO_FIT_APART };

struct capo_fit_series {
        struct capo_trial like; /* the allocation: layout, gpu, nccl, n_ranks, n_nodes; no source */
        uint8_t call, make;
        bool has_default; /* NCCL's own choice was measured at one size at least */
        bool covered;     /* it was not, but it must be one of the candidates */
        enum capo_fit_turns turns;
        bool labels_doubted; /* the times contradict the labels (fit_labels.c) */
        bool one_run;        /* no run repeats another: the noise between runs is assumed */
        double noise;        /* median over its points */
        double level; /* standard deviation of whole runs of one choice, ln; 0: none repeats */
        double apart; /* how far its own choice's runs are from those forced to the same, ln */
        struct capo_fit_links links;           /* links it was checked against; all 0: not known */
        struct capo_fit_candidate *candidates; /* [0] is NCCL's own choice */
        int n_candidates;
        struct capo_fit_point *points; /* sorted by size */
        int n_points;
        struct capo_fit_cell *cells; /* [point * n_candidates + candidate] */
        struct capo_fit_row *rows;   /* the last one ends at UINT64_MAX */
        int n_rows;                  /* 1: all is left to NCCL */
        struct capo_fit_regret regret;
        struct capo_fit_next next[CAPO_FIT_NEXTS]; /* best first; then NOTHING */
        uint64_t n_samples;
        struct capo_fit_block *blocks; /* private to the fit */
        int n_blocks;
};

struct capo_fit {
        struct capo_fit_series *series; /* sorted by ranks, layout, GPU, release, call */
        int n_series;
        uint64_t n_samples, n_warmup, n_stalls, n_other_clock;
        double worst_stall_us;
        /* by kernels outside of NCCL's table (capo_ran_beside()): registered buffers use them, a tuner can
         * neither force nor prevent them, and their times say nothing about the table */
        uint64_t n_beside;
        char **faults; /* one line per series whose own measurements contradict it */
        size_t n_faults;
};

/**
 * capo_fit_guard() - mark the runs of @set that must not be compared with the others: sets left_out
 * and why
 * @force: accept different settings, hosts and drivers
 *
 * Left out: runs with identical contents (all but one); runs that most others contradict (units,
 * NCCL's choice); runs with other NCCL_* settings than the runs of NCCL's own choice; candidates
 * measured on other hosts or with another driver than NCCL's own choice, and NCCL's own choice
 * where no candidate was measured. Call it before capo_fit_make().
 */
void capo_fit_guard(struct capo_samples *set, bool force);

/** capo_fit_make() - fit @set, except the runs that are left out
 * @out: set only on success; free it with capo_fit_free()
 * @fault: one line with the reason of a failure
 *
 * Return: 0; -ENODATA: no samples of a collective that a tuner decides; -EINVAL: the samples of
 * every series contradict each other (NCCL chose two things for one question, or times differ as
 * units do). */
int capo_fit_make(const struct capo_samples *set, const struct capo_fit_options *options,
                  struct capo_fit **out, struct capo_fault *fault);
void capo_fit_free(struct capo_fit *fit);
void capo_fit_freep(struct capo_fit **fit);

/** capo_fit_cell_of() - the cell of @point and @candidate. */
static inline struct capo_fit_cell *capo_fit_cell_of(const struct capo_fit_series *s, int point,
                                                     int candidate)
{
        return &s->cells[point * s->n_candidates + candidate];
}

/** capo_fit_verdict_word() - in JSON; capo_fit_verdict_text() - on pages. */
const char *capo_fit_verdict_word(enum capo_fit_verdict verdict);
const char *capo_fit_verdict_text(enum capo_fit_verdict verdict);

/** capo_fit_candidate_text() - "Tree LL128 ch 4", "Ring Simple chunk 64 KiB", "NCCL's choice".
 * @text: at least 56 bytes. */
char *capo_fit_candidate_text(const struct capo_fit_candidate *c, char *text, size_t room);

/** capo_fit_class_text() - "4 x H100 80GB HBM3, layout 4, NCCL 2.29.2". */
char *capo_fit_class_text(const struct capo_trial *r, char *text, size_t room);

/** capo_fit_writable() - can a row name it? Algorithm and protocol must be known. */
static inline bool capo_fit_writable(const struct capo_fit_candidate *c)
{
        return c->algo && c->proto && c->channels <= CAPO_CHANNELS_MAX;
}

/** capo_fit_memory() - the end of the program unless @enough: rows in order and in range, as a
 * fit makes them, fail for nothing else. */
static inline void capo_fit_memory(bool enough)
{
        if (enough)
                return;
        capo_error("fit: no memory");
        exit(xalloc_status);
}

/** capo_fit_profile() - convert a fit to a profile
 *
 * Adds one rule per allocation class with a row to write. If layout and node count are not known, its
 * condition is only the number of ranks. */
void capo_fit_profile(const struct capo_fit *fit, struct capo_profile *profile);
