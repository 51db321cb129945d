/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a sweep and its schedule: text in, decisions out, nothing else. See sweep_plan.h. */
#include "capo/msg.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/log/rules.h"
#include "core/profile/value.h"
#include "tuner/mix_bits.h"
#include "tuner/sweep_plan.h"
#include "tuner/trial.h"

enum { FIRST_CALLS = 4, DEFAULT_TURNS = 2 };

struct list {
        uint32_t value[CAPO_SWEEP_VALUES], n;
};
struct lists {
        struct list algos, protos, channels, chunks;
};

static bool put_value(struct list *l, uint64_t value, bool good)
{
        if (!good || l->n == N_ELEMENTS(l->value))
                return false;
        l->value[l->n++] = (uint32_t)value;
        return true;
}

/* False: not known or out of range. */
static bool parse_item(struct capo_sweep_plan *plan, struct lists *l, const char *key,
                       const char *item)
{
        char *end, lo[32];
        const char *dash = strchr(item, '-');
        uint64_t v = strtoull(item, &end, 10);
        bool number = !*end && end != item;
        int coll;

        if (!strcmp(key, "colls")) {
                coll = capo_coll_find(item);
                plan->colls |= coll < 0 ? 0 : (uint8_t)(1u << coll);
                return coll >= 0;
        }
        if (!strcmp(key, "algos")) {
                v = capo_algo_find(item);
                return put_value(&l->algos, v, v && l->algos.n <= CAPO_NCCL_ALGOS);
        }
        if (!strcmp(key, "protos")) {
                v = capo_proto_find(item);
                return put_value(&l->protos, v, v && l->protos.n <= CAPO_NCCL_PROTOS);
        }
        if (!strcmp(key, "channels"))
                return put_value(&l->channels, v, number && v <= CAPO_CHANNELS_MAX);
        if (!strcmp(key, "chunks")) {
                number = capo_size_parse(item, &v) == 0;
                return put_value(&l->chunks, v,
                                 number && (!v || v >= CAPO_CHUNK_MIN) && v <= CAPO_CHUNK_MAX);
        }
        if (!strcmp(key, "calls")) {
                plan->calls = v;
                return number;
        }
        if (!strcmp(key, "slower"))
                return capo_number_parse(item, strlen(item), &plan->slower) && plan->slower >= 0;
        if (strcmp(key, "sizes") || !dash || (size_t)(dash - item) >= sizeof lo)
                return false;
        snprintf(lo, sizeof lo, "%.*s", (int)(dash - item), item);
        return capo_size_parse(lo, &plan->min_bytes) == 0 &&
               capo_size_parse(dash + 1, &plan->max_bytes) == 0 &&
               plan->min_bytes <= plan->max_bytes;
}

/* "allreduce:20:3" begins a list of ids, "7" continues it. */
static bool keep_candidate(struct capo_sweep_plan *plan, const char *item,
                           struct capo_sweep_list **list)
{
        char name[24];
        unsigned log2, id;
        int coll;

        if (sscanf(item, "base:%u", &id) == 1) {
                *list = &plan->base;
        } else if (sscanf(item, "%23[a-z]:%u:%u", name, &log2, &id) == 3) {
                coll = capo_coll_find(name);
                if (coll < 0 || log2 > 63)
                        return false;
                *list = &plan->keep[coll][log2];
        } else if (!*list || sscanf(item, "%u", &id) != 1) {
                return false;
        }
        if (id < 1 || id > CAPO_SWEEP_CANDIDATES)
                return false;
        capo_sweep_put(*list, id - 1);
        return true;
}

/* Return: false: too many. */
static bool multiply_lists(struct capo_sweep_plan *plan, struct lists *l)
{
        bool all_algos = !l->algos.n, all_protos = !l->protos.n;

        for (unsigned a = 1; all_algos && a <= CAPO_NCCL_ALGOS; a++)
                put_value(&l->algos, a, true);
        for (unsigned p = 1; all_protos && p <= CAPO_NCCL_PROTOS; p++)
                put_value(&l->protos, p, true);
        plan->n_channels = l->channels.n ? l->channels.n : 1;
        plan->n_chunks = l->chunks.n ? l->chunks.n : 1;
        if (l->algos.n * l->protos.n * plan->n_channels * plan->n_chunks > CAPO_SWEEP_CANDIDATES)
                return false;
        for (unsigned pair = 0; pair < l->algos.n * l->protos.n; pair++) {
                for (unsigned c = 0; c < plan->n_channels * plan->n_chunks; c++) {
                        plan->candidate[plan->n].algo = (uint8_t)l->algos.value[pair / l->protos.n];
                        plan->candidate[plan->n].proto =
                                (uint8_t)l->protos.value[pair % l->protos.n];
                        plan->candidate[plan->n].channels =
                                (uint8_t)l->channels.value[c / plan->n_chunks];
                        plan->candidate[plan->n++].chunk = l->chunks.value[c % plan->n_chunks];
                }
        }
        return true;
}

