/* SPDX-License-Identifier: Apache-2.0 */
/* capo plan --every: the atlas of a machine, a line per group of allocations that NCCL treats
 * alike. */
#include <stdio.h>
#include <string.h>

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/cli_json.h"
#include "cli/base/cli_progress.h"
#include "cli/base/cli_screen.h"
#include "cli/base/cli_table.h"
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

static struct capo_table *every_table(size_t n_asks)
{
        char columns[16384] = "r6,r5/a,l20/c,l20/b";

        for (size_t i = 0; i < n_asks && strlen(columns) + 32 < sizeof columns; i++)
                strcat(columns, ",l6,.l7,.r2/d,.r8");
        return capo_table_new(columns);
}

/* The calls stand over their columns; above the table on a terminal, where columns may be left out.
 */
static void every_head(const struct plan_options *o, struct capo_table *t)
{
        bool fitted = cli_screen_columns(stdout);
        const char *sets = o->every_2 ? "splits" : "sets";

        if (!fitted)
                printf("%6s  %5s  %-20s  %-20s", sets, "nodes", "ring, GB/s", "tree, GB/s");
        capo_table_cell(t, "%s", fitted ? sets : " ");
        capo_table_cell(t, "%s", fitted ? "nodes" : "");
        capo_table_cell(t, "%s", fitted ? "ring, GB/s" : "");
        capo_table_cell(t, "%s", fitted ? "tree, GB/s" : "");
        for (size_t k = 0; k < o->q.n_asks; k++) {
                char size[24], title[48];

                snprintf(title, sizeof title, "%s %s", capo_coll_word(o->q.asks[k].coll),
                         capo_size_print(o->q.asks[k].bytes, size, sizeof size));
                if (fitted)
                        printf("%s%s", k ? ", then " : "choices for ", title);
                else
                        printf("  %-27s", title);
                capo_table_cell(t, "algo");
                capo_table_cell(t, "proto");
                capo_table_cell(t, "ch");
                capo_table_cell(t, "busbw");
        }
        putchar('\n');
}

static void group_row(const struct plan_options *o, const struct splits *s, size_t g,
                      struct capo_table *t)
{
        const struct split *p = &s->splits[s->groups[g].first];

        capo_table_cell(t, "%zu", s->groups[g].count);
        if (p->rc < 0) {
                capo_table_row(t, "%s", p->why[0] ? p->why : strerror(-p->rc));
                return;
        }
        capo_table_cell(t, "%d", p->nodes);
        capo_table_cell(t, "%s", p->ring);
        capo_table_cell(t, "%s", p->tree);
        for (size_t k = 0; k < o->q.n_asks; k++) {
                capo_table_cell(t, "%s", capo_algo_name(p->cells[k].algo));
                capo_table_cell(t, "%s", capo_proto_name(p->cells[k].proto));
                capo_table_cell(t, "%u", p->cells[k].channels);
                capo_table_cell(t, "%.2f", p->cells[k].busbw);
        }
}

static void group_members(const struct splits *s, size_t g, struct capo_table *t)
{
        size_t n = s->groups[g].count, shown = 0, at = 0;
        char line[2048] = "", text[1024];

        for (size_t i = 0; i < s->n_splits && at < 90; i++) {
                if (s->splits[i].group != g)
                        continue;
                capo_plan_gpus_print(s->splits[i].gpus, s->splits[i].n_gpus, text, sizeof text);
                at += strlen(text) + 1;
                shown += s->splits[i].stands_for;
                capo_append(line, sizeof line, "%s ", text);
        }
        if (shown < n)
                capo_append(line, sizeof line, "and %zu more", n - shown);
        capo_table_row(t, "        %s", line);
}

static void group_bound(const struct splits *s, const struct split_group *g, struct capo_table *t)
{
        double busbw = s->splits[g->first].cells[s->question->n_asks - 1].busbw;
        char some[64] = "", reached[96] = "", classes[1024] = "";

        if (!g->n_classes)
                return;
        if (g->low < g->high)
                snprintf(some, sizeof some, " (%.2f in some)", g->low);
        if (busbw > 0 && g->high > 0)
                snprintf(reached, sizeof reached, ", NCCL reaches %.0f %% of it%s",
                         100 * busbw / g->high,
                         busbw > 1.005 * g->high ? " by its model, which is too fast here" : "");
        for (size_t k = 0; k < g->n_classes; k++)
                capo_append(classes, sizeof classes, " %s", g->classes[k]);
        capo_table_row(t, "        no software exceeds %.2f%s busbw%s%s%s  %s%s", g->high, some,
                       g->hybrid ? "" : " over NVLink", capo_ceiling_text(g->of), reached, classes,
                       g->more_classes ? " ..." : "");
}

static void print_text(const struct plan_options *o, const struct splits *s)
{
        _cleanup_(capo_table_freep) struct capo_table *t = every_table(o->q.n_asks);
        char version[16];

        if (!t)
                return;
        cli_screen_begin(stdout);
        printf("capo plan   real NCCL %s on virtual GPUs: decisions are NCCL's, times are its model, nothing was "
               "measured\n",
               capo_nccl_text((uint32_t)s->version, version, sizeof version));
        printf("%-11s ", capo_base_name(o->q.topo[0]));
        if (o->every_2)
                printf("all %zu splits %d+%d over two nodes", s->n_all, o->every, o->every_2);
        else
                printf("all %zu subsets of %d GPUs", s->n_all, o->every);
        printf("; %zu asked%s; %zu kinds\n\n", s->n_splits,
               s->n_splits < s->n_all ? ": the others are the same by the symmetry of the machine"
                                      : "",
               s->n_groups);
        every_head(o, t);
        for (size_t g = 0; g < s->n_groups; g++) {
                group_row(o, s, g, t);
                group_members(s, g, t);
                group_bound(s, &s->groups[g], t);
        }
        capo_table_print(t, stdout, 0, "", "");
}

static void print_json(const struct plan_options *o, const struct splits *s)
{
        json_t *groups = json_array(), *root;
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
        root = json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:o}", "nccl",
                         capo_nccl_text((uint32_t)s->version, version, sizeof version), "libnccl",
                         o->q.libnccl, "times", "NCCL's model", "gpus", o->every, "gpus_2",
                         o->every_2, "allocations", (int)s->n_all, "asked", (int)s->n_splits,
                         "groups", groups);
        cli_json_print(stdout, root, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
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

        if (o->every > (int)o->q.n_devs || o->every_2 > (int)o->q.n_devs || o->q.n_devs > 32)
                return capo_fail(CAPO_EXIT_USAGE, "--every %d: the machine has %zu GPUs",
                                 o->every > (int)o->q.n_devs ? o->every : o->every_2, o->q.n_devs);
        r = splits_ask(&s, why, sizeof why);
        if (r < 0) {
                capo_error("plan: %s", *why ? why : strerror(-r));
        } else {
                (o->json ? print_json : print_text)(o, &s);
        }
        splits_finish(&s);
        return r < 0 ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}
