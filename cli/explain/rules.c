/* SPDX-License-Identifier: Apache-2.0 */
/* Rules and candidates: the first two forms of capo explain. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/explain/explain.h"
#include "core/base/calls.h"
#include "core/base/layout.h"
#include "core/profile/seen.h"
#include "core/base/util.h"
#include "profiles/fragment/atlas.h"

static const char *file_name(const struct capo_profile *p)
{
        const char *slash = strrchr(p->file, '/');

        return slash ? slash + 1 : p->file;
}

static const char *choice_text(unsigned algo, unsigned proto, unsigned channels, char *text, size_t room)
{
        if (!algo)
                snprintf(text, room, "left to NCCL");
        else if (channels)
                snprintf(text, room, "%s %s, up to %u channels", capo_algo_name(algo), capo_proto_name(proto),
                         channels);
        else
                snprintf(text, room, "%s %s", capo_algo_name(algo), capo_proto_name(proto));
        return text;
}

/* One line per rule that lists the collective: it decides, it would but for a better one, or why it does not hold. */
static void print_rules(const struct explain *e, const struct capo_question *q, struct capo_choice c)
{
        const struct capo_profile *p = e->profile;
        char when[400], what[96];
        uint32_t winner = UINT32_MAX;

        for (uint32_t r = 0; r < p->n_rules && c.rule; r++) {
                const struct capo_rule *rule = &p->rules[r];

                if (c.rule - 1u >= rule->first[e->coll] && c.rule - 1u < rule->first[e->coll] + rule->count[e->coll])
                        winner = r;
        }
        printf("\nprofile  %s  digest %s\n", p->file, p->digest);
        if (winner == UINT32_MAX)
                puts("no rule of it decides: NCCL's own choice stands, untouched");
        for (uint32_t r = 0; r < p->n_rules; r++) {
                const struct capo_rule *rule = &p->rules[r];
                const char *why = NULL, *better = NULL;

                if (!rule->count[e->coll])
                        continue;
                capo_when_print(&rule->when, when, sizeof when);
                printf("  %s:%-5u %-9s when %-40s ", file_name(p), rule->line,
                       rule->basis == CAPO_BASIS_MODELLED ? "modelled" : "measured", when);
                if (r == winner) {
                        const struct capo_row *row = &p->rows[c.rule - 1];

                        printf("decides, line %u: %s", row->line,
                               choice_text(row->algo, row->proto, row->channels, what, sizeof what));
                        if (!isnan(row->gain))
                                printf(", gain %.0f %%", (double)row->gain * 100);
                        putchar('\n');
                } else if (!capo_rule_settled(rule, &e->shape, &why)) {
                        printf("does not hold: %s\n", why);
                } else if (!capo_when_asked(&rule->when, q)) {
                        puts("does not hold for this call (link, bandwidth, pipelining or registered buffers)");
                } else if (winner != UINT32_MAX) {
                        capo_rule_compare(p, winner, r, &better);
                        printf("holds, but line %u is more specific: %s\n", p->rules[winner].line,
                               better ? better : "earlier in the file");
                } else {
                        puts("holds, but has no row of this size");
                }
        }
}

static struct capo_choice look_up(struct explain *e, const struct capo_question *q)
{
        struct capo_tables *tables = NULL;
        struct capo_choice c = {0};

        if (e->profile && capo_tables_new(e->profile, &e->shape, &tables) == 0)
                c = capo_tables_find(tables, q);
        capo_tables_free(tables);
        return c;
}

static json_t *rule_json(const struct explain *e, struct capo_choice c)
{
        const struct capo_row *row;

        if (!c.rule || c.rule > e->profile->n_rows)
                return json_null();
        row = &e->profile->rows[c.rule - 1];
        return json_pack("{s:s, s:i, s:s, s:s, s:i, s:b}", "file", e->profile->file, "line", (int)row->line, "algo",
                         row->algo ? capo_algo_name(row->algo) : "leave", "proto", capo_proto_name(row->proto),
                         "channels", row->channels, "leave", !row->algo);
}

static void print_page(json_t *page)
{
        json_dumpf(page, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(7));
        putchar('\n');
        json_decref(page);
}

