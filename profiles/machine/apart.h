/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign code that may crash, hang or print is called in a process of its own. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/** capo_apart() - call @ask, which may exec, in a child process without output
 * @result: @size bytes, which @ask can read and change. The changes come back if it ends by itself.
 *
 * Return: what @ask returned, 0 to 127; -ETIMEDOUT: killed after @seconds; -EIO: it died of a
 * signal; -EAGAIN: no process can be started. */
int capo_apart(int (*ask)(const void *arg, void *result), const void *arg, void *result,
               size_t size, double seconds);

/** capo_apart_await() - does the process at the other end of the pipe @end write, or end, within
 * @seconds? */
bool capo_apart_await(int end, double seconds);
