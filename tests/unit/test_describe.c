/* SPDX-License-Identifier: Apache-2.0 */
/* What a log says beside calls, put into the segment by hand as threads do it: once, again when it
 * changed, and whole. */
#include <errno.h>

#include "tests/unit/drained.h"

static void setup(void) { drained_start(64, false); }

TestSuite(describe, .init = setup, .fini = drained_end);

/* ---- communicators ---- */

static struct capo_log_comm last_comm;
static char last_name[256];

static void keep_comm(const struct capo_log_frame *f)
{
        const char *name;

        cr_assert_eq(capo_log_comm(f, &last_comm, &name), 0);
        snprintf(last_name, sizeof last_name, "%.*s", last_comm.name_size, name);
}

static struct capo_seg_comm *comms(uint32_t n)
{
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_COMMS, n), 0);
        seg.header->areas[CAPO_AREA_COMMS].used = n;
        return capo_area_at(&seg, CAPO_AREA_COMMS, 0);
}

Test(describe, a_communicator_is_said_when_it_is_whole_and_when_it_changes)
{
        struct capo_seg_comm *c = comms(3);

        c[0] = (struct capo_seg_comm){.log = {.id = 1, .rank = 3, .t_created = 1500, .uid = 77},
                                      .name = "dp",
                                      .stamp = 1};
        c[2] = (struct capo_seg_comm){.log = {.id = 3}, .name = "not yet whole"};
        cr_assert_eq(capo_drain_checkpoint(drain), 0);
        cr_assert_eq(frames(CAPO_FRAME_COMM, keep_comm), 1);
        cr_expect(last_comm.id == 1 && last_comm.rank == 3 && last_comm.uid == 77 &&
                  last_comm.name_size == 2);
        cr_expect(last_comm.t_created == 500 && last_comm.t_destroyed == 0,
                  "ns since the epoch; 0 stays: it lives");
        cr_expect_str_eq(last_name, "dp");
        cr_assert_eq(capo_drain_checkpoint(drain), 0);
        cr_assert_eq(frames(CAPO_FRAME_COMM, NULL), 1, "nothing new");
        c[0].log.t_destroyed = 1700;
        c[0].stamp++;
        memset(c[0].name, 'x', sizeof c[0].name); /* an untrusted file: no end */
        cr_assert_eq(capo_drain_checkpoint(drain), 0);
        cr_assert_eq(frames(CAPO_FRAME_COMM, keep_comm), 2);
        cr_expect_eq(last_comm.t_destroyed, 700);
        cr_expect_eq(last_comm.name_size, sizeof c[0].name - 1);
        c[2].stamp = 5;
        cr_assert_eq(capo_drain_finish(drain, 1), 0);
        cr_assert_eq(frames(CAPO_FRAME_COMM, keep_comm), 3);
        cr_expect_str_eq(last_name, "not yet whole");
}

/* ---- call sites ---- */

static struct capo_log_site last_site;
static struct capo_log_site_chosen last_chosen;
static char last_text[4096];

static void keep_site(const struct capo_log_frame *f)
{
        const char *text;

        cr_assert_eq(capo_log_site(f, &last_site, &text), 0);
        last_chosen = capo_log_site_chosen(f);
        snprintf(last_text, sizeof last_text, "%.*s", (int)last_site.text_size, text);
}

static struct capo_seg_site *sites(uint32_t n)
{
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_SITES, n), 0);
        seg.header->areas[CAPO_AREA_SITES].used = n;
        return capo_area_at(&seg, CAPO_AREA_SITES, 0);
}

static unsigned resolved;
static unsigned resolve(const struct capo_seg_site *site, char *text, unsigned room)
{
        resolved++;
        return (unsigned)snprintf(text, room, "at %u of %u\n", (unsigned)site->pc[0], site->n_pc);
}

