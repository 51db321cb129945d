/* SPDX-License-Identifier: Apache-2.0 */
#include "capo/msg.h"
#include "tuner/mix_bits.h"
#include "tuner/trial.h"

enum { PERIOD = 100, CALLS = 1000000, FIRST_CALLS = 4, MOST_TIMES = 2 };

static bool read_number(const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
        char *end;

        if (*text < '0' || *text > '9')
                return false;
        *out = strtoull(text, &end, 10);
        return !*end && *out >= least && *out <= most;
}

int capo_trial_parse(const char *text, struct capo_trial *out, char *why, size_t room)
{
        _cleanup_free_ char *copy = strdup(text);
        struct capo_trial t = {.period = PERIOD, .calls = CALLS};
        char *save = NULL;
        uint64_t n;

        if (!copy)
                return capo_why(-ENOMEM, why, room, "out of memory");
        for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
                if (!strcmp(word, "predicted"))
                        t.mode = CAPO_TRIAL_PREDICTED;
                else if (!strcmp(word, "guard"))
                        t.mode = CAPO_TRIAL_GUARD;
                else if (!strcmp(word, "tune"))
                        t.mode = CAPO_TRIAL_TUNE;
                else if (!strncmp(word, "period=", 7) && read_number(word + 7, 1, 1000000, &n))
                        t.period = (uint32_t)n;
                else if (!strncmp(word, "calls=", 6) && read_number(word + 6, 1, UINT32_MAX, &n))
                        t.calls = n;
                else
                        return capo_why(
                                -EINVAL, why, room,
                                "CAPO_TRIAL: expected predicted, guard or tune, period=N, calls=N, "
                                "found \"%s\"",
                                word);
        }
        if (*text && t.mode == CAPO_TRIAL_OFF)
                return capo_why(-EINVAL, why, room,
                                "CAPO_TRIAL: expected predicted, guard or tune, found \"%s\"",
                                text);
        *out = t;
        return 0;
}

static void set_bit(uint8_t *bits, uint32_t at) { bits[at / 8] |= (uint8_t)(1u << at % 8); }

int capo_trial_rows(struct capo_trial *trial, const struct capo_profile *p)
{
        size_t bytes = p->n_rows / 8 + 1;

        trial->predicted = calloc(2, bytes);
        if (!trial->predicted)
                return -ENOMEM;
        trial->guarded = trial->predicted + bytes;
        trial->n_rows = p->n_rows;
        for (uint32_t i = 0; i < p->n_rows; i++) {
                const struct capo_row *row = &p->rows[i];
                bool predicted = p->rules[row->rule].basis == CAPO_BASIS_MODELLED || row->predicted;

                /* calls are turned before NCCL asks: another way, not tried */
                if (!row->algo || capo_row_turned(row))
                        continue;
                if (predicted && trial->mode & CAPO_TRIAL_PREDICTED)
                        set_bit(trial->predicted, i);
                else if (trial->mode & CAPO_TRIAL_GUARD)
                        set_bit(trial->guarded, i);
        }
        return 0;
}

bool capo_trial_turn(const struct capo_trial *t, uint64_t comm, uint64_t nth)
{
        if (!comm || nth <= FIRST_CALLS || nth > t->calls)
                return false;
        return nth % t->period == mix_bits(mix_bits(comm) + nth / t->period) % t->period;
}

static bool is_set(const struct capo_trial *t, const uint8_t *bits, struct capo_choice c)
{
        uint32_t at = c.rule - 1u;

        return c.rule && at < t->n_rows && (bits[at / 8] >> at % 8 & 1);
}

/* By NCCL's own predictions. */
static bool is_worth_a_try(const struct capo_trial_ask *a, struct capo_choice c)
{
        float cost;

        if (!a->table || c.algo > a->n_algos || c.proto > a->n_protos)
                return false;
        cost = a->table[(c.algo - 1) * a->n_protos + c.proto - 1];
        return cost >= 0 &&
               cost <= MOST_TIMES * capo_least_cost(a->table, a->n_algos * a->n_protos);
}

struct capo_choice capo_trial_choose(const struct capo_trial *t, const struct capo_trial_ask *a,
                                     struct capo_choice c)
{
        const struct capo_choice leave = {0};
        bool turn;

        if (!c.algo || c.rule == UINT16_MAX) /* which row the last number stands for nobody knows */
                return t->mode & CAPO_TRIAL_PREDICTED && c.algo ? leave : c;
        if (!is_set(t, t->predicted, c) && !is_set(t, t->guarded, c))
                return c;
        turn = capo_trial_turn(t, a->comm, a->nth);
        if (is_set(t, t->guarded, c))
                return turn ? leave : c;
        return turn && is_worth_a_try(a, c) ? c : leave;
}
