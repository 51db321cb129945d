/* SPDX-License-Identifier: Apache-2.0 */
/* Compiling: the rows of the rules that hold become tables whose look-up does not depend on the
 * number of rows. It happens once per shape of communicator.
 *
 * JSON and CSV differ in one thing. A JSON rule decides all sizes of a collective, so its rows are
 * a table already, and rules with asked conditions form a short list of (condition, table) in order
 * of preference. CSV lines lay over each other, the first that fits wins; so for each combination
 * of answers to the asked conditions the lines are painted into one table, earlier lines on top:
 * sizes are cut at every boundary of a line, and each line takes the pieces that no earlier one
 * has. "Next free piece" is a list of forward references that is shortened as it is walked
 * (union-find with path compression), so that n lines take n log n steps and not n * n. */
#include "capo/algorithms.h"
#include "capo/collectives.h"
#include "core/base/nccl_facts.h"
#include "core/base/order.h"
#include "core/profile/profile_file.h"
#include "core/profile/range.h"
#include "core/profile/profile_table.h"

#define BITS_MAX 9 /* 512 buckets for a power of two: 8 KiB */

struct capo_tables_block {
        struct capo_tables_block *next;
        _Alignas(16) char bytes[];
};

static void *block_new(struct capo_tables *t, size_t size)
{
        struct capo_tables_block *b = malloc(sizeof *b + size);

        if (!b)
                return NULL;
        b->next = t->blocks;
        t->blocks = b;
        return b->bytes;
}

void capo_tables_free(struct capo_tables *t)
{
        if (!t)
                return;
        for (struct capo_tables_block *b = t->blocks, *next; b; b = next) {
                next = b->next;
                free(b);
        }
        free(t);
}

/* Steps while a table is made. */
struct steps {
        uint64_t *upto;
        uint32_t *choice;
        uint32_t n;
};

static uint32_t choice_of(const struct capo_profile *p, const struct capo_row *row,
                          const struct capo_shape *s)
{
        size_t index = (size_t)(row - p->rows) + 1;
        struct capo_choice c = {.algo = row->algo,
                                .proto = row->proto,
                                .channels = row->channels,
                                .rule = index < UINT16_MAX ? (uint16_t)index : UINT16_MAX};

        if (row->predicted && !s->allow_modelled)
                return CAPO_CELL_LEAVE;
        if (c.algo == CAPO_ALGO_COLLNET_DIRECT || c.algo == CAPO_ALGO_COLLNET_CHAIN ||
            ((c.algo == CAPO_ALGO_NVLS || c.algo == CAPO_ALGO_NVLS_TREE) && s->n_nodes > 1) ||
            (row->coll == CAPO_COLL_ALLGATHER &&
             capo_nccl_has(s->nccl, CAPO_NCCL_ALLGATHER_CHANNELS_UNSAFE)))
                c.channels = 0;
        if (capo_nccl_has(s->nccl, CAPO_NCCL_CHANNELS_32) && c.channels > 32)
                c.channels = 32;
        return capo_choice_pack(c);
}

static unsigned octave_of(uint64_t bytes) { return 63 ^ (unsigned)__builtin_clzll(bytes | 1); }

/* The fewest binary digits that tell steps @first to @last-1 of octave @o apart, within reason. */
static unsigned choose_bits(const struct steps *s, uint32_t first, uint32_t last, unsigned o)
{
        unsigned most = o < BITS_MAX ? o : BITS_MAX, bits = 0;

        for (uint32_t i = first + 1; i < last && bits < most; i++) {
                while (bits < most && s->upto[i] >> (o - bits) == s->upto[i - 1] >> (o - bits))
                        bits++;
        }
        return bits;
}

