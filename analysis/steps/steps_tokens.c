/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "analysis/steps/steps_parts.h"
#include "core/base/calls.h"
#include "core/base/util.h"
#include "core/base/xalloc.h"

/* Rare calls with few bytes are ignored: a log line, an averaged figure. */
enum { SMALL_BYTES = 4096 };
#define SELDOM 0.01

/* Sizes of a kind are ignored only if it has more of them than this. */
enum { MANY_SIZES = 4 };

struct key {
        uint64_t bytes;
        uint32_t comm;
        int32_t peer;
        uint32_t call;
};

static uint64_t mix_bits(uint64_t x)
{
        x ^= x >> 30;
        x *= 0xbf58476d1ce4e5b9;
        x ^= x >> 27;
        x *= 0x94d049bb133111eb;
        return x ^ x >> 31;
}

static uint64_t hash_key(const struct key *k)
{
        uint64_t h = mix_bits(k->bytes + 0x9e3779b97f4a7c15);

        h = mix_bits(h ^ ((uint64_t)k->comm << 32 | (uint32_t)k->peer));
        return mix_bits(h ^ k->call << 7) | 1;
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

static struct key key_of(const struct capo_step_call *c, bool sized)
{
        return (struct key){
                .bytes = sized ? c->bytes : 0, .comm = c->comm, .peer = c->peer, .call = c->call};
}

/* May @merge ignore the sizes of this kind? */
static bool may_merge(const struct capo_step_call *c, unsigned merge)
{
        enum capo_call_kind kind = capo_call_kind(c->call);

        return merge == 2 || (merge == 1 && (kind == CAPO_KIND_P2P || kind == CAPO_KIND_ALLTOALL ||
                                             kind == CAPO_KIND_EXCHANGE));
}

/* Find the calls whose size is ignored: those of a kind with many sizes. @any: by call; 0 or 1. */
static void find_many(const struct capo_step_call *calls, uint32_t n, unsigned merge, uint8_t *any)
{
        struct numbers kinds, sizes;
        _cleanup_free_ uint32_t *of = xcalloc(n, sizeof *of), *seen = xcalloc(n, sizeof *seen);

        numbers_new(&kinds, n);
        numbers_new(&sizes, n);
        for (uint32_t i = 0; i < n; i++) {
                struct key kind = key_of(&calls[i], false), size = key_of(&calls[i], true);
                uint32_t before = sizes.n;

                of[i] = number_of(&kinds, hash_key(&kind));
                number_of(&sizes, hash_key(&size));
                seen[of[i]] += sizes.n > before;
        }
        for (uint32_t i = 0; i < n; i++)
                any[i] = seen[of[i]] > MANY_SIZES && may_merge(&calls[i], merge);
        numbers_free(&kinds);
        numbers_free(&sizes);
}

void step_tokens_make(const struct capo_step_call *calls, uint32_t n, unsigned merge,
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
                struct key key = key_of(&calls[i], !any[i]);
                uint64_t hash = hash_key(&key);
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

void step_tokens_free(struct step_tokens *t)
{
        free(t->of);
        free(t->sum);
        free(t->hash);
        free(t->bytes);
        free(t->count);
        free(t->example);
        *t = (struct step_tokens){0};
}
