/* SPDX-License-Identifier: Apache-2.0 */
/* When a process that did not end by itself was last alive, and in which call. Its recorder's
 * memory tells: it is updated until some 50 ms before the end. If the process was frozen before
 * that (SIGSTOP, a machine that hung), nothing shows it, so the page says when it was last alive,
 * not when it ended. If that memory was not recovered, only the last checkpoint is known. */
#include "analysis/report/page_kinds.h"
#include "core/base/among.h"
#include "core/base/calls.h"
#include "core/base/order.h"
#include "core/base/xalloc.h"
#include "core/log/unfinished.h"
#include "analysis/job/figures.h"
#include "analysis/report/job_judge.h"
#include "core/log/info.h"

enum { ENDINGS_SHOWN = 4 };
#define HEARTBEAT_NS 100000000 /* the order of times that are closer is chance */

struct ending {
        const struct capo_job_process *p;
        uint64_t end_ns; /* since its epoch */
        uint64_t real_ns;
        bool host, gpu;                /* the record below is set */
        struct capo_record in, on_gpu; /* t_begin: ns since its epoch */
        bool group;                    /* `in` is the last member of an unfinished group */
        unsigned n_in;                 /* threads that were in a call */
        int exit_status;               /* of exit(); 0: no error */
};

static void read_unfinished(struct ending *e)
{
        const char *line = capo_job_info(e->p, CAPO_INFO_UNFINISHED);

        for (; line && *line; line += strcspn(line, "\n"), line += *line == '\n') {
                struct capo_unfinished_call u;

                if (!capo_unfinished_read(line, &u))
                        continue;
                if (u.where == CAPO_UNFINISHED_GPU) { /* checked at the last heartbeat, unless it is
                                                         newer than that */
                        e->on_gpu = u.record;
                        e->gpu = u.record.t_begin + HEARTBEAT_NS <= e->p->end.t_ns;
                        continue;
                }
                if (u.where != CAPO_UNFINISHED_HOST && u.where != CAPO_UNFINISHED_GROUP)
                        continue;
                if (!e->host || u.record.t_begin > e->in.t_begin) {
                        e->in = u.record;
                        e->group = u.where == CAPO_UNFINISHED_GROUP;
                }
                e->host = true;
                e->n_in++;
                e->end_ns = u.record.t_begin > e->end_ns ? u.record.t_begin : e->end_ns;
        }
}

/* Index in job->comms of the process's communicator @id. */
static uint32_t comm_of(const struct capo_page *r, const struct capo_job_process *p, unsigned id)
{
        for (uint32_t i = 0; id && i < r->job->n_comms; i++)
                if (ANY_OF(m, r->job->comms[i].members, r->job->comms[i].n_members,
                           m->id == id && &r->job->processes[m->process] == p))
                        return i;
        return CAPO_NO_COMM;
}

/* "AllReduce number 12 of dp". */
static const char *format_call(const struct capo_page *r, const struct capo_job_process *p,
                               unsigned call, unsigned seq, unsigned comm, char text[256])
{
        uint32_t c = comm_of(r, p, comm);

        snprintf(text, 256, "%s", capo_call_name(call));
        if (seq)
                capo_append(text, 256, " number %u", seq);
        if (c != CAPO_NO_COMM)
                capo_append(text, 256, " of %.100s", r->job->comms[c].name);
        return text;
}

static double after_start(const struct capo_page *r, const struct ending *e)
{
        return e->real_ns > r->job->t_begin_ns ? (double)(e->real_ns - r->job->t_begin_ns) : 0;
}

/* What is known about the last call on the GPU. */
static const char *gpu_part(const struct capo_page *r, const struct ending *e, char text[320])
{
        const struct capo_job_call *c = &e->p->last_call;
        char call[256];

        if (capo_call_kind(c->call) == CAPO_KIND_OTHER)
                return "";
        if (e->gpu)
                snprintf(text, 320, "; the GPU was not seen to end %s",
                         format_call(r, e->p, e->on_gpu.call, e->on_gpu.seq, e->on_gpu.comm, call));
        else if (c->clock == CAPO_CLOCK_EVENT || c->clock == CAPO_CLOCK_KERNEL)
                snprintf(text, 320, ", on the GPU too");
        else
                snprintf(text, 320, "; whether the GPU had ended it is not known");
        return text;
}

/* Was its recorder's memory lost in the kill, at least partly? */
static bool lost_memory(const struct capo_job_process *p)
{
        const char *memory = capo_job_info(p, CAPO_INFO_MEMORY);

        return memory && strcmp(memory, "shm") != 0;
}

