/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the last CELL and SITE frames of a log: the counts of its process at its end. */
#include <errno.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/util.h"
#include "analysis/job/stats_private.h"

int job_place(struct job_places *places, uint16_t id, uint64_t offset)
{
        for (; places->n <= id; places->n++) {
                if (capo_array_room(&places->at, places->n, sizeof *places->at) < 0)
                        return -ENOMEM;
                places->at[places->n] = 0;
        }
        places->at[id] = offset;
        return 0;
}

static int add_cell(struct capo_job *job, const struct capo_log_cell *c,
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

        if (job_add_failure(job, process, key.comm, c->call, c->result, c->count) < 0)
                return -ENOMEM;
        if (!row || capo_hist_add_view(&row->time[CAPO_CLOCK_HOST], host) < 0)
                return -ENOMEM;
        if (c->flags & CAPO_RECORD_CHOSEN && c->clock == CAPO_CLOCK_EVENT &&
            capo_hist_add_view(&row->time[CAPO_TIMES_CHOSEN], gpu) < 0)
                return -ENOMEM;
        if (capo_hist_add_view(&row->time[CAPO_TIMES_WAITED], waited) < 0)
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

/* Sorted by communicator, so that a row's calls of one rank are consecutive (a process may hold
 * several ranks of one). */
int job_add_cells(struct capo_job *job, struct capo_log *log, const struct job_places *at,
                  uint32_t process, const uint32_t *comms)
{
        _cleanup_free_ struct cell_place *places = malloc((at->n + 1) * sizeof *places);
        struct capo_log_hist_view host, gpu, waited;
        struct capo_log_frame f;
        struct capo_log_cell c;
        uint32_t n = 0;
        int r = 0;

        if (!places)
                return -ENOMEM;
        for (uint32_t id = 0; id < at->n; id++) {
                if (!at->at[id] || capo_log_frame_at(log, at->at[id], &f) < 0 ||
                    capo_log_cell(&f, &c, &host, &gpu) < 0)
                        continue;
                places[n++] = (struct cell_place){.comm = c.comm, .id = (uint16_t)id};
        }
        qsort(places, n, sizeof *places, by_comm_then_id);
        for (uint32_t i = 0; r == 0 && i < n; i++) {
                if (capo_log_frame_at(log, at->at[places[i].id], &f) == 0 &&
                    capo_log_cell(&f, &c, &host, &gpu) == 0 &&
                    capo_log_cell_waited(&f, &waited) == 0)
                        r = add_cell(job, &c, &host, &gpu, &waited, process, comms);
        }
        return r;
}

int job_add_sites(struct capo_job *job, struct capo_log *log, const struct job_places *at)
{
        struct capo_log_frame f;
        struct capo_log_site s;
        const char *text;
        int r = 0;

        for (uint32_t id = 0; r == 0 && id < at->n; id++) {
                if (at->at[id] && capo_log_frame_at(log, at->at[id], &f) == 0 &&
                    capo_log_site(&f, &s, &text) == 0)
                        r = job_add_site(job, &s, capo_log_site_chosen(&f), text);
        }
        return r;
}
