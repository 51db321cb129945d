/* SPDX-License-Identifier: Apache-2.0 */
/* The page as JSON (versioned by "capo_hang", docs/hang.md). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/base/cli_json.h"
#include "cli/hang/cmd_hang.h"
#include "cli/hang/python_stack.h"
#include "cli/hang/stacks_json.h"
#include "cli/hang/stacks.h"
#include "core/base/calls.h"
#include "core/base/clock.h"
#include "core/base/util.h"
#include "analysis/hang/hang_network.h"

static json_t *comm_or_null(const struct hang_page *p, uint32_t comm)
{
        return comm != CAPO_HANG_NONE ? cli_json_text(p->hang.comms[comm].name) : json_null();
}

static json_t *call_or_null(const struct hang_page *p, const struct capo_hang_call *c)
{
        if (!c)
                return json_null();
        return json_pack("{s:s, s:i, s:o, s:I, s:s, s:s, s:i, s:b}", "call",
                         capo_call_name(c->call), "number", (int)c->seq, "communicator",
                         comm_or_null(p, c->comm), "bytes", (json_int_t)c->bytes, "type",
                         capo_type_name(c->type), "op", capo_op_name(c->op), "peer", (int)c->peer,
                         "returned", c->end_ns != 0);
}

static json_t *rank_or_null(const struct hang_page *p, uint32_t process)
{
        int32_t rank = p->hang.processes[process].rank;

        return rank >= 0 ? json_integer(rank) : json_null();
}

/* @text: from hang_python(); NULL: none. */
static json_t *python_threads(char *text)
{
        json_t *list = json_array(), *frames = NULL;

        for (char *line, *rest = text; (line = strsep(&rest, "\n")) && *line;) {
                unsigned nth = 0, tid = 0;
                int name = 0;

                if (*line == ' ') {
                        json_array_append_new(frames, cli_json_text(line + 1));
                        continue;
                }
                if (sscanf(line, "%u %u %n", &nth, &tid, &name) < 2)
                        name = 0;
                frames = json_array();
                json_array_append_new(list,
                                      json_pack("{s:i, s:o, s:o, s:o}", "thread", (int)nth, "tid",
                                                name ? json_integer(tid) : json_null(), "name",
                                                cli_json_text(name ? line + name : NULL), "frames",
                                                frames));
        }
        return list;
}

json_t *hang_json_python(int pid, json_t **why_none)
{
        char why[400];
        _cleanup_free_ char *text = hang_python_now(pid, why, sizeof why);

        *why_none = text || !*why ? json_null() : cli_json_text(why);
        return python_threads(text);
}

/* A culprit's Python threads at time *@at: when its recorder saw the hang, or now. */
static json_t *pack_python(const struct hang_page *p, uint32_t process, json_t **at,
                           json_t **why_none)
{
        uint64_t at_ns = 0;
        _cleanup_free_ char *text = hang_python(p, process, &at_ns);

        *why_none = json_null();
        *at = text ? json_real((double)at_ns / 1e9) : json_null();
        if (!text && hang_lives_here(p, process)) {
                json_t *list =
                        hang_json_python((int)p->job->processes[process].header.pid, why_none);

                if (json_array_size(list)) {
                        json_decref(*at);
                        *at = json_real((double)capo_clock_of(CLOCK_REALTIME) / 1e9);
                }
                return list;
        }
        return python_threads(text);
}

/* A culprit's C threads when its recorder saw the hang, at time *@at. */
static json_t *pack_native(const struct hang_page *p, uint32_t process, json_t **at)
{
        uint64_t at_ns = 0;
        _cleanup_free_ char *text = hang_native(p, process, &at_ns);
        json_t *list = json_array(), *frames = NULL;

        *at = text ? json_real((double)at_ns / 1e9) : json_null();
        for (char *line, *rest = text; (line = strsep(&rest, "\n")) && *line;) {
                char wait[64] = "";
                unsigned tid = 0;
                int name = (int)strlen(line);

                if (*line == ' ') {
                        json_array_append_new(frames, cli_json_text(line + 1));
                        continue;
                }
                if (sscanf(line, "%u %63s %n", &tid, wait, &name) < 2)
                        *wait = 0;
                frames = json_array();
                json_array_append_new(list,
                                      json_pack("{s:i, s:o, s:o, s:o}", "tid", (int)tid, "wait",
                                                cli_json_text(wait), "name",
                                                cli_json_text(line + name), "frames", frames));
        }
        return list;
}

