/* SPDX-License-Identifier: Apache-2.0 */
/* What `capo plan` shows: a page for people, JSON and CSV for programs. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/plan/plan.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/util.h"

extern char **environ;

const struct capo_plan_graph *plan_graph_find(const struct capo_plan_answer *a, int id)
{
        for (size_t i = 0; i < a->n_graphs; i++) {
                if (a->graphs[i].id == id && a->graphs[i].n_channels > 0)
                        return &a->graphs[i];
        }
        return NULL;
}

const char *plan_nodes_text(const struct capo_plan_gpu *gpus, size_t n, char *text, size_t room)
{
        size_t at = 0;
        unsigned nodes = 0;

        *text = 0;
        for (size_t i = 0; i < n; i++)
                nodes = gpus[i].node >= nodes ? gpus[i].node + 1u : nodes;
        for (unsigned node = 0; node < nodes && at < room; node++) {
                bool first = true;

                at += (size_t)snprintf(text + at, room - at, "%s{", node ? " + " : "");
                for (size_t i = 0; i < n && at < room; i++) {
                        if (gpus[i].node != node)
                                continue;
                        at += (size_t)snprintf(text + at, room - at, "%s%u", first ? "" : ",", gpus[i].dev);
                        first = false;
                }
                if (at < room)
                        at += (size_t)snprintf(text + at, room - at, "}");
        }
        return text;
}

static const char *base(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}

/* 94,151 and 23.2 and 0.08: three digits, or all of them before the point. */
static const char *number_text(double v, char text[32])
{
        if (isnan(v))
                return strcpy(text, "-");
        if (v < 999.5) {
                snprintf(text, 32, "%.*f", v < 9.995 ? 2 : v < 99.95 ? 1 : 0, v);
                return text;
        }

        char digits[24];
        int n = snprintf(digits, sizeof digits, "%.0f", v), k = 0;

        for (int i = 0; i < n; i++) {
                if (i && (n - i) % 3 == 0)
                        text[k++] = ',';
                text[k++] = digits[i];
        }
        text[k] = 0;
        return text;
}

static void graph_line(FILE *f, const char *name, const struct capo_plan_graph *g)
{
        if (!g)
                return;
        fprintf(f, "   %s %d x %g GB/s %s", name, g->n_channels, g->speed_intra, g->type_intra);
        if (g->n_paths && strstr(g->paths[0], "net"))
                fprintf(f, ", %g %s to the NIC", g->speed_inter, g->type_inter);
}

/* NCCL settings of the environment that reach the NCCL that is asked. */
static void settings_line(FILE *f)
{
        bool any = false;

        for (char **v = environ; *v; v++) {
                if (!capo_plan_setting_passes(*v))
                        continue;
                fprintf(f, "%s%s", any ? "  " : "settings    ", *v);
                any = true;
        }
        if (any)
                fputc('\n', f);
}

static const char *profiler_gap(const struct capo_plan_answer *a)
{
        for (size_t i = 0; i < a->n_rows; i++) {
                if (a->rows[i].algo == CAPO_ALGO_UNKNOWN)
                        return "this release tells nobody which algorithm it chose where no tuner chose it (-)";
        }
        for (size_t i = 0; i < a->n_rows; i++) {
                if (isnan(a->rows[i].us))
                        return "this release tells nobody what it expects (-)";
        }
        return NULL;
}

static void print_choice(const struct capo_plan_row *r)
{
        char us[32], bus[32];

        printf("  %-13s %-6s %3u %10s %7s", capo_algo_name(r->algo), capo_proto_name(r->proto), r->channels,
               number_text(r->us, us), number_text(r->busbw_gbs, bus));
}

static bool same_choice(const struct capo_plan_row *a, const struct capo_plan_row *b)
{
        return a->algo == b->algo && a->proto == b->proto && a->channels == b->channels;
}

