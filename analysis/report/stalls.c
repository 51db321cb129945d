/* SPDX-License-Identifier: Apache-2.0 */
/* Times in which no rank made a call, far longer than usual in this job. The cause comes from what
 * capo watch wrote beside the logs at that time, else from the slow step that contains the stall.
 */

#include "analysis/job/figures.h"
#include "analysis/job/stops.h"
#include "analysis/report/job_judge.h"
#include "analysis/report/page_kinds.h"
#include "analysis/report/stalls.h"
#include "core/base/among.h"
#include "core/base/calls.h"
#include "core/base/others_file.h"
#include "core/base/xalloc.h"
#include "core/log/info.h"
#include "core/log/unfinished.h"

enum { STALLS_SHOWN = 2, STOPS_SHOWN = 4 };
#define STALL_NS   10e9
#define SILENT_NS  1e9
#define FAR_LONGER 3 /* times the job's usual silences */
#define VERDICT    "hang.json"
#define WATCH_AFTER \
        120e9 /* a verdict written up to this long after the begin of a stall can be about it */

struct stall {
        double from, to; /* ns since 1970 */
};

static double length_of(struct stall s) { return s.to - s.from; }

static struct stall silence_of(const struct capo_job_process *p, uint32_t i)
{
        double from = (double)p->header.t0_real_ns + (double)p->still.v[i].from;

        return (struct stall){from, from + (double)p->still.v[i].ns};
}

/* The part of @s in which the process was silent. */
static struct stall common_part(const struct capo_job_process *p, struct stall s)
{
        struct stall best = {s.from, s.from};

        if ((double)p->header.t0_real_ns + (double)p->last_ns <= s.from) /* it had ended */
                return s;
        for (uint32_t i = 0; i < p->still.n; i++) {
                struct stall own = silence_of(p, i);
                struct stall both = {fmax(s.from, own.from), fmin(s.to, own.to)};

                best = length_of(both) > length_of(best) ? both : best;
        }
        return best;
}

/* The rank that stands out in the step that took most of the stall; -1: none. */
static int find_rank_of_step(const struct capo_page *r, struct stall s)
{
        double begin = (double)r->job->t_begin_ns;
        const struct capo_slow_step *slow =
                FIRST_OF(of, r->steps.slow, r->steps.n_slow,
                         of->process < r->job->n_processes && of->held_ns > length_of(s) / 2 &&
                                 begin + of->at_s * 1e9 < s.to &&
                                 begin + of->at_s * 1e9 + (double)of->ns > s.from);

        return slow ? r->job->processes[slow->process].rank : -1;
}

/* Processes that did not run during the stall, as " rank 1 did not run (stopped ...)"; "": none
 * known. @rank: set if it is only one. */
static void find_stops(const struct capo_page *r, struct stall s, char *text, size_t room,
                       int *rank)
{
        const struct capo_job *job = r->job;
        uint32_t n = 0;
        int only = -1;

        *text = 0;
        for (uint32_t i = 0; i < job->n_processes; i++) {
                if (!capo_stops_covers(&job->processes[i], s.from, s.to))
                        continue;
                if (n < STOPS_SHOWN && job->processes[i].rank >= 0)
                        capo_append(text, room, "%s %d", n ? "," : "", job->processes[i].rank);
                only = n++ ? -1 : job->processes[i].rank;
        }
        if (!n || !*text)
                return;
        if (n > STOPS_SHOWN)
                capo_append(text, room, " and %u more", n - STOPS_SHOWN);
        capo_append(text, room, " did not run (stopped, or without a processor)");
        *rank = n == 1 ? only : *rank;
}

