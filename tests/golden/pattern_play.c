/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/calls.h"
#include "core/base/util.h"
#include "tests/golden/pattern_play.h"
#include "tests/log_numbers.h"

enum { STREAMS = 64 };

int pattern_place(const struct pattern_comm *c, unsigned r, unsigned *inst)
{
        for (unsigned i = 0; i < c->n_inst * c->n; i++) {
                if (c->member[i] == r) {
                        *inst = i / c->n;
                        return (int)(i % c->n);
                }
        }
        return -1;
}

unsigned pattern_item(const struct pattern_class *c, unsigned i)
{
        unsigned n = 1;

        while (c->call[i].group && i + n < c->n_calls && c->call[i + n].group == c->call[i].group)
                n++;
        return n;
}

/* The key of what @like says, made if it is not there. */
static uint32_t key_like(struct pattern_play *play, const struct pattern_key *like)
{
        for (uint32_t k = 0; k < play->n_keys; k++) {
                const struct pattern_key *key = &play->key[k];

                if (key->family == like->family && key->p2p == like->p2p &&
                    key->inst == like->inst && key->from == like->from && key->to == like->to &&
                    key->nth == like->nth)
                        return k;
        }
        play->key = realloc(play->key, (play->n_keys + 1) * sizeof *play->key);
        if (!play->key)
                exit(1);
        play->key[play->n_keys] = *like;
        return play->n_keys++;
}

static void find_keys(struct pattern_play *play, unsigned r)
{
        const struct pattern_class *class = pattern_class_of(play->p, r);
        unsigned collectives[PATTERN_COMMS + 1] = {0},
                                             sent[PATTERN_COMMS + 1][PATTERN_RANKS] = {{0}},
                                             received[PATTERN_COMMS + 1][PATTERN_RANKS] = {{0}};

        for (unsigned i = 0; i < class->n_calls; i++) {
                const struct pattern_call *c = &class->call[i];
                const struct pattern_comm *comm = &play->p->comm[c->comm];
                enum capo_call_kind kind = capo_call_kind(c->call);
                struct pattern_key like = {.family = c->comm, .p2p = kind == CAPO_KIND_P2P};
                int place = pattern_place(comm, r, &like.inst);
                uint32_t *key = &play->key_of[r * play->most_calls + i];

                *key = PATTERN_NO_KEY;
                if (kind == CAPO_KIND_OTHER)
                        continue;
                if (place < 0 || (like.p2p && (unsigned)c->peer >= comm->n)) {
                        fprintf(stderr,
                                "pattern: rank %u calls in a communicator that it is not in\n", r);
                        exit(1);
                }
                if (like.p2p) {
                        bool sends = c->call == CAPO_CALL_SEND;

                        like.from = (unsigned)(sends ? place : c->peer);
                        like.to = (unsigned)(sends ? c->peer : place);
                        like.nth = (sends ? sent : received)[c->comm][c->peer]++;
                        like.needed = 2;
                } else {
                        like.nth = collectives[c->comm]++;
                        like.shared = comm->grows;
                        like.needed = comm->n * (comm->grows ? play->job->copies : 1);
                }
                *key = key_like(play, &like);
                play->key[*key].ranks |= 1ull << r;
        }
}

/* Every rank one item after the other; a collective at the same tick everywhere, a receive not
 * before its send. */
static void find_ticks(struct pattern_play *play)
{
        bool moved = true;

        for (unsigned turn = 0; moved; turn++) {
                if (turn == 10000) {
                        fputs("pattern: its calls have no order\n", stderr);
                        exit(1);
                }
                moved = false;
                for (unsigned r = 0; r < play->p->ranks; r++) {
                        const struct pattern_class *class = pattern_class_of(play->p, r);
                        uint32_t next = 0, *tick_of = &play->tick_of[r * play->most_calls];

                        for (unsigned i = 0, n; i < class->n_calls; i += n) {
                                uint32_t tick = next;

                                n = pattern_item(class, i);
                                for (unsigned k = i; k < i + n; k++) {
                                        uint32_t key = pattern_key_at(play, r, k);

                                        if (key != PATTERN_NO_KEY &&
                                            class->call[k].call != CAPO_CALL_SEND &&
                                            play->key[key].tick > tick)
                                                tick = play->key[key].tick;
                                }
                                for (unsigned k = i; k < i + n; k++) {
                                        uint32_t key = pattern_key_at(play, r, k);

                                        moved |= tick_of[k] != tick;
                                        tick_of[k] = tick;
                                        if (key != PATTERN_NO_KEY &&
                                            class->call[k].call != CAPO_CALL_RECV)
                                                play->key[key].tick = tick;
                                }
                                next = tick + 1;
                        }
                        play->ticks = next > play->ticks ? next : play->ticks;
                }
        }
}

