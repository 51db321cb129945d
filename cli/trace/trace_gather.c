/* SPDX-License-Identifier: Apache-2.0 */
/* What has to be known before a trace is written: the first reading of the logs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/job/log_calls.h"
#include "cli/trace/trace.h"
#include "core/base/calls.h"
#include "core/base/util.h"

/* Collectives of one communicator that are matched: more are left without arrows. */
enum { MEETS_MOST = 1 << 26, ROOM_BEFORE = 1 << 16 };

struct gathering {
        struct trace *t;
        uint32_t process;
        uint32_t *comms; /* of it */
};

/* The place of call @seq, made if need be. NULL: there is none, or no memory. */
static struct trace_meet *place_of(struct trace_meets *m, uint32_t seq)
{
        uint32_t at, room;
        struct trace_meet *more;

        if (!m->meet && !m->n) /* other ranks' logs may begin somewhat earlier */
                m->from = seq > ROOM_BEFORE ? seq - ROOM_BEFORE : 0;
        if (seq < m->from || seq - m->from >= MEETS_MOST)
                return NULL;
        at = seq - m->from;
        if (at < m->n)
                return &m->meet[at];
        for (room = m->n ? m->n : 1024; room <= at;)
                room *= 2;
        more = realloc(m->meet, room * sizeof *more);
        if (!more)
                return NULL;
        memset(more + m->n, 0, (room - m->n) * sizeof *more);
        m->meet = more;
        m->n = room;
        return &m->meet[at];
}

static int gather_call(const struct capo_record *r, unsigned thread, void *arg)
{
        struct gathering *g = arg;
        struct trace_process *p = &g->t->process[g->process];
        bool timed = r->clock == CAPO_CLOCK_EVENT || r->clock == CAPO_CLOCK_KERNEL;
        uint64_t begin;
        uint32_t comm = g->comms[r->comm];
        struct trace_meet *m;

        if (!timed || r->flags & CAPO_RECORD_MEMBER)
                return 0;
        p->by_order |= !capo_record_gpu_begin(r, &begin);
        if (!comm || !r->seq || !trace_is_barrier(r))
                return 0;
        m = place_of(&g->t->meets[comm - 1], r->seq);
        if (!m)
                return 0;
        if (!m->n || r->gpu_ns < m->least_ns) {
                m->least_ns = r->gpu_ns > UINT32_MAX ? UINT32_MAX : (uint32_t)r->gpu_ns;
                m->last = g->process;
        }
        m->high[1] = m->high[0];
        m->high[0] = g->process; /* processes come in order */
        m->n++;
        return 0;
}

const struct trace_meet *trace_meet_of(const struct trace *t, uint32_t comm, uint32_t seq)
{
        const struct trace_meets *m = &t->meets[comm];

        return seq >= m->from && seq - m->from < m->n && m->meet[seq - m->from].n > 1
                       ? &m->meet[seq - m->from]
                       : NULL;
}

void trace_comms(const struct capo_job *job, uint32_t process, uint32_t *comms, int32_t *ranks)
{
        uint32_t n;
        const struct capo_job_use *use = capo_job_uses(job, process, &n);

        memset(comms, 0, TRACE_IDS * sizeof *comms);
        for (; n--; use++) {
                const struct capo_job_member *m = &job->comms[use->comm].members[use->member];

                comms[m->id] = use->comm + 1;
                if (ranks)
                        ranks[m->id] = m->rank;
        }
}

static int gather_process(struct gathering *g)
{
        struct capo_log *log = capo_job_log(g->t->job, g->process);
        int r;

        trace_comms(g->t->job, g->process, g->comms, NULL);
        r = capo_log_calls_each(log, gather_call, g);
        capo_log_park(log);
        return r == -ENOMEM ? r : 0;
}

int trace_gather(struct trace *t)
{
        _cleanup_free_ uint32_t *comms = calloc(TRACE_IDS, sizeof *comms);
        struct gathering g = {.t = t, .comms = comms};
        int r = comms ? 0 : -ENOMEM;

        for (; g.process < t->job->n_processes && r == 0; g.process++) {
                if (t->process[g.process].wanted)
                        r = gather_process(&g);
        }
        for (uint32_t c = 0; c < t->job->n_comms; c++)
                t->meets[c].flow = c ? t->meets[c - 1].flow + t->meets[c - 1].n : 1;
        return r;
}
