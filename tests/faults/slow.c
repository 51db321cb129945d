/* SPDX-License-Identifier: Apache-2.0 */
/* A slow folder: preloaded beside the recorder, each write of a file and each file made takes 20 ms
 * more. */
#include <dlfcn.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

static void wait_a_bit(void) { nanosleep(&(struct timespec){0, 20000000}, NULL); }

#define SLOW(type, name, params, args)                                                             \
        type name params __attribute__((visibility("default")));                                   \
        type name params                                                                           \
        {                                                                                          \
                static __typeof__(name) *real;                                                     \
                                                                                                   \
                if (!__atomic_load_n(&real, __ATOMIC_RELAXED))                                     \
                        __atomic_store_n(&real, (__typeof__(real))(size_t)dlsym(RTLD_NEXT, #name), \
                                         __ATOMIC_RELAXED);                                        \
                wait_a_bit();                                                                      \
                return real args;                                                                  \
        }
SLOW(ssize_t, pwrite, (int fd, const void *from, size_t n, off_t at), (fd, from, n, at))
SLOW(ssize_t, pwrite64, (int fd, const void *from, size_t n, off_t at), (fd, from, n, at))
SLOW(int, ftruncate, (int fd, off_t n), (fd, n))
SLOW(int, ftruncate64, (int fd, off_t n), (fd, n))
