/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks, calls, places and stacks as the pages of capo hang say them. */
#pragma once

#include "cli/hang/cmd_hang.h"

/** hang_room() - one of 32 texts of HANG_ROOM bytes: the 32nd call after this one gives it again.
 * hang_print() - printf() into one. The texts below are such ones where they are not to be freed. */
enum { HANG_ROOM = 1024 };
char *hang_room(void);
const char *hang_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** hang_who() - "rank 3"; "pid 77" without a rank. hang_call() - "AllReduce #12 of dp". hang_clock() -
 * "14:02:11". */
const char *hang_who(const struct hang_page *page, uint32_t process);
const char *hang_call(const struct hang_page *page, const struct capo_hang_call *call);
const char *hang_clock(uint64_t real_ns);

/** hang_ending() - how a process ended, "exit status 1". */
const char *hang_ending(const struct hang_page *page, uint32_t process);

/** hang_lives_here() - does that process run on this machine, with a pid that is valid here? */
bool hang_lives_here(const struct hang_page *page, uint32_t process);

/** hang_site() - where process @process made @call: frames, innermost first, separated by newlines;
 * NULL: not known. free() it. */
char *hang_site(const struct hang_page *page, uint32_t process, const struct capo_hang_call *call);

/** hang_frames() - the Python or C stacks of process @process when its recorder, or that of another
 * rank, saw a hang. None if it has made calls since.
 * @at_ns: set to that time, since 1970
 *
 * Return: to be freed; a line per thread, for Python "NUMBER", 0 the main thread first, for C "TID
 * WAIT NAME" as in a HANG frame, then " FRAME" per frame, of Python " FILE:LINE FUNCTION", innermost
 * first; without control bytes. NULL: not known. */
char *hang_frames(const struct hang_page *page, uint32_t process, bool native, uint64_t *at_ns);

/** hang_absent() - the next rank after @after (-1: the first) that left no log; -1: none. */
int32_t hang_absent(const struct hang_page *page, int32_t after);

/** hang_missing() - item @i of what is not known and would help to decide. Return: NULL after the
 * last. */
const char *hang_missing(const struct hang_page *page, unsigned i);

/** hang_late() - the @i-th communicator with a late rank to name (capo_wait_is_sure()), most costly
 * first; NULL after the last. */
const struct capo_page_wait *hang_late(const struct hang_page *page, uint32_t i);

/** hang_bugs() - known bugs that would cause this; none for a job that is not stuck. @out:
 * CAPO_RECORDED_BUGS of them. Return: how many. */
int hang_bugs(const struct hang_page *page, struct capo_recorded_bug *out);
