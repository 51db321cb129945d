/* SPDX-License-Identifier: Apache-2.0 */
/* The page of an unmeasured allocation: what NCCL assumes, what the links are, what to choose. */

#include "capo/algorithms.h"
#include "capo/collectives.h"
#include "cli/base/cli_fields.h"
#include "cli/base/cli_machine.h"
#include "cli/fit/cmd_fit.h"
#include "cli/fit/fit_page.h"
#include "core/base/calls.h"
#include "core/base/nccl_release.h"

static const char *choice_text(uint8_t choice, char *text, size_t room)
{
        snprintf(text, room, "%s %s", capo_ran_algo(choice), capo_ran_proto(choice));
        return text;
}

static uint8_t get_own_choice(const struct fragment_model *m, size_t i)
{
        return CAPO_ALGO_PROTO(m->nccl.rows[i].algo, m->nccl.rows[i].proto);
}

static void add_shape(struct cli_section *t, unsigned algo, int channels,
                      const struct fragment_shape_rate *r)
{
        char of[16] = "";

        if (channels)
                snprintf(of, sizeof of, "%d", channels);
        if (r->believed > 0)
                cli_section_row(t, "%s\t%s\t%.1f\t%.1f\t%s%s", capo_algo_name(algo), of,
                                r->believed, r->corrected, r->full,
                                r->understood ? ""
                                              : " (only lowered: this release's formula is "
                                                "not known)");
}

/* Tree in bus bandwidth as the other sentences have it. NCCL's figure is twice the algorithm
 * bandwidth. */
static struct fragment_shape_rate get_tree_rate(const struct fit_models_shown *s)
{
        struct fragment_shape_rate r = s->f->model.tree;
        double part = (s->a->n_ranks - 1.0) / s->a->n_ranks;

        r.believed *= part;
        r.corrected *= part;
        r.links *= part;
        return r;
}

/* The allocation: what NCCL assumes, beside what its links carry. */
static void add_allocation(struct cli_page *page, const struct fit_models_shown *s)
{
        static const struct cli_column columns[] = {{"bus bandwidth, GB/s", "l"},
                                                    {"channels", "r"},
                                                    {"NCCL counts", "r"},
                                                    {"links carry", "r"},
                                                    {"full first", "l~"}};
        struct cli_section *t = cli_page_section(page, "ALLOCATION", columns, N_ELEMENTS(columns));
        const struct fragment_model *m = &s->f->model;
        const struct fragment_shape_rate tree = get_tree_rate(s);
        int late = m->max_local - m->mean_local;
        char gpus[1024], nccl[16];

        cli_section_of(t, "%s of %s   %s   %s%s", s->text, s->machine,
                       capo_alloc_print(s->t, s->a, gpus, sizeof gpus),
                       *s->f->trays ? "NVLink domain of trays" : "class ",
                       *s->f->trays ? "" : s->f->class);
        if (!*m->why_not) {
                add_shape(t, CAPO_ALGO_RING, m->channels, &m->ring);
                add_shape(t, CAPO_ALGO_TREE, m->channels, &tree);
                add_shape(t, CAPO_ALGO_NVLS, 0, &m->nvls);
        }
        cli_section_line(t, "NCCL %s on virtual GPUs",
                         capo_nccl_text((uint32_t)m->nccl.version, nccl, sizeof nccl));
        if (s->measured_in)
                cli_section_line(t, "one NVLink %g GB/s, measured: %s", s->t->brick_gbs,
                                 s->measured_in);
        if (*m->why_not)
                cli_section_line(t, "bandwidths are NCCL's: %s", m->why_not);
        if (m->tree_cap > 0 && m->tree_cap < m->tree.links)
                cli_section_line(
                        t,
                        "Tree: NCCL's cap per channel stops at %.1f GB/s of bus bandwidth, the "
                        "links at %.1f; public measurements agree now with one, now with "
                        "the other",
                        m->tree_cap / m->tree.links * tree.links, tree.links);
        if (late > 0 && m->tree_late_us[2] > 0)
                cli_section_line(t,
                                 "Tree's hops inside the largest node: NCCL counts %d, there are "
                                 "%d: %+.1f / %.1f / %.1f us LL / LL128 / Simple",
                                 m->mean_local - 1, m->max_local - 1, m->tree_late_us[0],
                                 m->tree_late_us[1], m->tree_late_us[2]);
        else if (late > 0)
                cli_section_line(t, "Tree's hops inside the largest node are not corrected: this "
                                    "release does not tell its constants");
}

