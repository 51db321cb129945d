/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles as files: read whole from wherever they come, their limits at the last that is taken,
 * and what is written. */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capo/profile.h"
#include "core/base/util.h"
#include "core/profile/parse.h"
#include "tests/log_numbers.h"

/* A profile of one rule with as many notes as make it larger than what is read at once. */
static char *large(size_t *size)
{
        char *text;
        FILE *f = open_memstream(&text, size);

        fputs("{\"capo_profile\": 1, \"provenance\": {", f);
        for (int i = 0; i < 200; i++)
                fprintf(f, "%s\"k%d\": \"%01000d\"", i ? ", " : "", i, i);
        fputs("}, \"rules\": [{\"when\": {}}]}\n", f);
        fclose(f);
        return text;
}

static void *feed(void *fd)
{
        size_t size;
        _cleanup_free_ char *text = large(&size);

        for (size_t n = 0; n < size;) {
                ssize_t put = write(*(int *)fd, text + n, size - n);

                if (put < 0)
                        break;
                n += (size_t)put;
        }
        close(*(int *)fd);
        return NULL;
}

#define RINGS "\"algo\": \"ring\", \"proto\": \"simple\""

Test(parse, a_file_and_a_pipe_are_read_whole)
{
        char path[] = "/tmp/capo-test-parse-XXXXXX";
        struct capo_profile *file = NULL, *piped = NULL;
        struct capo_fault fault;
        size_t size;
        _cleanup_free_ char *text = large(&size);
        int fd = mkstemp(path), ends[2];
        pthread_t writer;

        cr_assert_eq(write(fd, text, size), (ssize_t)size);
        close(fd);
        cr_assert_eq(capo_profile_load(path, &file, &fault), 0, "%s", fault.text);
        unlink(path);
        cr_expect_eq(file->n_notes[CAPO_PROVENANCE], 200);
        cr_expect_str_eq(file->file, path);

        cr_assert_eq(pipe(ends), 0);
        cr_assert_eq(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
        cr_assert_eq(pthread_create(&writer, NULL, feed, &ends[1]), 0);
        cr_assert_eq(capo_profile_load("-", &piped, &fault), 0, "%s", fault.text);
        pthread_join(writer, NULL);
        cr_expect_str_eq(piped->file, "(standard input)");
        cr_expect_str_eq(piped->digest, file->digest, "it is the same profile");
        capo_profile_free(file);
        capo_profile_free(piped);
}

Test(parse, one_that_is_too_large)
{
        char path[] = "/tmp/capo-test-parse-XXXXXX";
        struct capo_profile *p = NULL;
        struct capo_fault fault;
        int fd = mkstemp(path);

        cr_assert_eq(ftruncate(fd, (off_t)CAPO_PROFILE_BYTES_MAX + (1 << 20)),
                     0); /* a hole, no blocks */
        close(fd);
        cr_expect_eq(capo_profile_load(path, &p, &fault), -EFBIG);
        cr_expect(strstr(fault.text, "larger than 256 MiB"), "%s", fault.text);
        unlink(path);
}

Test(parse, keys_of_provenance_have_at_most_127_bytes)
{
        for (int n = 127; n <= 128; n++) {
                struct capo_profile *p = NULL;
                struct capo_fault fault = {""};
                char text[300];

                snprintf(text, sizeof text,
                         "{\"capo_profile\": 1, \"provenance\": {\"%0*d\": 1}, \"rules\": []}", n,
                         0);
                cr_expect_eq(capo_profile_parse(text, strlen(text), "t", &p, &fault),
                             n > 127 ? -EINVAL : 0, "%s", fault.text);
                cr_expect(n == 127 || strstr(fault.text, "a key of at most 127 bytes"), "%s",
                          fault.text);
                cr_expect(n == 128 || strlen(p->notes[CAPO_PROVENANCE][0].key) == 127);
                capo_profile_free(p);
        }
}

/* A row's chunk. */
Test(parse, chunks)
{
        static const struct {
                const char *row, *written; /* NULL: refused, with `said` */
                uint32_t chunk;
                const char *said;
        } rows[] = {
                {RINGS ", \"chunk\": \"64K\"", RINGS ", \"chunk\": \"64K\"", 65536, NULL},
                {RINGS ", \"chunk\": 1920, \"channels\": 2",
                 RINGS ", \"channels\": 2, \"chunk\": 1920", 1920, NULL},
                {RINGS ", \"chunk\": 16", RINGS ", \"chunk\": 16", 16, NULL},
                {RINGS ", \"chunk\": \"64M\"", RINGS ", \"chunk\": \"64M\"", 64 << 20, NULL},
                {RINGS ", \"chunk\": 15", NULL, 0, "16 to 64M"},
                {RINGS ", \"chunk\": 67108865", NULL, 0, "16 to 64M"},
                {RINGS ", \"chunk\": \"max\"", NULL, 0, "16 to 64M"},
                {RINGS ", \"chunk\": -1", NULL, 0, "a size"},
                {"\"leave\": true, \"chunk\": 4096", NULL, 0, "leave"},
                {"\"ctas\": 2, \"chunk\": 4096", NULL, 0, "algo and proto"},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_profile *p = NULL;
                struct capo_fault fault = {""};
                char text[400], *out = NULL;
                size_t size;
                FILE *f;
                int r;

                snprintf(
                        text, sizeof text,
                        "{\"capo_profile\": 1, \"rules\": [{\"when\": {}, \"allreduce\": [{\"upto\": \"max\", %s}]}]}",
                        rows[i].row);
                r = capo_profile_parse(text, strlen(text), "t", &p, &fault);
                if (!rows[i].written) {
                        cr_expect(r == -EINVAL && strstr(fault.text, rows[i].said), "%s: %s", text,
                                  fault.text);
                        continue;
                }
                cr_assert_eq(r, 0, "%s: %s", text, fault.text);
                cr_expect_eq(p->rows[0].chunk, rows[i].chunk);
                cr_expect_eq(capo_profile_chunks(p), 1);
                f = open_memstream(&out, &size);
                cr_assert(f && !capo_profile_write(p, f) && !fclose(f));
                snprintf(text, sizeof text, "{\"upto\": \"max\", %s}", rows[i].written);
                cr_expect(strstr(out, text), "%s in\n%s", text, out);
                capo_profile_free(p);
                free(out);
        }
}

/* Rows that turn calls: read, written and read again; what is none is refused where it stands. */
Test(parse, rows_that_turn_calls)
{
        static const struct {
                const char *row, *written, *said; /* of one that is wrong: `written` is NULL */
        } rows[] = {
                {"\"ctas\": 64", "\"ctas\": 64", "64 CTAs"},
                {"\"ctas\": 1", "\"ctas\": 1", "1 CTA"},
                {"\"cluster\": 0", "\"cluster\": 0", "clusters of 0"},
                {"\"cluster\": 8, \"cta_policy\": \"Efficiency\"",
                 "\"cluster\": 8, \"cta_policy\": \"efficiency\"",
                 "clusters of 8, CTA policy efficiency"},
                {"\"kernel\": \"SYMK AGxLL_R\"", "\"kernel\": \"symk AGxLL_R\"", "symk AGxLL_R"},
                {"\"algo\": \"ring\", \"proto\": \"ll\", \"channels\": 2, \"ctas\": 3, \"kernel\": \"symk ST\", "
                 "\"cta_policy\": \"zero\", \"gain\": 0.5",
                 "\"algo\": \"ring\", \"proto\": \"ll\", \"channels\": 2, \"kernel\": \"symk ST\", \"ctas\": 3, "
                 "\"cta_policy\": \"zero\", \"gain\": 0.5",
                 "symk ST, 3 CTAs, CTA policy zero"},
                {"\"ctas\": 0", NULL, "1 to 64"},
                {"\"ctas\": 65", NULL, "1 to 64"},
                {"\"cluster\": 9", NULL, "0 to 8"},
                {"\"cta_policy\": \"default\"", NULL, "efficiency"},
                {"\"kernel\": \"RSxLD_AGxST\"", NULL, "symk"},
                {"\"kernel\": \"symk \"", NULL, "symk"},
                {"\"kernel\": \"symk A,B\"", NULL, "symk"},
                {"\"leave\": true, \"ctas\": 2", NULL, "leave"},
                {"\"algo\": \"ring\", \"ctas\": 2", NULL, "algo and proto"},
                {"\"channels\": 2, \"ctas\": 2", NULL, "algo and proto"},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_profile *p = NULL;
                struct capo_fault fault = {""};
                char text[400], turned[CAPO_TURNED_TEXT], *out = NULL;
                size_t size;
                FILE *f;
                int r;

                snprintf(
                        text, sizeof text,
                        "{\"capo_profile\": 1, \"rules\": [{\"when\": {}, \"allreduce\": [{\"upto\": \"max\", %s}]}]}",
                        rows[i].row);
                r = capo_profile_parse(text, strlen(text), "t", &p, &fault);
                if (!rows[i].written) {
                        cr_expect(r == -EINVAL && strstr(fault.text, rows[i].said), "%s: %s", text,
                                  fault.text);
                        continue;
                }
                cr_assert_eq(r, 0, "%s: %s", text, fault.text);
                cr_expect_str_eq(capo_row_turned_text(&p->rows[0], turned, sizeof turned),
                                 rows[i].said);
                f = open_memstream(&out, &size);
                cr_assert(f && !capo_profile_write(p, f) && !fclose(f));
                snprintf(text, sizeof text, "{\"upto\": \"max\", %s}", rows[i].written);
                cr_expect(strstr(out, text), "%s in\n%s", text, out);
                capo_profile_free(p);
                free(out);
        }
}

/* What no other test reads back word by word: sizes in the largest unit that holds them, numbers
 * where there are some. */
Test(parse, a_row_is_written_with_what_it_has)
{
        static const struct {
                uint64_t upto;
                const char *text;
        } sizes[] = {{1, "1"},
                     {1023, "1023"},
                     {1024, "\"1K\""},
                     {1025, "1025"},
                     {65536, "\"64K\""},
                     {3 << 20, "\"3M\""},
                     {(3 << 20) + 1024, "\"3073K\""},
                     {7ull << 30, "\"7G\""},
                     {1ull << 40, "\"1T\""},
                     {1ull << 50, "\"1024T\""},
                     {UINT64_MAX, "\"max\""}};
        struct capo_profile *p = capo_profile_new("sizes");
        char *text, row[200];
        size_t size;
        FILE *f = open_memstream(&text, &size);

        capo_profile_rule(p, CAPO_BASIS_MEASURED);
        for (size_t i = 0; i < N_ELEMENTS(sizes); i++)
                cr_assert_eq(
                        capo_profile_row(p, &(struct capo_row){.coll = CAPO_COLL_REDUCE,
                                                               .upto = sizes[i].upto,
                                                               .algo = CAPO_ALGO_RING,
                                                               .proto = CAPO_PROTO_LL,
                                                               .samples = i == 1 ? 40 : 0,
                                                               .channels = i == 2 ? 7 : 0,
                                                               .us = i == 3 ? 1.5f : NAN,
                                                               .spread_us = i == 4 ? 0.25f : NAN,
                                                               .gain = i == 5 ? -0.5f : NAN}),
                        0);
        cr_assert_eq(capo_profile_write(p, f), 0);
        fclose(f);
        for (size_t i = 0; i < N_ELEMENTS(sizes); i++) {
                static const char *const more[] = {"",
                                                   ", \"samples\": 40",
                                                   ", \"channels\": 7",
                                                   ", \"us\": 1.5",
                                                   ", \"spread_us\": 0.25",
                                                   ", \"gain\": -0.5"};

                snprintf(row, sizeof row, "{\"upto\": %s, \"algo\": \"ring\", \"proto\": \"ll\"%s}",
                         sizes[i].text, i < N_ELEMENTS(more) ? more[i] : "");
                cr_expect(strstr(text, row), "%s in\n%s", row, text);
        }
        capo_profile_free(p);
        free(text);
}

/* The rows of a rule by themselves: complete up to "max", each above the one before. */
Test(parse, rows_alone)
{
        static const char *const lists[] = {
                "[{\"upto\": \"64K\", \"algo\": \"ring\", \"proto\": \"ll\"}, {\"upto\": \"max\", \"leave\": true}]",
                "[{\"upto\": \"64K\", \"leave\": true}]",
                "[{\"upto\": \"1M\", \"leave\": true}, {\"upto\": 1024, \"leave\": true}]",
                "[]",
        };

        for (size_t i = 0; i < N_ELEMENTS(lists); i++) {
                struct capo_profile *p = capo_profile_new("rows");
                struct capo_fault fault = {0};
                struct capo_json r;

                cr_assert(capo_profile_rule(p, CAPO_BASIS_MEASURED));
                capo_json_init(&r, lists[i], strlen(lists[i]), "rows.json", &fault);
                cr_expect_eq(capo_parse_rows(&r, p, 0), i == 0, "%s", lists[i]);
                cr_expect_eq(r.failed, i != 0, "%s", lists[i]);
                capo_json_finish(&r);
                capo_profile_free(p);
        }
}
