/* SPDX-License-Identifier: Apache-2.0 */
/* Two layers joined: made-up logs in which it is known which call each window's traffic was for. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <criterion/criterion.h>

#include "analysis/network/network.h"
#include "capo/record.h"
#include "core/base/util.h"
#include "tests/golden/gen_log.h"
#include "tests/job_add.h"
#include "tests/log_numbers.h"

#define T0 1000000000ull /* of gen_log_open(): CLOCK_MONOTONIC at the log's epoch */

static struct capo_job *job;
static struct gen_log log_;
static char path[64], text[65536];
static size_t n_text;

static void start(void)
{
        job = capo_job_new();
        cr_assert(job);
}

static void stop(void)
{
        for (uint32_t p = 0; p < job->n_processes; p++)
                unlink(job->processes[p].path);
        capo_job_free(job);
}

TestSuite(fabric_job, .init = start, .fini = stop);

/* A process with the communicators "dp" (id 1) and "tp" (id 2), and @info lines. */
static void process(unsigned pid, const char *info)
{
        char rank[32];

        snprintf(path, sizeof path, "/tmp/capo-test-fabric-XXXXXX");
        cr_assert_geq(mkstemp(path), 0);
        gen_log_open(&log_, path, pid);
        snprintf(rank, sizeof rank, "rank\t%u\n", pid - 1);
        gen_log_text(&log_, CAPO_FRAME_INFO, "host\tnode-a\n");
        gen_log_text(&log_, CAPO_FRAME_INFO, rank);
        gen_log_text(&log_, CAPO_FRAME_INFO, info);
        gen_log_comm(
                &log_,
                (struct capo_log_comm){.id = 1, .rank = (int)pid - 1, .n_ranks = 4, .uid = 0xd0},
                "dp");
        gen_log_comm(
                &log_,
                (struct capo_log_comm){.id = 2, .rank = (int)pid - 1, .n_ranks = 4, .uid = 0x70},
                "tp");
        n_text = (size_t)sprintf(
                text,
                "snapshot\t1\ndomain\tid=1\tprovider=efa\tname=rdmap0\tnic=0000:10:1b.0\tnuma=1\n"
                "ep\tid=2\tdomain=1\ttype=rdm\tsend=10,%u;9:10\n",
                1000 * pid);
}

/* Begins at @begin ns and ends at @end ns after the epoch, by the GPU's clock. */
/* On a stream of its own: what overlaps on the GPU is on different ones. */
static void call(unsigned comm, unsigned id, uint64_t begin, uint64_t end, unsigned flags)
{
        static uint32_t streams;
        struct capo_record r = {.t_begin = begin,
                                .t_end = begin + 1,
                                .bytes = 4096,
                                .comm = (uint16_t)comm,
                                .call = (uint8_t)id,
                                .type = 7,
                                .peer = -1,
                                .flags = (uint8_t)flags,
                                .stream = ++streams,
                                .clock = CAPO_CLOCK_EVENT,
                                .gpu_ns = (uint32_t)(end - begin)};

        gen_log_frame(&log_, CAPO_FRAME_WIDE, &r, sizeof r);
}

static void window(uint64_t begin, uint64_t end, unsigned ops, unsigned tx, unsigned rx)
{
        n_text += (size_t)sprintf(
                text + n_text, "window\tbegin=%llu\tend=%llu\tops=%u\ttx=%u\trx=%u\n",
                (unsigned long long)(T0 + begin), (unsigned long long)(T0 + end), ops, tx, rx);
}

static void process_end(void)
{
        char why[256];

        strcpy(text + n_text, "complete\t1\n");
        gen_log_text(&log_, CAPO_FRAME_FABRIC, text);
        gen_log_close(&log_);
        cr_assert_eq(add_log(job, path, why, sizeof why), 0, "%s", why);
}

static struct capo_fabric_job *joined(void)
{
        struct capo_fabric_job *f;

        capo_job_finish(job);
        f = capo_fabric_job_new(job);
        cr_assert(f);
        return f;
}

/* All zero when there is none. @comm NULL: outside of every call. */
static struct capo_fabric_share share(const struct capo_fabric_job *f, const char *comm,
                                      unsigned id)
{
        for (size_t i = 0; i < f->n_shares; i++) {
                const struct capo_fabric_share *s = &f->shares[i];

                if (s->call == id &&
                    (comm ? s->comm != CAPO_NO_COMM && !strcmp(job->comms[s->comm].name, comm)
                          : s->comm == CAPO_NO_COMM))
                        return *s;
        }
        return (struct capo_fabric_share){0};
}

