/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps are timed by host calls. A host that runs ahead of its GPU makes the calls of many steps,
 * or of many buckets of one step, in a burst. The repeats are then as long as it takes to enqueue
 * them, which is no step time. A real step lasts at least as long as one of its calls on the GPU,
 * except for a few steps at the start of a job.
 */
#include <stdlib.h>

#include "analysis/steps/steps_job_parts.h"

static int compare_place(const void *key, const void *step)
{
        const uint64_t t = *(const uint64_t *)key;
        const struct capo_step *s = step;

        return t < s->t_ns ? -1 : t >= s->t_ns + s->ns;
}

/* The median GPU time of the shortest calls of a step, over the job; 0: not known. */
static double shortest_on_gpu(const struct capo_job *job, const struct capo_steps *s)
{
        double least_ns = 0;

        for (uint32_t i = 0; i < s->n_parts; i++) {
                for (uint32_t k = 0; k < job->n_rows; k++) {
                        const struct capo_job_row *r = &job->rows[k];
                        double ns = capo_hist_quantile(&r->time[CAPO_CLOCK_EVENT], 0.5);

                        if (r->comm + 1 == s->part[i].comm && r->call == s->part[i].call &&
                            r->bytes == s->part[i].bytes && ns > 0 &&
                            (least_ns == 0 || ns < least_ns))
                                least_ns = ns;
                }
        }
        return least_ns;
}

bool steps_ran_ahead(const struct capo_job *job, const struct step_log *log,
                     const struct capo_steps *s)
{
        uint32_t timed = 0, longer = 0;

        for (uint32_t i = 0; i < log->n_spans && s->n; i++) {
                const struct capo_gpu_span *g = &log->span[i];
                const struct capo_step *in = g->measured ? bsearch(&g->host_begin, s->step, s->n,
                                                                   sizeof *s->step, compare_place)
                                                         : NULL;

                timed += in != NULL;
                longer += in && g->gpu_ns > in->ns;
        }
        return timed ? 2 * longer > timed : s->n_plain && s->p50_ns < shortest_on_gpu(job, s);
}
