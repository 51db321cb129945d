/* SPDX-License-Identifier: Apache-2.0 */
/* The Python frames of the calling thread, with or without the interpreter's lock.
 *
 * Frameworks give the lock back before they call NCCL, so a walk that needs it would see nothing of
 * most programs. But a thread's frames are changed by that thread only, and this one is inside our
 * wrapper: they stand still, and what they hold stays alive. Those of other threads
 * (capo_python_threads()) may change meanwhile: then a line of them is wrong or missing. */
#include <sys/syscall.h>

#include "shim/find/maps.h"
#include "shim/record/state.h"
#include "shim/site/pyobject.h"
#include "shim/site/site_python.h"

enum {
        FRAMES = 64,
        PLACED = 6,   /* frames that tell places apart, the innermost */
        PACKAGED = 6, /* frames of installed packages shown; all of the program's own */
        THREADS = 256,
};

_Atomic bool capo_python_seen;

/* The word at @offset, read as it is. */
static inline void *load_pointer(const void *from, size_t offset)
{
        return *(void *const *)((const char *)from + offset);
}

static inline uint64_t mix_place(uint64_t place, uint32_t at, uintptr_t code)
{
        place = (place ^ at ^ code) * 0x9e3779b97f4a7c15u;
        return place ^ place >> 29;
}

/* Of the process: as a rule that one ends the interpreter, and is in no call meanwhile. Of any
 * other, a daemon's, it frees what its frames are in between one load and the next, however short
 * ago it was asked whether there is an interpreter. */
static inline bool is_first_thread(void)
{
        static __thread signed char is
                __attribute__((tls_model("initial-exec"))); /* 1 yes, -1 no */

        if (unlikely(!is))
                is = syscall(SYS_gettid) == getpid() ? 1 : -1;
        return is > 0;
}

static uintptr_t place_of(const void *thread)
{
        const struct capo_py_layout *l = capo_py.it.layout;
        const void *frame = load_pointer(thread, l->current);
        uint64_t place = 0;

        if (l->through >= 0 && frame)
                frame = load_pointer(frame, (size_t)l->through);
        for (int i = 0; i < PLACED && frame; i++) {
                uint32_t at = *(const uint32_t *)((const char *)frame + l->at);

                place = mix_place(place, at, (uintptr_t)load_pointer(frame, l->code));
                frame = load_pointer(frame, l->back);
        }
        return (uintptr_t)place;
}

/* Frames of a thread that were there the last time, from the innermost on. */
struct chain {
        const void *thread;
        uint64_t between; /* the _PyCFrame, in releases that have one */
        uint64_t frame[PLACED];
        int n;
};

static void set_iovecs(struct iovec *to, struct iovec *from, void *here, uint64_t there,
                       size_t size)
{
        *to = (struct iovec){here, size};
        *from = (struct iovec){(void *)(uintptr_t)there, size};
}

/* Mostly the way that the last one came: one system call, not one a frame. False: not so. */
static bool read_again(const struct chain *c, const void *thread, struct capo_py_frame f[PLACED])
{
        const struct capo_py_layout *l = capo_py.it.layout;
        uint64_t current = 0, through = c->frame[0];
        struct iovec to[PLACED + 2], from[PLACED + 2];
        uint8_t raw[PLACED][CAPO_PY_FRAME_BYTES];
        unsigned n = 0;

        if (thread != c->thread)
                return false;
        set_iovecs(&to[n], &from[n], &current, (uintptr_t)thread + l->current, sizeof current);
        n++;
        if (l->through >= 0) {
                set_iovecs(&to[n], &from[n], &through, c->between + (uint64_t)l->through,
                           sizeof through);
                n++;
        }
        for (int i = 0; i < c->n; i++, n++)
                set_iovecs(&to[n], &from[n], raw[i], c->frame[i], capo_py_frame_bytes(l));
        if (!capo_read_self_pieces(to, from, n) ||
            current != (l->through >= 0 ? c->between : c->frame[0]) || through != c->frame[0])
                return false;
        for (int i = 0; i < c->n; i++) {
                f[i] = capo_py_frame_in(l, raw[i]);
                if (i + 1 < PLACED && f[i].back != c->frame[i + 1])
                        return false;
        }
        return true;
}

