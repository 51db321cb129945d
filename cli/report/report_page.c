/* SPDX-License-Identifier: Apache-2.0 */
/* The page: the answer first, every number with its unit, caveats at the end. */

#include "analysis/log/rules_read.h"
#include "analysis/report/job_judge.h"
#include "analysis/report/stalls.h"
#include "capo/collectives.h"
#include "cli/report/report_causes.h"
#include "cli/report/report_experts.h"
#include "cli/report/report_json.h"
#include "cli/report/report_page.h"
#include "core/base/among.h"
#include "core/log/info.h"

/* ALLOCATION: what an uneven or reduced one can reach, what the job reached, what as many GPUs in
 * another layout could reach, and what to try. */

/* The row of the largest communicator's AllReduce with the most time. NULL: none has a bandwidth.
 */
static const struct capo_page_row *find_costly(const struct capo_page *r)
{
        const struct capo_page_row *most = NULL;

        for (uint32_t i = 0; i < r->judged.n; i++) {
                const struct capo_page_row *row = &r->judged.row[i];

                if (row->row.comm == 0 && row->has_bandwidth && row->busbw > 0 &&
                    capo_coll_of_call(row->row.call) == CAPO_COLL_ALLREDUCE &&
                    (!most || row->total_ns > most->total_ns))
                        most = row;
        }
        return most;
}

/* Cost of NCCL's choice: the share of these calls' time that the links could save, here and in the
 * other layouts. */
static void add_cost(const struct capo_page *r, struct cli_section *s,
                     const struct capo_page_row *row)
{
        const struct capo_page_allocation *a = &r->allocation;
        char share[48] = "", other[96] = "";

        if (!(row->busbw < a->best)) /* as good, or the best is not known */
                return;
        if (row->share > 0)
                snprintf(share, sizeof share, " (%.0f %% of the time in NCCL)", 100 * row->share);
        if (a->n_others)
                snprintf(other, sizeof other, ", with %s up to %.0f %%",
                         a->others[a->n_others - 1].layout,
                         100 * (1 - row->busbw / a->others[a->n_others - 1].best));
        cli_section_line(s,
                         "cost: the links could save up to %.0f %% of the time of these calls%s%s",
                         100 * (1 - row->busbw / a->best), share, other);
}

/* ALLOCATION, for uneven or reduced ones. */
static void report_allocation(const struct capo_page *r, struct cli_page *page)
{
        static const struct cli_column columns[] = {{"", "l"},
                                                    {"GPUs", "l"},
                                                    {"best possible", "r"},
                                                    {"reached", "r"},
                                                    {"NCCL ran", "l"}};
        const struct capo_page_allocation *a = &r->allocation;
        const struct capo_page_row *row;
        char best[32] = "-", reached[160] = "";
        struct cli_section *s;

        if (!*a->layout || !(a->uneven || a->reduced))
                return;
        s = cli_page_section(page, "ALLOCATION", columns, N_ELEMENTS(columns));
        cli_section_of(s, "%s: %s%s%s; AllReduce, bus GB/s", a->class, a->uneven ? "uneven" : "",
                       a->uneven && a->reduced ? ", " : "",
                       a->reduced ? "part of the machine" : "");
        row = find_costly(r);
        if (row)
                snprintf(reached, sizeof reached, "%s\t%s %s at %s", TEXT_GBS(row->busbw),
                         capo_ran_algo(row->row.algo_proto), capo_ran_proto(row->row.algo_proto),
                         TEXT_SIZE(row->row.bytes));
        if (a->best > 0)
                snprintf(best, sizeof best, "%.1f", a->best);
        cli_section_row(s, "this job\t%s\t%s\t%s", a->layout, best, reached);
        for (unsigned i = 0; i < a->n_others; i++)
                cli_section_row(s, "instead\t%s\t%.1f", a->others[i].layout, a->others[i].best);
        if (row)
                add_cost(r, s, row);
        for (unsigned i = 0; i < a->n_advice; i++)
                cli_section_line(s, "%s", a->advice[i]);
        if (!a->asked && *a->machine)
                cli_section_line(s,
                                 "capo fit --model %s %s names the best order and one experiment",
                                 a->layout, a->machine);
}

#define LAYOUT_FIELDS(F)              \
        F("layout", TEXT, of->layout) \
        F("best_busbw_gbs", EXACT, of->best)
CLI_ENTITY(other_layout, __typeof__(((struct capo_page_allocation *)0)->others[0]), void,
           LAYOUT_FIELDS);

