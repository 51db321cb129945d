/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes (capo/log.h) are numbered as they come; when the 16-bit numbers run out they start again
 * at 0, which the format allows: a later frame replaces. */
#include <sys/mman.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "capo/call_ids.h"
#include "capo/frame_types.h"
#include "core/log/flight.h"

/* A block's frame and its columns' padding; twice, as it may end at a stretch of calls. */
#define BLOCK_BYTES_MOST (2 * (16 + sizeof(struct capo_log_block) + 6 * 8))
/* A call that needs a shape and a block for itself alone, or a frame of its own. */
#define CALL_BYTES_MOST (24 + sizeof(struct capo_log_shape) + BLOCK_BYTES_MOST)

bool capo_flight_new(struct capo_flight *f)
{
        if (!capo_index_new(&f->shape_index))
                return false;
        f->room = f->shape_index.size / 2;
        f->shapes = capo_map_own(f->room * sizeof *f->shapes);
        return f->shapes != NULL;
}

void capo_flight_free(struct capo_flight *f)
{
        if (f->shapes)
                munmap(f->shapes, f->room * sizeof *f->shapes);
        f->shapes = NULL;
        capo_index_free(&f->shape_index);
}

void capo_flight_restart(struct capo_flight *f)
{
        capo_index_clear(&f->shape_index);
        f->n_shapes = f->shapes_written = 0;
}

static void shapes_write(struct capo_flight *f)
{
        const uint32_t most = (CAPO_LOG_BUFFER / 2) / sizeof *f->shapes;

        while (f->shapes_written < f->n_shapes) {
                uint32_t n = f->n_shapes - f->shapes_written;

                if (n > most)
                        n = most;
                capo_output_frame(f->out, CAPO_FRAME_SHAPE, &f->shapes[f->shapes_written],
                                  n * sizeof *f->shapes, NULL, 0);
                f->shapes_written += n;
        }
}

/* Each field's way into the log, by its row's last word: one without a line does not compile. */
#define KEPT_SHAPE(name) shape.name = r->name;
#define KEPT_BEGIN(name) /* batch_write() has the columns */
#define KEPT_END(name)
#define KEPT_SEQ(name)
#define KEPT_GROUP(name)
#define KEPT_GPU(name)
#define KEPT_THREAD(name)
static struct capo_log_shape shape_of(const struct capo_record *r)
{
        struct capo_log_shape shape = {0};

#define CAPO_FIELD(type, name, kept) KEPT_##kept(name)
#include "capo/record_fields.def"
        return shape;
}

/* The place in the index of the shape @key, whose number and cell are not looked at. */
static uint32_t *shape_place(struct capo_flight *f, struct capo_log_shape key)
{
        const struct capo_number_index *x = &f->shape_index;
        uint32_t i;

        key.id = key.cell = 0;
        i = capo_index_first(x, XXH3_64bits(&key, sizeof key));
        for (; x->at[i]; i = capo_index_next(x, i)) {
                const struct capo_log_shape *s = &f->shapes[x->at[i] - 1];

                key.id = s->id;
                key.cell = s->cell;
                if (!memcmp(s, &key, sizeof key))
                        break;
        }
        return &x->at[i];
}

static bool has_shape_room(struct capo_flight *f)
{
        size_t bytes = f->room * sizeof *f->shapes;
        struct capo_log_shape *larger;
        int r;

        if (f->n_shapes < f->room)
                return f->n_shapes < CAPO_NO_NUMBER;
        r = capo_index_grow(&f->shape_index, 2 * f->room);
        for (uint32_t i = 0; r > 0 && i < f->n_shapes; i++)
                *shape_place(f, f->shapes[i]) = i + 1;
        larger = r < 0 ? MAP_FAILED : mremap(f->shapes, bytes, 2 * bytes, MREMAP_MAYMOVE);
        if (larger == MAP_FAILED)
                return false;
        f->shapes = larger;
        f->room *= 2;
        return true;
}