/* The tuned answer's time is NCCL's own model for that choice, from the table before anybody changed it. */
static double model_us(const struct capo_plan_row *plain, const struct capo_plan_row *tuned)
{
        if (tuned->algo && tuned->proto && tuned->algo <= plain->n_algo && tuned->proto <= plain->n_proto) {
                float us = plain->cost[tuned->algo - 1][tuned->proto - 1];

                return us >= 0 ? us : NAN;
        }
        return same_choice(plain, tuned) ? plain->us : tuned->us;
}

static struct capo_plan_row with_model(const struct capo_plan_row *plain, const struct capo_plan_row *tuned)
{
        struct capo_plan_row r = *tuned;

        r.us = model_us(plain, tuned);
        r.busbw_gbs = plain->us > 0 ? plain->busbw_gbs * plain->us / r.us : NAN;
        return r;
}

static void print_graph(const struct capo_plan_graph *g, const char *name)
{
        printf("%-11s %d channels   %g GB/s inside (%s)   %g GB/s to the network (%s)\n", name, g->n_channels,
               g->speed_intra, g->type_intra, g->speed_inter, g->type_inter);
        for (size_t i = 0; i < g->n_paths; i++) {
                size_t same = 1;

                while (i + same < g->n_paths && !strcmp(g->paths[i], g->paths[i + same]))
                        same++;
                printf("            %s", g->paths[i]);
                if (same > 1)
                        printf("   (%zu times)", same);
                putchar('\n');
                i += same - 1;
        }
}

static void print_graphs(const struct capo_plan_answer *a)
{
        static const struct {
                int id;
                const char *name;
        } kinds[] = {{0, "ring"}, {1, "tree"}, {3, "NVLS"}, {2, "CollNet chain"}, {4, "CollNet direct"}};

        for (size_t first = 0; first < a->n_graphs;) {
                int node = a->graphs[first].node;
                size_t end = first;

                while (end < a->n_graphs && a->graphs[end].node == node)
                        end++;
                printf("\nGRAPHS      of node %d; per channel: GPUs in order, netN where it leaves the node\n", node);
                for (size_t k = 0; k < N_ELEMENTS(kinds); k++) {
                        for (size_t i = first; i < end; i++) {
                                if (a->graphs[i].id == kinds[k].id && a->graphs[i].n_channels > 0)
                                        print_graph(&a->graphs[i], kinds[k].name);
                        }
                }
                first = end;
        }
}

static void print_constants(const double *c)
{
        static const char *const links[] = {"NVLink", "PCI", "network"}, *const gens[] = {"Volta", "Ampere", "Hopper",
                                                                                          "Blackwell"};
        static const struct {
                const char *name;
                int at;
        } tables[] = {{"LL, largest", 84},
                      {"LL128 Ring, largest per channel", 96},
                      {"LL128 Tree, largest per channel", 108},
                      {"Tree, largest per channel", 120},
                      {"NVLSTree, largest per channel", 132}};

        puts("  model constants (ncclTunerConstants): latencies in us as LL / LL128 / Simple, bandwidths in GB/s as 1 "
             "/ 2 / more nodes");
        for (int a = 0; a < 7; a++) {
                printf("    %-14s base %g / %g / %g", capo_algo_name((unsigned)a + 1), c[a * 3], c[a * 3 + 1],
                       c[a * 3 + 2]);
                for (int l = 0; l < 3; l++) {
                        const double *h = c + 21 + l * 21 + a * 3;

                        printf("   %s %g / %g / %g", links[l], h[0], h[1], h[2]);
                }
                putchar('\n');
        }
        for (size_t t = 0; t < N_ELEMENTS(tables); t++) {
                printf("    %-32s", tables[t].name);
                for (int g = 0; g < 4; g++) {
                        const double *b = c + tables[t].at + g * 3;

                        printf("  %s %g / %g / %g", gens[g], b[0], b[1], b[2]);
                }
                putchar('\n');
        }
}

static void print_table(const char *title, const struct capo_plan_row *r,
                        const float cost[CAPO_PLAN_ALGOS][CAPO_PLAN_PROTOS])
{
        printf("    %-26s", title);
        for (int a = 0; a < r->n_algo; a++) {
                for (int p = 0; p < r->n_proto; p++) {
                        if (cost[a][p] >= 0)
                                printf("  %s/%s %.6g", capo_algo_name((unsigned)a + 1),
                                       capo_proto_name((unsigned)p + 1), (double)cost[a][p]);
                }
        }
        putchar('\n');
}

