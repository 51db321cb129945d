/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/base/util.h"

/** capo_python_frames() - the Python frames of this thread, innermost first, "file.py:12
 * function\n" each
 *
 * Files of installed packages are named from there on, and of their frames only the innermost few
 * are given: what is deep inside a framework would leave no room for the program's own lines.
 *
 * Of CPython 3.9 to 3.14, whether or not this thread holds the interpreter's lock, which is never
 * taken; no Python code runs, no reference is taken. As many whole lines as fit.
 *
 * Return: bytes written; 0 when there is no such interpreter, it is not up, or this thread has run
 * no Python. */
unsigned capo_python_frames(char *text, unsigned room);

/** capo_python_local() - the text that @variable has in the innermost call of @function that this
 * thread is in
 *
 * Read as the frames are. Only a str, and only an argument or a local that no inner function
 * shares.
 *
 * Return: whether there is such a text, and it is not empty; then it is in @value, cut to @room. */
bool capo_python_local(const char *function, const char *variable, char *value, size_t room);

/** capo_python_main_place(), capo_python_main_text() - where Python's first thread is. The first is
 * a number of the place, as capo_python_place(); 0: not known. The second is its frames, as
 * capo_python_frames(). Both by the thread that reads the machine alone: nothing of the interpreter
 * is changed, and what is read may be gone by the next reading. */
uintptr_t capo_python_main_place(void);
unsigned capo_python_main_text(char *text, unsigned room);

/** capo_python_collects() - does the main interpreter collect garbage now? False: no, or not known.
 */
bool capo_python_collects(void);
