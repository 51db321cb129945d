/* SPDX-License-Identifier: Apache-2.0 */
/* Makes cells from single calls. The calls of one shape belong to one cell, so the cell is looked
 * up when the shape is described. Several shapes (streams, peers, call sites) can share a cell. */
#include "capo/frame_types.h"
#include "core/base/xalloc.h"
#include "analysis/job/stats_private.h"

struct traced {
        struct capo_log_cell key; /* count, result and clock are not part of the key */
        uint64_t count, failed;
        struct capo_hist time[CAPO_TIMES];
};

struct tracing {
        struct capo_log_shape *shapes;
        uint32_t *cell_of; /* shape -> 1 + index of its cell; 0: not described */
        struct traced *cells;
        uint32_t n_cells;
        struct job_index index; /* of the cells, by key */
};

/* Find or add the cell. Return: 1 + its index. */
static uint32_t cell_of(struct tracing *t, uint16_t comm, uint16_t rule, uint64_t bytes,
                        uint8_t call, uint8_t algo_proto, uint8_t channels, uint8_t flags)
{
        struct capo_log_cell key = {.bytes = bytes,
                                    .comm = comm,
                                    .rule = rule,
                                    .call = call,
                                    .algo_proto = algo_proto,
                                    .channels = channels,
                                    .flags = flags & JOB_ROW_FLAGS};
        uint64_t hash = job_hash(&key, sizeof key);
        bool grown = job_index_grow(&t->index, t->n_cells);

        for (uint32_t i = 0; grown && i < t->n_cells; i++)
                job_index_enter(&t->index, job_hash(&t->cells[i].key, sizeof key), i);
        for (uint32_t at = 0, i; (i = job_index_next(&t->index, hash, &at)) != JOB_INDEX_END;) {
                if (!memcmp(&t->cells[i].key, &key, sizeof key))
                        return i + 1;
        }
        xarray_room(&t->cells, t->n_cells, sizeof *t->cells);
        job_index_enter(&t->index, hash, t->n_cells);
        t->cells[t->n_cells] = (struct traced){.key = key};
        return ++t->n_cells;
}

static void count_call(struct traced *cell, uint64_t host_ns, const struct capo_record *r)
{
        uint64_t waited;

        cell->count++;
        cell->failed += job_failed(r->result);
        if (r->clock != CAPO_CLOCK_NONE)
                capo_hist_add(&cell->time[CAPO_CLOCK_HOST], host_ns, 1);
        if (r->clock == CAPO_CLOCK_EVENT && r->flags & CAPO_RECORD_CHOSEN)
                capo_hist_add(&cell->time[CAPO_TIMES_CHOSEN], r->gpu_ns, 1);
        if (capo_record_waited(r, &waited))
                capo_hist_add(&cell->time[CAPO_TIMES_WAITED], waited, 1);
        if (r->clock == CAPO_CLOCK_EVENT || r->clock == CAPO_CLOCK_KERNEL) {
                capo_hist_add(&cell->time[r->clock], r->gpu_ns, 1);
                return;
        }
}

static void trace_shapes(struct tracing *t, const struct capo_log_frame *f)
{
        const struct capo_log_shape *s;
        unsigned n = capo_log_shapes(f, &s);

        for (; n--; s++) {
                t->shapes[s->id] = *s;
                t->cell_of[s->id] = cell_of(t, s->comm, s->rule, s->bytes, s->call, s->algo_proto,
                                            s->channels, s->flags);
        }
}

static void trace_block(struct tracing *t, const struct capo_log_frame *f)
{
        struct capo_log_columns c;

        if (capo_log_block(f, &c) < 0)
                return;
        for (uint32_t i = 0; i < c.n; i++) {
                const struct capo_log_shape *s = &t->shapes[c.shape[i]];

                if (t->cell_of[c.shape[i]])
                        count_call(&t->cells[t->cell_of[c.shape[i]] - 1], c.host_ns[i],
                                   &(struct capo_record){.gpu_ns = c.gpu_ns ? c.gpu_ns[i] : 0,
                                                         .group = c.aux ? c.aux[i] : 0,
                                                         .clock = s->clock,
                                                         .flags = s->flags,
                                                         .result = s->result});
        }
}

static void trace_wide(struct tracing *t, const struct capo_log_frame *f)
{
        struct capo_record w;

        for (unsigned i = 0; capo_log_wide(f, i, &w); i++) {
                uint32_t cell = cell_of(t, w.comm, w.rule, w.bytes, w.call, w.algo_proto,
                                        w.channels, w.flags);

                count_call(&t->cells[cell - 1], w.t_end > w.t_begin ? w.t_end - w.t_begin : 0, &w);
        }
}

static int by_comm(const void *a, const void *b)
{
        return ((const struct traced *)a)->key.comm - ((const struct traced *)b)->key.comm;
}

static void hand_over(struct tracing *t, struct capo_job *job, uint32_t process,
                      const uint32_t *comms)
{
        if (t->n_cells)
                qsort(t->cells, t->n_cells, sizeof *t->cells, by_comm);
        for (uint32_t i = 0; i < t->n_cells; i++) {
                const struct capo_log_cell *c = &t->cells[i].key;
                struct capo_job_row key = {.comm = comms[c->comm] ? comms[c->comm] - 1
                                                                  : CAPO_NO_COMM,
                                           .bytes = c->bytes,
                                           .calls = t->cells[i].count,
                                           .failed = t->cells[i].failed,
                                           .rule = c->rule,
                                           .call = c->call,
                                           .algo_proto = c->algo_proto,
                                           .channels = c->channels,
                                           .flags = c->flags};
                struct capo_job_row *row;

                if (!key.calls)
                        continue;
                row = job_add_to_row(job, &key, (uint64_t)process << 16 | c->comm);
                for (unsigned k = 0; k < CAPO_TIMES; k++) {
                        capo_hist_merge(&row->time[k], &t->cells[i].time[k]);
                }
        }
}

void job_add_traced_cells(struct capo_job *job, struct capo_log *log, uint32_t process,
                          const uint32_t *comms)
{
        struct tracing t = {.shapes = xcalloc(65536, sizeof *t.shapes),
                            .cell_of = xcalloc(65536, sizeof *t.cell_of)};
        struct capo_log_frame f;

        capo_log_rewind(log);
        while (capo_log_next(log, &f) > 0) {
                if (f.type == CAPO_FRAME_SHAPE)
                        trace_shapes(&t, &f);
                else if (f.type == CAPO_FRAME_BLOCK)
                        trace_block(&t, &f);
                else if (f.type == CAPO_FRAME_WIDE)
                        trace_wide(&t, &f);
        }
        hand_over(&t, job, process, comms);
        for (uint32_t i = 0; i < t.n_cells; i++) {
                for (unsigned k = 0; k < CAPO_TIMES; k++)
                        capo_hist_finish(&t.cells[i].time[k]);
        }
        xfree(t.index.slots, t.cells, t.cell_of, t.shapes);
}
