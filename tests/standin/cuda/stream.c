/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and events of the stand-in driver.
 *
 * A stream is a queue and a worker thread that takes one task after the other, as a GPU takes
 * kernels. An event is a task that reads CLOCK_MONOTONIC on that thread: the difference of two
 * events is what really passed between the end of the work before the first and the end of the work
 * before the second, which is what a GPU's events say.
 *
 * The default stream of a context keeps CUDA's legacy rule: its work waits for everything queued
 * before on the context's blocking streams, and their later work waits for it. Both waits are tasks
 * like any other.
 */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "fake.h"

#define STREAM_MAGIC 0x6d61657274736663ull
#define EVENT_MAGIC  0x746e657665736663ull

static atomic_uint_fast64_t next_id = 1;
static __thread CUcontext working; /* whose task this thread runs */

static uint64_t now_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

CUresult fake_lost(CUcontext ctx)
{
        return (CUresult)__atomic_load_n(&ctx->lost, __ATOMIC_ACQUIRE);
}

/*
 * For libnccl's stand-in, no function of CUDA's: the task that calls this was given up and has not
 * done its work. As after a kernel that ran too long, everything the context is asked for fails
 * from now on, so that nobody takes what is there for a result.
 */
EXPORT void standin_lost(void)
{
        if (working)
                __atomic_store_n(&working->lost, CUDA_ERROR_LAUNCH_TIMEOUT, __ATOMIC_RELEASE);
}

static void stream_unref(CUstream s)
{
        if (__atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL))
                return;
        s->magic = 0;
        pthread_mutex_destroy(&s->lock);
        pthread_cond_destroy(&s->work);
        pthread_cond_destroy(&s->idle);
        free(s);
}

static void *work(void *arg)
{
        CUstream s = arg;

        working = s->ctx;
        pthread_mutex_lock(&s->lock);
        for (;;) {
                struct task *t;

                /* A short polite wait saves the wake-up of a sleeping thread when work follows
                 * work. */
                for (int i = 0; !s->head && !s->stop && i < 40; i++) {
                        pthread_mutex_unlock(&s->lock);
                        sched_yield();
                        pthread_mutex_lock(&s->lock);
                }
                while (!s->head && !s->stop)
                        pthread_cond_wait(&s->work, &s->lock);
                if (!s->head)
                        break;
                t = s->head;
                s->head = t->next;
                if (!s->head)
                        s->tail = &s->head;
                pthread_mutex_unlock(&s->lock);
                t->run(t);
                if (t->drop)
                        t->drop(t);
                free(t);
                pthread_mutex_lock(&s->lock);
                s->done++;
                if (s->waiters)
                        pthread_cond_broadcast(&s->idle);
        }
        pthread_mutex_unlock(&s->lock);
        stream_unref(s);
        return NULL;
}

static CUresult stream_new(CUcontext ctx, unsigned flags, bool is_legacy, CUstream *out)
{
        CUstream s = calloc(1, sizeof *s);

        if (!s)
                return CUDA_ERROR_OUT_OF_MEMORY;
        s->magic = STREAM_MAGIC;
        s->ctx = ctx;
        s->flags = flags;
        s->is_legacy = is_legacy;
        s->id = next_id++;
        s->refs = 2; /* the handle's and the worker's */
        s->tail = &s->head;
        pthread_mutex_init(&s->lock, NULL);
        pthread_cond_init(&s->work, NULL);
        pthread_cond_init(&s->idle, NULL);
        if (pthread_create(&s->worker, NULL, work, s)) {
                s->refs = 1;
                stream_unref(s);
                return CUDA_ERROR_OPERATING_SYSTEM;
        }
        pthread_detach(s->worker);
        pthread_setname_np(s->worker, is_legacy ? "cuda-default" : "cuda-stream");
        if (is_legacy) {
                ctx->legacy = s;
        } else {
                pthread_mutex_lock(&ctx->lock);
                s->ctx_next = ctx->streams;
                ctx->streams = s;
                pthread_mutex_unlock(&ctx->lock);
        }
        *out = s;
        return CUDA_SUCCESS;
}

