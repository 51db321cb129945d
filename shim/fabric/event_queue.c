/* SPDX-License-Identifier: Apache-2.0 */
/* Event queues: connections come and go, and errors. */
#include "shim/fabric/shim_fabric.h"

static void count_event(struct fi_eq *q, ssize_t n, const uint32_t *what, const void *buf)
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
                capo_fi_tables(&e->o, true);
}

#define EVENT_READ(entry, params, args)                                                       \
        FI_ENTRY(ssize_t, eq_##entry, struct fi_eq, FI_T_EQ, eq, ops, ops.ops, entry, params, \
                 args, eq_##entry##_body)                                                     \
        {                                                                                     \
                ssize_t n;                                                                    \
                                                                                              \
                if (FI_OWN_CALL(&s->o, caller))                                               \
                        return s->ops.was.entry args;                                         \
                n = s->ops.was.entry args;                                                    \
                count_event(s, n, what, buf);                                                 \
                return n;                                                                     \
        }
EVENT_READ(read, (struct fid_eq * eq, uint32_t *what, void *buf, size_t len, uint64_t flags),
           (eq, what, buf, len, flags))
EVENT_READ(sread,
           (struct fid_eq * eq, uint32_t *what, void *buf, size_t len, int timeout, uint64_t flags),
           (eq, what, buf, len, timeout, flags))

FI_ENTRY(ssize_t, eq_readerr, struct fi_eq, FI_T_EQ, eq, ops, ops.ops, readerr,
         (struct fid_eq * eq, struct fi_eq_err_entry *buf, uint64_t flags), (eq, buf, flags),
         eq_readerr_body)
{
        ssize_t n;

        if (FI_OWN_CALL(&s->o, caller))
                return s->ops.was.readerr(eq, buf, flags);
        n = s->ops.was.readerr(eq, buf, flags);
        if (n > 0 && buf)
                capo_fi_error(&s->o.errors, buf->err, 1);
        return n;
}

const struct fi_ops_eq capo_fi_eq = {.read = eq_read, .readerr = eq_readerr, .sread = eq_sread};