int capo_sweep_plan_parse(const char *text, struct capo_sweep_plan *plan, char *why, size_t room)
{
        _cleanup_free_ char *copy = strdup(text);
        struct lists l = {0};
        char *save = NULL;

        *plan = (struct capo_sweep_plan){.max_bytes = UINT64_MAX, .calls = 20000, .slower = 4};
        for (char *field = copy ? strtok_r(copy, " ", &save) : NULL; field;
             field = strtok_r(NULL, " ", &save)) {
                char *eq = strchr(field, '='), *more = NULL;
                struct capo_sweep_list *list = NULL;

                if (eq)
                        *eq = 0;
                for (char *item = eq ? strtok_r(eq + 1, "+", &more) : NULL; item;
                     item = strtok_r(NULL, "+", &more)) {
                        if (!(strcmp(field, "keep") ? parse_item(plan, &l, field, item)
                                                    : keep_candidate(plan, item, &list)))
                                return capo_why(-EINVAL, why, room,
                                                "%s: \"%s\" is not known or out of range", field,
                                                item);
                }
                if (!eq)
                        return capo_why(-EINVAL, why, room, "expected key=value, found \"%s\"",
                                        field);
        }
        if (!plan->colls)
                plan->colls = (1u << CAPO_NCCL_COLLS) - 1;
        if (!multiply_lists(plan, &l))
                return capo_why(-EINVAL, why, room, "expected at most %d candidates, found more",
                                CAPO_SWEEP_CANDIDATES);
        return 0;
}

static bool is_open_somewhere(const struct capo_sweep_plan *plan, unsigned i)
{
        for (unsigned class = 0; class < 64 * CAPO_NCCL_COLLS; class ++) {
                if (plan->colls & 1u << class / 64 &&
                    capo_sweep_open(plan, class / 64, class % 64, i))
                        return true;
        }
        return false;
}

size_t capo_sweep_plan_rules(const struct capo_sweep_plan *plan, char *text, size_t room)
{
        FILE *f = fmemopen(text, room, "w");
        unsigned open = 0;
        long n;

        *text = 0;
        if (!f)
                return 0;
        for (unsigned i = 0; i < plan->n; i++)
                open += is_open_somewhere(plan, i);
        capo_rules_put(f, CAPO_RULES_SWEEP, "%u candidates", open);
        for (unsigned i = 0; i < plan->n; i++) {
                struct capo_rules_row row = {.candidate = true,
                                             .rule = i + 1,
                                             .channels = plan->candidate[i].channels,
                                             .chunk = plan->candidate[i].chunk};

                snprintf(row.algo, sizeof row.algo, "%s", capo_algo_name(plan->candidate[i].algo));
                snprintf(row.proto, sizeof row.proto, "%s",
                         capo_proto_name(plan->candidate[i].proto));
                if (is_open_somewhere(plan, i))
                        capo_rules_put_row(f, &row);
        }
        n = ftell(f);
        fclose(f);
        return n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

/* ---- the schedule ---- */

struct capo_choice capo_sweep_pick(const struct capo_sweep_plan *plan,
                                   const struct capo_sweep_ask *ask)
{
        const struct capo_choice leave = {0};
        uint16_t open[CAPO_SWEEP_CANDIDATES];
        unsigned n = 0, turn, coll = ask->question.coll;
        uint64_t bytes = ask->question.bytes;
        float least;

        if (!ask->table || ask->call.comm_uid == 0 || ask->call.seq <= FIRST_CALLS ||
            ask->call.seq > plan->calls)
                return leave;
        if (coll >= CAPO_NCCL_COLLS || !(plan->colls & 1u << coll) || bytes < plan->min_bytes ||
            bytes > plan->max_bytes || !bytes)
                return leave;
        least = capo_least_cost(ask->table, ask->n_algos * ask->n_protos);
        for (unsigned i = 0; i < plan->n; i++) {
                int a = plan->candidate[i].algo - 1, p = plan->candidate[i].proto - 1;
                float cost;

                if (a >= ask->n_algos || p >= ask->n_protos ||
                    (plan->candidate[i].chunk && !ask->chunks))
                        continue;
                cost = ask->table[a * ask->n_protos + p];
                if (!(cost >= 0) || (plan->slower > 0 && cost > plan->slower * least) ||
                    !capo_sweep_open(plan, coll, 63u - (unsigned)__builtin_clzll(bytes), i))
                        continue;
                open[n++] = (uint16_t)i;
        }
        if (n == 0)
                return leave;
        turn = (unsigned)(mix_bits(mix_bits(ask->call.comm_uid) + ask->call.seq * 8 + coll) %
                          (n + DEFAULT_TURNS));
        if (turn < DEFAULT_TURNS)
                return leave;
        turn = open[turn - DEFAULT_TURNS];
        return (struct capo_choice){.algo = plan->candidate[turn].algo & 15u,
                                    .proto = plan->candidate[turn].proto & 15u,
                                    .channels = plan->candidate[turn].channels,
                                    .rule = (uint16_t)(turn + 1),
                                    .chunk = plan->candidate[turn].chunk};
}
