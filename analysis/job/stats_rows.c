/* SPDX-License-Identifier: Apache-2.0 */
/* The rows, call sites and communicators of a job, found by their keys, and filled from the last
 * CELL and SITE frames of each log: the counts of its process at its end. */

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "capo/call_ids.h"
#include "core/base/calls.h"
#include "core/base/order.h"
#include "core/base/xalloc.h"
#include "analysis/job/stats_private.h"

uint64_t job_hash(const void *bytes, size_t size) { return XXH3_64bits(bytes, size); }

bool job_index_grow(struct job_index *ix, uint32_t n)
{
        if (2 * (n + 1) <= ix->n_slots)
                return false;
        ix->n_slots = ix->n_slots ? 2 * ix->n_slots : 256;
        free(ix->slots);
        ix->slots = xcalloc(ix->n_slots, sizeof *ix->slots);
        return true;
}

void job_index_enter(struct job_index *ix, uint64_t hash, uint32_t entry)
{
        uint32_t i = (uint32_t)hash & (ix->n_slots - 1);

        while (ix->slots[i])
                i = (i + 1) & (ix->n_slots - 1);
        ix->slots[i] = entry + 1;
}

uint32_t job_comm_of(struct capo_job *job, uint64_t uid)
{
        struct job_index *ix = &job->scratch->comms;
        uint64_t hash = job_hash(&uid, sizeof uid);
        bool grown = job_index_grow(ix, job->n_comms);

        for (uint32_t i = 0; grown && i < job->n_comms; i++)
                job_index_enter(ix, job_hash(&job->comms[i].uid, sizeof uid), i);
        for (uint32_t at = 0, i; (i = job_index_next(ix, hash, &at)) != JOB_INDEX_END;) {
                if (job->comms[i].uid == uid)
                        return i;
        }
        xarray_room(&job->scratch->meets, job->n_comms, sizeof(struct capo_meet *));
        xarray_room(&job->comms, job->n_comms, sizeof *job->comms);
        job->scratch->meets[job->n_comms] = NULL;
        job->comms[job->n_comms] = (struct capo_job_comm){
                .uid = uid, .n_ranks = -1, .parent = CAPO_NO_COMM, .color = -1};
        job_index_enter(ix, hash, job->n_comms);
        return job->n_comms++;
}

/* The row with this key, made if missing. */
static struct capo_job_row *row_of(struct capo_job *job, const struct capo_job_row *key)
{
        struct job_index *ix = &job->scratch->rows;
        bool grown = job_index_grow(ix, job->n_rows);

        for (uint32_t i = 0; grown && i < job->n_rows; i++)
                job_index_enter(ix, job->rows[i].hash_, i);
        for (uint32_t at = 0, i; (i = job_index_next(ix, key->hash_, &at)) != JOB_INDEX_END;) {
                struct capo_job_row *row = &job->rows[i];

                if (row->hash_ == key->hash_ && row->comm == key->comm &&
                    row->bytes == key->bytes && row->call == key->call &&
                    row->algo_proto == key->algo_proto && row->channels == key->channels &&
                    row->rule == key->rule && row->flags == key->flags)
                        return row;
        }
        xarray_room(&job->rows, job->n_rows, sizeof *job->rows);
        job->rows[job->n_rows] = *key;
        job_index_enter(ix, key->hash_, job->n_rows);
        return &job->rows[job->n_rows++];
}

void job_tally(struct capo_job_row *row)
{
        row->count = row->tally_ > row->count ? row->tally_ : row->count;
        row->tally_ = 0;
}

struct capo_job_row *job_add_to_row(struct capo_job *job, struct capo_job_row *key,
                                    uint64_t tally_of)
{
        struct {
                uint64_t comm, bytes, rest;
        } hashed = {key->comm, key->bytes,
                    (uint64_t)key->rule << 32 | (uint32_t)key->call << 24 | key->algo_proto << 16 |
                            key->channels << 8 | key->flags};
        struct capo_job_row empty = *key, *row;

        empty.hash_ = job_hash(&hashed, sizeof hashed);
        empty.calls = empty.failed = 0;
        row = row_of(job, &empty);
        if (row->tally_of_ != tally_of)
                job_tally(row);
        row->tally_of_ = tally_of;
        row->tally_ += key->calls;
        row->calls += key->calls;
        row->failed += key->failed;
        return row;
}

