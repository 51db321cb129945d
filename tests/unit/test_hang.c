/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs put together call by call, and the verdict on each. Time is in seconds; it is 1000 when the
 * job is judged. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/hang/hang_verdict.h"
#include "analysis/job/job.h"
#include "tests/log_numbers.h"

enum { S = 1000000000, MOST = 64 };

static struct capo_hang_job job;
static struct capo_hang_verdict v;

static uint32_t comm_of(const char *name, uint32_t first, uint32_t n)
{
        struct capo_hang_comm *c = &job.comms[job.n_comms];

        *c = (struct capo_hang_comm){
                .name = name, .n_ranks = (int32_t)n, .n_members = n, .uid = 77 + job.n_comms};
        c->members = calloc(n, sizeof *c->members);
        for (uint32_t i = 0; i < n; i++)
                c->members[i] = (struct capo_hang_member){
                        .process = first + i, .rank = (int32_t)i, .whole_p2p = true};
        return job.n_comms++;
}

static void ranks(uint32_t n)
{
        job = (struct capo_hang_job){.n_processes = n,
                                     .n_ranks = (int32_t)n,
                                     .now_ns = 1000ull * S,
                                     .after_ns = 10ull * S,
                                     .processes = calloc(n, sizeof *job.processes),
                                     .comms = calloc(8, sizeof *job.comms)};
        for (uint32_t i = 0; i < n; i++)
                job.processes[i] = (struct capo_hang_process){
                        .rank = (int32_t)i,
                        .end_ns = job.now_ns,
                        .calls = calloc(MOST, sizeof(struct capo_hang_call))};
        comm_of("world", 0, n);
}

static void over(void)
{
        for (uint32_t i = 0; i < job.n_processes; i++) {
                free(job.processes[i].calls);
                free(job.processes[i].ended);
        }
        for (uint32_t i = 0; i < job.n_comms; i++)
                free(job.comms[i].members);
        free(job.processes);
        free(job.comms);
        capo_hang_verdict_finish(&v);
}

TestSuite(hang, .fini = over);

/* @process calls, at second @at, and NCCL counts it where it is a collective. */
static struct capo_hang_call *made(uint32_t process, uint32_t comm, unsigned call, uint32_t at)
{
        struct capo_hang_process *p = &job.processes[process];
        struct capo_hang_call *c = &p->calls[p->n_calls++];
        uint32_t member = 0;

        while (job.comms[comm].members[member].process != process)
                member++;
        *c = (struct capo_hang_call){.begin_ns = (uint64_t)at * S,
                                     .end_ns = (uint64_t)at * S + 1000,
                                     .bytes = 4096,
                                     .peer = -1,
                                     .comm = comm,
                                     .member = member,
                                     .stream = 1,
                                     .thread = 1,
                                     .call = (uint8_t)call,
                                     .type = 7};
        if (call < CAPO_CALL_SEND)
                c->seq = ++job.comms[comm].members[member].issued;
        return c;
}

static struct capo_hang_call *reduce(uint32_t process, uint32_t comm, uint32_t at)
{
        return made(process, comm, CAPO_CALL_ALLREDUCE, at);
}

static struct capo_hang_call *message(uint32_t process, uint32_t comm, unsigned call, int peer,
                                      uint32_t at)
{
        struct capo_hang_call *c = made(process, comm, call, at);

        c->peer = peer;
        c->bytes = 64 << 20;
        return c;
}

static void everybody(uint32_t comm, uint32_t at)
{
        for (uint32_t i = 0; i < job.comms[comm].n_members; i++)
                reduce(job.comms[comm].members[i].process, comm, at);
}

static void all_calls_ended(void)
{
        for (uint32_t i = 0; i < job.n_processes; i++) {
                for (uint32_t k = 0; k < job.processes[i].n_calls; k++)
                        job.processes[i].calls[k].gpu = CAPO_HANG_GPU_ENDED;
        }
}

/* The verdict is of @kind, and accuses just the processes of @who ("0 3"), the first because of
 * @why. */
static void says(enum capo_hang_kind kind, const char *who, enum capo_hang_why why)
{
        char text[200] = "";

        capo_hang_verdict_finish(&v);
        capo_hang_judge(&job, &v);
        for (uint32_t i = 0; i < v.n_culprits; i++)
                snprintf(text + strlen(text), sizeof text - strlen(text), "%s%u", i ? " " : "",
                         v.culprits[i].process);
        cr_assert_eq(v.kind, kind, "%s: %s", capo_hang_kind_name(v.kind), text);
        cr_assert_str_eq(text, who);
        if (*who)
                cr_assert_eq(v.culprits[0].why, why, "%s", capo_hang_why_name(v.culprits[0].why));
}

/* Nobody waits for another in a call, and for long nobody has made one. */
static void is_quiet(void)
{
        says(CAPO_HANG_UNDECIDED, "", 0);
        cr_assert(v.quiet);
}

Test(hang, nothing_to_say)
{
        ranks(4);
        says(CAPO_HANG_HEALTHY, "", 0);
        everybody(0, 995);
        says(CAPO_HANG_HEALTHY, "", 0);
        job.now_ns = 2000ull * S; /* long ago, and whether the GPUs have ended it nobody knows */
        says(CAPO_HANG_UNDECIDED, "", 0);
        cr_assert(v.gpu_unknown);
        all_calls_ended(); /* nor what the ranks do since, outside of NCCL */
        says(CAPO_HANG_UNDECIDED, "", 0);
        cr_assert(v.quiet && !v.gpu_unknown);
        job.now_ns = 1000ull * S;
        says(CAPO_HANG_HEALTHY, "", 0);
}

/* "Nothing hangs" wants every rank of every communicator. */
Test(hang, ranks_that_nothing_is_known_of)
{
        ranks(3);
        everybody(0, 995);
        all_calls_ended();
        says(CAPO_HANG_HEALTHY, "", 0);
        job.n_ranks = job.comms[0].n_ranks = 4;
        says(CAPO_HANG_UNDECIDED, "", 0);
        cr_assert_eq(v.unseen, 1);
        job.comms[0].n_ranks = 3; /* the launcher alone knows of it */
        says(CAPO_HANG_UNDECIDED, "", 0);
        job.n_ranks = 3;
        job.processes[1].stale = true;
        says(CAPO_HANG_UNDECIDED, "", 0);
}

/* @ends is in seconds; @status -1: killed. */
static void ended(uint32_t process, double ends, int status)
{
        struct capo_hang_process *p = &job.processes[process];

        job.over = true;
        p->ending = status < 0 ? CAPO_HANG_BY_KILL : CAPO_HANG_BY_EXIT;
        p->exit_status = status;
        p->end_ns = (uint64_t)(ends * S);
        if (p->end_ns + S / 2 < job.now_ns) /* as capo_hang_read() has it */
                p->life = status < 0 ? CAPO_HANG_KILLED : CAPO_HANG_EXITED;
}

Test(hang, one_died_and_the_launcher_ended_the_others)
{
        ranks(3);
        everybody(0, 990);
        reduce(0, 0, 998); /* process 1 never comes */
        reduce(2, 0, 998);
        ended(0, 1000, -1);
        ended(1, 999.95, -1);
        ended(2, 1000, -1);
        says(CAPO_HANG_ENDED, "1", CAPO_HANG_WHY_GONE);
        cr_assert_eq(v.sure, CAPO_HANG_LIKELY);
        cr_assert(v.call && v.n_waiting == 2 && v.n_after == 2);
        ended(1, 996, -1); /* three seconds and more before the others */
        says(CAPO_HANG_ENDED, "1", CAPO_HANG_WHY_GONE);
        cr_assert_eq(v.sure, CAPO_HANG_LIKELY); /* it may have been stopped, and killed later */
        ended(1, 996, 1);
        says(CAPO_HANG_ENDED, "1", CAPO_HANG_WHY_FAILED);
        cr_assert(v.sure == CAPO_HANG_CERTAIN && !v.unordered);
        ended(1, 1000, 1); /* by exit(1), and the others were killed */
        says(CAPO_HANG_ENDED, "1", CAPO_HANG_WHY_FAILED);
        cr_assert(!v.unordered);
        cr_assert(v.call && v.quiet_ns > S && v.quiet_ns < 3ull * S);
        job.dropped = 1; /* the last calls are not known: their numbers are not compared */
        says(CAPO_HANG_ENDED, "1", CAPO_HANG_WHY_FAILED);
        cr_assert(!v.call && !v.n_waiting);
        job.dropped = 0;
        ended(1, 1000, 0); /* by exit(0), and the others waited for it */
        says(CAPO_HANG_ENDED, "1", CAPO_HANG_WHY_EXITED);
}

