/* SPDX-License-Identifier: Apache-2.0 */
/* The page of `capo plan`. */

#include "capo/algorithms.h"
#include "cli/plan/cmd_plan.h"
#include "core/base/calls.h"
#include "core/base/nccl_facts.h"
#include "core/base/nccl_release.h"

extern char **environ;

/* 94,151 and 23.2 and 0.08: three significant digits, but all digits before the point. */
static const char *number_text(double v, char text[32])
{
        if (isnan(v))
                return strcpy(text, "-");
        if (v >= 999.5)
                return capo_text_count((uint64_t)llround(v), text);
        snprintf(text, 32, "%.*f", v < 9.995 ? 2 : v < 99.95 ? 1 : 0, v);
        return text;
}

static void add_graph_line(struct cli_page *page, const char *name, const struct capo_plan_graph *g)
{
        char leaves[64] = "";

        if (g && g->n_paths && strstr(g->paths[0], "net"))
                snprintf(leaves, sizeof leaves, ", %g %s to the NIC", g->speed_inter,
                         g->type_inter);
        if (g)
                cli_page_under(page, "%s %d x %g GB/s %s%s", name, g->n_channels, g->speed_intra,
                               g->type_intra, leaves);
}

/* "Ring LL\t4\t69.9\t6.57" */
static const char *choice_cells(const struct capo_plan_row *r, char text[150])
{
        char us[32], bus[32];

        snprintf(text, 150, "%s %s\t%u\t%s\t%s",
                 r->kernel ? capo_ran_algo(r->kernel) : capo_algo_name(r->algo),
                 r->kernel ? capo_ran_proto(r->kernel) : capo_proto_name(r->proto), r->channels,
                 number_text(r->us, us), number_text(r->busbw_gbs, bus));
        return text;
}

static void add_graph(struct cli_section *s, const struct capo_plan_graph *g, const char *name)
{
        cli_section_line(s, "%-11s %d channels   %g GB/s inside (%s)   %g GB/s to the network (%s)",
                         name, g->n_channels, g->speed_intra, g->type_intra, g->speed_inter,
                         g->type_inter);
        for (size_t i = 0; i < g->n_paths; i++) {
                size_t same = 1;

                while (i + same < g->n_paths && !strcmp(g->paths[i], g->paths[i + same]))
                        same++;
                if (same > 1)
                        cli_section_line(s, "            %s   (%zu times)", g->paths[i], same);
                else
                        cli_section_line(s, "            %s", g->paths[i]);
                i += same - 1;
        }
}

static const struct cli_column lines_only[] = {{"", "l~"}};

static void add_graphs(struct cli_page *page, const struct capo_plan_answer *a)
{
        const struct {
                int id;
                const char *name;
        } kinds[] = {{0, capo_algo_word(CAPO_ALGO_RING)},
                     {1, capo_algo_word(CAPO_ALGO_TREE)},
                     {3, capo_algo_name(CAPO_ALGO_NVLS)},
                     {2, "CollNet chain"},
                     {4, "CollNet direct"}};

        for (size_t first = 0; first < a->n_graphs;) {
                struct cli_section *s = cli_page_section(page, "GRAPHS", lines_only, 1);
                int node = a->graphs[first].node;
                size_t end = first;

                while (end < a->n_graphs && a->graphs[end].node == node)
                        end++;
                cli_section_of(s, "of node %d; per channel GPUs in order, netN where it leaves it",
                               node);
                for (size_t k = 0; k < N_ELEMENTS(kinds); k++) {
                        for (size_t i = first; i < end; i++) {
                                if (a->graphs[i].id == kinds[k].id && a->graphs[i].n_channels > 0)
                                        add_graph(s, &a->graphs[i], kinds[k].name);
                        }
                }
                first = end;
        }
}

