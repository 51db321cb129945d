/* SPDX-License-Identifier: Apache-2.0 */
/* Checks over a whole profile. Each is a small function over rules or rows; the only shared idea is
 * implication: if condition A holds whenever B does, and A comes first, B never gets its turn. */
#include <math.h>

#include "capo/algorithms.h"
#include "capo/collectives.h"
#include "core/base/calls.h"
#include "core/base/nccl_facts.h"
#include "core/base/order.h"
#include "core/profile/match.h"
#include "core/profile/range.h"
#include "core/profile/profile_check.h"
#include "core/base/size.h"

/* Conditions on numbers and places of ranks that contradict each other. */

static bool is_outside(struct capo_range range, double value)
{
        return !capo_range_any(range) && (value < range.min || value > range.max);
}

static bool is_list(const char *layout)
{
        return layout && strcmp(layout, "even") && strcmp(layout, "uneven");
}

/* Against the list of ranks per node. */
static bool contradicts_layout(const struct capo_when *w, char *why, size_t room)
{
        struct capo_layout l;

        if (!is_list(w->layout) || capo_layout_parse(w->layout, &l, NULL) < 0)
                return false;
        snprintf(why, room, "layout %s has %u nodes and %u ranks, %u to %u on a node", w->layout,
                 l.n_nodes, l.n_ranks, capo_layout_smallest(&l), capo_layout_largest(&l));
        return is_outside(w->nodes, l.n_nodes) || is_outside(w->ranks, l.n_ranks) ||
               is_outside(w->min_local, capo_layout_smallest(&l)) ||
               is_outside(w->max_local, capo_layout_largest(&l));
}

static bool contradicts_trays(const struct capo_when *w, char *why, size_t room)
{
        struct capo_layout l;

        if (!w->trays || capo_layout_parse(w->trays, &l, NULL) < 0)
                return false;
        snprintf(why, room, "trays %s have %u ranks on at most %u nodes", w->trays, l.n_ranks,
                 l.n_nodes);
        return is_outside(w->ranks, l.n_ranks) || w->nodes.min > l.n_nodes;
}

static bool contradicts_counts(const struct capo_when *w, char *why, size_t room)
{
        double nodes = capo_range_any(w->nodes) ? 1 : w->nodes.min,
               ranks = capo_range_any(w->ranks) ? INFINITY : w->ranks.max,
               least = capo_range_any(w->min_local) ? 1 : w->min_local.min,
               most = capo_range_any(w->max_local) ? INFINITY : w->max_local.max;
        bool even = w->layout && !strcmp(w->layout, "even"),
             uneven = w->layout && !strcmp(w->layout, "uneven"),
             exact = w->nodes.min == w->nodes.max && w->ranks.min == w->ranks.max && nodes > 1 &&
                     ranks < INFINITY;
        const char *what = ranks < nodes           ? "fewer ranks than nodes"
                           : least > most          ? "min_local above max_local"
                           : ranks < nodes * least ? "fewer ranks than min_local on each node"
                           : even && exact && fmod(ranks, nodes) > 0
                                   ? "so many ranks are not even on so many nodes"
                           : uneven && !capo_range_any(w->nodes) && w->nodes.max < 2
                                   ? "one node is even"
                                   : "";

        snprintf(why, room, "%s", what);
        return *what;
}

bool capo_when_never(const struct capo_when *w, char *why, size_t room)
{
        return contradicts_layout(w, why, room) || contradicts_trays(w, why, room) ||
               contradicts_counts(w, why, room);
}

#define ROWS_COMPARED 20000 /* each row is compared with the rows before it */

struct check {
        const struct capo_profile *p;
        capo_finding_say say;
        void *user;
        int errors;
};

static void __attribute__((format(printf, 4, 5)))
report_finding(struct check *c, enum capo_finding_level level, uint32_t line, const char *format,
               ...)
{
        char text[500];
        va_list args;

        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        c->errors += level == CAPO_FINDING_ERROR;
        c->say(c->user, level, line, text);
}

/* Are all releases of the range older than what has this? */
static bool predates_fact(struct capo_range nccl, enum capo_nccl_fact fact)
{
        return !capo_range_any(nccl) && nccl.max < capo_nccl_since(fact);
}

static bool covers_range(struct capo_range outer, struct capo_range inner)
{
        return capo_range_any(outer) ||
               (!capo_range_any(inner) && outer.min <= inner.min && inner.max <= outer.max);
}

