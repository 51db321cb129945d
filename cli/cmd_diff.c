/* SPDX-License-Identifier: Apache-2.0 */
/* capo diff: did a change help, by more than the noise? */

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/cli_job.h"
#include "cli/base/cli_fields.h"
#include "cli/base/cli_json.h"
#include "analysis/log/log_find.h"
#include "cli/diff_files.h"
#include "cli/diff_machine.h"
#include "cli/diff_steps.h"
#include "core/base/among.h"
#include "analysis/log/rules_read.h"
#include "core/base/calls.h"
#include "analysis/report/job_diff.h"

enum { ROWS_SHOWN = 20 };

struct options {
        double min_change;
        enum cli_form form;
        bool all;
};

/* Each job in a folder, or in its subfolders, is a run. Return: how many; 0 after printing the
 * reason. */
static size_t load_runs(const char *path, struct capo_job **runs)
{
        struct capo_log_paths *jobs = NULL;
        size_t n = 0, used = 0;
        bool failed = capo_log_find_jobs(path, &jobs, &n) < 0;

        for (size_t i = 0; i < n; i++) {
                if (!failed && used < CAPO_DIFF_RUNS) {
                        runs[used] = cli_job_load_paths(path, &jobs[i]);
                        failed = !runs[used];
                        used += !failed;
                }
                capo_log_paths_finish(&jobs[i]);
        }
        free(jobs);
        if (!n)
                return (runs[0] = cli_job_load(path)) ? 1 : 0;
        return failed ? 0 : used;
}

/* "Ring LL -> Tree Simple", or the common choice. */
static char *what_ran(const struct capo_diff_row *r, char *room)
{
        *room = 0;
        if (r->algo_proto_a || r->algo_proto_b)
                snprintf(room, CLI_ROOM, "%s %s", capo_ran_algo(r->algo_proto_a),
                         capo_ran_proto(r->algo_proto_a));
        if (r->algo_proto_a != r->algo_proto_b)
                capo_append(room, CLI_ROOM, " -> %s %s", capo_ran_algo(r->algo_proto_b),
                            capo_ran_proto(r->algo_proto_b));
        return room;
}

static const char *change_text(const struct capo_diff_row *r, char text[64])
{
        if (r->verdict == CAPO_DIFF_HOST_TIMES)
                return "host times only";
        if (r->verdict == CAPO_DIFF_NOT_TIMED)
                return "not timed";
        snprintf(text, 64, r->high < 1 ? "%+.1f %% (%+.1f to %+.1f)" : "%+.0f %% (%+.0f to %+.0f)",
                 100 * r->change, 100 * r->low, 100 * r->high);
        return text;
}

/* The seconds of a significant change; else why it does not count. */
static const char *seconds_text(const struct capo_diff_row *r, char text[32])
{
        switch (r->verdict) {
        case CAPO_DIFF_NOISE: return "noise";
        case CAPO_DIFF_SMALL: return "small";
        case CAPO_DIFF_FASTER:
        case CAPO_DIFF_SLOWER: snprintf(text, 32, "%+.3f", r->seconds); return text;
        default: return ".";
        }
}

/* The size of @r, in bytes if another row of its call would print the same. */
static char *size_text(const struct capo_diff *d, size_t n, const struct capo_diff_row *r,
                       char *text, size_t room)
{
        capo_size_print(r->bytes, text, room);
        if (ANY_OF(o, d->rows, n,
                   o->bytes != r->bytes && o->call == r->call &&
                           !strcmp(TEXT_SIZE(o->bytes), text)))
                capo_append(capo_text_count(r->bytes, text), room, " B");
        return text;
}

/* The row of the profile that decided afterwards; NULL: none. */
static const char *rule_place(const struct capo_diff *d, const struct capo_diff_row *r, char *room)
{
        return r->rule_b ? capo_rules_place(d->rules, r->rule_b, room, CLI_ROOM) : NULL;
}

static const char *ran_text(const struct capo_diff *d, const struct capo_diff_row *r, char *room)
{
        char place[CLI_ROOM];

        what_ran(r, room);
        return rule_place(d, r, place) ? capo_append(room, CLI_ROOM, "  %s", place) : room;
}

struct changes {
        const struct capo_diff *d;
        size_t shown;
};

static const char *const verdicts[] = {"noise", "small", "faster", "slower", "noise", "noise"};

#define KNOWN(value) (isnan(of->change) ? NAN : (value))

