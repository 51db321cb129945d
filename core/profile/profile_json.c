/* SPDX-License-Identifier: Apache-2.0 */
/* JSON, read by pulling: the caller says what it expects next. There is no tree. A profile is read
 * inside somebody's training job while all its ranks wait, and building a tree of a 1,000-row
 * profile takes several times as long as the whole initialisation may (jansson 2.14: 1.8 ms); a
 * tree also forgets where its values stood, so that errors could not name line and column. The
 * grammar is RFC 8259 without exceptions; the fuzzer and a unit test hold it against jansson: what
 * is accepted here is accepted there. */

#include "capo/profile.h"
#include "core/base/plain_text.h"
#include "core/base/text.h"
#include "core/profile/profile_json.h"

#define DEPTH_MAX 64 /* of values that nobody looks into (provenance) */

void capo_json_init(struct capo_json *r, const char *text, size_t size, const char *file,
                    struct capo_fault *fault)
{
        *r = (struct capo_json){.at = text,
                                .begin = text,
                                .end = text + size,
                                .file = file,
                                .line = 1,
                                .fault = fault};
        if (size >= 3 && !memcmp(text, "\xef\xbb\xbf", 3))
                capo_json_fail(r, text, "JSON without a byte order mark");
}

void capo_json_finish(struct capo_json *r)
{
        free(r->scratch);
        r->scratch = NULL;
}

static bool word_goes_on(const char *p, const char *end)
{
        return p < end && (isalnum((unsigned char)*p) || (*p && strchr("+-._", *p)));
}

/* What stands at @at, short and printable; "..." behind it where it goes on. */
static void describe_token(const struct capo_json *r, const char *at, char *out, size_t room)
{
        const char *stop = at;
        bool cut = false;
        size_t n = 0;

        if (at >= r->end) {
                snprintf(out, room, "the end of the file");
                return;
        }
        if (*at == '"') {
                for (stop++; stop < r->end && *stop != '"' && *stop != '\n' && stop - at < 40;
                     stop++)
                        ;
                cut = stop < r->end && *stop != '"' && *stop != '\n';
                stop += stop < r->end && *stop == '"';
        } else if (isalnum((unsigned char)*at) || *at == '-') {
                while (word_goes_on(stop, r->end) && stop - at < 40)
                        stop++;
                cut = word_goes_on(stop, r->end);
        } else {
                stop++;
        }
        for (; at < stop && n + sizeof "\\x00..." <= room; at++) {
                unsigned char c = (unsigned char)*at;
                n += (size_t)snprintf(out + n, room - n, c < 0x20 || c >= 0x7f ? "\\x%02x" : "%c",
                                      c);
        }
        if (cut || at < stop)
                snprintf(out + n, room - n, "...");
}

bool capo_json_fail(struct capo_json *r, const char *where, const char *expected, ...)
{
        uint32_t line = 1;
        const char *start = r->begin;
        char what[320], found[96];
        va_list args;

        if (r->failed)
                return false;
        r->failed = true;
        if (!r->fault)
                return false;
        for (const char *p = r->begin; p < where; p++) {
                if (*p == '\n') {
                        line++;
                        start = p + 1;
                }
        }
        va_start(args, expected);
        vsnprintf(what, sizeof what, expected, args);
        va_end(args);
        describe_token(r, where, found, sizeof found);
        snprintf(r->fault->text, sizeof r->fault->text, "%s:%u:%u: expected %s, found %s", r->file,
                 line, (unsigned)(where - start) + 1, what, found);
        return false;
}

char capo_json_skip_blanks(struct capo_json *r)
{
        while (r->at < r->end) {
                char c = *r->at;

                if (c == '\n')
                        r->line++;
                else if (c != ' ' && c != '\t' && c != '\r')
                        return c;
                r->at++;
        }
        return 0;
}

bool capo_json_open(struct capo_json *r, char bracket, const char *what)
{
        if (r->failed)
                return false;
        if (capo_json_peek(r) != bracket || r->at >= r->end)
                return capo_json_fail(r, r->at, "%s", what);
        r->at++;
        r->fresh = true;
        return true;
}

/* The end of a container, or the comma before its next member. */
static bool next_member(struct capo_json *r, char close)
{
        char c;

        if (r->failed)
                return false;
        c = capo_json_peek(r);
        if (c == close) {
                r->at++;
                r->fresh = false;
                return false;
        }
        if (!r->fresh) {
                if (c != ',')
                        return capo_json_fail(r, r->at, "\",\" or \"%c\"", close);
                r->at++;
                capo_json_peek(r);
        }
        r->fresh = false;
        return true;
}