Test(hang, all_ended_together)
{
        ranks(3);
        everybody(0, 999);
        for (uint32_t i = 0; i < 3; i++)
                ended(i, 1000, -1);
        says(CAPO_HANG_UNDECIDED, "", 0);
        cr_assert_eq(v.together, 3);
        ended(1, 1000, 3); /* an error's status tells it apart */
        says(CAPO_HANG_ENDED, "1", CAPO_HANG_WHY_FAILED);
        cr_assert(!v.call && !v.n_waiting);
        for (uint32_t i = 0; i < 3; i++)
                ended(i, 1000, 0);
        says(CAPO_HANG_HEALTHY, "", 0);
        job.n_ranks = job.comms[0].n_ranks = 4; /* one left no log */
        says(CAPO_HANG_UNDECIDED, "", 0);
}

/* The others had waited for it for less than a second, and ended in their own ways after it. */
Test(hang, one_exited_before_the_ranks_that_waited_for_it)
{
        ranks(4);
        everybody(0, 999);
        for (uint32_t i = 0; i < 4; i++) {
                if (i != 2)
                        reduce(i, 0, 999);
        }
        ended(2, 999.7, 7);
        ended(1, 999.71, -1);
        ended(0, 999.8, 1);
        ended(3, 999.8, -1);
        says(CAPO_HANG_ENDED, "2", CAPO_HANG_WHY_FAILED);
        cr_assert_eq(v.sure, CAPO_HANG_LIKELY);
        ended(1, 999.69, -1); /* it may have ended first */
        says(CAPO_HANG_UNDECIDED, "", 0);
}

/* Two ranks leave by _exit(), which records no end; the launcher ends the third, which exits. */
Test(hang, an_exit_after_ends_that_are_not_recorded)
{
        ranks(3);
        everybody(0, 998);
        reduce(0, 0, 999);
        reduce(2, 0, 999);
        ended(0, 999.75, -1);
        ended(1, 1000, 1);
        ended(2, 999.75, -1);
        says(CAPO_HANG_UNDECIDED, "", 0);
        cr_assert_eq(v.together, 3);
        ended(0, 999.96, -1); /* the launcher's signal can have come as early */
        ended(2, 999.96, -1);
        says(CAPO_HANG_ENDED, "1", CAPO_HANG_WHY_FAILED);
        cr_assert(v.unordered && v.sure == CAPO_HANG_LIKELY);
}

/* NCCL of the others saw it go, and their errors ended them. */
Test(hang, one_was_killed_and_all_others_failed_by_it)
{
        ranks(4);
        everybody(0, 999);
        ended(3, 999.9, -1);
        for (uint32_t i = 0; i < 3; i++)
                ended(i, 1000, 1);
        says(CAPO_HANG_ENDED, "3", CAPO_HANG_WHY_GONE);
        cr_assert_eq(v.sure, CAPO_HANG_LIKELY);
        for (uint32_t i = 0; i < 3; i++)
                job.processes[i].exit_status = -1; /* killed in their exit, before they said it */
        says(CAPO_HANG_ENDED, "3", CAPO_HANG_WHY_GONE);
        for (uint32_t i = 0; i < 3; i++)
                job.processes[i].exit_status = 1;
        ended(3, 1000, -1); /* behind an exit: whoever ended the job may have killed it */
        ended(1, 999.9, 1);
        says(CAPO_HANG_UNDECIDED, "", 0);
}

/* The others saw it go, aborted their communicator and exited, too. */
Test(hang, one_exited_and_all_others_aborted)
{
        ranks(3);
        everybody(0, 998);
        ended(1, 999, 3);
        for (uint32_t i = 0; i < 3; i += 2) {
                made(i, 0, CAPO_CALL_COMMABORT, 999)->begin_ns += 5000000;
                job.comms[0].members[i].dead = true;
                ended(i, 999.01, 1);
        }
        says(CAPO_HANG_ENDED, "1", CAPO_HANG_WHY_FAILED);
        cr_assert_eq(v.sure, CAPO_HANG_LIKELY);
        job.processes[2].calls[1].begin_ns -= 10000000; /* before that end */
        says(CAPO_HANG_UNDECIDED, "", 0);
}

Test(hang, a_job_that_hung_and_was_then_ended)
{
        ranks(3);
        everybody(0, 900);
        reduce(0, 0, 950);
        reduce(2, 0, 950);
        for (uint32_t i = 0; i < 3; i++)
                ended(i, 1000, -1);
        says(CAPO_HANG_MISSING, "1", CAPO_HANG_WHY_HOST);
}

/* An exception whose process took 40 seconds to end. */
Test(hang, a_slow_exit_with_an_error)
{
        ranks(3);
        everybody(0, 900);
        reduce(0, 0, 960);
        reduce(2, 0, 960);
        ended(0, 1000, -1);
        ended(1, 999.9, 1);
        ended(2, 1000, -1);
        says(CAPO_HANG_ENDED, "1", CAPO_HANG_WHY_FAILED);
        cr_assert_eq(v.n_waiting, 2);
        ended(0, 1000, 1); /* all of them: somebody ended the job */
        ended(2, 1000, 1);
        says(CAPO_HANG_MISSING, "1", CAPO_HANG_WHY_HOST);
        ended(0, 1000, -1);
        ended(2, 1000, -1);
        ended(1, 980, 1); /* long before: the others hung for it */
        says(CAPO_HANG_MISSING, "1", CAPO_HANG_WHY_FAILED);
}

Test(hang, one_died_and_the_others_go_on)
{
        ranks(3);
        everybody(0, 999);
        ended(1, 999.5, 1);
        job.over = false;
        says(CAPO_HANG_ENDED, "1", CAPO_HANG_WHY_FAILED);
}

Test(hang, culprits_by_rank)
{
        ranks(4);
        for (uint32_t i = 0; i < 4; i++)
                job.processes[i].rank = 3 - (int)i; /* as they were found */
        everybody(0, 900);
        all_calls_ended();
        reduce(0, 0, 901);
        reduce(1, 0, 901);
        says(CAPO_HANG_MISSING, "3 2", CAPO_HANG_WHY_HOST);
}

/* One pair works on, so at any moment one of its ranks waits a little; in the other one waits for
 * long. */
Test(hang, a_short_wait_does_not_hide_a_long_one)
{
        uint32_t works, stands;

        ranks(4);
        works = comm_of("works", 0, 2);
        stands = comm_of("stands", 2, 2);
        everybody(works, 990);
        everybody(stands, 900);
        all_calls_ended();
        reduce(0, works, 999);
        reduce(2, stands, 901);
        says(CAPO_HANG_MISSING, "3", CAPO_HANG_WHY_HOST);
        cr_assert_eq(v.comm, stands);
        cr_assert_eq(v.still_ns, 99ull * S);
        reduce(3, stands, 999); /* it has come */
        says(CAPO_HANG_SLOW, "1", CAPO_HANG_WHY_HOST);
}

/* Each of two pairs waits for one of its own. */
Test(hang, two_hangs_at_once)
{
        uint32_t a, b;

        ranks(4);
        a = comm_of("a", 0, 2);
        b = comm_of("b", 2, 2);
        reduce(0, a, 900);
        reduce(2, b, 910);
        says(CAPO_HANG_MISSING, "1 3", CAPO_HANG_WHY_HOST);
        cr_expect(v.comm == a && !v.culprits[0].elsewhere);
        cr_expect(v.culprits[1].elsewhere && v.culprits[1].comm == b && v.culprits[1].seq == 1);
        cr_expect(v.culprits[1].missing == CAPO_CALL_ALLREDUCE && v.culprits[1].n_waiting == 1);
}

Test(hang, a_rank_that_never_came)
{
        ranks(4);
        everybody(0, 900);
        for (uint32_t i = 0; i < 3; i++)
                reduce(i, 0, 950);
        says(CAPO_HANG_MISSING, "3", CAPO_HANG_WHY_HOST);
        cr_assert(v.seq == 2 && v.n_waiting == 3 && v.n_ranks == 4 && v.sure == CAPO_HANG_CERTAIN);
        cr_assert_eq(v.still_ns, 50ull * S);
        cr_assert_eq(v.culprits[0].call->seq, 1);
        job.now_ns = 959ull * S;
        says(CAPO_HANG_SLOW, "3", CAPO_HANG_WHY_HOST);
        cr_assert_eq(capo_hang_kind_exit(v.kind), 0);
}

