/* SPDX-License-Identifier: Apache-2.0 */
/* The reader against whole, cut, damaged, newer and foreign files, and a mutation run that must not
 * crash it. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <criterion/criterion.h>

#include "analysis/log/log_read.h"
#include "capo/record.h"
#include "core/base/util.h"
#include "tests/golden/gen_log.h"
#include "tests/log_numbers.h"

static char path[64], why[256];

static void make_path(void)
{
        int fd;

        close(STDIN_FILENO); /* as daemons do: 0 is a descriptor like any other */
        strcpy(path, "/tmp/capo-test-log-XXXXXX");
        fd = mkstemp(path);
        cr_assert_geq(fd, 0);
        close(fd);
}

static void drop_path(void) { unlink(path); }

TestSuite(log_read, .init = make_path, .fini = drop_path);

/* A log with one frame of each kind; frame k (0..) starts at where[k]. */
static unsigned write_sample(uint64_t *where)
{
        uint32_t t[3] = {0, 10, 4000000000u}, host[3] = {5, 6, 7}, seq[3] = {1, 2, 3},
                 gpu[3] = {0, 900, 0};
        uint16_t shape[3] = {0, 1, 0};
        struct capo_log_shape shapes[2] = {
                {.bytes = 64, .id = 0, .call = CAPO_CALL_ALLREDUCE, .comm = 1},
                {.bytes = 1ull << 33, .id = 1, .call = CAPO_CALL_SEND, .peer = 3}};
        struct gen_hist hist = {0};
        struct gen_log g;
        unsigned n = 0;

        gen_hist_add(&hist, 1000, 2);
        gen_hist_add(&hist, 3000000, 1);
        gen_log_open(&g, path, 42);
        where[n++] = ftell(g.file);
        gen_log_text(&g, CAPO_FRAME_INFO, "host\tnode-a\nrank\t0\n");
        where[n++] = ftell(g.file);
        gen_log_comm(&g, (struct capo_log_comm){.id = 1, .n_ranks = 8, .rank = 2, .uid = 99}, "dp");
        where[n++] = ftell(g.file);
        gen_log_shapes(&g, shapes, 2);
        where[n++] = ftell(g.file);
        gen_log_block(&g, 1000, 1, 3, t, host, seq, shape, gpu, NULL);
        where[n++] = ftell(g.file);
        gen_log_cell(&g,
                     (struct capo_log_cell){.bytes = 64, .count = 3, .call = CAPO_CALL_ALLREDUCE},
                     &hist, NULL);
        where[n++] = ftell(g.file);
        gen_log_site(&g, (struct capo_log_site){.id = 1, .count = 3}, "f\nmain\n");
        where[n++] = ftell(g.file);
        gen_log_frame(&g, CAPO_FRAME_END, &(struct capo_log_end){.calls = 3, .clean = 1},
                      sizeof(struct capo_log_end));
        where[n] = ftell(g.file);
        gen_log_close(&g);
        return n;
}

static void poke(uint64_t at, unsigned char xor)
{
        int fd = open(path, O_RDWR);
        unsigned char b;

        cr_assert_eq(pread(fd, &b, 1, (off_t)at), 1);
        b ^= xor;
        cr_assert_eq(pwrite(fd, &b, 1, (off_t)at), 1);
        close(fd);
}

/* Reads all; returns a bit per frame type seen. */
static unsigned read_all(struct capo_log_health *health)
{
        static struct capo_log_damage first;
        struct capo_log *log = NULL;
        struct capo_log_frame f;
        unsigned seen = 0;
        int r;

        cr_assert_eq(capo_log_open(path, &log, why, sizeof why), 0, "%s", why);
        while ((r = capo_log_next(log, &f)) > 0)
                seen |= 1u << f.type;
        cr_assert_eq(r, 0);
        *health = *capo_log_health(log);
        if (health->n_damages) /* for when the log is closed */
                first = *health->damages;
        health->damages = &first;
        capo_log_close(log);
        return seen;
}

