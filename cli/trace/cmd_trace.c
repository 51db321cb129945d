/* SPDX-License-Identifier: Apache-2.0 */
/* capo trace: writes a job as a time line for Perfetto and chrome://tracing. */

#include "analysis/job/figures.h"
#include "analysis/log/log_find.h"
#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/cli_job.h"
#include "cli/base/cli_output.h"
#include "cli/trace/cmd_trace.h"
#include "cli/trace/trace.h"
#include "core/base/xalloc.h"

/* ---- options ---- */

static bool take_range(const char **at, unsigned *first, unsigned *last)
{
        char *end;
        unsigned long a, b;

        if (!isdigit((unsigned char)**at))
                return false;
        a = b = strtoul(*at, &end, 10);
        if (*end == '-') {
                if (!isdigit((unsigned char)end[1]))
                        return false;
                b = strtoul(end + 1, &end, 10);
        }
        if (b < a || b > INT_MAX)
                return false;
        *first = (unsigned)a;
        *last = (unsigned)b;
        *at = end;
        return true;
}

static const char *take_steps(void *options, const char *value)
{
        struct trace_options *o = options;

        return take_range(&value, &o->step_first, &o->step_last) && !*value && o->step_first
                       ? NULL
                       : "steps as capo report numbers them, such as 100-110";
}

static const char *take_ranks(void *options, const char *value)
{
        static const char expected[] = "ranks, such as 0-3,8";
        struct trace_options *o = options;

        o->ranks = true;
        for (;; value++) {
                if (o->n_ranks == N_ELEMENTS(o->rank) ||
                    !take_range(&value, &o->rank[o->n_ranks].first, &o->rank[o->n_ranks].last))
                        return expected;
                o->n_ranks++;
                if (!*value)
                        return NULL;
                if (*value != ',')
                        return expected;
        }
}

static bool is_asked(const struct trace_options *o, int rank)
{
        for (size_t i = 0; i < o->n_ranks; i++) {
                if (rank >= 0 && (unsigned)rank >= o->rank[i].first &&
                    (unsigned)rank <= o->rank[i].last)
                        return true;
        }
        return !o->ranks;
}

/* ---- the job ---- */

enum { OUT_BUFFER = 1 << 17 };

/* Prepare everything except the window. */
static void prepare_trace(struct trace *t)
{
        const struct capo_job *job = t->job;

        capo_clocks_make(&t->clocks, job, NULL);
        t->comm = xcalloc(job->n_comms + 1, sizeof *t->comm);
        t->flow = xcalloc(job->n_comms + 1, sizeof *t->flow);
        t->wanted = xcalloc(job->n_processes + 1, sizeof *t->wanted);
        for (uint32_t c = 0; c < job->n_comms; c++)
                t->comm[c] = trace_json_text(job->comms[c].name);
        for (uint32_t i = 0; i < job->n_processes; i++)
                t->base_ns = fmin(t->base_ns, t->clocks.processes[i].offset);
        t->fabric = capo_fabric_job_new(job);
        capo_job_steps(job, &t->steps);
}

static uint64_t step_end(const struct trace *t, const struct capo_step *step)
{
        return trace_ns(t, t->steps.process, step->t_ns) + step->ns;
}

/* Set the window from the steps. Return: 0; -EINVAL after printing the reason. */
static int set_steps(struct trace *t, const struct trace_options *o, const char *verb)
{
        const struct capo_job_steps *s = &t->steps;
        uint64_t first = capo_job_step_number(s, 0), whole = first + s->steps.n - 1;
        /* no later call shows where the job's last step ends: it lasts until the end */
        bool open = s->total == whole + 1 && s->steps.n;
        uint64_t last = whole + open;
        const struct capo_step *step = s->steps.step;

        if (s->steps.known == CAPO_STEPS_NONE)
                return capo_fail(-EINVAL, "%s: --steps: the steps of the job are not known: %s",
                                 verb, s->steps.why);
        if (o->step_first < first || o->step_last > last)
                return capo_fail(
                        -EINVAL,
                        "%s: --steps %u-%u: expected steps of %llu-%llu, of which the logs "
                        "have the calls",
                        verb, o->step_first, o->step_last, (unsigned long long)first,
                        (unsigned long long)last);
        t->from_ns = o->step_first > whole
                             ? step_end(t, &step[whole - first])
                             : trace_ns(t, s->process, step[o->step_first - first].t_ns);
        t->to_ns = o->step_last > whole ? UINT64_MAX : step_end(t, &step[o->step_last - first]);
        return 0;
}

static int set_window(struct trace *t, const struct trace_options *o, const char *verb)
{
        uint32_t wanted = 0;

        t->from_ns = (uint64_t)(o->from_s * 1e9);
        t->to_ns = o->to_s > 0 ? (uint64_t)(o->to_s * 1e9) : UINT64_MAX;
        if (t->to_ns < t->from_ns)
                return capo_fail(-EINVAL, "%s: --to is before --from", verb);
        for (uint32_t i = 0; i < t->job->n_processes; i++) {
                t->wanted[i] = is_asked(o, t->job->processes[i].rank);
                wanted += t->wanted[i];
        }
        if (!wanted)
                return capo_fail(-EINVAL, "%s: --ranks: none of these ranks has a log", verb);
        return o->step_first ? set_steps(t, o, verb) : 0;
}