json_t *capo_watch_record(const struct capo_job *job, double *from, double *to)
{
        const char *path = job->processes[0].path, *slash = strrchr(path, '/');
        _cleanup_free_ char *json = NULL;
        char file[4096];
        size_t size;
        double since = 0, still = 0;
        json_t *page;

        snprintf(file, sizeof file, "%.*s%s", slash ? (int)(slash + 1 - path) : 0, path, VERDICT);
        if (capo_others_read(file, CAPO_OTHERS_MESSAGE, capo_others_owner(path), &json, &size, NULL,
                             0) < 0)
                return NULL;
        page = json_loadb(json, size, 0, NULL);
        if (json_unpack(page, "{s:F, s:F}", "since", &since, "still_s", &still) < 0)
                json_decref(steal(&page));
        *from = since * 1e9;
        *to = (since + still) * 1e9;
        return page;
}

/* What capo watch saw in that time: "rank 1 (verdict missing, reason host), 2 ranks waiting in
 * AllReduce"; "": nothing. @rank: the one it names; else -1. */
static void read_verdict(const struct capo_page *r, struct stall s, char *text, size_t room,
                         int *rank)
{
        struct stall found = {0, 0};
        json_t *page = capo_watch_record(r->job, &found.from, &found.to), *culprits = NULL, *number;
        const char *verdict = NULL, *why = NULL, *call = NULL;
        json_int_t waiting = 0;

        json_unpack(page, "{s?s, s?o, s?{s?s}, s?I}", "verdict", &verdict, "culprits", &culprits,
                    "call", "call", &call, "waiting", &waiting);
        json_unpack(json_array_get(culprits, 0), "{s?s}", "why", &why);
        *text = 0;
        if (!(found.from < s.to && found.from > s.from - WATCH_AFTER && found.to > s.from))
                verdict = call = NULL;
        for (size_t i = 0; verdict && i < json_array_size(culprits) && i < STOPS_SHOWN; i++) {
                number = json_object_get(json_array_get(culprits, i), "rank");
                if (!json_is_integer(number))
                        continue;
                *rank = json_array_size(culprits) == 1 ? (int)json_integer_value(number) : -1;
                capo_append(text, room, "%s %d", *text ? "," : "rank",
                            (int)json_integer_value(number));
        }
        if (*text)
                capo_append(text, room, " (verdict %.32s%s%.32s)", verdict,
                            why && strcmp(why, verdict) != 0 ? ", reason " : "",
                            why && strcmp(why, verdict) != 0 ? why : "");
        if (call && waiting > 0 && waiting <= INT32_MAX)
                capo_append(text, room, "%s%s waiting in %.32s", *text ? ", " : "",
                            capo_text_plural((uint64_t)waiting, "rank", NULL), call);
        json_decref(page);
}

/* The longest call on a GPU that was timed, in ns; 0: none was. */
static double longest_call(const struct capo_page *r)
{
        return (double)MOST_OF(row, r->judged.row, r->judged.n,
                               row->clock == CAPO_CLOCK_EVENT || row->clock == CAPO_CLOCK_KERNEL
                                       ? row->row.time[row->clock].max_ns
                                       : 0);
}

/* Hosts can queue calls far ahead: they make none while the GPUs work. The time outside the silence
 * has no room for the time that the calls took on the GPUs, so at least half of the silence was
 * such work. A single long call is no work: it can be the wait for a rank that is stuck. */
static bool gpus_worked(const struct capo_page *r, double silent)
{
        double longest = longest_call(r), job = (double)capo_job_duration_ns(r->job);

        return r->gpu_share > 0 && longest > 0 && longest * FAR_LONGER < silent &&
               r->gpu_range.low * job - (job - silent) >= silent / 2;
}

/* All calls were timed on the GPUs, and none took so long that it can have hidden a wait. */
static bool all_timed(const struct capo_page *r, double silent)
{
        double longest = longest_call(r);

        return r->gpu_calls && r->gpu_timed == r->gpu_calls && longest > 0 &&
               longest * FAR_LONGER < silent;
}