#define ALLOCATION_FIELDS(F)                                                           \
        F("layout", TEXT, of->layout)                                                  \
        F("class", TEXT, of->class)                                                    \
        F("uneven", FLAG, of->uneven)                                                  \
        F("reduced", FLAG, of->reduced)                                                \
        F("best_busbw_gbs", EXACT, of->best > 0 ? of->best : NAN)                      \
        F("experiment", TEXT, of->experiment)                                          \
        F("advice", JSON,                                                              \
          CLI_EACH(unsigned k = 0; k < of->n_advice; k++, json_string(of->advice[k]))) \
        F("instead", JSON, CLI_ENTITIES(other_layout, NULL, of->others, of->n_others))
CLI_ENTITY_SHARED(report_allocated, struct capo_page_allocation, void, ALLOCATION_FIELDS);

enum { SITES_SHOWN = 5, HINTS_SHOWN = 4 };
#define LEAST_CREATION  0.01 /* of the job, or one second: shown from there on */
#define CREATION_WAITED 0.1  /* share of it */

/* Is the end of a log missing? */
static bool is_cut(const struct capo_job *job)
{
        return ANY_OF(p, job->processes, job->n_processes, p->health.cut_bytes > 0);
}

/* The job's layout is that of its largest communicator. If nodes have none in common, they are only
 * counted. */
static void set_title(const struct capo_page *r, struct cli_page *page)
{
        const struct capo_job *job = r->job;
        const struct capo_job_comm *c =
                job->n_comms && job->comms[0].n_ranks == job->n_ranks ? &job->comms[0] : NULL;
        char title[1200], layout[512] = "", ranks[120];
        double ns = (double)capo_job_duration_ns(job);

        capo_page_title(r, title, sizeof title);
        if (c && job->n_nodes > 1 && c->layout[0])
                snprintf(layout, sizeof layout, " (%s%.*s)", c->layout,
                         c->n_members < (uint32_t)c->n_ranks ? 16 : 0, " with a log");
        cli_page_title(page, "capo report%s%s", *title ? "   " : "", title);
        cli_page_under(page, "%s%s   %s%s   %s", capo_job_ranks_text(job, job->n_nodes, ranks),
                       layout, ns > 0 && is_cut(job) ? "at least " : "",
                       ns > 0 ? TEXT_DURATION(ns) : "duration not known",
                       TEXT_WHEN(job->t_begin_ns, "%Y-%m-%d %H:%M"));
}

/* How the program reached NCCL; INFO nccl.how has the recorder's word (shim/nccl/real.c). */
static const char *describe_nccl_how(const char *how)
{
        static const char *const words[][2] = {
                {"next", "linked by the program"}, {"caller", "linked by a library"},
                {"noload", "linked by a library"}, {"walk", "inside another library"},
                {"dlopen", "opened by capo"},      {"dlsym", "opened at run time"},
        };

        for (size_t i = 0; i < N_ELEMENTS(words); i++) {
                if (!strcmp(how, words[i][0]))
                        return words[i][1];
        }
        return how;
}

/* What was recorded, and in which way. */
static void set_setup(const struct capo_page *r, struct cli_page *page)
{
        const char *nccl = capo_page_info(r, CAPO_INFO_NCCL_VERSION),
                   *how = capo_page_info(r, CAPO_INFO_NCCL_HOW),
                   *fabric = capo_page_info(r, CAPO_INFO_FABRIC_VERSION),
                   *tuner = capo_page_info(r, CAPO_INFO_NCCL_TUNER),
                   *rules = r->job->processes[0].rules;
        /* another tuner may have been loaded where capo's was not */
        bool unloaded = tuner && !strcmp(tuner, "capo") && capo_page_info(r, CAPO_INFO_UNTUNED);
        char value[256], text[1024] = "NCCL not seen";

        if (nccl)
                snprintf(text, sizeof text, "NCCL %.64s", nccl);
        if (how)
                capo_append(text, sizeof text, " (%s)", describe_nccl_how(how));
        if (fabric)
                capo_append(text, sizeof text, ", libfabric %s", fabric);
        if (capo_rules_value(rules, CAPO_RULES_SWEEP, value, sizeof value))
                capo_append(text, sizeof text, ", tuner capo sweeping %s, profile none", value);
        else if ((capo_rules_value(rules, CAPO_RULES_NAME, value, sizeof value) && *value) ||
                 capo_rules_value(rules, CAPO_RULES_FILE, value, sizeof value))
                capo_append(text, sizeof text, ", tuner capo, profile %s", value);
        else
                capo_append(text, sizeof text, ", tuner %s%s, profile none", tuner ? tuner : "none",
                            unloaded ? " (not loaded)" : "");
        cli_page_under(page, "%s", text);
        if (capo_page_info(r, CAPO_INFO_BESIDE))
                cli_page_under(page, "loaded beside NCCL, their time is not in this report: %s",
                               capo_page_info(r, CAPO_INFO_BESIDE));
}

