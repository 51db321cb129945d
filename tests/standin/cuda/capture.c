/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture of the stand-in driver: who may call what while a stream captures, and what breaks
 * a capture.
 *
 * A graph here is the list of captured tasks in the order they were asked for. That order respects
 * every dependency, so launching a graph is running the list on the launching stream: correct,
 * though never concurrent.
 *
 * The rules are those of the driver API's reference (CUDA 13.0 cuda.h, "Stream Management" and
 * cuThreadExchangeStreamCaptureMode): a potentially unsafe call is refused with 900 and invalidates
 * each capture that forbids it - captures this thread began (unless relaxed), and any capture in
 * global mode unless the thread's own mode is narrower.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "fake.h"

pthread_mutex_t capture_lock = PTHREAD_MUTEX_INITIALIZER;
static struct capture *captures; /* under capture_lock */
static atomic_int n_captures;
static uint64_t next_capture = 1;
static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

struct CUgraphExec_st {
        CUgraph graph;
        int refs;
};

static void graph_unref(CUgraph g)
{
        if (__atomic_sub_fetch(&g->refs, 1, __ATOMIC_ACQ_REL))
                return;
        for (struct task *t = g->head, *next; t; t = next) {
                next = t->next;
                if (t->drop)
                        t->drop(t);
                free(t);
        }
        free(g);
}

static void graph_add(CUgraph g, const struct task *proto)
{
        struct task *t = malloc(sizeof *t);

        if (!t)
                abort();
        *t = *proto;
        t->next = NULL;
        *g->tail = t;
        g->tail = &t->next;
        g->n++;
}

