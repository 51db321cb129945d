/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPO_PYTHON_H
#define CAPO_PYTHON_H

/**
 * capo_python_frames() - the Python frames of this thread, innermost first, "file.py:12 function\n" each
 *
 * Of CPython 3.9 to 3.14, whether or not this thread holds the interpreter's lock, which is never taken; no Python code
 * runs, no reference is taken. As many whole lines as fit.
 *
 * Return: bytes written; 0 when there is no such interpreter, it is not up, or this thread has run no Python.
 */
unsigned capo_python_frames(char *text, unsigned room);

#endif
