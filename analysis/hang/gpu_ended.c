/* SPDX-License-Identifier: Apache-2.0 */

#include "core/base/among.h"
#include "core/base/xalloc.h"
#include "analysis/hang/gpu_ended.h"

#define SLOWER 4 /* times as long as the mean may a call take, before it is held for stuck */

static struct capo_hang_ended *entry_of(struct capo_hang_process *p, uint32_t comm)
{
        return FIRST_OF(e, p->ended, p->n_ended, e->comm == comm)
                       ?: xput(p->ended, p->n_ended, .comm = comm);
}

void hang_take_ended(struct capo_hang_process *p, uint32_t comm, uint64_t t0,
                     const struct capo_unfinished_call *u)
{
        struct capo_hang_ended *e;

        if (u->where != CAPO_UNFINISHED_ENDED && u->where != CAPO_UNFINISHED_RUNNING &&
            u->where != CAPO_UNFINISHED_BUSY)
                return;
        e = entry_of(p, comm);
        if (u->where == CAPO_UNFINISHED_ENDED) {
                e->stream = u->record.stream;
                e->seq = u->record.seq;
                e->at_ns = t0 + u->record.t_begin;
                e->each_ns = u->record.bytes;
        } else if (!e->next_seq || u->record.seq < e->next_seq) {
                e->next_seq = u->record.seq;
        }
}

uint64_t hang_ended_ns(const struct capo_hang_process *p, uint32_t comm)
{
        const struct capo_hang_call *last = LAST_OF(c, p->calls, p->n_calls, c->comm == comm);

        return MOST_OF(e, p->ended, p->n_ended,
                       e->comm == comm || (last && last->stream == e->stream) ? e->at_ns : 0);
}

bool hang_may_go_on(const struct capo_hang_process *p, uint32_t comm, uint64_t now_ns)
{
        const struct capo_hang_ended *e =
                FIRST_OF(of, p->ended, p->n_ended, of->comm == comm && of->at_ns);
        double left = e ? (double)e->next_seq - (double)e->seq : 0;

        return left > 1 && (double)e->at_ns + SLOWER * left * (double)e->each_ns > (double)now_ns;
}
