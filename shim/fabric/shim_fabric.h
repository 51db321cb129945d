/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the libfabric half share: the shadow of one object, its counters, and how they
 * are written.
 *
 * An object of libfabric (fabric, domain, endpoint, queue ...) is a struct whose first member is a
 * fid and whose following members point to tables of functions; every hot call is an inline jump
 * through such a table. capo keeps the object and puts a private copy of a table in its place, in
 * which the entries it counts are its own. A private copy lives inside the object's shadow, so a
 * wrapper that is handed the object finds the shadow by container_of() on the very pointer the
 * caller jumped through: no look-up, no lock.
 *
 *      fid_ep                       struct fi_ep (the shadow)
 *      .msg   ------------------->  .msg.ops      copy of the provider's table, our entries in it
 *                                   .msg.real --> the provider's table
 *                                   .set[]        counters, one writer each
 *
 * Table layouts: rdma/fi_endpoint.h, fi_domain.h, fi_eq.h of libfabric 1.17 and 2.7a1: entries are
 * only ever added at the end, and `size` says how many bytes there are. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "capo/log_layout.h"
#include "core/base/clock.h"
#include "core/log/fabric_frame.h"
#include "core/log/fabric_kinds.h"
#include "shim/fabric/stand_in.h"
#include "shim/fabric/whose.h"

/* ---- counters ---- */

/* Counters have one writer and are read by anybody: FI_SETS - 1 sets belong to the first threads
 * that use the object, the last is everybody else's and is written with atomic additions. So counts
 * are exact under every threading rule of libfabric, and cost a plain addition in programs as they
 * are (a main thread and a progress thread). */
#define FI_SETS 3

struct fi_post_set {
        struct fi_thread *_Atomic owner;
        int32_t until_sample; /* posts until the next one is timed; 0: timing is off */
        uint32_t untimed;     /* posts that were due, without a completion or a queue */
        _Atomic uint64_t eagain;
        _Atomic uint64_t bytes[CAPO_FI_KINDS];
        _Atomic uint64_t sizes[CAPO_FI_KINDS][CAPO_FI_SIZES]; /* posted, by bits of the size; their
                                                                 sum is the count */
};

struct fi_cq_set {
        struct fi_thread *_Atomic owner;
        _Atomic uint64_t reads;       /* reads that found something */
        _Atomic uint64_t completions; /* entries they returned */
        _Atomic uint64_t received;    /* of those, FI_RECV entries of known length */
        _Atomic uint64_t received_bytes;
        _Atomic uint64_t unposted; /* entries with flags of what nobody posted here: remote writes
                                      with data, used up buffers */
        uint64_t reserved[2];
};

/* Adds for the only writer, or one of many (@shared); readers see whole numbers. */
static inline void fi_add(_Atomic uint64_t *counter, uint64_t n, bool shared)
{
        if (shared)
                atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
        else
                atomic_store_explicit(counter,
                                      atomic_load_explicit(counter, memory_order_relaxed) + n,
                                      memory_order_relaxed);
}

#define FI_ERRORS 6
struct fi_errors {
        struct {
                _Atomic int code; /* positive FI_E...; 0 free */
                _Atomic uint64_t count;
        } row[FI_ERRORS];
        _Atomic uint64_t other;
};

struct fi_hist {
        _Atomic uint64_t sum_ns, max_ns;
        _Atomic uint32_t bucket[CAPO_HIST_BUCKETS]; /* capo/log.h */
};

/* ---- shadows ---- */

enum fi_object_type {
#define OBJECT(object, shadow, recycles) FI_T_##object,
#include "shim/fabric/ops.def"
        FI_TYPES,
};

#define OBJECT(object, shadow, recycles) typedef struct shadow fi_shadow_##object;
#include "shim/fabric/ops.def"

struct fi_domain;

/* fabric_text.c's, and of the drain thread alone: an object at its last count. */
struct fi_noted {
        uint32_t id; /* which object that was: its memory is used again */
        union {
                struct {
                        uint64_t posts; /* transmits that make an entry */
                        bool open;
                } ep;
                struct {
                        uint64_t completions, received, errors;
                        int64_t outstanding;  /* transmits posted and not yet seen to complete */
                        uint64_t t_moved;     /* when a count last differed */
                        uint64_t t_completed; /* when it last had more completions */
                        uint32_t open;        /* endpoints that transmit to it */
                        bool receives;        /* some endpoint receives to it */
                        bool unsure; /* outstanding may be off, until it has been quiet for long */
                        bool forgotten; /* it was, and was then set to 0: nothing completed since */
                } cq;
        };
};