Test(describe, a_site_counts_its_calls)
{
        struct capo_seg_site *s = sites(2);
        struct capo_record r;

        s[0].ready = 1;
        s[1].ready = 1;
        s[1].n_pc = 2;
        s[1].pc[0] = 0xabc;
        s[1].pc[1] = 0x10;
        put(call_at(0, 10)); /* of site 2 */
        put(call_at(100, 30));
        r = call_at(200, 1000);
        r.flags = CAPO_RECORD_GROUP; /* its members have the time */
        put(r);
        r = call_at(300, 7);
        r.clock = CAPO_CLOCK_EVENT;
        r.gpu_ns = 5000;
        put(r);
        r.site = 3; /* an untrusted file: there is none */
        put(r);
        r.site = 0;
        put(r);
        capo_drain_round(drain);
        cr_assert_eq(capo_drain_checkpoint(drain), 0);
        cr_assert_eq(frames(CAPO_FRAME_SITE, keep_site), 2, "also the one without calls");
        cr_expect(last_site.id == 2 && last_site.count == 4 && last_site.host_ns == 47 &&
                  last_site.gpu_ns == 5000 && last_site.gpu_count == 1);
        cr_expect_str_eq(last_text, "0xabc\n0x10\n");
        cr_assert_eq(capo_drain_checkpoint(drain), 0);
        cr_assert_eq(frames(CAPO_FRAME_SITE, NULL), 2, "no more calls from there");
        put(call_at(400, 1));
        capo_drain_round(drain);
        cr_assert_eq(capo_drain_checkpoint(drain), 0);
        cr_assert_eq(frames(CAPO_FRAME_SITE, keep_site), 3);
        cr_expect(last_site.id == 2 && last_site.count == 5 && !last_site.chosen &&
                  !last_chosen.gpu_count);
        r = call_at(500, 1);
        r.clock = CAPO_CLOCK_EVENT;
        r.gpu_ns = 90000;
        r.flags = CAPO_RECORD_CHOSEN;
        put(r);
        capo_drain_round(drain);
        cr_assert_eq(capo_drain_checkpoint(drain), 0);
        cr_assert_eq(frames(CAPO_FRAME_SITE, keep_site), 4);
        cr_expect(last_site.count == 6 && last_site.gpu_ns == 95000 && last_site.gpu_count == 2);
        cr_expect(last_chosen.gpu_ns == 90000 && last_chosen.gpu_count == 1);
        cr_expect_str_eq(last_text, "0xabc\n0x10\n");
}

Test(describe, a_site_is_named_once)
{
        struct capo_seg_site *s = sites(3);

        capo_drain_resolve(drain, resolve);
        s[0] = (struct capo_seg_site){
                .ready = 1, .n_pc = 2, .pc = {7}, .py_size = 7, .py = "a.py:1\n"};
        s[1] = (struct capo_seg_site){.ready = 0, .n_pc = 1};
        s[2] = (struct capo_seg_site){
                .ready = 1, .n_pc = 3, .pc = {9}, .py_size = 60000}; /* an untrusted file */
        cr_assert_eq(capo_drain_checkpoint(drain), 0);
        cr_assert_eq(frames(CAPO_FRAME_SITE, keep_site), 2);
        cr_expect_eq(last_site.id, 3);
        cr_expect_str_eq(last_text, "at 9 of 3\n");
        cr_expect_eq(resolved, 2);
        s[0].log.count = 1;
        cr_assert_eq(capo_drain_checkpoint(drain), 0);
        cr_assert_eq(frames(CAPO_FRAME_SITE, keep_site), 3);
        cr_expect_eq(last_site.id, 1);
        cr_expect_str_eq(last_text, "a.py:1\nat 7 of 2\n");
        cr_expect_eq(resolved, 2);
        s[1].ready = 1;
        s[1].text_size = 60000; /* an untrusted file */
        cr_assert_eq(capo_drain_checkpoint(drain), 0);
        cr_assert_eq(frames(CAPO_FRAME_SITE, keep_site), 4);
        cr_expect(last_site.id == 2 && last_site.text_size == 0);
}

Test(describe, addresses_that_fit)
{
        struct capo_seg_site *s = sites(1);

        s->ready = 1;
        s->n_pc = 1000; /* an untrusted file */
        for (int i = 0; i < CAPO_SITE_FRAMES; i++)
                s->pc[i] = UINT64_MAX;
        cr_assert_eq(capo_drain_checkpoint(drain), 0);
        cr_assert_eq(frames(CAPO_FRAME_SITE, keep_site), 1);
        cr_expect_eq(last_site.text_size, CAPO_SITE_FRAMES * 19);
        cr_expect_eq(last_text[CAPO_SITE_FRAMES * 19 - 1], '\n');
}

/* ---- texts ---- */

static char texts[1 << 20];

static void keep_text(const struct capo_log_frame *f)
{
        snprintf(texts + strlen(texts), sizeof texts - strlen(texts), "%.*s|", (int)f->size,
                 (const char *)f->payload);
}

