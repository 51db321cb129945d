/* SPDX-License-Identifier: Apache-2.0 */
/* Reads frames, code, texts and lines out of the memory of a CPython, of this process or of a
 * running other one, by the offsets of its release. Everything is checked: an object must have the
 * address of its type, a place in code must lie in that code, a length must be below a limit. No
 * function of the interpreter is called. */
#pragma once

#include "core/base/util.h"

enum {
        CAPO_PY_SHOWN =
                200, /* characters of a text: of a file's name its end, of a function's its begin */
        CAPO_PY_TEXT = 4 * CAPO_PY_SHOWN, /* bytes of them; one more for the zero */
        CAPO_PY_FRAME_MOST = 200,         /* no offset in a frame is above it, ... */
        CAPO_PY_FRAME_BYTES = CAPO_PY_FRAME_MOST + 8,
        CAPO_PY_CODE_MOST = 240 /* ... none in a code object */
};

/* One minor release. */
struct capo_py_layout {
        uint8_t minor;
        int8_t through; /* PyThreadState: what `current` points to has the frame there (_PyCFrame);
                           -1: it is the frame */
        uint8_t unit;   /* bytes that `at` counts in, where it is an index */
        uint16_t current; /* PyThreadState: its frame, or what points to it */
        uint16_t back;    /* frame: the one that called it */
        uint16_t code;    /* frame: its code object */
        uint16_t at;      /* frame: where it is: an int, or a pointer into the code */
        int16_t owner; /* frame: a byte; above 2 there is no function, the interpreter put the frame
                          there. -1: none */
        int16_t code_begin;   /* code: its first instruction; -1: they are bytes of their own ... */
        uint16_t code_bytes;  /* ... here, and `at` is an index */
        uint16_t file, name;  /* code: co_filename, co_name */
        uint16_t ascii, wide; /* str: where its characters begin when all are ASCII, and when not */
        uint16_t locals_names; /* code: a tuple of its variables' names, arguments first ... */
        uint16_t locals;       /* ... and frame: as many objects */
        uint16_t first_line;   /* code: an int */
        uint16_t lines;        /* code: co_lnotab up to 3.9, co_linetable since */
        uint16_t interpreters; /* _PyRuntime: the newest interpreter; 0: its debug offsets say it,
                                  and the next three */
        uint16_t next_interpreter; /* interpreter: the next older */
        uint16_t threads;          /* interpreter: its newest thread; with API since 3.11:
                                      PyInterpreterState_ThreadHead() */
        uint16_t thread_id;        /* PyThreadState: pthread_self() of its thread, a word */
        uint16_t native_id; /* PyThreadState: gettid() of its thread, a word; 0: it has none */
        uint16_t thread_interpreter; /* PyThreadState: its interpreter */
        uint16_t collecting; /* interpreter: an int, 1 while it collects garbage; 0 not known */
};

/* Every object: its type. A str, bytes, a tuple, since 3.11 code: how long; the items of a tuple;
 * the bytes of bytes; in a thread's state the next older. */
enum {
        CAPO_PY_TYPE = 8,
        CAPO_PY_LENGTH = 16,
        CAPO_PY_ITEMS = 24,
        CAPO_PY_BYTES = 32,
        CAPO_PY_NEXT = 8
};

/* One interpreter's memory. */
struct capo_py {
        const struct capo_py_layout *layout;
        uint64_t code_type, text_type, bytes_type, tuple_type; /* addresses */
        /* @size bytes at @from, which may be anything. False: they are not there. */
        bool (*read)(void *arg, uint64_t from, void *to, size_t size);
        void *arg;
};

/** capo_py_layout_of() - of CPython 3.@minor; NULL: it is none of those known. */
const struct capo_py_layout *capo_py_layout_of(int minor);

/** capo_py_get() - @size bytes at @offset behind @from, which may be anything. False: none. */
bool capo_py_get(const struct capo_py *py, uint64_t from, size_t offset, void *to, size_t size);

/** capo_py_object() - what the pointer @offset behind @from points to. False: not of @type. */
bool capo_py_object(const struct capo_py *py, uint64_t from, size_t offset, uint64_t type,
                    uint64_t *object);

/** capo_py_text() - the str @object, CAPO_PY_SHOWN characters of its begin or end, as UTF-8 without
 * control characters. @text: CAPO_PY_TEXT + 1 bytes. False: it is none. */
bool capo_py_text(const struct capo_py *py, uint64_t object, bool its_end, char *text);

struct capo_py_frame {
        uint64_t back; /* the one that called it; 0 none */
        uint64_t code;
        uint64_t at; /* as it stands there; an index is its low half */
        bool entry;  /* of no function: the interpreter put it there */
};

/** capo_py_innermost() - the frame that the thread of a PyThreadState is in; 0: none. */
uint64_t capo_py_innermost(const struct capo_py *py, uint64_t thread);

/** capo_py_frame() - the frame at that address. False: there is none. */
bool capo_py_frame(const struct capo_py *py, uint64_t address, struct capo_py_frame *out);

/** capo_py_frame_bytes() - of a frame are looked at; capo_py_frame_in() - that with these bytes. */
size_t capo_py_frame_bytes(const struct capo_py_layout *l);
struct capo_py_frame capo_py_frame_in(const struct capo_py_layout *l, const uint8_t *raw);

/** capo_py_say() - "file.py:12 function\n" of a frame
 * @packaged: counts down for frames of installed packages, which come at most so often
 *
 * Files of installed packages are named from there on. Return: bytes; 0: one package too many; -1:
 * not a frame that can be read. */
int capo_py_say(const struct capo_py *py, const struct capo_py_frame *frame, char *text,
                size_t room, int *packaged);

/* The parts of a code object that name a place in it. */
struct capo_py_code {
        uint64_t file, name, lines; /* objects, not yet looked at */
        int64_t size;               /* bytes of instructions */
        int first_line;
};

/** capo_py_code() - the code object at that address. False: there is none. */
bool capo_py_code(const struct capo_py *py, uint64_t address, struct capo_py_code *out);

/** capo_py_line() - the line of a code object's byte @at, below 0: its begin; 0: none known. */
int capo_py_line(const struct capo_py *py, const struct capo_py_code *code, int at);