Test(log_read, a_whole_log)
{
        _cleanup_(capo_log_closep) struct capo_log *log = NULL;
        const struct capo_log_shape *shapes = NULL;
        struct capo_log_hist_view host, gpu;
        struct capo_log_columns columns;
        struct capo_log_comm comm;
        struct capo_log_cell cell;
        struct capo_log_site site;
        struct capo_log_end end;
        struct capo_log_frame f;
        struct capo_record record;
        uint64_t where[16];
        const char *text;
        size_t at = 0, n = 0;

        write_sample(where);
        cr_assert_eq(capo_log_open(path, &log, why, sizeof why), 0, "%s", why);
        cr_assert_eq(capo_log_header(log)->pid, 42);

        cr_assert_eq(capo_log_next(log, &f), 1);
        cr_assert_eq(f.type, CAPO_FRAME_INFO);
        text = capo_log_next_line(&f, &at, &n);
        cr_assert(n == 11 && !memcmp(text, "host\tnode-a", n));
        text = capo_log_next_line(&f, &at, &n);
        cr_assert(n == 6 && !memcmp(text, "rank\t0", n));
        cr_assert_null(capo_log_next_line(&f, &at, &n));

        cr_assert_eq(capo_log_next(log, &f), 1);
        cr_assert_eq(capo_log_comm(&f, &comm, &text), 0);
        cr_assert(comm.n_ranks == 8 && comm.name_size == 2 && !memcmp(text, "dp", 2));

        cr_assert_eq(capo_log_next(log, &f), 1);
        cr_assert_eq(capo_log_shapes(&f, &shapes), 2);
        cr_assert_eq(shapes[1].bytes, 1ull << 33);
        struct capo_log_shape second = shapes[1];

        cr_assert_eq(capo_log_next(log, &f), 1);
        cr_assert_eq(capo_log_block(&f, &columns), 0);
        cr_assert_eq(columns.n, 3);
        cr_assert_null(columns.aux);
        capo_log_record(&columns, 1, &second, &record);
        cr_assert(record.t_begin == 1010 && record.t_end == 1016 && record.seq == 2 &&
                  record.gpu_ns == 900 && record.bytes == 1ull << 33 && record.peer == 3);

        cr_assert_eq(capo_log_next(log, &f), 1);
        cr_assert_eq(capo_log_cell(&f, &cell, &host, &gpu), 0);
        cr_assert(host.head.n == 2 && host.head.count == 3 && host.pairs[0].count == 2 &&
                  gpu.head.n == 0);

        cr_assert_eq(capo_log_next(log, &f), 1);
        cr_assert_eq(capo_log_site(&f, &site, &text), 0);
        cr_assert(site.text_size == 7 && !memcmp(text, "f\nmain\n", 7));

        cr_assert_eq(capo_log_next(log, &f), 1);
        cr_assert_eq(capo_log_end(&f, &end), 0);
        cr_assert_eq(end.calls, 3);
        cr_assert_eq(capo_log_next(log, &f), 0);
        cr_assert_eq(capo_log_next(log, &f), 0, "stays at the end");

        cr_assert_eq(capo_log_frame_at(log, where[1], &f), 0);
        cr_assert_eq(f.type, CAPO_FRAME_COMM);
        cr_assert_eq(capo_log_health(log)->n_damages, 0);
        cr_assert_eq(capo_log_health(log)->cut_bytes, 0);
}

Test(log_read, wide_records_of_version_1_have_32_bits_of_gpu_time)
{
        struct capo_record r = {.t_end = 5, .gpu_ns = 900ull << 32 | 7}, out;
        struct capo_log_frame f = {
                .payload = &r, .size = sizeof r, .type = CAPO_FRAME_WIDE, .version = 1};

        cr_assert(capo_log_wide(&f, 0, &out));
        cr_assert(out.gpu_ns == 900 && out.t_end == 5);
        cr_assert_not(capo_log_wide(&f, 1, &out));
        f.version = 2;
        cr_assert(capo_log_wide(&f, 0, &out));
        cr_assert_eq(out.gpu_ns, 900ull << 32 | 7);
}

Test(log_read, every_cut_is_survived)
{
        struct capo_log_health health;
        uint64_t where[16];
        unsigned n = write_sample(where);

        for (uint64_t size = where[n] - 1; size >= where[0]; size--) {
                unsigned whole = 0, seen;

                cr_assert_eq(truncate(path, (off_t)size), 0);
                for (unsigned k = 0; k < n; k++) /* the zeros behind a payload may be missing */
                        whole += size + 7 >= where[k + 1] && size > where[k];
                seen = (unsigned)__builtin_popcount(read_all(&health));
                cr_assert(seen == whole || seen + 1 == whole, "size %lu: %u frames of %u", size,
                          seen, whole);
                cr_assert_eq(health.n_damages, 0, "a cut is not damage");
                if (health.cut_bytes)
                        cr_assert_eq(health.cut_at + health.cut_bytes, size);
        }
}