/* What the late one does elsewhere counts, too: it may still come, or never. */
Test(hang, a_late_rank_that_moves)
{
        uint32_t own;

        ranks(4);
        own = comm_of("own", 3, 1);
        for (uint32_t i = 0; i < 3; i++)
                reduce(i, 0, 950);
        says(CAPO_HANG_MISSING, "3", CAPO_HANG_WHY_HOST);
        reduce(3, own, 995);
        says(CAPO_HANG_UNDECIDED, "3", CAPO_HANG_WHY_OTHER_CALLS);
        cr_assert(v.works_on && v.comm == 0 && v.n_waiting == 3 && v.still_ns == 50ull * S);
        job.now_ns = 997ull * S;
        for (uint32_t i = 0; i < 3; i++)
                job.processes[i].calls[0].begin_ns = 990ull * S; /* not for long */
        says(CAPO_HANG_SLOW, "3", CAPO_HANG_WHY_HOST);
        job.now_ns = 1000ull * S;
        job.over = true;
        says(CAPO_HANG_HEALTHY, "", 0);
}

/* The thread that makes the calls of a communicator stands; another one works on. */
Test(hang, a_thread_that_stands)
{
        uint32_t own;

        ranks(3);
        own = comm_of("own", 0, 3);
        everybody(own, 900);
        for (uint32_t i = 0; i < 3; i++)
                reduce(i, 0, 920)->thread = 2;
        all_calls_ended();
        reduce(0, own, 950);
        reduce(1, own, 950);
        for (uint32_t i = 0; i < 3; i++)
                reduce(i, 0, 999)->thread = 2;
        says(CAPO_HANG_MISSING, "2", CAPO_HANG_WHY_HOST);
        cr_assert(v.comm == own && v.sure == CAPO_HANG_LIKELY && v.culprits[0].works_on);
        cr_assert_eq(v.still_ns, 50ull * S);
        job.processes[2].calls[2].where = CAPO_HANG_HOST; /* the other thread, at the moment */
        says(CAPO_HANG_MISSING, "2", CAPO_HANG_WHY_HOST);
        job.processes[2].calls[0].thread = 2; /* of one thread: it may still come */
        says(CAPO_HANG_UNDECIDED, "2", CAPO_HANG_WHY_OTHER_CALLS);
}

/* The call in which the others wait is older than those that are known. */
Test(hang, a_call_that_is_forgotten)
{
        uint32_t own;

        ranks(2);
        own = comm_of("own", 0, 2);
        everybody(own, 900);
        job.comms[own].members[0].issued++;
        for (uint32_t i = 0; i < 2; i++)
                reduce(i, 0, 999)->thread = 2;
        says(CAPO_HANG_MISSING, "1", CAPO_HANG_WHY_HOST);
        job.processes[1].calls[0].thread = 2;
        says(CAPO_HANG_HEALTHY, "", 0);
        job.processes[0].known_ns = 980ull * S;
        says(CAPO_HANG_UNDECIDED, "1", CAPO_HANG_WHY_OTHER_CALLS);
}

/* It came after a known one, so it is not old: not recorded, or it waits for its GPU time. */
Test(hang, a_call_between_known_ones)
{
        ranks(2);
        everybody(0, 998);
        job.comms[0].members[0].issued++;
        job.processes[0].known_ns = 900ull * S;
        reduce(1, comm_of("own", 1, 1), 999);
        says(CAPO_HANG_HEALTHY, "", 0);
}

/* Hosts far ahead of their GPUs wait in no call. What the GPUs end is progress. */
Test(hang, a_long_queue_on_the_gpu)
{
        struct capo_hang_ended *e[2];

        ranks(2);
        everybody(0, 900);
        for (uint32_t i = 0; i < 2; i++) {
                e[i] = job.processes[i].ended = calloc(1, sizeof *e[i]);
                job.processes[i].n_ended = 1;
                job.processes[i].calls[0].gpu = CAPO_HANG_GPU_RUNNING;
                *e[i] = (struct capo_hang_ended){.stream = 1,
                                                 .seq = 10,
                                                 .next_seq = 11,
                                                 .at_ns = 901ull * S,
                                                 .each_ns = S / 2};
        }
        says(CAPO_HANG_RUNNING, "0 1", CAPO_HANG_WHY_GPU);
        cr_assert_eq(v.since_ns, 901ull * S);
        e[1]->at_ns = 999ull * S;
        says(CAPO_HANG_HEALTHY, "", 0);
        e[1]->comm = 7; /* of another communicator, on the same stream */
        says(CAPO_HANG_HEALTHY, "", 0);
        e[1]->stream = 2;
        says(CAPO_HANG_RUNNING, "0 1", CAPO_HANG_WHY_GPU);
        e[0]->next_seq =
                70; /* 60 calls of half a second: until 1,021 if each takes four times that */
        says(CAPO_HANG_UNDECIDED, "", 0);
        cr_assert(v.queued);
        e[0]->next_seq = 40;
        says(CAPO_HANG_RUNNING, "0 1", CAPO_HANG_WHY_GPU);
}

/* Of a rank whose calls were dropped it is not known that it has not come. */
Test(hang, lost_calls_of_the_one_waited_for)
{
        ranks(2);
        everybody(0, 900);
        reduce(0, 0, 901);
        says(CAPO_HANG_MISSING, "1", CAPO_HANG_WHY_HOST);
        job.processes[0].lost = true;
        says(CAPO_HANG_MISSING, "1", CAPO_HANG_WHY_HOST);
        job.processes[1].lost = true;
        says(CAPO_HANG_UNDECIDED, "", 0);
        cr_assert(v.lost);
        job.processes[1].life = CAPO_HANG_KILLED; /* that one does not come */
        job.processes[1].end_ns = 902ull * S;
        says(CAPO_HANG_MISSING, "1", CAPO_HANG_WHY_GONE);
}

Test(hang, the_one_behind_those_that_do_not_come)
{
        uint32_t pair;

        ranks(4);
        pair = comm_of("pair", 2, 2);
        reduce(0, 0, 950);
        reduce(1, 0, 951);
        reduce(2, pair, 949); /* 2 waits for 3, so it does not come either */
        says(CAPO_HANG_MISSING, "3", CAPO_HANG_WHY_HOST);
        cr_assert_eq(v.comm, 0);
}

/* All have entered the call. What is stopped serves no network, so the GPUs of all wait. */
Test(hang, a_stopped_process_in_the_call)
{
        ranks(4);
        everybody(0, 950);
        for (uint32_t i = 0; i < 4; i++)
                job.processes[i].calls[0].gpu =
                        i == 2 ? CAPO_HANG_GPU_UNKNOWN : CAPO_HANG_GPU_RUNNING;
        says(CAPO_HANG_RUNNING, "0 1 3", CAPO_HANG_WHY_GPU);
        job.processes[2].life = CAPO_HANG_STOPPED;
        says(CAPO_HANG_STOPPED_RANK, "2", CAPO_HANG_WHY_STOPPED);
        cr_assert(v.n_waiting == 3 && v.call && v.sure == CAPO_HANG_LIKELY);
        job.now_ns = 953ull * S; /* it may go on at any moment */
        says(CAPO_HANG_SLOW, "2", CAPO_HANG_WHY_STOPPED);
        job.now_ns = 961ull * S;
        for (uint32_t i = 0; i < 4; i++) /* in the host's call */
                job.processes[i].calls[0].where = CAPO_HANG_HOST;
        says(CAPO_HANG_STOPPED_RANK, "2", CAPO_HANG_WHY_STOPPED);
        cr_assert_eq(v.n_waiting, 3);
        job.now_ns = 953ull * S;
        reduce(0, 0, 953); /* one goes on */
        says(CAPO_HANG_HEALTHY, "", 0);
}

/* Hosts run ahead of their GPUs, so one has made a call that others have not. */
Test(hang, a_stopped_process_and_one_that_ran_ahead)
{
        ranks(4);
        everybody(0, 950);
        job.processes[2].life = CAPO_HANG_STOPPED;
        reduce(0, 0, 951);
        says(CAPO_HANG_STOPPED_RANK, "2", CAPO_HANG_WHY_STOPPED);
        reduce(0, 0, 999); /* hosts still run ahead, and that is no progress */
        says(CAPO_HANG_STOPPED_RANK, "2", CAPO_HANG_WHY_STOPPED);
        job.processes[0].n_calls--;
        job.comms[0].members[0].issued--;
        reduce(2, 0, 951);
        says(CAPO_HANG_STOPPED_RANK, "2", CAPO_HANG_WHY_STOPPED);
        cr_assert_eq(v.n_waiting, 1);
        job.processes[1].calls[0].gpu = job.processes[3].calls[0].gpu =
                CAPO_HANG_GPU_ENDED; /* these two wait for nothing */
        says(CAPO_HANG_MISSING, "1 3", CAPO_HANG_WHY_HOST);
}

