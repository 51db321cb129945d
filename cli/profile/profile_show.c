/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "capo/collectives.h"
#include "capo/msg.h"
#include "cli/base/cli_screen.h"
#include "cli/base/cli_table.h"
#include "cli/profile/profile_show.h"
#include "core/base/calls.h"
#include "core/base/layout.h"
#include "core/base/nccl_facts.h"
#include "core/base/nccl_release.h"
#include "core/base/size.h"
#include "core/base/util.h"

static const enum capo_coll order_shown[] = {CAPO_COLL_ALLREDUCE, CAPO_COLL_BROADCAST,
                                             CAPO_COLL_REDUCE, CAPO_COLL_ALLGATHER,
                                             CAPO_COLL_REDUCESCATTER};

static void format_size_range(const struct capo_row *row, char *text, size_t room)
{
        char a[24], b[24];

        capo_size_print(row->from ? row->from - 1 : 0, a, sizeof a);
        capo_size_print(row->upto, b, sizeof b);
        if (!row->from)
                snprintf(text, room, row->upto == UINT64_MAX ? "all sizes" : "up to %s", b);
        else if (row->upto == UINT64_MAX)
                snprintf(text, room, "above %s", a);
        else
                snprintf(text, room, "%s - %s", a, b);
}

static void format_number(float value, const char *format, char *text, size_t room)
{
        if (isfinite(value))
                snprintf(text, room, format, (double)value);
        else
                snprintf(text, room, "-");
}

#define PROFILE_COLUMNS "  l14,.l24,.l14,.l7/e,.r8/d,.r10/c,.r9/a,.r7,.r8/b"

static void show_head(struct capo_table *t)
{
        capo_table_row(t,
                       "collective\tsizes\talgorithm\tproto\tchannels\tus\tspread\tgain\tsamples");
}

static void show_row(struct capo_table *t, const struct capo_row *row, bool first)
{
        char turned[CAPO_TURNED_TEXT], size[64], us[24], spread[24], gain[24], channels[8] = "-",
                                                                               samples[16] = "-";

        format_size_range(row, size, sizeof size);
        format_number(row->us, "%.6g", us, sizeof us);
        format_number(row->spread_us, "%.3g", spread, sizeof spread);
        format_number(row->gain * 100, "%+.1f %%", gain, sizeof gain);
        if (row->channels)
                snprintf(channels, sizeof channels, "%u", row->channels);
        if (row->samples)
                snprintf(samples, sizeof samples, "%u", row->samples);
        capo_table_row(
                t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", first ? capo_coll_word(row->coll) : "",
                size, row->algo ? capo_algo_name(row->algo) : "(NCCL's own)",
                row->algo ? capo_proto_name(row->proto) : "", channels, us, spread, gain, samples);
        if (row->chunk)
                capo_table_row(t, "\t\tchunks of %s",
                               capo_size_print(row->chunk, size, sizeof size));
        if (capo_row_turned(row))
                capo_table_row(t, "\t\tcalls turned: %s",
                               capo_row_turned_text(row, turned, sizeof turned));
}

static void show_rule(const struct capo_profile *p, const struct capo_rule *rule)
{
        _cleanup_(capo_table_freep) struct capo_table *t = capo_table_new(PROFILE_COLUMNS);
        uint32_t rows = 0;
        char when[600];

        if (!t)
                return;
        printf("\nline %u: %s%s\n", rule->line, capo_when_print(&rule->when, when, sizeof when),
               rule->basis == CAPO_BASIS_MODELLED ? "  (modelled, not measured)" : "");
        if (rule->n_constants)
                printf("    %u of NCCL's model constants corrected\n", rule->n_constants);
        for (size_t k = 0; k < N_ELEMENTS(order_shown); k++) {
                enum capo_coll c = order_shown[k];

                for (uint32_t i = 0; i < rule->count[c]; i++) {
                        if (!rows++)
                                show_head(t);
                        show_row(t, &p->rows[rule->first[c] + i], !i);
                }
        }
        capo_table_print(t, stdout, 1);
}