/* The ends of an interval in percent, rounded outwards, and never with more digits than the value
 * between them. */
static char *range_text(struct capo_interval i, char text[80])
{
        double unit = i.high < 0.01 ? pow(10, floor(log10(100 * i.high))) : i.high < 0.1 ? 0.1 : 1;
        int digits = unit >= 1 ? 0 : (int)-floor(log10(unit) + 1e-9);

        snprintf(text, 80, " (%.*f-%.*f)", digits, floor(100 * i.low / unit + 1e-9) * unit, digits,
                 ceil(100 * i.high / unit - 1e-9) * unit);
        return text;
}

/* With --comm and --call, a part of the page is restricted to these calls, and says so. */
static void set_filter(const struct capo_page *r, struct cli_page *page)
{
        if (!capo_page_is_filtered(r))
                return;
        cli_page_under(page,
                       "only %s%s%s in TIME BY CALL, time on GPU, collectives and data; all else "
                       "is of the whole job",
                       r->only_call ? capo_call_name(r->only_call) : "calls",
                       r->only_comm ? " on communicators " : "", r->only_comm ? r->only_comm : "");
}

#define UNENDED_PRINTED 0.01 /* of the ranks' time */

static void add_gpu_share(const struct capo_page *r, struct cli_page *page)
{
        const char *label = capo_page_is_filtered(r) ? "these calls on GPU" : "NCCL busy on GPU";
        char range[80] = "", left_out[80] = "";
        double unended = capo_unended_share(r->job), silent;

        if (r->gpu_share < 0 && r->gpu_sum >= 0)
                cli_page_fact(page, label, "not known (%s of %s calls timed; %s)",
                              TEXT_COUNT(r->gpu_timed), TEXT_COUNT(r->gpu_calls),
                              capo_sample_advice(r->job));
        if (r->gpu_share < 0)
                return;
        if (r->gpu_range.high > r->gpu_range.low)
                range_text(r->gpu_range, range);
        if (unended >= UNENDED_PRINTED)
                snprintf(left_out, sizeof left_out, ", without calls not seen to end (%s)",
                         TEXT_PERCENT(unended));
        else if ((silent = capo_silent_at_end_ns(r)) > 0)
                snprintf(left_out, sizeof left_out, ", without calls under way in the last %s",
                         TEXT_TIME(silent));
        cli_page_fact(page, label, "%s of the job%s%s%s", TEXT_PERCENT(r->gpu_share), range,
                      r->overlapping ? ", overlapping calls once" : "", left_out);
}

#define WIDTH_PRINTED 0.01 /* of the job: smaller widths are not printed */

static void add_waiting(const struct capo_page *r, struct cli_page *page)
{
        static const char label[] = "waiting for late ranks";
        uint64_t compared = 0, calls = 0;
        char range[80] = "";

        if (!r->wait_range.high || r->overlapping)
                return;
        for (uint32_t i = 0; i < r->n_waits; i++) {
                const struct capo_job_comm *c = &r->job->comms[r->waits[i].comm];

                compared += c->skew->n_calls;
                calls += c->n_calls - c->n_captured;
        }
        if (r->wait_range.high - r->wait_range.low >= WIDTH_PRINTED)
                range_text(r->wait_range, range);
        if (r->wait_share >= 0)
                cli_page_fact(page, label, "%s%s%s%s", r->n_unknown ? "at least " : "",
                              TEXT_PERCENT(r->wait_share), range,
                              capo_page_is_filtered(r) ? " in all calls" : "");
        else if (capo_few_uncompared(compared, calls))
                cli_page_fact(page, label,
                              "not known (no call shows who waited while none was made)");
        else
                cli_page_fact(page, label, "not known (%s of %s compared; %s)",
                              TEXT_COUNT(compared), capo_text_plural(calls, "call", NULL),
                              capo_sample_advice(r->job));
}

