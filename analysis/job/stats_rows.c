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

void job_index_enter(struct job_index *ix, uint64_t hash, uint32_t entry)
{
        struct job_index old = *ix;
        uint32_t i = (uint32_t)hash;

        if (2 * (ix->n + 1) > ix->n_slots) {
                ix->n = 0;
                ix->n_slots = old.n_slots ? 2 * old.n_slots : 256;
                ix->slots = xcalloc(ix->n_slots, sizeof *ix->slots);
                for (uint32_t k = 0; k < old.n_slots; k++) {
                        if (old.slots[k].number)
                                job_index_enter(ix, old.slots[k].hash, old.slots[k].number - 1);
                }
                free(old.slots);
        }
        while (ix->slots[i & (ix->n_slots - 1)].number)
                i++;
        ix->slots[i & (ix->n_slots - 1)] = (struct job_index_slot){hash, entry + 1};
        ix->n++;
}

uint32_t job_index_next(const struct job_index *ix, uint64_t hash, uint32_t *at)
{
        const struct job_index_slot *slot;

        if (!ix->n_slots)
                return JOB_INDEX_END;
        do
                slot = &ix->slots[((uint32_t)hash + (*at)++) & (ix->n_slots - 1)];
        while (slot->number && slot->hash != hash);
        return slot->number - 1; /* a free slot gives JOB_INDEX_END */
}

uint32_t job_comm_of(struct capo_job *job, uint64_t uid)
{
        struct job_index *ix = &job->scratch->comms;
        uint64_t hash = job_hash(&uid, sizeof uid);

        for (uint32_t at = 0, i; (i = job_index_next(ix, hash, &at)) != JOB_INDEX_END;) {
                if (job->comms[i].uid == uid)
                        return i;
        }
        job_index_enter(ix, hash, job->n_comms);
        xarray_room(&job->scratch->meets, job->n_comms, sizeof(struct capo_meet *));
        job->scratch->meets[job->n_comms] = NULL;
        *xadd(job->comms, job->n_comms) = (struct capo_job_comm){
                .uid = uid, .n_ranks = -1, .parent = CAPO_NO_COMM, .color = -1};
        return job->n_comms - 1;
}

void job_tally(struct capo_job_row *row)
{
        row->count = row->tally_ > row->count ? row->tally_ : row->count;
        row->tally_ = 0;
}

/* The row with this key, made if missing. */
static struct capo_job_row *row_of(struct capo_job *job, const struct capo_job_row *key)
{
        const uint64_t hashed[] = {key->comm, key->bytes,
                                   (uint64_t)key->rule << 32 | (uint32_t)key->call << 24 |
                                           key->algo_proto << 16 | key->channels << 8 | key->flags};
        uint64_t hash = job_hash(hashed, sizeof hashed);
        struct capo_job_row *row;

        for (uint32_t at = 0, i;
             (i = job_index_next(&job->scratch->rows, hash, &at)) != JOB_INDEX_END;) {
                row = &job->rows[i];
                if (row->comm == key->comm && row->bytes == key->bytes && row->call == key->call &&
                    row->algo_proto == key->algo_proto && row->channels == key->channels &&
                    row->rule == key->rule && row->flags == key->flags)
                        return row;
        }
        job_index_enter(&job->scratch->rows, hash, job->n_rows);
        row = xadd(job->rows, job->n_rows);
        *row = *key;
        row->calls = row->failed = 0;
        return row;
}

struct capo_job_row *job_add_to_row(struct capo_job *job, const struct capo_job_row *key,
                                    uint64_t tally_of)
{
        struct capo_job_row *row = row_of(job, key);

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
        uint64_t hash = job_hash(text, s->text_size);
        struct capo_job_site *site = NULL;

        for (uint32_t at = 0, i;
             !site && (i = job_index_next(&job->scratch->sites, hash, &at)) != JOB_INDEX_END;)
                site = strlen(job->sites[i].text) == s->text_size ? &job->sites[i] : NULL;
        if (!site) {
                job_index_enter(&job->scratch->sites, hash, job->n_sites);
                site = xput(job->sites, job->n_sites, .text = job_text_copy(text, s->text_size));
        }
        site->count += s->count;
        site->host_ns += s->host_ns;
        site->gpu_ns += s->gpu_ns;
        site->gpu_count += s->gpu_count;
        site->chosen.gpu_ns += chosen.gpu_ns;
        site->chosen.gpu_count += chosen.gpu_count;
}

void job_add_failure(struct capo_job *job, uint32_t process, uint32_t comm, uint8_t call,
                     int8_t result, uint64_t calls)
{
        const uint32_t key[3] = {process, comm, (uint32_t)call << 8 | (uint8_t)result};
        uint64_t hash = job_hash(key, sizeof key);

        if (!job_failed(result) || !calls)
                return;
        for (uint32_t at = 0, i;
             (i = job_index_next(&job->scratch->failures, hash, &at)) != JOB_INDEX_END;) {
                struct capo_job_failure *f = &job->failures[i];

                if (f->process == process && f->comm == comm && f->call == call &&
                    f->result == result) {
                        f->calls += calls;
                        return;
                }
        }
        job_index_enter(&job->scratch->failures, hash, job->n_failures);
        *xadd(job->failures, job->n_failures) =
                (struct capo_job_failure){calls, process, comm, call, result};
}

/* ---- a log's cells and sites ---- */

void job_place(struct job_places *places, uint16_t id, uint64_t offset)
{
        while (places->n <= id)
                *xadd(places->at, places->n) = 0;
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
        struct capo_job_row key = {.comm = comms[c->comm] - 1, /* of 0: CAPO_NO_COMM */
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

/* By communicator: a row's calls of one rank are consecutive (a process may have several). */
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
