/* SPDX-License-Identifier: Apache-2.0 */
/* What the reader says of a damaged log, and that it believes nothing that lies inside of what is
 * damaged. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "analysis/log/log_read.h"
#include "capo/frame_types.h"
#include "capo/record.h"
#include "tests/golden/gen_log.h"

static char path[] = "/tmp/capo-log-damage-XXXXXX", why[256];
static struct gen_log g;
static struct capo_log *l;

static void start(void)
{
        close(mkstemp(path));
        gen_log_open(&g, path, 1);
}

static void stop(void)
{
        capo_log_close(l);
        unlink(path);
}

TestSuite(log_damage, .init = start, .fini = stop);

static uint64_t text(const char *s)
{
        uint64_t at = (uint64_t)ftell(g.file);

        gen_log_text(&g, CAPO_FRAME_RULES, s);
        return at;
}

/* The log's texts with bars between, the bytes at @at changed before. */
static const char *texts(uint64_t at, size_t n, int xor)
{
        static char all[4096];
        struct capo_log_frame f;
        int r;

        if (n) {
                int fd = open(path, O_RDWR);
                unsigned char b;

                fflush(g.file);
                for (size_t i = 0; i < n; i++) {
                        cr_assert_eq(pread(fd, &b, 1, (off_t)(at + i)), 1);
                        b = xor? b ^ (unsigned char)xor : 0;
                        cr_assert_eq(pwrite(fd, &b, 1, (off_t)(at + i)), 1);
                }
                close(fd);
        }
        gen_log_close(&g);
        all[0] = 0;
        cr_assert_eq(capo_log_open(path, &l, why, sizeof why), 0, "%s", why);
        while ((r = capo_log_next(l, &f)) > 0)
                snprintf(all + strlen(all), sizeof all - strlen(all), "%.*s|",
                         f.size < 20 ? (int)f.size : 20, (const char *)f.payload);
        cr_assert_eq(r, 0);
        cr_assert_eq(capo_log_next(l, &f), 0, "stays at the end");
        return all;
}

static void said(unsigned n, uint64_t offset, uint64_t bytes, const char *what)
{
        const struct capo_log_health *h = capo_log_health(l);

        cr_expect(h->n_damages == n && h->bytes_lost == (n ? bytes : 0), "%llu bytes",
                  (unsigned long long)h->bytes_lost);
        if (n) {
                cr_expect(h->damages[0].offset == offset && h->damages[0].bytes == bytes);
                cr_expect_str_eq(h->damages[0].what, what);
        }
}

/* A frame of text whose payload is a frame of text, itself without fault. */
static uint64_t nested(void)
{
        char payload[32];
        struct capo_frame f = {.type = CAPO_FRAME_RULES, .size = 8};

        memcpy(payload, "outside ", 8);
        f.check = XXH3_64bits_withSeed("inside..", 8, f.type | (uint64_t)f.size << 32);
        memcpy(payload + 8, &f, sizeof f);
        memcpy(payload + 8 + sizeof f, "inside..", 8);
        f.size = (uint32_t)(ftell(g.file));
        gen_log_frame(&g, CAPO_FRAME_RULES, payload, sizeof payload);
        return f.size;
}

Test(log_damage, a_frame_inside_of_a_bad_one_is_none)
{
        uint64_t at = nested(), after = text("behind");

        cr_expect_str_eq(texts(at + sizeof(struct capo_frame), 1, 1), "behind|");
        said(1, at, after - at, "checksum");
}

Test(log_damage, nor_in_the_last)
{
        uint64_t first = text("before"), at = nested();

        cr_expect_str_eq(texts(at + sizeof(struct capo_frame), 1, 1), "before|");
        said(1, at, sizeof(struct capo_frame) + 32, "checksum");
        cr_expect_lt(first, at);
}

/* Two bad ones in a row: then every place is tried, also those inside. */
Test(log_damage, two_bad_frames)
{
        uint64_t first = text("first"), second = text("second"), third = text("third");

        texts(first + 16, second - first + 4, 0x20);
        said(1, first, third - first, "checksum");
        cr_expect_eq(capo_log_health(l)->cut_bytes, 0);
}

Test(log_damage, zeros)
{
        uint64_t first = text("first"), second = text("second"), third = text("third");

        cr_expect_str_eq(texts(second, third - second, 0), "first|third|");
        said(1, second, third - second, "not a frame");
        cr_expect_lt(first, second);
}

Test(log_damage, zeros_up_to_the_end)
{
        uint64_t first = text("first"), second = text("second"), end = (uint64_t)ftell(g.file);

        cr_expect_str_eq(texts(second, end - second, 0), "first|");
        said(1, second, end - second, "not a frame");
        cr_expect_lt(first, second);
}

