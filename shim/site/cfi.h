/* SPDX-License-Identifier: Apache-2.0 */
/* One frame up a stack that stands still, by DWARF's call frame information and nothing else: no
 * lock, no allocation, no guess, and no address believed. Tables may be wrong (assembly by hand,
 * code that was interrupted between two instructions); what they lead to is read where it can be
 * read, else the way ends there.
 *
 * Of another thread of ours that waits in the kernel only stack pointer and program counter are
 * known. Where a frame's size follows from the stack pointer, that is enough; where it follows from
 * another register it is when a frame further in has saved that one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* DWARF's numbers. CAPO_CFI_RA is the column of the return address. On AArch64 that is the link
 * register, and the program counter has no number: it takes the first free one. */
#if defined __x86_64__
enum {
        CAPO_CFI_FP = 6, /* rbp */
        CAPO_CFI_SP = 7, /* rsp */
        CAPO_CFI_RA = 16,
        CAPO_CFI_PC = CAPO_CFI_RA,
};
/* What a function leaves as it was: rbx, rbp, r12 to r15. */
#define CAPO_CFI_KEPT (UINT64_C(1) << 3 | UINT64_C(1) << CAPO_CFI_FP | UINT64_C(0xf) << 12)
#elif defined __aarch64__
enum {
        CAPO_CFI_FP = 29,
        CAPO_CFI_RA = 30,
        CAPO_CFI_SP = 31,
        CAPO_CFI_PC = 32,
};
/* x19 to x29 */
#define CAPO_CFI_KEPT (UINT64_C(0x7ff) << 19)
#else
#error "which registers have unwind tables on this architecture?"
#endif
enum { CAPO_CFI_REGISTERS = CAPO_CFI_PC + 1 };

struct capo_cfi {
        uint64_t v[CAPO_CFI_REGISTERS];
        uint64_t known; /* by bit */
        /* Our own stack: the objects that it leads through cannot go. What lies in the object at
         * hand, from @begin to @end, is read in place; so is the stack from @low to @high, pages
         * that can be read, and more of them when they have been tried. 0: the kernel is asked. */
        uint64_t begin, end;
        uint64_t low, high;
};

/** capo_cfi_here() - where the caller is, with the registers that functions leave as they were */
static inline __attribute__((always_inline)) void capo_cfi_here(struct capo_cfi *c)
{
#if defined __x86_64__
        __asm__ volatile(
                "movq %%rbx, 3*8(%0)\n movq %%rbp, 6*8(%0)\n movq %%rsp, 7*8(%0)\n movq %%r12, 12*8(%0)\n"
                "movq %%r13, 13*8(%0)\n movq %%r14, 14*8(%0)\n movq %%r15, 15*8(%0)\n"
                "leaq 0(%%rip), %%rax\n movq %%rax, 16*8(%0)"
                :
                : "r"(c->v)
                : "rax", "memory");
#else
        uint64_t sp;

        __asm__ volatile(
                "stp x19, x20, [%1, 19*8]\n stp x21, x22, [%1, 21*8]\n stp x23, x24, [%1, 23*8]\n"
                "stp x25, x26, [%1, 25*8]\n stp x27, x28, [%1, 27*8]\n str x29, [%1, 29*8]\n"
                "adr %0, .\n str %0, [%1, 32*8]\n mov %0, sp\n str %0, [%1, 31*8]"
                : "=&r"(sp)
                : "r"(c->v)
                : "memory");
#endif
        c->known = CAPO_CFI_KEPT | UINT64_C(1) << CAPO_CFI_SP;
        c->low = c->high = c->v[CAPO_CFI_SP];
}

/** capo_cfi_step() - from a function to who called it
 * @eh_frame_hdr: of the object that the program counter lies in
 * @after_call:   the program counter is a return address
 *
 * A signal's frame is not gone through: behind it is an instruction, not a call.
 *
 * Return: 1 with @c as in the caller; 0 there is none; -ENODATA it is not known exactly. Then
 * @c's registers are unchanged. */
int capo_cfi_step(struct capo_cfi *c, uintptr_t eh_frame_hdr, bool after_call);
