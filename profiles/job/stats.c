/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adding a log. Frames are read once, in order. Descriptions (communicators, shapes) are taken up at once; of CELLs and
 * SITEs, which replace their earlier selves, only the last place is remembered and read again at the end; calls in
 * BLOCKs are looked at just long enough to see whether they are in the sample of profiles/job/meet.h, and that loop is
 * the one that decides how fast a report is.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/calls.h"
#include "core/base/util.h"
#include "profiles/job/stats.h"
#include "profiles/job/stats_private.h"

/* A sampled group member that waits for its group's times; the group's record follows soon. */
struct pending {
        struct capo_meet *meet;
        int64_t handle;
        uint32_t seq, group;
};
enum { N_PENDING = 64 };

/* How the calls of one shape are met: those above the limit are not wanted. */
struct wanted {
        uint32_t limit; /* 0: none (the hash of no seq but 0 is 0) */
        bool grouped;   /* a group's own record: may complete pending members */
};

/* While one log is read. */
struct reading {
        struct capo_job *job;
        struct capo_log *log;
        uint32_t process;
        uint32_t *comms; /* id in this process -> 1 + index in job->comms */
        int32_t *ranks;  /* id in this process -> rank */
        struct capo_log_shape *shapes;
        struct wanted *wanted;
        struct job_places cells, sites;
        struct pending pending[N_PENDING];
        uint32_t n_pending;
        bool blocks; /* calls have been seen */
        bool missed; /* calls of a communicator came before it was described, and were not sampled */
        bool again;  /* the log is read once more for those */
};

/* ---- communicators ---- */

/* Communicators without a uid are nobody else's: name them by process and id. */
static uint64_t uid_of(const struct reading *rd, const struct capo_log_comm *c)
{
        return c->uid ? c->uid : ~(((uint64_t)rd->process << 16) | c->id);
}

static struct capo_job_comm *comm_of(struct capo_job *job, uint64_t uid)
{
        struct job_scratch *s = job->scratch;

        for (uint32_t i = 0; i < job->n_comms; i++) {
                if (job->comms[i].uid == uid)
                        return &job->comms[i];
        }
        if (capo_array_room(&s->meets, job->n_comms, sizeof *s->meets) < 0 ||
            capo_array_room(&job->comms, job->n_comms, sizeof *job->comms) < 0)
                return NULL;
        s->meets[job->n_comms] = NULL;
        job->comms[job->n_comms] =
                (struct capo_job_comm){.uid = uid, .n_ranks = -1, .parent = CAPO_NO_COMM, .color = -1};
        return &job->comms[job->n_comms++];
}

static struct capo_meet *meet_of(const struct reading *rd, uint16_t comm)
{
        uint32_t index = rd->comms[comm];
        struct capo_meet **meet;

        if (!index || rd->job->comms[index - 1].n_ranks < 2 || rd->ranks[comm] < 0)
                return NULL;
        meet = &rd->job->scratch->meets[index - 1];
        if (!*meet && rd->job->comms[index - 1].n_ranks <= 1 << 16)
                *meet = capo_meet_new((uint32_t)rd->job->comms[index - 1].n_ranks);
        return *meet;
}

static bool is_collective(unsigned call)
{
        enum capo_call_kind kind = capo_call_kind(call);

        return kind >= CAPO_KIND_ALLREDUCE && kind <= CAPO_KIND_SCATTER;
}

/* What is wanted of calls that look like this. Communicators' limits fall as calls are added, so ask again then. */
static struct wanted want(const struct reading *rd, unsigned call, unsigned flags, uint16_t comm)
{
        struct capo_meet *meet;

        if (flags & CAPO_RECORD_GROUP)
                return (struct wanted){.limit = UINT32_MAX, .grouped = true};
        if (!is_collective(call) || flags & CAPO_RECORD_CAPTURED || !(meet = meet_of(rd, comm)))
                return (struct wanted){0};
        return (struct wanted){.limit = capo_meet_limit(meet)};
}

static void want_again(struct reading *rd, uint16_t comm)
{
        for (uint32_t i = 0; i < 65536; i++) {
                if (rd->shapes[i].call && rd->shapes[i].comm == comm)
                        rd->wanted[i] = want(rd, rd->shapes[i].call, rd->shapes[i].flags, comm);
        }
}

/* Have calls on it been described? */
static bool has_shapes(const struct reading *rd, uint16_t comm)
{
        for (uint32_t i = 0; i < 65536; i++) {
                if (rd->shapes[i].call && rd->shapes[i].comm == comm)
                        return true;
        }
        return false;
}

