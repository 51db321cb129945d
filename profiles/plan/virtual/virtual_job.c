/* SPDX-License-Identifier: Apache-2.0 */
/* What all workers share: the question, and why it cannot be answered. */
#include <pthread.h>

#include "core/base/among.h"
#include "profiles/plan/virtual/virtual.h"
#include "profiles/plan/virtual/virtual_job.h"

struct plan_job *plan_job;
const struct plan_machine *plan_machine;
uint32_t plan_node;

static pthread_mutex_t saying =
        PTHREAD_MUTEX_INITIALIZER; /* held from the claim until the error text is complete */

void plan_fail(const char *format, ...)
{
        uint32_t first = PLAN_FAILED_NOT;
        va_list args;

        pthread_mutex_lock(&saying);
        if (atomic_compare_exchange_strong(&plan_job->failed, &first, PLAN_FAILED_SAYING)) {
                va_start(args, format);
                vsnprintf(plan_job->error, sizeof plan_job->error, format, args);
                va_end(args);
                atomic_store(&plan_job->failed, PLAN_FAILED);
        }
        pthread_mutex_unlock(&saying);
}

void plan_fail_wait(void)
{
        pthread_mutex_lock(&saying);
        pthread_mutex_unlock(&saying);
}

int plan_gap(const char *name)
{
        uint32_t n = atomic_load(&plan_job->n_gaps), most = N_ELEMENTS(plan_job->gaps);

        if (ANY_OF(gap, plan_job->gaps, n < most ? n : most, !strcmp(*gap, name)))
                return 801;
        n = atomic_fetch_add(&plan_job->n_gaps, 1);
        if (n < most)
                snprintf(plan_job->gaps[n], sizeof plan_job->gaps[n], "%s", name);
        return 801;
}
