/* SPDX-License-Identifier: Apache-2.0 */
/* The first two forms of capo explain: rules and candidates. */

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/cli_json.h"
#include "cli/explain/cmd_explain.h"
#include "core/base/calls.h"
#include "core/base/nccl_facts.h"
#include "core/base/nccl_release.h"
#include "profiles/fragment/bound.h"
#include "profiles/plan/plan_judge.h"

static const char *choice_text(unsigned algo, unsigned proto, unsigned channels, unsigned chunk,
                               char *text, size_t room)
{
        char size[16];

        snprintf(text, room, "%s %s", algo ? capo_algo_name(algo) : "left to",
                 algo ? capo_proto_name(proto) : "NCCL");
        if (algo && channels)
                capo_append(text, room, ", up to %u channels", channels);
        if (algo && chunk)
                capo_append(text, room, ", chunks of %s",
                            capo_size_print(chunk, size, sizeof size));
        return text;
}

static const char *chunk_text(const struct capo_row *row, int nccl)
{
        return !row->chunk || capo_nccl_has(nccl, CAPO_NCCL_CHUNK) ? ""
               : nccl > 0 ? " (its chunk is dead: NCCL before 2.30 asks no tuner for it)"
                          : " (its chunk: NCCL 2.30 on)";
}

/* What a row overrides per call, and whether release @nccl supports it (0: not known). */
static const char *turned_text(const struct capo_row *row, int nccl, char *text, size_t room)
{
        char what[CAPO_TURNED_TEXT];

        snprintf(text, room, "%s%s%s", capo_row_turned(row) ? "; the call is turned: " : "",
                 capo_row_turned_text(row, what, sizeof what),
                 !capo_row_turned(row) || capo_nccl_has(nccl, CAPO_NCCL_CALL_CONFIG) ? ""
                 : nccl > 0 ? " (dead: NCCL before 2.31 has no call that takes this)"
                            : " (NCCL 2.31 on)");
        return text;
}

/* Does the rule not hold because it names releases, and none is known? */
static bool needs_release(const struct capo_plan_decision *d, const struct capo_rule_verdict *v)
{
        return d->shape.nccl <= 0 && v->fate == CAPO_RULE_NOT_THIS_JOB && !strcmp(v->why, "nccl");
}

/* The release to ask for, such as "2.28", if @p may decide otherwise when it is known; NULL: not. */
static const char *release_decides(const struct capo_profile *p, const struct capo_plan_decision *d,
                                   char release[16])
{
        size_t n;
        uint32_t winner;
        _cleanup_free_ struct capo_rule_verdict *list = capo_plan_judge(p, d, &winner, &n);

        for (size_t i = 0; i < n; i++) {
                uint32_t first = (uint32_t)p->rules[list[i].rule].when.nccl.min;

                if (!needs_release(d, &list[i]) ||
                    (winner != UINT32_MAX && capo_rule_compare(p, list[i].rule, winner, NULL) >= 0))
                        continue;
                capo_nccl_text(first, release, 16);
                if (first >= 20000 && first % 100 == 0) /* all of "2.28", not 2.28.0 alone */
                        *strrchr(release, '.') = 0;
                return release;
        }
        return NULL;
}

