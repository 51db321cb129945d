/* SPDX-License-Identifier: Apache-2.0 */
/* STEPS of the report, as text and as JSON. */

#include "cli/report/report_json.h"
#include "cli/report/report_page.h"

#define STEADY 0.02 /* smaller drift is not reported */

/* What times of calls and of steps differ by, of a step, of the share, and of the standard error of
 * the mean step (docs/causes.md). */
#define STEP_ERROR 0.01
#define TIME_ERROR 0.06
#define MEAN_ERROR 0.5

static void add_times(const struct capo_page *r, struct cli_section *s)
{
        const struct capo_job_steps *j = &r->steps;
        const struct capo_steps *k = &j->steps;
        /* a long wait in calls that were not timed is in the job's share only */
        bool on_gpu =
                j->nccl_share >= 0 && (r->gpu_share < 0 || j->nccl_share >= r->gpu_range.low / 2);
        char text[512];

        snprintf(text, sizeof text, "%s",
                 j->total ? capo_text_plural(j->total, "step", NULL) : "steps, number not known,");
        capo_append(text, sizeof text, " of %s and %s", capo_text_plural(k->period, "call", NULL),
                    TEXT_SIZE(k->bytes));
        if (k->n_plain)
                capo_append(text, sizeof text, ": p50 %s, p95 %s", TEXT_DURATION(k->p50_ns),
                            TEXT_DURATION(k->p95_ns));
        if (k->n_plain && k->n_plain < k->n)
                capo_append(text, sizeof text, " without %s with other calls",
                            capo_text_plural(k->n - k->n_plain, "step", NULL));
        if (on_gpu)
                capo_append(text, sizeof text, "; of their time NCCL on the GPU %s",
                            TEXT_PERCENT(j->nccl_share));
        if (j->wait_share >= 0)
                capo_append(text, sizeof text, "%s waiting for late ranks %s",
                            on_gpu ? "," : "; of their time", TEXT_PERCENT(j->wait_share));
        cli_section_cell(s, "%s", text);
        if (k->known == CAPO_STEPS_UNCERTAIN)
                cli_section_cell(s, "uncertain: %s", k->why);
}

static const char *step_text(const struct capo_job_steps *j, uint32_t step, char text[48])
{
        snprintf(text, 48, "step %s", TEXT_COUNT(capo_job_step_number(j, step)));
        return text;
}

static void add_change(const struct capo_job_steps *j, struct cli_section *s)
{
        const struct capo_steps *k = &j->steps;
        char step[48];

        if (k->changed)
                cli_section_cell(s, "from %s on %.0f %% %s: p50 %s, then %s",
                                 step_text(j, k->changed, step),
                                 100 * fabs(k->after_ns / k->before_ns - 1),
                                 k->after_ns > k->before_ns ? "longer" : "shorter",
                                 TEXT_DURATION(k->before_ns), TEXT_DURATION(k->after_ns));
        else if (fabs(k->drift) >= STEADY)
                cli_section_cell(s, "p50 of the last quarter %+.0f %% against the first",
                                 100 * k->drift);
}

/* Who held the step up; NULL: no rank stands out. */
static const struct capo_job_process *late_process(const struct capo_page *r,
                                                   const struct capo_slow_step *slow)
{
        return slow->process < r->job->n_processes ? &r->job->processes[slow->process] : NULL;
}

static void add_slow(const struct capo_page *r, const struct capo_slow_step *slow,
                     struct cli_section *s)
{
        const struct capo_job_process *p = late_process(r, slow);
        char step[48], who[300] = "";

        if (p && p->rank >= 0)
                snprintf(who, sizeof who, "; %s of it waiting for rank %d (%.200s)",
                         TEXT_DURATION(slow->held_ns), p->rank, p->host);
        else if (p)
                snprintf(who, sizeof who, "; %s of it waiting for a process of %.200s",
                         TEXT_DURATION(slow->held_ns), p->host);
        else
                snprintf(who, sizeof who, "%s",
                         slow->known ? "; no rank explains it" : "; who was late is not known");
        cli_section_cell(s, "slow: %s began at %.1f s and took %s%s%s",
                         step_text(&r->steps, slow->number, step), slow->at_s,
                         TEXT_DURATION((double)slow->ns),
                         r->steps.steps.step[slow->number].plain ? "" : ", with other calls", who);
}

/* A step without the delay of the rank that cost most, replayed from the calls compared: each of
 * those in which it was last begins when the last but one came. */
struct what_if {
        int32_t rank; /* -1: none is named, or no steps are known */
        double before_ns, after_ns, share;
        struct capo_interval is; /* 95 % interval of the share */
};

static struct what_if judge_what_if(const struct capo_page *r)
{
        const struct capo_job_steps *j = &r->steps;
        struct what_if w = {.rank = -1};
        double error;

        if (j->steps.known == CAPO_STEPS_NONE || !j->steps.n_plain || !j->total)
                return w;
        w.before_ns = j->whole ? j->steps.mean_ns
                               : (double)capo_job_duration_ns(r->job) / (double)j->total;
        for (uint32_t i = 0; i < r->n_waits && w.rank < 0; i++) {
                const struct capo_page_wait *wait = &r->waits[i];
                const struct capo_job_comm *c = &r->job->comms[wait->comm];
                const struct capo_skew_rank *k = &c->skew->ranks[wait->last];
                double per = k->spared / ((double)j->total * w.before_ns);

                if (!capo_wait_counts(wait) || !(per * k->caused_ns < 1))
                        continue;
                w.rank = r->job->processes[c->members[wait->last].process].rank;
                w.share = per * k->caused_ns;
                error = STEP_ERROR + TIME_ERROR * w.share +
                        MEAN_ERROR * j->steps.mean_error_ns / w.before_ns;
                w.is.low = fmax(0, per * wait->caused.low - error);
                w.is.high = fmin(1, per * wait->caused.high + error);
                w.after_ns = w.before_ns * (1 - w.share);
        }
        return w;
}

