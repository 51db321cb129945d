/* SPDX-License-Identifier: Apache-2.0 */
/* HANG frames: what is written is what is read. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/log/segment_calls.h"
#include "core/log/unfinished.h"
#include "analysis/log/hang_frame_read.h"
#include "analysis/log/log_read.h"
#include "tests/log_numbers.h"

static struct capo_segment seg = {.fd = -1};

static struct capo_record a_call(uint64_t begin, uint32_t seq)
{
        return (struct capo_record){.t_begin = begin,
                                    .t_end = begin + 7,
                                    .bytes = 1ull << 40,
                                    .stream = 0xf0000001,
                                    .seq = seq,
                                    .group = 9,
                                    .peer = -1,
                                    .comm = 65000,
                                    .site = 65001,
                                    .call = CAPO_CALL_REDUCE,
                                    .type = 255,
                                    .op = 254,
                                    .result = -3,
                                    .clock = CAPO_CLOCK_EVENT,
                                    .flags = CAPO_RECORD_MEMBER,
                                    .thread = 65002};
}

/* One thread in a call, one call on the GPU, and so many that have ended. */
static struct capo_log_frame frame_of(unsigned ended, char *text, size_t room,
                                      struct capo_hang_text *t)
{
        struct capo_segment_config config = {.ring_bytes = 64 * 64, .flight_records = 256};
        struct capo_ring *ring;
        struct capo_slot *slot;

        cr_assert_eq(capo_segment_create(&seg, "/nonexistent", &config), 0);
        seg.header->clock = (struct capo_timebase){.ns_per_tick = 1, .now_ticks = 5000};
        seg.header->calls = 77;
        seg.header->flight_keep = 200;
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_RINGS, 1), 0);
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_SLOTS, 1), 0);
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_FLIGHT, 256), 0);
        seg.header->areas[CAPO_AREA_RINGS].used = seg.header->areas[CAPO_AREA_SLOTS].used = 1;
        ring = capo_area_at(&seg, CAPO_AREA_RINGS, 0);
        ring->records[0] = a_call(3000, 42);
        ring->records[0].t_end = 0;
        slot = capo_area_at(&seg, CAPO_AREA_SLOTS, 0);
        slot->record = a_call(2000, 41);
        slot->state = CAPO_SLOT_ARMED;
        for (unsigned i = 0; i < ended; i++)
                *(struct capo_record *)capo_area_at(&seg, CAPO_AREA_FLIGHT, i % 256) =
                        a_call(100 + i, i);
        seg.header->flight_head = ended;
        return (struct capo_log_frame){.type = CAPO_FRAME_HANG,
                                       .payload = text,
                                       .size = (uint32_t)capo_hang_text_write(&seg, t, text, room)};
}

Test(hang_text, what_is_written_is_read)
{
        static char text[32000];
        struct capo_hang_text t = {.since_ns = 3000, .nth = 2}, read;
        struct capo_log_frame f = frame_of(3, text, sizeof text, &t);
        struct capo_unfinished_call u;
        struct capo_record same;
        unsigned standing = 0, enqueued = 0, last = 0;
        size_t at = 0;

        cr_assert_eq(capo_hang_text_read(&f, &read), 0);
        cr_assert_eq(read.at_ns, 5000);
        cr_assert_eq(read.since_ns, 3000);
        cr_assert_eq(read.calls, 77);
        cr_assert_eq(read.nth, 2);
        while (capo_hang_text_next(&f, &at, &u)) {
                if (!u.record.t_end) {
                        standing += u.where == CAPO_UNFINISHED_HOST;
                        continue;
                }
                same = u.where == CAPO_UNFINISHED_GPU ? a_call(2000, 41) : a_call(100 + last, last);
                if (u.where == CAPO_UNFINISHED_GPU)
                        same.clock = CAPO_CLOCK_NONE; /* its GPU time is not known */
                cr_assert_arr_eq(&u.record, &same, sizeof same);
                *(u.where == CAPO_UNFINISHED_GPU ? &enqueued : &last) += 1;
        }
        cr_assert_eq(standing, 1);
        cr_assert_eq(enqueued, 1);
        cr_assert_eq(last, 3);
}

/* What a dead process left: a time that cannot be, and a hole. */
Test(hang_text, calls_that_are_damaged)
{
        static char text[32000];
        struct capo_hang_text t = {0};
        struct capo_log_frame f = frame_of(3, text, sizeof text, &t);
        struct capo_record *flight = capo_area_at(&seg, CAPO_AREA_FLIGHT, 0);
        struct capo_unfinished_call u;
        unsigned n = 0;
        size_t at = 0;

        flight[0].t_end = flight[0].t_begin - 5;
        flight[1].call = 0;
        f.size = (uint32_t)capo_hang_text_write(&seg, &t, text, sizeof text);
        while (capo_hang_text_next(&f, &at, &u)) {
                if (u.where == CAPO_UNFINISHED_WHERES && n++ == 0)
                        cr_assert(u.record.t_begin == 100 && u.record.t_end == 100);
        }
        cr_assert_eq(n, 2);
}

