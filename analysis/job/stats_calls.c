/* SPDX-License-Identifier: Apache-2.0 */
/* Single calls. Those in BLOCKs are looked at just long enough to see whether they are in the
 * sample of analysis/job/meet.h, and that loop is the one that decides how fast a report is. Calls
 * behind long silences that the sample lacks are fetched in a second reading, when there are any.
 */
#include "capo/frame_types.h"
#include "core/base/among.h"
#include "core/base/calls.h"
#include "analysis/job/reading.h"

/* Communicators that are compared: of at most so many ranks; in so many bytes for all, 28 of 65,536
 * ranks or 10,000 of 8, and so many more for each log, of which so many share five eighths. */
enum { MEET_RANKS = 1 << 16 };
#define MEET_BYTES  ((uint64_t)4 << 30)
#define MEET_OF_LOG ((uint64_t)256 << 10)

/* Silences of a thread that are looked at: of what the job has lasted so far. Shorter ones matter
 * only when there are many, and then the sample has them. */
enum { GAP_PARTS = 1024, GAP_LEAST_NS = 1000000, GAP_AHEAD = 2048 };

/* A rank takes room in each call, with a log or not: a damaged file may claim very many. */
static struct capo_meet *meet_of(const struct reading *rd, uint16_t comm)
{
        struct capo_job *job = rd->job;
        uint32_t index = rd->comms[comm];
        struct capo_job_comm *c = index ? &job->comms[index - 1] : NULL;
        struct capo_meet **meet;
        uint64_t bytes;

        if (!c || job->no_lateness || c->n_ranks < 2 || rd->ranks[comm] < 0)
                return NULL;
        meet = &job->scratch->meets[index - 1];
        if (*meet)
                return *meet;
        bytes = capo_meet_bytes((uint32_t)c->n_ranks);
        if (c->n_ranks > MEET_RANKS ||
            job->scratch->meet_bytes + bytes > MEET_BYTES + job->n_processes * MEET_OF_LOG) {
                c->no_skew = CAPO_SKEW_NO_ROOM;
                return NULL;
        }
        job->scratch->meet_bytes += bytes;
        return *meet = capo_meet_new((uint32_t)c->n_ranks);
}

/* What is wanted of calls like this. Limits fall as calls are added: ask again then. */
static struct wanted wanted_of_call(const struct reading *rd, unsigned call, unsigned flags,
                                    uint16_t comm)
{
        struct capo_meet *meet;

        if (flags & CAPO_RECORD_GROUP)
                return (struct wanted){.limit = UINT32_MAX, .grouped = true};
        if (!capo_call_is_collective(call) || flags & CAPO_RECORD_CAPTURED ||
            !(meet = meet_of(rd, comm)))
                return (struct wanted){0};
        return (struct wanted){.limit = meet->limit};
}

void job_want_again(struct reading *rd, uint16_t comm)
{
        for (uint32_t i = 0; i < rd->n_shapes; i++) {
                if (rd->shapes[i].call && rd->shapes[i].comm == comm)
                        rd->wanted[i] =
                                wanted_of_call(rd, rd->shapes[i].call, rd->shapes[i].flags, comm);
        }
}

static void group_done(struct reading *rd, const struct capo_record *group)
{
        uint32_t kept = 0;

        for (uint32_t i = 0; i < rd->n_pending; i++) {
                struct pending *p = &rd->pending[i];

                if (p->group == group->seq)
                        capo_meet_set_gpu(p->meet, p->handle, p->seq, group);
                else
                        rd->pending[kept++] = *p;
        }
        rd->n_pending = kept;
}

