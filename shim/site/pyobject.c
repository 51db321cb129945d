/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offsets belong to a minor release (they do not change within one) of the usual build on a 64-bit machine: worked out
 * with offsetof() from the headers of 3.9.18, 3.10.13, 3.11.7, 3.12.1, 3.13.0 and 3.14.10. A build where they do not
 * hold gives no texts and does no harm.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/base/util.h"
#include "shim/find/symbol.h"
#include "shim/site/pyobject.h"

static const struct capo_py_layout layouts[] = {
        /* minor current through back code at owner begin unit file name ascii wide locals_names locals first_line lines threads */
        {9, 24, -1, 24, 32, 104, -1, -1, 1, 104, 112, 48, 72, 72, 360, 40, 120, 8},
        {10, 24, -1, 24, 32, 96, -1, -1, 2, 104, 112, 48, 72, 72, 352, 40, 120, 8},
        {11, 56, 8, 48, 32, 56, 69, 184, 1, 112, 120, 48, 72, 96, 72, 72, 136, -1},
        {12, 56, 0, 8, 0, 56, 70, 192, 1, 112, 120, 40, 56, 96, 72, 68, 136, -1},
        {13, 72, -1, 8, 0, 56, 70, 200, 1, 112, 120, 40, 56, 96, 72, 68, 136, -1},
        {14, 72, -1, 8, 0, 56, 74, 208, 1, 112, 120, 40, 56, 96, 80, 68, 136, -1},
};

/* A str: a word of bits that says what its characters are. */
enum { STATE = 32, KIND_SHIFT = 2, KIND = 7, COMPACT = 1 << 5, ASCII = 1 << 6 };

struct capo_py capo_py;

static bool find(void)
{
        int minor;

#define FIND(name)                                                              \
        do {                                                                    \
                *(void **)&capo_py.name = capo_real_dlsym(RTLD_DEFAULT, #name); \
                if (!capo_py.name)                                              \
                        return false;                                           \
        } while (0)
        FIND(Py_GetVersion);
        FIND(Py_IsInitialized);
        FIND(PyGILState_GetThisThreadState);
        FIND(PyInterpreterState_Main);
        FIND(PyInterpreterState_ThreadHead);
        FIND(PyCode_Type);
        FIND(PyTuple_Type);
        FIND(PyUnicode_Type);
        FIND(PyBytes_Type);
#undef FIND
        /* A build without the lock has other objects. */
        if (sscanf(capo_py.Py_GetVersion(), "3.%d", &minor) != 1 || strstr(capo_py.Py_GetVersion(), "free-threading"))
                return false;
        for (size_t i = 0; i < N_ELEMENTS(layouts) && !capo_py.layout; i++)
                capo_py.layout = layouts[i].minor == minor ? &layouts[i] : NULL;
        return capo_py.layout;
}

bool capo_py_find(void)
{
        static int found; /* 0 not looked, 1 yes, -1 no */

        if (!found)
                found = find() ? 1 : -1;
        return found > 0;
}

bool capo_py_get(const void *from, size_t offset, void *to, size_t size)
{
        struct iovec here = {to, size}, there = {(char *)from + offset, size};

        return from && process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)size;
}

bool capo_py_object(const void *from, size_t offset, const void *type, void **object)
{
        void *is;

        if (!capo_py_get(from, offset, object, sizeof *object))
                return false;
        *object = (void *)((uintptr_t)*object & ~(uintptr_t)3); /* 3.14 says in a frame's pointers whose they are */
        return capo_py_get(*object, CAPO_PY_TYPE, &is, sizeof is) && is == type;
}

static unsigned put_utf8(uint32_t c, char *text)
{
        if (c < 0x20 || c == 0x7f)
                c = '?'; /* the text is lines; a name with a control character in it is nobody's */
        if (c < 0x80) {
                text[0] = (char)c;
                return 1;
        }
        if (c < 0x800) {
                text[0] = (char)(0xc0 | c >> 6);
                text[1] = (char)(0x80 | (c & 0x3f));
                return 2;
        }
        if (c < 0x10000) {
                text[0] = (char)(0xe0 | c >> 12);
                text[1] = (char)(0x80 | (c >> 6 & 0x3f));
                text[2] = (char)(0x80 | (c & 0x3f));
                return 3;
        }
        text[0] = (char)(0xf0 | (c >> 18 & 7));
        text[1] = (char)(0x80 | (c >> 12 & 0x3f));
        text[2] = (char)(0x80 | (c >> 6 & 0x3f));
        text[3] = (char)(0x80 | (c & 0x3f));
        return 4;
}

