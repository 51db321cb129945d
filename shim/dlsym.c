/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that reach NCCL by dlopen + dlsym (vLLM, XGBoost, JAX) pass by every preload. So libcapo exports dlsym, and
 * answers for NCCL's names with its own wrappers.
 *
 * The real dlsym looks at its return address (RTLD_NEXT, RTLD_DEFAULT and the error text depend on who asks), so
 * passing through must be a jump, not a call: the few instructions below keep the arguments, ask capo_dlsym_catch(),
 * and either return its answer or jump on. Calls arrive before any constructor has run.
 *
 * Answered are only handles (not RTLD_DEFAULT, which finds our exports anyway, nor RTLD_NEXT), only names we have a
 * wrapper for, only when the real look-up succeeds and leads to an NCCL: probing for features stays honest.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/util.h"
#include "shim/fi_dlsym.h"
#include "shim/real.h"

void *capo_dlsym_catch(void *handle, const char *name) __attribute__((visibility("hidden")));
void *(*capo_dlsym_next)(void *handle, const char *name) __attribute__((visibility("hidden")));

#if defined __x86_64__
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, @function\n"
        "dlsym:\n"
        "       .cfi_startproc\n"
        "       endbr64\n"
        "       push %rdi\n"
        "       .cfi_adjust_cfa_offset 8\n"
        "       push %rsi\n"
        "       .cfi_adjust_cfa_offset 8\n"
        "       sub $8, %rsp\n"
        "       .cfi_adjust_cfa_offset 8\n"
        "       call capo_dlsym_catch\n"
        "       add $8, %rsp\n"
        "       .cfi_adjust_cfa_offset -8\n"
        "       pop %rsi\n"
        "       .cfi_adjust_cfa_offset -8\n"
        "       pop %rdi\n"
        "       .cfi_adjust_cfa_offset -8\n"
        "       test %rax, %rax\n"
        "       jnz 1f\n"
        "       jmp *capo_dlsym_next(%rip)\n"
        "1:     ret\n"
        "       .cfi_endproc\n"
        ".size dlsym, . - dlsym\n");
#elif defined __aarch64__
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, %function\n"
        "dlsym:\n"
        "       .cfi_startproc\n"
        "       hint #34\n" /* bti c */
        "       stp x29, x30, [sp, #-32]!\n"
        "       .cfi_def_cfa_offset 32\n"
        "       .cfi_offset 29, -32\n"
        "       .cfi_offset 30, -24\n"
        "       stp x0, x1, [sp, #16]\n"
        "       bl capo_dlsym_catch\n"
        "       mov x9, x0\n"
        "       ldp x0, x1, [sp, #16]\n"
        "       ldp x29, x30, [sp], #32\n"
        "       .cfi_restore 29\n"
        "       .cfi_restore 30\n"
        "       .cfi_def_cfa_offset 0\n"
        "       cbnz x9, 1f\n"
        "       adrp x10, capo_dlsym_next\n"
        "       ldr x10, [x10, #:lo12:capo_dlsym_next]\n"
        "       br x10\n"
        "1:     mov x0, x9\n"
        "       ret\n"
        "       .cfi_endproc\n"
        ".size dlsym, . - dlsym\n");
#else
#error "dlsym needs a few instructions for this architecture"
#endif

/* As the settings table reads them; but here a process may not have called NCCL yet, and may never. */
static bool wanted(void)
{
        const char *off = getenv("CAPO_OFF"), *dir = getenv("CAPO_DIR");

        return dir && *dir &&
               !(off &&
                 (!strcmp(off, "1") || !strcasecmp(off, "yes") || !strcasecmp(off, "on") || !strcasecmp(off, "true")));
}

static void *nothing(void *handle, const char *name)
{
        return NULL;
}

/* What must work before everything else: no library call until the name is one of NCCL's or libfabric's. */
CAPO_UNSANITIZED void *capo_dlsym_catch(void *handle, const char *name)
{
        struct capo_nccl *copy;
        void *real;

        if (__builtin_expect(!capo_dlsym_next, 0)) {
                void *(*next)(void *, const char *) = capo_real_dlsym_address();

                __atomic_store_n(&capo_dlsym_next, next ? next : nothing, __ATOMIC_RELEASE);
        }
        if (handle && handle != RTLD_NEXT && name && name[0] == 'f' && name[1] == 'i' && name[2] == '_' &&
            name[3] == 'f' && wanted()) {
                real = capo_real_dlsym(handle, name);
                return real && !capo_own(real) ? capo_fi_wrapper_of(name, real) : NULL;
        }
        if (!handle || handle == RTLD_NEXT || !name || name[0] != 'n' || name[1] != 'c' || name[2] != 'c' ||
            name[3] != 'l' || !capo_wrapper_of(name, 0) || !wanted())
                return NULL;
        real = capo_real_dlsym(handle, name);
        if (!real || capo_own(real))
                return NULL;
        copy = capo_nccl_at(real, "dlsym");
        return copy ? capo_wrapper_of(name, copy->number) : NULL;
}
