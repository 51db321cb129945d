/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which repeat is a step. Layers repeat in micro-batches, micro-batches in steps, steps
 * between evaluations. A longer repeat is k shorter ones and a rest. The longer one is preferred if
 * one of these holds:
 *
 *  1. The rest is empty and the longer one explains more calls: micro-batches of a pipeline
 *     overlap.
 *  2. The rest contains a reduction (gradients) with enough bytes.  3. The rest is other calls with
 * a tenth of the bytes (parameters are gathered; logits of a
 *     decode step), and k is small or the shorter repeat is one call.
 *  4. The rest is more of the same calls, and the longer one explains many more: layers go
 *     forwards and backwards. An evaluation is more of the same too, but explains few.
 *  5. The shorter one has only sends and receives, and the rest has other calls: micro-batches,
 *     unless k looks like the interval of a log line.
 *  6. The rest is small, and the shorter repeat is one call (layers), or k is a power of two
 *     (micro-batches and a norm): then the other reading is reported too.
 *
 * If none holds, the shorter one is the step.
 */
#include <stdio.h>
#include <stdlib.h>

#include "analysis/steps/steps_parts.h"
#include "core/base/calls.h"
#include "core/base/util.h"
#include "core/base/xalloc.h"

#define REDUCES  0.02 /* share of the longer repeat's bytes that makes a reduction count */
#define MOVES    0.1  /* the same for other calls */
#define IMPROVES 0.02 /* share of all calls that the longer one explains more */
#define SURELY   0.3
#define PERHAPS  0.1
#define LEAST    0.5 /* share of all calls that must be in repeats of the level */
#define SURE     0.8 /* the same for a certain result */
enum { FEW_REPEATS = 4, LOG_LINES = 10, MICRO_BATCHES = 64, DOUBTFUL = 32, BUCKET_BYTES = 1 << 16 };

/* The calls of the longer repeat that are not in its k shorter ones. */
struct rest {
        uint32_t k, calls;
        double reduced, moved, own; /* shares of the bytes: reductions and other calls that the
                                       shorter one lacks; calls that it has */
        bool bucket;                /* one of these reductions is as large as gradients are */
};

bool step_is_plain(const struct step_tokens *t, uint32_t of, uint32_t n_of, uint32_t first,
                   uint32_t n, int32_t *counts)
{
        uint32_t missing = 0;

        if (n < n_of || n > n_of + (n_of / 4 > 4 ? n_of / 4 : 4))
                return false;
        for (uint32_t i = 0; i < n; i++)
                counts[t->of[first + i]]++;
        for (uint32_t i = 0; i < n_of; i++)
                missing += --counts[t->of[of + i]] < 0;
        for (uint32_t i = 0; i < n; i++)
                counts[t->of[first + i]] = 0;
        for (uint32_t i = 0; i < n_of; i++)
                counts[t->of[of + i]] = 0;
        return missing == 0;
}

/* Share of all calls that are in usual repeats, or in ones with a few calls more. */
static double covered(const struct step_tokens *t, const struct step_mark *m, int32_t *counts)
{
        uint64_t calls = 0;

        for (uint32_t i = 0; i + 1 < m->n; i++) {
                uint32_t from = m->at[i], to = m->at[i + 1];

                if (t->sum[to] - t->sum[from] == m->usual ||
                    step_is_plain(t, m->example, m->period, from, to - from, counts))
                        calls += to - from;
        }
        return t->n > t->from ? (double)calls / (t->n - t->from) : 0;
}

static bool is_reduction(uint8_t call)
{
        enum capo_call_kind kind = capo_call_kind(call);

        return kind == CAPO_KIND_ALLREDUCE || kind == CAPO_KIND_REDUCESCATTER ||
               kind == CAPO_KIND_REDUCE;
}

static void count_tokens(const struct step_tokens *t, const struct step_mark *m, int32_t *counts)
{
        for (uint32_t i = 0; i < m->period; i++)
                counts[t->of[m->example + i]]++;
}

/* @a, @b: one per token, all 0; left all 0. */
static struct rest rest_of(const struct step_tokens *t, const struct step_mark *inner,
                           const struct step_mark *outer, int32_t *a, int32_t *b)
{
        struct rest rest = {.k = UINT32_MAX};
        double bytes = 0;

        count_tokens(t, inner, a);
        count_tokens(t, outer, b);
        for (uint32_t i = 0; i < inner->period; i++) {
                uint32_t k = t->of[inner->example + i], fits = (uint32_t)(b[k] / a[k]);

                rest.k = fits < rest.k ? fits : rest.k;
        }
        for (uint32_t i = 0; i < outer->period; i++) {
                uint32_t k = t->of[outer->example + i];
                double size = (double)t->bytes[k] / t->count[k], left;

                if (!b[k])
                        continue; /* already counted */
                left = b[k] - (double)rest.k * a[k];
                bytes += size * b[k];
                rest.calls += (uint32_t)left;
                if (a[k])
                        rest.own += size * left;
                else if (is_reduction(t->calls[t->example[k]].call)) {
                        rest.reduced += size * left;
                        rest.bucket |= size >= BUCKET_BYTES;
                } else
                        rest.moved += size * left;
                b[k] = 0;
        }
        for (uint32_t i = 0; i < inner->period; i++)
                a[t->of[inner->example + i]] = 0;
        if (bytes > 0) {
                rest.reduced /= bytes;
                rest.moved /= bytes;
                rest.own /= bytes;
        }
        return rest;
}