/* As the recorder puts it there: type, size, bytes, up to the next multiple of 8, round the area.
 */
static void put_text(uint32_t type, const char *text, uint32_t size)
{
        struct capo_area *a = &seg.header->areas[CAPO_AREA_TEXT];
        uint64_t at = seg.header->text_head;
        uint32_t head[2] = {type, size};
        char *area;

        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_TEXT, a->capacity), 0);
        area = capo_area_at(&seg, CAPO_AREA_TEXT, 0);
        for (unsigned i = 0; i < 8; i++)
                area[(at + i) % a->capacity] = ((char *)head)[i];
        for (unsigned i = 0; text && i < size; i++)
                area[(at + 8 + i) % a->capacity] = text[i];
        seg.header->text_head = at + 8 + ((size + 7) & ~7u);
}

Test(describe, texts_go_out_in_order_and_once)
{
        put_text(CAPO_FRAME_INFO, "k\tv\n", 4);
        put_text(CAPO_FRAME_INFO, "12345678", 8);
        cr_assert_eq(capo_drain_text(drain), 0);
        cr_expect_eq(seg.header->text_tail, seg.header->text_head, "room again");
        put_text(CAPO_FRAME_INFO, "", 0);
        put_text(CAPO_FRAME_FABRIC, "of another kind", 15);
        cr_assert_eq(capo_drain_finish(drain, 1), 0);
        frames(CAPO_FRAME_INFO, keep_text);
        cr_expect_str_eq(texts, "k\tv\n|12345678||");
        cr_expect_eq(frames(CAPO_FRAME_FABRIC, NULL), 1);
}

Test(describe, texts_round_the_area)
{
        uint32_t capacity = seg.header->areas[CAPO_AREA_TEXT].capacity;
        char text[1000];

        for (int i = 0; i < 1200; i++) { /* more than once round, at every offset */
                snprintf(text, sizeof text, "%d %0*d\n", i, i % 900 + 1, 0);
                put_text(CAPO_FRAME_RULES, text, (uint32_t)strlen(text));
                cr_assert_eq(capo_drain_text(drain), 0);
        }
        cr_assert_gt(seg.header->text_head, capacity);
        cr_assert_eq(capo_drain_finish(drain, 1), 0);
        cr_assert_eq(frames(CAPO_FRAME_RULES, keep_text), 1200);
        for (int i = 0; i < 1200; i++) {
                snprintf(text, sizeof text, "%d %0*d\n|", i, i % 900 + 1, 0);
                cr_assert(strstr(texts, text), "%d", i);
        }
}

Test(describe, the_largest_text_and_one_more)
{
        static char large[97 << 10];

        memset(large, 'a', sizeof large);
        put_text(CAPO_FRAME_INFO, large, 96 << 10);
        cr_assert_eq(capo_drain_text(drain), 0);
        put_text(CAPO_FRAME_INFO, large,
                 (96 << 10) + 1); /* an untrusted file, as all that follow */
        put_text(CAPO_FRAME_INFO, "behind it", 9);
        cr_assert_eq(capo_drain_text(drain), 0);
        put_text(CAPO_FRAME_CELL, "no text", 7);
        cr_assert_eq(capo_drain_text(drain), 0);
        put_text(CAPO_FRAME_INFO, NULL, 16);
        seg.header->text_head -= 8; /* its last eight bytes are not there */
        cr_assert_eq(capo_drain_text(drain), 0);
        put_text(CAPO_FRAME_RULES, "good", 4);
        cr_assert_eq(capo_drain_text(drain), 0);
        seg.header->text_head += 300 << 10; /* more than fits */
        cr_assert_eq(capo_drain_finish(drain, 1), 0);
        cr_expect_eq(frames(CAPO_FRAME_INFO, NULL), 1);
        cr_expect_eq(frames(CAPO_FRAME_RULES, NULL), 1);
        cr_expect_eq(frames(CAPO_FRAME_CELL, NULL), 0);
}

