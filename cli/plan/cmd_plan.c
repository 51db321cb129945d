/* SPDX-License-Identifier: Apache-2.0 */
/* capo plan: makes a question from the command line, and asks it without and with the profile. */
#include <signal.h>

#include "capo/algorithms.h"
#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/cli_fields.h"
#include "cli/base/cli_json.h"
#include "cli/base/cli_progress.h"
#include "cli/base/cli_screen.h"
#include "cli/plan/cmd_plan.h"
#include "core/base/calls.h"
#include "core/base/nccl_release.h"
#include "profiles/fragment/splits.h"
#include "profiles/machine/platform.h"

/* capo plan --every: a line per group of allocations with equal answers. */

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

/* Return: an exit status. */
static int ask_every(struct plan_options *o)
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
        return r < 0 ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}

/* `capo plan` as JSON. */

static json_t *choice_json(const struct capo_plan_row *r)
{
        return json_pack("{s:o, s:o, s:i, s:i, s:o, s:o}", "algo",
                         r->kernel ? json_string(capo_ran_algo(r->kernel))
                         : r->algo ? json_string(capo_algo_name(r->algo))
                                   : json_null(),
                         "proto",
                         r->kernel  ? json_string(capo_ran_proto(r->kernel))
                         : r->proto ? json_string(capo_proto_name(r->proto))
                                    : json_null(),
                         "channels", r->channels, "warps", r->warps, "us", cli_json_real(r->us),
                         "busbw_gbs", cli_json_real(r->busbw_gbs));
}

static json_t *costs_json(const struct capo_plan_row *r,
                          const float cost[CAPO_PLAN_ALGOS][CAPO_PLAN_PROTOS])
{
        json_t *o = json_object();

        for (int a = 0; a < r->n_algo; a++) {
                for (int p = 0; p < r->n_proto; p++) {
                        char key[40];

                        if (cost[a][p] < 0)
                                continue;
                        snprintf(key, sizeof key, "%s/%s", capo_algo_name((unsigned)a + 1),
                                 capo_proto_name((unsigned)p + 1));
                        json_object_set_new(o, key, json_real((double)cost[a][p]));
                }
        }
        return o;
}

static json_t *graphs_json(const struct capo_plan_answer *a)
{
        json_t *list = json_array();

        for (size_t i = 0; i < a->n_graphs; i++) {
                const struct capo_plan_graph *g = &a->graphs[i];
                json_t *paths =
                        CLI_EACH(size_t k = 0; k < g->n_paths; k++, json_string(g->paths[k]));

                json_array_append_new(
                        list,
                        json_pack("{s:i, s:i, s:i, s:i, s:f, s:f, s:s, s:s, s:o}", "node", g->node,
                                  "id", g->id, "pattern", g->pattern, "channels", g->n_channels,
                                  "intra_gbs", g->speed_intra, "inter_gbs", g->speed_inter, "intra",
                                  g->type_intra, "inter", g->type_inter, "paths", paths));
        }
        return list;
}

static json_t *reported_json(const struct capo_plan_reported *t)
{
        json_t *constants =
                CLI_EACH(int i = 0; i < t->n_constants; i++, json_real(t->constants[i]));

        return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:o}", "abi", t->abi, "ranks", t->n_ranks,
                         "nodes", t->n_nodes, "nvl_domains", t->nvl_domains, "nvl_min", t->nvl_min,
                         "nvl_max", t->nvl_max, "constants", constants);
}

/* What a tuner was given, and made of it. */
static json_t *spy_json(const struct capo_plan_row *s, bool tuned)
{
        return json_pack("{s:I, s:o, s:o*, s:o*, s:o*, s:o*}", "told_bytes",
                         (json_int_t)s->reported_bytes, "costs", costs_json(s, s->cost),
                         "costs_after", tuned ? costs_json(s, s->cost_after) : NULL,
                         "tuner_channels", tuned ? json_integer(s->tuner_channels) : NULL, "chunk",
                         s->chunk ? json_integer(s->chunk) : NULL, "tuner_chunk",
                         s->chunk && tuned ? json_integer(s->tuner_chunk) : NULL);
}

