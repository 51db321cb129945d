/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/job/log_calls.h"
#include "analysis/timeline/last_ranks.h"
#include "core/base/xalloc.h"

/* Limit on matched calls of one communicator. Other ranks' logs may begin somewhat earlier. */
enum { CALLS_MOST = 1 << 26, ROOM_BEFORE = 1 << 16 };

struct gathering {
        struct capo_last_ranks *to;
        uint32_t process;
        uint32_t *comms; /* of the process being read */
};

/* The place of call @seq, made if missing. NULL: out of range. */
static struct capo_last_call *place_of(struct capo_last_comm *m, uint32_t seq)
{
        struct capo_last_call *more;
        uint32_t at, room;

        if (!m->call)
                m->from = seq > ROOM_BEFORE ? seq - ROOM_BEFORE : 0;
        if (seq < m->from || seq - m->from >= CALLS_MOST)
                return NULL;
        at = seq - m->from;
        if (at < m->n)
                return &m->call[at];
        for (room = m->n ? m->n : 1024; room <= at;)
                room *= 2;
        more = xrealloc(m->call, room * sizeof *more);
        memset(more + m->n, 0, (room - m->n) * sizeof *more);
        m->call = more;
        m->n = room;
        return &m->call[at];
}

static int gather_call(const struct capo_record *r, unsigned thread, void *arg)
{
        struct gathering *g = arg;
        bool timed = r->clock == CAPO_CLOCK_EVENT || r->clock == CAPO_CLOCK_KERNEL;
        uint32_t comm = g->comms[r->comm];
        struct capo_last_call *m;
        uint64_t begin;

        if (!timed || r->flags & CAPO_RECORD_MEMBER)
                return 0;
        g->to->by_order[g->process] |= !capo_record_gpu_begin(r, &begin);
        if (!comm || !r->seq || !capo_is_joint(r))
                return 0;
        m = place_of(&g->to->comm[comm - 1], r->seq);
        if (!m)
                return 0;
        if (!m->n || r->gpu_ns < m->least_ns) {
                m->least_ns = r->gpu_ns > UINT32_MAX ? UINT32_MAX : (uint32_t)r->gpu_ns;
                m->last = g->process;
        }
        m->high[1] = m->high[0];
        m->high[0] = g->process; /* processes come in ascending order */
        m->n++;
        return 0;
}

void capo_comms_of(const struct capo_job *job, uint32_t process, uint32_t *comms, int32_t *ranks)
{
        uint32_t n;
        const struct capo_job_use *use = capo_job_uses(job, process, &n);

        memset(comms, 0, CAPO_IDS * sizeof *comms);
        for (; n--; use++) {
                const struct capo_job_member *m = &job->comms[use->comm].members[use->member];

                comms[m->id] = use->comm + 1;
                if (ranks)
                        ranks[m->id] = m->rank;
        }
}

void capo_last_ranks_make(const struct capo_job *job, const bool *wanted,
                          struct capo_last_ranks *out)
{
        _cleanup_free_ uint32_t *comms = xcalloc(CAPO_IDS, sizeof *comms);
        struct gathering g = {.to = out, .comms = comms};

        *out = (struct capo_last_ranks){.comm = xcalloc(job->n_comms + 1, sizeof *out->comm),
                                        .by_order = xcalloc(job->n_processes + 1, 1),
                                        .n_comms = job->n_comms};
        for (; g.process < job->n_processes; g.process++) {
                struct capo_log *log = wanted[g.process] ? capo_job_log(job, g.process) : NULL;

                if (!wanted[g.process])
                        continue;
                capo_comms_of(job, g.process, comms, NULL);
                capo_log_calls_each(log, gather_call, &g);
                capo_log_park(log);
        }
}

const struct capo_last_call *capo_last_call(const struct capo_last_ranks *l, uint32_t comm,
                                            uint32_t seq)
{
        const struct capo_last_comm *m = &l->comm[comm];

        return seq >= m->from && seq - m->from < m->n && m->call[seq - m->from].n > 1
                       ? &m->call[seq - m->from]
                       : NULL;
}

uint64_t capo_waited_ns(const struct capo_last_call *last, const struct capo_record *r)
{
        uint64_t waited = last && r->gpu_ns > last->least_ns ? r->gpu_ns - last->least_ns : 0;

        capo_record_waited(r, &waited);
        return waited < r->gpu_ns ? waited : r->gpu_ns;
}

bool capo_is_joint(const struct capo_record *r)
{
        struct capo_meet_row row = {.call = r->call, .bytes = r->bytes};

        return capo_meet_is_barrier(&row);
}
