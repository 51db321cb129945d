/* SPDX-License-Identifier: Apache-2.0 */
/* From a corrected model to a rule. NCCL's own choice and the best one are both timed by the
 * corrected model, so common errors cancel. A row is only written if both results of the model
 * (fragment_model.c) name the same choice with a gain above CAPO_MODEL_MARGIN. If only one does,
 * the page names the measurement that decides. NCCL's constants are not changed, because that would
 * change choices without any margin. */
#include <math.h>

#include "capo/algorithms.h"
#include "capo/msg.h"
#include "core/base/xalloc.h"
#include "profiles/fit/fit_model.h"

/* "dgx1v/3-chain-a" tells how GPUs are connected, "hgxh100/5" only their number. */
static bool more_than_numbers(const char *class)
{
        for (const char *s = strchr(class, '/'); s; s = strchr(s, '/')) {
                s += 1 + strspn(s + 1, "0123456789");
                if (*s && *s != '+')
                        return true;
        }
        return false;
}

/* Share of the time of NCCL's choice that @best saves; 0: also if not known. */
static double gain_of(float cost[CAPO_PLAN_ALGOS][CAPO_PLAN_PROTOS], uint8_t own, uint8_t best)
{
        double us = fragment_cost(cost, own);

        return us > 0 ? 1 - fragment_cost(cost, best) / us : 0;
}

static bool is_believed(uint8_t choice, uint64_t bytes)
{
        return choice >> 4 != CAPO_ALGO_NVLS || bytes >= CAPO_MODEL_NVLS_BYTES;
}

#define SETTLE_PART 0.75 /* of the margin of a rule: an experiment harms nobody */

static struct capo_fit_decision decide_row(const struct fragment_model *f, size_t i, double margin)
{
        const struct capo_plan_row *r = &f->nccl.rows[i];
        struct capo_fit_decision d = {.bytes = r->bytes, .us = NAN, .gain = NAN};
        uint8_t own = CAPO_ALGO_PROTO(r->algo, r->proto), best = fragment_fastest(f->cost[i]),
                links = fragment_fastest(f->links[i]);
        double gain, more;

        if (!best || !links || !(fragment_cost(f->cost[i], own) > 0))
                return d;
        d.us = fragment_cost(f->cost[i], best);
        d.gain = gain_of(f->cost[i], own, best);
        gain = is_believed(best, r->bytes) ? d.gain : 0;
        more = is_believed(links, r->bytes) ? gain_of(f->links[i], own, links) : 0;
        if (best == links && gain >= margin && more >= margin) {
                d.choice = best;
        } else if (fmax(gain, more) >= SETTLE_PART * margin) {
                d.settle = more >= gain ? links : best;
                d.settle_gain = fmax(gain, more);
        }
        return d;
}

/* A rule with the rows that choose something; none where there are none. @layout, @trays, @class_name: its
 * conditions; "": none. */
static void write_rule(struct capo_fit_fragment *f, const struct capo_alloc *a, const char *layout,
                       const char *trays, const char *class_name,
                       const struct capo_fit_decision *decided, struct capo_profile *profile)
{
        const struct fragment_model *m = &f->model;
        uint32_t minor = (uint32_t)m->nccl.version / 100 * 100;
        struct capo_rule *rule;
        bool any = false;

        for (size_t i = 0; i < m->nccl.n_rows; i++)
                any |= decided[i].choice;
        if (!any)
                return;
        f->line = f->line < 0 ? (int)profile->n_rules : f->line;
        f->n_rules++;
        rule = capo_profile_rule(profile, CAPO_BASIS_MODELLED);
        capo_fit_memory(rule);
        rule->when.ranks = (struct capo_range){a->n_ranks, a->n_ranks};
        rule->when.nodes = (struct capo_range){m->n_nodes, m->n_nodes};
        rule->when.nccl = (struct capo_range){minor, minor + 99};
        rule->when.trays = *trays ? capo_profile_keep(profile, trays) : NULL;
        rule->when.layout = *layout ? capo_profile_keep(profile, layout) : NULL;
        rule->when.class_name = *class_name ? capo_profile_keep(profile, class_name) : NULL;
        for (size_t i = 0, k; i < m->nccl.n_rows; i = k) {
                for (k = i; k < m->nccl.n_rows && m->nccl.rows[k].coll == m->nccl.rows[i].coll; k++)
                        ;
                f->n_rows += capo_fit_modelled_rows(profile, m->nccl.rows[i].coll, &decided[i],
                                                    (int)(k - i), true);
        }
}

/* The decisions for every order of the nodes, one order after the other. */
struct deciding {
        struct capo_fit_fragment *f;
        double margin;
        struct capo_fit_decision *decided;
        int n;
};

