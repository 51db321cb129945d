/* SPDX-License-Identifier: Apache-2.0 */
/* A dead process's segment may be damaged: indexes are masked, numbers checked. */
#include "capo/call_ids.h"
#include "core/base/calls.h"
#include "core/log/info.h"
#include "core/log/unfinished.h"
#include "core/log/segment_calls.h"

struct lines {
        const struct capo_timebase *clock;
        char *text;
        size_t size, room;
};

/* The words of the log, by enum capo_unfinished_where. */
static const char *const wheres[CAPO_UNFINISHED_WHERES] = {
        "host", "member", "group", "ends", "running", "gpu", "busy", "idle", "ended", "lost"};

static void add_line(enum capo_unfinished_where where, const struct capo_record *r, void *arg)
{
        struct lines *l = arg;
        char key[32];

        snprintf(key, sizeof key, "%s+", CAPO_INFO_UNFINISHED);
        l->size += capo_info_put(l->text + l->size, l->room - l->size, key,
                                 "%s %u %s %u %u %llu %llu %u %u %d %u", wheres[where], r->thread,
                                 capo_call_name(r->call), r->seq, r->comm,
                                 (unsigned long long)r->bytes,
                                 (unsigned long long)capo_clock_ns(l->clock, r->t_begin), r->type,
                                 r->op, r->peer, r->stream);
}

/* What is found goes there: a copy of the record, since the thread may write on meanwhile. */
struct finder {
        capo_unfinished_fn found;
        void *arg;
};

/* What is said of a thread or a communicator, and of no call. */
static struct capo_record no_call(uint64_t t_begin)
{
        return (struct capo_record){
                .t_begin = t_begin, .peer = -1, .call = CAPO_CALL_GROUP, .type = 255, .op = 255};
}

/* The records behind the published ones of one thread. A living thread may be writing one, so it
 * can be read half written, as the header says, and no sanitizer checks these reads. */
CAPO_UNSANITIZED static void of_ring(const struct finder *f, const struct capo_segment *seg,
                                     const struct capo_ring *ring)
{
        const uint32_t records = capo_ring_records(seg->header, ring), mask = records - 1;
        const uint64_t head = ring->head, since = ring->closing, dropped_at = ring->dropped_at;
        struct capo_record of_thread, group = {0};
        uint64_t before = head && records ? ring->records[(head - 1) & mask].t_begin : 0;

        if (dropped_at) {
                of_thread = no_call(dropped_at);
                of_thread.thread = (uint16_t)ring->thread;
                f->found(CAPO_UNFINISHED_LOST, &of_thread, f->arg);
        }
        for (uint32_t i = 0; i < records; i++) {
                const struct capo_record r = ring->records[(head + i) & mask];

                if (r.call == CAPO_CALL_NONE || r.call >= CAPO_CALLS || r.t_begin <= before)
                        break; /* from the ring's last round */
                if (r.t_end < r.t_begin) {
                        f->found(CAPO_UNFINISHED_HOST, &r, f->arg);
                        return;
                }
                if (r.flags & CAPO_RECORD_MEMBER) {
                        group = r;
                        f->found(CAPO_UNFINISHED_MEMBER, &r, f->arg);
                }
                before = r.t_begin;
        }
        if (since) {
                of_thread = no_call(since);
                of_thread.thread = (uint16_t)ring->thread;
                f->found(CAPO_UNFINISHED_ENDS, &of_thread, f->arg);
        }
        if (group.call)
                f->found(CAPO_UNFINISHED_GROUP, &group, f->arg);
}

/* The oldest of each communicator that waits for its GPU time, then the oldest of all. */
CAPO_UNSANITIZED static void of_slots(const struct finder *f, const struct capo_segment *seg)
{
        enum {
                COMMS = 64
        }; /* distinguished by the last bits of their numbers: of more, the older one of a pair */
        struct capo_record oldest = {0}, of[COMMS] = {{0}};

        for (uint32_t i = 0; i < seg->header->areas[CAPO_AREA_SLOTS].used; i++) {
                const struct capo_slot *slot = capo_area_at(seg, CAPO_AREA_SLOTS, i);
                struct capo_record r, *best;

                if (slot->state != CAPO_SLOT_ARMED)
                        continue;
                r = slot->record;
                best = &of[r.comm % COMMS];
                if (!r.call || r.call >= CAPO_CALLS)
                        continue;
                if (!best->call || r.t_begin < best->t_begin)
                        *best = r;
                if (!oldest.call || r.t_begin < oldest.t_begin)
                        oldest = r;
        }
        for (unsigned i = 0; i < COMMS; i++) {
                if (of[i].call)
                        f->found(CAPO_UNFINISHED_RUNNING, &of[i], f->arg);
        }
        if (oldest.call)
                f->found(CAPO_UNFINISHED_GPU, &oldest, f->arg);
}

/* Of communicator @comm, keep the call that began last. */
static void keep_later(const struct capo_record *r, uint16_t comm, struct capo_record *last)
{
        if (r->comm == comm && r->seq && r->call && r->call < CAPO_CALLS &&
            (!last->call || r->t_begin > last->t_begin))
                *last = *r;
}