/* @last: it lasts until the job's end. */
static void report_stall(struct capo_page *r, struct stall s, bool last)
{
        char verdict[256], stops[128];
        _cleanup_free_ char *why = NULL;
        struct capo_problem *p;
        int rank = -1;

        read_verdict(r, s, verdict, sizeof verdict, &rank);
        find_stops(r, s, stops, sizeof stops, &rank);
        if (!*verdict && !*stops && !last)
                rank = find_rank_of_step(r, s);
        why = *verdict ? xprintf("capo watch found %s (hang.txt)", verdict)
              : *stops ? xprintf("the process of rank%s", stops)
              : last ? xstrdup("until a process ended; capo hang judges what the ranks waited for")
              : rank >= 0 ? xprintf("the others waited for rank %d", rank)
              : all_timed(r, length_of(s))
                      ? xprintf("no call took longer than %s on a GPU, so no rank waited in one for "
                                "all that time; the GPUs may have had queued work",
                                TEXT_TIME(longest_call(r)))
                      : xstrdup(r->steps.ran_ahead
                                        ? "the hosts had made calls far ahead of the GPUs, which may "
                                          "have worked on these; the cause is not known"
                                        : "who was the cause is not known");
        p = PROBLEM(r, STALL, r->job->n_ranks > (int)r->job->n_processes ? " that left a log" : "",
                    TEXT_TIME(length_of(s)),
                    TEXT_WHEN((uint64_t)fmin(fmax(s.from, 0), (double)INT64_MAX), "%H:%M:%S"), why);
        capo_problem_rank(p, rank);
}

/* When the process began its last call, ns since 1970. */
static double last_begin_of(const struct capo_job_process *p)
{
        const char *line = capo_job_info(p, CAPO_INFO_UNFINISHED);
        uint64_t last = p->last_call.t_begin;
        struct capo_unfinished_call u;

        for (; line && *line; line += strcspn(line, "\n"), line += *line == '\n') {
                if (capo_unfinished_read(line, &u) && u.record.t_begin > last)
                        last = u.record.t_begin;
        }
        return (double)p->header.t0_real_ns + (double)last;
}

/* From the last call of all ranks to the first process that did not end by exit(0). */
static struct stall last_silence(const struct capo_page *r)
{
        const struct capo_job *job = r->job;
        struct stall s = {0, INFINITY};

        for (uint32_t i = 0; i < job->n_processes; i++) {
                const struct capo_job_process *p = &job->processes[i];
                const char *status = capo_job_info(p, CAPO_INFO_EXIT);
                bool well = capo_process_ended(job, p) && (!status || !atoi(status));

                s.from = fmax(s.from, last_begin_of(p));
                if (!well && !capo_process_alive(p))
                        s.to = fmin(s.to, (double)p->header.t0_real_ns + (double)p->last_ns);
        }
        return s.to < INFINITY && s.from > 0 ? s : (struct stall){0, 0};
}

double capo_silent_at_end_ns(const struct capo_page *r)
{
        double ns = r->job->n_processes ? length_of(last_silence(r)) : 0;

        return ns >= SILENT_NS ? ns : 0;
}

void capo_judge_stalls(struct capo_page *r)
{
        const struct capo_job *job = r->job;
        const struct capo_job_process *first = job->processes;
        struct stall last = last_silence(r);
        uint32_t shown = 0;

        for (uint32_t i = 0; job->n_processes && i < first->still.n; i++) {
                struct stall s = silence_of(first, i);

                for (uint32_t k = 1; k < job->n_processes && length_of(s) >= STALL_NS; k++)
                        s = common_part(&job->processes[k], s);
                if (length_of(s) >= STALL_NS &&
                    length_of(s) > FAR_LONGER * (double)capo_silences_usual(&first->still) &&
                    !gpus_worked(r, length_of(s)) && (shown++ < STALLS_SHOWN || r->all))
                        report_stall(r, s, false);
        }
        if (job->n_processes && length_of(last) >= STALL_NS &&
            length_of(last) > FAR_LONGER * (double)capo_silences_usual(&first->still))
                report_stall(r, last, true);
}

/* The part of the stops of process @i, since the first communicator, before all other logs have
 * calls: whether the others waited then is not known. */
