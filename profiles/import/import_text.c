/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of nccl-tests as people keep it: complete or reduced to rows, several runs in one
 * file, NCCL's log lines in the middle of a row, launcher tags before each line, the old ("error")
 * and new ("#wrong") columns, with or without root, in-place and per-iteration columns.
 *
 * A file is a list of runs. A run begins at a header ("# nccl-tests version", "# nThread") or at a
 * label line that people write between runs ("### ALGO=Ring size=1G", "=== NCCL_PROTO=LL rep 2"),
 * and ends where the next one begins. Its rows are kept until then, because what rejects a run
 * (wrong results, ranks that ran alone) is at its end.
 *
 * A row is a size, a count and a type, perhaps operator and root, then groups of time, algbw,
 * busbw, errors. nccl-tests prints a row in three pieces, and a log line of another thread may be
 * glued to the last word: the host names in the file show where the word ends.
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/array.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/util.h"
#include "profiles/import/import_text.h"

static int find_host(const struct reader *r, const char *name, size_t size)
{
        uint64_t hash = XXH3_64bits(name, size);

        for (int i = 0; i < r->n_hosts; i++) {
                if (r->hashes[i] == hash && strlen(r->hosts[i]) == size &&
                    !memcmp(r->hosts[i], name, size))
                        return i;
        }
        return -1;
}

int capo_text_host(struct reader *r, const char *name, size_t size)
{
        int i;

        if (size == 0 || size >= HOST_ROOM)
                return -1;
        i = find_host(r, name, size);
        if (i >= 0)
                return i;
        if (r->n_hosts == MAX_HOSTS ||
            capo_array_room(&r->hosts, (size_t)r->n_hosts, HOST_ROOM) < 0)
                return -1;
        memcpy(r->hosts[r->n_hosts], name, size);
        r->hosts[r->n_hosts][size] = 0;
        r->hashes[r->n_hosts] = XXH3_64bits(name, size);
        return r->n_hosts++;
}

/* In "host:123:456 [0] NCCL INFO ...": begin of the host; NULL: no such mark. @said: set to the
 * text after "INFO ". */
static const char *nccl_mark(const char *line, const char **said)
{
        const char *mark = strstr(line, " NCCL "), *p;

        while (mark && strncmp(mark + 6, "INFO ", 5) && strncmp(mark + 6, "WARN ", 5))
                mark = strstr(mark + 5, " NCCL ");
        if (!mark)
                return NULL;
        *said = mark + 11;
        p = mark;
        if (p > line && p[-1] == ']') { /* [rank or device] */
                while (p > line && p[-1] != '[')
                        p--;
                if (p > line)
                        p--;
                while (p > line && p[-1] == ' ')
                        p--;
        }
        while (p > line && !isspace((unsigned char)p[-1]))
                p--;
        return p;
}

/* Collect the host names before the first row needs them. */
static void collect_host(struct reader *r, const char *line, size_t n)
{
        const char *said, *mark, *colon;
        char host[HOST_ROOM];
        int rank;

        if (*line == '#') {
                if (capo_text_device(line, &rank, host))
                        capo_text_host(r, host, strlen(host));
                return;
        }
        if (n < 24 || isspace((unsigned char)*line))
                return;
        mark = nccl_mark(line, &said);
        if (mark == line && (colon = strchr(mark, ':')) && isdigit((unsigned char)colon[1]))
                capo_text_host(r, mark, (size_t)(colon - mark));
}

static void collect_hosts(struct reader *r)
{
        for (char *line = r->in->text, *end; *line; line = end + (*end == '\n')) {
                char saved;

                end = strchrnul(line, '\n');
                saved = *end;
                *end = 0; /* sscanf() first computes the length of its text */
                collect_host(r, line, (size_t)(end - line));
                *end = saved;
        }
}

/* Length of the part of @word that belongs to the row: in "-138dcf168f605:1391:1391" with host
 * 38dcf168f605 it is 2. */