#define IS(a, b) cr_assert_float_eq(a, b, 1e-6, #a " is %g, expected %g", (double)(a), (double)(b))

Test(fabric_job, one_call_after_another)
{
        _cleanup_(capo_fabric_job_freep) struct capo_fabric_job *f = NULL;
        struct capo_fabric_share s;

        process(1, "");
        call(1, CAPO_CALL_ALLREDUCE, 10000, 20000, 0);
        call(1, CAPO_CALL_ALLGATHER, 35000, 45000, 0);
        window(10000, 20000, 10, 1000, 500); /* all of the AllReduce */
        window(20000, 30000, 4, 100, 200);   /* nothing under way */
        window(30000, 40000, 6, 600, 0);     /* the AllGather alone, half of it */
        process_end();
        f = joined();
        s = share(f, "dp", CAPO_CALL_ALLREDUCE);
        cr_assert_eq(s.calls, 1);
        IS(s.ops, 10);
        IS(s.sent, 1000);
        IS(s.received, 500);
        IS(s.call_ns, 10000);
        s = share(f, "dp", CAPO_CALL_ALLGATHER);
        IS(s.ops, 6);
        IS(s.sent, 600);
        IS(s.call_ns, 10000);
        s = share(f, NULL, CAPO_CALL_NONE);
        IS(s.ops, 4);
        IS(s.received, 200);
        IS(f->window_ns, 10000);
        cr_assert_eq(f->shares[0].call, CAPO_CALL_ALLREDUCE, "most bytes first");
}

Test(fabric_job, communicators_that_overlap_share_by_time)
{
        _cleanup_(capo_fabric_job_freep) struct capo_fabric_job *f = NULL;

        process(1, "");
        call(1, CAPO_CALL_ALLREDUCE, 0, 10000, 0);
        call(2, CAPO_CALL_ALLREDUCE, 5000, 10000, 0);
        window(0, 10000, 30, 3000, 300);
        process_end();
        f = joined();
        IS(share(f, "dp", CAPO_CALL_ALLREDUCE).ops, 20);
        IS(share(f, "tp", CAPO_CALL_ALLREDUCE).ops, 10);
        IS(share(f, "dp", CAPO_CALL_ALLREDUCE).sent, 2000);
        IS(share(f, "tp", CAPO_CALL_ALLREDUCE).received, 100);
        IS(share(f, NULL, CAPO_CALL_NONE).ops, 0);
}

Test(fabric_job, members_have_no_time_and_own_posts_need_none)
{
        _cleanup_(capo_fabric_job_freep) struct capo_fabric_job *f = NULL;

        process(1, "");
        call(1, CAPO_CALL_SEND, 0, 10000, CAPO_RECORD_MEMBER);
        window(0, 10000, 7, 70, 0);
        n_text += (size_t)sprintf(text + n_text, "inside\tcomm=%d\tcall=%d\tops=5\tbytes=320\n",
                                  0x70, CAPO_CALL_BROADCAST);
        process_end();
        f = joined();
        IS(share(f, NULL, CAPO_CALL_NONE).ops, 7);
        cr_assert_eq(share(f, "dp", CAPO_CALL_SEND).calls, 0);
        cr_assert_eq(share(f, "tp", CAPO_CALL_BROADCAST).own_ops, 5);
        cr_assert_eq(share(f, "tp", CAPO_CALL_BROADCAST).own_bytes, 320);
        IS(share(f, "tp", CAPO_CALL_BROADCAST).ops, 0);
}

/* Whoever moved it: the most bytes come first. */
Test(fabric_job, own_posts_count_in_the_order)
{
        _cleanup_(capo_fabric_job_freep) struct capo_fabric_job *f = NULL;

        process(1, "");
        call(1, CAPO_CALL_SEND, 0, 10000, 0);
        window(0, 10000, 7, 40, 30);
        n_text += (size_t)sprintf(
                text + n_text,
                "inside\tcomm=%d\tcall=%d\tops=5\tbytes=69\ninside\tcomm=%d\tcall=%d\tops=5\tbytes=71\n",
                0x70, CAPO_CALL_BROADCAST, 0x70, CAPO_CALL_REDUCE);
        process_end();
        f = joined();
        cr_assert_geq(f->n_shares, 3);
        cr_expect_eq(f->shares[0].call, CAPO_CALL_REDUCE);
        cr_expect_eq(f->shares[1].call, CAPO_CALL_SEND);
        cr_expect_eq(f->shares[2].call, CAPO_CALL_BROADCAST);
}

