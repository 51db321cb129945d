/* SPDX-License-Identifier: Apache-2.0 */
/* From a ring to a log and back: what the drain takes out is read again field by field, and counted exactly. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/log/drain.h"
#include "core/log/read.h"
#include "profiles/job/stats.h"

static char dir[] = "/tmp/capo-drain-XXXXXX";
static struct capo_segment seg;
static struct capo_ring *ring;
static struct capo_drain *drain;
static uint32_t made;

static void setup(void)
{
        struct capo_segment_config config = {.ring_bytes = 256 * 64, .flight_records = 64, .trace_all = true};
        struct capo_segment_header *h;

        cr_assert(mkdtemp(dir));
        cr_assert_eq(capo_segment_create(&seg, dir, &config), 0);
        h = seg.header;
        h->clock = (struct capo_timebase){.t0_ticks = 1000, .ns_per_tick = 1, .now_ticks = 2000};
        snprintf(h->log_path, sizeof h->log_path, "%s/d.capo", dir);
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_RINGS, 1), 0);
        h->areas[CAPO_AREA_RINGS].used = 1;
        ring = capo_area_at(&seg, CAPO_AREA_RINGS, 0);
        ring->state = CAPO_RING_LIVE;
        cr_assert_eq(capo_drain_new(&seg, &drain), 0);
        cr_assert_eq(capo_drain_create_log(drain), 0);
}

static void teardown(void)
{
        char command[64];

        capo_drain_free(drain);
        capo_segment_remove(&seg);
        snprintf(command, sizeof command, "rm -rf %s", dir);
        cr_assert(system(command) == 0);
}

TestSuite(drain, .init = setup, .fini = teardown);

/* A call of @host_ns that began @at ns after the epoch. */
static struct capo_record call_at(uint64_t at, uint64_t host_ns)
{
        return (struct capo_record){.t_begin = 1000 + at,
                                    .t_end = 1000 + at + host_ns,
                                    .bytes = 4096,
                                    .stream = 77,
                                    .seq = ++made,
                                    .peer = -1,
                                    .comm = 1,
                                    .site = 2,
                                    .rule = 3,
                                    .call = CAPO_CALL_ALLREDUCE,
                                    .type = 7,
                                    .op = 1,
                                    .clock = CAPO_CLOCK_HOST,
                                    .algo_proto = CAPO_ALGO_RING << 4 | CAPO_PROTO_SIMPLE,
                                    .channels = 4,
                                    .thread = 9};
}

static void put(struct capo_record r)
{
        ring->records[ring->head & (seg.header->ring_records - 1)] = r;
        ring->head++;
}

/* Drain, close the log, read every call of it back. */
static unsigned read_back(struct capo_record *out, unsigned room)
{
        static struct capo_log_shape shapes[65536];
        struct capo_log_columns c;
        const struct capo_log_shape *s;
        struct capo_log_frame f;
        struct capo_log *log;
        char why[256];
        unsigned n = 0;

        capo_drain_round(drain);
        cr_assert_eq(capo_drain_finish(drain, 1), 0);
        cr_assert_eq(capo_log_open(seg.header->log_path, &log, why, sizeof why), 0, "%s", why);
        while (capo_log_next(log, &f) > 0) {
                if (f.type == CAPO_FRAME_SHAPE) {
                        for (unsigned i = capo_log_shapes(&f, &s); i--; s++)
                                shapes[s->id] = *s;
                } else if (f.type == CAPO_FRAME_BLOCK && capo_log_block(&f, &c) == 0) {
                        for (uint32_t i = 0; i < c.n && n < room; i++) {
                                capo_log_record(&c, i, &shapes[c.shape[i]], &out[n]);
                                out[n++].thread = c.thread;
                        }
                } else if (f.type == CAPO_FRAME_WIDE) {
                        for (unsigned i = 0; n < room && capo_log_wide(&f, i, &out[n]); i++)
                                n++;
                }
        }
        cr_assert_eq(capo_log_health(log)->n_damages, 0);
        capo_log_close(log);
        return n;
}

Test(drain, every_field_comes_back)
{
        struct capo_record in[5], out[8];

        for (unsigned i = 0; i < 5; i++)
                in[i] = call_at(100 * i, 10 + i);
        in[1].clock = CAPO_CLOCK_EVENT;
        in[1].gpu_ns = 123456;
        in[2].flags = CAPO_RECORD_MEMBER;
        in[2].clock = CAPO_CLOCK_NONE;
        in[2].group = 41;
        in[3].flags = CAPO_RECORD_GROUP;
        in[3].call = CAPO_CALL_GROUP;
        in[3].group = in[3].seq = 41;
        in[4].peer = 5;
        in[4].result = -3;
        for (unsigned i = 0; i < 5; i++)
                put(in[i]);
        cr_assert_eq(read_back(out, 8), 5);
        for (unsigned i = 0; i < 5; i++) {
                in[i].t_begin -= 1000; /* ns since the epoch */
                in[i].t_end -= 1000;
#define CAPO_FIELD(type, name, kept) cr_assert(in[i].name == out[i].name, "call %u: " #name, i);
#include "capo/record_fields.def"
#undef CAPO_FIELD
        }
}

Test(drain, durations_over_32_bits_are_whole)
{
        struct capo_record gpu = call_at(0, 10), host = call_at(100, 5000000000), out[4];
        struct capo_job *job = capo_job_new();
        char why[256];

        gpu.clock = host.clock = CAPO_CLOCK_EVENT;
        gpu.gpu_ns = 6000000000;
        host.gpu_ns = 7000000000;
        put(gpu);
        put(host);
        cr_assert_eq(read_back(out, 4), 2);
        cr_assert(out[0].gpu_ns == 6000000000 && out[0].t_end - out[0].t_begin == 10);
        cr_assert(out[1].gpu_ns == 7000000000 && out[1].t_end - out[1].t_begin == 5000000000);
        /* and so to the page: totals, the largest, and a quantile between the two */
        cr_assert_eq(capo_job_add_log(job, seg.header->log_path, why, sizeof why, NULL, NULL), 0, "%s", why);
        cr_assert_eq(capo_job_finish(job), 0);
        cr_assert_eq(job->n_rows, 1);
        cr_assert_eq(job->rows[0].time[CAPO_CLOCK_EVENT].max_ns, 7000000000);
        cr_assert_eq(job->rows[0].time[CAPO_CLOCK_EVENT].sum_ns, 13000000000);
        cr_assert_geq(capo_hist_quantile(&job->rows[0].time[CAPO_CLOCK_EVENT], 0.5), 6e9);
        cr_assert_leq(capo_hist_quantile(&job->rows[0].time[CAPO_CLOCK_EVENT], 0.95), 7e9);
        capo_job_free(job);
}

Test(drain, calls_are_counted_once_whatever_the_rings_do)
{
        static struct capo_record out[1024];

        for (unsigned i = 0; i < 600; i++) { /* more than a ring holds, in three rounds */
                put(call_at(100 * i, 10));
                if (i % 200 == 199)
                        cr_assert_eq(capo_drain_round(drain), 200);
        }
        cr_assert_eq(seg.header->calls, 600);
        cr_assert_eq(ring->tail, 600);
        ring->state = CAPO_RING_LEFT;
        cr_assert_eq(capo_drain_round(drain), 0);
        cr_assert_eq(ring->state, CAPO_RING_FREE, "its thread is gone and it is empty");
        cr_assert_eq(read_back(out, 1024), 600);
        for (unsigned i = 0; i < 600; i++)
                cr_assert_eq(out[i].seq, i + 1);
}
