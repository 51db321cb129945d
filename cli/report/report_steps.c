/* SPDX-License-Identifier: Apache-2.0 */
/* STEPS of the report, as text and as JSON. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/job/figures.h"
#include "cli/base/cli_json.h"
#include "cli/report/report_json.h"
#include "cli/report/report_page.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/text.h"
#include "core/base/util.h"

#define STEADY 0.02 /* smaller drift is not reported */

static void add_times(const struct capo_job_steps *j, struct cli_section *s)
{
        const struct capo_steps *k = &j->steps;
        char text[512], a[32], b[32];

        snprintf(text, sizeof text, "%s",
                 j->total ? capo_text_plural(j->total, "step", NULL) : "steps, number not known,");
        capo_append(text, sizeof text, " of %s and %s", capo_text_plural(k->period, "call", NULL),
                    capo_size_print(k->bytes, a, sizeof a));
        if (k->n_plain)
                capo_append(text, sizeof text, ": p50 %s, p95 %s", capo_text_duration(k->p50_ns, a),
                            capo_text_duration(k->p95_ns, b));
        if (j->nccl_share >= 0)
                capo_append(text, sizeof text, "; of their time NCCL on the GPU %s",
                            capo_text_percent(j->nccl_share, a));
        if (j->wait_share >= 0)
                capo_append(text, sizeof text, "%s waiting for late ranks %s",
                            j->nccl_share >= 0 ? "," : "; of their time",
                            capo_text_percent(j->wait_share, b));
        cli_section_cell(s, "%s", text);
        if (k->known == CAPO_STEPS_UNCERTAIN)
                cli_section_cell(s, "uncertain: %s", k->why);
}

static const char *step_text(const struct capo_job_steps *j, uint32_t step, char text[48])
{
        char number[32];

        snprintf(text, 48, "step %s", capo_text_count(capo_job_step_number(j, step), number));
        return text;
}

static void add_change(const struct capo_job_steps *j, struct cli_section *s)
{
        const struct capo_steps *k = &j->steps;
        char step[48], a[32], b[32];

        if (k->changed)
                cli_section_cell(
                        s, "from %s on %.0f %% %s: p50 %s, then %s", step_text(j, k->changed, step),
                        100 * fabs(k->after_ns / k->before_ns - 1),
                        k->after_ns > k->before_ns ? "longer" : "shorter",
                        capo_text_duration(k->before_ns, a), capo_text_duration(k->after_ns, b));
        else if (fabs(k->drift) >= STEADY)
                cli_section_cell(s, "p50 of the last quarter %+.0f %% against the first",
                                 100 * k->drift);
}

static void add_slow(const struct capo_page *r, const struct capo_slow_step *slow,
                     struct cli_section *s)
{
        const struct capo_job_process *p =
                slow->process < r->job->n_processes ? &r->job->processes[slow->process] : NULL;
        char step[48], who[300] = "", a[32], b[32];

        if (p && p->rank >= 0)
                snprintf(who, sizeof who, "; %s of it waiting for rank %d (%.200s)",
                         capo_text_duration(slow->held_ns, a), p->rank, p->host);
        else if (p)
                snprintf(who, sizeof who, "; %s of it waiting for a process of %.200s",
                         capo_text_duration(slow->held_ns, a), p->host);
        else
                snprintf(who, sizeof who, "%s",
                         slow->known ? "; no rank stands out" : "; who was late is not known");
        cli_section_cell(s, "slow: %s at %.1f s, %s%s%s", step_text(&r->steps, slow->number, step),
                         slow->at_s, capo_text_duration((double)slow->ns, b),
                         r->steps.steps.step[slow->number].plain ? "" : ", with other calls", who);
}

