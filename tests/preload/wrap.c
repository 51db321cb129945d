/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Somebody else's library that wraps NCCL, as profilers do, preloaded in front of the recorder,
 * behind it, or linked to a plugin. WRAP_INIT and WRAP_REDUCE wrap one function, WRAP_FULL and
 * WRAP_LINKED all. Each finds the next definition with RTLD_NEXT, and where there is none in NCCL
 * itself. At the end it prints what it has seen.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>

#include "shim/record/nccl_abi.h"

#define EXPORT __attribute__((visibility("default")))

static atomic_uint seen;

static void *find_next(const char *name)
{
        void *p = dlsym(RTLD_NEXT, name);
        void *nccl = p ? NULL : dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD);

        return nccl ? dlsym(nccl, name) : p;
}

#ifdef WRAP_LINKED /* it needs the NCCL behind it, which a linker would leave out else */
unsigned fake_count(const char *name);
EXPORT unsigned (*wrap_needs)(const char *) = fake_count;
#endif

__attribute__((destructor)) static void print_seen(void)
{
        printf("wrapped calls: %u\n", seen);
        fflush(stdout);
}

#define WRAP(type, name, params, args, missing, more)                        \
        EXPORT type name params;                                             \
        EXPORT type name params                                              \
        {                                                                    \
                __typeof__(name) *next = (__typeof__(next))find_next(#name); \
                                                                             \
                more;                                                        \
                if (next)                                                    \
                        return next args;                                    \
                return missing;                                              \
        }
#define ONE(name, params, args) WRAP(ncclResult_t, name, params, args, ncclInvalidUsage, seen++)

#if defined WRAP_INIT
ONE(ncclCommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId id, int rank),
    (comm, nranks, id, rank))
#elif defined WRAP_REDUCE
ONE(ncclAllReduce,
    (const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
     cudaStream_t stream),
    (from, to, count, type, op, comm, stream))
#else
#define CAPO_NCCL_CODE                                  22809
#define CALL(name, params, args, id, comm, stream, ...) ONE(name, params, args)
#define HAND(name, params, args)                        ONE(name, params, args)
/* What a tool asks by public names comes back through whoever is the first. */
static void ask_publicly(void);
#define PASS(type, name, params, args, missing) \
        WRAP(type, name, params, args, missing, ask_publicly())
#include "capo/nccl_calls.def"

static void ask_publicly(void)
{
        static __thread int asks;

        if (!asks++)
                ncclGetErrorString(ncclSuccess);
        asks--;
}
#endif