#define CHANGE_FIELDS(F)                                                            \
        F("comm", TEXT, of->comm, "comm", "l/d")                                    \
        F("call", WORD, capo_call_name(of->call), "call", "l")                      \
        F("bytes", BYTES, of->bytes)                                                \
        F(NULL, TEXT, size_text(in->d, in->shown, of, room, CLI_ROOM), "size", "r") \
        F("calls_before", COUNT, of->count_a)                                       \
        F("calls_after", COUNT, of->count_b, "calls", "r/b")                        \
        F("clock", TEXT, capo_clock_name(of->clock))                                \
        F("before_p50_us", EXACT, of->p50_a_us)                                     \
        F(NULL, DURATION, 1e3 * of->p50_a_us, "before p50", "r")                    \
        F("after_p50_us", EXACT, of->p50_b_us)                                      \
        F(NULL, DURATION, 1e3 * of->p50_b_us, "after p50", "r")                     \
        F("change", EXACT, of->change)                                              \
        F("half_width", EXACT, KNOWN(of->half_width))                               \
        F("low", EXACT, KNOWN(of->low))                                             \
        F("high", EXACT, KNOWN(of->high))                                           \
        F(NULL, TEXT, change_text(of, room), "change (95 %)", "r")                  \
        F("seconds", EXACT, of->seconds)                                            \
        F(NULL, TEXT, seconds_text(of, room), "seconds", "r")                       \
        F("verdict", WORD, verdicts[of->verdict])                                   \
        F("judged", FLAG, of->verdict < CAPO_DIFF_HOST_TIMES)                       \
        F("rule", COUNT, of->rule_b)                                                \
        F("rule_at", TEXT, rule_place(in->d, of, room))                             \
        F("ran", TEXT, what_ran(of, room))                                          \
        F(NULL, TEXT, ran_text(in->d, of, room), "algorithm", "l~/a")
CLI_ENTITY(change, struct capo_diff_row, struct changes, CHANGE_FIELDS);

/* What is compared beside the calls. */
struct beside {
        struct diff_steps steps;
        struct diff_machine machine;
};

static void add_total(const struct capo_diff *d, const struct diff_steps *steps,
                      struct cli_section *s)
{
        size_t slower = 0;
        char text[600] = "", size[16];

        for (size_t i = 0; i < d->n_rows; i++) {
                const struct capo_diff_row *r = &d->rows[i];

                if (r->verdict == CAPO_DIFF_SLOWER && slower++ < 5)
                        capo_append(text, sizeof text, "%s%s %s %s", slower > 1 ? ", " : "",
                                    r->comm, capo_call_name(r->call),
                                    capo_size_print(r->bytes, size, sizeof size));
        }
        if (d->n_faster + d->n_slower == 0)
                cli_section_line(s, "no call is faster or slower by more than the noise");
        else
                cli_section_line(
                        s,
                        "calls that changed by more than the noise%s: %.3f s %s on one rank, of "
                        "%.1f s of the first run before; slower: %s%s",
                        d->between_runs ? "" : " within the runs", fabs(d->seconds),
                        d->seconds > 0 ? "more" : "less", d->seconds_a, slower ? text : "nothing",
                        slower > 5 ? ", ..." : "");
        if (*diff_steps_text(steps, d->seconds, text, sizeof text))
                cli_section_line(s, "%s", text);
}

static struct cli_page *make_page(const char *before, const char *after, const struct capo_diff *d,
                                  const struct beside *beside, bool all)
{
        struct changes changes = {d, all || d->n_rows < ROWS_SHOWN ? d->n_rows : ROWS_SHOWN};
        struct cli_page *page = cli_page_new();
        struct cli_section *s;
        size_t n_noise = 0;
        char text[300];

        cli_page_title(page, "capo diff   %s -> %s", before, after);
        cli_page_under(page, "%llu calls in both, %llu in one only   %.1f s -> %.1f s",
                       (unsigned long long)d->matched / 2, (unsigned long long)d->unmatched,
                       d->seconds_a, d->seconds_b);
        cli_page_under(page, "%s before, %zu after; noise is %s",
                       capo_text_plural(d->runs_a, "run", NULL), d->runs_b,
                       d->between_runs ? "the variation between them"
                                       : "that within the runs; how much runs differ is not known");
        s = cli_page_entity(page, "CHANGES", &change);
        for (size_t i = 0; i < changes.shown; i++) {
                bool hidden = !all && d->rows[i].verdict == CAPO_DIFF_NOISE &&
                              d->rows[i].algo_proto_a == d->rows[i].algo_proto_b;

                n_noise += hidden;
                if (!hidden)
                        cli_section_entity(s, &changes, &d->rows[i]);
        }
        if (n_noise)
                cli_section_line(s, "%s within noise: --all",
                                 capo_text_plural((unsigned)n_noise, "row", NULL));
        if (d->n_rows > changes.shown)
                cli_section_line(s, "%zu more rows: --all", d->n_rows - changes.shown);
        add_total(d, &beside->steps, s);
        for (unsigned i = 0; i < beside->machine.n; i++)
                cli_section_line(s, "%s", diff_machine_text(&beside->machine.row[i], text));
        return page;
}

#define STEPS_FIELDS(F)                                    \
        F("uncertain", FLAG, of->uncertain)                \
        F("before", REAL, of->n_a ? (double)of->n_a : NAN) \
        F("after", REAL, of->n_b ? (double)of->n_b : NAN)  \
        F("before_p50_s", DURATION, of->p50_a)             \
        F("after_p50_s", DURATION, of->p50_b)              \
        F("change", REAL, of->p50_b / of->p50_a - 1)       \
        F("before_nccl_share", SHARE, of->nccl_a)          \
        F("after_nccl_share", SHARE, of->nccl_b)
CLI_ENTITY(step_change, struct diff_steps, void, STEPS_FIELDS);

