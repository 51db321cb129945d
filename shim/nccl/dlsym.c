/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that reach NCCL, NCCL EP or NCCL M2N by dlopen + dlsym (vLLM, XGBoost, JAX) pass by
 * every preload, and so do those that look up libfabric by dlvsym (Intel MPI). So libcapo exports
 * both functions, and answers for the names it wraps with its own wrappers.
 *
 * The real ones look at their return address (RTLD_NEXT, RTLD_DEFAULT and the error text depend on
 * who asks), so passing through must be a jump, not a call: the few instructions below keep the
 * arguments, ask capo_dlsym_catch(), and either return its answer or jump on. Calls arrive before
 * any constructor has run.
 *
 * Probing for features stays honest. A handle gets a wrapper only when the real look-up succeeds
 * and leads to an NCCL or a libfabric. The global scope (RTLD_DEFAULT, RTLD_NEXT, dlopen(NULL)),
 * where our exports are found anyway, has the name only if some loaded object beside us does:
 * programs that ask whether NCCL is there, and load their own where it is not (nccl4py), get the
 * answer that they get without capo. A weak reference in a program is bound to us without being
 * asked for; nothing can be done about that here. */
#include <dlfcn.h>
#include <link.h>

#include "capo/env.h"
#include "shim/fabric/fabric_dlsym.h"
#include "shim/find/object.h"
#include "shim/find/symbol.h"
#include "shim/nccl/ext.h"
#include "shim/nccl/ext_real.h"
#include "shim/nccl/real.h"
#include "shim/record/start.h"

void *capo_dlsym_catch(void *handle, const char *name, const char *version)
        __attribute__((visibility("hidden")));
void *(*capo_dlsym_next)(void *handle, const char *name) __attribute__((visibility("hidden")));
void *(*capo_dlvsym_next)(void *handle, const char *name, const char *version)
        __attribute__((visibility("hidden")));

/* What capo_dlsym_catch() answers for a name that is to be found nowhere (the code below knows it
 * as 1); NULL: the real function shall answer. */
#define NOWHERE ((void *)1)

/* version: what makes the third argument NULL for dlsym, which has two */
#if defined __x86_64__
#define STUB(name, version)                                                                  \
        __asm__(".text\n"                                                                    \
                ".globl " name "\n"                                                          \
                ".type " name ", @function\n" name ":\n"                                     \
                "       .cfi_startproc\n"                                                    \
                "       endbr64\n"                                                           \
                "       push %rdi\n"                                                         \
                "       .cfi_adjust_cfa_offset 8\n"                                          \
                "       push %rsi\n"                                                         \
                "       .cfi_adjust_cfa_offset 8\n"                                          \
                "       push %rdx\n"                                                         \
                "       .cfi_adjust_cfa_offset 8\n" version "       call capo_dlsym_catch\n" \
                "       pop %rdx\n"                                                          \
                "       .cfi_adjust_cfa_offset -8\n"                                         \
                "       pop %rsi\n"                                                          \
                "       .cfi_adjust_cfa_offset -8\n"                                         \
                "       pop %rdi\n"                                                          \
                "       .cfi_adjust_cfa_offset -8\n"                                         \
                "       test %rax, %rax\n"                                                   \
                "       jnz 1f\n"                                                            \
                "       jmp *capo_" name "_next(%rip)\n"                                     \
                "1:     cmp $1, %rax\n"                                                      \
                "       jne 2f\n"                                                            \
                "       xor %eax, %eax\n"                                                    \
                "2:     ret\n"                                                               \
                "       .cfi_endproc\n"                                                      \
                ".size " name ", . - " name "\n")
