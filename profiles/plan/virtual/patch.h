/* SPDX-License-Identifier: Apache-2.0 */
/* Redirects functions of a loaded shared object that it does not export. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/** capo_patch_jump() - make the code at @from jump to @to
 * @from: begin of a function of at least CAPO_PATCH_BYTES in a mapping of this process; no thread
 * may run in it
 *
 * A jump through an address that follows it: FF 25 00000000 on x86-64, ldr x16 and br x16 on
 * AArch64. The page stays writable and executable, so that patching neighbours needs no further
 * system call.
 *
 * Return: 0; negative errno. */
int capo_patch_jump(void *from, const void *to);
#if defined(__x86_64__)
enum { CAPO_PATCH_BYTES = 14 };
#else
enum { CAPO_PATCH_BYTES = 16 };
#endif

/** capo_patch_stub() - write code to @at that calls @function with @argument as its only argument
 * @at: writable and executable, a multiple of 8
 *
 * Return: bytes written, a multiple of 8; 0: no room. */
size_t capo_patch_stub(void *at, size_t room, const void *argument, const void *function);

/** capo_patch_calls() - redirect every direct call of @callee in @n bytes of code to @to
 * @code: of a loaded object; @callee itself is unchanged, so @to can call it
 * @spare: CAPO_PATCH_BYTES near that code that are never executed, a multiple of 4: a jump is put
 * there, because the calls cannot reach further
 *
 * Return: number of calls; -ERANGE: a call cannot reach @spare; negative errno. */
int capo_patch_calls(char *code, size_t n, const void *callee, const void *to, void *spare);
