/* SPDX-License-Identifier: Apache-2.0 */
/* The page as JSON (versioned by "capo_hang", docs/hang.md). */

#include "cli/base/cli_fields.h"
#include "cli/hang/hang_describe.h"
#include "cli/hang/stacks_json.h"
#include "analysis/process/python_stack.h"
#include "analysis/process/stacks.h"
#include "core/base/calls.h"
#include "core/base/clock.h"
#include "analysis/hang/hang_network.h"

static const char *comm_name(const struct hang_page *p, uint32_t comm)
{
        return comm != CAPO_HANG_NONE ? p->hang.comms[comm].name : NULL;
}

/* ---- threads ---- */

/* Each line of @text without a blank in front is a thread, which @make turns into an object. Lines
 * with one blank are its "frames", with two its "python". @text is changed; NULL: none. */
static json_t *threads_json(char *text, json_t *(*make)(char *line))
{
        json_t *list = json_array(), *thread = NULL;

        for (char *line, *rest = text; (line = strsep(&rest, "\n")) && *line;) {
                bool python = *line == ' ' && line[1] == ' ' && json_object_get(thread, "python");

                if (*line != ' ')
                        json_array_append_new(list, thread = make(line));
                else
                        json_array_append_new(json_object_get(thread, python ? "python" : "frames"),
                                              cli_json_text(line + 1 + python));
        }
        return list;
}

/* "NUMBER TID NAME", or of an older recorder "NUMBER". */
static json_t *python_thread(char *line)
{
        unsigned nth = 0, tid = 0;
        int name = 0;

        if (sscanf(line, "%u %u %n", &nth, &tid, &name) < 2)
                name = 0;
        return json_pack("{s:i, s:o, s:o, s:[]}", "thread", (int)nth, "tid",
                         name ? json_integer(tid) : json_null(), "name",
                         cli_json_text(name ? line + name : NULL), "frames");
}

/* "TID WAIT NAME" */
static json_t *native_thread(char *line)
{
        char wait[64] = "";
        unsigned tid = 0;
        int name = (int)strlen(line);

        if (sscanf(line, "%u %63s %n", &tid, wait, &name) < 2)
                *wait = 0;
        return json_pack("{s:i, s:o, s:o, s:[]}", "tid", (int)tid, "wait", cli_json_text(wait),
                         "name", cli_json_text(line + name), "frames");
}

/* "TID NAME" */
static json_t *stopped_thread(char *line)
{
        char *name = strchr(line, ' ');

        return json_pack("{s:i, s:o, s:[], s:[]}", "tid", atoi(line), "name",
                         cli_json_text(name ? name + 1 : ""), "frames", "python");
}

json_t *hang_json_python(int pid, json_t **why_none)
{
        char why[400];
        _cleanup_free_ char *text = process_python_now(pid, why, sizeof why);

        *why_none = text || !*why ? json_null() : cli_json_text(why);
        return threads_json(text, python_thread);
}

json_t *hang_json_stacks(int pid, json_t **why_none)
{
        char why[400];
        _cleanup_free_ char *text = process_stacks(pid, why, sizeof why);

        *why_none = text ? json_null() : cli_json_text(why);
        return threads_json(text, stopped_thread);
}

/* ---- calls, NICs ---- */

#define CALL_FIELDS(F)                                   \
        F("call", TEXT, capo_call_name(of->call))        \
        F("number", COUNT, of->seq)                      \
        F("communicator", TEXT, comm_name(in, of->comm)) \
        F("bytes", BYTES, of->bytes)                     \
        F("type", TEXT, capo_type_name(of->type))        \
        F("op", TEXT, capo_op_name(of->op))              \
        F("peer", INTEGER, of->peer)                     \
        F("returned", FLAG, of->end_ns != 0)
CLI_ENTITY(call, struct capo_hang_call, struct hang_page, CALL_FIELDS);

#define STREAM_FIELDS(F)                                \
        F("stream", COUNT, of->stream)                  \
        F("call", JSON, cli_entity_json(&call, in, of)) \
        F("since", TIME, of->begin_ns)
CLI_ENTITY(stream, struct capo_hang_call, struct hang_page, STREAM_FIELDS);

#define NIC_FIELDS(F)                                                       \
        F("name", TEXT, of->name)                                           \
        F("device", TEXT, of->device)                                       \
        F("pci", TEXT, of->pci)                                             \
        F("outstanding", COUNT, of->unsure ? -1 : (int64_t)of->outstanding) \
        F("completed", TIME, of->completed_ns)                              \
        F("receives", COUNT, of->receives)                                  \
        F("refused", COUNT, of->refused)                                    \
        F("errors", COUNT, of->errors)                                      \
        F("error", TEXT, of->error)
CLI_ENTITY(nic, struct capo_hang_nic, void, NIC_FIELDS);

/* ---- the culprits ---- */

