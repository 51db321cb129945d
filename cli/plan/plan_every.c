/* SPDX-License-Identifier: Apache-2.0 */
/* capo plan --every: a line per group of allocations with equal answers. */
#include <math.h>

#include "capo/algorithms.h"
#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/cli_json.h"
#include "cli/base/cli_progress.h"
#include "cli/plan/cmd_plan.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/nccl_release.h"
#include "core/base/text.h"
#include "core/base/util.h"
#include "profiles/fragment/splits.h"

static void show_ask_progress(size_t done, size_t of)
{
        cli_progress("asking NCCL", done, of);
        if (done == of)
                cli_progress_end();
}

/* "{0,1,2} {0,1,3} and 8 more": the members of a group. */
static void list_members(const struct splits *s, size_t g, char *line, size_t room)
{
        size_t n = s->groups[g].count, shown = 0;
        char text[1024];

        *line = 0;
        for (size_t i = 0; i < s->n_splits && strlen(line) < 90; i++) {
                if (s->splits[i].group != g)
                        continue;
                capo_plan_gpus_print(s->splits[i].gpus, s->splits[i].n_gpus, text, sizeof text);
                shown += s->splits[i].stands_for;
                capo_append(line, room, "%s%s", *line ? " " : "", text);
        }
        if (shown < n)
                capo_append(line, room, " and %zu more", n - shown);
}

/* What the links allow for the last question, and how close NCCL's model comes. */
static void add_bound(struct cli_section *t, const struct splits *s, const struct split_group *g)
{
        double busbw = s->splits[g->first].cells[s->question->n_asks - 1].busbw;
        char classes[1024] = "";

        for (size_t k = 0; k < g->n_classes; k++)
                capo_append(classes, sizeof classes, "%s%s", k ? " " : "", g->classes[k]);
        if (!g->n_classes) {
                cli_section_end(t);
                return;
        }
        if (g->high > 0)
                cli_section_cell(t, g->low < g->high ? "%.2f-%.2f" : "%.2f",
                                 g->low < g->high ? g->low : g->high, g->high);
        else
                cli_section_cell(t, "%s", "-");
        if (busbw > 0 && g->high > 0)
                cli_section_cell(t, "%.0f %%%s", 100 * busbw / g->high,
                                 busbw > 1.005 * g->high ? " (too fast)" : "");
        else
                cli_section_cell(t, "%s", "");
        cli_section_cell(t, "%s", capo_ceiling_word(g->of));
        cli_section_cell(t, "%s%s", classes, g->more_classes ? " ..." : "");
}

static bool has_several_colls(const struct plan_options *o)
{
        return o->q.n_asks && o->q.asks[0].coll != o->q.asks[o->q.n_asks - 1].coll;
}

/* A row per question; the group's own data is in the first. */
static void add_group(struct cli_section *t, const struct plan_options *o, const struct splits *s,
                      size_t g)
{
        const struct split *p = &s->splits[s->groups[g].first];
        bool several = has_several_colls(o);
        char members[2048], size[24];

        list_members(s, g, members, sizeof members);
        if (p->rc < 0) {
                cli_section_row(t, "%zu\t%s\t\t\t%s", s->groups[g].count, members,
                                p->why[0] ? p->why : strerror(-p->rc));
                return;
        }
        for (size_t k = 0; k < o->q.n_asks; k++) {
                if (k == 0)
                        cli_section_cell(t, "%zu", s->groups[g].count);
                cli_section_cell(t, "%s", k ? "" : members);
                if (k)
                        cli_section_cell(t, "%s", "");
                cli_section_cell(t, "%s", k ? "" : p->ring);
                cli_section_cell(t, "%s", k ? "" : p->tree);
                cli_section_cell(t, "%s%s%s",
                                 several ? capo_call_name(capo_coll_call(o->q.asks[k].coll)) : "",
                                 several ? " " : "",
                                 capo_size_print(o->q.asks[k].bytes, size, sizeof size));
                cli_section_cell(t, "%s %s", capo_algo_name(p->cells[k].algo),
                                 capo_proto_name(p->cells[k].proto));
                cli_section_cell(t, "%u", p->cells[k].channels);
                if (isfinite(p->cells[k].busbw)) /* one rank has none */
                        cli_section_cell(t, "%.2f", p->cells[k].busbw);
                else
                        cli_section_cell(t, "%s", "-");
                if (k + 1 < o->q.n_asks)
                        cli_section_end(t);
        }
        add_bound(t, s, &s->groups[g]);
}

static struct cli_page *make_page(const struct plan_options *o, const struct splits *s)
{
        static const struct cli_column columns[] = {
                {"sets", "r"}, {"GPUs", "l~"},     {"ring, GB/s", "l/c"}, {"tree, GB/s", "l/b"},
                {"call", "l"}, {"choice", "l"},    {"ch", "r/e"},         {"busbw", "r"},
                {"best", "r"}, {"reached", "r/f"}, {"over", "l/d"},       {"class", "l~/a"}};
        struct cli_page *page = cli_page_new();
        struct cli_section *t;
        char version[16];

