/* SPDX-License-Identifier: Apache-2.0 */
/* A CPython's memory that nobody runs: objects as a release lays them out, one behind the other. */
#pragma once

#include <string.h>

#include "core/base/cpython.h"

enum {
        PY_BEGIN = 0x10000,
        PY_ROOM = 1 << 16,
        PY_CODE_TYPE = 0x101,
        PY_TEXT_TYPE,
        PY_BYTES_TYPE,
        PY_TUPLE_TYPE
};

static struct py_memory {
        uint8_t at[PY_ROOM];
        uint64_t next;
        uint64_t gone; /* what cannot be read; 0 nothing */
} memory;

static bool py_read(void *arg, uint64_t from, void *to, size_t size)
{
        struct py_memory *m = arg;

        if (from < PY_BEGIN || from > PY_BEGIN + PY_ROOM || size > PY_BEGIN + PY_ROOM - from ||
            (m->gone >= from && m->gone < from + size))
                return false;
        memcpy(to, m->at + (from - PY_BEGIN), size);
        return true;
}

/* Empty, of that release. */
static inline struct capo_py py_begin(int minor)
{
        memset(&memory, 0, sizeof memory);
        memory.next = PY_BEGIN;
        return (struct capo_py){capo_py_layout_of(minor),
                                PY_CODE_TYPE,
                                PY_TEXT_TYPE,
                                PY_BYTES_TYPE,
                                PY_TUPLE_TYPE,
                                py_read,
                                &memory};
}

static uint64_t py_new(size_t size)
{
        uint64_t at = memory.next;

        memory.next += (size + 15) & ~(size_t)15;
        return at;
}

static void py_put(uint64_t at, size_t offset, const void *what, size_t size)
{
        memcpy(memory.at + (at - PY_BEGIN) + offset, what, size);
}

static void py_word(uint64_t at, size_t offset, uint64_t value)
{
        py_put(at, offset, &value, sizeof value);
}

static uint64_t py_object(uint64_t type, uint64_t length, size_t size)
{
        uint64_t at = py_new(size);

        py_word(at, CAPO_PY_TYPE, type);
        py_word(at, CAPO_PY_LENGTH, length);
        return at;
}

/* @n characters of @kind bytes; ASCII where kind is 0. */
static inline uint64_t py_text(const struct capo_py *py, const void *characters, size_t n,
                               uint32_t kind)
{
        uint32_t state = (kind ? kind : 1) << 2 | 1 << 5 | (kind ? 0 : 1 << 6);
        uint64_t at = py_object(PY_TEXT_TYPE, n, 80 + n * (kind ? kind : 1));

        py_put(at, 32, &state, sizeof state);
        py_put(at, kind ? py->layout->wide : py->layout->ascii, characters, n * (kind ? kind : 1));
        return at;
}

static inline uint64_t py_ascii(const struct capo_py *py, const char *text)
{
        return py_text(py, text, strlen(text), 0);
}

static inline uint64_t py_bytes(const void *bytes, size_t n)
{
        uint64_t at = py_object(PY_BYTES_TYPE, n, CAPO_PY_BYTES + n);

        py_put(at, CAPO_PY_BYTES, bytes, n);
        return at;
}

/* Of @size bytes of instructions. */
static inline uint64_t py_code(const struct capo_py *py, const char *file, const char *name,
                               int first, const void *table, size_t n, size_t size)
{
        const struct capo_py_layout *l = py->layout;
        uint64_t at = py_object(PY_CODE_TYPE, size / 2, 400 + size);

        py_word(at, l->file, py_ascii(py, file));
        py_word(at, l->name, py_ascii(py, name));
        py_word(at, l->lines, py_bytes(table, n));
        py_put(at, l->first_line, &first, sizeof first);
        if (l->code_begin < 0)
                py_word(at, l->code_bytes, py_object(PY_BYTES_TYPE, size, CAPO_PY_BYTES + size));
        return at;
}

/* At byte @into of @code. */
static inline uint64_t py_frame(const struct capo_py *py, uint64_t code, int into, uint64_t back,
                                uint8_t owner)
{
        const struct capo_py_layout *l = py->layout;
        uint64_t at = py_new(400);
        int index = into / (l->unit ? l->unit : 1);

        py_word(at, l->back, back);
        py_word(at, l->code, code);
        if (l->code_begin < 0)
                py_put(at, l->at, &index, sizeof index);
        else
                py_word(at, l->at, code + (uint64_t)l->code_begin + (uint64_t)(int64_t)into);
        if (l->owner >= 0)
                py_put(at, (size_t)l->owner, &owner, 1);
        return at;
}
