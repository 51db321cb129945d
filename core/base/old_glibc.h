/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

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
#include <errno.h>

#ifdef CAPO_IN_A_JOB
/* In a library that goes into a job the references have no version ("dlopen@"): the loader takes
 * the oldest. With one they would name libc.so.6, where the linker finds it. If the loader of glibc
 * 2.28 or 2.29 looks there before it looks into libdl.so.2, it refuses the library, and ends the
 * process if that was preloaded. Weak, because the linker finds no definition without version. */
#define OLD_WEAK        DEFAULT __attribute__((weak))
#define OLD_AT(version) "@"
#else
#define OLD_WEAK        DEFAULT
#define OLD_AT(version) "@" version
#endif
#ifdef CAPO_LATE_THREADS
/* libcapo.so is loaded into every process of a job. Loading libpthread.so.0 and libdl.so.2 for it
 * would be 0.06 of its 0.15 ms there, so it does not name them as needed. With a glibc before 2.34
 * and a program that is not linked to them, these functions are looked up when they are called;
 * real NCCL and libfabric load them. */
void *capo_old_late(const char *name);
#define OLD_OF(name) (old_##name ? old_##name : (__typeof__(&old_##name))capo_old_late(#name))
#else
#define OLD_OF(name) (&old_##name)
#endif

/* If the function is not found, a number is the error ENOSYS and a pointer NULL. */
#define OLD_SINCE(version, result, name, params, args) \
        OLD_ELSE(version, sizeof(result) == sizeof(int) ? ENOSYS : 0, result, name, params, args)
#define OLD_ELSE(version, missing, result, name, params, args)        \
        result old_##name params __asm__("capo_old_" #name) OLD_WEAK; \
        __asm__(".symver capo_old_" #name "," #name OLD_AT(version)); \
        result name params                                            \
        {                                                             \
                __typeof__(&old_##name) real = OLD_OF(name);          \
                                                                      \
                return real ? real args : (result)(missing);          \
        }
