/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's functions: check what was asked, then hand it to the files that do it. Bodies carry the pncclX names; the
 * ncclX names are weak aliases of them at the end, as in NCCL's own library. Where NCCL calls one of its public
 * functions from another (and so through a preloaded library), this does as well: ncclBcast -> ncclBroadcast,
 * ncclCommInitAll -> ncclGetUniqueId, ncclCommInitRankConfig and ncclCommFinalize -> ncclCommGetAsyncError.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "std.h"

#define API                               __attribute__((visibility("default")))
#define NCCL(result, name, since, params) API __typeof__(nccl##name) pnccl##name;
#include "standin_nccl.def"

/* --- making communicators --- */

static void version_line(int rank)
{
        static atomic_flag said = ATOMIC_FLAG_INIT;
        int v = std_version();

        if (rank == 0 && !atomic_flag_test_and_set(&said))
                std_log(LOG_VERSION, ~0ul, "", 0, "NCCL version %d.%d.%d+capo-stand-in", v / (v < 10000 ? 1000 : 10000),
                        v / 100 % (v < 10000 ? 10 : 100), v % 100);
}

static ncclResult_t init_rank(ncclComm_t *out, int nranks, const ncclUniqueId *id, int rank, ncclConfig_t *config,
                              const char *what)
{
        struct comm *comm;
        ncclResult_t r;

        if (!out || !id)
                return group_fail(fail(NULL, ncclInvalidArgument, "%s: NULL argument", what));
        if (nranks < 1 || nranks > MAX_RANKS || rank < 0 || rank >= nranks)
                return group_fail(
                        fail(NULL, ncclInvalidArgument, "%s: invalid rank requested: %d/%d", what, rank, nranks));
        r = comm_new(&comm, nranks, rank, config, NULL);
        if (r)
                return group_fail(r);
        version_line(rank);
        return init_start((struct init){.kind = INIT_ID, .comm = comm, .out = out, .id = *id});
}

API ncclResult_t pncclGetVersion(int *version)
{
        if (!version)
                return fail(NULL, ncclInvalidArgument, "GetVersion: version argument is NULL");
        *version = std_version();
        return ncclSuccess;
}

API ncclResult_t pncclGetUniqueId(ncclUniqueId *id)
{
        if (!id)
                return fail(NULL, ncclInvalidArgument, "GetUniqueId: NULL argument");
        return boot_make_id(id);
}

API ncclResult_t pncclCommInitRank(ncclComm_t *out, int nranks, ncclUniqueId id, int rank)
{
        return init_rank(out, nranks, &id, rank, NULL, "CommInitRank");
}

API ncclResult_t pncclCommInitRankConfig(ncclComm_t *out, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
        ncclResult_t r = init_rank(out, nranks, &id, rank, config, "CommInitRankConfig");

        if (r == ncclInProgress)
                ncclCommGetAsyncError(*out, &r);
        return r;
}

/* One root serves any number of ranks here; more ids only spread NCCL's load. */
API ncclResult_t pncclCommInitRankScalable(ncclComm_t *out, int nranks, int rank, int n_ids, ncclUniqueId *ids,
                                           ncclConfig_t *config)
{
        if (n_ids < 1 || n_ids > nranks || !ids)
                return group_fail(fail(NULL, ncclInvalidArgument, "CommInitRankScalable: improper usage of nId"));
        return init_rank(out, nranks, &ids[0], rank, config, "CommInitRankScalable");
}