static void read_anew(struct chain *c, const void *thread, struct capo_py_frame f[PLACED])
{
        const struct capo_py_layout *l = capo_py.it.layout;
        uint64_t frame;

        *c = (struct chain){.thread = thread};
        if (!capo_py_get(&capo_py.it, (uintptr_t)thread, l->current, &frame, sizeof frame))
                return;
        if (l->through >= 0) {
                c->between = frame;
                if (!capo_py_get(&capo_py.it, frame, (size_t)l->through, &frame, sizeof frame))
                        return;
        }
        for (; c->n < PLACED && frame && capo_py_frame(&capo_py.it, frame, &f[c->n]);
             frame = f[c->n++].back)
                c->frame[c->n] = frame;
}

/* place_of() of what may be gone. */
static uintptr_t place_read(const void *thread)
{
        static __thread struct chain last __attribute__((tls_model("initial-exec")));
        struct capo_py_frame f[PLACED];
        int saved = errno;
        uint64_t place = 0;

        if (!read_again(&last, thread, f))
                read_anew(&last, thread, f);
        for (int i = 0; i < last.n; i++)
                place = mix_place(place, (uint32_t)f[i].at, f[i].code);
        errno = saved;
        return (uintptr_t)place;
}

uintptr_t capo_python_place(void)
{
        const void *thread =
                capo_py.Py_IsInitialized() ? capo_py.PyGILState_GetThisThreadState() : NULL;

        if (!thread)
                return 0;
        return likely(is_first_thread()) ? place_of(thread) : place_read(thread);
}

/* The state of Python's first thread: it lives as long as the interpreter. 0: there is none. */
static uint64_t find_main_thread(void)
{
        static uint64_t found, of;
        uint64_t main, next = 0, thread = 0;

        if (!atomic_load_explicit(&capo_python_seen, memory_order_acquire) ||
            !capo_py.Py_IsInitialized())
                return 0;
        main = (uintptr_t)capo_py.PyInterpreterState_Main();
        if (!main || main == of)
                return main ? found : 0;
        if (capo_py.it.layout->minor >= 11)
                next = (uintptr_t)capo_py.PyInterpreterState_ThreadHead((void *)main);
        else if (!capo_py_get(&capo_py.it, main, capo_py.it.layout->threads, &next, sizeof next))
                return 0;
        for (int i = 0; next && i < THREADS; i++) { /* the newest first */
                thread = next;
                if (!capo_py_get(&capo_py.it, thread, CAPO_PY_NEXT, &next, sizeof next))
                        return 0;
        }
        if (next)
                return 0;
        of = main;
        return found = thread;
}

uintptr_t capo_python_main_place(void)
{
        uint64_t thread = find_main_thread();

        return thread ? place_read((const void *)(uintptr_t)thread) : 0;
}

bool capo_python_collects(void)
{
        int collecting = 0;

        return find_main_thread() && capo_py.it.layout->collecting &&
               capo_py_get(&capo_py.it, (uintptr_t)capo_py.PyInterpreterState_Main(),
                           capo_py.it.layout->collecting, &collecting, sizeof collecting) &&
               collecting == 1;
}

/* The frame this thread is in; 0: none, or no Python that we know. */
static uint64_t find_inner_frame(void)
{
        if (!capo_py_find() || !capo_py.Py_IsInitialized())
                return 0;
        return capo_py_innermost(&capo_py.it, (uintptr_t)capo_py.PyGILState_GetThisThreadState());
}

