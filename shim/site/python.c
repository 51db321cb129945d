/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Python frames of the calling thread, with or without the interpreter's lock.
 *
 * Frameworks give the lock back before they call NCCL, so a walk that needs it would see nothing of most programs. But
 * a thread's frames are changed by that thread only, and this one is inside our wrapper: they stand still, and what
 * they hold stays alive. They are read as bytes, by the offsets below; nothing is called that takes a reference, makes
 * an object or raises. PyGILState_GetThisThreadState() reads a thread-local, PyCode_Addr2Line() a table of the code object.
 *
 * Offsets belong to a minor release (they do not change within one) of the usual build on a 64-bit machine: worked out
 * with offsetof() from the headers of 3.9.18, 3.10.13, 3.11.7, 3.12.1, 3.13.0 and 3.14.10. A build where they do not
 * hold gives no frames and does no harm: memory is read by process_vm_readv(), which fails where there is none, and an
 * object is believed only when its type is the address of the type it must have.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#include "core/base/util.h"
#include "shim/find/symbol.h"
#include "shim/record/recorder.h"
#include "shim/site/python.h"

#define FRAMES   64
#define PACKAGED 6   /* frames of installed packages that are shown, the innermost; of the program's own, all */
#define SHOWN    200 /* bytes of a file's name, its end; of a function's, its begin */

/* One minor release. */
struct layout {
        int minor;
        uint16_t current; /* PyThreadState: its frame, or what points to it ... */
        int16_t through;  /* ... by this member of that (_PyCFrame.current_frame); -1: it is the frame */
        uint16_t back;    /* frame: the one that called it */
        uint16_t code;    /* frame: its code object */
        uint16_t at;      /* frame: where it is: an int, or a pointer into the code */
        int16_t owner; /* frame: a byte; above 2 there is no function, the interpreter put the frame there. -1: none */
        int16_t code_begin;    /* code: its first instruction; -1: `at` is an index, in units of ... */
        uint16_t unit;         /* ... so many bytes */
        uint16_t file, name;   /* code: co_filename, co_name */
        uint16_t ascii, wide;  /* str: where its characters begin when all are ASCII, and when not */
        uint16_t locals_names; /* code: a tuple of its variables' names, arguments first ... */
        uint16_t locals;       /* ... and frame: as many objects */
};

static const struct layout layouts[] = {
        /* minor current through back code at owner begin unit file name ascii wide locals_names locals */
        {9, 24, -1, 24, 32, 104, -1, -1, 1, 104, 112, 48, 72, 72, 360},
        {10, 24, -1, 24, 32, 96, -1, -1, 2, 104, 112, 48, 72, 72, 352},
        {11, 56, 8, 48, 32, 56, 69, 184, 1, 112, 120, 48, 72, 96, 72},
        {12, 56, 0, 8, 0, 56, 70, 192, 1, 112, 120, 40, 56, 96, 72},
        {13, 72, -1, 8, 0, 56, 70, 200, 1, 112, 120, 40, 56, 96, 72},
        {14, 72, -1, 8, 0, 56, 74, 208, 1, 112, 120, 40, 56, 96, 80},
};

/* Every object: its type. A str: characters, and a word of bits that says what they are. */
enum { TYPE = 8, LENGTH = 16, STATE = 32, KIND_SHIFT = 2, KIND = 7, COMPACT = 1 << 5, ASCII = 1 << 6 };

static struct {
        const char *(*Py_GetVersion)(void);
        int (*Py_IsInitialized)(void);
        void *(*PyGILState_GetThisThreadState)(void);
        int (*PyCode_Addr2Line)(void *code, int at);
        void *PyCode_Type, *PyTuple_Type, *PyUnicode_Type; /* objects, known by their addresses */
        const struct layout *layout;
} py;

static bool find(void)
{
        int minor;

#define FIND(name)                                                         \
        do {                                                               \
                *(void **)&py.name = capo_real_dlsym(RTLD_DEFAULT, #name); \
                if (!py.name)                                              \
                        return false;                                      \
        } while (0)
        FIND(Py_GetVersion);
        FIND(Py_IsInitialized);
        FIND(PyGILState_GetThisThreadState);
        FIND(PyCode_Addr2Line);
        FIND(PyCode_Type);
        FIND(PyTuple_Type);
        FIND(PyUnicode_Type);
#undef FIND
        /* A build without the lock has other objects. */
        if (sscanf(py.Py_GetVersion(), "3.%d", &minor) != 1 || strstr(py.Py_GetVersion(), "free-threading"))
                return false;
        for (size_t i = 0; i < N_ELEMENTS(layouts) && !py.layout; i++)
                py.layout = layouts[i].minor == minor ? &layouts[i] : NULL;
        return py.layout;
}

static bool get(const void *from, size_t offset, void *to, size_t size)
{
        struct iovec here = {to, size}, there = {(char *)from + offset, size};

        return from && process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)size;
}

