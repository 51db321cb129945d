/* SPDX-License-Identifier: Apache-2.0 */
/* Reads each log a second time for what the report does not need: the last calls in order, and the
 * number of calls of each process on each communicator. The cells have exact counts, however old
 * the calls are. */
#include "analysis/hang/hang_judge.h"
#include "analysis/hang/hang_load.h"
#include "analysis/job/log_calls.h"
#include "analysis/job/stops.h"
#include "analysis/log/hang_frame_read.h"
#include "analysis/report/job_judge.h"
#include "capo/call_ids.h"
#include "capo/frame_types.h"
#include "core/base/among.h"
#include "core/base/calls.h"
#include "core/base/order.h"
#include "core/base/text.h"
#include "core/base/xalloc.h"
#include "core/log/unfinished.h"

/* The last calls of one log. A few older ones are kept for each communicator, because another
 * thread of the process may have made all of the last ones. */

enum { CAPO_HANG_OLDER = 8 };

struct hang_older_calls {
        uint32_t n; /* a ring buffer */
        struct capo_record v[CAPO_HANG_OLDER];
};

struct hang_last_calls {
        struct capo_record *v; /* CAPO_HANG_CALLS, a ring buffer; allocated by the caller */
        uint64_t n;
        uint64_t first_ns;              /* begin of the oldest call seen */
        struct hang_older_calls *older; /* by id of the communicator */
        uint32_t n_older;
};

/* Walk the kept calls, older ones first. @at: starts with 0. NULL after the last. */
static const struct capo_record *hang_last_next(const struct hang_last_calls *l, uint64_t *at)
{
        const uint64_t older = (uint64_t)l->n_older * CAPO_HANG_OLDER,
                       n = l->n < CAPO_HANG_CALLS ? l->n : CAPO_HANG_CALLS;

        for (; *at < older; ++*at) {
                const struct hang_older_calls *o = &l->older[*at / CAPO_HANG_OLDER];

                if (*at % CAPO_HANG_OLDER < o->n)
                        return &o->v[(*at)++ % CAPO_HANG_OLDER];
        }
        if (*at - older >= n)
                return NULL;
        return &l->v[(l->n - n + ((*at)++ - older)) % CAPO_HANG_CALLS];
}

/* The last HANG frame of an incomplete log, or of a process that exited with an error, if it
 * recorded no call after it. */
struct hang_moment {
        uint64_t at_ns;  /* since 1970; 0: none, or the log tells when it ended */
        uint64_t offset; /* 0: none */
};

/* Find the last HANG frame after which no call was recorded. */
static void find_frame(const struct capo_job_process *jp, struct hang_moment *out)
{
        struct capo_log *log = jp->log;
        struct capo_hang_text t = {0}, read;
        struct capo_log_frame f;
        struct capo_log_end end;

        capo_log_rewind(log);
        while (capo_log_next(log, &f) > 0) {
                if (f.type == CAPO_FRAME_HANG && capo_hang_text_read(&f, &read) == 0) {
                        t = read;
                        out->offset = f.offset;
                } else if (f.type == CAPO_FRAME_END && t.at_ns && capo_log_end(&f, &end) == 0 &&
                           end.calls != t.calls) {
                        t.at_ns = 0; /* it made calls later */
                }
        }
        capo_log_park(log);
        *out = t.at_ns ? (struct hang_moment){jp->header.t0_real_ns + t.at_ns, out->offset}
                       : (struct hang_moment){0};
}

/* How a process lives or ended. @moment: filled. */
static void tell_life(const struct capo_job *job, uint32_t i, uint8_t known, uint64_t now_ns,
                      struct capo_hang_process *p, struct hang_moment *moment)
{
        const struct capo_job_process *jp = &job->processes[i];
        const bool final = known != CAPO_HANG_BY_LOG || (jp->has_end && jp->end.clean);
        const char *status = capo_job_info(jp, CAPO_INFO_EXIT);
        struct capo_stop stop[CAPO_STOPS_MOST];
        uint32_t n_stops = capo_stops_of(jp, stop, CAPO_STOPS_MOST);

