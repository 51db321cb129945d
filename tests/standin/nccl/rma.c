/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-sided calls on two-sided messages. A put is a header and a copy of the data, sent and
 * forgotten: the caller's buffer is free at once and the stream goes on. The target takes puts in,
 * into its window, while it waits for their signals. So data is there when the signal has been
 * waited for, which is all the interface promises; it does not come any earlier.
 */
#include <stdlib.h>
#include <string.h>

#include "std.h"

struct header {
        int window, signal, context;
        size_t offset, bytes;
};

struct put { /* on its way; freed when both messages have left */
        struct put *next;
        struct req head, body;
        struct header header;
        unsigned char data[];
};

struct rma {
        uint64_t *sent, *received; /* messages per peer */
        struct put *puts;
        struct {
                int peer, signal, context, count;
        } * signals;
        int n_signals;
};

static struct rma *rma_of(struct comm *comm)
{
        struct rma *r = comm->rma;

        if (r)
                return r;
        r = calloc(1, sizeof *r);
        if (r) {
                r->sent = calloc((size_t)comm->n, sizeof *r->sent);
                r->received = calloc((size_t)comm->n, sizeof *r->received);
                if (!r->sent || !r->received) {
                        free(r->sent);
                        free(r->received);
                        free(r);
                        r = NULL;
                }
        }
        return comm->rma = r;
}

/* After the channels are closed: nothing is on its way any more. */
void rma_free(struct comm *comm)
{
        struct rma *r = comm->rma;

        if (!r)
                return;
        for (struct put *p = r->puts, *next; p; p = next) {
                next = p->next;
                free(p);
        }
        free(r->sent);
        free(r->received);
        free(r->signals);
        free(r);
        comm->rma = NULL;
}

static void reap(struct rma *r)
{
        for (struct put **at = &r->puts; *at;) {
                struct put *p = *at;

                if (p->head.done && p->body.done) {
                        *at = p->next;
                        free(p);
                } else {
                        at = &p->next;
                }
        }
}

static int *signal_count(struct rma *r, int peer, int signal, int context)
{
        void *more;

        for (int i = 0; i < r->n_signals; i++)
                if (r->signals[i].peer == peer && r->signals[i].signal == signal &&
                    r->signals[i].context == context)
                        return &r->signals[i].count;
        more = realloc(r->signals, (size_t)(r->n_signals + 1) * sizeof *r->signals);
        if (!more)
                return NULL;
        r->signals = more;
        r->signals[r->n_signals] = (__typeof__(*r->signals)){peer, signal, context, 0};
        return &r->signals[r->n_signals++].count;
}

/* Where a put lands here; NULL when it does not fit the window. */
static unsigned char *target(const struct comm *comm, const struct header *h)
{
        struct registration *w =
                h->window >= 0 && h->window < comm->n_windows ? comm->windows[h->window] : NULL;

        if (!w || h->offset > w->bytes || h->bytes > w->bytes - h->offset)
                return NULL;
        return (unsigned char *)w->buffer + h->offset;
}

static ncclResult_t put(const struct task *t, struct rma *r)
{
        struct comm *comm = t->comm;
        struct header h = {t->rma.window, t->rma.signal, t->rma.context, t->rma.offset, t->bytes};
        struct put *p;
        ncclResult_t e;

        if (t->peer == comm->rank) {
                int *count = signal_count(r, t->peer, h.signal, h.context);
                unsigned char *at = h.bytes ? target(comm, &h) : NULL;

                if (!count || (h.bytes && !at))
                        return fail(comm, ncclInvalidArgument, "PutSignal: outside the window");
                if (at)
                        memmove(at, t->send, h.bytes);
                ++*count;
                return ncclSuccess;
        }
        p = malloc(sizeof *p + h.bytes);
        if (!p)
                return fail(comm, ncclSystemError, "out of memory");
        p->header = h;
        p->body.done = true;
        memcpy(p->data, t->send, h.bytes);
        p->next = r->puts;
        r->puts = p;
        e = net_send(&comm->chans[0], t->peer, KIND_PUT, r->sent[t->peer]++, &p->header,
                     sizeof p->header, &p->head);
        if (!e && h.bytes)
                e = net_send(&comm->chans[0], t->peer, KIND_PUT, r->sent[t->peer]++, p->data,
                             h.bytes, &p->body);
        return e;
}

/* Takes in what the peer has put until enough of the signal has come. */
static ncclResult_t wait_signal(const struct task *t, struct rma *r)
{
        struct comm *comm = t->comm;
        struct chan *ch = &comm->chans[0];

        for (;;) {
                int *count = signal_count(r, t->peer, t->rma.signal, t->rma.context);
                struct header h;
                struct req req;
                ncclResult_t e;

                if (!count)
                        return fail(comm, ncclSystemError, "out of memory");
                if (*count >= (int)t->count) {
                        *count -= (int)t->count;
                        return ncclSuccess;
                }
                if (t->peer == comm->rank)
                        return fail(comm, ncclInvalidUsage, "WaitSignal: rank %d waits for itself",
                                    comm->rank);
                if ((e = net_recv(ch, t->peer, KIND_PUT, r->received[t->peer]++, &h, sizeof h,
                                  &req)) ||
                    (e = net_wait(ch, &req)))
                        return e;
                if (h.bytes) {
                        unsigned char *at = target(comm, &h);

                        if (!at)
                                return fail(comm, ncclInvalidArgument,
                                            "rank %d put outside its window on rank %d", t->peer,
                                            comm->rank);
                        if ((e = net_recv(ch, t->peer, KIND_PUT, r->received[t->peer]++, at,
                                          h.bytes, &req)) ||
                            (e = net_wait(ch, &req)))
                                return e;
                }
                count = signal_count(r, t->peer, h.signal, h.context);
                if (count)
                        ++*count;
        }
}

ncclResult_t rma_run(const struct task *t)
{
        struct rma *r = rma_of(t->comm);

        if (!r)
                return fail(t->comm, ncclSystemError, "out of memory");
        reap(r);
        return t->fn == FN_WAITSIGNAL ? wait_signal(t, r) : put(t, r);
}