API ncclResult_t pncclCommInitAll(ncclComm_t *comms, int n, const int *devices)
{
        ncclResult_t r = driver_open();
        int count = 0;
        ncclUniqueId id;
        CUcontext old;

        if (r)
                return r;
        cu.p_cuDeviceGetCount(&count);
        if (!comms || n < 1)
                return fail(NULL, ncclInvalidArgument, "CommInitAll: invalid device count requested: %d", n);
        for (int i = 0; i < n; i++) {
                int device = devices ? devices[i] : i;

                if (device < 0 || device >= count)
                        return fail(NULL, ncclUnhandledCudaError, "CommInitAll: invalid device %d of %d", device,
                                    count);
                for (int k = 0; devices && k < i; k++)
                        if (devices[k] == device)
                                return fail(NULL, ncclInvalidUsage, "CommInitAll: device %d named twice", device);
        }
        r = ncclGetUniqueId(&id);
        group_depth++;
        for (int i = 0; i < n && !r; i++) {
                CUcontext ctx;

                if (cu.p_cuDevicePrimaryCtxRetain(&ctx, devices ? devices[i] : i) || cu.p_cuCtxPushCurrent(ctx)) {
                        r = fail(NULL, ncclUnhandledCudaError, "CommInitAll: no context");
                        break;
                }
                r = init_rank(&comms[i], n, &id, i, NULL, "CommInitAll");
                cu.p_cuCtxPopCurrent(&old);
        }
        group_fail(r);
        return group_end(NULL);
}

static ncclResult_t check_parent(ncclComm_t handle, ncclComm_t *out, const char *what)
{
        ncclResult_t r = comm_check((struct comm *)handle, what);

        if (!r && !out)
                r = fail(NULL, ncclInvalidArgument, "%s: newcomm argument is NULL", what);
        return r;
}

API ncclResult_t pncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t *out, ncclConfig_t *config)
{
        struct comm *parent = (struct comm *)handle, *comm = NULL;
        ncclResult_t r = check_parent(handle, out, "CommSplit");

        if (!r && (parent->abort || parent->error))
                r = fail(parent, ncclInvalidUsage, "CommSplit: the parent communicator has failed");
        if (!r && color < 0 && color != NCCL_SPLIT_NOCOLOR)
                r = fail(parent, ncclInvalidArgument, "CommSplit: invalid color %d", color);
        if (!r && color != NCCL_SPLIT_NOCOLOR)
                r = comm_new(&comm, parent->n, parent->rank, config, parent);
        if (r)
                return group_fail(r);
        parent->split_count++;
        return init_start((struct init){
                .kind = INIT_SPLIT, .comm = comm, .parent = parent, .out = out, .color = color, .key = key});
}

API ncclResult_t pncclCommShrink(ncclComm_t handle, int *exclude, int n_exclude, ncclComm_t *out, ncclConfig_t *config,
                                 int flags)
{
        struct comm *parent = (struct comm *)handle, *comm = NULL;
        ncclResult_t r = check_parent(handle, out, "CommShrink");
        int *members = NULL, n = 0, me = -1;

        if (!r && (!exclude || n_exclude < 1 || n_exclude >= parent->n))
                r = fail(parent, ncclInvalidArgument, "CommShrink: invalid list of excluded ranks");
        if (!r && (members = calloc((size_t)parent->n, sizeof *members)) == NULL)
                r = ncclSystemError;
        for (int i = 0; !r && i < parent->n; i++) {
                bool out_of_it = false;

                for (int k = 0; k < n_exclude; k++)
                        out_of_it |= exclude[k] == i;
                if (i == parent->rank)
                        me = out_of_it ? -1 : n;
                if (!out_of_it)
                        members[n++] = i;
        }
        if (!r && me < 0)
                r = fail(parent, ncclInvalidArgument, "CommShrink: this rank is itself excluded");
        if (!r && (flags & NCCL_SHRINK_ABORT)) {
                parent->abort = 1;
                exec_drain(parent);
        }
        if (!r)
                r = comm_new(&comm, n, me, config, parent);
        if (r) {
                free(members);
                return group_fail(r);
        }
        parent->split_count++;
        return init_start((struct init){
                .kind = INIT_SHRINK, .comm = comm, .parent = parent, .out = out, .members = members, .n_members = n});
}

API ncclResult_t pncclCommGetUniqueId(ncclComm_t handle, ncclUniqueId *id)
{
        ncclResult_t r = comm_check((struct comm *)handle, "CommGetUniqueId");

        if (!r && !id)
                r = fail(NULL, ncclInvalidArgument, "CommGetUniqueId: NULL argument");
        return r ? r : boot_make_id(id);
}

