/* SPDX-License-Identifier: Apache-2.0 */

#include "core/base/xalloc.h"
#include "analysis/hang/gpu_ended.h"

#define SLOWER 4 /* times as long as the mean may a call take, before it is held for stuck */

static struct capo_hang_ended *entry_of(struct capo_hang_process *p, uint32_t comm)
{
        for (uint32_t i = 0; i < p->n_ended; i++) {
                if (p->ended[i].comm == comm)
                        return &p->ended[i];
        }
        xarray_room(&p->ended, p->n_ended, sizeof *p->ended);
        p->ended[p->n_ended] = (struct capo_hang_ended){.comm = comm};
        return &p->ended[p->n_ended++];
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

/* Does the GPU have calls of @comm on that stream? */
static bool is_on_stream(const struct capo_hang_process *p, uint32_t comm, uint32_t stream)
{
        for (uint32_t i = p->n_calls; i-- > 0;) {
                if (p->calls[i].comm == comm)
                        return p->calls[i].stream == stream;
        }
        return false;
}

uint64_t hang_ended_ns(const struct capo_hang_process *p, uint32_t comm)
{
        uint64_t last = 0;

        for (uint32_t i = 0; i < p->n_ended; i++) {
                const struct capo_hang_ended *e = &p->ended[i];

                if (e->at_ns > last && (e->comm == comm || is_on_stream(p, comm, e->stream)))
                        last = e->at_ns;
        }
        return last;
}

bool hang_may_go_on(const struct capo_hang_process *p, uint32_t comm, uint64_t now_ns)
{
        for (uint32_t i = 0; i < p->n_ended; i++) {
                const struct capo_hang_ended *e = &p->ended[i];
                double left = (double)e->next_seq - (double)e->seq;

                if (e->comm == comm && e->at_ns && left > 1 &&
                    (double)e->at_ns + SLOWER * left * (double)e->each_ns > (double)now_ns)
                        return true;
        }
        return false;
}
