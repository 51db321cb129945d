/* SPDX-License-Identifier: Apache-2.0 */
/* See the header. The segment may be a dead process's and damaged. A cell's histograms come with
 * its first timed call: most segments have few of either. */

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "capo/frame_types.h"
#include "core/base/calls.h"
#include "core/log/cells.h"

#define CELL_FLAGS \
        (CAPO_RECORD_MEMBER | CAPO_RECORD_GROUP | CAPO_RECORD_CAPTURED | CAPO_RECORD_CHOSEN)
#define CELLS_KEPT 64u /* of the cells, for calls that find the table full */

static struct capo_log_cell cell_key(const struct capo_record *r)
{
        struct capo_log_cell key = {
                .bytes = r->bytes,
                .comm = r->comm,
                .rule = r->rule,
                .call = r->call,
                .algo_proto = r->algo_proto,
                .channels = r->channels,
                .clock = r->clock == CAPO_CLOCK_HOST
                                 ? CAPO_CLOCK_EVENT
                                 : r->clock, /* sampled calls and their neighbours */
                .result = r->result,
                .flags = r->flags & CELL_FLAGS,
        };

        return key;
}

static bool same_cell(const struct capo_log_cell *a, const struct capo_log_cell *b)
{
        return !memcmp(a, b, sizeof *a);
}

/* Find the cell of @key, or its place in the index. */
static uint32_t *cell_place(struct capo_cells *c, const struct capo_log_cell *key)
{
        const struct capo_number_index *x = &c->index;
        uint32_t i = capo_index_first(x, XXH3_64bits(key, sizeof *key));

        for (; x->at[i]; i = capo_index_next(x, i)) {
                const struct capo_seg_cell *cell =
                        capo_area_at(c->seg, CAPO_AREA_CELLS, x->at[i] - 1);

                if (same_cell(&cell->key, key))
                        break;
        }
        return &x->at[i];
}

/* Where it has none, there are free places for some more all the same. */
static bool has_index_room(struct capo_cells *c, uint32_t n)
{
        int r = capo_index_grow(&c->index, n);

        if (r > 0)
                capo_cells_know(c);
        return r >= 0;
}

/* One more item of an area only the drain uses; its index, or -1. */
static int64_t area_add(struct capo_cells *c, enum capo_area_id id)
{
        struct capo_area *a = &c->seg->header->areas[id];
        uint32_t n = atomic_load_explicit(&a->used, memory_order_relaxed);
        int r = 0;

        if (n >= atomic_load_explicit(&a->committed, memory_order_relaxed)) {
                capo_lock(&c->seg->lock);
                r = capo_area_commit(c->seg, id, n + 1);
                capo_unlock(&c->seg->lock);
        }
        if (r < 0)
                return -1;
        memset(capo_area_at(c->seg, id, n), 0, a->item);
        return n;
}

static struct capo_seg_cell *cell_find(struct capo_cells *c, const struct capo_record *r)
{
        struct capo_area *a = &c->seg->header->areas[CAPO_AREA_CELLS];
        struct capo_log_cell key = cell_key(r);
        struct capo_seg_cell *cell;
        uint32_t *place;
        bool full;
        int64_t i;

        if (c->last) {
                cell = capo_area_at(c->seg, CAPO_AREA_CELLS, c->last - 1);
                if (same_cell(&cell->key, &key))
                        return cell;
        }
        full = a->used + CELLS_KEPT >= a->capacity || !has_index_room(c, a->used + 1);
        place = cell_place(c, &key);
        if (!*place && full) { /* full: one catch-all per call */
                key = (struct capo_log_cell){
                        .call = r->call, .clock = key.clock, .flags = key.flags};
                place = cell_place(c, &key);
                c->seg->header->shape_overflow++;
        }
        if (!*place) {
                i = area_add(c, CAPO_AREA_CELLS);
                if (i < 0)
                        return NULL;
                cell = capo_area_at(c->seg, CAPO_AREA_CELLS, (uint64_t)i);
                cell->key = key;
                atomic_store_explicit(&a->used, (uint32_t)i + 1, memory_order_release);
                *place = (uint32_t)i + 1;
        }
        c->last = *place;
        return capo_area_at(c->seg, CAPO_AREA_CELLS, *place - 1);
}

static void hist_add(struct capo_cells *c, uint32_t *number, uint64_t ns)
{
        struct capo_seg_hist *hist;

        if (!*number || *number > c->seg->header->areas[CAPO_AREA_HISTS]
                                          .used) { /* beyond: an untrusted file, damaged */
                int64_t i = area_add(c, CAPO_AREA_HISTS);

                if (i < 0) {
                        c->seg->header->shape_overflow++; /* counted, but without its time */
                        return;
                }
                hist = capo_area_at(c->seg, CAPO_AREA_HISTS, (uint64_t)i);
                hist->min_ns = UINT64_MAX;
                atomic_store_explicit(&c->seg->header->areas[CAPO_AREA_HISTS].used, (uint32_t)i + 1,
                                      memory_order_release);
                *number = (uint32_t)i + 1;
        }
        hist = capo_area_at(c->seg, CAPO_AREA_HISTS, *number - 1);
        hist->count++;
        hist->sum_ns += ns;
        hist->sum_sq += (double)ns * (double)ns;
        if (ns < hist->min_ns)
                hist->min_ns = ns;
        if (ns > hist->max_ns)
                hist->max_ns = ns;
        hist->bucket[capo_hist_bucket(ns)]++;
}