bool capo_json_key(struct capo_json *r, struct capo_slice *key)
{
        if (!next_member(r, '}'))
                return false;
        r->key = r->at;
        if (!capo_json_string(r, key, "a key in quotes"))
                return false;
        if (capo_json_peek(r) != ':')
                return capo_json_fail(r, r->at, "\":\" after the key");
        r->at++;
        capo_json_peek(r);
        return true;
}

bool capo_json_item(struct capo_json *r) { return next_member(r, ']'); }

bool capo_json_number(struct capo_json *r, double *out, const char *what)
{
        const char *end;

        if (r->failed)
                return false;
        capo_json_peek(r);
        end = capo_number_read(r->at, r->end, out);
        if (!end)
                return capo_json_fail(r, r->at, "%s", what);
        r->at = end;
        return true;
}

static bool match_literal(struct capo_json *r, const char *word)
{
        size_t n = strlen(word);

        if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n))
                return false;
        r->at += n;
        return true;
}

bool capo_json_bool(struct capo_json *r, bool *out, const char *what)
{
        if (r->failed)
                return false;
        capo_json_peek(r);
        if (match_literal(r, "true"))
                *out = true;
        else if (match_literal(r, "false"))
                *out = false;
        else
                return capo_json_fail(r, r->at, "%s", what);
        return true;
}

static bool skip_value(struct capo_json *r, unsigned depth)
{
        struct capo_slice text;
        double value;

        switch (capo_json_peek(r)) {
        case '{':
                if (depth >= DEPTH_MAX)
                        return capo_json_fail(r, r->at, "at most %d levels", DEPTH_MAX);
                capo_json_open(r, '{', "{");
                while (capo_json_key(r, &text) && skip_value(r, depth + 1))
                        ;
                return !r->failed;
        case '[':
                if (depth >= DEPTH_MAX)
                        return capo_json_fail(r, r->at, "at most %d levels", DEPTH_MAX);
                capo_json_open(r, '[', "[");
                while (capo_json_item(r) && skip_value(r, depth + 1))
                        ;
                return !r->failed;
        case '"': return capo_json_string(r, &text, "text");
        default:
                return match_literal(r, "true") || match_literal(r, "false") ||
                       match_literal(r, "null") || capo_json_number(r, &value, "a value");
        }
}

bool capo_json_any(struct capo_json *r, struct capo_slice *out)
{
        if (r->failed)
                return false;
        capo_json_peek(r);
        out->at = r->at;
        if (!skip_value(r, 0))
                return false;
        out->size = (size_t)(r->at - out->at);
        return true;
}

bool capo_json_fail_one_of(struct capo_json *r, const char *where, const struct capo_slice *words,
                           size_t n)
{
        char text[200] = "";

        for (size_t i = 0; i < n; i++)
                capo_append(text, sizeof text, "%s%s", i ? ", " : "one of ", words[i].at);
        return capo_json_fail(r, where, "%s", text);
}

/* The next key if it is @word without escapes and odd blanks; else nothing is taken. */
static bool key_is(struct capo_json *r, struct capo_slice word)
{
        const char *p = r->at;

        if (r->failed || (size_t)(r->end - p) < word.size + sizeof ", \"\": ")
                return false;
        if (!r->fresh) {
                if (*p++ != ',')
                        return false;
                p += *p == ' ';
        }
        if (p[0] != '"' || p[1] != word.at[0] || p[word.size + 1] != '"' ||
            p[word.size + 2] != ':' || memcmp(p + 1, word.at, word.size))
                return false;
        r->at = p + word.size + 3;
        r->fresh = false;
        capo_json_peek(r);
        return true;
}

/* Writers keep the tables' order: what stands there is nearly always a key behind the last. */
int capo_json_next(struct capo_json *r, const struct capo_slice *words, size_t n, uint32_t *seen)
{
        struct capo_slice key;

        for (size_t i = *seen ? 32 - (size_t)__builtin_clz(*seen) : 0; i < n; i++) {
                if (key_is(r, words[i])) {
                        *seen |= 1u << i;
                        return (int)i;
                }
        }
        if (!capo_json_key(r, &key))
                return -1;
        for (size_t i = 0; i < n; i++) {
                if (!capo_slice_same(key, words[i]))
                        continue;
                if (*seen & 1u << i) {
                        capo_json_fail(r, r->key, "the key %s only once", words[i].at);
                        return -1;
                }
                *seen |= 1u << i;
                return (int)i;
        }
        capo_json_fail_one_of(r, r->key, words, n);
        return -1;
}

bool capo_json_text(struct capo_json *r, char *out, size_t room, const char *what)
{
        struct capo_slice s;
        const char *where = capo_json_here(r);

        if (!capo_json_string(r, &s, what))
                return false;
        if (s.size >= room || memchr(s.at, 0, s.size))
                return capo_json_fail(r, where, "%s", what);
        memcpy(out, s.at, s.size);
        out[s.size] = 0;
        return true;
}

