/* SPDX-License-Identifier: Apache-2.0 */
/* Text on its way into the log: through the segment, where a kill finds it. Contracts: shim.h. */
#include <sys/mman.h>

#include "capo/frame_types.h"
#include "core/log/info.h"
#include "shim/record/start.h"

#define TEXT_PIECE 32768u

static void text_put(uint64_t at, const void *from, size_t n)
{
        char *text = capo_area_at(&capo_seg, CAPO_AREA_TEXT, 0);
        uint32_t size = capo_seg.header->areas[CAPO_AREA_TEXT].capacity;

        for (size_t i = 0; i < n; i++)
                text[(at + i) % size] = ((const char *)from)[i];
}

static bool piece_put(unsigned type, const char *text, uint32_t size)
{
        struct capo_segment_header *h = capo_seg.header;
        struct capo_area *area = &h->areas[CAPO_AREA_TEXT];
        uint32_t head[2] = {type, size};
        uint64_t end;
        bool room;

        capo_lock(&capo_seg.lock);
        end = h->text_head + sizeof head + ((size + 7) & ~7u);
        room = capo_area_commit(&capo_seg, CAPO_AREA_TEXT,
                                end < area->capacity ? (uint32_t)end : area->capacity) == 0 &&
               h->text_head + 8 + size + 8 -
                               atomic_load_explicit(&h->text_tail, memory_order_acquire) <=
                       area->capacity;
        if (room) {
                text_put(h->text_head, head, sizeof head);
                text_put(h->text_head + sizeof head, text, size);
                atomic_store_explicit(&h->text_head, h->text_head + 8 + ((size + 7) & ~7u),
                                      memory_order_release);
        } else {
                atomic_fetch_add(&h->text_lost, size);
        }
        capo_unlock(&capo_seg.lock);
        return room;
}

void capo_shim_text_early(unsigned type, const char *text, size_t size)
{
        while (size > 0) { /* large texts go in pieces of whole lines */
                size_t n = size;

                if (n > TEXT_PIECE) {
                        const char *end = memrchr(text, '\n', TEXT_PIECE);

                        n = end ? (size_t)(end + 1 - text) : TEXT_PIECE;
                }
                if (!piece_put(type, text, (uint32_t)n))
                        return;
                text += n;
                size -= n;
        }
}

void capo_shim_text(unsigned type, const char *text, size_t size)
{
        if (atomic_load(&capo_life.state) >= CAPO_SHIM_ON && capo_seg.header)
                capo_shim_text_early(type, text, size);
}

/* ---- text that replaces itself ---- */

static struct {
        uint32_t half, size; /* half under construction: 1 or 2; 0 it did not fit */
} keeping;

void capo_shim_keep_begin(void)
{
        keeping.half = 0;
        if (atomic_load(&capo_life.state) < CAPO_SHIM_ON || !capo_seg.header)
                return;
        keeping.half =
                atomic_load_explicit(&capo_seg.header->kept_now, memory_order_relaxed) == 1 ? 2 : 1;
        keeping.size = 0;
}

void capo_shim_keep(unsigned type, const char *text, size_t size)
{
        uint32_t head[2] = {type, (uint32_t)size};
        size_t at = (keeping.half - 1) * CAPO_KEPT_HALF + keeping.size,
               whole = sizeof head + ((size + 7) & ~(size_t)7);
        char *to;
        int r;

        if (!keeping.half)
                return;
        capo_lock(&capo_seg.lock);
        r = keeping.size + whole <= CAPO_KEPT_HALF
                    ? capo_area_commit(&capo_seg, CAPO_AREA_KEPT, (uint32_t)(at + whole))
                    : -ENOSPC;
        capo_unlock(&capo_seg.lock);
        if (r < 0) {
                keeping.half = 0;
                return;
        }
        to = capo_area_at(&capo_seg, CAPO_AREA_KEPT, at);
        memcpy(to, head, sizeof head);
        memcpy(to + sizeof head, text, size);
        keeping.size += (uint32_t)whole;
}

void capo_shim_keep_end(void)
{
        if (!keeping.half)
                return;
        capo_seg.header->kept_size[keeping.half - 1] = keeping.size;
        atomic_store_explicit(&capo_seg.header->kept_now, keeping.half, memory_order_release);
}

void capo_shim_info(const char *key, const char *format, ...)
{
        enum { ROOM = 4096 };
        char *line = capo_shim_alloc(ROOM); /* the job's stack may be small */
        va_list args;
        size_t n;

        if (!line)
                return;
        va_start(args, format);
        n = capo_info_print(line, ROOM, key, format, args);
        va_end(args);
        if (n)
                capo_shim_text(CAPO_FRAME_INFO, line, n);
        munmap(line, ROOM);
}
