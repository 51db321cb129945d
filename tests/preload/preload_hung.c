/* SPDX-License-Identifier: Apache-2.0 */
/* A folder that hangs, as one of a network may: preloaded beside the recorder, writes of files
 * never return once hung_now is set, nor the main thread's reads once hung_reads_now is. */
#undef _FILE_OFFSET_BITS /* with 64 pwrite() is another name of pwrite64() */
#undef _FORTIFY_SOURCE   /* with it read() is defined already, in the header */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

extern __attribute__((visibility("default"))) atomic_int hung_now, hung_writes, hung_reads_now,
        hung_reading;
atomic_int hung_now, hung_writes, hung_reads_now, hung_reading;

#define HANGS(name)                                                                         \
        ssize_t name(int fd, const void *from, size_t n, off_t at)                          \
                __attribute__((visibility("default")));                                     \
        ssize_t name(int fd, const void *from, size_t n, off_t at)                          \
        {                                                                                   \
                __typeof__(name) *real = (__typeof__(real))(size_t)dlsym(RTLD_NEXT, #name); \
                                                                                            \
                while (hung_now)                                                            \
                        nanosleep(&(struct timespec){1, 0}, NULL);                          \
                hung_writes++;                                                              \
                return real(fd, from, n, at);                                               \
        }
HANGS(pwrite)
HANGS(pwrite64)

ssize_t read(int fd, void *to, size_t n) __attribute__((visibility("default")));
ssize_t read(int fd, void *to, size_t n)
{
        __typeof__(read) *real = (__typeof__(real))(size_t)dlsym(RTLD_NEXT, "read");

        for (; hung_reads_now && gettid() == getpid(); hung_reading = 1)
                nanosleep(&(struct timespec){0, 1000000}, NULL);
        return real(fd, to, n);
}