static void meet_call(struct reading *rd, const struct capo_record *r)
{
        struct capo_meet *meet;
        uint32_t limit;
        int64_t handle;

        if (r->flags & CAPO_RECORD_GROUP) {
                group_done(rd, r);
                return;
        }
        meet = meet_of(rd, r->comm);
        if (!meet)
                return;
        limit = meet->limit;
        handle = rd->longs ? capo_meet_add_long(meet, (uint32_t)rd->ranks[r->comm], r)
                           : capo_meet_add(meet, (uint32_t)rd->ranks[r->comm], r);
        if (meet->limit != limit)
                job_want_again(rd, r->comm);
        if (handle >= 0 && r->flags & CAPO_RECORD_MEMBER) {
                if (rd->n_pending == N_PENDING) /* their groups never came: forget the oldest */
                        memmove(rd->pending, rd->pending + 1,
                                --rd->n_pending * sizeof *rd->pending);
                rd->pending[rd->n_pending++] = (struct pending){
                        .meet = meet, .handle = handle, .seq = r->seq, .group = r->group};
        }
}

static void follow_call(struct reading *rd, uint16_t comm, uint32_t seq, uint64_t begin,
                        uint32_t group)
{
        struct capo_meet *meet = meet_of(rd, comm);

        if (meet)
                capo_meet_follow(meet, (uint32_t)rd->ranks[comm], seq, begin, group);
}

void job_seen_until(struct reading *rd, uint64_t t)
{
        if (t > rd->job->processes[rd->process].last_ns)
                rd->job->processes[rd->process].last_ns = t;
}

/* Was one of the calls @from .. @to - 1 on the GPU without being timed? */
static bool any_untimed(const struct reading *rd, const struct capo_log_columns *c, uint32_t from,
                        uint32_t to)
{
        return ANY_OF(id, PAST_OF(c->shape, from), to - from,
                      rd->shapes[*id].clock == CAPO_CLOCK_HOST && rd->shapes[*id].bytes &&
                              capo_call_kind(rd->shapes[*id].call) != CAPO_KIND_OTHER);
}

/* The first collective from call @i on (timed, it stands behind later ones) came after a silence of @ns. If a call between the silence
 * before and this one was not timed, and so can have been on the GPU all the time, the silence is
 * one of the process (sampled.h): the program waits for all that it enqueued, whichever call came
 * last. */
static void note_gap(struct reading *rd, const struct capo_log_columns *c, uint32_t i, bool untimed,
                     uint64_t from, uint64_t ns)
{
        struct reading_thread *thread = &rd->threads[c->thread % JOB_GAP_THREADS];
        uint32_t first = c->n;

        if (!rd->again)
                capo_silences_add(&thread->still, from, ns);
        if (!rd->again && untimed)
                capo_silences_add(&thread->silent, from, ns);
        for (uint32_t k = i; k < c->n && k < i + GAP_AHEAD; k++) {
                const struct wanted *w = &rd->wanted[c->shape[k]];

                if (w->limit && !w->grouped && c->base + c->t_begin[k] > from &&
                    (first == c->n || c->t_begin[k] < c->t_begin[first]))
                        first = k;
        }
        if (first < c->n)
                capo_meet_gap(meet_of(rd, rd->shapes[c->shape[first]].comm), c->seq[first], ns);
}

/* Calls that are timed stand in the log when they are done, so behind later ones: a silence begins
 * with the latest call yet. */
static void find_gaps(struct reading *rd, const struct capo_log_columns *c)
{
        struct reading_thread *thread = &rd->threads[c->thread % JOB_GAP_THREADS];
        uint64_t *last = &thread->silent_from, *first = &rd->job->processes[rd->process].first_ns;
        bool *untimed = &thread->silent_untimed;
        uint64_t least = (c->base + c->t_begin[c->n - 1]) / GAP_PARTS;
        uint32_t since = 0; /* calls from it on came behind the last silence */

        least = least < GAP_LEAST_NS ? GAP_LEAST_NS : least;
        if (!*last)
                *last = c->base + c->t_begin[0];
        if (!*first || c->base + c->t_begin[0] < *first)
                *first = c->base + c->t_begin[0];
        for (uint32_t i = 0; i < c->n; i++) {
                uint64_t begin = c->base + c->t_begin[i];

                if (unlikely(begin > *last && begin - *last > least)) {
                        note_gap(rd, c, i, *untimed || any_untimed(rd, c, since, i), *last,
                                 begin - *last);
                        *untimed = false;
                        since = i;
                }
                *last = begin > *last ? begin : *last;
        }
        *untimed = *untimed || any_untimed(rd, c, since, c->n);
        thread->n_calls += c->n;
}

