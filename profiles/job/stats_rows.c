/* SPDX-License-Identifier: Apache-2.0 */
/* Rows and call sites of a job, found by what they are of. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/array.h"
#include "core/base/util.h"
#include "profiles/job/stats_private.h"

static uint64_t text_hash(const void *bytes, size_t size)
{
        return XXH3_64bits(bytes, size);
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
        if (capo_array_room(&job->rows, job->n_rows, sizeof *job->rows) < 0)
                return NULL;
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

        empty.hash_ = text_hash(&hashed, sizeof hashed);
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

int job_add_site(struct capo_job *job, const struct capo_log_site *s, struct capo_log_site_chosen chosen,
                 const char *text)
{
        struct job_index *ix = &job->scratch->sites;
        uint64_t hash = text_hash(text, s->text_size);
        struct capo_job_site *site = NULL;
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
                if (capo_array_room(&job->sites, job->n_sites, sizeof *job->sites) < 0)
                        return -ENOMEM;
                site = &job->sites[job->n_sites];
                *site = (struct capo_job_site){.text = job_text_copy(text, s->text_size), .hash_ = hash};
                if (!site->text)
                        return -ENOMEM;
                index_enter(ix, hash, job->n_sites++);
        }
        site->count += s->count;
        site->host_ns += s->host_ns;
        site->gpu_ns += s->gpu_ns;
        site->gpu_count += s->gpu_count;
        site->chosen.gpu_ns += chosen.gpu_ns;
        site->chosen.gpu_count += chosen.gpu_count;
        return 0;
}

int job_add_failure(struct capo_job *job, uint32_t process, uint32_t comm, uint8_t call, int8_t result, uint64_t calls)
{
        if (!job_failed(result) || !calls)
                return 0;
        for (uint32_t i = 0; i < job->n_failures; i++) {
                struct capo_job_failure *f = &job->failures[i];

                if (f->process == process && f->comm == comm && f->call == call && f->result == result) {
                        f->calls += calls;
                        return 0;
                }
        }
        if (capo_array_room(&job->failures, job->n_failures, sizeof *job->failures) < 0)
                return -ENOMEM;
        job->failures[job->n_failures++] = (struct capo_job_failure){calls, process, comm, call, result};
        return 0;
}