static int add_comm(struct reading *rd, const struct capo_log_frame *f)
{
        struct capo_job_process *p = &rd->job->processes[rd->process];
        struct capo_job_member *m = NULL;
        struct capo_job_comm *comm;
        struct capo_log_comm c;
        const char *name;

        if (capo_log_comm(f, &c, &name) < 0)
                return 0;
        comm = comm_of(rd->job, uid_of(rd, &c));
        if (!comm)
                return -ENOMEM;
        if (c.name_size && !comm->named) {
                free(comm->name);
                comm->name = job_text_copy(name, c.name_size);
                if (!comm->name)
                        return -ENOMEM;
                comm->named = true;
        }
        if (c.n_ranks > comm->n_ranks)
                comm->n_ranks = c.n_ranks;
        if (c.comm_hash)
                comm->comm_hash = c.comm_hash;
        if (c.parent && rd->comms[c.parent])
                comm->parent = rd->comms[c.parent] - 1;
        if (c.color >= 0)
                comm->color = c.color;
        for (uint32_t i = comm->n_members; i-- > 0 && !m;) {
                if (comm->members[i].process == rd->process && comm->members[i].id == c.id)
                        m = &comm->members[i];
        }
        if (!m) {
                if (capo_array_room(&comm->members, comm->n_members, sizeof *m) < 0)
                        return -ENOMEM;
                m = &comm->members[comm->n_members++];
        }
        *m = (struct capo_job_member){.rank = c.rank,
                                      .process = rd->process,
                                      .id = c.id,
                                      .device = c.device,
                                      .flags = c.flags,
                                      .t_birth_ns = p->header.t0_real_ns + c.t_birth,
                                      .t_death_ns = c.t_death ? p->header.t0_real_ns + c.t_death : 0};
        if (rd->comms[c.id] && rd->ranks[c.id] == c.rank)
                return 0;
        rd->missed |= rd->blocks && has_shapes(rd, c.id);
        rd->comms[c.id] = (uint32_t)(comm - rd->job->comms) + 1;
        rd->ranks[c.id] = c.rank;
        want_again(rd, c.id);
        return 0;
}

/* ---- single calls ---- */

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
        limit = capo_meet_limit(meet);
        handle = capo_meet_add(meet, (uint32_t)rd->ranks[r->comm], r);
        if (capo_meet_limit(meet) != limit)
                want_again(rd, r->comm);
        if (handle >= 0 && r->flags & CAPO_RECORD_MEMBER) {
                if (rd->n_pending == N_PENDING) /* their groups never came: forget the oldest */
                        memmove(rd->pending, rd->pending + 1, --rd->n_pending * sizeof *rd->pending);
                rd->pending[rd->n_pending++] =
                        (struct pending){.meet = meet, .handle = handle, .seq = r->seq, .group = r->group};
        }
}

static void seen_until(struct reading *rd, uint64_t t)
{
        if (t > rd->job->processes[rd->process].last_ns)
                rd->job->processes[rd->process].last_ns = t;
}

static void add_block(struct reading *rd, const struct capo_log_frame *f)
{
        struct capo_log_columns c;
        struct capo_record r;

        if (capo_log_block(f, &c) < 0 || !c.n)
                return;
        rd->blocks = true;
        rd->job->processes[rd->process].n_records += rd->again ? 0 : c.n;
        for (uint32_t i = 0; i < c.n; i++) {
                const struct wanted *w = &rd->wanted[c.shape[i]];

                if (likely(capo_meet_hash(c.seq[i]) > w->limit) || (w->grouped && !rd->n_pending) || !w->limit)
                        continue;
                capo_log_record(&c, i, &rd->shapes[c.shape[i]], &r);
                meet_call(rd, &r);
        }
        seen_until(rd, c.base + c.t_begin[c.n - 1] + c.host_ns[c.n - 1]);
}

static void add_wide(struct reading *rd, const struct capo_log_frame *f)
{
        struct capo_record r;

        rd->blocks = true;
        for (unsigned i = 0; capo_log_wide(f, i, &r); i++) {
                struct wanted w = want(rd, r.call, r.flags, r.comm);

                rd->job->processes[rd->process].n_records += !rd->again;
                if (w.limit && capo_meet_hash(r.seq) <= w.limit && r.t_begin <= r.t_end)
                        meet_call(rd, &r);
                seen_until(rd, r.t_end);
        }
}

static void add_shapes(struct reading *rd, const struct capo_log_frame *f)
{
        const struct capo_log_shape *s;
        unsigned n = capo_log_shapes(f, &s);

        for (; n--; s++) {
                rd->shapes[s->id] = *s;
                rd->wanted[s->id] = want(rd, s->call, s->flags, s->comm);
        }
}

/* ---- a whole log ---- */

