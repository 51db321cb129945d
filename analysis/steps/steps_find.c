/* SPDX-License-Identifier: Apache-2.0 */
/* From calls to steps: tokens, marks, choice of the level that is a step, times. In a long job the
 * pattern is found in the last calls and then followed through all of them. */
#include "analysis/steps/steps_parts.h"
#include "core/base/calls.h"
#include "core/base/order.h"
#include "core/base/xalloc.h"

/* Rare calls with few bytes are ignored: a log line, an averaged figure. */
enum { SMALL_BYTES = 4096 };
#define SELDOM 0.01

/* Sizes of a kind are ignored only if it has more of them than this. */
enum { MANY_SIZES = 4 };

static uint64_t mix_bits(uint64_t x)
{
        x ^= x >> 30;
        x *= 0xbf58476d1ce4e5b9;
        x ^= x >> 27;
        x *= 0x94d049bb133111eb;
        return x ^ x >> 31;
}

/* @sized: with its bytes. */
static uint64_t hash_call(const struct capo_step_call *c, bool sized)
{
        uint64_t h = mix_bits((sized ? c->bytes : 0) + 0x9e3779b97f4a7c15);

        h = mix_bits(h ^ ((uint64_t)c->comm << 32 | (uint32_t)c->peer));
        return mix_bits(h ^ (uint64_t)c->call << 7) | 1;
}

/* Hash -> number, in order of first appearance. 64 bits are enough to avoid collisions within a
 * log. */
struct numbers {
        uint64_t *hash;
        uint32_t *number;
        uint32_t mask, n;
};

static void numbers_new(struct numbers *t, uint32_t n)
{
        uint32_t slots = 16;

        while (slots < 2 * (uint64_t)n)
                slots *= 2;
        *t = (struct numbers){.hash = xcalloc(slots, sizeof *t->hash),
                              .number = xcalloc(slots, sizeof *t->number),
                              .mask = slots - 1};
}

static void numbers_free(struct numbers *t)
{
        free(t->hash);
        free(t->number);
}

static uint32_t number_of(struct numbers *t, uint64_t hash)
{
        uint32_t at = (uint32_t)hash & t->mask;

        while (t->hash[at] && t->hash[at] != hash)
                at = (at + 1) & t->mask;
        if (!t->hash[at]) {
                t->hash[at] = hash;
                t->number[at] = t->n++;
        }
        return t->number[at];
}

/* Find the calls whose size is ignored: those of a kind with many sizes. @any: by call; 0 or 1. */
static void find_many(const struct capo_step_call *calls, uint32_t n, unsigned merge, uint8_t *any)
{
        struct numbers kinds, sizes;
        _cleanup_free_ uint32_t *of = xcalloc(n, sizeof *of), *seen = xcalloc(n, sizeof *seen);

        numbers_new(&kinds, n);
        numbers_new(&sizes, n);
        for (uint32_t i = 0; i < n; i++) {
                uint32_t before = sizes.n;

                of[i] = number_of(&kinds, hash_call(&calls[i], false));
                number_of(&sizes, hash_call(&calls[i], true));
                seen[of[i]] += sizes.n > before;
        }
        for (uint32_t i = 0; i < n; i++) {
                enum capo_call_kind kind = capo_call_kind(calls[i].call);

                any[i] = seen[of[i]] > MANY_SIZES &&
                         (merge == 2 || kind == CAPO_KIND_P2P || kind == CAPO_KIND_ALLTOALL ||
                          kind == CAPO_KIND_EXCHANGE);
        }
        numbers_free(&kinds);
        numbers_free(&sizes);
}

/* @merge: 0: sizes count; 1: sizes of sends, receives and all-to-all are
 * ignored; 2: all sizes are ignored; each only for kinds with many sizes. */
static void step_tokens_make(const struct capo_step_call *calls, uint32_t n, unsigned merge,
                             struct step_tokens *t)
{
        struct numbers numbers;
        _cleanup_free_ uint8_t *any = xcalloc(n + 1, 1);

        numbers_new(&numbers, n);
        *t = (struct step_tokens){.calls = calls,
                                  .n = n,
                                  .of = xcalloc(n + 1, sizeof *t->of),
                                  .sum = xcalloc(n + 1, sizeof *t->sum),
                                  .hash = xcalloc(n + 1, sizeof *t->hash),
                                  .bytes = xcalloc(n + 1, sizeof *t->bytes),
                                  .count = xcalloc(n + 1, sizeof *t->count),
                                  .example = xcalloc(n + 1, sizeof *t->example)};
        if (merge)
                find_many(calls, n, merge, any);
        for (uint32_t i = 0; i < n; i++) {
                uint64_t hash = hash_call(&calls[i], !any[i]);
                uint32_t k = number_of(&numbers, hash);

                if (!t->count[k])
                        t->example[k] = i;
                t->of[i] = k;
                t->hash[k] = hash;
                t->count[k]++;
                t->bytes[k] += calls[i].bytes;
        }
        for (uint32_t i = 0; i < n; i++) {
                uint32_t k = t->of[i];
                bool seldom = t->bytes[k] / t->count[k] <= SMALL_BYTES && t->count[k] < SELDOM * n;

                t->sum[i + 1] = t->sum[i] + (seldom ? 0 : mix_bits(t->hash[k]));
        }
        t->n_tokens = numbers.n;
        numbers_free(&numbers);
}

/* Decides which repeat is a step. Layers repeat in micro-batches, micro-batches in steps, steps
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
 * If none holds, the shorter one is the step. */
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

/* Do the @n calls from @first contain the calls of the repeat at @of (@n_of
 * calls) and little more? @counts: one per token, all 0; left all 0. */
static bool step_is_plain(const struct step_tokens *t, uint32_t of, uint32_t n_of, uint32_t first,
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
static double share_covered(const struct step_tokens *t, const struct step_mark *m, int32_t *counts)
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

/* Choose the mark whose repeats are steps. Sets known, why, period and covered of @out. Return: its
 * index; -1: none. */
static int step_level_choose(const struct step_tokens *t, struct step_marks *marks,
                             struct capo_steps *out)
{
        _cleanup_free_ int32_t *a = xcalloc(t->n_tokens + 1, sizeof *a);
        _cleanup_free_ int32_t *b = xcalloc(t->n_tokens + 1, sizeof *b);
        double share[STEP_FINALISTS], reached = 0;
        int at = -1;

        for (uint32_t i = 0; i < marks->n; i++) {
                const struct step_mark *m = &marks->mark[i];
                enum verdict v;
                struct rest r;

                share[i] = share_covered(t, m, a);
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
                if (v == GO || v == GO_DOUBTING)
                        at = (int)i;
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

/* For calls that all look alike: if a step has n calls, every n-th pause is long. Without such
 * pauses a step cannot be distinguished from a call. */
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

static void judge_alike(const struct step_tokens *t, struct step_mark *m, struct capo_steps *out)
{
        const struct capo_step_call *first = &t->calls[t->example[t->of[m->example]]];
        enum nature nature = nature_of(t, m); /* if it is not mixed, it may be no step */
        bool p2p = nature == P2P;
        const char *what = p2p ? "there are sends and receives alone" : "all calls look alike";

        if (nature == MIXED)
                return;
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
        xfree(t.of, t.sum, t.hash, t.bytes, t.count, t.example);
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
