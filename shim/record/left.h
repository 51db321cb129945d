/* SPDX-License-Identifier: Apache-2.0 */
/* A call that was left without a return: by longjmp, or with its coroutine. */
#pragma once

#include <stdbool.h>

/** capo_left() - has the call whose frame is @inside been left for sure, asked in a wrapper whose
 * frame is @frame?
 * @inside, @frame: canonical frame addresses (__builtin_dwarf_cfa()), of the same thread
 * @returns_to: where not: what stands now where the call returns to (x86-64, NULL elsewhere).
 * Anything else than its caller says that it has been left, too, since others have used the stack
 * meanwhile.
 *
 * What a call does lies deeper in the stack, but for a signal's handler with a stack of its own.
 * Keeps errno. */
bool capo_left(const void *inside, const void *frame, const void **returns_to);
