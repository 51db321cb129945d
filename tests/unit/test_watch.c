/* SPDX-License-Identifier: Apache-2.0 */
/* When calls that are under way make a hang. The clock is the test's own. */
#include "shim/record/watch.h"
#include "tests/unit/one_ring.h"
#include "tests/log_numbers.h"

#define SECOND UINT64_C(1000000000)

static struct capo_watch watch;
static uint64_t now = 1000 * SECOND, ticks = 1;

static void begin(void)
{
        one_ring();
        capo_watch_init(&watch, 100 * SECOND);
}

TestSuite(watch, .init = begin);

/* The thread enters its next call. */
static struct capo_record *enter(void)
{
        struct capo_record *r = &ring->records[ring->head % RING];

        *r = (struct capo_record){
                .t_begin = ++ticks, .comm = 2, .thread = 7, .call = CAPO_CALL_ALLREDUCE};
        r->seq = (uint32_t)ring->head + 1;
        return r;
}

static void leave(void)
{
        ring->records[ring->head % RING].t_end = ++ticks;
        ring->head++;
}

static struct capo_slot *on_gpu(unsigned i, enum capo_slot_state state, uint64_t at, uint16_t comm)
{
        struct capo_slot *s = capo_area_at(&seg, CAPO_AREA_SLOTS, i);

        s->record = (struct capo_record){.t_begin = at,
                                         .t_end = at + 1,
                                         .seq = i,
                                         .comm = comm,
                                         .call = CAPO_CALL_BROADCAST};
        s->state = state;
        return s;
}

/* Checks for so long, twenty a second; the seconds until a hang was reported, -1 none. */
static int checks(unsigned seconds)
{
        int found = -1;

        for (unsigned i = 0; i < 20 * seconds; i++) {
                now += SECOND / 20;
                if (capo_watch_check(&watch, &seg, now)) {
                        cr_assert_eq(found, -1, "told twice");
                        found = (int)(i / 20);
                }
        }
        return found;
}

static void in_time(int found) { cr_assert(found >= 100 && found <= 103, "%d", found); }

Test(watch, an_idle_job_is_none)
{
        cr_assert_eq(checks(300), -1);
        enter();
        leave();
        cr_assert_eq(checks(300), -1);
}

Test(watch, a_call_that_stands)
{
        const struct capo_stand *s;

        cr_assert_eq(checks(50), -1);
        enter();
        cr_assert_eq(checks(99), -1);
        for (s = NULL; !s; now += SECOND / 20)
                s = capo_watch_check(&watch, &seg, now);
        cr_assert_eq(s->call, CAPO_CALL_ALLREDUCE);
        cr_assert_eq(s->seq, 1);
        cr_assert_eq(s->comm, 2);
        cr_assert_eq(s->where, CAPO_UNFINISHED_HOST);
}

Test(watch, once_per_hang)
{
        enter();
        in_time(checks(400));
        cr_assert_eq(checks(1000), -1);
        leave();
        cr_assert_eq(checks(200), -1);
        enter();
        in_time(checks(400));
}

/* What comes to stand while the first call still does is of its hang. */
Test(watch, more_that_stand)
{
        enter();
        in_time(checks(150));
        on_gpu(1, CAPO_SLOT_ARMED, 5, 3);
        cr_assert_eq(checks(300), -1);
        leave(); /* but what then still stands was not reported: it is another one */
        cr_assert_eq(checks(5), 0);
        cr_assert_eq(checks(300), -1);
}

/* It stood in the caller, then on the GPU: one call, one line. */
Test(watch, a_call_that_goes_on_to_stand_elsewhere)
{
        struct capo_record *r = enter();
        struct capo_slot *s;

        in_time(checks(150));
        leave();
        s = on_gpu(1, CAPO_SLOT_ARMED, 5, 3);
        s->record = *r;
        cr_assert_eq(checks(300), -1);
}

/* A call after the other, each nearly as long as the limit. */
Test(watch, slow_is_no_hang)
{
        for (int i = 0; i < 20; i++) {
                enter();
                cr_assert_eq(checks(90), -1);
                leave();
        }
}

Test(watch, on_the_gpu)
{
        on_gpu(0, CAPO_SLOT_DONE, 3, 1);
        on_gpu(1, CAPO_SLOT_ARMED, 5, 1);
        on_gpu(2, CAPO_SLOT_ARMED, 6, 1);
        cr_assert_eq(checks(80), -1);
        on_gpu(1, CAPO_SLOT_FREE, 5, 1); /* the oldest ended: progress */
        cr_assert_eq(checks(80), -1);
        in_time(checks(100) + 80);
}

/* A group in the making moves with each member. */
Test(watch, an_open_group)
{
        for (int i = 0; i < 5; i++) {
                struct capo_record *r = &ring->records[i];

                *r = (struct capo_record){
                        .t_begin = ++ticks, .comm = 2, .thread = 7, .call = CAPO_CALL_ALLREDUCE};
                r->t_end = ++ticks;
                r->flags = CAPO_RECORD_MEMBER;
                cr_assert_eq(checks(60), -1);
        }
        in_time(checks(100) + 60);
}