json_t *hang_json_stacks(int pid, json_t **why_none)
{
        char why[400];
        _cleanup_free_ char *text = hang_stacks(pid, why, sizeof why);
        json_t *list = json_array(), *frames = NULL, *lines = NULL;

        *why_none = text ? json_null() : cli_json_text(why);
        for (char *line, *rest = text; (line = strsep(&rest, "\n")) && *line;) {
                char *name = strchr(line, ' ');

                if (*line == ' ') {
                        json_array_append_new(line[1] == ' ' ? lines : frames,
                                              cli_json_text(line + 1 + (line[1] == ' ')));
                        continue;
                }
                frames = json_array();
                lines = json_array();
                json_array_append_new(list, json_pack("{s:i, s:o, s:o, s:o}", "tid", atoi(line),
                                                      "name", cli_json_text(name ? name + 1 : ""),
                                                      "frames", frames, "python", lines));
        }
        return list;
}

/* Unfinished calls on its GPU, the oldest of each stream. */
static json_t *pack_streams(const struct hang_page *p, uint32_t process)
{
        const struct capo_hang_call *c;
        json_t *list = json_array();

        for (uint32_t i = 0; (c = hang_stream(p, process, i)); i++)
                json_array_append_new(
                        list, json_pack("{s:I, s:o, s:f}", "stream", (json_int_t)c->stream, "call",
                                        call_or_null(p, c), "since", (double)c->begin_ns / 1e9));
        return list;
}

/* Its network interfaces at time *@at. */
static json_t *pack_nics(const struct hang_page *p, uint32_t process, json_t **at)
{
        _cleanup_(capo_hang_network_finish) struct capo_hang_network net = {0};
        json_t *list = json_array();

        if (capo_hang_network(&p->job->processes[process], &net) < 0)
                capo_hang_network_finish(&net);
        *at = net.at_ns ? json_real((double)net.at_ns / 1e9) : json_null();
        for (uint32_t i = 0; i < net.n_nics; i++) {
                const struct capo_hang_nic *n = &net.nics[i];

                json_array_append_new(
                        list, json_pack("{s:s, s:s, s:s, s:o, s:o, s:I, s:I, s:I, s:s}", "name",
                                        n->name, "device", n->device, "pci", n->pci, "outstanding",
                                        n->unsure ? json_null()
                                                  : json_integer((json_int_t)n->outstanding),
                                        "completed",
                                        n->completed_ns ? json_real((double)n->completed_ns / 1e9)
                                                        : json_null(),
                                        "receives", (json_int_t)n->receives, "refused",
                                        (json_int_t)n->refused, "errors", (json_int_t)n->errors,
                                        "error", n->error));
        }
        return list;
}

static json_t *pack_stacks(const struct hang_page *p, uint32_t process, json_t **why_none)
{
        *why_none = json_null();
        return p->stacks && hang_lives_here(p, process)
                       ? hang_json_stacks((int)p->job->processes[process].header.pid, why_none)
                       : json_array();
}

/* The call in which others wait for it, if that is not the verdict's. */
static json_t *missing_from(const struct hang_page *p, const struct capo_hang_culprit *c)
{
        if (!c->elsewhere)
                return json_null();
        return json_pack("{s:s?, s:i, s:o, s:i}", "call",
                         c->missing ? capo_call_name(c->missing) : NULL, "number", (int)c->seq,
                         "communicator", comm_or_null(p, c->comm), "waiting", (int)c->n_waiting);
}

static json_t *exit_status_or_null(const struct hang_page *p, uint32_t process)
{
        const struct capo_hang_process *h = &p->hang.processes[process];

        return h->ending == CAPO_HANG_BY_EXIT && h->exit_status >= 0 ? json_integer(h->exit_status)
                                                                     : json_null();
}

static json_t *pack_culprits(const struct hang_page *p)
{
        json_t *list = json_array();

        for (uint32_t i = 0; i < p->verdict.n_culprits; i++) {
                const struct capo_hang_culprit *c = &p->verdict.culprits[i];
                const struct capo_job_process *jp = &p->job->processes[c->process];

                json_t *none, *stacks = pack_stacks(p, c->process, &none), *at, *no_python,
                              *frames = pack_python(p, c->process, &at, &no_python);
                json_t *seen, *nics = pack_nics(p, c->process, &seen), *native_at,
                              *of_c = pack_native(p, c->process, &native_at);

                json_array_append_new(
                        list,
                        json_pack(
                                "{s:o, s:o, s:i, s:s, s:b, s:o, s:s?, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
                                "rank", rank_or_null(p, c->process), "host",
                                cli_json_text(jp->host), "pid", (int)jp->header.pid, "why",
                                capo_hang_why_name(c->why), "other_threads_work", c->works_on,
                                "exit_status", exit_status_or_null(p, c->process), "differs",
                                c->differs, "skipped", c->skipped, "call", call_or_null(p, c->call),
                                "threads", stacks, "no_threads", none, "python", frames,
                                "python_at", at, "streams", pack_streams(p, c->process), "network",
                                nics, "network_at", seen, "native", of_c, "native_at", native_at,
                                "no_python", no_python, "missing_from", missing_from(p, c)));
        }
        return list;
}