STUB("dlsym", "xor %edx, %edx\n");
STUB("dlvsym", "");
#elif defined __aarch64__
#define STUB(name, version)                                                         \
        __asm__(".text\n"                                                           \
                ".globl " name "\n"                                                 \
                ".type " name ", %function\n" name ":\n"                            \
                "       .cfi_startproc\n"                                           \
                "       hint #34\n" /* bti c */                                     \
                "       stp x29, x30, [sp, #-48]!\n"                                \
                "       .cfi_def_cfa_offset 48\n"                                   \
                "       .cfi_offset 29, -48\n"                                      \
                "       .cfi_offset 30, -40\n"                                      \
                "       stp x0, x1, [sp, #16]\n"                                    \
                "       str x2, [sp, #32]\n" version "       bl capo_dlsym_catch\n" \
                "       mov x9, x0\n"                                               \
                "       ldr x2, [sp, #32]\n"                                        \
                "       ldp x0, x1, [sp, #16]\n"                                    \
                "       ldp x29, x30, [sp], #48\n"                                  \
                "       .cfi_restore 29\n"                                          \
                "       .cfi_restore 30\n"                                          \
                "       .cfi_def_cfa_offset 0\n"                                    \
                "       cbnz x9, 1f\n"                                              \
                "       adrp x10, capo_" name "_next\n"                             \
                "       ldr x10, [x10, #:lo12:capo_" name "_next]\n"                \
                "       br x10\n"                                                   \
                "1:     cmp x9, #1\n"                                               \
                "       csel x0, xzr, x9, eq\n"                                     \
                "       ret\n"                                                      \
                "       .cfi_endproc\n"                                             \
                ".size " name ", . - " name "\n")
STUB("dlsym", "mov x2, xzr\n");
STUB("dlvsym", "");
#else
#error "dlsym needs a few instructions for this architecture"
#endif

static void *find_nothing(void *handle, const char *name) { return NULL; }

static void *nothing_versioned(void *handle, const char *name, const char *version) { return NULL; }

/* What the global scope, where our own exports are, has to say about one of our names. */
static void *in_global_scope(const char *name)
{
        if (capo_object_defined(name))
                return NULL;
        capo_real_dlsym(RTLD_NEXT, name); /* for its dlerror(): undefined symbol */
        return NOWHERE;
}

/* Before everything else, without a library call until the name is NCCL's or libfabric's. */
CAPO_UNSANITIZED void *capo_dlsym_catch(void *handle, const char *name, const char *version)
{
        struct capo_nccl *copy;
        bool fabric;
        int ext = -1;
        void *real;

        /* acquire: the other one was stored before */
        if (__builtin_expect(!__atomic_load_n(&capo_dlsym_next, __ATOMIC_ACQUIRE), 0)) {
                void *(*next)(void *, const char *) = capo_real_dlsym_address();
                void *(*next_versioned)(void *, const char *, const char *) =
                        capo_real_dlvsym_address();

                __atomic_store_n(&capo_dlvsym_next,
                                 next_versioned ? next_versioned : nothing_versioned,
                                 __ATOMIC_RELEASE);
                __atomic_store_n(&capo_dlsym_next, next ? next : find_nothing, __ATOMIC_RELEASE);
        }
        if (!name)
                return NULL;
        fabric = name[0] == 'f' && name[1] == 'i' && name[2] == '_' && capo_fi_wrapped(name);
        if (!fabric &&
            (version || name[0] != 'n' || name[1] != 'c' || name[2] != 'c' || name[3] != 'l' ||
             (!capo_wrapper_of(name, 0) && (ext = capo_ext_find(name)) < 0)))
                return NULL;
        if (handle == RTLD_DEFAULT || handle == RTLD_NEXT)
                return in_global_scope(name);
        real = version ? capo_real_dlvsym(handle, name, version) : capo_real_dlsym(handle, name);
        if (!real)
                return NULL;
        if (capo_own(real))
                return handle == dlopen(NULL, RTLD_LAZY) ? in_global_scope(name) : NULL;
        if (!capo_env_wanted())
                return NULL;
        if (fabric)
                return capo_fi_wrapper_of(name, version, real);
        if (ext >= 0)
                return capo_ext_wrapper_of(ext, real);
        copy = capo_nccl_at(real, "dlsym");
        return copy ? capo_wrapper_of(name, copy->number) : NULL;
}