void report_steps(const struct report_view *view, struct cli_page *page)
{
        static const struct cli_column columns[] = {{NULL, "l~"}};
        const struct capo_page *r = view->page;
        const struct capo_job_steps *j = &r->steps;
        struct cli_section *s = cli_page_section(page, "STEPS", columns, N_ELEMENTS(columns));
        uint32_t shown = r->all ? j->n_slow : j->n_slow < 2 ? j->n_slow : 2;
        char a[32];

        s->how = "The pattern of calls that repeats on a rank, found without the framework. Times "
                 "are by the host, from the first call of a step to that of the next one. Who held "
                 "a slow step up is by GPU durations, else by the host's starts on one host.";
        if (!r->collectives)
                return;
        if (j->steps.known == CAPO_STEPS_NONE) {
                cli_section_cell(s, "not known: %s", j->steps.why);
                return;
        }
        add_times(j, s);
        add_change(j, s);
        for (uint32_t i = 0; i < shown; i++)
                add_slow(r, &j->slow[i], s);
        if (!j->whole && j->total > j->steps.n)
                cli_section_note(page, s,
                                 "times of the last %s steps: the logs keep no earlier calls "
                                 "(capo run --trace all)",
                                 capo_text_count(j->steps.n, a));
}

/* ---- JSON ---- */

static json_t *number_if(bool known, double number)
{
        return known ? cli_json_number(number) : json_null();
}

static json_t *part_json(const struct capo_step_part *p)
{
        return json_pack("{s:o, s:s, s:I, s:i, s:b}", "comm",
                         p->comm == CAPO_NO_COMM ? json_null() : json_integer(p->comm), "call",
                         capo_call_name(p->call), "bytes", (json_int_t)p->bytes, "count",
                         (int)p->count, "varies", p->varies);
}

static json_t *slow_json(const struct capo_page *r, const struct capo_slow_step *slow)
{
        bool named = slow->process < r->job->n_processes;

        return json_pack("{s:I, s:o, s:o, s:o, s:o, s:i}", "step",
                         (json_int_t)capo_job_step_number(&r->steps, slow->number), "at_s",
                         cli_json_number(slow->at_s), "seconds",
                         cli_json_number((double)slow->ns / 1e9), "late_rank",
                         named ? json_integer(r->job->processes[slow->process].rank) : json_null(),
                         "waited_s", number_if(named, slow->held_ns / 1e9), "calls_compared",
                         (int)slow->calls);
}

json_t *report_json_steps(const struct capo_page *r)
{
        static const char *const known[] = {"none", "uncertain", "found"};
        const struct capo_job_steps *s = &r->steps;
        const struct capo_steps *k = &s->steps;
        json_t *j = json_object(), *parts = json_array(), *slow = json_array();
        bool found = k->known != CAPO_STEPS_NONE;

        json_object_set_new(j, "known", json_string(known[k->known]));
        json_object_set_new(j, "why", *k->why ? json_string(k->why) : json_null());
        json_object_set_new(j, "total",
                            s->total ? json_integer((json_int_t)s->total) : json_null());
        json_object_set_new(j, "seen", json_integer(k->n));
        json_object_set_new(j, "whole", json_boolean(s->whole));
        json_object_set_new(j, "calls", found ? json_integer(k->period) : json_null());
        json_object_set_new(j, "bytes", found ? json_integer((json_int_t)k->bytes) : json_null());
        json_object_set_new(j, "p50_s", number_if(k->n_plain, k->p50_ns / 1e9));
        json_object_set_new(j, "p95_s", number_if(k->n_plain, k->p95_ns / 1e9));
        json_object_set_new(j, "mean_s", number_if(k->n_plain, k->mean_ns / 1e9));
        json_object_set_new(j, "drift", number_if(k->n_plain, k->drift));
        json_object_set_new(j, "changed_at",
                            k->changed
                                    ? json_integer((json_int_t)capo_job_step_number(s, k->changed))
                                    : json_null());
        json_object_set_new(j, "before_s", number_if(k->changed, k->before_ns / 1e9));
        json_object_set_new(j, "after_s", number_if(k->changed, k->after_ns / 1e9));
        json_object_set_new(j, "nccl_share", number_if(s->nccl_share >= 0, s->nccl_share));
        json_object_set_new(j, "wait_share", number_if(s->wait_share >= 0, s->wait_share));
        for (uint32_t i = 0; i < k->n_parts; i++)
                json_array_append_new(parts, part_json(&k->part[i]));
        for (uint32_t i = 0; i < s->n_slow; i++)
                json_array_append_new(slow, slow_json(r, &s->slow[i]));
        json_object_set_new(j, "parts", parts);
        json_object_set_new(j, "slow", slow);
        return j;
}
