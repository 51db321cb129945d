/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adding a log. Frames are read once, in order. Descriptions (communicators, shapes) are taken up at once; of CELLs and
 * SITEs, which replace their earlier selves, only the last place is remembered and read again at the end; calls in
 * BLOCKs are looked at just long enough to see whether they are in the sample of profiles/job/skew.h, and that loop is the one
 * that decides how fast a report is.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/calls.h"
#include "profiles/job/stats_private.h"
#include "core/base/util.h"

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
        uint64_t *cell_at, *site_at; /* id -> offset of its last frame */
        uint32_t n_cells, n_sites;
        struct pending pending[N_PENDING];
        uint32_t n_pending;
};

void *job_grow(void *array, uint32_t n, size_t size)
{
        if (n & (n - 1))
                return array;
        return realloc(array, (n ? 2 * (size_t)n : 1) * size);
}

uint64_t job_text_hash(const void *bytes, size_t size)
{
        return XXH3_64bits(bytes, size);
}

/* Text out of a log goes to terminals: nothing in it may steer them. */
static void put_text(char *to, const void *bytes, size_t size)
{
        const unsigned char *from = bytes;

        for (size_t i = 0; i < size; i++)
                to[i] = (char)((from[i] < ' ' && from[i] != '\n' && from[i] != '\t') || from[i] == 127 ? '?' : from[i]);
        to[size] = 0;
}

static char *text_copy(const void *bytes, size_t size)
{
        char *copy = malloc(size + 1);

        if (copy)
                put_text(copy, bytes, size);
        return copy;
}

struct capo_job *capo_job_new(void)
{
        struct capo_job *job = calloc(1, sizeof *job);

        if (job)
                job->scratch = calloc(1, sizeof *job->scratch);
        if (!job || !job->scratch) {
                capo_job_free(job);
                return NULL;
        }
        return job;
}

static void free_process(struct capo_job_process *p)
{
        for (uint32_t i = 0; i < p->n_info; i++) {
                free(p->info[i].key);
                free(p->info[i].value);
        }
        free(p->info);
        free(p->path);
        free(p->host);
        free(p->fabric);
        free(p->rules);
}

void capo_job_free(struct capo_job *job)
{
        if (!job)
                return;
        for (uint32_t i = 0; i < job->n_processes; i++)
                free_process(&job->processes[i]);
        for (uint32_t i = 0; i < job->n_nodes; i++) {
                free(job->nodes[i].key);
                free(job->nodes[i].name);
        }
        for (uint32_t i = 0; i < job->n_comms; i++) {
                free(job->comms[i].name);
                free(job->comms[i].layout);
                free(job->comms[i].members);
                capo_skew_free(job->comms[i].skew);
                if (job->scratch && job->scratch->meets)
                        capo_meet_free(job->scratch->meets[i]);
        }
        for (uint32_t i = 0; i < job->n_rows; i++) {
                for (unsigned c = 0; c < CAPO_CLOCKS; c++)
                        capo_hist_finish(&job->rows[i].time[c]);
        }
        for (uint32_t i = 0; i < job->n_sites; i++)
                free(job->sites[i].text);
        if (job->scratch) {
                free(job->scratch->rows.slots);
                free(job->scratch->sites.slots);
                free(job->scratch->meets);
        }
        free(job->scratch);
        free(job->processes);
        free(job->nodes);
        free(job->comms);
        free(job->rows);
        free(job->sites);
        free(job);
}

/* ---- INFO, FABRIC, RULES ---- */

const char *capo_job_info(const struct capo_job_process *process, const char *key)
{
        for (uint32_t i = 0; i < process->n_info; i++) {
                if (!strcmp(process->info[i].key, key))
                        return process->info[i].value;
        }
        return NULL;
}

static int append_text(char **text, const void *more, size_t size, bool newline)
{
        size_t old = *text ? strlen(*text) : 0;
        char *larger = realloc(*text, old + size + 2);

        if (!larger)
                return -ENOMEM;
        if (old && newline)
                larger[old++] = '\n';
        put_text(larger + old, more, size);
        *text = larger;
        return 0;
}

static int add_info(struct capo_job_process *p, const struct capo_info_line *line)
{
        void *larger;

        for (uint32_t i = 0; i < p->n_info; i++) {
                if (!capo_info_is(line, p->info[i].key))
                        continue;
                if (!line->more)
                        p->info[i].value[0] = 0;
                return append_text(&p->info[i].value, line->value, line->n_value, line->more);
        }
        larger = job_grow(p->info, p->n_info, sizeof *p->info);
        if (!larger)
                return -ENOMEM;
        p->info = larger;
        p->info[p->n_info] =
                (struct capo_job_info){text_copy(line->key, line->n_key), text_copy(line->value, line->n_value)};
        if (!p->info[p->n_info].key || !p->info[p->n_info].value) {
                free(p->info[p->n_info].key);
                free(p->info[p->n_info].value);
                return -ENOMEM;
        }
        p->n_info++;
        return 0;
}

