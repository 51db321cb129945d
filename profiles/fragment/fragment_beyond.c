/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "capo/algorithms.h"
#include "capo/collectives.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/xalloc.h"
#include "profiles/fragment/fragment_beyond.h"
#include "profiles/import/import.h"

enum { CHANNELS_MOST = 32, RANKS_MOST = 16 };
#define EXPERIMENT(value)                                              \
        "One experiment: capo run --dir without -- COMMAND; %s=" value \
        " capo run --dir with -- COMMAND; capo diff without with (mpirun needs -x %s, too)"

/* Bus bandwidth of a choice by @cost: f->cost, NCCL's formula, or f->links, the links alone. */
static double rate_of(const struct fragment_model *f,
                      float (*cost)[CAPO_PLAN_ALGOS][CAPO_PLAN_PROTOS], size_t row, int n_ranks,
                      uint8_t choice)
{
        const struct capo_plan_row *r = &f->nccl.rows[row];

        return capo_busbw_factor(capo_coll_kind(r->coll), (unsigned)n_ranks) * (double)r->bytes /
               1000 / fragment_cost(cost[row], choice);
}

/* Ask NCCL again with one setting more, and compare with the best choice of the table now. */
static void try_setting(const char *name, const char *value, const struct fragment_machine *m,
                        const struct capo_alloc *a, const struct fragment_model *f, size_t row,
                        struct fragment_beyond *out)
{
        const struct capo_plan_row *now = &f->nccl.rows[row];
        const struct capo_plan_ask ask = {now->coll, now->bytes};
        struct fragment_model g;
        double gbs, links, gain;
        uint8_t then;
        char why[512];
        int r, n = a->n_ranks;

        if (getenv(name))
                return;
        setenv(name, value, 1);
        r = fragment_model(m, a, &ask, 1, &g, why, sizeof why);
        unsetenv(name);
        if (r < 0)
                return;
        then = CAPO_ALGO_PROTO(g.nccl.rows[0].algo, g.nccl.rows[0].proto);
        gbs = rate_of(&g, g.cost, 0, n, then);
        links = rate_of(&g, g.links, 0, n, then);
        gain = fmax(1 - rate_of(f, f->cost, row, n, fragment_fastest(f->cost[row])) / gbs,
                    1 - rate_of(f, f->links, row, n, fragment_fastest(f->links[row])) / links);
        if (gain >= FRAGMENT_BEYOND_GAIN)
                snprintf(
                        out->text[out->n++], FRAGMENT_BEYOND_TEXT,
                        "%s=%s: NCCL then picks %s %s with %u channels, %.1f GB/s of bus bandwidth "
                        "by its formula, %.1f by its links, instead of %s %s with %u, %.1f: up to "
                        "%.0f %% less time than any choice of its table now. " EXPERIMENT("%s"),
                        name, value, capo_ran_algo(then), capo_ran_proto(then),
                        g.nccl.rows[0].channels, gbs, links, capo_algo_name(now->algo),
                        capo_proto_name(now->proto), now->channels,
                        rate_of(f, f->cost, row, n, CAPO_ALGO_PROTO(now->algo, now->proto)),
                        100 * gain, name, value, name);
        fragment_model_finish(&g);
}

/* The best choice is far from what the links allow, and has few channels. */
static void try_channels(const struct fragment_machine *m, const struct capo_alloc *a,
                         const struct fragment_model *f, size_t row, struct fragment_beyond *out)
{
        const struct capo_plan_row *r = &f->nccl.rows[row];
        static const char name[] = "NCCL_MIN_CTAS"; /* NCCL that has a cost table has it */
        uint8_t best = fragment_fastest(f->cost[row]);
        int channels =
                    r->channels > f->channels ? r->channels : f->channels, /* NCCL doubles them */
                more = channels >= CHANNELS_MOST / 2 ? CHANNELS_MOST : 2 * channels;
        struct capo_ceilings c;
        enum capo_ceiling_of of;
        double most, gbs = rate_of(f, f->cost, row, a->n_ranks, best);
        char size[16];

        if (!best || getenv(name) || m->tray || a->n_ranks > RANKS_MOST || more == channels ||
            best >> 4 == CAPO_ALGO_NVLS_TREE || /* no ceiling includes adding in several switches */
            capo_ceilings(m->t, a, CAPO_CEILING_HYBRID, &c) < 0)
                return;
        most = capo_busbw_factor(capo_coll_kind(r->coll), (unsigned)a->n_ranks) *
               capo_ceiling(&c, r->coll, &of);
        if (most * (1 - FRAGMENT_BEYOND_GAIN) > gbs)
                snprintf(out->text[out->n++], FRAGMENT_BEYOND_TEXT,
                         "%s=%d: the links allow %.1f GB/s of bus bandwidth at %s. NCCL's best "
                         "choice, %s %s, has %.1f by its formula with %d channels. More channels "
                         "are not in its model, so the gain is not predicted. " EXPERIMENT("%d"),
                         name, more, most, capo_size_print(r->bytes, size, sizeof size),
                         capo_ran_algo(best), capo_ran_proto(best), gbs, channels, name, more,
                         name);
}

void fragment_beyond(const struct fragment_machine *m, const struct capo_alloc *a,
                     const struct fragment_model *f, size_t row, struct fragment_beyond *out)
{
        unsigned algo;

        *out = (struct fragment_beyond){0};
        if (row >= f->nccl.n_rows || f->nccl.rows[row].coll != CAPO_COLL_ALLREDUCE ||
            f->n_nodes < 2 || *f->why_not)
                return;
        algo = f->nccl.rows[row].algo;
        try_setting("NCCL_PXN_DISABLE", "1", m, a, f, row, out);
        if (algo == CAPO_ALGO_NVLS || algo == CAPO_ALGO_NVLS_TREE)
                try_setting("NCCL_NVLS_ENABLE", "0", m, a, f, row, out);
        try_channels(m, a, f, row, out);
}

void fragment_advise(const struct fragment_machine *m, const struct capo_alloc *a,
                     struct fragment_nccl *nccl, struct fragment_advice *out)
{
        _cleanup_free_ struct fragment_orders *orders = xcalloc(1, sizeof *orders);
        struct capo_plan_ask asks[FRAGMENT_NCCL_ASKS];
        struct fragment_model f;
        char why[512];

        if (a->n_nodes < 2 || m->domain > 1 || (!nccl && a->n_nodes < 3))
                return;
        fragment_nccl_asks(a->n_ranks, asks);
        if (fragment_model(m, a, asks, nccl ? FRAGMENT_NCCL_ASKS : 1, &f, why, sizeof why) < 0)
                return;
        if (fragment_orders(&f, m->t, a, NULL, NULL, orders) == 0)
                fragment_orders_text(orders, &f, a->n_ranks, out->order, sizeof out->order);
        if (nccl) {
                fragment_nccl_fill(&f.nccl, nccl);
                fragment_beyond(m, a, &f, 0, &out->beyond);
        }
        fragment_model_finish(&f);
}
