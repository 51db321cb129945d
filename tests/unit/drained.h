/* SPDX-License-Identifier: Apache-2.0 */
/* A segment with one ring and a drain on it, put together by hand, and its log read back. */
#pragma once

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/log/drain.h"
#include "core/log/segment_calls.h"
#include "analysis/log/log_read.h"
#include "tests/log_numbers.h"

static char dir[] = "/tmp/capo-drain-XXXXXX";
static struct capo_segment seg;
static struct capo_ring *ring;
static struct capo_drain *drain;
static uint32_t made;

/* @flight: calls to keep; all of them: everything is traced. */
static inline void drained_start(uint64_t flight, bool all)
{
        struct capo_segment_config config = {
                .ring_bytes = 256 * 64, .flight_records = flight, .trace_all = all};
        struct capo_segment_header *h;

        close(STDIN_FILENO); /* as daemons do: 0 is a descriptor like any other */
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

static inline void drained_end(void)
{
        char command[64];

        capo_drain_free(drain);
        capo_segment_remove(&seg);
        snprintf(command, sizeof command, "rm -rf %s", dir);
        cr_assert(system(command) == 0);
}

/* A call of @host_ns that began @at ns after the epoch. */
static inline struct capo_record call_at(uint64_t at, uint64_t host_ns)
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

static inline void put(struct capo_record r)
{
        ring->records[ring->head & (ring->size - 1)] = r;
        ring->head++;
}

/* Drain, close the log, read every call of it back. */
static inline unsigned read_back(struct capo_record *out, unsigned room)
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

/* How many frames of one type the log has; @each looks into them. */
static inline int frames(unsigned type, void (*each)(const struct capo_log_frame *f))
{
        struct capo_log_frame f;
        struct capo_log *log;
        char why[256];
        int n = 0;

        cr_assert_eq(capo_log_open(seg.header->log_path, &log, why, sizeof why), 0, "%s", why);
        while (capo_log_next(log, &f) > 0) {
                if (f.type != type)
                        continue;
                if (each)
                        each(&f);
                n++;
        }
        cr_assert_eq(capo_log_health(log)->n_damages, 0);
        capo_log_close(log);
        return n;
}
