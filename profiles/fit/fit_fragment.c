/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a corrected model to a rule. NCCL's own choice and the best one are both timed by the
 * corrected model, so common errors cancel. A row is only written if both results of the model
 * (fragment_model.c) name the same choice with a gain above CAPO_MODEL_MARGIN. If only one does,
 * the page names the measurement that decides. NCCL's constants are not changed, because that would
 * change choices without any margin.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capo/algorithms.h"
#include "capo/msg.h"
#include "core/base/layout.h"
#include "core/base/util.h"
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
        double us = (double)cost[(own >> 4) - 1][(own & 15) - 1];

        return us > 0 ? 1 - (double)cost[(best >> 4) - 1][(best & 15) - 1] / us : 0;
}

static bool is_believed(uint8_t choice, uint64_t bytes)
{
        return choice >> 4 != CAPO_ALGO_NVLS || bytes >= CAPO_MODEL_NVLS_BYTES;
}

static struct capo_fit_decision decide_row(const struct fragment_model *f, size_t i, double margin)
{
        const struct capo_plan_row *r = &f->nccl.rows[i];
        struct capo_fit_decision d = {.bytes = r->bytes, .us = NAN, .gain = NAN};
        uint8_t own = CAPO_ALGO_PROTO(r->algo, r->proto), best = fragment_model_best(f, i),
                links = fragment_links_best(f, i);
        double gain, more;

        if (!best || !links || !r->algo || !r->proto || r->algo > CAPO_PLAN_ALGOS ||
            r->proto > CAPO_PLAN_PROTOS || f->cost[i][r->algo - 1][r->proto - 1] <= 0)
                return d;
        d.us = (double)f->cost[i][(best >> 4) - 1][(best & 15) - 1];
        d.gain = gain_of(f->cost[i], own, best);
        gain = is_believed(best, r->bytes) ? d.gain : 0;
        more = is_believed(links, r->bytes) ? gain_of(f->links[i], own, links) : 0;
        if (best == links && gain >= margin && more >= margin) {
                d.choice = best;
        } else if (fmax(gain, more) >= margin) {
                d.settle = more >= gain ? links : best;
                d.settle_gain = fmax(gain, more);
        }
        return d;
}

static int set_conditions(const struct capo_fit_fragment *f, const struct capo_alloc *a,
                          struct capo_profile *profile, struct capo_rule *rule)
{
        uint32_t minor = (uint32_t)f->model.nccl.version / 100 * 100;

        rule->when.ranks = (struct capo_range){a->n_ranks, a->n_ranks};
        rule->when.nodes = (struct capo_range){f->model.n_nodes, f->model.n_nodes};
        rule->when.nccl = (struct capo_range){minor, minor + 99};
        if (*f->trays)
                rule->when.trays = capo_profile_keep(profile, f->trays);
        if (*f->layout)
                rule->when.layout = capo_profile_keep(profile, f->layout);
        if (f->by_class)
                rule->when.class_name = capo_profile_keep(profile, f->class);
        return (*f->trays && !rule->when.trays) || (*f->layout && !rule->when.layout) ||
                               (f->by_class && !rule->when.class_name)
                       ? -ENOMEM
                       : 0;
}

static int write_rule(struct capo_fit_fragment *f, const struct capo_alloc *a,
                      struct capo_profile *profile)
{
        const struct fragment_model *m = &f->model;
        struct capo_rule *rule = capo_profile_rule(profile, CAPO_BASIS_MODELLED);
        int r = rule ? set_conditions(f, a, profile, rule) : -ENOMEM;

        for (size_t i = 0, k; i < m->nccl.n_rows && r >= 0; i = k) {
                for (k = i; k < m->nccl.n_rows && m->nccl.rows[k].coll == m->nccl.rows[i].coll; k++)
                        ;
                r = capo_fit_modelled_rows(profile, m->nccl.rows[i].coll, &f->decided[i],
                                           (int)(k - i), true);
                f->n_rows += r > 0 ? r : 0;
        }
        return r < 0 ? r : 0;
}

int capo_fit_fragment(const struct fragment_machine *m, const struct capo_alloc *a, bool exact,
                      const struct capo_plan_ask *asks, size_t n_asks,
                      const struct capo_fit_options *options, struct capo_profile *profile,
                      struct capo_fit_fragment *out, char *why, size_t room)
{
        double margin = fmax(CAPO_MODEL_MARGIN, options->min_gain);
        struct capo_layout layout;
        bool any = false;
        int r;

        memset(out, 0, sizeof *out);
        out->line = -1;
        capo_alloc_layout(a, &layout);
        if (m->domain > 1 && a->n_nodes > 1) {
                capo_layout_print(&layout, out->trays, sizeof out->trays);
                r = fragment_trays_join(m, a, &out->joined, why, room);
                if (r == 0)
                        r = fragment_model(&out->joined.machine, &out->joined.a, asks, n_asks,
                                           &out->model, why, room);
        } else {
                r = fragment_model(m, a, asks, n_asks, &out->model, why, room);
        }
        if (r < 0) {
                fragment_trays_free(&out->joined);
                return r;
        }
        capo_why(-ENOMEM, why, room, "out of memory");
        if (out->model.n_nodes == a->n_nodes && a->n_nodes > 1 && !*out->trays)
                capo_layout_print(&layout, out->layout, sizeof out->layout);
        r = capo_class_name(m->t, a, out->class, sizeof out->class);
        out->by_class = !*out->trays && (exact || more_than_numbers(out->class));
        out->decided = calloc(n_asks + 1, sizeof *out->decided);
        if (!out->decided)
                r = -ENOMEM;
        for (size_t i = 0; i < out->model.nccl.n_rows && r == 0; i++) {
                out->decided[i] = decide_row(&out->model, i, margin);
                any |= out->decided[i].choice;
        }
        if (r == 0 && any) {
                out->line = (int)profile->n_rules;
                r = write_rule(out, a, profile);
        }
        if (r < 0)
                capo_fit_fragment_finish(out);
        return r;
}

void capo_fit_fragment_finish(struct capo_fit_fragment *f)
{
        fragment_model_finish(&f->model);
        fragment_trays_free(&f->joined);
        free(f->decided);
        f->decided = NULL;
}