/* Why a rule decides, or does not. */
static void add_verdict(struct cli_section *t, const struct capo_profile *p,
                        const struct capo_rule_verdict *v, uint32_t winner,
                        const struct capo_plan_decision *d)
{
        struct capo_choice c = d->choice;
        const struct capo_rule *rule = &p->rules[v->rule];
        const struct capo_row *row = c.rule ? &p->rows[c.rule - 1] : NULL;
        char when[400], what[96], turned[256], text[1024] = "", gain[96] = "";

        switch (v->fate) {
        case CAPO_RULE_DECIDES:
                if (!isnan(row->gain))
                        snprintf(gain, sizeof gain, ", gain %.0f %%", (double)row->gain * 100);
                if (row->measured)
                        capo_append(gain, sizeof gain, ", measured on %s", row->measured);
                snprintf(text, sizeof text, "decides, line %u: %s%s%s%s", row->line,
                         choice_text(row->algo, row->proto, row->channels, row->chunk, what,
                                     sizeof what),
                         chunk_text(row, d->shape.nccl),
                         turned_text(row, d->shape.nccl, turned, sizeof turned), gain);
                break;
        case CAPO_RULE_NOT_THIS_JOB:
                snprintf(text, sizeof text,
                         needs_release(d, v) ? "not known without --nccl" : "does not hold: %s",
                         v->why);
                break;
        case CAPO_RULE_NOT_THIS_CALL:
                snprintf(text, sizeof text,
                         "does not hold for this call (link, bandwidth, "
                         "pipelining or registered buffers)");
                break;
        case CAPO_RULE_LESS_SPECIFIC:
                snprintf(text, sizeof text, "holds, but line %u is more specific: %s",
                         p->rules[winner].line, v->why);
                break;
        case CAPO_RULE_NO_ROW:
                snprintf(text, sizeof text, "holds, but has no row of this size");
                break;
        }
        cli_section_row(t, "%s:%u\t%s\t%s\t%s", capo_base_name(p->file), rule->line,
                        rule->basis == CAPO_BASIS_MODELLED ? "modelled" : "measured",
                        capo_when_print(&rule->when, when, sizeof when), text);
}

/* One row per rule that lists the collective. */
static void add_rules(struct cli_page *page, const struct explain *e,
                      const struct capo_plan_decision *d)
{
        static const struct cli_column columns[] = {
                {"rule", "l"}, {"basis", "l/a"}, {"when", "l~"}, {"verdict", "l~"}};
        struct cli_section *t = cli_page_section(page, "RULES", columns, N_ELEMENTS(columns));
        const struct capo_rule *constants;
        char release[16];
        size_t n;
        uint32_t winner;
        _cleanup_free_ struct capo_rule_verdict *list = capo_plan_judge(e->profile, d, &winner, &n);

        cli_section_of(t, "of profile %s   digest %s", e->profile->file, e->profile->digest);
        constants = capo_plan_constants(e->profile, &d->shape);
        for (size_t i = 0; i < n; i++)
                add_verdict(t, e->profile, &list[i], winner, d);
        if (winner == UINT32_MAX && constants)
                cli_section_line(t,
                                 "no rule of it decides; line %u changes constants of NCCL's "
                                 "model, and NCCL chooses by them",
                                 constants->line);
        else if (winner == UINT32_MAX && !release_decides(e->profile, d, release))
                cli_section_line(t, "no rule of it decides: NCCL's own choice stands, untouched");
}

static json_t *rules_json(const struct explain *e, const struct capo_plan_decision *d)
{
        static const char *const fates[] = {"decides", "not this job", "not this call",
                                            "less specific", "no row of this size"};
        json_t *rules = json_array();
        size_t n = 0;
        uint32_t winner;
        _cleanup_free_ struct capo_rule_verdict *list =
                e->profile ? capo_plan_judge(e->profile, d, &winner, &n) : NULL;

        for (size_t i = 0; i < n; i++) {
                const struct capo_rule *rule = &e->profile->rules[list[i].rule];

                json_array_append_new(
                        rules,
                        json_pack("{s:i, s:s, s:s, s:s?}", "line", (int)rule->line, "basis",
                                  rule->basis == CAPO_BASIS_MODELLED ? "modelled" : "measured",
                                  "verdict", fates[list[i].fate], "why", list[i].why));
        }
        return rules;
}

static json_t *rule_json(const struct explain *e, struct capo_choice c)
{
        char turned[CAPO_TURNED_TEXT];
        const struct capo_row *row;
        json_t *json;

        if (!c.rule || c.rule > e->profile->n_rows)
                return json_null();
        row = &e->profile->rows[c.rule - 1];
        json = json_pack("{s:s, s:i, s:s, s:s, s:i, s:b}", "file", e->profile->file, "line",
                         (int)row->line, "algo", row->algo ? capo_algo_name(row->algo) : "leave",
                         "proto", capo_proto_name(row->proto), "channels", row->channels, "leave",
                         !row->algo);
        if (row->chunk)
                json_object_set_new(json, "chunk", json_integer(row->chunk));
        if (capo_row_turned(row))
                json_object_set_new(json, "turned",
                                    json_string(capo_row_turned_text(row, turned, sizeof turned)));
        return json;
}