        if (o->every_2)
                cli_page_title(page, "capo plan   %s   all %zu splits %d+%d over 2 nodes",
                               capo_base_name(o->q.topo[0]), s->n_all, o->every, o->every_2);
        else
                cli_page_title(page, "capo plan   %s   all %zu subsets of %d GPU%s",
                               capo_base_name(o->q.topo[0]), s->n_all, o->every,
                               o->every == 1 ? "" : "s");
        cli_page_under(page, "real NCCL %s on virtual GPUs: its own decisions, times by its model",
                       capo_nccl_text((uint32_t)s->version, version, sizeof version));
        cli_page_under(page, "%zu asked%s; %zu kind%s", s->n_splits,
                       s->n_splits < s->n_all
                               ? ": the others are the same by the symmetry of the machine"
                               : "",
                       s->n_groups, s->n_groups == 1 ? "" : "s");
        t = cli_page_section(page, "KINDS", columns, N_ELEMENTS(columns));
        cli_section_of(t, "which NCCL treats alike; %s, GB/s",
                       has_several_colls(o) || !o->q.n_asks
                               ? "busbw"
                               : capo_call_name(capo_coll_call(o->q.asks[0].coll)));
        t->how = "best: no software exceeds it, for the last call. ring, tree: channels times GB/s "
                 "of each, as NCCL counts.";
        for (size_t g = 0; g < s->n_groups; g++)
                add_group(t, o, s, g);
        return page;
}

static json_t *make_json(const struct plan_options *o, const struct splits *s)
{
        json_t *groups = json_array();
        char version[16];

        for (size_t g = 0; g < s->n_groups; g++) {
                const struct split *p = &s->splits[s->groups[g].first];
                json_t *members = json_array(), *rows = json_array(), *group;

                for (size_t i = 0; i < s->n_splits; i++) {
                        const struct split *m = &s->splits[i];

                        if (m->group == g)
                                json_array_append_new(members,
                                                      json_pack("{s:o, s:i, s:s}", "gpus",
                                                                cli_json_gpus(m->gpus, m->n_gpus),
                                                                "stands_for", (int)m->stands_for,
                                                                "class", m->bound.class));
                }
                for (size_t k = 0; k < o->q.n_asks && p->rc == 0; k++) {
                        const struct split_cell *c = &p->cells[k];
                        double most = p->bound.busbw_gbs[o->q.asks[k].coll];

                        json_array_append_new(
                                rows, json_pack("{s:s, s:I, s:s, s:s, s:i, s:o, s:o, s:o}", "coll",
                                                capo_coll_word(o->q.asks[k].coll), "bytes",
                                                (json_int_t)o->q.asks[k].bytes, "algo",
                                                capo_algo_name(c->algo), "proto",
                                                capo_proto_name(c->proto), "channels", c->channels,
                                                "us", cli_json_real(c->us), "busbw_gbs",
                                                cli_json_real(c->busbw), "ceiling_busbw_gbs",
                                                cli_json_known(most > 0 ? most : -1)));
                }
                group = json_pack(
                        "{s:i, s:i, s:s, s:s, s:o, s:o}", "count", (int)s->groups[g].count,
                        "nccl_nodes", p->nodes, capo_algo_word(CAPO_ALGO_RING), p->ring,
                        capo_algo_word(CAPO_ALGO_TREE), p->tree, "rows", rows, "members", members);
                if (p->rc < 0)
                        json_object_set_new(group, "error", json_string(p->why));
                json_array_append_new(groups, group);
        }
        return json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:o}", "nccl",
                         capo_nccl_text((uint32_t)s->version, version, sizeof version), "libnccl",
                         o->q.libnccl, "times", "NCCL's model", "gpus", o->every, "gpus_2",
                         o->every_2, "allocations", (int)s->n_all, "asked", (int)s->n_splits,
                         "groups", groups);
}

int plan_every(struct plan_options *o)
{
        struct capo_plan_question question = cli_question_make(&o->q, false);
        struct splits s = {.question = &question,
                           .devs = o->q.devs,
                           .n_devs = o->q.n_devs,
                           .k = {o->every, o->every_2},
                           .all = o->all,
                           .at_once = o->q.jobs,
                           .progress = show_ask_progress};
        char why[512];
        int r;

        if (o->every_2 && o->q.domain > 1)
                return capo_fail(
                        CAPO_EXIT_USAGE,
                        "plan: --every over two nodes knows no NVLink domain: --domain 1 ends "
                        "NVLink at the node");
        if (o->every > (int)o->q.n_devs || o->every_2 > (int)o->q.n_devs || o->q.n_devs > 32)
                return capo_fail(CAPO_EXIT_USAGE, "--every %d: the machine has %zu GPUs",
                                 o->every > (int)o->q.n_devs ? o->every : o->every_2, o->q.n_devs);
        r = splits_ask(&s, why, sizeof why);
        if (r < 0)
                capo_error("plan: %s", *why ? why : strerror(-r));
        else
                CLI_FORM_PRINT(o->form, make_page(o, &s), make_json(o, &s), PLAN_JSON,
                               "groups.rows");
        splits_finish(&s);
        return r < 0 ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}
