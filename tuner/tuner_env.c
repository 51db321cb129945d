/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "capo/env.h"
#include "capo/msg.h"
#include "tuner/tuner_env.h"

static struct capo_env env;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_env(void)
{
        capo_env_read(&env);
        capo_msg_set_level(env.verbose > 0 ? CAPO_DEBUG : env.quiet ? CAPO_WARN : CAPO_INFO);
}

const struct capo_env *capo_tuner_env(void)
{
        pthread_once(&once, read_env);
        return &env;
}
