/* SPDX-License-Identifier: Apache-2.0 */
/* One question per allocation: three collectives at one large size, whose model times become algorithm bandwidths. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/util.h"
#include "profiles/fragment/nccl.h"

static const char *const algos[] = {"?", "Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"};
static const char *const protos[] = {"?", "LL", "LL128", "Simple"};

static double gbs_of(double us)
{
        return us > 0 ? (double)FRAGMENT_NCCL_BYTES / us / 1000 : -1;
}

static void take(const struct capo_plan_row *r, struct fragment_nccl_row *out)
{
        out->gbs = isnan(r->us) ? -1 : gbs_of(r->us);
        out->algo = r->algo;
        out->proto = r->proto;
        out->channels = r->channels;
        snprintf(out->what, sizeof out->what, "%s %s %u ch", algos[r->algo < N_ELEMENTS(algos) ? r->algo : 0],
                 protos[r->proto < N_ELEMENTS(protos) ? r->proto : 0], r->channels);
        for (int a = 0; a < 2; a++) {
                out->best_gbs[a] = -1;
                for (int p = 0; a < r->n_algo && p < r->n_proto && p < CAPO_PLAN_PROTOS; p++) {
                        if (r->cost[a][p] > 0 && gbs_of(r->cost[a][p]) > out->best_gbs[a])
                                out->best_gbs[a] = gbs_of(r->cost[a][p]);
                }
        }
}

static void graph_text(const struct capo_plan_answer *a, int id, char *text, size_t room)
{
        for (size_t i = 0; i < a->n_graphs; i++) {
                const struct capo_plan_graph *g = &a->graphs[i];

                if (g->id == id)
                        snprintf(text, room, "%d x %g GB/s %s", g->n_channels, g->speed_intra, g->type_intra);
        }
}

int fragment_nccl_ask(const char *tools, const char *libnccl, const char *topo, const char *platform, const char *graph,
                      const struct capo_topology *t, const struct capo_alloc *a, struct fragment_nccl *out)
{
        static const struct capo_plan_ask asks[] = {{CAPO_COLL_BROADCAST, FRAGMENT_NCCL_BYTES},
                                                    {CAPO_COLL_ALLGATHER, FRAGMENT_NCCL_BYTES},
                                                    {CAPO_COLL_ALLREDUCE, FRAGMENT_NCCL_BYTES}};
        _cleanup_free_ struct capo_plan_gpu *gpus = calloc((size_t)a->n_ranks + 1, sizeof *gpus);
        const char *before = getenv("NCCL_GRAPH_FILE");
        _cleanup_free_ char *kept = before ? strdup(before) : NULL;
        struct capo_plan_question q = {.tools = tools,
                                       .libnccl = libnccl,
                                       .topo = &topo,
                                       .n_topo = 1,
                                       .platform = platform,
                                       .gpus = gpus,
                                       .n_ranks = (size_t)a->n_ranks,
                                       .asks = asks,
                                       .n_asks = N_ELEMENTS(asks),
                                       .graph = true};
        int r;

        memset(out, 0, sizeof *out);
        if (!gpus || (before && !kept)) {
                snprintf(out->why_not, sizeof out->why_not, "out of memory");
                return -ENOMEM;
        }
        for (int i = 0; i < a->n_ranks; i++)
                gpus[i] = (struct capo_plan_gpu){(uint16_t)a->ranks[i].node, (uint16_t)t->gpus[a->ranks[i].gpu].dev};
        if (graph)
                setenv("NCCL_GRAPH_FILE", graph, 1);
        else
                unsetenv("NCCL_GRAPH_FILE");
        r = capo_plan_ask(&q, &out->answer, out->why_not, sizeof out->why_not);
        if (kept)
                setenv("NCCL_GRAPH_FILE", kept, 1);
        else
                unsetenv("NCCL_GRAPH_FILE");
        if (r < 0) {
                memset(&out->answer, 0, sizeof out->answer);
                return r;
        }
        out->version = out->answer.version;
        out->nodes = out->answer.told.n_nodes;
        if (out->answer.n_rows == N_ELEMENTS(asks)) {
                take(&out->answer.rows[0], &out->broadcast);
                take(&out->answer.rows[1], &out->allgather);
                take(&out->answer.rows[2], &out->allreduce);
        }
        graph_text(&out->answer, 0, out->ring, sizeof out->ring);
        graph_text(&out->answer, 1, out->tree, sizeof out->tree);
        return 0;
}

void fragment_nccl_finish(struct fragment_nccl *n)
{
        if (n->version)
                capo_plan_answer_finish(&n->answer);
        memset(n, 0, sizeof *n);
}