static double find_ceiling(const struct fit_models_shown *s, enum capo_coll coll, unsigned algo,
                           const char **of)
{
        const struct fragment_trays *joined = s->f->joined.t ? &s->f->joined : NULL;
        const struct capo_alloc *a = joined ? &joined->a : s->a;
        unsigned what = a->n_nodes > 1 || s->f->model.n_nodes > 1 ? CAPO_CEILING_HYBRID : 0;
        struct capo_ceilings c;
        const struct capo_rates *r;

        if (s->a->n_ranks > 16 || algo == CAPO_ALGO_NVLS_TREE ||
            /* no ceiling here includes adding in several switches */
            capo_ceilings(joined ? joined->t : s->t, a, what, &c) < 0)
                return -1;
        r = c.connected ? &c.links : &c.hybrid;
        *of = !c.connected ? "with PCIe and NICs" : "over NVLink";
        if (coll == CAPO_COLL_ALLREDUCE && c.connected && c.nvls_gbs > r->allreduce_gbs) {
                *of = "over NVLink, the switches adding";
                return c.nvls_gbs;
        }
        return coll == CAPO_COLL_ALLREDUCE                                      ? r->allreduce_gbs
               : coll == CAPO_COLL_ALLGATHER || coll == CAPO_COLL_REDUCESCATTER ? r->allgather_gbs
                                                                                : r->broadcast_gbs;
}

/* Nothing better, up to a gain of @gain: print what that means. */
static void add_no_gain(struct cli_section *t, const struct fit_models_shown *s, size_t last,
                        double gain)
{
        const struct fragment_model *m = &s->f->model;
        const struct capo_plan_row *r = &m->nccl.rows[last];
        double factor = capo_busbw_factor(capo_coll_kind(r->coll), (unsigned)s->a->n_ranks),
               gbs = factor * (double)r->bytes /
                     fragment_cost(m->cost[last], get_own_choice(m, last)) / 1000,
               most;
        char size[16], text[40], reach[80] = "";
        const char *of = "";

        most = *m->why_not ? -1 : factor * find_ceiling(s, r->coll, r->algo, &of);
        if (most > 0)
                snprintf(reach, sizeof reach, " of %.1f %s", most, of);
        cli_section_line(
                t,
                "nothing to gain by choice (at most %.0f %%): at %s NCCL picks %s, %.1f "
                "GB/s of bus bandwidth%s%s",
                100 * gain, capo_size_print(r->bytes, size, sizeof size),
                choice_text(get_own_choice(m, last), text, sizeof text), gbs, reach,
                most <= 0 || gbs >= 0.95 * most ? "" : "; the rest is lost to links and channels");
}

static bool same_settle(const struct fit_models_shown *s, size_t a, size_t b)
{
        const struct fragment_model *m = &s->f->model;

        return m->nccl.rows[a].coll == m->nccl.rows[b].coll &&
               get_own_choice(m, a) == get_own_choice(m, b) &&
               s->f->decided[a].settle == s->f->decided[b].settle;
}

/* The two results of the model differ: print both, and the command that measures. */
static void add_settles(struct cli_section *t, const struct fit_models_shown *s, size_t first,
                        size_t end)
{
        char text[CAPO_FIT_SETTLE_TEXT], command[CAPO_FIT_SETTLE_TEXT];

        for (size_t i = first, next; i < end; i = next) {
                for (next = i + 1; next < end && same_settle(s, i, next); next++)
                        ;
                if (!s->f->decided[i].settle)
                        continue;
                cli_section_line(
                        t, "%s",
                        capo_fit_settle_text(s->f, s->a->n_ranks, i, next - 1, text, command));
                cli_section_line(t, "  one experiment: %s", command);
        }
}

static bool same_line(const struct fit_models_shown *s, size_t a, size_t b)
{
        const struct fragment_model *m = &s->f->model;

        return same_settle(s, a, b) && s->f->decided[a].choice == s->f->decided[b].choice &&
               fragment_fastest(m->cost[a]) == fragment_fastest(m->cost[b]);
}

