/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of nccl-tests' output: words to numbers, and checks of each. Also the names of the hosts, which
 * show where a glued row ends. */
#include <math.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/text.h"
#include "core/base/xalloc.h"
#include "profiles/import/text_rows.h"

void capo_text_reject(struct block *b, const char *format, ...)
{
        va_list ap;

        if (b->rejected)
                return;
        va_start(ap, format);
        b->rejected = capo_print(format, ap);
        va_end(ap);
}

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
        if (r->n_hosts == MAX_HOSTS)
                return -1;
        xarray_room(&r->hosts, (size_t)r->n_hosts, HOST_ROOM);
        memcpy(r->hosts[r->n_hosts], name, size);
        r->hosts[r->n_hosts][size] = 0;
        r->hashes[r->n_hosts] = XXH3_64bits(name, size);
        return r->n_hosts++;
}

size_t capo_text_glued(const struct reader *r, const char *word)
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

static bool parse_number(const char *word, double *out)
{
        if (strcmp(word, "N/A"))
                return capo_input_number(word, out);
        *out = 0;
        return true;
}

/* Half a unit of the last digit of @word: how far rounding moved it. */
static double half_unit(const char *word)
{
        const char *point = strchr(word, '.');
        double unit = 0.5;

        while (point && isdigit((unsigned char)*++point))
                unit /= 10;
        return unit;
}

/* Do bandwidth, size and time match, up to rounding? */
static int check_units(struct reader *r, const struct row *row, unsigned at, double us,
                       double algbw)
{
        double expected = (double)row->sample[0].bytes / us / 1e3,
               rounding = expected * half_unit(r->words[at]) / us + half_unit(r->words[at + 1]);

        if (expected < 0.02 || fabs(algbw - expected) <= 0.001 + 0.02 * expected + 1.1 * rounding)
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
                op = !strcmp(r->words[at++], "mulsum") ? 254 : 255;
        for (unsigned i = 0; at == 4 && i <= 4; i++) {
                if (!strcmp(r->words[3], capo_op_name(i)))
                        op = i;
        }
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
                e = check_units(r, &row, at, us, algbw);
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
        *xadd(b->rows, b->n_rows) = row;
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

static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r' && c != '\n'); }

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

int capo_text_row_piece(struct reader *r, const char *text, unsigned line, bool begins, bool open)
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
