/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One frame up a stack that stands still, by DWARF's call frame information and nothing else: no lock, no allocation, no guess.
 * Of another thread of ours that waits in the kernel only stack pointer and program counter are known. Where a frame's size follows from
 * the stack pointer, that is enough; where it follows from another register it is when a frame further in has saved that one.
 */
#ifndef CAPO_CFI_H
#define CAPO_CFI_H

#include <stdbool.h>
#include <stdint.h>

enum { CAPO_CFI_RBP = 6, CAPO_CFI_RSP = 7, CAPO_CFI_PC = 16, CAPO_CFI_REGISTERS }; /* DWARF's numbers on x86-64 */

struct capo_cfi {
        uint64_t v[CAPO_CFI_REGISTERS];
        uint32_t known; /* by bit */
};

/**
 * capo_cfi_step() - from a function to who called it
 * @eh_frame_hdr: of the object that the program counter lies in
 * @after_call:   the program counter is a return address
 *
 * Return: 1 with @c as in the caller; 0 there is none; -ENODATA it cannot be told exactly; -ENOTSUP another machine. Then @c is unchanged.
 */
int capo_cfi_step(struct capo_cfi *c, uintptr_t eh_frame_hdr, bool after_call);

#endif
