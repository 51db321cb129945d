/* SPDX-License-Identifier: Apache-2.0 */
/* Finds CPython and its threads in a process. From 3.13 on, the interpreter describes its own
 * layout (_Py_DebugOffsets, the first bytes of _PyRuntime, made for external readers;
 * Include/internal/pycore_runtime.h of 3.13, pycore_debug_offsets.h of 3.14). For older versions
 * the table of core/base/cpython.c is used. _PyRuntime and the types of objects are exported
 * symbols. */
#include "capo/msg.h"
#include "analysis/process/python_stack.h"

enum {
        OBJECTS = 8, /* mapped objects that may contain Python */
        TRIES = 40,
        INTERPRETERS = 16,
        STATES = 4096, /* limit on threads walked */
};

/* Position of each of our values in the debug offsets, in words from their begin. */
static const struct offsets {
        uint8_t minor, interpreters, next_interpreter, threads, next, interpreter, current,
                thread_id, native_id, back, code, at, owner, file, name, lines, first_line,
                code_begin, type;
} offsets[] = {
        {13, 5, 8, 9, 21, 22, 23, 24, 25, 29, 30, 31, 33, 35, 36, 38, 39, 43, 45},
        {14, 5, 8, 9, 24, 25, 26, 27, 28, 32, 33, 34, 36, 40, 41, 43, 44, 48, 51},
};

/* ---- the interpreter ---- */

/* Mapped objects that may contain the interpreter: the program, and libraries with such a name.
 * Return: how many. */
static unsigned find_objects(const char *maps, uint64_t *start)
{
        unsigned n = 0;

        for (const char *line = maps; *line && n < OBJECTS;
             line += strcspn(line, "\n"), line += *line == '\n') {
                unsigned long long begin, offset;
                char text[512];
                const char *path, *name;

                snprintf(text, sizeof text, "%.*s", (int)strcspn(line, "\n"), line);
                path = strchr(text, '/');
                name = path ? capo_base_name(path) : "";
                if (path && sscanf(text, "%llx-%*x %*s %llx", &begin, &offset) == 2 &&
                    offset == 0 &&
                    (n == 0 || !strncmp(name, "python", 6) || !strncmp(name, "libpython", 9)))
                        start[n++] = begin;
        }
        return n;
}

/* The program's own symbol comes before a library's, as in the loader. */
static uint64_t find_symbol(struct process_memory *m, const uint64_t *start, unsigned n,
                            const char *name)
{
        uint64_t at = 0;

        for (unsigned i = 0; i < n && !at; i++) {
                at = process_memory_symbol(m, start[i], name);
                process_memory_forget(m, 0);
        }
        return at;
}

/* The number after @before in one of the paths, "python3.10" or "cpython-310"; 0: none. */
static int minor_in(const char *maps, const char *before)
{
        for (const char *at = maps; (at = strstr(at, before)); at++) {
                int minor = atoi(at + strlen(before));

                if (minor > 0)
                        return minor;
        }
        return 0;
}

static int minor_of(struct process_memory *m, const char *maps, uint64_t runtime, uint64_t version)
{
        char cookie[8];
        uint64_t number;
        int minor;

        if (process_memory_read(m, runtime, cookie, sizeof cookie) &&
            !memcmp(cookie, "xdebugpy", sizeof cookie))
                version = runtime + sizeof cookie;
        if (version)
                return process_memory_read(m, version, &number, sizeof number) && number >> 24 == 3
                               ? (int)(number >> 16 & 0xff)
                               : 0;
        minor = minor_in(maps, "cpython-3");
        return minor ? minor : minor_in(maps, "python3.");
}

/* Read the debug offsets into the layout. False: they differ from those of a usual build. */
static bool read_py_offsets(struct process_memory *m, uint64_t runtime, struct capo_py_layout *l)
{
        uint64_t v[52];
        bool good = true;

        for (size_t i = 0; i < N_ELEMENTS(offsets); i++) {
                const struct offsets *o = &offsets[i];

                if (o->minor != l->minor)
                        continue;
                if (!process_memory_read(m, runtime, v, sizeof v))
                        return false;
#define TAKE(member, most) (good &= v[o->member] <= (most), l->member = (uint16_t)v[o->member])
                TAKE(interpreters, 65535);
                TAKE(next_interpreter, 65535);
                TAKE(threads, 65535);
                TAKE(current, 65535);
                TAKE(thread_id, 65535);
                TAKE(native_id, 65535);
                TAKE(back, CAPO_PY_FRAME_MOST);
                TAKE(code, CAPO_PY_FRAME_MOST);
                TAKE(at, CAPO_PY_FRAME_MOST);
                TAKE(file, CAPO_PY_CODE_MOST);
                TAKE(name, CAPO_PY_CODE_MOST);
                TAKE(lines, CAPO_PY_CODE_MOST);
                TAKE(first_line, CAPO_PY_CODE_MOST);
#undef TAKE
                good &= v[o->owner] <= CAPO_PY_FRAME_MOST && v[o->code_begin] <= INT16_MAX &&
                        v[o->interpreter] <= 65535;
                l->owner = (int16_t)v[o->owner];
                l->code_begin = (int16_t)v[o->code_begin];
                l->thread_interpreter = (uint16_t)v[o->interpreter];
                return good && !v[2] /* with the lock */ && v[o->next] == CAPO_PY_NEXT &&
                       v[o->type] == CAPO_PY_TYPE;
        }
        return true;
}

