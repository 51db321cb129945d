/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's cost table has a time for each algorithm and protocol. Where a measured time and the table
 * exist, their ratio is the error of the model for this algorithm, protocol and size on these
 * machines. The ratio is assumed to be the same on another allocation: links and GPUs are the same,
 * and the graph, which differs, is in the table. So the predicted time is table x ratio, for
 * candidates and NCCL's own choice alike, and part of the errors cancels. The rest is larger than
 * noise: a rule is only written for a gain above CAPO_MODEL_MARGIN. */
#include <math.h>

#include "capo/algorithms.h"
#include "capo/collectives.h"
#include "capo/msg.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "profiles/fit/fit_model.h"
#include "profiles/plan/plan.h"

enum { MAX_SIZES = 256 };

static int ask_plan(const struct capo_fit_machine *m, const char *layout,
                    const struct capo_fit_series *s, struct capo_plan_answer *out, char *why,
                    size_t room)
{
        static struct capo_plan_ask asks[MAX_SIZES];
        struct capo_plan_gpu gpus[CAPO_PLAN_RANKS_MAX];
        uint16_t devs[CAPO_PLAN_GPUS_MAX];
        const char *topo[1] = {m->topo};
        struct capo_plan_question q = {.tools = m->tools,
                                       .libnccl = m->libnccl,
                                       .topo = topo,
                                       .n_topo = 1,
                                       .platform = m->platform,
                                       .gpus = gpus,
                                       .asks = asks};
        int n = capo_plan_machine_gpus(m->topo, m->platform, devs, why, room), e;

        if (n < 0)
                return n;
        e = capo_plan_ranks_parse(layout, true, &(struct capo_gpus_of){m->topo, devs, (size_t)n},
                                  gpus, CAPO_PLAN_RANKS_MAX, &q.n_ranks, why, room);
        if (e < 0)
                return e;
        for (int p = 0; p < s->n_points && q.n_asks < MAX_SIZES; p++)
                asks[q.n_asks++] =
                        (struct capo_plan_ask){capo_coll_of_call(s->call), s->points[p].bytes};
        return capo_plan_ask(&q, out, why, room);
}

/* Measured over predicted time for one algorithm and protocol at one size; NAN: one is not known.
 */
static double measured_ratio(const struct capo_fit_series *s, const struct capo_plan_answer *here,
                             int p, unsigned algo, unsigned proto)
{
        const struct capo_plan_row *row = &here->rows[p];
        double us = NAN;

        if (algo - 1 >= row->n_algo || proto - 1 >= row->n_proto ||
            row->cost[algo - 1][proto - 1] <= 0)
                return NAN;
        for (int c = 0; c < s->n_candidates; c++) {
                const struct capo_fit_cell *cell = capo_fit_cell_of(s, p, c);
                const struct capo_fit_candidate *k = &s->candidates[c];
                bool is =
                        c == 0 ? s->points[p].default_ran == CAPO_ALGO_PROTO(algo, proto)
                               : k->algo == algo && k->proto == proto && !k->channels && !k->chunk;

                if (is && cell->n_blocks)
                        us = cell->us;
        }
        return us / row->cost[algo - 1][proto - 1];
}

/* The choice at one size of the new allocation; 0: NCCL's. */
static uint8_t choose_pair(const struct capo_fit_series *s, const struct capo_plan_answer *here,
                           const struct capo_plan_answer *there, int p, double margin, double *us,
                           double *gain)
{
        const struct capo_plan_row *row = &there->rows[p];
        double own, best = INFINITY;
        uint8_t choice = 0;

        if (!row->algo || !row->proto || row->algo - 1 >= row->n_algo ||
            row->proto - 1 >= row->n_proto)
                return 0;
        own = row->cost[row->algo - 1][row->proto - 1] *
              measured_ratio(s, here, p, row->algo, row->proto);
        for (unsigned a = 1; a <= row->n_algo && a <= CAPO_NCCL_ALGOS; a++) {
                for (unsigned o = 1; o <= row->n_proto && o <= CAPO_NCCL_PROTOS; o++) {
                        double t =
                                row->cost[a - 1][o - 1] > 0
                                        ? row->cost[a - 1][o - 1] * measured_ratio(s, here, p, a, o)
                                        : NAN;

                        if (t < best) {
                                best = t;
                                choice = CAPO_ALGO_PROTO(a, o);
                        }
                }
        }
        *us = best;
        *gain = 1 - best / own;
        return own > 0 && *gain >= margin && choice != CAPO_ALGO_PROTO(row->algo, row->proto)
                       ? choice
                       : 0;
}

