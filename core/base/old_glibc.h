/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPO_OLD_GLIBC_H
#define CAPO_OLD_GLIBC_H
/* How a call is bound to the first version that glibc gave it; old_glibc.c says why. */

#if defined(__x86_64__)
#define FIRST    "GLIBC_2.2.5" /* the first release for this architecture has nearly everything */
#define AT_2_3_3 "GLIBC_2.3.3"
#define AT_2_3_4 "GLIBC_2.3.4"
#elif defined(__aarch64__)
#define FIRST    "GLIBC_2.17"
#define AT_2_3_3 FIRST
#define AT_2_3_4 FIRST
#else
#error "which glibc was the first for this architecture?"
#endif

#ifndef __clang__
#pragma GCC diagnostic ignored \
        "-Wmaybe-uninitialized" /* a key's value may be a pointer to anything */
#endif

/* What is glibc's is not hidden. */
#define DEFAULT __attribute__((visibility("default")))

/* OLD(result, name, parameters, arguments) */
#define OLD(result, name, params, args) OLD_SINCE(FIRST, result, name, params, args)
#define OLD_SINCE(version, result, name, params, args)               \
        result old_##name params __asm__("capo_old_" #name) DEFAULT; \
        __asm__(".symver capo_old_" #name "," #name "@" version);    \
        result name params                                           \
        {                                                            \
                return old_##name args;                              \
        }

#endif