        p->rank = jp->rank;
        p->exit_status = status ? atoi(status) : -1;
        for (const struct capo_stop *s = stop; s < stop + n_stops; s++) {
                if (s->to > (double)p->resumed_ns) {
                        p->paused_ns = (uint64_t)s->from;
                        p->resumed_ns = (uint64_t)s->to;
                }
        }
        if (!final || p->exit_status > 0)
                find_frame(jp, moment);
        if (final) /* only the calls that it was in are of use */
                moment->at_ns = 0;
        p->stale = !final && !moment->at_ns;
        p->end_ns = jp->header.t0_real_ns + jp->last_ns;
        if (known >= CAPO_HANG_IS_ALIVE) {
                p->life = known == CAPO_HANG_IS_ALIVE ? CAPO_HANG_ALIVE : CAPO_HANG_STOPPED;
                p->end_ns = now_ns;
        } else if (moment->at_ns) { /* it may be on another node; nothing newer is known */
                p->end_ns = moment->at_ns;
        } else {
                bool ended = capo_process_ended(job, jp);

                p->life = ended ? CAPO_HANG_EXITED : CAPO_HANG_KILLED;
                p->ending = p->stale ? CAPO_HANG_RUNS
                            : ended  ? CAPO_HANG_BY_EXIT
                                     : CAPO_HANG_BY_KILL;
        }
}

/* Fill the lives of @out->processes, and the job's fields that follow from them. @moments: zeroed
 * array, by process; filled. */
static void tell_lives(const struct capo_job *job, const uint8_t *known, uint64_t now_ns,
                       struct capo_hang_job *out, struct hang_moment *moments)
{
        bool alive = false, over = true;
        uint64_t last = 0;

        for (uint32_t i = 0; i < out->n_processes; i++) {
                struct capo_hang_process *p = &out->processes[i];

                tell_life(job, i, known[i], now_ns, p, &moments[i]);
                alive |= known[i] >= CAPO_HANG_IS_ALIVE;
                over &= p->ending != CAPO_HANG_RUNS;
                if (!p->stale && p->end_ns > last)
                        last = p->end_ns;
        }
        out->over = over && out->n_processes;
        out->cut = !over && !alive;
        out->now_ns = alive ? now_ns : last;
        for (uint32_t i = 0; i < out->n_processes && !alive; i++) {
                struct capo_hang_process *p = &out->processes[i];

                if (p->life >= CAPO_HANG_EXITED && p->end_ns + HANG_TOGETHER_NS >= last)
                        p->life = CAPO_HANG_ALIVE;
        }
}

#define HEARTBEAT_NS 100000000 /* possible age of a GPU state */

#define OPEN_GROUP 0xf0000000u /* plus the thread: a group that has no number yet */

/* Id of a communicator in a process. */
struct known_comm {
        uint32_t process, id, comm, member;
        uint64_t collectives, p2p, splits;
};

struct cell {
        uint64_t count;
        uint16_t comm;
        uint8_t call;
        int8_t result;
};

struct reader {
        const struct capo_job *job;
        struct capo_hang_job *out;
        struct known_comm *comms; /* by process and id */
        uint32_t n_comms;
        uint64_t t0; /* of the log being read, ns since 1970 */
        struct hang_last_calls last;
        struct cell *cells; /* by their number */
        struct capo_log_calls
                *shapes; /* one for all logs: each log describes its shapes before using them */
        struct hang_moment *frames; /* by process */
        uint32_t n_cells;
        struct capo_hang_call *grown;   /* memory for the calls of one process after the other */
        struct capo_hang_call lost[32]; /* of the process: a thread's last one that was dropped */
        uint32_t n_lost;
};

CAPO_ORDERED(by_process, struct known_comm, CAPO_ORDER(a->process, b->process),
             CAPO_ORDER(a->id, b->id));