static const char *source_word(const struct capo_layout_why *why)
{
        static const char *const words[] = {"unknown", "nccl", "table", "launcher"};

        return words[why->source];
}

/* Only where it is a question: on one node there is one layout. */
static void print_layout(const struct explain *e, const struct capo_layout_why *why)
{
        if (e->shape.n_nodes > 1)
                printf("layout   %s: %s\n", e->shape.layout ? e->shape.layout : "?", why->text);
}

int explain_shape(struct explain *e)
{
        struct capo_question q = {.coll = (uint8_t)e->coll,
                                  .reg_buff = 0,
                                  .pipe_ops = 1,
                                  .bytes = e->bytes,
                                  .ring_gbs = -1,
                                  .tree_gbs = -1};
        char derived[CAPO_LAYOUT_TEXT], canonical[CAPO_LAYOUT_TEXT], what[96];
        struct capo_layout_why why;
        struct capo_choice c;

        if (e->layout && capo_layout_canonical(e->layout, canonical, sizeof canonical)) {
                capo_error("--layout %s: expected ranks per node, such as 3+5", e->layout);
                return CAPO_EXIT_USAGE;
        }
        capo_shape_fill(&e->shape, e->layout ? canonical : NULL, derived, sizeof derived, &why);
        c = look_up(e, &q);
        if (e->json) {
                print_page(json_pack("{s:i, s:s, s:I, s:i, s:i, s:s, s:s, s:s, s:o, s:[]}", "capo_explain", 1, "coll",
                                     capo_coll_word(e->coll), "bytes", (json_int_t)e->bytes, "ranks", e->shape.n_ranks,
                                     "nodes", e->shape.n_nodes, "layout", e->shape.layout ? e->shape.layout : "",
                                     "layout_by", source_word(&why), "layout_why", why.text, "rule", rule_json(e, c),
                                     "candidates"));
                return CAPO_EXIT_OK;
        }
        printf("capo explain  %s %s, %d ranks on %d nodes%s%s   (rules only: no NCCL was asked, there are no costs)\n",
               capo_call_name(e->call), e->size, e->shape.n_ranks, e->shape.n_nodes, e->shape.layout ? ": " : "",
               e->shape.layout ? e->shape.layout : "");
        print_layout(e, &why);
        print_rules(e, &q, c);
        printf("\nthe tuner would answer: %s\n", choice_text(c.algo, c.proto, c.channels, what, sizeof what));
        return CAPO_EXIT_OK;
}

static double cell_gbs(const struct explain *e, const struct capo_plan_row *r, enum capo_algo algo)
{
        unsigned a = algo - 1u, p = CAPO_PROTO_SIMPLE - 1u;

        if (a >= r->n_algo || r->cost[a][p] <= 0 || r->told < CAPO_GBS_MIN_BYTES)
                return -1;
        return (double)r->told / ((double)r->cost[a][p] * 1e3) *
               capo_busbw_factor(capo_call_kind(e->call), (unsigned)e->shape.n_ranks);
}

static void candidates_text(const struct explain *e, const struct capo_plan_row *plain,
                            const struct capo_plan_row *tuned, struct capo_choice c)
{
        bool compare = tuned != NULL;

        printf("\n%-14s %-7s %14s   %s\n", "algo", "proto", "predicted us",
               compare ? "by itself / with the profile" : "");
        for (unsigned a = 0; a < plain->n_algo; a++) {
                for (unsigned p = 0; p < plain->n_proto; p++) {
                        float us = plain->cost[a][p];
                        bool default_runs = plain->algo == a + 1 && plain->proto == p + 1;
                        bool tuned_runs = compare && tuned->algo == a + 1 && tuned->proto == p + 1;
                        bool wanted = c.algo == a + 1 && c.proto == p + 1;

                        if (us < 0 && !wanted && !default_runs && !tuned_runs)
                                continue;
                        printf("%-14s %-7s ", capo_algo_name(a + 1), capo_proto_name(p + 1));
                        if (us < 0)
                                printf("%14s   ", "not available");
                        else
                                printf("%14.1f   ", (double)us);
                        if (default_runs)
                                printf("NCCL chooses it (%u channels)", plain->channels);
                        if (tuned_runs)
                                printf("%swith the profile it runs (%u channels)", default_runs ? "; " : "",
                                       tuned->channels);
                        if (wanted && !tuned_runs)
                                printf("%swanted by the profile, blocked", default_runs ? "; " : "");
                        putchar('\n');
                }
        }
        if (!plain->n_algo)
                puts("this release shows its tuner no costs");
        else
                puts("all other pairs are marked by NCCL as not available for this call; capo never revives them");
}

