/* SPDX-License-Identifier: Apache-2.0 */
/* Groups in a thread's ring (shim/record/record.c) and what plugins say of their members
 * (shim/nccl/seam.c). */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/ucontext.h>

#include "capo/seam.h"
#include "shim/nccl/tag.h"
#include "shim/record/recorder.h"
#include "tests/log_numbers.h"

#define RECORDS 16

static struct {
        struct capo_ring ring;
        struct capo_record records[RECORDS];
} memory;
static struct capo_comm comm = {.handle = &comm, .id = 3, .n_ranks = 2, .comm_hash = 77};
static struct capo_comm other = {.handle = &other, .id = 4, .n_ranks = 2, .comm_hash = 88};
static struct capo_tls *t;

static void setup(void)
{
        static struct capo_site_entry sites[CAPO_SITE_CACHE];
        struct capo_site_entry *e;

        t = &capo_tls;
        *t = (struct capo_tls){.ready = 1,
                               .ring = &memory.ring,
                               .mask = RECORDS - 1,
                               .no_larger = true, /* there is no segment */
                               .limit = UINT64_MAX,
                               .comm = &comm,
                               .thread = 9,
                               .sites = sites};
        e = capo_site_entry(t, &memory, &comm);
        *e = (struct capo_site_entry){&memory, &comm, 2};
}

TestSuite(group, .init = setup);

/* ---- a signal's handler ---- */

#ifdef __x86_64__
enum { TRAP_FLAG = 0x100 };
static unsigned steps, when, made, left_out;

/* As a wrapper does it, on either way. */
static __attribute__((noinline)) void wrapped(void)
{
        const struct capo_what what = {.count = 1, .type = 7, .op = 0, .peer = -1};
        struct capo_record *r;

        made++;
        if (capo_call_usual(t, comm.handle, &memory, &comm)) {
                r = capo_call_begin(t, &comm, NULL, CAPO_CALL_ALLREDUCE, &what, &memory, &comm);
        } else if (t->inside) {
                left_out++;
                return;
        } else {
                t->inside = &comm;
                atomic_signal_fence(memory_order_seq_cst);
                r = capo_call_begin_long(t, NULL, CAPO_CALL_ALLREDUCE, &what, &memory, &comm);
        }
        capo_call_end(t, r, capo_clock_ticks(), ncclSuccess, false, NULL);
}

static void step_taken(int signal_number, siginfo_t *info, void *context)
{
        ucontext_t *u = context;

        (void)signal_number;
        (void)info;
        if (steps++ != when)
                return;
        u->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
        wrapped();
}

/* What the compiler keeps in the other flags must not live across this. */
static __attribute__((noinline)) void step_by_step(bool on)
{
        unsigned long flags = __builtin_ia32_readeflags_u64();

        __builtin_ia32_writeeflags_u64(on ? flags | TRAP_FLAG : flags & ~(unsigned long)TRAP_FLAG);
        __asm__ volatile("" : : : "cc", "memory");
}

/* One that calls NCCL, at each instruction of a call, where the ring has room for one more: it is
 * not filled beyond its end. */
Test(group, a_handler_at_each_instruction)
{
        struct sigaction act = {.sa_sigaction = step_taken, .sa_flags = SA_SIGINFO};

        cr_assert_eq(sigaction(SIGTRAP, &act, NULL), 0);
        atomic_store(&capo_life.short_way, true);
        do {
                setup();
                t->head = RECORDS - 1;
                memory.ring.head = t->head;
                t->limit = RECORDS;
                memory.ring.dropped = 0;
                steps = made = left_out = 0;
                step_by_step(true);
                wrapped();
                step_by_step(false);
                cr_assert_leq(t->head, RECORDS, "a handler before instruction %u", when);
                cr_assert_eq(memory.ring.head, t->head);
                cr_assert_eq(t->head - (RECORDS - 1) + memory.ring.dropped + left_out, made, "%u",
                             when);
                cr_assert_null(t->inside);
        } while (steps > when++);
        cr_assert_gt(when, 20);
}
#endif

