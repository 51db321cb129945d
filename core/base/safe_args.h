/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of a program that cannot be secret: a log and a page are passed on. */
#pragma once

#include <stddef.h>

/** capo_safe_args() - the program, its script or module, and known options with numbers, as one
 * line;
 *   "..." stands for arguments that are left out
 * @args: each ends with a zero, as in /proc/<pid>/cmdline; @size: bytes
 * @out:  @room bytes, cut where it does not fit
 *
 * Secrets in the names that stay are masked (core/base/secret.h).
 *
 * Return: bytes in @out without its zero. */
size_t capo_safe_args(const char *args, size_t size, char *out, size_t room);