static struct known_comm *comm_of(const struct reader *rd, uint32_t process, uint32_t id)
{
        struct known_comm key = {.process = process, .id = id};

        return rd->n_comms ? bsearch(&key, rd->comms, rd->n_comms, sizeof key, by_process) : NULL;
}

/* ---- one log ---- */

static int take_call(const struct capo_record *r, unsigned thread, void *arg)
{
        struct hang_last_calls *l = &((struct reader *)arg)->last;
        struct capo_record *place = &l->v[l->n % CAPO_HANG_CALLS];
        struct hang_older_calls *o;

        if (l->n >= CAPO_HANG_CALLS && place->comm && place->seq &&
            place->call != CAPO_CALL_GROUP) {
                for (; l->n_older <= place->comm; l->older[l->n_older++].n = 0)
                        xarray_room(&l->older, l->n_older, sizeof *l->older);
                o = &l->older[place->comm];
                o->v[o->n++ % CAPO_HANG_OLDER] = *place;
        }
        if (!l->n++ || r->t_begin < l->first_ns)
                l->first_ns = r->t_begin;
        *place = *r;
        place->thread = (uint16_t)thread;
        return 0;
}

/* A later frame of a cell replaces the earlier one. */
static int take_cell(struct reader *rd, const struct capo_log_frame *f)
{
        struct capo_log_hist_view host, gpu;
        struct capo_log_cell cell;

        if (capo_log_cell(f, &cell, &host, &gpu) < 0)
                return 0;
        while (rd->n_cells <= cell.id)
                *xadd(rd->cells, rd->n_cells) = (struct cell){0};
        rd->cells[cell.id] = (struct cell){cell.count, cell.comm, cell.call, cell.result};
        return 0;
}

static bool is_message(uint8_t call)
{
        enum capo_call_kind kind = capo_call_kind(call);

        return kind == CAPO_KIND_P2P || kind == CAPO_KIND_RMA;
}

static void count_cell(struct reader *rd, uint32_t process, struct cell c)
{
        struct known_comm *k = c.count ? comm_of(rd, process, c.comm) : NULL;
        enum capo_call_kind kind = capo_call_kind(c.call);

        if (!k || !capo_hang_taken(c.result))
                return;
        if (is_message(c.call))
                k->p2p += c.count;
        else if (kind != CAPO_KIND_OTHER && kind != CAPO_KIND_GROUP)
                k->collectives += c.count;
        else if (c.call == CAPO_CALL_COMMSPLIT || c.call == CAPO_CALL_COMMSHRINK ||
                 c.call == CAPO_CALL_COMMGROW)
                k->splits += c.count;
}

static struct capo_hang_call call_of(const struct reader *rd, uint32_t process,
                                     const struct capo_record *r)
{
        const struct known_comm *k = comm_of(rd, process, r->comm);

        return (struct capo_hang_call){
                .begin_ns = rd->t0 + r->t_begin,
                .end_ns = rd->t0 + r->t_end,
                .bytes = r->bytes,
                .seq = r->seq,
                .group = r->flags & CAPO_RECORD_MEMBER
                                 ? r->group
                                 : 0, /* for other calls it may be the begin on the GPU */
                .stream = r->stream,
                .peer = r->peer,
                .comm = k ? k->comm : CAPO_HANG_NONE,
                .member = k ? k->member : CAPO_HANG_NONE,
                .thread = r->thread,
                .site = r->site,
                .call = r->call,
                .type = r->type,
                .op = r->op,
                .result = r->result,
                .gpu = (r->clock == CAPO_CLOCK_EVENT || r->clock == CAPO_CLOCK_KERNEL) &&
                                       !capo_ran_half(r->algo_proto)
                               ? CAPO_HANG_GPU_ENDED
                               : CAPO_HANG_GPU_UNKNOWN,
                .algo_proto = r->algo_proto,
                .channels = r->channels,
                .captured = r->flags & CAPO_RECORD_CAPTURED,
        };
}