static size_t glued_length(const struct reader *r, const char *word)
{
        const char *colon = strchr(word, ':');
        size_t n = colon ? (size_t)(colon - word) : 0, best = 0;

        if (find_host(r, word, n) >= 0) /* the whole word, as in most lines */
                return 0;
        for (int i = 0; i < r->n_hosts; i++) {
                size_t h = strlen(r->hosts[i]);

                if (h <= n && h > best && !memcmp(word + n - h, r->hosts[i], h))
                        best = h;
        }
        return best ? n - best : 0;
}

/* ---- rows ---- */

static unsigned type_of(const char *word)
{
        static const struct {
                const char *name;
                uint8_t type;
        } more[] = {{"fp8_e4m3", 10}, {"fp8_e5m2", 11}, {"float8_e4m3", 10}, {"float8_e5m2", 11},
                    {"bf16", 9},      {"float16", 6},   {"float32", 7},      {"float64", 8}};

        for (unsigned t = 0; t <= 11; t++) {
                const char *name = capo_type_name(t);

                if (*name == *word && !strcmp(name, word)) /* called for the words of every row */
                        return t;
        }
        for (size_t i = 0; i < N_ELEMENTS(more); i++) {
                if (!strcmp(word, more[i].name))
                        return more[i].type;
        }
        return 255;
}

static unsigned op_of(const char *word)
{
        for (unsigned op = 0; op <= 4; op++) {
                if (!strcmp(word, capo_op_name(op)))
                        return op;
        }
        return !strcmp(word, "mulsum") ? 254 : 255;
}

static bool parse_number(const char *word, double *out)
{
        if (strcmp(word, "N/A"))
                return capo_input_number(word, out);
        *out = 0;
        return true;
}

/* nccl-tests prints three or four digits: do bandwidth, size and time match? */
static int check_units(struct reader *r, const struct row *row, double us, double algbw)
{
        double expected = (double)row->sample[0].bytes / us / 1e3;

        if (expected < 0.02 || fabs(algbw - expected) <= 0.006 + 0.02 * expected)
                return 0;
        return capo_input_error(
                r->in, row->line,
                "time and bandwidth disagree: %llu bytes in %g us are %.3g GB/s, found %g; mixed units?",
                (unsigned long long)row->sample[0].bytes, us, expected, algbw);
}

static int add_row(struct reader *r)
{
        struct block *b = &r->block;
        struct row row = {.line = r->row_line};
        unsigned type = type_of(r->words[2]), op = 255, at = 3, rest,
                 width = b->per_iteration ? 8 : 4;
        struct capo_sample s = {.order = r->row_line, .type = (uint8_t)type, .make = b->make};
        double v;

        if (capo_size_parse(r->words[0], &s.bytes) < 0)
                return capo_input_error(r->in, r->row_line, "expected a size, found \"%s\"",
                                        r->words[0]);
        if (at < r->n_words && !parse_number(r->words[at], &v))
                op = op_of(r->words[at++]);
        s.op = (uint8_t)op;
        rest = r->n_words - at;
        if (b->timestamp && rest >= 2 && strchr(r->words[r->n_words - 1], ':'))
                rest -= 2;
        b->root = -1;
        if (rest % width == 1 ||
            (rest && (b->has_root || !strcmp(r->words[at], "-1")))) { /* the root column */
                b->root = atoi(r->words[at++]);
                rest--;
        }
        if (!b->run.line)
                b->run.line = r->row_line;
        if (rest == 0 || rest % width || rest / width > 2) {
                capo_samples_note(r->in->set, "%s:%u: row left out: it is cut off (%u numbers)",
                                  r->in->path, r->row_line, rest);
                return 0;
        }
        row.sample[0].bytes = s.bytes;
        for (unsigned g = 0; g < rest / width; g++, at += width) {
                double us, algbw, busbw, wrong;
                bool cut = !parse_number(r->words[at], &us) ||
                           !parse_number(r->words[at + 1], &algbw) ||
                           !parse_number(r->words[at + 2], &busbw) ||
                           !parse_number(r->words[at + 3], &wrong);
                int e;

                if (cut)
                        return capo_input_error(
                                r->in, r->row_line,
                                "expected time, algbw, busbw and errors, found \"%s %s %s %s\"",
                                r->words[at], r->words[at + 1], r->words[at + 2], r->words[at + 3]);
                if (s.bytes == 0) {
                        r->in->set->n_empty++;
                        continue;
                }
                if (us <= 0) {
                        capo_text_reject(b, "line %u: a time of %g us", r->row_line, us);
                        continue;
                }
                e = check_units(r, &row, us, algbw);
                if (e < 0)
                        return e;
                if (wrong >= 1) /* 12, 3.55843e+07; the old error column is far below one for right
                                   results */
                        capo_text_reject(b, "line %u: %s wrong values: its results are wrong",
                                         r->row_line, r->words[at + 3]);
                if (algbw >= 1 && busbw == 0)
                        capo_text_reject(
                                b, "line %u: bus bandwidth 0: each rank ran alone, as a job of one",
                                r->row_line);
                s.us = us;
                s.place = rest == width ? CAPO_PLACE_UNKNOWN : g ? CAPO_PLACE_IN : CAPO_PLACE_OUT;
                row.sample[row.n++] = s;
                row.algbw = algbw;
                row.busbw = busbw;
        }
        if (row.n == 0)
                return 0;
        if (capo_array_room(&b->rows, b->n_rows, sizeof row) < 0)
                return -ENOMEM;
        b->rows[b->n_rows++] = row;
        return 0;
}

