/* SPDX-License-Identifier: Apache-2.0 */
/* See the header. The segment may be a stranger's, damaged: every index is masked, every number looked at. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/calls.h"
#include "core/log/info.h"
#include "core/log/unfinished.h"

struct lines {
        const struct capo_timebase *clock;
        char *text;
        size_t size, room;
};

static size_t print(char *line, size_t room, const char *format, ...) __attribute__((format(printf, 3, 4)));
static size_t print(char *line, size_t room, const char *format, ...)
{
        char key[32];
        va_list args;
        size_t n;

        snprintf(key, sizeof key, "%s+", CAPO_INFO_UNFINISHED);
        va_start(args, format);
        n = capo_info_print(line, room, key, format, args);
        va_end(args);
        return n;
}

static void add(struct lines *l, const char *where, const struct capo_record *r)
{
        char line[160];
        size_t n =
                print(line, sizeof line, "%s %u %s %u %u %llu %llu", where, r->thread, capo_call_name(r->call), r->seq,
                      r->comm, (unsigned long long)r->bytes, (unsigned long long)capo_clock_ns(l->clock, r->t_begin));

        if (l->size + n > l->room)
                return;
        memcpy(l->text + l->size, line, n);
        l->size += n;
}

/* What stands behind the published records of one thread. */
static void of_ring(struct lines *l, const struct capo_segment *seg, const struct capo_ring *ring)
{
        const uint32_t mask = seg->header->ring_records - 1;
        const uint64_t head = ring->head;
        const struct capo_record *group = NULL;
        uint64_t before = head ? ring->records[(head - 1) & mask].t_begin : 0;

        for (uint32_t i = 0; i <= mask; i++) {
                const struct capo_record *r = &ring->records[(head + i) & mask];

                if (r->call == CAPO_CALL_NONE || r->call >= CAPO_CALLS || r->t_begin <= before)
                        break; /* from the ring's last round */
                if (r->t_end < r->t_begin) {
                        add(l, "host", r);
                        return;
                }
                if (r->flags & CAPO_RECORD_MEMBER)
                        group = r;
                before = r->t_begin;
        }
        if (group)
                add(l, "group", group);
}

size_t capo_unfinished(const struct capo_segment *seg, char *text, size_t room)
{
        const struct capo_segment_header *h = seg->header;
        struct lines l = {.clock = &h->clock, .text = text, .room = room};
        const struct capo_record *oldest = NULL;

        for (uint32_t i = 0; i < h->areas[CAPO_AREA_RINGS].used; i++)
                of_ring(&l, seg, capo_area_at(seg, CAPO_AREA_RINGS, i));
        for (uint32_t i = 0; i < h->areas[CAPO_AREA_SLOTS].used; i++) {
                const struct capo_slot *slot = capo_area_at(seg, CAPO_AREA_SLOTS, i);

                if (slot->state == CAPO_SLOT_ARMED && slot->record.call && slot->record.call < CAPO_CALLS &&
                    (!oldest || slot->record.t_begin < oldest->t_begin))
                        oldest = &slot->record;
        }
        if (oldest)
                add(&l, "gpu", oldest);
        return l.size;
}