static json_t *compare_json(const struct plan_options *o, const struct capo_plan_answer *plain,
                            const struct capo_plan_answer *tuned,
                            const struct capo_plan_comparison *c)
{
        json_t *rows = json_array();
        char version[16], second[16];
        bool two = o->q.nccl_2 && tuned;

        for (size_t i = 0; i < plain->n_rows; i++) {
                const struct capo_plan_row *r = &plain->rows[i];
                const struct capo_plan_difference *d = c->rows ? &c->rows[i] : NULL;
                json_t *row =
                        json_pack("{s:s, s:I, s:o, s:o, s:o*, s:o*, s:b}", "coll",
                                  capo_coll_word(r->coll), "bytes", (json_int_t)r->bytes, "default",
                                  choice_json(r), d && o->q.nccl_2 ? "second" : "profile",
                                  d ? choice_json(&d->with) : json_null(), "same",
                                  d ? json_boolean(d->same) : NULL, "rule",
                                  d && o->by_rules ? cli_json_text(d->rule) : NULL, "ranks_agree",
                                  r->ranks_agree && (!tuned || tuned->rows[i].ranks_agree));

                if (o->q.spy)
                        json_object_update_new(row, spy_json(tuned ? &tuned->rows[i] : r, tuned));
                json_array_append_new(rows, row);
        }
        return json_pack(
                "{s:s, s:s, s:s, s:i, s:i, s:i, s:o, s:i, s:o, s:i, s:i, s:i, s:f, s:s*, s:o*, s:s*, "
                "s:s*, s:o*, s:o*, s:o*}",
                "nccl", capo_nccl_text((uint32_t)plain->version, version, sizeof version),
                "libnccl", o->q.libnccl, "times", "NCCL's model", "ranks", (int)o->q.n_ranks,
                "nodes", (int)plan_nodes(o), "nccl_nodes", plain->reported.n_nodes, "gpus",
                cli_json_gpus(o->q.ranks, o->q.n_ranks), "profiler_abi", plain->profiler_abi,
                "rows", rows, "domain_nodes", o->q.domain ? o->q.domain : 1, "asked_ranks",
                plain->asked, "asked_nodes", plain->asked_nodes, "wall_ms",
                plain->wall_ms + (tuned ? tuned->wall_ms : 0), "nccl_2",
                two ? capo_nccl_text((uint32_t)tuned->version, second, sizeof second) : NULL,
                "libnccl_2", two ? cli_json_text(o->q.libnccl_2) : NULL, "best_order",
                *o->advice.order ? o->advice.order : NULL, "other_gpus",
                *o->advice.gpus ? o->advice.gpus : NULL, "no_rule_holds",
                c->no_match ? cli_json_text(c->no_match) : NULL, "graphs",
                o->graph ? graphs_json(plain) : NULL, "told",
                o->q.spy ? reported_json(&(tuned ? tuned : plain)->reported) : NULL);
}

static int print_plan(struct plan_options *o, const struct capo_plan_answer *own,
                      const struct capo_plan_answer *with)
{
        _cleanup_(capo_profile_freep) struct capo_profile *profile = NULL;
        char layout[CAPO_LAYOUT_TEXT];
        struct capo_plan_by by = {.layout = cli_question_layout(&o->q, layout, sizeof layout),
                                  .class = o->q.class,
                                  .allow_modelled = o->q.allow_modelled,
                                  .n_ranks = (unsigned)o->q.n_ranks};
        struct capo_plan_comparison c;

        o->by_rules = with && o->q.profile && !o->q.tuner &&
                      capo_profile_load(o->q.profile_path, &profile, NULL) == 0;
        by.profile = profile;
        capo_plan_compare(own, with, &by, &c);
        /* by that release's own model */
        for (size_t i = 0; o->q.nccl_2 && with && i < with->n_rows; i++)
                c.rows[i].with = with->rows[i];
        if (c.modelled_left)
                capo_info(
                        "modelled rules of the profile that are not used: %u; --allow-modelled uses them",
                        c.modelled_left);
        CLI_FORM_PRINT(o->form, plan_page(o, own, with, &c), compare_json(o, own, with, &c),
                       PLAN_JSON, "rows");
        if (o->form == CLI_FORM_TEXT && o->q.log && (with ? with : own)->log)
                printf("\nLOG         NCCL's own words\n%s", (with ? with : own)->log);
        return c.agree ? CAPO_EXIT_OK
                       : capo_fail(
                                 CAPO_EXIT_FAIL,
                                 "plan: ranks decided differently: such a job hangs or computes nonsense");
}

