/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's report of what it is about to run: the Coll event of its profiler interface, in any
 * version. It uses the adapters of the profiler plugin (tuner/profiler/profiler_vN.c) with the
 * function below. Only that event is requested, and the event of copy engines in its place. It
 * arrives on the thread that called the collective. */
#include "core/base/calls.h"
#include "profiles/plan/virtual/virtual.h"
#include "tuner/profiler/profiler.h"

static struct capo_profiler profiler;
static char
        handle; /* of every event: 2.23 to 2.26 report no Coll inside a Group with handle NULL */

capo_nccl_result capo_profiler_open(const struct capo_profiler_info *info,
                                    struct capo_profiler **out, int *mask)
{
        plan_job->profiler_abi = info->abi;
        *out = &profiler;
        *mask = CAPO_EVENT_COLL | (info->abi >= 6 ? CAPO_EVENT_CE_COLL : 0);
        return CAPO_NCCL_SUCCESS;
}

capo_nccl_result capo_profiler_start(struct capo_profiler *p, void **event,
                                     struct capo_profiler_event *e)
{
        *event = &handle;
        if (e->type == CAPO_EVENT_CE_COLL && plan_seen && plan_seen->row)
                plan_seen->row->kernel = e->ran.algo_proto;
        if (e->type == CAPO_EVENT_COLL && plan_seen) {
                bool of_table = !capo_ran_beside(e->ran.algo_proto);

                plan_seen->algo = of_table ? (e->ran.algo_proto >> 4) - 1 : -1;
                plan_seen->proto = of_table ? (e->ran.algo_proto & 15) - 1 : -1;
                plan_seen->channels = e->ran.channels; /* v1 to v3 report the maximum, later
                                                          versions the actual number */
        }
        return CAPO_NCCL_SUCCESS;
}

capo_nccl_result capo_profiler_stop(void *event) { return CAPO_NCCL_SUCCESS; }

capo_nccl_result capo_profiler_state(void *event, int state, const void *args)
{
        return CAPO_NCCL_SUCCESS;
}

capo_nccl_result capo_profiler_finish(void *context) { return CAPO_NCCL_SUCCESS; }