static bool covers_text(const char *outer, const char *inner)
{
        return !outer || (inner && !strcmp(outer, inner));
}

static bool covers_layout(const char *outer, const char *inner)
{
        return !outer || (inner && capo_layout_text_covers(outer, inner));
}

/* Does @outer hold whenever @inner does? False when in doubt. */
static bool when_implies(const struct capo_when *inner, const struct capo_when *outer)
{
        return covers_range(outer->nodes, inner->nodes) &&
               covers_range(outer->ranks, inner->ranks) &&
               covers_range(outer->min_local, inner->min_local) &&
               covers_range(outer->max_local, inner->max_local) &&
               covers_range(outer->nccl, inner->nccl) &&
               covers_range(outer->pipe_ops, inner->pipe_ops) &&
               covers_range(outer->ring_gbs, inner->ring_gbs) &&
               covers_range(outer->tree_gbs, inner->tree_gbs) &&
               covers_layout(outer->layout, inner->layout) &&
               covers_layout(outer->trays, inner->trays) &&
               covers_text(outer->class_name, inner->class_name) &&
               covers_text(outer->comm, inner->comm) &&
               (!outer->link || outer->link == inner->link) &&
               (outer->reg_buff < 0 || outer->reg_buff == inner->reg_buff);
}

/* Checks settings of a call's config that only some collectives have (public sources of 2.31). */
static void check_turned(struct check *c, const struct capo_row *row)
{
        if (row->kernel && (row->coll == CAPO_COLL_BROADCAST || row->coll == CAPO_COLL_REDUCE))
                report_finding(c, CAPO_FINDING_ERROR, row->line,
                               "%s has no symmetric kernel in any NCCL: %s does nothing",
                               capo_coll_word(row->coll), row->kernel + 5);
        if (row->cta_policy == 2 && row->coll != CAPO_COLL_ALLGATHER)
                report_finding(
                        c, CAPO_FINDING_WARNING, row->line,
                        "cta_policy zero: of these collectives only all-gather can be done by copy engines");
}

/* NCCL makes whole grains of a chunk, by rounding down; less than one would be none. */
static void check_chunk(struct check *c, const struct capo_row *row)
{
        unsigned grain = capo_proto_grain(row->proto);

        if (row->chunk && row->chunk < grain)
                report_finding(
                        c, CAPO_FINDING_WARNING, row->line,
                        "chunk is less than the %u bytes that %s moves at least: that is taken",
                        grain, capo_proto_name(row->proto));
        else if (row->chunk && row->chunk % grain)
                report_finding(
                        c, CAPO_FINDING_NOTE, row->line,
                        "chunk is no multiple of the %u bytes that %s moves: NCCL rounds it down to %u",
                        grain, capo_proto_name(row->proto), row->chunk / grain * grain);
}

static void check_rows(struct check *c)
{
        for (uint32_t i = 0; i < c->p->n_rows; i++) {
                const struct capo_row *row = &c->p->rows[i];
                const char *algo = capo_algo_name(row->algo), *proto = capo_proto_name(row->proto);

                if (!capo_pair_offered(row->coll, row->algo, row->proto))
                        report_finding(c, CAPO_FINDING_ERROR, row->line,
                                       "%s has no %s with %s in any NCCL: the row never applies",
                                       capo_coll_word(row->coll), algo, proto);
                else if (row->channels && (row->algo == CAPO_ALGO_COLLNET_DIRECT ||
                                           row->algo == CAPO_ALGO_COLLNET_CHAIN))
                        report_finding(
                                c, CAPO_FINDING_WARNING, row->line,
                                "channels is ignored: NCCL takes it unchecked for %s, so capo leaves it alone",
                                algo);
                else if (row->channels && row->coll == CAPO_COLL_ALLGATHER)
                        report_finding(
                                c, CAPO_FINDING_NOTE, row->line,
                                "channels is ignored from NCCL 2.29 on, which takes an all-gather's unchecked for "
                                "grouped broadcasts");
                check_turned(c, row);
                check_chunk(c, row);
                if (row->algo && row->gain < 0)
                        report_finding(
                                c, CAPO_FINDING_WARNING, row->line,
                                "by its own evidence this is slower than NCCL's choice (gain %g)",
                                (double)row->gain);
        }
}

