/* SPDX-License-Identifier: Apache-2.0 */
/* Posting: the entries of an endpoint's data tables, made from ops.def.
 *
 * What an entry does besides calling the provider: two additions in the counters of (thread,
 * endpoint), a countdown, and a look whether any timed operation is outstanding. No lock, no
 * allocation, no clock.
 *
 * One post in capo_env.fabric_sample is timed. The address of its operation context is noted in a
 * slot of the completion queue it will complete on, with the time; when the queue returns that
 * context, the difference is one sample. The context itself is never replaced or written: with
 * FI_CONTEXT it is the provider's memory. A context that is posted again while its slot is open was
 * not unique, so its completion cannot be distinguished from another's: the slot is dropped and
 * that direction of the endpoint is not timed any more. The very first post of an endpoint is a
 * timed one, so a program that uses one context for a window of operations is found out while it
 * fills its first window. */
#include "shim/fabric/shim_fabric.h"
#include "shim/record/recorder.h"

/* What completions of this go to; or NULL. */
static inline struct fi_cq *cq_of(const struct fi_ep *e, bool rx)
{
        return atomic_load_explicit(&e->cq[rx], memory_order_relaxed);
}

/* ---- timed posts ---- */

#define SAMPLE_OLD_NS \
        10000000000u /* a slot this old is taken for a completion that never comes \
                      */

static char slot_taken[1]; /* the context of a slot that is being written */

static void slot_free(struct fi_cq *cq, struct fi_slot *slot, void *context)
{
        if (atomic_compare_exchange_strong(&slot->context, &context, NULL))
                cq->watched--;
}

/* Of posts that cannot be timed one in so many looks at the clock, for what is done in passing. */
#define UNTIMED_LOOKS 64

static void in_passing_if_due(uint64_t now)
{
        if (unlikely(now >= atomic_load_explicit(&capo_fi_in_passing_at, memory_order_relaxed)))
                capo_fi_in_passing();
}

static __attribute__((noinline)) void sample_begin(struct fi_ep *e, struct fi_post_set *set,
                                                   struct fi_cq *cq, bool rx, void *context)
{
        struct fi_slot *slot = &cq->slot[fi_slot_of(context)];
        uint64_t now = capo_fi_now();
        void *held = slot->context;
        struct fi_domain *d = e->o.domain;

        /* not every Nth: a send and a receive that alternate would meet the same one for ever */
        set->until_sample = (int32_t)(d->sample_every / 2 + (now >> 3) % d->sample_every + 1);
        in_passing_if_due(now);
        if (e->repeats[rx])
                return;
        if (held) {
                if (held == slot_taken || (held != context && now - slot->t0_ns < SAMPLE_OLD_NS))
                        return; /* the slot is taken: this one is not timed */
                if (held == context)
                        e->repeats[rx] = 1;
                d->lost_samples++;
                slot_free(cq, slot, held);
                if (held == context)
                        return;
        }
        held = NULL;
        if (!atomic_compare_exchange_strong(&slot->context, &held, slot_taken))
                return;
        slot->t0_ns = now;
        slot->ep = e;
        slot->rx = rx;
        slot->context = context;
        cq->watched++;
}

/* A peek must be known when it completes, for its entry looks as if a message had been received: it
 * may take a timed one's slot. */
static __attribute__((noinline)) void peek_begin(struct fi_ep *e, struct fi_cq *cq, void *context)
{
        struct fi_slot *slot = &cq->slot[fi_slot_of(context)];
        struct fi_domain *d = e->o.domain;
        void *held = slot->context;

        if (held && held != slot_taken && (held == context || slot->rx != FI_SLOT_PEEK)) {
                d->lost_samples += slot->rx != FI_SLOT_PEEK;
                slot_free(cq, slot, held);
        }
        held = NULL;
        if (!atomic_compare_exchange_strong(&slot->context, &held, slot_taken))
                return;
        slot->t0_ns = capo_fi_now();
        slot->ep = e;
        slot->rx = FI_SLOT_PEEK;
        slot->context = context;
        cq->watched++;
}

static __attribute__((noinline)) void context_again(struct fi_ep *e, struct fi_cq *cq, bool rx,
                                                    void *context)
{
        struct fi_slot *slot = &cq->slot[fi_slot_of(context)];
        struct fi_domain *d = e->o.domain;
        struct fi_ep *other = slot->ep;
        uint8_t other_rx = slot->rx;

        if (other_rx != FI_SLOT_PEEK) {
                e->repeats[rx] = 1;
                other->repeats[other_rx] = 1;
                d->lost_samples++;
        }
        slot_free(cq, slot, context);
}