/* Kept frames are said for a dead process, up to the first that cannot be one. */
Test(describe, kept_texts)
{
        static const struct {
                uint32_t type, size; /* of the second of two; the first has 5 bytes and 3 to fill,
                                        the second room for 8 */
                int said;
        } rows[] = {{CAPO_FRAME_FABRIC, 8, 2},  {CAPO_FRAME_FABRIC, 0, 2},
                    {CAPO_FRAME_FABRIC, 9, 1},  {CAPO_FRAME_CELL, 8, 1},
                    {CAPO_FRAME_FABRIC, 24, 1}, {CAPO_FRAME_FABRIC, UINT32_MAX, 1}};

        for (uint32_t half = 1; half <= 2; half++) {
                for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                        uint32_t *at, n = half == 2 && i == 1 ? 24 : 32;

                        capo_drain_free(drain);
                        cr_assert_eq(unlink(seg.header->log_path), 0);
                        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_KEPT, 2 * CAPO_KEPT_HALF), 0);
                        at = capo_area_at(&seg, CAPO_AREA_KEPT, (half - 1) * CAPO_KEPT_HALF);
                        at[0] = CAPO_FRAME_FABRIC;
                        at[1] = 5;
                        memcpy(at + 2, "first", 5);
                        at[4] = rows[i].type;
                        at[5] = rows[i].size;
                        memcpy(at + 6, "second 8", 8);
                        seg.header->kept_now = half;
                        seg.header->kept_size[half - 1] = n;
                        cr_assert_eq(capo_drain_new(&seg, &drain), 0);
                        cr_assert_eq(capo_drain_create_log(drain), 0);
                        cr_assert_eq(capo_drain_finish(drain, 2), 0);
                        texts[0] = 0;
                        cr_expect_eq(frames(CAPO_FRAME_FABRIC, keep_text), rows[i].said,
                                     "half %u, row %zu", half, i);
                        cr_expect_str_eq(texts, rows[i].said == 1 ? "first|"
                                                : rows[i].size    ? "first|second 8|"
                                                                  : "first||");
                }
        }
}

/* ---- the log itself ---- */

static struct capo_log_end last_end;

static void keep_end(const struct capo_log_frame *f)
{
        cr_assert_eq(capo_log_end(f, &last_end), 0);
}

Test(describe, the_end_has_the_counters)
{
        struct capo_segment_header *h = seg.header;

        h->dropped = 3;
        h->gpu_dropped = 4;
        h->text_lost = 50;
        h->cost_ns = 33.5;
        h->threads = 7;
        h->clock.now_mono_ns = 11;
        h->clock.now_real_ns = 22;
        ring->dropped = 20;
        put(call_at(0, 1));
        capo_drain_round(drain);
        cr_assert_eq(capo_drain_checkpoint(drain), 0);
        frames(CAPO_FRAME_END, keep_end);
        cr_expect_eq(last_end.clean, 0);
        cr_assert_eq(capo_drain_finish(drain, 1), 0);
        cr_expect_eq(frames(CAPO_FRAME_END, keep_end), 2);
        cr_expect(last_end.clean == 1 && last_end.calls == 1 && last_end.dropped == 23 &&
                  last_end.gpu_dropped == 4 && last_end.bytes_lost == 50 &&
                  last_end.cost_ns == 33.5 && last_end.threads == 7 && last_end.t_ns == 1000 &&
                  last_end.mono_ns == 11 && last_end.real_ns == 22 && last_end.ticks_per_s == 1e9);
}

/* What could not be written is said again as soon as it can be. */
Test(describe, after_a_failure_everything_again)
{
        struct capo_seg_comm *c = comms(1);
        struct capo_seg_site *s = sites(1);
        char folder[64], moved[64];

        *c = (struct capo_seg_comm){.log = {.id = 1}, .stamp = 1};
        s->ready = 1;
        put(call_at(0, 1));
        put_text(CAPO_FRAME_INFO, "text", 4);
        capo_drain_round(drain);
        capo_drain_free(drain); /* one that cannot have its file */
        cr_assert_eq(unlink(seg.header->log_path), 0);
        snprintf(folder, sizeof folder, "%s/d.capo", dir);
        snprintf(moved, sizeof moved, "%s/none/d.capo", dir);
        strcpy(seg.header->log_path, moved);
        cr_assert_eq(capo_drain_new(&seg, &drain), 0);
        cr_assert_eq(capo_drain_create_log(drain), -ENOENT);
        capo_drain_checkpoint(drain);
        cr_expect_eq(seg.header->bytes_lost, 0, "all of it is to be written again");
        strcpy(seg.header->log_path, folder);
        cr_assert_eq(capo_drain_create_log(drain), 0);
        cr_assert_eq(capo_drain_checkpoint(drain), 0);
        cr_expect_eq(frames(CAPO_FRAME_COMM, NULL), 1);
        cr_expect_eq(frames(CAPO_FRAME_SITE, NULL), 1);
        cr_expect_eq(frames(CAPO_FRAME_CELL, NULL), 1);
        cr_expect_eq(frames(CAPO_FRAME_INFO, NULL), 1, "it still stood there");
        cr_assert_eq(capo_drain_text(drain), 0);
        cr_expect_eq(frames(CAPO_FRAME_INFO, NULL), 1, "once");
        cr_assert_eq(capo_drain_checkpoint(drain), 0);
        cr_expect_eq(frames(CAPO_FRAME_COMM, NULL), 1, "and then no more");
        cr_assert_eq(capo_drain_text(drain), 0);
        cr_expect_eq(frames(CAPO_FRAME_INFO, NULL), 1);
}