CUresult fake_stream(CUstream handle, CUstream *out)
{
        static __thread struct {
                CUcontext ctx;
                CUstream stream;
        } mine;
        CUcontext ctx;
        CUresult r;

        if ((uintptr_t)handle > 2) {
                if (handle->magic != STREAM_MAGIC)
                        return CUDA_ERROR_INVALID_HANDLE;
                *out = handle;
                return fake_lost(handle->ctx);
        }
        r = fake_current(&ctx);
        if (!r)
                r = fake_lost(ctx);
        if (r)
                return r;
        if (handle == CU_STREAM_PER_THREAD) {
                if (mine.ctx != ctx) {
                        r = stream_new(ctx, CU_STREAM_DEFAULT, false, &mine.stream);
                        if (r)
                                return r;
                        mine.ctx = ctx;
                }
                *out = mine.stream;
                return CUDA_SUCCESS;
        }
        pthread_mutex_lock(&ctx->lock);
        if (!ctx->legacy)
                r = stream_new(ctx, CU_STREAM_DEFAULT, true, &ctx->legacy);
        *out = ctx->legacy;
        pthread_mutex_unlock(&ctx->lock);
        return r;
}

void fake_wait_done(CUstream s, uint64_t upto)
{
        pthread_mutex_lock(&s->lock);
        for (int i = 0; s->done < upto && i < 40; i++) {
                pthread_mutex_unlock(&s->lock);
                sched_yield();
                pthread_mutex_lock(&s->lock);
        }
        s->waiters++;
        while (s->done < upto)
                pthread_cond_wait(&s->idle, &s->lock);
        s->waiters--;
        pthread_mutex_unlock(&s->lock);
}

static uint64_t issued(CUstream s)
{
        uint64_t n;

        pthread_mutex_lock(&s->lock);
        n = s->issued;
        pthread_mutex_unlock(&s->lock);
        return n;
}

/* Returns the task's number, which is `done` once it has run. */
static uint64_t push(CUstream s, const struct task *proto)
{
        struct task *t = malloc(sizeof *t);
        uint64_t number;

        if (!t)
                abort();
        *t = *proto;
        t->next = NULL;
        pthread_mutex_lock(&s->lock);
        *s->tail = t;
        s->tail = &t->next;
        number = ++s->issued;
        pthread_cond_signal(&s->work);
        pthread_mutex_unlock(&s->lock);
        return number;
}

static void run_wait_stream(struct task *t) { fake_wait_done(t->a, t->n); }

static void drop_wait_stream(struct task *t) { stream_unref(t->a); }

static void push_wait(CUstream s, CUstream other, uint64_t upto)
{
        struct task t = {.run = run_wait_stream, .drop = drop_wait_stream, .a = other, .n = upto};

        __atomic_add_fetch(&other->refs, 1, __ATOMIC_RELAXED);
        push(s, &t);
}

/* The waits the legacy rule asks for before new work on s. */
static void order(CUstream s)
{
        CUcontext ctx = s->ctx;

        pthread_mutex_lock(&ctx->lock);
        if (s->is_legacy) {
                for (CUstream o = ctx->streams; o; o = o->ctx_next)
                        if (!(o->flags & CU_STREAM_NON_BLOCKING)) {
                                uint64_t n = issued(o);
                                bool idle;

                                pthread_mutex_lock(&o->lock);
                                idle = o->done >= n;
                                pthread_mutex_unlock(&o->lock);
                                if (!idle)
                                        push_wait(s, o, n);
                        }
        } else if (!(s->flags & CU_STREAM_NON_BLOCKING) && ctx->legacy) {
                uint64_t n = issued(ctx->legacy);

                if (n > s->legacy_seen) {
                        s->legacy_seen = n;
                        push_wait(s, ctx->legacy, n);
                }
        }
        pthread_mutex_unlock(&ctx->lock);
}

void fake_enqueue(CUstream s, const struct task *proto)
{
        order(s);
        push(s, proto);
}

