/* SPDX-License-Identifier: Apache-2.0 */
/* See the header. */
#include <math.h>

#include "core/base/xalloc.h"
#include "analysis/job/clocks.h"

double capo_clocks_ns(const struct capo_clocks *s, uint32_t process, uint64_t t)
{
        return s->processes[process].offset + (double)t * s->processes[process].scale;
}

/* A host's processes take CLOCK_MONOTONIC with the real time that its first one recorded. */
void capo_clocks_make(struct capo_clocks *s, const struct capo_job *job,
                      struct capo_meet *const *meets)
{
        _cleanup_free_ uint32_t *first_of = xcalloc(job->n_clocks + 1, sizeof *first_of);

        *s = (struct capo_clocks){.job = job,
                                  .meets = meets,
                                  .processes = xcalloc(job->n_processes + 1, sizeof *s->processes)};
        for (uint32_t i = 0; i < job->n_processes; i++) {
                const struct capo_job_process *p = &job->processes[i], *first;
                double scale = 1;

                if (!first_of[p->clock])
                        first_of[p->clock] = i + 1;
                first = &job->processes[first_of[p->clock] - 1];
                if (p->has_end && p->end.t_ns > 1000000000 && p->end.mono_ns > p->header.t0_mono_ns)
                        scale = (double)(p->end.mono_ns - p->header.t0_mono_ns) /
                                (double)p->end.t_ns;
                s->processes[i] = (struct capo_process_clock){
                        .scale = fabs(scale - 1) < 1e-3 ? scale : 1,
                        .offset =
                                (double)(int64_t)(p->header.t0_mono_ns - first->header.t0_mono_ns) +
                                (double)(int64_t)(first->header.t0_real_ns - job->t_begin_ns)};
        }
}

void capo_clocks_finish(struct capo_clocks *c) { free(c->processes); }
