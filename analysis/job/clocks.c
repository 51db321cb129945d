/* SPDX-License-Identifier: Apache-2.0 */
/* See the header. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "core/base/util.h"
#include "analysis/job/clocks.h"

double capo_clocks_ns(const struct capo_clocks *s, uint32_t process, uint64_t t)
{
        return s->processes[process].offset + (double)t * s->processes[process].scale;
}

/* All processes of a host use the host's first process' idea of what CLOCK_MONOTONIC is in real
 * time. */
static void clocks_of_processes(struct capo_clocks *s)
{
        for (uint32_t i = 0; i < s->job->n_processes; i++) {
                const struct capo_job_process *p = &s->job->processes[i], *first = p;
                struct capo_process_clock *c = &s->processes[i];

                for (uint32_t k = 0; k < i; k++) {
                        if (s->job->processes[k].clock == p->clock) {
                                first = &s->job->processes[k];
                                break;
                        }
                }
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

int capo_clocks_make(struct capo_clocks *c, const struct capo_job *job,
                     struct capo_meet *const *meets)
{
        *c = (struct capo_clocks){.job = job,
                                  .meets = meets,
                                  .processes = calloc(job->n_processes + 1, sizeof *c->processes)};
        if (!c->processes)
                return -ENOMEM;
        clocks_of_processes(c);
        return 0;
}

void capo_clocks_finish(struct capo_clocks *c)
{
        free(c->processes);
}