CUresult fake_submit(CUstream s, const struct task *proto, bool wait)
{
        bool taken = false;
        uint64_t number;
        CUresult r;

        r = capture_implicit(s);
        if (r)
                return r;
        r = wait ? capture_forbids(s) : capture_add(s, proto, &taken);
        if (r || taken)
                return r;
        order(s);
        number = push(s, proto);
        if (!wait)
                return CUDA_SUCCESS;
        fake_wait_done(s, number);
        return fake_lost(s->ctx);
}

void fake_streams_close(CUcontext ctx)
{
        while (ctx->streams)
                cuStreamDestroy_v2(ctx->streams);
        if (ctx->legacy) {
                CUstream s = ctx->legacy;

                ctx->legacy = NULL;
                pthread_mutex_lock(&s->lock);
                s->stop = true;
                pthread_cond_signal(&s->work);
                pthread_mutex_unlock(&s->lock);
                stream_unref(s);
        }
}

EXPORT CUresult cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority)
{
        CUcontext ctx;
        CUresult r = fake_current(&ctx);

        if (r)
                return r;
        if (!out || flags > CU_STREAM_NON_BLOCKING)
                return CUDA_ERROR_INVALID_VALUE;
        return stream_new(ctx, flags, false, out);
}

EXPORT CUresult cuStreamCreate(CUstream *out, unsigned int flags)
{
        return cuStreamCreateWithPriority(out, flags, 0);
}