void job_add_site(struct capo_job *job, const struct capo_log_site *s,
                  struct capo_log_site_chosen chosen, const char *text)
{
        struct job_index *ix = &job->scratch->sites;
        uint64_t hash = job_hash(text, s->text_size);
        struct capo_job_site *site = NULL;
        bool grown = job_index_grow(ix, job->n_sites);

        for (uint32_t i = 0; grown && i < job->n_sites; i++)
                job_index_enter(ix, job->sites[i].hash_, i);
        for (uint32_t nth = 0, i; !site && (i = job_index_next(ix, hash, &nth)) != JOB_INDEX_END;) {
                struct capo_job_site *at = &job->sites[i];

                if (at->hash_ == hash && strlen(at->text) == s->text_size)
                        site = at;
        }
        if (!site) {
                xarray_room(&job->sites, job->n_sites, sizeof *job->sites);
                site = &job->sites[job->n_sites];
                *site = (struct capo_job_site){.text = job_text_copy(text, s->text_size),
                                               .hash_ = hash};
                job_index_enter(ix, hash, job->n_sites++);
        }
        site->count += s->count;
        site->host_ns += s->host_ns;
        site->gpu_ns += s->gpu_ns;
        site->gpu_count += s->gpu_count;
        site->chosen.gpu_ns += chosen.gpu_ns;
        site->chosen.gpu_count += chosen.gpu_count;
}

static uint64_t failure_hash(uint32_t process, uint32_t comm, uint8_t call, int8_t result)
{
        uint32_t key[3] = {process, comm, (uint32_t)call << 8 | (uint8_t)result};

        return job_hash(key, sizeof key);
}

void job_add_failure(struct capo_job *job, uint32_t process, uint32_t comm, uint8_t call,
                     int8_t result, uint64_t calls)
{
        struct job_index *ix = &job->scratch->failures;
        uint64_t hash = failure_hash(process, comm, call, result);
        bool grown;

        if (!job_failed(result) || !calls)
                return;
        grown = job_index_grow(ix, job->n_failures);
        for (uint32_t i = 0; grown && i < job->n_failures; i++) {
                const struct capo_job_failure *f = &job->failures[i];

                job_index_enter(ix, failure_hash(f->process, f->comm, f->call, f->result), i);
        }
        for (uint32_t at = 0, i; (i = job_index_next(ix, hash, &at)) != JOB_INDEX_END;) {
                struct capo_job_failure *f = &job->failures[i];

                if (f->process == process && f->comm == comm && f->call == call &&
                    f->result == result) {
                        f->calls += calls;
                        return;
                }
        }
        xarray_room(&job->failures, job->n_failures, sizeof *job->failures);
        job->failures[job->n_failures] =
                (struct capo_job_failure){calls, process, comm, call, result};
        job_index_enter(ix, hash, job->n_failures++);
}

/* ---- a log's cells and sites ---- */

void job_place(struct job_places *places, uint16_t id, uint64_t offset)
{
        for (; places->n <= id; places->n++) {
                xarray_room(&places->at, places->n, sizeof *places->at);
                places->at[places->n] = 0;
        }
        places->at[id] = offset;
}

/* What calls of NCCL EP say of the rank that made them. */
static void add_expert_cell(struct capo_job_comm *comm, const struct capo_log_cell *c,
                            uint32_t process)
{
        struct capo_job_member *m = NULL;

        for (uint32_t i = comm->n_members; i-- > 0 && !m;) { /* the process read last is last */
                if (comm->members[i].process == process && comm->members[i].id == c->comm)
                        m = &comm->members[i];
        }
        if (!m || job_failed(c->result))
                return;
        m->masked |= c->call == CAPO_CALL_EPGETASYNCERROR;
        if (c->call != CAPO_CALL_EPDISPATCH)
                return;
        m->given.least = !m->given.calls || c->bytes < m->given.least ? c->bytes : m->given.least;
        m->given.most = c->bytes > m->given.most ? c->bytes : m->given.most;
        m->given.calls += c->count;
        m->given.bytes += c->count * c->bytes;
}

