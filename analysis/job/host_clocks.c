/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Corrects clocks of hosts that are minutes or hours apart: nobody set them, or one runs on local
 * time. Uncorrected, such a job would last from its begin by one clock to its end by another, and
 * all shares of its time would be wrong. The only evidence is communicator creation: on no rank
 * does it return before all ranks have entered it, and on all ranks it returns within moments. A
 * difference above APART_NS is the clocks'. A smaller one is ignored, because the call itself takes
 * time.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/util.h"
#include "core/base/xalloc.h"
#include "core/log/alive.h"
#include "analysis/job/stats_private.h"
#include "core/log/info.h"

#define APART_NS 60000000000

/* The clock of one booted kernel. */
struct clock {
        int64_t ahead_ns;     /* compared with the first clock */
        uint64_t creation_ns; /* creation of the communicator in question; the latest on this clock
                               */
        bool known;
};

/* The reference clock: this machine's if the job ran here, because live processes may be shown too;
 * else the first. */
static uint32_t first_clock(const struct capo_job *job)
{
        char here[64] = "";

        capo_alive_text("/proc/sys/kernel/random/boot_id", here, sizeof here);
        for (uint32_t i = 0; i < job->n_processes && *here; i++) {
                const char *boot = capo_job_info(&job->processes[i], CAPO_INFO_BOOT_ID);

                if (boot && !strcmp(boot, here))
                        return job->processes[i].clock;
        }
        return job->processes[0].clock;
}

static struct clock *clock_of(const struct capo_job *job, const struct capo_job_member *m,
                              struct clock *clocks)
{
        return &clocks[job->processes[m->process].clock];
}

/* When the creation of @c returned, by clock. False: not usable, because this creation does not
 * wait for all ranks. */
static bool set_init_times(const struct capo_job *job, const struct capo_job_comm *c,
                           struct clock *clocks)
{
        for (uint32_t k = 0; k < c->n_members; k++) {
                if (c->members[k].flags & CAPO_COMM_NONBLOCKING)
                        return false;
                clock_of(job, &c->members[k], clocks)->creation_ns = 0;
        }
        for (uint32_t k = 0; k < c->n_members; k++) {
                struct clock *clock = clock_of(job, &c->members[k], clocks);

                clock->creation_ns = c->members[k].t_created_ns > clock->creation_ns
                                             ? c->members[k].t_created_ns
                                             : clock->creation_ns;
        }
        return true;
}

/* Use one communicator: if one of its clocks is known, set the others. Return: was one set? */
static bool align_clocks(const struct capo_job *job, const struct capo_job_comm *c,
                         struct clock *clocks)
{
        const struct clock *by = NULL;
        bool any_set = false;

        if (c->n_members < 2 || !set_init_times(job, c, clocks))
                return false;
        for (uint32_t k = 0; k < c->n_members && !by; k++)
                by = clock_of(job, &c->members[k], clocks)->known
                             ? clock_of(job, &c->members[k], clocks)
                             : NULL;
        for (uint32_t k = 0; by && k < c->n_members; k++) {
                struct clock *clock = clock_of(job, &c->members[k], clocks);
                int64_t ahead =
                        (int64_t)(clock->creation_ns - by->creation_ns + (uint64_t)by->ahead_ns);

                if (clock->known)
                        continue;
                clock->ahead_ns = ahead > APART_NS || ahead < -APART_NS ? ahead : 0;
                clock->known = any_set = true;
        }
        return any_set;
}

void job_set_clocks(struct capo_job *job)
{
        _cleanup_free_ struct clock *clocks = xcalloc(job->n_clocks + 1, sizeof *clocks);

        if (job->n_clocks < 2)
                return;
        job->clock = first_clock(job);
        clocks[job->clock].known = true;
        for (bool any_set = true; any_set;) {
                any_set = false;
                for (uint32_t i = 0; i < job->n_comms; i++)
                        any_set |= align_clocks(job, &job->comms[i], clocks);
        }
        for (uint32_t i = 0; i < job->n_processes; i++) {
                struct capo_job_process *p = &job->processes[i];

                p->ahead_ns = clocks[p->clock].ahead_ns;
                p->header.t0_real_ns -= (uint64_t)p->ahead_ns;
        }
        for (uint32_t i = 0; i < job->n_comms; i++) {
                for (uint32_t k = 0; k < job->comms[i].n_members; k++) {
                        struct capo_job_member *m = &job->comms[i].members[k];
                        uint64_t ahead = (uint64_t)job->processes[m->process].ahead_ns;

                        m->t_created_ns -= ahead;
                        m->t_destroyed_ns -= m->t_destroyed_ns ? ahead : 0;
                }
        }
}
