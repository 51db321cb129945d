/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups and launches. Everything happens at the outermost ncclGroupEnd, an ungrouped call being
 * its own group: first the communicators asked for, each in a thread of its own since they wait for
 * each other; then, per communicator, the collectives are sorted by size, those alike and within a
 * factor of four share one decision, and one host function is put on the stream.
 */
#include <stdlib.h>
#include <string.h>

#include "std.h"

struct job {
        struct comm *comm;
        ncclResult_t (*run)(void *);
        void *arg;
        ncclResult_t result;
        pthread_t thread;
        bool started;
};

__thread int group_depth;
static __thread struct {
        struct task *tasks;
        int n, room;
        struct job *jobs;
        int n_jobs;
        ncclResult_t error;
} group;

struct launch {
        struct comm *comm;
        int n;
        struct task tasks[];
};

static bool alike(const struct task *a, const struct task *b)
{
        return a->fn == b->fn && a->op.fold == b->op.fold && a->op.pre == b->op.pre &&
               a->op.divide == b->op.divide &&
               (a->type == b->type || a->fn == FN_ALLGATHER || a->fn == FN_BROADCAST) &&
               how_same(&a->how, &b->how);
}

/* Smaller first, kinds together; equal ones stay in the caller's order, which is the same on every
 * rank. */
static bool before(const struct task *a, const struct task *b)
{
        if (a->fn != b->fn)
                return a->fn < b->fn;
        if (a->op.fold != b->op.fold)
                return a->op.fold < b->op.fold;
        if (a->type != b->type)
                return a->type < b->type;
        return a->bytes < b->bytes;
}

/* Collectives first, then sends and receives, then one-sided calls in their order. Returns how many
 * are collectives. */
static int sort(struct task *tasks, int n)
{
        struct task *rest = malloc((size_t)n * sizeof *rest);
        int colls = 0, others = 0;

        if (!rest)
                return -1;
        for (int i = 0; i < n; i++)
                if (tasks[i].fn == FN_SEND || tasks[i].fn == FN_RECV)
                        rest[others++] = tasks[i];
        for (int i = 0; i < n; i++)
                if (tasks[i].fn > FN_RECV)
                        rest[others++] = tasks[i];
        for (int i = 0; i < n; i++)
                if (tasks[i].fn <= FN_ALLREDUCE)
                        tasks[colls++] = tasks[i];
        memcpy(tasks + colls, rest, (size_t)others * sizeof *rest);
        free(rest);
        for (int i = 1; i < colls; i++) {
                struct task t = tasks[i];
                int k = i;

                for (; k && before(&t, &tasks[k - 1]); k--)
                        tasks[k] = tasks[k - 1];
                tasks[k] = t;
        }
        return colls;
}

static ncclResult_t decide(struct comm *comm, struct task *tasks, int colls, float *us)
{
        int pipe_ops = (colls + comm->n_channels - 1) / comm->n_channels;

        *us = 0;
        for (int i = 0, next; i < colls; i = next) {
                ncclResult_t r;
                float t;

                for (next = i + 1; next < colls && alike(&tasks[i], &tasks[next]) &&
                                   tasks[next].bytes < 4 * tasks[i].bytes;)
                        next++;
                r = choose(comm, tasks + i, next - i, pipe_ops, &t);
                if (r)
                        return r;
                *us += t;
        }
        return ncclSuccess;
}

/* Work on one stream waits for all that was queued on the others, and they wait for it: one launch,
 * as NCCL's is. */
static bool tie(cudaStream_t before_this, cudaStream_t after_that)
{
        CUevent e;
        bool ok;

        if (cu.p_cuEventCreate(&e, CU_EVENT_DISABLE_TIMING))
                return false;
        ok = !cu.p_cuEventRecord(e, after_that) && !cu.p_cuStreamWaitEvent(before_this, e, 0);
        cu.p_cuEventDestroy(e);
        return ok;
}

static ncclResult_t put_on_streams(struct plan *p)
{
        cudaStream_t first = p->tasks[0].stream;
        bool ok = true;

        for (int pass = 0; pass < 2; pass++) {
                for (int i = 1; i < p->n && ok; i++) {
                        bool seen = p->tasks[i].stream == first;

                        for (int k = 1; k < i && !seen; k++)
                                seen = p->tasks[k].stream == p->tasks[i].stream;
                        if (!seen)
                                ok = pass ? tie(p->tasks[i].stream, first)
                                          : tie(first, p->tasks[i].stream);
                }
                if (!pass && ok)
                        ok = !cu.p_cuLaunchHostFunc(first, exec_plan, p);
                if (!pass && !ok)
                        return fail(p->comm, ncclUnhandledCudaError, "cannot launch on the stream");
        }
        if (!ok) /* launched all the same: an asynchronous error */
                p->comm->error = (int)fail(p->comm, ncclUnhandledCudaError,
                                           "cannot order the streams of the group");
        return ncclSuccess;
}

