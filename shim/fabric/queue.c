/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues and counters.
 *
 * A progress thread spends its life in fi_cq_read() on an empty queue, so that path is: look that
 * the table is ours and the caller not the provider itself, call, add one; no register is saved for
 * it. Entries are looked at only when there are some and there is a reason: the queue's format
 * carries lengths (then receives are counted as they really arrived), or a timed operation is
 * outstanding. Nothing in an entry is changed. */

#include "shim/fabric/shim_fabric.h"

static __attribute__((noinline)) struct fi_cq_set *set_claim(struct fi_cq *c)
{
        struct fi_thread *self = &capo_fi_me;

        for (int s = 0; s < FI_SETS - 1; s++) {
                struct fi_thread *nobody = NULL;

                if (c->set[s].owner == self ||
                    atomic_compare_exchange_strong(&c->set[s].owner, &nobody, self))
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
static __attribute__((noinline)) ssize_t count_completions(struct fi_cq *c, const char *entry,
                                                           ssize_t n)
{
        bool watched = atomic_load_explicit(&c->watched, memory_order_relaxed) > 0;
        struct fi_cq_set *set;
        bool shared;

        if (n <= 0) {
                if (n == 0)
                        fi_add(&c->empty, 1, false);
                else if (n != -FI_EAVAIL) /* that one is counted when the error is read */
                        capo_fi_error(&c->o.errors, (int)n, 1);
                return n;
        }
        set = set_of(c);
        shared = set == &c->set[FI_SETS - 1];
        fi_add(&set->reads, 1, shared);
        fi_add(&set->completions, (uint64_t)n, shared);
        if (!entry || (!watched && !c->lengths))
                return n;
        /* without a stride only the first: the context comes first in every format, but how far to
         * the next? */
        for (ssize_t i = 0; i < (c->stride ? n : 1); i++, entry += c->stride) {
                const struct fi_cq_msg_entry *e = (const struct fi_cq_msg_entry *)entry;
                bool peek = watched && capo_fi_sample_done(c, e->op_context, false);

                if (c->lengths && e->flags & FI_RECV && !peek) {
                        fi_add(&set->received, 1, shared);
                        fi_add(&set->received_bytes, e->len, shared);
                } else if (c->lengths && (peek || e->flags & (FI_REMOTE_WRITE | FI_REMOTE_READ |
                                                              FI_MULTI_RECV))) {
                        fi_add(&set->unposted, 1, shared);
                }
        }
        return n;
}

/* Empty reads are counted with a plain addition whoever reads: where several threads read one queue
 * at the same moment a few are lost, which is the price of a path that costs next to nothing.
 * Completions are exact. */
#define READ(name, entry, not_the_programs, params, args)                                     \
        FI_ENTRY(ssize_t, name, struct fi_cq, FI_T_CQ, cq, ops, ops.ops, entry, params, args, \
                 name##_body)                                                                 \
        {                                                                                     \
                FI_KEEP(struct fi_cq *, kept, s);                                             \
                FI_KEEP(void *, kept_buf, buf);                                               \
                ssize_t n;                                                                    \
                                                                                              \
                if (not_the_programs(&s->o, caller))                                          \
                        return s->ops.was.entry args;                                         \
                n = s->ops.was.entry args;                                                    \
                s = kept;                                                                     \
                if (unlikely(n != -FI_EAGAIN))                                                \
                        return count_completions(s, kept_buf, n);                             \
                fi_add(&s->empty, 1, false);                                                  \
                return n;                                                                     \
        }

READ(cq_read, read, FI_OWN_CALL, (struct fid_cq * cq, void *buf, size_t count), (cq, buf, count))
READ(cq_readfrom, readfrom, FI_OWN_CALL,
     (struct fid_cq * cq, void *buf, size_t count, fi_addr_t *from), (cq, buf, count, from))
READ(cq_readfrom_only, readfrom, FI_PROVIDER_CALL,
     (struct fid_cq * cq, void *buf, size_t count, fi_addr_t *from), (cq, buf, count, from))
READ(cq_sread, sread, FI_OWN_CALL,
     (struct fid_cq * cq, void *buf, size_t count, const void *cond, int timeout),
     (cq, buf, count, cond, timeout))
READ(cq_sreadfrom, sreadfrom, FI_OWN_CALL,
     (struct fid_cq * cq, void *buf, size_t count, fi_addr_t *from, const void *cond, int timeout),
     (cq, buf, count, from, cond, timeout))

FI_ENTRY(ssize_t, cq_readerr, struct fi_cq, FI_T_CQ, cq, ops, ops.ops, readerr,
         (struct fid_cq * cq, struct fi_cq_err_entry *buf, uint64_t flags), (cq, buf, flags),
         cq_readerr_body)
{
        ssize_t n;

        if (FI_OWN_CALL(&s->o, caller))
                return s->ops.was.readerr(cq, buf, flags);
        n = s->ops.was.readerr(cq, buf, flags);
        if (n > 0 && buf) {
                if (buf->err != FI_ENOMSG) /* the answer to a peek */
                        capo_fi_error(&s->o.errors, buf->err, 1);
                if (s->watched)
                        capo_fi_sample_done(s, buf->op_context, true);
        }
        return n;
}

static const struct fi_ops_cq entries = {.read = cq_read,
                                         .readfrom = cq_readfrom,
                                         .readerr = cq_readerr,
                                         .sread = cq_sread,
                                         .sreadfrom = cq_sreadfrom};
static const struct fi_ops_cq entries_but_read = {.readfrom = cq_readfrom_only,
                                                  .readerr = cq_readerr,
                                                  .sread = cq_sread,
                                                  .sreadfrom = cq_sreadfrom};

/* libfabric's own queues (util_cq.c, under most providers) read by `return fi_cq_readfrom(cq, buf,
 * count, NULL)`: a jump through the table that lies in the queue, hence into our readfrom, with the
 * program as the caller. An entry of ours for read would only be passed on the way there. Believed
 * is nothing but the function's own code, which must consist of that jump. */
static bool jumps_to_readfrom(ssize_t (*read)(struct fid_cq *, void *, size_t))
{
#ifdef __x86_64__
#define OPS  "\x48\x8b\x47\x18" /* mov 0x18(%rdi), %rax    cq->ops */
#define FROM "\x48\x8b\x40\x10" /* mov 0x10(%rax), %rax    ->readfrom */
#define NONE "\x31\xc9"         /* xor %ecx, %ecx          from: NULL */
#define GO   "\xff\xe0"         /* jmp *%rax */
        static const char *const spellings[] = {OPS NONE FROM GO, OPS FROM NONE GO,
                                                NONE OPS FROM GO, OPS NONE "\xff\x60\x10",
                                                NONE OPS "\xff\x60\x10"}; /* jmp *0x10(%rax) */
        const char *code = (const char *)(uintptr_t)read;

        static_assert(offsetof(struct fid_cq, ops) == 0x18 &&
                              offsetof(struct fi_ops_cq, readfrom) == 0x10,
                      "");
        if (!strncmp(code, "\xf3\x0f\x1e\xfa", 4)) /* endbr64 */
                code += 4;
        for (size_t i = 0; i < N_ELEMENTS(spellings);
             i++) { /* strncmp: no byte is read beyond the first that differs */
                if (!strncmp(code, spellings[i], strlen(spellings[i])))
                        return true;
        }
#endif
        return false;
}

const struct fi_ops_cq *capo_fi_cq_entries(const struct fi_ops_cq *real)
{
        return real && real->size > offsetof(struct fi_ops_cq, readfrom) && real->read &&
                               real->readfrom && jumps_to_readfrom(real->read)
                       ? &entries_but_read
                       : &entries;
}

/* ---- counters ---- */

FI_ENTRY(uint64_t, cntr_read, struct fi_cntr, FI_T_CNTR, cntr, ops, ops.ops, read,
         (struct fid_cntr * cntr), (cntr), cntr_read_body)
{
        uint64_t value;

        if (FI_OWN_CALL(&s->o, caller))
                return s->ops.was.read(cntr);
        value = s->ops.was.read(cntr);
        atomic_fetch_add_explicit(&s->reads, 1, memory_order_relaxed);
        atomic_store_explicit(&s->last, value, memory_order_relaxed);
        return value;
}

FI_ENTRY(int, cntr_wait, struct fi_cntr, FI_T_CNTR, cntr, ops, ops.ops, wait,
         (struct fid_cntr * cntr, uint64_t threshold, int timeout), (cntr, threshold, timeout),
         cntr_wait_body)
{
        int r;

        if (FI_OWN_CALL(&s->o, caller))
                return s->ops.was.wait(cntr, threshold, timeout);
        r = s->ops.was.wait(cntr, threshold, timeout);
        s->waits++;
        if (r && r != -FI_ETIMEDOUT)
                capo_fi_error(&s->o.errors, r, 1);
        return r;
}

const struct fi_ops_cntr capo_fi_cntr = {.read = cntr_read, .wait = cntr_wait};
