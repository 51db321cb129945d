/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One frame up a stack that stands still, by DWARF's call frame information and nothing else: no
 * lock, no allocation, no guess, and no address believed. Tables may be wrong (assembly by hand,
 * code that was interrupted between two instructions); what they lead to is read where it can be
 * read, else the way ends there.
 *
 * Of another thread of ours that waits in the kernel only stack pointer and program counter are
 * known. Where a frame's size follows from the stack pointer, that is enough; where it follows from
 * another register it is when a frame further in has saved that one.
 */
#ifndef CAPO_CFI_H
#define CAPO_CFI_H

#include <stdbool.h>
#include <stdint.h>

enum {
        CAPO_CFI_RBP = 6,
        CAPO_CFI_RSP = 7,
        CAPO_CFI_PC = 16,
        CAPO_CFI_REGISTERS
}; /* DWARF's numbers on x86-64 */

struct capo_cfi {
        uint64_t v[CAPO_CFI_REGISTERS];
        uint32_t known; /* by bit */
        /* Our own stack: the objects that it leads through cannot go. What lies in the object at
         * hand, from @begin to @end, is read in place; so is the stack from @low to @high, pages
         * that can be read, and more of them when they have been tried. 0: the kernel is asked for
         * each word. */
        uint64_t begin, end;
        uint64_t low, high;
};

#ifdef __x86_64__
/** capo_cfi_here() - where the caller is; what it was given, with the registers that a function
 * leaves as they were */
static inline __attribute__((always_inline)) void capo_cfi_here(struct capo_cfi *c)
{
        __asm__ volatile(
                "movq %%rbx, 3*8(%0)\n movq %%rbp, 6*8(%0)\n movq %%rsp, 7*8(%0)\n movq %%r12, 12*8(%0)\n"
                "movq %%r13, 13*8(%0)\n movq %%r14, 14*8(%0)\n movq %%r15, 15*8(%0)\n"
                "leaq 0(%%rip), %%rax\n movq %%rax, 16*8(%0)"
                :
                : "r"(c->v)
                : "rax", "memory");
        c->known = 1u << 3 | 1u << CAPO_CFI_RBP | 1u << CAPO_CFI_RSP | 0xfu << 12;
        c->low = c->high = c->v[CAPO_CFI_RSP];
}
#endif

/**
 * capo_cfi_step() - from a function to who called it
 * @eh_frame_hdr: of the object that the program counter lies in
 * @after_call:   the program counter is a return address
 *
 * A signal's frame is not gone through: behind it is an instruction, not a call.
 *
 * Return: 1 with @c as in the caller; 0 there is none; -ENODATA it cannot be told exactly; -ENOTSUP
 * another machine. Then @c's registers are unchanged.
 */
int capo_cfi_step(struct capo_cfi *c, uintptr_t eh_frame_hdr, bool after_call);

#endif