static void add_decision_row(struct cli_section *t, const struct fit_models_shown *s, size_t first,
                             size_t last)
{
        const struct fragment_model *m = &s->f->model;
        const struct capo_fit_decision *d = &s->f->decided[last];
        uint8_t mine = get_own_choice(m, last), best = fragment_fastest(m->cost[last]);
        char range[40], picks[32], text[32], gain[32] = "-";

        if (best != mine)
                snprintf(gain, sizeof gain, "%.0f %%", 100 * d->gain);
        cli_section_row(t, "%s\t%s\t%.1f\t%.1f\t%s\t%.1f\t%s\t%s",
                        fit_page_range(m->nccl.rows[first].bytes, m->nccl.rows[last].bytes, range),
                        choice_text(mine, picks, sizeof picks), m->nccl.rows[last].us,
                        fragment_cost(m->cost[last], mine),
                        best == mine ? "the same" : choice_text(best, text, sizeof text),
                        fragment_cost(m->cost[last], best), gain,
                        d->choice                     ? "yes"
                        : d->settle                   ? "no: measure"
                        : best == mine                ? "-"
                        : d->gain < CAPO_MODEL_MARGIN ? "no: below " CAPO_MODEL_MARGIN_TEXT
                                                      : "no: NVLS below 256 MiB");
}

/* The sizes of one collective, rows @first to @end. */
static void add_collective(struct cli_page *page, const struct fit_models_shown *s, size_t first,
                           size_t end)
{
        static const struct cli_column columns[] = {
                {"size", "l"}, {"NCCL picks", "l"}, {"its us", "r/a"}, {"corrected us", "r/c"},
                {"best", "l"}, {"us", "r/b"},       {"gain", "r"},     {"written", "l~"}};
        const struct fragment_model *m = &s->f->model;
        enum capo_coll coll = m->nccl.rows[first].coll;
        bool any = false, differs = false, settle = false;
        double gain = 0;
        struct cli_section *t = cli_page_section(page, capo_call_name(capo_coll_call(coll)),
                                                 columns, N_ELEMENTS(columns));

        for (size_t k = first; k < end; k++) {
                any |= s->f->decided[k].choice;
                settle |= s->f->decided[k].settle;
                differs |= fragment_fastest(m->cost[k]) != get_own_choice(m, k);
                if (s->f->decided[k].gain < CAPO_MODEL_MARGIN)
                        gain = fmax(gain, s->f->decided[k].gain);
        }
        for (size_t k = first, next; k < end && (any || (differs && coll == CAPO_COLL_ALLREDUCE));
             k = next) {
                for (next = k + 1; next < end && same_line(s, k, next); next++)
                        ;
                add_decision_row(t, s, k, next - 1);
        }
        add_settles(t, s, first, end);
        if (!any && !settle)
                add_no_gain(t, s, end - 1, gain);
}

static const struct cli_column sentences[] = {{NULL, "l~"}};

static void add_rule(struct cli_page *page, const struct fit_models_shown *s)
{
        struct cli_section *t = cli_page_section(page, "RULE", sentences, 1);
        char when[64] = "";

        if (s->f->line < 0) {
                cli_section_row(t, "none: no choice that both accounts expect to gain %s",
                                CAPO_MODEL_MARGIN_TEXT);
                return;
        }
        if (*s->f->layout)
                snprintf(when, sizeof when, " of layout %.40s", s->f->layout);
        if (s->f->n_rules > 1) {
                cli_section_row(t, "%d of %d orders of the nodes have one: %d rows", s->f->n_rules,
                                s->f->orders.n, s->f->n_rows);
                return;
        }
        if (*s->f->trays)
                snprintf(when, sizeof when, " of trays %.40s", s->f->trays);
        cli_section_row(t, "for %d ranks on %s%s%s%s: %s", s->a->n_ranks,
                        capo_text_plural((unsigned)s->f->model.n_nodes, "node", NULL), when,
                        s->f->by_class ? " and class " : "", s->f->by_class ? s->f->class : "",
                        capo_text_plural((unsigned)s->f->n_rows, "row", NULL));
        if (s->f->by_class)
                cli_section_row(t, "capo run exports the class when it is given the GPUs: "
                                   "capo run --platform NAME --gpus ...");
}

