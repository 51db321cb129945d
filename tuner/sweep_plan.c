/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a sweep and its schedule: text in, decisions out, nothing else. See sweep_plan.h. */
#include "capo/msg.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/log/rules.h"
#include "core/profile/value.h"
#include "tuner/mix_bits.h"
#include "tuner/sweep_plan.h"

enum { FIRST_CALLS = 4, DEFAULT_TURNS = 2 };

struct lists {
        uint8_t algos[CAPO_NCCL_ALGOS + 1], protos[CAPO_NCCL_PROTOS + 1],
                channels[CAPO_SWEEP_VALUES];
        uint32_t chunks[CAPO_SWEEP_VALUES];
        unsigned n_algos, n_protos, n_channels, n_chunks;
};

static int parse_item(struct capo_sweep_plan *plan, struct lists *l, const char *key,
                      const char *item)
{
        char *end;
        uint64_t bytes;
        unsigned v;
        int coll;

        if (!strcmp(key, "colls")) {
                coll = capo_coll_find(item);
                if (coll < 0)
                        return -EINVAL;
                plan->colls |= (uint8_t)(1u << coll);
        } else if (!strcmp(key, "algos")) {
                v = capo_algo_find(item);
                if (!v || l->n_algos == N_ELEMENTS(l->algos))
                        return -EINVAL;
                l->algos[l->n_algos++] = (uint8_t)v;
        } else if (!strcmp(key, "protos")) {
                v = capo_proto_find(item);
                if (!v || l->n_protos == N_ELEMENTS(l->protos))
                        return -EINVAL;
                l->protos[l->n_protos++] = (uint8_t)v;
        } else if (!strcmp(key, "channels")) {
                v = (unsigned)strtoul(item, &end, 10);
                if (*end || end == item || v > CAPO_CHANNELS_MAX ||
                    l->n_channels == N_ELEMENTS(l->channels))
                        return -EINVAL;
                l->channels[l->n_channels++] = (uint8_t)v;
        } else if (!strcmp(key, "chunks")) {
                if (capo_size_parse(item, &bytes) < 0 || (bytes && bytes < CAPO_CHUNK_MIN) ||
                    bytes > CAPO_CHUNK_MAX || l->n_chunks == N_ELEMENTS(l->chunks))
                        return -EINVAL;
                l->chunks[l->n_chunks++] = (uint32_t)bytes;
        } else if (!strcmp(key, "calls")) {
                plan->calls = strtoull(item, &end, 10);
                if (*end || end == item)
                        return -EINVAL;
        } else if (!strcmp(key, "slower")) {
                if (!capo_number_parse(item, strlen(item), &plan->slower) || plan->slower < 0)
                        return -EINVAL;
        } else if (!strcmp(key, "sizes")) {
                char lo[32];
                const char *dash = strchr(item, '-');

                if (!dash || (size_t)(dash - item) >= sizeof lo)
                        return -EINVAL;
                memcpy(lo, item, (size_t)(dash - item));
                lo[dash - item] = 0;
                if (capo_size_parse(lo, &plan->min_bytes) < 0 ||
                    capo_size_parse(dash + 1, &plan->max_bytes) < 0 ||
                    plan->min_bytes > plan->max_bytes)
                        return -EINVAL;
        } else {
                return -EINVAL;
        }
        return 0;
}

/* "allreduce:20:3" begins a list of ids, "7" continues it. */
static int keep_candidate(struct capo_sweep_plan *plan, const char *item,
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
                        return -EINVAL;
                *list = &plan->keep[coll][log2];
        } else if (!*list || sscanf(item, "%u", &id) != 1) {
                return -EINVAL;
        }
        if (id < 1 || id > CAPO_SWEEP_CANDIDATES)
                return -EINVAL;
        capo_sweep_put(*list, id - 1);
        return 0;
}

/* Return: false: too many. */
static bool multiply_lists(struct capo_sweep_plan *plan, struct lists *l)
{
        for (unsigned a = 1; l->n_algos == 0 && a <= CAPO_NCCL_ALGOS; a++)
                l->algos[a - 1] = (uint8_t)a;
        for (unsigned p = 1; l->n_protos == 0 && p <= CAPO_NCCL_PROTOS; p++)
                l->protos[p - 1] = (uint8_t)p;
        l->n_algos = l->n_algos ? l->n_algos : CAPO_NCCL_ALGOS;
        l->n_protos = l->n_protos ? l->n_protos : CAPO_NCCL_PROTOS;
        plan->n_channels = l->n_channels ? l->n_channels : 1;
        plan->n_chunks = l->n_chunks ? l->n_chunks : 1;
        if (l->n_algos * l->n_protos * plan->n_channels * plan->n_chunks > CAPO_SWEEP_CANDIDATES)
                return false;
        for (unsigned pair = 0; pair < l->n_algos * l->n_protos; pair++) {
                for (unsigned c = 0; c < plan->n_channels * plan->n_chunks; c++) {
                        plan->candidate[plan->n].algo = l->algos[pair / l->n_protos];
                        plan->candidate[plan->n].proto = l->protos[pair % l->n_protos];
                        plan->candidate[plan->n].channels = l->channels[c / plan->n_chunks];
                        plan->candidate[plan->n++].chunk = l->chunks[c % plan->n_chunks];
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
                        int e = !strcmp(field, "keep") ? keep_candidate(plan, item, &list)
                                                       : parse_item(plan, &l, field, item);

                        if (e < 0)
                                return capo_why(e, why, room,
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
        float least = -1;

        if (!ask->table || ask->call.comm_uid == 0 || ask->call.seq <= FIRST_CALLS ||
            ask->call.seq > plan->calls)
                return leave;
        if (coll >= CAPO_NCCL_COLLS || !(plan->colls & 1u << coll) || bytes < plan->min_bytes ||
            bytes > plan->max_bytes || !bytes)
                return leave;
        for (int i = 0; i < ask->n_algos * ask->n_protos; i++) {
                if (ask->table[i] >= 0 && (least < 0 || ask->table[i] < least))
                        least = ask->table[i];
        }
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
