/* SPDX-License-Identifier: Apache-2.0 */
/* The third form of capo explain: what a recorded job ran at one size. */
#include <fnmatch.h>

#include "core/base/among.h"
#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/cli_machine.h"
#include "cli/base/cli_recorded.h"
#include "cli/base/cli_fields.h"
#include "cli/base/cli_json.h"
#include "cli/explain/cmd_explain.h"
#include "cli/base/cli_job.h"
#include "core/base/xalloc.h"
#include "analysis/log/rules_read.h"
#include "core/base/calls.h"
#include "analysis/job/asked.h"

/* "FILE:LINE when WHEN: ALGO PROTO"; only the number if the log has no more. */
static const char *rule_text(const char *rules, unsigned rule, char *text, size_t room)
{
        struct capo_rules_row r;
        char place[300], chunk[40] = "", size[16];
        bool known = rule && capo_rules_find(rules, rule, &r);

        if (known && r.chunk)
                snprintf(chunk, sizeof chunk, ", chunks of %s",
                         capo_size_print(r.chunk, size, sizeof size));
        if (!rule)
                snprintf(text, room, "-");
        else if (!known)
                snprintf(text, room, "row %u", rule);
        else if (r.candidate)
                snprintf(text, room, "sweep candidate: %s %s%s", r.algo, r.proto, chunk);
        else
                snprintf(text, room, "%s when %s: %s %s%s%s%s",
                         capo_rules_place(rules, rule, place, sizeof place), r.when, r.algo,
                         r.proto, chunk, *r.turned ? "; calls turned: " : "", r.turned);
        return text;
}

static const char *comm_of(const struct capo_job *job, const struct capo_job_row *row)
{
        return row->comm == CAPO_NO_COMM ? "-" : job->comms[row->comm].name;
}

static bool matches_query(const struct explain *e, const struct capo_job *job,
                          const struct capo_job_row *row)
{
        if (row->call != e->call || row->bytes < e->bytes || row->bytes > e->bytes_max)
                return false;
        return !e->comm ||
               (row->comm != CAPO_NO_COMM && !fnmatch(e->comm, job->comms[row->comm].name, 0));
}

/* A page shows 8,320 bytes as 8.1 KiB, and merged sizes as 1-1.9 MiB. If no call has exactly the
 * given size, take those that are shown like it; if there are none, print the existing sizes.
 * Return: are there calls from e->bytes to e->bytes_max now? */
static bool settle_size(struct explain *e, const struct capo_job *job)
{
        uint64_t first = UINT64_MAX, last = 0, below = 0, above = UINT64_MAX;
        char from[32], to[32], shown[32];
        bool any = false, under = false;

        capo_size_print(e->bytes, from, sizeof from);
        capo_size_print(e->bytes_max, to, sizeof to);
        for (uint32_t i = 0; i < job->n_rows; i++) {
                uint64_t size = job->rows[i].bytes;

                if (job->rows[i].call != e->call)
                        continue;
                if (size == e->bytes && size == e->bytes_max)
                        return true;
                any = true;
                under |= size < e->bytes;
                if (size < e->bytes)
                        below = size > below ? size : below;
                else
                        above = size < above ? size : above;
                capo_size_print(size, shown, sizeof shown);
                if ((size >= e->bytes && size <= e->bytes_max) || !strcmp(shown, from) ||
                    !strcmp(shown, to)) {
                        first = size < first ? size : first;
                        last = size > last ? size : last;
                }
        }
        if (first <= last) {
                e->bytes = first;
                e->bytes_max = last;
                return true;
        }
        if (!any)
                capo_error("%s holds no %s", e->log, capo_call_name(e->call));
        else if (!under || above == UINT64_MAX)
                capo_error("%s holds no %s of %s; the nearest size is %llu bytes", e->log,
                           capo_call_name(e->call), e->size,
                           (unsigned long long)(under ? below : above));
        else
                capo_error("%s holds no %s of %s; the nearest sizes are %llu and %llu bytes",
                           e->log, capo_call_name(e->call), e->size, (unsigned long long)below,
                           (unsigned long long)above);
        return false;
}

struct ran {
        const struct capo_job *job;
        const struct capo_job_row *row;
        const char *rules;
        struct capo_sampled times;
};

#define RULE (rule_text(of->rules, of->row->rule, room, CLI_ROOM))

