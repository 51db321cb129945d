/* SPDX-License-Identifier: Apache-2.0 */
/* TRIALS of the report: rows of the profile that this job compared with NCCL's own choice, call by
 * call (tuner/trial.h). Reads the logs once more, as capo fit does. */

#include "analysis/log/rules_read.h"
#include "cli/report/report_json.h"
#include "cli/report/report_page.h"
#include "core/base/size.h"
#include "profiles/fit/fit_trial.h"

static const char *const verdicts[] = {[CAPO_TRIAL_OPEN] = "open",
                                       [CAPO_TRIAL_FASTER] = "faster",
                                       [CAPO_TRIAL_NO_GAIN] = "no gain"};

/* The fit of the job's logs, and @set, from which it is; NULL: no trials, or nothing was timed. */
static struct capo_fit *fit_of(const struct capo_page *page, struct capo_samples *set, char *mode,
                               size_t room)
{
        static const struct capo_fit_options options = {.min_gain = 0.01, .force = true};
        const struct capo_job *job = page->job;
        const char *rules = job->n_processes ? job->processes[0].rules : NULL;
        struct capo_fit *fit = NULL;
        struct capo_fault fault;
        char error[512];

        if (!capo_rules_value(rules, CAPO_RULES_TRIAL, mode, room))
                return NULL;
        if (capo_import_job(job, NULL, set, error, sizeof error) < 0 ||
            capo_fit_make(set, &options, &fit, &fault) < 0)
                capo_samples_free(set);
        return fit;
}

/* The row of the profile that made the candidate's calls, by the numbers in the logs. Return:
 * false: none, or more than one. */
static bool find_row(const struct capo_job *job, const struct capo_fit_candidate *c,
                     struct capo_trial_found *f)
{
        struct capo_rules_row row;
        unsigned rule = 0;

        for (uint32_t i = 0; i < job->n_rows; i++) {
                const struct capo_job_row *r = &job->rows[i];

                if (!r->rule || r->rule == rule || r->call != f->call || r->bytes != f->bytes ||
                    !capo_rules_find(job->processes[0].rules, r->rule, &row) ||
                    row.channels != c->channels || row.chunk != c->chunk ||
                    strcmp(row.algo, capo_algo_name(c->algo)) ||
                    strcmp(row.proto, capo_proto_name(c->proto)))
                        continue;
                if (rule)
                        return false;
                rule = r->rule;
        }
        f->row = rule - 1;
        return rule != 0;
}

/* Call @add for each candidate at each size. Return: how many. */
static int for_each_found(const struct capo_fit *fit, const struct capo_samples *set,
                          const struct capo_page *page, void *user,
                          void (*add)(void *user, const char *name,
                                      const struct capo_trial_found *f))
{
        char name[56];
        int n = 0;

        for (int i = 0; i < fit->n_series; i++) {
                const struct capo_fit_series *s = &fit->series[i];

                for (int p = 0; p < s->n_points; p++) {
                        for (int c = 1; c < s->n_candidates; c++) {
                                struct capo_trial_found f;

                                if (!capo_trial_judge(set, s, p, c, &f))
                                        continue;
                                if (find_row(page->job, &s->candidates[c], &f))
                                        capo_trial_steps(page->job, &page->steps, &f, 1);
                                add(user,
                                    capo_fit_candidate_text(&s->candidates[c], name, sizeof name),
                                    &f);
                                n++;
                        }
                }
        }
        return n;
}

static void add_cells(void *section, const char *name, const struct capo_trial_found *f)
{
        struct capo_trial_change change = capo_trial_change(f);
        struct cli_section *s = section;
        char by[160];

        cli_section_cell(s, "%s %s, %d ranks", capo_call_name(f->call), TEXT_SIZE(f->bytes),
                         f->n_ranks);
        cli_section_cell(
                s, "%s: %.1f %% %s than NCCL's choice (%.1f to %.1f, 99 %%; %u of %u calls)%s%s",
                name, change.percent, change.word, change.lo, change.hi, f->n_row,
                f->n_row + f->n_own, f->verdict == CAPO_TRIAL_OPEN ? ": not decided yet" : ", ",
                f->verdict == CAPO_TRIAL_OPEN ? "" : capo_trial_by_text(f, by, sizeof by));
        cli_section_end(s);
}

void report_trials(const struct report_view *view, struct cli_page *page)
{
        static const struct cli_column columns[] = {{NULL, "l"}, {NULL, "l~"}};
        char mode[128];
        struct capo_samples set = {0};
        struct capo_fit *fit = fit_of(view->page, &set, mode, sizeof mode);
        struct cli_section *s;
        uint64_t captured;

        if (!fit)
                return;
        s = cli_page_section(page, "TRIALS", columns, N_ELEMENTS(columns));
        captured = capo_trial_captured(view->page->job);
        if (for_each_found(fit, &set, view->page, s, add_cells))
                cli_section_line(s, "the next capo run with %s uses what was decided",
                                 mode[0] == 'g'   ? "--guard"
                                 : mode[0] == 't' ? "--tune"
                                                  : "--allow-predicted");
        else {
                cli_section_line(
                        s,
                        "nothing to compare: no timed call had a turn yet, no row of the profile holds "
                        "for one, NCCL's own choice is the row, or NCCL does not offer it or predicts "
                        "it to take more than twice the time");
        }
        if (captured)
                cli_section_line(s, "not judged: %s by a row captured into CUDA graphs",
                                 capo_text_plural(captured, "call", NULL));
        capo_fit_free(fit);
        capo_samples_free(&set);
}

struct trial {
        const char *name;
        const struct capo_trial_found *f;
};

#define TRIAL_FIELDS(F)                              \
        F("call", WORD, capo_call_name(of->f->call)) \
        F("bytes", BYTES, of->f->bytes)              \
        F("ranks", COUNT, of->f->n_ranks)            \
        F("choice", TEXT, of->name)                  \
        F("own_us", EXACT, of->f->own_us)            \
        F("choice_us", EXACT, of->f->row_us)         \
        F("gain", EXACT, of->f->gain)                \
        F("gain_low", EXACT, of->f->gain_lo)         \
        F("gain_high", EXACT, of->f->gain_hi)        \
        F("own_calls", COUNT, of->f->n_own)          \
        F("choice_calls", COUNT, of->f->n_row)       \
        F("verdict", WORD, verdicts[of->f->verdict]) \
        F("by", WORD, of->f->by_step ? "step" : "call")
CLI_ENTITY(trial, struct trial, void, TRIAL_FIELDS);

static void add_object(void *list, const char *name, const struct capo_trial_found *f)
{
        struct trial of = {name, f};

        json_array_append_new(list, cli_entity_json(&trial, NULL, &of));
}

json_t *report_json_trials(const struct capo_page *page)
{
        json_t *list = json_array();
        char mode[128];
        struct capo_samples set = {0};
        struct capo_fit *fit = fit_of(page, &set, mode, sizeof mode);

        if (fit)
                for_each_found(fit, &set, page, list, add_object);
        capo_fit_free(fit);
        capo_samples_free(&set);
        return list;
}
