/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of the tests' small NCCL that need no more than their row of nccl_calls.def: they
 * count, and a collective can be asked to fail. They are weak: a function that does more is written
 * in fake_nccl.c and takes the row's place.
 */
#include <stdbool.h>
#include <string.h>

#include "tests/preload/fake_rows.h"

static const char *const names[] = {
#define CALL(name, params, args, id, comm, stream, ...) #name,
#define HAND(name, params, args)                        #name,
#define PASS(type, name, params, args, missing)         #name,
#include "capo/nccl_calls.def"
};
_Atomic unsigned fake_counts[N_CALLS];

/* How often @name was called, by anybody. */
EXPORT unsigned fake_count(const char *name);
EXPORT unsigned fake_count(const char *name)
{
        for (int i = 0; i < N_CALLS; i++) {
                if (!strcmp(names[i], name))
                        return fake_counts[i];
        }
        return 0;
}

/* What a row says of its call: struct capo_what of the recorder. */
struct what {
        size_t count;
        int type, op, peer;
        bool per_rank, p2p, other;
        const ncclCollConfig_t *config;
};
enum { NO_TYPE = 255, NO_OP = 255 };

#define ROW EXPORT __attribute__((weak))
#define CALL(name, params, args, id, comm, stream, ...)            \
        ROW ncclResult_t name params;                              \
        ncclResult_t name params                                   \
        {                                                          \
                const struct what w = {__VA_ARGS__};               \
                                                                   \
                if (!w.other)                                      \
                        return fake_collective(I_##name, w.count); \
                COUNT(I_##name);                                   \
                return ncclSuccess;                                \
        }
#define HAND(name, params, args)
#define PASS(type, name, params, args, missing) \
        ROW type name params;                   \
        type name params                        \
        {                                       \
                COUNT(I_##name);                \
                return (type)0;                 \
        }
#include "capo/nccl_calls.def"
