/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From calls to steps: tokens, marks, choice of the level that is a step, times. In a long job the
 * pattern is found in the last calls and then followed through all of them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/steps/steps_parts.h"
#include "core/base/order.h"
#include "core/base/calls.h"
#include "core/base/util.h"
#include "core/base/xalloc.h"

/* A reading that ignores sizes must explain this much more of the calls */
#define BETTER 0.2

enum { WINDOW = 1 << 15, LEAST_CALLS = 6, OFFSETS_SEEN = 64, MERGES = 3 };

static void tell_none(struct capo_steps *out, const char *why)
{
        out->known = CAPO_STEPS_NONE;
        snprintf(out->why, sizeof out->why, "%s", why);
}

/* A step begins after the longest pause: find after how many calls behind the mark that is, over
 * the usual repeats. */
static uint32_t find_pause(const struct step_tokens *t, const struct step_mark *m)
{
        _cleanup_free_ double *pause = xcalloc(m->period + 1, sizeof *pause);
        uint32_t seen = 0, best = 0;

        for (uint32_t i = 0; i + 1 < m->n && seen < OFFSETS_SEEN; i++) {
                uint32_t from = m->at[i];

                if (m->at[i + 1] - from != m->period || !from)
                        continue;
                for (uint32_t k = 0; k < m->period; k++)
                        pause[k] += (double)(t->calls[from + k].t_ns - t->calls[from + k - 1].t_ns);
                seen++;
        }
        for (uint32_t k = 1; k < m->period; k++)
                best = pause[k] > 1.2 * pause[best] ? k : best;
        return best;
}

static void add_parts(const struct step_tokens *t, const struct step_mark *m, uint32_t from,
                      struct capo_steps *out)
{
        _cleanup_free_ uint32_t *of = xcalloc(t->n_tokens + 1, sizeof *of);

        out->part = xcalloc(m->period, sizeof *out->part);
        for (uint32_t i = from; i < from + m->period; i++) {
                const struct capo_step_call *c = &t->calls[i];
                uint32_t k = t->of[i];
                uint64_t mean = t->bytes[k] / t->count[k];

                if (!of[k]) {
                        of[k] = ++out->n_parts;
                        out->part[of[k] - 1] = (struct capo_step_part){
                                .bytes = mean,
                                .comm = c->comm,
                                .peer = c->peer,
                                .call = c->call,
                                .varies = t->calls[t->example[k]].bytes != mean};
                }
                out->part[of[k] - 1].count++;
                out->bytes += mean;
        }
}

/* Cut the calls into steps at the occurrences of the mark. */
static void lay_steps(const struct capo_step_call *calls, const struct step_tokens *t,
                      const struct step_mark *m, struct capo_steps *out)
{
        _cleanup_free_ int32_t *counts = xcalloc(t->n_tokens + 1, sizeof *counts);
        uint32_t shift = find_pause(t, m), last = m->n ? m->at[m->n - 1] : 0;

        out->step = xcalloc(m->n + 1, sizeof *out->step);
        for (uint32_t i = 0; i + 1 < m->n; i++) {
                uint32_t from = m->at[i] + shift, to = m->at[i + 1] + shift;
                bool usual = t->sum[m->at[i + 1]] - t->sum[m->at[i]] == m->usual;

                if (to >= t->n || from > last + shift)
                        break;
                out->step[out->n++] = (struct capo_step){
                        .t_ns = calls[from].t_ns,
                        .ns = calls[to].t_ns - calls[from].t_ns,
                        .first = from,
                        .n = to - from,
                        .plain = usual || step_is_plain(t, m->example, m->period, m->at[i],
                                                        m->at[i + 1] - m->at[i], counts)};
        }
        add_parts(t, m, m->example, out);
}

/*
 * For calls that all look alike: if a step has n calls, every n-th pause is long. Without such
 * pauses a step cannot be distinguished from a call.
 */