CUresult capture_unsafe(void)
{
        CUresult r = CUDA_SUCCESS;

        if (!atomic_load_explicit(&n_captures, memory_order_acquire) ||
            thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
                return r;
        pthread_mutex_lock(&capture_lock);
        for (struct capture *c = captures; c; c = c->next) {
                bool mine = pthread_equal(c->thread, pthread_self()) &&
                            c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
                bool global = c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                              thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;

                if (mine || global) {
                        c->invalid = true;
                        r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
                }
        }
        pthread_mutex_unlock(&capture_lock);
        return r;
}

CUresult capture_forbids(CUstream s)
{
        CUresult r = CUDA_SUCCESS;

        if (!atomic_load_explicit(&n_captures, memory_order_acquire))
                return r;
        pthread_mutex_lock(&capture_lock);
        if (s->capture) {
                r = s->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                                        : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
                s->capture->invalid = true;
        }
        pthread_mutex_unlock(&capture_lock);
        return r;
}

static bool implicit_in(const struct capture *c, CUcontext ctx)
{
        for (int i = 0; i < c->n_joined; i++)
                if (c->joined[i]->ctx == ctx && !(c->joined[i]->flags & CU_STREAM_NON_BLOCKING))
                        return true;
        return false;
}

CUresult capture_implicit(CUstream s)
{
        CUresult r = CUDA_SUCCESS;

        if (!s->is_legacy || !atomic_load_explicit(&n_captures, memory_order_acquire))
                return r;
        pthread_mutex_lock(&capture_lock);
        for (struct capture *c = captures; c; c = c->next)
                if (implicit_in(c, s->ctx)) {
                        c->invalid = true;
                        r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
                }
        pthread_mutex_unlock(&capture_lock);
        return r;
}

CUresult capture_add(CUstream s, const struct task *proto, bool *taken)
{
        CUresult r = CUDA_SUCCESS;

        if (!atomic_load_explicit(&n_captures, memory_order_acquire))
                return r;
        pthread_mutex_lock(&capture_lock);
        if (s->capture && s->capture->invalid) {
                r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        } else if (s->capture) {
                graph_add(s->capture->graph, proto);
                s->captured_at = ++s->capture->pos;
                *taken = true;
        }
        pthread_mutex_unlock(&capture_lock);
        return r;
}

CUresult capture_event(CUstream s, CUevent e, bool external, const struct task *proto, bool *taken)
{
        CUresult r = CUDA_SUCCESS;

        if (!atomic_load_explicit(&n_captures, memory_order_acquire))
                return r;
        pthread_mutex_lock(&capture_lock);
        if (s->capture && s->capture->invalid) {
                r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        } else if (s->capture && external) {
                __atomic_add_fetch(&e->refs, 1, __ATOMIC_RELAXED);
                graph_add(s->capture->graph, proto);
                s->captured_at = ++s->capture->pos;
                *taken = true;
        } else if (s->capture) {
                pthread_mutex_lock(&e->lock);
                e->captured = true;
                e->capture = s->capture;
                e->captured_stream = s;
                e->captured_at = s->captured_at;
                pthread_mutex_unlock(&e->lock);
                *taken = true;
        } else if (external) {
                r = CUDA_ERROR_ILLEGAL_STATE;
        }
        pthread_mutex_unlock(&capture_lock);
        return r;
}

static bool alive(const struct capture *which)
{
        for (struct capture *c = captures; c; c = c->next)
                if (c == which)
                        return true;
        return false;
}

CUresult capture_wait(CUstream s, CUevent e, bool *taken)
{
        CUresult r = CUDA_SUCCESS;

        if (!atomic_load_explicit(&n_captures, memory_order_acquire) && !e->captured)
                return r;
        pthread_mutex_lock(&capture_lock);
        if (s->capture && s->capture->invalid) {
                r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        } else if (!e->captured) {
                if (s->capture) { /* a dependency on work outside the capture */
                        s->capture->invalid = true;
                        r = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
                }
        } else if (!alive(e->capture)) {
                r = CUDA_ERROR_CAPTURED_EVENT;
        } else if (s->capture && s->capture != e->capture) {
                s->capture->invalid = e->capture->invalid = true;
                r = CUDA_ERROR_STREAM_CAPTURE_MERGE;
        } else {
                struct capture *c = e->capture;

                if (!s->capture && c->n_joined == 64) {
                        r = CUDA_ERROR_OUT_OF_MEMORY;
                } else {
                        if (!s->capture) {
                                s->capture = c;
                                s->captured_at = ++c->pos;
                                s->joined_at = 0;
                                c->joined[c->n_joined++] = s;
                        }
                        if (e->captured_stream != s)
                                e->captured_stream->joined_at = e->captured_at;
                        *taken = true;
                }
        }
        pthread_mutex_unlock(&capture_lock);
        return r;
}

/* A stream that is destroyed takes its capture with it. */
void capture_forget(CUstream s)
{
        pthread_mutex_lock(&capture_lock);
        if (s->capture) {
                struct capture *c = s->capture;

                c->invalid = true;
                for (int i = 0; i < c->n_joined; i++)
                        if (c->joined[i] == s)
                                c->joined[i] = c->joined[--c->n_joined];
                if (c->origin == s)
                        c->origin = NULL;
                s->capture = NULL;
        }
        pthread_mutex_unlock(&capture_lock);
}

EXPORT CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode)
{
        struct capture *c;
        CUstream s;
        CUresult r = fake_stream(handle, &s);

        if (r)
                return r;
        if (mode > CU_STREAM_CAPTURE_MODE_RELAXED)
                return CUDA_ERROR_INVALID_VALUE;
        if (s->is_legacy)
                return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        c = calloc(1, sizeof *c);
        if (c)
                c->graph = calloc(1, sizeof *c->graph);
        if (!c || !c->graph) {
                free(c);
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        c->graph->tail = &c->graph->head;
        c->graph->refs = 1;
        c->origin = s;
        c->mode = mode;
        c->thread = pthread_self();
        c->joined[c->n_joined++] = s;
        pthread_mutex_lock(&capture_lock);
        if (s->capture) {
                r = CUDA_ERROR_ILLEGAL_STATE;
        } else {
                c->id = next_capture++;
                s->capture = c;
                s->captured_at = s->joined_at = 0;
                c->next = captures;
                captures = c;
                atomic_fetch_add(&n_captures, 1);
        }
        pthread_mutex_unlock(&capture_lock);
        if (r) {
                free(c->graph);
                free(c);
        }
        return r;
}

EXPORT CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph)
{
        struct capture *c;
        CUstream s;
        CUresult r = fake_stream(handle, &s);

        if (r)
                return r;
        *graph = NULL;
        pthread_mutex_lock(&capture_lock);
        c = s->capture;
        if (!c)
                r = CUDA_ERROR_ILLEGAL_STATE;
        else if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
                 !pthread_equal(c->thread, pthread_self()))
                r = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
        else if (c->origin != s) {
                c->invalid = true;
                r = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
        }
        if (r) {
                pthread_mutex_unlock(&capture_lock);
                return r;
        }
        if (c->invalid)
                r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        for (int i = 0; i < c->n_joined; i++) {
                CUstream o = c->joined[i];

                if (!r && o != s && o->captured_at > o->joined_at)
                        r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
                o->capture = NULL;
        }
        for (struct capture **p = &captures; *p; p = &(*p)->next)
                if (*p == c) {
                        *p = c->next;
                        break;
                }
        atomic_fetch_sub(&n_captures, 1);
        pthread_mutex_unlock(&capture_lock);
        if (r)
                graph_unref(c->graph);
        else
                *graph = c->graph;
        free(c);
        return r;
}

