/* SPDX-License-Identifier: Apache-2.0 */
#include "capo/frame_types.h"
#include "core/base/xalloc.h"
#include "analysis/job/log_calls.h"
#include "analysis/job/stats_private.h"

enum { SHARE = 256 };

/* By id, in blocks of SHARE: ids are consecutive, but a damaged one would cost a full table. */
struct capo_log_calls {
        struct capo_log_shape *shapes[65536 / SHARE];
};

struct capo_log_calls *capo_log_calls_new(void)
{
        return xcalloc(1, sizeof(struct capo_log_calls));
}

void capo_log_calls_free(struct capo_log_calls *c)
{
        for (unsigned i = 0; c && i < N_ELEMENTS(c->shapes); i++)
                free(c->shapes[i]);
        free(c);
}

int capo_log_calls_take(struct capo_log_calls *c, const struct capo_log_frame *f,
                        capo_log_call_fn each, void *arg)
{
        static const struct capo_log_shape unknown;
        const struct capo_log_shape *s;
        struct capo_log_columns columns;
        struct capo_record record;
        int r = 0;

        if (f->type == CAPO_FRAME_SHAPE) {
                for (unsigned n = capo_log_shapes(f, &s); n--; s++) {
                        struct capo_log_shape **share = &c->shapes[s->id / SHARE];

                        *share = *share ?: xcalloc(SHARE, sizeof **share);
                        (*share)[s->id % SHARE] = *s;
                }
        } else if (f->type == CAPO_FRAME_BLOCK && each && capo_log_block(f, &columns) == 0) {
                for (uint32_t i = 0; i < columns.n && r == 0; i++) {
                        uint16_t id = columns.shape[i];

                        s = c->shapes[id / SHARE];
                        capo_log_record(&columns, i, s ? &s[id % SHARE] : &unknown, &record);
                        r = each(&record, columns.thread, arg);
                }
        } else if (f->type == CAPO_FRAME_WIDE && each) {
                for (unsigned i = 0; r == 0 && capo_log_wide(f, i, &record); i++)
                        r = each(&record, record.thread, arg);
        }
        return r;
}

int capo_log_calls_each(struct capo_log *log, capo_log_call_fn each, void *arg)
{
        _cleanup_(capo_log_calls_freep) struct capo_log_calls *c = capo_log_calls_new();
        struct capo_log_frame f;
        int r = 0, more = 1;

        while (r == 0 && (more = capo_log_next(log, &f)) > 0)
                r = capo_log_calls_take(c, &f, each, arg);
        return r ? r : more < 0 ? more : 0;
}

int capo_log_cells_each(struct capo_log *log, capo_log_cell_fn each, void *arg)
{
        struct capo_log_hist_view host, gpu;
        struct job_places places = {0};
        struct capo_log_frame f;
        struct capo_log_cell cell;
        int r = 0, more;

        while ((more = capo_log_next(log, &f)) > 0 && r == 0) {
                if (f.type == CAPO_FRAME_CELL && capo_log_cell(&f, &cell, &host, &gpu) == 0)
                        job_place(&places, cell.id, f.offset);
        }
        for (uint32_t id = 0; id < places.n && r == 0; id++) {
                if (places.at[id] && capo_log_frame_at(log, places.at[id], &f) == 0 &&
                    capo_log_cell(&f, &cell, &host, &gpu) == 0)
                        r = each(&cell, &host, &gpu, arg);
        }
        free(places.at);
        return r ? r : more < 0 ? more : 0;
}
