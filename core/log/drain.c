/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds, and what they leave in the log. Each record that leaves a ring is kept for a while
 * (flight.c; when everything is traced that is only the stage from which blocks are written) and
 * counted (cells.c).
 *
 * A kill may come between any two instructions here. The order is keep, count, advance the tail, so
 * no record is lost. The process that recovers the segment finds the record that was being moved:
 * it is the last that was kept and still is in its ring, and the number of calls says whether it
 * was counted. If nothing is kept (CAPO_FLIGHT=0), it is counted again. */
#include <sys/mman.h>

#include "capo/frame_types.h"
#include "core/log/drain.h"
#include "core/log/flight.h"
#include "core/log/info.h"
#include "core/log/segment_calls.h"
#include "core/log/unfinished.h"

struct capo_drain {
        struct capo_segment *seg;
        struct capo_segment_header *h;
        double fullest;
        uint64_t retry_ns, wait_ns; /* a block could not be written: not before; how long it was */
        bool taken_over;            /* from a dead process */
        bool goes_on;               /* the log stays open at its end */
        struct capo_output out;
        struct capo_cells cells;
        struct capo_flight flight;
        char unfinished[64 << 10]; /* of a dead process: what it was in, as INFO */
        size_t n_unfinished;
        capo_site_text_fn site_text; /* NULL: numbers only */
        bool again;                  /* describe what was written, too */
        uint64_t dropped;            /* what the last END said */
        uint32_t named;              /* sites that have been looked at by capo_drain_name_site() */
        char text[96u << 10];        /* the largest piece of text */
};

/* A dead process's segment may be damaged: every number in it is checked before its use. */
static void copy_text(const struct capo_drain *d, uint64_t at, void *out, size_t n)
{
        const struct capo_area *a = &d->h->areas[CAPO_AREA_TEXT];
        const char *text = capo_area_at(d->seg, CAPO_AREA_TEXT, 0);

        for (size_t i = 0; i < n; i++)
                ((char *)out)[i] = text[(at + i) % a->capacity];
}

static bool is_text(uint32_t type)
{
        return type == CAPO_FRAME_INFO || type == CAPO_FRAME_FABRIC || type == CAPO_FRAME_RULES ||
               type == CAPO_FRAME_HANG || type == CAPO_FRAME_MACHINE;
}

/* Text that waits in the segment; with again all of it that still stands there. */
static void describe_texts(struct capo_drain *d)
{
        uint64_t head = atomic_load_explicit(&d->h->text_head, memory_order_acquire);

        if (d->again && head <= d->h->areas[CAPO_AREA_TEXT].capacity)
                d->out.done.text_tail = 0; /* nothing was overwritten yet: say it all again */
        if (head - d->out.done.text_tail > d->h->areas[CAPO_AREA_TEXT].capacity)
                d->out.done.text_tail = head; /* a damaged file: there was never room for so much */
        while (head - d->out.done.text_tail >= 8) {
                uint32_t piece[2]; /* type, size */

                copy_text(d, d->out.done.text_tail, piece, sizeof piece);
                if (!is_text(piece[0]) || piece[1] > sizeof d->text ||
                    head - d->out.done.text_tail < 8 + (uint64_t)piece[1]) {
                        d->out.done.text_tail = head; /* an untrusted file, damaged */
                        break;
                }
                copy_text(d, d->out.done.text_tail + 8, d->text, piece[1]);
                capo_output_frame(&d->out, piece[0], d->text, piece[1], NULL, 0);
                d->out.done.text_tail += 8 + (uint64_t)((piece[1] + 7) & ~7u);
        }
}

/* What a dead process would have said of itself next. */
static void describe_kept(struct capo_drain *d)
{
        uint32_t now = atomic_load_explicit(&d->h->kept_now, memory_order_acquire), piece[2];
        uint32_t size = now ? d->h->kept_size[now - 1] : 0;

        for (uint32_t at = 0; at + sizeof piece <= size;
             at += sizeof piece + ((piece[1] + 7) & ~7u)) {
                const char *text =
                        capo_area_at(d->seg, CAPO_AREA_KEPT, (now - 1) * CAPO_KEPT_HALF + at);

                memcpy(piece, text, sizeof piece);
                if (!is_text(piece[0]) ||
                    piece[1] > size - at - sizeof piece) /* an untrusted file, damaged */
                        return;
                capo_output_frame(&d->out, piece[0], text + sizeof piece, piece[1], NULL, 0);
        }
}