/* Only with several nodes: on one node there is only one layout. */
static void add_layout(struct cli_page *page, const struct capo_plan_decision *d)
{
        if (d->shape.n_nodes > 1)
                cli_page_under(page, "layout %s: %s", d->shape.layout ? d->shape.layout : "?",
                               d->layout_why.text);
}

/* The profile's part in both forms, as JSON, then @rest, which is used up. */
static json_t *decision_json(const struct explain *e, const struct capo_plan_decision *d,
                             json_t *rest)
{
        static const char *const sources[] = {"unknown", "nccl", "table", "launcher"};
        json_t *page = json_pack(
                "{s:i, s:s, s:I, s:i, s:i, s:s, s:s, s:s, s:o, s:o}", "capo_explain", 1, "coll",
                capo_coll_word(e->coll), "bytes", (json_int_t)e->bytes, "ranks", d->shape.n_ranks,
                "nodes", d->shape.n_nodes, "layout", d->shape.layout ? d->shape.layout : "",
                "layout_by", sources[d->layout_why.source], "layout_why", d->layout_why.text,
                "rule", e->profile ? rule_json(e, d->choice) : json_null(), "rules",
                rules_json(e, d));

        json_object_update_new(page, rest);
        return page;
}

static struct cli_page *shape_page(const struct explain *e, const struct capo_plan_decision *d)
{
        struct cli_page *page = cli_page_new();
        char what[96], release[16];

        cli_page_title(page, "capo explain   %s %s   %d rank%s on %d node%s%s%s",
                       capo_call_name(e->call), e->size, d->shape.n_ranks,
                       d->shape.n_ranks == 1 ? "" : "s", d->shape.n_nodes,
                       d->shape.n_nodes == 1 ? "" : "s", d->shape.layout ? ": " : "",
                       d->shape.layout ? d->shape.layout : "");
        if (release_decides(e->profile, d, release))
                cli_page_under(page,
                               "what the tuner answers may depend on NCCL's release: try --nccl %s",
                               release);
        else
                cli_page_under(page, "the tuner would answer: %s",
                               choice_text(d->choice.algo, d->choice.proto, d->choice.channels,
                                           d->choice.chunk, what, sizeof what));
        cli_page_under(page, "rules only: no NCCL was asked, there are no costs");
        add_layout(page, d);
        add_rules(page, e, d);
        return page;
}

int explain_shape(struct explain *e)
{
        struct capo_plan_decision d = {.shape = e->shape,
                                       .question = {.coll = (uint8_t)e->coll,
                                                    .pipe_ops = 1,
                                                    .bytes = e->bytes,
                                                    .ring_gbs = -1,
                                                    .tree_gbs = -1}};
        char canonical[CAPO_LAYOUT_TEXT];
        struct capo_layout layout;

        if (e->layout && capo_layout_canonical(e->layout, canonical, sizeof canonical))
                return capo_fail(CAPO_EXIT_USAGE,
                                 "--layout %s: expected ranks per node, such as 3+5", e->layout);
        if (e->layout && capo_layout_parse(canonical, &layout, NULL) == 0 &&
            layout.n_ranks != (uint32_t)d.shape.n_ranks)
                return capo_fail(CAPO_EXIT_USAGE, "--layout %s: %u ranks, --ranks says %d",
                                 e->layout, layout.n_ranks, d.shape.n_ranks);
        capo_shape_fill(&d.shape, e->layout ? canonical : NULL, d.derived, sizeof d.derived,
                        &d.layout_why);
        capo_plan_look_up(e->profile, &d);
        CLI_FORM_PRINT(e->form, shape_page(e, &d),
                       decision_json(e, &d, json_pack("{s:[]}", "candidates")), EXPLAIN_JSON,
                       "rules");
        return CAPO_EXIT_OK;
}

/* The fate of a pair: "NCCL chooses it (4 channels); wanted by the profile, blocked". */
static const char *fate_text(const struct capo_plan_row *plain, const struct capo_plan_row *tuned,
                             struct capo_choice c, unsigned algo, unsigned proto, char text[256])
{
        bool own = plain->algo == algo && plain->proto == proto;
        bool with = tuned && tuned->algo == algo && tuned->proto == proto;