/* ---- its threads ---- */

static bool read_word(struct process_memory *m, uint64_t at, uint64_t *word)
{
        return process_memory_read(m, at, word, sizeof *word);
}

/* Read the list, newest first. False: incomplete. */
static bool read_thread_list(struct process_python *p, unsigned *n_all)
{
        const struct capo_py_layout *l = &p->layout;
        struct process_memory *m = p->m;
        uint64_t interpreter, state;
        unsigned n = 0;

        if (!read_word(m, p->runtime + l->interpreters, &interpreter))
                return false;
        for (unsigned i = 0; interpreter && i < INTERPRETERS; i++) {
                if (!read_word(m, interpreter + l->threads, &state))
                        return false;
                while (state && n < STATES) {
                        struct process_python_thread *t = &p->threads[n++ % PROCESS_PYTHON_THREADS];
                        uint64_t of = 0;

                        *t = (struct process_python_thread){.state = state};
                        if (!read_word(m, state + l->thread_interpreter, &of) ||
                            of != interpreter ||
                            !read_word(m, state + l->thread_id, &t->thread_id) ||
                            (l->native_id && !read_word(m, state + l->native_id, &t->native_id)) ||
                            !read_word(m, state + CAPO_PY_NEXT, &state))
                                return false;
                }
                if (!read_word(m, interpreter + l->next_interpreter, &interpreter))
                        return false;
        }
        *n_all = n;
        return true;
}

/* A consistent snapshot of the list, oldest threads first, up to the limit. */
static int snapshot_threads(struct process_python *p)
{
        for (int i = 0; i < TRIES && !p->m->error; i++) {
                unsigned n = 0;
                bool whole;

                process_memory_forget(p->m, 0);
                whole = read_thread_list(p, &n) && process_memory_changed(p->m, 0) == 0;
                process_memory_forget(p->m, 0);
                if (whole) {
                        struct process_python_thread turned[PROCESS_PYTHON_THREADS] = {0};

                        p->n = n < PROCESS_PYTHON_THREADS ? n : PROCESS_PYTHON_THREADS;
                        for (unsigned k = 0; k < p->n; k++)
                                turned[k] = p->threads[(n - 1 - k) % PROCESS_PYTHON_THREADS];
                        memcpy(p->threads, turned, p->n * sizeof *turned);
                        return 0;
                }
                process_memory_pause(p->m);
        }
        return -EIO;
}

int process_python_find(struct process_memory *m, const char *maps, struct process_python *out,
                        char *why, size_t room)
{
        uint64_t start[OBJECTS];
        unsigned n = find_objects(maps, start);
        struct process_python *p = out;
        const struct capo_py_layout *l;
        int minor;

        *why = 0;
        memset(p, 0, sizeof *p);
        p->m = m;
        p->runtime = find_symbol(m, start, n, "_PyRuntime");
        if (!p->runtime)
                return m->error ? process_memory_refused(m, why, room) : -ENOENT;
        p->py = (struct capo_py){.layout = &p->layout,
                                 .code_type = find_symbol(m, start, n, "PyCode_Type"),
                                 .text_type = find_symbol(m, start, n, "PyUnicode_Type"),
                                 .bytes_type = find_symbol(m, start, n, "PyBytes_Type"),
                                 .tuple_type = find_symbol(m, start, n, "PyTuple_Type"),
                                 .read = process_memory_read,
                                 .arg = m};
        minor = minor_of(m, maps, p->runtime, find_symbol(m, start, n, "Py_Version"));
        l = capo_py_layout_of(minor);
        if (!minor)
                return capo_why(-ENOTSUP, why, room,
                                "of which release its Python is cannot be told");
        if (!l)
                return capo_why(-ENOTSUP, why, room,
                                "its CPython 3.%d is not one of those known, 3.9 to 3.14", minor);
        p->layout = *l;
        if (!p->py.code_type || !p->py.text_type || !p->py.bytes_type ||
            !read_py_offsets(m, p->runtime, &p->layout))
                return capo_why(
                        -ENOTSUP, why, room,
                        "its CPython 3.%d is of a build that is not known (free-threading, debugging)",
                        minor);
        if (snapshot_threads(p) < 0)
                return m->error ? process_memory_refused(m, why, room)
                                : capo_why(-EIO, why, room,
                                           "Python's list of its threads did not stand still");
        return 0;
}