static int add_text_frame(struct capo_job_process *p, const struct capo_log_frame *f)
{
        struct capo_info_line info;
        const char *line;
        size_t at = 0, n;
        int r = 0;

        if (f->type == CAPO_FRAME_FABRIC) {
                /* Each piece begins with the number of its snapshot. The last two are kept: a kill may cut the last. */
                char *now = p->fabric ? p->fabric + p->fabric_last_ : NULL;

                line = capo_log_next_line(f, &at, &n);
                if (line && now && (strncmp(now, line, n) != 0 || now[n] != '\n')) {
                        memmove(p->fabric, now, strlen(now) + 1);
                        p->fabric_last_ = strlen(p->fabric);
                }
                return append_text(&p->fabric, f->payload, f->size, false);
        }
        if (f->type == CAPO_FRAME_RULES) {
                free(p->rules);
                p->rules = NULL;
                return append_text(&p->rules, f->payload, f->size, false);
        }
        while (r == 0 && capo_info_next(f, &at, &info))
                r = add_info(p, &info);
        return r;
}

/* ---- communicators ---- */

/* Communicators without a uid are nobody else's: name them by process and id. */
static uint64_t uid_of(const struct reading *rd, const struct capo_log_comm *c)
{
        return c->uid ? c->uid : ~(((uint64_t)rd->process << 16) | c->id);
}

static struct capo_job_comm *comm_of(struct capo_job *job, uint64_t uid)
{
        struct job_scratch *s = job->scratch;
        void *larger;

        for (uint32_t i = 0; i < job->n_comms; i++) {
                if (job->comms[i].uid == uid)
                        return &job->comms[i];
        }
        larger = job_grow(s->meets, job->n_comms, sizeof *s->meets);
        if (!larger)
                return NULL;
        s->meets = larger;
        larger = job_grow(job->comms, job->n_comms, sizeof *job->comms);
        if (!larger)
                return NULL;
        job->comms = larger;
        s->meets[job->n_comms] = NULL;
        job->comms[job->n_comms] =
                (struct capo_job_comm){.uid = uid, .n_ranks = -1, .parent = CAPO_NO_COMM, .color = -1};
        return &job->comms[job->n_comms++];
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
                comm->name = text_copy(name, c.name_size);
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
                void *larger = job_grow(comm->members, comm->n_members, sizeof *m);

                if (!larger)
                        return -ENOMEM;
                comm->members = larger;
                m = &comm->members[comm->n_members++];
        }
        *m = (struct capo_job_member){.rank = c.rank,
                                      .process = rd->process,
                                      .id = c.id,
                                      .device = c.device,
                                      .flags = c.flags,
                                      .t_birth_ns = p->header.t0_real_ns + c.t_birth,
                                      .t_death_ns = c.t_death ? p->header.t0_real_ns + c.t_death : 0};
        rd->comms[c.id] = (uint32_t)(comm - rd->job->comms) + 1;
        rd->ranks[c.id] = c.rank;
        return 0;
}