/* The last call of communicator @comm among those that are kept; false: it is not there. Timed
 * calls reach the kept ones later than untimed ones, when the GPU has ended them. So the order
 * there is not that of the calls, and the slots have some more. */
CAPO_UNSANITIZED static bool find_last_call(const struct capo_segment *seg, uint16_t comm,
                                            struct capo_record *out)
{
        enum { LOOKED_AT = 2048 };
        const struct capo_segment_header *h = seg->header;
        uint64_t head = h->flight_head, most = h->flight_records;
        uint64_t first = head > most ? head - most : 0;

        *out = (struct capo_record){0};
        if (h->areas[CAPO_AREA_FLIGHT].committed < most)
                first = head > h->areas[CAPO_AREA_FLIGHT].committed ? head : 0;
        for (uint64_t i = head, looked = 0; i-- > first && (looked < LOOKED_AT || !out->call);
             looked++) {
                const struct capo_record r = *(struct capo_record *)capo_area_at(
                        seg, CAPO_AREA_FLIGHT, i & (h->flight_records - 1));

                keep_later(&r, comm, out);
        }
        for (uint32_t i = 0; i < h->areas[CAPO_AREA_SLOTS].used; i++) {
                const struct capo_slot *slot = capo_area_at(seg, CAPO_AREA_SLOTS, i);
                const struct capo_record r = slot->record;

                if (slot->state == CAPO_SLOT_ARMED)
                        keep_later(&r, comm, out);
        }
        return out->call;
}

/* What the GPU said of quiet communicators. */
CAPO_UNSANITIZED static void of_comms(const struct finder *f, const struct capo_segment *seg)
{
        for (uint32_t i = 0; i < seg->header->areas[CAPO_AREA_COMMS].used; i++) {
                const struct capo_seg_comm *c = capo_area_at(seg, CAPO_AREA_COMMS, i);
                struct capo_record r;

                if (c->log.t_destroyed || c->log.id != i + 1)
                        continue;
                if (c->ended_at) {
                        r = no_call(c->ended_at);
                        r.bytes = c->ended_ns;
                        r.seq = c->ended_seq;
                        r.stream = c->ended_stream;
                        r.comm = c->log.id;
                        f->found(CAPO_UNFINISHED_ENDED, &r, f->arg);
                }
                if (c->gpu == CAPO_COMM_BUSY && find_last_call(seg, c->log.id, &r)) {
                        f->found(CAPO_UNFINISHED_BUSY, &r, f->arg);
                } else if (c->gpu == CAPO_COMM_IDLE) {
                        r = no_call(c->log.t_created);
                        r.seq = c->gpu_seq;
                        r.peer = (int32_t)c->gpu_p2p_seq;
                        r.comm = c->log.id;
                        f->found(CAPO_UNFINISHED_IDLE, &r, f->arg);
                }
        }
}

void capo_unfinished_each(const struct capo_segment *seg, capo_unfinished_fn found, void *arg)
{
        const struct finder f = {found, arg};
        uint32_t rings = atomic_load_explicit(&seg->header->areas[CAPO_AREA_RINGS].used,
                                              memory_order_acquire);

        for (uint32_t i = 0; i < rings; i++)
                of_ring(&f, seg, capo_area_at(seg, CAPO_AREA_RINGS, i));
        of_slots(&f, seg);
        of_comms(&f, seg);
}

static void note_inside(enum capo_unfinished_where where, const struct capo_record *r, void *inside)
{
        *(bool *)inside |= where == CAPO_UNFINISHED_HOST || where == CAPO_UNFINISHED_ENDS;
}

bool capo_unfinished_inside(const struct capo_segment *seg, const struct capo_ring *ring)
{
        bool inside = false;

        of_ring(&(struct finder){note_inside, &inside}, seg, ring);
        return inside;
}

size_t capo_unfinished(const struct capo_segment *seg, char *text, size_t room)
{
        struct lines l = {.clock = &seg->header->clock, .text = text, .room = room};

        capo_unfinished_each(seg, add_line, &l);
        return l.size;
}

bool capo_unfinished_read(const char *line, struct capo_unfinished_call *out)
{
        unsigned thread, seq, comm, type = 255, op = 255, stream = 0;
        unsigned long long bytes, begin;
        char where[16], call[32];
        int peer = -1;

        if (sscanf(line, "%15s %u %31s %u %u %llu %llu %u %u %d %u", where, &thread, call, &seq,
                   &comm, &bytes, &begin, &type, &op, &peer, &stream) < 7 ||
            !capo_call_find(call))
                return false;
        for (enum capo_unfinished_where w = 0; w < CAPO_UNFINISHED_WHERES; w++) {
                if (!strcmp(where, wheres[w])) {
                        *out = (struct capo_unfinished_call){
                                .where = w,
                                .record = {.t_begin = begin,
                                           .bytes = bytes,
                                           .stream = stream,
                                           .seq = seq,
                                           .peer = peer,
                                           .comm = (uint16_t)comm,
                                           .call = (uint8_t)capo_call_find(call),
                                           .type = (uint8_t)type,
                                           .op = (uint8_t)op,
                                           .thread = (uint16_t)thread}};
                        return true;
                }
        }
        return false;
}
