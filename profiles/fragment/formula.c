/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "core/base/nccl_facts.h"
#include "profiles/fragment/formula.h"

/* Constants of NCCL 2.24 to 2.27 and 2.31.2 for Tree and Ring on Volta, Ampere and Hopper, which
 * these releases do not report (src/graph/tuning.cc of 2.24.3 and 2.27.7); 2.28 reports the same
 * values. The table is checked against them. */
static const struct constants unreported = {
        .hw_latency = {{{0.6, 1.25, 4.0}}, {{1.0, 1.9, 4.0}}},
        .ll_bw = {{39.0, 39.0, 20.4}, {87.7, 22.5, 19.0}, {141.0, 45.0, 35.0}},
        .ring_ll128_bw = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}},
        .tree_ll128_bw = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29.0}},
        .tree_bw = {{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {38.7, 41.4, 36.0}},
};

static double cap_rate(const struct formula *f, double gbs, double most)
{
        return f->caps ? fmin(gbs, most) : gbs;
}

double formula_tree(const struct formula *f, double bus)
{
        return cap_rate(f, bus * 0.92, f->channels * f->k->tree_bw[f->gpu][f->scale]);
}

double formula_gbs(const struct formula *f, int algo, int proto, double bus)
{
        if (algo == RING && proto == LL)
                return cap_rate(f, bus * 0.5, f->k->ll_bw[f->ll][f->scale]);
        if (algo == RING && proto == LL128)
                return cap_rate(f, bus * 0.92, f->channels * f->k->ring_ll128_bw[f->gpu][f->scale]);
        if (algo == TREE)
                bus = formula_tree(f, bus);
        if (algo == TREE && proto == LL)
                return cap_rate(f, bus / 3.8, f->k->ll_bw[f->ll][f->scale]);
        if (algo == TREE && proto == LL128)
                return cap_rate(f, bus * (f->n_nodes == 1 ? 7.0 / 9 : 15.0 / 16),
                                f->channels * f->k->tree_ll128_bw[f->gpu][f->scale]);
        return bus;
}

struct line formula_line(const struct capo_plan_row *one, const struct capo_plan_row *two, int algo,
                         int proto)
{
        double b1 = (double)(one->reported_bytes ? one->reported_bytes : one->bytes),
               b2 = (double)(two->reported_bytes ? two->reported_bytes : two->bytes);
        double t1 = (double)one->cost[algo][proto], t2 = (double)two->cost[algo][proto];
        struct line l = {.gbs = NAN};

        if (algo >= one->n_algo || proto >= one->n_proto || t1 <= 0 || t2 <= t1)
                return l;
        l.gbs = (b2 - b1) / (t2 - t1) / 1000;
        l.us = fmax(0, t1 - b1 / l.gbs / 1000);
        return l;
}

/* src/graph/tuning.cc, nvlsEfficiency: Volta, Ampere, Hopper, Blackwell. */
static const double nvls_efficiency[] = {0, 0, 0.85, 0.74};

double formula_nvls_efficiency(const struct formula *f) { return nvls_efficiency[f->gpu]; }

struct formula formula_new(const struct capo_plan_answer *a, int sm, bool amd, int channels,
                           int n_nodes, struct constants *k)
{
        struct formula f = {.k = &unreported,
                            .gpu = sm >= 100  ? 3
                                   : sm >= 90 ? 2
                                   : sm >= 80 ? 1
                                              : 0,
                            .scale = n_nodes <= 2 ? n_nodes - 1 : 2,
                            .channels = channels,
                            .n_nodes = n_nodes};

        if (a->reported.n_constants == (int)(sizeof *k / sizeof(double))) {
                memcpy(k, a->reported.constants, sizeof *k);
                f.reported = k->hw_latency[0][TREE][SIMPLE] > 0; /* 2.31.2 reports zeros */
        }
        if (f.reported)
                f.k = k;
        f.caps = f.reported || (capo_nccl_has(a->version, CAPO_NCCL_MODEL_KNOWN) && f.gpu < 3);
        f.ll = n_nodes == 1 ? f.gpu : amd;
        return f;
}