/* @s: rising, ends with UINT64_MAX, which is no boundary. */
static const struct capo_table *table_new(struct capo_tables *t, const struct steps *s)
{
        uint8_t bits[64];
        uint32_t n_buckets = 0, step = 0, at = 0;
        struct capo_bucket *bucket;
        struct capo_table *table;
        uint64_t *upto;
        uint32_t *choice;

        for (unsigned o = 0; o < 64; o++) {
                uint32_t first = step;

                while (step + 1 < s->n && octave_of(s->upto[step]) == o)
                        step++;
                bits[o] = (uint8_t)choose_bits(s, first, step, o);
                n_buckets += 1u << bits[o];
        }
        table = block_new(t, sizeof *table + n_buckets * sizeof *bucket +
                                     s->n * (sizeof *upto + sizeof *choice));
        if (!table)
                return NULL;
        bucket = table->bucket;
        upto = (uint64_t *)(bucket + n_buckets);
        choice = (uint32_t *)(upto + s->n);
        memcpy(upto, s->upto, s->n * sizeof *upto);
        memcpy(choice, s->choice, s->n * sizeof *choice);
        table->upto = upto;
        table->choice = choice;
        table->n_steps = s->n;
        step = 0;
        for (unsigned o = 0; o < 64; o++) {
                uint32_t n = 1u << bits[o], shift = o - bits[o];

                /* The highest bit is in size >> shift, except for 0, in the bucket of 1. */
                table->octave[o] =
                        o ? (struct capo_octave){shift, at - n} : (struct capo_octave){1, at};
                for (uint32_t k = 0; k < n; k++) {
                        /* its last size; one more would be 0 in the last of all */
                        uint64_t end = (((uint64_t)n + k + 1) << shift) - 1;
                        uint32_t first = step;

                        while (step + 1 < s->n && s->upto[step] <= end)
                                step++;
                        bucket[at++] = step - first > 1
                                               ? (struct capo_bucket){0, CAPO_CELL_CROWDED, 0}
                                       : step == first
                                               ? (struct capo_bucket){UINT64_MAX, choice[step], 0}
                                               : (struct capo_bucket){upto[first], choice[first],
                                                                      choice[first] ^ choice[step]};
                }
        }
        return table;
}

struct capo_choice capo_table_crowded(const struct capo_table *t, uint64_t bytes)
{
        uint64_t first = 0, last = t->n_steps - 1;

        while (first < last) {
                uint64_t middle = first + (last - first) / 2;

                if (bytes <= t->upto[middle])
                        last = middle;
                else
                        first = middle + 1;
        }
        return capo_choice_unpack(t->choice[first]);
}

static const struct capo_table *end_steps(struct capo_tables *t, struct steps *s)
{
        if (!s->n ||
            s->upto[s->n - 1] != UINT64_MAX) { /* only a profile built in memory can end early */
                s->upto[s->n] = UINT64_MAX;
                s->choice[s->n++] = CAPO_CELL_LEAVE;
        }
        return table_new(t, s);
}

/* The rows of one JSON rule are steps as they stand. */
static const struct capo_table *table_of_rule(struct capo_tables *t, const struct capo_profile *p,
                                              const struct capo_rule *rule, int coll,
                                              const struct capo_shape *shape, struct steps *s)
{
        for (s->n = 0; s->n < rule->count[coll]; s->n++) {
                const struct capo_row *row = &p->rows[rule->first[coll] + s->n];

                s->upto[s->n] = row->upto;
                s->choice[s->n] = choice_of(p, row, shape);
                if (row->chunk && (shape->nccl <= 0 || capo_nccl_has(shape->nccl, CAPO_NCCL_CHUNK)))
                        t->chunks = p->rows;
        }
        return end_steps(t, s);
}

/* What calls are turned for by the rule that always holds. */
static int compile_turns(struct capo_tables *t, const struct capo_profile *p,
                         const struct capo_rule *rule, int coll, struct steps *s)
{
        struct capo_turn *turns = NULL;

        for (s->n = 0; s->n < rule->count[coll] && s->n < UINT16_MAX; s->n++) {
                size_t index = rule->first[coll] + s->n;
                const struct capo_row *row = &p->rows[index];

                s->upto[s->n] = row->upto;
                s->choice[s->n] = CAPO_CELL_LEAVE;
                if (!capo_row_turned(row) ||
                    index + 1 >= UINT16_MAX) /* a record has no number for it */
                        continue;
                if (!turns)
                        turns = block_new(t, rule->count[coll] * sizeof *turns);
                if (!turns)
                        return -ENOMEM;
                turns[s->n] = (struct capo_turn){row->kernel, row->ctas, row->cluster,
                                                 row->cta_policy, (uint16_t)(index + 1)};
                s->choice[s->n] |= (s->n + 1) << 16;
        }
        if (!turns)
                return 0;
        t->turns[coll] = turns;
        t->turn[coll] = end_steps(t, s);
        return t->turn[coll] ? 0 : -ENOMEM;
}