/* Ranks of the old communicator keep their numbers and say rank -1; new ones bring no communicator but the id. */
API ncclResult_t pncclCommGrow(ncclComm_t handle, int nranks, const ncclUniqueId *id, int rank, ncclComm_t *out,
                               ncclConfig_t *config)
{
        struct comm *parent = (struct comm *)handle, *comm;
        struct init in = {.kind = INIT_GROW, .parent = parent, .out = out, .has_id = id != NULL};
        ncclResult_t r = parent ? comm_check(parent, "CommGrow") : ncclSuccess;

        if (!r && !out)
                r = fail(NULL, ncclInvalidArgument, "CommGrow: newcomm argument is NULL");
        if (!r && parent && rank != -1)
                r = fail(parent, ncclInvalidArgument, "CommGrow: ranks of the communicator pass rank -1");
        if (!r && parent)
                rank = parent->rank;
        if (!r && (nranks < 1 || nranks > MAX_RANKS || rank < 0 || rank >= nranks || (parent && nranks <= parent->n) ||
                   (!parent && !id)))
                r = fail(NULL, ncclInvalidArgument, "CommGrow: invalid rank %d of %d", rank, nranks);
        if (!r)
                r = comm_new(&comm, nranks, rank, config, parent);
        if (r)
                return group_fail(r);
        if (id)
                in.id = *id;
        in.comm = comm;
        return init_start(in);
}

/* --- ending them --- */

static atomic_int n_leaving;

static void wait_for_leaving(void)
{
        for (int i = 0; n_leaving && i < 5000; i++)
                usleep(1000);
}

static void at_exit(void)
{
        atexit(wait_for_leaving);
}

static ncclResult_t run_finalize(void *arg)
{
        struct comm *comm = arg;
        char all[MAX_RANKS];
        ncclResult_t r = exec_drain(comm);

        comm->linger = true;
        if (!r)
                r = boot_allgather(comm, all, 1);
        return r;
}

/* Endpoints go now, though a graph may still hold the communicator; should it run once more it finds it aborted. */
static void let_go(struct comm *comm)
{
        comm->abort = 1;
        for (int i = 0; i < MAX_CHANNELS; i++)
                chan_close(&comm->chans[i]);
        comm->magic = 0;
        comm_unref(comm);
}

/*
 * Endpoints must stay until every peer has taken the last message out of them. A rank may destroy several
 * communicators one after the other, so the farewell happens on a thread of its own, for five seconds at most.
 */
static void *leave(void *arg)
{
        struct comm *comm = arg;
        char all[MAX_RANKS];

        comm->linger = true;
        comm->t_linger_ns = std_now_ns() + 5000000000u;
        boot_allgather(comm, all, 1);
        let_go(comm);
        n_leaving--;
        return NULL;
}

static void close_plugins(struct comm *comm)
{
        exec_stop_threads(comm);
        tuner_close(comm);
        profiler_close(comm);
}

API ncclResult_t pncclCommFinalize(ncclComm_t handle)
{
        struct comm *comm = (struct comm *)handle;
        ncclResult_t r = comm_check(comm, "CommFinalize"), state;

        if (!r && (comm->finalized || comm->revoked))
                r = fail(comm, ncclInvalidUsage, "CommFinalize: communicator already finalized or revoked");
        if (r)
                return r;
        comm->finalized = true;
        r = comm->blocking ? run_finalize(comm) : comm_async(comm, run_finalize, comm);
        if (r == ncclInProgress)
                ncclCommGetAsyncError(handle, &state);
        return r;
}

static void settle(struct comm *comm)
{
        while (comm->state == ncclInProgress)
                usleep(200);
}

API ncclResult_t pncclCommDestroy(ncclComm_t handle)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        struct comm *comm = (struct comm *)handle;
        pthread_t thread;
        ncclResult_t r;

        if (!comm)
                return ncclSuccess;
        r = comm_check(comm, "CommDestroy");
        if (r)
                return r;
        r = exec_drain(comm);
        comm->magic = 0;
        close_plugins(comm);
        if (comm->finalized || comm->n == 1 || comm->abort || r || !comm->boot) {
                let_go(comm);
                return ncclSuccess;
        }
        pthread_once(&once, at_exit);
        n_leaving++;
        if (pthread_create(&thread, NULL, leave, comm)) {
                leave(comm);
                return ncclSuccess;
        }
        pthread_detach(thread);
        return ncclSuccess;
}

