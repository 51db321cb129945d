/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all calls of a kind took, from those that were timed. Some of these were timed for what they
 * are (the first and the second of their kind and size, CAPO_RECORD_CHOSEN): the first has NCCL's
 * preparations in it, so they count once. The others were drawn, and stand for all the rest, but
 * for calls of which is known otherwise how long they took. In logs that do not tell them apart all
 * were drawn.
 */
#ifndef CAPO_SAMPLED_H
#define CAPO_SAMPLED_H

#include "analysis/job/hist.h"

struct capo_sampled {
        const struct capo_hist *timed;
        const struct capo_hist *chosen; /* of them */
        uint64_t calls;                 /* timed or not */
        uint64_t told_calls; /* of those not timed, such as are known otherwise to have taken longer
                                than any timed */
        double told_ns;      /* and how long these took */
};

/** capo_sampled_mean(), capo_sampled_cov() - of all calls: ns; standard deviation over mean. 0 when
 * none was timed. Where none was drawn the rest is taken to be like the lower half of the chosen:
 * every other of these was a first call. */
double capo_sampled_mean(const struct capo_sampled *s);
double capo_sampled_cov(const struct capo_sampled *s);

/** capo_sampled_weight() - how many calls each that was drawn stands for; 1 where none was. */
double capo_sampled_weight(const struct capo_sampled *s);

/** capo_sampled_quantile() - ns below which a share @q (0..1) of all calls lies: as
 * capo_hist_quantile(). */
double capo_sampled_quantile(const struct capo_sampled *s, double q);

/** capo_sampled_doubt() - half of the 95 % interval of the time of all calls, in ns; 0: all were
 * timed
 * @count: how many of the calls tell nothing of each other: all ranks time the same ones, so those
 * of one rank. Of one call nothing is known but that. */
double capo_sampled_doubt(const struct capo_sampled *s, uint64_t count);

/* The longest silences of a process: from one call to the next of its thread, where a call since
 * the silence before was not timed on the GPU. */
#define CAPO_SILENCES 32
struct capo_silences {
        uint64_t ns[CAPO_SILENCES];   /* longest first */
        uint64_t from[CAPO_SILENCES]; /* when they began, since the log's epoch */
        uint32_t n;
};

/** capo_silences_add() - one more; the shortest goes when there is no room. */
void capo_silences_add(struct capo_silences *s, uint64_t from, uint64_t ns);

/** capo_silences_usual() - how long silences are that the job has many of: of the half of these the
 * longest; 0 where there are few. */
uint64_t capo_silences_usual(const struct capo_silences *s);

/**
 * capo_sampled_unseen() - what calls that were not drawn can have taken beside their like, of one
 * rank: ns
 * @calls: of the rank, such as were not timed
 * @drawn: as many of its calls were
 *
 * Calls that stall are rare and take a thousand times what others do: a sample that has none says
 * little of their sum, and the spread of what it has says nothing. Of calls that are the part p of
 * all, n that are drawn have none with probability (1 - p)^n, so in 95 of 100 cases there are no
 * more than p = 1 - 0.05^(1/n) of them: three for each interval of the draw, all where none was
 * drawn. How long each can have taken no GPU time tells, but the host's does: a program waits for
 * its calls sooner or later, and makes no others while it does. So they count as the longest
 * silences, as many as there can be.
 */
double capo_sampled_unseen(const struct capo_silences *s, double calls, double drawn);

#endif