/* How long communicator creation took. */
static void add_creation(const struct capo_page *r, struct cli_page *page)
{
        const struct capo_page_creation *c = &r->creation;
        const struct capo_page_created *most = &r->created[c->comm];
        char text[512];

        if (c->n == 1)
                snprintf(text, sizeof text, "in %s", TEXT_DURATION(c->ns));
        else
                snprintf(text, sizeof text, "%u in %s, longest %.100s %s", c->n,
                         TEXT_DURATION(c->ns), capo_page_comm(r, c->comm), TEXT_DURATION(most->ns));
        if (most->ns - most->least_ns > CREATION_WAITED * most->ns)
                capo_append(text, sizeof text, ", %s of it waiting for the last rank",
                            TEXT_DURATION(most->ns - most->least_ns));
        cli_page_fact(page, NULL, " ");
        cli_page_fact(page, c->n == 1 ? "communicator created" : "communicators created", "%s",
                      text);
}

static void add_facts(const struct capo_page *r, struct cli_page *page)
{
        const struct capo_job *job = r->job;
        char room[CLI_ROOM];
        double per_rank = job->n_processes ? (double)job->calls / job->n_processes : 0;
        double share =
                capo_job_duration_ns(job)
                        ? fmin(1, job->cost_ns * per_rank / (double)capo_job_duration_ns(job))
                        : -1;

        add_gpu_share(r, page);
        add_waiting(r, page);
        cli_page_fact(page, NULL, " ");
        cli_page_fact(page, "collectives", "%s",
                      !r->collectives && is_cut(job) ? "not known" : TEXT_COUNT(r->collectives));
        cli_page_fact(page, "data", "%s", cli_bytes_text((int64_t)r->moved_bytes, room));
        cli_page_fact(page, "dropped", "%s", TEXT_COUNT(job->dropped));
        if (job->cost_ns > 0 && share >= 0)
                cli_page_fact(page, "recording cost", "%s",
                              share < 1e-4 ? "< 0.01 %" : TEXT_PERCENT(share));
        if (r->creation.n && (r->all || r->creation.ns >= 1e9 ||
                              r->creation.ns >= LEAST_CREATION * (double)capo_job_duration_ns(job)))
                add_creation(r, page);
}

/* Which GPU clocks were used, and for how many of those rows' calls. */
static void note_gpu_times(const struct capo_page *r, struct cli_page *page, struct cli_section *s)
{
        static const char *const names[CAPO_CLOCKS] = {"", "", "CUDA events", "NCCL's kernels"};
        char text[256] = "";

        for (unsigned c = CAPO_CLOCK_EVENT; c < CAPO_CLOCKS; c++) {
                uint64_t timed = 0, calls = 0;

                for (uint32_t i = 0; i < r->rows.n; i++) {
                        timed += r->rows.row[i].row.time[c].count;
                        calls += r->rows.row[i].row.time[c].count ? r->rows.row[i].row.calls : 0;
                }
                if (calls > timed + timed / 20 && calls < 2 * timed)
                        capo_append(text, sizeof text, "%s%s of %s calls timed by %s",
                                    *text ? ", " : "", TEXT_COUNT(timed), TEXT_COUNT(calls),
                                    names[c]);
                else if (calls >= 2 * timed && timed)
                        capo_append(text, sizeof text, "%s1 call in %s timed by %s",
                                    *text ? ", " : "", TEXT_RATIO((double)calls / (double)timed),
                                    names[c]);
        }
        if (*text)
                cli_section_note(page, s, "%s", text);
}

#define PLACE_FIELDS(F)                                                     \
        F(NULL, SHARE, of->share, NULL, "r")                                \
        F(NULL, TEXT, capo_text_plural(of->calls, "call", NULL), NULL, "r") \
        F("frames", TEXT, of->line, NULL, "l~")                             \
        F("calls", COUNT, of->calls)                                        \
        F("share", SHARE, of->share)
CLI_ENTITY_SHARED(report_place, struct capo_page_place, void, PLACE_FIELDS);

static void add_places(const struct capo_page *r, struct cli_page *page)
{
        struct cli_section *s = cli_page_entity(page, "CALLED FROM", &report_place);
        uint32_t shown = r->all || r->n_places <= SITES_SHOWN + 1 ? r->n_places : SITES_SHOWN;

        s->how = r->places_by_gpu
                         ? "Share of GPU time; calls over all ranks; innermost frame first."
                         : "Share of host time in the calls; calls over all ranks; "
                           "innermost frame first.";
        for (uint32_t i = 0; i < shown; i++)
                cli_section_entity(s, NULL, &r->places[i]);
        if (shown < r->n_places)
                cli_section_line(s, "%u more: --all", r->n_places - shown);
}

#define RULE_FIELDS(F)                             \
        F("rule", RANK, of->rule, "rule", "r")     \
        F("calls", COUNT, of->calls, "calls", "r") \
        F("text", TEXT, of->text, "", "l~")