/* Neighbouring rows of one JSON list that say the same. */
static void check_neighbours(struct check *c)
{
        for (uint32_t i = 1; i < c->p->n_rows && !c->p->csv; i++) {
                const struct capo_row *a = &c->p->rows[i - 1], *b = &c->p->rows[i];

                if (b->from && a->coll == b->coll && a->algo == b->algo && a->proto == b->proto &&
                    a->channels == b->channels && !a->algo && !capo_row_turned(a) &&
                    !capo_row_turned(b))
                        report_finding(c, CAPO_FINDING_NOTE, b->line,
                                       "says the same as the row before it; one row would do");
        }
}

static bool names_rack(const char *text)
{
        return text && (strcasestr(text, "gb200") || strcasestr(text, "gb300"));
}

/* Trays of GB200 and GB300 share an NVLink domain of up to 72 GPUs, which NCCL may count as one
 * node. */
static void check_domain(struct check *c, const struct capo_rule *rule)
{
        enum { DOMAIN_GPUS = 72 };
        const struct capo_when *w = &rule->when;
        struct capo_layout layout = {0};
        bool rack = names_rack(w->class_name), counts;
        double nodes = capo_range_any(w->nodes) ? 1 : w->nodes.min;
        double ranks = capo_range_any(w->ranks) ? INFINITY : w->ranks.max;

        for (uint32_t i = 0; i < c->p->n_notes[CAPO_PLATFORM]; i++)
                rack |= names_rack(c->p->notes[CAPO_PLATFORM][i].json);
        counts = w->layout && capo_layout_parse(w->layout, &layout, NULL) == 0;
        if (counts) {
                nodes = fmax(nodes, layout.n_nodes);
                ranks = fmin(ranks, layout.n_ranks);
        }
        if (rack && nodes > 1 && ranks <= DOMAIN_GPUS)
                report_finding(
                        c, CAPO_FINDING_WARNING, rule->line,
                        "inside one NVLink domain the rule never holds: NCCL counts its trays "
                        "as one node; \"trays\" names ranks per tray");
}

static void check_rule(struct check *c, const struct capo_rule *rule)
{
        const struct capo_when *w = &rule->when;
        bool rows = false;
        char why[160];

        for (int k = 0; k < CAPO_COLLS; k++)
                rows |= rule->count[k] > 0;
        if (!rows && !rule->n_constants)
                report_finding(c, CAPO_FINDING_WARNING, rule->line,
                               "the rule has neither rows nor constants");
        if (capo_when_never(w, why, sizeof why))
                report_finding(c, CAPO_FINDING_ERROR, rule->line, "the rule never holds: %s", why);
        if (predates_fact(w->nccl, CAPO_NCCL_TUNER))
                report_finding(c, CAPO_FINDING_ERROR, rule->line,
                               "the rule never holds: NCCL before 2.19.1 loads no tuner");
        check_domain(c, rule);
        if (rule->n_constants && capo_when_asks(w))
                report_finding(
                        c, CAPO_FINDING_ERROR, rule->line,
                        "the constants never apply: the rule has conditions that change from call to call");
        if (rule->n_constants && predates_fact(w->nccl, CAPO_NCCL_MODEL_CONSTANTS))
                report_finding(
                        c, CAPO_FINDING_ERROR, rule->line,
                        "the constants never apply: NCCL before 2.28 does not let a tuner change them");
        for (int k = 0; k < CAPO_COLLS; k++) {
                for (uint32_t i = 0; i < rule->count[k]; i++) {
                        const struct capo_row *row = &c->p->rows[rule->first[k] + i];

                        if (row->chunk && predates_fact(w->nccl, CAPO_NCCL_CHUNK))
                                report_finding(
                                        c, CAPO_FINDING_ERROR, row->line,
                                        "chunk never applies: NCCL before 2.30 asks no tuner for it");
                        if (!capo_row_turned(row))
                                continue;
                        if (predates_fact(w->nccl, CAPO_NCCL_CALL_CONFIG))
                                report_finding(
                                        c, CAPO_FINDING_ERROR, row->line,
                                        "kernel, ctas, cluster and cta_policy never apply: NCCL before 2.31 has no calls "
                                        "that take them");
                        else if (capo_when_asks(w))
                                report_finding(
                                        c, CAPO_FINDING_ERROR, row->line,
                                        "kernel, ctas, cluster and cta_policy never apply: the rule has conditions that "
                                        "are known only after the call is made");
                }
        }
        if (w->reg_buff >= 0)
                report_finding(
                        c, CAPO_FINDING_WARNING, rule->line,
                        "reg_buff may differ between ranks; where it does, the job hangs. Every rank must register its "
                        "buffers, or none");
        if (w->comm)
                report_finding(
                        c, CAPO_FINDING_WARNING, rule->line,
                        "comm is set by hand in the program; all ranks must give the communicator one name");
        if ((w->link || !capo_range_any(w->ring_gbs) || !capo_range_any(w->tree_gbs)) &&
            predates_fact(w->nccl, CAPO_NCCL_COST_TABLE))
                report_finding(c, CAPO_FINDING_ERROR, rule->line,
                               "the rule never holds: NCCL before 2.22 shows no cost table");
        if (capo_range_any(w->ring_gbs) && capo_range_any(w->tree_gbs))
                return;
        for (int k = 0; k < CAPO_COLLS; k++) {
                for (uint32_t i = 0; i < rule->count[k]; i++) {
                        const struct capo_row *row = &c->p->rows[rule->first[k] + i];

                        if (row->upto < CAPO_GBS_MIN_BYTES && row->algo)
                                report_finding(
                                        c, CAPO_FINDING_ERROR, row->line,
                                        "the row never applies: ring_gbs and tree_gbs are known from 16 MiB on");
                }
        }
}