/* ---- single calls ---- */

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
                if (rd->shapes[i].comm == comm && rd->wanted[i].limit)
                        rd->wanted[i] = want(rd, rd->shapes[i].call, rd->shapes[i].flags, comm);
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
        rd->job->processes[rd->process].n_records += c.n;
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
        const struct capo_record *r;
        unsigned n = capo_log_wide(f, &r);

        rd->job->processes[rd->process].n_records += n;
        for (; n--; r++) {
                struct wanted w = want(rd, r->call, r->flags, r->comm);

                if (w.limit && capo_meet_hash(r->seq) <= w.limit && r->t_begin <= r->t_end)
                        meet_call(rd, r);
                seen_until(rd, r->t_end);
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

/* ---- cells and sites, at the end of a log ---- */

static int remember(uint64_t **at, uint32_t *n, uint16_t id, uint64_t offset)
{
        if (id >= *n) {
                uint32_t more = (id + 1u + 255u) & ~255u;
                uint64_t *larger = realloc(*at, more * sizeof **at);

                if (!larger)
                        return -ENOMEM;
                memset(larger + *n, 0, (more - *n) * sizeof *larger);
                *at = larger;
                *n = more;
        }
        (*at)[id] = offset;
        return 0;
}

/* Room for one more entry. The caller re-enters everything when it is told to. Return: 1 grown, 0 not, -ENOMEM. */
static int index_grow(struct job_index *ix, uint32_t n)
{
        uint32_t more;

        if (2 * (n + 1) <= ix->n_slots)
                return 0;
        more = ix->n_slots ? 2 * ix->n_slots : 256;
        free(ix->slots);
        ix->slots = calloc(more, sizeof *ix->slots);
        ix->n_slots = ix->slots ? more : 0;
        return ix->slots ? 1 : -ENOMEM;
}

static void index_enter(struct job_index *ix, uint64_t hash, uint32_t entry)
{
        uint32_t i = (uint32_t)hash & (ix->n_slots - 1);

        while (ix->slots[i])
                i = (i + 1) & (ix->n_slots - 1);
        ix->slots[i] = entry + 1;
}

/* The row of this key, made if need be. NULL: no memory. */
static struct capo_job_row *row_of(struct capo_job *job, const struct capo_job_row *key)
{
        struct job_index *ix = &job->scratch->rows;
        void *larger;
        int r = index_grow(ix, job->n_rows);

        if (r < 0)
                return NULL;
        for (uint32_t i = 0; r && i < job->n_rows; i++)
                index_enter(ix, job->rows[i].hash_, i);
        for (uint32_t i = (uint32_t)key->hash_ & (ix->n_slots - 1); ix->slots[i]; i = (i + 1) & (ix->n_slots - 1)) {
                struct capo_job_row *row = &job->rows[ix->slots[i] - 1];

                if (row->hash_ == key->hash_ && row->comm == key->comm && row->bytes == key->bytes &&
                    row->call == key->call && row->algo_proto == key->algo_proto && row->channels == key->channels &&
                    row->rule == key->rule && row->flags == key->flags)
                        return row;
        }
        larger = job_grow(job->rows, job->n_rows, sizeof *job->rows);
        if (!larger)
                return NULL;
        job->rows = larger;
        job->rows[job->n_rows] = *key;
        index_enter(ix, key->hash_, job->n_rows);
        return &job->rows[job->n_rows++];
}

void job_tally(struct capo_job_row *row)
{
        row->count = row->tally_ > row->count ? row->tally_ : row->count;
        row->tally_ = 0;
}

struct capo_job_row *job_add_to_row(struct capo_job *job, struct capo_job_row *key, uint64_t tally_of)
{
        struct {
                uint64_t comm, bytes, rest;
        } hashed = {key->comm, key->bytes,
                    (uint64_t)key->rule << 32 | (uint32_t)key->call << 24 | key->algo_proto << 16 | key->channels << 8 |
                            key->flags};
        struct capo_job_row empty = *key, *row;

        empty.hash_ = job_text_hash(&hashed, sizeof hashed);
        empty.calls = empty.failed = 0;
        row = row_of(job, &empty);
        if (!row)
                return NULL;
        if (row->tally_of_ != tally_of)
                job_tally(row);
        row->tally_of_ = tally_of;
        row->tally_ += key->calls;
        row->calls += key->calls;
        row->failed += key->failed;
        return row;
}

static int add_cell(struct reading *rd, const struct capo_log_cell *c, const struct capo_log_hist_view *host,
                    const struct capo_log_hist_view *gpu)
{
        struct capo_job_row key = {.comm = rd->comms[c->comm] ? rd->comms[c->comm] - 1 : CAPO_NO_COMM,
                                   .bytes = c->bytes,
                                   .calls = c->count,
                                   .failed = job_failed(c->result) ? c->count : 0,
                                   .rule = c->rule,
                                   .call = c->call,
                                   .algo_proto = c->algo_proto,
                                   .channels = c->channels,
                                   .flags = c->flags & JOB_ROW_FLAGS};
        struct capo_job_row *row = job_add_to_row(rd->job, &key, (uint64_t)rd->process << 16 | c->comm);

        if (!row || capo_hist_add_view(&row->time[CAPO_CLOCK_HOST], host) < 0)
                return -ENOMEM;
        if (c->clock == CAPO_CLOCK_EVENT || c->clock == CAPO_CLOCK_KERNEL)
                return capo_hist_add_view(&row->time[c->clock], gpu);
        return 0;
}

struct cell_place {
        uint16_t comm, id;
};

static int by_comm_then_id(const void *a, const void *b)
{
        const struct cell_place *x = a, *y = b;

        return x->comm != y->comm ? x->comm - y->comm : x->id - y->id;
}

/* By communicator, so that a row's calls of one rank come together (a process may hold several ranks of one). */
static int add_cells(struct reading *rd)
{
        _cleanup_free_ struct cell_place *places = malloc((rd->n_cells + 1) * sizeof *places);
        struct capo_log_hist_view host, gpu;
        struct capo_log_frame f;
        struct capo_log_cell c;
        uint32_t n = 0;
        int r = 0;

        if (!places)
                return -ENOMEM;
        for (uint32_t id = 0; id < rd->n_cells; id++) {
                if (!rd->cell_at[id] || capo_log_frame_at(rd->log, rd->cell_at[id], &f) < 0 ||
                    capo_log_cell(&f, &c, &host, &gpu) < 0)
                        continue;
                places[n++] = (struct cell_place){.comm = c.comm, .id = (uint16_t)id};
        }
        qsort(places, n, sizeof *places, by_comm_then_id);
        for (uint32_t i = 0; r == 0 && i < n; i++) {
                if (capo_log_frame_at(rd->log, rd->cell_at[places[i].id], &f) == 0 &&
                    capo_log_cell(&f, &c, &host, &gpu) == 0)
                        r = add_cell(rd, &c, &host, &gpu);
        }
        return r;
}

static int add_site(struct capo_job *job, const struct capo_log_site *s, const char *text)
{
        struct job_index *ix = &job->scratch->sites;
        uint64_t hash = job_text_hash(text, s->text_size);
        struct capo_job_site *site = NULL;
        void *larger;
        int r = index_grow(ix, job->n_sites);

        if (r < 0)
                return r;
        for (uint32_t i = 0; r && i < job->n_sites; i++)
                index_enter(ix, job->sites[i].hash_, i);
        for (uint32_t i = (uint32_t)hash & (ix->n_slots - 1); ix->slots[i] && !site; i = (i + 1) & (ix->n_slots - 1)) {
                struct capo_job_site *at = &job->sites[ix->slots[i] - 1];

                if (at->hash_ == hash && strlen(at->text) == s->text_size)
                        site = at;
        }
        if (!site) {
                larger = job_grow(job->sites, job->n_sites, sizeof *job->sites);
                if (!larger)
                        return -ENOMEM;
                job->sites = larger;
                site = &job->sites[job->n_sites];
                *site = (struct capo_job_site){.text = text_copy(text, s->text_size), .hash_ = hash};
                if (!site->text)
                        return -ENOMEM;
                index_enter(ix, hash, job->n_sites++);
        }
        site->count += s->count;
        site->host_ns += s->host_ns;
        site->gpu_ns += s->gpu_ns;
        site->gpu_count += s->gpu_count;
        return 0;
}

static int add_sites(struct reading *rd)
{
        struct capo_log_frame f;
        struct capo_log_site s;
        const char *text;
        int r = 0;

        for (uint32_t id = 0; r == 0 && id < rd->n_sites; id++) {
                if (rd->site_at[id] && capo_log_frame_at(rd->log, rd->site_at[id], &f) == 0 &&
                    capo_log_site(&f, &s, &text) == 0)
                        r = add_site(rd->job, &s, text);
        }
        return r;
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
        case CAPO_FRAME_RULES: return add_text_frame(p, f);
        case CAPO_FRAME_COMM: return add_comm(rd, f);
        case CAPO_FRAME_SHAPE: add_shapes(rd, f); return 0;
        case CAPO_FRAME_BLOCK: add_block(rd, f); return 0;
        case CAPO_FRAME_WIDE: add_wide(rd, f); return 0;
        case CAPO_FRAME_CELL:
                if (capo_log_cell(f, &cell, &host, &gpu) < 0)
                        return 0;
                return remember(&rd->cell_at, &rd->n_cells, cell.id, f->offset);
        case CAPO_FRAME_SITE:
                if (capo_log_site(f, &site, &text) < 0)
                        return 0;
                return remember(&rd->site_at, &rd->n_sites, site.id, f->offset);
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

        return text_copy(name, strcspn(name, "."));
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
        r = cells_are_stale(&rd->job->processes[rd->process])
                    ? job_add_traced_cells(rd->job, capo_log_path(rd->log), rd->process, rd->comms)
                    : add_cells(rd);
        return r < 0 ? r : add_sites(rd);
}

int capo_job_add_log(struct capo_job *job, const char *path, char *why, size_t why_size,
                     void (*progress)(uint64_t bytes, void *arg), void *arg)
{
        _cleanup_(capo_log_closep) struct capo_log *log = NULL;
        struct reading *rd;
        struct capo_job_process *p;
        const char *host;
        void *larger;
        int r = capo_log_open(path, &log, why, why_size);

        if (r < 0)
                return r;
        larger = job_grow(job->processes, job->n_processes, sizeof *job->processes);
        rd = calloc(1, sizeof *rd);
        if (larger)
                job->processes = larger;
        if (!larger || !rd) {
                free(rd);
                return -ENOMEM;
        }
        p = &job->processes[job->n_processes];
        *p = (struct capo_job_process){
                .rank = -1, .header = *capo_log_header(log), .path = text_copy(path, strlen(path))};
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
        p->host = host ? text_copy(host, strlen(host)) : host_from_path(path);
        if (!p->host)
                r = -ENOMEM;
        free(rd->comms);
        free(rd->ranks);
        free(rd->shapes);
        free(rd->wanted);
        free(rd->cell_at);
        free(rd->site_at);
        free(rd);
        return r;
}
