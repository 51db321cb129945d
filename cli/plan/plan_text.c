/* SPDX-License-Identifier: Apache-2.0 */
/* The page of `capo plan`. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/base/cli_screen.h"
#include "cli/base/cli_table.h"
#include "cli/plan/cmd_plan.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/nccl_release.h"
#include "core/base/util.h"

extern char **environ;

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

static void choice_cells(struct capo_table *t, const struct capo_plan_row *r)
{
        char us[32], bus[32];

        capo_table_cell(t, "%s", r->kernel ? capo_ran_algo(r->kernel) : capo_algo_name(r->algo));
        capo_table_cell(t, "%s", r->kernel ? capo_ran_proto(r->kernel) : capo_proto_name(r->proto));
        capo_table_cell(t, "%u", r->channels);
        capo_table_cell(t, "%s", number_text(r->us, us));
        capo_table_cell(t, "%s", number_text(r->busbw_gbs, bus));
}

static void print_graph(const struct capo_plan_graph *g, const char *name)
{
        printf("%-11s %d channels   %g GB/s inside (%s)   %g GB/s to the network (%s)\n", name,
               g->n_channels, g->speed_intra, g->type_intra, g->speed_inter, g->type_inter);
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
        const struct {
                int id;
                const char *name;
        } kinds[] = {{0, capo_algo_word(CAPO_ALGO_RING)},
                     {1, capo_algo_word(CAPO_ALGO_TREE)},
                     {3, capo_algo_name(CAPO_ALGO_NVLS)},
                     {2, "CollNet chain"},
                     {4, "CollNet direct"}};

        for (size_t first = 0; first < a->n_graphs;) {
                int node = a->graphs[first].node;
                size_t end = first;

                while (end < a->n_graphs && a->graphs[end].node == node)
                        end++;
                printf("\nGRAPHS      of node %d; per channel: GPUs in order, netN where it leaves the node\n",
                       node);
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
        static const char *const links[] = {"NVLink", "PCI", "network"}, *const gens[] = {
                                                                                 "Volta", "Ampere",
                                                                                 "Hopper",
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
                printf("    %-14s base %g / %g / %g", capo_algo_name((unsigned)a + 1), c[a * 3],
                       c[a * 3 + 1], c[a * 3 + 2]);
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
        printf("\nSPY         what NCCL gives a tuner, through interface v%d%s\n", a->told.abi,
               wrapped ? "; the examined plugin was called behind the spy" : "");
        printf("  init: %d ranks, %d nodes", a->told.n_ranks, a->told.n_nodes);
        if (a->told.nvl_domains >= 0)
                printf(", %d NVLink domains of %d to %d ranks", a->told.nvl_domains,
                       a->told.nvl_min, a->told.nvl_max);
        putchar('\n');
        if (a->told.n_constants)
                print_constants(a->told.constants);
        puts("  predicted times, us (cells that are not available are left out):");
        for (size_t i = 0; i < a->n_rows; i++) {
                const struct capo_plan_row *r = &a->rows[i];
                char size[24], after[24], title[64];

                snprintf(title, sizeof title, "%s %s", capo_coll_word(r->coll),
                         capo_size_print(r->bytes, size, sizeof size));
                if (!r->n_algo) {
                        printf("    %-26s  this interface has no table; told %llu bytes\n", title,
                               (unsigned long long)r->told);
                        continue;
                }
                print_table(title, r, r->cost);
                if (wrapped &&
                    (memcmp(r->cost, r->cost_after, sizeof r->cost) || r->tuner_channels)) {
                        print_table("  made into", r, r->cost_after);
                        if (r->tuner_channels)
                                printf("    %-26s  %d channels\n", "", r->tuner_channels);
                }
                if (wrapped && r->tuner_chunk != r->chunk)
                        printf("    %-26s  chunks of %s in place of %s\n", "",
                               capo_size_print(r->tuner_chunk, after, sizeof after),
                               capo_size_print(r->chunk, size, sizeof size));
        }
}

/* The rows of one collective: what NCCL does, and beside it what it does with the profile. */
static void coll_rows(const struct plan_options *o, const struct capo_plan_answer *own,
                      const struct capo_plan_comparison *c, size_t first, size_t end)
{
        static const char head[] = "algo\tproto\tch\tus\tbusbw";
        _cleanup_(capo_table_freep) struct capo_table *t =
                capo_table_new("r11, l13,.l6,.r3/d,.r10/b,.r7/f,l13,.l6,.r3/c,.r10/a,.r7/e,l~");

        if (!t)
                return;
        capo_table_row(t, c->rows ? "size\t%s\t%s%s" : "size\t%s", head, head,
                       c->rows && o->by_rules ? "\trule" : "");
        for (size_t i = first; i < end; i++) {
                const struct capo_plan_row *r = &own->rows[i];
                const struct capo_plan_difference *d = c->rows ? &c->rows[i] : NULL;
                bool same = d && d->same && !o->q.nccl_2; /* its time may differ */
                char size[24], said[400];

                capo_table_cell(t, "%s", capo_size_print(r->bytes, size, sizeof size));
                choice_cells(t, r);
                if (d && !same)
                        choice_cells(t, &d->with);
                snprintf(said, sizeof said, "%s%s%s", d ? d->rule : "",
                         d && !d->with.ranks_agree ? "  RANKS DISAGREE: a job would hang" : "",
                         !r->ranks_agree ? "  RANKS DISAGREE" : "");
                if (same || *said)
                        capo_table_row(t, "%s%s%s", same ? "." : "",
                                       same && *said ? "\t\t\t\t\t" : "", said);
                else
                        capo_table_end(t);
        }
        capo_table_print(t, stdout, 1, "", "");
}

