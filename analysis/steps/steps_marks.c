/* SPDX-License-Identifier: Apache-2.0 */
/* A mark is a short sequence of consecutive calls, of the rank or of one of its communicators. Each
 * occurrence begins a repeat. If more than half of the repeats have the same calls in any order,
 * that is the usual repeat. Short marks find layers. Longer ones find steps, because they can tell
 * the last layer from the others. */
#include "analysis/steps/steps_parts.h"
#include "core/base/among.h"
#include "core/base/order.h"
#include "core/base/xalloc.h"

enum { LEAST_REPEATS = 3, COMMS = 8 };
#define LEAST_COVERED 0.3

static const unsigned lengths[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256};

/* The calls of the rank or of one communicator: positions, and the hash of the sequence that begins
 * at each. */
struct rows {
        uint32_t comm; /* STEP_ALL_COMMS */
        uint32_t *at, n;
        uint64_t *hash;
        unsigned length;
        uint32_t *slot_of, *slot, *count, *start, *place; /* scratch for sorting */
        uint32_t n_slots;
};

/* Group positions by equal sequence, ascending: s->place from s->start[k], s->count[k] of them.
 * Return: number of different sequences. */
static uint32_t sort_rows(struct rows *s)
{
        uint32_t n = s->n >= s->length ? s->n - s->length + 1 : 0, kinds = 0, sum = 0;

        memset(s->slot, 0, s->n_slots * sizeof *s->slot);
        memset(s->count, 0, (n + 1) * sizeof *s->count);
        for (uint32_t i = 0; i < n; i++) {
                uint32_t at = (uint32_t)(s->hash[i] * 0xd6e8feb86659fd93 >> 32) & (s->n_slots - 1);

                while (s->slot[at] && s->hash[s->place[s->slot[at] - 1]] != s->hash[i])
                        at = (at + 1) & (s->n_slots - 1);
                if (!s->slot[at]) {
                        s->place[kinds] = i; /* one position of the kind, until all are placed */
                        s->slot[at] = ++kinds;
                }
                s->slot_of[i] = s->slot[at] - 1;
                s->count[s->slot_of[i]]++;
        }
        for (uint32_t k = 0; k < kinds; k++) {
                s->start[k] = sum;
                sum += s->count[k];
                s->count[k] = 0;
        }
        for (uint32_t i = 0; i < n; i++) {
                uint32_t k = s->slot_of[i];

                s->place[s->start[k] + s->count[k]++] = i;
        }
        return kinds;
}

static uint64_t repeat_hash(const struct step_tokens *t, const struct rows *s, uint32_t from,
                            uint32_t to)
{
        return t->sum[s->at[to]] - t->sum[s->at[from]];
}

/* The usual repeat (majority vote) and its number. Repeats with a few small calls more also count.
 */
static struct step_mark judge_mark(const struct step_tokens *t, const struct rows *s,
                                   const uint32_t *place, uint32_t n)
{
        struct step_mark m = {.n = n, .length = s->length, .comm = s->comm};
        uint32_t votes = 0;

        for (uint32_t i = 0; i + 1 < n; i++) {
                uint64_t hash = repeat_hash(t, s, place[i], place[i + 1]);

                m.usual = votes ? m.usual : hash;
                votes += hash == m.usual ? 1 : -1u;
        }
        votes = 0;
        for (uint32_t i = 0; i + 1 < n; i++) {
                uint32_t length = s->at[place[i + 1]] - s->at[place[i]];

                if (repeat_hash(t, s, place[i], place[i + 1]) != m.usual)
                        continue;
                m.repeats++;
                if (!votes) {
                        m.period = length;
                        m.example = s->at[place[i]];
                }
                votes += length == m.period ? 1 : -1u;
        }
        return m;
}

/* Keep one mark per period: the one with most repeats. */
static void keep_mark(struct step_marks *marks, const struct step_mark *m, const struct rows *s,
                      const uint32_t *place)
{
        struct step_mark *to;
        uint32_t *at;

        to = FIRST_OF(k, marks->mark, marks->n, k->period == m->period);
        if (to && to->repeats >= m->repeats)
                return;
        if (!to && marks->n == STEP_FINALISTS)
                to = FIRST_OF(k, marks->mark, marks->n,
                              (uint64_t)k->repeats * k->period < (uint64_t)m->repeats * m->period);
        if (!to && marks->n == STEP_FINALISTS)
                return;
        at = xmalloc(m->n * sizeof *at);
        for (uint32_t i = 0; i < m->n; i++)
                at[i] = s->at[place[i]];
        to = to ? to : &marks->mark[marks->n++];
        free(to->at);
        *to = *m;
        to->at = at;
}