/* It runs again when the calls are looked at: the GPUs have had no time yet to end them. */
Test(hang, a_process_that_has_just_gone_on)
{
        ranks(4);
        everybody(0, 950);
        for (uint32_t i = 0; i < 4; i++)
                job.processes[i].calls[0].gpu = CAPO_HANG_GPU_RUNNING;
        job.processes[2].paused_ns = 951ull * S;
        job.processes[2].resumed_ns = 999ull * S;
        says(CAPO_HANG_HEALTHY, "", 0);
        reduce(1, comm_of("own", 1, 1), 999); /* one goes on elsewhere */
        job.processes[1].calls[1].gpu = CAPO_HANG_GPU_ENDED;
        says(CAPO_HANG_HEALTHY, "", 0);
        job.processes[1].n_calls--;
        job.processes[2].resumed_ns = 980ull * S; /* long ago */
        says(CAPO_HANG_RUNNING, "0 1 2 3", CAPO_HANG_WHY_GPU);
        job.processes[2].paused_ns = 998ull * S; /* the calls had stood for long when it began */
        job.processes[2].resumed_ns = 999ull * S;
        says(CAPO_HANG_RUNNING, "0 1 2 3", CAPO_HANG_WHY_GPU);
}

/* A busy machine: for seconds no GPU ends the call that all are in. Nobody is late. */
Test(hang, a_call_that_takes_seconds)
{
        ranks(3);
        everybody(0, 995);
        for (uint32_t i = 0; i < 3; i++)
                job.processes[i].calls[0].gpu = CAPO_HANG_GPU_RUNNING;
        says(CAPO_HANG_HEALTHY, "", 0);
        job.processes[0].calls[0].gpu = CAPO_HANG_GPU_ENDED;
        says(CAPO_HANG_SLOW, "1 2", CAPO_HANG_WHY_GPU);
}

/* No GPU was seen: nobody can be named but the one that is stopped. */
Test(hang, a_stopped_process_among_unknown_gpus)
{
        ranks(3);
        everybody(0, 950);
        says(CAPO_HANG_UNDECIDED, "", 0);
        job.processes[1].life = CAPO_HANG_STOPPED;
        says(CAPO_HANG_STOPPED_RANK, "1", CAPO_HANG_WHY_STOPPED);
        all_calls_ended(); /* and nobody waits in a call */
        says(CAPO_HANG_STOPPED_RANK, "1", CAPO_HANG_WHY_STOPPED);
        reduce(0, 0, 995);
        reduce(1, 0, 995);
        reduce(2, 0, 995);
        all_calls_ended();
        says(CAPO_HANG_HEALTHY, "", 0);
}

Test(hang, why_it_did_not_come)
{
        ranks(3);
        reduce(0, 0, 950);
        reduce(1, 0, 950);
        job.processes[2].life = CAPO_HANG_STOPPED;
        says(CAPO_HANG_STOPPED_RANK, "2", CAPO_HANG_WHY_STOPPED);
        job.processes[2].life = CAPO_HANG_EXITED;
        says(CAPO_HANG_MISSING, "2", CAPO_HANG_WHY_EXITED);
        job.processes[2].life = CAPO_HANG_KILLED;
        says(CAPO_HANG_MISSING, "2", CAPO_HANG_WHY_GONE);
        job.now_ns =
                950ull * S + 1000; /* the dead need no time to be distinguished from the slow */
        says(CAPO_HANG_MISSING, "2", CAPO_HANG_WHY_GONE);
        job.now_ns = 1000ull * S;
        job.processes[2].life = CAPO_HANG_ALIVE;
        job.comms[0].members[2].dead = true;
        says(CAPO_HANG_MISSING, "2", CAPO_HANG_WHY_ABORTED);
        job.comms[0].members[2].dead = false;
        reduce(2, 0, 940)->result = 3;
        job.comms[0].members[2].issued = 0;
        says(CAPO_HANG_MISSING, "2", CAPO_HANG_WHY_ERROR);
        job.processes[2].calls[0].result = 0;
        job.processes[2].calls[0].where = CAPO_HANG_OPEN;
        says(CAPO_HANG_MISSING, "2", CAPO_HANG_WHY_GROUP);
        job.processes[2].calls[0] = (struct capo_hang_call){.begin_ns = 940ull * S,
                                                            .comm = CAPO_HANG_NONE,
                                                            .member = CAPO_HANG_NONE,
                                                            .call = CAPO_CALL_MEMALLOC,
                                                            .where = CAPO_HANG_HOST};
        says(CAPO_HANG_MISSING, "2", CAPO_HANG_WHY_CALL);
}

Test(hang, a_group_that_is_being_closed_is_entered)
{
        ranks(2);
        reduce(0, 0, 950);
        reduce(1, 0, 950)->where = CAPO_HANG_ENDING;
        job.processes[1].calls[0].end_ns = 0;
        says(CAPO_HANG_INSIDE, "1", CAPO_HANG_WHY_CALL);
}

/* One rank made another call, and failed soon after. */
Test(hang, calls_that_differed_before_the_end)
{
        ranks(3);
        everybody(0, 990);
        everybody(0, 999);
        job.processes[1].calls[1].bytes = 8;
        ended(0, 1000, 1);
        ended(1, 999.2, 1);
        ended(2, 1000, 1);
        says(CAPO_HANG_ENDED, "1", CAPO_HANG_WHY_FAILED);
        cr_assert(v.disagreed.process == 1 && v.disagreed.call == &job.processes[1].calls[1] &&
                  v.disagreed.unlike->seq == 2);
        cr_assert_str_eq(capo_hang_differs(v.disagreed.unlike, v.disagreed.call), "count");
        job.processes[1].calls[1].bytes = job.processes[0].calls[1].bytes;
        says(CAPO_HANG_ENDED, "1", CAPO_HANG_WHY_FAILED);
        cr_assert_null(v.disagreed.call);
}

Test(hang, calls_that_differ)
{
        ranks(4);
        everybody(0, 940);
        everybody(0, 950);
        job.processes[2].calls[1].op = 2;
        says(CAPO_HANG_MISMATCH, "2", CAPO_HANG_WHY_DIFFERS);
        cr_assert_str_eq(v.culprits[0].differs, "operator");
        cr_assert(v.seq == 2 && v.sure == CAPO_HANG_CERTAIN && !v.culprits[0].skipped);
        job.processes[2].calls[1].type = 2;
        says(CAPO_HANG_MISMATCH, "2", CAPO_HANG_WHY_DIFFERS);
        cr_assert_str_eq(v.culprits[0].differs, "type");
        job.processes[2].calls[1].bytes = 8;
        says(CAPO_HANG_MISMATCH, "2", CAPO_HANG_WHY_DIFFERS);
        cr_assert_str_eq(v.culprits[0].differs, "count");
        job.processes[2].calls[1].call = CAPO_CALL_ALLGATHER;
        says(CAPO_HANG_MISMATCH, "2", CAPO_HANG_WHY_DIFFERS);
        cr_assert_str_eq(v.culprits[0].differs, "collective");
        job.processes[3].calls[1] = job.processes[2].calls[1];
        job.processes[3].calls[1].member = 3;
        says(CAPO_HANG_MISMATCH, "0 1 2 3", CAPO_HANG_WHY_DIFFERS); /* two against two */
}

/* Reduces whose parts are sent, and whose root never came; the others wait in the call behind. */
Test(hang, parts_that_were_sent_ahead)
{
        ranks(3);
        everybody(0, 900);
        for (uint32_t i = 1; i < 3; i++) {
                made(i, 0, CAPO_CALL_REDUCE, 950)->peer = 0;
                job.processes[i].calls[1].gpu = CAPO_HANG_GPU_ENDED;
                reduce(i, 0, 951)->gpu = CAPO_HANG_GPU_RUNNING;
        }
        says(CAPO_HANG_MISSING, "0", CAPO_HANG_WHY_HOST);
        cr_assert(v.seq == 3 && v.n_waiting == 2 && v.call->call == CAPO_CALL_ALLREDUCE);
        reduce(0, 0, 952); /* where the others reduced */
        job.processes[0].calls[1].call = CAPO_CALL_REDUCE;
        job.processes[0].calls[1].peer = 0;
        says(CAPO_HANG_MISSING, "0", CAPO_HANG_WHY_HOST);
        cr_assert_eq(v.seq, 3);
}

