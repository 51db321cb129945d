/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tuner plugin (ABI v4 only) that does what PLAN_TEST says: force (AllReduce on Ring/LL128 with 3
 * channels), channels (5 channels, nothing else), hang, crash, refuse (init fails), or disagree
 * (odd ranks choose another protocol). The thread that calls is the rank's, so ranks are
 * distinguished by counting threads.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

struct tuner_v4 {
        const char *name;
        int (*init)(size_t ranks, size_t nodes, void *log, void **ctx);
        int (*get)(void *ctx, int func, size_t bytes, int pipe, float **table, int n_algo,
                   int n_proto, int reg, int *channels);
        int (*destroy)(void *ctx);
};

static int is(const char *what)
{
        const char *test = getenv("PLAN_TEST");

        return test && !strcmp(test, what);
}

static int init(size_t ranks, size_t nodes, void *log, void **ctx)
{
        if (is("hang"))
                for (;;)
                        sleep(1000);
        if (is("crash"))
                abort();
        *ctx = NULL;
        return is("refuse") ? 3 : 0;
}

static int get(void *ctx, int func, size_t bytes, int pipe, float **table, int n_algo, int n_proto,
               int reg, int *channels)
{
        static _Atomic int threads;
        static _Thread_local int number;
        float(*cost)[3] = (float(*)[3])table;

        if (!number)
                number = atomic_fetch_add(&threads, 1) + 1;
        if (is("force") && func == 4 && cost[1][1] >= 0) {
                cost[1][1] = 0;
                *channels = 3;
        }
        if (is("channels"))
                *channels = 5;
        if (is("disagree"))
                cost[1][number & 1 ? 0 : 2] = 0;
        return 0;
}

static int destroy(void *ctx) { return 0; }

extern const struct tuner_v4 ncclTunerPlugin_v4;
EXPORT const struct tuner_v4 ncclTunerPlugin_v4 = {"misbehave", init, get, destroy};
