/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are turned into their Config twins are turned by the recorder's wrappers, before NCCL,
 * and so before any question: by what is settled when the communicator is made. Ranks must do so
 * alike, or one runs a symmetric kernel and the other a ring. So the recorder asks here by NCCL's
 * own hash of the communicator, which it works out by itself (shim/nccl/call_override.c): what a
 * plugin got last, on which thread, plays no part. And a process that sets CAPO_STEER and is not
 * preloaded makes no communicator. */

#include "capo/env.h"
#include "core/base/lock.h"
#include "tuner/call_limits.h"
#include "tuner/sweep.h"
#include "tuner/tuner_env.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct capo_tuner *overriding;

const char *capo_override_open(struct capo_tuner *t)
{
        if (!capo_tuner_env()->steer || capo_sweep_choose || !t->tables || !t->comm_id ||
            !capo_tables_turns(t->tables))
                return NULL;
        if (!capo_seam || !capo_seam->in_front || !capo_seam->in_front())
                return "CAPO_STEER=1 wants calls turned as the profile's rows say, and in this process they do not come "
                       "through libcapo.so (is it preloaded?), or it cannot record";
        t->own_tables =
                false; /* the recorder may look at them as long as there are calls: they stay */
        t->overrides = true;
        capo_lock(&lock);
        t->next = overriding;
        overriding = t;
        capo_unlock(&lock);
        return NULL;
}

void capo_override_close(struct capo_tuner *t)
{
        if (!t->overrides)
                return;
        capo_lock(&lock);
        for (struct capo_tuner **at = &overriding; *at; at = &(*at)->next) {
                if (*at == t) {
                        *at = t->next;
                        break;
                }
        }
        capo_unlock(&lock);
}

const struct capo_tables *capo_tuner_overrides(uint64_t comm_hash)
{
        const struct capo_tables *tables = NULL;

        capo_lock(&lock);
        for (const struct capo_tuner *t = overriding; t && comm_hash && !tables; t = t->next) {
                if (t->comm_id == comm_hash)
                        tables = t->tables;
        }
        capo_unlock(&lock);
        return tables;
}