Test(hang, a_root_that_differs)
{
        ranks(3);
        for (uint32_t i = 0; i < 3; i++)
                made(i, 0, i ? CAPO_CALL_BROADCAST : CAPO_CALL_BCAST, 950)->peer = i == 1;
        says(CAPO_HANG_MISMATCH, "1", CAPO_HANG_WHY_DIFFERS);
        cr_assert_str_eq(v.culprits[0].differs, "root");
}

Test(hang, one_left_out)
{
        ranks(3);
        for (uint32_t i = 0; i < 3; i++) {
                if (i != 1)
                        reduce(i, 0, 950);
                made(i, 0, CAPO_CALL_ALLGATHER, 951);
        }
        says(CAPO_HANG_MISMATCH, "1", CAPO_HANG_WHY_DIFFERS);
        cr_assert(v.culprits[0].skipped);
}

Test(hang, what_differed_and_ended_all_the_same)
{
        ranks(2);
        everybody(0, 950);
        job.processes[1].calls[0].type = 2;
        job.processes[0].calls[0].gpu = CAPO_HANG_GPU_ENDED; /* on one: the other may stand in it */
        says(CAPO_HANG_MISMATCH, "0 1", CAPO_HANG_WHY_DIFFERS);
        job.processes[1].calls[0].gpu = CAPO_HANG_GPU_ENDED;
        is_quiet();
        cr_assert_eq(v.differed, 1);
        job.processes[1].calls[0].call = CAPO_CALL_ALLGATHER; /* the last thing that they did */
        says(CAPO_HANG_MISMATCH, "0 1", CAPO_HANG_WHY_DIFFERS);
        cr_assert_eq(v.sure, CAPO_HANG_LIKELY);
}

/* Ranks 0 and 1 are of one process, 2 and 3 of another. */
static void two_gpus_each(void)
{
        struct capo_hang_member *m = realloc(job.comms[0].members, 4 * sizeof *m);

        job.comms[0].members = m;
        job.comms[0].n_members = 4;
        job.comms[0].several = true;
        job.n_ranks = job.comms[0].n_ranks = 4;
        for (int32_t i = 0; i < 4; i++)
                m[i] = (struct capo_hang_member){
                        .process = (uint32_t)i / 2, .rank = i, .job_rank = i, .whole_p2p = true};
        job.processes[1].rank = 2;
}

static struct capo_hang_call *reduce_as(uint32_t member, uint32_t at)
{
        struct capo_hang_call *c = reduce(member / 2, 0, at);

        if (member % 2) { /* made() counts it for the process's first member */
                job.comms[0].members[member - 1].issued--;
                c->seq = ++job.comms[0].members[member].issued;
        }
        c->member = member;
        c->thread = c->stream = (uint16_t)(member + 1);
        c->gpu = CAPO_HANG_GPU_RUNNING;
        return c;
}

Test(hang, one_of_several_ranks_of_a_process)
{
        ranks(2);
        two_gpus_each();
        for (uint32_t i = 0; i < 3; i++)
                reduce_as(i, 950);
        says(CAPO_HANG_MISSING, "1", CAPO_HANG_WHY_HOST);
        cr_assert_eq(capo_hang_culprit_rank(&job, &v.culprits[0]), 3);
        cr_assert_eq(v.n_waiting, 3);
}

Test(hang, one_rank_of_each_process)
{
        ranks(2);
        two_gpus_each();
        reduce_as(0, 950);
        reduce_as(3, 950);
        says(CAPO_HANG_MISSING, "0 1", CAPO_HANG_WHY_HOST);
        cr_assert_eq(capo_hang_culprit_rank(&job, &v.culprits[0]), 1);
        cr_assert_eq(capo_hang_culprit_rank(&job, &v.culprits[1]), 2);
}

Test(hang, a_send_and_a_receive_of_other_sizes)
{
        ranks(2);
        message(0, 0, CAPO_CALL_SEND, 1, 950)->gpu = CAPO_HANG_GPU_RUNNING;
        message(1, 0, CAPO_CALL_RECV, 0, 950)->bytes = 1 << 20;
        says(CAPO_HANG_MISMATCH, "0 1", CAPO_HANG_WHY_SIZE);
        job.processes[1].calls[0].gpu = CAPO_HANG_GPU_ENDED; /* the shorter half is through */
        says(CAPO_HANG_MISMATCH, "0 1", CAPO_HANG_WHY_SIZE);
        job.processes[0].calls[0].gpu = CAPO_HANG_GPU_ENDED; /* and so is the longer one */
        says(CAPO_HANG_MISMATCH, "0 1", CAPO_HANG_WHY_SIZE);
        reduce(0, 0, 951)->gpu = CAPO_HANG_GPU_ENDED; /* they went on */
        reduce(1, 0, 951)->gpu = CAPO_HANG_GPU_ENDED;
        is_quiet();
}

static void other_order(bool waits)
{
        uint32_t other;

        ranks(3);
        other = comm_of("other", 0, 3);
        for (uint32_t i = 0; i < 3; i++) {
                reduce(i, i == 2 ? other : 0, 950);
                if (!waits)
                        reduce(i, i == 2 ? 0 : other, 951);
        }
}

Test(hang, an_order_that_differs)
{
        other_order(true);
        says(CAPO_HANG_ORDER, "0 2", CAPO_HANG_WHY_WAITS);
        cr_assert_eq(v.n_steps, 2);
        cr_assert(v.steps[0].process == 0 && v.steps[0].comm == 0 && v.steps[1].process == 2 &&
                  v.steps[1].comm == 1);
}

Test(hang, an_order_that_differs_on_the_streams)
{
        other_order(false);
        says(CAPO_HANG_ORDER, "0 2", CAPO_HANG_WHY_WAITS);
}

Test(hang, an_order_that_differs_on_streams_of_their_own_is_none)
{
        other_order(false);
        for (uint32_t i = 0; i < 3; i++) {
                for (uint32_t k = 0; k < 2; k++)
                        job.processes[i].calls[k].stream = 1 + job.processes[i].calls[k].comm;
        }
        says(CAPO_HANG_UNDECIDED, "",
             0); /* all are entered; whether the GPUs end them is not known */
}

Test(hang, a_send_without_its_receive)
{
        ranks(3);
        message(0, 0, CAPO_CALL_SEND, 1, 940);
        message(1, 0, CAPO_CALL_RECV, 0, 940);
        message(0, 0, CAPO_CALL_SEND, 1, 950);
        says(CAPO_HANG_P2P, "1", CAPO_HANG_WHY_HOST);
        cr_assert_eq(v.call->begin_ns, 950ull * S);
        job.comms[0].members[0].whole_p2p = false; /* more than are kept: nobody can count */
        says(CAPO_HANG_UNDECIDED, "", 0);
        cr_assert(v.p2p_unknown);
}

Test(hang, the_owner_of_a_missing_half_goes_on)
{
        ranks(3);
        message(0, 0, CAPO_CALL_RECV, 2, 950);
        everybody(0, 951);
        says(CAPO_HANG_P2P, "2", CAPO_HANG_WHY_HOST);
}

/* The receive that meets the next send is not taken for that of the one before. */
Test(hang, a_half_too_many_is_known_by_its_size)
{
        ranks(2);
        message(0, 0, CAPO_CALL_SEND, 1, 950)->bytes = 77 << 20;
        message(0, 0, CAPO_CALL_SEND, 1, 951);
        message(1, 0, CAPO_CALL_RECV, 0, 951);
        says(CAPO_HANG_P2P, "1", CAPO_HANG_WHY_HOST);
        cr_assert_eq(v.call->bytes, 77 << 20);
        job.processes[1].calls[0].bytes = 1 << 20; /* like neither: the first of both */
        says(CAPO_HANG_P2P, "1", CAPO_HANG_WHY_HOST);
        cr_assert_eq(v.call->bytes, 64 << 20);
}