#define READING_FIELDS(F)                                      \
        F("rank", RANK, of->rank)                              \
        F("node", TEXT, of->node)                              \
        F("object", TEXT, of->object)                          \
        F("reading", WORD, capo_machine_readings[of->id].name) \
        F("before", COUNT, (int64_t)of->before)                \
        F("after", COUNT, (int64_t)of->after)
CLI_ENTITY(reading, struct diff_reading, void, READING_FIELDS);

#define DIFF_FIELDS(F)                                                                             \
        F("matched", COUNT, of->matched / 2)                                                       \
        F("unmatched", COUNT, of->unmatched)                                                       \
        F("seconds", EXACT, of->seconds)                                                           \
        F("faster", COUNT, of->n_faster)                                                           \
        F("slower", COUNT, of->n_slower)                                                           \
        F("steps", JSON, cli_entity_json(&step_change, NULL, in->steps.known ? &in->steps : NULL)) \
        F("machine", JSON, CLI_ENTITIES(reading, NULL, in->machine.row, in->machine.n))            \
        F("rows", JSON, CLI_ENTITIES(change, (&(struct changes){of, 0}), of->rows, of->n_rows))
CLI_ENTITY(comparison, struct capo_diff, struct beside, DIFF_FIELDS);

static int run_diff(void *options, int n, char **paths)
{
        const struct options *o = options;
        struct capo_job *a[CAPO_DIFF_RUNS] = {0}, *b[CAPO_DIFF_RUNS] = {0};
        size_t n_a, n_b;
        struct capo_diff d;
        struct beside beside;

        if (diff_files_are(paths[0]) || diff_files_are(paths[1]))
                return diff_files(paths[0], paths[1], o->min_change, o->all, o->form);
        n_a = load_runs(paths[0], a);
        n_b = n_a ? load_runs(paths[1], b) : 0;
        if (!n_a || !n_b)
                return CAPO_EXIT_UNKNOWN;
        if (a[0]->n_ranks > 0 && b[0]->n_ranks > 0 && a[0]->n_ranks != b[0]->n_ranks)
                return capo_fail(
                        CAPO_EXIT_UNKNOWN,
                        "diff: %s ran on %d ranks, %s on %d: the time of a collective depends on "
                        "their number; compare runs of the same job",
                        paths[0], a[0]->n_ranks, paths[1], b[0]->n_ranks);
        diff_steps_make(a, n_a, b, n_b, &beside.steps);
        capo_diff_make(a, n_a, b, n_b, o->min_change, &d);
        beside.machine = diff_machine_make(a[0], b[0]);
        if (d.n_rows == 0)
                return capo_fail(
                        CAPO_EXIT_UNKNOWN,
                        "diff: the recordings have no call in common (matched by communicator's name)");
        CLI_FORM_PRINT(o->form, make_page(paths[0], paths[1], &d, &beside, o->all),
                       cli_entity_json(&comparison, &beside, &d),
                       JSON_INDENT(1) | JSON_REAL_PRECISION(9), "rows");
        return d.n_slower ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}

static const struct options defaults = {.min_change = 0.01};

static const struct cli_option options[] = {
        {"min-change", CLI_PERCENT(struct options, min_change, "P", 0, INT_MAX),
         "percent below which nothing is called a change (default 1)"},
        {"all", CLI_FLAG(struct options, all), "all rows; default 20, without noise"},
        CLI_FORM_JSON_OPTION(struct options, form),
        CLI_FORM_CSV_OPTION(struct options, form),
        CLI_FORM_MARKDOWN_OPTION(struct options, form),
        CLI_WIDE,
        {0}};

const struct cli_command diff_command = {
        .usage = "[OPTIONS] BEFORE AFTER",
        .about =
                "Compares recordings of the same job. Each job in the folder BEFORE, or in "
                "folders below it, is a run, and so with AFTER; FOLDER@1 is the first alone. "
                "Several runs a side are best made alternately (before, after, before, ...). A row "
                "shows, per communicator, collective and size:\n"
                "  the median time before and after; of several runs the geometric mean of "
                "their medians\n"
                "  the change, with a 95 % interval that is wide enough for all rows together\n"
                "  the seconds that the change makes on one rank, over as many calls as the run with fewer made, or \"noise\": the change is "
                "not larger than the noise\n"
                "Rows are sorted by seconds. If the jobs repeat a step, its time before and "
                "after is shown, too. Times are GPU times; rows with host times only are shown "
                "and never judged. Two files of nccl-tests output are compared size by size "
                "(capo diff old.txt new.txt). Each choice that was forced in both is compared; if each file "
                "has one choice, these two are.",
        .options = options,
        .after =
                "With one run on each side the noise is that within the runs: the same job run twice may differ by "
                "more. Only more runs tell how much; compare runs without any change first.\n"
                "\n"
                "  capo diff before/ after/",
        .status =
                "0 the same or faster; 1 something is slower by more than the noise; 2 wrong command line; "
                "3 nothing to compare",
        .missing = "two recordings are needed",
        .least = 2,
        .most = 2,
        .size = sizeof(struct options),
        .defaults = &defaults,
        .run = run_diff,
};