bool capo_py_text(const void *object, size_t offset, bool its_end, char *text)
{
        void *str;
        int64_t length, first;
        uint32_t state, kind;
        char raw[CAPO_PY_TEXT];
        size_t n;

        if (!capo_py_object(object, offset, capo_py.PyUnicode_Type, &str) ||
            !capo_py_get(str, CAPO_PY_LENGTH, &length, sizeof length) || !capo_py_get(str, STATE, &state, sizeof state))
                return false;
        kind = state >> KIND_SHIFT & KIND;
        if (!(state & COMPACT) || (kind != 1 && kind != 2 && kind != 4) || length < 0 || length > 1 << 20)
                return false;
        first = its_end && length > CAPO_PY_SHOWN ? length - CAPO_PY_SHOWN : 0;
        n = length - first > CAPO_PY_SHOWN ? CAPO_PY_SHOWN : (size_t)(length - first);
        if (n &&
            !capo_py_get(str, (state & ASCII ? capo_py.layout->ascii : capo_py.layout->wide) + kind * (size_t)first,
                         raw, kind * n))
                return false;
        for (size_t i = 0; i < n; i++) {
                uint16_t two;
                uint32_t c;

                memcpy(&two, raw + i * kind, kind > 1 ? 2 : 1);
                memcpy(&c, raw + i * kind, kind == 4 ? 4 : 1);
                text += put_utf8(kind == 1 ? (uint8_t)raw[i] : kind == 2 ? two : c, text);
        }
        *text = 0;
        return true;
}

/* ---- lines ---- */

/* The table of a code object, piece by piece. Those of functions are some hundred bytes. */
struct table {
        const char *at; /* of the next piece */
        int64_t left;
        uint8_t piece[256];
        unsigned n, next;
        bool ended;
};

static uint8_t next_byte(struct table *t)
{
        if (t->next == t->n) {
                t->n = (unsigned)(t->left < (int64_t)sizeof t->piece ? t->left : (int64_t)sizeof t->piece);
                t->next = 0;
                if (!t->n || !capo_py_get(t->at, 0, t->piece, t->n)) {
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
static int lnotab(struct table *t, int line, int at)
{
        for (int byte = next_byte(t); !t->ended && byte <= at; byte += next_byte(t))
                line += (int8_t)next_byte(t);
        return line;
}

/* 3.10 (PEP 626): pairs of so many bytes, which are so many lines further than those before; -128: they have no line. */
static int pairs(struct table *t, int line, int at)
{
        for (int end = 0; !t->ended;) {
                int8_t further;

                end += next_byte(t);
                further = (int8_t)next_byte(t);
                line += further == -128 ? 0 : further;
                if (at < end && !t->ended)
                        return further == -128 ? 0 : line;
        }
        return 0;
}

static unsigned varint(struct table *t)
{
        unsigned value = 0, byte = 0x40;

        for (unsigned shift = 0; byte & 0x40 && shift < 30; shift += 6) {
                byte = next_byte(t);
                value |= (byte & 0x3f) << shift;
        }
        return value;
}

/* Since 3.11 (PEP 657, Objects/locations.md): entries of a kind and so many units of two bytes; lines and, not wanted, columns. */
static int locations(struct table *t, int line, int at)
{
        enum { SHORT = 10, LINES = 13, LONG = 14, NONE = 15 };

        for (int end = 0; !t->ended;) {
                uint8_t first = next_byte(t), kind = first >> 3 & 15;
                unsigned skip = 0, further = 0;

                end += 2 * ((first & 7) + 1);
                if (kind == LINES || kind == LONG)
                        further = varint(t);
                line += kind == LINES || kind == LONG   ? (int)(further >> 1) * (further & 1 ? -1 : 1)
                        : kind >= SHORT && kind < LINES ? kind - SHORT
                                                        : 0;
                if (kind == LONG) {
                        for (int i = 0; i < 3; i++)
                                varint(t);
                }
                skip = kind < SHORT ? 1 : kind < LINES ? 2 : 0;
                while (skip--)
                        next_byte(t);
                if (at < end && !t->ended)
                        return kind == NONE ? 0 : line;
        }
        return 0;
}

int capo_py_line(const void *code, int at)
{
        const struct capo_py_layout *l = capo_py.layout;
        struct table t = {.n = 0};
        void *table;
        int line;

        if (!capo_py_get(code, l->first_line, &line, sizeof line) ||
            !capo_py_object(code, l->lines, capo_py.PyBytes_Type, &table) ||
            !capo_py_get(table, CAPO_PY_LENGTH, &t.left, sizeof t.left) || t.left < 0 || t.left > 1 << 24)
                return 0;
        if (at < 0) /* about to begin */
                return line;
        t.at = (const char *)table + CAPO_PY_BYTES;
        return l->minor < 10 ? lnotab(&t, line, at) : l->minor < 11 ? pairs(&t, line, at) : locations(&t, line, at);
}