Test(hang, halves_of_one_group_do_not_wait_for_each_other)
{
        ranks(2);
        for (uint32_t i = 0; i < 2; i++) {
                message(i, 0, CAPO_CALL_SEND, !i, 950)->group = 5;
                message(i, 0, CAPO_CALL_RECV, !i, 950)->group = 5;
        }
        job.now_ns = 955ull * S;
        says(CAPO_HANG_HEALTHY, "", 0);
        job.processes[0].calls[0].group = job.processes[0].calls[1].group = 0;
        says(CAPO_HANG_HEALTHY, "", 0); /* a send that meets a group with its receive */
        job.now_ns = 1000ull * S;
        job.processes[1].calls[0].group = job.processes[1].calls[1].group = 0;
        says(CAPO_HANG_ORDER, "0 1",
             CAPO_HANG_WHY_RING); /* both send first, more than any buffer takes */
        for (uint32_t i = 0; i < 2; i++)
                job.processes[i].calls[0].bytes = 4096;
        says(CAPO_HANG_ORDER, "0 1", CAPO_HANG_WHY_RING);
        cr_assert_eq(v.sure, CAPO_HANG_LIKELY);
}

/* The root of a small broadcast may be through: then it is missing elsewhere by itself, and nobody
 * is accused. */
Test(hang, a_root_may_be_through)
{
        uint32_t pair;

        ranks(3);
        pair = comm_of("pair", 0, 2);
        made(0, 0, CAPO_CALL_BROADCAST, 950)->peer = 0;
        made(1, pair, CAPO_CALL_ALLREDUCE, 950); /* waits for 0; 0 waits for 1 and 2, if it does */
        made(2, 0, CAPO_CALL_BROADCAST, 950)->peer = 0;
        says(CAPO_HANG_UNDECIDED, "0 1", CAPO_HANG_WHY_WAITS);
        job.processes[0].calls[0].gpu = CAPO_HANG_GPU_RUNNING; /* it does */
        says(CAPO_HANG_ORDER, "0 1", CAPO_HANG_WHY_WAITS);
}

static struct capo_hang_call *lifecycle_call(uint32_t process, unsigned call, uint32_t at)
{
        struct capo_hang_call *c = made(process, 0, call, at);

        c->where = CAPO_HANG_HOST;
        c->end_ns = 0;
        return c;
}

Test(hang, a_split_without_one)
{
        ranks(4);
        for (uint32_t i = 0; i < 3; i++)
                lifecycle_call(i, CAPO_CALL_COMMSPLIT, 950);
        says(CAPO_HANG_CREATION, "3", CAPO_HANG_WHY_HOST);
        job.comms[0].members[3].splits = 1; /* it is through */
        says(CAPO_HANG_INSIDE, "0 1 2", CAPO_HANG_WHY_CALL);
        for (uint32_t i = 0; i < 3; i++)
                job.processes[i].calls[0].begin_ns =
                        970ull * S; /* all are making it, and that may take a while */
        says(CAPO_HANG_SLOW, "0 1 2", CAPO_HANG_WHY_CALL);
}

/* Rank 3 was killed, rank 2 still waits for it, and the others go on without it: whoever shrinks does
 * not wait for the killed one. */
Test(hang, a_shrink_without_one_survivor)
{
        ranks(4);
        for (uint32_t i = 0; i < 3; i++)
                reduce(i, 0, 940);
        job.processes[3].life = CAPO_HANG_KILLED;
        job.processes[3].end_ns = 939ull * S;
        for (uint32_t i = 0; i < 2; i++)
                lifecycle_call(i, CAPO_CALL_COMMSHRINK, 950)->bytes = 3;
        says(CAPO_HANG_MISSING, "3", CAPO_HANG_WHY_GONE);
        cr_assert(v.call->call == CAPO_CALL_ALLREDUCE && v.n_waiting == 3);
}

/* By plan: the new communicator has three ranks, two are in the call, and one of two is to come. */
Test(hang, a_shrink_that_leaves_out_a_living_rank)
{
        ranks(4);
        for (uint32_t i = 0; i < 2; i++)
                lifecycle_call(i, CAPO_CALL_COMMSHRINK, 900)->bytes = 3;
        says(CAPO_HANG_INSIDE, "0 1", CAPO_HANG_WHY_CALL); /* which one is left out is not known */
        job.processes[0].calls[0].bytes = job.processes[1].calls[0].bytes = 4;
        says(CAPO_HANG_CREATION, "2 3", CAPO_HANG_WHY_HOST);
}

/* One dies, and NCCL tells the others, which clean up and end: where they stood is what the job
 * died of. */
Test(hang, a_split_that_a_death_ended)
{
        ranks(4);
        for (uint32_t i = 0; i < 3; i++) {
                struct capo_hang_call *c = lifecycle_call(i, CAPO_CALL_COMMSPLIT, 950);

                c->where = CAPO_HANG_RETURNED;
                c->end_ns = 970ull * S;
                c->result = CAPO_NCCL_REMOTE_ERROR;
                made(i, 0, CAPO_CALL_COMMDESTROY, 971);
                job.comms[0].members[i].dead = true;
                job.processes[i].life = CAPO_HANG_EXITED;
                job.processes[i].end_ns = 971ull * S;
        }
        job.processes[3].life = CAPO_HANG_KILLED;
        job.processes[3].end_ns = 969ull * S;
        says(CAPO_HANG_CREATION, "3", CAPO_HANG_WHY_GONE);
        cr_assert_eq(v.n_waiting, 3);
        job.processes[2].calls[0].result = 1; /* one that NCCL refused waited for nobody */
        says(CAPO_HANG_CREATION, "3", CAPO_HANG_WHY_GONE);
        cr_assert_eq(v.n_waiting, 2);
        job.processes[2].calls[0].result = CAPO_NCCL_REMOTE_ERROR;
        for (uint32_t i = 0; i < 3; i++)
                job.processes[i].calls[1].call =
                        CAPO_CALL_COMMFINALIZE; /* that is to clean up, too */
        says(CAPO_HANG_CREATION, "3", CAPO_HANG_WHY_GONE);
        comm_of("shrunk", 0, 3);
        for (uint32_t i = 0; i < 3; i++)
                reduce(i, 1, 972); /* they go on without it */
        is_quiet();
}

Test(hang, a_communicator_of_all_without_one)
{
        ranks(3);
        for (uint32_t i = 0; i < 2; i++) {
                struct capo_hang_call *c = lifecycle_call(i, CAPO_CALL_COMMINIT, 950);

                c->comm = c->member = CAPO_HANG_NONE;
                c->stream = 4711;
                c->bytes = 3;
        }
        says(CAPO_HANG_CREATION, "2", CAPO_HANG_WHY_HOST);
        job.comms[comm_of("made", 2, 1)].uid = 4711;
        says(CAPO_HANG_INSIDE, "0 1", CAPO_HANG_WHY_CALL);
        job.comms[1].uid = 1;
        job.processes[0].calls[0].bytes = job.processes[1].calls[0].bytes =
                2; /* of these two only */
        says(CAPO_HANG_INSIDE, "0 1", CAPO_HANG_WHY_CALL);
}

/* The third rank left no log, and the launcher ended the two that waited for it. */
Test(hang, a_communicator_without_an_unknown_rank)
{
        ranks(2);
        job.n_ranks = 3;
        job.n_comms = 0;
        for (uint32_t i = 0; i < 2; i++) {
                struct capo_hang_call *c = lifecycle_call(i, CAPO_CALL_COMMINIT, 950);

                c->comm = c->member = CAPO_HANG_NONE;
                c->stream = 4711;
                c->bytes = 3;
        }
        says(CAPO_HANG_UNDECIDED, "", 0);
        cr_assert(v.unseen == 1 && v.n_waiting == 2 && v.call->call == CAPO_CALL_COMMINIT);
        for (uint32_t i = 0; i < 2; i++)
                ended(i, 1000, 1);
        says(CAPO_HANG_UNDECIDED, "", 0);
        cr_assert(v.unseen == 1 && v.n_waiting == 2 && v.call->call == CAPO_CALL_COMMINIT);
        for (uint32_t i = 0; i < 2; i++)
                job.processes[i].calls[0].begin_ns = 999ull * S; /* creation may take a while */
        says(CAPO_HANG_UNDECIDED, "", 0);
        cr_assert_null(v.call);
}

/* Three grow to four, and the newcomer is the process that is not in their communicator. */
Test(hang, a_growth_without_the_newcomer)
{
        uint32_t part;

        ranks(4);
        part = comm_of("part", 0, 3);
        for (uint32_t i = 0; i < 3; i++) {
                struct capo_hang_call *c = made(i, part, CAPO_CALL_COMMGROW, 950);

                c->where = CAPO_HANG_HOST;
                c->end_ns = 0;
                c->bytes = 4;
        }
        says(CAPO_HANG_CREATION, "3", CAPO_HANG_WHY_HOST);
        for (uint32_t i = 0; i < 3; i++)
                job.processes[i].calls[0].bytes = 5;
        says(CAPO_HANG_UNDECIDED, "", 0);
        cr_assert_eq(v.unseen, 2);
}