API ncclResult_t pncclCommAbort(ncclComm_t handle)
{
        struct comm *comm = (struct comm *)handle;

        if (!comm)
                return ncclSuccess;
        if (comm->magic != COMM_MAGIC)
                return fail(NULL, ncclInvalidArgument, "CommAbort: corrupted comm object detected");
        comm->abort = 1;
        settle(comm);
        pthread_mutex_lock(&comm->lock);
        while (comm->running)
                pthread_cond_wait(&comm->served, &comm->lock);
        pthread_mutex_unlock(&comm->lock);
        close_plugins(comm);
        let_go(comm); /* the caller may free its buffers */
        return ncclSuccess;
}

API ncclResult_t pncclCommRevoke(ncclComm_t handle, int flags)
{
        struct comm *comm = (struct comm *)handle;
        ncclResult_t r = comm_check(comm, "CommRevoke");

        if (!r && flags)
                r = fail(comm, ncclInvalidArgument, "CommRevoke: flags must be NCCL_REVOKE_DEFAULT");
        if (!r && (comm->revoked || comm->finalized))
                r = fail(comm, ncclInvalidUsage, "CommRevoke: communicator already revoked or finalized");
        if (r)
                return r;
        comm->revoked = true;
        comm->abort = 1;
        exec_drain(comm);
        comm->error = 0;
        return ncclSuccess;
}

/* There is no device memory to give up; what remains of suspending is its rule: no call until resumed. */
static ncclResult_t suspend(struct comm *comm, bool off, const char *what)
{
        ncclResult_t r = comm_check(comm, what);

        if (!r && comm->suspended == off)
                r = fail(comm, ncclInvalidUsage, "%s: communicator is %ssuspended", what, off ? "already " : "not ");
        if (!r)
                r = exec_drain(comm);
        if (!r)
                comm->suspended = off;
        return r;
}

API ncclResult_t pncclCommSuspend(ncclComm_t comm, int flags)
{
        return suspend((struct comm *)comm, true, "CommSuspend");
}

API ncclResult_t pncclCommResume(ncclComm_t comm)
{
        return suspend((struct comm *)comm, false, "CommResume");
}

/* --- asking --- */

API ncclResult_t pncclCommGetAsyncError(ncclComm_t handle, ncclResult_t *error)
{
        struct comm *comm = (struct comm *)handle;

        if (!comm || comm->magic != COMM_MAGIC || !error)
                return fail(NULL, ncclInvalidArgument, "CommGetAsyncError: invalid argument");
        *error = comm->state == ncclInProgress ? ncclInProgress : (ncclResult_t)comm->error;
        return ncclSuccess;
}

static ncclResult_t ask(const struct comm *comm, int *out, const int *value, const char *what)
{
        ncclResult_t r = comm_check((struct comm *)(uintptr_t)comm, what);

        if (!r && !out)
                r = fail(NULL, ncclInvalidArgument, "%s: NULL argument", what);
        if (!r)
                *out = *value;
        return r;
}

API ncclResult_t pncclCommCount(const ncclComm_t comm, int *count)
{
        return ask((struct comm *)comm, count, &((struct comm *)comm)->n, "CommCount");
}

API ncclResult_t pncclCommCuDevice(const ncclComm_t comm, int *device)
{
        return ask((struct comm *)comm, device, &((struct comm *)comm)->device, "CommCuDevice");
}

API ncclResult_t pncclCommUserRank(const ncclComm_t comm, int *rank)
{
        return ask((struct comm *)comm, rank, &((struct comm *)comm)->rank, "CommUserRank");
}

API const char *pncclGetErrorString(ncclResult_t result)
{
        switch (result) {
        case ncclSuccess: return "no error";
        case ncclUnhandledCudaError: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
        case ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
        case ncclInternalError: return "internal error - please report this issue to the NCCL developers";
        case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
        case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
        case ncclRemoteError: return "remote process exited or there was a network error";
        case ncclInProgress: return "NCCL operation in progress";
        case ncclTimeout: return "operation timed out";
        default: return "unknown result code";
        }
}