static double unseen_stops(const struct capo_job *job, uint32_t i)
{
        const struct capo_job_process *p = &job->processes[i];
        struct capo_stop stop[CAPO_STOPS_MOST];
        uint32_t n = capo_stops_of(p, stop, CAPO_STOPS_MOST);
        double known = 0, made = INFINITY, ns = 0;

        for (uint32_t k = 0; n && k < job->n_comms; k++)
                if (job->comms[k].n_members) /* none: of RAS or a dump */
                        made = fmin(made, (double)job->comms[k].members[0].t_created_ns);
        for (uint32_t k = 0; n && k < job->n_processes; k++) { /* of 10,000 logs few have stops */
                const struct capo_job_process *q = &job->processes[k];

                if (k != i)
                        known = fmax(known, (double)q->header.t0_real_ns + (double)q->first_ns);
        }
        for (uint32_t k = 0; k < n; k++)
                ns += fmax(0, fmin(stop[k].to, known) - fmax(stop[k].from, made));
        return ns;
}

double capo_unseen_waiting(const struct capo_page *r)
{
        const struct capo_job *job = r->job;
        double silent = 0, counted = 0, stopped = 0, n = job->n_processes;

        for (uint32_t i = 0; i < job->n_processes; i++) {
                const struct capo_silences *s = &job->processes[i].still;
                double usual = (double)capo_silences_usual(s);

                for (uint32_t k = 0; k < s->n && (double)s->v[k].ns > FAR_LONGER * usual; k++)
                        if (!gpus_worked(r, (double)s->v[k].ns) &&
                            !all_timed(r, (double)s->v[k].ns))
                                silent += ((double)s->v[k].ns - usual) / n * (1 - 1 / n);
                stopped += unseen_stops(job, i) * (1 - 1 / n);
        }
        for (uint32_t i = 0; i < job->n_comms; i++)
                counted += job->comms[i].skew ? job->comms[i].skew->long_ns / n : 0;
        return fmax(0, silent - counted) + stopped;
}

/* Calls that were not seen to end have no duration, so the time on the GPU leaves them out. In a
 * job that hung they can be most of it. This sums how long they had been there when each process
 * was seen last. */

/* Since when a call of @p has not been seen to end, in ns since the log's epoch; UINT64_MAX: none.
 */
static uint64_t unended_since(const struct capo_job_process *p)
{
        const char *line = capo_job_info(p, CAPO_INFO_UNFINISHED);
        const struct capo_job_call *last = &p->last_call;
        uint64_t since = UINT64_MAX;
        struct capo_unfinished_call u;
        bool idle = false;

        for (; line && *line; line += strcspn(line, "\n"), line += *line == '\n') {
                if (!capo_unfinished_read(line, &u))
                        continue;
                idle |= u.where == CAPO_UNFINISHED_IDLE && u.record.comm == last->comm;
                if ((u.where == CAPO_UNFINISHED_HOST || u.where == CAPO_UNFINISHED_ENDS ||
                     u.where == CAPO_UNFINISHED_RUNNING || u.where == CAPO_UNFINISHED_BUSY) &&
                    u.record.t_begin < since)
                        since = u.record.t_begin;
        }
        if (since == UINT64_MAX && last->call && !idle && last->clock != CAPO_CLOCK_EVENT &&
            last->clock != CAPO_CLOCK_KERNEL && capo_call_kind(last->call) != CAPO_KIND_OTHER)
                since = last->t_begin;
        return since;
}

double capo_unended_share(const struct capo_job *job)
{
        double all = (double)capo_job_duration_ns(job) * job->n_processes, sum = 0;

        for (uint32_t i = 0; i < job->n_processes; i++) {
                const struct capo_job_process *p = &job->processes[i];
                const char *status = capo_job_info(p, CAPO_INFO_EXIT);
                uint64_t since;

                if (capo_process_ended(job, p) && (!status || !strcmp(status, "0")))
                        continue;
                since = unended_since(p);
                if (since < p->last_ns)
                        sum += (double)(p->last_ns - since);
        }
        return all > 0 ? fmin(1, sum / all) : 0;
}
