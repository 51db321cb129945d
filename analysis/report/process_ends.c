/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a process of a job still runs, and where. */
#include <signal.h>

#include "core/base/clock.h"
#include "core/log/alive.h"
#include "core/log/info.h"
#include "analysis/report/job_judge.h"

bool capo_process_of_here(const struct capo_job_process *p)
{
        const char *boot = capo_job_info(p, CAPO_INFO_BOOT_ID);
        char host[256] = "", here[64] = "";

        gethostname(host, sizeof host - 1);
        capo_alive_text("/proc/sys/kernel/random/boot_id", here, sizeof here);
        return !strcmp(host, p->host) && (!boot || !*here || !strcmp(boot, here));
}

bool capo_process_away(const struct capo_job_process *p)
{
        char host[256] = "";

        gethostname(host, sizeof host - 1);
        return p->end.clean != 2 && strcmp(host, p->host) != 0;
}

/* Process ids are reused: did this one begin after the log did? */
static bool began_later(const struct capo_job_process *p, uint64_t since)
{
        uint64_t mono = capo_clock_mono(),
                 asleep = capo_clock_of(CLOCK_BOOTTIME) - mono; /* at most, since boot */
        long ticks = sysconf(_SC_CLK_TCK);
        double began_ns = ticks > 0 ? (double)since * 1e9 / (double)ticks : 0;

        return began_ns > (double)p->header.t0_mono_ns + (double)asleep + 1e9;
}

bool capo_process_alive(const struct capo_job_process *p)
{
        pid_t pid = (pid_t)p->header.pid;
        uint64_t since;
        int r;

        if (p->end.clean == 2 || pid <= 0 || !capo_process_of_here(p))
                return false;
        r = kill(pid, 0);
        if (r && errno != EPERM)
                return false;
        since = capo_alive_since(pid);
        return since ? !began_later(p, since) : r != 0; /* /proc may hide other users' processes */
}

bool capo_process_ended(const struct capo_job *job, const struct capo_job_process *p)
{
        uint32_t seen = 0;

        if (!p->has_end || p->end.clean != 2)
                return p->has_end && p->end.clean;
        for (uint32_t i = 0; i < job->n_comms; i++) {
                for (uint32_t k = 0; k < job->comms[i].n_members; k++) {
                        const struct capo_job_member *m = &job->comms[i].members[k];

                        if (&job->processes[m->process] != p)
                                continue;
                        if (!m->t_destroyed_ns)
                                return false;
                        seen++;
                }
        }
        return seen > 0;
}