#define RAN_FIELDS(F)                                                                  \
        F("comm", TEXT, comm_of(of->job, of->row), "comm", "l")                        \
        F("bytes", RANK, of->row->bytes, "bytes", "r")                                 \
        F("algo", TEXT, capo_ran_algo(of->row->algo_proto))                            \
        F("proto", TEXT, capo_ran_proto(of->row->algo_proto))                          \
        F(NULL, TEXT,                                                                  \
          (snprintf(room, CLI_ROOM, "%s %s", capo_ran_algo(of->row->algo_proto),       \
                    capo_ran_proto(of->row->algo_proto)),                              \
           room),                                                                      \
          "algorithm", "l")                                                            \
        F("channels", RANK, of->row->channels, "ch", "r/c")                            \
        F("count", COUNT, of->row->count, "calls", "r/d")                              \
        F(NULL, DURATION, capo_sampled_quantile(&of->times, 0.5), "p50", "r")          \
        F(NULL, DURATION, capo_sampled_quantile(&of->times, 0.95), "p95", "r/b")       \
        F("clock", TEXT, capo_clock_name(capo_job_row_clock(of->row)), "clock", "l/a") \
        F("p50_us", EXACT, capo_sampled_quantile(&of->times, 0.5) / 1e3)               \
        F("p95_us", EXACT, capo_sampled_quantile(&of->times, 0.95) / 1e3)              \
        F("rule", TEXT, RULE)                                                          \
        F(NULL, TEXT, of->row->rule ? RULE : "NCCL itself", "decided by", "l~")
CLI_ENTITY(ran_row, struct ran, void, RAN_FIELDS);

/* What the program itself asked for in these calls, if anything. */
#define ASKED_FIELDS(F)                           \
        F("config", TEXT, of->text)               \
        F("calls", RANK, of->calls, "calls", "r") \
        F(NULL, TEXT, *of->text ? of->text : "nothing", "asked for", "l~")
CLI_ENTITY(asked_row, struct capo_asked, void, ASKED_FIELDS);

/* "0:1,2,3;1:0,1", as --gpus accepts it, in the order of the ranks' nodes. */
static void print_gpus(const struct capo_plan_gpu *gpus, uint32_t n, char *text, size_t room)
{
        uint32_t before = UINT32_MAX;

        *text = 0;
        for (uint32_t node = 0; node < n; node++) {
                for (uint32_t i = 0; i < n; i++) {
                        if (gpus[i].node != node)
                                continue;
                        if (node != before)
                                capo_append(text, room, "%s%u:%u", *text ? ";" : "", node,
                                            gpus[i].dev);
                        else
                                capo_append(text, room, ",%u", gpus[i].dev);
                        before = node;
                }
        }
}

/* The recorded machine and GPUs, for asking NCCL's prediction. */
struct machine {
        char topo[4096], gpus[4096], why[600];
};

/* Return: 0; -ENOENT: none was recorded; -EXDEV: several different ones; -EINVAL with why. */
static int find_machine(const struct explain *e, const struct capo_job *job, struct machine *out)
{
        const struct cli_machine_words words = {.topo = out->topo};
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        struct cli_machine_source source;
        const struct capo_job_row *first =
                FIRST_OF(row, job->rows, job->n_rows, matches_query(e, job, row));
        uint32_t comm = first ? first->comm : CAPO_NO_COMM,
                 n = comm == CAPO_NO_COMM ? 0 : job->comms[comm].n_members;
        _cleanup_free_ struct capo_plan_gpu *gpus = xcalloc(n + 1, sizeof *gpus);
        _cleanup_free_ bool *slices = xcalloc(n + 1, sizeof *slices);
        int r = n ? cli_recorded_topology(job, out->topo, sizeof out->topo) : -ENOENT;

        if (r < 0)
                return r;
        if (cli_machine_load("explain", &words, &t, &source) < 0)
                return -ENOENT;
        if (cli_recorded_gpus(job, comm, t, gpus, slices, out->why, sizeof out->why) < 0)
                return -EINVAL;
        print_gpus(gpus, n, out->gpus, sizeof out->gpus);
        return 0;
}

static void add_machine(struct cli_page *page, const struct explain *e, const struct capo_job *job)
{
        static const struct cli_column columns[] = {{NULL, "l~"}};
        struct cli_section *s = cli_page_section(page, "NEXT", columns, 1);
        _cleanup_free_ struct machine *m = xcalloc(1, sizeof *m);
        int r = find_machine(e, job, m);

        if (r == -EINVAL) {
                cli_section_row(s, "The machine is recorded in %s, but %s", m->topo, m->why);
        } else if (r < 0) {
                cli_section_row(s,
                                "capo explain %s %s with --platform or --topo asks NCCL what it "
                                "predicts for each candidate, which is not in a log%s",
                                capo_call_name(e->call),
                                e->bytes != e->bytes_max || strchr(e->size, ' ') ? "SIZE" : e->size,
                                r == -EXDEV ? " (the machines that were recorded are not alike)"
                                            : "");
        } else {
                cli_section_row(
                        s, "ask NCCL what it predicts for each candidate, which is not in a log:");
                cli_section_row(s, "capo explain %s %llu --topo %s --gpus '%s'",
                                capo_call_name(e->call), (unsigned long long)e->bytes_max, m->topo,
                                m->gpus);
        }
}

