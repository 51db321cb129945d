/* SPDX-License-Identifier: Apache-2.0 */
/* The text of HANG frames: what a process stood in at one moment of its life, said by its own watch
 * (shim/record/watch.h) or because another rank's watch had asked. With it a log that is not final
 * says as much of that moment as a read of the process's memory does. The words:
 * include/capo/log_hang.def. */
#pragma once

#include "core/log/info.h"

struct capo_segment;

enum { CAPO_HANG_LINE = CAPO_INFO_LINE }; /* bytes of a line at most */

/* CAPO_HANG_KEY_AT is "at", and so on. */
#define HANG_KEY(id, word, meaning) \
        static const char CAPO_HANG_KEY_##id[] __attribute__((unused)) = word;
#include "capo/log_hang.def"

struct capo_hang_text {
        uint64_t at_ns;    /* since the epoch */
        uint64_t since_ns; /* since the epoch: when what stands began; else at_ns */
        uint64_t calls;    /* recorded by then: what tells whether there were any afterwards */
        unsigned nth;      /* of this process, from 1; 0: it was asked */
};

/** capo_hang_text_write() - the text of one frame
 * @t:    at_ns and calls are filled in
 * @seg:  of this process, or a copy
 * @text: room for whole lines; the oldest of the last calls make room
 *
 * Return: bytes of @text. */
size_t capo_hang_text_write(const struct capo_segment *seg, struct capo_hang_text *t, char *text,
                            size_t room);

/** capo_hang_text_python() - one more frame of a thread into the text
 * @nth:   thread; its innermost frame comes first
 * @frame: "file:line function", without newline; of a long one the end is kept
 *
 * Return: bytes of @text; 0: no room. */
size_t capo_hang_text_python(char *text, size_t room, unsigned nth, const char *frame);

/** capo_hang_text_thread(), capo_hang_text_native() - a thread into the text, and one more frame of
 * it
 * @wait:  where in the kernel; "" not known, "running"
 * @frame: without newline; of a long one the beginning is kept
 *
 * Return: bytes of @text; 0: no room. */
size_t capo_hang_text_thread(char *text, size_t room, int tid, const char *wait, const char *name);
size_t capo_hang_text_native(char *text, size_t room, int tid, const char *frame);