static bool get_object(const void *from, size_t offset, const void *type, void **object)
{
        void *is;

        if (!get(from, offset, object, sizeof *object))
                return false;
        *object = (void *)((uintptr_t)*object & ~(uintptr_t)3); /* 3.14 says in a frame's pointers whose they are */
        return get(*object, TYPE, &is, sizeof is) && is == type;
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

/* The str that @object holds at @offset, at most SHOWN characters of it, as UTF-8 in 4 * SHOWN + 1 bytes. */
static bool get_text(const void *object, size_t offset, bool its_end, char *text)
{
        void *str;
        int64_t length, first;
        uint32_t state, kind;
        char raw[4 * SHOWN];
        size_t n;

        if (!get_object(object, offset, py.PyUnicode_Type, &str) || !get(str, LENGTH, &length, sizeof length) ||
            !get(str, STATE, &state, sizeof state))
                return false;
        kind = state >> KIND_SHIFT & KIND;
        if (!(state & COMPACT) || (kind != 1 && kind != 2 && kind != 4) || length < 0 || length > 1 << 20)
                return false;
        first = its_end && length > SHOWN ? length - SHOWN : 0;
        n = length - first > SHOWN ? SHOWN : (size_t)(length - first);
        if (n && !get(str, (state & ASCII ? py.layout->ascii : py.layout->wide) + kind * (size_t)first, raw, kind * n))
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

/* Which byte of its code the frame is at. */
static bool get_at(const void *frame, const void *code, int *at)
{
        const struct layout *l = py.layout;
        uintptr_t now;

        if (l->code_begin < 0) {
                if (!get(frame, l->at, at, sizeof *at))
                        return false;
                *at *= l->unit;
                return true;
        }
        if (!get(frame, l->at, &now, sizeof now))
                return false;
        *at = (int)(now - ((uintptr_t)code + (uintptr_t)l->code_begin));
        return true;
}

/* A file of an installed package, or of Python itself, is named from there on: torch/nn/modules/module.py. NULL: neither. */
static const char *installed(const char *file)
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

/* 0: not a frame that can be told, and no more can; *@packaged counts down for frames of packages, which come at most so often. */
static int one_frame(const void *frame, char *text, unsigned room, int *packaged)
{
        char file[4 * SHOWN + 1], name[4 * SHOWN + 1];
        const char *package;
        void *code;
        int at, m;

        if (!get_object(frame, py.layout->code, py.PyCode_Type, &code) || !get_at(frame, code, &at) ||
            !get_text(code, py.layout->file, true, file) || !get_text(code, py.layout->name, false, name))
                return -1;
        package = installed(file);
        if (package && (*packaged)-- <= 0)
                return 0;
        m = snprintf(text, room, "%s:%d %s\n", package ? package : file, py.PyCode_Addr2Line(code, at), name);
        return m > 0 && (unsigned)m < room ? m : -1;
}

_Atomic bool capo_python_seen;

/* The word at @offset, read as it is. */
static inline void *word(const void *from, size_t offset)
{
        return *(void *const *)((const char *)from + offset);
}

uintptr_t capo_python_place(void)
{
        const struct layout *l = py.layout;
        const void *thread = py.PyGILState_GetThisThreadState(), *frame;
        uint64_t place = 0;

        if (!thread)
                return 0;
        frame = word(thread, l->current);
        if (l->through >= 0 && frame)
                frame = word(frame, (size_t)l->through);
        for (int i = 0; i < 6 && frame; i++) {
                uint32_t at = *(const uint32_t *)((const char *)frame + l->at);

                place = (place ^ at ^ (uintptr_t)word(frame, l->code)) * 0x9e3779b97f4a7c15u;
                place ^= place >> 29;
                frame = word(frame, l->back);
        }
        return (uintptr_t)place;
}

/* The frame this thread is in; NULL: none, or no Python that we know. */
static void *innermost(void)
{
        static int found; /* 0 not looked, 1 yes, -1 no */
        void *frame;

        if (!found)
                found = find() ? 1 : -1;
        if (found < 0 || !py.Py_IsInitialized() ||
            !get(py.PyGILState_GetThisThreadState(), py.layout->current, &frame, sizeof frame) ||
            (py.layout->through >= 0 && !get(frame, (size_t)py.layout->through, &frame, sizeof frame)))
                return NULL;
        return frame;
}

/* Of no function: the interpreter put it there. */
static bool is_entry(const void *frame)
{
        uint8_t owner = 0;

        return py.layout->owner >= 0 && get(frame, (size_t)py.layout->owner, &owner, sizeof owner) && owner > 2;
}

unsigned capo_python_frames(char *text, unsigned room)
{
        void *frame = innermost();
        int packaged = PACKAGED;
        unsigned n = 0;

        for (int i = 0; frame && i < FRAMES; i++) {
                int m = is_entry(frame) ? 0 : one_frame(frame, text + n, room - n, &packaged);

                if (m < 0)
                        break;
                n += (unsigned)m;
                if (!get(frame, py.layout->back, &frame, sizeof frame))
                        break;
        }
        if (n)
                atomic_store_explicit(&capo_python_seen, true, memory_order_relaxed);
        return n;
}

/* A tuple: how many, and they. */
enum { ITEMS = 24 };

bool capo_python_local(const char *function, const char *variable, char *value, size_t room)
{
        char text[4 * SHOWN + 1];
        void *frame = innermost(), *code, *names;
        int64_t n;

        for (int i = 0; frame && i < FRAMES; i++) {
                if (!is_entry(frame) && get_object(frame, py.layout->code, py.PyCode_Type, &code) &&
                    get_text(code, py.layout->name, false, text) && !strcmp(text, function)) {
                        if (!get_object(code, py.layout->locals_names, py.PyTuple_Type, &names) ||
                            !get(names, LENGTH, &n, sizeof n))
                                return false;
                        for (size_t k = 0; k < (size_t)n && k < 256; k++) {
                                if (!get_text(names, ITEMS + k * sizeof names, false, text) || strcmp(text, variable))
                                        continue;
                                if (!get_text(frame, py.layout->locals + k * sizeof names, false, text) || !*text)
                                        return false;
                                snprintf(value, room, "%s", text);
                                return true;
                        }
                        return false;
                }
                if (!get(frame, py.layout->back, &frame, sizeof frame))
                        break;
        }
        return false;
}