static void comms_write(struct capo_drain *d)
{
        const struct capo_timebase *clock = &d->h->clock;
        uint32_t n = atomic_load_explicit(&d->h->areas[CAPO_AREA_COMMS].used, memory_order_acquire);

        for (uint32_t i = 0; i < n; i++) {
                struct capo_seg_comm *comm = capo_area_at(d->seg, CAPO_AREA_COMMS, i), copy;

                capo_lock(&d->seg->lock);
                copy = *comm;
                comm->written = copy.stamp;
                capo_unlock(&d->seg->lock);
                if (copy.stamp == 0 || (copy.stamp == copy.written && !d->again))
                        continue;
                copy.name[sizeof copy.name - 1] = 0;
                copy.log.name_size = (uint16_t)strlen(copy.name);
                copy.log.t_created = capo_clock_ns(clock, copy.log.t_created);
                copy.log.t_destroyed =
                        copy.log.t_destroyed ? capo_clock_ns(clock, copy.log.t_destroyed) : 0;
                capo_output_frame(&d->out, CAPO_FRAME_COMM, &copy.log, sizeof copy.log, copy.name,
                                  copy.log.name_size);
        }
}

/* Numbers only: what is left when nobody can name the addresses any more. */
static unsigned plain_text(const struct capo_seg_site *site, char *text, unsigned room)
{
        unsigned n = 0;

        for (uint32_t i = 0; i < site->n_pc && i < CAPO_SITE_FRAMES && n + 24 < room; i++)
                n += (unsigned)snprintf(text + n, room - n, "0x%llx\n",
                                        (unsigned long long)site->pc[i]);
        return n;
}

static void name_site(const struct capo_drain *d, struct capo_seg_site *site)
{
        unsigned n = 0;

        if (site->py_size && site->py_size <= sizeof site->py) {
                memcpy(site->text, site->py, site->py_size);
                n = site->py_size;
        }
        n += (d->site_text ? d->site_text : plain_text)(site, site->text + n,
                                                        (unsigned)sizeof site->text - n);
        site->text_size = (uint16_t)n;
}

/* The text of the next new site, if there is one, into the segment:
 * when the process is killed nobody else can name its addresses. */
void capo_drain_name_site(struct capo_drain *d)
{
        uint32_t n = atomic_load_explicit(&d->h->areas[CAPO_AREA_SITES].used, memory_order_acquire);

        while (d->named < n) {
                struct capo_seg_site *site = capo_area_at(d->seg, CAPO_AREA_SITES, d->named);

                if (!atomic_load_explicit(&site->ready, memory_order_acquire))
                        return;
                d->named++;
                if (!site->text_size) {
                        name_site(d, site);
                        return;
                }
        }
}

static void sites_write(struct capo_drain *d)
{
        uint32_t n = atomic_load_explicit(&d->h->areas[CAPO_AREA_SITES].used, memory_order_acquire);

        for (uint32_t i = 0; i < n; i++) {
                struct capo_seg_site *site = capo_area_at(d->seg, CAPO_AREA_SITES, i);
                struct capo_log_site log;
                char body[sizeof site->text + sizeof site->chosen];
                size_t size;

                if (!atomic_load_explicit(&site->ready, memory_order_acquire) ||
                    (site->written == 1 + site->log.count && !d->again))
                        continue;
                if (!site->text_size)
                        name_site(d, site);
                log = site->log;
                log.id = (uint16_t)(i + 1);
                log.text_size = site->text_size <= sizeof site->text ? site->text_size : 0;
                log.chosen = site->chosen.gpu_count > 0;
                size = log.text_size + (log.chosen ? sizeof site->chosen : 0);
                memcpy(body, site->text, log.text_size);
                memcpy(body + log.text_size, &site->chosen, sizeof site->chosen);
                site->written = 1 + log.count;
                capo_output_frame(&d->out, CAPO_FRAME_SITE, &log, sizeof log, body, size);
        }
}