/* JSON: a whole list that an earlier rule always answers for. */
static void check_lists(struct check *c, const uint32_t *order, int n)
{
        for (int j = 1; j < n && n <= 4096; j++) {
                const struct capo_rule *late = &c->p->rules[order[j]];

                for (int k = 0; k < CAPO_COLLS; k++) {
                        for (int i = 0; i < j && late->count[k]; i++) {
                                const struct capo_rule *early = &c->p->rules[order[i]];

                                if (!early->count[k] || !when_implies(&late->when, &early->when))
                                        continue;
                                report_finding(
                                        c, CAPO_FINDING_ERROR, late->line,
                                        "the %s rows cannot win: the rule of line %u always comes first",
                                        capo_coll_word(k), early->line);
                                break;
                        }
                }
        }
}

/* A line of a CSV; its rule has its conditions. */
struct line {
        const struct capo_row *row;
        const struct capo_rule *rule;
};

static int by_from(const void *a, const void *b)
{
        const struct capo_row *x = *(const struct capo_row *const *)a,
                              *y = *(const struct capo_row *const *)b;

        return CAPO_ORDER(x->from, y->from);
}

CAPO_ORDERED(by_coll, struct line,
             a->row->coll != b->row->coll   ? CAPO_ORDER(a->row->coll, b->row->coll)
             : a->row->from != b->row->from ? CAPO_ORDER(a->row->from, b->row->from)
                                            : CAPO_ORDER(a->row, b->row));

/* CSV: what of a line is left after the earlier lines whose conditions are as wide or wider; the
 * first line that holds wins, so a line of which nothing is left never does. @of: where the lines
 * of its collective begin, by rising size.
 *
 * `free_from` is the smallest size of the line that no earlier line is known to take. An earlier
 * line that holds that size takes everything up to its own end, so free_from moves behind it; if
 * that is beyond the line's end, nothing is left. One that begins beyond free_from leaves a size
 * free, and so do all behind it. */
static void check_line(struct check *c, const struct line *l, const struct line *of,
                       const struct line *end)
{
        const struct capo_row *row = l->row, *e;
        uint64_t free_from = row->from;
        uint32_t by = 0, overlap = 0;

        for (; of < end && of->row->coll == row->coll && of->row->from <= row->upto; of++) {
                e = of->row;
                if (e >= row || e->upto < row->from ||
                    !when_implies(&l->rule->when, &of->rule->when))
                        continue;
                if (!overlap || e->line < overlap)
                        overlap = e->line;
                if (e->from > free_from || e->upto < free_from)
                        continue;
                by = e->line > by ? e->line : by;
                if (e->upto >= row->upto) {
                        report_finding(
                                c, CAPO_FINDING_ERROR, row->line,
                                "the line cannot win: line %u and those before it cover all its sizes",
                                by);
                        return;
                }
                free_from = e->upto + 1;
        }
        if (overlap)
                report_finding(c, CAPO_FINDING_WARNING, row->line,
                               "overlaps line %u, which comes first", overlap);
}