void fit_models_page(struct cli_page *page, const struct fit_models_shown *s)
{
        const struct capo_plan_row *rows = s->f->model.nccl.rows;
        char text[FRAGMENT_ORDER_TEXT];
        struct cli_section *t;

        add_allocation(page, s);
        /* another order of the nodes, where it is faster: it costs nothing */
        if (*fragment_orders_text(&s->f->orders, &s->f->model, s->a->n_ranks, text, sizeof text)) {
                t = cli_page_section(page, "ORDER", sentences, 1);
                cli_section_row(t, "%s", text);
                cli_section_row(t, "%s", FRAGMENT_ORDER_HOW);
        }
        for (size_t i = 0, end; i < s->f->model.nccl.n_rows; i = end) {
                for (end = i; end < s->f->model.nccl.n_rows && rows[end].coll == rows[i].coll;
                     end++)
                        ;
                add_collective(page, s, i, end);
        }
        /* settings to try, where no choice of NCCL's table has what the links allow */
        t = s->beyond->n ? cli_page_section(page, "BEYOND", sentences, 1) : NULL;
        for (int i = 0; t && i < s->beyond->n; i++)
                cli_section_row(t, "%s", s->beyond->text[i]);
        add_rule(page, s);
}

/* ---- JSON ---- */

static json_t *shape_json(const struct fragment_shape_rate *r)
{
        return json_pack("{s:f, s:f, s:f, s:s, s:b}", "believed_gbs", r->believed, "corrected_gbs",
                         r->corrected, "links_gbs", r->links, "full", r->full, "understood",
                         r->understood);
}

static json_t *row_json(const struct fit_models_shown *s, size_t i)
{
        const struct fragment_model *m = &s->f->model;
        const struct capo_plan_row *r = &m->nccl.rows[i];
        uint8_t best = fragment_fastest(m->cost[i]);
        json_t *cells = json_object();
        char text[40];

        for (int a = 0; a < CAPO_PLAN_ALGOS; a++) {
                for (int p = 0; p < CAPO_PLAN_PROTOS; p++) {
                        if (m->cost[i][a][p] >= 0 && a < r->n_algo && p < r->n_proto)
                                json_object_set_new(cells,
                                                    choice_text(CAPO_ALGO_PROTO(a + 1, p + 1), text,
                                                                sizeof text),
                                                    json_pack("{s:f, s:f, s:f}", "nccl_us",
                                                              (double)r->cost[a][p], "corrected_us",
                                                              (double)m->cost[i][a][p], "links_us",
                                                              (double)m->links[i][a][p]));
                }
        }
        return json_pack("{s:s, s:I, s:s, s:s, s:b, s:s, s:f, s:f, s:o}", "coll",
                         capo_coll_word(r->coll), "bytes", (json_int_t)r->bytes, "nccl",
                         choice_text(get_own_choice(m, i), text, sizeof text), "best",
                         best ? choice_text(best, (char[40]){0}, 40) : "", "written",
                         s->f->decided[i].choice != 0, "settle",
                         s->f->decided[i].settle
                                 ? choice_text(s->f->decided[i].settle, (char[40]){0}, 40)
                                 : "",
                         "settle_gain", s->f->decided[i].settle_gain, "busbw_factor",
                         capo_busbw_factor(capo_coll_kind(r->coll), (unsigned)s->a->n_ranks),
                         "cells", cells);
}

static json_t *order_json(const struct fragment_order *o)
{
        char text[40];

        return json_pack("{s:s, s:f, s:f, s:s}", "layout", o->layout, "own_us", o->own_us,
                         "best_us", o->best_us, "best", choice_text(o->best, text, sizeof text));
}

json_t *fit_models_json(const struct fit_models_shown *s)
{
        const struct fragment_model *m = &s->f->model;
        const struct fragment_orders *o = &s->f->orders;
        char gpus[1024];

        return json_pack(
                "{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:o, s:o, s:o, s:[fff], s:f, s:i, s:s, s:o, s:o, s:o}",
                "allocation", capo_alloc_print(s->t, s->a, gpus, sizeof gpus), "class", s->f->class,
                "layout", s->f->layout, "trays", s->f->trays, "basis", "modelled", "nodes",
                m->n_nodes, "largest", m->max_local, "mean", m->mean_local, "channels", m->channels,
                capo_algo_word(CAPO_ALGO_RING), shape_json(&m->ring),
                capo_algo_word(CAPO_ALGO_TREE), shape_json(&m->tree),
                capo_algo_word(CAPO_ALGO_NVLS), shape_json(&m->nvls), "tree_late_us",
                m->tree_late_us[0], m->tree_late_us[1], m->tree_late_us[2], "tree_cap_gbs",
                m->tree_cap, "rows_written", s->f->n_rows, "why_not", m->why_not, "orders",
                CLI_EACH(int i = 0; i < o->n; i++, order_json(&o->v[i])), "beyond",
                cli_beyond_json(s->beyond), "rows",
                CLI_EACH(size_t i = 0; i < m->nccl.n_rows; i++, row_json(s, i)));
}
