/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Python frames of the calling thread, with or without the interpreter's lock.
 *
 * Frameworks give the lock back before they call NCCL, so a walk that needs it would see nothing of most programs. But
 * a thread's frames are changed by that thread only, and this one is inside our wrapper: they stand still, and what
 * they hold stays alive. Those of other threads (capo_python_threads()) may change meanwhile: then a line of them is wrong or missing.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "shim/record/recorder.h"
#include "shim/site/pyobject.h"
#include "shim/site/python.h"

enum {
        FRAMES = 64,
        PACKAGED = 6, /* frames of installed packages that are shown, the innermost; of the program's own, all */
        THREADS = 256,
};

/* Which byte of its code the frame is at. */
static bool get_at(const void *frame, const void *code, int *at)
{
        const struct capo_py_layout *l = capo_py.layout;
        uintptr_t now;

        if (l->code_begin < 0) {
                if (!capo_py_get(frame, l->at, at, sizeof *at))
                        return false;
                *at *= l->unit;
                return true;
        }
        if (!capo_py_get(frame, l->at, &now, sizeof now))
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
        char file[CAPO_PY_TEXT + 1], name[CAPO_PY_TEXT + 1];
        const char *package;
        void *code;
        int at, m;

        if (!capo_py_object(frame, capo_py.layout->code, capo_py.PyCode_Type, &code) || !get_at(frame, code, &at) ||
            !capo_py_text(code, capo_py.layout->file, true, file) ||
            !capo_py_text(code, capo_py.layout->name, false, name))
                return -1;
        package = installed(file);
        if (package && (*packaged)-- <= 0)
                return 0;
        m = snprintf(text, room, "%s:%d %s\n", package ? package : file, capo_py_line(code, at), name);
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
        const struct capo_py_layout *l = capo_py.layout;
        const void *thread = capo_py.PyGILState_GetThisThreadState(), *frame;
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

/* Of the thread whose state that is; NULL: none. */
static void *innermost_of(const void *thread)
{
        const struct capo_py_layout *l = capo_py.layout;
        void *frame;

        if (!capo_py_get(thread, l->current, &frame, sizeof frame) ||
            (l->through >= 0 && !capo_py_get(frame, (size_t)l->through, &frame, sizeof frame)))
                return NULL;
        return frame;
}

/* The frame this thread is in; NULL: none, or no Python that we know. */
static void *innermost(void)
{
        if (!capo_py_find() || !capo_py.Py_IsInitialized())
                return NULL;
        return innermost_of(capo_py.PyGILState_GetThisThreadState());
}

/* Of no function: the interpreter put it there. */
static bool is_entry(const void *frame)
{
        uint8_t owner = 0;

        return capo_py.layout->owner >= 0 && capo_py_get(frame, (size_t)capo_py.layout->owner, &owner, sizeof owner) &&
               owner > 2;
}

static unsigned frames_from(void *frame, char *text, unsigned room)
{
        int packaged = PACKAGED;
        unsigned n = 0;

        for (int i = 0; frame && i < FRAMES; i++) {
                int m = is_entry(frame) ? 0 : one_frame(frame, text + n, room - n, &packaged);

                if (m < 0)
                        break;
                n += (unsigned)m;
                if (!capo_py_get(frame, capo_py.layout->back, &frame, sizeof frame))
                        break;
        }
        return n;
}

unsigned capo_python_frames(char *text, unsigned room)
{
        unsigned n = frames_from(innermost(), text, room);

        if (n)
                atomic_store_explicit(&capo_python_seen, true, memory_order_relaxed);
        return n;
}

unsigned capo_python_threads(void (*found)(unsigned nth, char *text, void *arg), void *arg)
{
        void *thread[THREADS], *main, *next = NULL;
        char text[4096];
        unsigned n = 0;

        if (!atomic_load_explicit(&capo_python_seen, memory_order_relaxed) || !capo_py.Py_IsInitialized())
                return 0;
        main = capo_py.PyInterpreterState_Main();
        if (capo_py.layout->threads >= 0) {
                if (!capo_py_get(main, (size_t)capo_py.layout->threads, &next, sizeof next))
                        return 0;
        } else if (main) {
                next = capo_py.PyInterpreterState_ThreadHead(main);
        }
        while (next && n < THREADS) { /* the newest first */
                thread[n++] = next;
                if (!capo_py_get(next, CAPO_PY_NEXT, &next, sizeof next))
                        break;
        }
        for (unsigned i = n; i-- > 0;) {
                unsigned size = frames_from(innermost_of(thread[i]), text, sizeof text - 1);

                text[size] = 0;
                if (size)
                        found(n - 1 - i, text, arg);
        }
        return n;
}

bool capo_python_local(const char *function, const char *variable, char *value, size_t room)
{
        char text[CAPO_PY_TEXT + 1];
        void *frame = innermost(), *code, *names;
        int64_t n;

        for (int i = 0; frame && i < FRAMES; i++) {
                if (!is_entry(frame) && capo_py_object(frame, capo_py.layout->code, capo_py.PyCode_Type, &code) &&
                    capo_py_text(code, capo_py.layout->name, false, text) && !strcmp(text, function)) {
                        if (!capo_py_object(code, capo_py.layout->locals_names, capo_py.PyTuple_Type, &names) ||
                            !capo_py_get(names, CAPO_PY_LENGTH, &n, sizeof n))
                                return false;
                        for (size_t k = 0; k < (size_t)n && k < 256; k++) {
                                if (!capo_py_text(names, CAPO_PY_ITEMS + k * sizeof names, false, text) ||
                                    strcmp(text, variable))
                                        continue;
                                if (!capo_py_text(frame, capo_py.layout->locals + k * sizeof names, false, text) ||
                                    !*text)
                                        return false;
                                snprintf(value, room, "%s", text);
                                return true;
                        }
                        return false;
                }
                if (!capo_py_get(frame, capo_py.layout->back, &frame, sizeof frame))
                        break;
        }
        return false;
}
