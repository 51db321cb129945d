/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of code objects, in the three forms that releases keep them in. */
#include <limits.h>

#include "core/base/cpython.h"

/* The table of a code object, piece by piece. Those of functions are some hundred bytes. */
struct table {
        const struct capo_py *py;
        uint64_t at; /* of the next piece */
        int64_t left;
        uint8_t piece[256];
        unsigned n, next;
        bool ended;
};

static uint8_t next_byte(struct table *t)
{
        if (t->next == t->n) {
                t->n = (unsigned)(t->left < (int64_t)sizeof t->piece ? t->left
                                                                     : (int64_t)sizeof t->piece);
                t->next = 0;
                if (!t->n || !capo_py_get(t->py, t->at, 0, t->piece, t->n)) {
                        t->ended = true;
                        t->n = 0;
                        return 0;
                }
                t->at += t->n;
                t->left -= t->n;
        }
        return t->piece[t->next++];
}

/* 3.9 (Objects/lnotab_notes.txt): pairs of so many bytes further, so many lines further. */
static unsigned read_lnotab(struct table *t, unsigned line, int at)
{
        for (int byte = next_byte(t); !t->ended && byte <= at; byte += next_byte(t))
                line += (unsigned)(int8_t)next_byte(t);
        return line;
}

/* 3.10 (PEP 626): pairs of so many bytes, which are so many lines further than those before; -128:
 * they have no line. */
static unsigned read_pairs(struct table *t, unsigned line, int at)
{
        for (int end = 0; !t->ended;) {
                int8_t further;

                end += next_byte(t);
                further = (int8_t)next_byte(t);
                line += further == -128 ? 0 : (unsigned)further;
                if (at < end && !t->ended)
                        return further == -128 ? 0 : line;
        }
        return 0;
}

static unsigned read_varint(struct table *t)
{
        unsigned value = 0, byte = 0x40;

        for (unsigned shift = 0; byte & 0x40 && shift < 30; shift += 6) {
                byte = next_byte(t);
                value |= (byte & 0x3f) << shift;
        }
        return value;
}

/* Since 3.11 (PEP 657, Objects/locations.md): entries of a kind and so many units of two bytes;
 * lines and, not wanted, columns. */
static unsigned read_locations(struct table *t, unsigned line, int at)
{
        enum { SHORT = 10, LINES = 13, LONG = 14, NONE = 15 };

        for (int end = 0; !t->ended;) {
                uint8_t first = next_byte(t), kind = first >> 3 & 15;
                unsigned skip = 0, further = 0;

                end += 2 * ((first & 7) + 1);
                if (kind == LINES || kind == LONG)
                        further = read_varint(t);
                line += kind == LINES || kind == LONG
                                ? further & 1 ? 0 - (further >> 1) : further >> 1
                        : kind >= SHORT && kind < LINES ? kind - (unsigned)SHORT
                                                        : 0;
                if (kind == LONG) {
                        for (int i = 0; i < 3; i++)
                                read_varint(t);
                }
                skip = kind < SHORT ? 1 : kind < LINES ? 2 : 0;
                while (skip--)
                        next_byte(t);
                if (at < end && !t->ended)
                        return kind == NONE ? 0 : line;
        }
        return 0;
}

int capo_py_line(const struct capo_py *py, const struct capo_py_code *code, int at)
{
        unsigned first = (unsigned)code->first_line, line; /* damaged ones wrap */
        int minor = py->layout->minor;
        struct table t = {.py = py};
        uint64_t head[CAPO_PY_BYTES / 8];

        if (!capo_py_get(py, code->lines, 0, head, sizeof head) ||
            head[CAPO_PY_TYPE / 8] != py->bytes_type || head[CAPO_PY_LENGTH / 8] > 1 << 24)
                return 0;
        if (at < 0) /* about to begin */
                return code->first_line;
        t.at = code->lines + CAPO_PY_BYTES;
        t.left = (int64_t)head[CAPO_PY_LENGTH / 8];
        line = minor < 10   ? read_lnotab(&t, first, at)
               : minor < 11 ? read_pairs(&t, first, at)
                            : read_locations(&t, first, at);
        return line <= INT_MAX ? (int)line : 0;
}