static struct cli_page *make_page(const struct explain *e, const struct capo_job *job,
                                  const char *rules)
{
        struct cli_page *page = cli_page_new();
        struct capo_asked *asked = NULL;
        struct cli_section *t;
        bool unknown = false;
        long n;

        cli_page_title(page, "capo explain   %s %s in %s (recorded)", capo_call_name(e->call),
                       e->size, e->log);
        t = cli_page_entity(page, "RAN", &ran_row);
        for (uint32_t i = 0; i < job->n_rows; i++) {
                const struct capo_job_row *row = &job->rows[i];
                struct ran ran = {job, row, rules, capo_job_row_sampled(row)};

                if (!matches_query(e, job, row))
                        continue;
                unknown |= !row->algo_proto;
                cli_section_entity(t, NULL, &ran);
        }
        if (unknown)
                cli_section_note(page, t,
                                 "-: what ran is not known: NCCL before 2.23, the profiler "
                                 "interface not used (capo doctor says why), or the call "
                                 "was a member of a group or captured into a graph");
        t = cli_page_entity(page, "ASKED BY THE PROGRAM", &asked_row);
        cli_section_of(t, "calls of all ranks, as far as they are kept one by one");
        n = capo_job_asked(job, e->call, e->bytes, e->bytes_max, e->comm, &asked);
        for (long i = 0; i < n; i++)
                cli_section_entity(t, NULL, &asked[i]);
        add_machine(page, e, job);
        return page;
}

static json_t *make_json(const struct explain *e, const struct capo_job *job, const char *rules)
{
        _cleanup_free_ struct machine *m = xcalloc(1, sizeof *m);
        bool known = find_machine(e, job, m) == 0;
        json_t *rows = json_array();
        struct capo_asked *asked = NULL;
        long n = capo_job_asked(job, e->call, e->bytes, e->bytes_max, e->comm, &asked);

        for (uint32_t i = 0; i < job->n_rows; i++) {
                const struct capo_job_row *row = &job->rows[i];
                struct ran ran = {job, row, rules, capo_job_row_sampled(row)};

                if (matches_query(e, job, row))
                        json_array_append_new(rows, cli_entity_json(&ran_row, NULL, &ran));
        }
        return json_pack("{s:i, s:s, s:I, s:I, s:o, s:o, s:o}", "capo_explain", 1, "call",
                         capo_call_name(e->call), "bytes", (json_int_t)e->bytes, "bytes_max",
                         (json_int_t)e->bytes_max, "ran", rows, "asked",
                         CLI_ENTITIES(asked_row, NULL, asked, n > 0 ? (size_t)n : 0), "machine",
                         known ? json_pack("{s:s, s:s}", "topo", m->topo, "gpus", m->gpus)
                               : json_null());
}

/* Print that the size exists, but not on the requested communicator. */
static void say_others(struct explain *e, const struct capo_job *job)
{
        const char *asked = e->comm;
        char names[400] = "";

        e->comm = NULL;
        for (uint32_t i = 0; i < job->n_rows && strlen(names) < sizeof names - 64; i++) {
                const char *name = comm_of(job, &job->rows[i]);

                if (matches_query(e, job, &job->rows[i]) && !strstr(names, name))
                        capo_append(names, sizeof names, "%s%.60s", *names ? ", " : "", name);
        }
        capo_error("%s: no communicator \"%s\" has %s of %s; these have: %s", e->log,
                   asked ? asked : "-", capo_call_name(e->call), e->size, names);
        e->comm = asked;
}

int explain_recorded(struct explain *e)
{
        _cleanup_(capo_job_freep) struct capo_job *job = cli_job_load(e->log);
        const char *rules = NULL;
        bool any = false;

        if (!job)
                return CAPO_EXIT_FAIL;
        for (uint32_t i = 0; i < job->n_processes && !rules; i++)
                rules = job->processes[i].rules;
        if (!settle_size(e, job))
                return CAPO_EXIT_FAIL;
        for (uint32_t i = 0; i < job->n_rows; i++)
                any |= matches_query(e, job, &job->rows[i]);
        if (!any) {
                say_others(e, job);
                return CAPO_EXIT_FAIL;
        }
        CLI_FORM_PRINT(e->form, make_page(e, job, rules), make_json(e, job, rules), EXPLAIN_JSON,
                       "ran");
        return CAPO_EXIT_OK;
}