static void add_costs(struct cli_section *s, const char *call, const char *size,
                      const struct capo_plan_row *r,
                      const float cost[CAPO_PLAN_ALGOS][CAPO_PLAN_PROTOS])
{
        char text[1024] = "";

        for (int a = 0; a < r->n_algo; a++) {
                for (int p = 0; p < r->n_proto; p++) {
                        if (cost[a][p] >= 0)
                                capo_append(text, sizeof text, "%s%s/%s %.6g", *text ? "  " : "",
                                            capo_algo_name((unsigned)a + 1),
                                            capo_proto_name((unsigned)p + 1), (double)cost[a][p]);
                }
        }
        cli_section_row(s, "%s\t%s\t%s", call, size, text);
}

static void add_spy(struct cli_page *page, const struct capo_plan_answer *a, bool wrapped)
{
        static const struct cli_column columns[] = {
                {"call", "l"}, {"size", "r"}, {"us, of the available choices", "l~"}};
        struct cli_section *s = cli_page_section(page, "SPY", lines_only, 1);
        char domains[80] = "";

        cli_section_of(s, "what NCCL gives a tuner, through interface v%d%s", a->reported.abi,
                       wrapped ? "; the examined plugin was called behind the spy" : "");
        if (a->reported.nvl_domains >= 0)
                snprintf(domains, sizeof domains, ", %d NVLink domains of %d to %d ranks",
                         a->reported.nvl_domains, a->reported.nvl_min, a->reported.nvl_max);
        cli_section_line(s, "init: %d ranks, %d nodes%s", a->reported.n_ranks, a->reported.n_nodes,
                         domains);
        s = cli_page_section(page, "PREDICTED TIMES", columns, N_ELEMENTS(columns));
        for (size_t i = 0; i < a->n_rows; i++) {
                const struct capo_plan_row *r = &a->rows[i];
                const char *call = capo_call_name(capo_coll_call(r->coll));
                char size[24], after[24];

                capo_size_print(r->bytes, size, sizeof size);
                if (!r->n_algo) {
                        cli_section_row(s, "%s\t%s\tthis interface has no table; given %llu bytes",
                                        call, size, (unsigned long long)r->reported_bytes);
                        continue;
                }
                add_costs(s, call, size, r, r->cost);
                if (wrapped &&
                    (memcmp(r->cost, r->cost_after, sizeof r->cost) || r->tuner_channels)) {
                        add_costs(s, "", "made into", r, r->cost_after);
                        if (r->tuner_channels)
                                cli_section_row(s, "\t\t%d channels", r->tuner_channels);
                }
                if (wrapped && r->tuner_chunk != r->chunk)
                        cli_section_row(s, "\t\tchunks of %s in place of %s",
                                        capo_size_print(r->tuner_chunk, after, sizeof after),
                                        capo_size_print(r->chunk, size, sizeof size));
        }
}

/* The rows of one collective: NCCL alone, and with the profile. */
static void add_rows(struct cli_section *s, const struct plan_options *o,
                     const struct capo_plan_answer *own, const struct capo_plan_comparison *c,
                     size_t first, size_t end)
{
        for (size_t i = first; i < end; i++) {
                const struct capo_plan_row *r = &own->rows[i];
                const struct capo_plan_difference *d = c->rows ? &c->rows[i] : NULL;
                bool same = d && d->same && !o->q.nccl_2; /* its time may differ */
                char size[24], mine[160], with[160] = "";

                if (same)
                        strcpy(with, "\t.\t\t\t");
                else if (d)
                        choice_cells(&d->with, with + 1), *with = '\t';
                cli_section_row(s, "%s\t%s%s\t%s%s%s", capo_size_print(r->bytes, size, sizeof size),
                                choice_cells(r, mine), with, d ? d->rule : "",
                                d && !d->with.ranks_agree ? "  RANKS DISAGREE: a job would hang"
                                                          : "",
                                !r->ranks_agree ? "  RANKS DISAGREE" : "");
        }
}