/* Times first, then the two numbers of calls. The process that recovers a dead one counts the whole
 * call again unless the second number has it (drain.c), so at worst a time is in a histogram twice.
 */
void capo_cells_count(struct capo_cells *c, const struct capo_record *r)
{
        struct capo_segment_header *h = c->seg->header;
        struct capo_seg_cell *cell = cell_find(c, r);
        bool gpu = r->clock == CAPO_CLOCK_EVENT || r->clock == CAPO_CLOCK_KERNEL;
        uint64_t ns = capo_host_ns(h, r), waited;

        if (cell && r->clock != CAPO_CLOCK_NONE)
                hist_add(c, &cell->host, ns);
        if (cell && gpu)
                hist_add(c, &cell->gpu, r->gpu_ns);
        if (cell && capo_record_waited(r, &waited))
                hist_add(c, &cell->waited, waited);
        /* what makes, ends or registers something moves nothing: its place is known, but not one
         * where time went */
        if (capo_call_kind(r->call) != CAPO_KIND_OTHER && r->site &&
            r->site <= h->areas[CAPO_AREA_SITES].used) {
                struct capo_seg_site *site = capo_area_at(c->seg, CAPO_AREA_SITES, r->site - 1);

                site->log.count++;
                if (!(r->flags & CAPO_RECORD_GROUP))
                        site->log.host_ns += ns;
                if (gpu) {
                        site->log.gpu_ns += r->gpu_ns;
                        site->log.gpu_count++;
                        if (r->flags & CAPO_RECORD_CHOSEN) {
                                site->chosen.gpu_ns += r->gpu_ns;
                                site->chosen.gpu_count++;
                        }
                }
        }
        if (cell)
                cell->count++;
        __atomic_store_n(&h->calls, h->calls + 1,
                         __ATOMIC_RELAXED); /* the end of the process looks at it meanwhile */
}

uint32_t capo_cells_number(struct capo_cells *c, const struct capo_record *r)
{
        struct capo_log_cell key = cell_key(r);
        uint32_t place = *cell_place(c, &key);

        return place ? place - 1 : CAPO_NO_NUMBER;
}

void capo_cells_know(struct capo_cells *c)
{
        uint32_t used = c->seg->header->areas[CAPO_AREA_CELLS].used;

        if (capo_index_grow(&c->index, used) < 0)
                used = c->index.size / 2; /* the others are counted in new ones */
        for (uint32_t i = 0; i < used; i++) {
                const struct capo_seg_cell *cell = capo_area_at(c->seg, CAPO_AREA_CELLS, i);

                *cell_place(c, &cell->key) = i + 1;
        }
}

static char *hist_put(const struct capo_cells *c, uint32_t number, char *p)
{
        const struct capo_seg_hist *hist = capo_area_at(c->seg, CAPO_AREA_HISTS, number - 1);
        struct capo_log_hist *out = (struct capo_log_hist *)p;
        struct capo_log_hist_pair *pair = (struct capo_log_hist_pair *)(out + 1);

        *out = (struct capo_log_hist){
                hist->count, hist->sum_ns, hist->min_ns, hist->max_ns, hist->sum_sq, 0, 0};
        for (uint32_t i = 0; i < CAPO_HIST_BUCKETS; i++) {
                if (hist->bucket[i])
                        pair[out->n++] =
                                (struct capo_log_hist_pair){.bucket = i, .count = hist->bucket[i]};
        }
        return (char *)(pair + out->n);
}

void capo_cells_write(struct capo_cells *c, struct capo_output *out, bool again)
{
        uint32_t n = c->seg->header->areas[CAPO_AREA_CELLS].used,
                 hists = c->seg->header->areas[CAPO_AREA_HISTS].used;

        for (uint32_t i = 0; i < n; i++) {
                struct capo_seg_cell *cell = capo_area_at(c->seg, CAPO_AREA_CELLS, i);
                struct capo_log_cell log = cell->key;
                char *p = c->frame;

                if ((cell->written == cell->count && !again) || !cell->count)
                        continue;
                log.id = (uint16_t)i;
                log.count = cell->count;
                if (cell->host && cell->host <= hists) {
                        log.hists |= 1;
                        p = hist_put(c, cell->host, p);
                }
                if (cell->gpu && cell->gpu <= hists) {
                        log.hists |= 2;
                        p = hist_put(c, cell->gpu, p);
                        if (cell->waited && cell->waited <= hists) {
                                log.hists |= 4;
                                p = hist_put(c, cell->waited, p);
                        }
                } else {
                        log.clock = CAPO_CLOCK_NONE;
                }
                cell->written = cell->count;
                capo_output_frame(out, CAPO_FRAME_CELL, &log, sizeof log, c->frame,
                                  (size_t)(p - c->frame));
        }
}
