/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that communicate, and the operators they reduce with.
 */
#include <stdlib.h>
#include <string.h>

#include "api.h"

/* --- operators --- */

API ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                                           ncclScalarResidence_t where, ncclComm_t handle)
{
        struct comm *comm = (struct comm *)handle;
        ncclResult_t r = comm_check(comm, "RedOpCreatePreMulSum");
        int i = 0;

        if (!r &&
            (!op || !scalar || !type_bytes(type) || (unsigned)where > ncclScalarHostImmediate))
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
                r = fail(comm, ncclInvalidArgument,
                         "RedOpDestroy: not an operator of this communicator");
        if (!r)
                comm->user_ops[i].used = false;
        return r;
}

static ncclResult_t resolve(struct comm *comm, ncclRedOp_t op, ncclDataType_t type,
                            struct redop *out)
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
                        return fail(comm, ncclInvalidArgument, "invalid reduction operation %d",
                                    op);
                if (comm->user_ops[i].type != type)
                        return fail(comm, ncclInvalidArgument,
                                    "data type does not match the reduction operation's");
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
        const ncclCollConfig_t *how;
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
        std_note(comm, what, a->count, type_bytes(a->type), a->peer);
        if (comm->finalized || comm->revoked || comm->suspended)
                return fail(comm, ncclInvalidUsage,
                            "%s: communicator is finalized, revoked or suspended", what);
        if (comm->error)
                return (ncclResult_t)comm->error;
        if (!type_bytes(a->type))
                return fail(comm, ncclInvalidArgument, "%s: invalid type %d", what, a->type);
        if (a->peer < 0 || a->peer >= comm->n)
                return fail(comm, ncclInvalidArgument,
                            "%s: invalid root or peer %d (0..%d expected)", what, a->peer,
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
        r = how_read(comm, a->how, &t->how);
        return r || !folds ? r : resolve(comm, a->op, a->type, &t->op);
}

static ncclResult_t collective(struct ask a)
{
        struct task t;
        ncclResult_t r = check(&a, &t);

        if (r)
                return group_fail(r);
        return a.count ? enqueue(&t, 1)
                       : ncclSuccess; /* nothing to do is done: no launch, as in NCCL */
}

API ncclResult_t pncclAllReduceConfig(const void *send, void *recv, size_t count,
                                      ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                      cudaStream_t stream, const ncclCollConfig_t *how)
{
        return collective((struct ask){FN_ALLREDUCE, send, recv, count, type, op, 0, comm, stream,
                                       true, true, how});
}

API ncclResult_t pncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                                ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
        return pncclAllReduceConfig(send, recv, count, type, op, comm, stream, NULL);
}

API ncclResult_t pncclBroadcastConfig(const void *send, void *recv, size_t count,
                                      ncclDataType_t type, int root, ncclComm_t comm,
                                      cudaStream_t stream, const ncclCollConfig_t *how)
{
        bool is_root = comm && ((struct comm *)comm)->rank == root;

        return collective((struct ask){FN_BROADCAST, send, recv, count, type, ncclSum, root, comm,
                                       stream, is_root, true, how});
}

API ncclResult_t pncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type,
                                int root, ncclComm_t comm, cudaStream_t stream)
{
        return pncclBroadcastConfig(send, recv, count, type, root, comm, stream, NULL);
}

API ncclResult_t pncclBcast(void *buffer, size_t count, ncclDataType_t type, int root,
                            ncclComm_t comm, cudaStream_t stream)
{
        return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

API ncclResult_t pncclReduceConfig(const void *send, void *recv, size_t count, ncclDataType_t type,
                                   ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream,
                                   const ncclCollConfig_t *how)
{
        bool is_root = comm && ((struct comm *)comm)->rank == root;

        return collective((struct ask){FN_REDUCE, send, recv, count, type, op, root, comm, stream,
                                       true, is_root, how});
}

API ncclResult_t pncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                             ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
        return pncclReduceConfig(send, recv, count, type, op, root, comm, stream, NULL);
}

API ncclResult_t pncclAllGatherConfig(const void *send, void *recv, size_t count,
                                      ncclDataType_t type, ncclComm_t comm, cudaStream_t stream,
                                      const ncclCollConfig_t *how)
{
        return collective((struct ask){FN_ALLGATHER, send, recv, count, type, ncclSum, 0, comm,
                                       stream, true, true, how});
}

API ncclResult_t pncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type,
                                ncclComm_t comm, cudaStream_t stream)
{
        return pncclAllGatherConfig(send, recv, count, type, comm, stream, NULL);
}

API ncclResult_t pncclReduceScatterConfig(const void *send, void *recv, size_t count,
                                          ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                          cudaStream_t stream, const ncclCollConfig_t *how)
{
        return collective((struct ask){FN_REDUCESCATTER, send, recv, count, type, op, 0, comm,
                                       stream, true, true, how});
}

API ncclResult_t pncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type,
                                    ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
        return pncclReduceScatterConfig(send, recv, count, type, op, comm, stream, NULL);
}

API ncclResult_t pncclSend(const void *send, size_t count, ncclDataType_t type, int peer,
                           ncclComm_t comm, cudaStream_t stream)
{
        return collective((struct ask){FN_SEND, send, NULL, count, type, ncclSum, peer, comm,
                                       stream, true, false});
}

API ncclResult_t pncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                           cudaStream_t stream)
{
        return collective((struct ask){FN_RECV, NULL, recv, count, type, ncclSum, peer, comm,
                                       stream, false, true});
}

