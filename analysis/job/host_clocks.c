/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts whose clocks are minutes or hours apart: nobody set them, or one is in another time zone's
 * local time. Taken as they are, such a job lasts from the beginning by one clock to the end by
 * another, and every part of it is a part of hours that were not. Of how far they are apart only
 * one thing tells: the call that makes a communicator returns on no rank before all have entered
 * it, and no later than moments after that. So what is beyond APART_NS is the clocks'; less is
 * taken for nothing, because the call takes its time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util.h"
#include "core/log/alive.h"
#include "analysis/job/stats_private.h"
#include "core/log/info.h"

#define APART_NS 60000000000

/* One kernel's clock. */
struct clock {
        int64_t ahead_ns;  /* of the first one's */
        uint64_t birth_ns; /* of the communicator that is looked at: the last on this clock */
        bool known;
};

/* The clock that others are set by: this machine's, where the page may tell of the living beside
 * the dead; else the first. */
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

/* When the making of @c returned, by clock. False: that says nothing, because it does not wait. */
static bool set_init_times(const struct capo_job *job, const struct capo_job_comm *c,
                           struct clock *clocks)
{
        for (uint32_t k = 0; k < c->n_members; k++) {
                if (c->members[k].flags & CAPO_COMM_NONBLOCKING)
                        return false;
                clock_of(job, &c->members[k], clocks)->birth_ns = 0;
        }
        for (uint32_t k = 0; k < c->n_members; k++) {
                struct clock *clock = clock_of(job, &c->members[k], clocks);

                clock->birth_ns = c->members[k].t_birth_ns > clock->birth_ns
                                          ? c->members[k].t_birth_ns
                                          : clock->birth_ns;
        }
        return true;
}

/* What a communicator tells: where one clock of it is known, the others are. Return: one is now
 * that was not. */
static bool align_clocks(const struct capo_job *job, const struct capo_job_comm *c,
                         struct clock *clocks)
{
        const struct clock *by = NULL;
        bool told = false;

        if (c->n_members < 2 || !set_init_times(job, c, clocks))
                return false;
        for (uint32_t k = 0; k < c->n_members && !by; k++)
                by = clock_of(job, &c->members[k], clocks)->known
                             ? clock_of(job, &c->members[k], clocks)
                             : NULL;
        for (uint32_t k = 0; by && k < c->n_members; k++) {
                struct clock *clock = clock_of(job, &c->members[k], clocks);
                int64_t ahead = (int64_t)(clock->birth_ns - by->birth_ns + (uint64_t)by->ahead_ns);

                if (clock->known)
                        continue;
                clock->ahead_ns = ahead > APART_NS || ahead < -APART_NS ? ahead : 0;
                clock->known = told = true;
        }
        return told;
}

int job_set_clocks(struct capo_job *job)
{
        _cleanup_free_ struct clock *clocks = calloc(job->n_clocks + 1, sizeof *clocks);

        if (!clocks)
                return -ENOMEM;
        if (job->n_clocks < 2)
                return 0;
        job->clock = first_clock(job);
        clocks[job->clock].known = true;
        for (bool told = true; told;) {
                told = false;
                for (uint32_t i = 0; i < job->n_comms; i++)
                        told |= align_clocks(job, &job->comms[i], clocks);
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

                        m->t_birth_ns -= ahead;
                        m->t_death_ns -= m->t_death_ns ? ahead : 0;
                }
        }
        return 0;
}