static int answer_question(struct plan_options *o)
{
        struct capo_plan_answer answers[2] = {0};
        int status = cli_question_ask(&o->q, "plan", true, answers);

        if (status == CAPO_EXIT_OK && o->q.n_topo < 2 && o->q.domain < 2 && !o->q.nccl_2)
                cli_machine_advise(&(struct cli_machine_words){.topo = o->q.topo[0],
                                                               .platform = o->q.platform},
                                   o->q.gpus    ? o->q.gpus
                                   : o->q.alloc ? o->q.alloc
                                                : "",
                                   !o->q.gpus, o->q.nccl, &o->advice);
        if (status == CAPO_EXIT_OK)
                status = print_plan(o, &answers[0],
                                    o->q.profile || o->q.tuner || o->q.nccl_2 ? &answers[1] : NULL);
        return status;
}

static int plan_run(void *options, int n, char **words)
{
        struct plan_options *o = options;
        int status;

        if (o->every && (o->q.profile || o->q.tuner))
                return capo_fail(
                        CAPO_EXIT_USAGE,
                        "plan: --every shows what NCCL does by itself; ask one allocation with --profile or --tuner");
        if (o->q.nccl_2 && (o->every || o->q.profile || o->q.tuner))
                return capo_fail(
                        CAPO_EXIT_USAGE,
                        "plan: two --libnccl compare releases by themselves, without --every, --profile and --tuner");
        if (o->q.alloc && o->q.gpus)
                return capo_fail(CAPO_EXIT_USAGE,
                                 "plan: --alloc and --gpus say the same thing; give one");
        for (size_t i = 0; i < 3; i++) {
                static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

                if (signal(signals[i], capo_plan_interrupt) == SIG_IGN) /* for nohup */
                        signal(signals[i], SIG_IGN);
        }
        if (o->q.log) /* NCCL's lines are not folded */
                cli_screen_wide();
        if (!o->q.colls)
                o->q.colls = "allreduce";
        if (!o->q.sizes)
                o->q.sizes = o->every ? "1M,256M" : "1K..1G*4";
        o->q.timeout_ms = (unsigned)(o->timeout_s * 1000);
        status = cli_question_prepare(&o->q, "plan");
        if (status == CAPO_EXIT_OK && !o->every)
                status = cli_question_ranks(&o->q, "plan");
        if (status == CAPO_EXIT_OK)
                status = o->every ? ask_every(o) : answer_question(o);
        return status;
}

static void print_platforms(FILE *out)
{
        const struct capo_platform *p;

        fputs("\nplatforms:\n", out);
        for (size_t i = 0; (p = capo_platform_at(i)); i++) {
                if (p->from != CAPO_PLATFORM_SHAPE)
                        fprintf(out, "  %-11s %s\n", p->name, p->what);
        }
}

static const char *take_every(void *options, const char *value)
{
        struct plan_options *o = options;
        char rest;

        if (sscanf(value, "%d+%d%c", &o->every, &o->every_2, &rest) != 2) {
                o->every_2 = 0;
                if (sscanf(value, "%d%c", &o->every, &rest) != 1)
                        o->every = 0;
        }
        if (o->every < 1 || o->every > CAPO_PLAN_GPUS_MAX || o->every_2 < 0 ||
            o->every_2 > CAPO_PLAN_GPUS_MAX)
                return "a number of GPUs, or two for all splits over two nodes, such as 3+5";
        return NULL;
}

static const char *take_nccl(void *options, const char *value)
{
        struct plan_options *o = options;

        if (o->q.nccl_2)
                return "two files at most";
        *(o->q.nccl ? &o->q.nccl_2 : &o->q.nccl) = value;
        return NULL;
}