EXPORT CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
        CUstream s;
        CUresult r = fake_stream(handle, &s);

        if (r)
                return r;
        *status = CU_STREAM_CAPTURE_STATUS_NONE;
        if (!atomic_load_explicit(&n_captures, memory_order_acquire))
                return CUDA_SUCCESS;
        pthread_mutex_lock(&capture_lock);
        for (struct capture *c = captures; c && s->is_legacy; c = c->next)
                if (implicit_in(c, s->ctx))
                        r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT; /* said, but the capture is left
                                                                   alone */
        if (s->capture)
                *status = s->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                              : CU_STREAM_CAPTURE_STATUS_ACTIVE;
        pthread_mutex_unlock(&capture_lock);
        return r;
}

EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus *status,
                                          cuuint64_t *id, CUgraph *graph,
                                          const CUgraphNode **dependencies, size_t *n_dependencies)
{
        CUstream s;
        CUresult r = cuStreamIsCapturing(handle, status);

        if (!r)
                r = fake_stream(handle, &s);
        if (r)
                return r;
        pthread_mutex_lock(&capture_lock);
        if (s->capture) {
                if (id)
                        *id = s->capture->id;
                if (graph)
                        *graph = s->capture->graph;
                if (dependencies)
                        *dependencies = NULL;
                if (n_dependencies)
                        *n_dependencies = 0;
        }
        pthread_mutex_unlock(&capture_lock);
        return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus *status,
                                       cuuint64_t *id)
{
        return cuStreamGetCaptureInfo_v2(handle, status, id, NULL, NULL, NULL);
}

EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus *status,
                                          cuuint64_t *id, CUgraph *graph,
                                          const CUgraphNode **dependencies,
                                          const CUgraphEdgeData **edges, size_t *n_dependencies)
{
        if (edges)
                *edges = NULL;
        return cuStreamGetCaptureInfo_v2(handle, status, id, graph, dependencies, n_dependencies);
}

EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
        CUstreamCaptureMode old = thread_mode;

        if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
                return CUDA_ERROR_INVALID_VALUE;
        thread_mode = *mode;
        *mode = old;
        return CUDA_SUCCESS;
}

/* --- graphs --- */

static void exec_unref(CUgraphExec x)
{
        if (__atomic_sub_fetch(&x->refs, 1, __ATOMIC_ACQ_REL))
                return;
        graph_unref(x->graph);
        free(x);
}

static void run_graph(struct task *t)
{
        CUgraphExec x = t->a;

        for (struct task *node = x->graph->head; node; node = node->next)
                node->run(node);
}

static void drop_graph(struct task *t) { exec_unref(t->a); }

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
                                            unsigned long long flags)
{
        CUresult r = capture_unsafe();
        CUgraphExec x;

        if (r)
                return r;
        if (!exec || !graph)
                return CUDA_ERROR_INVALID_VALUE;
        x = calloc(1, sizeof *x);
        if (!x)
                return CUDA_ERROR_OUT_OF_MEMORY;
        __atomic_add_fetch(&graph->refs, 1, __ATOMIC_RELAXED);
        x->graph = graph;
        x->refs = 1;
        *exec = x;
        return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphLaunch(CUgraphExec x, CUstream handle)
{
        struct task t = {.run = run_graph, .drop = drop_graph, .a = x};
        CUstream s;
        CUresult r = fake_stream(handle, &s);

        if (!r && !x)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r)
                return r;
        __atomic_add_fetch(&x->refs, 1, __ATOMIC_RELAXED);
        r = fake_submit(s, &t, false);
        if (r)
                exec_unref(x);
        return r;
}

EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n_nodes)
{
        size_t i = 0;

        if (!graph || !n_nodes)
                return CUDA_ERROR_INVALID_VALUE;
        if (!nodes) {
                *n_nodes = graph->n;
                return CUDA_SUCCESS;
        }
        for (struct task *t = graph->head; t && i < *n_nodes; t = t->next)
                nodes[i++] = (CUgraphNode)t;
        *n_nodes = i;
        return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec)
{
        if (!exec)
                return CUDA_ERROR_INVALID_VALUE;
        exec_unref(exec);
        return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphDestroy(CUgraph graph)
{
        if (!graph)
                return CUDA_ERROR_INVALID_VALUE;
        graph_unref(graph);
        return CUDA_SUCCESS;
}
