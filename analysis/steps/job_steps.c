/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/job/gpu_spans.h"
#include "analysis/steps/job_steps.h"
#include "analysis/steps/steps_job_parts.h"
#include "core/base/calls.h"

/* Limits: calls of the main rank; calls of each other rank; number of other ranks. */
enum { CALLS_MOST = 1 << 18, OTHERS_MOST = 1 << 15, ASKED = 4 };
#define ALIKE   0.02 /* two ranks agree if their steps differ by no more */
#define COVERED 0.8  /* of the job's time: then figures of the job are taken for its steps */

/* Mean duration of a step over all that were seen. */
static double step_ns(const struct capo_steps *s)
{
        uint64_t ns = 0;

        for (uint32_t i = 0; i < s->n; i++)
                ns += s->step[i].ns;
        return s->n ? (double)ns / s->n : 0;
}

/* Choose the rank whose log is read in full: the first one that more than half of the examined
 * ranks agree with. It is @out->process.
 * Return: 0; -errno. */
static void ask_ranks(const struct capo_job *job, struct capo_job_steps *out)
{
        uint32_t process[ASKED], n = job->n_processes < ASKED ? job->n_processes : ASKED;
        double ns[ASKED] = {0}, steps[ASKED] = {0};
        enum capo_steps_known known[ASKED] = {0};
        uint32_t best = 0;

        out->process = 0;
        for (uint32_t i = 0; i < n; i++) {
                struct capo_steps s;
                struct step_log log;

                process[i] = (uint32_t)((uint64_t)i * (job->n_processes - 1) / (n > 1 ? n - 1 : 1));
                step_log_read(job, process[i], OTHERS_MOST, false, &log);
                capo_steps_find(log.call, log.n, &s);
                known[i] = s.known;
                ns[i] = s.known ? step_ns(&s) : 0;
                steps[i] = s.n;
                capo_steps_finish(&s);
                step_log_free(&log);
        }
        out->asked = n;
        for (uint32_t i = 0; i < n; i++) {
                uint32_t agree = 0;

                for (uint32_t k = 0; k < n; k++)
                        agree += ns[i] > 0 && ns[k] > 0 &&
                                 fabs(ns[k] / ns[i] - 1) <= ALIKE + 2 / fmin(steps[i], steps[k]);
                if (agree > out->agree || (agree == out->agree && known[i] > known[best])) {
                        out->agree = agree;
                        out->process = process[i];
                        best = i;
                }
        }
}

/* How often one rank made the calls of a part in the whole job; 0: not known. */
static uint64_t count_part(const struct capo_job *job, const struct capo_step_part *p)
{
        uint64_t count = 0;

        if (!capo_call_is_collective(p->call) || p->comm == CAPO_NO_COMM)
                return 0;
        for (uint32_t i = 0; i < job->n_rows; i++) {
                const struct capo_job_row *r = &job->rows[i];

                if (r->comm == p->comm && r->call == p->call &&
                    (p->varies || r->bytes == p->bytes) && !(r->flags & CAPO_RECORD_CAPTURED))
                        count += r->count;
        }
        return count;
}

/* Evaluations contain some of the calls too, so the part with the fewest calls gives the number of
 * steps. */
static void count_steps(const struct capo_job *job, struct capo_job_steps *s)
{
        uint64_t least = 0;

        for (uint32_t i = 0; i < s->steps.n_parts; i++) {
                uint64_t steps = count_part(job, &s->steps.part[i]) / s->steps.part[i].count;

                least = steps && (!least || steps < least) ? steps : least;
        }
        if (least > s->steps.n)
                s->total = least;
        else
                s->total = least || s->whole ? s->steps.n : 0;
}

