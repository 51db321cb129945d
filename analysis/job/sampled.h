/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates the time of all calls of a kind from those that were timed. Some of these were chosen
 * (the first and the second of their kind and size, CAPO_RECORD_CHOSEN). The first includes NCCL's
 * preparations, so chosen calls count once. The others were drawn at random and stand for the rest,
 * except for calls whose time is known in another way. In logs that do not mark chosen calls, all
 * count as drawn. */
#pragma once

#include "analysis/job/hist.h"

struct capo_sampled {
        const struct capo_hist *timed;
        const struct capo_hist *chosen; /* the chosen ones among them */
        uint64_t calls;                 /* timed or not */
        uint64_t inferred_calls; /* untimed calls known to have taken longer than any timed one */
        double inferred_ns;      /* the time of those */
};

/** capo_sampled_mean() in ns, capo_sampled_cov() standard deviation over mean, both for all calls.
 * 0 when none was timed. If none was drawn, the untimed calls are assumed to be like the lower half
 * of the chosen, because every other chosen call was a first call. */
double capo_sampled_mean(const struct capo_sampled *s);
double capo_sampled_cov(const struct capo_sampled *s);

/** capo_sampled_weight() - how many calls each drawn call stands for; 1 when none was drawn. */
double capo_sampled_weight(const struct capo_sampled *s);

/** capo_sampled_quantile() - capo_hist_quantile() of all calls. */
double capo_sampled_quantile(const struct capo_sampled *s, double q);

/** capo_sampled_doubt() - half of the 95 % interval of the total time of all calls, in ns; 0: all
 * were timed
 * @count: number of independent calls. All ranks time the same ones, so it is the calls of one
 * rank. With fewer than two drawn, the result is the whole estimate. */
double capo_sampled_doubt(const struct capo_sampled *s, uint64_t count);

/* The longest silences of a process. A silence is the time from one call to the next of the same
 * thread; it counts if a call since the silence before was not timed on the GPU. */
#define CAPO_SILENCES 32
struct capo_silences {
        struct capo_silence {
                uint64_t ns, from; /* from: when it began, ns since the log's epoch */
        } * v;                     /* longest first; owned */
        uint32_t n;
};

/** capo_silences_add() - add one; if the list is full, the shortest is dropped. */
void capo_silences_add(struct capo_silences *s, uint64_t from, uint64_t ns);

/** capo_silences_usual() - the median of the listed silences; 0 when there are fewer than eight. */
uint64_t capo_silences_usual(const struct capo_silences *s);

/** capo_sampled_unseen() - the most that untimed calls of one rank can have taken beyond others of
 * their kind, in ns
 * @calls: untimed calls of the rank
 * @drawn: its calls that were drawn
 *
 * Calls that stall are rare and take a thousand times longer than others. A sample without one says
 * little about their sum, and its spread says nothing. If a share p of all calls stalls, n drawn
 * calls contain none with probability (1 - p)^n. So in 95 of 100 cases p is at most 1 - 0.05^(1/n):
 * three calls per sampling interval, or all if none was drawn. GPU times do not tell how long each
 * can have taken, but host times do: a program waits for its calls sooner or later and makes no
 * others meanwhile. So they count as the longest silences, as many as there can be. */
double capo_sampled_unseen(const struct capo_silences *s, double calls, double drawn);