/* State of the stream of a communicator's last call; ignored if older than its newest call. */
static void take_stream(struct reader *rd, uint32_t process, const struct capo_unfinished_call *u)
{
        struct capo_hang_process *p = &rd->out->processes[process];
        const struct known_comm *k = comm_of(rd, process, u->record.comm);
        const bool idle = u->where == CAPO_UNFINISHED_IDLE;
        struct capo_hang_call *last = NULL;

        for (uint32_t i = 0; k && i < p->n_calls; i++) {
                struct capo_hang_call *c = &p->calls[i];

                if (c->comm != k->comm || c->member != k->member || !c->seq)
                        continue;
                if (idle &&
                    c->seq > (is_message(c->call) ? (uint32_t)u->record.peer : u->record.seq))
                        return;
                if (!last || c->begin_ns >= last->begin_ns)
                        last = c;
        }
        if (!k || (last && last->captured))
                return;
        if (!idle && last && last->gpu == CAPO_HANG_GPU_UNKNOWN && last->seq == u->record.seq &&
            last->call == u->record.call)
                last->gpu = CAPO_HANG_GPU_BUSY;
        for (uint32_t i = 0; idle && i < p->n_calls; i++) {
                struct capo_hang_call *c = &p->calls[i];

                if (c->comm == k->comm && c->member == k->member && c->seq && !c->captured &&
                    c->where == CAPO_HANG_RETURNED)
                        c->gpu = CAPO_HANG_GPU_ENDED;
        }
        rd->out->comms[k->comm].members[k->member].idle |= idle;
}

/* How far the GPU was seen to have come while the host made no call. */
static void take_ended(struct capo_hang_process *p, uint32_t comm, uint64_t t0,
                       const struct capo_unfinished_call *u)
{
        struct capo_hang_ended *e = FIRST_OF(of, p->ended, p->n_ended, of->comm == comm)
                                            ?: xput(p->ended, p->n_ended, .comm = comm);

        if (u->where == CAPO_UNFINISHED_ENDED) {
                e->stream = u->record.stream;
                e->seq = u->record.seq;
                e->at_ns = t0 + u->record.t_begin;
                e->each_ns = u->record.bytes;
        } else if (!e->next_seq || u->record.seq < e->next_seq) {
                e->next_seq = u->record.seq;
        }
}

static void take_one(struct reader *rd, uint32_t process, const struct capo_unfinished_call *u)
{
        struct capo_hang_process *p = &rd->out->processes[process];
        const struct known_comm *k = comm_of(rd, process, u->record.comm);
        struct capo_hang_call c = call_of(rd, process, &u->record);

        c.end_ns = 0;
        if (u->where == CAPO_UNFINISHED_LOST && rd->n_lost < N_ELEMENTS(rd->lost))
                rd->lost[rd->n_lost++] = c;
        if (u->where == CAPO_UNFINISHED_RUNNING && p->life != CAPO_HANG_STOPPED &&
            c.begin_ns + HEARTBEAT_NS <= p->end_ns) {
                for (struct capo_hang_call *of = p->calls; of < PAST_OF(p->calls, p->n_calls);
                     of++) {
                        if ((c.call == CAPO_CALL_GROUP /* its time applies to its members */
                                     ? of->group && of->group == c.seq
                                     : of->call == c.call && of->seq == c.seq &&
                                               of->comm == c.comm && of->thread == c.thread) &&
                            of->gpu == CAPO_HANG_GPU_UNKNOWN)
                                of->gpu = CAPO_HANG_GPU_RUNNING;
                }
        } else if (u->where == CAPO_UNFINISHED_HOST || u->where == CAPO_UNFINISHED_MEMBER) {
                c.where = u->where == CAPO_UNFINISHED_HOST ? CAPO_HANG_HOST : CAPO_HANG_OPEN;
                c.group = u->where == CAPO_UNFINISHED_HOST ? 0 : OPEN_GROUP + u->record.thread;
                *xadd(p->calls, p->n_calls) = c;
        }
        if (u->where == CAPO_UNFINISHED_BUSY || u->where == CAPO_UNFINISHED_IDLE)
                take_stream(rd, process, u);
        for (uint32_t i = 0; u->where == CAPO_UNFINISHED_ENDS && i < p->n_calls; i++) {
                if (p->calls[i].group == OPEN_GROUP + u->record.thread)
                        p->calls[i].where = CAPO_HANG_ENDING;
        }
        if (k && (u->where == CAPO_UNFINISHED_ENDED || u->where == CAPO_UNFINISHED_RUNNING ||
                  u->where == CAPO_UNFINISHED_BUSY))
                take_ended(p, k->comm, rd->t0, u);
}