CLI_ENTITY_SHARED(report_rule, struct capo_page_rule, void, RULE_FIELDS);

/* Rows of the profile or candidates of the sweep, with the number of calls each decided. */
static void add_rules(const struct capo_page *r, struct cli_page *page)
{
        struct cli_section *s = cli_page_entity(page, "RULES", &report_rule);

        if (r->n_rules)
                cli_section_of(s, "that decided, of %s calls", TEXT_COUNT(r->ruled_calls));
        for (uint32_t i = 0; i < r->n_rules; i++)
                cli_section_entity(s, NULL, &r->rules[i]);
}

#define NEXT_FIELDS(F)                                                         \
        F("kind", WORD, capo_next_names[of->kind])                             \
        F(NULL, RANK, of - in->next + 1, NULL, "r")                            \
        F("text", TEXT, of->text, NULL, "l~")                                  \
        F("comm", RANK, report_comm_number(of->comm))                          \
        F("rank", RANK, of->rank)                                              \
        F("job_rank", RANK, of->job_rank)                                      \
        F("call", WORD, report_call_name(of->call))                            \
        F("bytes_least", BYTES, of->bytes_max ? (int64_t)of->bytes_least : -1) \
        F("bytes_most", BYTES, of->bytes_max ? (int64_t)of->bytes_max : -1)    \
        F("share", SHARE, of->share)
CLI_ENTITY_SHARED(report_next, struct capo_next, struct capo_page, NEXT_FIELDS);

static void add_next(const struct capo_page *r, struct cli_page *page)
{
        struct cli_section *s = cli_page_entity(page, "NEXT", &report_next);

        s->leads = true;
        for (uint32_t i = 0; i < r->n_next && i < HINTS_SHOWN; i++)
                cli_section_entity(s, r, &r->next[i]);
}

#define HOST_TIMES  (&of->row.time[CAPO_CLOCK_HOST])
#define HOST_MEDIAN capo_hist_quantile(HOST_TIMES, 0.5)

#define OTHER_FIELDS(F)                                                                    \
        F(NULL, TEXT, capo_page_comm_label(in, of->row.comm, room, CLI_ROOM), "comm", "l") \
        F("comm", RANK, report_comm_number(of->row.comm))                                  \
        F("call", WORD, capo_call_name(of->row.call), "call", "l")                         \
        F("calls", COUNT, of->row.calls, "calls", "r")                                     \
        F(NULL, DURATION, HOST_MEDIAN, "p50", "r")                                         \
        F(NULL, DURATION, (double)HOST_TIMES->max_ns, "max", "r")                          \
        F("failed", COUNT, of->row.failed, "failed", "r")                                  \
        F("p50_us", DURATION, HOST_MEDIAN)
CLI_ENTITY_SHARED(report_other, struct capo_page_row, struct capo_page, OTHER_FIELDS);

static void add_other_calls(const struct capo_page *r, struct cli_page *page)
{
        struct cli_section *s;

        if (!r->all)
                return;
        s = cli_page_entity(page, "OTHER CALLS", &report_other);
        s->how = "Calls that move no data: how long they took on the host, over all ranks.";
        for (uint32_t i = 0; i < r->others.n; i++)
                cli_section_entity(s, r, &r->others.row[i]);
}

struct cli_page *report_page(const struct capo_page *r)
{
        struct cli_page *page = cli_page_new();
        struct cli_section *rows;

        page->all_notes = r->notes;
        set_title(r, page);
        set_setup(r, page);
        set_filter(r, page);
        add_facts(r, page);
        for (uint32_t i = 0; i < r->n_problems; i++)
                cli_page_problem(page, "%s", r->problems[i].text);
        rows = report_rows(r, page);
        note_gpu_times(r, page, rows);
        if (ANY_OF(row, r->rows.row, r->rows.n, capo_call_sized_by_rank(row->row.call)))
                /* the host does not know which tokens go where */
                cli_section_note(page, rows,
                                 "EpDispatch, EpCombine, Reshard: size and bandwidth at most");
        report_allocation(r, page);
        report_ceiling_rows(r, page);
        add_other_calls(r, page);
        report_tokens(r, page);
        report_steps(r, page);
        report_waits(r, page);
        report_causes(r, page);
        report_network(r, page);
        add_places(r, page);
        report_comms(r, page);
        add_rules(r, page);
        report_trials(r, page);
        add_next(r, page);
        return page;
}

void report_text(const struct capo_page *r, FILE *out) { cli_page_text(report_page(r), out); }

void report_markdown(const struct capo_page *r, FILE *out)
{
        cli_page_markdown(report_page(r), out);
}
