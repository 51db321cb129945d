/* SPDX-License-Identifier: Apache-2.0 */
/* Offsets belong to a minor release (they do not change within one) of the usual build on a 64-bit
 * machine: worked out with offsetof() from the headers of 3.9.18, 3.10.13, 3.11.7, 3.12.1, 3.13.0
 * and 3.14.10. A build where they do not hold gives no texts and does no harm. */
#include "core/base/among.h"
#include "core/base/cpython.h"
#include "core/base/plain_text.h"

static const struct capo_py_layout layouts[] = {
        /* minor through unit current back code at owner code_begin code_bytes file name ascii wide
         * locals_names locals first_line lines interpreters next_interpreter threads thread_id
         * native_id thread_interpreter collecting */
        {9,  -1, 1,   24, 24,  32, 104, -1, -1,  48, 104, 112, 48,
         72, 72, 360, 40, 120, 32, 0,   8,  176, 0,  16,  816},
        {10, -1, 2,   24, 24,  32, 96, -1, -1,  48, 104, 112, 48,
         72, 72, 352, 40, 120, 32, 0,  8,  176, 0,  16,  816},
        {11, 8,  1,  56, 48,  32, 56, 69, 184, 0,   112, 120, 48,
         72, 96, 72, 72, 136, 40, 0,  16, 152, 160, 16,  848},
        {12, 0,  1,  56, 8,   0,  56, 70, 192, 0,   112, 120, 40,
         56, 96, 72, 68, 136, 40, 0,  72, 136, 144, 16,  312},
        {13, -1, 1,  72, 8,   0, 56, 70, 200, 0, 112, 120, 40,
         56, 96, 72, 68, 136, 0, 0,  0,  0,   0, 16,  7600},
        {14, -1, 1,  72, 8,   0, 56, 74, 208, 0, 112, 120, 40,
         56, 96, 80, 68, 136, 0, 0,  0,  0,   0, 16,  0},
};

/* A str: a word of bits that says what its characters are. */
enum { STATE = 32, KIND_SHIFT = 2, KIND = 7, COMPACT = 1 << 5, ASCII = 1 << 6 };
/* 3.14 says in a frame's pointers whose they are; 3.15 more. */
enum { NOT_ADDRESS = 3 };
/* Read at once. */
enum { STR = 40 };

const struct capo_py_layout *capo_py_layout_of(int minor)
{
        return FIRST_OF(l, layouts, N_ELEMENTS(layouts), l->minor == minor);
}

bool capo_py_get(const struct capo_py *py, uint64_t from, size_t offset, void *to, size_t size)
{
        return from && py->read(py->arg, from + offset, to, size);
}

bool capo_py_object(const struct capo_py *py, uint64_t from, size_t offset, uint64_t type,
                    uint64_t *object)
{
        uint64_t is;

        if (!capo_py_get(py, from, offset, object, sizeof *object))
                return false;
        *object &= ~(uint64_t)NOT_ADDRESS;
        return capo_py_get(py, *object, CAPO_PY_TYPE, &is, sizeof is) && is == type;
}

bool capo_py_text(const struct capo_py *py, uint64_t object, bool its_end, char *text)
{
        char head[STR], raw[CAPO_PY_TEXT];
        uint64_t type;
        int64_t length, first;
        uint32_t state, kind;
        size_t n;

        if (!capo_py_get(py, object, 0, head, sizeof head))
                return false;
        memcpy(&type, head + CAPO_PY_TYPE, sizeof type);
        memcpy(&length, head + CAPO_PY_LENGTH, sizeof length);
        memcpy(&state, head + STATE, sizeof state);
        kind = state >> KIND_SHIFT & KIND;
        if (type != py->text_type || !(state & COMPACT) || (kind != 1 && kind != 2 && kind != 4) ||
            length < 0 || length > 1 << 20)
                return false;
        first = its_end && length > CAPO_PY_SHOWN ? length - CAPO_PY_SHOWN : 0;
        n = length - first > CAPO_PY_SHOWN ? CAPO_PY_SHOWN : (size_t)(length - first);
        if (n && !capo_py_get(py, object,
                              (state & ASCII ? py->layout->ascii : py->layout->wide) +
                                      kind * (size_t)first,
                              raw, kind * n))
                return false;
        for (size_t i = 0; i < n; i++) {
                uint32_t c = 0;

                memcpy(&c, raw + i * kind, kind); /* the lowest byte comes first */
                /* the text is lines; a name with a control character in it is nobody's */
                text += capo_utf8_put(c < 0x20 || c == 0x7f || c > 0x10ffff ? '?' : c, text);
        }
        *text = 0;
        return true;
}

/* ---- frames ---- */

static uint64_t get_word(const uint8_t *raw, size_t offset)
{
        uint64_t value;

        memcpy(&value, raw + offset, sizeof value);
        return value;
}

