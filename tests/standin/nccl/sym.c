/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs beside the table of algorithms where both buffers are registered as windows: symmetric
 * kernels, and copy engines under the zero-CTA policy (NCCL_CTA_POLICY=2, or the call's CTAPolicy).
 * Windows are plain memory here, so both move their data as a ring does; what is as in NCCL is when
 * they run, that no tuner is asked, what a profiler gets, and that a symmetric kernel begins by
 * waiting for all ranks (its phase initial_sync).
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "std.h"

static const struct {
        enum func fn;
        size_t upto; /* the last of a kind: any size */
        const char *name;
} kernels[N_SYMK] = {
        {FN_ALLREDUCE, 256 << 10, "AllReduce_AGxLL_R"},
        {FN_ALLREDUCE, SIZE_MAX, "AllReduce_RSxLD_AGxST"},
        {FN_ALLGATHER, 256 << 10, "AllGather_LL"},
        {FN_ALLGATHER, SIZE_MAX, "AllGather_ST"},
        {FN_REDUCESCATTER, 256 << 10, "ReduceScatter_LL"},
        {FN_REDUCESCATTER, SIZE_MAX, "ReduceScatter_LD"},
};
enum { POLICY_ZERO = 2 };

unsigned sym_named(const char *word, size_t n)
{
        unsigned named = 0;

        if (n < 4 || strncasecmp(word, "SYMK", 4))
                return 0;
        for (unsigned i = 0; i < N_SYMK; i++)
                if (n <= 5 || !strncasecmp(strchr(kernels[i].name, '_') + 1, word + 5, n - 5))
                        named |= 1u << i;
        return named;
}

static bool in_window(const struct comm *comm, const void *at, size_t bytes)
{
        for (int i = 0; i < comm->n_windows; i++) {
                const struct registration *w = comm->windows[i];

                if (w && (const char *)at >= (const char *)w->buffer &&
                    (const char *)at + bytes <= (const char *)w->buffer + w->bytes)
                        return true;
        }
        return false;
}

static bool symmetric(const struct comm *comm, const struct task *t)
{
        size_t bytes = t->count * type_bytes(t->type), all = bytes * (size_t)comm->n;

        return std_version() >= 22703 && comm->n > 1 && comm->n_nodes == 1 &&
               t->op.fold == ncclSum && !t->op.pre &&
               in_window(comm, t->send, t->fn == FN_REDUCESCATTER ? all : bytes) &&
               in_window(comm, t->recv, t->fn == FN_ALLGATHER ? all : bytes);
}

bool sym_choose(struct comm *comm, struct task *tasks, int n)
{
        const struct how *how = &tasks[0].how;
        long policy = how->policy >= 0 ? how->policy : std_env_long("NCCL_CTA_POLICY", 0);
        const char *kernel = NULL;
        bool copies;

        for (int i = 0; i < n; i++)
                if (!symmetric(comm, &tasks[i]))
                        return false;
        copies = policy == POLICY_ZERO && tasks[0].fn == FN_ALLGATHER && std_version() >= 22803;
        for (unsigned i = 0; i < N_SYMK && !kernel && !copies; i++)
                if (kernels[i].fn == tasks[0].fn && !(how->no_symk & 1u << i) &&
                    (tasks[0].bytes <= kernels[i].upto || how->chosen))
                        kernel = kernels[i].name;
        for (int i = 0; i < n; i++) {
                tasks[i].kernel = kernel;
                tasks[i].copied = copies;
                tasks[i].algo = ALGO_RING;
                tasks[i].proto = PROTO_SIMPLE;
                tasks[i].channels = 1;
                tasks[i].chunk = SIMPLE_CHUNK;
        }
        return kernel || copies;
}

ncclResult_t sym_wait(struct chan *ch, const struct task *t)
{
        signed char one = 1, all;
        struct task barrier = {.fn = FN_ALLREDUCE,
                               .comm = t->comm,
                               .send = &one,
                               .recv = &all,
                               .count = 1,
                               .type = ncclInt8,
                               .op = {.fold = ncclSum},
                               .bytes = 1,
                               .algo = ALGO_RING,
                               .proto = PROTO_LL,
                               .channels = 1,
                               .chunk = SIMPLE_CHUNK};

        return run_collective(ch, &barrier);
}