int capo_text_row_end(struct reader *r)
{
        int e = r->n_words ? add_row(r) : 0;

        r->n_words = 0;
        return e;
}

/* Is the row being built complete? Without a header, only the end of its line tells. */
static bool row_whole(const struct reader *r)
{
        const struct block *b = &r->block;
        unsigned fixed = 3, width = b->per_iteration ? 8 : 4, rest;
        double v;

        if (r->n_words > 3 && !parse_number(r->words[3], &v))
                fixed++;
        rest = r->n_words - fixed;
        if (rest && (b->has_root || !strcmp(r->words[fixed], "-1")))
                rest--;
        return rest >= width * (b->groups ? b->groups : 1) && (b->groups || rest % width <= 1);
}

static bool is_blank(char c)
{
        return c == ' ' || (c >= '\t' && c <= '\r' && c != '\n');
}

/* The next word of @text, which is moved past it. Return: its length; 0: no more. */
static size_t next_word(const char **text, const char **word)
{
        const char *p = *text;

        while (is_blank(*p))
                p++;
        *word = p;
        while (*p && !is_blank(*p))
                p++;
        *text = p;
        return (size_t)(p - *word);
}

bool capo_text_begins_row(const char *text)
{
        char copy[40];
        const char *word;
        uint64_t size;

        for (int i = 0; i < 3; i++) {
                size_t n = next_word(&text, &word);

                if (n == 0 || n >= sizeof copy || (i < 2 && !isdigit((unsigned char)*word)))
                        return false;
                memcpy(copy, word, n);
                copy[n] = 0;
                if (i == 0 && capo_size_parse(copy, &size) < 0)
                        return false;
        }
        return type_of(copy) != 255;
}

/* Add the words of a row, or of a part of one. @begins: the row begins here. @open: a log line
 * follows, so the row may continue later. */
static int row_piece(struct reader *r, const char *text, unsigned line, bool begins, bool open)
{
        const char *word;
        size_t size;

        if (begins) {
                int e = capo_text_row_end(r);

                if (e < 0)
                        return e;
                r->row_line = line;
        } else if (r->n_words == 0) {
                return 0; /* text of another program */
        } else {
                double v;
                char first[40];

                if (sscanf(text, "%39s", first) != 1 || !parse_number(first, &v))
                        return 0;
        }
        while ((size = next_word(&text, &word))) {
                if (r->n_words == MAX_WORDS || size >= sizeof r->words[0])
                        return capo_input_error(
                                r->in, line,
                                "expected a row of nccl-tests, found too many or too long words");
                memcpy(r->words[r->n_words], word, size);
                r->words[r->n_words++][size] = 0;
        }
        return !open && row_whole(r) ? capo_text_row_end(r) : 0;
}