int capo_fit_modelled_rows(struct capo_profile *profile, unsigned coll,
                           const struct capo_fit_decision *d, int n, bool open_end)
{
        struct capo_row row = {.coll = (uint8_t)coll, .us = NAN, .spread_us = NAN, .gain = NAN},
                        leave = row;
        int written = 0, any = 0;

        for (int p = 0; p < n; p++)
                any |= d[p].choice;
        if (!any)
                return 0;
        leave.upto = d[0].bytes - 1; /* nothing is claimed below the smallest size */
        if (d[0].choice && leave.upto)
                capo_fit_memory(capo_profile_row(profile, &leave) == 0);
        for (int p = 0; p < n; p++) {
                if (p + 1 < n && d[p + 1].choice == d[p].choice)
                        continue;
                row.algo = d[p].choice >> 4;
                row.proto = d[p].choice & 15;
                row.us = d[p].choice ? (float)d[p].us : NAN;
                row.gain = d[p].choice ? (float)d[p].gain : NAN;
                row.upto = p + 1 < n ? (uint64_t)sqrt((double)d[p].bytes * (double)d[p + 1].bytes)
                           : d[p].choice && !open_end ? d[p].bytes
                                                      : UINT64_MAX;
                written += d[p].choice > 0;
                capo_fit_memory(capo_profile_row(profile, &row) == 0);
        }
        leave.upto = UINT64_MAX;
        if (d[n - 1].choice && !open_end)
                capo_fit_memory(capo_profile_row(profile, &leave) == 0);
        return written;
}

/* Add the rule of one collective; none if it has no rows. */
static void write_rule(const struct capo_fit_series *s, const struct capo_plan_answer *here,
                       const struct capo_plan_answer *there, double margin,
                       const struct capo_layout *wanted, const char *layout,
                       struct capo_profile *profile, struct capo_fit_modelled *out)
{
        uint32_t minor = s->like.nccl - s->like.nccl % 100;
        struct capo_fit_decision d[MAX_SIZES];
        int n = (int)(there->n_rows < here->n_rows ? there->n_rows : here->n_rows), r;
        struct capo_rule *rule = capo_profile_rule(profile, CAPO_BASIS_MODELLED);

        capo_fit_memory(rule);
        rule->when.ranks = (struct capo_range){wanted->n_ranks, wanted->n_ranks};
        rule->when.nodes = (struct capo_range){wanted->n_nodes, wanted->n_nodes};
        if (wanted->n_nodes > 1)
                rule->when.layout = capo_profile_keep(profile, layout);
        if (s->like.nccl)
                rule->when.nccl = (struct capo_range){minor, minor + 99};
        for (int p = 0; p < n; p++) {
                d[p] = (struct capo_fit_decision){
                        .bytes = s->points[p].bytes, .us = NAN, .gain = NAN};
                d[p].choice = choose_pair(s, here, there, p, margin, &d[p].us, &d[p].gain);
        }
        out->n_sizes += n;
        r = capo_fit_modelled_rows(profile, capo_coll_of_call(s->call), d, n, false);
        out->n_rows += r;
        profile->n_rules -= r == 0;
}

