/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libnccl.so.2 for tests of the preload library: it moves nothing, but it answers as NCCL does
 * where that matters to whoever sits in front of it, and it remembers what it was asked. FAKE_CODE
 * is the release it plays (NCCL_VERSION_CODE): younger functions are not there. Like NCCL (facts:
 * nm and PLT of libnccl 2.28.9, sources of older ones) it calls its own public names: ncclBcast ->
 * ncclBroadcast, ncclCommInitAll -> ncclGetUniqueId, and up to 2.23 ncclSend and ncclRecv
 * -> ncclGroupStart/End. A function that only has to be there needs no line here: fake_rows.c.
 */
#include <stdlib.h>
#include <unistd.h>

#include "tests/preload/fake_rows.h"

struct ncclComm {
        int n_ranks, rank, device;
        _Atomic int
                asked; /* ncclCommGetAsyncError: a non-blocking one is ready at the third time */
        int nonblocking;
};

static __thread int group_depth;
static __thread struct {
        ncclComm_t *where, comm;
} * creations; /* inside a group handles appear at its end; not here: a thread's stack may be small
                */
static __thread int n_creations;

#define CALL(name, params, args, id, comm, stream, ...) EXPORT ncclResult_t name params;
#define HAND(name, params, args)                        EXPORT ncclResult_t name params;
#define PASS(type, name, params, args, missing)         EXPORT type name params;
#include "capo/nccl_calls.def"