static void print_spy(const struct capo_plan_answer *a, bool wrapped)
{
        printf("\nSPY         what a tuner is told, through interface v%d%s\n", a->told.abi,
               wrapped ? "; the examined plugin was called behind the spy" : "");
        printf("  init: %d ranks, %d nodes", a->told.n_ranks, a->told.n_nodes);
        if (a->told.nvl_domains >= 0)
                printf(", %d NVLink domains of %d to %d ranks", a->told.nvl_domains, a->told.nvl_min, a->told.nvl_max);
        putchar('\n');
        if (a->told.n_constants)
                print_constants(a->told.constants);
        puts("  predicted times, us (cells that are not available are left out):");
        for (size_t i = 0; i < a->n_rows; i++) {
                const struct capo_plan_row *r = &a->rows[i];
                char size[24], title[64];

                snprintf(title, sizeof title, "%s %s", capo_coll_word(r->coll),
                         capo_size_print(r->bytes, size, sizeof size));
                if (!r->n_algo) {
                        printf("    %-26s  this interface has no table; told %llu bytes\n", title,
                               (unsigned long long)r->told);
                        continue;
                }
                print_table(title, r, r->cost);
                if (wrapped && (memcmp(r->cost, r->cost_after, sizeof r->cost) || r->tuner_channels)) {
                        print_table("  made into", r, r->cost_after);
                        if (r->tuner_channels)
                                printf("    %-26s  %d channels\n", "", r->tuner_channels);
                }
        }
}

static void print_rows(const struct plan_options *o, const struct capo_plan_answer *plain,
                       const struct capo_plan_answer *tuned)
{
        const char *with = o->profile ? base(o->profile) : o->tuner ? base(o->tuner) : "";
        char(*rules)[96] = tuned && o->profile && !o->tuner ? plan_rules_text(o, plain) : NULL;

        for (size_t i = 0; i < plain->n_rows; i++) {
                const struct capo_plan_row *r = &plain->rows[i];
                char size[24];

                if (i == 0 || plain->rows[i - 1].coll != r->coll) {
                        printf("\n%-13s  NCCL by itself", capo_coll_word(r->coll));
                        if (tuned)
                                printf("%30s  with %s", "", with);
                        printf("\n%11s    algo          proto   ch         us   busbw", "size");
                        if (tuned)
                                printf("  algo          proto   ch         us   busbw%s", rules ? "  rule" : "");
                        putchar('\n');
                }
                printf("%11s  ", capo_size_print(r->bytes, size, sizeof size));
                print_choice(r);
                if (tuned) {
                        const struct capo_plan_row *t = &tuned->rows[i];

                        if (same_choice(r, t)) {
                                printf("  .%*s", rules && rules[i][0] ? 42 : 0, "");
                        } else {
                                struct capo_plan_row m = with_model(r, t);

                                print_choice(&m);
                        }
                        if (rules && rules[i][0])
                                printf("  %s", rules[i]);
                        if (!t->ranks_agree)
                                fputs("  RANKS DISAGREE: a job would hang", stdout);
                }
                if (!r->ranks_agree)
                        fputs("  RANKS DISAGREE", stdout);
                putchar('\n');
        }
        free(rules);
}