/* An AllReduce of @count floats on @c. */
static void call(struct capo_comm *c, uint64_t count, ncclResult_t result)
{
        const struct capo_what what = {.count = count, .type = 7, .op = 0, .peer = -1};
        struct capo_record *r;

        t->comm = c;
        r = capo_call_begin_long(t, t, CAPO_CALL_ALLREDUCE, &what, &memory, &comm);
        capo_call_end(t, r, r->t_begin + 10, result, false, t);
}

static void begin(void)
{
        capo_group_begin(t, 1000, 2);
        t->group_depth = 1;
}

static void end(bool captured, ncclResult_t result)
{
        t->group_depth = 0;
        capo_group_end(
                t, &(struct capo_group_gpu){.n = 1, .call = {{.slot = -1, .captured = captured}}},
                result, 5000);
}

static void ran(uint64_t hash, uint64_t count, uint8_t algo_proto)
{
        capo_seam->ran(&(struct capo_seam_ran){.comm_hash = hash,
                                               .count = count,
                                               .call = CAPO_CALL_ALLREDUCE,
                                               .algo_proto = algo_proto,
                                               .channels = 4});
}

/* As @ran(), by an interface that tells tags. */
static void ran_tagged(uint64_t count, uint8_t algo_proto, uint64_t tag)
{
        capo_seam->ran(&(struct capo_seam_ran){.comm_hash = 77,
                                               .count = count,
                                               .call = CAPO_CALL_ALLREDUCE,
                                               .algo_proto = algo_proto,
                                               .channels = 4,
                                               .tagged = true,
                                               .tag = tag});
}

static void call_tagged(uint64_t count, uint64_t tag)
{
        t->tag = tag;
        call(&comm, count, ncclSuccess);
        t->tag = 0;
}

/* Alike but for their tags: NCCL tells of them in another order. */
Test(group, tags_tell_members_apart)
{
        struct capo_record *r = memory.records;
        uint64_t ours;

        begin();
        call_tagged(100, 5);
        call_tagged(100, 0);
        ours = capo_tag_give(t);
        cr_assert(ours == capo_tag_give(t) && ours >> 48 == 0x4341 && !(ours & CAPO_TAG_NCCLS));
        call_tagged(100, ours);
        call_tagged(100, 5);
        ran_tagged(100, 0x22, ours);
        ran_tagged(100, 0x31, 6);                  /* nobody's tag */
        ran_tagged(100, 0x23, CAPO_TAG_NCCLS | 5); /* NCCL's own: of a call without one */
        ran_tagged(100, 0x12, 5);
        ran_tagged(100, 0x13, 5); /* the same tag again: in order */
        end(false, ncclSuccess);
        cr_assert_eq(memory.ring.head, 5);
        cr_expect_eq(r[0].algo_proto, 0x12);
        cr_expect_eq(r[1].algo_proto, 0x23);
        cr_expect_eq(r[2].algo_proto, 0x22);
        cr_expect_eq(r[3].algo_proto, 0x13);
        for (unsigned i = 0; i < 5; i++)
                cr_expect_eq(r[i].gpu_ns, 0, "no tag stays in a record");
}

/* A group that is let go early leaves no tag behind either; a later group knows of none. */
Test(group, tags_of_a_large_group)
{
        struct capo_record *r = memory.records;

        begin();
        for (unsigned i = 0; i < RECORDS - 4; i++)
                call_tagged(100, 5);
        end(false, ncclSuccess);
        for (unsigned i = 0; i < RECORDS; i++)
                cr_expect_eq(r[i].gpu_ns, 0);
        cr_expect_not(t->group_tagged);
}

/* An event with another tag is not of the call under way: NCCL's own, inside it. */
Test(group, a_call_by_itself_takes_events_of_its_tag)
{
        const struct capo_what what = {.count = 100, .type = 7, .op = 0, .peer = -1};
        struct capo_record *r;

        t->comm = &comm;
        t->inside = &comm;
        t->tag = 5;
        r = capo_call_begin_long(t, t, CAPO_CALL_ALLREDUCE, &what, &memory, &comm);
        ran_tagged(100, 0x31, 6);
        ran_tagged(100, 0x31, 0);
        cr_expect_eq(t->algo_proto, 0);
        ran_tagged(100, 0x23, 5);
        capo_call_end(t, r, r->t_begin + 10, ncclSuccess, false, t);
        cr_expect(r->algo_proto == 0x23 && r->gpu_ns == 0);
}