static int write_trace(struct trace *t)
{
        int r = 0;

        capo_last_ranks_make(t->job, t->wanted, &t->last);
        for (uint32_t c = 1; c < t->job->n_comms; c++)
                t->flow[c] = t->flow[c - 1] + t->last.comm[c - 1].from + t->last.comm[c - 1].n;
        gzputs(t->out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
        trace_write_steps(t);
        for (uint32_t i = 0; i < t->job->n_processes && r == 0; i++) {
                if (t->wanted[i])
                        r = trace_write_process(t, i);
        }
        return gzputs(t->out, "\n]}\n") < 0 ? -EIO : r;
}

static bool is_gzip(const char *path)
{
        size_t n = path ? strlen(path) : 0;

        return n > 3 && !strcmp(path + n - 3, ".gz");
}

int trace_make(const struct trace_options *o, const char *verb, char **words, size_t n)
{
        _cleanup_(capo_log_paths_finish) struct capo_log_paths paths = {0};
        struct trace t = {0};
        struct cli_output output;
        char why[512];
        int r = -EIO, e;

        if (capo_log_find(words, n, &paths, why, sizeof why) < 0)
                return capo_fail(CAPO_EXIT_FAIL, "%s: %s", verb, why);
        if (!paths.n)
                return capo_fail(CAPO_EXIT_FAIL, "%s: %s holds no logs (*.capo)", verb, words[0]);
        t.job = cli_job_load_paths(words[0], &paths);
        if (!t.job)
                return CAPO_EXIT_FAIL;
        prepare_trace(&t);
        if (set_window(&t, o, verb) < 0)
                return CAPO_EXIT_USAGE;
        if (cli_output_open_bytes(&output, o->out) < 0)
                return CAPO_EXIT_FAIL;
        /* T: as it is */
        t.out = gzdopen(dup(o->out ? fileno(output.file) : STDOUT_FILENO),
                        is_gzip(o->out) ? "w1" : "wT");
        if (t.out) {
                gzbuffer(t.out, OUT_BUFFER);
                r = write_trace(&t);
                errno = 0;
                e = gzclose(t.out) ? -(errno ?: EIO) : 0;
                r = e ?: r;
        }
        if (cli_output_close(&output, r) < 0)
                return CAPO_EXIT_FAIL;
        if (!t.n_calls)
                capo_warn("%s: no calls: %s", verb,
                          t.job->n_records ? "none of those that the logs keep is in this window"
                                           : "the logs keep none (capo run --trace all)");
        else if (o->out)
                capo_info("wrote %s: %s calls; open it in https://ui.perfetto.dev", o->out,
                          TEXT_COUNT(t.n_calls));
        return CAPO_EXIT_OK;
}

static int run_trace(void *options, int n, char **words)
{
        return trace_make(options, "trace", words, (size_t)n);
}

static const struct cli_option options[] = {
        {"output", CLI_FILE(struct trace_options, out, "FILE"),
         "write there, compressed when it ends in .gz; default standard output", .letter = 'o'},
        {"from", CLI_SECONDS(struct trace_options, from_s, "S", 0, 1e9),
         "only what ends later than so many seconds after the job's start"},
        {"to", CLI_SECONDS(struct trace_options, to_s, "S", 0, 1e9),
         "only what begins earlier than that"},
        {"steps", CLI_WHOLE("A-B", take_steps), "only these steps, as capo report numbers them",
         .example = "1-2"},
        {"ranks", CLI_WHOLE("LIST", take_ranks), "only these ranks, such as 0-3,8",
         .example = "0-3,8"},
        {0}};

const struct cli_command trace_command = {
        .usage = "[OPTIONS] DIR|FILE...",
        .about = "Writes the calls that the logs keep one by one as a trace for "
                 "https://ui.perfetto.dev or chrome://tracing, all ranks on one clock. Each rank "
                 "has a line per host thread with the time in its calls, and a line per "
                 "communicator with the GPU time of the timed calls. There, waiting for the rank "
                 "that came last is a bar of its own, and arrows join the ranks of one call. "
                 "Steps, network traffic and call sites are shown, too.",
        .options = options,
        .after = "A log keeps the last 16,384 calls of a process, of which 1 in 8 is timed on "
                 "the GPU; capo run --trace all --sample 1 keeps and times all. Clocks of "
                 "different hosts are used as they are. capo report says which are more than a "
                 "minute apart.\n"
                 "\n"
                 "  capo trace -o job.json.gz capo-logs/JOB\n"
                 "  capo trace --steps 100-110 --ranks 0-7 -o job.json.gz capo-logs/JOB",
        .status =
                "0; 1 there is no log to read or the file cannot be written, 2 wrong command line.",
        .missing = "which logs? expected a folder or files",
        .least = 1,
        .most = UINT_MAX,
        .size = sizeof(struct trace_options),
        .run = run_trace,
};
