/* SPDX-License-Identifier: Apache-2.0 */
/* The places of areas in the file of a segment, and the pieces in which they are mapped. */
#include <sys/mman.h>

#include "core/base/util.h"
#include "core/log/segment.h"
#include "core/log/segment_calls.h"

#define STEP 16384u /* taken at once, where pages are not larger; the first of it page by page */

uint64_t capo_round_up(uint64_t v, uint64_t to) { return (v + to - 1) / to * to; }

uint32_t capo_ring_records(const struct capo_segment_header *h, const struct capo_ring *ring)
{
        uint32_t n = ring->size;

        return n && n <= h->ring_records && !(n & (n - 1)) ? n : 0;
}

uint64_t capo_ring_bytes(uint64_t records)
{
        return sizeof(struct capo_ring) + records * sizeof(struct capo_record);
}

uint64_t capo_step_end(uint64_t bytes)
{
        uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

        return capo_round_up(bytes, page > STEP || bytes <= STEP ? page : STEP);
}

static uint32_t power_of_two(uint64_t v, uint32_t least, uint32_t most)
{
        uint32_t p = least;

        while (p < v && p < most)
                p *= 2;
        return p;
}

void capo_segment_lay_out(struct capo_segment_header *h, const struct capo_segment_config *config)
{
        static const struct {
                uint32_t item, capacity;
        } fixed[CAPO_AREAS] = {
                [CAPO_AREA_COMMS] = {sizeof(struct capo_seg_comm), 65535},
                [CAPO_AREA_SITES] = {sizeof(struct capo_seg_site), 16384},
                [CAPO_AREA_CELLS] = {sizeof(struct capo_seg_cell), 65535},
                [CAPO_AREA_HISTS] = {sizeof(struct capo_seg_hist), 8192},
                [CAPO_AREA_SLOTS] = {sizeof(struct capo_slot),
                                     2048}, /* 1024 for events, 1024 for kernel stamps */
                [CAPO_AREA_TEXT] = {1, 256 << 10},
                [CAPO_AREA_KEPT] = {1, 2 * CAPO_KEPT_HALF},
        };
        uint64_t offset = capo_round_up(sizeof *h, CAPO_PIECE);

        h->trace_all = config->trace_all;
        h->log_max = config->log_max;
        h->ring_records =
                power_of_two(config->ring_bytes / sizeof(struct capo_record), 64, 1 << 20);
        h->flight_records =
                power_of_two(config->flight_records, config->trace_all ? 16384 : 64, 1 << 22);
        h->flight_keep = h->flight_records;
        if (!config->trace_all && config->flight_records < h->flight_keep)
                h->flight_keep = (uint32_t)config->flight_records;
        for (int i = 0; i < CAPO_AREAS; i++) {
                struct capo_area *a = &h->areas[i];

                a->item = fixed[i].item;
                a->capacity = fixed[i].capacity;
                if (i == CAPO_AREA_FLIGHT) {
                        a->item = sizeof(struct capo_record);
                        a->capacity = h->flight_records;
                } else if (i == CAPO_AREA_RINGS) {
                        a->item = capo_round_up(capo_ring_bytes(h->ring_records), CAPO_PIECE);
                        a->capacity = CAPO_SEGMENT_RINGS;
                }
                a->offset = offset;
                offset = capo_round_up(offset + a->item * a->capacity, CAPO_PIECE);
        }
        h->size = offset;
}

/* Text and areas that replace themselves are no arrays of items: one piece each. A long flight
 * recorder has larger pieces, so that their number stays small. */
static uint32_t piece_shift(const struct capo_segment_header *h, int id)
{
        const struct capo_area *a = &h->areas[id];
        uint32_t shift = 0;

        if (id == CAPO_AREA_RINGS)
                return 0;
        while (a->item << (shift + 1) <= CAPO_PIECE ||
               ((id == CAPO_AREA_TEXT || id == CAPO_AREA_KEPT || id == CAPO_AREA_FLIGHT) &&
                a->capacity >> shift > (id == CAPO_AREA_FLIGHT ? 256 : 1)))
                shift++;
        return shift;
}

static size_t count_pieces(const struct capo_segment_header *h, int id)
{
        uint32_t shift = piece_shift(h, id);

        return ((uint64_t)h->areas[id].capacity + (UINT64_C(1) << shift) - 1) >> shift;
}

size_t capo_pieces_table(const struct capo_segment_header *h)
{
        size_t n = 0;

        for (int i = 0; i < CAPO_AREAS; i++)
                n += count_pieces(h, i) * sizeof(char *);
        return n;
}

void *capo_map_own(size_t size)
{
        void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        return p == MAP_FAILED ? NULL : p;
}

/* Nothing is mapped yet. */
int capo_pieces_lay(struct capo_segment *seg, const struct capo_segment_header *h)
{
        char **table = capo_map_own(capo_pieces_table(h));

        if (!table)
                return -ENOMEM;
        for (int i = 0; i < CAPO_AREAS; i++) {
                seg->pieces[i] = (struct capo_pieces){
                        .at = table, .item = h->areas[i].item, .shift = piece_shift(h, i)};
                table += count_pieces(h, i);
        }
        return 0;
}

/* Bytes of the file that piece @nth has. */
size_t capo_piece_bytes(const struct capo_segment *seg, int id, size_t nth)
{
        const struct capo_area *a = &seg->header->areas[id];
        uint64_t all = capo_round_up(a->item * a->capacity, CAPO_PIECE),
                 size = a->item << seg->pieces[id].shift;

        if (id == CAPO_AREA_RINGS)
                return a->item;
        return size < all - nth * size ? size : all - nth * size;
}

int capo_segment_whole(struct capo_segment *seg, struct capo_segment_header *header, size_t size)
{
        *seg = (struct capo_segment){
                .header = header, .fd = -1, .whole = size, .lock = PTHREAD_MUTEX_INITIALIZER};
        if (capo_pieces_lay(seg, header) < 0)
                return -ENOMEM;
        for (int i = 0; i < CAPO_AREAS; i++) {
                uint64_t bytes = header->areas[i].item << seg->pieces[i].shift;

                for (size_t k = 0; k < count_pieces(header, i); k++)
                        seg->pieces[i].at[k] = (char *)header + header->areas[i].offset + k * bytes;
        }
        return 0;
}

static size_t ring_map_bytes(const struct capo_ring *ring)
{
        return capo_round_up(capo_ring_bytes(ring->size), (uint64_t)sysconf(_SC_PAGESIZE));
}

void capo_segment_unmap(struct capo_segment *seg)
{
        struct capo_segment_header *h = seg->header;
        size_t table = h ? capo_pieces_table(h) : 0;
        char **first = seg->pieces[0].at;

        if (!h)
                return;
        for (int i = 0; i < CAPO_AREAS && first && !seg->whole; i++) {
                for (size_t k = 0; k < count_pieces(h, i); k++) {
                        char *p = seg->pieces[i].at[k];

                        if (p)
                                munmap(p, i == CAPO_AREA_RINGS
                                                  ? ring_map_bytes((struct capo_ring *)p)
                                                  : capo_piece_bytes(seg, i, k));
                }
        }
        munmap(h, seg->whole ? seg->whole : capo_step_end(sizeof *h));
        if (first)
                munmap(first, table);
        seg->header = NULL;
        memset(seg->pieces, 0, sizeof seg->pieces);
}
