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

/* Conditions on numbers and places of ranks that contradict each other. */

static bool is_outside(struct capo_range range, double value)
{
        return !capo_range_any(range) && (value < range.min || value > range.max);
}

/* Against the list of ranks per node. */
static bool contradicts_layout(const struct capo_when *w, char *why, size_t room)
{
        struct capo_layout l;

        if (!w->layout || capo_layout_parse(w->layout, &l, NULL) < 0)
                return false; /* none, or "even" or "uneven" */
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

struct finding {
        bool found;
        enum capo_finding_level level;
        const char *text; /* NULL ends a list */
};

static void report_all(struct check *c, uint32_t line, const struct finding *list)
{
        for (; list->text; list++) {
                if (list->found)
                        report_finding(c, list->level, line, "%s", list->text);
        }
}

static bool asks_rates(const struct capo_when *w)
{
        return !capo_range_any(w->ring_gbs) || !capo_range_any(w->tree_gbs);
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

/* NCCL makes whole grains of a chunk, by rounding down; less than one would be none. What calls are
 * turned for only some collectives have (public sources of 2.31). */
static void check_row(struct check *c, const struct capo_row *row)
{
        const struct capo_when *w = &c->p->rules[row->rule].when;
        const char *algo = capo_algo_name(row->algo), *proto = capo_proto_name(row->proto);
        unsigned grain = capo_proto_grain(row->proto);
        bool turned = capo_row_turned(row);

        if (!capo_pair_offered(row->coll, row->algo, row->proto))
                report_finding(c, CAPO_FINDING_ERROR, row->line,
                               "%s has no %s with %s in any NCCL: the row never applies",
                               capo_coll_word(row->coll), algo, proto);
        else if (row->channels &&
                 (row->algo == CAPO_ALGO_COLLNET_DIRECT || row->algo == CAPO_ALGO_COLLNET_CHAIN))
                report_finding(
                        c, CAPO_FINDING_WARNING, row->line,
                        "channels is ignored: NCCL takes it unchecked for %s, so capo leaves it alone",
                        algo);
        else if (row->channels && row->coll == CAPO_COLL_ALLGATHER)
                report_finding(c, CAPO_FINDING_NOTE, row->line,
                               "channels is ignored from NCCL 2.29 on, which takes an all-gather's "
                               "unchecked for grouped broadcasts");
        if (row->kernel && (row->coll == CAPO_COLL_BROADCAST || row->coll == CAPO_COLL_REDUCE))
                report_finding(c, CAPO_FINDING_ERROR, row->line,
                               "%s has no symmetric kernel in any NCCL: %s does nothing",
                               capo_coll_word(row->coll), row->kernel + 5);
        if (row->chunk && row->chunk < grain)
                report_finding(
                        c, CAPO_FINDING_WARNING, row->line,
                        "chunk is less than the %u bytes that %s moves at least: that is taken",
                        grain, proto);
        else if (row->chunk && row->chunk % grain)
                report_finding(
                        c, CAPO_FINDING_NOTE, row->line,
                        "chunk is no multiple of the %u bytes that %s moves: NCCL rounds it down to %u",
                        grain, proto, row->chunk / grain * grain);
        if (row->algo && row->gain < 0)
                report_finding(c, CAPO_FINDING_WARNING, row->line,
                               "by its own evidence this is slower than NCCL's choice (gain %g)",
                               (double)row->gain);
        report_all(
                c, row->line,
                (const struct finding[]){
                        {row->cta_policy == 2 && row->coll != CAPO_COLL_ALLGATHER,
                         CAPO_FINDING_WARNING,
                         "cta_policy zero: of these collectives only all-gather can be done by "
                         "copy engines"},
                        {row->chunk && predates_fact(w->nccl, CAPO_NCCL_CHUNK), CAPO_FINDING_ERROR,
                         "chunk never applies: NCCL before 2.30 asks no tuner for it"},
                        {turned && predates_fact(w->nccl, CAPO_NCCL_CALL_CONFIG),
                         CAPO_FINDING_ERROR,
                         "kernel, ctas, cluster and cta_policy never apply: NCCL before 2.31 has "
                         "no calls that take them"},
                        {turned && !predates_fact(w->nccl, CAPO_NCCL_CALL_CONFIG) &&
                                 capo_when_asks(w),
                         CAPO_FINDING_ERROR,
                         "kernel, ctas, cluster and cta_policy never apply: the rule has "
                         "conditions that are known only after the call is made"},
                        {row->algo && row->upto < CAPO_GBS_MIN_BYTES && asks_rates(w),
                         CAPO_FINDING_ERROR,
                         "the row never applies: ring_gbs and tree_gbs are known from 16 MiB on"},
                        {0}});
}

static bool names_rack(const char *text)
{
        return text && (strcasestr(text, "gb200") || strcasestr(text, "gb300"));
}

/* Trays of GB200 and GB300 share an NVLink domain of up to 72 GPUs, which NCCL may count as one
 * node. Is the rule for such trays as nodes? */
static bool splits_domain(const struct check *c, const struct capo_when *w)
{
        enum { DOMAIN_GPUS = 72 };
        struct capo_layout layout = {0};
        bool rack = names_rack(w->class_name);
        double nodes = capo_range_any(w->nodes) ? 1 : w->nodes.min;
        double ranks = capo_range_any(w->ranks) ? INFINITY : w->ranks.max;

        for (uint32_t i = 0; i < c->p->n_notes[CAPO_PLATFORM]; i++)
                rack |= names_rack(c->p->notes[CAPO_PLATFORM][i].json);
        if (w->layout && capo_layout_parse(w->layout, &layout, NULL) == 0) {
                nodes = fmax(nodes, layout.n_nodes);
                ranks = fmin(ranks, layout.n_ranks);
        }
        return rack && nodes > 1 && ranks <= DOMAIN_GPUS;
}

static void check_rule(struct check *c, const struct capo_rule *rule)
{
        const struct capo_when *w = &rule->when;
        bool rows = false, constants = rule->n_constants > 0;
        char why[160];

        for (int k = 0; k < CAPO_COLLS; k++)
                rows |= rule->count[k] > 0;
        if (capo_when_never(w, why, sizeof why))
                report_finding(c, CAPO_FINDING_ERROR, rule->line, "the rule never holds: %s", why);
        report_all(
                c, rule->line,
                (const struct finding[]){
                        {!rows && !constants, CAPO_FINDING_WARNING,
                         "the rule has neither rows nor constants"},
                        {predates_fact(w->nccl, CAPO_NCCL_TUNER), CAPO_FINDING_ERROR,
                         "the rule never holds: NCCL before 2.19.1 loads no tuner"},
                        {splits_domain(c, w), CAPO_FINDING_WARNING,
                         "inside one NVLink domain the rule never holds: NCCL counts its trays "
                         "as one node; \"trays\" names ranks per tray"},
                        {constants && capo_when_asks(w), CAPO_FINDING_ERROR,
                         "the constants never apply: the rule has conditions that change from "
                         "call to call"},
                        {constants && predates_fact(w->nccl, CAPO_NCCL_MODEL_CONSTANTS),
                         CAPO_FINDING_ERROR,
                         "the constants never apply: NCCL before 2.28 does not let a tuner "
                         "change them"},
                        {w->reg_buff >= 0, CAPO_FINDING_WARNING,
                         "reg_buff may differ between ranks; where it does, the job hangs. "
                         "Every rank must register its buffers, or none"},
                        {w->comm, CAPO_FINDING_WARNING,
                         "comm is set by hand in the program; all ranks must give the "
                         "communicator one name"},
                        {(w->link || asks_rates(w)) && predates_fact(w->nccl, CAPO_NCCL_COST_TABLE),
                         CAPO_FINDING_ERROR,
                         "the rule never holds: NCCL before 2.22 shows no cost table"},
                        {0}});
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

typedef const struct capo_row *line;

CAPO_ORDERED(by_coll, line, CAPO_ORDER((*a)->coll, (*b)->coll), CAPO_ORDER((*a)->from, (*b)->from),
             CAPO_ORDER(*a, *b));

/* CSV: what of a line is left after the earlier lines whose conditions are as wide or wider; the
 * first line that holds wins, so a line of which nothing is left never does. @of: where the lines
 * of its collective begin, by rising size.
 *
 * `free_from` is the smallest size of the line that no earlier line is known to take. An earlier
 * line that holds that size takes everything up to its own end, so free_from moves behind it; if
 * that is beyond the line's end, nothing is left. One that begins beyond free_from leaves a size
 * free, and so do all behind it. */
static void check_line(struct check *c, const struct capo_row *row,
                       const struct capo_row *const *of, const struct capo_row *const *end)
{
        const struct capo_rule *rules = c->p->rules;
        uint64_t free_from = row->from;
        uint32_t by = 0;

        for (; of < end && (*of)->coll == row->coll && (*of)->from <= free_from; of++) {
                const struct capo_row *e = *of;

                if (e >= row || e->upto < free_from ||
                    !when_implies(&rules[row->rule].when, &rules[e->rule].when))
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
}

static int check_lines(struct check *c)
{
        const struct capo_profile *p = c->p;
        _cleanup_free_ const struct capo_row **sorted = NULL;
        const struct capo_row *const *of[CAPO_COLLS] = {NULL};

        if (p->n_rows > ROWS_COMPARED) {
                report_finding(c, CAPO_FINDING_NOTE, 0,
                               "more than %d lines: not looked for lines that cannot win",
                               ROWS_COMPARED);
                return 0;
        }
        sorted = malloc((p->n_rows + 1) * sizeof *sorted);
        if (!sorted)
                return -ENOMEM;
        for (uint32_t i = 0; i < p->n_rows; i++)
                sorted[i] = &p->rows[i];
        qsort(sorted, p->n_rows, sizeof *sorted, by_coll);
        for (uint32_t i = p->n_rows; i-- > 0;)
                of[sorted[i]->coll] = &sorted[i];
        for (uint32_t i = 0; i < p->n_rows; i++)
                check_line(c, &p->rows[i], of[p->rows[i].coll], sorted + p->n_rows);
        return 0;
}

int capo_profile_check(const struct capo_profile *p, capo_finding_say say, void *user)
{
        struct check c = {p, say, user, 0};
        _cleanup_free_ uint32_t *order = NULL;
        int n = capo_match(p, NULL, &order);

        if (n < 0)
                return n;
        for (uint32_t i = 0; i < p->n_rows; i++)
                check_row(&c, &p->rows[i]);
        for (uint32_t i = 0; i < p->n_rules; i++)
                check_rule(&c, &p->rules[i]);
        if (p->old_layouts_line)
                report_finding(&c, CAPO_FINDING_NOTE, p->old_layouts_line,
                               "\"layouts\" has no effect any more: the launcher's layout is used, "
                               "from NCCL 2.28 on NCCL's own numbers");
        if (!p->csv)
                check_lists(&c, order, n);
        else if (check_lines(&c) < 0)
                return -ENOMEM;
        report_all(&c, 0,
                   (const struct finding[]){{!p->csv && !p->n_notes[CAPO_PROVENANCE],
                                             CAPO_FINDING_WARNING,
                                             "no provenance: who measured this, when, with what?"},
                                            {!p->n_rules, CAPO_FINDING_WARNING,
                                             "no rules: the profile changes nothing"},
                                            {0}});
        if (p->n_rows > UINT16_MAX - 1)
                report_finding(&c, CAPO_FINDING_WARNING, 0,
                               "%u rows: logs can tell the first %d apart", p->n_rows,
                               UINT16_MAX - 1);
        return c.errors;
}