/* Innermost first, by thread; what is too long loses its begin, whole characters of it. */
Test(hang_text, python)
{
        static char text[2000], longer[600], frame[CAPO_HANG_LINE];
        struct capo_log_frame f = {.type = CAPO_FRAME_HANG, .payload = text};
        size_t n = 0, at = 0;
        unsigned nth;

        for (size_t i = 0; i + 1 < sizeof longer; i += 2)
                memcpy(longer + i, "\xc3\xa4", 2);
        memcpy(longer + sizeof longer - 12, "x.py:3 main", 12);
        n += capo_hang_text_python(text + n, sizeof text - n, 0, "a b.py:12 f");
        n += capo_hang_text_python(text + n, sizeof text - n, 17, longer);
        cr_assert_eq(capo_hang_text_python(text + n, 12, 17, "c.py:1 f"), 0, "half a line is none");
        f.size = (uint32_t)n;
        cr_assert(capo_hang_text_next_line(&f, CAPO_HANG_KEY_PYTHON, &at, &nth, frame));
        cr_assert_eq(nth, 0);
        cr_assert_str_eq(frame, "a b.py:12 f");
        cr_assert(capo_hang_text_next_line(&f, CAPO_HANG_KEY_PYTHON, &at, &nth, frame));
        cr_assert_eq(nth, 17);
        cr_assert_eq((unsigned char)*frame, 0xc3);
        cr_assert_geq(strlen(frame), 180);
        cr_assert_str_eq(frame + strlen(frame) - 11, "x.py:3 main");
        cr_assert_not(capo_hang_text_next_line(&f, CAPO_HANG_KEY_PYTHON, &at, &nth, frame));
}

/* Threads and their C frames are apart, and what is no number is none of either. */
Test(hang_text, native)
{
        char text[1024], line[CAPO_HANG_LINE], frame[600];
        size_t n = capo_hang_text_thread(text, sizeof text, 7, "futex_wait", "a name"), at = 0;
        struct capo_log_frame f = {.payload = text};
        unsigned tid;

        memset(frame, 'f', sizeof frame - 1);
        frame[sizeof frame - 1] = 0;
        n += capo_hang_text_native(text + n, sizeof text - n, 7, "pause+0x1 libc.so.6+0x2");
        n += capo_hang_text_native(text + n, sizeof text - n, 7, frame);
        n += capo_hang_text_thread(text + n, sizeof text - n, 8, "", "b");
        n += (size_t)snprintf(text + n, sizeof text - n, "thread\tx y\nthread\t9\n");
        cr_assert_eq(capo_hang_text_native(text + n, 5, 8, "no room"), 0);
        f.size = (uint32_t)n;
        cr_assert(capo_hang_text_next_line(&f, CAPO_HANG_KEY_THREAD, &at, &tid, line));
        cr_assert(tid == 7 && !strcmp(line, "futex_wait a name"));
        cr_assert(capo_hang_text_next_line(&f, CAPO_HANG_KEY_THREAD, &at, &tid, line));
        cr_assert(tid == 8 && !strcmp(line, "- b"));
        cr_assert(!capo_hang_text_next_line(&f, CAPO_HANG_KEY_THREAD, &at, &tid, line) || !*line);
        at = 0;
        cr_assert(capo_hang_text_next_line(&f, CAPO_HANG_KEY_NATIVE, &at, &tid, line));
        cr_assert(tid == 7 && !strcmp(line, "pause+0x1 libc.so.6+0x2"));
        cr_assert(capo_hang_text_next_line(&f, CAPO_HANG_KEY_NATIVE, &at, &tid, line) &&
                  strlen(line) > 200);
        cr_assert(!capo_hang_text_next_line(&f, CAPO_HANG_KEY_NATIVE, &at, &tid, line));
}

/* The newest stay, as many as there is room for; no line is half there. */
Test(hang_text, little_room)
{
        static char text[32000];
        struct capo_hang_text t = {.since_ns = UINT64_MAX}, read;
        struct capo_log_frame f = frame_of(500, text, 4000, &t);
        struct capo_unfinished_call u = {0};
        unsigned n = 0;
        size_t at = 0;

        cr_assert_leq(f.size, 4000);
        cr_assert_eq(text[f.size - 1], '\n');
        cr_assert_eq(capo_hang_text_read(&f, &read), 0);
        cr_assert_eq(read.since_ns, read.at_ns);
        while (capo_hang_text_next(&f, &at, &u))
                n += u.where == CAPO_UNFINISHED_WHERES;
        cr_assert(n > 3 && n < 128, "%u", n);
        cr_assert_eq(u.record.seq, 499);
}

Test(hang_text, all_room)
{
        static char text[32000];
        struct capo_hang_text t = {0};
        struct capo_log_frame f = frame_of(500, text, sizeof text, &t);
        struct capo_unfinished_call u;
        unsigned n = 0;
        size_t at = 0;

        while (capo_hang_text_next(&f, &at, &u)) {
                if (u.where == CAPO_UNFINISHED_WHERES)
                        cr_assert_eq(u.record.seq, 500 - 128 + n++);
        }
        cr_assert_eq(n, 128, "%u", n);
}

Test(hang_text, what_lacks_something)
{
        static const char *const bad[] = {"", "at\t5\nsince\t5\ncalls\t1\n",
                                          "at\t5\nsince\t6\ncalls\t1\nnth\t1\n",
                                          "at\tfive\nsince\t5\ncalls\t1\nnth\t1\n",
                                          "at\t5\nsince\t5\ncalls\t1\nnth\t99999999999\n"};
        struct capo_hang_text read;
        struct capo_unfinished_call u;
        struct capo_log_frame f;
        size_t at = 0;

        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
                f = (struct capo_log_frame){.payload = bad[i], .size = (uint32_t)strlen(bad[i])};
                cr_assert_eq(capo_hang_text_read(&f, &read), -EBADMSG, "%s", bad[i]);
        }
        f.payload =
                "last\t1 AllReduce 1 1 8 5\nlast\tx\nenqueued\t\nunfinished+\tnowhere 1 AllReduce 1 1 8 5\n";
        f.size = (uint32_t)strlen(f.payload);
        cr_assert(!capo_hang_text_next(&f, &at, &u));
}
