/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the stand-in driver share: contexts, streams, events, captures. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#define STANDIN_DRIVER
#include <cuda.h>

#define EXPORT __attribute__((visibility("default")))

/* One piece of work of a stream. run() is called on the stream's worker; drop() frees what the task
 * holds. */
struct task {
        struct task *next;
        void (*run)(struct task *);
        void (*drop)(struct task *);
        void *a, *b;
        uint64_t n, v;
};

struct CUctx_st {
        int device;
        _Atomic int refs; /* of the primary context; 1 for a created one */
        _Atomic bool primary, dead;
        _Atomic unsigned
                life;    /* of the primary context: how often it has gone, and its events with it */
        int lost;        /* the error that all work of it ends with from now on; 0 none */
        CUstream legacy; /* the default stream; made at first use */
        CUstream streams; /* all streams of this context, linked by ctx_next */
        pthread_mutex_t lock;
};

struct CUstream_st {
        uint64_t magic;
        CUcontext ctx;
        CUstream ctx_next;
        unsigned flags;
        uint64_t id;
        bool is_legacy;
        pthread_t worker;
        pthread_mutex_t lock;
        pthread_cond_t work, idle;
        struct task *head, **tail;
        uint64_t issued, done; /* tasks queued and finished; done <= issued */
        uint64_t legacy_seen;  /* the default stream's task this stream is already ordered behind */
        int refs, waiters;
        bool stop;
        struct capture *capture; /* under capture_lock */
        uint64_t captured_at;    /* capture: position of this stream's last node */
        uint64_t joined_at; /* capture: position up to which another stream waits for this one */
};

struct CUevent_st {
        uint64_t magic;
        unsigned flags;
        CUcontext ctx;
        unsigned life; /* of the context, when it was made */
        int refs;
        pthread_mutex_t lock;
        uint64_t asked;  /* records queued; those of a graph, run */
        CUstream stream; /* the last one is this stream's task of this number; NULL: none, or it has
                            run */
        uint64_t number;
        uint64_t t_ns; /* CLOCK_MONOTONIC, taken on the stream's worker when the last one ran */
        struct capture
                *capture; /* last recorded inside this capture; not dereferenced after it ended */
        bool captured;
        CUstream captured_stream;
        uint64_t captured_at;
};

/* A capture under way: what its streams are asked to do, in the order they were asked, which
 * respects all dependencies.
 */
struct capture {
        struct capture *next;
        CUstream origin;
        CUstreamCaptureMode mode;
        pthread_t thread;
        uint64_t id;
        bool invalid;
        uint64_t pos; /* grows with each captured step */
        CUgraph graph;
        CUstream joined[64];
        int n_joined;
};

struct CUgraph_st {
        struct task *head, **tail;
        size_t n;
        int refs; /* the graph's handle and each executable made of it */
};

/* fake_stream() - the stream behind a handle (0, 1, 2 and real ones) in the current context; makes
 * default streams. */
CUresult fake_stream(CUstream handle, CUstream *out);
CUresult fake_current(CUcontext *out);
CUresult fake_lost(
        CUcontext ctx); /* CUDA_SUCCESS while nothing of the context's work was given up */
void standin_lost(void);
int fake_device_count(void);

/* fake_submit() - queue `proto` (copied) on the stream, or add it to the stream's capture. wait:
 * until it has run. */
CUresult fake_submit(CUstream stream, const struct task *proto, bool wait);
void fake_enqueue(CUstream stream, const struct task *proto);
void fake_wait_done(CUstream stream, uint64_t upto);
void fake_streams_close(CUcontext ctx);

/* Ranges that pointer attributes can be asked of; those of cuMemMap() have no context and are not
 * freed by cuMemFree(). */
CUresult fake_mapped(uintptr_t base, size_t bytes, int device);
void fake_unmapped(uintptr_t base);
void fake_event_unref(CUevent event);

/* Capture rules (CUDA driver API, "Stream management"). */
extern pthread_mutex_t capture_lock;
CUresult capture_unsafe(
        void); /* a potentially unsafe call: 900 and the captures it breaks are invalid */
CUresult capture_forbids(CUstream stream); /* a call that can never be captured on this stream */
CUresult capture_implicit(
        CUstream stream); /* work for the default stream while a blocking stream captures */
CUresult capture_add(CUstream stream, const struct task *proto, bool *taken);
CUresult capture_event(CUstream stream, CUevent event, bool external, const struct task *proto,
                       bool *taken);
CUresult capture_wait(CUstream stream, CUevent event, bool *taken);
void capture_forget(CUstream stream);