/* First member of every shadow. Shadows are never freed: see fabric_object.c on reuse. The drain
 * thread reads them, without a lock, while other threads make and close objects: what it reads is
 * atomic or stands before the shadow is in the list, and where an id was 0, or another afterwards,
 * it forgets what it has read. */
struct fi_object {
        struct fi_object *_Atomic next; /* all shadows, newest first */
        struct fi_object *same;         /* the next one of the type */
        uint8_t type;                   /* enum fi_object_type */
        bool listed;
        struct fi_noted noted;
        struct fi_object *next_closed;    /* queue of the closed ones of a type; from here on empty
                                             when used again */
        struct fid *_Atomic fid;          /* the object; NULL once closed */
        struct fi_domain *_Atomic domain; /* NULL for fabric, eq, pep */
        _Atomic uint32_t id;              /* 1, 2, ... in this process; 0: it is being made */
        uintptr_t text;                   /* the code of the library that made it */
        size_t text_size;
        FI_TABLE(struct fi_ops) base; /* fid.ops: close, bind, control */
        struct fi_errors errors;
};

struct fi_fabric {
        struct fi_object o;
        FI_TABLE(struct fi_ops_fabric) ops;
        uint32_t api_version;
        char provider[64];
        char name[64];
};

/* What is kept of endpoints and queues whose shadows were used again. */
struct fi_folded {
        uint64_t objects;
        struct fi_post_set post;
        uint64_t blind, blind_bytes; /* of these, what endpoints posted that are `blind` */
        struct fi_cq_set cq;
        uint64_t empty;
        struct fi_errors errors;
};

struct fi_domain {
        struct fi_object o;
        struct {
                const struct fi_ops_domain
                        *real; /* what stood in the provider's table; NULL: not ours to change */
        } ops;                 /* inplace.c */
        FI_TABLE(struct fi_ops_mr) mr;
        struct fi_fabric *fabric;
        uint64_t caps;         /* of the fi_info it was opened with */
        unsigned sample_every; /* one in so many posts is timed; 0 none */
        char name[64];
        char device[64];
        char pci[16];       /* dddd:bb:dd.f, or "" */
        int numa;           /* -1 not known */
        uint64_t speed_bps; /* 0 not known */
        _Atomic uint64_t mr_count, mr_bytes, mr_failed;
        struct fi_hist mr_time;
        struct fi_hist tx_time; /* post to completion of what was sent, read, written */
        struct fi_hist rx_time; /* post to completion of receives: mostly waiting for the peer */
        _Atomic uint64_t lost_samples;
        struct fi_folded folded;
        struct fi_folded
                rest; /* of the snapshot being written: folded, and what has no line of its own */
        struct fi_domain *line; /* of that, too: in whose line it is, mostly its own */
};

struct fi_cq;

struct fi_ep {
        struct fi_object o;
        uint64_t caps;
        struct fi_cq *_Atomic cq[2]; /* of what it transmits, of what it receives */
        _Atomic uint8_t ep_type;     /* enum fi_ep_type */
        _Atomic uint8_t
                repeats[2];  /* tx, rx: a context was in use twice at once: not timed any more */
        _Atomic bool silent; /* transmits without an entry in its queue: FI_SELECTIVE_COMPLETION */
        _Atomic bool blind;  /* it receives to a queue whose entries have no length */
        bool completes;      /* FI_COMPLETION is the default of its transmits */
        FI_TABLE(struct fi_ops_ep) ops;
        FI_TABLE(struct fi_ops_cm) cm;
        FI_TABLE(struct fi_ops_msg) msg;
        FI_TABLE(struct fi_ops_rma) rma;
        FI_TABLE(struct fi_ops_tagged) tagged;
        FI_TABLE(struct fi_ops_atomic) atomic;
        struct fi_post_set set[FI_SETS] __attribute__((aligned(64)));
};

/* One timed post that has not completed. */
#define FI_SLOTS 16
#define FI_SLOT_PEEK \
        2 /* not timed: its completion says how long a message is that another one will bring */
struct fi_slot {
        void *_Atomic context;  /* fi_key(); NULL: free; fi_slot_taken: the rest is being written */
        _Atomic uint64_t t0_ns; /* CLOCK_MONOTONIC */
        struct fi_ep *_Atomic ep;
        _Atomic uint8_t rx; /* or FI_SLOT_PEEK */
};