int capo_fit_model(const struct capo_fit *fit, const struct capo_fit_machine *machine,
                   const char *layout, const struct capo_fit_options *options,
                   struct capo_profile *profile, struct capo_fit_modelled *out, char *why,
                   size_t room)
{
        struct capo_layout wanted;
        char canonical[CAPO_LAYOUT_TEXT];
        double margin = fmax(CAPO_MODEL_MARGIN, options->min_gain);
        int used = 0, e = 0;

        *out = (struct capo_fit_modelled){0};
        if (capo_layout_parse(layout, &wanted, NULL) < 0)
                return capo_why(-EINVAL, why, room, "\"%s\": expected ranks per node, such as 3+5",
                                layout);
        capo_layout_print(&wanted, canonical, sizeof canonical);
        for (int i = 0; i < fit->n_series; i++) {
                if (!strcmp(fit->series[i].like.layout, canonical))
                        return capo_why(-EEXIST, why, room, "%s was measured: its rules are",
                                        canonical);
        }
        for (int i = 0; i < fit->n_series && e == 0; i++) {
                const struct capo_fit_series *s = &fit->series[i];
                struct capo_plan_answer here = {0}, there = {0};
                bool first = true;

                for (int k = 0; k < i;
                     k++) /* use one measured allocation per collective: the first */
                        first &= fit->series[k].call != s->call;
                if (!first || !s->like.layout[0] || s->n_candidates < 2)
                        continue;
                e = ask_plan(machine, s->like.layout, s, &here, why, room);
                if (e == 0)
                        e = ask_plan(machine, canonical, s, &there, why, room);
                if (e == 0) {
                        used++;
                        capo_fit_class_text(&s->like, out->from, sizeof out->from);
                        write_rule(s, &here, &there, margin, &wanted, canonical, profile, out);
                }
                capo_plan_answer_finish(&here);
                capo_plan_answer_finish(&there);
        }
        if (e == 0 && !used)
                return capo_why(
                        -ENODATA, why, room,
                        "nothing measured that the model could be corrected by: a sweep on an allocation with known "
                        "layout");
        return e;
}

const char *capo_fit_size_word(uint64_t bytes, char text[24])
{
        int k = 0;

        while (k < 3 && bytes && bytes % 1024 == 0) {
                bytes /= 1024;
                k++;
        }
        snprintf(text, 24, "%" PRIu64 "%.1s", bytes, &"\0KMG"[k]);
        return text;
}

char *capo_fit_settle_text(const struct capo_fit_fragment *f, int n_ranks, size_t first,
                           size_t last, char *text, char *command)
{
        const struct fragment_model *m = &f->model;
        const struct capo_plan_row *r = &m->nccl.rows[last];
        uint8_t settle = f->decided[last].settle;
        unsigned algo = settle >> 4, proto = settle & 15;
        double bus = capo_busbw_factor(capo_coll_kind(r->coll), (unsigned)n_ranks) *
                     (double)r->bytes / 1000;
        bool algos = algo != r->algo, protos = proto != r->proto;
        char from[24], to[24];

        capo_size_print(m->nccl.rows[first].bytes, from, sizeof from);
        capo_size_print(r->bytes, to, sizeof to);
        snprintf(text, CAPO_FIT_SETTLE_TEXT,
                 "not settled %s %s%s%s: NCCL picks %s %s, %.1f GB/s of bus bandwidth; %s %s would "
                 "reach %.1f by NCCL's formula, %.1f by its links: up to %.0f %% less time",
                 first == last ? "at" : "from", first == last ? "" : from,
                 first == last ? "" : " to ", to, capo_algo_name(r->algo),
                 capo_proto_name(r->proto),
                 bus / fragment_cost(m->cost[last], CAPO_ALGO_PROTO(r->algo, r->proto)),
                 capo_ran_algo(settle), capo_ran_proto(settle),
                 bus / fragment_cost(m->cost[last], settle),
                 bus / fragment_cost(m->links[last], settle), 100 * f->decided[last].settle_gain);
        snprintf(
                command, CAPO_FIT_SETTLE_TEXT,
                "capo sweep --coll %s --algos %s%s%s --protos %s%s%s --sizes %s..%s --calls %zu -- "
                "COMMAND",
                capo_coll_word(r->coll), capo_algo_word(r->algo), algos ? "," : "",
                algos ? capo_algo_word(algo) : "", capo_proto_word(r->proto), protos ? "," : "",
                protos ? capo_proto_word(proto) : "",
                capo_fit_size_word(m->nccl.rows[first].bytes, from),
                capo_fit_size_word(r->bytes, to), 60 * (last - first + 1));
        return text;
}
