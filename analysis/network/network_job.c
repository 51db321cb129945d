/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "core/base/util.h"
#include "analysis/network/network_parts.h"

int capo_fabric_job_new(const struct capo_job *job, struct capo_fabric_job **out)
{
        _cleanup_(capo_fabric_job_freep) struct capo_fabric_job *f = calloc(1, sizeof *f);
        bool any = false;
        int r;

        if (!f ||
            !(f->process = calloc(job->n_processes ? job->n_processes : 1, sizeof *f->process)))
                return -ENOMEM;
        f->n_processes = job->n_processes;
        for (uint32_t p = 0; p < job->n_processes; p++) {
                if (!job->processes[p].fabric)
                        continue;
                r = capo_fabric_parse(job->processes[p].fabric, &f->process[p]);
                if (r < 0)
                        return r;
                any |= f->process[p]->n_domains > 0;
        }
        if (!any) {
                *out = NULL;
                return 0;
        }
        r = fabric_links_make(f, job);
        if (r == 0)
                r = fabric_shares_make(f, job);
        if (r < 0)
                return r;
        *out = steal(&f);
        return 0;
}

void capo_fabric_job_free(struct capo_fabric_job *f)
{
        if (!f)
                return;
        for (uint32_t p = 0; f->process && p < f->n_processes; p++)
                capo_fabric_free(f->process[p]);
        free(f->process);
        free(f->links);
        free(f->shares);
        free(f);
}
