/* SPDX-License-Identifier: Apache-2.0 */
/* A tuner plugin that changes nothing: it notes what NCCL passes to a tuner at init, and the table
 * of predicted times per collective. With another plugin (job->wrapped) it forwards every call and
 * notes the result. That plugin is looked up as NCCL would, newest ABI first, starting with the one
 * that NCCL used for us.
 *
 * It uses the adapters of the tuner plugin (tuner/abi/tuner_vN.c) with the functions below: no
 * communicator is "plain", so every question reaches capo_mark_considered() or
 * capo_name_considered(). */
#include <dlfcn.h>

#include "profiles/plan/virtual/virtual.h"
#include "profiles/plan/virtual/virtual_job.h"
#include "tuner/choose.h"
#include "tuner/other.h"

const char capo_plugin_name[] = "capo-plan-spy";

struct spy {
        struct capo_tuner tuner; /* used by the adapters */
        struct capo_other other;
};

/* the other plugin, looked up once per process */
static struct capo_other wrapped;

static void find_other(int abi)
{
        void *handle;

        if (wrapped.abi || !plan_job->wrapped[0])
                return;
        handle = dlopen(plan_job->wrapped, RTLD_NOW | RTLD_LOCAL);
        if (!handle)
                plan_fail("tuner %s cannot be loaded: %s", plan_job->wrapped, dlerror());
        else if (capo_other_find(handle, abi, &wrapped) != CAPO_PLUGIN_FOUND)
                plan_fail("tuner %s offers no interface that this NCCL loads (v%d or older)",
                          plan_job->wrapped, abi);
}

static void record_tuner_info(const struct capo_tuner_info *info)
{
        plan_job->reported =
                (struct capo_plan_reported){.abi = info->abi,
                                            .n_ranks = (int)info->n_ranks,
                                            .n_nodes = (int)info->n_nodes,
                                            .nvl_domains = info->nvl ? info->nvl->n_domains : -1,
                                            .nvl_min = info->nvl ? info->nvl->min_ranks : -1,
                                            .nvl_max = info->nvl ? info->nvl->max_ranks : -1,
                                            .n_constants = info->constants ? 144 : 0};
        if (info->constants)
                memcpy(plan_job->reported.constants, info->constants,
                       sizeof plan_job->reported.constants);
}

capo_nccl_result capo_tuner_open(const struct capo_tuner_info *info, struct capo_tuner **out)
{
        struct spy *spy = aligned_alloc(64, (sizeof *spy + 63) / 64 * 64);
        capo_nccl_result r;

        if (!spy)
                return CAPO_NCCL_SYSTEM_ERROR;
        record_tuner_info(info);
        find_other(info->abi);
        *spy = (struct spy){.other = wrapped};
        r = capo_other_open(&spy->other, info);
        if (r)
                free(spy);
        else
                *out = &spy->tuner;
        return r;
}

capo_nccl_result capo_tuner_close(void *tuner)
{
        struct spy *spy = tuner;
        capo_nccl_result r = spy ? capo_other_close(&spy->other) : CAPO_NCCL_SUCCESS;

        free(spy);
        return r;
}

static void note_table(float to[CAPO_PLAN_ALGOS][CAPO_PLAN_PROTOS], const float *table, int n_algo,
                       int n_proto)
{
        for (int a = 0; a < n_algo && a < CAPO_PLAN_ALGOS; a++) {
                for (int p = 0; p < n_proto && p < CAPO_PLAN_PROTOS; p++)
                        to[a][p] = table[a * n_proto + p];
        }
}

static struct capo_plan_row *row_now(void) { return plan_seen ? plan_seen->row : NULL; }

capo_nccl_result capo_mark_considered(const struct capo_tuner *t, int func, size_t bytes,
                                      int pipe_ops, float *table, int n_algos, int n_protos,
                                      int reg_buff, int *channels)
{
        struct capo_plan_row *row = row_now();
        capo_nccl_result r;

        if (row) {
                row->reported_bytes = bytes;
                row->n_algo = (uint8_t)(n_algos < CAPO_PLAN_ALGOS ? n_algos : CAPO_PLAN_ALGOS);
                row->n_proto = (uint8_t)(n_protos < CAPO_PLAN_PROTOS ? n_protos : CAPO_PLAN_PROTOS);
                row->pipe_ops = pipe_ops;
                row->reg_buff = reg_buff > 0 ? reg_buff : 0;
                note_table(row->cost, table, n_algos, n_protos);
        }
        r = capo_other_mark(&((struct spy *)t)->other, func, bytes, pipe_ops, table, n_algos,
                            n_protos, reg_buff, channels);
        if (row) {
                note_table(row->cost_after, table, n_algos, n_protos);
                row->tuner_channels = *channels;
        }
        return r;
}

capo_nccl_result capo_name_considered(const struct capo_tuner *t, int func, size_t bytes,
                                      int collnet, int nvls, int pipe_ops, int *algo, int *proto,
                                      int *channels)
{
        struct capo_plan_row *row = row_now();
        capo_nccl_result r = capo_other_name(&((struct spy *)t)->other, func, bytes, collnet, nvls,
                                             pipe_ops, algo, proto, channels);

        if (plan_seen && r == 0 && *algo >= 0 &&
            *proto >= 0) { /* both set: NCCL runs them unchecked */
                plan_seen->algo = *algo;
                plan_seen->proto = *proto;
        }
        if (row) {
                row->reported_bytes = bytes;
                row->pipe_ops = pipe_ops;
                row->tuner_channels = *channels;
        }
        return r;
}

void capo_tuner_chunk(const struct capo_tuner *t, int func, size_t bytes, int algo, int proto,
                      int channels, size_t *chunk)
{
        struct capo_plan_row *row = row_now();
        size_t own = *chunk;

        capo_other_chunk(&((struct spy *)t)->other, func, bytes, algo, proto, channels, chunk);
        if (row && !row->chunk) {
                row->chunk = (uint32_t)own;
                row->tuner_chunk = (uint32_t)*chunk;
        }
}

/* Never called: it is for plain communicators. */
capo_nccl_result capo_mark_looked_up(const struct capo_tuner *t, const struct capo_table *rows,
                                     size_t bytes, float *table, int n_algos, int *channels)
{
        return CAPO_NCCL_SUCCESS;
}

capo_nccl_result capo_name_looked_up(const struct capo_tuner *t, int func, size_t bytes, int nvls,
                                     int *algo, int *proto, int *channels)
{
        return CAPO_NCCL_SUCCESS;
}

capo_nccl_result capo_tuner_decided(const struct capo_tuner *t, uint32_t word)
{
        return CAPO_NCCL_SUCCESS;
}
