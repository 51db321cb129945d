/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fitting: samples to decisions. Per allocation class (layout, ranks, GPU, NCCL release) and
 * collective a series: sizes by candidates, each cell a time with its uncertainty. A candidate is
 * written for a size only where it beats NCCL's own choice there by more than the noise and by more
 * than min_gain; everything else is left to NCCL.
 *
 * Deterministic: the same samples give the same fit, bit by bit, whatever the order of equal times.
 */
#ifndef CAPO_FIT_H
#define CAPO_FIT_H

#include "capo/profile.h"
#include "profiles/fit/fit_links.h"
#include "profiles/import/import.h"

struct capo_fit_options {
        double min_gain;      /* fraction of time saved below which a rule is not worth having */
        bool force;           /* believe gains that look like a fault of the measurement */
        bool without_default; /* NCCL's own choice was not measured: the next best candidate stands
                                 in */
        struct capo_fit_links links; /* of the machine; all 0: by the name of the GPU */
        void (*progress)(const char *what, double done, void *user); /* may be NULL; done 0 .. 1 */
        void *user;
};

struct capo_fit_candidate {
        uint8_t algo, proto; /* enum capo_algo, capo_proto; both 0: NCCL's own choice; one 0: that
                                part was NCCL's */
        uint8_t channels;    /* 0: NCCL's own number */
        int n_runs;          /* the most that a size of it was measured in */
        uint32_t chunk;      /* bytes; 0: NCCL's own */
};

struct capo_fit_cell {
        double us;        /* NAN: not measured */
        double lo, hi;    /* 95 % interval of us */
        double se;        /* standard error of ln(us) */
        double se_within; /* the part of it that comes from within the runs */
        uint32_t n_samples, n_runs;
        uint32_t n_blocks; /* block: one run, in-place or out-of-place; 0: not measured */
        bool disagree;     /* its runs differ by more than noise */
        bool anchored;     /* all its runs have NCCL's own choice too: measured from that */
        bool is_default;   /* ran exactly what NCCL chose by itself; pooled with it */
};

/* What became of a size, and why: of the candidate that is shown. */
enum capo_fit_verdict {
        CAPO_FIT_WRITTEN,
        CAPO_FIT_WRITTEN_COVERED,   /* NCCL's own choice was not measured, but is one of these */
        CAPO_FIT_WRITTEN_UNCHECKED, /* NCCL's own choice was not measured, and the user does not
                                       mind */
        CAPO_FIT_LEFT,              /* nothing measured is faster */
        CAPO_FIT_LEFT_SMALL,        /* the gain is below what a rule must save */
        CAPO_FIT_LEFT_NOISE,        /* the gain may be noise */
        CAPO_FIT_LEFT_HARM,         /* it is likely, but a loss of CAPO_FIT_HARM is not excluded */
        CAPO_FIT_NO_NAME,           /* what ran is not fully recorded: a rule cannot name it */
        CAPO_FIT_TOO_GOOD,          /* so large a gain is a fault of the measurement */
        CAPO_FIT_ONCE,              /* one run of NCCL's own choice, which may have been slow */
        CAPO_FIT_DISAGREE,          /* its runs differ by more than noise: which is slow? */
        CAPO_FIT_BEYOND_LINKS,      /* so fast that the links cannot carry it */
        CAPO_FIT_ALONE,             /* one run of a candidate whose runs disagree beside */
        CAPO_FIT_NO_DEFAULT,        /* NCCL's own choice was not measured here */
        CAPO_FIT_VERDICTS
};

#define CAPO_FIT_HARM 0.03 /* a rule may not cost so much more than NCCL's own choice, anywhere */

struct capo_fit_point {
        uint64_t bytes;
        uint8_t default_ran, default_channels; /* what NCCL's own choice ran; 0 not known or not
                                                  always the same */
        double noise; /* standard deviation between runs here, as a fraction; measured or assumed */
        double freedom;       /* of @noise */
        double cell_quantile; /* standard errors of a 95 % interval of one time */
        double quantile; /* standard errors that a gain must have: 95 % over all candidates compared
                          */
        double harm_quantile; /* the same that a loss of CAPO_FIT_HARM must be away */
        int repeats; /* runs beyond the first of a candidate that @noise comes from; 0: assumed */
        int default_runs; /* of NCCL's own choice */
        int first_block, end_block;
        enum capo_fit_verdict refused; /* WRITTEN: not refused */
        int best;                      /* candidate with the shortest time; -1 none */
        int chosen;                    /* candidate; 0: leave to NCCL */
        double gain; /* of the chosen, or else of the best, over the baseline: (default - us) /
                      * default; NAN no default
                      */
        int shown;   /* the candidate to show: the chosen; else the best, 0 when that is what NCCL
                        chooses */
        enum capo_fit_verdict verdict;
        double gain_lo, gain_hi; /* its interval; 95 % over all candidates compared, not for each */
};

struct capo_fit_row {
        uint64_t upto; /* bytes, included */
        int chosen;
        int first, last; /* points in it; last < first: none */
};

struct capo_fit_regret {
        unsigned n; /* decisions checked on measurements they were not made from */
        unsigned n_scored, n_unscored; /* sizes of the series with such a decision, and without */
        unsigned n_worse;              /* decisions slower than NCCL's own choice beyond noise */
        double mean, worst;   /* over the candidate that is best over all measurements; fractions */
        double mean_default;  /* the same, had everything been left to NCCL; NAN when that was not
                                 measured */
        double worst_default; /* of what was chosen over NCCL's own choice; NAN when that was not
                                 measured */
        bool by_run;          /* a run was left out each time; else a size */
};

