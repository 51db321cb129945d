/* SPDX-License-Identifier: Apache-2.0 */
#include "capo/call_ids.h"
#include "core/base/calls.h"
#include "core/log/hang_frame.h"
#include "core/log/segment_calls.h"
#include "core/log/unfinished.h"

enum { LAST = 128 }; /* so many of the last calls are written, and as many that wait on GPUs */

/* As capo_unfinished() says it, and then what only a call that has returned has. */
static size_t put_last(const struct capo_segment_header *h, const char *key,
                       const struct capo_record *r, char *text, size_t room)
{
        uint64_t begin = capo_clock_ns(&h->clock, r->t_begin),
                 end = capo_clock_ns(&h->clock, r->t_end);

        if (!r->call || r->call >= CAPO_CALLS) /* a hole in what a dead process left */
                return 0;
        return capo_info_put(text, room, key,
                             "%u %s %u %u %" PRIu64 " %" PRIu64 " %u %u %d %u %" PRIu64
                             " %u %u %d %u %u",
                             r->thread, capo_call_name(r->call), r->seq, r->comm, r->bytes, begin,
                             r->type, r->op, r->peer, r->stream, end > begin ? end - begin : 0,
                             r->group, r->flags, r->result, r->clock, r->site);
}

/* Calls that the GPU was not seen to end are with their events, not yet among the last ones. */
CAPO_UNSANITIZED static size_t put_enqueued(const struct capo_segment *seg, char *text, size_t room)
{
        const struct capo_segment_header *h = seg->header;
        unsigned written = 0;
        size_t n = 0;

        for (uint32_t i = 0; i < h->areas[CAPO_AREA_SLOTS].used && written < LAST; i++) {
                const struct capo_slot *slot = capo_area_at(seg, CAPO_AREA_SLOTS, i);
                struct capo_record r;

                if (slot->state != CAPO_SLOT_ARMED)
                        continue;
                r = slot->record;
                r.clock = r.flags & CAPO_RECORD_MEMBER ? CAPO_CLOCK_NONE : CAPO_CLOCK_HOST;
                n += put_last(h, CAPO_HANG_KEY_ENQUEUED, &r, text + n, room - n);
                written++;
        }
        return n;
}

size_t capo_hang_text_python(char *text, size_t room, unsigned nth, const char *frame)
{
        enum { MOST = CAPO_HANG_LINE - 32 };
        size_t n = strlen(frame);

        for (frame += n > MOST ? n - MOST : 0; (*frame & 0xc0) == 0x80;
             frame++) /* not within a character */
                ;
        return capo_info_put(text, room, CAPO_HANG_KEY_PYTHON, "%u %s", nth, frame);
}

size_t capo_hang_text_thread(char *text, size_t room, int tid, const char *wait, const char *name)
{
        return capo_info_put(text, room, CAPO_HANG_KEY_THREAD, "%d %s %s", tid, *wait ? wait : "-",
                             name);
}

size_t capo_hang_text_native(char *text, size_t room, int tid, const char *frame)
{
        return capo_info_put(text, room, CAPO_HANG_KEY_NATIVE, "%d %s", tid, frame);
}

size_t capo_hang_text_write(const struct capo_segment *seg, struct capo_hang_text *t, char *text,
                            size_t room)
{
        const struct capo_segment_header *h = seg->header;
        uint64_t head = atomic_load_explicit(&h->flight_head, memory_order_relaxed);
        uint64_t keep = h->flight_keep < LAST ? h->flight_keep : LAST,
                 first = head > keep ? head - keep : 0;
        size_t n = 0;

        t->at_ns = capo_clock_ns(&h->clock, h->clock.now_ticks);
        t->calls = h->calls;
        n += capo_info_put(text + n, room - n, CAPO_HANG_KEY_AT, "%" PRIu64, t->at_ns);
        n += capo_info_put(text + n, room - n, CAPO_HANG_KEY_SINCE, "%" PRIu64,
                           t->since_ns < t->at_ns ? t->since_ns : t->at_ns);
        n += capo_info_put(text + n, room - n, CAPO_HANG_KEY_CALLS, "%" PRIu64, t->calls);
        n += capo_info_put(text + n, room - n, CAPO_HANG_KEY_NTH, "%u", t->nth);
        n += capo_unfinished(seg, text + n, room - n);
        n += put_enqueued(seg, text + n, room - n);
        if (first < head && (head - first) * CAPO_HANG_LINE > room - n)
                first = head - (room - n) / CAPO_HANG_LINE;
        for (uint64_t i = first; i < head; i++)
                n += put_last(h, CAPO_HANG_KEY_LAST,
                              capo_area_at(seg, CAPO_AREA_FLIGHT, i & (h->flight_records - 1)),
                              text + n, room - n);
        return n;
}