static uint32_t below(uint32_t *seed, uint32_t n)
{
        *seed = *seed * 1664525u + 1013904223u;
        return (*seed >> 8) % n;
}

/* Many calls and windows of all lengths on two ranks: nothing is lost, nothing made up, and each
 * share is what the definition says when all pairs are tried. */
Test(fabric_job, traffic_is_conserved)
{
        enum { N = 300 };
        _cleanup_(capo_fabric_job_freep) struct capo_fabric_job *f = NULL;
        double sent = 0, got = 0, expect[3] = {0};
        uint32_t seed = 12345;

        for (unsigned pid = 1; pid <= 2; pid++) {
                struct {
                        uint64_t begin, end;
                        unsigned comm;
                } c[N];
                uint64_t at = 0;

                process(pid, "");
                for (unsigned i = 0; i < N;
                     i++) { /* now and then one that is far longer than those after it */
                        c[i].begin = at += below(&seed, 4000);
                        c[i].end = c[i].begin + 1 + below(&seed, i % 17 ? 3000 : 60000);
                        c[i].comm = 1 + below(&seed, 2);
                        call(c[i].comm, CAPO_CALL_ALLREDUCE, c[i].begin, c[i].end, 0);
                }
                at = 500;
                for (unsigned i = 0; i < N; i++) {
                        uint64_t begin = at += below(&seed, 3) ? 0 : below(&seed, 9000),
                                 end = at += 1 + below(&seed, 5000);
                        unsigned tx = below(&seed, 100000);
                        double covered = 0, part[3] = {0};

                        window(begin, end, 1 + below(&seed, 50), tx, below(&seed, 1000));
                        sent += tx;
                        for (unsigned k = 0; k < N; k++) {
                                double over = fmin((double)c[k].end, (double)end) -
                                              fmax((double)c[k].begin, (double)begin);

                                if (over > 0) {
                                        covered += over;
                                        part[c[k].comm] += over;
                                }
                        }
                        for (unsigned k = 1; k < 3; k++) {
                                expect[k] += covered > 0 ? tx * part[k] / covered : 0;
                        }
                        expect[0] += covered > 0 ? 0 : tx;
                }
                process_end();
        }
        f = joined();
        for (size_t i = 0; i < f->n_shares; i++) {
                got += f->shares[i].sent;
        }
        cr_assert_gt(expect[0], 0);
        cr_assert_float_eq(got, sent, 1e-3);
        cr_assert_float_eq(share(f, NULL, CAPO_CALL_NONE).sent, expect[0], 1e-3);
        cr_assert_float_eq(share(f, "dp", CAPO_CALL_ALLREDUCE).sent, expect[1], 1e-3);
        cr_assert_float_eq(share(f, "tp", CAPO_CALL_ALLREDUCE).sent, expect[2], 1e-3);
        cr_assert_eq(share(f, "dp", CAPO_CALL_ALLREDUCE).calls +
                             share(f, "tp", CAPO_CALL_ALLREDUCE).calls,
                     2 * N);
}

Test(fabric_job, near_and_far_from_the_gpu)
{
        static const struct {
                const char *info;
                int near, numa;
        } ranks[] = {
                {"gpu.numa.0\t0\n", 0, 0},
                {"gpu.numa.3\t1\n", 1, 1},
                {"gpu.numa.0\t0\ngpu.numa.5\t1\n", 1,
                 1}, /* a GPU on each node: near to one of them */
                {"gpu.numa.0\tx\n", -1, -1},
        };
        _cleanup_(capo_fabric_job_freep) struct capo_fabric_job *f = NULL;

        for (unsigned i = 0; i < N_ELEMENTS(ranks); i++) {
                process(i + 1, ranks[i].info);
                process_end();
        }
        f = joined();
        cr_assert_eq(f->n_links, N_ELEMENTS(ranks));
        for (unsigned i = 0; i < N_ELEMENTS(ranks); i++) {
                cr_assert_eq(job->processes[f->links[i].process].rank, (int)i);
                cr_assert_eq(f->links[i].gpu_numa, ranks[i].numa, "rank %u", i);
                cr_assert_eq(capo_fabric_link_near(&f->links[i]), ranks[i].near, "rank %u", i);
                cr_assert_eq(f->links[i].sharers, 4);
                IS(f->links[i].load, (i + 1) / 2.5);
        }
}