/* Share of plain steps with at least one call on the GPU. */
static double share_on_gpu(const struct capo_steps *s, const struct step_log *log)
{
        uint64_t until = 0, all = 0, on = 0;
        uint32_t at = 0;
        bool timed = false;

        for (uint32_t i = 0; i < log->n_spans; i++)
                timed |= log->span[i].measured;
        for (uint32_t i = 0; timed && i < s->n; i++) {
                uint64_t begin = s->step[i].t_ns, end = begin + s->step[i].ns;

                if (!s->step[i].plain || begin < log->span[0].begin ||
                    end > log->span[log->n_spans - 1].end)
                        continue; /* or it is not among the calls with a span */
                all += end - begin;
                for (; at < log->n_spans && log->span[at].begin < end; at++) {
                        const struct capo_gpu_span *g = &log->span[at];
                        uint64_t from = g->begin > until ? g->begin : until;
                        uint64_t to = g->end < end ? g->end : end;

                        from = from < begin ? begin : from;
                        on += g->gpu_ns && to > from ? to - from : 0;
                        until = g->gpu_ns && g->end > until ? g->end : until;
                }
        }
        return timed && all ? fmin(1, (double)on / (double)all) : -1;
}

/* Waiting for late ranks is known only for the whole job. It is used for the steps if they cover
 * nearly all of it. */
static double share_waiting(const struct capo_job *job, const struct capo_job_steps *s)
{
        double duration = (double)capo_job_duration_ns(job), sum = 0;
        double stepping = (double)s->total * step_ns(&s->steps); /* 0: number of steps not known */

        for (uint32_t i = 0; i < job->n_comms; i++) {
                const struct capo_skew *k = job->comms[i].skew;

                if (k && k->wait_share < 0)
                        return -1;
                sum += k ? k->wait_share : 0;
        }
        return stepping >= COVERED * duration ? fmin(1, sum * duration / stepping) : -1;
}

/* Does the log have every call of the process? */
static bool is_whole(const struct capo_job_process *p)
{
        return p->n_records >= p->end.calls && p->n_records <= CALLS_MOST;
}

static void find_rank_steps(const struct capo_job *job, struct step_log *log,
                            struct capo_job_steps *s)
{
        step_log_read(job, s->process, CALLS_MOST, true, log);
        capo_steps_find(log->call, log->n, &s->steps);
        if (s->steps.known != CAPO_STEPS_NONE && steps_ran_ahead(job, log, &s->steps)) {
                capo_steps_finish(&s->steps);
                s->ran_ahead = true;
                snprintf(s->steps.why, sizeof s->steps.why,
                         "calls were made ahead of the GPU, faster than it runs them");
                return;
        }
        if (s->steps.known == CAPO_STEPS_NONE && log->captured)
                snprintf(s->steps.why, sizeof s->steps.why,
                         "calls are in CUDA graphs, and nobody sees when these run");
        else if (s->steps.known == CAPO_STEPS_NONE && !log->n)
                snprintf(s->steps.why, sizeof s->steps.why, "the logs keep no single calls");
        else if (s->steps.known == CAPO_STEPS_NONE && !is_whole(&job->processes[s->process]))
                snprintf(s->steps.why + strlen(s->steps.why),
                         sizeof s->steps.why - strlen(s->steps.why),
                         " in the last %u that the log has", log->n);
        if (s->steps.known == CAPO_STEPS_FOUND && 2 * s->agree <= s->asked) {
                s->steps.known = CAPO_STEPS_UNCERTAIN;
                snprintf(s->steps.why, sizeof s->steps.why,
                         "of %u ranks looked at, %u have steps of this length", s->asked, s->agree);
        }
        for (uint32_t i = 0; i < s->steps.n_parts;
             i++) /* from job->comms numbers plus 1 to indices */
                s->steps.part[i].comm =
                        s->steps.part[i].comm ? s->steps.part[i].comm - 1 : CAPO_NO_COMM;
}

int capo_job_steps(const struct capo_job *job, struct capo_job_steps *s)
{
        struct step_log log = {0};

        *s = (struct capo_job_steps){.nccl_share = -1, .wait_share = -1};
        if (!job->n_processes)
                return 0;
        ask_ranks(job, s);
        find_rank_steps(job, &log, s);
        if (s->steps.known != CAPO_STEPS_NONE) {
                s->whole = is_whole(&job->processes[s->process]);
                count_steps(job, s);
                s->nccl_share = share_on_gpu(&s->steps, &log);
                s->wait_share = share_waiting(job, s);
                job_slow_steps(job, &log, s);
        }
        step_log_free(&log);
        return 0;
}

void capo_job_steps_finish(struct capo_job_steps *s)
{
        capo_steps_finish(&s->steps);
        *s = (struct capo_job_steps){0};
}