/* AlltoAll, Gather and Scatter are sends and receives, as they are in NCCL; never a tuner's
 * business. */
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

API ncclResult_t pncclAlltoAllConfig(const void *send, void *recv, size_t count,
                                     ncclDataType_t type, ncclComm_t comm, cudaStream_t stream,
                                     const ncclCollConfig_t *how)
{
        return exchange((struct ask){FN_ALLTOALL, send, recv, count, type, ncclSum, 0, comm, stream,
                                     true, true, how},
                        true, true);
}

API ncclResult_t pncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t type,
                               ncclComm_t comm, cudaStream_t stream)
{
        return pncclAlltoAllConfig(send, recv, count, type, comm, stream, NULL);
}

API ncclResult_t pncclGatherConfig(const void *send, void *recv, size_t count, ncclDataType_t type,
                                   int root, ncclComm_t comm, cudaStream_t stream,
                                   const ncclCollConfig_t *how)
{
        bool is_root = comm && ((struct comm *)comm)->rank == root;

        return exchange((struct ask){FN_GATHER, send, recv, count, type, ncclSum, root, comm,
                                     stream, true, is_root, how},
                        false, is_root);
}

API ncclResult_t pncclGather(const void *send, void *recv, size_t count, ncclDataType_t type,
                             int root, ncclComm_t comm, cudaStream_t stream)
{
        return pncclGatherConfig(send, recv, count, type, root, comm, stream, NULL);
}

API ncclResult_t pncclScatterConfig(const void *send, void *recv, size_t count, ncclDataType_t type,
                                    int root, ncclComm_t comm, cudaStream_t stream,
                                    const ncclCollConfig_t *how)
{
        bool is_root = comm && ((struct comm *)comm)->rank == root;

        return exchange((struct ask){FN_SCATTER, send, recv, count, type, ncclSum, root, comm,
                                     stream, is_root, true, how},
                        is_root, false);
}

API ncclResult_t pncclScatter(const void *send, void *recv, size_t count, ncclDataType_t type,
                              int root, ncclComm_t comm, cudaStream_t stream)
{
        return pncclScatterConfig(send, recv, count, type, root, comm, stream, NULL);
}

API ncclResult_t pncclPutSignal(const void *local, size_t count, ncclDataType_t type, int peer,
                                ncclWindow_t window, size_t offset, int signal, int context,
                                unsigned int flags, ncclComm_t comm, cudaStream_t stream)
{
        struct task t;
        ncclResult_t r = check(&(struct ask){FN_PUTSIGNAL, local, NULL, count, type, ncclSum, peer,
                                             comm, stream, true, false},
                               &t);

        if (!r && !window)
                r = fail((struct comm *)comm, ncclInvalidArgument,
                         "PutSignal: window argument is NULL");
        if (r)
                return group_fail(r);
        t.rma = (__typeof__(t.rma)){((struct registration *)window)->window, signal, context,
                                    offset};
        return enqueue(&t, 1);
}

API ncclResult_t pncclSignal(int peer, int signal, int context, unsigned int flags, ncclComm_t comm,
                             cudaStream_t stream)
{
        struct task t;
        ncclResult_t r = check(&(struct ask){FN_SIGNAL, NULL, NULL, 0, ncclInt8, ncclSum, peer,
                                             comm, stream, false, false},
                               &t);

        if (r)
                return group_fail(r);
        t.rma = (__typeof__(t.rma)){-1, signal, context, 0};
        return enqueue(&t, 1);
}

API ncclResult_t pncclWaitSignal(int n, ncclWaitSignalDesc_t *descs, ncclComm_t comm,
                                 cudaStream_t stream)
{
        struct task *tasks = n > 0 ? calloc((size_t)n, sizeof *tasks) : NULL;
        ncclResult_t r = comm_check((struct comm *)comm, "WaitSignal");

        if (!r && (!tasks || !descs))
                r = fail((struct comm *)comm, ncclInvalidArgument, "WaitSignal: no descriptors");
        for (int i = 0; i < n && !r; i++) {
                const ncclWaitSignalDesc_t *d = &descs[i];

                r = check(&(struct ask){FN_WAITSIGNAL, NULL, NULL, 0, ncclInt8, ncclSum, d->peer,
                                        comm, stream, false, false},
                          &tasks[i]);
                if (!r && d->opCnt < 0)
                        r = fail((struct comm *)comm, ncclInvalidArgument,
                                 "WaitSignal: negative count");
                if (r)
                        break;
                tasks[i].count = (size_t)d->opCnt;
                tasks[i].rma = (__typeof__(tasks[i].rma)){-1, d->sigIdx, d->ctx, 0};
        }
        r = r ? group_fail(r) : enqueue(tasks, n);
        free(tasks);
        return r;
}

API ncclResult_t pncclGroupStart(void) { return group_start(); }

API ncclResult_t pncclGroupEnd(void) { return group_end(NULL); }

API ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t *info)
{
        if (!info || info->magic != NCCL_SIM_INFO_MAGIC)
                return fail(NULL, ncclInvalidArgument,
                            "ncclSimInfo_t argument not initialized via NCCL_SIM_INFO_INITIALIZER");
        return group_end(info);
}

#define STANDIN_PART STANDIN_CALL
#define NCCL(result, name, since, params)         \
        extern __typeof__(pnccl##name) nccl##name \
                __attribute__((weak, alias("pnccl" #name), visibility("default")));
#include "standin_nccl.def"
