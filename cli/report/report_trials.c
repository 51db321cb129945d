/* SPDX-License-Identifier: Apache-2.0 */
/* TRIALS of the report: rows of the profile that this job compared with NCCL's own choice, call by
 * call (tuner/trial.h). Reads the logs once more, as capo fit does. */

#include "analysis/log/rules_read.h"
#include "cli/report/report_json.h"
#include "cli/report/report_page.h"
#include "core/base/xalloc.h"
#include "profiles/fit/fit_trial.h"

static const char *const verdicts[] = {[CAPO_TRIAL_OPEN] = "open",
                                       [CAPO_TRIAL_FASTER] = "faster",
                                       [CAPO_TRIAL_NO_GAIN] = "no gain"};

/* A candidate at a size. */
struct trial {
        struct capo_trial_found f;
        char name[56];
};

struct trials {
        struct trial *v;
        size_t n;
        char mode[128]; /* "": the job made none, or nothing was timed */
};

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

static void find_at(const struct capo_page *page, const struct capo_samples *set,
                    const struct capo_fit_series *s, int point, struct trials *to)
{
        for (int c = 1; c < s->n_candidates; c++) {
                const struct capo_fit_candidate *candidate = &s->candidates[c];
                struct trial *t;

                xarray_room(&to->v, to->n, sizeof *to->v);
                t = &to->v[to->n];
                if (!capo_trial_judge(set, s, point, c, &t->f))
                        continue;
                if (find_row(page->job, candidate, &t->f))
                        capo_trial_steps(page->job, &page->steps, &t->f, 1);
                capo_fit_candidate_text(candidate, t->name, sizeof t->name);
                to->n++;
        }
}

static struct trials find_trials(const struct capo_page *page)
{
        static const struct capo_fit_options options = {.min_gain = 0.01, .force = true};
        const struct capo_job *job = page->job;
        const char *rules = job->n_processes ? job->processes[0].rules : NULL;
        struct trials found = {.n = 0};
        struct capo_samples set = {0};
        struct capo_fit *fit = NULL;
        struct capo_fault fault;
        char error[512];

        if (!capo_rules_value(rules, CAPO_RULES_TRIAL, found.mode, sizeof found.mode))
                return found;
        if (capo_import_job(job, NULL, &set, error, sizeof error) < 0 ||
            capo_fit_make(&set, &options, &fit, &fault) < 0)
                *found.mode = 0;
        for (int i = 0; fit && i < fit->n_series; i++) {
                for (int p = 0; p < fit->series[i].n_points; p++)
                        find_at(page, &set, &fit->series[i], p, &found);
        }
        capo_fit_free(fit);
        capo_samples_free(&set);
        return found;
}

static const char *what_text(const struct capo_trial_found *f, char *room)
{
        snprintf(room, CLI_ROOM, "%s %s, %d ranks", capo_call_name(f->call), TEXT_SIZE(f->bytes),
                 f->n_ranks);
        return room;
}

static const char *result_text(const struct trial *t, char *room)
{
        const struct capo_trial_found *f = &t->f;
        struct capo_trial_change change = capo_trial_change(f);
        bool open = f->verdict == CAPO_TRIAL_OPEN;
        char by[160];

        snprintf(room, CLI_ROOM,
                 "%s: %.1f %% %s than NCCL's choice (%.1f to %.1f, 99 %%; %u of %u calls)%s%s",
                 t->name, change.percent, change.word, change.lo, change.hi, f->n_row,
                 f->n_row + f->n_own, open ? ": not decided yet" : ", ",
                 open ? "" : capo_trial_by_text(f, by, sizeof by));
        return room;
}

#define TRIAL_FIELDS(F)                                   \
        F("call", WORD, capo_call_name(of->f.call))       \
        F("bytes", BYTES, of->f.bytes)                    \
        F(NULL, TEXT, what_text(&of->f, room), NULL, "l") \
        F("ranks", COUNT, of->f.n_ranks)                  \
        F("choice", TEXT, of->name)                       \
        F(NULL, TEXT, result_text(of, room), NULL, "l~")  \
        F("own_us", EXACT, of->f.own_us)                  \
        F("choice_us", EXACT, of->f.row_us)               \
        F("gain", EXACT, of->f.gain)                      \
        F("gain_low", EXACT, of->f.gain_lo)               \
        F("gain_high", EXACT, of->f.gain_hi)              \
        F("own_calls", COUNT, of->f.n_own)                \
        F("choice_calls", COUNT, of->f.n_row)             \
        F("verdict", WORD, verdicts[of->f.verdict])       \
        F("by", WORD, of->f.by_step ? "step" : "call")
CLI_ENTITY(trial, struct trial, void, TRIAL_FIELDS);

json_t *report_json_trials(const struct capo_page *page)
{
        struct trials found = find_trials(page);

        return CLI_ENTITIES(trial, NULL, found.v, found.n);
}

void report_trials(const struct capo_page *r, struct cli_page *page)
{
        struct trials found = find_trials(r);
        struct cli_section *s = cli_page_entity(page, "TRIALS", &trial);
        uint64_t captured = *found.mode ? capo_trial_captured(r->job) : 0;

        for (size_t i = 0; i < found.n; i++)
                cli_section_entity(s, NULL, &found.v[i]);
        if (found.n)
                cli_section_line(s, "the next capo run with %s uses what was decided",
                                 *found.mode == 'g'   ? "--guard"
                                 : *found.mode == 't' ? "--tune"
                                                      : "--allow-predicted");
        else if (*found.mode)
                cli_section_line(
                        s,
                        "nothing to compare: no timed call had a turn yet, no row of the profile holds "
                        "for one, NCCL's own choice is the row, or NCCL does not offer it or predicts "
                        "it to take more than twice the time");
        if (captured)
                cli_section_line(s, "not judged: %s by a row captured into CUDA graphs",
                                 capo_text_plural(captured, "call", NULL));
}