static void judge_rows(const struct step_tokens *t, struct rows *s, struct step_marks *marks)
{
        uint32_t kinds = sort_rows(s);

        for (uint32_t k = 0; k < kinds; k++) {
                const uint32_t *place = s->place + s->start[k];
                struct step_mark m;

                if (s->count[k] <= LEAST_REPEATS)
                        continue;
                m = judge_mark(t, s, place, s->count[k]);
                if (m.repeats >= LEAST_REPEATS && 2 * m.repeats > s->count[k] - 1 &&
                    (double)m.repeats * m.period >= LEAST_COVERED * (t->n - t->from))
                        keep_mark(marks, &m, s, place);
        }
}

static void find_marks(const struct step_tokens *t, struct rows *s, struct step_marks *marks)
{
        for (s->n_slots = 16; s->n_slots < 2 * (uint64_t)s->n;)
                s->n_slots *= 2;
        memset(s->hash, 0, (s->n + 1) * sizeof *s->hash);
        s->length = 0;
        for (size_t i = 0; i < N_ELEMENTS(lengths) && lengths[i] <= s->n / 3; i++) {
                for (; s->length < lengths[i]; s->length++) {
                        for (uint32_t k = 0; k + s->length < s->n; k++)
                                s->hash[k] = s->hash[k] * 0x9e3779b97f4a7c15 +
                                             t->hash[t->of[s->at[k + s->length]]];
                }
                judge_rows(t, s, marks);
        }
}

CAPO_ORDERED(by_period, struct step_mark, CAPO_ORDER(a->period, b->period));

/* Communicators by number of calls, largest first. Return: how many; 0 if all calls are on one. */
static uint32_t find_comms(const struct step_tokens *t, uint32_t *comm)
{
        uint32_t n = 0, count[COMMS] = {0};

        for (uint32_t k = 0; k < t->n_tokens; k++) {
                uint32_t c = t->calls[t->example[k]].comm, i = 0;

                while (i < n && comm[i] != c)
                        i++;
                if (i == COMMS)
                        continue;
                comm[i] = c;
                count[i] += t->count[k];
                n = i == n ? n + 1 : n;
        }
        return n > 1 ? n : 0;
}

/* Positions of the calls of @comm from @from on. Return: how many. */
static uint32_t find_places(const struct step_tokens *t, uint32_t comm, uint32_t from, uint32_t *at)
{
        uint32_t n = 0;

        for (uint32_t i = from; i < t->n; i++) {
                if (comm == STEP_ALL_COMMS || t->calls[i].comm == comm)
                        at[n++] = i;
        }
        return n;
}

void step_mark_follow(const struct step_tokens *t, struct step_mark *m)
{
        uint32_t *at = xcalloc(t->n + 1, sizeof *at), *to = xcalloc(t->n + 1, sizeof *to);
        uint32_t n = find_places(t, m->comm, 0, at), first = 0, kept = 0;

        while (first < n && at[first] != m->example)
                first++;
        for (uint32_t i = 0; i + m->length <= n; i++) {
                uint32_t k = 0;

                while (k < m->length && t->of[at[i + k]] == t->of[at[first + k]])
                        k++;
                if (k == m->length)
                        to[kept++] = at[i];
        }
        free(at);
        free(m->at);
        m->at = to;
        m->n = kept;
}

void step_marks_find(const struct step_tokens *t, struct step_marks *marks)
{
        uint32_t comm[COMMS], n_comms = find_comms(t, comm);
        size_t room = t->n + 1;
        uint32_t slots = 16;
        struct rows s;

        while (slots < 2 * room)
                slots *= 2;
        s = (struct rows){.at = xcalloc(room, sizeof *s.at),
                          .hash = xcalloc(room, sizeof *s.hash),
                          .slot_of = xcalloc(room, sizeof *s.slot_of),
                          .slot = xcalloc(slots, sizeof *s.slot),
                          .count = xcalloc(room + 1, sizeof *s.count),
                          .start = xcalloc(room, sizeof *s.start),
                          .place = xcalloc(room, sizeof *s.place)};
        *marks = (struct step_marks){0};
        for (uint32_t k = 0; k <= n_comms; k++) {
                s.comm = k < n_comms ? comm[k] : STEP_ALL_COMMS;
                s.n = find_places(t, s.comm, t->from, s.at);
                find_marks(t, &s, marks);
        }
        qsort(marks->mark, marks->n, sizeof marks->mark[0], by_period);
        xfree(s.at, s.hash, s.slot_of, s.slot, s.count, s.start, s.place);
}

void step_marks_free(struct step_marks *m)
{
        for (uint32_t i = 0; i < m->n; i++)
                free(m->mark[i].at);
        m->n = 0;
}