static unsigned frames_from(uint64_t frame, char *text, unsigned room)
{
        int packaged = PACKAGED;
        struct capo_py_frame f;
        unsigned n = 0;

        for (int i = 0; frame && i < FRAMES && capo_py_frame(&capo_py.it, frame, &f);
             i++, frame = f.back) {
                int m = f.entry ? 0 : capo_py_say(&capo_py.it, &f, text + n, room - n, &packaged);

                if (m < 0)
                        break;
                n += (unsigned)m;
        }
        return n;
}

unsigned capo_python_frames(char *text, unsigned room)
{
        unsigned n = frames_from(find_inner_frame(), text, room);

        if (n)
                atomic_store_explicit(&capo_python_seen, true,
                                      memory_order_release); /* capo_py is filled */
        return n;
}

unsigned capo_python_threads(void (*found)(unsigned nth, char *text, void *arg), void *arg)
{
        const struct capo_py_layout *l;
        uint64_t thread[THREADS], next = 0;
        char text[4096];
        unsigned n = 0;
        void *main;

        if (!atomic_load_explicit(&capo_python_seen, memory_order_acquire) ||
            !capo_py.Py_IsInitialized())
                return 0;
        l = capo_py.it.layout;
        main = capo_py.PyInterpreterState_Main();
        if (l->minor >= 11) /* it is never freed and may be asked */
                next = main ? (uintptr_t)capo_py.PyInterpreterState_ThreadHead(main) : 0;
        else if (!capo_py_get(&capo_py.it, (uintptr_t)main, l->threads, &next, sizeof next))
                return 0;
        while (next && n < THREADS) { /* the newest first */
                thread[n++] = next;
                if (!capo_py_get(&capo_py.it, next, CAPO_PY_NEXT, &next, sizeof next))
                        break;
        }
        for (unsigned i = n; i-- > 0;) {
                unsigned size = frames_from(capo_py_innermost(&capo_py.it, thread[i]), text,
                                            sizeof text - 1);

                text[size] = 0;
                if (size)
                        found(n - 1 - i, text, arg);
        }
        return n;
}

unsigned capo_python_main_text(char *text, unsigned room)
{
        uint64_t thread = find_main_thread();
        unsigned n =
                thread ? frames_from(capo_py_innermost(&capo_py.it, thread), text, room - 1) : 0;

        text[n] = 0;
        return n;
}

/* The value of @variable in the frame at @address of its function. False: no text. */
static bool read_local(uint64_t address, uint64_t code, const char *variable, char *text)
{
        const struct capo_py *py = &capo_py.it;
        uint64_t names, name, value;
        int64_t n;

        if (!capo_py_object(py, code, py->layout->locals_names, py->tuple_type, &names) ||
            !capo_py_get(py, names, CAPO_PY_LENGTH, &n, sizeof n))
                return false;
        for (size_t k = 0; k < (size_t)n && k < 256; k++) {
                if (!capo_py_object(py, names, CAPO_PY_ITEMS + k * sizeof name, py->text_type,
                                    &name) ||
                    !capo_py_text(py, name, false, text) || strcmp(text, variable) != 0)
                        continue;
                return capo_py_object(py, address, py->layout->locals + k * sizeof value,
                                      py->text_type, &value) &&
                       capo_py_text(py, value, false, text) && *text;
        }
        return false;
}

bool capo_python_local(const char *function, const char *variable, char *value, size_t room)
{
        char text[CAPO_PY_TEXT + 1];
        uint64_t address = find_inner_frame();
        struct capo_py_code code;
        struct capo_py_frame f;

        for (int i = 0; address && i < FRAMES && capo_py_frame(&capo_py.it, address, &f);
             i++, address = f.back) {
                if (f.entry || !capo_py_code(&capo_py.it, f.code, &code) ||
                    !capo_py_text(&capo_py.it, code.name, false, text) ||
                    strcmp(text, function) != 0)
                        continue;
                if (!read_local(address, f.code, variable, text))
                        return false;
                snprintf(value, room, "%s", text);
                return true;
        }
        return false;
}