Test(log_damage, a_type_that_is_none)
{
        gen_log_text(&g, 0, "true but for its type");
        text("behind");
        cr_expect_str_eq(texts(0, 0, 0), "behind|");
        cr_expect_str_eq(capo_log_health(l)->damages[0].what, "not a frame");
}

/* Behind damage only frames of a known type and without flags are believed: any bytes may look like
 * another. */
Test(log_damage, behind_damage_only_what_is_known)
{
        struct capo_frame flagged = {.type = CAPO_FRAME_RULES, .flags = 1, .size = 8};
        uint64_t first = text("first"), second = text("second"), third;

        gen_log_text(&g, CAPO_FRAMES, "unknown.");
        flagged.check =
                XXH3_64bits_withSeed("flagged.", 8, flagged.type | 1u << 16 | (uint64_t)8 << 32);
        fwrite(&flagged, sizeof flagged, 1, g.file);
        fwrite("flagged.", 8, 1, g.file);
        third = text("third");
        cr_expect_str_eq(texts(second, sizeof(struct capo_frame), 0), "first|third|");
        said(1, second, third - second, "not a frame");
        cr_expect_eq(capo_log_health(l)->unknown_frames, 0);
        cr_expect_lt(first, second);
}

Test(log_damage, nothing_as_the_last_frame)
{
        text("first");
        text("");
        cr_expect_str_eq(texts(0, 0, 0), "first||");
        said(0, 0, 0, "");
}

Test(log_damage, the_largest_header)
{
        struct capo_log_header header = g.header;
        char zeros[65536 - sizeof header] = "";

        for (unsigned i = 0; i < 2; i++) {
                header.header_size = 65536 + 8 * i;
                gen_log_close(&g);
                gen_log_open_with(&g, path, &header);
                fwrite(zeros, sizeof zeros, 1, g.file);
                fwrite(zeros, 8 * i, 1, g.file);
                text("first");
                if (i == 0) {
                        cr_expect_str_eq(texts(0, 0, 0), "first|");
                        gen_log_open(&g, path, 1);
                        capo_log_close(l);
                        l = NULL;
                }
        }
        gen_log_close(&g);
        cr_expect_eq(capo_log_open(path, &l, why, sizeof why), -EBADMSG);
        cr_expect(strstr(why, "header of 65544 bytes"), "%s", why);
}

/* Somebody truncates a log that is being read: an error, and no page of what was there before. */
Test(log_damage, a_log_that_becomes_shorter)
{
        static char large[3 << 20];
        struct capo_log_frame f;
        uint64_t last;

        memset(large, 'x', sizeof large - 1);
        text("first");
        text(large);
        last = text("last");
        gen_log_close(&g);
        cr_assert_eq(capo_log_open(path, &l, why, sizeof why), 0);
        cr_assert_eq(capo_log_next(l, &f), 1);
        cr_assert_eq(truncate(path, 2 << 20), 0);
        cr_expect_eq(capo_log_next(l, &f), -EIO);
        cr_expect_eq(capo_log_frame_at(l, last, &f), -EIO);
        cr_expect_eq(capo_log_health(l)->n_damages, 0);
}

Test(log_damage, a_member_of_a_group_without_its_column)
{
        uint32_t word = 3;
        struct capo_log_columns c = {.n = 1, .t_begin = &word, .host_ns = &word, .seq = &word};
        struct capo_log_shape shape = {.flags = CAPO_RECORD_MEMBER};
        struct capo_record r;

        capo_log_record(&c, 0, &shape, &r);
        cr_expect_eq(r.group, 0);
        shape.flags = CAPO_RECORD_GROUP;
        capo_log_record(&c, 0, &shape, &r);
        cr_expect_eq(r.group, 3, "a group's own number");
        shape.flags = 0;
        capo_log_record(&c, 0, &shape, &r);
        cr_expect_eq(r.group, 0);
        c.aux = &word;
        shape.flags = CAPO_RECORD_MEMBER;
        capo_log_record(&c, 0, &shape, &r);
        cr_expect_eq(r.group, 3);
        gen_log_close(&g);
}

Test(log_damage, a_histogram_without_a_bucket)
{
        struct {
                struct capo_log_cell cell;
                struct capo_log_hist hist;
        } c = {.cell.hists = 1, .hist.count = 5};
        struct capo_log_frame f = {.payload = &c, .size = sizeof c, .type = CAPO_FRAME_CELL};
        struct capo_log_hist_view host, gpu;
        struct capo_log_cell cell;

        cr_expect_eq(capo_log_cell(&f, &cell, &host, &gpu), 0);
        cr_expect(host.head.count == 5 && host.head.n == 0);
        f.size--;
        cr_expect_eq(capo_log_cell(&f, &cell, &host, &gpu), -EBADMSG);
        gen_log_close(&g);
}
