/* SPDX-License-Identifier: Apache-2.0 */
/* The page of capo fit as JSON. */

#include "cli/base/cli_fields.h"
#include "cli/fit/fit_page.h"
#include "core/base/calls.h"
#include "core/base/nccl_release.h"

/* A candidate at a point. */
struct timing {
        const struct capo_fit_candidate *candidate;
        const struct capo_fit_cell *cell;
};

#define TIMING_FIELDS(F)                                                             \
        F("candidate", TEXT, capo_fit_candidate_text(of->candidate, room, CLI_ROOM)) \
        F("us", EXACT, of->cell->us)                                                 \
        F("lo", EXACT, of->cell->lo)                                                 \
        F("hi", EXACT, of->cell->hi)                                                 \
        F("samples", COUNT, of->cell->n_samples)                                     \
        F("runs", COUNT, of->cell->n_runs)                                           \
        F("same_as_nccl", FLAG, of->cell->is_default)
CLI_ENTITY(timing, struct timing, void, TIMING_FIELDS);

static json_t *times_json(const struct capo_fit_series *s, int point)
{
        json_t *times = json_array();

        for (int c = 0; c < s->n_candidates; c++) {
                struct timing of = {&s->candidates[c], capo_fit_cell_of(s, point, c)};

                if (!isnan(of.cell->us))
                        json_array_append_new(times, cli_entity_json(&timing, NULL, &of));
        }
        return times;
}

/* Points are items of in->points. */
#define POINT_FIELDS(F)                                                                         \
        F("bytes", BYTES, of->bytes)                                                            \
        F("chosen", TEXT,                                                                       \
          of->chosen > 0 ? capo_fit_candidate_text(&in->candidates[of->chosen], room, CLI_ROOM) \
                         : "leave")                                                             \
        F("nccl_ran", TEXT, of->default_ran ? capo_ran_algo(of->default_ran) : "")              \
        F("gain", EXACT, of->gain)                                                              \
        F("gain_lo", EXACT, of->gain_lo)                                                        \
        F("gain_hi", EXACT, of->gain_hi)                                                        \
        F("written", TEXT, capo_fit_verdict_text(of->verdict))                                  \
        F("reason", TEXT, capo_fit_verdict_word(of->verdict))                                   \
        F("times", JSON, times_json(in, (int)(of - in->points)))
CLI_ENTITY(point, struct capo_fit_point, struct capo_fit_series, POINT_FIELDS);

#define REGRET_FIELDS(F)                                 \
        F("left_out", WORD, of->by_run ? "run" : "size") \
        F("decisions", COUNT, of->n)                     \
        F("mean", EXACT, of->mean)                       \
        F("worst", EXACT, of->n ? of->worst : NAN)       \
        F("mean_of_nccl", EXACT, of->mean_default)       \
        F("worse_than_nccl", COUNT, of->n_worse)         \
        F("not_scored", COUNT, of->n_unscored)
CLI_ENTITY(regret, __typeof__(((struct capo_fit_series *)0)->regret), void, REGRET_FIELDS);

static const char *const next_words[] = {[CAPO_FIT_NEXT_DEFAULT] = "own choice",
                                         [CAPO_FIT_NEXT_DEFAULT_AGAIN] = "own choice again",
                                         [CAPO_FIT_NEXT_OTHERS] = "other choices",
                                         [CAPO_FIT_NEXT_CANDIDATE] = "candidate again"};

/* What to measure, how often, and the expected gain (as a fraction), best first. */
#define NEXT_FIELDS(F)                                                             \
        F("what", WORD, next_words[of->what])                                      \
        F("candidate", TEXT,                                                       \
          capo_fit_candidate_text(&in->candidates[of->candidate], room, CLI_ROOM)) \
        F("from", BYTES, in->points[of->first].bytes)                              \
        F("upto", BYTES, in->points[of->last].bytes)                               \
        F("runs", COUNT, of->times)                                                \
        F("expected_gain", EXACT, of->gain)
CLI_ENTITY(next_run, struct capo_fit_next, struct capo_fit_series, NEXT_FIELDS);

static size_t count_next(const struct capo_fit_series *s)
{
        size_t n = 0;

        while (n < CAPO_FIT_NEXTS && s->next[n].what != CAPO_FIT_NEXT_NOTHING)
                n++;
        return n;
}

#define SERIES_FIELDS(F)                                                                    \
        F("collective", WORD, capo_call_name(of->call))                                     \
        F("ranks", COUNT, of->like.n_ranks)                                                 \
        F("nodes", COUNT, of->like.n_nodes)                                                 \
        F("layout", TEXT, of->like.layout)                                                  \
        F("gpu", TEXT, of->like.gpu)                                                        \
        F("nccl", TEXT, of->like.nccl ? capo_nccl_text(of->like.nccl, room, CLI_ROOM) : "") \
        F("clock", TEXT, capo_make_name(of->make))                                          \
        F("noise", EXACT, of->noise)                                                        \
        F("gpu_links_gbs", EXACT, of->links.gpu_gbs > 0 ? of->links.gpu_gbs : NAN)          \
        F("node_links_gbs", EXACT, of->links.node_gbs > 0 ? of->links.node_gbs : NAN)       \
        F("regret", JSON, cli_entity_json(&regret, NULL, &of->regret))                      \
        F("points", JSON, CLI_ENTITIES(point, of, of->points, (size_t)of->n_points))        \
        F("measure_next", JSON, CLI_ENTITIES(next_run, of, of->next, count_next(of)))       \
        F("measured_in_turn", FLAG,                                                         \
          of->turns == CAPO_FIT_TURNS_UNKNOWN ? -1 : of->turns == CAPO_FIT_IN_TURN)
CLI_ENTITY(series, struct capo_fit_series, void, SERIES_FIELDS);

struct made {
        const struct capo_samples *set;
        const struct capo_profile *profile;
};

#define PAGE_FIELDS(F)                                                                  \
        F("samples", COUNT, of->n_samples)                                              \
        F("warmup", COUNT, of->n_warmup)                                                \
        F("stalls", COUNT, of->n_stalls)                                                \
        F("rejected_runs", COUNT, in->set->n_rejected)                                  \
        F("rules", COUNT, in->profile->n_rules)                                         \
        F("series", JSON, CLI_ENTITIES(series, NULL, of->series, (size_t)of->n_series)) \
        F("samples_beside_the_table", JSON,                                             \
          of->n_beside ? json_integer((json_int_t)of->n_beside) : NULL)
CLI_ENTITY(made, struct capo_fit, struct made, PAGE_FIELDS);

json_t *fit_json(const struct capo_samples *set, const struct capo_fit *fit,
                 const struct capo_profile *profile)
{
        return cli_entity_json(&made, &(struct made){set, profile}, fit);
}