static const char *blocked(const struct explain *e, const struct capo_plan_row *plain,
                           const struct capo_plan_row *tuned, struct capo_choice c)
{
        if (!c.algo || !tuned || (tuned->algo == c.algo && tuned->proto == c.proto))
                return NULL;
        if (c.algo - 1u < plain->n_algo && plain->cost[c.algo - 1][c.proto - 1] < 0)
                return getenv("NCCL_ALGO") || getenv("NCCL_PROTO")
                               ? "NCCL marks the pair as not available here; NCCL_ALGO or NCCL_PROTO is set and wins"
                               : "NCCL marks the pair as not available for this call on this machine";
        return "NCCL ran something else although the pair was offered";
}

static json_t *candidates_json(const struct capo_plan_row *plain, const struct capo_plan_row *tuned)
{
        json_t *list = json_array();

        for (unsigned a = 0; a < plain->n_algo; a++) {
                for (unsigned p = 0; p < plain->n_proto; p++) {
                        double us = (double)plain->cost[a][p];

                        json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:b, s:b}", "algo",
                                                              capo_algo_name(a + 1), "proto", capo_proto_name(p + 1),
                                                              "us", us < 0 ? json_null() : json_real(us), "default",
                                                              plain->algo == a + 1 && plain->proto == p + 1, "runs",
                                                              tuned ? tuned->algo == a + 1 && tuned->proto == p + 1
                                                                    : plain->algo == a + 1 && plain->proto == p + 1));
                }
        }
        return list;
}

/* The class of the allocation and what its links allow. Return: are they known? */
static bool find_bound(const struct explain *e, struct fragment_bound *b)
{
        struct capo_topology *t = NULL;
        char why[512];
        bool known;

        *b = (struct fragment_bound){0};
        if (capo_topology_read_nccl(e->plan.topo[0], CAPO_TOPOLOGY_PARTIAL, 0, &t, why, sizeof why) < 0)
                return false; /* said before, when NCCL was asked */
        known = t->n_links && fragment_bound(t, e->plan.ranks, e->plan.n_ranks, b) == 0 && b->busbw_gbs[e->coll] > 0;
        capo_topology_free(t);
        return known;
}

static void print_bound(const struct explain *e, const struct fragment_bound *b, const struct capo_plan_row *runs)
{
        printf("class    %s: its links allow %.1f GB/s busbw%s", b->class, b->busbw_gbs[e->coll],
               b->hybrid ? " with PCIe and NICs" : "");
        if (runs->busbw_gbs > 0)
                printf(", this is expected to reach %.0f %% of it", 100 * runs->busbw_gbs / b->busbw_gbs[e->coll]);
        putchar('\n');
}