static int check_lines(struct check *c)
{
        const struct capo_profile *p = c->p;
        _cleanup_free_ struct line *lines = NULL, *sorted = NULL;
        const struct line *of[CAPO_COLLS] = {NULL};

        if (p->n_rows > ROWS_COMPARED) {
                report_finding(c, CAPO_FINDING_NOTE, 0,
                               "more than %d lines: not looked for lines that cannot win",
                               ROWS_COMPARED);
                return 0;
        }
        lines = calloc(p->n_rows + 1, sizeof *lines);
        sorted = calloc(p->n_rows + 1, sizeof *sorted);
        if (!lines || !sorted)
                return -ENOMEM;
        for (uint32_t j = 0; j < p->n_rules; j++) {
                for (int k = 0; k < CAPO_COLLS; k++) {
                        for (uint32_t n = 0; n < p->rules[j].count[k]; n++) {
                                uint32_t at = p->rules[j].first[k] + n;

                                lines[at] = (struct line){&p->rows[at], &p->rules[j]};
                        }
                }
        }
        memcpy(sorted, lines, p->n_rows * sizeof *lines);
        qsort(sorted, p->n_rows, sizeof *sorted, by_coll);
        for (uint32_t i = p->n_rows; i-- > 0;)
                of[sorted[i].row->coll] = &sorted[i];
        for (uint32_t i = 0; i < p->n_rows; i++)
                check_line(c, &lines[i], of[lines[i].row->coll], sorted + p->n_rows);
        return 0;
}

/* CSV: sizes between the smallest and the largest line of one condition that no line of that
 * condition has. */
static int check_gaps(struct check *c)
{
        const struct capo_profile *p = c->p;
        const struct capo_row **list =
                p->n_rows <= ROWS_COMPARED ? malloc((p->n_rows + 1) * sizeof *list) : NULL;
        bool *done = calloc(p->n_rules + 1, sizeof *done);

        for (uint32_t i = 0; list && done && i < p->n_rules; i++) {
                for (int k = 0; k < CAPO_COLLS && !done[i]; k++) {
                        uint32_t n = 0;
                        uint64_t reach;
                        char a[24], b[24];

                        for (uint32_t j = i; j < p->n_rules; j++) {
                                if (!when_implies(&p->rules[i].when, &p->rules[j].when) ||
                                    !when_implies(&p->rules[j].when, &p->rules[i].when))
                                        continue;
                                for (uint32_t m = 0; m < p->rules[j].count[k]; m++)
                                        list[n++] = &p->rows[p->rules[j].first[k] + m];
                                if (k == CAPO_COLLS - 1)
                                        done[j] = true;
                        }
                        qsort(list, n, sizeof *list, by_from);
                        reach = n ? list[0]->upto : 0;
                        for (uint32_t m = 1; m < n; m++) {
                                if (reach != UINT64_MAX && list[m]->from > reach + 1)
                                        report_finding(
                                                c, CAPO_FINDING_WARNING, list[m]->line,
                                                "gap: no %s line with these conditions for %s to %s",
                                                capo_coll_word(k),
                                                capo_size_print(reach + 1, a, sizeof a),
                                                capo_size_print(list[m]->from - 1, b, sizeof b));
                                if (list[m]->upto > reach)
                                        reach = list[m]->upto;
                        }
                }
        }
        free(list);
        free(done);
        return done ? 0 : -ENOMEM;
}

int capo_profile_check(const struct capo_profile *p, capo_finding_say say, void *user)
{
        struct check c = {p, say, user, 0};
        _cleanup_free_ uint32_t *order = NULL;
        int n = capo_match(p, NULL, &order);

        if (n < 0)
                return n;
        check_rows(&c);
        check_neighbours(&c);
        for (uint32_t i = 0; i < p->n_rules; i++)
                check_rule(&c, &p->rules[i]);
        if (p->old_layouts_line)
                report_finding(&c, CAPO_FINDING_NOTE, p->old_layouts_line,
                               "\"layouts\" has no effect any more: the launcher's layout is used, "
                               "from NCCL 2.28 on NCCL's own numbers");
        if (!p->csv) {
                check_lists(&c, order, n);
                if (!p->n_notes[CAPO_PROVENANCE])
                        report_finding(&c, CAPO_FINDING_WARNING, 0,
                                       "no provenance: who measured this, when, with what?");
        } else {
                if (check_lines(&c) < 0 || check_gaps(&c) < 0)
                        return -ENOMEM;
        }
        if (!p->n_rules)
                report_finding(&c, CAPO_FINDING_WARNING, 0,
                               "no rules: the profile changes nothing");
        if (p->n_rows > UINT16_MAX - 1)
                report_finding(&c, CAPO_FINDING_WARNING, 0,
                               "%u rows: logs can tell the first %d apart", p->n_rows,
                               UINT16_MAX - 1);
        return c.errors;
}