bool capo_fi_sample_done(struct fi_cq *cq, void *context, bool failed)
{
        struct fi_slot *slot;
        struct fi_domain *d;
        struct fi_ep *e;
        uint64_t t0;
        uint8_t rx;

        context = fi_key(context);
        slot = &cq->slot[fi_slot_of(context)];
        if (slot->context != context)
                return false;
        t0 = slot->t0_ns;
        rx = slot->rx;
        e = slot->ep;
        d = e->o.domain;
        slot_free(cq, slot, context);
        if (!failed && d && rx != FI_SLOT_PEEK)
                capo_fi_hist_add(rx ? &d->rx_time : &d->tx_time, capo_fi_now() - t0);
        return rx == FI_SLOT_PEEK;
}

/* ---- counting ---- */

static __attribute__((noinline)) struct fi_post_set *set_claim(struct fi_ep *e)
{
        struct fi_thread *self = &capo_fi_me;

        for (int s = 0; s < FI_SETS - 1; s++) {
                struct fi_thread *nobody = NULL;

                if (e->set[s].owner == self ||
                    atomic_compare_exchange_strong(&e->set[s].owner, &nobody, self))
                        return &e->set[s];
        }
        return &e->set[FI_SETS - 1];
}

static inline struct fi_post_set *set_of(struct fi_ep *e)
{
        if (likely(atomic_load_explicit(&e->set[0].owner, memory_order_relaxed) == &capo_fi_me))
                return &e->set[0];
        return set_claim(e);
}

static inline unsigned size_class(size_t bytes)
{
        unsigned bits = bytes ? 64 - (unsigned)__builtin_clzll(bytes) : 0;

        return bits < CAPO_FI_SIZES ? bits : CAPO_FI_SIZES - 1;
}

static inline void count_post(struct fi_post_set *set, enum capo_fi_kind kind, size_t bytes,
                              bool shared)
{
        fi_add(&set->sizes[kind][size_class(bytes)], 1, shared);
        fi_add(&set->bytes[kind], bytes, shared);
}

static __attribute__((noinline)) void post_refused(struct fi_ep *e, struct fi_post_set *set,
                                                   bool shared, bool rx, void *context, ssize_t r)
{
        struct fi_cq *cq = cq_of(e, rx);

        if (r == -FI_EAGAIN)
                fi_add(&set->eagain, 1, shared);
        else if (r != -FI_ENOMSG) /* a peek's answer */
                capo_fi_error(&e->o.errors, (int)r, 1);
        if (cq && cq->watched) /* if this was the timed one: it will not complete */
                slot_free(cq, &cq->slot[fi_slot_of(context)], context);
}

static inline bool is_rx(enum capo_fi_kind kind)
{
        return kind == CAPO_FI_RECV || kind == CAPO_FI_TRECV || kind == CAPO_FI_PEEK;
}

static inline void post_begin(struct fi_ep *e, struct fi_post_set *set, enum capo_fi_kind kind,
                              void *context)
{
        bool rx = is_rx(kind);
        struct fi_cq *cq = cq_of(e, rx);

        if (kind == CAPO_FI_PEEK) {
                if (cq && cq->lengths)
                        peek_begin(e, cq, context);
        } else if (unlikely(set->until_sample && --set->until_sample == 0)) {
                set->until_sample = 1; /* stays due until it can be taken */
                if (cq && context != FI_NO_CONTEXT)
                        sample_begin(e, set, cq, rx, context);
                else if (unlikely(set->untimed++ % UNTIMED_LOOKS == 0))
                        in_passing_if_due(capo_fi_now());
        } else if (cq && unlikely(atomic_load_explicit(&cq->watched, memory_order_relaxed)) &&
                   unlikely(cq->slot[fi_slot_of(context)].context == context)) {
                context_again(e, cq, rx, context);
        }
}

struct fi_inside capo_fi_inside[FI_INSIDE + 1];

/* The calling thread is inside an NCCL call: this operation serves that call. */
static __attribute__((noinline)) void inside_call(size_t bytes, bool rx)
{
        struct fi_inside *in = &capo_fi_inside[FI_INSIDE];
        struct capo_shim_outer outer;
        uint64_t key;

        if (!capo_shim_current(&outer))
                return;
        key = (outer.comm_uid ^ (uint64_t)outer.call << 56) | 1;
        for (unsigned i = 0; i < FI_INSIDE; i++) {
                struct fi_inside *row = &capo_fi_inside[(key + i) % FI_INSIDE];
                uint64_t held = 0;

                if (row->key != key && !atomic_compare_exchange_strong(&row->key, &held, key) &&
                    held != key)
                        continue;
                /* everybody who gets here writes the same */
                atomic_store_explicit(&row->comm_uid, outer.comm_uid, memory_order_relaxed);
                atomic_store_explicit(&row->call, outer.call, memory_order_relaxed);
                in = row;
                break;
        }
        in->ops++;
        if (!rx)
                in->bytes += bytes;
}