/* @answers: NCCL by itself; with the profile, when there is one. */
static int show(struct explain *e, const struct capo_plan_answer *answers)
{
        const struct capo_plan_row *plain = &answers[0].rows[0], *tuned = e->profile ? &answers[1].rows[0] : NULL;
        struct capo_question q = {.coll = (uint8_t)e->coll,
                                  .reg_buff = (int8_t)plain->reg_buff,
                                  .link = !plain->n_algo           ? CAPO_LINK_ANY
                                          : plain->cost[1][1] >= 0 ? CAPO_LINK_NVLINK
                                                                   : CAPO_LINK_OTHER,
                                  .pipe_ops = plain->pipe_ops,
                                  .bytes = plain->told ? plain->told : e->bytes};
        char derived[CAPO_LAYOUT_TEXT], version[16], what[96], nodes[4096];
        char given[CAPO_LAYOUT_TEXT];
        struct capo_layout_why layout_why;
        struct fragment_bound bound;
        struct capo_choice c;
        const char *why;
        bool bounded;

        e->shape.n_ranks = answers[0].told.abi ? answers[0].told.n_ranks : (int)e->plan.n_ranks;
        e->shape.n_nodes = answers[0].told.n_nodes;
        e->shape.min_local = answers[0].told.nvl_min;
        e->shape.max_local = answers[0].told.nvl_max;
        e->shape.nccl = answers[0].version;
        e->shape.fragment = *e->plan.class ? e->plan.class : NULL;
        capo_seen_settle(e->profile, &e->shape, plan_layout(&e->plan, given, sizeof given), derived, sizeof derived, &q,
                         plain->n_algo ? (double)plain->cost[1][2] : -1, &layout_why);
        q.ring_gbs = cell_gbs(e, plain, CAPO_ALGO_RING);
        q.tree_gbs = cell_gbs(e, plain, CAPO_ALGO_TREE);
        c = look_up(e, &q);
        why = blocked(e, plain, tuned, c);
        bounded = find_bound(e, &bound);
        if (e->json) {
                print_page(json_pack("{s:i, s:s, s:I, s:i, s:i, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o}",
                                     "capo_explain", 1, "coll", capo_coll_word(e->coll), "bytes", (json_int_t)e->bytes,
                                     "ranks", e->shape.n_ranks, "nodes", e->shape.n_nodes, "layout",
                                     e->shape.layout ? e->shape.layout : "", "layout_by", source_word(&layout_why),
                                     "layout_why", layout_why.text, "nccl", plan_version_text(e->shape.nccl, version),
                                     "rule", e->profile ? rule_json(e, c) : json_null(), "blocked",
                                     why ? json_string(why) : json_null(), "class",
                                     bounded ? json_string(bound.class) : json_null(), "ceiling_busbw_gbs",
                                     bounded ? json_real(bound.busbw_gbs[e->coll]) : json_null(), "candidates",
                                     candidates_json(plain, tuned)));
                return CAPO_EXIT_OK;
        }
        printf("capo explain  %s %s on %s: %d ranks, NCCL counts %d node%s%s%s\n", capo_call_name(e->call), e->size,
               plan_nodes_text(e->plan.ranks, e->plan.n_ranks, nodes, sizeof nodes), e->shape.n_ranks, e->shape.n_nodes,
               e->shape.n_nodes == 1 ? "" : "s", e->shape.layout ? ", layout " : "",
               e->shape.layout ? e->shape.layout : "");
        printf("real NCCL %s on virtual GPUs: costs are its model, nothing was measured\n",
               plan_version_text(e->shape.nccl, version));
        print_layout(e, &layout_why);
        candidates_text(e, plain, tuned, c);
        if (e->profile)
                print_rules(e, &q, c);
        printf("\nruns     %s",
               choice_text((tuned ? tuned : plain)->algo, (tuned ? tuned : plain)->proto, 0, what, sizeof what));
        printf(", %u channels", (tuned ? tuned : plain)->channels);
        if (tuned && !why && c.algo)
                printf(", by the profile");
        putchar('\n');
        if (why)
                printf("blocked  %s: %s\n", choice_text(c.algo, c.proto, c.channels, what, sizeof what), why);
        if (bounded)
                print_bound(e, &bound, tuned ? tuned : plain);
        return CAPO_EXIT_OK;
}

int explain_planned(struct explain *e)
{
        struct capo_plan_answer answers[2] = {0};
        char coll[32];
        int status;

        snprintf(coll, sizeof coll, "%s", capo_coll_word(e->coll));
        e->plan.colls = coll;
        e->plan.sizes = e->size;
        status = plan_prepare(&e->plan);
        if (status == CAPO_EXIT_OK)
                status = plan_ask(&e->plan, "explain", false, answers);
        if (status == CAPO_EXIT_OK)
                status = show(e, answers);
        capo_plan_answer_finish(&answers[0]);
        capo_plan_answer_finish(&answers[1]);
        return status;
}
