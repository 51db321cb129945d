/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counting and keeping. Each record that leaves a ring is counted exactly (its cell), and kept for a while (the flight
 * area: a ring of records; when everything is traced it is only the stage from which blocks are written).
 *
 * A kill may come between any two instructions here. The order is: keep, count, advance the tail; so a record is never
 * lost, and at most the one being counted at that moment is counted twice. For the file, what has been written becomes
 * true by one store (commit_now), and whoever goes on cuts the file back to that.
 *
 * Shapes (see log.h) are numbered as they come; when the 16-bit numbers run out they start again at 0, which the format
 * allows: a later frame replaces.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "capo/msg.h"
#include "core/log/drain.h"
#include "core/log/write.h"
#include "core/base/util.h"

#define INDEX_SIZE (1u << 17) /* twice the 16-bit numbers it holds */
#define NO_NUMBER  65535u
#define BLOCK_MOST 4096u
#define CELL_FLAGS (CAPO_RECORD_MEMBER | CAPO_RECORD_GROUP | CAPO_RECORD_CAPTURED)
#define CELLS_KEPT 64u /* of the cells, for calls that find the table full */

struct capo_drain {
        struct capo_segment *seg;
        struct capo_segment_header *h;
        struct capo_log_writer log;
        struct capo_commit done; /* as committed, or about to be */
        capo_site_text_fn site_text;
        double fullest;
        bool resync; /* the file misses frames: the next description says everything again */
        bool again;  /* this one does */
        uint32_t n_shapes, shapes_written;
        uint32_t last_cell;              /* 1 + index; calls come in runs */
        uint32_t cell_index[INDEX_SIZE]; /* 1 + index; open addressing */
        uint32_t shape_index[INDEX_SIZE];
        struct capo_log_shape shapes[NO_NUMBER];
        struct capo_record
                batch[BLOCK_MOST + 1]; /* of one thread, times in ns; one more is looked at before it is decided */
        uint16_t batch_shape[BLOCK_MOST];
        uint32_t batch_n;
        uint64_t batch_low, batch_high; /* smallest and largest t_begin */
        char columns[BLOCK_MOST * 24];
        char cell_frame[2 * (sizeof(struct capo_log_hist) + CAPO_HIST_BUCKETS * sizeof(struct capo_log_hist_pair))];
        char buffer[CAPO_LOG_BUFFER];
};