static int add_frame(struct reading *rd, const struct capo_log_frame *f)
{
        struct capo_job_process *p = &rd->job->processes[rd->process];
        struct capo_log_site site;
        struct capo_log_cell cell;
        struct capo_log_hist_view host, gpu;
        const char *text;

        switch (f->type) {
        case CAPO_FRAME_INFO:
        case CAPO_FRAME_FABRIC:
        case CAPO_FRAME_RULES: return job_add_text_frame(p, f);
        case CAPO_FRAME_COMM: return add_comm(rd, f);
        case CAPO_FRAME_SHAPE: add_shapes(rd, f); return 0;
        case CAPO_FRAME_BLOCK: add_block(rd, f); return 0;
        case CAPO_FRAME_WIDE: add_wide(rd, f); return 0;
        case CAPO_FRAME_CELL:
                if (capo_log_cell(f, &cell, &host, &gpu) < 0)
                        return 0;
                return job_place(&rd->cells, cell.id, f->offset);
        case CAPO_FRAME_SITE:
                if (capo_log_site(f, &site, &text) < 0)
                        return 0;
                return job_place(&rd->sites, site.id, f->offset);
        case CAPO_FRAME_END:
                if (capo_log_end(f, &p->end) == 0) {
                        p->has_end = true;
                        seen_until(rd, p->end.t_ns);
                }
                return 0;
        default: return 0;
        }
}

static char *host_from_path(const char *path)
{
        const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

        return job_text_copy(name, strcspn(name, "."));
}

/* A killed process that kept every call: the log has calls that its last checkpoint had not counted. */
static bool cells_are_stale(struct capo_job_process *p)
{
        const char *trace = capo_job_info(p, CAPO_INFO_TRACE);

        if (p->end.clean || p->n_records <= p->end.calls || !trace || strcmp(trace, "all") != 0)
                return false;
        p->end.calls = p->n_records;
        return true;
}

/*
 * The recorder writes what it knows when it knows it: a log may describe a communicator, and then even the shapes of its
 * calls, behind the calls themselves. Those are looked at once more, now that all is known; calls that are in the sample
 * already are not taken twice.
 */
static int read_again(struct reading *rd)
{
        _cleanup_(capo_log_closep) struct capo_log *log = NULL;
        struct capo_log_frame f;
        char why[256];
        int r = capo_log_open(capo_log_path(rd->log), &log, why, sizeof why);

        rd->again = true;
        rd->n_pending = 0;
        while (r == 0 && capo_log_next(log, &f) > 0) {
                if (f.type == CAPO_FRAME_SHAPE)
                        add_shapes(rd, &f);
                else if (f.type == CAPO_FRAME_BLOCK)
                        add_block(rd, &f);
                else if (f.type == CAPO_FRAME_WIDE)
                        add_wide(rd, &f);
        }
        return r;
}

static int read_frames(struct reading *rd, void (*progress)(uint64_t bytes, void *arg), void *arg)
{
        struct capo_log_frame f;
        uint64_t told = 0;
        int r, read;

        while ((read = capo_log_next(rd->log, &f)) > 0) {
                r = add_frame(rd, &f);
                if (r < 0)
                        return r;
                if (progress && capo_log_position(rd->log) - told >= 16u << 20) {
                        told = capo_log_position(rd->log);
                        progress(told, arg);
                }
        }
        rd->job->processes[rd->process].read_error = read;
        r = rd->missed ? read_again(rd) : 0;
        if (r < 0)
                return r;
        r = cells_are_stale(&rd->job->processes[rd->process])
                    ? job_add_traced_cells(rd->job, capo_log_path(rd->log), rd->process, rd->comms)
                    : job_add_cells(rd->job, rd->log, &rd->cells, rd->process, rd->comms);
        return r < 0 ? r : job_add_sites(rd->job, rd->log, &rd->sites);
}

int capo_job_add_log(struct capo_job *job, const char *path, char *why, size_t why_size,
                     void (*progress)(uint64_t bytes, void *arg), void *arg)
{
        _cleanup_(capo_log_closep) struct capo_log *log = NULL;
        struct reading *rd;
        struct capo_job_process *p;
        const char *host;
        int r = capo_log_open(path, &log, why, why_size);

        if (r < 0)
                return r;
        rd = calloc(1, sizeof *rd);
        if (!rd || capo_array_room(&job->processes, job->n_processes, sizeof *job->processes) < 0) {
                free(rd);
                return -ENOMEM;
        }
        p = &job->processes[job->n_processes];
        *p = (struct capo_job_process){
                .rank = -1, .header = *capo_log_header(log), .path = job_text_copy(path, strlen(path))};
        *rd = (struct reading){.job = job,
                               .log = log,
                               .process = job->n_processes++,
                               .comms = calloc(65536, sizeof *rd->comms),
                               .ranks = calloc(65536, sizeof *rd->ranks),
                               .shapes = calloc(65536, sizeof *rd->shapes),
                               .wanted = calloc(65536, sizeof *rd->wanted)};
        r = p->path && rd->comms && rd->ranks && rd->shapes && rd->wanted ? read_frames(rd, progress, arg) : -ENOMEM;
        p = &job->processes[rd->process];
        p->health = *capo_log_health(log);
        host = capo_job_info(p, CAPO_INFO_HOST);
        p->host = host ? job_text_copy(host, strlen(host)) : host_from_path(path);
        if (!p->host)
                r = -ENOMEM;
        free(rd->comms);
        free(rd->ranks);
        free(rd->shapes);
        free(rd->wanted);
        free(rd->cells.at);
        free(rd->sites.at);
        free(rd);
        return r;
}