#ifdef FAKE_QUIET /* ncclAllReduce by a name that nobody wraps */
EXPORT ncclResult_t quiet_all_reduce(const void *s, void *r, size_t count, ncclDataType_t type,
                                     ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t quiet_all_reduce(const void *s, void *r, size_t count, ncclDataType_t type,
                              ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
        return fake_collective(I_ncclAllReduce, count);
}
#endif

ncclResult_t ncclGetVersion(int *version)
{
        COUNT(I_ncclGetVersion);
        *version = FAKE_CODE;
        return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
        COUNT(I_ncclGetUniqueId);
        for (unsigned i = 0; i < sizeof id->internal; i++)
                id->internal[i] =
                        (char)(i * 7 + (unsigned)getpid() + fake_counts[I_ncclGetUniqueId]);
        return ncclSuccess;
}

/* A program may define this: what a plugin would do while a communicator is made. */
extern void fake_in_init(void) __attribute__((weak, visibility("default")));
/* And when those of a group are made, at its end. */
extern void fake_in_group_end(int n) __attribute__((weak, visibility("default")));

static ncclResult_t make(ncclComm_t *comm, int n_ranks, int rank, int nonblocking)
{
        ncclComm_t c;

        if (n_ranks < 1 || rank < 0 || rank >= n_ranks)
                return ncclInvalidArgument;
        if (fake_in_init)
                fake_in_init();
        c = calloc(1, sizeof *c);
        c->n_ranks = n_ranks;
        c->rank = c->device = rank;
        c->nonblocking = nonblocking;
        if (group_depth) {
                creations = realloc(creations, ((size_t)n_creations + 1) * sizeof *creations);
                creations[n_creations].where = comm;
                creations[n_creations++].comm = c;
        } else {
                *comm = c;
        }
        return nonblocking ? ncclInProgress : ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int n_ranks, ncclUniqueId id, int rank)
{
        COUNT(I_ncclCommInitRank);
        if (fake_in_call)
                fake_in_call((size_t)n_ranks);
        return make(comm, n_ranks, rank, 0);
}

ncclResult_t ncclCommInitAll(ncclComm_t *comm, int n, const int *devices)
{
        ncclUniqueId id;

        COUNT(I_ncclCommInitAll);
        ncclGetUniqueId(&id);
        for (int i = 0; i < n; i++) {
                make(&comm[i], n, i, 0);
                if (devices)
                        comm[i]->device = devices[i];
        }
        return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
        COUNT(I_ncclCommDestroy);
        free(comm);
        return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
        COUNT(I_ncclCommAbort);
        free(comm);
        return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
        COUNT(I_ncclGetErrorString);
        return result == ncclSuccess ? "no error" : "fake error";
}

const char *ncclGetLastError(ncclComm_t comm)
{
        COUNT(I_ncclGetLastError);
        return "fake last error";
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
        COUNT(I_ncclCommGetAsyncError);
        *error = comm->nonblocking && comm->asked++ < 2 ? ncclInProgress : ncclSuccess;
        return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *v)
{
        COUNT(I_ncclCommCount);
        *v = comm->n_ranks;
        return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *v)
{
        COUNT(I_ncclCommCuDevice);
        *v = comm->device;
        return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *v)
{
        COUNT(I_ncclCommUserRank);
        *v = comm->rank;
        return ncclSuccess;
}

ncclResult_t ncclBcast(void *b, size_t n, ncclDataType_t t, int root, ncclComm_t c, cudaStream_t st)
{
        COUNT(I_ncclBcast);
        return ncclBroadcast(b, b, n, t, root, c, st);
}

static ncclResult_t p2p(int i, size_t n)
{
        ncclResult_t r = ncclSuccess;

        if (FAKE_CODE < 22403)
                ncclGroupStart();
        r = fake_collective(i, n);
        if (FAKE_CODE < 22403)
                ncclGroupEnd();
        return r;
}

ncclResult_t ncclSend(const void *s, size_t n, ncclDataType_t t, int peer, ncclComm_t c,
                      cudaStream_t st)
{
        return p2p(I_ncclSend, n);
}

ncclResult_t ncclRecv(void *r, size_t n, ncclDataType_t t, int peer, ncclComm_t c, cudaStream_t st)
{
        return p2p(I_ncclRecv, n);
}

ncclResult_t ncclGroupStart(void)
{
        COUNT(I_ncclGroupStart);
        group_depth++;
        return ncclSuccess;
}

static ncclResult_t group_end(void)
{
        if (group_depth == 0)
                return ncclInvalidUsage;
        if (--group_depth == 0) {
                if (fake_in_group_end && n_creations)
                        fake_in_group_end(n_creations);
                for (int i = 0; i < n_creations; i++)
                        *creations[i].where = creations[i].comm;
                free(creations);
                creations = NULL;
                n_creations = 0;
        }
        return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
        COUNT(I_ncclGroupEnd);
        return group_end();
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t t,
                                      ncclScalarResidence_t r, ncclComm_t c)
{
        COUNT(I_ncclRedOpCreatePreMulSum);
        *op = 5;
        return ncclSuccess;
}

#if FAKE_CODE >= 21403
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int n_ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
        COUNT(I_ncclCommInitRankConfig);
        return make(comm, n_ranks, rank, config && config->blocking == 0);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
        COUNT(I_ncclCommFinalize);
        return ncclSuccess;
}
#endif
#if FAKE_CODE >= 21801
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *child,
                           ncclConfig_t *config)
{
        COUNT(I_ncclCommSplit);
        if (color < 0) {
                *child = NULL;
                return ncclSuccess;
        }
        return make(child, comm->n_ranks > 1 ? comm->n_ranks / 2 : 1, 0, 0);
}
#endif
#if FAKE_CODE >= 21901
ncclResult_t ncclMemAlloc(void **p, size_t n)
{
        COUNT(I_ncclMemAlloc);
        *p = malloc(n);
        return *p ? ncclSuccess : ncclSystemError;
}