/* A process that is stopped, or a machine asleep, has not watched. */
Test(watch, stopped_time_does_not_count)
{
        enter();
        cr_assert_eq(checks(10), -1);
        now += 100000 * SECOND;
        cr_assert_eq(checks(80), -1);
        now += 100000 * SECOND;
        in_time(checks(100) + 90 + 4);
}

Test(watch, nobody_watches)
{
        capo_watch_init(&watch, 0);
        enter();
        cr_assert_eq(checks(1000), -1);
}

Test(watch, more_calls_than_are_followed)
{
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_RINGS, 70), 0);
        seg.header->areas[CAPO_AREA_RINGS].used = 70;
        for (unsigned i = 0; i < 70; i++) {
                struct capo_ring *r = capo_area_at(&seg, CAPO_AREA_RINGS, i);

                r->records[0] = (struct capo_record){
                        .t_begin = 2, .thread = (uint16_t)i, .call = CAPO_CALL_ALLREDUCE};
        }
        in_time(checks(400));
        cr_assert_eq(watch.n, CAPO_WATCH_STANDS);
}

/* One frame at 30 s, in case the job does not live to the limit. */
Test(watch, the_first_frame_comes_early)
{
        unsigned early = 0;

        checks(10);
        enter();
        for (unsigned i = 0; i < 20 * 90; i++) {
                now += SECOND / 20;
                cr_assert_eq(capo_watch_check(&watch, &seg, now), NULL);
                early += watch.early != NULL;
                cr_assert(!watch.early || (i / 20 >= 30 && i / 20 <= 33), "%u", i / 20);
        }
        cr_assert_eq(early, 1);
}

/* None of its calls is timed: the GPU was asked about its stream. */
Test(watch, a_quiet_communicator_on_a_busy_stream)
{
        struct capo_seg_comm *c;
        struct capo_record *r;

        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_COMMS, 2), 0);
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_FLIGHT, 64), 0);
        seg.header->areas[CAPO_AREA_COMMS].used = 2;
        c = capo_area_at(&seg, CAPO_AREA_COMMS, 1);
        c->log.id = 2;
        r = capo_area_at(&seg, CAPO_AREA_FLIGHT, 0);
        *r = (struct capo_record){
                .t_begin = 9, .t_end = 10, .seq = 4, .comm = 2, .call = CAPO_CALL_ALLGATHER};
        seg.header->flight_head = 1;
        cr_assert_eq(checks(300), -1);
        atomic_store(&c->gpu, CAPO_COMM_IDLE);
        cr_assert_eq(checks(300), -1);
        atomic_store(&c->gpu, CAPO_COMM_BUSY);
        in_time(checks(300));
        cr_assert_eq(watch.stands[0].call, CAPO_CALL_ALLGATHER);
        cr_assert_eq(watch.stands[0].where, CAPO_UNFINISHED_BUSY);
        c->log.t_destroyed = 11; /* destroyed */
        checks(10);
        cr_assert_eq(watch.n, 0);
}

static struct capo_seg_comm *busy_comm(unsigned id, uint32_t stream, uint64_t t_begin, uint32_t seq)
{
        struct capo_seg_comm *c = capo_area_at(&seg, CAPO_AREA_COMMS, id - 1);
        struct capo_record *r = capo_area_at(&seg, CAPO_AREA_FLIGHT, seg.header->flight_head);

        c->log.id = (uint16_t)id;
        c->gpu = CAPO_COMM_BUSY;
        *r = (struct capo_record){.t_begin = t_begin,
                                  .t_end = t_begin + 1,
                                  .seq = seq,
                                  .comm = (uint16_t)id,
                                  .stream = stream,
                                  .call = CAPO_CALL_ALLREDUCE};
        seg.header->flight_head++;
        return c;
}

static const struct capo_stand *first_hang(void)
{
        const struct capo_stand *s = NULL;

        for (int i = 0; i < 20 * 400 && !s; i++) {
                now += SECOND / 20;
                s = capo_watch_check(&watch, &seg, now);
        }
        return s;
}

static void two_comms(void)
{
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_COMMS, 2), 0);
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_FLIGHT, 64), 0);
        seg.header->areas[CAPO_AREA_COMMS].used = 2;
}

/* The kept calls are in the order in which they were drained, and timed ones come late. */
Test(watch, the_last_call_is_the_one_that_began_last)
{
        two_comms();
        busy_comm(2, 7, 90, 41);
        busy_comm(2, 7, 80, 37);
        cr_assert_eq(first_hang()->seq, 41);
}

/* Both communicators use one stream: only the later call is known to stand. */
Test(watch, of_a_shared_stream_the_later_call_is_named)
{
        two_comms();
        busy_comm(1, 7, 20, 1);
        busy_comm(2, 7, 90, 31);
        cr_assert_eq(first_hang()->seq, 31);
}

/* A stream that is busy says less than a call whose events were asked. */
Test(watch, a_call_that_is_timed_is_named_before_a_busy_stream)
{
        two_comms();
        busy_comm(1, 7, 20, 5);
        on_gpu(3, CAPO_SLOT_ARMED, 30, 2);
        cr_assert_eq(first_hang()->seq, 3);
}