Test(group, members_come_with_their_group)
{
        struct capo_record *r = memory.records;

        call(&comm, 50, ncclSuccess);
        cr_assert_eq(memory.ring.head, 1);
        begin();
        call(&comm, 100, ncclSuccess);
        call(&comm, 200, ncclSuccess);
        cr_assert_eq(memory.ring.head, 1, "members wait for the end of the group");
        capo_seam->decided(7);
        ran(77, 200, 0x23);
        ran(77, 300, 0x31); /* nobody's size */
        end(false, ncclSuccess);
        cr_assert_eq(memory.ring.head, 4);
        cr_assert(r[0].flags == 0 && r[0].rule == 0 && r[0].group == 0,
                  "a call before the group is none of its members");
        for (unsigned i = 1; i < 3; i++) {
                cr_assert_eq(r[i].flags, CAPO_RECORD_MEMBER);
                cr_assert_eq(r[i].clock, CAPO_CLOCK_NONE);
                cr_assert_eq(r[i].group, r[3].group);
                cr_assert_eq(r[i].seq, i + 1);
                cr_assert_eq(r[i].rule, 7, "the rule of the group is its members'");
        }
        cr_assert(r[1].algo_proto == 0 && r[1].channels == 0);
        cr_assert(r[2].algo_proto == 0x23 && r[2].channels == 4);
        cr_assert(r[3].call == CAPO_CALL_GROUP && r[3].flags == CAPO_RECORD_GROUP &&
                  r[3].clock == CAPO_CLOCK_HOST);
        cr_assert(r[3].seq == r[3].group && r[3].group != 0 && r[3].rule == 7 && r[3].comm == 3 &&
                  r[3].site == 2);
        cr_assert(r[3].t_begin == 1000 && r[3].t_end == 5000 && r[3].bytes == 1200);
        cr_assert_eq(r[3].channels, CAPO_CALL_ALLREDUCE, "what it is a group of");
}

static void to_or_from(unsigned id, int peer)
{
        const struct capo_what what = {
                .count = 1, .type = 7, .op = NO_OP, .peer = peer, .p2p = true};
        struct capo_record *r;

        t->comm = &comm;
        r = capo_call_begin_long(t, t, id, &what, &memory, &comm);
        capo_call_end(t, r, r->t_begin + 10, ncclSuccess, false, t);
}

Test(group, what_it_is_a_group_of)
{
        struct capo_record *r = memory.records;

        begin();
        to_or_from(CAPO_CALL_SEND, 1);
        to_or_from(CAPO_CALL_RECV, 1);
        to_or_from(CAPO_CALL_SEND, 2);
        end(false, ncclSuccess);
        cr_assert(r[3].call == CAPO_CALL_GROUP && r[3].channels == CAPO_CALL_GROUP,
                  "sends and receives");
        begin();
        to_or_from(CAPO_CALL_SEND, 1);
        to_or_from(CAPO_CALL_SEND, 2);
        end(false, ncclSuccess);
        cr_assert_eq(r[6].channels, CAPO_CALL_SEND);
        begin();
        to_or_from(CAPO_CALL_SEND, 1);
        call(&comm, 100, ncclSuccess);
        to_or_from(CAPO_CALL_SEND, 1);
        end(false, ncclSuccess);
        cr_assert(r[10].call == CAPO_CALL_GROUP && r[10].channels == 0, "of several kinds");
}

Test(group, a_member_keeps_the_rule_it_has)
{
        struct capo_record *r = memory.records;

        begin();
        call(&comm, 100, ncclSuccess);
        capo_seam->decided(5);
        call(&comm, 200, ncclSuccess);
        capo_seam->decided(7);
        end(false, ncclSuccess);
        cr_assert_eq(r[0].rule, 7);
        cr_assert_eq(r[1].rule, 5);
        cr_assert_eq(r[2].rule, 7);
}