static void print_text(const struct plan_options *o, const struct capo_plan_answer *plain,
                       const struct capo_plan_answer *tuned)
{
        char version[16], nodes[2048];
        unsigned n_nodes = 0;
        const char *gap = o->n_ranks > 1 ? profiler_gap(plain) : NULL;

        for (size_t i = 0; i < o->n_ranks; i++)
                n_nodes = o->ranks[i].node >= n_nodes ? o->ranks[i].node + 1u : n_nodes;
        printf("capo plan   real NCCL %s on virtual GPUs: decisions are NCCL's, times are its model, nothing was "
               "measured\n",
               plan_version_text(plain->version, version));
        printf("asked       %s\n", o->libnccl);
        printf("%-11s %zu rank%s on %u node%s: %s", base(o->topo[0]), o->n_ranks, o->n_ranks == 1 ? "" : "s", n_nodes,
               n_nodes == 1 ? "" : "s", plan_nodes_text(o->ranks, o->n_ranks, nodes, sizeof nodes));
        graph_line(stdout, "ring", plan_graph_find(plain, 0));
        graph_line(stdout, "tree", plan_graph_find(plain, 1));
        putchar('\n');
        if (plain->told.n_nodes > (int)n_nodes)
                printf("note        NCCL counts %d nodes: it goes out and back through the NICs inside a machine\n",
                       plain->told.n_nodes);
        settings_line(stdout);
        if (o->n_ranks == 1)
                puts("note        one rank has nothing to choose: NCCL copies");
        print_rows(o, plain, tuned);
        if (tuned) {
                size_t differ = 0;

                for (size_t i = 0; i < plain->n_rows; i++)
                        differ += !same_choice(&plain->rows[i], &tuned->rows[i]);
                printf("\n. = the same; %zu of %zu differ. Times on the right are NCCL's model for that choice, not "
                       "what the profile measured\n",
                       differ, plain->n_rows);
        }
        if (gap)
                printf("\nnote        %s\n", gap);
        if (o->graph)
                print_graphs(plain);
        if (o->spy)
                print_spy(tuned ? tuned : plain, tuned != NULL);
        if (o->log && (tuned ? tuned : plain)->log)
                printf("\nLOG         NCCL's own words\n%s", (tuned ? tuned : plain)->log);
}

/* JSON */

static json_t *real_or_null(double v)
{
        return isnan(v) || isinf(v) ? json_null() : json_real(v);
}

static json_t *choice_json(const struct capo_plan_row *r)
{
        return json_pack("{s:o, s:o, s:i, s:i, s:o, s:o}", "algo",
                         r->algo ? json_string(capo_algo_name(r->algo)) : json_null(), "proto",
                         r->proto ? json_string(capo_proto_name(r->proto)) : json_null(), "channels", r->channels,
                         "warps", r->warps, "us", real_or_null(r->us), "busbw_gbs", real_or_null(r->busbw_gbs));
}

static json_t *costs_json(const struct capo_plan_row *r, const float cost[CAPO_PLAN_ALGOS][CAPO_PLAN_PROTOS])
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
                json_t *paths = json_array();

                for (size_t k = 0; k < g->n_paths; k++)
                        json_array_append_new(paths, json_string(g->paths[k]));
                json_array_append_new(list, json_pack("{s:i, s:i, s:i, s:i, s:f, s:f, s:s, s:s, s:o}", "node", g->node,
                                                      "id", g->id, "pattern", g->pattern, "channels", g->n_channels,
                                                      "intra_gbs", g->speed_intra, "inter_gbs", g->speed_inter, "intra",
                                                      g->type_intra, "inter", g->type_inter, "paths", paths));
        }
        return list;
}

static json_t *told_json(const struct capo_plan_told *t)
{
        json_t *constants = json_array();

        for (int i = 0; i < t->n_constants; i++)
                json_array_append_new(constants, json_real(t->constants[i]));
        return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:o}", "abi", t->abi, "ranks", t->n_ranks, "nodes", t->n_nodes,
                         "nvl_domains", t->nvl_domains, "nvl_min", t->nvl_min, "nvl_max", t->nvl_max, "constants",
                         constants);
}