int capo_drain_new(struct capo_segment *seg, struct capo_drain **out)
{
        struct capo_drain *d =
                mmap(NULL, sizeof *d, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (d == MAP_FAILED)
                return -ENOMEM;
        d->seg = seg;
        d->h = seg->header;
        d->log = (struct capo_log_writer){.path = d->h->log_path, .fd = -1, .buffer = d->buffer};
        d->done = d->h->commit[d->h->commit_now];
        *out = d;
        return 0;
}

void capo_drain_free(struct capo_drain *d)
{
        if (d)
                munmap(d, sizeof *d);
}

void capo_drain_resolve(struct capo_drain *d, capo_site_text_fn site_text)
{
        d->site_text = site_text;
}

double capo_drain_fullest(const struct capo_drain *d)
{
        return d->fullest;
}

/* ---- counting ---- */

static struct capo_log_cell cell_key(const struct capo_record *r)
{
        struct capo_log_cell key = {
                .bytes = r->bytes,
                .comm = r->comm,
                .rule = r->rule,
                .call = r->call,
                .algo_proto = r->algo_proto,
                .channels = r->channels,
                .clock = r->clock == CAPO_CLOCK_HOST ? CAPO_CLOCK_EVENT
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
static uint32_t *cell_place(struct capo_drain *d, const struct capo_log_cell *key)
{
        uint32_t i = (uint32_t)XXH3_64bits(key, sizeof *key) % INDEX_SIZE;

        for (; d->cell_index[i]; i = (i + 1) % INDEX_SIZE) {
                const struct capo_seg_cell *cell = capo_area_at(d->seg, CAPO_AREA_CELLS, d->cell_index[i] - 1);

                if (same_cell(&cell->key, key))
                        break;
        }
        return &d->cell_index[i];
}

/* One more item of an area only the drain uses; its index, or -1. */
static int64_t area_add(struct capo_drain *d, enum capo_area_id id)
{
        struct capo_area *a = &d->h->areas[id];
        uint32_t n = atomic_load_explicit(&a->used, memory_order_relaxed);
        int r = 0;

        if (n >= atomic_load_explicit(&a->committed, memory_order_relaxed)) {
                pthread_mutex_lock(&d->seg->lock);
                r = capo_area_commit(d->seg, id, n + 1);
                pthread_mutex_unlock(&d->seg->lock);
        }
        if (r < 0)
                return -1;
        memset(capo_area_at(d->seg, id, n), 0, a->item);
        return n;
}

static struct capo_seg_cell *cell_find(struct capo_drain *d, const struct capo_record *r)
{
        struct capo_area *a = &d->h->areas[CAPO_AREA_CELLS];
        struct capo_log_cell key = cell_key(r);
        struct capo_seg_cell *cell;
        uint32_t *place;
        int64_t i;

        if (d->last_cell) {
                cell = capo_area_at(d->seg, CAPO_AREA_CELLS, d->last_cell - 1);
                if (same_cell(&cell->key, &key))
                        return cell;
        }
        place = cell_place(d, &key);
        if (!*place && a->used + CELLS_KEPT >= a->capacity) { /* full: one catch-all per call */
                key = (struct capo_log_cell){.call = r->call, .clock = key.clock, .flags = key.flags};
                place = cell_place(d, &key);
                d->h->shape_overflow++;
        }
        if (!*place) {
                i = area_add(d, CAPO_AREA_CELLS);
                if (i < 0)
                        return NULL;
                cell = capo_area_at(d->seg, CAPO_AREA_CELLS, (uint64_t)i);
                cell->key = key;
                atomic_store_explicit(&a->used, (uint32_t)i + 1, memory_order_release);
                *place = (uint32_t)i + 1;
        }
        d->last_cell = *place;
        return capo_area_at(d->seg, CAPO_AREA_CELLS, *place - 1);
}

static void hist_add(struct capo_drain *d, uint32_t *number, uint64_t ns)
{
        struct capo_seg_hist *hist;

        if (!*number) {
                int64_t i = area_add(d, CAPO_AREA_HISTS);

                if (i < 0) {
                        d->h->shape_overflow++; /* counted, but without its time */
                        return;
                }
                hist = capo_area_at(d->seg, CAPO_AREA_HISTS, (uint64_t)i);
                hist->min_ns = UINT64_MAX;
                atomic_store_explicit(&d->h->areas[CAPO_AREA_HISTS].used, (uint32_t)i + 1, memory_order_release);
                *number = (uint32_t)i + 1;
        }
        hist = capo_area_at(d->seg, CAPO_AREA_HISTS, *number - 1);
        hist->count++;
        hist->sum_ns += ns;
        hist->sum_sq += (double)ns * (double)ns;
        if (ns < hist->min_ns)
                hist->min_ns = ns;
        if (ns > hist->max_ns)
                hist->max_ns = ns;
        hist->bucket[capo_hist_bucket(ns)]++;
}

static uint64_t host_ns(const struct capo_drain *d, const struct capo_record *r)
{
        return r->t_end <= r->t_begin ? 0 : (uint64_t)((double)(r->t_end - r->t_begin) * d->h->clock.ns_per_tick + 0.5);
}

static void count_record(struct capo_drain *d, const struct capo_record *r)
{
        struct capo_seg_cell *cell = cell_find(d, r);
        bool gpu = r->clock == CAPO_CLOCK_EVENT || r->clock == CAPO_CLOCK_KERNEL;
        uint64_t ns = host_ns(d, r);

        if (cell) {
                if (r->clock != CAPO_CLOCK_NONE)
                        hist_add(d, &cell->host, ns);
                if (gpu)
                        hist_add(d, &cell->gpu, r->gpu_ns);
                cell->count++;
        }
        if (r->site && r->site <= d->h->areas[CAPO_AREA_SITES].used) {
                struct capo_seg_site *site = capo_area_at(d->seg, CAPO_AREA_SITES, r->site - 1);

                site->log.count++;
                if (!(r->flags & CAPO_RECORD_GROUP))
                        site->log.host_ns += ns;
                if (gpu) {
                        site->log.gpu_ns += r->gpu_ns;
                        site->log.gpu_count++;
                }
        }
        d->h->calls++;
}

/* ---- blocks ---- */

static void commit(struct capo_drain *d)
{
        uint32_t next = !atomic_load_explicit(&d->h->commit_now, memory_order_relaxed);

        d->done.log_bytes = d->log.file_bytes;
        d->h->commit[next] = d->done;
        d->h->bytes_lost = d->log.lost_bytes;
        atomic_store_explicit(&d->h->commit_now, next, memory_order_release);
        atomic_store_explicit(&d->h->text_tail, d->done.text_tail, memory_order_release);
}

static int frame(struct capo_drain *d, unsigned type, const void *a, size_t n_a, const void *b, size_t n_b)
{
        struct iovec iov[2] = {{(void *)a, n_a}, {(void *)b, n_b}};
        int r = capo_log_frame(&d->log, type, iov, 2);

        if (r < 0)
                d->resync = true;
        return r;
}

static int flush(struct capo_drain *d)
{
        int r = capo_log_flush(&d->log);

        if (r < 0)
                d->resync = true;
        commit(d);
        return r;
}

static void shapes_restart(struct capo_drain *d)
{
        memset(d->shape_index, 0, sizeof d->shape_index);
        d->n_shapes = d->shapes_written = 0;
}

static void shapes_write(struct capo_drain *d)
{
        const uint32_t most = (CAPO_LOG_BUFFER / 2) / sizeof *d->shapes;

        while (d->shapes_written < d->n_shapes) {
                uint32_t n = d->n_shapes - d->shapes_written;

                if (n > most)
                        n = most;
                frame(d, CAPO_FRAME_SHAPE, &d->shapes[d->shapes_written], n * sizeof *d->shapes, NULL, 0);
                d->shapes_written += n;
        }
}

/* The number of the shape of @r, NO_NUMBER when the numbers have run out. */
static unsigned shape_find(struct capo_drain *d, const struct capo_record *r)
{
        struct capo_log_shape key = {
                .bytes = r->bytes,
                .stream = r->stream,
                .peer = r->peer,
                .comm = r->comm,
                .site = r->site,
                .rule = r->rule,
                .call = r->call,
                .type = r->type,
                .op = r->op,
                .result = r->result,
                .clock = r->clock,
                .flags = r->flags,
                .algo_proto = r->algo_proto,
                .channels = r->channels,
        };
        uint32_t i = (uint32_t)XXH3_64bits(&key, sizeof key) % INDEX_SIZE;
        struct capo_log_cell cell;
        uint32_t place;

        for (; d->shape_index[i]; i = (i + 1) % INDEX_SIZE) {
                const struct capo_log_shape *s = &d->shapes[d->shape_index[i] - 1];

                key.id = s->id;
                key.cell = s->cell;
                if (!memcmp(s, &key, sizeof key))
                        return s->id;
        }
        if (d->n_shapes == NO_NUMBER)
                return NO_NUMBER;
        cell = cell_key(r);
        place = *cell_place(d, &cell);
        key.id = (uint16_t)d->n_shapes;
        key.cell = (uint16_t)(place ? place - 1 : NO_NUMBER);
        d->shapes[d->n_shapes++] = key;
        d->shape_index[i] = d->n_shapes;
        return key.id;
}

#define COLUMN(type, value)                                            \
        do {                                                           \
                type *column = (type *)p;                              \
                for (uint32_t i = 0; i < n; i++)                       \
                        column[i] = (type)(value);                     \
                memset(column + n, 0, (8 - n * sizeof(type) % 8) % 8); \
                p += (n * sizeof(type) + 7) & ~(size_t)7;              \
        } while (0)

/* The batch as one BLOCK frame. */
static void batch_write(struct capo_drain *d)
{
        const struct capo_record *r = d->batch;
        uint32_t n = d->batch_n;
        struct capo_log_block block = {.base = d->batch_low, .n = n, .thread = r->thread};
        char *p = d->columns;

        if (n == 0)
                return;
        shapes_write(d);
        for (uint32_t i = 0; i < n; i++) {
                if (r[i].gpu_ns)
                        block.columns |= CAPO_COLUMN_GPU;
                if (r[i].flags & CAPO_RECORD_MEMBER && r[i].group)
                        block.columns |= CAPO_COLUMN_AUX;
        }
        COLUMN(uint32_t, r[i].t_begin - block.base);
        COLUMN(uint32_t, r[i].t_end - r[i].t_begin);
        COLUMN(uint32_t, r[i].seq);
        COLUMN(uint16_t, d->batch_shape[i]);
        if (block.columns & CAPO_COLUMN_GPU)
                COLUMN(uint32_t, r[i].gpu_ns);
        if (block.columns & CAPO_COLUMN_AUX)
                COLUMN(uint32_t, r[i].flags & CAPO_RECORD_MEMBER ? r[i].group : 0);
        frame(d, CAPO_FRAME_BLOCK, &block, sizeof block, d->columns, (size_t)(p - d->columns));
        d->batch_n = 0;
}

static void batch_add(struct capo_drain *d, const struct capo_record *in)
{
        struct capo_record *r = &d->batch[d->batch_n];
        uint64_t low, high;
        unsigned shape = shape_find(d, in);

        if (shape == NO_NUMBER) {
                batch_write(d);
                shapes_restart(d);
                shape = shape_find(d, in);
                r = d->batch;
        }
        *r = *in;
        r->t_begin = capo_clock_ns(&d->h->clock, in->t_begin);
        r->t_end = r->t_begin + host_ns(d, in);
        if (r->t_end - r->t_begin > UINT32_MAX || r->gpu_ns > UINT32_MAX) {
                frame(d, CAPO_FRAME_WIDE, r, sizeof *r, NULL, 0);
                return;
        }
        low = d->batch_n && d->batch_low < r->t_begin ? d->batch_low : r->t_begin;
        high = d->batch_n && d->batch_high > r->t_begin ? d->batch_high : r->t_begin;
        if (high - low > UINT32_MAX || d->batch_n == BLOCK_MOST) {
                struct capo_record keep = *r;

                batch_write(d);
                d->batch[0] = keep;
                low = high = keep.t_begin;
        }
        d->batch_low = low;
        d->batch_high = high;
        d->batch_shape[d->batch_n++] = (uint16_t)shape;
}

static const struct capo_record *flight_at(const struct capo_drain *d, uint64_t i)
{
        return capo_area_at(d->seg, CAPO_AREA_FLIGHT, i & (d->h->flight_records - 1));
}

/* Flight records @from .. @to - 1 as blocks, each of one thread. */
static void blocks_write(struct capo_drain *d, uint64_t from, uint64_t to)
{
        while (from < to) { /* by stretches, so that a block's calls are near each other in time */
                uint64_t end = to - from > BLOCK_MOST ? from + BLOCK_MOST : to;
                uint8_t seen[65536 / 8] = {0};

                for (uint64_t i = from; i < end; i++) {
                        unsigned thread = flight_at(d, i)->thread;

                        if (seen[thread / 8] & 1 << thread % 8)
                                continue;
                        seen[thread / 8] |= (uint8_t)(1 << thread % 8);
                        for (uint64_t k = i; k < end; k++) {
                                if (flight_at(d, k)->thread == thread)
                                        batch_add(d, flight_at(d, k));
                        }
                        batch_write(d);
                }
                from = end;
        }
        d->done.flight_tail = to;
}

static void keep_record(struct capo_drain *d, const struct capo_record *r)
{
        uint64_t head = atomic_load_explicit(&d->h->flight_head, memory_order_relaxed);
        uint32_t i = (uint32_t)(head & (d->h->flight_records - 1));

        if (d->h->flight_keep == 0)
                return;
        if (i >= d->h->areas[CAPO_AREA_FLIGHT].committed) {
                int e;

                pthread_mutex_lock(&d->seg->lock);
                e = capo_area_commit(d->seg, CAPO_AREA_FLIGHT, i + 1);
                pthread_mutex_unlock(&d->seg->lock);
                if (e < 0) {
                        d->log.lost_bytes += sizeof *r;
                        return;
                }
        }
        *(struct capo_record *)capo_area_at(d->seg, CAPO_AREA_FLIGHT, i) = *r;
        atomic_store_explicit(&d->h->flight_head, head + 1, memory_order_release);
}

static void take(struct capo_drain *d, const struct capo_record *r)
{
        keep_record(d, r);
        count_record(d, r);
}

static void blocks_when_full(struct capo_drain *d)
{
        uint64_t head = d->h->flight_head;

        if (!d->h->trace_all || head - d->done.flight_tail < BLOCK_MOST)
                return;
        if (d->resync)
                shapes_restart(d);
        blocks_write(d, d->done.flight_tail, head);
        flush(d);
}

static unsigned ring_take(struct capo_drain *d, struct capo_ring *ring)
{
        uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
        uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
        uint32_t left = CAPO_RING_LEFT;
        double full = (double)(head - tail) / d->h->ring_records;
        unsigned n = (unsigned)(head - tail);

        if (head - tail > d->h->ring_records) /* a stranger's file, damaged */
                return 0;
        if (full > d->fullest)
                d->fullest = full;
        for (; tail < head; tail++) {
                take(d, &ring->records[tail & (d->h->ring_records - 1)]);
                atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
                blocks_when_full(d);
        }
        if (atomic_load_explicit(&ring->state, memory_order_acquire) == CAPO_RING_LEFT &&
            atomic_load_explicit(&ring->head, memory_order_acquire) == tail)
                atomic_compare_exchange_strong(&ring->state, &left, CAPO_RING_FREE);
        return n;
}

unsigned capo_drain_round(struct capo_drain *d)
{
        uint32_t rings = atomic_load_explicit(&d->h->areas[CAPO_AREA_RINGS].used, memory_order_acquire);
        uint32_t slots = atomic_load_explicit(&d->h->areas[CAPO_AREA_SLOTS].used, memory_order_acquire);
        unsigned n = 0;

        d->fullest = 0;
        for (uint32_t i = 0; i < rings; i++)
                n += ring_take(d, capo_area_at(d->seg, CAPO_AREA_RINGS, i));
        for (uint32_t i = 0; i < slots; i++) {
                struct capo_slot *slot = capo_area_at(d->seg, CAPO_AREA_SLOTS, i);

                if (atomic_load_explicit(&slot->state, memory_order_acquire) == CAPO_SLOT_DONE) {
                        take(d, &slot->record);
                        atomic_store_explicit(&slot->state, CAPO_SLOT_FREE, memory_order_release);
                        blocks_when_full(d);
                        n++;
                }
        }
        return n;
}

/* ---- descriptions ---- */

static void copy_text(const struct capo_drain *d, uint64_t at, void *out, size_t n)
{
        const struct capo_area *a = &d->h->areas[CAPO_AREA_TEXT];
        const char *text = capo_area_at(d->seg, CAPO_AREA_TEXT, 0);

        for (size_t i = 0; i < n; i++)
                ((char *)out)[i] = text[(at + i) % a->capacity];
}

static void texts_write(struct capo_drain *d)
{
        uint64_t head = atomic_load_explicit(&d->h->text_head, memory_order_acquire);
        char *text = d->columns; /* free outside batch_write() */

        if (d->again && head <= d->h->areas[CAPO_AREA_TEXT].capacity)
                d->done.text_tail = 0; /* nothing was overwritten yet: say it all again */
        while (head - d->done.text_tail >= 8) {
                uint32_t piece[2]; /* type, size */

                copy_text(d, d->done.text_tail, piece, sizeof piece);
                if (piece[1] > sizeof d->columns || head - d->done.text_tail < 8 + (uint64_t)piece[1]) {
                        d->done.text_tail = head; /* a stranger's file, damaged */
                        break;
                }
                copy_text(d, d->done.text_tail + 8, text, piece[1]);
                frame(d, piece[0], text, piece[1], NULL, 0);
                d->done.text_tail += 8 + (uint64_t)((piece[1] + 7) & ~7u);
        }
}

/* What a dead process would have said of itself next. */
static void kept_write(struct capo_drain *d)
{
        uint32_t now = atomic_load_explicit(&d->h->kept_now, memory_order_acquire), piece[2];
        uint32_t size = now ? d->h->kept_size[now - 1] : 0;

        for (uint32_t at = 0; at + sizeof piece <= size; at += sizeof piece + ((piece[1] + 7) & ~7u)) {
                const char *text = capo_area_at(d->seg, CAPO_AREA_KEPT, (now - 1) * CAPO_KEPT_HALF + at);

                memcpy(piece, text, sizeof piece);
                if (piece[1] > size - at - sizeof piece) /* a stranger's file, damaged */
                        return;
                frame(d, piece[0], text + sizeof piece, piece[1], NULL, 0);
        }
}

static void comms_write(struct capo_drain *d)
{
        const struct capo_timebase *clock = &d->h->clock;
        uint32_t n = atomic_load_explicit(&d->h->areas[CAPO_AREA_COMMS].used, memory_order_acquire);

        for (uint32_t i = 0; i < n; i++) {
                struct capo_seg_comm *comm = capo_area_at(d->seg, CAPO_AREA_COMMS, i), copy;

                pthread_mutex_lock(&d->seg->lock);
                copy = *comm;
                comm->written = copy.stamp;
                pthread_mutex_unlock(&d->seg->lock);
                if (copy.stamp == 0 || (copy.stamp == copy.written && !d->again))
                        continue;
                copy.name[sizeof copy.name - 1] = 0;
                copy.log.name_size = (uint16_t)strlen(copy.name);
                copy.log.t_birth = capo_clock_ns(clock, copy.log.t_birth);
                copy.log.t_death = copy.log.t_death ? capo_clock_ns(clock, copy.log.t_death) : 0;
                frame(d, CAPO_FRAME_COMM, &copy.log, sizeof copy.log, copy.name, copy.log.name_size);
        }
}

/* Numbers only: what is left when nobody can name the addresses any more. */
static unsigned plain_text(const struct capo_seg_site *site, char *text, unsigned room)
{
        unsigned n = 0;

        for (uint32_t i = 0; i < site->n_pc && i < CAPO_SITE_FRAMES && n + 24 < room; i++)
                n += (unsigned)snprintf(text + n, room - n, "0x%llx\n", (unsigned long long)site->pc[i]);
        return n;
}

static void sites_write(struct capo_drain *d)
{
        uint32_t n = atomic_load_explicit(&d->h->areas[CAPO_AREA_SITES].used, memory_order_acquire);

        for (uint32_t i = 0; i < n; i++) {
                struct capo_seg_site *site = capo_area_at(d->seg, CAPO_AREA_SITES, i);
                struct capo_log_site log;

                if (!atomic_load_explicit(&site->ready, memory_order_acquire) ||
                    (site->written == 1 + site->log.count && !d->again))
                        continue;
                if (!site->text_size) {
                        unsigned size = 0;

                        if (site->py_size && site->py_size <= sizeof site->py) {
                                memcpy(site->text, site->py, site->py_size);
                                size = site->py_size;
                        }
                        size += (d->site_text ? d->site_text : plain_text)(site, site->text + size,
                                                                           (unsigned)sizeof site->text - size);
                        site->text_size = (uint16_t)size;
                }
                log = site->log;
                log.id = (uint16_t)(i + 1);
                log.text_size = site->text_size <= sizeof site->text ? site->text_size : 0;
                site->written = 1 + log.count;
                frame(d, CAPO_FRAME_SITE, &log, sizeof log, site->text, log.text_size);
        }
}

static char *hist_put(const struct capo_drain *d, uint32_t number, char *p)
{
        const struct capo_seg_hist *hist = capo_area_at(d->seg, CAPO_AREA_HISTS, number - 1);
        struct capo_log_hist *out = (struct capo_log_hist *)p;
        struct capo_log_hist_pair *pair = (struct capo_log_hist_pair *)(out + 1);

        *out = (struct capo_log_hist){hist->count, hist->sum_ns, hist->min_ns, hist->max_ns, hist->sum_sq, 0, 0};
        for (uint32_t i = 0; i < CAPO_HIST_BUCKETS; i++) {
                if (hist->bucket[i])
                        pair[out->n++] = (struct capo_log_hist_pair){.bucket = i, .count = hist->bucket[i]};
        }
        return (char *)(pair + out->n);
}

static void cells_write(struct capo_drain *d)
{
        uint32_t n = d->h->areas[CAPO_AREA_CELLS].used, hists = d->h->areas[CAPO_AREA_HISTS].used;

        for (uint32_t i = 0; i < n; i++) {
                struct capo_seg_cell *cell = capo_area_at(d->seg, CAPO_AREA_CELLS, i);
                struct capo_log_cell log = cell->key;
                char *p = d->cell_frame;

                if (cell->written == cell->count && !d->again)
                        continue;
                log.id = (uint16_t)i;
                log.count = cell->count;
                if (cell->host && cell->host <= hists) {
                        log.hists |= 1;
                        p = hist_put(d, cell->host, p);
                }
                if (cell->gpu && cell->gpu <= hists) {
                        log.hists |= 2;
                        p = hist_put(d, cell->gpu, p);
                } else {
                        log.clock = CAPO_CLOCK_NONE;
                }
                cell->written = cell->count;
                frame(d, CAPO_FRAME_CELL, &log, sizeof log, d->cell_frame, (size_t)(p - d->cell_frame));
        }
}

static void end_write(struct capo_drain *d, unsigned clean)
{
        const struct capo_timebase *clock = &d->h->clock;
        struct capo_log_end end = {
                .t_ns = capo_clock_ns(clock, clock->now_ticks),
                .mono_ns = clock->now_mono_ns,
                .real_ns = clock->now_real_ns,
                .calls = d->h->calls,
                .dropped = d->h->dropped,
                .gpu_dropped = d->h->gpu_dropped,
                .shape_overflow = d->h->shape_overflow,
                .bytes_lost = d->log.lost_bytes + d->h->text_lost,
                .cost_ns = d->h->cost_ns,
                .ticks_per_s = clock->ns_per_tick > 0 ? 1e9 / clock->ns_per_tick : 0,
                .clean = clean,
                .threads = d->h->threads,
        };

        for (uint32_t i = 0; i < d->h->areas[CAPO_AREA_RINGS].used; i++)
                end.dropped += ((struct capo_ring *)capo_area_at(d->seg, CAPO_AREA_RINGS, i))->dropped;
        frame(d, CAPO_FRAME_END, &end, sizeof end, NULL, 0);
}

/* Everything that describes; the frames of a failed flush are said again by the next. */
static int describe(struct capo_drain *d, unsigned clean)
{
        d->again = d->resync; /* failures from here on are for the next time */
        d->resync = false;
        texts_write(d);
        comms_write(d);
        sites_write(d);
        cells_write(d);
        if (d->h->trace_all) {
                if (d->again)
                        shapes_restart(d);
                blocks_write(d, d->done.flight_tail, d->h->flight_head);
        }
        end_write(d, clean);
        d->again = false;
        return flush(d);
}

int capo_drain_text(struct capo_drain *d)
{
        texts_write(d);
        return flush(d);
}

int capo_drain_checkpoint(struct capo_drain *d)
{
        return describe(d, 0);
}

int capo_drain_finish(struct capo_drain *d, unsigned clean)
{
        if (!d->h->trace_all) {
                uint64_t head = d->h->flight_head, first = d->done.flight_tail;

                if (head - first > d->h->flight_keep)
                        first = head - d->h->flight_keep;
                blocks_write(d, first, head);
        }
        if (clean == 2) /* newer than what the log has, and older than what waits in the text area, if anything does */
                kept_write(d);
        describe(d, clean);
        return capo_log_finish(&d->log, clean == 2);
}

/* ---- the file ---- */

static struct capo_log_header log_header(const struct capo_segment_header *h)
{
        struct capo_log_header header = {
                .order = CAPO_LOG_ORDER,
                .version = CAPO_LOG_VERSION,
                .min_reader = CAPO_LOG_MIN_READER,
                .header_size = sizeof header,
                .pid = (uint32_t)h->pid,
                .t0_ticks = h->clock.t0_ticks,
                .t0_mono_ns = h->clock.t0_mono_ns,
                .t0_real_ns = h->clock.t0_real_ns,
                .ticks_per_s = h->clock.ns_per_tick > 0 ? (uint64_t)(1e9 / h->clock.ns_per_tick + 0.5) : 0,
        };

        memcpy(header.magic, CAPO_LOG_MAGIC, sizeof header.magic);
        return header;
}

int capo_drain_create_log(struct capo_drain *d)
{
        struct capo_log_header header = log_header(d->h);
        size_t stem = strlen(d->h->log_path) - strlen(".capo");
        int r = capo_log_create(&d->log, &header);

        for (int n = 1; n < 100 && r == -EEXIST && stem + 16 < sizeof d->h->log_path; n++) {
                snprintf(d->h->log_path + stem, sizeof d->h->log_path - stem, ".%d.capo", n);
                r = capo_log_create(&d->log, &header);
        }
        if (r == 0)
                commit(d);
        return r;
}

int capo_drain_take_over(struct capo_drain *d)
{
        struct capo_segment_header *h = d->h;
        struct capo_log_header header;
        int r = -ENOENT;

        if (h->clock.ns_per_tick <= 0) { /* killed in its first millisecond: the counter is still this machine's */
                struct capo_timebase own;

                capo_clock_init(&own);
                capo_clock_ready(&own);
                h->clock.ns_per_tick = own.ns_per_tick;
        }
        header = log_header(h);
        if (d->done.log_bytes >= sizeof header)
                r = capo_log_append(&d->log, &header, d->done.log_bytes);
        if (r == -ENOENT) {
                d->done = (struct capo_commit){0};
                r = capo_drain_create_log(d);
        }
        d->resync = true; /* what the dead one took for written may have been cut off */
        for (uint32_t i = 0; i < h->areas[CAPO_AREA_CELLS].used && r == 0; i++) {
                const struct capo_seg_cell *cell = capo_area_at(d->seg, CAPO_AREA_CELLS, i);

                *cell_place(d, &cell->key) = i + 1;
        }
        for (uint32_t i = 0; i < h->areas[CAPO_AREA_SLOTS].used; i++) { /* their GPU time went with the process */
                struct capo_slot *slot = capo_area_at(d->seg, CAPO_AREA_SLOTS, i);

                if (slot->state == CAPO_SLOT_ARMED) {
                        slot->record.clock =
                                slot->record.flags & CAPO_RECORD_MEMBER ? CAPO_CLOCK_NONE : CAPO_CLOCK_HOST;
                        slot->record.gpu_ns = 0;
                        slot->state = CAPO_SLOT_DONE;
                }
        }
        return r;
}