static ncclResult_t launch(void *arg)
{
        struct launch *l = arg;
        struct comm *comm = l->comm;
        CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
        int colls = sort(l->tasks, l->n);
        ncclResult_t r = ncclSuccess;
        struct plan *p = NULL;
        CUcontext old;
        float us;

        if (colls < 0)
                r = ncclSystemError;
        if (!r && comm->n > 1)
                r = decide(comm, l->tasks, colls, &us);
        if (!r) {
                p = malloc(sizeof *p + (size_t)l->n * sizeof *p->tasks);
                if (!p)
                        r = ncclSystemError;
        }
        if (r) {
                free(l);
                return r;
        }
        p->comm = comm;
        p->n = l->n;
        memcpy(p->tasks, l->tasks, (size_t)l->n * sizeof *p->tasks);
        free(l);
        for (int i = 0; i < p->n; i++)
                p->tasks[i].seq = comm->seq[p->tasks[i].fn]++;
        cu.p_cuCtxPushCurrent(comm->ctx);
        cu.p_cuStreamIsCapturing(p->tasks[0].stream, &capturing);
        p->captured = capturing != CU_STREAM_CAPTURE_STATUS_NONE;
        if (comm->profiled)
                profiler_launch(comm, p);
        comm_ref(comm);
        pthread_mutex_lock(&comm->lock);
        if (p->captured) {
                p->next = comm->captured;
                comm->captured = p;
        } else {
                p->ticket = comm->next_ticket++;
        }
        r = put_on_streams(p);
        if (r && !p->captured)
                comm->next_ticket--;
        pthread_mutex_unlock(&comm->lock);
        if (r && !p->captured) {
                free(p);
                comm_unref(comm);
        }
        cu.p_cuCtxPopCurrent(&old);
        return r;
}

/* The group's tasks per communicator, in the order the communicators first appear. */
static ncclResult_t launch_all(void)
{
        ncclResult_t worst = ncclSuccess;

        for (int i = 0; i < group.n; i++) {
                struct comm *comm = group.tasks[i].comm;
                struct launch *l;
                ncclResult_t r;
                int n = 0;

                if (!comm)
                        continue;
                for (int k = i; k < group.n; k++)
                        n += group.tasks[k].comm == comm;
                l = malloc(sizeof *l + (size_t)n * sizeof *l->tasks);
                if (!l)
                        return ncclSystemError;
                l->comm = comm;
                l->n = 0;
                for (int k = i; k < group.n; k++)
                        if (group.tasks[k].comm == comm) {
                                l->tasks[l->n++] = group.tasks[k];
                                if (k > i)
                                        group.tasks[k].comm = NULL;
                        }
                r = comm->blocking ? launch(l) : comm_async(comm, launch, l);
                if (r && (!worst || worst == ncclInProgress))
                        worst = r;
        }
        return worst;
}

static void *job_thread(void *arg)
{
        struct job *j = arg;

        j->result = j->run(j->arg);
        return NULL;
}

static ncclResult_t run_jobs(void)
{
        ncclResult_t worst = ncclSuccess;

        for (int i = 0; i < group.n_jobs; i++) {
                struct job *j = &group.jobs[i];

                if (!j->comm->blocking) {
                        j->result = comm_async(j->comm, j->run, j->arg);
                        continue;
                }
                j->started = !pthread_create(&j->thread, NULL, job_thread, j);
                if (!j->started)
                        j->result = ncclSystemError;
        }
        for (int i = 0; i < group.n_jobs; i++) {
                struct job *j = &group.jobs[i];

                if (j->started)
                        pthread_join(j->thread, NULL);
                if (j->result && (!worst || worst == ncclInProgress))
                        worst = j->result;
        }
        return worst;
}

ncclResult_t group_job(struct comm *comm, ncclResult_t (*run)(void *), void *arg)
{
        struct job *more;

        if (!group_depth)
                return comm->blocking ? run(arg) : comm_async(comm, run, arg);
        more = realloc(group.jobs, (size_t)(group.n_jobs + 1) * sizeof *more);
        if (!more)
                return ncclSystemError;
        group.jobs = more;
        group.jobs[group.n_jobs++] = (struct job){.comm = comm, .run = run, .arg = arg};
        return ncclSuccess;
}

ncclResult_t enqueue(const struct task *t, int n)
{
        group_depth++;
        for (int i = 0; i < n; i++) {
                if (group.n == group.room) {
                        int room = group.room ? 2 * group.room : 64;
                        struct task *more = realloc(group.tasks, (size_t)room * sizeof *more);

                        if (!more) {
                                group.error = ncclSystemError;
                                break;
                        }
                        group.tasks = more;
                        group.room = room;
                }
                group.tasks[group.n++] = t[i];
        }
        return group_end(NULL);
}

ncclResult_t group_fail(ncclResult_t r)
{
        if (group_depth && !group.error)
                group.error = r;
        return r;
}

ncclResult_t group_start(void)
{
        group_depth++;
        return ncclSuccess;
}

ncclResult_t group_end(ncclSimInfo_t *simulate)
{
        ncclResult_t r = group.error;

        if (!group_depth)
                return fail(NULL, ncclInvalidUsage, "ncclGroupEnd: not in a group call");
        if (--group_depth)
                return ncclSuccess;
        if (simulate) {
                float total = 0, us;

                for (int i = 0; i < group.n && !r; i++)
                        if (group.tasks[i].fn <= FN_ALLREDUCE && group.tasks[i].comm->n > 1) {
                                r = choose(group.tasks[i].comm, &group.tasks[i], 1, 1, &us);
                                total += us;
                        }
                simulate->estimatedTime = total;
        } else {
                if (!r && group.n_jobs)
                        r = run_jobs();
                if ((!r || r == ncclInProgress) && group.n) {
                        ncclResult_t l = launch_all();

                        r = l ? l : r;
                }
        }
        group.n = group.n_jobs = 0;
        group.error = ncclSuccess;
        return r;
}