Test(group, rules_that_differ_are_nobodys)
{
        struct capo_record *r = memory.records;

        begin();
        call(&comm, 100, ncclSuccess);
        call(&comm, 200, ncclSuccess);
        capo_seam->decided(7);
        capo_seam->decided(8);
        end(false, ncclSuccess);
        cr_assert(r[0].rule == 0 && r[1].rule == 0 && r[2].rule == 0);
        begin(); /* and the next group knows nothing of it */
        call(&comm, 100, ncclSuccess);
        call(&comm, 200, ncclSuccess);
        capo_seam->decided(8);
        end(false, ncclSuccess);
        cr_assert(r[3].rule == 8 && r[4].rule == 8 && r[5].rule == 8);
}

Test(group, one_call_is_that_call)
{
        struct capo_record *r = memory.records;

        begin();
        call(&comm, 100, ncclSuccess);
        capo_seam->decided(7);
        end(false, ncclSuccess);
        cr_assert_eq(memory.ring.head, 1);
        cr_assert(r->call == CAPO_CALL_ALLREDUCE && r->flags == 0 && r->group == 0 &&
                  r->clock == CAPO_CLOCK_HOST);
        cr_assert(r->t_begin == 1000 && r->t_end == 5000 && r->bytes == 400 && r->rule == 7);
}

Test(group, captured_and_in_progress_are_said_of_all)
{
        struct capo_record *r = memory.records;

        begin();
        call(&comm, 100, ncclSuccess);
        call(&other, 200, ncclSuccess);
        end(true, ncclInProgress);
        for (unsigned i = 0; i < 2; i++)
                cr_assert_eq(r[i].flags,
                             CAPO_RECORD_MEMBER | CAPO_RECORD_CAPTURED | CAPO_RECORD_ASYNC);
        cr_assert_eq(r[2].flags, CAPO_RECORD_GROUP | CAPO_RECORD_CAPTURED | CAPO_RECORD_ASYNC);
        cr_assert_eq(r[2].clock, CAPO_CLOCK_NONE);
        cr_assert_eq(r[2].result, ncclInProgress);
        cr_assert_eq(r[2].comm, 0, "of several communicators, none");
}

/* What a sweep goes by is a communicator's own, whatever else a rank has in the group. */
static void expect_current(uint64_t hash, uint64_t uid, uint32_t seq)
{
        struct capo_seam_call now;

        cr_assert(capo_seam->current(hash, &now));
        cr_expect(now.comm_uid == uid && (!uid || now.seq == seq), "%llu %u, not %llu %u",
                  (unsigned long long)now.comm_uid, now.seq, (unsigned long long)uid, seq);
}

Test(group, what_a_sweep_goes_by)
{
        struct capo_comm third = {
                .handle = &third, .id = 5, .n_ranks = 2, .uid = 700, .p2p_seq = 40};

        comm.uid = 500;
        other.uid = 600;
        call(&comm, 100, ncclSuccess);
        begin(); /* one rank */
        call(&comm, 100, ncclSuccess);
        expect_current(77, 500, 2);
        expect_current(0, 500, 2);
        end(false, ncclSuccess);
        comm.seq = 1;
        begin(); /* another, which sends as well */
        to_or_from(CAPO_CALL_SEND, 1);
        call(&comm, 100, ncclSuccess);
        expect_current(77, 500, 2);
        end(false, ncclSuccess);
        comm.seq = 1;
        begin(); /* and one that has calls of other communicators */
        call(&other, 100, ncclSuccess);
        call(&comm, 100, ncclSuccess);
        expect_current(77, 500, 2);
        expect_current(88, 600, 1);
        expect_current(99, 0, 0);
        expect_current(0, 0, 0);
        end(false, ncclSuccess);
        third.apart = true;
        begin();
        call(&third, 100, ncclSuccess);
        expect_current(0, 0, 0);
        end(false, ncclSuccess);
}

Test(group, half_a_ring_is_let_go_early)
{
        begin();
        for (unsigned i = 0; i < RECORDS / 2; i++)
                call(&comm, 100, ncclSuccess);
        cr_assert_eq(memory.ring.head, 0);
        call(&comm, 100, ncclSuccess);
        cr_assert_gt(memory.ring.head, 0);
        end(false, ncclSuccess);
        cr_assert_eq(memory.ring.head, RECORDS / 2 + 2);
}

Test(group, an_empty_one_leaves_nothing)
{
        begin();
        end(false, ncclSuccess);
        cr_assert_eq(memory.ring.head, 0);
}
