/* SPDX-License-Identifier: Apache-2.0 */
/* The page of capo fit as JSON. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "cli/fit/fit_page.h"
#include "core/base/calls.h"
#include "core/base/nccl_release.h"

static json_t *real_or_null(double v)
{
        return isnan(v) ? json_null() : json_real(v);
}

static json_t *known_or_null(double v)
{
        return v > 0 ? json_real(v) : json_null();
}

static json_t *pack_beside(const struct capo_fit *fit)
{
        json_t *list = json_array();

        for (size_t i = 0; i < fit->n_beside; i++) {
                const struct capo_fit_beside *b = &fit->beside[i];

                json_array_append_new(
                        list, json_pack("{s:s, s:i, s:s, s:s, s:s, s:I, s:I, s:f, s:I}",
                                        "collective", capo_call_name(b->call), "ranks",
                                        b->like.n_ranks, "clock", capo_make_name(b->make), "algo",
                                        capo_ran_algo(b->ran), "proto", capo_ran_proto(b->ran),
                                        "from", (json_int_t)b->from, "upto", (json_int_t)b->upto,
                                        "us", b->us, "samples", (json_int_t)b->n_samples));
        }
        return list;
}

/* What to measure, how often, and the expected gain (as a fraction), best first. */
static json_t *pack_next(const struct capo_fit_series *s)
{
        static const char *const what[] = {[CAPO_FIT_NEXT_DEFAULT] = "own choice",
                                           [CAPO_FIT_NEXT_DEFAULT_AGAIN] = "own choice again",
                                           [CAPO_FIT_NEXT_OTHERS] = "other choices",
                                           [CAPO_FIT_NEXT_CANDIDATE] = "candidate again"};
        json_t *list = json_array();

        for (int i = 0; i < CAPO_FIT_NEXTS && s->next[i].what != CAPO_FIT_NEXT_NOTHING; i++) {
                const struct capo_fit_next *n = &s->next[i];
                char name[56];

                json_array_append_new(
                        list, json_pack("{s:s, s:s, s:I, s:I, s:i, s:o}", "what", what[n->what],
                                        "candidate",
                                        capo_fit_candidate_text(&s->candidates[n->candidate], name,
                                                                sizeof name),
                                        "from", (json_int_t)s->points[n->first].bytes, "upto",
                                        (json_int_t)s->points[n->last].bytes, "runs", n->times,
                                        "expected_gain", real_or_null(n->gain)));
        }
        return list;
}

json_t *fit_json(const struct capo_samples *set, const struct capo_fit *fit,
                 const struct capo_profile *profile)
{
        json_t *list = json_array(), *page;

        for (int i = 0; i < fit->n_series; i++) {
                const struct capo_fit_series *s = &fit->series[i];
                json_t *points = json_array();
                char nccl[16], name[56];

                for (int p = 0; p < s->n_points; p++) {
                        const struct capo_fit_point *q = &s->points[p];
                        json_t *times = json_array();

                        for (int c = 0; c < s->n_candidates; c++) {
                                const struct capo_fit_cell *cell = capo_fit_cell_of(s, p, c);

                                if (!isnan(cell->us))
                                        json_array_append_new(
                                                times,
                                                json_pack("{s:s, s:f, s:f, s:f, s:i, s:i, s:b}",
                                                          "candidate",
                                                          capo_fit_candidate_text(&s->candidates[c],
                                                                                  name,
                                                                                  sizeof name),
                                                          "us", cell->us, "lo", cell->lo, "hi",
                                                          cell->hi, "samples", (int)cell->n_samples,
                                                          "runs", (int)cell->n_runs, "same_as_nccl",
                                                          cell->is_default));
                        }
                        json_array_append_new(
                                points,
                                json_pack(
                                        "{s:I, s:s, s:s, s:o, s:o, s:o, s:s, s:s, s:o}", "bytes",
                                        (json_int_t)q->bytes, "chosen",
                                        q->chosen > 0
                                                ? capo_fit_candidate_text(&s->candidates[q->chosen],
                                                                          name, sizeof name)
                                                : "leave",
                                        "nccl_ran",
                                        q->default_ran ? capo_ran_algo(q->default_ran) : "", "gain",
                                        real_or_null(q->gain), "gain_lo", real_or_null(q->gain_lo),
                                        "gain_hi", real_or_null(q->gain_hi), "written",
                                        capo_fit_verdict_text(q->verdict), "reason",
                                        capo_fit_verdict_word(q->verdict), "times", times));
                }
                json_array_append_new(
                        list,
                        json_pack(
                                "{s:s, s:i, s:i, s:s, s:s, s:s, s:s, s:f, s:o, s:o, s:{s:s, s:i, s:o, s:o, s:o, s:i, s:i}, s:o}",
                                "collective", capo_call_name(s->call), "ranks", s->like.n_ranks,
                                "nodes", s->like.n_nodes, "layout", s->like.layout, "gpu",
                                s->like.gpu, "nccl",
                                s->like.nccl ? capo_nccl_text(s->like.nccl, nccl, sizeof nccl) : "",
                                "clock", capo_make_name(s->make), "noise", s->noise,
                                "gpu_links_gbs", known_or_null(s->links.gpu_gbs), "node_links_gbs",
                                known_or_null(s->links.node_gbs), "regret", "left_out",
                                s->regret.by_run ? "run" : "size", "decisions", (int)s->regret.n,
                                "mean", real_or_null(s->regret.mean), "worst",
                                s->regret.n ? json_real(s->regret.worst) : json_null(),
                                "mean_of_nccl", real_or_null(s->regret.mean_default),
                                "worse_than_nccl", (int)s->regret.n_worse, "not_scored",
                                (int)s->regret.n_unscored, "points", points));
        }
        for (int i = 0; i < fit->n_series; i++) {
                enum capo_fit_turns turns = fit->series[i].turns;

                json_object_set_new(json_array_get(list, (size_t)i), "measure_next",
                                    pack_next(&fit->series[i]));
                json_object_set_new(json_array_get(list, (size_t)i), "measured_in_turn",
                                    turns == CAPO_FIT_TURNS_UNKNOWN
                                            ? json_null()
                                            : json_boolean(turns == CAPO_FIT_IN_TURN));
        }
        page = json_pack("{s:I, s:I, s:I, s:i, s:i, s:o}", "samples", (json_int_t)fit->n_samples,
                         "warmup", (json_int_t)fit->n_warmup, "stalls", (json_int_t)fit->n_stalls,
                         "rejected_runs", (int)set->n_rejected, "rules", (int)profile->n_rules,
                         "series", list);
        if (page && fit->n_beside)
                json_object_set_new(page, "beside_the_table", pack_beside(fit));
        return page;
}