void profile_show(const struct capo_profile *p)
{
        static const char *const sections[] = {"provenance", "platform"};

        cli_screen_begin(stdout);
        printf("%s%s%s\ndigest %s\n", *p->name ? p->name : "(no name)", "  ", p->file, p->digest);
        for (int s = 0; s < CAPO_SECTIONS; s++) {
                if (p->n_notes[s])
                        printf("\n%s\n", sections[s]);
                for (uint32_t i = 0; i < p->n_notes[s]; i++) {
                        const char *json = p->notes[s][i].json;
                        size_t n = strlen(json);

                        if (*json == '"' && n > 1)
                                printf("    %-14s %.*s\n", p->notes[s][i].key, (int)n - 2,
                                       json + 1);
                        else
                                printf("    %-14s %s\n", p->notes[s][i].key, json);
                }
        }
        for (uint32_t i = 0; i < p->n_rules; i++)
                show_rule(p, &p->rules[i]);
}

/* ---- match ---- */

/* All rows after the last number of a choice share that number. */
static const struct capo_row *row_of(const struct capo_profile *p, uint16_t rule)
{
        return rule && rule < UINT16_MAX ? &p->rows[rule - 1] : NULL;
}

static void show_choice(const struct capo_profile *p, const struct profile_ask *ask,
                        struct capo_choice c, const struct capo_turn *turn, const char *unknown)
{
        const struct capo_row *row = row_of(p, turn ? turn->rule : c.rule);
        char bytes[24], size[16], where[40], turned[CAPO_TURNED_TEXT];
        bool new = capo_nccl_has(ask->shape.nccl, CAPO_NCCL_CALL_CONFIG);

        if (row)
                snprintf(where, sizeof where, "%u", row->line);
        else
                snprintf(where, sizeof where, "a row behind the %uth", UINT16_MAX - 1u);
        printf("\n%s of %s: ", capo_coll_word(ask->coll),
               capo_size_print(ask->question.bytes, bytes, sizeof bytes));
        if (!c.rule && unknown)
                printf("not known without %s\n", unknown);
        else if (!c.rule)
                puts("no opinion, NCCL chooses");
        else if (!c.algo)
                printf("left to NCCL (%s:%s)\n", p->file, where);
        else
                printf(c.channels ? "%s, %s, at most %u channels (%s:%s)\n"
                                  : "%s, %s, NCCL's own channels%.0u (%s:%s)\n",
                       capo_algo_name(c.algo), capo_proto_name(c.proto), c.channels, p->file,
                       where);
        if (c.chunk)
                printf("    chunks of %s (NCCL 2.30 on)\n",
                       capo_size_print(c.chunk, size, sizeof size));
        if (row && capo_row_turned(row))
                printf("    calls %sturned: %s%s\n", turn || !new ? "" : "not ",
                       capo_row_turned_text(row, turned, sizeof turned),
                       turn  ? ""
                       : new ? "; a condition on single calls is known too late for that"
                             : " (NCCL 2.31 on)");
}

/* The option that would decide whether @rule matches; NULL: it cannot match, whatever the option.
 */
static const char *find_missing_option(const struct capo_rule *rule, const struct profile_ask *ask,
                                       const char *why)
{
        struct capo_rule rest = *rule;
        const char *option = NULL;

        if (!strcmp(why, "nccl") && !ask->shape.nccl) {
                rest.when.nccl = CAPO_ANY;
                option = "--nccl";
        } else if (!strcmp(why, "class") && !ask->shape.class_name) {
                rest.when.class_name = NULL;
                option = "--class";
        } else if (!strcmp(why, "comm") && !ask->shape.comm) {
                rest.when.comm = NULL;
                option = "--comm";
        } else {
                return NULL;
        }
        if (capo_rule_settled(&rest, &ask->shape, &why))
                return option;
        return find_missing_option(&rest, ask, why) ? option : NULL;
}