/* Unfinished calls: from the HANG frame or, for a killed process, from the lines that recovery
 * added. */
static void take_unfinished(struct reader *rd, uint32_t process, const struct capo_log_frame *hang)
{
        const char *line =
                hang ? NULL : capo_job_info(&rd->job->processes[process], CAPO_INFO_UNFINISHED);
        struct capo_hang_process *p = &rd->out->processes[process];
        struct capo_unfinished_call u;
        size_t at = 0;

        while (hang && capo_hang_text_next(hang, &at, &u))
                if (!u.record.t_end &&
                    (rd->frames[process].at_ns || u.where == CAPO_UNFINISHED_HOST))
                        take_one(rd, process, &u);
        for (; line && *line; line += strcspn(line, "\n"), line += *line == '\n') {
                if (capo_unfinished_read(line, &u))
                        take_one(rd, process, &u);
        }
        /* the last call of a thread was not recorded, or perhaps that of one more */
        if (rd->n_lost)
                p->lost = rd->n_lost == N_ELEMENTS(rd->lost) ||
                          ANY_OF(of, rd->lost, rd->n_lost,
                                 !ANY_OF(c, p->calls, p->n_calls,
                                         c->thread == of->thread && c->begin_ns > of->begin_ns));
        rd->n_lost = 0;
}

CAPO_ORDERED(by_begin, struct capo_hang_call, CAPO_ORDER(a->begin_ns, b->begin_ns),
             CAPO_ORDER(a->seq, b->seq));

/* NCCL refused a group at its end: it has none of its members, although each had returned well. */
static void refuse_group(struct reader *rd, uint32_t process, const struct capo_record *group)
{
        struct capo_hang_process *p = &rd->out->processes[process];

        for (uint32_t i = 0; i < p->n_calls; i++) {
                struct capo_hang_call *c = &p->calls[i];

                if (c->group != group->seq || !capo_hang_taken(c->result))
                        continue;
                c->result = group->result;
                for (uint32_t k = 0; k < rd->n_comms; k++) {
                        struct known_comm *of = &rd->comms[k];
                        uint64_t *n = is_message(c->call) ? &of->p2p : &of->collectives;

                        if (of->process == process && of->comm == c->comm &&
                            of->member == c->member)
                                *n -= *n > 0;
                }
        }
}

static void take_calls(struct reader *rd, uint32_t process, const struct capo_log_frame *hang)
{
        struct capo_hang_process *p = &rd->out->processes[process];
        const struct capo_record *c;
        uint64_t at = 0;

        p->calls = steal(&rd->grown);
        while ((c = hang_last_next(&rd->last, &at))) {
                if (c->call == CAPO_CALL_GROUP)
                        continue;
                *xadd(p->calls, p->n_calls) = call_of(rd, process, c);
        }
        for (at = 0; (c = hang_last_next(&rd->last, &at));) {
                if (c->call != CAPO_CALL_GROUP)
                        continue;
                /* the time of a group applies to its members */
                for (uint32_t n = 0; c->clock == CAPO_CLOCK_EVENT && n < p->n_calls; n++) {
                        if (p->calls[n].group == c->seq)
                                p->calls[n].gpu = CAPO_HANG_GPU_ENDED;
                }
                if (!capo_hang_taken(c->result))
                        refuse_group(rd, process, c);
        }
        p->known_ns = rd->last.n ? rd->t0 + rd->last.first_ns : 0;
        take_unfinished(rd, process, hang);
        if (p->n_calls) {
                struct capo_hang_call *exact = xmalloc(p->n_calls * sizeof *exact);

                qsort(p->calls, p->n_calls, sizeof *p->calls, by_begin);
                memcpy(exact, p->calls, p->n_calls * sizeof *exact);
                rd->grown = p->calls;
                p->calls = exact;
        }
}