        *text = 0;
        if (own)
                capo_append(text, 256, "NCCL chooses it (%u channels)", plain->channels);
        if (with)
                capo_append(text, 256, "%swith the profile it runs (%u channels)", own ? "; " : "",
                            tuned->channels);
        else if (c.algo == algo && c.proto == proto)
                capo_append(text, 256, "%swanted by the profile, blocked", own ? "; " : "");
        return text;
}

static void add_candidates(struct cli_page *page, const struct capo_plan_row *plain,
                           const struct capo_plan_row *tuned, struct capo_choice c, bool alone)
{
        static const struct cli_column columns[] = {
                {"algo", "l"}, {"proto", "l"}, {"predicted us", "r"}, {"", "l~"}};
        struct cli_section *t = cli_page_section(page, "CANDIDATES", columns, N_ELEMENTS(columns));

        for (unsigned a = 1; a <= plain->n_algo; a++) {
                for (unsigned p = 1; p <= plain->n_proto; p++) {
                        float us = plain->cost[a - 1][p - 1];
                        char fate[256], time[32] = "not available";

                        fate_text(plain, tuned, c, a, p, fate);
                        if (us < 0 && !*fate)
                                continue;
                        if (us >= 0)
                                snprintf(time, sizeof time, "%.1f", (double)us);
                        cli_section_row(t, "%s\t%s\t%s\t%s", capo_algo_name(a), capo_proto_name(p),
                                        time, fate);
                }
        }
        cli_section_line(t, "%s",
                         plain->n_algo ? "all other pairs are marked by NCCL as not available for "
                                         "this call; capo never revives them"
                         : alone       ? "one rank sends nothing: NCCL asks no tuner"
                                       : "this release shows its tuner no costs");
}

static json_t *candidates_json(const struct capo_plan_row *plain, const struct capo_plan_row *tuned)
{
        json_t *list = json_array();

        for (unsigned a = 0; a < plain->n_algo; a++) {
                for (unsigned p = 0; p < plain->n_proto; p++) {
                        double us = (double)plain->cost[a][p];

                        json_array_append_new(
                                list,
                                json_pack("{s:s, s:s, s:o, s:b, s:b}", "algo",
                                          capo_algo_name(a + 1), "proto", capo_proto_name(p + 1),
                                          "us", cli_json_known(us), "default",
                                          plain->algo == a + 1 && plain->proto == p + 1, "runs",
                                          tuned ? tuned->algo == a + 1 && tuned->proto == p + 1
                                                : plain->algo == a + 1 && plain->proto == p + 1));
                }
        }
        return list;
}

/* The class of the allocation and its bound. Return: are they known? */
static bool find_bound(const struct explain *e, struct fragment_bound *b)
{
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        char why[512];

        *b = (struct fragment_bound){0};
        if (capo_topology_read(e->plan.topo[0], CAPO_TOPOLOGY_PARTIAL, 0, &t, why, sizeof why) < 0)
                return false;   /* reported before, when NCCL was asked */
        if (e->plan.domain > 1) /* the description lacks links between nodes */
                return false;
        return t->n_links && fragment_bound(t, e->plan.ranks, e->plan.n_ranks, b) == 0 &&
               b->busbw_gbs[e->coll] > 0;
}

static void add_bound(struct cli_page *page, const struct explain *e,
                      const struct fragment_bound *b, const struct capo_plan_row *runs)
{
        double most = b->busbw_gbs[e->coll];
        char reach[160] = "";

        if (runs->busbw_gbs > 0)
                snprintf(reach, sizeof reach, ", this is expected to reach %.0f %% of it%s",
                         100 * runs->busbw_gbs / most,
                         runs->busbw_gbs > 1.005 * most
                                 ? ", which it cannot: NCCL's model is too fast"
                                 : "");
        cli_page_under(page, "class %s: its links allow %.1f GB/s busbw%s%s", b->class, most,
                       capo_ceiling_text(b->of[e->coll]), reach);
}

struct answers {
        const struct capo_plan_answer *all;     /* NCCL alone; with the profile, if there is one */
        const struct capo_plan_row *own, *with; /* NULL: no profile */
        struct capo_plan_decision d;
        struct fragment_bound bound;
        bool bounded;
        const char *blocked;
};