/* Two of three have begun to make it, do not wait for that, and ask whether it is ready. */
Test(hang, a_communicator_that_is_begun_without_one)
{
        uint32_t pipe;

        ranks(3);
        pipe = comm_of("pipe", 0, 2);
        job.comms[pipe].n_ranks = 3;
        for (uint32_t i = 0; i < 2; i++)
                made(i, pipe, CAPO_CALL_COMMINIT, 950)->result = CAPO_NCCL_IN_PROGRESS;
        says(CAPO_HANG_CREATION, "2", CAPO_HANG_WHY_HOST);
        cr_assert(v.n_waiting == 2 && v.sure == CAPO_HANG_LIKELY);
        job.comms[pipe].n_ranks = 4;
        says(CAPO_HANG_UNDECIDED, "", 0);
}

Test(hang, gpus_that_do_not_end)
{
        ranks(3);
        everybody(0, 950);
        job.processes[1].calls[0].gpu = CAPO_HANG_GPU_RUNNING;
        says(CAPO_HANG_RUNNING, "1", CAPO_HANG_WHY_GPU);
        job.now_ns = 955ull * S;
        says(CAPO_HANG_SLOW, "1", CAPO_HANG_WHY_GPU);
}

Test(hang, a_rank_without_a_log)
{
        ranks(3);
        reduce(0, 0, 950);
        reduce(1, 0, 950);
        reduce(2, 0, 950);
        job.comms[0].n_ranks = 4;
        says(CAPO_HANG_UNDECIDED, "", 0);
        job.comms[0].members[2].issued = 0; /* one that has a log is missing beside it */
        job.processes[2].n_calls = 0;
        says(CAPO_HANG_MISSING, "2", CAPO_HANG_WHY_HOST);
        cr_assert(v.unseen == 1 && v.sure == CAPO_HANG_LIKELY);
}

/* What is older than the last calls has ended where all have made it; where one has not it is
 * waited for all the same. */
Test(hang, older_than_the_last_calls)
{
        ranks(3);
        for (uint32_t i = 0; i < 3; i++) {
                job.comms[0].members[i].issued = i < 2 ? 5000 : 4000;
                reduce(i, 0, 950);
        }
        says(CAPO_HANG_MISSING, "2", CAPO_HANG_WHY_HOST);
        cr_assert_eq(v.seq, 4002);
        job.comms[0].members[2].issued = job.processes[2].calls[0].seq = 5001;
        job.processes[0].calls[0].seq = 4990; /* the newer ones are not among the last calls */
        all_calls_ended();
        is_quiet();
}

Test(hang, nobody_is_through_with_a_call_whose_forerunner_waits)
{
        struct capo_hang_call *c;

        ranks(2);
        reduce(0, 0, 950);
        c = made(0, 0, CAPO_CALL_BROADCAST, 951);
        c->peer =
                0; /* a root, which may be through before the others have come, on another stream */
        c->stream = 2;
        says(CAPO_HANG_MISSING, "1", CAPO_HANG_WHY_HOST);
        cr_assert_eq(v.seq, 1);
        cr_assert_eq(v.sure, CAPO_HANG_CERTAIN);
}

Test(hang, a_captured_call_says_nothing_of_those_before_it)
{
        struct capo_hang_call *c;

        ranks(3);
        everybody(0, 940);
        for (uint32_t i = 0; i < 2; i++) {
                reduce(i, 0, 950); /* rank 2 does not come */
                c = reduce(i, 0, 951);
                c->captured = true;
                c->stream = 2;
        }
        says(CAPO_HANG_MISSING, "2", CAPO_HANG_WHY_HOST);
        cr_assert(v.seq == 2 && v.n_waiting == 2);
}

Test(hang, captured_calls_are_not_played)
{
        ranks(2);
        everybody(0, 940);
        reduce(0, 0, 950);
        for (uint32_t i = 0; i < 3; i++)
                (i < 2 ? &job.processes[i].calls[0] : &job.processes[0].calls[1])->captured = true;
        job.now_ns = 955ull * S;
        says(CAPO_HANG_HEALTHY, "", 0);
        job.now_ns = 1000ull * S; /* a launch that one rank leaves out would look just like this */
        says(CAPO_HANG_UNDECIDED, "", 0);
        cr_assert(v.graphs_unknown);
}

Test(hang, the_dead_do_not_wait)
{
        ranks(3);
        everybody(0, 940);
        reduce(0, 0, 950);
        job.processes[0].life = CAPO_HANG_KILLED; /* it had waited for 1 and 2, who did not come */
        job.processes[0].end_ns = 955ull * S;
        job.processes[1].calls[0].gpu = job.processes[2].calls[0].gpu = CAPO_HANG_GPU_ENDED;
        is_quiet();
        job.processes[0].end_ns = 990ull * S; /* killed because it had waited for so long */
        says(CAPO_HANG_MISSING, "1 2", CAPO_HANG_WHY_HOST);
}

Test(hang, killed_in_a_call_that_all_had_entered)
{
        ranks(3);
        everybody(0, 950);
        job.processes[1].life = CAPO_HANG_KILLED;
        job.processes[1].end_ns = 951ull * S;
        says(CAPO_HANG_RUNNING, "1", CAPO_HANG_WHY_GONE);
        cr_assert(v.sure == CAPO_HANG_LIKELY && v.seq == 1 && v.n_waiting == 2);
        all_calls_ended(); /* it had ended before, and nobody waits */
        job.processes[1].ending = CAPO_HANG_BY_KILL;
        says(CAPO_HANG_ENDED, "1", CAPO_HANG_WHY_GONE);
}

Test(hang, a_job_that_stood_and_was_then_killed_rank_by_rank)
{
        ranks(3);
        everybody(0, 950);
        job.processes[1].life =
                CAPO_HANG_KILLED; /* long after its last call: it stood as the others did */
        job.processes[1].end_ns = 990ull * S;
        job.processes[0].calls[0].captured = job.processes[2].calls[0].captured = true;
        says(CAPO_HANG_UNDECIDED, "", 0);
        job.processes[0].calls[0].captured = job.processes[2].calls[0].captured = false;
        job.processes[0].calls[0].gpu = job.processes[2].calls[0].gpu = CAPO_HANG_GPU_RUNNING;
        says(CAPO_HANG_RUNNING, "0 2", CAPO_HANG_WHY_GPU);
}

Test(hang, a_killed_rank_is_missing_though_calls_were_captured_before)
{
        ranks(3);
        everybody(0, 940);
        for (uint32_t i = 0; i < 3; i++)
                job.processes[i].calls[0].captured = true;
        reduce(0, 0, 950);
        reduce(2, 0, 950);
        job.processes[1].life = CAPO_HANG_KILLED;
        job.processes[1].end_ns = 945ull * S;
        says(CAPO_HANG_MISSING, "1", CAPO_HANG_WHY_GONE);
        cr_assert_eq(v.sure, CAPO_HANG_CERTAIN);
}

/* Counted by the cells, and none but the first kept: as many as a forged log likes. Rank 1 lacks
 * the last. */
Test(hang, four_billion_calls_take_no_time, .timeout = 60)
{
        struct capo_hang_waits waits;

        ranks(2);
        everybody(0, 900);
        job.comms[0].members[0].issued = UINT32_MAX - 9;
        job.comms[0].members[1].issued = UINT32_MAX - 10;
        capo_hang_play(&job, false, &waits);
        cr_expect_eq(waits.fronts[0].seq, UINT32_MAX - 9);
        cr_expect_eq(waits.fronts[0].stand[0], CAPO_STAND_IN);
        cr_expect_eq(waits.fronts[0].stand[1], CAPO_STAND_MISSING);
        capo_hang_waits_finish(&waits);
}

