/* SPDX-License-Identifier: Apache-2.0 */
/* See the header. */
#include <math.h>

#include "core/base/xalloc.h"
#include "analysis/job/clocks.h"

double capo_clocks_ns(const struct capo_clocks *s, uint32_t process, uint64_t t)
{
        return s->processes[process].offset + (double)t * s->processes[process].scale;
}

/* For all processes of a host, CLOCK_MONOTONIC is converted with the real time that the host's
 * first process recorded. */
static void clocks_of_processes(struct capo_clocks *s, uint32_t *first_of)
{
        for (uint32_t i = 0; i < s->job->n_processes; i++) {
                const struct capo_job_process *p = &s->job->processes[i], *first;
                struct capo_process_clock *c = &s->processes[i];

                if (!first_of[p->clock])
                        first_of[p->clock] = i + 1;
                first = &s->job->processes[first_of[p->clock] - 1];
                c->scale = 1;
                if (p->has_end && p->end.t_ns > 1000000000 &&
                    p->end.mono_ns > p->header.t0_mono_ns) {
                        double scale = (double)(p->end.mono_ns - p->header.t0_mono_ns) /
                                       (double)p->end.t_ns;

                        if (fabs(scale - 1) < 1e-3)
                                c->scale = scale;
                }
                c->offset = (double)(int64_t)(p->header.t0_mono_ns - first->header.t0_mono_ns) +
                            (double)(int64_t)(first->header.t0_real_ns - s->job->t_begin_ns);
        }
}

void capo_clocks_make(struct capo_clocks *c, const struct capo_job *job,
                      struct capo_meet *const *meets)
{
        _cleanup_free_ uint32_t *first_of = xcalloc(job->n_clocks + 1, sizeof *first_of);

        *c = (struct capo_clocks){.job = job,
                                  .meets = meets,
                                  .processes = xcalloc(job->n_processes + 1, sizeof *c->processes)};
        clocks_of_processes(c, first_of);
}

void capo_clocks_finish(struct capo_clocks *c) { free(c->processes); }