struct culprit {
        const struct capo_hang_culprit *c;
        const struct capo_hang_process *h;
        const struct capo_job_process *p;
        /* what is read of it, and when; NULL: nothing */
        json_t *threads, *no_threads;        /* now */
        json_t *python, *no_python, *native; /* when its recorder saw the hang, or now */
        uint64_t python_ns, native_ns;
        json_t *nics;
        uint64_t nics_ns;
};

static void read_threads(const struct hang_page *p, struct culprit *out)
{
        const uint32_t process = out->c->process;
        const bool here = hang_lives_here(p, process);
        int pid = (int)out->p->header.pid;
        _cleanup_free_ char *python = hang_frames(p, process, false, &out->python_ns),
                            *native = hang_frames(p, process, true, &out->native_ns);

        out->threads = p->stacks && here ? hang_json_stacks(pid, &out->no_threads) : json_array();
        if (python || !here) {
                out->python = threads_json(python, python_thread);
                out->python_ns = python ? out->python_ns : 0;
        } else {
                out->python = hang_json_python(pid, &out->no_python);
                out->python_ns = json_array_size(out->python) ? capo_clock_of(CLOCK_REALTIME) : 0;
        }
        out->native_ns = native ? out->native_ns : 0;
        out->native = threads_json(native, native_thread);
}

#define MISSING_FIELDS(F)                                                 \
        F("call", TEXT, of->missing ? capo_call_name(of->missing) : NULL) \
        F("number", COUNT, of->seq)                                       \
        F("communicator", TEXT, comm_name(in, of->comm))                  \
        F("waiting", COUNT, of->n_waiting)
CLI_ENTITY(missing_call, struct capo_hang_culprit, struct hang_page, MISSING_FIELDS);

static int exit_status(const struct capo_hang_process *h)
{
        return h->ending == CAPO_HANG_BY_EXIT ? h->exit_status : -1;
}

#define CULPRIT_FIELDS(F)                                                                  \
        F("rank", RANK, capo_hang_culprit_rank(&in->hang, of->c))                          \
        F("host", TEXT, of->p->host)                                                       \
        F("pid", RANK, of->p->header.pid)                                                  \
        F("why", WORD, capo_hang_why_name(of->c->why))                                     \
        F("other_threads_work", FLAG, of->c->works_on)                                     \
        F("exit_status", RANK, exit_status(of->h))                                         \
        F("differs", TEXT, of->c->differs)                                                 \
        F("skipped", FLAG, of->c->skipped)                                                 \
        F("call", JSON, cli_entity_json(&call, in, of->c->call))                           \
        F("threads", JSON, of->threads)                                                    \
        F("no_threads", JSON, of->no_threads ?: json_null())                               \
        F("python", JSON, of->python)                                                      \
        F("python_at", TIME, of->python_ns)                                                \
        F("streams", JSON,                                                                 \
          CLI_EACH(uint32_t k = 0; hang_stream(in, of->c->process, k);                     \
                   k++, cli_entity_json(&stream, in, hang_stream(in, of->c->process, k)))) \
        F("network", JSON, of->nics)                                                       \
        F("network_at", TIME, of->nics_ns)                                                 \
        F("native", JSON, of->native)                                                      \
        F("native_at", TIME, of->native_ns)                                                \
        F("no_python", JSON, of->no_python ?: json_null())                                 \
        F("missing_from", JSON, cli_entity_json(&missing_call, in, of->c->elsewhere ? of->c : NULL))
CLI_ENTITY(culprit, struct culprit, struct hang_page, CULPRIT_FIELDS);

static json_t *culprits_json(const struct hang_page *p)
{
        json_t *list = json_array();

        for (uint32_t i = 0; i < p->verdict.n_culprits; i++) {
                const struct capo_hang_culprit *c = &p->verdict.culprits[i];
                struct culprit of = {c, &p->hang.processes[c->process],
                                     &p->job->processes[c->process]};
                _cleanup_(capo_hang_network_finish) struct capo_hang_network net = {0};

                read_threads(p, &of);
                capo_hang_network(of.p, &net);
                of.nics = CLI_ENTITIES(nic, NULL, net.nics, net.n_nics);
                of.nics_ns = net.at_ns;
                json_array_append_new(list, cli_entity_json(&culprit, p, &of));
        }
        for (int32_t r = -1; p->verdict.kind == CAPO_HANG_SLOW && !p->verdict.n_culprits &&
                             p->verdict.unseen && (r = hang_absent(p, r)) >= 0;)
                json_array_append_new(list, json_pack("{s:i, s:n, s:n, s:s}", "rank", (int)r,
                                                      "host", "pid", "why", "no_log"));
        return list;
}

/* ---- the page ---- */

#define END_FIELDS(F)                                      \
        F("rank", RANK, of->rank)                          \
        F("killed", FLAG, of->ending == CAPO_HANG_BY_KILL) \
        F("exit_status", RANK, exit_status(of))            \
        F("at", TIME, of->end_ns)
CLI_ENTITY(ending, struct capo_hang_process, void, END_FIELDS);