void report_steps(const struct capo_page *r, struct cli_page *page)
{
        static const struct cli_column columns[] = {{NULL, "l~"}};
        const struct capo_job_steps *j = &r->steps;
        struct cli_section *s = cli_page_section(page, "STEPS", columns, N_ELEMENTS(columns));
        const struct what_if w = judge_what_if(r);
        uint32_t shown = r->all ? j->n_slow : j->n_slow < 2 ? j->n_slow : 2;

        s->how = "The pattern of calls that repeats on a rank, found without the framework. Times "
                 "are by the host, from the first call of a step to that of the next one. Who held "
                 "a slow step up is by GPU durations, else by the host's starts on one host.";
        if (!r->collectives)
                return;
        if (j->steps.known == CAPO_STEPS_NONE) {
                cli_section_cell(s, "not known: %s", j->steps.why);
                return;
        }
        add_times(r, s);
        add_change(j, s);
        if (w.rank >= 0)
                cli_section_cell(s,
                                 "without the delay of rank %d a step takes %s instead of %s, mean "
                                 "(%.0f %%, %.0f-%.0f)",
                                 w.rank, TEXT_DURATION(w.after_ns), TEXT_DURATION(w.before_ns),
                                 100 * w.share, floor(100 * w.is.low), ceil(100 * w.is.high));
        for (uint32_t i = 0; i < shown; i++)
                add_slow(r, &j->slow[i], s);
        if (!j->whole && j->total > j->steps.n)
                cli_section_note(page, s,
                                 "times of the last %s steps: the logs keep no earlier calls "
                                 "(capo run --trace all)",
                                 TEXT_COUNT(j->steps.n));
}

/* ---- JSON ---- */

#define PART_FIELDS(F)                                \
        F("comm", RANK, report_comm_number(of->comm)) \
        F("call", WORD, capo_call_name(of->call))     \
        F("bytes", BYTES, of->bytes)                  \
        F("count", COUNT, of->count)                  \
        F("varies", FLAG, of->varies)
CLI_ENTITY(step_part, struct capo_step_part, void, PART_FIELDS);

#define SLOW_FIELDS(F)                                                               \
        F("step", RANK, capo_job_step_number(&in->steps, of->number))                \
        F("at_s", REAL, of->at_s)                                                    \
        F("seconds", REAL, (double)of->ns / 1e9)                                     \
        F("late_rank", RANK, late_process(in, of) ? late_process(in, of)->rank : -1) \
        F("waited_s", DURATION, late_process(in, of) ? of->held_ns : -1)             \
        F("calls_compared", COUNT, of->calls)
CLI_ENTITY(slow_step, struct capo_slow_step, struct capo_page, SLOW_FIELDS);

#define WHAT_IF_FIELDS(F)                    \
        F("rank", RANK, of->rank)            \
        F("step_s", DURATION, of->before_ns) \
        F("then_s", DURATION, of->after_ns)  \
        F("share", SHARE, of->share)         \
        F("share_low", SHARE, of->is.low)    \
        F("share_high", SHARE, of->is.high)
CLI_ENTITY(what_if, struct what_if, void, WHAT_IF_FIELDS);

static json_t *what_if_json(const struct capo_page *r)
{
        struct what_if w = judge_what_if(r);

        return w.rank < 0 ? json_null() : cli_entity_json(&what_if, NULL, &w);
}

static const char *const known_words[] = {"none", "uncertain", "found"};

#define FOUND(value)   (of->steps.known != CAPO_STEPS_NONE ? (int64_t)(value) : -1)
#define TIMED(value)   (of->steps.n_plain ? (value) : NAN)
#define CHANGED(value) (of->steps.changed ? (value) : -1)

#define STEPS_FIELDS(F)                                                                      \
        F("known", WORD, known_words[of->steps.known])                                       \
        F("why", TEXT, *of->steps.why ? of->steps.why : NULL)                                \
        F("total", COUNT, of->total ? (int64_t)of->total : -1)                               \
        F("seen", COUNT, of->steps.n)                                                        \
        F("whole", FLAG, of->whole)                                                          \
        F("calls", COUNT, FOUND(of->steps.period))                                           \
        F("bytes", BYTES, FOUND(of->steps.bytes))                                            \
        F("p50_s", DURATION, TIMED(of->steps.p50_ns))                                        \
        F("p95_s", DURATION, TIMED(of->steps.p95_ns))                                        \
        F("mean_s", DURATION, TIMED(of->steps.mean_ns))                                      \
        F("drift", REAL, TIMED(of->steps.drift))                                             \
        F("changed_at", RANK, CHANGED((int64_t)capo_job_step_number(of, of->steps.changed))) \
        F("before_s", DURATION, CHANGED(of->steps.before_ns))                                \
        F("after_s", DURATION, CHANGED(of->steps.after_ns))                                  \
        F("nccl_share", SHARE, of->nccl_share)                                               \
        F("wait_share", SHARE, of->wait_share)                                               \
        F("parts", JSON, CLI_ENTITIES(step_part, NULL, of->steps.part, of->steps.n_parts))   \
        F("without_late_rank", JSON, what_if_json(in))                                       \
        F("slow", JSON, CLI_ENTITIES(slow_step, in, of->slow, of->n_slow))
CLI_ENTITY_SHARED(report_step_times, struct capo_job_steps, struct capo_page, STEPS_FIELDS);