static void mark_pauses(const struct step_tokens *t, struct step_mark *m)
{
        _cleanup_free_ double *pause = xcalloc(t->n + 1, sizeof *pause);
        uint32_t *at = xcalloc(t->n + 1, sizeof *at), n = 0, same = 0, period = 0;
        double middle;

        for (uint32_t i = 1; i < t->n; i++)
                pause[i - 1] = (double)(t->calls[i].t_ns - t->calls[i - 1].t_ns);
        qsort(pause, t->n - 1, sizeof *pause, capo_order_double);
        middle = pause[(t->n - 1) / 2];
        for (uint32_t i = 1; i < t->n; i++) {
                if ((double)(t->calls[i].t_ns - t->calls[i - 1].t_ns) > 3 * middle)
                        at[n++] = i;
        }
        period = n < 4 ? 0 : at[n / 2 + 1] - at[n / 2];
        for (uint32_t i = 0; i + 1 < n; i++)
                same += at[i + 1] - at[i] == period;
        if (n < 4 || period <= m->period || same < 0.8 * (n - 1)) {
                free(at);
                return;
        }
        free(m->at);
        *m = (struct step_mark){.at = at, .n = n, .period = period, .repeats = same};
        for (uint32_t i = 0; i + 1 < n; i++) {
                if (at[i + 1] - at[i] == period) {
                        m->example = at[i];
                        m->usual = t->sum[at[i + 1]] - t->sum[at[i]];
                }
        }
}

/* Are the calls of a step all of one kind, or only sends and receives? Then it may be no step. */
static bool is_doubtful(const struct step_tokens *t, const struct step_mark *m, bool *p2p)
{
        bool one = true;

        *p2p = true;
        for (uint32_t i = 0; i < m->period; i++) {
                const struct capo_step_call *c = &t->calls[m->example + i];

                one &= t->of[m->example + i] == t->of[m->example];
                *p2p &= capo_call_kind(c->call) == CAPO_KIND_P2P;
        }
        return one || *p2p;
}

static void judge_alike(const struct step_tokens *t, struct step_mark *m, struct capo_steps *out)
{
        const struct capo_step_call *first = &t->calls[t->example[t->of[m->example]]];
        const char *what;
        bool p2p;

        if (!is_doubtful(t, m, &p2p))
                return;
        what = p2p ? "there are sends and receives alone" : "all calls look alike";
        if (!p2p && t->bytes[t->of[m->example]] != first->bytes * t->count[t->of[m->example]]) {
                out->known = CAPO_STEPS_NONE; /* the calls differ only in size, which this reading
                                                 ignores */
                return;
        }
        mark_pauses(t, m);
        out->known = CAPO_STEPS_UNCERTAIN;
        if (m->period != out->period) {
                snprintf(out->why, sizeof out->why,
                         "%s: each %u of them stand between longer pauses", what, m->period);
                out->inner = out->period;
        } else if (!*out->why) {
                snprintf(out->why, sizeof out->why, "%s: %s", what,
                         m->period == 1 ? "each is taken for a step"
                                        : "they may be micro-batches of a longer step");
        }
        out->period = m->period;
}

/* Find steps with one setting of @merge. */
static void find_once(const struct capo_step_call *calls, uint32_t n, unsigned merge,
                      struct capo_steps *out)
{
        struct step_tokens t;
        struct step_marks marks = {0};
        int at;

        step_tokens_make(calls, n, merge, &t);
        t.from = n > WINDOW ? n - WINDOW : 0;
        step_marks_find(&t, &marks);
        at = step_level_choose(&t, &marks, out);
        if (at >= 0) {
                if (t.from)
                        step_mark_follow(&t, &marks.mark[at]);
                judge_alike(&t, &marks.mark[at], out);
                lay_steps(calls, &t, &marks.mark[at], out);
        }
        step_marks_free(&marks);
        step_tokens_free(&t);
}

int capo_steps_find(const struct capo_step_call *calls, size_t n, struct capo_steps *out)
{
        struct capo_steps best = {0}, s;

        *out = (struct capo_steps){0};
        if (n < LEAST_CALLS || n > UINT32_MAX / 4) {
                tell_none(out,
                          n < LEAST_CALLS ? "there are too few calls" : "there are too many calls");
                return 0;
        }
        for (unsigned merge = 0; merge < MERGES; merge++) {
                s = (struct capo_steps){0};
                find_once(calls, (uint32_t)n, merge, &s);
                if (s.known > best.known ||
                    (s.known == best.known && s.covered > best.covered + BETTER)) {
                        capo_steps_finish(&best);
                        best = s;
                } else {
                        capo_steps_finish(&s);
                }
                if (best.known == CAPO_STEPS_FOUND)
                        break;
        }
        if (best.known == CAPO_STEPS_NONE) {
                capo_steps_finish(&best);
                tell_none(out, "the calls repeat in no pattern");
                return 0;
        }
        step_times(&best);
        *out = best;
        return 0;
}

void capo_steps_finish(struct capo_steps *s)
{
        free(s->part);
        free(s->step);
        *s = (struct capo_steps){0};
}