Test(hang, numbers_far_apart)
{
        struct capo_hang_waits waits;

        ranks(2);
        everybody(0, 100);
        job.processes[1].calls[0].bytes = 8;
        job.comms[0].members[0].issued = job.comms[0].members[1].issued = 4000000000;
        everybody(0, 900);
        capo_hang_play(&job, false, &waits);
        cr_expect(waits.fronts[0].seq == 1 && waits.fronts[0].mismatch);
        capo_hang_waits_finish(&waits);

        job.processes[1].calls[0].bytes = 4096;
        job.processes[0].calls[1].gpu = CAPO_HANG_GPU_ENDED;
        reduce(0, 0, 950);
        reduce(1, 0, 950)->bytes = 8;
        job.processes[0].calls[2].gpu =
                CAPO_HANG_GPU_ENDED; /* they differed: nothing is known of it by that */
        capo_hang_play(&job, false, &waits);
        cr_expect(waits.fronts[0].seq == 4000000002 && waits.fronts[0].mismatch);
        cr_expect_eq(waits.fronts[0].call[1]->bytes, 8);
        capo_hang_waits_finish(&waits);
}

Test(hang, of_a_number_twice_the_last_one)
{
        struct capo_hang_waits waits;

        ranks(2);
        everybody(0, 900);
        reduce(1, 0, 910)->seq = 1;
        job.processes[1].calls[1].bytes = 8;
        capo_hang_play(&job, false, &waits);
        cr_expect(waits.fronts[0].seq == 1 && waits.fronts[0].mismatch);
        cr_expect_eq(waits.fronts[0].call[1]->bytes, 8);
        capo_hang_waits_finish(&waits);
}

Test(hang, an_end_by_itself_is_none)
{
        ranks(2);
        everybody(0, 950);
        ended(0, 1000, -1);
        ended(1, 1000, -1);
        job.processes[0].ending = job.processes[1].ending = CAPO_HANG_BY_EXIT;
        says(CAPO_HANG_HEALTHY, "", 0);
}

/* 0 sends to 2 what 1 waits for: 2 owes nothing. */
Test(hang, a_wrong_peer)
{
        ranks(3);
        everybody(0, 900);
        message(0, 0, CAPO_CALL_SEND, 2, 950);
        message(1, 0, CAPO_CALL_RECV, 0, 950);
        says(CAPO_HANG_P2P, "0", CAPO_HANG_WHY_PEER);
        cr_assert_eq(v.sure, CAPO_HANG_LIKELY);
        cr_assert_eq(v.call->call, CAPO_CALL_RECV);
        job.processes[1].calls[1].bytes = 77; /* other data */
        says(CAPO_HANG_P2P, "2", CAPO_HANG_WHY_HOST);
}

/* A ring, in groups; 2 takes the wrong way round. Messages that 0 waits for are there. */
Test(hang, a_ring_turned_on_one_rank)
{
        static const uint32_t to[] = {1, 2, 1, 0}, from[] = {3, 0, 3, 2};

        ranks(4);
        everybody(0, 900);
        for (uint32_t i = 0; i < 4; i++) {
                message(i, 0, CAPO_CALL_SEND, (int32_t)to[i], 950)->group = 5;
                message(i, 0, CAPO_CALL_RECV, (int32_t)from[i], 950)->group = 5;
        }
        says(CAPO_HANG_P2P, "2", CAPO_HANG_WHY_PEER);
        cr_assert_eq(v.sure, CAPO_HANG_LIKELY);
}

/* No call was timed, but the GPUs were asked. */
Test(hang, streams_that_were_asked)
{
        ranks(2);
        everybody(0, 900);
        job.processes[0].calls[0].gpu = job.processes[1].calls[0].gpu = CAPO_HANG_GPU_BUSY;
        says(CAPO_HANG_RUNNING, "0 1", CAPO_HANG_WHY_GPU);
        cr_assert(v.busy && v.sure == CAPO_HANG_LIKELY);
        job.processes[0].calls[0].gpu = job.processes[1].calls[0].gpu = CAPO_HANG_GPU_UNKNOWN;
        says(CAPO_HANG_UNDECIDED, "", 0);
        job.comms[0].members[0].idle = job.comms[0].members[1].idle = true;
        is_quiet();
}

/* What is in graphs nobody sees. */
Test(hang, a_rank_that_may_be_in_a_graph)
{
        ranks(2);
        everybody(0, 900);
        reduce(0, 0, 950);
        says(CAPO_HANG_MISSING, "1", CAPO_HANG_WHY_HOST);
        cr_assert_eq(v.sure, CAPO_HANG_CERTAIN);
        job.processes[1].calls[0].captured = true;
        says(CAPO_HANG_MISSING, "1", CAPO_HANG_WHY_HOST);
        cr_assert_eq(v.sure, CAPO_HANG_LIKELY);
}

/* A failure elsewhere is another explanation. */
Test(hang, the_first_call_that_failed)
{
        ranks(3);
        everybody(0, 900);
        reduce(0, 0, 950);
        reduce(2, 0, 950);
        says(CAPO_HANG_MISSING, "1", CAPO_HANG_WHY_HOST);
        cr_assert(v.sure == CAPO_HANG_CERTAIN && !v.failure);
        made(2, 0, CAPO_CALL_SEND, 949)->result = 3;
        says(CAPO_HANG_MISSING, "1", CAPO_HANG_WHY_HOST);
        cr_assert(v.sure == CAPO_HANG_LIKELY && v.failed == 2 && v.failure->result == 3);
        /* it began before that one, and failed after it */
        *made(0, 0, CAPO_CALL_SEND, 948) = (struct capo_hang_call){.begin_ns = 948ull * S,
                                                                   .end_ns = 952ull * S,
                                                                   .peer = -1,
                                                                   .result = 5,
                                                                   .call = CAPO_CALL_SEND};
        says(CAPO_HANG_MISSING, "1", CAPO_HANG_WHY_HOST);
        cr_assert(v.failed == 2 && v.failure->result == 3);
}

/* Ranks are looked at one after the other. */
Test(hang, a_wait_of_a_moment_is_none)
{
        ranks(2);
        everybody(0, 999);
        job.now_ns = 999ull * S + S / 2;
        reduce(0, 0, 999);
        says(CAPO_HANG_HEALTHY, "", 0);
        job.now_ns = 1001ull * S;
        says(CAPO_HANG_SLOW, "1", CAPO_HANG_WHY_HOST);
}

/* A command to paste, where the log has what it takes. */
Test(hang, what_is_next)
{
        char a[] = "a", b[] = "b";
        struct capo_job_process of[] = {{.host = a, .header.pid = 31},
                                        {.host = b, .header.pid = 32},
                                        {.host = a, .header.pid = 33}};
        struct capo_job logs = {.processes = of, .n_processes = 3};
        char text[CAPO_HANG_NEXT], said[CAPO_HANG_WHYS][CAPO_HANG_NEXT];

        ranks(3);
        v = (struct capo_hang_verdict){.n_culprits = 3, .culprits = calloc(3, sizeof *v.culprits)};
        for (unsigned i = 0; i < CAPO_HANG_WHYS; i++) {
                v.culprits[0].why = i;
                cr_assert(*capo_hang_next(&logs, &v, text));
                cr_assert(!strstr(text, "PID") && !strstr(text, "NODE"), "%s", text);
                memcpy(said[i], text, sizeof text);
                for (unsigned k = 0; k < i; k++) /* each reason has advice of its own */
                        cr_expect_str_neq(text, said[k], "%u and %u: %s", k, i, text);
        }
        for (uint32_t i = 0; i < 3; i++)
                v.culprits[i] =
                        (struct capo_hang_culprit){.process = i, .why = CAPO_HANG_WHY_STOPPED};
        cr_assert_str_eq(capo_hang_next(&logs, &v, text),
                         "kill -CONT 31 33 on a, or leave the debugger");
        v.culprits[0].why = CAPO_HANG_WHY_HOST;
        cr_assert(strstr(capo_hang_next(&logs, &v, text), "capo hang --stacks 31 on a "), "%s",
                  text);
        of[0].header.pid = 0; /* a dump of PyTorch's has none */
        cr_assert(strstr(capo_hang_next(&logs, &v, text), "capo hang --stacks PID on NODE "), "%s",
                  text);
}

Test(hang, words)
{
        ranks(1);
        for (unsigned i = 0; i < CAPO_HANG_KINDS; i++)
                cr_assert(*capo_hang_kind_name(i));
        for (unsigned i = 0; i < CAPO_HANG_WHYS; i++)
                cr_assert(*capo_hang_why_name(i) && *capo_hang_why_meaning(i));
        cr_assert_eq(capo_hang_kind_exit(CAPO_HANG_MISSING), 1);
        cr_assert_eq(capo_hang_kind_exit(CAPO_HANG_UNDECIDED), 3);
        cr_assert_str_eq(capo_hang_sure_name(CAPO_HANG_CERTAIN), "certain");
}