static size_t max_offset(size_t a, size_t b) { return a > b ? a : b; }

uint64_t capo_py_innermost(const struct capo_py *py, uint64_t thread)
{
        const struct capo_py_layout *l = py->layout;
        uint64_t frame;

        if (!capo_py_get(py, thread, l->current, &frame, sizeof frame) ||
            (l->through >= 0 && !capo_py_get(py, frame, (size_t)l->through, &frame, sizeof frame)))
                return 0;
        return frame;
}

size_t capo_py_frame_bytes(const struct capo_py_layout *l)
{
        return max_offset(max_offset(max_offset(l->back, l->code), l->at) + 8,
                          (size_t)(l->owner + 1));
}

struct capo_py_frame capo_py_frame_in(const struct capo_py_layout *l, const uint8_t *raw)
{
        return (struct capo_py_frame){.back = get_word(raw, l->back),
                                      .code = get_word(raw, l->code) & ~(uint64_t)NOT_ADDRESS,
                                      .at = get_word(raw, l->at),
                                      .entry = l->owner >= 0 && raw[l->owner] > 2};
}

bool capo_py_frame(const struct capo_py *py, uint64_t address, struct capo_py_frame *out)
{
        uint8_t raw[CAPO_PY_FRAME_BYTES];

        if (!capo_py_get(py, address, 0, raw, capo_py_frame_bytes(py->layout)))
                return false;
        *out = capo_py_frame_in(py->layout, raw);
        return true;
}

bool capo_py_code(const struct capo_py *py, uint64_t address, struct capo_py_code *out)
{
        const struct capo_py_layout *l = py->layout;
        size_t size =
                max_offset(max_offset(l->file, l->name), max_offset(l->lines, l->first_line)) + 8;
        uint8_t raw[CAPO_PY_CODE_MOST + 8];
        uint64_t bytes = 0;

        if (!capo_py_get(py, address, 0, raw, size) || get_word(raw, CAPO_PY_TYPE) != py->code_type)
                return false;
        *out = (struct capo_py_code){.file = get_word(raw, l->file),
                                     .name = get_word(raw, l->name),
                                     .lines = get_word(raw, l->lines),
                                     .size = (int64_t)get_word(raw, CAPO_PY_LENGTH)};
        memcpy(&out->first_line, raw + l->first_line, sizeof out->first_line);
        if (l->code_begin < 0 &&
            (!capo_py_object(py, address, l->code_bytes, py->bytes_type, &bytes) ||
             !capo_py_get(py, bytes, CAPO_PY_LENGTH, &out->size, sizeof out->size)))
                return false;
        if (out->size < 0 || out->size > 1 << 28)
                return false;
        out->size *= l->code_begin < 0 ? 1 : 2; /* units of two bytes */
        return true;
}

/* The byte of its code that the frame is at; below 0: about to begin. False: not in its code. */
static bool get_at(const struct capo_py_layout *l, const struct capo_py_frame *f,
                   const struct capo_py_code *code, int *at)
{
        int64_t now = l->code_begin < 0 ? (int64_t)(int32_t)f->at * l->unit
                                        : (int64_t)(f->at - (f->code + (uint64_t)l->code_begin));

        *at = (int)now;
        return now >= -2 && now < code->size;
}

/* A file of an installed package, or of Python itself, is named from there on:
 * torch/nn/modules/module.py. NULL: neither. */
static const char *strip_package_root(const char *file)
{
        static const char *const roots[] = {"/site-packages/", "/dist-packages/", "/lib/python3."};

        for (size_t i = 0; i < N_ELEMENTS(roots); i++) {
                const char *at = strstr(file, roots[i]);

                if (at)
                        at = strchr(at + strlen(roots[i]) - 1, '/');
                if (at)
                        return at + 1;
        }
        return *file == '<' ? file : NULL; /* <frozen runpy> */
}

int capo_py_say(const struct capo_py *py, const struct capo_py_frame *frame, char *text,
                size_t room, int *packaged)
{
        char file[CAPO_PY_TEXT + 1], name[CAPO_PY_TEXT + 1];
        struct capo_py_code code;
        const char *package;
        int at, m;

        if (!capo_py_code(py, frame->code, &code) || !get_at(py->layout, frame, &code, &at) ||
            !capo_py_text(py, code.file, true, file) || !capo_py_text(py, code.name, false, name))
                return -1;
        package = strip_package_root(file);
        if (package && (*packaged)-- <= 0)
                return 0;
        m = snprintf(text, room, "%s:%d %s\n", package ? package : file,
                     capo_py_line(py, &code, at), name);
        return m > 0 && (size_t)m < room ? m : -1;
}

/* Lines of code objects, in the three forms that releases keep them in. */

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

/* 3.10 (PEP 626): pairs of so many bytes, so many lines on from those before; -128: no line. */
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