void job_read_silences(struct reading *rd)
{
        struct reading_thread *most = rd->threads;

        for (size_t i = 1; i < JOB_GAP_THREADS; i++)
                most = rd->threads[i].n_calls > most->n_calls ? &rd->threads[i] : most;
        rd->job->processes[rd->process].silent = most->silent;
        rd->job->processes[rd->process].still = most->still;
        most->silent = most->still = (struct capo_silences){0};
}

/* In the second reading only the noted calls are taken, and the groups that they are in. */
static void read_long(struct reading *rd, const struct capo_log_columns *c)
{
        struct capo_record r;

        for (uint32_t i = 0; i < c->n; i++) {
                const struct wanted *w = &rd->wanted[c->shape[i]];

                if (!w->limit || (w->grouped && !rd->n_pending) ||
                    (!w->grouped &&
                     !capo_meet_is_long(meet_of(rd, rd->shapes[c->shape[i]].comm), c->seq[i])))
                        continue;
                capo_log_record(c, i, &rd->shapes[c->shape[i]], &r);
                meet_call(rd, &r);
        }
}

/* Calls are in the order in which they were finished: one that was timed on the GPU comes late, a
 * group behind its members. */
static uint32_t find_latest(const struct capo_log_columns *c)
{
        uint32_t begin = 0, i = c->n - 1;

        for (uint32_t k = 0; k < c->n; k++)
                begin = c->t_begin[k] > begin ? c->t_begin[k] : begin;
        while (i && c->t_begin[i] != begin)
                i--;
        return i;
}

static struct capo_job_call last_call_of(const struct capo_record *r)
{
        return (struct capo_job_call){.t_begin = r->t_begin,
                                      .t_end = r->t_end,
                                      .seq = r->seq,
                                      .comm = r->comm,
                                      .call = r->call,
                                      .clock = r->clock,
                                      .flags = r->flags};
}

void job_read_block(struct reading *rd, const struct capo_log_frame *f)
{
        struct capo_job_process *p = &rd->job->processes[rd->process];
        struct capo_log_columns c;
        uint32_t last;
        struct capo_record r;

        if (capo_log_block(f, &c) < 0 || !c.n)
                return;
        if (rd->longs) {
                read_long(rd, &c);
                return;
        }
        find_gaps(rd, &c);
        rd->blocks = true;
        rd->job->processes[rd->process].n_records += rd->again ? 0 : c.n;
        for (uint32_t i = 0; i < c.n; i++) {
                const struct wanted *w = &rd->wanted[c.shape[i]];

                if (unlikely(capo_meet_hash(c.seq[i] - 1) <= w->limit) && w->limit && !w->grouped) {
                        capo_log_record(&c, i, &rd->shapes[c.shape[i]], &r);
                        follow_call(rd, r.comm, r.seq, r.t_begin, capo_meet_group(&r));
                }
                if (likely(capo_meet_hash(c.seq[i]) > w->limit) || (w->grouped && !rd->n_pending) ||
                    !w->limit)
                        continue;
                capo_log_record(&c, i, &rd->shapes[c.shape[i]], &r);
                meet_call(rd, &r);
        }
        last = find_latest(&c);
        job_seen_until(rd, c.base + c.t_begin[last] + c.host_ns[last]);
        if (c.base + c.t_begin[last] >= p->last_call.t_begin) {
                capo_log_record(&c, last, &rd->shapes[c.shape[last]], &r);
                p->last_call = last_call_of(&r);
        }
}