static int compile_rules(struct capo_tables *t, const struct capo_profile *p,
                         const struct capo_shape *shape, const uint32_t *order, int n, int coll,
                         struct steps *s)
{
        struct capo_branch *list = NULL;
        int used = 0;

        for (int i = 0; i < n; i++) {
                const struct capo_rule *rule = &p->rules[order[i]];
                bool asks = capo_when_asks(&rule->when);
                const struct capo_table *table;

                if (!rule->count[coll])
                        continue;
                table = table_of_rule(t, p, rule, coll, shape, s);
                if (!table)
                        return -ENOMEM;
                if (!asks) {
                        t->table[coll] = table;
                        if (!list && capo_nccl_has(shape->nccl, CAPO_NCCL_CALL_CONFIG) &&
                            compile_turns(t, p, rule, coll, s) < 0)
                                return -ENOMEM;
                        break;
                }
                if (!list)
                        list = block_new(t, (size_t)(n - i + 1) * sizeof *list);
                if (!list)
                        return -ENOMEM;
                list[used++] = (struct capo_branch){&rule->when, table};
                t->asks = true;
                t->asks_links |= rule->when.link || !capo_range_any(rule->when.ring_gbs) ||
                                 !capo_range_any(rule->when.tree_gbs);
        }
        if (list)
                list[used] = (struct capo_branch){NULL, t->table[coll]};
        t->branch[coll] = list;
        return 0;
}

/* Painting: cut the sizes at every boundary, then each line takes what no earlier line has taken.
 */
struct canvas {
        uint64_t *cut;  /* first size of each piece, rising, cut[0] == 0 */
        uint32_t *next; /* next piece that may be free, path-compressed */
        uint32_t n;
};

static uint32_t next_free(struct canvas *c, uint32_t i)
{
        uint32_t root = i, up;

        while (c->next[root] != root)
                root = c->next[root];
        for (; c->next[i] != root && i != root; i = up) {
                up = c->next[i];
                c->next[i] = root;
        }
        return root;
}

static uint32_t piece_at(const struct canvas *c, uint64_t size)
{
        uint32_t low = 0, high = c->n;

        while (high - low > 1) {
                uint32_t middle = low + (high - low) / 2;

                if (c->cut[middle] <= size)
                        low = middle;
                else
                        high = middle;
        }
        return low;
}

/* Lines of @coll that fit a question in the cell @q, painted. NULL: no memory. */
static const struct capo_table *paint_table(struct capo_tables *t, const struct capo_profile *p,
                                            const struct capo_shape *shape, const uint32_t *order,
                                            int n, int coll, const struct capo_question *q,
                                            struct steps *s)
{
        _cleanup_free_ uint64_t *cut = malloc((2 * (size_t)p->n_rows + 1) * sizeof *cut);
        _cleanup_free_ uint32_t *next = malloc((2 * (size_t)p->n_rows + 2) * sizeof *next);
        struct canvas c = {cut, next, 0};
        uint32_t unique = 1;

        if (!cut || !next)
                return NULL;
        cut[c.n++] = 0;
        for (int pass = 0; pass < 2; pass++) {
                for (int i = 0; i < n; i++) {
                        const struct capo_rule *rule = &p->rules[order[i]];

                        if (!capo_when_asked(&rule->when, q))
                                continue;
                        for (uint32_t k = 0; k < rule->count[coll]; k++) {
                                const struct capo_row *row = &p->rows[rule->first[coll] + k];
                                uint32_t end, piece;

                                if (!pass) {
                                        cut[c.n++] = row->from;
                                        if (row->upto != UINT64_MAX)
                                                cut[c.n++] = row->upto + 1;
                                        continue;
                                }
                                end = row->upto == UINT64_MAX ? c.n : piece_at(&c, row->upto) + 1;
                                for (piece = next_free(&c, piece_at(&c, row->from)); piece < end;
                                     piece = next_free(&c, piece)) {
                                        s->choice[piece] = choice_of(p, row, shape);
                                        next[piece] = piece + 1;
                                }
                        }
                }
                if (pass)
                        break;
                qsort(cut, c.n, sizeof *cut, capo_order_u64);
                for (uint32_t i = 1; i < c.n; i++) {
                        if (cut[i] != cut[unique - 1])
                                cut[unique++] = cut[i];
                }
                c.n = unique;
                for (uint32_t i = 0; i < c.n; i++) {
                        next[i] = i;
                        s->choice[i] = CAPO_CELL_LEAVE; /* of no row */
                }
                next[c.n] = c.n;
        }
        for (uint32_t i = s->n = 0; i < c.n; i++) { /* neighbours with one answer are one step */
                if (s->n && s->choice[s->n - 1] == s->choice[i])
                        s->n--;
                s->choice[s->n] = s->choice[i];
                s->upto[s->n++] = i + 1 < c.n ? cut[i + 1] - 1 : UINT64_MAX;
        }
        return table_new(t, s);
}

