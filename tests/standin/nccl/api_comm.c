/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions by which communicators are made and ended.
 */
#include <stdlib.h>
#include <unistd.h>

#include "api.h"

/* --- making communicators --- */

static void version_line(int rank)
{
        static atomic_flag said = ATOMIC_FLAG_INIT;
        int v = std_version();

        if (rank == 0 && !atomic_flag_test_and_set(&said))
                std_log(LOG_VERSION, ~0ul, "", 0, "NCCL version %d.%d.%d+capo-stand-in",
                        v / (v < 10000 ? 1000 : 10000), v / 100 % (v < 10000 ? 10 : 100), v % 100);
}

static ncclResult_t init_rank(ncclComm_t *out, int nranks, const ncclUniqueId *id, int rank,
                              ncclConfig_t *config, const char *what)
{
        struct comm *comm;
        ncclResult_t r;

        if (!out || !id)
                return group_fail(fail(NULL, ncclInvalidArgument, "%s: NULL argument", what));
        if (nranks < 1 || nranks > MAX_RANKS || rank < 0 || rank >= nranks)
                return group_fail(fail(NULL, ncclInvalidArgument,
                                       "%s: invalid rank requested: %d/%d", what, rank, nranks));
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

API ncclResult_t pncclCommInitRankConfig(ncclComm_t *out, int nranks, ncclUniqueId id, int rank,
                                         ncclConfig_t *config)
{
        ncclResult_t r = init_rank(out, nranks, &id, rank, config, "CommInitRankConfig");

        if (r == ncclInProgress)
                ncclCommGetAsyncError(*out, &r);
        return r;
}

/* One root serves any number of ranks here; more ids only spread NCCL's load. */
API ncclResult_t pncclCommInitRankScalable(ncclComm_t *out, int nranks, int rank, int n_ids,
                                           ncclUniqueId *ids, ncclConfig_t *config)
{
        if (n_ids < 1 || n_ids > nranks || !ids)
                return group_fail(fail(NULL, ncclInvalidArgument,
                                       "CommInitRankScalable: improper usage of nId"));
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
                return fail(NULL, ncclInvalidArgument,
                            "CommInitAll: invalid device count requested: %d", n);
        for (int i = 0; i < n; i++) {
                int device = devices ? devices[i] : i;

                if (device < 0 || device >= count)
                        return fail(NULL, ncclUnhandledCudaError,
                                    "CommInitAll: invalid device %d of %d", device, count);
                for (int k = 0; devices && k < i; k++)
                        if (devices[k] == device)
                                return fail(NULL, ncclInvalidUsage,
                                            "CommInitAll: device %d named twice", device);
        }
        r = ncclGetUniqueId(&id);
        group_depth++;
        for (int i = 0; i < n && !r; i++) {
                CUcontext ctx;

                if (cu.p_cuDevicePrimaryCtxRetain(&ctx, devices ? devices[i] : i) ||
                    cu.p_cuCtxPushCurrent(ctx)) {
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

API ncclResult_t pncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t *out,
                                ncclConfig_t *config)
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
        return init_start((struct init){.kind = INIT_SPLIT,
                                        .comm = comm,
                                        .parent = parent,
                                        .out = out,
                                        .color = color,
                                        .key = key,
                                        .nth = (int)parent->split_count});
}

API ncclResult_t pncclCommShrink(ncclComm_t handle, int *exclude, int n_exclude, ncclComm_t *out,
                                 ncclConfig_t *config, int flags)
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
                parent->error = 0; /* as NCCL: what it cut off itself is no error of the old one */
        }
        if (!r)
                r = comm_new(&comm, n, me, config, parent);
        if (r) {
                free(members);
                return group_fail(r);
        }
        parent->split_count++;
        return init_start((struct init){.kind = INIT_SHRINK,
                                        .comm = comm,
                                        .parent = parent,
                                        .out = out,
                                        .members = members,
                                        .n_members = n});
}

API ncclResult_t pncclCommGetUniqueId(ncclComm_t handle, ncclUniqueId *id)
{
        ncclResult_t r = comm_check((struct comm *)handle, "CommGetUniqueId");

        if (!r && !id)
                r = fail(NULL, ncclInvalidArgument, "CommGetUniqueId: NULL argument");
        return r ? r : boot_make_id(id);
}

/* Ranks of the old communicator keep their numbers and say rank -1; new ones bring no communicator
 * but the id. */
API ncclResult_t pncclCommGrow(ncclComm_t handle, int nranks, const ncclUniqueId *id, int rank,
                               ncclComm_t *out, ncclConfig_t *config)
{
        struct comm *parent = (struct comm *)handle, *comm;
        struct init in = {.kind = INIT_GROW, .parent = parent, .out = out, .has_id = id != NULL};
        ncclResult_t r = parent ? comm_check(parent, "CommGrow") : ncclSuccess;

        if (!r && !out)
                r = fail(NULL, ncclInvalidArgument, "CommGrow: newcomm argument is NULL");
        if (!r && parent && rank != -1)
                r = fail(parent, ncclInvalidArgument,
                         "CommGrow: ranks of the communicator pass rank -1");
        if (!r && parent)
                rank = parent->rank;
        if (!r && (nranks < 1 || nranks > MAX_RANKS || rank < 0 || rank >= nranks ||
                   (parent && nranks <= parent->n) || (!parent && !id)))
                r = fail(NULL, ncclInvalidArgument, "CommGrow: invalid rank %d of %d", rank,
                         nranks);
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

static void at_exit(void) { atexit(wait_for_leaving); }

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

/* Endpoints go now, though a graph may still hold the communicator; should it run once more it
 * finds it aborted. */
static void let_go(struct comm *comm)
{
        comm->abort = 1;
        for (int i = 0; i < MAX_CHANNELS; i++)
                chan_close(&comm->chans[i]);
        comm->magic = 0;
        comm_unref(comm);
}

/*
 * Endpoints must stay until every peer has taken the last message out of them. A rank may destroy
 * several communicators one after the other, so the farewell happens on a thread of its own, for
 * five seconds at most.
 */
static void *leave(void *arg)
{
        struct comm *comm = arg;
        char all[MAX_RANKS] = {0};

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
                r = fail(comm, ncclInvalidUsage,
                         "CommFinalize: communicator already finalized or revoked");
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
                r = fail(comm, ncclInvalidArgument,
                         "CommRevoke: flags must be NCCL_REVOKE_DEFAULT");
        if (!r && (comm->revoked || comm->finalized))
                r = fail(comm, ncclInvalidUsage,
                         "CommRevoke: communicator already revoked or finalized");
        if (r)
                return r;
        comm->revoked = true;
        comm->abort = 1;
        exec_drain(comm);
        comm->error = 0;
        return ncclSuccess;
}

/* There is no device memory to give up; what remains of suspending is its rule: no call until
 * resumed. */
static ncclResult_t suspend(struct comm *comm, bool off, const char *what)
{
        ncclResult_t r = comm_check(comm, what);

        if (!r && comm->suspended == off)
                r = fail(comm, ncclInvalidUsage, "%s: communicator is %ssuspended", what,
                         off ? "already " : "not ");
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

#define STANDIN_PART STANDIN_COMM
#define NCCL(result, name, since, params)         \
        extern __typeof__(pnccl##name) nccl##name \
                __attribute__((weak, alias("pnccl" #name), visibility("default")));
#include "standin_nccl.def"
