/* SPDX-License-Identifier: Apache-2.0 */
/* See the header. Unwanted parts are skipped by their tokens, only to find where they end. */
#include "core/base/demangle.h"
#include "core/base/util.h"

#define DEPTH 200 /* of what is inside each other; a name that goes deeper is cut there */

struct parse {
        const char *p;
        char *text;
        size_t n, room;
        size_t last; /* where the last part of the name begins in text, for constructors */
        unsigned depth;
};

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static void put_chars(struct parse *s, const char *text, size_t n)
{
        for (size_t i = 0; i < n && s->n + 1 < s->room; i++)
                s->text[s->n++] = text[i] == ' ' || text[i] == '+' || (unsigned char)text[i] < 32
                                          ? '_'
                                          : text[i];
}

/* The next part of a qualified name. */
static void put_part(struct parse *s, const char *text, size_t n)
{
        if (s->n)
                put_chars(s, "::", 2);
        s->last = s->n;
        put_chars(s, text, n);
}

static void skip_digits(struct parse *s)
{
        while (is_digit(*s->p))
                s->p++;
}

static void skip_through(struct parse *s, char c)
{
        while (*s->p && *s->p != c)
                s->p++;
        s->p += *s->p == c;
}

/* A length and as many characters; NULL when there are fewer. */
static const char *source_name(struct parse *s, size_t *n)
{
        size_t length = 0, left;
        const char *name;

        for (; is_digit(*s->p) && length < 100000; s->p++)
                length = 10 * length + (size_t)(*s->p - '0');
        name = s->p;
        left = strlen(name);
        *n = length < left ? length : left;
        s->p += *n;
        return *n == length ? name : NULL;
}

static void skip_token(struct parse *s);

static void skip_through_e(struct parse *s)
{
        while (*s->p && *s->p != 'E')
                skip_token(s);
        s->p += *s->p == 'E';
}

static void skip_literal(struct parse *s)
{
        if (s->p[0] == '_' && s->p[1] == 'Z') { /* the address of a function */
                s->p += 2;
                skip_through_e(s);
                return;
        }
        skip_token(s);
        skip_through(s, 'E'); /* the value */
}

/* One token of a type, an argument or an expression, with what is inside it. */
static void skip_token(struct parse *s)
{
        char c = *s->p;
        size_t n;

        if (!c || ++s->depth > DEPTH) {
                s->p += strlen(s->p);
                return;
        }
        s->p++;
        switch (c) {
        case '0' ... '9':
                s->p--;
                source_name(s, &n);
                break;
        case 'S':
                if (*s->p == '_' || is_digit(*s->p) || (*s->p >= 'A' && *s->p <= 'Z'))
                        skip_through(s, '_');
                else
                        s->p += *s->p != 0;
                break;
        case 'T':
                if (*s->p == '_' || is_digit(*s->p))
                        skip_through(s, '_');
                break;
        case 'N':
        case 'I':
        case 'J':
        case 'X':
        case 'F': skip_through_e(s); break;
        case 'L': skip_literal(s); break;
        case 'Z':
                skip_through_e(s);
                if (*s->p == 's')
                        s->p++;
                break;
        case 'U':
                if (*s->p == 'l') {
                        s->p++;
                        skip_through_e(s);
                        skip_through(s, '_');
                } else if (*s->p == 't') {
                        skip_through(s, '_');
                }
                break;
        case 'A': skip_digits(s); break;
        case 'C':
                if (*s->p == 'I')
                        s->p++;
                s->p += is_digit(*s->p);
                break;
        case 'D':
                if (*s->p == 't' || *s->p == 'T')
                        skip_through_e(s);
                else if (*s->p == 'v')
                        skip_through(s, '_');
                else if (*s->p == 'F') /* _Float16 and the like */
                        s->p++, skip_digits(s);
                else
                        s->p += *s->p != 0;
                break;
        case 'f': /* a parameter, unless it is a float */
                if (*s->p == 'p' ||
                    (*s->p == 'L' && s->p[1 + strspn(s->p + 1, "0123456789")] == 'p'))
                        skip_through(s, '_');
                break;
        case '_': skip_digits(s); break;
        }
        s->depth--;
}

/* One part of a nested name; false: no more of it can be read. */
static bool parse_component(struct parse *s)
{
        static const char *const std[][2] = {{"t", "std"},          {"a", "std::allocator"},
                                             {"s", "std::string"},  {"i", "std::istream"},
                                             {"o", "std::ostream"}, {"d", "std::iostream"}};
        const char *name;
        size_t n;

        switch (*s->p) {
        case '0' ... '9':
                name = source_name(s, &n);
                if (name && n >= 11 && !memcmp(name, "_GLOBAL__N_", 11))
                        put_part(s, "(anonymous)", 11);
                else if (name)
                        put_part(s, name, n);
                return name;
        case 'L': s->p++; return true; /* of this file only */
        case 'B': s->p++; return source_name(s, &n);
        case 'I':
                s->p++;
                skip_through_e(s);
                return true;
        case 'S':
                for (size_t i = 0; i < sizeof std / sizeof std[0]; i++) {
                        if (s->p[1] == *std[i][0])
                                put_part(s, std[i][1], strlen(std[i][1]));
                }
                skip_token(s);
                return true;
        case 'C':
        case 'D':
                if (is_digit(s->p[1]) || s->p[1] == 'I') {
                        name = s->text + s->last;
                        n = s->n - s->last;
                        put_part(s, "~", *s->p == 'D');
                        put_chars(s, name, n);
                }
                skip_token(s);
                return true;
        case 'U':
                put_part(s, s->p[1] == 'l' ? "{lambda}" : "{unnamed}", s->p[1] == 'l' ? 8 : 9);
                skip_token(s);
                return true;
        case 'T': skip_token(s); return true;
        case 'a' ... 'z':
                if (!s->p[1])
                        return false;
                put_part(s, "operator", 8);
                s->p += 2;
                if (!memcmp(s->p - 2, "cv", 2)) /* to a type */
                        skip_token(s);
                return true;
        }
        return false;
}

static void parse_encoding(struct parse *s)
{
        if (++s->depth > DEPTH) { /* no way back up: the name ends here */
                s->p += strlen(s->p);
                return;
        }
        if (*s->p == 'Z') { /* something inside a function */
                s->p++;
                parse_encoding(s);
                while (*s->p && *s->p != 'E') /* the function's parameters */
                        skip_token(s);
                if (*s->p == 'E' && s->p[1] != 's') {
                        s->p++;
                        if (*s->p == 'd')
                                skip_through(s, '_');
                        parse_encoding(s);
                }
        } else if (*s->p == 'N') {
                s->p++;
                while (*s->p && strchr("rVKRO", *s->p))
                        s->p++;
                while (*s->p && *s->p != 'E' && parse_component(s))
                        ;
                s->p += *s->p == 'E';
        } else {
                while (*s->p == 'S' || *s->p == 'L')
                        parse_component(s);
                parse_component(s);
        }
        s->depth--;
}

size_t capo_demangle(const char *mangled, char *text, size_t room)
{
        struct parse s = {.p = mangled, .text = text, .room = room};

        if (!room)
                return 0;
        if (!strncmp(mangled, "_Z", 2)) {
                s.p += 2;
                parse_encoding(&s);
        }
        text[s.n] = 0;
        return s.n;
}