struct fi_cq {
        struct fi_object o;
        FI_TABLE(struct fi_ops_cq) ops;
        uint32_t stride;        /* bytes per entry; 0 not known */
        _Atomic bool lengths;   /* entries have flags and len */
        _Atomic uint64_t empty; /* reads that found nothing */
        _Atomic int watched;    /* slots in use */
        struct fi_cq_set set[FI_SETS] __attribute__((aligned(64)));
        struct fi_slot slot[FI_SLOTS];
};

struct fi_cntr {
        struct fi_object o;
        FI_TABLE(struct fi_ops_cntr) ops;
        _Atomic uint64_t reads, waits, last;
};

struct fi_eq {
        struct fi_object o;
        FI_TABLE(struct fi_ops_eq) ops;
        _Atomic uint64_t events, empty;
};

struct fi_pep {
        struct fi_object o;
        FI_TABLE(struct fi_ops_cm) cm;
        _Atomic uint64_t listens, rejects;
};

/* ---- fabric_object.c ---- */

extern struct fi_object *_Atomic capo_fi_objects;
extern pthread_mutex_t capo_fi_lock; /* making and closing objects */

/** capo_fi_new() - a zeroed shadow for @fid, to be filled; NULL: no memory, or there are too many.
 */
void *capo_fi_new(enum fi_object_type type, struct fid *fid, struct fi_domain *domain);

/** capo_fi_made() - @o is filled: it has an id from now on and is in the list of all. */
void capo_fi_made(struct fi_object *o);

/** capo_fi_closed() - the object of @o is gone; its shadow rests. */
void capo_fi_closed(struct fi_object *o);

/** capo_fi_find() - the open object with this fid, by the list of the type: slow. NULL: none. */
struct fi_object *capo_fi_find(const struct fid *fid, enum fi_object_type type);

/** capo_fi_fold() - add the counts of endpoint or queue @o to @f. */
void capo_fi_fold(struct fi_folded *f, const struct fi_object *o);

/** capo_fi_fold_more() - @to += @from. */
void capo_fi_fold_more(struct fi_folded *to, const struct fi_folded *from);

/** capo_fi_forget() - in a new child process: zero what the parent counted. */
void capo_fi_forget(void);

/** capo_fi_error() - count @n errors of @code, either sign. */
void capo_fi_error(struct fi_errors *e, int code, uint64_t n);

/** capo_fi_errors_add() - @to += @from. */
void capo_fi_errors_add(struct fi_errors *to, const struct fi_errors *from);

/* ---- tables.c ---- */

/** capo_fi_shadow() - put @t in the place of the table *@slot
 * @slot:   address of a table pointer inside an object
 * @t:      a FI_TABLE of the object's shadow; refilled from the table that is there now
 * @ours:   a table of our entries, NULL where the provider's stays; @size bytes
 *
 * Nothing happens when there is no table, when it is another shadow's copy, or when its size is
 * none we can hold. Where
 * @t is there already, its copy of the provider's table is made anew. An entry the provider lacks
 * (NULL, or beyond its size) stays lacking. */
void capo_fi_shadow(void *slot, void *t, const void *ours, size_t size);
#define fi_shadow(slot, t, ours) capo_fi_shadow(&(slot), &(t), &(ours), sizeof(ours))

/** capo_fi_restore() - put the provider's table back if ours is still there. */
void capo_fi_restore(void *slot, void *t);
#define fi_restore(slot, t) capo_fi_restore(&(slot), &(t))

/** capo_fi_tables() - put ours in the place of all tables of @o, or the provider's back. */
void capo_fi_tables(struct fi_object *o, bool ours);

/** capo_fi_follow() - follow a filled shadow's object: all tables, or none: its close is unseen. */
void capo_fi_follow(struct fi_object *o);

/* ---- inplace.c ---- */

/** capo_fi_put_in() - write the entries of @ours that a provider's @table has into that table
 * @ours: a table of entries, NULL where the provider's stays; @size bytes. Always the same for one
 *        @table.
 *
 * Return: a copy of what stood there, for good; NULL when it was left alone: no table, of a size
 * none we can hold, or constant. */
const void *capo_fi_put_in(const void *table, const void *ours, size_t size);

/** capo_fi_was() - what stood in @table before; NULL: it is none that was written to. */
const void *capo_fi_was(const void *table);

/* ---- fabric_calls.c ---- */

extern const struct fi_ops capo_fi_base,
        capo_fi_ep_base; /* fid.ops of any object, and of an endpoint */
struct fi_calls {
        struct fi_ops_fabric FABRIC_ops;
        struct fi_ops_domain DOMAIN_ops;
        struct fi_ops_mr DOMAIN_mr;
        struct fi_ops_ep EP_ops;
        struct fi_ops_cm EP_cm, PEP_cm;
};
extern const struct fi_calls capo_fi_calls;