#define STEP_FIELDS(F)                                        \
        F("rank", RANK, in->hang.processes[of->process].rank) \
        F("call", TEXT, capo_call_name(of->call))             \
        F("number", COUNT, of->seq)                           \
        F("communicator", TEXT, comm_name(in, of->comm))
CLI_ENTITY(wait_step, struct capo_hang_step, struct hang_page, STEP_FIELDS);

#define LATE_COMM (&in->job->comms[of->comm])
#define LATE_SKEW LATE_COMM->skew

#define LATE_FIELDS(F)                                                                    \
        F("communicator", TEXT, comm_name(in, of->comm))                                  \
        F("rank", RANK, LATE_COMM->members[of->last].rank)                                \
        F("job_rank", RANK, LATE_COMM->members[of->last].job_rank)                        \
        F("calls", COUNT, LATE_SKEW->n_calls)                                             \
        F("last", COUNT, LATE_SKEW->ranks[of->last].last)                                 \
        F("caused_s", EXACT, LATE_SKEW->ranks[of->last].caused_ns / 1e9)                  \
        F("from_call", COUNT, LATE_SKEW->worst_from_seq)                                  \
        F("since", TIME, (int64_t)LATE_SKEW->worst_from_ns)                               \
        F("until", TIME, (int64_t)LATE_SKEW->worst_to_ns)                                 \
        F("host", FLAG, LATE_SKEW->from == CAPO_SKEW_HOST_START || LATE_SKEW->n_host > 0) \
        F("cause", JSON, cli_json_cause(&of->cause))
CLI_ENTITY(late_rank, struct capo_page_wait, struct hang_page, LATE_FIELDS);

/* What the machine says meanwhile: of the late ranks, or of all. */
#define SEEN_FIELDS(F)                              \
        F("kind", WORD, capo_whys[of->why].name)    \
        F("rank", RANK, capo_why_rank(in->job, of)) \
        F("cause", FLAG, of->is_cause)              \
        F("text", TEXT, of->text)
CLI_ENTITY(seen, struct capo_cause_found, struct hang_page, SEEN_FIELDS);

static json_t *machine_json(const struct hang_page *p)
{
        json_t *all = json_array();

        for (uint32_t i = 0; i < p->late.n_causes; i++) {
                const struct capo_causes *c = &p->late.causes[i];

                for (unsigned k = 0; k < c->n; k++)
                        json_array_append_new(all, cli_entity_json(&seen, p, &c->found[k]));
        }
        return all;
}

static json_t *bugs_json(const struct hang_page *p)
{
        struct capo_recorded_bug bugs[CAPO_RECORDED_BUGS];
        int n = hang_bugs(p, bugs);

        return CLI_EACH(
                int i = 0; i < n;
                i++, cli_json_bug(bugs[i].bug, bugs[i].match == CAPO_BUG_FITS ? "fits" : "maybe"));
}

#define PAGE_FIELDS(F)                                                                            \
        F("capo_hang", COUNT, 1)                                                                  \
        F("verdict", WORD, capo_hang_kind_name(of->verdict.kind))                                 \
        F("certainty", WORD, capo_hang_sure_name(of->verdict.sure))                               \
        F("live", FLAG, of->logs->live)                                                           \
        F("since", EXACT, (double)of->verdict.since_ns / 1e9)                                     \
        F("still_s", EXACT, (double)of->verdict.still_ns / 1e9)                                   \
        F("communicator", TEXT, comm_name(of, of->verdict.comm))                                  \
        F("call", JSON, cli_entity_json(&call, of, of->verdict.call))                             \
        F("waiting", COUNT, of->verdict.n_waiting)                                                \
        F("ranks", COUNT, of->job->n_ranks)                                                       \
        F("culprits", JSON, culprits_json(of))                                                    \
        F("circle", JSON, CLI_ENTITIES(wait_step, of, of->verdict.steps, of->verdict.n_steps))    \
        F("late", JSON,                                                                           \
          CLI_EACH(uint32_t k = 0; hang_late(of, k);                                              \
                   k++, cli_entity_json(&late_rank, of, hang_late(of, k))))                       \
        F("machine", JSON, machine_json(of))                                                      \
        F("not_known", JSON,                                                                      \
          CLI_EACH(uint32_t k = 0; hang_missing(of, k); k++, cli_json_text(hang_missing(of, k)))) \
        F("disagreed_and_ended", COUNT,                                                           \
          of->verdict.disagreed.call ? of->verdict.disagreed.call->seq : of->verdict.differed)    \
        F("known_bugs", JSON, bugs_json(of))                                                      \
        F("ends", JSON,                                                                           \
          CLI_EACH(uint32_t k = hang_next(of, CAPO_HANG_NONE, true); k != CAPO_HANG_NONE;         \
                   k = hang_next(of, k, true),                                                    \
                   cli_entity_json(&ending, NULL, &of->hang.processes[k])))
CLI_ENTITY(verdict, struct hang_page, void, PAGE_FIELDS);

int hang_json(const struct hang_page *p, FILE *out)
{
        return cli_json_print(out, cli_entity_json(&verdict, NULL, p), JSON_INDENT(2));
}
