/* SPDX-License-Identifier: Apache-2.0 */
/* One-line messages: `capo: what happened: cause`, lower case, values plain so that a double-click
 * selects them.
 *
 *   capo_error  the thing the user asked for cannot be done
 *   capo_warn   it goes on, but not as asked; or something was lost
 *   capo_info   worth one line in a healthy run; silenced by CAPO_QUIET=1
 *   capo_debug  for people who work on capo; CAPO_VERBOSE=1
 *
 * All keep errno, write with one write(2) to stderr, and never allocate: they are safe in somebody
 * else's process. The _once forms speak at most once per call place and process. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum capo_level { CAPO_ERROR, CAPO_WARN, CAPO_INFO, CAPO_DEBUG };

void capo_msg(enum capo_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** capo_msg_set_level() - the last level that is printed; CAPO_INFO until it is set. */
void capo_msg_set_level(enum capo_level last);

#define capo_error(...) capo_msg(CAPO_ERROR, __VA_ARGS__)
#define capo_warn(...)  capo_msg(CAPO_WARN, __VA_ARGS__)
#define capo_info(...)  capo_msg(CAPO_INFO, __VA_ARGS__)
#define capo_debug(...) capo_msg(CAPO_DEBUG, __VA_ARGS__)

/** capo_fail() - capo_error(), and @rc to return: return capo_fail(-EINVAL, "..."). */
int capo_fail(int rc, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** capo_why() - the reason into @why for whoever asked to say, and @rc to return. */
int capo_why(int rc, char *why, size_t room, const char *format, ...)
        __attribute__((format(printf, 4, 5)));
/** capo_why_at() - the same of a place, "FILE:LINE: ..."; without the line where it is 0. */
int capo_why_at(int rc, char *why, size_t room, const char *file, int line, const char *format, ...)
        __attribute__((format(printf, 6, 7)));

#define capo_warn_once(...)                                  \
        do {                                                 \
                static atomic_flag said_ = ATOMIC_FLAG_INIT; \
                if (!atomic_flag_test_and_set(&said_))       \
                        capo_warn(__VA_ARGS__);              \
        } while (0)