/* Calls that found no room. */
static uint64_t count_dropped(const struct capo_drain *d)
{
        uint64_t n = d->h->dropped;

        for (uint32_t i = 0; i < d->h->areas[CAPO_AREA_RINGS].used; i++)
                n += ((const struct capo_ring *)capo_area_at(d->seg, CAPO_AREA_RINGS, i))->dropped;
        return n;
}

static void __attribute__((format(printf, 2, 3)))
put_info(struct capo_drain *d, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        capo_output_frame(&d->out, CAPO_FRAME_INFO, d->text,
                          (size_t)vsnprintf(d->text, sizeof d->text, format, args), NULL, 0);
        va_end(args);
}

/* @clean: see struct capo_log_end. */
static void describe_end(struct capo_drain *d, unsigned clean)
{
        const struct capo_timebase *clock = &d->h->clock;
        struct capo_log_end end = {
                .t_ns = capo_clock_ns(clock, clock->now_ticks),
                .mono_ns = clock->now_mono_ns,
                .real_ns = clock->now_real_ns,
                .calls = d->h->calls,
                .dropped = count_dropped(d),
                .gpu_dropped = d->h->gpu_dropped,
                .shape_overflow = d->h->shape_overflow,
                .bytes_lost = d->out.log.lost_bytes + d->h->text_lost,
                .cost_ns = d->h->cost_ns,
                .ticks_per_s = clock->ns_per_tick > 0 ? 1e9 / clock->ns_per_tick : 0,
                .clean = clean,
                .threads = d->h->threads,
        };

        if (d->h->went_private)
                put_info(d, "%s\tfull\n", CAPO_INFO_MEMORY);
        if (d->out.done.left_out)
                put_info(d, "%s\t%llu\n", CAPO_INFO_LEFT_OUT,
                         (unsigned long long)d->out.done.left_out);
        d->dropped = end.dropped;
        capo_output_frame(&d->out, CAPO_FRAME_END, &end, sizeof end, NULL, 0);
}

