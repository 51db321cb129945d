/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPO_PYTHON_H
#define CAPO_PYTHON_H

/**
 * capo_python_frames() - the Python frames of this thread, innermost first, "file.py:12 function\n" each
 *
 * Only when an interpreter is in the process, is up (Python 3.9 or newer) and this thread holds its lock now; else 0.
 * The lock is never taken, no Python code runs, a pending exception stays pending. Return: bytes written.
 */
unsigned capo_python_frames(char *text, unsigned room);

#endif