static void add_cell(struct capo_job *job, const struct capo_log_cell *c,
                     const struct capo_log_hist_view *host, const struct capo_log_hist_view *gpu,
                     const struct capo_log_hist_view *waited, uint32_t process,
                     const uint32_t *comms)
{
        struct capo_job_row key = {.comm = comms[c->comm] ? comms[c->comm] - 1 : CAPO_NO_COMM,
                                   .bytes = c->bytes,
                                   .calls = c->count,
                                   .failed = job_failed(c->result) ? c->count : 0,
                                   .rule = c->rule,
                                   .call = c->call,
                                   .algo_proto = c->algo_proto,
                                   .channels = c->channels,
                                   .flags = c->flags & JOB_ROW_FLAGS};
        struct capo_job_row *row = job_add_to_row(job, &key, (uint64_t)process << 16 | c->comm);

        if (key.comm != CAPO_NO_COMM &&
            (c->call == CAPO_CALL_EPDISPATCH || c->call == CAPO_CALL_EPGETASYNCERROR))
                add_expert_cell(&job->comms[key.comm], c, process);
        job_add_failure(job, process, key.comm, c->call, c->result, c->count);
        capo_hist_add_view(&row->time[CAPO_CLOCK_HOST], host);
        if (c->flags & CAPO_RECORD_CHOSEN && c->clock == CAPO_CLOCK_EVENT)
                capo_hist_add_view(&row->time[CAPO_TIMES_CHOSEN], gpu);
        capo_hist_add_view(&row->time[CAPO_TIMES_WAITED], waited);
        if (c->clock == CAPO_CLOCK_EVENT || c->clock == CAPO_CLOCK_KERNEL)
                capo_hist_add_view(&row->time[c->clock], gpu);
        if (capo_call_kind(c->call) == CAPO_KIND_P2P && !(c->flags & CAPO_RECORD_MEMBER)) {
                job->processes[process].messages.calls += c->count;
                job->processes[process].messages.timed += gpu->head.count;
                job->processes[process].messages.ns += gpu->head.sum_ns;
        }
}

struct cell_place {
        uint16_t comm, id;
};

CAPO_ORDERED(by_comm_then_id, struct cell_place,
             a->comm != b->comm ? a->comm - b->comm : a->id - b->id);

/* Sorted by communicator, so that a row's calls of one rank are consecutive (a process may hold
 * several ranks of one). */
void job_add_cells(struct capo_job *job, struct capo_log *log, const struct job_places *at,
                   uint32_t process, const uint32_t *comms)
{
        _cleanup_free_ struct cell_place *places = xmalloc((at->n + 1) * sizeof *places);
        struct capo_log_hist_view host, gpu, waited;
        struct capo_log_frame f;
        struct capo_log_cell c;
        uint32_t n = 0;

        for (uint32_t id = 0; id < at->n; id++) {
                if (!at->at[id] || capo_log_frame_at(log, at->at[id], &f) < 0 ||
                    capo_log_cell(&f, &c, &host, &gpu) < 0)
                        continue;
                places[n++] = (struct cell_place){.comm = c.comm, .id = (uint16_t)id};
        }
        qsort(places, n, sizeof *places, by_comm_then_id);
        for (uint32_t i = 0; i < n; i++) {
                if (capo_log_frame_at(log, at->at[places[i].id], &f) == 0 &&
                    capo_log_cell(&f, &c, &host, &gpu) == 0 &&
                    capo_log_cell_waited(&f, &waited) == 0)
                        add_cell(job, &c, &host, &gpu, &waited, process, comms);
        }
}

void job_add_sites(struct capo_job *job, struct capo_log *log, const struct job_places *at)
{
        struct capo_log_frame f;
        struct capo_log_site s;
        const char *text;

        for (uint32_t id = 0; id < at->n; id++) {
                if (at->at[id] && capo_log_frame_at(log, at->at[id], &f) == 0 &&
                    capo_log_site(&f, &s, &text) == 0)
                        job_add_site(job, &s, capo_log_site_chosen(&f), text);
        }
}