int capo_drain_new(struct capo_segment *seg, struct capo_drain **out)
{
        struct capo_drain *d = mmap(NULL, sizeof *d, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (d == MAP_FAILED)
                return -ENOMEM;
        if (!capo_index_new(&d->cells.index) || !capo_flight_new(&d->flight)) {
                capo_drain_free(d);
                return -ENOMEM;
        }
        d->seg = d->cells.seg = d->flight.seg = seg;
        d->flight.out = &d->out;
        d->flight.cells = &d->cells;
        d->h = seg->header;
        capo_output_init(&d->out, d->h);
        *out = d;
        return 0;
}

void capo_drain_free(struct capo_drain *d)
{
        if (!d)
                return;
        capo_flight_free(&d->flight);
        capo_index_free(&d->cells.index);
        munmap(d, sizeof *d);
}

void capo_drain_forget(struct capo_drain *d)
{
        if (d)
                capo_log_forget(&d->out.log);
        capo_drain_free(d);
}

void capo_drain_resolve(struct capo_drain *d, capo_site_text_fn site_text)
{
        d->site_text = site_text;
}

bool capo_drain_waits(const struct capo_drain *d)
{
        return d->h->trace_all && d->out.log.fd < 0 &&
               d->h->flight_head - d->out.done.flight_tail >= CAPO_BLOCK_MOST;
}

double capo_drain_fullest(const struct capo_drain *d) { return d->fullest; }

static void count_record(struct capo_drain *d, const struct capo_record *r)
{
        bool kept = d->taken_over && capo_flight_is_last(&d->flight, r);

        if (!kept)
                capo_flight_keep(&d->flight, r);
        atomic_signal_fence(memory_order_seq_cst); /* kept, then counted, then gone from its ring */
        if (!kept || d->h->calls != d->h->flight_head + d->h->unkept)
                capo_cells_count(&d->cells, r);
}

uint64_t capo_drain_wait(uint64_t *before_ns)
{
        const uint64_t least = 100000000, most = 10000000000;

        *before_ns = *before_ns < least ? least : *before_ns < most / 2 ? *before_ns * 2 : most;
        return *before_ns;
}

static void blocks_when_full(struct capo_drain *d)
{
        uint64_t head = d->h->flight_head, waiting = head - d->out.done.flight_tail;
        const struct capo_output_mark before = capo_output_mark(&d->out);
        bool room = waiting < d->h->flight_records;

        if (!d->h->trace_all || waiting < CAPO_BLOCK_MOST)
                return;
        if (room && (d->out.log.fd < 0 || (d->retry_ns && capo_clock_mono() < d->retry_ns)))
                return; /* they are kept for later */
        if (d->out.resync)
                capo_flight_restart(&d->flight);
        capo_flight_write(&d->flight, d->out.done.flight_tail, head);
        capo_output_flush(&d->out);
        if (!capo_output_lost(&d->out, &before)) {
                d->retry_ns = d->wait_ns = 0;
                return;
        }
        if (room) /* else the next call takes the place of the oldest: these are lost */
                capo_output_back(&d->out, &before);
        d->retry_ns = capo_clock_mono() + capo_drain_wait(&d->wait_ns);
}

static unsigned ring_take(struct capo_drain *d, struct capo_ring *ring)
{
        uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
        uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
        uint32_t left = CAPO_RING_LEFT;
        const uint32_t records = capo_ring_records(d->h, ring);
        double full = records ? (double)(head - tail) / records : 0;
        unsigned n = (unsigned)(head - tail);

        if (head - tail > records) /* an untrusted file, damaged */
                return 0;
        if (full > d->fullest)
                d->fullest = full;
        for (; tail < head; tail++) {
                count_record(d, &ring->records[tail & (records - 1)]);
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
        uint32_t rings =
                atomic_load_explicit(&d->h->areas[CAPO_AREA_RINGS].used, memory_order_acquire);
        uint32_t slots =
                atomic_load_explicit(&d->h->areas[CAPO_AREA_SLOTS].used, memory_order_acquire);
        unsigned n = 0;

        d->fullest = 0;
        for (uint32_t i = 0; i < rings; i++)
                n += ring_take(d, capo_area_at(d->seg, CAPO_AREA_RINGS, i));
        for (uint32_t i = 0; i < slots; i++) {
                struct capo_slot *slot = capo_area_at(d->seg, CAPO_AREA_SLOTS, i);

                if (atomic_load_explicit(&slot->state, memory_order_acquire) == CAPO_SLOT_DONE) {
                        count_record(d, &slot->record);
                        atomic_store_explicit(&slot->state, CAPO_SLOT_FREE, memory_order_release);
                        blocks_when_full(d);
                        n++;
                }
        }
        return n;
}

/* Everything that describes; the frames of a failed flush are said again by the next. */
static int write_descriptions(struct capo_drain *d, unsigned clean)
{
        d->again = d->out.resync; /* failures from here on are for the next time */
        d->out.resync = false;
        describe_texts(d);
        comms_write(d);
        sites_write(d);
        capo_cells_write(&d->cells, &d->out, d->again);
        if (d->h->trace_all) {
                if (d->again)
                        capo_flight_restart(&d->flight);
                capo_flight_write(&d->flight, d->out.done.flight_tail, d->h->flight_head);
        }
        describe_end(d, clean);
        d->again = false;
        return capo_output_flush(&d->out);
}

/* Either all frames since @mark are in the file, or none is and all will be written again. */
static int settle_output(struct capo_drain *d, const struct capo_output_mark *mark, int r)
{
        if (r == 0 && capo_output_lost(&d->out, mark)) /* only the last of it found room */
                r = -ENOSPC;
        if (r < 0)
                capo_output_back(&d->out, mark);
        return r;
}

int capo_drain_text(struct capo_drain *d)
{
        const struct capo_output_mark mark = capo_output_mark(&d->out);

        describe_texts(d);
        return settle_output(d, &mark, capo_output_flush(&d->out));
}

int capo_drain_checkpoint(struct capo_drain *d)
{
        const struct capo_output_mark mark = capo_output_mark(&d->out);

        return settle_output(d, &mark, write_descriptions(d, 0));
}

int capo_drain_finish(struct capo_drain *d, unsigned clean)
{
        const struct capo_output_mark mark = capo_output_mark(&d->out);
        uint32_t status;
        int r;

        if (!d->h->trace_all) {
                uint64_t head = d->h->flight_head, first = d->out.done.flight_tail;

                if (head - first > d->h->flight_keep)
                        first = head - d->h->flight_keep;
                if (d->out.resync)
                        capo_flight_restart(&d->flight);
                capo_flight_write(&d->flight, first, head);
        }
        if (clean == 2) /* newer than what the log has, and older than what waits in the text area,
                           if anything does */
                describe_kept(d);
        if (d->n_unfinished)
                capo_output_frame(&d->out, CAPO_FRAME_INFO, d->unfinished, d->n_unfinished, NULL,
                                  0);
        if (clean && (status = atomic_load(&d->h->exit_status)))
                put_info(d, "%s\t%u\n", CAPO_INFO_EXIT, status - 1);
        r = settle_output(d, &mark, write_descriptions(d, clean));
        if (r == 0)
                r = d->goes_on ? capo_log_flush(&d->out.log)
                               : capo_log_finish(&d->out.log, d->taken_over);
        if (r < 0)
                capo_output_back(&d->out, &mark);
        return r;
}

void capo_drain_goes_on(struct capo_drain *d) { d->goes_on = true; }

static void count_host(enum capo_unfinished_where where, const struct capo_record *r, void *n)
{
        *(unsigned *)n += where == CAPO_UNFINISHED_HOST;
}

bool capo_drain_near_max(const struct capo_drain *d)
{
        return d->h->log_max && d->out.log.file_bytes >= d->h->log_max / 4 * 3;
}

bool capo_drain_quiet(const struct capo_drain *d)
{
        uint32_t rings =
                atomic_load_explicit(&d->h->areas[CAPO_AREA_RINGS].used, memory_order_acquire);
        unsigned under_way = 0;

        for (uint32_t i = 0; i < rings; i++) {
                const struct capo_ring *ring = capo_area_at(d->seg, CAPO_AREA_RINGS, i);

                if (atomic_load_explicit(&ring->head, memory_order_acquire) != ring->tail)
                        return false;
        }
        capo_unfinished_each(d->seg, count_host, &under_way);
        return !under_way && count_dropped(d) == d->dropped;
}

int capo_drain_create_log(struct capo_drain *d) { return capo_output_create(&d->out); }

void capo_drain_into(struct capo_drain *d, int fd)
{
        d->out.log.fd = fd;
        d->out.log.nameless = true;
}

int capo_drain_take_over(struct capo_drain *d)
{
        struct capo_segment_header *h = d->h;
        int r;

        /* killed in its first millisecond, or damaged: the counter is still this machine's */
        if (!(h->clock.ns_per_tick > 1e-6 && h->clock.ns_per_tick < 1e6)) {
                struct capo_timebase own;

                capo_clock_init(&own);
                capo_clock_ready(&own);
                h->clock.ns_per_tick = own.ns_per_tick;
        }
        d->n_unfinished = capo_unfinished(d->seg, d->unfinished, sizeof d->unfinished);
        r = capo_output_take_over(&d->out);
        if (r == 0)
                capo_cells_know(&d->cells);
        d->taken_over = true;
        for (uint32_t i = 0; i < h->areas[CAPO_AREA_SLOTS].used;
             i++) { /* their GPU time went with the process */
                struct capo_slot *slot = capo_area_at(d->seg, CAPO_AREA_SLOTS, i);

                if (slot->state == CAPO_SLOT_ARMED) {
                        slot->record.clock = slot->record.flags & CAPO_RECORD_MEMBER
                                                     ? CAPO_CLOCK_NONE
                                                     : CAPO_CLOCK_HOST;
                        slot->record.gpu_ns = 0;
                        slot->state = CAPO_SLOT_DONE;
                }
        }
        return r;
}
