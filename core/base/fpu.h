/* SPDX-License-Identifier: Apache-2.0 */
/* Floating point in somebody else's thread. A job may have made exceptions trap (feenableexcept) or
 * rounding another; every thread it starts begins with that. Between these two calls our arithmetic
 * runs in the environment that a process starts with. Afterwards the job has its flags back.
 *
 * Without <fenv.h>: its functions are in libm, which the preload library must not bring along.
 * x86-64: MXCSR alone, because nothing of ours uses the x87 unit. */
#pragma once

#include <stdint.h>

struct capo_fpu {
        uint64_t control, status;
};

static inline struct capo_fpu capo_fpu_ours(void)
{
        struct capo_fpu before = {0};
#if defined __x86_64__
        uint32_t now = 0x1f80; /* all exceptions masked, to nearest (Intel SDM 1, 10.2.3) */

        before.control = __builtin_ia32_stmxcsr();
        __builtin_ia32_ldmxcsr(now);
#elif defined __aarch64__
        __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr\n\tmsr fpcr, xzr"
                         : "=r"(before.control), "=r"(before.status)
                         :
                         : "memory");
#endif
        return before;
}

static inline void capo_fpu_theirs(struct capo_fpu *before)
{
#if defined __x86_64__
        __builtin_ia32_ldmxcsr((uint32_t)before->control);
#elif defined __aarch64__
        __asm__ volatile("msr fpsr, %1\n\tmsr fpcr, %0"
                         :
                         : "r"(before->control), "r"(before->status)
                         : "memory");
#endif
}

/* To the end of the block. */
#define CAPO_FPU_OURS \
        __attribute__((cleanup(capo_fpu_theirs), unused)) struct capo_fpu fpu_ = capo_fpu_ours()