static int print_json(const struct plan_options *o, const struct capo_plan_answer *plain,
                      const struct capo_plan_answer *tuned)
{
        json_t *rows = json_array(), *root, *gpus = json_array();
        char version[16];
        unsigned n_nodes = 0;

        for (size_t i = 0; i < o->n_ranks; i++) {
                n_nodes = o->ranks[i].node >= n_nodes ? o->ranks[i].node + 1u : n_nodes;
                json_array_append_new(gpus, json_pack("[i, i]", o->ranks[i].node, o->ranks[i].dev));
        }
        for (size_t i = 0; i < plain->n_rows; i++) {
                const struct capo_plan_row *r = &plain->rows[i];
                json_t *row = json_pack("{s:s, s:I, s:o}", "coll", capo_coll_word(r->coll), "bytes",
                                        (json_int_t)r->bytes, "default", choice_json(r));

                if (tuned) {
                        struct capo_plan_row m = with_model(r, &tuned->rows[i]);

                        json_object_set_new(row, "profile", choice_json(&m));
                        json_object_set_new(row, "same", json_boolean(same_choice(r, &tuned->rows[i])));
                } else {
                        json_object_set_new(row, "profile", json_null());
                }
                json_object_set_new(row, "ranks_agree",
                                    json_boolean(r->ranks_agree && (!tuned || tuned->rows[i].ranks_agree)));
                if (o->spy) {
                        const struct capo_plan_row *s = tuned ? &tuned->rows[i] : r;

                        json_object_set_new(row, "told_bytes", json_integer((json_int_t)s->told));
                        json_object_set_new(row, "costs", costs_json(s, s->cost));
                        if (tuned) {
                                json_object_set_new(row, "costs_after", costs_json(s, s->cost_after));
                                json_object_set_new(row, "tuner_channels", json_integer(s->tuner_channels));
                        }
                }
                json_array_append_new(rows, row);
        }
        root = json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:o, s:i, s:o}", "nccl",
                         plan_version_text(plain->version, version), "libnccl", o->libnccl, "times", "NCCL's model",
                         "ranks", (int)o->n_ranks, "nodes", (int)n_nodes, "nccl_nodes", plain->told.n_nodes, "gpus",
                         gpus, "profiler_abi", plain->profiler_abi, "rows", rows);
        json_object_set_new(root, "wall_ms", json_real(plain->wall_ms + (tuned ? tuned->wall_ms : 0)));
        if (o->graph)
                json_object_set_new(root, "graphs", graphs_json(plain));
        if (o->spy)
                json_object_set_new(root, "told", told_json(&(tuned ? tuned : plain)->told));
        json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
        putchar('\n');
        json_decref(root);
        return CAPO_EXIT_OK;
}

static void csv_choice(const struct capo_plan_row *r)
{
        printf(",%s,%s,%u,", r->algo ? capo_algo_name(r->algo) : "", r->proto ? capo_proto_name(r->proto) : "",
               r->channels);
        if (!isnan(r->us))
                printf("%.9g", r->us);
        putchar(',');
        if (!isnan(r->busbw_gbs))
                printf("%.9g", r->busbw_gbs);
}

static void print_csv(const struct capo_plan_answer *plain, const struct capo_plan_answer *tuned)
{
        printf("coll,bytes,algo,proto,channels,model_us,busbw_gbs%s\n",
               tuned ? ",tuned_algo,tuned_proto,tuned_channels,tuned_model_us,tuned_busbw_gbs" : "");
        for (size_t i = 0; i < plain->n_rows; i++) {
                printf("%s,%llu", capo_coll_word(plain->rows[i].coll), (unsigned long long)plain->rows[i].bytes);
                csv_choice(&plain->rows[i]);
                if (tuned) {
                        struct capo_plan_row m = with_model(&plain->rows[i], &tuned->rows[i]);

                        csv_choice(&m);
                }
                putchar('\n');
        }
}

int plan_print(const struct plan_options *o, const struct capo_plan_answer *plain, const struct capo_plan_answer *tuned)
{
        int status = CAPO_EXIT_OK;

        switch (o->format) {
        case PLAN_TEXT: print_text(o, plain, tuned); break;
        case PLAN_JSON: print_json(o, plain, tuned); break;
        case PLAN_CSV: print_csv(plain, tuned); break;
        }
        for (size_t i = 0; i < plain->n_rows; i++) {
                if (!plain->rows[i].ranks_agree || (tuned && !tuned->rows[i].ranks_agree))
                        status = CAPO_EXIT_FAIL;
        }
        if (status != CAPO_EXIT_OK)
                capo_error("plan: ranks decided differently: such a job hangs or computes nonsense");
        return status;
}
