/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion queues, counters and event queues.
 *
 * A progress thread spends its life in fi_cq_read() on an empty queue, so that path is: look that the table is ours and
 * the caller not the provider itself, call, add one. Entries are looked at only when there are some and there is a
 * reason: the queue's format carries lengths (then receives are counted as they really arrived), or a timed operation
 * is outstanding. Nothing in an entry is changed.
 */
#include "shim/fi.h"

static inline void add(uint64_t *counter, uint64_t n, bool shared)
{
        if (shared)
                __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
        else
                __atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

static __attribute__((noinline)) struct fi_cq_set *set_claim(struct fi_cq *c)
{
        struct fi_thread *self = &capo_fi_me;

        for (int s = 0; s < FI_SETS - 1; s++) {
                struct fi_thread *nobody = NULL;

                if (c->set[s].owner == self || atomic_compare_exchange_strong(&c->set[s].owner, &nobody, self))
                        return &c->set[s];
        }
        return &c->set[FI_SETS - 1];
}

static inline struct fi_cq_set *set_of(struct fi_cq *c)
{
        if (likely(atomic_load_explicit(&c->set[0].owner, memory_order_relaxed) == &capo_fi_me))
                return &c->set[0];
        return set_claim(c);
}

/* @n entries came, or nothing by another word, or @n is an error. Returns @n. */
static __attribute__((noinline)) ssize_t found(struct fi_cq *c, const char *entry, ssize_t n)
{
        bool watched = atomic_load_explicit(&c->watched, memory_order_relaxed) > 0;
        struct fi_cq_set *set;
        bool shared;

        if (n <= 0) {
                if (n == 0)
                        c->empty++;
                else if (n != -FI_EAVAIL) /* that one is counted when the error is read */
                        capo_fi_error(&c->o.errors, (int)n, 1);
                return n;
        }
        set = set_of(c);
        shared = set == &c->set[FI_SETS - 1];
        add(&set->reads, 1, shared);
        add(&set->completions, (uint64_t)n, shared);
        if (!entry || (!watched && !c->lengths))
                return n;
        /* without a stride only the first: the context comes first in every format, but how far to the next? */
        for (ssize_t i = 0; i < (c->stride ? n : 1); i++, entry += c->stride) {
                const struct fi_cq_msg_entry *e = (const struct fi_cq_msg_entry *)entry;

                if (c->lengths && e->flags & FI_RECV) {
                        add(&set->received, 1, shared);
                        add(&set->received_bytes, e->len, shared);
                }
                if (watched)
                        capo_fi_sample_done(c, e->op_context, false);
        }
        return n;
}

/*
 * Empty reads are counted with a plain addition whoever reads: where several threads read one queue at the same moment
 * a few are lost, which is the price of a path that costs next to nothing. Completions are exact.
 */
#define READ(entry, params, args)                                               \
        static ssize_t cq_##entry params                                        \
        {                                                                       \
                struct fi_ops_cq *table_ = cq->ops;                             \
                struct fi_cq *c_ = container_of(table_, struct fi_cq, ops.ops); \
                ssize_t n_;                                                     \
                                                                                \
                if (unlikely(table_->entry != cq_##entry))                      \
                        return table_->entry args;                              \
                if (FI_OWN_CALL(&c_->o))                                        \
                        return c_->ops.real->entry args;                        \
                n_ = c_->ops.real->entry args;                                  \
                if (unlikely(n_ != -FI_EAGAIN))                                 \
                        return found(c_, buf, n_);                              \
                __atomic_store_n(&c_->empty, c_->empty + 1, __ATOMIC_RELAXED);  \
                return n_;                                                      \
        }

READ(read, (struct fid_cq * cq, void *buf, size_t count), (cq, buf, count))
READ(readfrom, (struct fid_cq * cq, void *buf, size_t count, fi_addr_t *from), (cq, buf, count, from))
READ(sread, (struct fid_cq * cq, void *buf, size_t count, const void *cond, int timeout),
     (cq, buf, count, cond, timeout))
READ(sreadfrom, (struct fid_cq * cq, void *buf, size_t count, fi_addr_t *from, const void *cond, int timeout),
     (cq, buf, count, from, cond, timeout))

static ssize_t cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *buf, uint64_t flags)
{
        struct fi_ops_cq *table = cq->ops;
        struct fi_cq *c;
        ssize_t n;

        if (table->readerr != cq_readerr)
                return table->readerr(cq, buf, flags);
        c = container_of(table, struct fi_cq, ops.ops);
        if (FI_OWN_CALL(&c->o))
                return c->ops.real->readerr(cq, buf, flags);
        n = c->ops.real->readerr(cq, buf, flags);
        if (n > 0 && buf) {
                capo_fi_error(&c->o.errors, buf->err, 1);
                if (c->watched)
                        capo_fi_sample_done(c, buf->op_context, true);
        }
        return n;
}

const struct fi_ops_cq capo_fi_cq = {
        .read = cq_read, .readfrom = cq_readfrom, .readerr = cq_readerr, .sread = cq_sread, .sreadfrom = cq_sreadfrom};

/* ---- counters ---------------------------------------------------------------------------------------------------- */

static uint64_t cntr_read(struct fid_cntr *cntr)
{
        struct fi_ops_cntr *table = cntr->ops;
        struct fi_cntr *c;
        uint64_t value;

        if (table->read != cntr_read)
                return table->read(cntr);
        c = container_of(table, struct fi_cntr, ops.ops);
        if (FI_OWN_CALL(&c->o))
                return c->ops.real->read(cntr);
        value = c->ops.real->read(cntr);
        atomic_fetch_add_explicit(&c->reads, 1, memory_order_relaxed);
        atomic_store_explicit(&c->last, value, memory_order_relaxed);
        return value;
}

static int cntr_wait(struct fid_cntr *cntr, uint64_t threshold, int timeout)
{
        struct fi_ops_cntr *table = cntr->ops;
        struct fi_cntr *c;
        int r;

        if (table->wait != cntr_wait)
                return table->wait(cntr, threshold, timeout);
        c = container_of(table, struct fi_cntr, ops.ops);
        if (FI_OWN_CALL(&c->o))
                return c->ops.real->wait(cntr, threshold, timeout);
        r = c->ops.real->wait(cntr, threshold, timeout);
        c->waits++;
        if (r && r != -FI_ETIMEDOUT)
                capo_fi_error(&c->o.errors, r, 1);
        return r;
}

const struct fi_ops_cntr capo_fi_cntr = {.read = cntr_read, .wait = cntr_wait};

/* ---- event queues ------------------------------------------------------------------------------------------------ */

static void event(struct fi_eq *q, ssize_t n, const uint32_t *what, const void *buf)
{
        const struct fi_eq_cm_entry *entry = buf;
        struct fi_ep *e;

        if (n == -FI_EAGAIN || n == 0) {
                atomic_fetch_add_explicit(&q->empty, 1, memory_order_relaxed);
                return;
        }
        if (n < 0) {
                if (n != -FI_EAVAIL)
                        capo_fi_error(&q->o.errors, (int)n, 1);
                return;
        }
        q->events++;
        /* connected: the provider may have chosen other tables (verbs XRC, verbs_ep.c) */
        if (what && *what == FI_CONNECTED && (size_t)n >= sizeof entry->fid && buf && entry->fid &&
            (e = capo_fi_ep_of(entry->fid)) && e->o.fid == entry->fid)
                capo_fi_ep_patch(e);
}

static ssize_t eq_read(struct fid_eq *eq, uint32_t *what, void *buf, size_t len, uint64_t flags)
{
        struct fi_ops_eq *table = eq->ops;
        struct fi_eq *q;
        ssize_t n;

        if (table->read != eq_read)
                return table->read(eq, what, buf, len, flags);
        q = container_of(table, struct fi_eq, ops.ops);
        if (FI_OWN_CALL(&q->o))
                return q->ops.real->read(eq, what, buf, len, flags);
        n = q->ops.real->read(eq, what, buf, len, flags);
        event(q, n, what, buf);
        return n;
}

static ssize_t eq_sread(struct fid_eq *eq, uint32_t *what, void *buf, size_t len, int timeout, uint64_t flags)
{
        struct fi_ops_eq *table = eq->ops;
        struct fi_eq *q;
        ssize_t n;

        if (table->sread != eq_sread)
                return table->sread(eq, what, buf, len, timeout, flags);
        q = container_of(table, struct fi_eq, ops.ops);
        if (FI_OWN_CALL(&q->o))
                return q->ops.real->sread(eq, what, buf, len, timeout, flags);
        n = q->ops.real->sread(eq, what, buf, len, timeout, flags);
        event(q, n, what, buf);
        return n;
}

static ssize_t eq_readerr(struct fid_eq *eq, struct fi_eq_err_entry *buf, uint64_t flags)
{
        struct fi_ops_eq *table = eq->ops;
        struct fi_eq *q;
        ssize_t n;

        if (table->readerr != eq_readerr)
                return table->readerr(eq, buf, flags);
        q = container_of(table, struct fi_eq, ops.ops);
        if (FI_OWN_CALL(&q->o))
                return q->ops.real->readerr(eq, buf, flags);
        n = q->ops.real->readerr(eq, buf, flags);
        if (n > 0 && buf)
                capo_fi_error(&q->o.errors, buf->err, 1);
        return n;
}

const struct fi_ops_eq capo_fi_eq = {.read = eq_read, .readerr = eq_readerr, .sread = eq_sread};