API const char *pncclGetLastError(ncclComm_t comm)
{
        return std_last_error();
}

API void pncclResetDebugInit(void)
{
        std_log_reset();
}

/* --- memory: all of it is host memory, so registering only has to be well-behaved --- */

API ncclResult_t pncclMemAlloc(void **ptr, size_t bytes)
{
        ncclResult_t r = driver_open();
        CUdeviceptr p;
        int device;

        if (!r && !ptr)
                r = fail(NULL, ncclInvalidArgument, "MemAlloc: NULL argument");
        if (!r)
                r = driver_device(&device);
        if (r)
                return r;
        if (cu.p_cuMemAlloc(&p, bytes))
                return fail(NULL, ncclUnhandledCudaError, "MemAlloc: out of memory");
        *ptr = (void *)(uintptr_t)p;
        return ncclSuccess;
}

API ncclResult_t pncclMemFree(void *ptr)
{
        ncclResult_t r = driver_open();

        if (!r && cu.p_cuMemFree((CUdeviceptr)(uintptr_t)ptr))
                r = fail(NULL, ncclUnhandledCudaError, "MemFree: not allocated by ncclMemAlloc");
        return r;
}

static ncclResult_t do_register(ncclComm_t comm, void *buffer, size_t bytes, void **handle, const char *what)
{
        ncclResult_t r = comm_check((struct comm *)comm, what);
        struct registration *reg;

        if (!r && (!buffer || !bytes || !handle))
                r = fail(NULL, ncclInvalidArgument, "%s: invalid argument", what);
        if (r)
                return r;
        reg = malloc(sizeof *reg);
        if (!reg)
                return ncclSystemError;
        *reg = (struct registration){buffer, bytes, -1};
        *handle = reg;
        return ncclSuccess;
}

API ncclResult_t pncclCommRegister(const ncclComm_t comm, void *buffer, size_t bytes, void **handle)
{
        return do_register(comm, buffer, bytes, handle, "CommRegister");
}

API ncclResult_t pncclCommDeregister(const ncclComm_t comm, void *handle)
{
        ncclResult_t r = comm_check((struct comm *)comm, "CommDeregister");

        if (!r)
                free(handle);
        return r;
}

API ncclResult_t pncclCommWindowRegister(ncclComm_t handle, void *buffer, size_t bytes, ncclWindow_t *window, int flags)
{
        struct comm *comm = (struct comm *)handle;
        struct registration **more;
        ncclResult_t r = do_register(handle, buffer, bytes, (void **)window, "CommWindowRegister");

        if (r)
                return r;
        more = realloc(comm->windows, (size_t)(comm->n_windows + 1) * sizeof *more);
        if (!more)
                return fail(comm, ncclSystemError, "out of memory");
        comm->windows = more;
        comm->windows[comm->n_windows] = (struct registration *)*window;
        comm->windows[comm->n_windows]->window = comm->n_windows;
        comm->n_windows++;
        return ncclSuccess;
}

API ncclResult_t pncclCommWindowDeregister(ncclComm_t handle, ncclWindow_t window)
{
        struct comm *comm = (struct comm *)handle;
        ncclResult_t r = comm_check(comm, "CommWindowDeregister");

        if (r || !window)
                return r;
        comm->windows[((struct registration *)window)->window] = NULL;
        return pncclCommDeregister(handle, window);
}

API ncclResult_t pncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void **ptr)
{
        ncclResult_t r = comm_check((struct comm *)comm, "WinGetUserPtr");

        if (!r && (!window || !ptr))
                r = fail((struct comm *)comm, ncclInvalidArgument, "WinGetUserPtr: NULL argument");
        if (!r)
                *ptr = ((struct registration *)window)->buffer;
        return r;
}

/* --- operators --- */

API ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                                           ncclScalarResidence_t where, ncclComm_t handle)
{
        struct comm *comm = (struct comm *)handle;
        ncclResult_t r = comm_check(comm, "RedOpCreatePreMulSum");
        int i = 0;

        if (!r && (!op || !scalar || !type_bytes(type) || (unsigned)where > ncclScalarHostImmediate))
                r = fail(comm, ncclInvalidArgument, "RedOpCreatePreMulSum: invalid argument");
        if (r)
                return r;
        while (i < comm->n_user_ops && comm->user_ops[i].used)
                i++;
        if (i == comm->n_user_ops) {
                void *more = realloc(comm->user_ops, (size_t)(i + 8) * sizeof *comm->user_ops);

                if (!more)
                        return fail(comm, ncclSystemError, "out of memory");
                comm->user_ops = more;
                memset(comm->user_ops + i, 0, 8 * sizeof *comm->user_ops);
                comm->n_user_ops += 8;
        }
        comm->user_ops[i].used = true;
        comm->user_ops[i].type = type;
        comm->user_ops[i].at = where == ncclScalarDevice ? scalar : NULL;
        if (where == ncclScalarHostImmediate)
                memcpy(comm->user_ops[i].scalar, scalar, type_bytes(type));
        *op = (ncclRedOp_t)(ncclNumOps + i);
        return ncclSuccess;
}

API ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t handle)
{
        struct comm *comm = (struct comm *)handle;
        ncclResult_t r = comm_check(comm, "RedOpDestroy");
        int i = (int)op - ncclNumOps;

        if (!r && (i < 0 || i >= comm->n_user_ops || !comm->user_ops[i].used))
                r = fail(comm, ncclInvalidArgument, "RedOpDestroy: not an operator of this communicator");
        if (!r)
                comm->user_ops[i].used = false;
        return r;
}

static ncclResult_t resolve(struct comm *comm, ncclRedOp_t op, ncclDataType_t type, struct redop *out)
{
        int i = (int)op - ncclNumOps;

        *out = (struct redop){.fold = op};
        if (op == ncclAvg) {
                out->fold = ncclSum;
                out->pre = type_is_float(type);
                if (out->pre)
                        scalar_from_double(type, 1.0 / comm->n, out->scalar);
                else
                        out->divide = (unsigned)comm->n;
        } else if (i >= 0) {
                if (i >= comm->n_user_ops || !comm->user_ops[i].used)
                        return fail(comm, ncclInvalidArgument, "invalid reduction operation %d", op);
                if (comm->user_ops[i].type != type)
                        return fail(comm, ncclInvalidArgument, "data type does not match the reduction operation's");
                out->fold = ncclSum;
                out->pre = true;
                out->scalar_at = comm->user_ops[i].at;
                memcpy(out->scalar, comm->user_ops[i].scalar, sizeof out->scalar);
        } else if ((unsigned)op > ncclAvg) {
                return fail(comm, ncclInvalidArgument, "invalid reduction operation %d", op);
        }
        return ncclSuccess;
}

/* --- communication --- */

struct ask {
        enum func fn;
        const void *send;
        void *recv;
        size_t count;
        ncclDataType_t type;
        ncclRedOp_t op;
        int peer;
        ncclComm_t comm;
        cudaStream_t stream;
        bool needs_send, needs_recv;
};

static ncclResult_t check(const struct ask *a, struct task *t)
{
        struct comm *comm = (struct comm *)a->comm;
        const char *what = func_names[a->fn];
        ncclResult_t r = comm_check(comm, what);
        bool folds = a->fn == FN_ALLREDUCE || a->fn == FN_REDUCE || a->fn == FN_REDUCESCATTER;
        bool whole = a->fn == FN_ALLGATHER || a->fn == FN_REDUCESCATTER;

        if (r)
                return r;
        if (comm->finalized || comm->revoked || comm->suspended)
                return fail(comm, ncclInvalidUsage, "%s: communicator is finalized, revoked or suspended", what);
        if (comm->error)
                return (ncclResult_t)comm->error;
        if (!type_bytes(a->type))
                return fail(comm, ncclInvalidArgument, "%s: invalid type %d", what, a->type);
        if (a->peer < 0 || a->peer >= comm->n)
                return fail(comm, ncclInvalidArgument, "%s: invalid root or peer %d (0..%d expected)", what, a->peer,
                            comm->n - 1);
        if (a->count && ((a->needs_send && !a->send) || (a->needs_recv && !a->recv)))
                return fail(comm, ncclInvalidArgument, "%s: %s argument is NULL", what,
                            a->send ? "recvbuff" : "sendbuff");
        *t = (struct task){.fn = a->fn,
                           .comm = comm,
                           .stream = a->stream,
                           .send = a->send,
                           .recv = a->recv,
                           .count = a->count,
                           .type = a->type,
                           .peer = a->peer,
                           .bytes = a->count * type_bytes(a->type) * (whole ? (size_t)comm->n : 1)};
        return folds ? resolve(comm, a->op, a->type, &t->op) : ncclSuccess;
}