Test(log_read, one_bad_frame_is_stepped_over)
{
        struct capo_log_health health;
        uint64_t where[16];
        unsigned n = write_sample(where);

        for (unsigned k = 0; k + 1 < n; k++) {
                for (unsigned in = 0; in < 3; in++) { /* type, size, payload */
                        static const unsigned at[] = {1, 6, 20};
                        unsigned seen;

                        write_sample(where);
                        poke(where[k] + at[in], 0x40);
                        seen = read_all(&health);
                        cr_assert_eq(__builtin_popcount(seen), (int)n - 1, "frame %u byte %u: %x",
                                     k, at[in], seen);
                        cr_assert_eq(health.n_damages, 1);
                        cr_assert_eq(health.damages[0].offset, where[k]);
                        cr_assert_eq(health.bytes_lost, where[k + 1] - where[k]);
                }
        }
        write_sample(where);
        poke(where[n - 1] + 20, 1);
        read_all(&health);
        cr_assert_eq(health.n_damages, 1, "the last frame too");
}

Test(log_read, unknown_frames_are_skipped)
{
        struct capo_log_health health;
        struct gen_log g;

        gen_log_open(&g, path, 1);
        gen_log_frame(&g, 4711, "something of the future", 23);
        gen_log_text(&g, CAPO_FRAME_INFO, "a\tb\n");
        gen_log_close(&g);
        cr_assert_eq(read_all(&health), 1u << CAPO_FRAME_INFO);
        cr_assert_eq(health.unknown_frames, 1);
        cr_assert_eq(health.n_damages, 0);
}

Test(log_read, headers_that_are_refused)
{
        static const struct {
                unsigned at;
                unsigned char xor ;
                int r;
                const char *says;
        } rows[] = {
                {0, 1, -EBADMSG, "is not a capo log"},
                {8, 1, -EBADMSG, "byte order"},
                {12, 1, 0, ""}, /* version 3, but readable from 2 on: fine */
                {14, 1, -EPROTO, "needs a capo that reads version 3"}, /* min_reader 3 */
                {16, 1, -EBADMSG, "header of 73 bytes"},
                {19, 1, -EBADMSG, "header of"},
        };
        struct capo_log *log = NULL;
        uint64_t where[16];

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                write_sample(where);
                poke(rows[i].at, rows[i].xor);
                why[0] = 0;
                cr_assert_eq(capo_log_open(path, &log, why, sizeof why), rows[i].r, "row %zu: %s",
                             i, why);
                cr_assert(strstr(why, rows[i].says), "row %zu: %s", i, why);
                capo_log_close(log);
                log = NULL;
        }
        struct capo_log_header swapped = {.order = __builtin_bswap32(CAPO_LOG_ORDER)};
        struct gen_log g;

        memcpy(swapped.magic, CAPO_LOG_MAGIC, 8);
        gen_log_open_with(&g, path, &swapped);
        gen_log_close(&g);
        cr_assert_eq(capo_log_open(path, &log, why, sizeof why), -EPROTO);
        cr_assert(strstr(why, "other byte order"));
        cr_assert_eq(truncate(path, 0), 0);
        cr_assert_eq(capo_log_open(path, &log, why, sizeof why), -EBADMSG);
        cr_assert_str_eq(why, "is empty");
        cr_assert_eq(capo_log_open("/nonexistent/x", &log, why, sizeof why), -ENOENT);
        cr_assert_eq(capo_log_open("/tmp", &log, why, sizeof why), -EBADMSG);
        cr_assert_null(log);
}

Test(log_read, a_payload_that_lies_is_refused)
{
        struct capo_log_block b = {.n = 1u << 31, .columns = 3};
        struct capo_log_frame f = {.payload = &b, .size = sizeof b, .type = CAPO_FRAME_BLOCK};
        struct {
                struct capo_log_cell cell;
                struct capo_log_hist hist;
        } c = {.cell.hists = 1, .hist.n = UINT32_MAX};
        struct capo_log_hist_view host, gpu;
        struct capo_log_columns columns;
        struct capo_log_comm comm = {.name_size = 10};
        struct capo_log_cell cell;
        const char *name;

        cr_assert_eq(capo_log_block(&f, &columns), -EBADMSG);
        f = (struct capo_log_frame){.payload = &c, .size = sizeof c};
        cr_assert_eq(capo_log_cell(&f, &cell, &host, &gpu), -EBADMSG);
        f = (struct capo_log_frame){.payload = &comm, .size = sizeof comm + 9};
        cr_assert_eq(capo_log_comm(&f, &comm, &name), -EBADMSG);
        f.size = 3;
        cr_assert_eq(capo_log_comm(&f, &comm, &name), -EBADMSG);
}