int profile_show_match(const struct capo_profile *p, struct profile_ask *ask)
{
        _cleanup_free_ uint32_t *holding = NULL, *all = NULL;
        struct capo_tables *tables = NULL;
        char layout[CAPO_LAYOUT_TEXT], when[600], release[16];
        bool decided[CAPO_COLLS] = {false};
        const char *why = "", *option, *unknown = NULL;
        int n, n_all, r;

        capo_shape_fill(&ask->shape, ask->layout, layout, sizeof layout, NULL);
        cli_screen_begin(stdout);
        printf("%s on %s%s%s", capo_text_plural((unsigned)ask->shape.n_ranks, "rank", NULL),
               capo_text_plural((unsigned)ask->shape.n_nodes, "node", NULL),
               ask->shape.layout ? ", layout " : "", ask->shape.layout ? ask->shape.layout : "");
        if (ask->shape.nccl)
                printf(", NCCL %s",
                       capo_nccl_text((uint32_t)ask->shape.nccl, release, sizeof release));
        puts("");
        n = capo_match(p, &ask->shape, &holding);
        n_all = capo_match(p, NULL, &all);
        r = n < 0 || n_all < 0 ? -1 : capo_tables_new(p, &ask->shape, &tables);
        if (r < 0)
                return capo_fail(
                        r,
                        "%s: out of memory, or more conditions on single calls than can be compiled",
                        p->file);
        for (int i = 0; i < n; i++) {
                const struct capo_rule *rule = &p->rules[holding[i]];
                _cleanup_(capo_table_freep) struct capo_table *t = capo_table_new(PROFILE_COLUMNS);
                uint32_t rows = 0;

                if (!t)
                        continue;
                printf("\nholds   line %u: %s\n", rule->line,
                       capo_when_print(&rule->when, when, sizeof when));
                if (i + 1 < n) {
                        capo_rule_compare(p, holding[i], holding[i + 1], &why);
                        printf("        before line %u because of %s\n",
                               p->rules[holding[i + 1]].line, why);
                }
                for (size_t k = 0; k < N_ELEMENTS(order_shown); k++) {
                        enum capo_coll c = order_shown[k];

                        if (!rule->count[c] || (ask->coll >= 0 && (int)c != ask->coll))
                                continue;
                        if (decided[c] && !p->csv) {
                                capo_table_row(t, "    %s is decided above", capo_coll_word(c));
                                continue;
                        }
                        if (!capo_when_asks(&rule->when))
                                decided[c] = true;
                        for (uint32_t m = 0; m < rule->count[c] && !ask->one; m++) {
                                if (!rows++)
                                        show_head(t);
                                show_row(t, &p->rows[rule->first[c] + m], !m);
                        }
                }
                capo_table_print(t, stdout, 1);
        }
        for (int i = 0; i < n_all; i++) {
                const struct capo_rule *rule = &p->rules[all[i]];

                if (capo_rule_settled(rule, &ask->shape, &why))
                        continue;
                option = find_missing_option(rule, ask, why);
                capo_when_print(&rule->when, when, sizeof when);
                if (option)
                        printf("\nunknown line %u: %s\n        without %s\n", rule->line, when,
                               option);
                else
                        printf("\nnot     line %u: %s\n        because of %s\n", rule->line, when,
                               why);
                unknown = unknown ? unknown : option;
        }
        if (ask->one) {
                ask->question.coll = (uint8_t)ask->coll;
                show_choice(
                        p, ask,
                        capo_tables_chunk(tables->chunks, capo_tables_find(tables, &ask->question)),
                        capo_tables_turn(tables, ask->question.coll, ask->question.bytes), unknown);
        }
        if (!n && unknown)
                printf("\nno rule is known to hold: give %s\n", unknown);
        else if (!n)
                puts("\nno rule holds: NCCL's own choices stand");
        capo_tables_free(tables);
        return 0;
}