static void report_ending(struct capo_page *r, const struct ending *e)
{
        const struct capo_job_call *c = &e->p->last_call;
        const char *name = capo_base_name(e->p->path);
        bool lost = lost_memory(e->p), known = e->p->end.clean == 2 && !lost,
             in = known && e->host && !e->exit_status;
        unsigned comm = in ? e->in.comm : c->comm, id = in ? e->in.call : c->call,
                 seq = in                             ? e->in.seq
                       : c->flags & CAPO_RECORD_GROUP ? 0
                                                      : c->seq;
        double ns = in                     ? (double)(e->end_ns - e->in.t_begin)
                    : e->end_ns > c->t_end ? (double)(e->end_ns - c->t_end)
                                           : 0;
        char who[300], at[96], call[256], gpu[320], text[1400], more[64] = "";
        struct capo_problem *p;

        if (e->p->rank >= 0)
                snprintf(who, sizeof who, "rank %d", e->p->rank);
        else
                snprintf(who, sizeof who, "%.255s", name);
        snprintf(at, sizeof at, "%s after the start (%s)", TEXT_TIME(after_start(r, e)),
                 TEXT_WHEN(e->real_ns, "%H:%M:%S"));
        format_call(r, e->p, id, seq, comm, call);
        if (e->exit_status) {
                snprintf(text, sizeof text, "%s: exit status %d, %s%s%s", who, e->exit_status, at,
                         id ? "; its last call is " : "", id ? call : "");
        } else if (!known) {
                snprintf(text, sizeof text, "%s: when it ended%s and in which call is not known%s",
                         who, capo_process_away(e->p) ? ", if it did," : "",
                         lost ? ": /dev/shm had no room for its recording memory" : "");
                if (e->p->last_ns)
                        capo_append(text, sizeof text, "; its log was last written %s", at);
                if (id)
                        capo_append(text, sizeof text, ", its last call there is %s", call);
        } else if (in) {
                if (e->n_in > 1)
                        snprintf(more, sizeof more, "; %u other thread%s in calls too", e->n_in - 1,
                                 e->n_in > 2 ? "s were" : " was");
                snprintf(text, sizeof text,
                         "%s: last sign of life %s in %s%s, which had not returned%s%s%s", who, at,
                         e->group ? "the group of " : "", call, ns < HEARTBEAT_NS ? "" : " after ",
                         ns < HEARTBEAT_NS ? "" : TEXT_TIME(ns), more);
        } else if (!id) {
                snprintf(
                        text, sizeof text, "%s: last sign of life %s; %s", who, at,
                        e->p->end.calls
                                ? "in or after which call it ended is not known: its log keeps no single calls"
                                : "it had made no call that capo records");
        } else {
                snprintf(text, sizeof text,
                         "%s: last sign of life %s, %s after its last call, %s, had returned%s",
                         who, at, ns < HEARTBEAT_NS ? "at once" : TEXT_TIME(ns), call,
                         gpu_part(r, e, gpu));
        }
        p = PROBLEM_OF(r, ENDED, e->p->rank < 0 ? name : NULL, text);
        p->call = (uint8_t)id;
        p->seq = seq;
        p->comm = comm_of(r, e->p, comm);
        p->in_call = (int8_t)(in ? 1 : known && id && !e->exit_status ? 0 : -1);
        p->at_s = known ? after_start(r, e) / 1e9 : -1;
        capo_problem_rank(p, e->p->rank);
}

CAPO_ORDERED(by_time, struct ending, CAPO_ORDER(a->real_ns, b->real_ns), CAPO_ORDER(a->p, b->p));

void capo_judge_endings(struct capo_page *r)
{
        const struct capo_job *job = r->job;
        _cleanup_free_ struct ending *endings = xcalloc(job->n_processes + 1, sizeof *endings);
        uint32_t n = 0, shown;

        for (uint32_t i = 0; i < job->n_processes; i++) {
                const struct capo_job_process *p = &job->processes[i];
                const char *said = capo_job_info(p, CAPO_INFO_EXIT);
                int status = said ? atoi(said) : 0;

                if ((capo_process_ended(job, p) && !status) || capo_process_alive(p))
                        continue;
                endings[n] = (struct ending){.p = p, .end_ns = p->last_ns, .exit_status = status};
                read_unfinished(&endings[n]);
                endings[n].real_ns = p->header.t0_real_ns + endings[n].end_ns;
                n++;
        }
        if (!n)
                return;
        qsort(endings, n, sizeof *endings, by_time);
        shown = r->all || r->exact || n <= ENDINGS_SHOWN + 1 ? n : ENDINGS_SHOWN;
        for (uint32_t i = 0; i < shown; i++)
                report_ending(r, &endings[i]);
        if (shown < n)
                PROBLEM(r, ENDED_MORE, n - shown);
}