/* Queued work still runs; the worker ends after it. */
EXPORT CUresult cuStreamDestroy_v2(CUstream s)
{
        if ((uintptr_t)s <= 2 || s->magic != STREAM_MAGIC)
                return CUDA_ERROR_INVALID_HANDLE;
        capture_forget(s);
        pthread_mutex_lock(&s->ctx->lock);
        for (CUstream *p = &s->ctx->streams; *p; p = &(*p)->ctx_next)
                if (*p == s) {
                        *p = s->ctx_next;
                        break;
                }
        pthread_mutex_unlock(&s->ctx->lock);
        pthread_mutex_lock(&s->lock);
        s->stop = true;
        s->magic = 0;
        pthread_cond_signal(&s->work);
        pthread_mutex_unlock(&s->lock);
        stream_unref(s);
        return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamSynchronize(CUstream handle)
{
        CUstream s;
        CUresult r = fake_stream(handle, &s);

        if (!r)
                r = capture_implicit(s);
        if (!r)
                r = capture_forbids(s);
        if (!r)
                r = capture_unsafe();
        if (r)
                return r;
        if (s->is_legacy)
                order(s);
        fake_wait_done(s, issued(s));
        return fake_lost(s->ctx);
}

EXPORT CUresult cuStreamQuery(CUstream handle)
{
        CUstream s;
        CUresult r = fake_stream(handle, &s);

        if (!r)
                r = capture_implicit(s);
        if (!r)
                r = capture_forbids(s);
        if (!r)
                r = capture_unsafe();
        if (r)
                return r;
        pthread_mutex_lock(&s->lock);
        r = s->done >= s->issued ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
        pthread_mutex_unlock(&s->lock);
        return r;
}

EXPORT CUresult cuCtxSynchronize(void)
{
        CUcontext ctx;
        CUresult r = fake_current(&ctx);
        CUstream one[256];
        uint64_t upto[256];
        int n = 0;

        if (!r)
                r = capture_unsafe();
        if (r)
                return r;
        pthread_mutex_lock(&ctx->lock);
        if (ctx->legacy)
                one[n++] = ctx->legacy;
        for (CUstream s = ctx->streams; s && n < 256; s = s->ctx_next)
                one[n++] = s;
        for (int i = 0; i < n; i++) {
                __atomic_add_fetch(&one[i]->refs, 1, __ATOMIC_RELAXED);
                upto[i] = issued(one[i]);
        }
        pthread_mutex_unlock(&ctx->lock);
        for (int i = 0; i < n; i++) {
                fake_wait_done(one[i], upto[i]);
                stream_unref(one[i]);
        }
        return fake_lost(ctx);
}

EXPORT CUresult cuStreamGetCtx(CUstream handle, CUcontext *ctx)
{
        CUstream s;
        CUresult r = fake_stream(handle, &s);

        if (!r)
                *ctx = s->ctx;
        return r;
}

EXPORT CUresult cuStreamGetFlags(CUstream handle, unsigned int *flags)
{
        CUstream s;
        CUresult r = fake_stream(handle, &s);

        if (!r)
                *flags = s->flags;
        return r;
}

EXPORT CUresult cuStreamGetId(CUstream handle, unsigned long long *id)
{
        CUstream s;
        CUresult r = fake_stream(handle, &s);

        if (!r)
                *id = s->id;
        return r;
}

static void run_host(struct task *t) { ((CUhostFn)t->a)(t->b); }

EXPORT CUresult cuLaunchHostFunc(CUstream handle, CUhostFn fn, void *data)
{
        struct task t = {.run = run_host, .a = fn, .b = data};
        CUstream s;
        CUresult r = fake_stream(handle, &s);

        if (!r && !fn)
                r = CUDA_ERROR_INVALID_VALUE;
        return r ? r : fake_submit(s, &t, false);
}

/*
 * --- events ---
 *
 * An event is what it was last recorded as: a task of a stream. Whoever waits for it waits for that
 * task, also when the event is recorded elsewhere meanwhile. Records on two streams may run in
 * either order.
 */

void fake_event_unref(CUevent e)
{
        if (__atomic_sub_fetch(&e->refs, 1, __ATOMIC_ACQ_REL))
                return;
        if (e->stream)
                stream_unref(e->stream);
        pthread_mutex_destroy(&e->lock);
        free(e);
}

EXPORT CUresult cuEventCreate(CUevent *out, unsigned int flags)
{
        CUcontext ctx;
        CUresult r = fake_current(&ctx);
        CUevent e;

        if (r)
                return r;
        if (!out || flags > 7)
                return CUDA_ERROR_INVALID_VALUE;
        e = calloc(1, sizeof *e);
        if (!e)
                return CUDA_ERROR_OUT_OF_MEMORY;
        e->magic = EVENT_MAGIC;
        e->flags = flags;
        e->ctx = ctx;
        e->life = ctx->life;
        e->refs = 1;
        pthread_mutex_init(&e->lock, NULL);
        *out = e;
        return CUDA_SUCCESS;
}

static bool is_event(CUevent e) { return e && e->magic == EVENT_MAGIC && e->life == e->ctx->life; }

EXPORT CUresult cuEventDestroy_v2(CUevent e)
{
        if (!is_event(e))
                return CUDA_ERROR_INVALID_HANDLE;
        e->magic = 0;
        fake_event_unref(e);
        return CUDA_SUCCESS;
}

/* The event's lock is held. s: NULL where the record has run. */
static void recorded(CUevent e, CUstream s, uint64_t number)
{
        if (s)
                __atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
        if (e->stream)
                stream_unref(e->stream);
        e->stream = s;
        e->number = number;
}

static bool has_run(CUevent e)
{
        bool yes = true;

        if (e->stream) {
                pthread_mutex_lock(&e->stream->lock);
                yes = e->stream->done >= e->number;
                pthread_mutex_unlock(&e->stream->lock);
        }
        return yes;
}

static void run_record(struct task *t)
{
        CUevent e = t->a;

        pthread_mutex_lock(&e->lock);
        if (!t->n) { /* a graph's record node: each launch is one more record */
                e->asked++;
                recorded(e, NULL, 0);
        }
        if (!t->n || t->n == e->asked)
                e->t_ns = now_ns();
        pthread_mutex_unlock(&e->lock);
}

static void drop_event(struct task *t) { fake_event_unref(t->a); }

EXPORT CUresult cuEventRecordWithFlags(CUevent e, CUstream handle, unsigned int flags)
{
        struct task t = {.run = run_record, .drop = drop_event, .a = e};
        bool taken = false;
        CUstream s;
        CUresult r = fake_stream(handle, &s);

        if (!r && (!is_event(e) || e->ctx != s->ctx))
                r = CUDA_ERROR_INVALID_HANDLE;
        if (!r)
                r = capture_implicit(s);
        if (!r)
                r = capture_event(s, e, flags & CU_EVENT_RECORD_EXTERNAL, &t, &taken);
        if (r || taken)
                return r;
        order(s);
        pthread_mutex_lock(&e->lock);
        e->captured = false;
        t.n = ++e->asked;
        __atomic_add_fetch(&e->refs, 1, __ATOMIC_RELAXED);
        recorded(e, s, push(s, &t));
        pthread_mutex_unlock(&e->lock);
        return CUDA_SUCCESS;
}

EXPORT CUresult cuEventRecord(CUevent e, CUstream handle)
{
        return cuEventRecordWithFlags(e, handle, CU_EVENT_RECORD_DEFAULT);
}

EXPORT CUresult cuEventQuery(CUevent e)
{
        CUresult r;

        if (!is_event(e))
                return CUDA_ERROR_INVALID_HANDLE;
        r = capture_unsafe();
        if (r)
                return r;
        pthread_mutex_lock(&e->lock);
        if (e->captured)
                r = CUDA_ERROR_CAPTURED_EVENT;
        else
                r = has_run(e) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
        pthread_mutex_unlock(&e->lock);
        return r ? r : fake_lost(e->ctx);
}

EXPORT CUresult cuEventSynchronize(CUevent e)
{
        uint64_t number = 0;
        CUstream s = NULL;
        CUresult r;

        if (!is_event(e))
                return CUDA_ERROR_INVALID_HANDLE;
        r = capture_unsafe();
        if (r)
                return r;
        pthread_mutex_lock(&e->lock);
        if (e->captured) {
                r = CUDA_ERROR_CAPTURED_EVENT;
        } else if (e->stream) {
                s = e->stream;
                number = e->number;
                __atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
        }
        pthread_mutex_unlock(&e->lock);
        if (s) {
                fake_wait_done(s, number);
                stream_unref(s);
        }
        return r ? r : fake_lost(e->ctx);
}

EXPORT CUresult cuEventElapsedTime_v2(float *ms, CUevent begin, CUevent end)
{
        CUevent both[] = {begin, end};
        uint64_t t[2];

        if (!ms)
                return CUDA_ERROR_INVALID_VALUE;
        for (int i = 0; i < 2; i++) {
                CUresult r = CUDA_SUCCESS;
                CUevent e = both[i];

                if (!is_event(e) || (e->flags & CU_EVENT_DISABLE_TIMING))
                        return CUDA_ERROR_INVALID_HANDLE;
                pthread_mutex_lock(&e->lock);
                if (e->captured)
                        r = CUDA_ERROR_CAPTURED_EVENT;
                else if (!e->asked)
                        r = CUDA_ERROR_INVALID_HANDLE;
                else if (!has_run(e))
                        r = CUDA_ERROR_NOT_READY;
                t[i] = e->t_ns;
                pthread_mutex_unlock(&e->lock);
                if (r)
                        return r;
        }
        *ms = (float)((double)(int64_t)(t[1] - t[0]) / 1e6);
        return CUDA_SUCCESS;
}

EXPORT CUresult cuEventElapsedTime(float *ms, CUevent begin, CUevent end)
{
        return cuEventElapsedTime_v2(ms, begin, end);
}

EXPORT CUresult cuStreamWaitEvent(CUstream handle, CUevent e, unsigned int flags)
{
        bool taken = false;
        CUstream s;
        CUresult r = fake_stream(handle, &s);

        if (!r && !is_event(e))
                r = CUDA_ERROR_INVALID_HANDLE;
        if (!r)
                r = capture_implicit(s);
        if (!r)
                r = capture_wait(s, e, &taken);
        if (r || taken)
                return r;
        order(s);
        pthread_mutex_lock(&e->lock);
        if (e->stream && e->stream != s)
                push_wait(s, e->stream, e->number);
        pthread_mutex_unlock(&e->lock);
        return CUDA_SUCCESS;
}