ncclResult_t ncclMemFree(void *p)
{
        COUNT(I_ncclMemFree);
        free(p);
        return ncclSuccess;
}
#endif
#if FAKE_CODE >= 22203
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *info)
{
        COUNT(I_ncclGroupSimulateEnd);
        return group_end();
}
#endif
#if FAKE_CODE >= 22304
ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int n_ranks, int rank, int n,
                                      ncclUniqueId *ids, ncclConfig_t *config)
{
        COUNT(I_ncclCommInitRankScalable);
        return make(comm, n_ranks, rank, 0);
}
#endif
#if FAKE_CODE >= 22703
ncclResult_t ncclCommShrink(ncclComm_t comm, int *out, int n, ncclComm_t *child,
                            ncclConfig_t *config, int flags)
{
        COUNT(I_ncclCommShrink);
        return make(child, comm->n_ranks - n, 0, 0);
}
#endif
#if FAKE_CODE >= 22902
ncclResult_t ncclCommGrow(ncclComm_t comm, int n, const ncclUniqueId *id, int rank,
                          ncclComm_t *child, ncclConfig_t *config)
{
        COUNT(I_ncclCommGrow);
        return make(child, n, comm ? comm->rank : rank, 0);
}
#endif
#if FAKE_CODE >= 23102
/* As NCCL does: the plain call by its public name, but with a config; a program asks for the config
 * that came. */
EXPORT const ncclCollConfig_t *fake_config(void);
static const ncclCollConfig_t *last_config;
const ncclCollConfig_t *fake_config(void) { return last_config; }
#define CONFIG(name, params, args)       \
        ncclResult_t name##Config params \
        {                                \
                COUNT(I_##name##Config); \
                last_config = config;    \
                return name args;        \
        }
#define HOW const ncclCollConfig_t *config
CONFIG(ncclAllReduce,
       (const void *s, void *r, size_t n, ncclDataType_t t, ncclRedOp_t o, ncclComm_t c,
        cudaStream_t st, HOW),
       (s, r, n, t, o, c, st))
CONFIG(ncclBroadcast,
       (const void *s, void *r, size_t n, ncclDataType_t t, int root, ncclComm_t c, cudaStream_t st,
        HOW),
       (s, r, n, t, root, c, st))
CONFIG(ncclReduce,
       (const void *s, void *r, size_t n, ncclDataType_t t, ncclRedOp_t o, int root, ncclComm_t c,
        cudaStream_t st, HOW),
       (s, r, n, t, o, root, c, st))
CONFIG(ncclAllGather,
       (const void *s, void *r, size_t n, ncclDataType_t t, ncclComm_t c, cudaStream_t st, HOW),
       (s, r, n, t, c, st))
CONFIG(ncclReduceScatter,
       (const void *s, void *r, size_t n, ncclDataType_t t, ncclRedOp_t o, ncclComm_t c,
        cudaStream_t st, HOW),
       (s, r, n, t, o, c, st))
CONFIG(ncclAlltoAll,
       (const void *s, void *r, size_t n, ncclDataType_t t, ncclComm_t c, cudaStream_t st, HOW),
       (s, r, n, t, c, st))
CONFIG(ncclGather,
       (const void *s, void *r, size_t n, ncclDataType_t t, int root, ncclComm_t c, cudaStream_t st,
        HOW),
       (s, r, n, t, root, c, st))
CONFIG(ncclScatter,
       (const void *s, void *r, size_t n, ncclDataType_t t, int root, ncclComm_t c, cudaStream_t st,
        HOW),
       (s, r, n, t, root, c, st))
#endif
#if FAKE_CODE >= 23203

/* What a release after it might bring: nobody knows of these. */
EXPORT ncclResult_t ncclAllReduceTomorrow(void);
EXPORT ncclResult_t ncclOtherTomorrow(void);
EXPORT ncclResult_t ncclAllReduceTomorrow(void) { return ncclSuccess; }
EXPORT ncclResult_t ncclOtherTomorrow(void) { return ncclSuccess; }
EXPORT const char *fake_wants_plugin(void);
const char *fake_wants_plugin(void) { return "ncclTunerPlugin_v77"; }
#endif

/* The end of the process takes until a file is there, behind the end of a library that was
 * preloaded. */
__attribute__((destructor)) static void end_slowly(void)
{
        const char *until = getenv("FAKE_ENDS_WITH");

        for (int i = 0; until && i < 1500 && access(until, F_OK); i++)
                usleep(20000);
}