static const struct cli_option options[] = {
        {"topo", CLI_LIST(struct plan_options, q.topo, q.n_topo, "FILE,..."),
         "NCCL topology XML (capo topo capture writes one), or the text of nvidia-smi topo -m; with several, one per node"},
        {"platform", CLI_TEXT(struct plan_options, q.platform, "NAME"),
         "a machine by its name: dgx1v, dgxa100, p5, hgxh100, gb200-nvl72, ... (--help=all lists them); with --topo it completes the file"},
        {"alloc", CLI_TEXT(struct plan_options, q.alloc, "3+5"),
         "the first 3 GPUs of one node and the first 5 of another, or 4x8; default: every GPU of one machine"},
        {"gpus", CLI_TEXT(struct plan_options, q.gpus, "LIST"),
         "these GPUs of these nodes: 0:1,2,3;1:0-4 or 1,2,3+0-4; 1,4,6 of one node"},
        {"domain", CLI_COUNT(struct plan_options, q.domain, "N", 1, 4096),
         "N nodes at a time share an NVLink domain (MNNVL), as trays of GB200 and GB300; default: as the platform has it "
         "(gb200-nvl72: 18), 1: NVLink ends at the node",
         .rare = true},
        {"coll", CLI_TEXT(struct plan_options, q.colls, "LIST"),
         "allreduce, broadcast, reduce, allgather, reducescatter, with commas between, or all; default allreduce"},
        {"sizes", CLI_TEXT(struct plan_options, q.sizes, "1K..1G*2"),
         "from..to times step (or +step), or a list; default 1K..1G*4"},
        {"nccl", CLI_WHOLE("FILE", take_nccl), NULL},
        {"libnccl", CLI_WHOLE("FILE", take_nccl),
         "the libnccl.so.2 to ask; default CAPO_NCCL or the one found here; given twice, both are compared"},
        {"windows", CLI_FLAG(struct plan_options, q.windows),
         "the buffers are symmetric windows (ncclMemAlloc, ncclCommWindowRegister): symmetric kernels may run",
         .rare = true},
        {"whole", CLI_FLAG(struct plan_options, q.whole),
         "ask every rank, up to 256, also of nodes that are alike. Without it two nodes of each kind are asked where there are "
         "more than 32 ranks, and the others stood in for",
         .rare = true},
        {"profile", CLI_FILE(struct plan_options, q.profile, "P"),
         "ask again with capo's tuner plugin and this profile, and show where they differ"},
        {"allow-modelled", CLI_FLAG(struct plan_options, q.allow_modelled),
         "with its modelled rules too, which no clock has seen", .rare = true},
        {"layout", CLI_TAKE(struct plan_options, q.layout, "L", cli_question_take_layout),
         "what a launcher tells capo's tuner of the ranks per node (CAPO_LAYOUT); default: the truth; none: nothing",
         .example = "3+5", .rare = true},
        {"tuner", CLI_FILE(struct plan_options, q.tuner, "FILE.so"),
         "ask again with another tuner plugin", .rare = true},
        {"spy", CLI_FLAG(struct plan_options, q.spy),
         "print what NCCL gives a tuner: init arguments, cost tables; with --json also its model's constants",
         .rare = true},
        {"graph", CLI_FLAG(struct plan_options, graph),
         "also the rings, trees and bandwidths that NCCL found"},
        {"log", CLI_FLAG(struct plan_options, q.log),
         "also NCCL's own lines of INIT, GRAPH and TUNING, as NCCL_DEBUG=INFO prints them",
         .rare = true},
        CLI_FORM_JSON_OPTION(struct plan_options, form),
        CLI_FORM_CSV_OPTION(struct plan_options, form),
        CLI_FORM_MARKDOWN_OPTION(struct plan_options, form),
        {"every", CLI_WHOLE("3", take_every),
         "all 3-GPU subsets of the machine, grouped by what NCCL makes of them; 3+5: all splits",
         .example = "3+5"},
        {"all", CLI_FLAG(struct plan_options, all),
         "with --every i+j: ask every split, also those that symmetry makes equal", .rare = true},
        {"jobs", CLI_COUNT(struct plan_options, q.jobs, "N", 1, 64),
         "questions asked at a time with --every; default: one per processor", .rare = true},
        {"timeout", CLI_SECONDS(struct plan_options, timeout_s, "S", 0.1, 3600),
         "kill NCCL after S seconds; default 60, and 1 per rank, more on a busy machine",
         .rare = true},
        CLI_WIDE,
        {0}};

const struct cli_command plan_command = {
        .usage = "--topo FILE[,FILE...] [--alloc 3+5 | --gpus 0:1,2,3;1:0-4] [OPTIONS]\n"
                 "--platform NAME ...",
        .about = "Asks the real, unmodified libnccl, on virtual GPUs, what it will do on a machine "
                 "that is not here. No GPU is needed. Decisions are NCCL's own. Times are NCCL's "
                 "model; nothing is measured.",
        .options = options,
        .after = "NCCL_* settings of the environment hold for the NCCL that is asked.\n"
                 "\n"
                 "  capo plan --platform dgx1v --gpus '0:1,2,3;1:0-4' --sizes 64K..1G*4\n"
                 "  capo plan --topo node.xml --alloc 3+5 --profile mycluster.json\n"
                 "  capo plan --platform dgx1v --every 3",
        .list = print_platforms,
        .status = "0; 1 it could not be asked, or ranks disagree; 2 wrong command line",
        .size = sizeof(struct plan_options),
        .run = plan_run,
};