void job_read_wide(struct reading *rd, const struct capo_log_frame *f)
{
        struct capo_job_process *p = &rd->job->processes[rd->process];
        struct capo_record r;

        rd->blocks = true;
        for (unsigned i = 0; capo_log_wide(f, i, &r); i++) {
                struct wanted w = wanted_of_call(rd, r.call, r.flags, r.comm);

                p->n_records += !rd->again;
                if (w.limit && !w.grouped && capo_meet_hash(r.seq - 1) <= w.limit)
                        follow_call(rd, r.comm, r.seq, r.t_begin, capo_meet_group(&r));
                if (w.limit && (rd->longs || capo_meet_hash(r.seq) <= w.limit) &&
                    r.t_begin <= r.t_end)
                        meet_call(rd, &r);
                job_seen_until(rd, r.t_end);
                if (r.t_begin >= p->last_call.t_begin)
                        p->last_call = last_call_of(&r);
        }
}

void job_read_shapes(struct reading *rd, const struct capo_log_frame *f)
{
        struct capo_job_process *p = &rd->job->processes[rd->process];
        const struct capo_log_shape *s;
        unsigned n = capo_log_shapes(f, &s);

        for (; n--; s++) {
                if (capo_call_kind(s->call) != CAPO_KIND_OTHER) {
                        p->many_streams |= p->has_stream && p->stream != s->stream;
                        p->stream = s->stream;
                        p->has_stream = true;
                }
                rd->shapes[s->id] = *s;
                rd->n_shapes = s->id >= rd->n_shapes ? s->id + 1u : rd->n_shapes;
                rd->wanted[s->id] = wanted_of_call(rd, s->call, s->flags, s->comm);
        }
}

/* The recorder writes what it knows when it knows it: a log may describe a communicator, and then
 * even the shapes of its calls, behind the calls themselves. Those are looked at once more, now
 * that all is known; calls that are in the sample already are not taken twice. */
void job_read_again(struct reading *rd)
{
        struct capo_log_frame f;

        capo_log_rewind(rd->log);
        rd->again = true;
        rd->n_pending = 0;
        for (size_t i = 0; i < JOB_GAP_THREADS; i++) {
                rd->threads[i].silent_from = 0;
                rd->threads[i].silent_untimed = false;
        }
        while (capo_log_next(rd->log, &f) > 0) {
                if (f.type == CAPO_FRAME_SHAPE)
                        job_read_shapes(rd, &f);
                else if (f.type == CAPO_FRAME_BLOCK)
                        job_read_block(rd, &f);
                else if (f.type == CAPO_FRAME_WIDE)
                        job_read_wide(rd, &f);
        }
}

static void fetch_long(struct capo_job *job, uint32_t process)
{
        struct capo_log *log = capo_job_log(job, process);
        const struct capo_job_use *use;
        struct reading *rd;
        uint32_t n;

        if (!log)
                return;
        rd = job_reading_new(job, process, log);
        rd->longs = true;
        use = capo_job_uses(job, process, &n);
        for (; n--; use++) {
                const struct capo_job_member *m = &job->comms[use->comm].members[use->member];

                job_reading_comm(rd, m->id, use->comm, m->rank);
        }
        job_read_again(rd);
        capo_log_park(log);
        job_reading_end(rd);
}

/* A log that cannot be read a second time leaves these calls incomplete: they are not compared. */
void job_meet_long(struct capo_job *job)
{
        uint64_t least = capo_job_duration_ns(job) / GAP_PARTS;
        uint32_t missing = 0;

        for (uint32_t i = 0; i < job->n_comms; i++) {
                if (job->scratch->meets[i])
                        missing += capo_meet_close_gaps(job->scratch->meets[i], least);
        }
        for (uint32_t i = 0; missing && i < job->n_processes; i++)
                fetch_long(job, i);
}
