/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/** capo_site_line() - "function+0x1f module+0x2a3c\n", or "module+0x2a3c\n" where no function is
 * known
 * @path: of the object, "" the program
 * @at:   the address that is shown, from the load address; @in: one that is surely in the function
 *
 * Looks into the file. Return: as snprintf(). */
int capo_site_line(const char *path, uint64_t at, uint64_t in, char *line, unsigned room);

/** capo_native_stack() - the frames of one thread, as capo_native_threads() has them. Return: bytes
 * of @text, which ends with a zero; 0: it runs, or has ended. */
unsigned capo_native_stack(int tid, char *text, unsigned room);