/* A log whose name is taken goes beside it. */
Test(describe, a_name_that_is_taken)
{
        char why[256];

        for (int i = 0; i < 2; i++) {
                struct capo_drain *second;
                struct capo_log *log;
                char expected[128];

                cr_assert_eq(capo_drain_new(&seg, &second), 0);
                if (i)
                        snprintf(seg.header->log_path, sizeof seg.header->log_path, "%s/d.capo",
                                 dir);
                cr_assert_eq(capo_drain_create_log(second), 0);
                snprintf(expected, sizeof expected, "%s/d.%d.capo", dir, i + 1);
                cr_expect_str_eq(seg.header->log_path, expected);
                cr_assert_eq(capo_log_open(expected, &log, why, sizeof why), 0, "%s", why);
                cr_expect_eq(capo_log_header(log)->ticks_per_s, 1000000000);
                cr_expect_eq(capo_log_header(log)->t0_ticks, 1000);
                cr_expect_eq(capo_log_header(log)->pid, (uint32_t)getpid());
                capo_log_close(log);
                capo_drain_free(second);
        }
}

Test(describe, an_empty_text_that_is_the_last)
{
        put_text(CAPO_FRAME_INFO, "", 0);
        cr_assert_eq(capo_drain_text(drain), 0);
        cr_expect_eq(frames(CAPO_FRAME_INFO, NULL), 1);
}

Test(describe, kept_texts_whose_size_needs_no_filling)
{
        uint32_t *at;

        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_KEPT, 64), 0);
        at = capo_area_at(&seg, CAPO_AREA_KEPT, 0);
        for (unsigned i = 0; i < 2; i++, at += 4) {
                at[0] = CAPO_FRAME_FABRIC;
                at[1] = 8;
                memcpy(at + 2, i ? "second 8" : "first  8", 8);
        }
        seg.header->kept_now = 1;
        seg.header->kept_size[0] = 32;
        cr_assert_eq(capo_drain_finish(drain, 2), 0);
        frames(CAPO_FRAME_FABRIC, keep_text);
        cr_expect_str_eq(texts, "first  8|second 8|");
}

static unsigned last_room;
static unsigned fill(const struct capo_seg_site *site, char *text, unsigned room)
{
        last_room = room;
        memset(text, 'z', room);
        return room;
}

Test(describe, a_site_whose_text_fills_its_room)
{
        struct capo_seg_site *s = sites(2);

        capo_drain_resolve(drain, fill);
        s[0].ready = s[1].ready = 1;
        s[1].py_size = sizeof s[1].py;
        memset(s[1].py, 'p', sizeof s[1].py);
        cr_assert_eq(capo_drain_checkpoint(drain), 0);
        cr_assert_eq(frames(CAPO_FRAME_SITE, keep_site), 2);
        cr_expect_eq(last_room, sizeof s->text - sizeof s->py, "what Python's frames leave");
        cr_expect_eq(last_site.text_size, sizeof s->text);
        cr_expect(strspn(last_text, "p") == sizeof s->py && strlen(last_text) == sizeof s->text);
}

Test(describe, memory_that_was_short_and_a_clock_without_a_rate)
{
        seg.header->went_private = 1;
        seg.header->clock.ns_per_tick = 0;
        cr_assert_eq(capo_drain_finish(drain, 1), 0);
        frames(CAPO_FRAME_INFO, keep_text);
        cr_expect_str_eq(texts, "recording.memory\tfull\n|");
        frames(CAPO_FRAME_END, keep_end);
        cr_expect_eq(last_end.ticks_per_s, 0);
}