static json_t *answers_json(const struct explain *e, const struct answers *a)
{
        const char *class = a->bounded ? a->bound.class : NULL;
        char version[16];

        return decision_json(
                e, &a->d,
                json_pack("{s:s, s:s?, s:s?, s:o, s:s?, s:o}", "nccl",
                          capo_nccl_text((uint32_t)a->d.shape.nccl, version, sizeof version),
                          "blocked", a->blocked, "class", class, "ceiling_busbw_gbs",
                          class ? json_real(a->bound.busbw_gbs[e->coll]) : json_null(),
                          "ceiling_on", class ? capo_ceiling_word(a->bound.of[e->coll]) : NULL,
                          "candidates", candidates_json(a->own, a->with)));
}

static struct cli_page *answers_page(const struct explain *e, const struct answers *a)
{
        const struct capo_plan_row *runs = a->with ? a->with : a->own;
        const struct capo_choice *c = &a->d.choice;
        const struct capo_shape *shape = &a->d.shape;
        struct capo_plan_comparison compared = {0};
        char version[16], what[96], nodes[4096];
        struct cli_page *page = cli_page_new();

        cli_page_title(page, "capo explain   %s %s   %s", capo_call_name(e->call), e->size,
                       capo_plan_gpus_print(e->plan.ranks, e->plan.n_ranks, nodes, sizeof nodes));
        cli_page_under(page, "runs %s, %u channels%s",
                       choice_text(runs->algo, runs->proto, 0, 0, what, sizeof what),
                       runs->channels, a->with && !a->blocked && c->algo ? ", by the profile" : "");
        if (a->blocked)
                cli_page_problem(
                        page, "blocked: %s: %s",
                        choice_text(c->algo, c->proto, c->channels, c->chunk, what, sizeof what),
                        a->blocked);
        cli_page_under(page, "%s, NCCL counts %s%s%s",
                       capo_text_plural((unsigned)shape->n_ranks, "rank", NULL),
                       capo_text_plural((unsigned)shape->n_nodes, "node", NULL),
                       shape->layout ? ", layout " : "", shape->layout ? shape->layout : "");
        cli_page_under(page,
                       "real NCCL %s on virtual GPUs: costs are its model, nothing was measured",
                       capo_nccl_text((uint32_t)shape->nccl, version, sizeof version));
        add_layout(page, &a->d);
        /* in the changed table a tuner's choice costs nothing: use the time of the original table
         */
        if (a->bounded && a->with)
                capo_plan_compare(&a->all[0], &a->all[1], NULL, &compared);
        if (a->bounded)
                add_bound(page, e, &a->bound, a->with ? &compared.rows[0].with : a->own);
        add_candidates(page, a->own, a->with, *c, shape->n_ranks == 1);
        if (e->profile)
                add_rules(page, e, &a->d);
        return page;
}

int explain_planned(struct explain *e)
{
        struct capo_plan_answer answers[2] = {0};
        struct answers a = {.all = answers};
        char coll[32], layout[CAPO_LAYOUT_TEXT];
        int status;

        snprintf(coll, sizeof coll, "%s", capo_coll_word(e->coll));
        e->plan.colls = coll;
        e->plan.sizes = e->size;
        status = cli_question_prepare(&e->plan, "explain");
        if (status == CAPO_EXIT_OK)
                status = cli_question_ranks(&e->plan, "explain");
        if (status == CAPO_EXIT_OK)
                status = cli_question_ask(&e->plan, "explain", false, answers);
        if (status != CAPO_EXIT_OK)
                return status;
        a.own = answers[0].rows;
        a.with = e->profile ? answers[1].rows : NULL;
        a.bounded = find_bound(e, &a.bound);
        capo_plan_decide(&(struct capo_plan_by){.profile = e->profile,
                                                .layout = cli_question_layout(&e->plan, layout,
                                                                              sizeof layout),
                                                .class = e->plan.class,
                                                .allow_modelled = e->plan.allow_modelled,
                                                .n_ranks = (unsigned)e->plan.n_ranks},
                         &answers[0], a.own, &a.d);
        a.blocked = capo_plan_blocked(&a.d.choice, a.own, a.with);
        CLI_FORM_PRINT(e->form, answers_page(e, &a), answers_json(e, &a), EXPLAIN_JSON,
                       "candidates");
        return CAPO_EXIT_OK;
}