static void add_calls(struct cli_page *page, const struct plan_options *o,
                      const struct capo_plan_answer *own, const struct capo_plan_answer *other,
                      const struct capo_plan_comparison *c)
{
        static const struct cli_column alone[] = {{"size", "r"}, {"choice", "l"}, {"ch", "r"},
                                                  {"us", "r"},   {"busbw", "r"},  {"", "l~"}};
        static const struct cli_column both[] = {
                {"size", "r"},    {"by itself", "l"}, {"ch", "r/d"}, {"us", "r/b"},
                {"busbw", "r/f"}, {"with it", "l"},   {"ch", "r/c"}, {"us", "r/a"},
                {"busbw", "r/e"}, {"rule", "l~"}};
        static struct cli_column releases[N_ELEMENTS(both)]; /* the page keeps a pointer */
        static char name[32] = "by itself", second[32];
        const struct cli_column *columns = c->rows ? both : alone;
        char release[16];
        const char *with = o->q.profile ? capo_base_name(o->q.profile)
                           : o->q.tuner ? capo_base_name(o->q.tuner)
                                        : second;

        if (o->q.nccl_2) {
                snprintf(name, sizeof name, "NCCL %s",
                         capo_nccl_text((uint32_t)own->version, release, sizeof release));
                snprintf(second, sizeof second, "NCCL %s",
                         capo_nccl_text((uint32_t)other->version, release, sizeof release));
                memcpy(releases, both, sizeof releases);
                releases[1].head = name;
                releases[5].head = second;
                releases[9].head = "";
                columns = releases;
        }
        for (size_t i = 0, end; i < own->n_rows; i = end) {
                struct cli_section *s =
                        cli_page_section(page, capo_call_name(capo_coll_call(own->rows[i].coll)),
                                         columns, c->rows ? N_ELEMENTS(both) : N_ELEMENTS(alone));

                for (end = i + 1; end < own->n_rows && own->rows[end].coll == own->rows[i].coll;
                     end++)
                        ;
                if (columns != releases)
                        cli_section_of(s, "NCCL %s%s%s", name, c->rows ? " and with " : "",
                                       c->rows ? with : "");
                add_rows(s, o, own, c, i, end);
                s->how = "us, busbw in GB/s: NCCL's model, nothing is measured. \".\": the same.";
        }
}

/* A tuner that this release would silently not load in a job with the same setting. */
static void add_unloaded(struct cli_page *page, const struct plan_options *o, uint32_t version)
{
        char nccl[16];

        capo_nccl_text(version, nccl, sizeof nccl);
        if (!o->q.tuner || o->q.spy)
                return;
        if (o->q.tuner_by_name && capo_nccl_has((int)version, CAPO_NCCL_TUNER_BY_FILE))
                cli_page_problem(page,
                                 "NCCL %s opens NCCL_TUNER_PLUGIN as a file: it has not loaded %s, "
                                 "here as in a job; name its path",
                                 nccl, o->q.tuner);
        else if (strchr(o->q.tuner, '/') && capo_nccl_has((int)version, CAPO_NCCL_PLUGIN_NO_PATH))
                cli_page_problem(
                        page,
                        "in a job NCCL %s takes no path and would not load this tuner: set "
                        "NCCL_TUNER_PLUGIN=%s, and LD_LIBRARY_PATH to its folder",
                        nccl, capo_base_name(o->q.tuner));
}

static void add_notes(struct cli_page *page, const struct plan_options *o,
                      const struct capo_plan_answer *plain, const struct capo_plan_comparison *c)
{
        add_unloaded(page, o, (uint32_t)plain->version);
        if (*o->advice.order)
                cli_section_note(page, NULL, "%s; %s", o->advice.order, FRAGMENT_ORDER_HOW);
        if (*o->advice.gpus)
                cli_section_note(page, NULL, "%s", o->advice.gpus);
        if (c->no_match)
                cli_page_problem(page, "no rule of %s can hold here: %s",
                                 capo_base_name(o->q.profile), c->no_match);
        if (c->n_chunks)
                cli_section_note(
                        page, NULL, "%s a chunk: %s",
                        capo_text_plural(c->n_chunks, "row sets", "rows set"),
                        c->chunks_dead
                                ? "nothing comes of it, NCCL before 2.30 asks no tuner for it"
                                : "NCCL asks for it; --spy shows what it is answered");
        if (c->n_turned)
                cli_section_note(
                        page, NULL, "%s calls (kernel, ctas, cluster, cta_policy): %s",
                        capo_text_plural(c->n_turned, "row turns", "rows turn"),
                        c->turned_dead
                                ? "nothing comes of it, NCCL before 2.31 has no calls that take them"
                                : "the preload library does that (capo run), and was not asked here");
        if (plain->windowless)
                cli_section_note(page, NULL,
                                 "NCCL makes no windows on this machine: registered "
                                 "buffers are as any others");
        if (c->gap && o->q.n_ranks > 1)
                cli_section_note(page, NULL, "%s", c->gap);
}