/* ---- a round with a fault ---- */

struct faulty {
        unsigned *arrived; /* by key and copy */
        uint8_t *there;    /* by rank and call: has it arrived */
        unsigned poisoned; /* the one that never ends, as `arrived` counts; UINT_MAX none */
};

static unsigned slot_of(const struct pattern_play *play, uint32_t key, unsigned rank)
{
        unsigned copy = play->key[key].shared ? 0 : rank / play->p->ranks;

        return key * play->job->copies + copy;
}

/* One turn of one rank: the head of each of its streams; NCCL has the calls of a communicator one
 * after the other, on whatever streams they are. Return: did anything move? */
static bool advance(struct pattern_play *play, struct faulty *f, unsigned rank)
{
        const struct pattern_class *class = pattern_class_of(play->p, rank);
        unsigned n_calls = class->n_calls;
        bool blocked[STREAMS] = {false}, busy[PATTERN_COMMS + 1] = {false}, moved = false;

        if (play->job->fault == PATTERN_MISSING && rank == play->job->fault_rank)
                n_calls = play->job->fault_at;
        for (unsigned i = 0, n; i < n_calls; i += n) {
                unsigned stream = class->call[i].stream % STREAMS;
                bool whole = true, waits = blocked[stream];

                n = pattern_item(class, i);
                if (play->ended[(size_t)rank * play->most_calls + i])
                        continue;
                for (unsigned k = i; k < i + n; k++)
                        waits |= busy[class->call[k].comm];
                for (unsigned k = i; !waits && k < i + n; k++) {
                        uint32_t key = pattern_key_at(play, rank, k);
                        size_t at = (size_t)rank * play->most_calls + k;

                        if (key == PATTERN_NO_KEY || class->call[k].captured)
                                continue;
                        if (!f->there[at]) {
                                f->there[at] = 1;
                                f->arrived[slot_of(play, key, rank)]++;
                                moved = true;
                        }
                        whole &= f->arrived[slot_of(play, key, rank)] >= play->key[key].needed &&
                                 slot_of(play, key, rank) != f->poisoned;
                }
                whole &= !waits;
                blocked[stream] |= !whole;
                for (unsigned k = i; !whole && k < i + n; k++)
                        busy[class->call[k].comm] = true;
                for (unsigned k = i; whole && k < i + n; k++)
                        play->ended[(size_t)rank * play->most_calls + k] = 1;
                moved |= whole;
        }
        return moved;
}

static void play_fault(struct pattern_play *play)
{
        unsigned ranks = play->p->ranks * play->job->copies;
        struct faulty f = {
                .arrived = calloc((size_t)play->n_keys * play->job->copies + 1, sizeof *f.arrived),
                .there = calloc((size_t)ranks * play->most_calls + 1, 1),
                .poisoned = UINT32_MAX};
        bool moved = true;

        if (play->job->fault_rank >= ranks ||
            play->job->fault_at >= pattern_class_of(play->p, play->job->fault_rank)->n_calls ||
            (play->job->fault == PATTERN_DIFFERS &&
             pattern_key_at(play, play->job->fault_rank, play->job->fault_at) == PATTERN_NO_KEY)) {
                fputs("pattern: there is no such call to plant a fault at\n", stderr);
                exit(1);
        }
        play->ended = calloc((size_t)ranks * play->most_calls + 1, 1);
        if (!f.arrived || !f.there || !play->ended)
                exit(1);
        if (play->job->fault == PATTERN_DIFFERS)
                f.poisoned = slot_of(
                        play, pattern_key_at(play, play->job->fault_rank, play->job->fault_at),
                        play->job->fault_rank);
        while (moved) {
                moved = false;
                for (unsigned rank = 0; rank < ranks; rank++)
                        moved |= advance(play, &f, rank);
        }
        free(f.arrived);
        free(f.there);
}

void pattern_play(const struct pattern *p, const struct pattern_job *job, struct pattern_play *out)
{
        *out = (struct pattern_play){.p = p, .job = job};
        for (unsigned i = 0; i < p->n_classes; i++)
                out->most_calls = p->class[i].n_calls > out->most_calls ? p->class[i].n_calls
                                                                        : out->most_calls;
        out->key_of = calloc((size_t)p->ranks * out->most_calls + 1, sizeof *out->key_of);
        out->tick_of = calloc((size_t)p->ranks * out->most_calls + 1, sizeof *out->tick_of);
        if (!out->key_of || !out->tick_of)
                exit(1);
        for (unsigned r = 0; r < p->ranks; r++)
                find_keys(out, r);
        find_ticks(out);
        if (job->fault != PATTERN_WHOLE)
                play_fault(out);
}

void pattern_play_free(struct pattern_play *play)
{
        free(play->key);
        free(play->key_of);
        free(play->tick_of);
        free(play->ended);
}