static void print_rows(const struct plan_options *o, const struct capo_plan_answer *own,
                       const struct capo_plan_answer *other, const struct capo_plan_comparison *c)
{
        char release[16], name[32] = "by itself", second[32];
        const char *with = o->q.profile ? capo_base_name(o->q.profile)
                           : o->q.tuner ? capo_base_name(o->q.tuner)
                                        : second;

        if (o->q.nccl_2) {
                snprintf(name, sizeof name, "%s",
                         capo_nccl_text((uint32_t)own->version, release, sizeof release));
                snprintf(second, sizeof second, "NCCL %s",
                         capo_nccl_text((uint32_t)other->version, release, sizeof release));
        }

        for (size_t i = 0, end; i < own->n_rows; i = end) {
                for (end = i + 1; end < own->n_rows && own->rows[end].coll == own->rows[i].coll;
                     end++)
                        ;
                printf("\n%-13s  NCCL %s", capo_coll_word(own->rows[i].coll), name);
                if (c->rows && cli_screen_columns(stdout))
                        printf(", and with %s", with);
                else if (c->rows)
                        printf("%30s  with %s", "", with);
                putchar('\n');
                coll_rows(o, own, c, i, end);
        }
}

void plan_text(const struct plan_options *o, const struct capo_plan_answer *plain,
               const struct capo_plan_answer *tuned, const struct capo_plan_comparison *c)
{
        char version[16], nodes[2048];
        unsigned n_nodes = plan_nodes(o);

        cli_screen_begin(stdout);
        printf("capo plan   real NCCL %s on virtual GPUs: decisions are NCCL's, times are its model, nothing was "
               "measured\n",
               capo_nccl_text((uint32_t)plain->version, version, sizeof version));
        printf("asked       %s\n", o->q.libnccl);
        if (o->q.nccl_2)
                printf("and         %s\n", o->q.libnccl_2);
        printf("%-11s %s on %s: %s", capo_base_name(o->q.topo[0]),
               capo_text_plural(o->q.n_ranks, "rank", NULL),
               capo_text_plural(n_nodes, "node", NULL),
               capo_plan_gpus_print(o->q.ranks, o->q.n_ranks, nodes, sizeof nodes));
        graph_line(stdout, capo_algo_word(CAPO_ALGO_RING), capo_plan_graph_find(plain, -1, 0));
        graph_line(stdout, capo_algo_word(CAPO_ALGO_TREE), capo_plan_graph_find(plain, -1, 1));
        putchar('\n');
        if (plain->told.n_nodes > (int)n_nodes)
                printf("note        NCCL counts %d nodes: it goes out and back through the NICs inside a machine\n",
                       plain->told.n_nodes);
        if (plain->asked < o->q.n_ranks)
                printf("note        %u ranks on %s were asked; what the others, which are alike, tell them was made up "
                       "(--whole)\n",
                       plain->asked, capo_text_plural(plain->asked_nodes, "node", NULL));
        settings_line(stdout);
        if (o->q.n_ranks == 1)
                puts("note        one rank has nothing to choose: NCCL copies");
        print_rows(o, plain, tuned, c);
        if (o->q.nccl_2)
                printf("\n%zu of %zu choices differ. Times are each release's own model: compare choices, measure times\n",
                       c->n_differ, plain->n_rows);
        else if (tuned)
                printf("\n. = the same; %zu of %zu differ. Times on the right are NCCL's model for that choice, not "
                       "what the profile measured\n",
                       c->n_differ, plain->n_rows);
        if (c->no_match)
                printf("note        no rule of %s can hold here: %s\n",
                       capo_base_name(o->q.profile), c->no_match);
        if (c->n_chunks)
                printf("\nnote        %s a chunk: %s\n",
                       capo_text_plural(c->n_chunks, "row says", "rows say"),
                       c->chunks_dead ? "nothing comes of it, NCCL before 2.30 asks no tuner for it"
                                      : "NCCL asks for it; --spy shows what it is answered");
        if (c->n_turned)
                printf("\nnote        %s calls (kernel, ctas, cluster, cta_policy): %s\n",
                       capo_text_plural(c->n_turned, "row turns", "rows turn"),
                       c->turned_dead
                               ? "nothing comes of it, NCCL before 2.31 has no calls that take them"
                               : "the preload library does that (capo run), and was not asked here");
        if (plain->windowless)
                puts("\nnote        NCCL makes no windows on this machine: registered buffers are as any others");
        if (c->gap && o->q.n_ranks > 1)
                printf("\nnote        %s\n", c->gap);
        if (o->graph)
                print_graphs(plain);
        if (o->q.spy)
                print_spy(tuned ? tuned : plain, tuned != NULL);
        if (o->q.log && (tuned ? tuned : plain)->log)
                printf("\nLOG         NCCL's own words\n%s", (tuned ? tuned : plain)->log);
}