/** capo_fi_fabric_opened() - follow a new fabric, unless memory is short or it is followed. */
void capo_fi_fabric_opened(struct fid_fabric *fabric, const struct fi_fabric_attr *attr);

/** capo_fi_ep_of() - the shadow of a fid, or NULL when it is not followed. */
struct fi_ep *capo_fi_ep_of(struct fid *fid);

/* ---- post.c, queue.c ---- */

struct fi_posts {
        struct fi_ops_msg msg;
        struct fi_ops_rma rma;
        struct fi_ops_tagged tagged;
        struct fi_ops_atomic atomic;
};
extern const struct fi_posts capo_fi_posts;
extern const struct fi_ops_cntr capo_fi_cntr;
extern const struct fi_ops_eq capo_fi_eq;

/** capo_fi_cq_entries() - our entries for a queue whose provider's table is @real. */
const struct fi_ops_cq *capo_fi_cq_entries(const struct fi_ops_cq *real);

/* What was posted by threads that were inside an NCCL call of their own. 64 kinds of
 * calls at most; the others are together in one more row, of no communicator and no call. */
#define FI_INSIDE 64
struct fi_inside {
        _Atomic uint64_t key; /* 0: free */
        _Atomic uint64_t comm_uid;
        _Atomic uint8_t call;
        _Atomic uint64_t ops, bytes; /* bytes that left, or were fetched */
};
extern struct fi_inside capo_fi_inside[FI_INSIDE + 1];

/** capo_fi_hist_add() - one more of @ns. */
static inline void capo_fi_hist_add(struct fi_hist *h, uint64_t ns)
{
        uint64_t max = h->max_ns;

        h->sum_ns += ns;
        h->bucket[capo_hist_bucket(ns)]++;
        while (ns > max && !atomic_compare_exchange_weak(&h->max_ns, &max, ns))
                ;
}
static inline uint64_t capo_fi_now(void) /* CLOCK_MONOTONIC, ns */ { return capo_clock_mono(); }

/** capo_fi_sample_done() - the op with @context (as in the entry) completed (@failed: with an
 * error) on @cq. Only when cq->watched. Return: it was a peek. */
bool capo_fi_sample_done(struct fi_cq *cq, void *context, bool failed);

static inline size_t iov_bytes(const struct iovec *iov, size_t n)
{
        size_t bytes = 0;

        while (n--)
                bytes += iov[n].iov_len;
        return bytes;
}

#define FI_NO_CONTEXT ((void *)-1) /* of a post that has no completion */

/* A context as it stands in a slot: many programs post with NULL, one operation at a time. */
static inline void *fi_key(void *context) { return context ? context : (void *)1; }

static inline unsigned fi_slot_of(const void *context)
{
        uintptr_t v = (uintptr_t)context;

        return ((v >> 4) ^ (v >> 10) ^ (v >> 16)) % FI_SLOTS;
}

extern const bool capo_fi_transmits[CAPO_FI_KINDS]; /* windows.c: the bytes leave, or are fetched
                                                       by, this side */

/* ---- windows.c, fabric_text.c ---- */

/** capo_fi_blind() - add what @e posted of receives whose length nobody will know. */
void capo_fi_blind(const struct fi_ep *e, uint64_t *count, uint64_t *bytes);

/** capo_fi_windows_start() - begin with no windows, at this moment. */
void capo_fi_windows_start(void);
/** capo_fi_windows_poll() - end the window under way if it is long enough; @last: in any case. */
void capo_fi_windows_poll(bool last);
/** capo_fi_windows_put() - a line each. */
void capo_fi_windows_put(struct capo_fabric_text *t);

/** capo_fi_in_passing() - what the drain thread does for counters, where there is none: keep a
 * snapshot, in memory
 *
 * A program of one thread has no drain thread (capo_shim_thread() says why) and calls this from its
 * timed posts, when CLOCK_MONOTONIC has passed capo_fi_in_passing_at; at most a thousandth of its
 * time goes there. When the program has become one of several threads, this starts the drain
 * thread. */
void capo_fi_in_passing(void);
extern _Atomic uint64_t capo_fi_in_passing_at;

/** capo_fi_text_start() - ask to be called at checkpoints. Return: is it the first time? */
bool capo_fi_text_start(void);

/** capo_fi_strerror - libfabric's own words for a code; NULL: no library has been met yet */
extern const char *(*capo_fi_strerror)(int code);