static int read_log(struct reader *rd, uint32_t process)
{
        const struct capo_job_process *jp = &rd->job->processes[process];
        const struct hang_moment *framed = &rd->frames[process];
        struct capo_log *log = capo_job_log(rd->job, process);
        struct capo_unfinished_call u;
        struct capo_log_frame f;
        size_t at = 0;
        int r = 0;

        rd->t0 = jp->header.t0_real_ns;
        free(rd->last.older);
        rd->last = (struct hang_last_calls){.v = rd->last.v};
        rd->n_cells = 0;
        free(steal(&rd->cells));
        while (r == 0 && capo_log_next(log, &f) > 0)
                r = f.type == CAPO_FRAME_CELL ? take_cell(rd, &f)
                                              : capo_log_calls_take(rd->shapes, &f, take_call, rd);
        if (r == 0 && framed->offset)
                r = capo_log_frame_at(log, framed->offset, &f);
        if (r < 0)
                return r;
        for (bool traced = rd->last.n; framed->at_ns && capo_hang_text_next(&f, &at, &u);) {
                const struct capo_record *c = &u.record;

                if (u.where == CAPO_UNFINISHED_GPU && c->t_end)
                        count_cell(rd, process, (struct cell){1, c->comm, c->call, c->result});
                else if (u.where != CAPO_UNFINISHED_WHERES ||
                         traced) /* then the log has it like any other call */
                        continue;
                take_call(c, c->thread, rd);
        }
        for (uint32_t i = 0; i < rd->n_cells; i++)
                count_cell(rd, process, rd->cells[i]);
        take_calls(rd, process, framed->offset ? &f : NULL);
        capo_log_park(log);
        return 0;
}

/* ---- the job ---- */

/* The settings that affect NCCL's choice, except profiles, in a fixed order. */
static char *settings_of(const struct capo_job_process *p)
{
        static const char *const names[] = {"NCCL_ALGO",          "NCCL_PROTO",
                                            "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS",
                                            "NCCL_MIN_CTAS",      "NCCL_MAX_CTAS"};
        const char *all = capo_job_info(p, CAPO_INFO_NCCL_SETTINGS);
        char text[512] = "";

        for (size_t i = 0; all && i < N_ELEMENTS(names); i++) {
                for (const char *at = all; *at; at += strcspn(at, " "), at += *at == ' ') {
                        size_t n = strlen(names[i]);

                        if (!strncmp(at, names[i], n) && at[n] == '=')
                                capo_append(text, sizeof text, "%s%.*s", *text ? " " : "",
                                            (int)strcspn(at, " "), at);
                }
        }
        return xstrdup(text);
}

static void make_comms(struct reader *rd)
{
        _cleanup_free_ uint32_t *seen = xcalloc(rd->job->n_processes + 1, sizeof *seen);

        rd->out->comms = xcalloc(rd->job->n_comms + 1, sizeof *rd->out->comms);
        rd->out->n_comms = rd->job->n_comms;
        for (uint32_t i = 0; i < rd->job->n_comms; i++) {
                const struct capo_job_comm *jc = &rd->job->comms[i];
                struct capo_hang_comm *c = &rd->out->comms[i];

                *c = (struct capo_hang_comm){
                        .name = jc->name, .uid = jc->uid, .n_ranks = jc->n_ranks};
                for (uint32_t k = 0; k < jc->n_members; k++) {
                        const struct capo_job_member *m = &jc->members[k];

                        if (rd->out->processes[m->process].stale)
                                continue;
                        c->several |= seen[m->process] == i + 1;
                        seen[m->process] = i + 1;
                        xarray_room(&c->members, c->n_members, sizeof *c->members);
                        *xadd(rd->comms, rd->n_comms) = (struct known_comm){.process = m->process,
                                                                            .id = m->id,
                                                                            .comm = i,
                                                                            .member = c->n_members};
                        c->members[c->n_members++] =
                                (struct capo_hang_member){.process = m->process,
                                                          .rank = m->rank,
                                                          .job_rank = m->job_rank,
                                                          .dead = m->t_destroyed_ns != 0};
                }
        }
        CAPO_SORT(rd->comms, rd->n_comms, by_process);
}

