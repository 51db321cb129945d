/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of the CPython in this process, read as bytes: by the offsets of its release, through process_vm_readv(), which fails
 * where there is no memory; an object is believed only when its type is the address of the type it must have. Nothing
 * is called that takes a reference, makes an object, waits for a lock or raises.
 */
#ifndef CAPO_PYOBJECT_H
#define CAPO_PYOBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        CAPO_PY_SHOWN = 200,             /* characters of a text: of a file's name its end, of a function's its begin */
        CAPO_PY_TEXT = 4 * CAPO_PY_SHOWN /* bytes of them; one more for the zero */
};

/* One minor release. */
struct capo_py_layout {
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
        uint16_t first_line;   /* code: an int */
        uint16_t lines;        /* code: co_lnotab up to 3.9, co_linetable since */
        int16_t threads;       /* interpreter: its newest thread; -1: it is never freed and may be asked */
};

/* Every object: its type. A str, bytes, a tuple: how long; the items of a tuple; the bytes of bytes; in a thread's state the next older. */
enum { CAPO_PY_TYPE = 8, CAPO_PY_LENGTH = 16, CAPO_PY_ITEMS = 24, CAPO_PY_BYTES = 32, CAPO_PY_NEXT = 8 };

/* What is found of it, by capo_py_find(). */
extern struct capo_py {
        const char *(*Py_GetVersion)(void);
        int (*Py_IsInitialized)(void);
        void *(*PyGILState_GetThisThreadState)(void); /* reads a thread-local */
        void *(*PyInterpreterState_Main)(void);       /* reads a variable */
        void *(*PyInterpreterState_ThreadHead)(void *interpreter);
        void *PyCode_Type, *PyTuple_Type, *PyUnicode_Type, *PyBytes_Type; /* objects, known by their addresses */
        const struct capo_py_layout *layout;
} capo_py;

/** capo_py_find() - is there a CPython that can be read? Looked up once (dlsym()). */
bool capo_py_find(void);

/** capo_py_get() - @size bytes at @offset behind @from, which may be NULL or anything. False: they are not there. */
bool capo_py_get(const void *from, size_t offset, void *to, size_t size);

/** capo_py_object() - what the pointer at @offset behind @from points to. False: no object of @type. */
bool capo_py_object(const void *from, size_t offset, const void *type, void **object);

/** capo_py_text() - the str that @object holds at @offset, CAPO_PY_SHOWN characters of its begin or end, as UTF-8
 * without control characters. @text: CAPO_PY_TEXT + 1 bytes */
bool capo_py_text(const void *object, size_t offset, bool its_end, char *text);

/** capo_py_line() - the line of a code object's byte @at; 0: it has none, or cannot be told. */
int capo_py_line(const void *code, int at);

#endif
