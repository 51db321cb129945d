/* SPDX-License-Identifier: Apache-2.0 */
/* Makes cells from single calls. */
#include "core/base/order.h"
#include "core/base/xalloc.h"
#include "analysis/job/log_calls.h"
#include "analysis/job/stats_private.h"

struct traced {
        struct capo_log_cell key; /* count, result and clock are not part of the key */
        uint64_t count, failed;
        struct capo_hist time[CAPO_TIMES];
};

struct tracing {
        struct traced *cells;
        uint32_t n_cells;
        struct job_index index; /* of the cells, by key */
};

/* The cell of @r, made if missing. */
static struct traced *cell_of(struct tracing *t, const struct capo_record *r)
{
        struct capo_log_cell key = {.bytes = r->bytes,
                                    .comm = r->comm,
                                    .rule = r->rule,
                                    .call = r->call,
                                    .algo_proto = r->algo_proto,
                                    .channels = r->channels,
                                    .flags = r->flags & JOB_ROW_FLAGS};
        uint64_t hash = job_hash(&key, sizeof key);

        for (uint32_t at = 0, i; (i = job_index_next(&t->index, hash, &at)) != JOB_INDEX_END;) {
                if (!memcmp(&t->cells[i].key, &key, sizeof key))
                        return &t->cells[i];
        }
        job_index_enter(&t->index, hash, t->n_cells);
        return xput(t->cells, t->n_cells, .key = key);
}

static int count_call(const struct capo_record *r, unsigned thread, void *tracing)
{
        struct traced *cell;
        uint64_t waited;

        (void)thread;
        if (!r->call) /* its shape was not described */
                return 0;
        cell = cell_of(tracing, r);
        cell->count++;
        cell->failed += job_failed(r->result);
        if (r->clock != CAPO_CLOCK_NONE)
                capo_hist_add(&cell->time[CAPO_CLOCK_HOST],
                              r->t_end > r->t_begin ? r->t_end - r->t_begin : 0, 1);
        if (r->clock == CAPO_CLOCK_EVENT && r->flags & CAPO_RECORD_CHOSEN)
                capo_hist_add(&cell->time[CAPO_TIMES_CHOSEN], r->gpu_ns, 1);
        if (capo_record_waited(r, &waited))
                capo_hist_add(&cell->time[CAPO_TIMES_WAITED], waited, 1);
        if (r->clock == CAPO_CLOCK_EVENT || r->clock == CAPO_CLOCK_KERNEL)
                capo_hist_add(&cell->time[r->clock], r->gpu_ns, 1);
        return 0;
}

CAPO_ORDERED(by_comm, struct traced, a->key.comm - b->key.comm);

static void hand_over(struct tracing *t, struct capo_job *job, uint32_t process,
                      const uint32_t *comms)
{
        CAPO_SORT(t->cells, t->n_cells, by_comm);
        for (uint32_t i = 0; i < t->n_cells; i++) {
                struct traced *cell = &t->cells[i];
                const struct capo_log_cell *c = &cell->key;
                struct capo_job_row key = {.comm = comms[c->comm] - 1, /* of 0: CAPO_NO_COMM */
                                           .bytes = c->bytes,
                                           .calls = cell->count,
                                           .failed = cell->failed,
                                           .rule = c->rule,
                                           .call = c->call,
                                           .algo_proto = c->algo_proto,
                                           .channels = c->channels,
                                           .flags = c->flags};
                struct capo_job_row *row =
                        job_add_to_row(job, &key, (uint64_t)process << 16 | c->comm);

                for (unsigned k = 0; k < CAPO_TIMES; k++) {
                        capo_hist_merge(&row->time[k], &cell->time[k]);
                        capo_hist_finish(&cell->time[k]);
                }
        }
}

void job_add_traced_cells(struct capo_job *job, struct capo_log *log, uint32_t process,
                          const uint32_t *comms)
{
        struct tracing t = {0};

        capo_log_rewind(log);
        capo_log_calls_each(log, count_call, &t);
        hand_over(&t, job, process, comms);
        xfree(t.index.slots, t.cells);
}