static inline void post_end(struct fi_ep *e, struct fi_post_set *set, enum capo_fi_kind kind,
                            size_t bytes, void *context, ssize_t r)
{
        bool shared = set == &e->set[FI_SETS - 1];

        if (unlikely(r)) {
                post_refused(e, set, shared, is_rx(kind), context, r);
                return;
        }
        if (unlikely(capo_tls.inside))
                inside_call(bytes, is_rx(kind));
        if (unlikely(shared))
                count_post(set, kind, bytes, true);
        else
                count_post(set, kind, bytes, false);
}

/* ---- sizes ---- */

static size_t type_bytes(enum fi_datatype type)
{
        static const uint8_t bytes[] = {
                [FI_INT8] = 1,
                [FI_UINT8] = 1,
                [FI_INT16] = 2,
                [FI_UINT16] = 2,
                [FI_INT32] = 4,
                [FI_UINT32] = 4,
                [FI_INT64] = 8,
                [FI_UINT64] = 8,
                [FI_FLOAT] = 4,
                [FI_DOUBLE] = 8,
                [FI_FLOAT_COMPLEX] = 8,
                [FI_DOUBLE_COMPLEX] = 16,
                [FI_LONG_DOUBLE] = sizeof(long double),
                [FI_LONG_DOUBLE_COMPLEX] = 2 * sizeof(long double),
                [FI_INT128] = 16,
                [FI_UINT128] = 16,
                [FI_UINT128 + 1] = 2, /* 2.x: FI_FLOAT16, FI_BFLOAT16, then two of 1 byte */
                [FI_UINT128 + 2] = 2,
                [FI_UINT128 + 3] = 1,
                [FI_UINT128 + 4] = 1,
        };

        return (unsigned)type < N_ELEMENTS(bytes) ? bytes[type] : 0;
}

static size_t ioc_bytes(const struct fi_ioc *ioc, size_t n, enum fi_datatype type)
{
        size_t elements = 0;

        while (n--)
                elements += ioc[n].count;
        return elements * type_bytes(type);
}

/* The way of nearly all posts: by the thread that owns the first set, outside NCCL's calls, not to
 * be timed, and with no timed one outstanding that this could turn out to be. */
static inline bool nothing_special(struct fi_ep *e, struct fi_post_set *set, enum capo_fi_kind kind)
{
        struct fi_cq *cq = cq_of(e, is_rx(kind));

        return kind != CAPO_FI_PEEK &&
               atomic_load_explicit(&set->owner, memory_order_relaxed) == &capo_fi_me &&
               set->until_sample != 1 && !capo_tls.inside &&
               !(cq && atomic_load_explicit(&cq->watched, memory_order_relaxed));
}

/* ---- the entries ---- */

#define POST(table, op, kind, params, args, bytes_of, context_of)                                  \
        static __attribute__((noinline))                                                           \
        ssize_t table##_##op##_with_care(struct fi_ep *s, FI_UNPACK params)                        \
        {                                                                                          \
                /* the context now: when the call returns, the operation may have completed and  \
                 * been freed */ \
                void *at = fi_key(context_of);                                                     \
                struct fi_post_set *set = set_of(s);                                               \
                size_t bytes = bytes_of;                                                           \
                ssize_t r;                                                                         \
                                                                                                   \
                post_begin(s, set, kind, at);                                                      \
                r = s->table.was.op args;                                                          \
                post_end(s, set, kind, bytes, at, r);                                              \
                return r;                                                                          \
        }                                                                                          \
        static inline ssize_t table##_##op##_away(struct fi_ep *s, const void *caller,             \
                                                  FI_UNPACK params)                                \
        {                                                                                          \
                return FI_OWN_CALL(&s->o, caller) ? s->table.was.op args                           \
                                                  : table##_##op##_with_care(s, FI_UNPACK args);   \
        }                                                                                          \
        FI_ENTRY(ssize_t, table##_##op, struct fi_ep, FI_T_EP, ep, table, table.ops, op, params,   \
                 args, table##_##op##_away)                                                        \
        {                                                                                          \
                struct fi_post_set *set = &s->set[0];                                              \
                FI_KEEP(struct fi_ep *, kept, s);                                                  \
                FI_KEEP(size_t, kept_bytes, bytes_of);                                             \
                ssize_t r;                                                                         \
                                                                                                   \
                if (FI_OWN_CALL(&s->o, caller))                                                    \
                        return s->table.was.op args;                                               \
                if (unlikely(!nothing_special(s, set, kind)))                                      \
                        return table##_##op##_with_care(s, FI_UNPACK args);                        \
                set->until_sample -= set->until_sample > 0;                                        \
                r = s->table.was.op args;                                                          \
                s = kept;                                                                          \
                if (likely(r == 0))                                                                \
                        count_post(&s->set[0], kind, kept_bytes, false);                           \
                else                                                                               \
                        post_refused(s, &s->set[0], false, is_rx(kind), FI_NO_CONTEXT, r);         \
                return r;                                                                          \
        }
#include "shim/fabric/ops.def"

const struct fi_posts capo_fi_posts = {
#define POST(table, entry, ...) .table.entry = table##_##entry,
#include "shim/fabric/ops.def"
};
