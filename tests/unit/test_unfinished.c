/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that a dead process was in, found from what a ring still has of its last round. */
#include <stdlib.h>
#include <string.h>

#include "capo/call_ids.h"
#include "core/log/unfinished.h"
#include "tests/unit/one_ring.h"

TestSuite(unfinished, .init = one_ring);

/* The @n-th call of the thread: from 1000 n on; @took < 0: it did not return. */
static struct capo_record *call(uint64_t n, int took)
{
        struct capo_record *r = &ring->records[n % RING];
        uint64_t before = r->t_end;

        *r = (struct capo_record){.t_begin = 1000 * n,
                                  .t_end = took < 0 ? before : 1000 * n + (uint64_t)took,
                                  .bytes = 8,
                                  .seq = (uint32_t)n,
                                  .comm = 2,
                                  .thread = 7,
                                  .call = CAPO_CALL_ALLREDUCE};
        return r;
}

static void published(uint64_t n)
{
        for (uint64_t i = 1; i <= n; i++)
                call(i - 1, 10);
        ring->head = n;
}

static void says(const char *expected)
{
        char text[4096] = "";

        cr_assert_eq(capo_unfinished(&seg, text, sizeof text - 1), strlen(expected), "%s", text);
        cr_assert_str_eq(text, expected);
}

Test(unfinished, nothing_at_all) { says(""); }

Test(unfinished, between_calls)
{
        published(10);
        says("");
        published(RING);
        says("");
        published(3 * RING + 5); /* the one at the head is of the last round */
        says("");
}

Test(unfinished, the_first_call)
{
        call(0, -1)->t_begin = 5;
        says("unfinished+\thost 7 AllReduce 0 2 8 5 0 0 0 0\n");
}

Test(unfinished, in_a_call)
{
        published(10);
        call(10, -1);
        says("unfinished+\thost 7 AllReduce 10 2 8 10000 0 0 0 0\n");
}

Test(unfinished, in_a_call_of_a_later_round)
{
        published(3 * RING + 5);
        call(3 * RING + 5, -1);
        says("unfinished+\thost 7 AllReduce 197 2 8 197000 0 0 0 0\n");
}

Test(unfinished, returned_but_not_published)
{
        published(RING);
        call(RING, 0);
        says("");
}

Test(unfinished, a_group_that_had_not_ended)
{
        published(RING);
        call(RING, 10)->flags = CAPO_RECORD_MEMBER;
        call(RING + 1, 10); /* a communicator made meanwhile */
        call(RING + 2, 10)->flags = CAPO_RECORD_MEMBER;
#define MEMBERS                                                  \
        "unfinished+\tmember 7 AllReduce 64 2 8 64000 0 0 0 0\n" \
        "unfinished+\tmember 7 AllReduce 66 2 8 66000 0 0 0 0\n"
        says(MEMBERS "unfinished+\tgroup 7 AllReduce 66 2 8 66000 0 0 0 0\n");
        call(RING + 3, -1);
        says(MEMBERS "unfinished+\thost 7 AllReduce 67 2 8 67000 0 0 0 0\n");
        call(RING + 3, -1)->t_end = UINT64_MAX;
        ring->closing = 70000;
        ring->thread = 7;
        says(MEMBERS "unfinished+\tends 7 Group 0 0 0 70000 255 255 -1 0\n"
                     "unfinished+\tgroup 7 AllReduce 66 2 8 66000 0 0 0 0\n");
}

static void slot(unsigned i, enum capo_slot_state state, uint32_t seq)
{
        struct capo_slot *s = capo_area_at(&seg, CAPO_AREA_SLOTS, i);

        s->state = state;
        s->record = *call(seq, 10);
}

Test(unfinished, the_oldest_on_the_gpu)
{
        slot(0, CAPO_SLOT_DONE, 1);
        slot(1, CAPO_SLOT_ARMED, 5);
        slot(2, CAPO_SLOT_ARMED, 4);
        slot(3, CAPO_SLOT_TAKEN, 2);
        ring->head = 20;
        says("unfinished+\trunning 7 AllReduce 4 2 8 4000 0 0 0 0\n"
             "unfinished+\tgpu 7 AllReduce 4 2 8 4000 0 0 0 0\n");
        slot(0, CAPO_SLOT_ARMED, 6);
        ((struct capo_slot *)capo_area_at(&seg, CAPO_AREA_SLOTS, 0))->record.comm = 3;
        says("unfinished+\trunning 7 AllReduce 4 2 8 4000 0 0 0 0\n"
             "unfinished+\trunning 7 AllReduce 6 3 8 6000 0 0 0 0\n"
             "unfinished+\tgpu 7 AllReduce 4 2 8 4000 0 0 0 0\n");
}

Test(unfinished, damage_and_no_room)
{
        char text[20];

        published(10);
        call(10, -1)->call = CAPO_CALLS;
        says("");
        call(10, -1);
        cr_assert_eq(capo_unfinished(&seg, text, sizeof text), 0);
        ring->head = UINT64_MAX - 3;
        capo_unfinished(&seg, text, sizeof text);
}

Test(unfinished, what_is_written_is_read)
{
        struct capo_unfinished_call u;
        char text[200] = "";
        struct capo_record *r;

        published(10);
        r = call(10, -1);
        r->type = 7;
        r->op = 2;
        r->peer = -1;
        r->stream = 99;
        text[capo_unfinished(&seg, text, sizeof text - 1)] = 0;
        cr_assert(capo_unfinished_read(strchr(text, '\t') + 1, &u));
        cr_assert(u.where == CAPO_UNFINISHED_HOST && u.record.call == CAPO_CALL_ALLREDUCE &&
                  u.record.seq == 10 && u.record.comm == 2 && u.record.bytes == 8 &&
                  u.record.t_begin == 10000 && u.record.type == 7 && u.record.op == 2 &&
                  u.record.peer == -1 && u.record.stream == 99 && u.record.thread == 7);
        cr_assert(capo_unfinished_read("gpu 1 Send 5 9 4096 77", &u)); /* as logs had it before */
        cr_assert(u.where == CAPO_UNFINISHED_GPU && u.record.peer == -1 && u.record.type == 255);
        cr_assert(!capo_unfinished_read("host 1 Nothing 5 9 4096 77", &u));
        cr_assert(!capo_unfinished_read("there 1 Send 5 9 4096 77", &u));
        cr_assert(!capo_unfinished_read("host 1 Send 5 9", &u));
}