/* What to measure next: sizes beside each other where one more measurement may decide for the same
 * candidate. Ranked by the gain to be expected. */
struct capo_fit_next {
        enum {
                CAPO_FIT_NEXT_NOTHING,
                CAPO_FIT_NEXT_DEFAULT,       /* NCCL's own choice, which was not measured */
                CAPO_FIT_NEXT_DEFAULT_AGAIN, /* it, once more: it has one run, or its runs disagree
                                              */
                CAPO_FIT_NEXT_OTHERS,        /* nothing but NCCL's own choice was measured */
                CAPO_FIT_NEXT_CANDIDATE
        } what;
        int candidate, first, last; /* which, at which points */
        int times;                  /* so many runs */
        double gain;                /* to be expected: mean over the points, of what is above 0 */
};
enum { CAPO_FIT_NEXTS = 3 };

/* Were NCCL's own choice and the candidates measured in turn? Else a slow hour looks like a gain.
 */
enum capo_fit_turns { CAPO_FIT_TURNS_UNKNOWN, CAPO_FIT_IN_TURN, CAPO_FIT_APART };

struct capo_fit_series {
        struct capo_trial
                like; /* the allocation: layout, gpu, nccl, n_ranks, n_nodes; source NULL */
        uint8_t call, make;
        bool has_default; /* NCCL's own choice was measured at one size at least */
        bool covered;     /* it was not, but the candidates are all it could have been */
        enum capo_fit_turns turns;
        bool one_run; /* nothing repeats between runs: how they differ is assumed */
        double noise; /* the median of its points' noise */
        struct capo_fit_links
                links; /* what it was checked against; all 0: nothing is known of them */
        struct capo_fit_candidate *candidates; /* [0] is NCCL's own choice */
        int n_candidates;
        struct capo_fit_point *points; /* by rising size */
        int n_points;
        struct capo_fit_cell *cells; /* [point * n_candidates + candidate] */
        struct capo_fit_row *rows;   /* the last reaches UINT64_MAX */
        int n_rows;
        struct capo_fit_regret regret;
        struct capo_fit_next next[CAPO_FIT_NEXTS]; /* the best first; then NOTHING */
        uint64_t n_samples;
        struct capo_fit_block *blocks; /* the fit's own */
        int n_blocks;
};

/* Samples of what is none of NCCL's table (capo_ran_beside()): a symmetric kernel, copy engines.
 * Buffers that are registered have them, no tuner forces or prevents them, and their times say
 * nothing of the table: they are only told. */
struct capo_fit_beside {
        struct capo_trial like; /* what its runs have in common */
        uint8_t call, make, ran;
        uint64_t from, upto; /* bytes */
        uint64_t n_samples;
        double us; /* median at the largest size */
};

struct capo_fit {
        struct capo_fit_series *series; /* by ranks, layout, GPU, release, call */
        int n_series;
        uint64_t n_samples, n_warmup, n_stalls, n_other_clock;
        double worst_stall_us;
        struct capo_fit_beside *beside;
        size_t n_beside;
        char **faults; /* a line for each series that its own measurements contradict; such a series
                          is left out */
        size_t n_faults;
};

/**
 * capo_fit_guard() - mark runs of @set that may not be compared with the others: left_out, why
 * @force: settings, hosts and drivers may differ
 *
 * Left out are repeats that are identical by content; runs that most others contradict (units, what
 * NCCL chose); runs with other NCCL_* settings than NCCL's own choice was measured with; candidates
 * measured on other hosts or with another driver than that, and it where no candidate was. Call it
 * before capo_fit_make(). Return: 0 or -ENOMEM.
 */
int capo_fit_guard(struct capo_samples *set, bool force);

/**
 * capo_fit_make() - fit @set, without the runs that are left out
 * @out:   set only on success; free with capo_fit_free()
 * @fault: one line; what could not be
 *
 * Return: 0; -ENODATA no samples of a collective a tuner is asked about; -EINVAL the samples of
 * every series contradict each other (NCCL "chose" two things for one question, or times that
 * differ like units do); -ENOMEM.
 */
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

/** capo_fit_verdict_word() - "written", "may_be_noise", ...: for programs. */
const char *capo_fit_verdict_word(enum capo_fit_verdict verdict);

/** capo_fit_verdict_text() - "yes", "left to NCCL (within noise)", ... */
const char *capo_fit_verdict_text(enum capo_fit_verdict verdict);

/** capo_fit_candidate_text() - "Tree LL128 ch 4", "Ring Simple chunk 64 KiB", "NCCL's choice".
 * @text: at least 56 bytes. */
char *capo_fit_candidate_text(const struct capo_fit_candidate *c, char *text, size_t room);

/** capo_fit_class_text() - "4 x H100 80GB HBM3, layout 4, NCCL 2.29.2". */
char *capo_fit_class_text(const struct capo_trial *r, char *text, size_t room);

/** capo_fit_writable() - rows can name it: algorithm and protocol are both known. */
static inline bool capo_fit_writable(const struct capo_fit_candidate *c)
{
        return c->algo && c->proto && c->channels <= CAPO_CHANNELS_MAX;
}

/**
 * capo_fit_profile() - the rules of a fit as a profile
 *
 * One rule per allocation class that has a row to write; collectives with nothing to gain are left
 * out of it. A class whose layout and node count are not known gets a rule by ranks alone.
 *
 * Return: 0; -ENOMEM. *@n_rules, *@n_rows: what was written, rows that leave to NCCL not counted.
 */
int capo_fit_profile(const struct capo_fit *fit, struct capo_profile *profile, int *n_rules,
                     int *n_rows);

#endif