struct cli_page *plan_page(const struct plan_options *o, const struct capo_plan_answer *plain,
                           const struct capo_plan_answer *tuned,
                           const struct capo_plan_comparison *c)
{
        struct cli_page *page = cli_page_new();
        char version[16], nodes[2048], settings[4096] = "";
        unsigned n_nodes = plan_nodes(o);

        cli_page_title(page, "capo plan   %s   %s on %s", capo_base_name(o->q.topo[0]),
                       capo_text_plural(o->q.n_ranks, "rank", NULL),
                       capo_text_plural(n_nodes, "node", NULL));
        cli_page_under(page, "GPUs %s",
                       capo_plan_gpus_print(o->q.ranks, o->q.n_ranks, nodes, sizeof nodes));
        cli_page_under(page, "real NCCL %s on virtual GPUs: its own decisions, times by its model",
                       capo_nccl_text((uint32_t)plain->version, version, sizeof version));
        cli_page_under(page, "asked %s%s%s", o->q.libnccl, o->q.nccl_2 ? " and " : "",
                       o->q.nccl_2 ? o->q.libnccl_2 : "");
        add_graph_line(page, capo_algo_word(CAPO_ALGO_RING), capo_plan_graph_find(plain, -1, 0));
        add_graph_line(page, capo_algo_word(CAPO_ALGO_TREE), capo_plan_graph_find(plain, -1, 1));
        if (plain->reported.n_nodes > (int)n_nodes)
                cli_page_under(page,
                               "NCCL counts %d nodes: it goes out and back through the NICs "
                               "inside a machine",
                               plain->reported.n_nodes);
        if (o->q.domain > 1 && n_nodes > 1)
                cli_page_under(page, "NVLink domains of %d nodes (MNNVL)%s", o->q.domain,
                               plain->reported.n_nodes < (int)n_nodes
                                       ? ""
                                       : ", which this NCCL does not join");
        if (plain->asked < o->q.n_ranks)
                cli_page_under(page,
                               "%u ranks on %s were asked; what the others, which are alike, tell "
                               "them was made up (--whole)",
                               plain->asked, capo_text_plural(plain->asked_nodes, "node", NULL));
        for (char **v = environ; *v; v++) { /* what is passed to the NCCL that is asked */
                if (capo_plan_setting_passes(*v))
                        capo_append(settings, sizeof settings, "  %s", *v);
        }
        if (*settings)
                cli_page_under(page, "settings%s", settings);
        if (o->q.n_ranks == 1)
                cli_page_under(page, "one rank has nothing to choose: NCCL copies");
        if (o->q.nccl_2)
                cli_page_under(page,
                               "%zu of %zu choices differ; times are each release's own model",
                               c->n_differ, plain->n_rows);
        else if (tuned)
                cli_page_under(page,
                               "%zu of %zu choices differ; times are NCCL's model; the gain of a "
                               "rule is that of its profile",
                               c->n_differ, plain->n_rows);
        add_calls(page, o, plain, tuned, c);
        add_notes(page, o, plain, c);
        if (o->graph)
                add_graphs(page, plain);
        if (o->q.spy)
                add_spy(page, tuned ? tuned : plain, tuned != NULL);
        return page;
}