static json_t *pack_ends(const struct hang_page *p)
{
        json_t *list = json_array();

        for (uint32_t i = CAPO_HANG_NONE; (i = hang_next_end(p, i)) != CAPO_HANG_NONE;)
                json_array_append_new(
                        list, json_pack("{s:o, s:b, s:o, s:f}", "rank", rank_or_null(p, i),
                                        "killed", p->hang.processes[i].ending == CAPO_HANG_BY_KILL,
                                        "exit_status", exit_status_or_null(p, i), "at",
                                        (double)p->hang.processes[i].end_ns / 1e9));
        return list;
}

static json_t *pack_circle(const struct hang_page *p)
{
        json_t *list = json_array();

        for (uint32_t i = 0; i < p->verdict.n_steps; i++) {
                const struct capo_hang_step *s = &p->verdict.steps[i];

                json_array_append_new(
                        list, json_pack("{s:o, s:s, s:i, s:o}", "rank", rank_or_null(p, s->process),
                                        "call", capo_call_name(s->call), "number", (int)s->seq,
                                        "communicator", comm_or_null(p, s->comm)));
        }
        return list;
}

static json_t *pack_missing_data(const struct hang_page *p)
{
        json_t *list = json_array();
        char text[400];

        for (unsigned i = 0; hang_missing(p, i, text); i++)
                json_array_append_new(list, cli_json_text(text));
        return list;
}

static json_t *pack_late_ranks(const struct hang_page *p)
{
        const struct capo_page_wait *w;
        json_t *list = json_array();

        for (uint32_t i = 0; (w = hang_late(p, i)); i++) {
                const struct capo_job_comm *c = &p->job->comms[w->comm];
                const struct capo_skew *k = c->skew;

                json_array_append_new(
                        list,
                        json_pack("{s:o, s:i, s:o, s:i, s:i, s:f, s:i, s:f, s:b, s:o}",
                                  "communicator", comm_or_null(p, w->comm), "rank",
                                  (int)c->members[w->last].rank, "job_rank",
                                  rank_or_null(p, c->members[w->last].process), "calls",
                                  (int)k->n_calls, "last", (int)k->ranks[w->last].last, "caused_s",
                                  k->ranks[w->last].caused_ns / 1e9, "from_call",
                                  (int)k->worst_from_seq, "since", (double)k->worst_from_ns / 1e9,
                                  "host", k->from == CAPO_SKEW_HOST_START || k->n_host > 0, "cause",
                                  cli_json_cause(&w->cause)));
        }
        return list;
}

static json_t *pack_bugs(const struct hang_page *p)
{
        struct capo_recorded_bug bugs[CAPO_RECORDED_BUGS];
        int n = hang_bugs(p, bugs);
        json_t *list = json_array();

        for (int i = 0; i < n; i++)
                json_array_append_new(list, cli_json_bug(bugs[i].bug, bugs[i].match == CAPO_BUG_FITS
                                                                              ? "fits"
                                                                              : "maybe"));
        return list;
}

int hang_json(const struct hang_page *p, FILE *out)
{
        const struct capo_hang_verdict *v = &p->verdict;
        json_t *page = json_pack(
                "{s:i, s:s, s:s, s:b, s:f, s:f, s:o, s:o, s:i, s:i, s:o, s:o, s:o, s:o, s:i, s:o, s:o}",
                "capo_hang", 1, "verdict", capo_hang_kind_name(v->kind), "certainty",
                capo_hang_sure_name(v->sure), "live", p->logs->live, "since",
                (double)v->since_ns / 1e9, "still_s", (double)v->still_ns / 1e9, "communicator",
                comm_or_null(p, v->comm), "call", call_or_null(p, v->call), "waiting",
                (int)v->n_waiting, "ranks", (int)p->job->n_ranks, "culprits", pack_culprits(p),
                "circle", pack_circle(p), "late", pack_late_ranks(p), "not_known",
                pack_missing_data(p), "disagreed_and_ended", (int)v->differed, "known_bugs",
                pack_bugs(p), "ends", pack_ends(p));

        return cli_json_print(out, page, JSON_INDENT(2));
}