/* Set counts from cells, communicators created from others, and whether all sends and receives are
 * known. */
static void tell_members(struct reader *rd)
{
        for (uint32_t i = 0; i < rd->n_comms; i++) {
                const struct known_comm *k = &rd->comms[i];
                struct capo_hang_member *m = &rd->out->comms[k->comm].members[k->member];
                const struct capo_hang_process *p = &rd->out->processes[k->process];
                uint32_t parent = rd->job->comms[k->comm].parent;

                m->issued = (uint32_t)k->collectives;
                m->splits += (uint32_t)k->splits;
                m->whole_p2p =
                        COUNT_OF(c, p->calls, p->n_calls,
                                 is_message(c->call) && c->comm == k->comm &&
                                         c->member == k->member && c->where == CAPO_HANG_RETURNED &&
                                         capo_hang_taken(c->result)) == k->p2p;
                for (uint32_t n = 0; parent != CAPO_NO_COMM && n < rd->out->comms[parent].n_members;
                     n++) {
                        if (rd->out->comms[parent].members[n].process == k->process)
                                rd->out->comms[parent].members[n].splits++;
                }
        }
}

int capo_hang_read(const struct capo_job *job, const uint8_t *known, uint64_t now_ns,
                   struct capo_hang_job *out, uint32_t *n_stale)
{
        struct reader rd = {.job = job, .out = out};
        int r = 0;

        out->processes = xcalloc(job->n_processes + 1, sizeof *out->processes);
        rd.last.v = xcalloc(CAPO_HANG_CALLS, sizeof *rd.last.v);
        rd.shapes = capo_log_calls_new();
        rd.frames = xcalloc(job->n_processes + 1, sizeof *rd.frames);
        out->n_processes = job->n_processes;
        out->n_ranks = job->n_ranks;
        out->dropped = job->dropped;
        tell_lives(job, known, now_ns, out, rd.frames);
        for (uint32_t i = 0; i < job->n_processes; i++) {
                char text[700], id[160];

                capo_process_tuned_by(&job->processes[i], text, sizeof text, id);
                out->processes[i].tuned = xstrdup(id);
                out->processes[i].settings = settings_of(&job->processes[i]);
                out->processes[i].lost = job->processes[i].end.dropped > 0;
        }
        make_comms(&rd);
        for (uint32_t i = 0; i < job->n_processes && r == 0; i++) {
                if (!out->processes[i].stale)
                        r = read_log(&rd, i);
                else if (n_stale)
                        ++*n_stale;
        }
        if (r == 0)
                tell_members(&rd);
        capo_log_calls_free(rd.shapes);
        xfree(rd.cells, rd.grown, rd.last.older, rd.last.v, rd.comms, rd.frames);
        return r;
}

void capo_hang_job_finish(struct capo_hang_job *job)
{
        for (uint32_t i = 0; i < job->n_processes; i++) {
                xfree(job->processes[i].calls, job->processes[i].ended, job->processes[i].tuned,
                      job->processes[i].settings);
        }
        for (uint32_t i = 0; i < job->n_comms; i++)
                free(job->comms[i].members);
        for (uint32_t i = 0; i < job->n_sites; i++)
                free(job->sites[i]);
        xfree(job->sites, job->processes, job->comms);
        *job = (struct capo_hang_job){0};
}