bool capo_json_end(struct capo_json *r)
{
        if (r->failed)
                return false;
        capo_json_peek(r);
        return r->at == r->end || capo_json_fail(r, r->at, "nothing after the closing brace");
}

/* Strings of a profile: checked, and decoded where they have escapes. */

static int parse_hex4(const char *p, const char *end)
{
        int value = 0;

        if (end - p < 4)
                return -1;
        for (int i = 0; i < 4; i++) {
                int c = tolower((unsigned char)p[i]);

                if (!isxdigit(c))
                        return -1;
                value = value * 16 + (c <= '9' ? c - '0' : c - 'a' + 10);
        }
        return value;
}

/* The escape at @p, behind its backslash and before the closing quote: append to *out, return one
 * past it; NULL with a fault. */
static const char *decode_escape(struct capo_json *r, const char *p, char **out)
{
        static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        const char *hit = *p ? strchr(from, *p) : NULL;
        int c, low;

        if (hit) {
                *(*out)++ = to[hit - from];
                return p + 1;
        }
        if (*p != 'u' || (c = parse_hex4(p + 1, r->end)) <= 0) {
                capo_json_fail(
                        r, p - 1,
                        "an escape (\\\" \\\\ \\/ \\b \\f \\n \\r \\t or \\u and four digits, not 0000)");
                return NULL;
        }
        p += 5;
        if (c >= 0xd800 && c < 0xe000) {
                low = p[0] == '\\' && p[1] == 'u' ? parse_hex4(p + 2, r->end) : -1;
                if (c >= 0xdc00 || low < 0xdc00 || low > 0xdfff) {
                        capo_json_fail(r, p - 6, "a pair of surrogates");
                        return NULL;
                }
                c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
                p += 6;
        }
        *out += capo_utf8_put((uint32_t)c, *out);
        return p;
}

/* A string with escapes: decoded into the scratch, which is as large as the raw text at most. */
static bool decode_string(struct capo_json *r, const char *raw, const char *stop,
                          struct capo_slice *out)
{
        size_t size = (size_t)(stop - raw);
        char *to;

        if (size > r->scratch_room) {
                char *grown = realloc(r->scratch, size);

                if (!grown)
                        return capo_json_fail(r, raw, "enough memory");
                r->scratch = grown;
                r->scratch_room = size;
        }
        to = r->scratch;
        while (raw < stop) {
                if (*raw == '\\') {
                        raw = decode_escape(r, raw + 1, &to);
                        if (!raw)
                                return false;
                } else {
                        *to++ = *raw++;
                }
        }
        *out = (struct capo_slice){r->scratch, (size_t)(to - r->scratch)};
        return true;
}

/* One past the bytes at @p that need no second look: ASCII but quotes, backslashes and control
 * characters. Eight at a time: in each byte of `stop` the upper bit is set when that byte is one of
 * those; above the first such byte, a borrow may set others too. */
static const char *plain_end(const char *p, const char *end)
{
        const uint64_t ones = 0x0101010101010101, high = ones << 7;

        for (; end - p >= 8; p += 8) {
                uint64_t v, quote, slash, stop;

                memcpy(&v, p, sizeof v);
                v = le64toh(v);
                quote = v ^ ones * '"';
                slash = v ^ ones * '\\';
                stop = (((quote - ones) & ~quote) | ((slash - ones) & ~slash) |
                        ((v - ones * 0x20) & ~v) | v) &
                       high;
                if (stop)
                        return p + __builtin_ctzll(stop) / 8;
        }
        while (p < end && (unsigned char)*p >= 0x20 && (unsigned char)*p < 0x80 && *p != '"' &&
               *p != '\\')
                p++;
        return p;
}

bool capo_json_string(struct capo_json *r, struct capo_slice *out, const char *what)
{
        const char *open, *p;
        bool escapes = false;

        if (r->failed)
                return false;
        if (capo_json_peek(r) != '"')
                return capo_json_fail(r, r->at, "%s", what);
        open = r->at;
        for (p = plain_end(open + 1, r->end); p < r->end && *p != '"'; p = plain_end(p, r->end)) {
                unsigned char c = (unsigned char)*p;

                if (c < 0x20)
                        return capo_json_fail(r, p, "no control character inside quotes");
                if (c == '\\') {
                        escapes = true;
                        p += 1 + (p + 1 < r->end);
                } else {
                        size_t n = capo_utf8_size((const unsigned char *)p, (size_t)(r->end - p));

                        if (!n || n == CAPO_UTF8_CUT)
                                return capo_json_fail(r, p, "UTF-8");
                        p += n;
                }
        }
        if (p >= r->end)
                return capo_json_fail(r, r->end, "a closing quote");
        r->at = p + 1;
        *out = (struct capo_slice){open + 1, (size_t)(p - open - 1)};
        return !escapes || decode_string(r, open + 1, p, out);
}
