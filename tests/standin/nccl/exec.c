/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running a plan: a host function on the caller's stream, so the work begins when the stream's
 * earlier work is done and the stream's later work waits for it, as with a kernel. The plans of one
 * communicator run one after the other in the order they were launched, whatever their streams,
 * because its channels count their messages.
 *
 * Channel 0 of a collective runs on the stream's worker; the others have threads of their own, made
 * at first use.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "std.h"

static void run_channel(struct chan *ch, const struct task *t)
{
        ch->t_begin_ns = std_now_ns();
        ch->result = t->kernel ? (int)sym_wait(ch, t) : 0;
        ch->t_moved_ns = std_now_ns();
        if (!ch->result)
                ch->result = (int)run_collective(ch, t);
        ch->t_end_ns = std_now_ns();
        if (ch->result) /* let the other channels and later plans stop soon */
                ch->comm->abort = 1;
}

static void *channel_thread(void *arg)
{
        struct chan *ch = arg;

        pthread_mutex_lock(&ch->lock);
        while (!ch->stop) {
                if (!ch->busy) {
                        pthread_cond_wait(&ch->cond, &ch->lock);
                        continue;
                }
                pthread_mutex_unlock(&ch->lock);
                run_channel(ch, ch->task);
                pthread_mutex_lock(&ch->lock);
                ch->busy = false;
                pthread_cond_broadcast(&ch->cond);
        }
        pthread_mutex_unlock(&ch->lock);
        return NULL;
}

static ncclResult_t start_channel(struct chan *ch, const struct task *t)
{
        ncclResult_t r = chan_open(ch);

        if (r)
                return r;
        if (!ch->has_thread) {
                if (pthread_create(&ch->thread, NULL, channel_thread, ch))
                        return fail(ch->comm, ncclSystemError, "cannot start a thread");
                pthread_setname_np(ch->thread, "nccl-channel");
                ch->has_thread = true;
        }
        pthread_mutex_lock(&ch->lock);
        ch->task = t;
        ch->busy = true;
        pthread_cond_broadcast(&ch->cond);
        pthread_mutex_unlock(&ch->lock);
        return ncclSuccess;
}

void exec_stop_threads(struct comm *comm)
{
        for (int i = 1; i < MAX_CHANNELS; i++) {
                struct chan *ch = &comm->chans[i];

                if (!ch->has_thread)
                        continue;
                pthread_mutex_lock(&ch->lock);
                ch->stop = true;
                pthread_cond_broadcast(&ch->cond);
                pthread_mutex_unlock(&ch->lock);
                pthread_join(ch->thread, NULL);
                ch->has_thread = false;
        }
}

/* A communicator of one: the operator on one input, and the result in its place. */
static void run_alone(const struct task *t)
{
        size_t bytes = t->count * type_bytes(t->type);

        if (t->op.pre && (t->fn == FN_ALLREDUCE || t->fn == FN_REDUCE || t->fn == FN_REDUCESCATTER))
                reduce_scale(t->type, t->recv, t->send,
                             t->op.scalar_at ? t->op.scalar_at : t->op.scalar, t->count);
        else if (t->recv != t->send)
                memmove(t->recv, t->send, bytes);
}

/* A planted cost: CAPO_STANDIN_SLOW=Tree:300 makes every all-reduce by Tree so many us longer. */
static void run_slowly(const struct task *t)
{
        const char *slow = getenv("CAPO_STANDIN_SLOW"), *name = algo_names[t->algo];
        size_t n = strlen(name);

        if (slow && !strncasecmp(slow, name, n) && slow[n] == ':')
                usleep((useconds_t)atoi(slow + n + 1));
}

static ncclResult_t run_task(const struct task *t, bool captured)
{
        struct comm *comm = t->comm;
        ncclResult_t r = ncclSuccess;
        int started = 1;

        if (comm->n == 1) {
                run_alone(t);
                return ncclSuccess;
        }
        for (int i = 1; i < t->channels && !r; i++, started++)
                r = start_channel(&comm->chans[i], t);
        if (r)
                comm->abort = 1;
        run_slowly(t);
        run_channel(&comm->chans[0], t);
        if (!r)
                r = (ncclResult_t)comm->chans[0].result;
        for (int i = 1; i < started; i++) {
                struct chan *ch = &comm->chans[i];

                pthread_mutex_lock(&ch->lock);
                while (ch->busy)
                        pthread_cond_wait(&ch->cond, &ch->lock);
                pthread_mutex_unlock(&ch->lock);
                if (!r)
                        r = (ncclResult_t)ch->result;
        }
        if (!r && comm->profiled && !captured)
                profiler_channels(t);
        return r;
}