static int compile_csv(struct capo_tables *t, const struct capo_profile *p,
                       const struct capo_shape *shape, const uint32_t *order, int n, int coll,
                       struct steps *s)
{
        int pipes[64], n_pipes = 0, used = 0;
        bool reg = false;
        struct capo_branch *list;
        struct capo_when *when;

        for (int i = 0; i < n; i++) {
                const struct capo_rule *rule = &p->rules[order[i]];
                int pipe = (int)rule->when.pipe_ops.min, k;

                if (!rule->count[coll])
                        continue;
                reg |= rule->when.reg_buff >= 0;
                for (k = 0; pipe >= 0 && k < n_pipes && pipes[k] != pipe; k++)
                        ;
                if (pipe >= 0 && k == n_pipes) {
                        if (n_pipes == (int)N_ELEMENTS(pipes))
                                return -E2BIG;
                        pipes[n_pipes++] = pipe;
                }
        }
        /* The last cell of each kind is "any other": no pipe_ops that a line names; registration
         * not known. */
        list = block_new(t, (size_t)(n_pipes + 1) * 3 * sizeof *list);
        when = block_new(t, (size_t)(n_pipes + 1) * 3 * sizeof *when);
        if (!list || !when)
                return -ENOMEM;
        for (int k = 0; k <= n_pipes; k++) {
                for (int r = reg ? 1 : -1; r >= -1; r--) {
                        struct capo_question q = {.coll = (uint8_t)coll,
                                                  .reg_buff = (int8_t)r,
                                                  .pipe_ops = k < n_pipes ? pipes[k] : -1};
                        bool last = k == n_pipes && r == -1;

                        when[used] = capo_when_any;
                        when[used].pipe_ops = (struct capo_range){q.pipe_ops, q.pipe_ops};
                        when[used].reg_buff = q.reg_buff;
                        list[used] = (struct capo_branch){
                                last ? NULL : &when[used],
                                paint_table(t, p, shape, order, n, coll, &q, s)};
                        if (!list[used++].table)
                                return -ENOMEM;
                }
        }
        t->table[coll] = list[used - 1].table;
        if (used > 1) {
                t->branch[coll] = list;
                t->asks = true;
        }
        return 0;
}

int capo_tables_new(const struct capo_profile *p, const struct capo_shape *shape,
                    struct capo_tables **out)
{
        _cleanup_free_ uint32_t *order = NULL;
        struct capo_tables *t = calloc(1, sizeof *t);
        int n = t ? capo_match(p, shape, &order) : -ENOMEM, r = 0;
        struct steps s = {0};
        size_t room = 2;

        for (int i = 0; i < n; i++) {
                const struct capo_rule *rule = &p->rules[order[i]];

                for (int c = 0; c < CAPO_COLLS; c++)
                        room = p->csv                      ? room + 2 * rule->count[c]
                               : rule->count[c] + 2 > room ? rule->count[c] + 2
                                                           : room;
                if (rule->n_constants && !capo_when_asks(&rule->when) && !t->constants)
                        t->constants = rule;
        }
        if (n > 0) {
                t->first = &p->rules[order[0]];
                s.upto = malloc(room * sizeof *s.upto);
                s.choice = malloc(room * sizeof *s.choice);
                if (!s.upto || !s.choice)
                        r = -ENOMEM;
        }
        for (int coll = 0; n > 0 && coll < CAPO_COLLS && r == 0; coll++) {
                bool listed = false;

                for (int i = 0; i < n && !listed; i++)
                        listed = p->rules[order[i]].count[coll] > 0;
                if (listed)
                        r = p->csv ? compile_csv(t, p, shape, order, n, coll, &s)
                                   : compile_rules(t, p, shape, order, n, coll, &s);
        }
        free(s.upto);
        free(s.choice);
        if (n < 0 || r < 0) {
                capo_tables_free(t);
                return n < 0 ? n : r;
        }
        *out = t;
        return 0;
}
