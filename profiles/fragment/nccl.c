/* SPDX-License-Identifier: Apache-2.0 */
/* One question per allocation: three collectives at each size, whose model times become algorithm bandwidths. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/calls.h"
#include "core/base/util.h"
#include "profiles/fragment/nccl.h"

static double gbs_of(uint64_t bytes, double us)
{
        return us > 0 ? (double)bytes / us / 1000 : -1;
}

static void take(const struct capo_plan_row *r, struct fragment_nccl_row *out)
{
        out->gbs = isnan(r->us) ? -1 : gbs_of(r->bytes, r->us);
        out->algo = r->algo;
        out->proto = r->proto;
        out->channels = r->channels;
        snprintf(out->what, sizeof out->what, "%s %s %u ch", r->algo ? capo_algo_name(r->algo) : "?",
                 r->proto ? capo_proto_name(r->proto) : "?", r->channels);
        for (int a = 0; a < 2; a++) {
                out->best_gbs[a] = -1;
                for (int p = 0; a < r->n_algo && p < r->n_proto && p < CAPO_PLAN_PROTOS; p++) {
                        if (r->cost[a][p] > 0 && gbs_of(r->bytes, r->cost[a][p]) > out->best_gbs[a])
                                out->best_gbs[a] = gbs_of(r->bytes, r->cost[a][p]);
                }
        }
}

static void graph_text(const struct capo_plan_answer *a, int id, char *text, size_t room)
{
        for (size_t i = 0; i < a->n_graphs; i++) {
                const struct capo_plan_graph *g = &a->graphs[i];

                if (g->id == id && g->node == 0)
                        snprintf(text, room, "%d x %g GB/s %s", g->n_channels, g->speed_intra, g->type_intra);
        }
}

static const enum capo_coll colls[FRAGMENT_COLLS] = {CAPO_COLL_BROADCAST, CAPO_COLL_ALLGATHER, CAPO_COLL_ALLREDUCE};

int fragment_nccl_ask(const struct fragment_nccl_ask *ask, const struct capo_topology *t, const struct capo_alloc *a,
                      struct fragment_nccl *out)
{
        static const char *const no_files[1];
        size_t n_sizes = ask->n_sizes < FRAGMENT_NCCL_SIZES ? ask->n_sizes : FRAGMENT_NCCL_SIZES;
        _cleanup_free_ struct capo_plan_gpu *gpus = calloc((size_t)a->n_ranks + 1, sizeof *gpus);
        struct capo_plan_ask asks[(FRAGMENT_NCCL_SIZES + 1) * FRAGMENT_COLLS];
        struct capo_plan_question q = {.tools = ask->tools,
                                       .libnccl = ask->libnccl,
                                       .topo = &ask->topo,
                                       .n_topo = 1,
                                       .platform = ask->platform,
                                       .gpus = gpus,
                                       .n_ranks = (size_t)a->n_ranks,
                                       .asks = asks,
                                       .graph = true,
                                       .graph_files = ask->graph_files ? ask->graph_files : no_files,
                                       .n_graph_files = ask->graph_files ? ask->n_graph_files : 1};
        struct fragment_nccl_row *first[FRAGMENT_COLLS] = {&out->broadcast, &out->allgather, &out->allreduce};
        int r;

        memset(out, 0, sizeof *out);
        out->sizes = calloc(n_sizes + 1, sizeof *out->sizes);
        if (!gpus || !out->sizes) {
                snprintf(out->why_not, sizeof out->why_not, "out of memory");
                return -ENOMEM;
        }
        for (int i = 0; i < a->n_ranks; i++)
                gpus[i] = (struct capo_plan_gpu){(uint16_t)a->ranks[i].node, (uint16_t)t->gpus[a->ranks[i].gpu].dev};
        for (size_t i = 0; i <= n_sizes; i++) {
                for (int c = 0; c < FRAGMENT_COLLS; c++)
                        asks[q.n_asks++] =
                                (struct capo_plan_ask){colls[c], i ? ask->sizes[i - 1] : FRAGMENT_NCCL_BYTES};
        }
        r = capo_plan_ask(&q, &out->answer, out->why_not, sizeof out->why_not);
        if (r < 0) {
                memset(&out->answer, 0, sizeof out->answer);
                return r;
        }
        out->version = out->answer.version;
        out->nodes = out->answer.told.n_nodes;
        out->n_sizes = n_sizes;
        for (size_t i = 0; i < out->answer.n_rows; i++) {
                size_t size = i / FRAGMENT_COLLS, coll = i % FRAGMENT_COLLS;

                take(&out->answer.rows[i], size ? &out->sizes[size - 1].row[coll] : first[coll]);
                if (size)
                        out->sizes[size - 1].bytes = ask->sizes[size - 1];
        }
        graph_text(&out->answer, 0, out->ring, sizeof out->ring);
        graph_text(&out->answer, 1, out->tree, sizeof out->tree);
        return 0;
}

void fragment_nccl_finish(struct fragment_nccl *n)
{
        if (n->version)
                capo_plan_answer_finish(&n->answer);
        free(n->sizes);
        memset(n, 0, sizeof *n);
}