/* All sends and receives of a group at once: none waits for another. */
static ncclResult_t run_p2p(struct comm *comm, const struct task *tasks, int n)
{
        struct chan *ch = &comm->chans[0];
        struct req *reqs = calloc((size_t)n, sizeof *reqs);
        ncclResult_t r = ncclSuccess;
        int self = 0;

        if (!reqs)
                return fail(comm, ncclSystemError, "out of memory");
        for (int pass = 0; pass < 2; pass++) /* receives first: what comes has a place */
                for (int i = 0; i < n && !r; i++) {
                        const struct task *t = &tasks[i];
                        bool sends = t->fn == FN_SEND;

                        if (sends != (pass == 1))
                                continue;
                        reqs[i].done = true;
                        if (t->peer == comm->rank) {
                                int nth = 0, k;

                                if (!sends)
                                        continue;
                                for (k = 0; k < n;
                                     k++) /* the n-th send to oneself meets the n-th receive */
                                        if (tasks[k].fn == FN_RECV && tasks[k].peer == comm->rank &&
                                            nth++ == self)
                                                break;
                                self++;
                                if (k == n || tasks[k].bytes != t->bytes)
                                        r = fail(comm, ncclInvalidUsage,
                                                 "rank %d: a send to itself meets no receive",
                                                 comm->rank);
                                else
                                        memmove(tasks[k].recv, t->send, t->bytes);
                        } else if (sends) {
                                r = net_send(ch, t->peer, KIND_P2P, comm->p2p_sent[t->peer]++,
                                             t->send, t->bytes, &reqs[i]);
                        } else {
                                r = net_recv(ch, t->peer, KIND_P2P, comm->p2p_received[t->peer]++,
                                             t->recv, t->bytes, &reqs[i]);
                        }
                }
        for (int i = 0; i < n && !r; i++) {
                r = net_wait(ch, &reqs[i]);
                if (!r && tasks[i].fn == FN_RECV && tasks[i].peer != comm->rank &&
                    reqs[i].bytes != tasks[i].bytes)
                        r = fail(comm, ncclInvalidUsage,
                                 "rank %d: received %zu bytes from %d, expected %zu", comm->rank,
                                 reqs[i].bytes, tasks[i].peer, tasks[i].bytes);
        }
        if (!r)
                free(reqs); /* after an error the provider may still hold them */
        return r;
}

static ncclResult_t run_plan(struct plan *p)
{
        struct comm *comm = p->comm;
        ncclResult_t r = ncclSuccess;
        int i = 0, p2p = 0;

        if (comm->abort)
                return ncclInternalError;
        for (; i < p->n && p->tasks[i].fn <= FN_ALLREDUCE && !r; i++)
                r = run_task(&p->tasks[i], p->captured);
        while (i + p2p < p->n && p->tasks[i + p2p].fn <= FN_RECV)
                p2p++;
        if (!r && p2p) {
                comm->chans[0].t_begin_ns = std_now_ns();
                r = run_p2p(comm, p->tasks + i, p2p);
                comm->chans[0].t_end_ns = std_now_ns();
                for (int k = i; k < i + p2p && !r && comm->profiled && !p->captured; k++)
                        profiler_channels(&p->tasks[k]);
        }
        for (i += p2p; i < p->n && !r; i++)
                r = rma_run(&p->tasks[i]);
        return r;
}

void exec_plan(void *arg)
{
        struct plan *p = arg;
        struct comm *comm = p->comm;
        ncclResult_t r;

        pthread_mutex_lock(&comm->lock);
        while (comm->running || (!p->captured && comm->now_serving != p->ticket))
                pthread_cond_wait(&comm->served, &comm->lock);
        comm->running = true;
        pthread_mutex_unlock(&comm->lock);
        r = run_plan(p);
        if (r) {
                int none = 0;

                comm->abort = 1;
                atomic_compare_exchange_strong(&comm->error, &none, (int)r);
                if (comm->timed_out && cu.lost) /* nobody aborted it: what lies in its buffers must
                                                   not pass for a result */
                        cu.lost();
        }
        pthread_mutex_lock(&comm->lock);
        comm->running = false;
        if (!p->captured)
                comm->now_serving++;
        pthread_cond_broadcast(&comm->served);
        pthread_mutex_unlock(&comm->lock);
        if (!p->captured) {
                free(p);
                comm_unref(comm);
        }
}

ncclResult_t exec_drain(struct comm *comm)
{
        pthread_mutex_lock(&comm->lock);
        while (comm->now_serving != comm->next_ticket || comm->running)
                pthread_cond_wait(&comm->served, &comm->lock);
        pthread_mutex_unlock(&comm->lock);
        return (ncclResult_t)comm->error;
}
