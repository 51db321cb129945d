/* SPDX-License-Identifier: Apache-2.0 */
/* One question per allocation: three collectives at a size where latency is negligible. */
#include "capo/collectives.h"
#include "core/base/calls.h"
#include "profiles/fragment/bound.h"
#include "profiles/fragment/nccl_model.h"

void fragment_nccl_asks(int n_ranks, struct capo_plan_ask asks[FRAGMENT_NCCL_ASKS])
{
        static const enum capo_coll colls[] = {CAPO_COLL_ALLREDUCE, CAPO_COLL_BROADCAST,
                                               CAPO_COLL_ALLGATHER};
        uint64_t n = (unsigned)n_ranks;

        for (int i = 0; i < FRAGMENT_NCCL_ASKS; i++)
                asks[i] = (struct capo_plan_ask){colls[i], (1ull << 30) / n * n};
}

static void graph_text(const struct capo_plan_answer *a, int id, char *text, size_t room)
{
        const struct capo_plan_graph *g = capo_plan_graph_find(a, 0, id);

        if (g)
                snprintf(text, room, "%d x %g GB/s %s", g->n_channels, g->speed_intra,
                         g->type_intra);
}

int fragment_ask(const struct fragment_machine *m, const struct capo_plan_gpu *gpus, int n,
                 const struct capo_plan_ask *asks, size_t n_asks, struct capo_plan_answer *out,
                 char *why, size_t room)
{
        struct capo_plan_question q = {.tools = m->tools,
                                       .libnccl = m->libnccl,
                                       .topo = &m->topo,
                                       .n_topo = 1,
                                       .platform = m->platform,
                                       .gpus = gpus,
                                       .n_ranks = (size_t)n,
                                       .asks = asks,
                                       .n_asks = n_asks,
                                       .domain_nodes = m->domain > 1 ? (unsigned)m->domain : 0,
                                       .graph = true};

        return capo_plan_ask(&q, out, why, room);
}

void fragment_nccl_fill(const struct capo_plan_answer *answer, struct fragment_nccl *out)
{
        out->version = answer->version;
        out->nodes = answer->reported.n_nodes;
        for (size_t i = 0; i < answer->n_rows; i++) {
                const struct capo_plan_row *r = &answer->rows[i];
                struct fragment_nccl_row *to = r->coll == CAPO_COLL_BROADCAST   ? &out->broadcast
                                               : r->coll == CAPO_COLL_ALLGATHER ? &out->allgather
                                                                                : &out->allreduce;

                to->gbs = r->us > 0 ? (double)r->bytes / r->us / 1000 : -1;
                snprintf(to->what, sizeof to->what, "%s %s %u ch",
                         r->algo ? capo_algo_name(r->algo) : "?",
                         r->proto ? capo_proto_name(r->proto) : "?", r->channels);
        }
        graph_text(answer, 0, out->ring, sizeof out->ring);
        graph_text(answer, 1, out->tree, sizeof out->tree);
}

int fragment_nccl_ask(const struct fragment_machine *m, const struct capo_alloc *a,
                      struct fragment_nccl *out)
{
        _cleanup_free_ struct capo_plan_gpu *gpus = capo_alloc_ranks(m->t, a);
        struct capo_plan_ask asks[FRAGMENT_NCCL_ASKS];
        struct capo_plan_answer answer;
        int r;

        fragment_nccl_asks(a->n_ranks, asks);
        *out = (struct fragment_nccl){.why_not = "out of memory"};
        r = fragment_ask(m, gpus, a->n_ranks, asks, N_ELEMENTS(asks), &answer, out->why_not,
                         sizeof out->why_not);
        if (r < 0)
                return r;
        *out->why_not = 0;
        fragment_nccl_fill(&answer, out);
        capo_plan_answer_finish(&answer);
        return 0;
}