static ncclResult_t collective(struct ask a)
{
        struct task t;
        ncclResult_t r = check(&a, &t);

        if (r)
                return group_fail(r);
        return a.count ? enqueue(&t, 1) : ncclSuccess; /* nothing to do is done: no launch, as in NCCL */
}

API ncclResult_t pncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                ncclComm_t comm, cudaStream_t stream)
{
        return collective((struct ask){FN_ALLREDUCE, send, recv, count, type, op, 0, comm, stream, true, true});
}

API ncclResult_t pncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                                ncclComm_t comm, cudaStream_t stream)
{
        bool is_root = comm && ((struct comm *)comm)->rank == root;

        return collective(
                (struct ask){FN_BROADCAST, send, recv, count, type, ncclSum, root, comm, stream, is_root, true});
}

API ncclResult_t pncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                            cudaStream_t stream)
{
        return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

API ncclResult_t pncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                             ncclComm_t comm, cudaStream_t stream)
{
        bool is_root = comm && ((struct comm *)comm)->rank == root;

        return collective((struct ask){FN_REDUCE, send, recv, count, type, op, root, comm, stream, true, is_root});
}

API ncclResult_t pncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                                cudaStream_t stream)
{
        return collective((struct ask){FN_ALLGATHER, send, recv, count, type, ncclSum, 0, comm, stream, true, true});
}

API ncclResult_t pncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                    ncclComm_t comm, cudaStream_t stream)
{
        return collective((struct ask){FN_REDUCESCATTER, send, recv, count, type, op, 0, comm, stream, true, true});
}

API ncclResult_t pncclSend(const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                           cudaStream_t stream)
{
        return collective((struct ask){FN_SEND, send, NULL, count, type, ncclSum, peer, comm, stream, true, false});
}

API ncclResult_t pncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                           cudaStream_t stream)
{
        return collective((struct ask){FN_RECV, NULL, recv, count, type, ncclSum, peer, comm, stream, false, true});
}

/* AlltoAll, Gather and Scatter are sends and receives, as they are in NCCL; never a tuner's business. */
static ncclResult_t exchange(struct ask a, bool to_all, bool from_all)
{
        struct comm *comm = (struct comm *)a.comm;
        struct task t, *tasks;
        size_t one;
        ncclResult_t r = check(&a, &t);
        int n = 0;

        if (r)
                return group_fail(r);
        if (!a.count)
                return ncclSuccess;
        tasks = calloc(2 * (size_t)comm->n, sizeof *tasks);
        if (!tasks)
                return group_fail(fail(comm, ncclSystemError, "out of memory"));
        one = t.bytes;
        for (int peer = 0; peer < comm->n; peer++) {
                if (to_all || (a.fn == FN_GATHER && peer == a.peer)) {
                        tasks[n] = t;
                        tasks[n].fn = FN_SEND;
                        tasks[n].peer = peer;
                        tasks[n++].send = (const char *)a.send + (to_all ? (size_t)peer * one : 0);
                }
                if (from_all || (a.fn == FN_SCATTER && peer == a.peer)) {
                        tasks[n] = t;
                        tasks[n].fn = FN_RECV;
                        tasks[n].peer = peer;
                        tasks[n++].recv = (char *)a.recv + (from_all ? (size_t)peer * one : 0);
                }
        }
        r = enqueue(tasks, n);
        free(tasks);
        return r;
}