/* A payload in memory, with a size of @size bytes. */
static struct capo_log_frame frame_of(const void *payload, size_t size)
{
        return (struct capo_log_frame){
                .payload = payload, .size = (uint32_t)size, .version = CAPO_LOG_VERSION};
}

/* A block must have every column whole: the words, the halves, and those that few calls have. */
/* Pages of numbers, and JSON, know no infinity. */
Test(log_read, what_is_no_number_is_none)
{
        const struct capo_log_end end = {.cost_ns = INFINITY, .calls = 7};
        struct {
                struct capo_log_cell cell;
                struct capo_log_hist hist;
        } cell = {.cell.hists = 1, .hist = {.count = 3, .sum_sq = NAN}};
        struct capo_log_hist_view host, gpu;
        struct capo_log_cell c;
        struct capo_log_end e;

        cr_assert_eq(
                capo_log_end(&(struct capo_log_frame){.payload = &end, .size = sizeof end}, &e), 0);
        cr_expect(e.cost_ns == 0 && e.calls == 7);
        cr_assert_eq(capo_log_cell(&(struct capo_log_frame){.payload = &cell, .size = sizeof cell},
                                   &c, &host, &gpu),
                     0);
        cr_expect(host.head.count == 3 && host.head.sum_sq == 0);
}

Test(log_read, a_block_has_its_columns_whole)
{
        static uint64_t room[256];
        struct capo_log_block *b = (struct capo_log_block *)room;
        struct capo_log_columns c;

        for (uint32_t n = 0; n < 12; n++) {
                for (unsigned columns = 0; columns < 4; columns++) {
                        size_t words = (4 * n + 7) / 8 * 8, halves = (2 * n + 7) / 8 * 8,
                               size = sizeof *b;
                        struct capo_log_frame f;

                        *b = (struct capo_log_block){.base = 9, .n = n, .thread = 3};
                        b->columns = (uint8_t)((columns & 1 ? CAPO_COLUMN_GPU : 0) |
                                               (columns & 2 ? CAPO_COLUMN_AUX : 0));
                        size += 3 * words + halves + (columns & 1 ? words : 0) +
                                (columns & 2 ? words : 0);
                        f = frame_of(b, size);
                        cr_assert_eq(capo_log_block(&f, &c), 0, "%u calls", n);
                        cr_expect(c.base == 9 && c.n == n && c.thread == 3);
                        cr_expect((const char *)c.t_begin == (const char *)(b + 1));
                        cr_expect((const char *)c.host_ns == (const char *)c.t_begin + words);
                        cr_expect((const char *)c.seq == (const char *)c.host_ns + words);
                        cr_expect((const char *)c.shape == (const char *)c.seq + words);
                        cr_expect_eq((const char *)c.gpu_ns,
                                     columns & 1 ? (const char *)c.shape + halves
                                                 : (const char *)NULL);
                        cr_expect_eq((const char *)c.aux,
                                     columns & 2 ? (const char *)c.shape + halves +
                                                           (columns & 1 ? words : 0)
                                                 : (const char *)NULL);
                        f.size--;
                        cr_expect_eq(capo_log_block(&f, &c), -EBADMSG, "%u calls", n);
                }
        }
}