static int decide_order(void *user, const struct fragment_order *order)
{
        struct deciding *d = user;
        size_t rows = d->f->model.nccl.n_rows;

        for (size_t i = 0; i < rows; i++)
                d->decided[(size_t)d->n * rows + i] = decide_row(&d->f->model, i, d->margin);
        d->n++;
        return 0;
}

/* One rule, if all orders have the same choices: with the least gain. Else one for each that has any. */
static void write_orders(struct capo_fit_fragment *f, const struct capo_alloc *a,
                         const struct deciding *d, struct capo_profile *profile)
{
        size_t rows = f->model.nccl.n_rows;
        bool alike = !f->by_class;
        struct capo_layout any;
        char text[CAPO_LAYOUT_TEXT];

        for (size_t i = 0; i < rows * (size_t)d->n && alike; i++)
                alike = d->decided[i].choice == d->decided[i % rows].choice;
        for (size_t i = 0; i < rows * (size_t)d->n && alike; i++) {
                struct capo_fit_decision *first = &d->decided[i % rows], *next = &d->decided[i];

                if (next->choice && next->gain < first->gain) {
                        first->gain = next->gain;
                        first->us = next->us;
                }
        }
        capo_alloc_layout(a, &any);
        any = capo_layout_in_any_order(&any);
        capo_layout_print(&any, text, sizeof text);
        if (alike)
                write_rule(f, a, *f->layout ? text : "", "", "", d->decided, profile);
        for (int k = 0; k < d->n && !alike; k++)
                write_rule(f, a, *f->layout ? f->orders.v[k].layout : "", "",
                           f->by_class ? f->orders.v[k].class_name : "",
                           d->decided + (size_t)k * rows, profile);
}

static int ask_model(const struct fragment_machine *m, const struct capo_alloc *a,
                     const struct capo_plan_ask *asks, size_t n_asks, struct capo_fit_fragment *out,
                     char *why, size_t room)
{
        struct capo_layout layout;
        int r;

        capo_alloc_layout(a, &layout);
        if (m->domain > 1 && a->n_nodes > 1) {
                r = fragment_trays_join(m, a, &out->joined, why, room);
                if (r == 0)
                        r = fragment_model(&out->joined.machine, &out->joined.a, asks, n_asks,
                                           &out->model, why, room);
                if (r == 0 && out->model.n_nodes == 1) /* no network: no place in a tree */
                        layout = capo_layout_in_any_order(&layout);
                capo_layout_print(&layout, out->trays, sizeof out->trays);
        } else {
                r = fragment_model(m, a, asks, n_asks, &out->model, why, room);
                if (r == 0 && out->model.n_nodes == a->n_nodes && a->n_nodes > 1)
                        capo_layout_print(&layout, out->layout, sizeof out->layout);
        }
        return r;
}

int capo_fit_fragment(const struct fragment_machine *m, const struct capo_alloc *a, bool exact,
                      const struct capo_plan_ask *asks, size_t n_asks,
                      const struct capo_fit_options *options, struct capo_profile *profile,
                      struct capo_fit_fragment *out, char *why, size_t room)
{
        _cleanup_free_ struct capo_fit_decision *decided = NULL;
        struct deciding d = {.f = out,
                             .margin = fmax(CAPO_MODEL_MARGIN, options ? options->min_gain : 0)};
        int r;

        memset(out, 0, sizeof *out);
        out->line = -1;
        r = ask_model(m, a, asks, n_asks, out, why, room);
        if (r < 0) {
                fragment_trays_free(&out->joined);
                return r;
        }
        capo_class_name(m->t, a, out->class, sizeof out->class);
        out->by_class = !*out->trays && (exact || more_than_numbers(out->class));
        out->decided = xcalloc(n_asks + 1, sizeof *out->decided);
        decided = xcalloc((n_asks + 1) * FRAGMENT_ORDERS, sizeof *decided);
        d.decided = decided;
        r = fragment_orders(&out->model, out->joined.t ? out->joined.t : m->t,
                            out->joined.t ? &out->joined.a : a, decide_order, &d, &out->orders);
        for (size_t i = 0; i < out->model.nccl.n_rows && r == 0; i++)
                out->decided[i] = decide_row(&out->model, i, d.margin);
        if (r == 0 && profile && a->any_order && d.n && !*out->trays)
                write_orders(out, a, &d, profile);
        else if (r == 0 && profile)
                write_rule(out, a, out->layout, out->trays, out->by_class ? out->class : "",
                           out->decided, profile);
        if (r < 0) {
                capo_fit_fragment_finish(out);
                capo_why(r, why, room, "%s", strerror(-r));
        }
        return r;
}

void capo_fit_fragment_finish(struct capo_fit_fragment *f)
{
        fragment_model_finish(&f->model);
        fragment_trays_free(&f->joined);
        free(f->decided);
        f->decided = NULL;
}