/* The calls of the shorter repeat. */
enum nature { MIXED, ONE_CALL, P2P };

static enum nature nature_of(const struct step_tokens *t, const struct step_mark *m)
{
        bool p2p = true, one = true;

        for (uint32_t i = 0; i < m->period; i++) {
                p2p &= capo_call_kind(t->calls[m->example + i].call) == CAPO_KIND_P2P;
                one &= t->of[m->example + i] == t->of[m->example];
        }
        return p2p ? P2P : one ? ONE_CALL : MIXED;
}

enum verdict { STAY, STAY_DOUBTING, GO, GO_DOUBTING };

/* @as_often: the longer one occurs about as often as the shorter. */
static enum verdict judge_rest(const struct rest *r, enum nature nature, double gain, bool as_often)
{
        bool power = (r->k & (r->k - 1)) == 0;

        if (r->k == 0 || r->k == UINT32_MAX)
                return gain > IMPROVES ? GO_DOUBTING : STAY;
        if (r->calls == 0)
                return gain > IMPROVES ? GO : STAY;
        if (r->reduced >= REDUCES || r->bucket || (r->k == 1 && as_often))
                return GO;
        if (r->moved >= MOVES && (nature == ONE_CALL || r->k <= MICRO_BATCHES))
                return GO;
        if (nature == P2P && (r->reduced > 0 || r->moved > 0))
                return r->k > MICRO_BATCHES || r->k % LOG_LINES == 0 ? STAY_DOUBTING : GO_DOUBTING;
        if (r->reduced + r->moved <= 0) { /* the rest is more of the same calls */
                if (gain > SURELY || nature == ONE_CALL)
                        return gain > SURELY ? GO : GO_DOUBTING;
                return gain > PERHAPS && r->k <= MICRO_BATCHES ? GO_DOUBTING
                       : r->k <= DOUBTFUL                      ? STAY_DOUBTING
                                                               : STAY;
        }
        if (gain > SURELY)
                return GO;
        if (nature == ONE_CALL || (power && r->k > 1 && r->k <= MICRO_BATCHES))
                return GO_DOUBTING;
        return r->k <= DOUBTFUL ? STAY_DOUBTING : STAY;
}

static void say_doubt(struct capo_steps *out, const struct rest *r, uint32_t inner, uint32_t outer,
                      bool gone_on)
{
        out->known = CAPO_STEPS_UNCERTAIN;
        if (gone_on)
                snprintf(
                        out->why, sizeof out->why,
                        "%u repeats of %u call%s in each: micro-batches or layers, as taken here, or steps of their own",
                        r->k, inner, inner == 1 ? "" : "s");
        else
                snprintf(
                        out->why, sizeof out->why,
                        "%u of them are in a repeat of %u calls: it may be the step, and they its micro-batches",
                        r->k, outer);
}

int step_level_choose(const struct step_tokens *t, struct step_marks *marks, struct capo_steps *out)
{
        _cleanup_free_ int32_t *a = xcalloc(t->n_tokens + 1, sizeof *a);
        _cleanup_free_ int32_t *b = xcalloc(t->n_tokens + 1, sizeof *b);
        double share[STEP_FINALISTS], reached = 0;
        int at = -1;

        for (uint32_t i = 0; i < marks->n; i++) {
                const struct step_mark *m = &marks->mark[i];
                enum verdict v;
                struct rest r;

                share[i] = covered(t, m, a);
                if (share[i] < LEAST || (at >= 0 && m->repeats < FEW_REPEATS))
                        continue;
                if (at < 0) {
                        at = (int)i;
                        out->known = CAPO_STEPS_FOUND;
                        continue;
                }
                r = rest_of(t, &marks->mark[at], m, a, b);
                v = judge_rest(&r, nature_of(t, &marks->mark[at]), share[i] - share[at],
                               m->repeats > SURE * marks->mark[at].repeats);
                if (v == STAY_DOUBTING || v == GO_DOUBTING)
                        say_doubt(out, &r, marks->mark[at].period, m->period, v == GO_DOUBTING);
                else if (v == GO)
                        out->known = CAPO_STEPS_FOUND;
                if (v == GO || v == GO_DOUBTING) {
                        out->inner = marks->mark[at].period;
                        out->outer = 0;
                        at = (int)i;
                } else if (!out->outer) {
                        out->outer = m->period;
                }
        }
        if (at < 0)
                return -1;
        reached = share[at];
        out->period = marks->mark[at].period;
        out->covered = reached;
        if (out->known == CAPO_STEPS_FOUND && reached < SURE) {
                out->known = CAPO_STEPS_UNCERTAIN;
                snprintf(out->why, sizeof out->why, "only %.0f %% of the calls are in such steps",
                         100 * reached);
        }
        return at;
}