Test(log_read, names_and_texts_end_with_their_frame)
{
        static uint64_t room[64];
        struct capo_log_comm *comm = (struct capo_log_comm *)room, got_comm;
        struct capo_log_site *site = (struct capo_log_site *)room, got_site;
        const struct capo_log_site_chosen chosen = {70, 2};
        struct capo_log_frame f;
        const char *text;

        *comm = (struct capo_log_comm){.id = 7, .name_size = 5};
        f = frame_of(room, sizeof *comm + 5);
        cr_expect(capo_log_comm(&f, &got_comm, &text) == 0 && text == (const char *)(comm + 1) &&
                  got_comm.id == 7);
        f.size--;
        cr_expect_eq(capo_log_comm(&f, &got_comm, &text), -EBADMSG);
        f.size = sizeof *comm - 1;
        comm->name_size = 0;
        cr_expect_eq(capo_log_comm(&f, &got_comm, &text), -EBADMSG);
        *site = (struct capo_log_site){.id = 8, .text_size = 5};
        f = frame_of(room, sizeof *site + 5);
        cr_expect(capo_log_site(&f, &got_site, &text) == 0 && text == (const char *)(site + 1) &&
                  got_site.id == 8);
        f.size--;
        cr_expect_eq(capo_log_site(&f, &got_site, &text), -EBADMSG);
        f.size = sizeof *site - 1;
        site->text_size = 0;
        cr_expect_eq(capo_log_site(&f, &got_site, &text), -EBADMSG);
        memcpy((char *)(site + 1) + 5, &chosen,
               sizeof chosen); /* behind the text, where a word says so */
        *site = (struct capo_log_site){.id = 8, .text_size = 5, .chosen = 1};
        f = frame_of(room, sizeof *site + 5 + sizeof chosen);
        cr_expect(capo_log_site(&f, &got_site, &text) == 0 &&
                  capo_log_site_chosen(&f).gpu_ns == 70 && capo_log_site_chosen(&f).gpu_count == 2);
        f.size--;
        cr_expect_eq(capo_log_site_chosen(&f).gpu_count, 0, "cut");
        f.size++;
        site->chosen = 0;
        cr_expect_eq(capo_log_site_chosen(&f).gpu_count, 0, "not said");
}

Test(log_read, lines_of_a_text)
{
        static const struct {
                const char *text, *lines;
        } rows[] = {{"", ""}, {"a", "a|"}, {"a\n", "a|"}, {"a\nbc", "a|bc|"}, {"\n\nd\n", "||d|"}};

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_log_frame f = frame_of(rows[i].text, strlen(rows[i].text));
                char all[32] = "";
                size_t at = 0, n;
                const char *line;

                while ((line = capo_log_next_line(&f, &at, &n)))
                        snprintf(all + strlen(all), sizeof all - strlen(all), "%.*s|", (int)n,
                                 line);
                cr_expect_str_eq(all, rows[i].lines);
        }
}

/* Frames larger than what is read at once, between small ones, and back to one that was passed. */
Test(log_read, frames_of_any_size)
{
        static const uint32_t sizes[] = {10, 5 << 20, 3, 1 << 20, (1 << 20) - 8, 9 << 20, 1};
        static char text[(9 << 20) + 1];
        uint64_t where[N_ELEMENTS(sizes)];
        struct capo_log *log;
        struct capo_log_frame f;
        struct gen_log g;

        gen_log_open(&g, path, 42);
        for (size_t i = 0; i < N_ELEMENTS(sizes); i++) {
                for (uint32_t k = 0; k < sizes[i]; k++)
                        text[k] = (char)('a' + (i + k) % 23);
                where[i] = (uint64_t)ftell(g.file);
                gen_log_frame(&g, CAPO_FRAME_RULES, text, sizes[i]);
        }
        gen_log_close(&g);
        cr_assert_eq(capo_log_open(path, &log, why, sizeof why), 0, "%s", why);
        for (size_t i = 0; i < 3 * N_ELEMENTS(sizes); i++) {
                size_t n = i % N_ELEMENTS(sizes), back = N_ELEMENTS(sizes) - 1 - n;

                if (i >= 2 * N_ELEMENTS(sizes)) { /* by one that has read nothing yet */
                        capo_log_close(log);
                        cr_assert_eq(capo_log_open(path, &log, why, sizeof why), 0, "%s", why);
                }
                if (i >= N_ELEMENTS(sizes))
                        cr_assert_eq(capo_log_frame_at(log, where[n = back], &f), 0);
                else
                        cr_assert_eq(capo_log_next(log, &f), 1);
                cr_assert_eq(f.size, sizes[n]);
                for (uint32_t k = 0; k < f.size; k++)
                        cr_assert(((const char *)f.payload)[k] == (char)('a' + (n + k) % 23),
                                  "frame %zu byte %u", n, k);
        }
        cr_assert_eq(capo_log_health(log)->n_damages, 0);
        capo_log_close(log);
}