/* The number of the shape of @r, CAPO_NO_NUMBER when the numbers have run out. */
static unsigned shape_find(struct capo_flight *f, const struct capo_record *r)
{
        struct capo_log_shape key = shape_of(r);
        uint32_t *place = shape_place(f, key);

        if (*place)
                return f->shapes[*place - 1].id;
        if (!has_shape_room(f))
                return CAPO_NO_NUMBER;
        place = shape_place(f, key);
        key.id = (uint16_t)f->n_shapes;
        key.cell = (uint16_t)capo_cells_number(f->cells, r);
        f->shapes[f->n_shapes++] = key;
        *place = f->n_shapes;
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

/* Is its `group` something that nothing else tells? */
static bool has_aux(const struct capo_record *r)
{
        return r->flags & CAPO_RECORD_MEMBER || r->clock == CAPO_CLOCK_EVENT ||
               r->clock == CAPO_CLOCK_KERNEL;
}

/* The batch as one BLOCK frame. */
static void batch_write(struct capo_flight *f)
{
        const struct capo_record *r = f->batch;
        uint32_t n = f->batch_n;
        struct capo_log_block block = {.base = f->batch_low, .n = n, .thread = r->thread};
        char *p = f->columns;

        if (n == 0)
                return;
        shapes_write(f);
        for (uint32_t i = 0; i < n; i++) {
                if (r[i].gpu_ns)
                        block.columns |= CAPO_COLUMN_GPU;
                if (has_aux(&r[i]) && r[i].group)
                        block.columns |= CAPO_COLUMN_AUX;
        }
        COLUMN(uint32_t, r[i].t_begin - block.base);
        COLUMN(uint32_t, r[i].t_end - r[i].t_begin);
        COLUMN(uint32_t, r[i].seq);
        COLUMN(uint16_t, f->batch_shape[i]);
        if (block.columns & CAPO_COLUMN_GPU)
                COLUMN(uint32_t, r[i].gpu_ns);
        if (block.columns & CAPO_COLUMN_AUX)
                COLUMN(uint32_t, has_aux(&r[i]) ? r[i].group : 0);
        capo_output_frame(f->out, CAPO_FRAME_BLOCK, &block, sizeof block, f->columns,
                          (size_t)(p - f->columns));
        f->batch_n = 0;
}

static void batch_add(struct capo_flight *f, const struct capo_record *in)
{
        struct capo_record *r = &f->batch[f->batch_n];
        uint64_t low, high;
        unsigned shape;

        if (in->call ==
            CAPO_CALL_NONE) /* a hole in what a dead process left (capo_area_commit()) */
                return;
        shape = shape_find(f, in);
        if (shape == CAPO_NO_NUMBER) {
                batch_write(f);
                capo_flight_restart(f);
                shape = shape_find(f, in);
                r = f->batch;
        }
        *r = *in;
        r->t_begin = capo_clock_ns(&f->seg->header->clock, in->t_begin);
        r->t_end = r->t_begin + capo_host_ns(f->seg->header, in);
        if (r->t_end - r->t_begin > UINT32_MAX || r->gpu_ns > UINT32_MAX) {
                capo_output_frame(f->out, CAPO_FRAME_WIDE, r, sizeof *r, NULL, 0);
                return;
        }
        low = f->batch_n && f->batch_low < r->t_begin ? f->batch_low : r->t_begin;
        high = f->batch_n && f->batch_high > r->t_begin ? f->batch_high : r->t_begin;
        if (high - low > UINT32_MAX || f->batch_n == CAPO_BLOCK_MOST) {
                struct capo_record keep = *r;

                batch_write(f);
                f->batch[0] = keep;
                low = high = keep.t_begin;
        }
        f->batch_low = low;
        f->batch_high = high;
        f->batch_shape[f->batch_n++] = (uint16_t)shape;
}

static const struct capo_record *flight_at(const struct capo_flight *f, uint64_t i)
{
        return capo_area_at(f->seg, CAPO_AREA_FLIGHT, i & (f->seg->header->flight_records - 1));
}

/* Bytes of calls that the file has room for. Cells and descriptions have the last quarter. */
static uint64_t bytes_that_fit(const struct capo_flight *f)
{
        const struct capo_segment_header *h = f->seg->header;
        uint64_t used = f->out->log.file_bytes + f->out->log.n;
        uint64_t most = h->log_max / 4 * 3;

        if (!h->log_max || f->out->log.nameless)
                return UINT64_MAX;
        if (used >= most || (h->trace_all && f->out->done.left_out)) /* no gaps */
                return 0;
        return most - used;
}

/* How many of the calls @from .. @to - 1 fit into @room bytes: the first of them where all are
 * traced, the last of them otherwise. */
static uint64_t calls_that_fit(struct capo_flight *f, uint64_t from, uint64_t to, uint64_t room)
{
        bool forward = f->seg->header->trace_all;
        uint64_t used = 0, low = UINT64_MAX, high = 0, n = 0;
        unsigned each = 14; /* bytes in the columns that every block has */
        uint8_t seen[65536 / 8] = {0};

        if (to - from <= room / CALL_BYTES_MOST)
                return to - from;
        for (uint64_t i = from; i < to && each == 14; i++) {
                if (flight_at(f, i)->gpu_ns || has_aux(flight_at(f, i)))
                        each = 22;
        }
        for (; n < to - from; n++) {
                const struct capo_record *r = flight_at(f, forward ? from + n : to - 1 - n);
                uint64_t t = capo_clock_ns(&f->seg->header->clock, r->t_begin);
                uint32_t shapes = f->n_shapes;

                low = t < low ? t : low;
                high = t > high ? t : high;
                if (high - low > UINT32_MAX || n % CAPO_BLOCK_MOST == 0) { /* blocks begin anew */
                        memset(seen, 0, sizeof seen);
                        low = high = t;
                }
                if (!(seen[r->thread / 8] & 1 << r->thread % 8))
                        used += BLOCK_BYTES_MOST;
                seen[r->thread / 8] |= (uint8_t)(1 << r->thread % 8);
                if (r->call != CAPO_CALL_NONE && shape_find(f, r) == CAPO_NO_NUMBER)
                        shapes--;
                used += each + (f->n_shapes - shapes) * sizeof(struct capo_log_shape);
                if (r->gpu_ns > UINT32_MAX || capo_host_ns(f->seg->header, r) > UINT32_MAX)
                        used += 16 + sizeof *r;
                if (used > room)
                        break;
        }
        return n;
}

void capo_flight_write(struct capo_flight *f, uint64_t from, uint64_t to)
{
        uint64_t room = bytes_that_fit(f), last = to;

        if (from < to && to - from > f->seg->header->flight_records)
                from = to - f->seg->header->flight_records;
        if (from < to && room != UINT64_MAX) {
                uint64_t kept = calls_that_fit(f, from, to, room);

                f->out->done.left_out += to - from - kept;
                if (f->seg->header->trace_all)
                        to = from + kept;
                else
                        from = to - kept;
        }
        while (from < to) { /* by stretches, so that a block's calls are near each other in time */
                uint64_t end = to - from > CAPO_BLOCK_MOST ? from + CAPO_BLOCK_MOST : to;
                uint8_t seen[65536 / 8] = {0};

                for (uint64_t i = from; i < end; i++) {
                        unsigned thread = flight_at(f, i)->thread;

                        if (seen[thread / 8] & 1 << thread % 8)
                                continue;
                        seen[thread / 8] |= (uint8_t)(1 << thread % 8);
                        for (uint64_t k = i; k < end; k++) {
                                if (flight_at(f, k)->thread == thread)
                                        batch_add(f, flight_at(f, k));
                        }
                        batch_write(f);
                }
                from = end;
        }
        f->out->done.flight_tail = last;
}

bool capo_flight_is_last(const struct capo_flight *f, const struct capo_record *r)
{
        const struct capo_segment_header *h = f->seg->header;
        uint64_t last = (h->flight_head - 1) & (h->flight_records - 1);

        return h->flight_head && last < h->areas[CAPO_AREA_FLIGHT].committed &&
               !memcmp(flight_at(f, last), r, sizeof *r);
}

void capo_flight_keep(struct capo_flight *f, const struct capo_record *r)
{
        uint64_t head = atomic_load_explicit(&f->seg->header->flight_head, memory_order_relaxed);
        uint32_t i = (uint32_t)(head & (f->seg->header->flight_records - 1));

        if (f->seg->header->flight_keep == 0)
                return;
        if (i >= f->seg->header->areas[CAPO_AREA_FLIGHT].committed) {
                int e;

                capo_lock(&f->seg->lock);
                e = capo_area_commit(f->seg, CAPO_AREA_FLIGHT, i + 1);
                capo_unlock(&f->seg->lock);
                if (e < 0) {
                        f->out->log.lost_bytes += sizeof *r;
                        f->seg->header->unkept++;
                        return;
                }
        }
        *(struct capo_record *)capo_area_at(f->seg, CAPO_AREA_FLIGHT, i) = *r;
        atomic_store_explicit(&f->seg->header->flight_head, head + 1, memory_order_release);
}