/* ---- lines ---- */

/* Convert rows in CSV (rccl-tests -Z csv) to words separated by blanks. In place. */
static void replace_commas(char *line)
{
        unsigned commas = 0;

        for (const char *p = line; (p = strchr(p, ',')); p++)
                commas++;
        if (commas < 8 || !isdigit((unsigned char)line[strspn(line, " \t")]))
                return;
        for (char *p = line; *p; p++)
                *p = *p == ',' ? ' ' : *p;
}

static int read_line(struct reader *r, char *line, unsigned n)
{
        const char *said, *mark;
        char *cr = strchr(line, '\r');
        bool row;
        int e;

        if (cr && !cr[1])
                *cr = 0;
        line = capo_text_untag(line, &r->task);
        line = capo_text_join(r, line, &n);
        if (!line)
                return 0;
        replace_commas(line);
        mark = nccl_mark(line, &said);
        if (mark) {
                size_t before = (size_t)(mark - line);

                capo_nccl_log_line(&r->block.log, said, n);
                before += glued_length(r, mark);
                line[before] = 0;
                return before ? row_piece(r, line, n, capo_text_begins_row(line), true) : 0;
        }
        while (*line == ' ' && (line[1] == ' ' || line[1] == '#'))
                line++;
        if (*line == '#')
                return capo_text_header(r, line, n);
        row = capo_text_begins_row(line);
        if (row || r->n_words) {
                bool waiting = r->n_words > 0;
                unsigned before = r->n_words;

                e = row_piece(r, line, n, row, false);
                if (e < 0 || row || (waiting && r->n_words != before))
                        return e;
        }
        capo_nccl_log_line(&r->block.log, line,
                           n); /* extracts may have NCCL's lines without their prefix */
        return capo_text_labels(r, line, n);
}

bool capo_import_is_text(const char *head, size_t n)
{
        return true;
}

/* Why the text of another program with numbers that look like measurements is not read; NULL: it is
 * none. */
static const char *name_foreign(const char *text)
{
        if (strstr(text, "# OSU "))
                return "output of the OSU benchmarks: it says neither the ranks nor what NCCL was "
                       "forced to";
        if (strstr(text, "payload") && strstr(text, "busbw") && !strstr(text, "redop"))
                return "a table of all_reduce_bench: it says neither the times nor what was forced";
        return NULL;
}

int capo_import_text(struct capo_input *in)
{
        const char *foreign = name_foreign(in->text); /* lines are cut while they are read */
        size_t before = in->set->n, rejected = in->set->n_rejected;
        struct reader *r = calloc(1, sizeof *r);
        unsigned n = 0;
        int e = 0;

        if (!r)
                return -ENOMEM;
        r->in = in;
        r->block.make = CAPO_MAKE_LOOP;
        collect_hosts(r);
        for (char *line = in->text, *next; e == 0 && line && *line; line = next) {
                char *end = strchr(line, '\n');
                struct capo_stamp stamp = capo_stamp_read(line);

                next = end ? end + 1 : NULL;
                if (end)
                        *end = 0;
                e = read_line(r, line, ++n);
                if (!r->block.run.began.at) /* of the run that the line begins */
                        r->block.run.began = stamp;
                if (e == -EINVAL) { /* only this run is rejected */
                        capo_text_fault(r);
                        r->n_words = 0;
                        e = 0;
                }
        }
        if (e == 0)
                e = capo_text_run_end(r);
        capo_text_run_clear(r);
        free(r->hosts);
        free(r);
        if (e == 0 && foreign && in->set->n == before && in->set->n_rejected == rejected)
                return capo_input_error(in, 0, "this is %s; nccl-tests says both", foreign);
        return e;
}
