/* SPDX-License-Identifier: Apache-2.0 */
/* Strings of a profile: checked, and decoded where they have escapes. */
#include <ctype.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "core/profile/profile_json.h"

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

/* Bytes of the UTF-8 character at @p, no ASCII, 0 when it is not one (RFC 3629: shortest form, no
 * surrogates, up to 10FFFF). */
static unsigned utf8_size(const unsigned char *p, const unsigned char *end)
{
        unsigned n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;

        if (p[0] < 0xc2 || p[0] > 0xf4 || end - p < (ptrdiff_t)n)
                return 0;
        for (unsigned i = 1; i < n; i++) {
                if ((p[i] & 0xc0) != 0x80)
                        return 0;
        }
        if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
            (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
                return 0;
        return n;
}

static char *utf8_put(char *out, unsigned c)
{
        if (c < 0x80) {
                *out++ = (char)c;
        } else if (c < 0x800) {
                *out++ = (char)(0xc0 | c >> 6);
                *out++ = (char)(0x80 | (c & 0x3f));
        } else if (c < 0x10000) {
                *out++ = (char)(0xe0 | c >> 12);
                *out++ = (char)(0x80 | (c >> 6 & 0x3f));
                *out++ = (char)(0x80 | (c & 0x3f));
        } else {
                *out++ = (char)(0xf0 | c >> 18);
                *out++ = (char)(0x80 | (c >> 12 & 0x3f));
                *out++ = (char)(0x80 | (c >> 6 & 0x3f));
                *out++ = (char)(0x80 | (c & 0x3f));
        }
        return out;
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
        *out = utf8_put(*out, (unsigned)c);
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
                        unsigned n =
                                utf8_size((const unsigned char *)p, (const unsigned char *)r->end);

                        if (!n)
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
