/* SPDX-License-Identifier: Apache-2.0 */
/* One process-wide object, found once, and one context per communicator. */

#include "capo/env.h"
#include "capo/msg.h"
#include "core/base/lock.h"
#include "core/base/util.h"
#include "tuner/chain.h"
#include "tuner/plugin_find.h"
#include "tuner/tuner_env.h"

/* The smallest grain of any protocol: LL stores 8 bytes of data in a 16-byte line, and NCCL rounds
 * in such steps per thread. Below 1920 only LL and Simple can work. */
static const size_t grain[CAPO_NCCL_PROTOS] = {
#define CAPO_PROTO(id, name, word, grain) grain,
#include "capo/protocols.def"
};

/* Which object to use: found once, for the version of the first question; one process has one NCCL.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int found_for; /* the version; 0: not looked for yet */
static struct capo_other found;

static enum capo_plugin_found probe_tuner(void *library, void *user)
{
        return capo_other_find(library, found_for, &found);
}

capo_nccl_result capo_chain_open(const struct capo_tuner_info *info, struct capo_other **out)
{
        struct capo_nccl_constants before;
        struct capo_other *c;
        capo_nccl_result result = CAPO_NCCL_SUCCESS;

        *out = NULL;
        capo_lock(&lock);
        if (found_for != info->abi) {
                found_for = info->abi;
                found = (struct capo_other){0};
                if (capo_plugin_find("tuner", capo_tuner_env()->chain_tuner, probe_tuner, NULL))
                        capo_debug("chained tuner %s, interface v%d",
                                   *(const char *const *)found.plugin, found.abi->version);
        }
        c = found.abi ? malloc(sizeof *c) : NULL;
        if (c)
                *c = found;
        else if (found.abi)
                result = CAPO_NCCL_SYSTEM_ERROR;
        capo_unlock(&lock);
        if (!c)
                return result;
        if (info->constants)
                before = *info->constants;
        result = capo_other_open(c, info);
        if (result) {
                /* NCCL would make no communicator. Its own choice works without the other tuner,
                 * with the constants as they were. */
                capo_warn_once(
                        "the chained tuner %s refuses a communicator (ncclResult_t %d): NCCL decides there; said once",
                        *(const char *const *)c->plugin, result);
                if (info->constants)
                        *info->constants = before;
                free(c);
                return CAPO_NCCL_SUCCESS;
        }
        *out = c;
        return CAPO_NCCL_SUCCESS;
}

void capo_chain_close(struct capo_other *c)
{
        if (c)
                capo_other_close(c);
        free(c);
}

static bool warn_if_failed(const struct capo_other *c, capo_nccl_result result)
{
        if (result == CAPO_NCCL_SUCCESS)
                return false;
        capo_warn_once(
                "the chained tuner %s fails (ncclResult_t %d): where it does NCCL decides; said once",
                *(const char *const *)c->plugin, result);
        return true;
}

void capo_chain_mark(struct capo_other *c, int func, size_t bytes, int pipe_ops, float *table,
                     int n_algos, int n_protos, int reg_buff, int *channels)
{
        float costs[64]; /* no NCCL has more than 7 algorithms of 3 protocols */
        size_t size = (size_t)n_algos * (size_t)n_protos * sizeof *costs;
        int count = *channels;

        if (size > sizeof costs)
                size = sizeof costs;
        memcpy(costs, table, size);
        if (!warn_if_failed(c, capo_other_mark(c, func, bytes, pipe_ops, table, n_algos, n_protos,
                                               reg_buff, channels)))
                return;
        memcpy(table, costs, size);
        *channels = count;
}

void capo_chain_name(struct capo_other *c, int func, size_t bytes, int collnet, int nvls,
                     int pipe_ops, int *algo, int *proto, int *channels)
{
        int a = *algo, p = *proto, n = *channels;

        if (warn_if_failed(c, capo_other_name(c, func, bytes, collnet, nvls, pipe_ops, &a, &p, &n)))
                return;
        *algo = a;
        *proto = p;
        *channels = n;
}

void capo_chain_chunk(struct capo_other *c, int func, size_t bytes, int algo, int proto,
                      int channels, size_t *chunk)
{
        size_t answer = *chunk;

        if (warn_if_failed(c, capo_other_chunk(c, func, bytes, algo, proto, channels, &answer)))
                return;
        if ((unsigned)proto < CAPO_NCCL_PROTOS && answer >= grain[proto])
                *chunk = answer;
}