API ncclResult_t pncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                               cudaStream_t stream)
{
        return exchange((struct ask){FN_ALLTOALL, send, recv, count, type, ncclSum, 0, comm, stream, true, true}, true,
                        true);
}

API ncclResult_t pncclGather(const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                             cudaStream_t stream)
{
        bool is_root = comm && ((struct comm *)comm)->rank == root;

        return exchange((struct ask){FN_GATHER, send, recv, count, type, ncclSum, root, comm, stream, true, is_root},
                        false, is_root);
}

API ncclResult_t pncclScatter(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                              ncclComm_t comm, cudaStream_t stream)
{
        bool is_root = comm && ((struct comm *)comm)->rank == root;

        return exchange((struct ask){FN_SCATTER, send, recv, count, type, ncclSum, root, comm, stream, is_root, true},
                        is_root, false);
}

API ncclResult_t pncclPutSignal(const void *local, size_t count, ncclDataType_t type, int peer, ncclWindow_t window,
                                size_t offset, int signal, int context, unsigned int flags, ncclComm_t comm,
                                cudaStream_t stream)
{
        struct task t;
        ncclResult_t r = check(
                &(struct ask){FN_PUTSIGNAL, local, NULL, count, type, ncclSum, peer, comm, stream, true, false}, &t);

        if (!r && !window)
                r = fail((struct comm *)comm, ncclInvalidArgument, "PutSignal: window argument is NULL");
        if (r)
                return group_fail(r);
        t.rma = (__typeof__(t.rma)){((struct registration *)window)->window, signal, context, offset};
        return enqueue(&t, 1);
}

API ncclResult_t pncclSignal(int peer, int signal, int context, unsigned int flags, ncclComm_t comm,
                             cudaStream_t stream)
{
        struct task t;
        ncclResult_t r =
                check(&(struct ask){FN_SIGNAL, NULL, NULL, 0, ncclInt8, ncclSum, peer, comm, stream, false, false}, &t);

        if (r)
                return group_fail(r);
        t.rma = (__typeof__(t.rma)){-1, signal, context, 0};
        return enqueue(&t, 1);
}

API ncclResult_t pncclWaitSignal(int n, ncclWaitSignalDesc_t *descs, ncclComm_t comm, cudaStream_t stream)
{
        struct task *tasks = n > 0 ? calloc((size_t)n, sizeof *tasks) : NULL;
        ncclResult_t r = comm_check((struct comm *)comm, "WaitSignal");

        if (!r && (!tasks || !descs))
                r = fail((struct comm *)comm, ncclInvalidArgument, "WaitSignal: no descriptors");
        for (int i = 0; i < n && !r; i++) {
                const ncclWaitSignalDesc_t *d = &descs[i];

                r = check(&(struct ask){FN_WAITSIGNAL, NULL, NULL, 0, ncclInt8, ncclSum, d->peer, comm, stream, false,
                                        false},
                          &tasks[i]);
                if (!r && d->opCnt < 0)
                        r = fail((struct comm *)comm, ncclInvalidArgument, "WaitSignal: negative count");
                if (r)
                        break;
                tasks[i].count = (size_t)d->opCnt;
                tasks[i].rma = (__typeof__(tasks[i].rma)){-1, d->sigIdx, d->ctx, 0};
        }
        r = r ? group_fail(r) : enqueue(tasks, n);
        free(tasks);
        return r;
}

API ncclResult_t pncclGroupStart(void)
{
        return group_start();
}

API ncclResult_t pncclGroupEnd(void)
{
        return group_end(NULL);
}

API ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t *info)
{
        if (!info || info->magic != NCCL_SIM_INFO_MAGIC)
                return fail(NULL, ncclInvalidArgument,
                            "ncclSimInfo_t argument not initialized via NCCL_SIM_INFO_INITIALIZER");
        return group_end(info);
}

#define NCCL(result, name, since, params) \
        extern __typeof__(pnccl##name) nccl##name __attribute__((weak, alias("pnccl" #name), visibility("default")));
#include "standin_nccl.def"
